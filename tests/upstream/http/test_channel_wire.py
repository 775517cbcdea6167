"""Replies that go wrong on the wire: each costs its own call, and the next one works."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.http import channel, client
from anyport.upstream.http.errors import stream_cut_off
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.supervisor import ServerState
from anyport.wire.jsonrpc import Failure, Result
from tests.upstream.fakes import run, until
from tests.upstream.web import Heard, Reply, Scene, Site, Web, call, lost, modern


def play(site: Site, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]]) -> None:
    """Call a modern server."""

    async def whole() -> None:
        async with Web(modern(site)) as web, Scene(web.url) as at:
            await at.connected()
            await scene(web, at)

    run(whole)


def answer(heard: Heard, reply: Reply) -> None:
    reply.json({"id": heard.id, "result": {"n": heard.id}})


@pytest.mark.parametrize("status", [200, 400, 404, 401, 403, 429, 500, 503])
@pytest.mark.parametrize("id", ["own", None, "server-error"])
def test_an_error_is_the_answer_at_any_status_and_under_any_id(status: int, id: Any) -> None:
    def refusing(heard: Heard, reply: Reply) -> None:
        told = heard.id if id == "own" else id
        reply.json({"id": told, "error": {"code": -32001, "message": "no"}}, status)

    async def scene(web: Web, at: Scene) -> None:
        found = await call(await at.connected())

        assert isinstance(found, Failure)
        assert json.loads(found.error) == {"code": -32001, "message": "no"}
        assert at.supervisor.state is ServerState.READY

    play(refusing, scene)


@pytest.mark.parametrize(
    ("status", "body", "media", "words"),
    [
        (200, b"<html>", "text/html; charset=utf-8", "HTTP 200 and text/html"),
        (200, b"", "", "HTTP 200 and nothing"),
        (200, b"[]", "application/json", "HTTP 200 and application/json"),
        (200, b"{", "application/json", "HTTP 200 and application/json"),
        (200, b'{"jsonrpc":"2.0","id":4711,"result":{}}', "application/json", "HTTP 200"),
        (202, b"", "", "accepted the request (HTTP 202) but did not answer it"),
        (204, b"", "", "HTTP 204"),
        (401, b"", "", "wants authorization (HTTP 401): set headers"),
        (403, b"no", "text/plain", "wants authorization (HTTP 403): set headers"),
        (404, b"no", "text/plain", "HTTP 404 and text/plain"),
        (500, b"", "", "HTTP 500"),
        (302, b"", "", "redirect (HTTP 302)"),
    ],
)
def test_a_reply_without_an_answer_fails_that_call_with_its_status(
    status: int, body: bytes, media: str, words: str
) -> None:
    def odd(heard: Heard, reply: Reply) -> None:
        if heard.fields["mcp-name"] == "odd":
            reply.whole(status, body, media, Location="/x")
        else:
            answer(heard, reply)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        found = await lost(connection, "odd")

        assert words in found.reason
        assert found.situation is Situation.MISBEHAVED
        assert connection.open_calls == 0
        assert isinstance(await call(connection, "even"), Result)
        assert at.broken == []

    play(odd, scene)


def test_a_redirect_of_one_call_is_followed_within_the_origin() -> None:
    def moved(heard: Heard, reply: Reply) -> None:
        if heard.target == "/mcp":
            reply.whole(307, Location="/mcp/other?x=1")
        else:
            assert heard.fields["mcp-name"] == "echo"
            answer(heard, reply)

    async def scene(web: Web, at: Scene) -> None:
        assert isinstance(await call(await at.connected()), Result)

    play(moved, scene)


@pytest.mark.parametrize("location", ["/mcp", "/again", "http://other.example/"])
def test_a_call_is_not_sent_in_circles_or_away(location: str) -> None:
    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert "redirect (HTTP 307)" in found.reason
        assert len(web.of("tools/call")) <= 4

    play(lambda heard, reply: reply.whole(307, Location=location), scene)


def test_a_cut_connection_costs_one_call() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.fields["mcp-name"] == "cut":
            reply.cut()
        elif heard.fields["mcp-name"] == "begun":
            reply.stream()
            reply.event({"method": "notifications/message", "params": {}})
        else:
            answer(heard, reply)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        connection.call("tools/call", b'{"name":"begun"}', answers.append)
        await until(lambda: bool(at.owner.notifications))

        assert (
            "failed to answer: it closed the connection" in (await lost(connection, "cut")).reason
        )
        assert answers == []
        assert at.supervisor.state is ServerState.READY

        web.replies[-2].cut()
        await until(lambda: bool(answers))
        assert isinstance(answers[0], NoAnswer)
        assert isinstance(await call(connection), Result)

    play(site, scene)


def test_a_stream_that_ends_without_the_answer_fails_the_call() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        reply.stream()
        reply.event({"method": "notifications/message", "params": {}})
        reply.end()

    async def scene(web: Web, at: Scene) -> None:
        found = await lost(await at.connected())

        assert found == stream_cut_off(None)

    play(site, scene)


def test_a_server_that_answers_on_a_stream_and_never_ends_it_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "STREAM_END_SECONDS", 0.01)
    monkeypatch.setattr(client, "CONNECTIONS_MAX", 3)

    def lingering(heard: Heard, reply: Reply) -> None:
        reply.stream()
        reply.event({"id": heard.id, "result": {}})

    async def scene(web: Web, at: Scene) -> None:
        for _ in range(8):
            assert isinstance(await call(await at.connected()), Result)

    play(lingering, scene)
