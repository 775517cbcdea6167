"""What passes beside requests and results: questions, progress, notifications."""

import json

import pytest

from anyport.protocol.exchange import Answered, NeedInput, Progress
from anyport.wire import codec
from anyport.wire.frame import Notification, Result
from tests.protocol.fakes import META, Asked, Talk

CALL = {"name": "a", "arguments": {}}


@pytest.mark.parametrize("token", [b"7", b'"7"', b"0", b'""', b"10000000000000000000000"])
def test_progress_comes_back_with_the_token_in_type_and_text(token: bytes) -> None:
    for envelope in (b"", json.dumps(META)[1:-1].encode() + b","):
        talk = Talk()
        talk.say(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
            b'{"name":"a","_meta":{%b"progressToken":%b}}}' % (envelope, token)
        )
        exchange = talk.relay.last

        exchange.tell(exchange, Progress(b'{"progressToken":1,"progress":5}'))

        assert talk.wire.frames == [
            b'{"jsonrpc":"2.0","method":"notifications/progress",'
            b'"params":{"progressToken":%b,"progress":5}}' % token
        ]


@pytest.mark.parametrize("token", [b"null", b"1.5", b"true", b"{}", b"[]"])
def test_a_token_that_is_none_gets_no_progress(token: bytes) -> None:
    talk = Talk()
    talk.say(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"a","_meta":{"progressToken":%b}}}' % token
    )

    assert talk.relay.last.progress_token is None


def test_a_question_reaches_a_session_and_its_answer_the_server() -> None:
    talk = Talk()
    talk.shake_hands(capabilities={"elicitation": {}})
    talk.ask("tools/call", CALL, "call")
    asked = Asked("elicitation/create", b'{"message":"Sure?"}')

    talk.relay.last.tell(talk.relay.last, NeedInput(asked.question))
    question = talk.wire.take_one()
    assert question["method"] == "elicitation/create"
    talk.say({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})

    assert asked.answers == [Result(b"%d" % question["id"], b'{"action": "accept"}')]


def test_a_question_is_withdrawn_when_its_call_ends_or_is_cancelled() -> None:
    talk = Talk()
    talk.shake_hands(capabilities={"elicitation": {}})
    asked = []
    for id in ("one", "two"):
        talk.ask("tools/call", CALL, id)
        talk.relay.last.tell(talk.relay.last, NeedInput(Asked().question))
        asked.append(talk.wire.take_one()["id"])

    talk.relay.exchanges[0].end(Answered(b"{}"))
    withdrawn, ended = talk.wire.take()
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"] == {"requestId": asked[0]}
    assert ended["id"] == "one"

    (withdrawn,) = talk.tell("notifications/cancelled", {"requestId": "two"})
    assert withdrawn["params"] == {"requestId": asked[1]}


def test_nothing_with_a_method_and_an_id_is_ever_written_to_a_modern_client() -> None:
    talk = Talk()
    talk.shake_hands(capabilities={"sampling": {}})
    asked = Asked("sampling/createMessage")
    talk.ask_modern("tools/call", CALL)

    talk.relay.last.tell(talk.relay.last, NeedInput(asked.question))

    assert talk.wire.take() == []
    assert asked.error["code"] == -32601


def test_a_clients_progress_and_answers_without_a_session_go_nowhere() -> None:
    talk = Talk()

    assert talk.tell("notifications/progress", {"progressToken": 1, "progress": 1}) == []
    assert talk.say({"jsonrpc": "2.0", "id": 1, "result": {}}) == []
    assert talk.relay.notifications == []


def test_a_clients_progress_reaches_the_question_it_belongs_to() -> None:
    talk = Talk()
    talk.shake_hands(capabilities={"sampling": {}})
    assert talk.conversation.session is not None
    progress: list[bytes] = []
    talk.conversation.session.ask(Asked(on_progress=progress.append).question)
    (question,) = talk.wire.take()

    token = question["params"]["_meta"]["progressToken"]
    talk.tell("notifications/progress", {"progressToken": token, "progress": 1})

    assert len(progress) == 1


def test_other_notifications_are_handed_on_with_the_session_they_came_in() -> None:
    talk = Talk()
    talk.tell("notifications/roots/list_changed")
    talk.shake_hands()
    talk.tell("notifications/roots/list_changed", [1])

    changed = Notification("notifications/roots/list_changed")
    assert talk.relay.notifications == [
        (None, changed),
        (talk.conversation.session, Notification(changed.method, b"[1]")),
    ]


def test_when_no_more_comes_listening_ends_and_other_calls_go_on() -> None:
    talk = Talk()
    talk.shake_hands(capabilities={"roots": {}})
    assert talk.conversation.session is not None
    talk.ask_modern("subscriptions/listen", {"notifications": {}}, "listen")
    talk.ask("tools/call", CALL, "call")
    asked = Asked("roots/list")
    talk.conversation.session.ask(asked.question)
    talk.wire.take()

    talk.conversation.finish()

    (ended,) = talk.wire.take()
    assert ended["id"] == "listen"
    assert asked.error["message"] == "The client has disconnected"
    talk.relay.last.end(Answered(b"{}"))
    assert talk.wire.take_one()["id"] == "call"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"1.0","method":"notifications/initialized"}',
        b'{"method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":1}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}',
    ],
)
def test_broken_notifications_and_answers_are_never_answered(raw: bytes) -> None:
    talk = Talk()
    talk.shake_hands()

    assert talk.say(raw) == []


def test_an_answer_that_cannot_be_told_is_told_as_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = Talk()
    talk.shake_hands()
    talk.ask("tools/call", {"name": "a"}, id=5)

    def broken(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(codec, "result", broken)
    with pytest.raises(ZeroDivisionError):
        talk.relay.last.end(Answered(b"{}"))

    (answer,) = talk.wire.take()
    assert answer["id"] == 5
    assert answer["error"]["code"] == -32603
    assert talk.conversation.open_requests == 0
