"""A modern server that needs to know more, and a legacy client that is asked."""

import json
from typing import Any

import pytest

from anyport.gateway.rounds import ROUNDS_MAX, inquire
from anyport.protocol.back import Inquiry
from anyport.protocol.exchange import Answered, Failed, NeedInput, Question
from anyport.wire.frame import Failure, Result
from tests.gateway.fakes import Asked, FakeSession, caller

FORM = ("elicitation/create", b'{"message":"Sure?"}')
ROOTS = ("roots/list", None)


class Scene:
    """One exchange whose server asks in rounds."""

    def __init__(self, **capabilities: Any) -> None:
        declared = capabilities or {"elicitation": {}, "roots": {}}
        self.asked = Asked(by=caller(FakeSession("mine", declared)))
        self.retried: list[dict[str, Any]] = []
        self.failed: list[str] = []

    def inquire(self, state: bytes | None = None, **requests: Any) -> None:
        inquiry = Inquiry(requests=requests, state=state)
        inquire(self.asked.exchange, inquiry, b'{"name":"x"}', self._retry, self._fail)

    @property
    def questions(self) -> list[Question]:
        return [h.question for h in self.asked.told if isinstance(h, NeedInput)]

    def _retry(self, params: bytes) -> None:
        self.retried.append(json.loads(params))

    def _fail(self, ending: Failed) -> None:
        self.failed.append(ending.fault.message)


def test_the_request_is_made_again_when_everything_is_answered() -> None:
    scene = Scene()
    scene.inquire(b'"state"', form=FORM, roots=ROOTS)
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
    scene.inquire(b'"state"')

    assert scene.retried == [{"name": "x", "inputResponses": {}, "requestState": "state"}]


@pytest.mark.parametrize(("code", "action"), [(-1, "decline"), (-32000, "cancel")])
def test_a_person_who_says_no_is_an_answer(code: int, action: str) -> None:
    scene = Scene()
    scene.inquire(form=FORM)
    error = json.dumps({"code": code, "message": "no"}).encode()

    scene.questions[0].answer(Failure(b"1", error))

    assert scene.retried[0]["inputResponses"] == {"form": {"action": action}}


def test_a_question_that_cannot_be_declined_fails_the_call() -> None:
    scene = Scene()
    scene.inquire(roots=ROOTS)

    scene.questions[0].answer(Failure(b"1", b'{"code":-32603,"message":"broken"}'))

    assert scene.failed == ["The client did not answer roots/list, which the server needs"]
    assert scene.retried == []


def test_nothing_is_asked_that_the_client_does_not_offer() -> None:
    scene = Scene(roots={})
    scene.inquire(roots=ROOTS, form=FORM)

    assert scene.failed == [
        "The server asked for elicitation/create, which the client does not offer"
    ]
    assert scene.questions == []


def test_a_server_that_never_stops_asking_is_stopped() -> None:
    scene = Scene()
    for _ in range(ROUNDS_MAX + 1):
        scene.inquire()

    assert len(scene.retried) == ROUNDS_MAX
    assert scene.failed == [f"The server asked more than {ROUNDS_MAX} times without answering"]


def test_a_call_that_is_over_is_not_made_again() -> None:
    scene = Scene()
    scene.inquire(form=FORM)
    (question,) = scene.questions

    scene.asked.exchange.end(Answered(b"{}"))
    question.answer(Result(b"1", b'{"action":"accept"}'))

    assert scene.retried == []
