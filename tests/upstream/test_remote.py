"""A server behind a URL: what it speaks is remembered, and no call is lost to a new connection."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream import remote
from anyport.upstream.call import Answer, Lost
from anyport.upstream.remote import LEGACY_VERDICT_SECONDS
from anyport.upstream.road import Way
from anyport.upstream.tender import State
from anyport.wire.frame import Result
from tests.upstream.fakes import run, until
from tests.upstream.travels import Travels, refused
from tests.upstream.web import Heard, Legacy, Reply, Scene, Site, Web, lost, modern


def play(site: Site, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]], **pins: Any) -> None:
    """Meet a server, as a tender does."""

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
        (modern(), Way.MODERN, [PROBE], [PROBE]),
        (Legacy(), Way.LEGACY, [PROBE, *GREETING], GREETING),
        (Events(), Way.EVENTS, [PROBE, "initialize", *GREETING], GREETING),
    ],
    ids=lambda value: value.name if isinstance(value, Way) else "",
)
def test_what_a_server_speaks_is_remembered_where_that_spares_a_question(
    site: Site, way: Way, first: list[str], later: list[str]
) -> None:
    async def scene() -> None:
        at = Travels()
        async with Web(site) as web:
            road = at.remote(web.url)
            assert road.transport == "auto"
            for posted in (first, later):
                web.heard.clear()
                connection = await road.open()
                assert connection.usable
                assert at.learned.way is way
                assert road.transport == way.transport
                assert web.methods() == posted
                connection.over = "it was restarted"
                await road.clear()
            await road.stop("enough")

    run(scene)


def test_all_connections_to_a_server_share_what_was_found() -> None:
    async def scene() -> None:
        at = Travels()
        async with Web(Legacy()) as web:
            roads = [at.remote(web.url) for _ in range(2)]
            for road in roads:
                await road.open()
            for road in roads:
                await road.stop("enough")

            assert web.methods().count("server/discover") == 1
            assert web.methods().count("initialize") == 2

    run(scene)


def test_a_verdict_grows_old_from_the_day_of_the_question_and_not_of_its_use() -> None:
    async def scene() -> None:
        at = Travels()
        async with Web(Legacy()) as web:
            road = at.remote(web.url)
            for later, probed in ((0.0, 1), (0.9, 1), (0.9, 2), (0.9, 2)):
                at.now += later * LEGACY_VERDICT_SECONDS
                connection = await road.open()
                assert web.methods().count("server/discover") == probed
                connection.over = "it was restarted"
                await road.clear()
            await road.stop("enough")

    run(scene)


def test_a_handshake_that_fails_takes_the_verdict_with_it() -> None:
    async def scene() -> None:
        at = Travels()
        async with Web(Legacy()) as web:
            road = at.remote(web.url)
            at.learned.way, at.learned.way_since = Way.LEGACY, at.now
            works, web.site = web.site, lambda heard, reply: reply.whole(503)

            assert "HTTP 503" in await refused(road)
            assert at.learned.way is None
            web.site = works
            await road.open()

            assert web.methods()[:2] == ["initialize", "server/discover"]
            await road.stop("enough")

    run(scene)


def test_a_server_that_was_updated_is_found_out_when_it_no_longer_shakes_hands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyport.upstream.backoff.FIRST_SECONDS", 0.0)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        assert at.learned.way is Way.LEGACY
        web.site = modern(
            lambda heard, reply: reply.json({"error": {"code": -32022, "message": "no"}}, 400)
        )
        at.tender._over(connection, "it was restarted")

        await until(lambda: at.learned.way is Way.MODERN)

        assert len(at.broken) == 2, "once for the restart, once for what it no longer speaks"

    play(Legacy(), scene)


# A handshake that comes to nothing.


def test_silence_says_nothing_about_the_era(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "HANDSHAKE_SECONDS_MAX", 0.05)

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
        at = Travels()
        async with Web(cutting) as web:
            road = at.remote(web.url)

            assert "closed the connection" in await refused(road)

            await until(lambda: web.open_connections == 0)
            assert at.over == []
            await road.stop("enough")

    run(scene)


def test_a_server_can_be_stopped_in_the_middle_of_the_handshake() -> None:
    async def scene(web: Web, at: Scene) -> None:
        given: list[object] = []
        at.tender.when_ready(given.append)
        await until(lambda: bool(web.heard))

        await at.tender.stop("enough")
        await until(lambda: at.tender.state is State.STOPPED)

        assert given == ["enough"]
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
            await until(lambda: at.tender.state is State.READY)
            assert at.tender.restarts >= 3
        await web.close()

    run(scene)


# Through a proxy.


@pytest.mark.parametrize("proxy", ["env", "configured", "none"])
def test_the_way_may_lead_through_a_proxy(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        at = Travels()
        async with Web(modern()) as web, Web(modern()) as between:
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.setenv("http_proxy", between.url)
            road = at.remote(web.url, proxy=between.url if proxy == "configured" else proxy)
            await road.open()

            used, unused = (web, between) if proxy == "none" else (between, web)
            assert used.heard[0].target == ("/mcp" if proxy == "none" else web.url)
            assert unused.heard == []
            await road.stop("enough")

    run(scene)


# Connections that take nothing new.


def test_a_server_that_cannot_be_reached_is_down_but_calls_under_way_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "RETIRED_LOOK_SECONDS", 0.001)
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
        assert (at.ear.unreached, at.tender.state) == ([found.reason], State.READY)

        at.tender.renew(found.reason)

        assert at.tender.state is State.BROKEN
        given: list[object] = []
        at.tender.when_ready(given.append)
        assert given == [found.reason]
        assert answers == []
        answer(*slow[0])
        await until(lambda: bool(answers))
        assert isinstance(answers[0], Result)
        await until(lambda: at.ear.ends == 1)

    def site(heard: Heard, reply: Reply) -> None:
        if heard.fields["mcp-name"] == "slow":
            slow.append((heard, reply))
        else:
            answer(heard, reply)

    play(modern(site), scene)


def test_a_connection_without_calls_is_closed_at_once() -> None:
    async def scene() -> None:
        at = Travels()
        async with Web(modern()) as web:
            road = at.remote(web.url)
            connection = await road.open()
            connection.over = "it was restarted"

            await road.clear()

            assert connection.lost == Lost("it was restarted")
            await until(lambda: web.open_connections == 0)
            await road.stop("enough")

    run(scene)


def test_a_retired_connection_is_looked_at_until_its_last_call_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "RETIRED_LOOK_SECONDS", 0.001)
    held: list[tuple[Heard, Reply]] = []

    async def scene() -> None:
        at = Travels()
        async with Web(modern(lambda heard, reply: held.append((heard, reply)))) as web:
            road = at.remote(web.url)
            old = await road.open()
            answers: list[Answer] = []
            for _ in range(2):
                old.call("tools/call", b'{"name":"x"}', answers.append)
            await until(lambda: len(held) == 2)
            old.over = "it was restarted"
            await road.clear()
            new = await road.open()

            for number, each in enumerate(held, start=1):
                assert old.lost is None
                answer(*each)
                await until(lambda number=number: len(answers) == number)  # type: ignore[misc]
            await until(lambda: old.lost is not None)

            assert all(isinstance(each, Result) for each in answers)
            assert new.usable
            await road.stop("enough")

    run(scene)


def test_stopping_ends_retired_connections_too() -> None:
    async def scene() -> None:
        at = Travels()
        async with Web(modern(lambda heard, reply: None)) as web:
            road = at.remote(web.url)
            old = await road.open()
            answers: list[Answer] = []
            old.call("tools/call", b'{"name":"x"}', answers.append)
            await until(lambda: bool(web.of("tools/call")))
            old.over = "it was restarted"
            await road.clear()

            await road.stop("the gateway is stopping")

            assert answers == [Lost("the gateway is stopping")]
            await until(lambda: web.open_connections == 0)

    run(scene)


# The end.


def test_a_server_that_never_answers_the_farewell_does_not_hold_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "FAREWELL_SECONDS_MAX", 0.01)

    async def scene(web: Web, at: Scene) -> None:
        await at.connected()
        web.site = lambda heard, reply: None
        await at.tender.stop()
        await until(lambda: web.heard[-1].verb == "DELETE")

    play(Legacy(), scene)
