"""A modern server that needs to know more, and a legacy client that is asked."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from anyport.gateway.calls.call import Call
from anyport.gateway.elicitation.input_required_loop import REPEATS_MAX, InputRequiredLoop
from anyport.gateway.elicitation.request_state import ROUNDS_MAX, STATE_BYTES_MAX
from anyport.protocol.adapters.server import InputRequiredResult
from anyport.protocol.exchange import Answered, Failed, NeedInput, Question
from anyport.upstream.server import Server
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import Asked, FakeServer, FakeSession, caller

FORM = ("elicitation/create", b'{"message":"Sure?"}')
ROOTS = ("roots/list", None)
URL = ("elicitation/create", b'{"mode":"url","url":"https://example.com/in","message":"In?"}')


class Scene:
    """One exchange whose server asks in rounds."""

    def __init__(self, **capabilities: Any) -> None:
        declared = capabilities or {"elicitation": {}, "roots": {}}
        self.asked = Asked(by=caller(FakeSession("mine", declared)))
        self.exchange = self.asked.exchange
        self.server: Server = FakeServer("s")
        self.retried: list[dict[str, Any]] = []
        self.failed: list[str] = []
        self.delays: list[float] = []
        self._rounds = InputRequiredLoop(cast(Call, self))

    def ask(self, state: bytes | None = None, **requests: Any) -> None:
        input_required = InputRequiredResult(requests=requests, state=state)
        self._rounds.ask(input_required, b'{"name":"x"}')

    def done(self) -> None:
        self._rounds.on_answered()

    @property
    def questions(self) -> list[Question]:
        return [h.question for h in self.asked.told if isinstance(h, NeedInput)]

    def send_request(self, params: bytes) -> None:
        self.retried.append(json.loads(params))

    def finish(self, ending: Failed) -> None:
        self.failed.append(ending.fault.message)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.delays.append(seconds)
        act()


def test_the_request_is_made_again_when_everything_is_answered() -> None:
    scene = Scene()
    scene.ask(b'"state"', form=FORM, roots=ROOTS)
    form, roots = scene.questions
    assert (form.method, form.params) == FORM

    roots.answer(Result(b"1", b'{"roots":[]}'))
    assert scene.retried == []
    form.answer(Result(b"2", b'{"action":"accept"}'))

    assert scene.retried == [
        {
            "name": "x",
            "inputResponses": {"roots": {"roots": []}, "form": {"action": "accept"}},
            "requestState": "state",
        }
    ]


def test_a_server_that_only_wants_to_be_asked_again_is() -> None:
    scene = Scene()
    scene.ask(b'"state"')

    assert scene.retried == [{"name": "x", "requestState": "state"}]


def test_a_server_that_wants_to_be_asked_again_and_again_is_asked_ever_more_slowly() -> None:
    scene = Scene()
    for _ in range(REPEATS_MAX + 1):
        scene.ask(b'"state"')

    assert scene.delays == sorted(scene.delays)
    assert 500 < sum(scene.delays) < 700
    assert len(scene.retried) == REPEATS_MAX
    assert scene.failed == [f"Server 's' asked more than {ROUNDS_MAX} times without answering"]


def test_an_address_that_somebody_agreed_to_open_is_not_asked_about_again() -> None:
    scene = Scene(elicitation={"url": {}})
    scene.ask(b'"1"', open=URL)
    scene.questions[0].answer(Result(b"1", b'{"action":"accept"}'))
    scene.ask(b'"2"', open=URL, form=FORM)
    assert [question.method for question in scene.questions[1:]] == [FORM[0]]
    scene.questions[1].answer(Result(b"2", b'{"action":"decline"}'))
    scene.ask(b'"3"', open=URL)

    agreed = {"open": {"action": "accept"}}
    assert [each["inputResponses"] for each in scene.retried] == [
        agreed,
        agreed | {"form": {"action": "decline"}},
        agreed,
    ]
    assert len(scene.questions) == 2


def test_the_client_is_told_when_the_address_has_been_opened() -> None:
    scene = Scene(elicitation={"url": {}})
    session = scene.exchange.caller.session
    assert isinstance(session, FakeSession)
    scene.ask(open=URL, other=(URL[0], URL[1].replace(b"/in", b"/out")))
    first, second = scene.questions
    first.answer(Result(b"1", b'{"action":"accept"}'))
    second.answer(Result(b"2", b'{"action":"decline"}'))
    assert session.notified == []

    scene.done()

    ((method, params),) = session.notified
    assert method == "notifications/elicitation/complete"
    assert len(params["elicitationId"]) > 8


def test_an_address_that_nobody_agreed_to_open_is_asked_about_again() -> None:
    scene = Scene(elicitation={"url": {}})
    scene.ask(open=URL)
    scene.questions[0].answer(Result(b"1", b'{"action":"decline"}'))
    scene.ask(open=URL)

    assert len(scene.questions) == 2


def test_an_address_that_is_none_to_open_fails_the_call() -> None:
    scene = Scene(elicitation={"url": {}})
    scene.ask(open=("elicitation/create", b'{"mode":"url","url":"file:///etc/passwd"}'))

    assert scene.questions == []
    assert "it is no web address" in scene.failed[0]


def test_a_state_too_large_to_travel_fails_the_call() -> None:
    scene = Scene()
    scene.ask(b'"' + b"x" * STATE_BYTES_MAX + b'"', form=FORM)

    assert scene.failed == ["Server 's' gave a state of more than 64 KiB to come back with"]


@pytest.mark.parametrize(("code", "action"), [(-1, "decline"), (-32000, "cancel")])
def test_a_person_who_says_no_is_an_answer(code: int, action: str) -> None:
    scene = Scene()
    scene.ask(form=FORM)
    error = json.dumps({"code": code, "message": "no"}).encode()

    scene.questions[0].answer(Failure(b"1", error))

    assert scene.retried[0]["inputResponses"] == {"form": {"action": action}}


def test_a_question_that_cannot_be_declined_fails_the_call() -> None:
    scene = Scene()
    scene.ask(roots=ROOTS)

    scene.questions[0].answer(Failure(b"1", b'{"code":-32603,"message":"broken"}'))

    assert scene.failed == [
        "Server 's' needs an answer to roots/list, which the client did not give"
    ]
    assert scene.retried == []


def test_nothing_is_asked_that_the_client_does_not_offer() -> None:
    scene = Scene(roots={})
    scene.ask(roots=ROOTS, form=FORM)

    assert scene.failed == [
        "Server 's' asked for elicitation/create, which the client does not offer"
    ]
    assert scene.questions == []


def test_a_server_that_never_stops_asking_is_stopped() -> None:
    scene = Scene()
    for _ in range(ROUNDS_MAX + 1):
        scene.ask(form=FORM)
        if scene.questions[-1].open:
            scene.questions[-1].answer(Result(b"1", b'{"action":"cancel"}'))

    assert len(scene.retried) == ROUNDS_MAX
    assert scene.failed == [f"Server 's' asked more than {ROUNDS_MAX} times without answering"]


def test_a_call_that_is_over_is_not_made_again() -> None:
    scene = Scene()
    scene.ask(form=FORM)
    (question,) = scene.questions

    scene.asked.exchange.end(Answered(b"{}"))
    question.answer(Result(b"1", b'{"action":"accept"}'))

    assert scene.retried == []
