"""A server behind a URL: what it speaks is remembered, and no call is lost to a new connection."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.handshake import start_request
from anyport.upstream.http import streamable
from anyport.upstream.http import transport as http_transport
from anyport.upstream.http.connection_reuse import SINGLE_USES_MAX
from anyport.upstream.http.transport import LEGACY_ASSUMED_SECONDS
from anyport.upstream.pending_call import Answer, CallSubject, NoAnswer
from anyport.upstream.supervisor import NotReady, ServerState
from anyport.upstream.transport import HttpDialect
from anyport.wire.jsonrpc import Result
from tests.upstream.fakes import run, until
from tests.upstream.transports import TransportScene, refused
from tests.upstream.web import Heard, Legacy, Reply, Scene, Site, Web, call, lost, modern


def play(site: Site, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]], **pins: Any) -> None:
    """Meet a server, as a supervisor does."""

    async def whole() -> None:
        async with Web(site) as web, Scene(web.url, **pins) as at:
            await scene(web, at)

    run(whole)


def answer(heard: Heard, reply: Reply) -> None:
    reply.json({"id": heard.id, "result": {"n": heard.id}})


class Events:
    """A server that speaks HTTP+SSE and nothing else."""

    def __init__(self) -> None:
        self.stream: Reply | None = None

    def __call__(self, heard: Heard, reply: Reply) -> None:
        if heard.verb == "GET":
            self.stream = reply
            reply.stream()
            reply.event("/messages", name="endpoint")
        elif heard.target != "/messages":
            reply.whole(405)
        else:
            reply.whole(202)
            told = {"protocolVersion": "2024-11-05", "capabilities": {}}
            if self.stream is not None and heard.id is not None:
                self.stream.event({"id": heard.id, "result": told})


# The verdict.


PROBE = "server/discover"
GREETING = ["initialize", "notifications/initialized"]


@pytest.mark.parametrize(
    ("site", "way", "first", "later"),
    [
        (modern(), HttpDialect.MODERN, [PROBE], [PROBE]),
        (Legacy(), HttpDialect.LEGACY, [PROBE, *GREETING], GREETING),
        (Events(), HttpDialect.LEGACY_SSE, [PROBE, "initialize", *GREETING], GREETING),
    ],
    ids=lambda value: value.name if isinstance(value, HttpDialect) else "",
)
def test_what_a_server_speaks_is_remembered_where_that_spares_a_question(
    site: Site, way: HttpDialect, first: list[str], later: list[str]
) -> None:
    async def scene() -> None:
        at = TransportScene()
        async with Web(site) as web:
            transport = at.remote(web.url)
            assert transport.transport_name == "auto"
            for posted in (first, later):
                web.heard.clear()
                connection = await transport.open()
                assert connection.usable
                assert at.quirks.dialect is way
                assert transport.transport_name == way.transport_name
                assert web.methods() == posted
                connection.draining_reason = "it was restarted"
                await transport.clean_up()
            await transport.stop("enough")

    run(scene)


def test_all_connections_to_a_server_share_what_was_found() -> None:
    async def scene() -> None:
        at = TransportScene()
        async with Web(Legacy()) as web:
            roads = [at.remote(web.url) for _ in range(2)]
            for transport in roads:
                await transport.open()
            for transport in roads:
                await transport.stop("enough")

            assert web.methods().count("server/discover") == 1
            assert web.methods().count("initialize") == 2

    run(scene)


def test_a_verdict_grows_old_from_the_day_of_the_question_and_not_of_its_use() -> None:
    async def scene() -> None:
        at = TransportScene()
        async with Web(Legacy()) as web:
            transport = at.remote(web.url)
            for later, probed in ((0.0, 1), (0.9, 1), (0.9, 2), (0.9, 2)):
                at.clock.seconds += later * LEGACY_ASSUMED_SECONDS
                connection = await transport.open()
                assert web.methods().count("server/discover") == probed
                connection.draining_reason = "it was restarted"
                await transport.clean_up()
            await transport.stop("enough")

    run(scene)


def test_a_handshake_that_fails_takes_the_verdict_with_it() -> None:
    async def scene() -> None:
        at = TransportScene()
        async with Web(Legacy()) as web:
            transport = at.remote(web.url)
            at.quirks.dialect, at.quirks.dialect_since = HttpDialect.LEGACY, at.clock.seconds
            works, web.site = web.site, lambda heard, reply: reply.whole(503)

            assert "HTTP 503" in await refused(transport)
            assert at.quirks.dialect is None
            web.site = works
            await transport.open()

            assert web.methods()[:2] == ["initialize", "server/discover"]
            await transport.stop("enough")

    run(scene)


def test_a_server_that_was_updated_is_found_out_when_it_no_longer_shakes_hands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyport.upstream.backoff.FIRST_SECONDS", 0.0)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        assert at.quirks.dialect is HttpDialect.LEGACY
        web.site = modern(
            lambda heard, reply: reply.json({"error": {"code": -32022, "message": "no"}}, 400)
        )
        at.supervisor.on_draining(connection, "it was restarted")

        await until(lambda: at.quirks.dialect is HttpDialect.MODERN)

        assert len(at.broken) == 2, "once for the restart, once for what it no longer speaks"

    play(Legacy(), scene)


# A handshake that comes to nothing.


def test_silence_says_nothing_about_the_era(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "HANDSHAKE_SECONDS_MAX", 0.05)

    async def scene(web: Web, at: Scene) -> None:
        assert await at.refused() == "it did not answer the handshake within 0.05 s"
        assert set(web.methods()) == {"server/discover"}
        await until(web.replies[0].gone.is_set)

    play(lambda heard, reply: None, scene)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://user:pw@127.0.0.1/", "ftp://x/", "nonsense"]
)
def test_a_url_that_is_none_is_the_reason(url: str) -> None:
    async def scene() -> None:
        async with Scene(url) as at:
            assert (await at.refused()).startswith("its url cannot be used: ")

    run(scene)


def test_a_handshake_that_is_cut_off_by_its_last_message_leaves_nothing_open() -> None:
    site = Legacy()

    def cutting(heard: Heard, reply: Reply) -> Any:
        if heard.method == "notifications/initialized":
            reply.cut()
            return None
        return site(heard, reply)

    async def scene() -> None:
        at = TransportScene()
        async with Web(cutting) as web:
            transport = at.remote(web.url)

            assert "closed the connection" in await refused(transport)

            await until(lambda: web.open_connections == 0)
            assert at.owner.draining == []
            await transport.stop("enough")

    run(scene)


def test_a_server_can_be_stopped_in_the_middle_of_the_handshake() -> None:
    async def scene(web: Web, at: Scene) -> None:
        given: list[object] = []
        at.supervisor.when_ready(given.append)
        await until(lambda: bool(web.heard))

        await at.supervisor.stop("enough")
        await until(lambda: at.supervisor.state is ServerState.STOPPED)

        assert given == [NotReady("enough")]
        assert at.broken == []

    play(lambda heard, reply: None, scene)


def test_one_that_is_down_is_tried_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyport.upstream.backoff.FIRST_SECONDS", 0.0)

    async def scene() -> None:
        web = Web(modern())
        await web.listen()
        await web.close()
        async with Scene(web.url) as at:
            await until(lambda: len(at.broken) >= 3)
            await web.listen()
            await until(lambda: at.supervisor.state is ServerState.READY)
            assert at.supervisor.restarts >= 3
        await web.close()

    run(scene)


# Through a proxy.


@pytest.mark.parametrize("proxy", ["env", "configured", "none"])
def test_the_way_may_lead_through_a_proxy(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        at = TransportScene()
        async with Web(modern()) as web, Web(modern()) as between:
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.setenv("http_proxy", between.url)
            transport = at.remote(web.url, proxy=between.url if proxy == "configured" else proxy)
            await transport.open()

            used, unused = (web, between) if proxy == "none" else (between, web)
            assert used.heard[0].target == ("/mcp" if proxy == "none" else web.url)
            assert unused.heard == []
            await transport.stop("enough")

    run(scene)


# Connections that take nothing new.


def test_a_server_that_cannot_be_reached_is_down_but_calls_under_way_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_transport, "DRAIN_CHECK_SECONDS", 0.001)
    slow: list[tuple[Heard, Reply]] = []

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        answers: list[Answer] = []
        connection.call("tools/call", b'{"name":"slow"}', answers.append)
        await until(lambda: bool(slow))
        web.deaf()

        found = await lost(connection, "x")

        assert found.reason.startswith("no connection: ")
        assert found.situation is Situation.NOT_RUNNING
        assert (at.owner.unreachable, at.supervisor.state) == ([found.reason], ServerState.READY)

        at.supervisor.reconnect(found.reason)

        assert at.supervisor.state is ServerState.BROKEN
        given: list[object] = []
        at.supervisor.when_ready(given.append)
        assert given == [NotReady(found.reason)]
        assert answers == []
        answer(*slow[0])
        await until(lambda: bool(answers))
        assert isinstance(answers[0], Result)
        await until(lambda: at.owner.ends == 1)

    def site(heard: Heard, reply: Reply) -> None:
        if heard.fields["mcp-name"] == "slow":
            slow.append((heard, reply))
        else:
            answer(heard, reply)

    play(modern(site), scene)


def test_a_connection_without_calls_is_closed_at_once() -> None:
    async def scene() -> None:
        at = TransportScene()
        async with Web(modern()) as web:
            transport = at.remote(web.url)
            connection = await transport.open()
            connection.draining_reason = "it was restarted"

            await transport.clean_up()

            assert connection.closed_with == NoAnswer("it was restarted")
            await until(lambda: web.open_connections == 0)
            await transport.stop("enough")

    run(scene)


def test_a_retired_connection_is_looked_at_until_its_last_call_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_transport, "DRAIN_CHECK_SECONDS", 0.001)
    held: list[tuple[Heard, Reply]] = []

    async def scene() -> None:
        at = TransportScene()
        async with Web(modern(lambda heard, reply: held.append((heard, reply)))) as web:
            transport = at.remote(web.url)
            old = await transport.open()
            answers: list[Answer] = []
            for _ in range(2):
                old.call("tools/call", b'{"name":"x"}', answers.append)
            await until(lambda: len(held) == 2)
            old.draining_reason = "it was restarted"
            await transport.clean_up()
            new = await transport.open()

            for number, each in enumerate(held, start=1):
                assert old.closed_with is None
                answer(*each)
                await until(lambda number=number: len(answers) == number)  # type: ignore[misc]
            await until(lambda: old.closed_with is not None)

            assert all(isinstance(each, Result) for each in answers)
            assert new.usable
            await transport.stop("enough")

    run(scene)


def test_stopping_ends_retired_connections_too() -> None:
    async def scene() -> None:
        at = TransportScene()
        async with Web(modern(lambda heard, reply: None)) as web:
            transport = at.remote(web.url)
            old = await transport.open()
            answers: list[Answer] = []
            old.call("tools/call", b'{"name":"x"}', answers.append)
            await until(lambda: bool(web.of("tools/call")))
            old.draining_reason = "it was restarted"
            await transport.clean_up()

            await transport.stop("the gateway is stopping")

            assert answers == [NoAnswer("the gateway is stopping")]
            await until(lambda: web.open_connections == 0)

    run(scene)


# The end.


def test_a_server_that_never_answers_the_farewell_does_not_hold_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_transport, "SESSION_CLOSE_SECONDS_MAX", 0.01)

    async def scene(web: Web, at: Scene) -> None:
        await at.connected()
        web.site = lambda heard, reply: None
        await at.supervisor.stop()
        await until(lambda: web.heard[-1].verb == "DELETE")

    play(Legacy(), scene)


# The stream of a session.


def test_a_session_is_ready_once_its_stream_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that, nobody hears what the server says."""
    monkeypatch.setattr(streamable, "STREAM_SECONDS_MAX", 60.0)
    asked: list[Reply] = []

    async def scene(web: Web, at: Scene) -> None:
        await until(lambda: bool(asked))
        assert at.supervisor.state is ServerState.STARTING
        asked[0].stream()
        await at.connected()

    play(Legacy(stands=lambda _, reply: asked.append(reply)), scene)


def test_a_server_that_does_not_open_the_stream_of_a_session_is_ready_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streamable, "STREAM_SECONDS_MAX", 0.01)
    asked: list[Reply] = []

    async def scene(web: Web, at: Scene) -> None:
        await at.connected()
        assert len(asked) == 1

    play(Legacy(stands=lambda _, reply: asked.append(reply)), scene)


# Connections that are good for one request.


class Once:
    """A server that answers one request on each connection, and closes it when another comes."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.served: set[asyncio.StreamWriter] = set()
        self.lost: list[str] = []

    def __call__(self, heard: Heard, reply: Reply) -> Awaitable[None] | None:
        if reply.writer not in self.served:
            self.served.add(reply.writer)
            return self.site(heard, reply)
        self.lost.append(heard.method or heard.verb)
        reply.writer.close()
        return None


@pytest.mark.parametrize("protocol", ["auto", "legacy", "modern"])
def test_a_server_that_uses_no_connection_twice_and_does_not_say_so_is_reached(
    protocol: str,
) -> None:
    site = Once(modern(answer) if protocol == "modern" else Legacy(answer))

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        await start_request(connection, "tools/list", None)
        before = len(site.lost)
        for _ in range(5):
            assert isinstance(await call(connection), Result)

        assert len(site.lost) == before <= SINGLE_USES_MAX
        assert len(web.of("tools/call")) == 5

    play(site, scene, protocol=protocol)


def test_a_server_over_http_and_sse_that_uses_no_connection_twice_is_reached() -> None:
    events = Events()
    site = Once(events)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        before = len(site.lost)
        for _ in range(5):
            assert isinstance(await call(connection), Result)
        assert len(site.lost) == before <= SINGLE_USES_MAX

    play(site, scene, transport="sse")


def test_what_an_attempt_has_learned_of_connections_the_next_one_knows() -> None:
    async def scene() -> None:
        at = TransportScene()
        site = Once(Legacy(answer))
        async with Web(site) as web:
            for _ in range(3):
                transport = at.remote(web.url)
                await transport.open()
                await transport.stop("enough")

            assert len(site.lost) == SINGLE_USES_MAX

    run(scene)


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_what_is_sent_again_in_a_session_has_an_id_of_its_own(transport: str) -> None:
    """Maybe it was lost only on its way back: to the server, it is then another request."""
    site = Legacy(answer) if transport == "streamable-http" else Events()

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        web.site = lambda heard, reply: (
            reply.cut() if len(web.of("tools/list")) == 1 else site(heard, reply)
        )

        assert isinstance(await start_request(connection, "tools/list", None), Result)

        first, second = web.of("tools/list")
        assert first.id != second.id
        ids = [heard.id for heard in web.heard if heard.method and heard.id is not None]
        assert len(ids) == len(set(ids)), "nor has anybody else one that was used"

    play(site, scene, transport=transport, protocol="legacy")


@pytest.mark.parametrize(("retry", "asked"), [("auto", 2), ("never", 1)])
def test_a_call_is_sent_again_only_where_that_is_not_forbidden(retry: str, asked: int) -> None:
    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        params, subject = b'{"uri":"a:b"}', CallSubject(name="a:b", client="somebody")
        await start_request(connection, "tools/list", None)
        web.site = lambda heard, reply: (
            reply.cut() if len(web.of("resources/read")) == 1 else answer(heard, reply)
        )
        given: list[Answer] = []
        connection.call("resources/read", params, given.append, subject=subject)
        await until(lambda: bool(given))

        assert isinstance(given[0], NoAnswer) is (retry == "never")
        assert len(web.of("resources/read")) == asked

    play(modern(answer), scene, retry=retry)
