"""A client without a session is asked, goes away, and comes back: to its own call, and once."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from anyport.gateway.calls.call import Call
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.elicitation import parked_calls as module
from anyport.gateway.elicitation.parked_calls import (
    BUFFERED_LOGS_MAX,
    PARKED_SECONDS_MAX,
    QUESTIONS_BATCH_SECONDS,
    ParkedCalls,
    Parking,
)
from anyport.gateway.elicitation.request_state import INVALID_STATE
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import Answered, Caller, Ending, Exchange, Log, Question
from anyport.protocol.principal import Principal
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import MODERN, Asked, FakeClock, caller

CALL: dict[str, Any] = {"name": "s__echo", "arguments": {"n": 1}}


class FakeCall:
    """A call that a server works on."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        exchange.lease_owner = "call-1"
        self.parking: Parking | None = None
        self.steps: list[str] = []
        self.endings: list[Ending] = []

    @property
    def lease_owner(self) -> str:
        return self.exchange.lease_owner

    @property
    def is_parked(self) -> bool:
        return self.steps[-1:] == ["park"]

    def park(self) -> Exchange:
        self.steps.append("park")
        return self.exchange

    def resume(self, exchange: Exchange) -> None:
        exchange.lease_owner = self.exchange.lease_owner
        self.exchange = exchange
        self.steps.append("resume")

    def finish(self, ending: Ending) -> None:
        self.endings.append(ending)

    def abandon(self) -> None:
        self.steps.append("abandon")


class Scene:
    def __init__(self, by: Caller | None = None) -> None:
        self.by = by or caller(None, MODERN)
        self.clock = FakeClock()
        self.calls = CallTable(self.clock)
        self.parked_calls = ParkedCalls(self.calls, Seal([bytes(KEY_BYTES)]), self.clock)
        self.asked = Asked("tools/call", CALL, self.by)
        self.fake = FakeCall(self.asked.exchange)
        self.call = cast(Call, self.fake)
        self.answers: list[Result | Failure] = []

    def ask(self, method: str = "elicitation/create", params: Any = None) -> Question:
        raw = json.dumps(params or {"message": "?"}).encode()
        question = Question(method, raw, self.answers.append)
        self.parked_calls.add_question(self.call, question)
        return question

    def gather(self) -> Any:
        """Let the time pass in which a server may ask more."""
        due = [act for seconds, act in self.clock.due if seconds == QUESTIONS_BATCH_SECONDS]
        self.clock.due = [entry for entry in self.clock.due if entry[0] != QUESTIONS_BATCH_SECONDS]
        for act in due:
            act()
        return self.asked.ending

    def back(self, shown: Any, responses: Any = None, **changes: Any) -> Asked:
        by = changes.pop("by", self.by)
        params = {**CALL, "requestState": shown["requestState"], **changes}
        if responses is not None:
            params["inputResponses"] = responses
        self.asked = Asked("tools/call", params, by)
        assert self.parked_calls.resume(self.asked.exchange)
        return self.asked

    @property
    def answered(self) -> list[Any]:
        return [json.loads(a.result) if isinstance(a, Result) else a for a in self.answers]


DECLINED = {"action": "decline"}


def test_a_question_ends_the_request_and_not_the_call() -> None:
    scene = Scene()
    scene.ask(params={"message": "Who?"})

    shown = scene.gather()

    assert shown["resultType"] == "input_required"
    assert shown["inputRequests"] == {
        "q1": {"method": "elicitation/create", "params": {"message": "Who?", "mode": "form"}}
    }
    assert scene.fake.steps == ["park"]
    assert len(scene.calls.parked) == 1


def test_whoever_comes_back_answers_the_server() -> None:
    scene = Scene()
    scene.ask()
    back = scene.back(scene.gather(), {"q1": DECLINED, "unheard": 1})

    assert scene.answered == [DECLINED]
    assert scene.fake.steps == ["park", "resume"]
    assert back.ending is None, "the server has not answered yet"
    assert len(scene.calls.parked) == 0


def test_what_is_asked_at_once_is_shown_together_and_what_is_left_is_asked_again() -> None:
    scene = Scene()
    scene.ask()
    scene.ask("sampling/createMessage")
    shown = scene.gather()
    assert list(shown["inputRequests"]) == ["q1", "q2"]

    again = scene.back(shown, {"q2": {"role": "assistant"}}).ending

    assert list(again["inputRequests"]) == ["q1"]
    assert again["requestState"] != shown["requestState"]
    assert scene.answered == [{"role": "assistant"}]
    scene.back(again, {"q1": DECLINED})
    assert scene.answered[1:] == [DECLINED]


def test_what_is_no_answer_is_asked_for_again() -> None:
    scene = Scene()
    scene.ask()

    again = scene.back(scene.gather(), {"q1": {"action": "whatever"}}).ending

    assert list(again["inputRequests"]) == ["q1"]
    assert scene.answers == []


def test_a_question_that_comes_while_nobody_is_there_waits_for_the_client() -> None:
    scene = Scene()
    scene.ask()
    shown = scene.gather()
    scene.ask("roots/list")

    again = scene.back(shown, {"q1": DECLINED}).ending

    assert list(again["inputRequests"]) == ["q2"]


def test_a_call_that_ends_meanwhile_is_told_to_whoever_comes_back() -> None:
    scene = Scene()
    question = scene.ask()
    shown = scene.gather()
    question.withdraw()
    ending = Answered(b'{"content":[]}')
    assert scene.call.parking is not None
    scene.call.parking.ending = ending

    scene.back(shown, {"q1": DECLINED})

    assert scene.fake.endings == [ending]
    assert scene.answers == []


def test_what_is_logged_meanwhile_is_told_to_whoever_comes_back() -> None:
    scene = Scene(replace(caller(None, MODERN), log_level="info"))
    scene.ask()
    assert scene.calls.find_parked_by_owner("call-1") is None, "its client is still there"
    shown = scene.gather()
    assert scene.calls.find_parked_by_owner("call-1") is scene.call
    parking = scene.call.parking
    assert parking is not None
    logs = [Log(b'{"data":%d}' % number) for number in range(BUFFERED_LOGS_MAX + 1)]
    for log in logs:
        parking.buffer_log(log)

    back = scene.back(shown)

    assert back.told[:BUFFERED_LOGS_MAX] == logs[1:]
    assert scene.calls.find_parked_by_owner("call-1") is scene.call, "its client was asked again"
    assert parking.logs == ()


def test_what_is_logged_meanwhile_is_not_told_to_one_who_comes_back_with_another_wish() -> None:
    scene = Scene(replace(caller(None, MODERN), log_level="info"))
    scene.ask()
    shown = scene.gather()
    assert scene.call.parking is not None
    scene.call.parking.buffer_log(Log(b"{}"))

    back = scene.back(shown, by=replace(scene.by, log_level=None))

    assert not [happening for happening in back.told if isinstance(happening, Log)]


def test_a_question_that_is_withdrawn_at_once_is_not_shown() -> None:
    scene = Scene()
    scene.ask().withdraw()

    assert scene.gather() is None
    assert scene.fake.steps == []


def test_a_call_that_has_ended_is_not_asked_for() -> None:
    scene = Scene()
    scene.ask()
    scene.parked_calls.forget(scene.call)

    assert scene.gather() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": {"n": 2}},
        {"name": "s__other"},
        {"by": replace(caller(None, MODERN), principal=Principal("token", "eve"))},
    ],
    ids=["other arguments", "another tool", "somebody else"],
)
def test_a_state_is_worth_nothing_for_another_call_and_is_not_used_up_by_it(
    changes: dict[str, Any],
) -> None:
    scene = Scene()
    scene.ask()
    shown = scene.gather()

    assert scene.back(shown, {"q1": DECLINED}, **changes).ending == INVALID_STATE
    scene.back(shown, {"q1": DECLINED})
    assert scene.answered == [DECLINED]


def test_a_state_is_good_once() -> None:
    scene = Scene()
    scene.ask()
    shown = scene.gather()
    scene.back(shown, {"q1": DECLINED})

    assert "expired" in scene.back(shown, {"q1": DECLINED}).ending
    assert scene.answered == [DECLINED]


@pytest.mark.parametrize("state", ["", "nonsense", 5, None])
def test_what_is_no_state_of_ours_is_left_to_others(state: object) -> None:
    asked = Asked("tools/call", {**CALL, "requestState": state}, caller(None, MODERN))

    assert not Scene().parked_calls.resume(asked.exchange)
    assert asked.ending is None


def test_who_does_not_come_back_has_said_no() -> None:
    scene = Scene()
    for method in ("elicitation/create", "sampling/createMessage", "roots/list"):
        scene.ask(method)
    shown = scene.gather()
    assert [seconds for seconds, _ in scene.clock.due] == [PARKED_SECONDS_MAX]
    late: list[Timeout] = []
    scene.parked_calls.on_timeout = late.append

    scene.clock.pass_by()
    scene.clock.pass_by()

    assert late == [Timeout.ANSWER]

    cancelled, rejected, unable = scene.answers
    assert isinstance(cancelled, Result)
    assert json.loads(cancelled.result) == {"action": "cancel"}
    codes = [json.loads(f.error)["code"] for f in (rejected, unable) if isinstance(f, Failure)]
    assert codes == [-1, -32603]
    assert scene.fake.steps == ["park", "abandon"]
    assert "expired" in scene.back(shown, {"q1": DECLINED}).ending


def test_when_the_gateway_stops_nobody_comes_back_any_more() -> None:
    scene = Scene()
    scene.ask()
    shown = scene.gather()

    scene.parked_calls.stop()

    (cancelled,) = scene.answers
    assert isinstance(cancelled, Result)
    assert scene.fake.steps == ["park", "abandon"]
    assert "expired" in scene.back(shown, {"q1": DECLINED}).ending


def test_the_time_of_an_earlier_question_is_not_that_of_a_later_one() -> None:
    scene = Scene()
    scene.ask()
    again = scene.back(scene.gather(), {}).ending
    first = scene.clock.due.pop(0)

    first[1]()

    scene.back(again, {"q1": DECLINED})
    assert scene.answered == [DECLINED]


def test_a_call_that_is_given_up_is_forgotten() -> None:
    scene = Scene()
    scene.ask()
    shown = scene.gather()
    assert scene.calls.find_questioned_by_owner("call-1") is scene.call

    scene.parked_calls.forget(scene.call)

    assert scene.calls.find_questioned_by_owner("call-1") is None
    assert "expired" in scene.back(shown).ending


def test_there_is_a_most_of_calls_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARKED_CALLS_OF_PRINCIPAL_MAX", 1)
    scene = Scene()
    assert not scene.parked_calls.is_full(scene.by.principal)

    scene.ask()

    assert scene.parked_calls.is_full(scene.by.principal)
    assert not scene.parked_calls.is_full(Principal("token", "eve"))
    monkeypatch.setattr(module, "PARKED_CALLS_MAX", 1)
    assert scene.parked_calls.is_full(Principal("token", "eve"))


def test_when_all_places_are_taken_who_has_most_gives_up_the_oldest_for_one_who_has_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PARKED_CALLS_MAX", 3)
    clock = FakeClock()
    calls = CallTable(clock)
    parked_calls = ParkedCalls(calls, Seal([bytes(KEY_BYTES)]), clock)

    def park(name: str) -> tuple[FakeCall, list[Result | Failure]]:
        by = replace(caller(None, MODERN), principal=Principal("token", name))
        fake = FakeCall(Asked("tools/call", CALL, by).exchange)
        call = cast(Call, fake)
        answers: list[Result | Failure] = []
        question = Question("elicitation/create", b'{"message":"?"}', answers.append)
        parked_calls.add_question(call, question)
        clock.due.pop()[1]()
        return fake, answers

    ada = [park("ada"), park("ada")]
    bob = park("bob")
    assert not parked_calls.is_full(Principal("token", "cleo"))
    assert parked_calls.is_full(Principal("token", "ada"))
    cleo = park("cleo")

    assert [call.steps[-1] for call, _ in (*ada, bob, cleo)] == [
        *("abandon", "park", "park", "park")
    ]
    assert [answer.result for answer in ada[0][1] if isinstance(answer, Result)] == [
        b'{"action":"cancel"}'
    ]
    assert parked_calls.is_full(Principal("token", "dora"))  # Nobody has more than one.
