"""When the lists of one server are read, and how old they may get."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anyport.config.schema import ServerConfig
from anyport.protocol.freshness import STALE, Freshness
from anyport.protocol.method import Kind
from anyport.protocol.principal import LOCAL
from anyport.upstream.key import SHARED
from anyport.upstream.lists import RELIST_SECONDS_MIN, RENEW_SECONDS_MIN, Lines, Lists, Readings
from anyport.upstream.watch import ACKNOWLEDGED, Ticking
from tests.upstream.fakes import (
    MODERN,
    FakeServer,
    Message,
    connected,
    modern,
    offers,
    peer_of,
    run,
    say,
    until,
)
from tests.upstream.recorded import Scene, play

TOOLS = Kind.TOOLS


class Library:
    """The lists of a modern server, which answers when the test says so."""

    def __init__(self) -> None:
        self.connection, self.channel, _ = connected()
        self.connection.peer = peer_of(MODERN, tools={}, prompts={})
        self.now = 100.0
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.changed: list[frozenset[Kind]] = []
        self.warnings: list[str | None] = []
        self.tasks: list[asyncio.Task[None]] = []
        time = Ticking(
            later=lambda seconds, act: self.later.append((seconds, act)),
            clock=lambda: self.now,
            chance=lambda: 0.0,
        )
        readings = Readings(
            lines=lambda: Lines(main=self.connection),
            spawn=self._spawn,
            time=time,
            done=self._done,
        )
        self.lists = Lists(ServerConfig(slug="s", name="s", timeout_seconds=5.0), readings)

    async def read(self, *names: str, kind: Kind = TOOLS, **hints: Any) -> None:
        """Wait for the next question, and answer it with a list."""
        await self.asked()
        listed = {kind.value: offers(*names)["tools"]}
        say(self.connection, id=self.channel.sent[-1]["id"], result={**listed, **hints})
        await self.ended()

    async def asked(self) -> None:
        await until(lambda: len(self.channel.calls) > len(self.changed))

    async def ended(self) -> None:
        before = len(self.changed)
        await until(lambda: len(self.changed) > before)

    @property
    def tools(self) -> list[str]:
        return [offer.native for offer in self.lists.known[TOOLS].offers]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def _done(self, lines: Lines, warning: str | None, changed: frozenset[Kind]) -> None:
        self.changed.append(changed)
        self.warnings.append(warning)


def renew(library: Library, kind: Kind = TOOLS, *, told: bool = False) -> bool:
    return library.lists.renew(kind, told=told)


def test_a_list_is_shown_until_its_time_is_over_and_then_read_first() -> None:
    async def scene() -> None:
        at = Library()
        assert renew(at), "it was never read"
        await at.read("a", ttlMs=5000, cacheScope="public")
        assert at.lists.freshness(TOOLS, told=False) == Freshness(5000, public=True)

        at.now += 4.875
        assert not renew(at)
        assert at.lists.freshness(TOOLS, told=False) == Freshness(125, public=True)
        at.now += 0.125
        assert at.lists.freshness(TOOLS, told=False) == Freshness(0, public=True)
        assert renew(at)
        assert at.lists.is_awaited(TOOLS)
        await at.read("b", ttlMs=5000, cacheScope="public")

        assert not at.lists.is_awaited(TOOLS)
        assert at.tools == ["b"]
        assert at.changed == [frozenset({TOOLS})] * 2

    run(scene)


def test_nothing_is_read_because_time_goes_by() -> None:
    async def scene() -> None:
        at = Library()
        renew(at)
        await at.read("a", ttlMs=1)
        at.now += 1e6

        assert at.later == []
        assert len(at.channel.sent) == 1

    run(scene)


def test_a_list_whose_changes_are_told_does_not_get_old() -> None:
    async def scene() -> None:
        at = Library()
        renew(at)
        await at.read("a", ttlMs=5000)
        at.now += 1e6

        assert not renew(at, told=True)
        assert at.lists.freshness(TOOLS, told=True) == Freshness(5000)

        at.lists.mark_stale((TOOLS,))
        assert at.lists.freshness(TOOLS, told=True) == STALE
        assert renew(at, told=True)
        await at.read("a", "b")
        assert at.tools == ["a", "b"]

    run(scene)


def test_many_who_ask_at_once_cause_one_reading_and_so_do_many_in_a_second() -> None:
    async def scene() -> None:
        at = Library()
        assert [renew(at) for _ in range(5)] == [True] * 5
        await at.read("a", ttlMs=0)

        at.now += RENEW_SECONDS_MIN - 0.5
        assert not renew(at)
        at.now += 0.5
        assert [renew(at), renew(at)] == [True, True]
        await at.read("a")

        assert len(at.channel.sent) == 2

    run(scene)


def test_whoever_wants_a_list_that_is_being_read_waits_for_it() -> None:
    async def scene() -> None:
        at = Library()
        at.lists.read_all()
        assert not at.lists.is_awaited(TOOLS)

        assert renew(at)
        await until(lambda: len(at.channel.sent) >= 1)
        say(at.connection, id=at.channel.sent[0]["id"], result=offers("a"))
        await until(lambda: len(at.channel.sent) >= 2)
        assert at.lists.is_awaited(TOOLS), "the others are still to come"
        say(at.connection, id=at.channel.sent[1]["id"], result={"prompts": []})
        await until(lambda: len(at.changed) == 1)

        assert not at.lists.is_awaited(TOOLS)

    run(scene)


def test_a_list_that_is_wanted_while_another_is_read_comes_right_after_it() -> None:
    async def scene() -> None:
        at = Library()
        renew(at, Kind.PROMPTS)
        assert renew(at)
        await at.asked()
        assert [sent["method"] for sent in at.channel.sent] == ["prompts/list"]
        await at.read(kind=Kind.PROMPTS)
        assert at.lists.is_awaited(TOOLS)
        await at.read("a")

        assert [sent["method"] for sent in at.channel.sent] == ["prompts/list", "tools/list"]
        assert at.later == []

    run(scene)


def test_what_was_planned_is_not_read_twice() -> None:
    async def scene() -> None:
        at = Library()
        renew(at)
        await at.read("a")
        at.now += RELIST_SECONDS_MIN
        at.lists.mark_stale((TOOLS,))
        assert renew(at)
        await at.read("b")

        ((_, planned),) = at.later
        planned()

        assert len(at.tasks) == 2

    run(scene)


def test_a_list_that_is_the_same_stays_the_same_and_is_dated_anew() -> None:
    async def scene() -> None:
        at = Library()
        renew(at)
        await at.read("a", ttlMs=1000)
        before = at.lists.known[TOOLS]
        at.now += 10.0
        renew(at)
        await at.read("a", ttlMs=2000, cacheScope="public")

        after = at.lists.known[TOOLS]
        assert at.changed[-1] == frozenset()
        assert after.offers is before.offers
        assert (after.freshness, after.read_at) == (Freshness(2000, public=True), 110.0)

    run(scene)


def test_a_server_that_refuses_or_is_lost_leaves_the_list_as_it_was_known() -> None:
    async def scene() -> None:
        at = Library()
        renew(at)
        await at.read("a", ttlMs=1000)
        at.now += 10.0
        renew(at)
        await at.asked()
        error = {"code": -32603, "message": "out of order"}
        say(at.connection, id=at.channel.sent[-1]["id"], error=error)
        await at.ended()
        assert (at.tools, at.later) == (["a"], [])
        assert at.lists.freshness(TOOLS, told=False) == STALE

        at.now += 10.0
        renew(at)
        await at.asked()
        at.connection.end("gone")
        await at.ended()
        assert at.tools == ["a"]
        assert not at.lists.is_awaited(TOOLS)

    run(scene)


def telling(message: Message) -> list[Message]:
    """A modern server that tells of its tools, and lets them be kept for a minute."""
    if message.get("method") == "server/discover":
        told: Message = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}}
        versions = {"supportedVersions": ["2026-07-28"], "capabilities": told}
        return [{"id": message["id"], "result": versions}]
    if message.get("method") == "subscriptions/listen":
        honoured = {"notifications": {"toolsListChanged": True}}
        return [{"method": "notifications/subscriptions/acknowledged", "params": honoured}]
    hints = {"ttlMs": 60_000, "cacheScope": "public"}
    return modern(tools__list={**offers("a"), **hints}, prompts__list={"prompts": []})(message)


def test_a_server_that_listens_to_us_is_heard_by_kind() -> None:
    async def scene() -> Scene:
        at = Scene(telling)
        at.server.open(SHARED)
        await at.listed()
        await until(lambda: at.server.hears(TOOLS))

        assert not at.server.hears(Kind.PROMPTS), "it said what it will tell"
        assert not at.server.hears(Kind.RESOURCES)
        assert at.server.listings[TOOLS].freshness == Freshness(60_000, public=True)
        return at

    play(scene)


def test_a_server_that_does_not_promise_to_tell_is_not_relied_on() -> None:
    async def scene() -> Scene:
        def silent(message: Message) -> list[Message]:
            if message.get("method") == "server/discover":
                return modern()(message)
            return telling(message)

        at = Scene(silent)
        at.server.open(SHARED)
        await at.listed()
        await until(lambda: ("told", (SHARED, ACKNOWLEDGED)) in at.story)

        assert not at.server.hears(TOOLS)
        return at

    play(scene)


def keep_one(at: Scene) -> None:
    server = at.server
    params = b'{"uri":"x:1"}'
    reading = server.shelf.reading("s", "x:1", params, LOCAL)
    assert reading is not None
    server.shelf.keep(reading, b'{"ttlMs":60000,"contents":[]}', at.now)
    assert len(server.shelf) == 1


def test_what_a_server_says_of_its_resources_ends_what_was_kept_of_them() -> None:
    async def scene() -> Scene:
        at = Scene(telling)
        at.server.open(SHARED)
        await at.listed()

        def says(server: FakeServer, method: str, **params: Any) -> None:
            server.say(method=f"notifications/{method}", params=params)

        keep_one(at)
        says(at.warden.servers[0], "resources/updated", uri="x:1")
        await until(lambda: len(at.server.shelf) == 0)
        keep_one(at)
        says(at.warden.servers[0], "tools/list_changed")
        says(at.warden.servers[0], "message", level="info")
        await until(lambda: ("told", (SHARED, "notifications/message")) in at.story)
        assert len(at.server.shelf) == 1
        says(at.warden.servers[0], "resources/list_changed")
        await until(lambda: len(at.server.shelf) == 0)
        keep_one(at)
        at.warden.servers[0].die(1)
        await until(lambda: at.count("started") == 2)
        assert len(at.server.shelf) == 0
        return at

    play(scene)
