"""The legacy client adapter: events, questions, `initialize`."""

import json
from itertools import count
from typing import Any

import pytest

from anyport.protocol.adapters.legacy_client import (
    GatewayDescription,
    LegacySession,
    deliver_legacy,
    initialize,
)
from anyport.protocol.capabilities import NO_CAPABILITIES, ClientCapabilities
from anyport.protocol.errors import Fault, not_running
from anyport.protocol.exchange import (
    Answered,
    ErrorAnswered,
    ExchangeEvent,
    Failed,
    Log,
    NeedInput,
    Progress,
    ServerNotification,
)
from anyport.protocol.revisions import REVISIONS, Revision
from anyport.protocol.session import SessionEvent, SessionState
from anyport.protocol.transcript import Transcript
from anyport.wire.jsonrpc import Failure, Request, Result
from tests.protocol.fakes import (
    IDENTITY,
    FakeClient,
    FakeQuestion,
    FakeReplyWriter,
    caller,
    exchange,
)


def opening_on(writer: FakeReplyWriter, revision: str = "2025-11-25") -> LegacySession:
    """A session whose client has not confirmed the handshake."""
    return LegacySession(
        id="s",
        profile="default",
        revision=REVISIONS[revision],
        capabilities=NO_CAPABILITIES,
        client=None,
        writer=writer,
        transport="stdio",
        question_ids=count(1),
    )


def session_on(writer: FakeReplyWriter, revision: str = "2025-11-25") -> LegacySession:
    session = opening_on(writer, revision)
    session.apply(SessionEvent.INITIALIZED)
    return session


def opened(params: Any, instructions: str | None = None) -> tuple[Any, list[Any]]:
    """The outcome of `initialize`, and the arguments of the session opener."""
    events: list[Any] = []

    def handshake(
        revision: Revision, capabilities: ClientCapabilities, client: bytes | None
    ) -> GatewayDescription:
        events.extend([revision.name, capabilities.raw, client])
        return GatewayDescription(IDENTITY, instructions)

    raw = None if params is None else json.dumps(params).encode()
    outcome = initialize(Request(b"1", "initialize", raw), handshake)
    assert outcome is not None
    return (outcome if isinstance(outcome, Fault) else json.loads(outcome)), events


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25")],
)
def test_the_handshake_agrees_on_a_revision_and_presents_the_gateway(
    asked: str, agreed: str
) -> None:
    result, events = opened(
        {"protocolVersion": asked, "capabilities": {"roots": {}}, "clientInfo": {"name": "c"}}
    )

    assert result["protocolVersion"] == agreed
    assert result["serverInfo"] == json.loads(IDENTITY)
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert "instructions" not in result
    assert events == [agreed, b'{"roots": {}}', b'{"name": "c"}']


def test_the_handshake_takes_a_client_that_says_little_and_gives_instructions() -> None:
    result, events = opened({"protocolVersion": "2025-03-26"}, "Use it well.")

    assert result["instructions"] == "Use it well."
    assert events == ["2025-03-26", b"{}", None]


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"protocolVersion": 1},
        {"protocolVersion": None},
        {"protocolVersion": "2025-06-18", "capabilities": []},
        {"protocolVersion": "2025-06-18", "capabilities": None},
    ],
)
def test_a_handshake_without_the_needed_is_refused_and_opens_nothing(params: Any) -> None:
    outcome, events = opened(params)

    assert isinstance(outcome, Fault)
    assert outcome.code(REVISIONS["2025-11-25"]) == -32602
    assert events == []


@pytest.mark.parametrize(
    ("event", "frame"),
    [
        (Answered(b'{"n":1}'), {"id": "x", "result": {"n": 1}}),
        (
            ErrorAnswered(b'{"code":-5,"message":"m"}'),
            {"id": "x", "error": {"code": -5, "message": "m"}},
        ),
        (
            Failed(not_running("a", "why")),
            {
                "id": "x",
                "error": {
                    "code": -32000,
                    "message": "Server 'a' is not running: why",
                    "data": {"server": "a"},
                },
            },
        ),
        (
            Log(b'{"level":"info"}'),
            {"method": "notifications/message", "params": {"level": "info"}},
        ),
        (ServerNotification("a/b", b'{"c":1}'), {"method": "a/b", "params": {"c": 1}}),
        (ServerNotification("a/b", None), {"method": "a/b"}),
    ],
)
def test_events_are_delivered_unchanged(event: ExchangeEvent, frame: dict[str, Any]) -> None:
    writer = FakeReplyWriter()
    made, _ = exchange(id=b'"x"', writer=writer)

    deliver_legacy(made, event)

    assert writer.take_one() == {"jsonrpc": "2.0", **frame}


@pytest.mark.parametrize(("as_it_is", "events"), [(True, [1]), (False, None)])
def test_a_verbatim_result_is_not_downgraded(as_it_is: bool, events: list[int] | None) -> None:
    writer = FakeReplyWriter()
    made, _ = exchange(by=caller("2025-03-26"), writer=writer)

    deliver_legacy(made, Answered(b'{"content":[],"structuredContent":[1]}', verbatim=as_it_is))

    assert writer.take_one()["result"].get("structuredContent") == events


@pytest.mark.parametrize("as_it_is", [True, False])
def test_so_does_a_question_that_the_revision_cannot_express(as_it_is: bool) -> None:
    client = FakeClient()
    client.handshake("2025-03-26")
    assert client.conversation.session is not None
    asked = FakeQuestion("elicitation/create", b'{"mode":"url"}')
    asked.question.verbatim = as_it_is

    client.conversation.session.ask(asked.question)

    put = [frame["params"] for frame in client.writer.take()]
    assert put == ([{"mode": "url"}] if as_it_is else [])
    assert len(asked.answers) == (not as_it_is)


@pytest.mark.parametrize("token", [b'"7"', b"7", b'""', b"0"])
def test_progress_carries_the_clients_own_token_in_its_type(token: bytes) -> None:
    writer = FakeReplyWriter()
    made, _ = exchange(writer=writer)
    made.progress_token = token

    deliver_legacy(made, Progress(b'{"progressToken":99,"progress":0.50}'))

    assert b'"params":{"progressToken":%b,"progress":0.50}' % token in writer.frames[0]


def test_progress_without_a_token_is_not_delivered() -> None:
    writer = FakeReplyWriter()
    made, _ = exchange(writer=writer)

    deliver_legacy(made, Progress(b'{"progressToken":99,"progress":1}'))

    assert writer.take() == []


def test_a_servers_question_becomes_a_request_and_its_answer_goes_back() -> None:
    writer, asked = FakeReplyWriter(), FakeQuestion("sampling/createMessage", b'{"maxTokens":1}')
    session = session_on(writer)
    session.apply(SessionEvent.INITIALIZED)
    made, _ = exchange(by=caller(session=session), writer=writer)

    deliver_legacy(made, NeedInput(asked.question))

    assert writer.take_one() == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "sampling/createMessage",
        "params": {"maxTokens": 1},
    }
    assert made.questions == (asked.question,)
    session.on_answer(Result(b"1", b'{"role":"assistant"}'))
    session.on_answer(Result(b"1", b'{"role":"again"}'))
    assert asked.answers == [Result(b"1", b'{"role":"assistant"}')]


def test_a_client_without_a_session_is_never_asked() -> None:
    writer, asked = FakeReplyWriter(), FakeQuestion()
    made, _ = exchange(writer=writer)

    deliver_legacy(made, NeedInput(asked.question))

    assert writer.take() == []
    assert asked.error["code"] == -32601


def test_answers_to_nothing_are_dropped() -> None:
    writer, asked = FakeReplyWriter(), FakeQuestion()
    session = session_on(writer)
    session.ask(asked.question)

    for id in (b'"1"', b"2", b"-1", b"1" * 40, None):
        session.on_answer(Failure(id, b"{}"))

    assert asked.answers == []


def test_a_question_that_is_withdrawn_is_cancelled_with_its_reason_and_takes_no_answer() -> None:
    writer, first, second = FakeReplyWriter(), FakeQuestion(params=None), FakeQuestion(params=None)
    session = session_on(writer)
    session.apply(SessionEvent.INITIALIZED)
    session.ask(first.question)
    session.ask(second.question)
    writer.take()

    first.question.withdraw(b'"late"')
    second.question.withdraw()
    session.on_answer(Result(b"1", b"{}"))

    assert [frame["params"] for frame in writer.take()] == [
        {"requestId": 1, "reason": "late"},
        {"requestId": 2},
    ]
    assert first.answers == []


def test_a_question_that_was_answered_is_not_cancelled_afterwards() -> None:
    writer, asked = FakeReplyWriter(), FakeQuestion()
    session = session_on(writer)
    session.apply(SessionEvent.INITIALIZED)
    session.ask(asked.question)
    session.on_answer(Result(b"1", b"{}"))
    writer.take()

    assert asked.question.on_withdrawn is not None
    asked.question.on_withdrawn(None)

    assert writer.take() == []


def test_a_long_answer_has_a_token_of_ours_and_its_progress_finds_the_question() -> None:
    progress: list[bytes] = []
    writer, asked, plain = (
        FakeReplyWriter(),
        FakeQuestion(on_progress=progress.append),
        FakeQuestion(),
    )
    session = session_on(writer)
    session.apply(SessionEvent.INITIALIZED)
    session.ask(asked.question)
    session.ask(plain.question)

    assert [frame["params"] for frame in writer.take()] == [{"_meta": {"progressToken": 1}}, {}]
    for token in (b"1", b"2", b"3", b'"1"', b"null"):
        session.on_progress(b'{"progressToken":%b,"progress":1}' % token)
    session.on_progress(b"{}")
    assert progress == [b'{"progressToken":1,"progress":1}']


def test_news_wait_until_the_handshake_is_complete() -> None:
    writer = FakeReplyWriter()
    session = opening_on(writer)

    session.notify("notifications/tools/list_changed", None)
    assert writer.take() == []

    session.apply(SessionEvent.INITIALIZED)
    session.notify("notifications/tools/list_changed", None)
    assert writer.take_one()["method"] == "notifications/tools/list_changed"

    session.apply(SessionEvent.CLOSE)
    session.notify("notifications/tools/list_changed", None)
    assert session.state is SessionState.CLOSED
    assert writer.take() == []


def test_questions_wait_until_the_handshake_is_complete() -> None:
    writer, kept, withdrawn = FakeReplyWriter(), FakeQuestion("roots/list", None), FakeQuestion()
    session = opening_on(writer)
    session.ask(kept.question)
    session.ask(withdrawn.question)
    assert writer.take() == []

    withdrawn.question.withdraw()
    session.apply(SessionEvent.INITIALIZED)

    assert [frame["method"] for frame in writer.take()] == ["roots/list"]


def test_results_in_a_session_are_downgraded_to_its_revision() -> None:
    writer = FakeReplyWriter()
    session = session_on(writer, "2024-11-05")
    made, _ = exchange(by=caller("2024-11-05", session), writer=writer)

    deliver_legacy(made, Answered(b'{"content":[],"structuredContent":[1]}'))

    assert writer.take_one()["result"] == {"content": [{"type": "text", "text": "[1]"}]}


def test_questions_to_a_client_whose_input_ended_are_answered() -> None:
    writer, before, after, early = FakeReplyWriter(), FakeQuestion(), FakeQuestion(), FakeQuestion()
    session, opening = session_on(writer), opening_on(writer)
    session.ask(before.question)
    opening.ask(early.question)
    writer.take()

    session.close_input()
    session.ask(after.question)
    opening.close_input()

    assert (
        before.error
        == after.error
        == early.error
        == {"code": -32000, "message": "The client has disconnected"}
    )
    assert writer.take() == []


def test_results_without_a_session_are_downgraded_to_the_revision() -> None:
    writer = FakeReplyWriter()
    made, _ = exchange(by=caller("2025-03-26"), writer=writer)

    deliver_legacy(made, Answered(b'{"content":[{"type":"resource_link","uri":"a:b"}]}'))

    assert writer.take_one()["result"] == {"content": [{"type": "text", "text": "a:b"}]}


def test_a_question_is_downgraded_to_the_revision_or_refused() -> None:
    writer = FakeReplyWriter()
    session = session_on(writer, "2025-06-18")
    form = FakeQuestion(params=b'{"mode":"form","message":"m"}')
    address = FakeQuestion(params=b'{"mode":"url","message":"m","url":"https://e.com"}')

    session.ask(form.question)
    session.ask(address.question)

    assert writer.take_one()["params"] == {"message": "m"}
    assert address.error["code"] == -32602
    assert "2025-06-18" in address.error["message"]


def test_progress_is_delivered_as_it_came_even_if_it_does_not_increase() -> None:
    writer = FakeReplyWriter()
    made, _ = exchange(writer=writer)
    made.progress_token = b"7"

    for progress in ("1", "2.5", "2.5", "1", '{"percentage":50}', '{"percentage":50}', "3"):
        deliver_legacy(made, Progress(f'{{"progressToken":99,"progress":{progress}}}'.encode()))

    events = [frame["params"]["progress"] for frame in writer.take()]
    assert events == [1, 2.5, 2.5, 1, {"percentage": 50}, {"percentage": 50}, 3]


# The record.


@pytest.mark.parametrize("relayed", [True, False])
def test_a_question_is_recorded_as_it_was_put_and_answered(relayed: bool) -> None:
    writer, asked = (
        FakeReplyWriter(),
        FakeQuestion("elicitation/create", b'{"mode":"form","message":"?"}'),
    )
    session = session_on(writer, "2025-06-18")
    made, _ = exchange(by=caller(session=session), writer=writer)
    made.deliver = deliver_legacy
    made.transcript = transcript = Transcript(clock=lambda: 0.0, keeps_payloads=True)
    asked.question.in_transcript = relayed

    made.emit(NeedInput(asked.question))
    session.on_answer(Result(b"1", b'{"action":"decline"}'))
    session.on_answer(Result(b"1", b'{"action":"accept"}'))

    assert [(each.kind, each.side, each.payload, each.forwarded) for each in transcript.frames] == [
        ("server-request", "client", b'{"message":"?"}', relayed),
        ("client-response", "client", b'{"action":"decline"}', False),
    ]
    assert asked.question.answered_by_client


def test_a_question_that_was_not_sent_is_not_recorded_as_answered() -> None:
    writer, asked = FakeReplyWriter(), FakeQuestion("elicitation/create", b"{}")
    made, _ = exchange(writer=writer)
    made.deliver = deliver_legacy
    made.transcript = transcript = Transcript(clock=lambda: 0.0, keeps_payloads=True)

    made.emit(NeedInput(asked.question))

    assert transcript.frames == []
    assert not asked.question.answered_by_client


def test_events_are_recorded_on_both_sides() -> None:
    made, _ = exchange(writer=FakeReplyWriter())
    made.progress_token, made.deliver = b'"mine"', deliver_legacy
    made.transcript = transcript = Transcript(clock=lambda: 0.0, keeps_payloads=True)

    made.emit(Progress(b'{"progressToken":9,"progress":1}'))
    made.emit(Progress(b'{"progressToken":9,"progress":1}'))
    made.emit(Log(b'{"level":"info","logger":"s"}', b'{"level":"info"}'))

    assert [(each.side, each.payload) for each in transcript.frames] == [
        ("server", b'{"progressToken":9,"progress":1}'),
        ("client", b'{"progressToken":"mine","progress":1}'),
        ("server", b'{"progressToken":9,"progress":1}'),
        ("client", b'{"progressToken":"mine","progress":1}'),
        ("server", b'{"level":"info"}'),
        ("client", b'{"level":"info","logger":"s"}'),
    ]
