"""The table of calls: which of them are overdue, and which merely take a while."""

from typing import cast

import pytest

from anyport.config.model import CALL_SECONDS_DEFAULT
from anyport.gateway.calls.call import Call
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.calls.deadline import SLOW_CALL_SECONDS, USER_INPUT_SECONDS_MAX, Deadline
from anyport.gateway.calls.fast_path import FastCall
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import Question
from tests.gateway.fakes import Asked, FakeClock


class FakeCall:
    """A call that only has a deadline, and keeps what becomes of it."""

    def __init__(
        self, asked: Asked, seconds: float = 60.0, most: float = CALL_SECONDS_DEFAULT
    ) -> None:
        self.exchange = asked.exchange
        self.deadline = Deadline(seconds, 0.0, most)
        self.told: list[str] = []

    def check_deadline(self, now: float) -> Timeout | None:
        if self.deadline.becomes_slow(now):
            self.told.append("slow")
        asking = any(question.open for question in self.exchange.questions)
        return self.deadline.check(now, asking=asking)

    def on_timeout(self, timeout: Timeout) -> None:
        self.told.append(timeout.value)

    @property
    def is_overdue(self) -> bool:
        return any(told != "slow" for told in self.told)


def add(calls: CallTable, *each: FakeCall) -> None:
    for call in each:
        calls.add(cast(Call, call))


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def calls() -> CallTable:
    return CallTable(FakeClock())


def started(asked: Asked, seconds: float = 60.0) -> tuple[CallTable, FakeCall]:
    calls, call = CallTable(FakeClock()), FakeCall(asked, seconds)
    add(calls, call)
    return calls, call


def test_a_call_is_due_when_its_time_is_up_and_only_once(asked: Asked) -> None:
    calls, call = started(asked)

    calls.sweep(59.9)
    assert not call.is_overdue
    calls.sweep(60.0)
    calls.sweep(61.0)

    assert call.told == ["slow", "total"]
    assert len(calls) == 0


def test_a_call_that_takes_a_while_is_told_once(asked: Asked) -> None:
    calls, call = started(asked)

    calls.sweep(SLOW_CALL_SECONDS - 0.01)
    assert call.told == []
    calls.sweep(SLOW_CALL_SECONDS)
    calls.sweep(SLOW_CALL_SECONDS + 1)

    assert call.told == ["slow"]


def test_progress_starts_the_time_anew_but_not_for_ever(asked: Asked) -> None:
    calls, call = started(asked)
    for now in range(50, int(CALL_SECONDS_DEFAULT), 50):
        call.deadline.extend(now)
        calls.sweep(now + 1)
    assert not call.is_overdue

    call.deadline.extend(CALL_SECONDS_DEFAULT - 1)
    calls.sweep(CALL_SECONDS_DEFAULT)

    assert call.told == ["slow", "cap"]
    assert call.deadline.seconds_for(Timeout.CAP) == CALL_SECONDS_DEFAULT


def test_the_hard_cap_is_the_servers_own(asked: Asked) -> None:
    calls, call = CallTable(FakeClock()), FakeCall(asked, 10.0, most=25.0)
    add(calls, call)
    for now in (8.0, 16.0, 24.0):
        call.deadline.extend(now)
        calls.sweep(now)
    assert not call.is_overdue

    calls.sweep(25.0)

    assert call.told == ["slow", "cap"]


def test_a_call_that_stops_reporting_has_run_out_of_its_own_time(asked: Asked) -> None:
    calls, call = CallTable(FakeClock()), FakeCall(asked, 10.0, most=25.0)
    add(calls, call)
    call.deadline.extend(8.0)

    calls.sweep(18.0)

    assert call.told == ["slow", "total"]


def test_a_longer_time_may_be_configured_than_the_usual_limit(asked: Asked) -> None:
    calls, call = started(asked, 3000.0)

    calls.sweep(2999)
    assert not call.is_overdue
    calls.sweep(3000)
    assert call.told[-1] == "total"


def test_a_call_that_has_ended_is_never_due(asked: Asked) -> None:
    calls, call = started(asked)

    calls.remove(asked.exchange)
    calls.remove(asked.exchange)
    calls.sweep(1000)

    assert call.told == []


def test_two_calls_that_look_the_same_have_deadlines_of_their_own() -> None:
    calls = CallTable(FakeClock())
    first, second = FakeCall(Asked(), 10), FakeCall(Asked(), 20)
    add(calls, first)
    add(calls, second)

    calls.sweep(10)

    assert (first.is_overdue, second.is_overdue) == (True, False)
    assert len(calls) == 1


def test_the_time_in_which_a_person_is_asked_does_not_count(asked: Asked) -> None:
    calls, call = started(asked)
    question = Question("elicitation/create", None, lambda _: None)
    asked.exchange.questions += (question,)
    for now in range(0, 500, 10):
        calls.sweep(now)
    assert not call.is_overdue

    question.withdraw()
    calls.sweep(549)
    assert not call.is_overdue
    calls.sweep(550)
    assert call.is_overdue


def test_a_person_who_never_answers_does_not_keep_a_call_for_ever(asked: Asked) -> None:
    calls, call = started(asked)
    asked.exchange.questions += (Question("elicitation/create", None, lambda _: None),)

    for now in range(0, int(USER_INPUT_SECONDS_MAX) + 1, 10):
        calls.sweep(now)

    assert call.told == ["slow", "answer"]
    assert call.deadline.seconds_for(Timeout.ANSWER) == USER_INPUT_SECONDS_MAX


def test_a_call_that_asks_often_still_has_all_its_time_to_work(asked: Asked) -> None:
    calls, call = CallTable(FakeClock()), FakeCall(asked, 10.0, most=30.0)
    add(calls, call)
    for begun in (0, 100, 200):
        question = Question("elicitation/create", None, lambda _: None)
        asked.exchange.questions += (question,)
        for now in range(begun, begun + 96, 5):
            calls.sweep(now)
        question.withdraw()
        call.deadline.extend(begun + 95.0)
        calls.sweep(begun + 99.0)
    assert not call.is_overdue

    call.deadline.extend(300.0)
    calls.sweep(309.0)

    assert not call.is_overdue


def test_a_call_that_nobody_waits_for_loses_no_time(asked: Asked) -> None:
    calls, call = CallTable(FakeClock()), FakeCall(asked, 10.0, most=20.0)
    add(calls, call)
    call.deadline.extend(9.0)
    calls.remove(asked.exchange)
    call.deadline.pause(9.0)

    call.deadline.resume(500.0)
    add(calls, call)
    calls.sweep(509.0)
    assert not call.is_overdue
    call.deadline.extend(509.0)
    calls.sweep(511.0)

    assert call.told == ["slow", "cap"]


def test_everything_can_be_ended_at_once(calls: CallTable) -> None:
    each = [FakeCall(Asked()) for _ in range(3)]

    class Fast:
        """A call on the fast path has to become an ordinary one first."""

        def check_deadline(self, now: float) -> None:
            raise AssertionError("no sweep")

        def on_timeout(self, timeout: Timeout) -> None:
            del calls.open[fast]
            add(calls, each[2])

    add(calls, *each[:2])
    fast = cast(FastCall, Fast())
    calls.open[fast] = fast

    calls.expire_all(Timeout.DRAIN)

    assert [set(call.told) for call in each] == [{"drain"}] * 3


def test_a_call_may_end_others_while_it_is_being_swept(asked: Asked, calls: CallTable) -> None:
    other = FakeCall(Asked(), 10)

    class Ending(FakeCall):
        def on_timeout(self, timeout: Timeout) -> None:
            super().on_timeout(timeout)
            calls.remove(other.exchange)

    call = Ending(asked, 10)
    add(calls, call, other)

    calls.sweep(10)

    assert call.is_overdue
    assert other.told == []


def test_the_table_is_swept_while_there_are_calls_and_then_rests(asked: Asked) -> None:
    clock, idle = FakeClock(), list[str]()
    calls, call = CallTable(clock), FakeCall(asked, 10)
    calls.on_idle = lambda: idle.append("idle")

    add(calls, call)
    clock.pass_by()
    assert (call.told, len(clock.due), idle) == ([], 1, [])
    clock.seconds = 10.0
    clock.pass_by()

    assert (call.told, clock.due, idle) == (["slow", "total"], [], ["idle"])
    assert not calls.is_sweep_scheduled
