"""What a server behind a URL speaks is told by its answers, and never by its silence."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.upstream.supervisor import ServerState
from anyport.upstream.transport import HttpDialect
from tests.upstream.fakes import run
from tests.upstream.web import Heard, Legacy, Reply, Scene, Site, Web, call, modern


def play(site: Site, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]], **pins: Any) -> None:
    """Meet a server."""

    async def whole() -> None:
        async with Web(site) as web, Scene(web.url, **pins) as at:
            await scene(web, at)

    run(whole)


def probe(status: int, body: bytes = b"", media: str = "application/json") -> Site:
    """A legacy server that greets `server/discover` in its own way."""
    legacy = Legacy()

    def site(heard: Heard, reply: Reply) -> Any:
        if heard.method == "server/discover":
            reply.whole(status, body, media)
            return None
        return legacy(heard, reply)

    return site


def error(code: int, data: str = "null", message: str = "no") -> bytes:
    told = '{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"%s","data":%s}}'
    return (told % (code, message, data)).encode()


# The newest first.


def test_a_modern_server_is_known_by_its_discovery() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()

        assert web.methods() == ["server/discover"]
        (probed,) = web.heard
        assert probed.fields["mcp-protocol-version"] == "2026-07-28"
        assert probed.fields["mcp-method"] == "server/discover"
        assert probed.fields["accept"] == "application/json, text/event-stream"
        assert "mcp-session-id" not in probed.fields
        assert connection.peer is not None
        assert connection.peer.revision.name == "2026-07-28"
        assert at.supervisor.transport.transport_name == "streamable-http"

    play(modern(), scene)


def test_after_the_fallback_initialize_names_no_revision_and_all_that_follows_does() -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        await call(connection)

        (greeting,) = web.of("initialize")
        assert "mcp-protocol-version" not in greeting.fields
        assert "mcp-session-id" not in greeting.fields
        later = web.heard[web.heard.index(greeting) + 1 :]
        assert {"GET", "POST"} == {heard.verb for heard in later}
        for heard in later:
            assert heard.fields["mcp-protocol-version"] == "2025-06-18"
            assert heard.fields["mcp-session-id"] == "session-1"
        ids = [heard.id for heard in web.heard if heard.body and heard.id is not None]
        assert len(set(ids)) == len(ids), "an id was used twice"

    site = Legacy()
    site.revision = "2025-06-18"
    play(site, scene)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error(-32600)),
        (400, error(-32000, message="Server not initialized")),
        (400, b"Bad Request"),
        (400, b""),
        (404, b"Not Found"),
        (405, b""),
        (406, b""),
        (415, b""),
        (200, error(-32601)),
        (200, error(-32602)),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2025-11-25"]}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{}}'),
        (202, b""),
        (400, error(-32022, '{"supported":["2025-11-25","2025-06-18"]}')),
    ],
)
def test_what_only_a_legacy_server_answers_leads_to_the_handshake(status: int, body: bytes) -> None:
    async def scene(web: Web, at: Scene) -> None:
        await at.connected()

        assert at.quirks.dialect is HttpDialect.LEGACY

    play(probe(status, body), scene)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "the server wants authorization (HTTP 401): set headers"),
        (403, "the server wants authorization (HTTP 403): set headers"),
        (408, "HTTP 408"),
        (429, "HTTP 429"),
        (500, "HTTP 500"),
        (502, "HTTP 502"),
        (503, "HTTP 503"),
        (301, "redirect (HTTP 301)"),
    ],
)
@pytest.mark.parametrize("body", [b"", error(-32600)])
def test_an_outage_says_nothing_about_the_era(status: int, words: str, body: bytes) -> None:
    async def scene(web: Web, at: Scene) -> None:
        assert words in await at.refused()
        assert at.quirks.dialect is None
        assert set(web.methods()) == {"server/discover"}

    play(probe(status, body), scene)


def test_a_connection_that_is_closed_says_nothing_about_the_era() -> None:
    async def scene(web: Web, at: Scene) -> None:
        assert "closed the connection" in await at.refused()
        assert "initialize" not in web.methods()

    play(lambda heard, reply: reply.cut(), scene)


def test_a_server_that_does_not_exist_is_broken_for_that_reason() -> None:
    async def scene() -> None:
        web = Web(modern())
        await web.listen()
        await web.close()
        async with Scene(web.url) as at:
            assert (await at.refused()).startswith("no connection: ")
            assert at.supervisor.state is ServerState.BROKEN

    run(scene)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (error(-32022, '{"supported":["2031-01-01"]}'), "only revisions 2031-01-01"),
        (error(-32022), "refused our revision: no"),
        (error(-32020), "refused server/discover: no"),
        (error(-32021), "refused server/discover: no"),
        (
            error(-32602, message="missing io.modelcontextprotocol/clientInfo"),
            "refused server/discover: missing",
        ),
    ],
)
def test_a_modern_refusal_is_not_taken_for_a_legacy_server(body: bytes, words: str) -> None:
    async def scene(web: Web, at: Scene) -> None:
        assert words in await at.refused()
        assert "initialize" not in web.methods()

    play(probe(400, body), scene)


def test_a_server_that_supports_what_it_refused_is_asked_once_more() -> None:
    answers = [error(-32022, '{"supported":["2026-07-28"]}')]
    behaved = modern()

    def site(heard: Heard, reply: Reply) -> Any:
        if answers:
            reply.whole(400, answers.pop())
            return None
        return behaved(heard, reply)

    async def scene(web: Web, at: Scene) -> None:
        await at.connected()

        assert web.methods() == ["server/discover"] * 2
        assert at.quirks.dialect is HttpDialect.MODERN

    play(site, scene)


# Answers on a stream.


def test_a_handshake_may_be_answered_on_a_stream() -> None:
    behaved = Legacy()

    def site(heard: Heard, reply: Reply) -> Any:
        if heard.method != "initialize":
            return behaved(heard, reply)
        behaved.sessions.append("streamed")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nMcp-Session-Id: streamed\r\n"
        reply.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
        reply.event({"method": "notifications/message", "params": {}})
        told = {"protocolVersion": "2025-11-25", "capabilities": {}}
        reply.event({"id": heard.id, "result": told})
        reply.end()
        return None

    async def scene(web: Web, at: Scene) -> None:
        await at.connected()

        (initialized,) = web.of("notifications/initialized")
        assert initialized.fields["mcp-session-id"] == "streamed"

    play(site, scene)


def test_a_stream_that_ends_without_an_answer_is_no_verdict() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        reply.stream()
        reply.chunk(b"data: {")
        reply.cut()

    async def scene(web: Web, at: Scene) -> None:
        assert "closed the connection" in await at.refused()
        assert at.quirks.dialect is None

    play(site, scene)


@pytest.mark.parametrize("session", ["a b", "\x80", "", "x" * 2000])
def test_a_session_id_that_cannot_be_one_is_refused(session: str) -> None:
    def site(heard: Heard, reply: Reply) -> None:
        if heard.method == "server/discover":
            reply.whole(404)
            return
        told = b'{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25"}}'
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nMcp-Session-Id: %b\r\n\r\n"
        reply.send(head % (len(told), session.encode("latin-1")) + told)

    async def scene(web: Web, at: Scene) -> None:
        assert "session id" in await at.refused()

    play(site, scene)


# Not what was meant.


def test_a_web_page_is_no_server() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        reply.whole(200, b"<html>Hello</html>", "text/html; charset=utf-8")

    async def scene(web: Web, at: Scene) -> None:
        words = await at.refused()
        assert words == "it answered with HTTP 200 and text/html, which is no MCP message"

    play(site, scene)


def test_a_server_that_speaks_neither_transport_is_told_with_both_reasons() -> None:
    async def scene(web: Web, at: Scene) -> None:
        words = await at.refused()
        assert "HTTP 404" in words
        assert "asked for HTTP+SSE instead" in words
        assert [heard.verb for heard in web.heard] == ["POST", "POST", "GET"]

    play(lambda heard, reply: reply.whole(404, b"no", "text/plain"), scene)


def test_a_pinned_transport_does_not_fall_back() -> None:
    async def scene(web: Web, at: Scene) -> None:
        assert "HTTP 404" in await at.refused()
        assert web.gets() == []

    site: Site = lambda heard, reply: reply.whole(404)  # noqa: E731 - a name for its type
    play(site, scene, transport="streamable-http")


@pytest.mark.parametrize("protocol", ["legacy", "2025-03-26"])
def test_a_pinned_legacy_server_is_never_probed(protocol: str) -> None:
    async def scene(web: Web, at: Scene) -> None:
        await at.connected()

        assert web.methods()[0] == "initialize"
        asked = web.of("initialize")[0].message["params"]["protocolVersion"]
        assert asked == ("2025-11-25" if protocol == "legacy" else protocol)

    play(Legacy(), scene, protocol=protocol)


def test_a_pinned_modern_server_gets_no_handshake() -> None:
    async def scene(web: Web, at: Scene) -> None:
        assert await at.refused() == "it does not speak revision 2026-07-28"
        assert web.methods() == ["server/discover"]

    play(Legacy(), scene, protocol="modern")


# Elsewhere.


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_origin_is_followed_and_remembered(status: int) -> None:
    behaved = Legacy()

    def site(heard: Heard, reply: Reply) -> Any:
        if heard.target == "/mcp":
            reply.whole(status, Location="/mcp/")
            return None
        return behaved(heard, reply)

    async def scene(web: Web, at: Scene) -> None:
        await call(await at.connected())

        targets = [heard.target for heard in web.heard]
        assert targets[:4] == ["/mcp", "/mcp/", "/mcp", "/mcp/"]
        assert set(targets[4:]) == {"/mcp/"}

    play(site, scene)


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (307, "https://127.0.0.1/mcp"),
        (308, "http://other.example/mcp"),
        (307, "//other.example/mcp"),
        (307, "http://user:secret@127.0.0.1/mcp"),
        (307, "file:///etc/passwd"),
        (302, "/elsewhere"),
        (301, "/elsewhere"),
        (307, "/mcp"),
    ],
)
def test_no_redirect_leads_away_or_in_circles(status: int, location: str) -> None:
    async def scene(web: Web, at: Scene) -> None:
        assert f"redirect (HTTP {status})" in await at.refused()
        assert len(web.heard) <= 4

    play(lambda heard, reply: reply.whole(status, Location=location), scene)
