"""Streamable HTTP with sessions, in the order in which a client meets it."""

from collections.abc import Iterator

import pytest

from tests import schema
from tests.peers.driver import EVERYTHING, LEGACY, Json
from tests.peers.http_driver import INITIALIZE, Event, HttpDemo, Response, Session, legacy

STREAMABLE = (LEGACY[1], LEGACY[3])
SLOW: Json = {"name": "slow", "arguments": {"seconds": 0.01, "steps": 2}}


@pytest.fixture(scope="module")
def demo() -> Iterator[HttpDemo]:
    with HttpDemo() as demo:
        yield demo
        assert "fault" not in demo.stderr()


@pytest.fixture(scope="module", params=STREAMABLE)
def session(request: pytest.FixtureRequest, demo: HttpDemo) -> Session:
    return Session(demo, request.param, EVERYTHING)


@pytest.mark.parametrize("revision", LEGACY)
def test_a_handshake_begins_a_session(demo: HttpDemo, revision: str) -> None:
    response = demo.post(legacy(1, "initialize", {**INITIALIZE, "protocolVersion": revision}))

    name = response.headers["Mcp-Session-Id"]
    assert (response.status, response.kind) == (200, "application/json")
    # "The session ID MUST only contain visible ASCII characters" (basic/transports).
    assert name.isascii() and name.isalnum() and len(name) >= 32
    assert response.message()["result"]["protocolVersion"] == revision


def test_what_needs_no_stream_is_answered_with_json(session: Session) -> None:
    for method in ("ping", "tools/list", "prompts/list", "resources/list"):
        assert session.request(method).kind == "application/json"
        session.result(method)


def test_progress_and_logs_come_on_the_stream_of_their_request(session: Session) -> None:
    response = session.request("tools/call", {**SLOW, "_meta": {"progressToken": "t"}})

    assert response.kind == "text/event-stream"
    assert response.headers["Cache-Control"] == "no-cache, no-transform"
    messages = response.messages()
    methods = [message.get("method") for message in messages]
    assert methods == [
        "notifications/message",
        "notifications/progress",
        "notifications/progress",
        "notifications/message",
        None,
    ]
    for message in messages[:-1]:
        schema.check_sent(session.revision, message)
    schema.check_result(session.revision, "tools/call", messages[-1]["result"])


@pytest.mark.parametrize(
    ("tool", "asks", "answer"),
    [
        ("elicit", "elicitation/create", {"action": "decline"}),
        ("roots", "roots/list", {"roots": []}),
    ],
)
def test_questions_come_on_the_stream_of_the_call_that_asks(
    session: Session, tool: str, asks: str, answer: Json
) -> None:
    call = session.call(tool)
    if asks == "elicitation/create" and session.revision == "2025-03-26":
        assert call.message()["result"]["isError"] is True
        return
    question = call.wait_method(asks)
    schema.check_sent(session.revision, question)

    assert session.reply(question["id"], answer).status == 202

    assert call.message()["result"]["content"][0]["type"] == "text"


def test_only_newer_streams_begin_with_an_empty_event(session: Session) -> None:
    first, *others = session.request("tools/call", SLOW).events()

    assert all(event.id and event.data for event in others)
    if session.revision == "2025-11-25":
        assert (first.data, first.retry) == ("", "100")
        assert first.id is not None and first.id.endswith(".0")
    else:
        assert (first.data != "", first.retry) == (True, None)


def test_a_batch_is_answered_in_the_one_revision_that_has_them(session: Session) -> None:
    batch = [legacy("a", "ping"), legacy("b", "no/such"), 7]
    response = session.post(batch)

    if session.revision != "2025-03-26":
        assert (response.status, response.message()["error"]["code"]) == (400, -32600)
        return
    assert response.kind == "application/json"
    answers = response.message()
    assert [(each["id"], "result" in each) for each in answers] == [
        ("a", True),
        ("b", False),
        (None, False),
    ]
    assert session.post([legacy("i", "initialize", INITIALIZE)]).message()[0]["error"]
    assert session.post([{"jsonrpc": "2.0", "method": "notifications/initialized"}]).status == 202
    streamed = session.post([legacy("a", "ping"), legacy("s", "tools/call", SLOW)])
    assert streamed.kind == "text/event-stream"
    assert {each["id"] for each in streamed.messages() if "id" in each} == {"a", "s"}


def test_changes_come_on_the_stream_of_the_session_and_on_no_other(demo: HttpDemo) -> None:
    session, other = Session(demo), Session(demo)
    session.result("resources/subscribe", {"uri": "demo://counter"})
    stream, others = session.get(), other.get()

    for tool in ("touch", "grow", "shrink"):
        assert session.call(tool).kind == "application/json"

    for _ in range(2):
        other.call("log", level="alert", text="x").close()
    told = [event.message["method"] for event in take(stream, 4)[1:]]
    assert told == ["notifications/resources/updated", *["notifications/tools/list_changed"] * 2]
    told = [event.message["method"] for event in take(others, 3)[1:]]
    assert told == ["notifications/tools/list_changed"] * 2


def test_a_session_has_one_stream_at_a_time_and_nothing_is_lost_between(demo: HttpDemo) -> None:
    session = Session(demo, "2025-06-18")
    session.call("grow")  # Before there is a stream at all.
    stream = session.get()
    seen = stream.event()
    assert session.get().status == 409
    session.call("shrink")
    again = session.get(after=seen.id if seen else None)

    assert stream.events()[1:] == [], "the old response has ended"
    event = again.event()
    assert event is not None and event.message["method"] == "notifications/tools/list_changed"


def test_a_client_that_hangs_up_has_cancelled_nothing(demo: HttpDemo) -> None:
    session = Session(demo, capabilities=EVERYTHING)
    call = session.call("roots")
    priming, question = take(call, 2)
    call.close()

    resumed = session.get(after=priming.id)
    assert resumed.event() == question, "only what was missed comes again"
    session.reply(question.message["id"], {"roots": []})
    answer = resumed.event()
    assert answer is not None and "result" in answer.message
    assert resumed.event() is None

    late = session.get(after=question.id)
    assert late.events() == [answer], "even behind the end"


def test_a_cancelled_call_ends_its_stream_without_an_answer(demo: HttpDemo) -> None:
    session = Session(demo, capabilities=EVERYTHING)
    call = session.post(legacy("c", "tools/call", {"name": "roots"}))
    priming, question = take(call, 2)

    session.notify("notifications/cancelled", {"requestId": "c"})

    (withdrawn,) = call.messages()
    assert withdrawn["params"]["requestId"] == question.message["id"]
    assert session.get(after=priming.id).status == 400, "nobody need come back for it"


def test_the_end_of_a_session_is_the_end_of_its_streams_and_calls(demo: HttpDemo) -> None:
    session = Session(demo, capabilities=EVERYTHING)
    stream, call = session.get(), session.call("roots")
    take(call, 2)

    assert session.delete().status == 204

    assert [event.data for event in stream.events()] == [""]
    assert [message["method"] for message in call.messages()] == ["notifications/cancelled"]
    assert session.request("ping").status == 404
    assert session.get().status == 404
    assert session.delete().status == 404


def test_roots_are_asked_for_on_the_stream_of_the_session() -> None:
    with HttpDemo("--ask-roots") as demo:
        session = Session(demo, "2025-06-18", EVERYTHING)
        stream = session.get()
        question = stream.wait_method("roots/list")

        session.reply(question["id"], {"roots": [{"uri": "file:///here"}]})

        demo.wait_stderr("file:///here")


def test_a_server_of_json_alone_has_no_streams() -> None:
    with HttpDemo("--json-only") as demo:
        session = Session(demo, capabilities=EVERYTHING)

        assert session.request("tools/call", SLOW).kind == "application/json"
        assert "no stream" in session.call("roots").message()["result"]["content"][0]["text"]
        session.call("grow").close()
        refused = session.get()
        assert (refused.status, refused.headers["Allow"]) == (405, "POST, DELETE")
        listen = demo.ask_modern("subscriptions/listen", {"notifications": {}})
        assert (listen.status, listen.message()["error"]["code"]) == (404, -32601)
        discovered = demo.ask_modern("server/discover").message()["result"]
        assert discovered["capabilities"]["tools"] == {}


def test_a_server_of_streams_alone_answers_requests_with_them() -> None:
    with HttpDemo("--sse-only") as demo:
        begun = demo.post(legacy(1, "initialize", INITIALIZE))
        assert begun.kind == "text/event-stream"
        assert begun.headers["Mcp-Session-Id"] is not None
        assert [event.data == "" for event in begun.events()] == [True, False]

        session = Session(demo)
        assert session.request("ping").kind == "text/event-stream"
        assert session.request("no/such").kind == "text/event-stream"
        waiting = session.call("slow", seconds=60)
        assert waiting.event() is not None, "it begins before there is anything to say"
        answer = demo.ask_modern("tools/list")
        assert (answer.kind, len(answer.events())) == ("text/event-stream", 1)
        assert demo.ask_modern("no/such").status == 404


@pytest.mark.parametrize("revision", STREAMABLE)
def test_a_dropped_stream_goes_on_where_it_was_dropped(revision: str) -> None:
    with HttpDemo("--drop-streams") as demo:
        session = Session(demo, revision)
        (first,) = session.request("tools/call", SLOW).events()

        *logs, answer = session.get(after=first.id).messages()

        primed = revision == "2025-11-25"
        assert (first.data == "", len(logs), "result" in answer) == (primed, 1 + primed, True)
        standalone = session.get()
        session.call("grow").close()
        (event,) = standalone.events()
        resumed = session.get(after=event.id)
        session.call("shrink").close()
        assert resumed.wait_method("notifications/tools/list_changed")


def test_a_session_can_be_lost() -> None:
    with HttpDemo("--lose-sessions", "2") as demo:
        session, other = Session(demo), Session(demo)
        stream = session.get()

        statuses = [session.request("ping").status for _ in range(4)]

        assert statuses == [200, 200, 404, 404]
        assert stream.events()[1:] == []
        assert other.request("ping").status == 200


def take(response: Response, count: int) -> list[Event]:
    events = [response.event() for _ in range(count)]
    return [event for event in events if event is not None]
