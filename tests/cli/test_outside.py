"""A legacy session over HTTP, in front of a server that is played."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from anyport.cli.caller import Caller, ErrorAnswer
from anyport.cli.ending import CommandFailed
from anyport.cli.options import Given
from anyport.cli.outside import outside
from anyport.cli.reach import Reach
from anyport.cli.target import read_target
from tests.cli.played_http import Asked, PlayedServer, Reply, answer, played, stream

ACCEPTED = Reply(status=202)
OPENED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x"}}


def opening(asked: Asked) -> Reply | None:
    """What every server answers: the handshake, and the end."""
    if asked.verb == "DELETE":
        return Reply(status=204)
    if asked.verb == "POST" and asked.body.get("method") == "initialize":
        return answer(asked, OPENED, Mcp_Session_Id="the-session")
    if asked.verb == "POST" and "id" not in asked.body:
        return ACCEPTED
    return None


def converse(
    play: Callable[[Asked], Reply],
    talk: Callable[[Caller], Awaitable[Any]],
    **listeners: Any,
) -> tuple[Any, PlayedServer]:
    """Open a session, talk, close it: what came of it, and what the server was asked."""

    async def visit(url: str) -> Any:
        reach = Reach(read_target(Given(url=url), {}))
        caller = Caller(outside(reach), **listeners)
        try:
            await caller.open()
            try:
                return await talk(caller)
            finally:
                await caller.close()
        finally:
            reach.close()

    with played(lambda asked: opening(asked) or play(asked)) as server:
        return asyncio.run(visit(server.url)), server


def call(caller: Caller) -> Awaitable[bytes]:
    return caller.request("tools/call", {"name": "x"})


def test_a_session_is_opened_used_and_ended() -> None:
    result, server = converse(lambda asked: answer(asked, {"tools": []}), call)

    assert json.loads(result) == {"tools": []}
    said = [(each.verb, (each.body or {}).get("method")) for each in server.asked]
    assert said == [
        ("POST", "initialize"),
        ("POST", "notifications/initialized"),
        ("POST", "tools/call"),
        ("DELETE", None),
    ]
    first, *others = server.asked
    assert "mcp-session-id" not in first.fields
    assert "mcp-protocol-version" not in first.fields
    for each in others:
        assert each.fields["mcp-session-id"] == "the-session"
        assert each.fields["mcp-protocol-version"] == "2025-11-25"
    assert first.fields["accept"] == "application/json, text/event-stream"


def test_progress_and_the_answer_may_come_on_a_stream() -> None:
    told: list[dict[str, Any]] = []

    def play(asked: Asked) -> Reply:
        token = asked.body["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1}
        return stream(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": params},
            {"jsonrpc": "2.0", "id": asked.body["id"], "result": {"done": True}},
        )

    result, _ = converse(play, lambda caller: caller.request("tools/call", {}, told.append))

    assert json.loads(result) == {"done": True}
    assert [params["progress"] for params in told] == [1]


def test_a_question_on_the_stream_is_answered_with_a_post() -> None:
    answered = threading.Event()
    question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {}}

    def play(asked: Asked) -> Reply:
        if "method" not in asked.body:
            answered.set()
            return ACCEPTED
        return stream(question, answered, {"jsonrpc": "2.0", "id": asked.body["id"], "result": {}})

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        return {"action": "decline"}

    _, server = converse(play, call, ask=ask)

    assert server.asked[0].body["params"]["capabilities"] == {"elicitation": {}}
    (told,) = (each.body for each in server.asked if each.body and "method" not in each.body)
    assert told == {"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}


def test_log_messages_that_belong_to_no_request_have_a_stream_of_their_own() -> None:
    logged: list[dict[str, Any]] = []
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "hm"}}

    def play(asked: Asked) -> Reply:
        return stream(log) if asked.verb == "GET" else answer(asked, {})

    _, server = converse(play, call, on_log=logged.append, log_level="debug")

    assert logged == [{"data": "hm"}]
    listening = next(each for each in server.asked if each.verb == "GET")
    assert listening.fields["accept"] == "text/event-stream"
    assert listening.fields["mcp-session-id"] == "the-session"


def test_a_server_without_such_a_stream_will_do() -> None:
    def play(asked: Asked) -> Reply:
        return Reply(status=405) if asked.verb == "GET" else answer(asked, {})

    result, _ = converse(play, call, on_log=lambda _: None, log_level="debug")
    assert result == b"{}"


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_error_with_an_id_is_the_answer_whatever_the_status(status: int) -> None:
    def play(asked: Asked) -> Reply:
        error = {"code": -7, "message": "Not today"}
        message = {"jsonrpc": "2.0", "id": asked.body["id"], "error": error}
        return Reply(status=status, body=json.dumps(message).encode())

    with pytest.raises(ErrorAnswer, match="Not today"):
        converse(play, call)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (ACCEPTED, "is no MCP server: it answered with HTTP 202"),
        (Reply(status=500, body=b"<h1>", media="text/html"), "HTTP 500 and text/html"),
        (Reply(status=503, body=b'{"error":{"code":-32000,"message":"Later"}}'), "503): Later"),
        (Reply(body=b"{}"), "what came back is no message of MCP"),
        (stream(), "closed the connection before it had answered"),
        (Reply(media="text/event-stream", body=b"data: nonsense\n\n"), "no message of MCP"),
    ],
)
def test_a_request_that_gets_no_answer_fails_with_words(reply: Reply, told: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        converse(lambda _: reply, call)
    assert told in str(caught.value)


def test_a_cancelled_call_is_cancelled_at_the_gateway_before_the_session_ends() -> None:
    cancelled = threading.Event()

    def play(asked: Asked) -> Reply:
        return stream(cancelled)

    async def talk(caller: Caller) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await call(caller)

    _, server = converse(play, talk)
    cancelled.set()

    said = [(each.verb, (each.body or {}).get("method")) for each in server.asked]
    assert said.index(("POST", "notifications/cancelled")) < said.index(("DELETE", None))
