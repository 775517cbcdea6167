"""When a call has taken too long, and when it merely takes a while."""

import pytest

from anyport.config.schema import CALL_SECONDS_DEFAULT
from anyport.gateway.deadlines import (
    ASKING_SECONDS_MAX,
    LINGER_SECONDS,
    Deadlines,
    Term,
)
from anyport.protocol.exchange import Answered, Question
from anyport.protocol.timeouts import Timeout
from tests.gateway.fakes import Asked


class Written(Term):
    """A term that writes down what it is told."""

    __slots__ = ("told",)

    def __init__(
        self, call: Asked, seconds: float = 60.0, most: float = CALL_SECONDS_DEFAULT
    ) -> None:
        super().__init__(call.exchange, seconds, 0.0, most)
        self.told: list[str] = []

    def overdue(self, timeout: Timeout) -> None:
        self.told.append(timeout.value)

    def linger(self) -> None:
        self.told.append("lingers")

    @property
    def is_overdue(self) -> bool:
        return any(told != "lingers" for told in self.told)


@pytest.fixture
def call() -> Asked:
    return Asked()


def started(call: Asked, seconds: float = 60.0) -> tuple[Deadlines, Written]:
    deadlines, term = Deadlines(), Written(call, seconds)
    deadlines.start(term)
    return deadlines, term


def test_a_call_is_due_when_its_time_is_up_and_only_once(call: Asked) -> None:
    deadlines, term = started(call)

    deadlines.sweep(59.9)
    assert not term.is_overdue
    deadlines.sweep(60.0)
    deadlines.sweep(61.0)

    assert term.told == ["lingers", "total"]
    assert len(deadlines) == 0


def test_a_call_that_takes_a_while_is_told_once(call: Asked) -> None:
    deadlines, term = started(call)

    deadlines.sweep(LINGER_SECONDS - 0.01)
    assert term.told == []
    deadlines.sweep(LINGER_SECONDS)
    deadlines.sweep(LINGER_SECONDS + 1)

    assert term.told == ["lingers"]


def test_progress_starts_the_time_anew_but_not_for_ever(call: Asked) -> None:
    deadlines, term = started(call)
    for now in range(50, int(CALL_SECONDS_DEFAULT), 50):
        term.extend(now)
        deadlines.sweep(now + 1)
    assert not term.is_overdue

    term.extend(CALL_SECONDS_DEFAULT - 1)
    deadlines.sweep(CALL_SECONDS_DEFAULT)

    assert term.told == ["lingers", "cap"]
    assert term.allowed(Timeout.CAP) == CALL_SECONDS_DEFAULT


def test_the_hard_cap_is_the_servers_own(call: Asked) -> None:
    deadlines, term = Deadlines(), Written(call, 10.0, most=25.0)
    deadlines.start(term)
    for now in (8.0, 16.0, 24.0):
        term.extend(now)
        deadlines.sweep(now)
    assert not term.is_overdue

    deadlines.sweep(25.0)

    assert term.told == ["lingers", "cap"]


def test_a_call_that_stops_reporting_has_run_out_of_its_own_time(call: Asked) -> None:
    deadlines, term = Deadlines(), Written(call, 10.0, most=25.0)
    deadlines.start(term)
    term.extend(8.0)

    deadlines.sweep(18.0)

    assert term.told == ["lingers", "total"]


def test_a_longer_time_may_be_configured_than_the_usual_limit(call: Asked) -> None:
    deadlines, term = started(call, 3000.0)

    deadlines.sweep(2999)
    assert not term.is_overdue
    deadlines.sweep(3000)
    assert term.told[-1] == "total"


def test_a_call_that_has_ended_is_never_due(call: Asked) -> None:
    deadlines, term = started(call)

    deadlines.clear(call.exchange)
    deadlines.clear(call.exchange)
    deadlines.sweep(1000)

    assert term.told == []


def test_two_calls_that_look_the_same_have_terms_of_their_own() -> None:
    deadlines, first, second = Deadlines(), Written(Asked(), 10), Written(Asked(), 20)
    deadlines.start(first)
    deadlines.start(second)

    deadlines.sweep(10)

    assert (first.is_overdue, second.is_overdue) == (True, False)
    assert len(deadlines) == 1


def test_the_time_in_which_a_person_is_asked_does_not_count(call: Asked) -> None:
    deadlines, term = started(call)
    question = Question("elicitation/create", None, lambda _: None)
    call.exchange.questions += (question,)
    for now in range(0, 500, 10):
        deadlines.sweep(now)
    assert not term.is_overdue

    question.withdraw()
    deadlines.sweep(549)
    assert not term.is_overdue
    deadlines.sweep(550)
    assert term.is_overdue


def test_a_person_who_never_answers_does_not_keep_a_call_for_ever(call: Asked) -> None:
    deadlines, term = started(call)
    call.exchange.questions += (Question("elicitation/create", None, lambda _: None),)

    for now in range(0, int(ASKING_SECONDS_MAX) + 1, 10):
        deadlines.sweep(now)

    assert term.told == ["lingers", "answer"]
    assert term.allowed(Timeout.ANSWER) == ASKING_SECONDS_MAX


def test_a_call_that_asks_often_still_has_all_its_time_to_work(call: Asked) -> None:
    deadlines, term = Deadlines(), Written(call, 10.0, most=30.0)
    deadlines.start(term)
    for begun in (0, 100, 200):
        question = Question("elicitation/create", None, lambda _: None)
        call.exchange.questions += (question,)
        for now in range(begun, begun + 96, 5):
            deadlines.sweep(now)
        question.withdraw()
        term.extend(begun + 95.0)
        deadlines.sweep(begun + 99.0)
    assert not term.is_overdue

    term.extend(300.0)
    deadlines.sweep(309.0)

    assert not term.is_overdue


def test_a_call_that_nobody_waits_for_loses_no_time(call: Asked) -> None:
    deadlines, term = Deadlines(), Written(call, 10.0, most=20.0)
    deadlines.start(term)
    term.extend(9.0)
    deadlines.clear(call.exchange)
    term.stand_still(9.0)

    term.go_on(500.0)
    deadlines.start(term)
    deadlines.sweep(509.0)
    assert not term.is_overdue
    term.extend(509.0)
    deadlines.sweep(511.0)

    assert term.told == ["lingers", "cap"]


def test_everything_can_be_given_up_at_once() -> None:
    deadlines, terms = Deadlines(), [Written(Asked()) for _ in range(3)]

    class Run:
        """Has to become something else first."""

        def look(self, now: float) -> None:
            raise AssertionError("nobody looks")

        def overdue(self, timeout: Timeout) -> None:
            del deadlines.terms[self]
            deadlines.start(terms[2])

    deadlines.start(terms[0])
    deadlines.start(terms[1])
    run = Run()
    deadlines.terms[run] = run

    deadlines.give_up(Timeout.DRAIN)

    assert [set(term.told) for term in terms] == [{"drain"}] * 3


def test_a_call_may_end_others_while_it_is_being_swept(call: Asked) -> None:
    deadlines = Deadlines()
    other = Written(Asked(), 10)

    class Ending(Written):
        def overdue(self, timeout: Timeout) -> None:
            super().overdue(timeout)
            deadlines.clear(other.exchange)

    term = Ending(call, 10)
    deadlines.start(term)
    deadlines.start(other)

    deadlines.sweep(10)

    assert term.is_overdue
    assert other.told == []


def test_a_call_that_somebody_else_ends_leaves_no_term_behind(call: Asked) -> None:
    deadlines, term = Deadlines(), Written(call)
    noted: list[object] = []
    call.exchange.on_end = lambda exchange, ending: noted.append(ending)
    deadlines.lend(term)
    assert len(deadlines) == 1

    call.exchange.end(Answered(b"{}"))

    assert len(deadlines) == 0
    assert noted == [Answered(b"{}")]
