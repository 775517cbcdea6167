"""Which running gateway is asked."""

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from anyport.cli.connect.client import ErrorAnswer, GatewayClient
from anyport.cli.connect.http import (
    ApiClient,
    EventStreamReader,
    PathNotFound,
    Target,
    connect_over_http,
    error_message_of,
    read_target,
)
from anyport.cli.exit_codes import CommandFailed, WrongUsage
from anyport.cli.options import SharedOptions
from anyport.upstream.http.connection import HttpFailure, HttpFailureKind
from anyport.wire.http1 import read_response_head
from tests.cli.recorded_http import Asked, PlayedServer, Reply, answer, played, stream
from tests.harness import WAIT_SECONDS
from tests.rig.toxic_proxy import deserted


def target(url: str, profile: str | None = None, **environ: str) -> Target:
    return read_target(SharedOptions(url=url, profile=profile), environ)


@pytest.mark.parametrize(
    ("url", "profile", "endpoint", "root"),
    [
        ("http://127.0.0.1:8640", None, "http://127.0.0.1:8640/mcp", ""),
        ("http://127.0.0.1:8640/", None, "http://127.0.0.1:8640/mcp", ""),
        ("127.0.0.1:8640", None, "http://127.0.0.1:8640/mcp", ""),
        ("localhost:8640/mcp", None, "http://localhost:8640/mcp", ""),
        ("http://[::1]:8640/mcp/", None, "http://[::1]:8640/mcp", ""),
        ("http://127.0.0.1:8640", "dev", "http://127.0.0.1:8640/mcp/dev", ""),
        ("http://127.0.0.1:8640/mcp", "dev", "http://127.0.0.1:8640/mcp/dev", ""),
        ("http://127.0.0.1:8640/mcp/dev", None, "http://127.0.0.1:8640/mcp/dev", ""),
        ("http://127.0.0.1:8640", "a/../b", "http://127.0.0.1:8640/mcp/a%2F..%2Fb", ""),
        ("https://example.com/tools/mcp/dev", None, "https://example.com/tools/mcp/dev", "/tools"),
        ("https://example.com/some/server", None, "https://example.com/some/server", ""),
    ],
)
def test_a_url_leads_to_an_endpoint(
    url: str, profile: str | None, endpoint: str, root: str
) -> None:
    found = target(url, profile)
    assert (str(found), found.root) == (endpoint, root)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (SharedOptions(url="ftp://x/"), "begins with http:// or https://"),
        (SharedOptions(url="http://user:pw@x/mcp"), "must not hold a user or password"),
        (SharedOptions(url="http://x/mcp/dev", profile="dev"), "names the profile 'dev'"),
        (SharedOptions(url="http://x/elsewhere", profile="dev"), "must end in /mcp"),
        (SharedOptions(url="http://x", config=(Path("a.toml"),)), "leave out --config"),
        (SharedOptions(url="http://x", state_dir=Path("s")), "leave out --state-dir"),
        (SharedOptions(url="http://x", token="two words"), "character that a bearer token cannot"),
        (
            SharedOptions(url="http://x", token="a\r\nHost: y"),
            "character that a bearer token cannot",
        ),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(given: SharedOptions, told: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        read_target(given, {})
    assert told in str(caught.value)
    assert "pw" not in str(caught.value)


def test_a_token_comes_from_the_option_or_the_environment_and_is_never_shown() -> None:
    assert target("http://x").token is None
    assert target("http://x", ANYPORT_TOKEN="").token is None
    assert target("http://x", ANYPORT_TOKEN="s3cret").token == "s3cret"
    options = SharedOptions(url="http://x", token="option")
    found = read_target(options, {"ANYPORT_TOKEN": "s3cret"})
    assert found.token == "option"
    assert "option" not in repr(found) + repr(options)


def test_a_head_names_host_and_token_and_pages_lie_beside_the_endpoint() -> None:
    found = target("http://x:81/a/mcp/dev", ANYPORT_TOKEN="s3cret")
    assert found.head("POST", Content_Type="application/json") == (
        b"POST /a/mcp/dev HTTP/1.1\r\nHost: x:81\r\n"
        b"Content-Type: application/json\r\nAuthorization: Bearer s3cret\r\n"
    )
    assert target("http://x/a/mcp").head("GET", "/api/v1").startswith(b"GET /a/api/v1 HTTP/1.1\r\n")


MISSING = b'{"status":404,"detail":"There is no profile \'x\' here"}'
PROBLEM = "application/problem+json"
STRANGE = (
    "is not an Anyport gateway: it has no /api/v1. "
    "If it is an MCP server, try 'anyport tools --url "
)


def fetch(url: str, token: str | None = None) -> bytes:
    async def get() -> bytes:
        api = ApiClient(read_target(SharedOptions(url=url, token=token), {}))
        try:
            return await api.get("/api/v1")
        finally:
            api.close()

    return asyncio.run(get())


def refused(reply: Reply, token: str | None = None) -> CommandFailed:
    with played(lambda _: reply) as server, pytest.raises(CommandFailed) as caught:
        fetch(server.url, token)
    return caught.value


def test_a_page_is_fetched_with_the_token() -> None:
    with played(lambda _: Reply(body=b"[1]")) as server:
        assert fetch(f"{server.url}/below/mcp", "s3cret") == b"[1]"
    (asked,) = server.asked
    assert (asked.verb, asked.path) == ("GET", "/below/api/v1")
    assert asked.fields["authorization"] == "Bearer s3cret"


def test_where_nothing_listens_it_says_so_and_what_to_do() -> None:
    with deserted() as port, pytest.raises(CommandFailed) as caught:
        fetch(f"http://127.0.0.1:{port}")
    assert f"cannot connect to http://127.0.0.1:{port}: " in str(caught.value)
    assert "Start one with 'anyport serve'" in str(caught.value)


def test_a_token_that_is_missing_or_wrong_is_told_apart() -> None:
    assert "pass it with --token or set ANYPORT_TOKEN" in str(refused(Reply(status=401)))
    wrong = str(refused(Reply(status=401), token="s3cret"))
    assert "does not accept this token" in wrong
    assert "s3cret" not in wrong


def test_what_is_not_there_can_be_told_from_other_failures() -> None:
    missing = refused(Reply(status=404, body=MISSING, media=PROBLEM))
    assert isinstance(missing, PathNotFound)
    assert str(missing) == "There is no profile 'x' here"
    html = refused(Reply(status=404, body=b"<h1>404</h1>", media="text/html"))
    assert isinstance(html, PathNotFound)
    assert STRANGE in str(html)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(body=b"<html>", media="text/html"), STRANGE),
        (
            Reply(status=400, body=b'{"detail":"No"}', media=PROBLEM),
            "refused the request (HTTP 400): No",
        ),
        (
            Reply(status=403, body=b'{"detail":"Not you"}'),
            "refused the request (HTTP 403): Not you",
        ),
        (
            Reply(status=503, body=b'{"detail":"Try later"}'),
            "refused the request (HTTP 503): Try later",
        ),
        (Reply(status=500), "is not an MCP server: it answered with HTTP 500 and application/json"),
        (Reply(media="text/event-stream"), STRANGE),
    ],
)
def test_other_replies_are_described(reply: Reply, told: str) -> None:
    assert told in str(refused(reply))


def test_a_connection_that_breaks_off_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        async def get() -> None:
            loop = asyncio.get_running_loop()
            server.setblocking(False)

            async def hang_up() -> None:
                connection, _ = await loop.sock_accept(server)
                connection.close()

            api = ApiClient(read_target(SharedOptions(url=f"http://127.0.0.1:{port}"), {}))
            async with asyncio.TaskGroup() as group:
                group.create_task(hang_up())
                with pytest.raises(CommandFailed, match="no answer from"):
                    await api.get("/")
            api.close()

        asyncio.run(get())


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"error":1}', b'{"detail":7}', b"{}"])
def test_a_body_that_says_nothing_is_quoted_by_nobody(body: bytes) -> None:
    assert error_message_of(body) is None


def test_what_a_stranger_says_is_short_and_harmless() -> None:
    assert error_message_of(b'{"detail":"\\u001b[2Jred"}') == "red"
    assert len(error_message_of(b'{"detail":"%b"}' % (b"x" * 9999)) or "") <= 300


TARGET = read_target(SharedOptions(url="http://127.0.0.1:1"), {})
HEAD = read_response_head(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")


def read_stream(scene: Any) -> None:
    async def whole() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await scene(EventStreamReader(TARGET))

    asyncio.run(whole())


def test_events_come_once_each_in_their_order() -> None:
    async def scene(reader: EventStreamReader) -> None:
        reader.on_stream(HEAD)
        await reader.wait_open()
        list(reader.on_stream_data(b"retry: 2000\n\ndata: 1\n\nda"))
        list(reader.on_stream_data(b"ta: 2\n\n"))
        assert [event.data for event in await reader.next_events()] == [b"1", b"2"]
        last = reader.on_stream_data(b"event: lost\ndata: 3\n\n")
        asyncio.get_running_loop().call_soon(list, last)
        [event] = await reader.next_events()
        assert (event.name, event.data) == ("lost", b"3")

    read_stream(scene)


def test_what_came_before_the_end_is_still_given() -> None:
    async def scene(reader: EventStreamReader) -> None:
        reader.on_stream(HEAD)
        list(reader.on_stream_data(b"data: 1\n\n"))
        reader.on_stream_closed(None)
        assert len(await reader.next_events()) == 1
        with pytest.raises(CommandFailed, match="closed the stream"):
            await reader.next_events()

    read_stream(scene)


def test_a_refusal_is_told_in_the_words_of_the_gateway() -> None:
    head = read_response_head(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\r\n"
    )

    async def scene(reader: EventStreamReader) -> None:
        reader.on_response(head, b'{"detail":"Too many follow"}')
        with pytest.raises(CommandFailed, match="Too many follow"):
            await reader.wait_open()

    read_stream(scene)


def test_nobody_there_is_told() -> None:
    async def scene(reader: EventStreamReader) -> None:
        reader.on_failure(HttpFailure(HttpFailureKind.CONNECT, "connection refused", sent=False))
        with pytest.raises(CommandFailed, match="cannot connect to"):
            await reader.wait_open()

    read_stream(scene)


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
    talk: Callable[[GatewayClient], Awaitable[Any]],
    **listeners: Any,
) -> tuple[Any, PlayedServer]:
    """Open a session, talk, close it: what came of it, and what the server was asked."""

    async def visit(url: str) -> Any:
        api = ApiClient(read_target(SharedOptions(url=url), {}))
        client = GatewayClient(connect_over_http(api), **listeners)
        try:
            await client.open()
            try:
                return await talk(client)
            finally:
                await client.close()
        finally:
            api.close()

    with played(lambda asked: opening(asked) or play(asked)) as server:
        return asyncio.run(visit(server.url)), server


def call(client: GatewayClient) -> Awaitable[bytes]:
    return client.request("tools/call", {"name": "x"})


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

    result, _ = converse(play, lambda client: client.request("tools/call", {}, told.append))

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
        (ACCEPTED, "is not an MCP server: it answered with HTTP 202"),
        (Reply(status=500, body=b"<h1>", media="text/html"), "HTTP 500 and text/html"),
        (Reply(status=503, body=b'{"error":{"code":-32000,"message":"Later"}}'), "503): Later"),
        (Reply(body=b"{}"), "the answer is not an MCP message"),
        (stream(), "closed the connection before it answered"),
        (Reply(media="text/event-stream", body=b"data: nonsense\n\n"), "not an MCP message"),
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

    async def talk(client: GatewayClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await call(client)

    _, server = converse(play, talk)
    cancelled.set()

    said = [(each.verb, (each.body or {}).get("method")) for each in server.asked]
    assert said.index(("POST", "notifications/cancelled")) < said.index(("DELETE", None))
