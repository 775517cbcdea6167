"""A legacy client hears what happened in the words of a session, and is asked with requests."""

import json
from itertools import count
from typing import Any

import pytest

from anyport.protocol.capability import NOTHING, ClientCapabilities
from anyport.protocol.errors import Fault, not_running
from anyport.protocol.exchange import (
    Answered,
    Failed,
    Happening,
    Log,
    NeedInput,
    Notice,
    Progress,
    Refused,
)
from anyport.protocol.legacy_front import Description, LegacySession, initialize, tell_legacy
from anyport.protocol.passage import Passage
from anyport.protocol.revision import REVISIONS, Revision
from anyport.protocol.session import State, Step
from anyport.wire.frame import Failure, Request, Result
from tests.protocol.fakes import IDENTITY, Asked, Wire, caller, exchange


def opening_on(wire: Wire, revision: str = "2025-11-25") -> LegacySession:
    """A session whose client has not confirmed the handshake."""
    return LegacySession(
        id="s",
        profile="default",
        revision=REVISIONS[revision],
        capabilities=NOTHING,
        client=None,
        teller=wire,
        transport="stdio",
        question_ids=count(1),
    )


def session_on(wire: Wire, revision: str = "2025-11-25") -> LegacySession:
    session = opening_on(wire, revision)
    session.take(Step.INITIALIZED)
    return session


def opened(params: Any, instructions: str | None = None) -> tuple[Any, list[Any]]:
    """What `initialize` gives, and what it told the one who opens the session."""
    told: list[Any] = []

    def handshake(
        revision: Revision, capabilities: ClientCapabilities, client: bytes | None
    ) -> Description:
        told.extend([revision.name, capabilities.raw, client])
        return Description(IDENTITY, instructions)

    raw = None if params is None else json.dumps(params).encode()
    outcome = initialize(Request(b"1", "initialize", raw), handshake)
    return (outcome if isinstance(outcome, Fault) else json.loads(outcome)), told


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25")],
)
def test_the_handshake_agrees_on_a_revision_and_presents_the_gateway(
    asked: str, agreed: str
) -> None:
    result, told = opened(
        {"protocolVersion": asked, "capabilities": {"roots": {}}, "clientInfo": {"name": "c"}}
    )

    assert result["protocolVersion"] == agreed
    assert result["serverInfo"] == json.loads(IDENTITY)
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert "instructions" not in result
    assert told == [agreed, b'{"roots": {}}', b'{"name": "c"}']


def test_the_handshake_takes_a_client_that_says_little_and_gives_instructions() -> None:
    result, told = opened({"protocolVersion": "2025-03-26"}, "Use it well.")

    assert result["instructions"] == "Use it well."
    assert told == ["2025-03-26", b"{}", None]


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
    outcome, told = opened(params)

    assert isinstance(outcome, Fault)
    assert outcome.code(REVISIONS["2025-11-25"]) == -32602
    assert told == []


@pytest.mark.parametrize(
    ("happening", "frame"),
    [
        (Answered(b'{"n":1}'), {"id": "x", "result": {"n": 1}}),
        (
            Refused(b'{"code":-5,"message":"m"}'),
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
        (Notice("a/b", b'{"c":1}'), {"method": "a/b", "params": {"c": 1}}),
    ],
)
def test_what_happens_is_told_as_it_is(happening: Happening, frame: dict[str, Any]) -> None:
    wire = Wire()
    made, _ = exchange(id=b'"x"', teller=wire)

    tell_legacy(made, happening)

    assert wire.take_one() == {"jsonrpc": "2.0", **frame}


@pytest.mark.parametrize("token", [b'"7"', b"7", b'""', b"0"])
def test_progress_carries_the_clients_own_token_in_its_type(token: bytes) -> None:
    wire = Wire()
    made, _ = exchange(teller=wire)
    made.progress_token = token

    tell_legacy(made, Progress(b'{"progressToken":99,"progress":0.50}'))

    assert b'"params":{"progressToken":%b,"progress":0.50}' % token in wire.frames[0]


def test_progress_nobody_asked_for_is_not_told() -> None:
    wire = Wire()
    made, _ = exchange(teller=wire)

    tell_legacy(made, Progress(b'{"progressToken":99,"progress":1}'))

    assert wire.take() == []


def test_a_servers_question_becomes_a_request_and_its_answer_goes_back() -> None:
    wire, asked = Wire(), Asked("sampling/createMessage", b'{"maxTokens":1}')
    session = session_on(wire)
    session.take(Step.INITIALIZED)
    made, _ = exchange(by=caller(session=session), teller=wire)

    tell_legacy(made, NeedInput(asked.question))

    assert wire.take_one() == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "sampling/createMessage",
        "params": {"maxTokens": 1},
    }
    assert made.questions == (asked.question,)
    session.answer(Result(b"1", b'{"role":"assistant"}'))
    session.answer(Result(b"1", b'{"role":"again"}'))
    assert asked.answers == [Result(b"1", b'{"role":"assistant"}')]


def test_a_client_without_a_session_is_never_asked() -> None:
    wire, asked = Wire(), Asked()
    made, _ = exchange(teller=wire)

    tell_legacy(made, NeedInput(asked.question))

    assert wire.take() == []
    assert asked.error["code"] == -32601


def test_answers_to_nothing_are_dropped() -> None:
    wire, asked = Wire(), Asked()
    session = session_on(wire)
    session.ask(asked.question)

    for id in (b'"1"', b"2", b"-1", b"1" * 40, None):
        session.answer(Failure(id, b"{}"))

    assert asked.answers == []


def test_a_question_that_is_withdrawn_is_cancelled_with_its_reason_and_takes_no_answer() -> None:
    wire, first, second = Wire(), Asked(params=None), Asked(params=None)
    session = session_on(wire)
    session.take(Step.INITIALIZED)
    session.ask(first.question)
    session.ask(second.question)
    wire.take()

    first.question.withdraw(b'"late"')
    second.question.withdraw()
    session.answer(Result(b"1", b"{}"))

    assert [frame["params"] for frame in wire.take()] == [
        {"requestId": 1, "reason": "late"},
        {"requestId": 2},
    ]
    assert first.answers == []


def test_a_question_that_was_answered_is_not_cancelled_afterwards() -> None:
    wire, asked = Wire(), Asked()
    session = session_on(wire)
    session.take(Step.INITIALIZED)
    session.ask(asked.question)
    session.answer(Result(b"1", b"{}"))
    wire.take()

    assert asked.question.on_withdrawn is not None
    asked.question.on_withdrawn(None)

    assert wire.take() == []


def test_a_long_answer_has_a_token_of_ours_and_its_progress_finds_the_question() -> None:
    progress: list[bytes] = []
    wire, asked, plain = Wire(), Asked(on_progress=progress.append), Asked()
    session = session_on(wire)
    session.take(Step.INITIALIZED)
    session.ask(asked.question)
    session.ask(plain.question)

    assert [frame["params"] for frame in wire.take()] == [{"_meta": {"progressToken": 1}}, {}]
    for token in (b"1", b"2", b"3", b'"1"', b"null"):
        session.progress(b'{"progressToken":%b,"progress":1}' % token)
    session.progress(b"{}")
    assert progress == [b'{"progressToken":1,"progress":1}']


def test_news_wait_until_the_handshake_is_complete() -> None:
    wire = Wire()
    session = opening_on(wire)

    session.notify("notifications/tools/list_changed", None)
    assert wire.take() == []

    session.take(Step.INITIALIZED)
    session.notify("notifications/tools/list_changed", None)
    assert wire.take_one()["method"] == "notifications/tools/list_changed"

    session.take(Step.CLOSE)
    session.notify("notifications/tools/list_changed", None)
    assert session.state is State.CLOSED
    assert wire.take() == []


def test_questions_wait_until_the_handshake_is_complete() -> None:
    wire, kept, withdrawn = Wire(), Asked("roots/list", None), Asked()
    session = opening_on(wire)
    session.ask(kept.question)
    session.ask(withdrawn.question)
    assert wire.take() == []

    withdrawn.question.withdraw()
    session.take(Step.INITIALIZED)

    assert [frame["method"] for frame in wire.take()] == ["roots/list"]


def test_a_session_of_an_old_revision_is_told_results_in_its_words() -> None:
    wire = Wire()
    session = session_on(wire, "2024-11-05")
    made, _ = exchange(by=caller("2024-11-05", session), teller=wire)

    tell_legacy(made, Answered(b'{"content":[],"structuredContent":[1]}'))

    assert wire.take_one()["result"] == {"content": [{"type": "text", "text": "[1]"}]}


def test_nobody_waits_for_the_answers_of_a_client_that_says_no_more() -> None:
    wire, before, after, early = Wire(), Asked(), Asked(), Asked()
    session, opening = session_on(wire), opening_on(wire)
    session.ask(before.question)
    opening.ask(early.question)
    wire.take()

    session.go_deaf()
    session.ask(after.question)
    opening.go_deaf()

    assert (
        before.error
        == after.error
        == early.error
        == {"code": -32000, "message": "The client has disconnected"}
    )
    assert wire.take() == []


def test_a_client_without_a_session_is_told_results_in_the_words_of_its_revision() -> None:
    wire = Wire()
    made, _ = exchange(by=caller("2025-03-26"), teller=wire)

    tell_legacy(made, Answered(b'{"content":[{"type":"resource_link","uri":"a:b"}]}'))

    assert wire.take_one()["result"] == {"content": [{"type": "text", "text": "a:b"}]}


def test_a_question_is_asked_in_the_words_of_the_sessions_revision_or_refused() -> None:
    wire = Wire()
    session = session_on(wire, "2025-06-18")
    form = Asked(params=b'{"mode":"form","message":"m"}')
    address = Asked(params=b'{"mode":"url","message":"m","url":"https://e.com"}')

    session.ask(form.question)
    session.ask(address.question)

    assert wire.take_one()["params"] == {"message": "m"}
    assert address.error["code"] == -32602
    assert "2025-06-18" in address.error["message"]


def test_progress_that_does_not_rise_is_not_told() -> None:
    wire = Wire()
    made, _ = exchange(teller=wire)
    made.progress_token = b"7"

    for progress in ("1", "2.5", "2.5", "1", '{"percentage":50}', '{"percentage":50}', "3"):
        tell_legacy(made, Progress(f'{{"progressToken":99,"progress":{progress}}}'.encode()))

    told = [frame["params"]["progress"] for frame in wire.take()]
    assert told == [1, 2.5, {"percentage": 50}, {"percentage": 50}, 3]


# What is recorded.


@pytest.mark.parametrize("relayed", [True, False])
def test_a_question_is_recorded_as_it_was_put_and_answered(relayed: bool) -> None:
    wire, asked = Wire(), Asked("elicitation/create", b'{"mode":"form","message":"?"}')
    session = session_on(wire, "2025-06-18")
    made, _ = exchange(by=caller(session=session), teller=wire)
    made.tell = tell_legacy
    made.passage = passage = Passage(clock=lambda: 0.0, keeps=True)
    asked.question.relayed = relayed

    made.happen(NeedInput(asked.question))
    session.answer(Result(b"1", b'{"action":"decline"}'))
    session.answer(Result(b"1", b'{"action":"accept"}'))

    assert [(each.kind, each.side, each.payload, each.twin) for each in passage.crossings] == [
        ("server-request", "client", b'{"message":"?"}', relayed),
        ("client-response", "client", b'{"action":"decline"}', False),
    ]
    assert asked.question.heard


def test_a_question_that_nobody_was_asked_is_not_recorded_as_the_clients() -> None:
    wire, asked = Wire(), Asked("elicitation/create", b"{}")
    made, _ = exchange(teller=wire)
    made.tell = tell_legacy
    made.passage = passage = Passage(clock=lambda: 0.0, keeps=True)

    made.happen(NeedInput(asked.question))

    assert passage.crossings == []
    assert not asked.question.heard


def test_what_is_told_on_the_way_is_recorded_in_the_words_of_either_side() -> None:
    made, _ = exchange(teller=Wire())
    made.progress_token, made.tell = b'"mine"', tell_legacy
    made.passage = passage = Passage(clock=lambda: 0.0, keeps=True)

    made.happen(Progress(b'{"progressToken":9,"progress":1}'))
    made.happen(Progress(b'{"progressToken":9,"progress":1}'))  # It has not come any further.
    made.happen(Log(b'{"level":"info","logger":"s"}', b'{"level":"info"}'))

    assert [(each.side, each.payload) for each in passage.crossings] == [
        ("server", b'{"progressToken":9,"progress":1}'),
        ("client", b'{"progressToken":"mine","progress":1}'),
        ("server", b'{"progressToken":9,"progress":1}'),
        ("server", b'{"level":"info"}'),
        ("client", b'{"level":"info","logger":"s"}'),
    ]
