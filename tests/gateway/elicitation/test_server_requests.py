"""What servers ask, who is asked, and where the answer goes."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.gateway.calls.call_table import CallTable, uses_connection
from anyport.gateway.elicitation.parked_calls import ParkedCalls
from anyport.gateway.elicitation.server_requests import (
    OPEN_QUESTIONS_MAX,
    QUESTION_SECONDS_MAX,
    QuestionTarget,
    ServerRequests,
    refusal_of,
)
from anyport.gateway.recording.messages import MessageRecorder
from anyport.gateway.tasks.tasks import TaskMethods
from anyport.protocol.capabilities import client_capabilities
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import Answered, Exchange, NeedInput, Question
from anyport.protocol.transcript import Transcript
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.server import Server
from anyport.wire.jsonrpc import Failure, Notification, Request, Result
from tests.gateway.fakes import Asked, FakeClock, FakeServer, FakeSession, caller

ASKABLE: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
MINE = LeaseKey(owner="mine")


class FakeCalls:
    """The table of calls, with those that a test opens."""

    def __init__(self, open: list[Exchange]) -> None:
        self._open = open

    def exchanges_over(self, server: Any, key: LeaseKey) -> list[Exchange]:
        return [each for each in self._open if uses_connection(server, key, each)]

    def find_by_owner(self, owner: str) -> Any:
        exchanges = (each for each in self._open if each.lease_owner == owner)
        exchange = next(exchanges, None)
        return None if exchange is None else SimpleNamespace(exchange=exchange)

    def find(self, exchange: Exchange) -> None:
        return None


class FakeTasks:
    """The tasks of a gateway; a test says whose question it is."""

    target: QuestionTarget | None = None

    def question_target(self, *asked: Any) -> QuestionTarget | None:
        return self.target


class Scene:
    """A server that asks, and a client that may be asked."""

    def __init__(self, capabilities: dict[str, Any] | None = None) -> None:
        self.session = FakeSession("mine", ASKABLE if capabilities is None else capabilities)
        self.server = FakeServer("s")
        self.open: list[Exchange] = []
        self.clock = FakeClock()
        self.aside: list[str] = []
        """What was recorded as belonging to no call."""
        self.tasks = FakeTasks()
        self.questions = ServerRequests(
            {"mine": self.session},
            cast(CallTable, FakeCalls(self.open)),
            cast(ParkedCalls, SimpleNamespace(is_full=lambda principal: False)),
            cast(TaskMethods, self.tasks),
            cast(MessageRecorder, self),
            self.clock,
        )

    def record_server_message(self, server: Server, said: Request) -> None:
        self.aside.append(f"server-request {said.method}")

    def record_client_response(self, server: Server, method: str, answer: Result | Failure) -> None:
        self.aside.append(f"client-response {method}")

    def ask(self, method: str, params: Any = None, id: bytes = b"7") -> None:
        raw = None if params is None else json.dumps(params).encode()
        request = Request(id, method, raw)
        self.questions.on_request(self.server, MINE, self.server.connection, request)

    def call(self) -> Asked:
        """A call of the client that the server works on."""
        asked = Asked(by=caller(self.session))

        def tell(exchange: Exchange, happening: Any) -> None:
            asked.told.append(happening)
            if isinstance(happening, NeedInput):
                exchange.questions += (happening.question,)

        asked.exchange.deliver = tell
        self.open.append(asked.exchange)
        return asked

    @property
    def answers(self) -> list[Any]:
        return self.server.channel.sent


def put_to(asked: Asked) -> Question:
    (happening,) = [h for h in asked.told if isinstance(h, NeedInput)]
    return happening.question


def test_a_ping_is_answered_without_asking_anyone() -> None:
    scene = Scene()
    scene.ask("ping")

    assert scene.answers == [{"jsonrpc": "2.0", "id": 7, "result": {}}]


def test_a_question_goes_to_the_call_that_caused_it_and_its_answer_back() -> None:
    scene = Scene()
    asked = scene.call()
    scene.ask("elicitation/create", {"message": "Sure?"})
    question = put_to(asked)
    assert json.loads(question.params or b"") == {"message": "Sure?"}

    question.answer(Result(b"1", b'{"action":"accept"}'))
    question.answer(Result(b"1", b'{"action":"decline"}'))

    assert scene.answers == [{"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}}]


def test_who_is_sent_to_an_address_waits_for_the_end_of_it() -> None:
    scene = Scene()
    scene.call()
    scene.ask("elicitation/create", {"message": "?", "requestedSchema": {}})
    assert scene.session.elicitations == ()
    url = {"mode": "url", "url": "https://example.com/", "message": "?", "elicitationId": "e"}
    scene = Scene({"elicitation": {"url": {}}})
    scene.call()
    scene.ask("elicitation/create", url, b"8")
    assert scene.session.elicitations == (("s", "e"),)


def test_roots_outlast_the_call_that_was_open_when_the_server_asked() -> None:
    scene = Scene()
    asked = scene.call()
    scene.ask("roots/list")
    asked.exchange.end(Answered(b"{}"))
    (question,) = scene.session.asked
    question.answer(Result(b"1", b'{"roots":[]}'))

    assert scene.answers == [{"jsonrpc": "2.0", "id": 7, "result": {"roots": []}}]


def test_roots_are_recorded_with_the_call_in_which_a_server_asks_for_them() -> None:
    for ends_first in (False, True):
        scene = Scene()
        asked = scene.call()
        transcript = asked.exchange.transcript = Transcript(clock=lambda: 0.0, keeps_payloads=True)
        scene.ask("roots/list")
        if ends_first:
            asked.exchange.end(Answered(b"{}"))
        (question,) = scene.session.asked
        question.answer(Result(b"1", b'{"roots":[]}'))

        kinds = [crossing.kind for crossing in transcript.frames]
        assert kinds == ["server-request", *([] if ends_first else ["client-response"])]
        assert scene.aside == (["client-response roots/list"] if ends_first else [])


@pytest.mark.parametrize("calls", [0, 2])
def test_a_question_that_no_single_call_can_have_caused_goes_to_the_session(calls: int) -> None:
    scene = Scene()
    for _ in range(calls):
        scene.call()
    scene.ask("roots/list")
    (question,) = scene.session.asked

    question.answer(Failure(b"1", b'{"code":-1,"message":"no"}'))

    assert scene.answers == [{"jsonrpc": "2.0", "id": 7, "error": {"code": -1, "message": "no"}}]


@pytest.mark.parametrize(
    ("capabilities", "method", "params", "code"),
    [
        ({}, "roots/list", None, -32601),
        ({"roots": {}}, "sampling/createMessage", {}, -32601),
        (ASKABLE, "something/else", {}, -32601),
        (ASKABLE, "elicitation/create", {"mode": "url"}, -32602),
    ],
)
def test_what_the_client_cannot_answer_is_refused_at_once(
    capabilities: dict[str, Any], method: str, params: Any, code: int
) -> None:
    scene = Scene(capabilities)
    scene.ask(method, params)

    assert scene.session.asked == []
    (answer,) = scene.answers
    assert (answer["id"], answer["error"]["code"]) == (7, code)


def test_a_question_over_a_connection_of_nobody_is_refused() -> None:
    scene = Scene()
    request = Request(b"7", "roots/list", None)
    scene.questions.on_request(
        scene.server, LeaseKey(owner="left"), scene.server.connection, request
    )

    assert scene.answers[0]["error"]["code"] == -32601


def test_a_server_can_withdraw_its_question() -> None:
    scene = Scene()
    scene.ask("roots/list")
    (question,) = scene.session.asked
    reasons: list[bytes | None] = []
    question.on_withdrawn = reasons.append

    for _ in range(2):
        params = b'{"requestId":7,"reason":"never mind"}'
        told = Notification("notifications/cancelled", params)
        scene.questions.on_cancelled(scene.server.connection, told)
    question.answer(Result(b"1", b"{}"))

    assert reasons == [b'"never mind"']
    assert scene.answers == []


def test_a_lost_server_withdraws_everything_it_asked_and_nothing_else() -> None:
    scene, other = Scene(), FakeServer("other")
    scene.ask("roots/list")
    scene.questions.on_request(other, MINE, other.connection, Request(b"7", "roots/list", None))

    scene.questions.on_connection_lost(scene.server.connection)

    assert [question.open for question in scene.session.asked] == [False, True]


@pytest.mark.parametrize("web", [True, False])
def test_what_was_asked_in_a_session_that_a_server_forgot_nobody_has_to_know(web: bool) -> None:
    scene = Scene()
    if web:
        scene.server.config = replace(scene.server.config, command=None, url="http://x/mcp")
    scene.ask("roots/list")
    scene.questions.on_session_renewed(scene.server, LeaseKey(owner="another"))
    assert scene.session.asked[0].open

    scene.questions.on_session_renewed(scene.server, scene.server.connections()[0][0])

    # A process has one session for as long as it lives, and asks as soon as it likes.
    assert scene.session.asked[0].open is not web


@pytest.mark.parametrize("how", ["ended", "cancelled"])
def test_the_questions_of_a_call_that_is_over_are_answered_and_forgotten(how: str) -> None:
    scene = Scene()
    for number in range(2 * OPEN_QUESTIONS_MAX):
        asked = scene.call()
        scene.ask("elicitation/create", id=b"%d" % number)
        if how == "ended":
            asked.exchange.end(Answered(b"{}"))
        else:
            asked.exchange.cancel()
        scene.open.clear()

    assert len(scene.answers) == 2 * OPEN_QUESTIONS_MAX
    assert {answer["error"]["message"] for answer in scene.answers} == {
        "The call that this belonged to has ended"
    }


def test_there_are_only_so_many_open_questions() -> None:
    scene = Scene()
    for number in range(OPEN_QUESTIONS_MAX):
        scene.ask("roots/list", id=b"%d" % number)
    assert scene.answers == []

    scene.ask("roots/list", id=b"9999")

    assert scene.answers[0]["error"]["message"] == "Too many questions are waiting for an answer"


def test_a_question_that_nobody_answers_is_given_up() -> None:
    scene = Scene()
    scene.ask("roots/list")
    scene.ask("roots/list", id=b"8")
    scene.session.asked[1].answer(Result(b"1", b'{"roots":[]}'))
    assert {seconds for seconds, _ in scene.clock.due} == {QUESTION_SECONDS_MAX}
    late: list[Timeout] = []
    scene.questions.on_timeout = late.append

    scene.clock.pass_by()

    assert [answer["id"] for answer in scene.answers] == [8, 7]
    assert scene.answers[1]["error"] == {
        "code": -32000,
        "message": "Nobody answered within 600 s",
        "data": {"timeout": "answer"},
    }
    assert late == [Timeout.ANSWER]
    assert not scene.session.asked[0].open


def test_the_clients_progress_on_a_question_carries_the_servers_token() -> None:
    scene = Scene()
    scene.ask("sampling/createMessage", {"_meta": {"progressToken": "theirs"}})
    (question,) = scene.session.asked
    assert question.on_progress is not None

    question.on_progress(b'{"progressToken":5,"progress":1}')

    assert scene.answers == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "theirs", "progress": 1},
        }
    ]


def test_a_second_question_with_an_open_id_is_refused_and_the_first_unharmed() -> None:
    scene = Scene()
    asked = scene.call()
    scene.ask("elicitation/create", {"message": "a"})
    scene.ask("elicitation/create", {"message": "b"})

    (refusal,) = scene.answers
    assert refusal["id"] == 7
    assert refusal["error"]["code"] == -32600
    assert put_to(asked).open


def test_by_which_name_a_server_knows_a_task_no_client_is_told() -> None:
    """The call has become a task that the gateway waits for: to the client it is a call."""
    scene = Scene()
    asked = scene.call()
    native = {"io.modelcontextprotocol/related-task": {"taskId": "native"}}

    scene.ask("elicitation/create", {"message": "m", "_meta": {**native, "own": 1}})

    (happening,) = asked.told
    assert isinstance(happening, NeedInput)
    assert json.loads(happening.question.params or b"") == {"message": "m", "_meta": {"own": 1}}


@pytest.mark.parametrize("mode", [b'"url"', b'"\\u0075rl"'])
def test_an_address_to_open_is_one_however_that_is_spelled(mode: bytes) -> None:
    forms_only = client_capabilities(b'{"elicitation":{}}')
    refusal = refusal_of(Request(b"1", "elicitation/create", b'{"mode":%b}' % mode), forms_only)

    assert refusal is not None
    assert b"by URL" in refusal


# What is recorded.


def test_a_question_outside_any_call_and_its_answer_are_recorded_for_themselves() -> None:
    scene = Scene()
    scene.ask("ping")
    scene.ask("roots/list")
    scene.session.asked[0].answer(Result(b"1", b'{"roots":[]}'))
    scene.ask("something/else")

    assert scene.aside == [
        *("server-request ping", "client-response ping"),
        *("server-request roots/list", "client-response roots/list"),
        *("server-request something/else", "client-response something/else"),
    ]


@pytest.mark.parametrize("heard", [True, False])
def test_a_question_in_a_call_is_recorded_with_it(heard: bool) -> None:
    scene = Scene()
    asked = scene.call()
    asked.exchange.transcript = transcript = Transcript(clock=lambda: 0.0, keeps_payloads=True)
    scene.ask("elicitation/create", {"message": "Sure?"})
    question = put_to(asked)
    assert (question.transcript, question.in_transcript) == (transcript, True)

    question.answered_by_client = heard  # By the front, which then has noted it, too.
    question.answer(Result(b"1", b'{"action":"accept"}'))

    assert [(each.kind, each.side, each.forwarded) for each in transcript.frames] == [
        ("server-request", "server", False),
        ("client-response", "server", heard),
    ]
    assert transcript.frames[1].payload == b'{"action":"accept"}'
    assert scene.aside == []


def test_a_refused_question_of_a_call_is_recorded_with_it() -> None:
    scene = Scene({})
    asked = scene.call()
    asked.exchange.transcript = transcript = Transcript(clock=lambda: 0.0)
    scene.ask("elicitation/create", {"message": "Sure?"})

    assert [(each.kind, each.failed) for each in transcript.frames] == [
        ("server-request", False),
        ("client-response", True),
    ]
    assert scene.aside == []
