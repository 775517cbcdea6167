"""When the lists of one server are read, and how old they may get."""

import asyncio
from collections.abc import Coroutine
from math import inf
from typing import Any

import pytest

from anyport.config.model import ServerConfig
from anyport.protocol.cache_hints import STALE, Freshness
from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import LOCAL
from anyport.upstream import lists
from anyport.upstream.lease_key import SHARED
from anyport.upstream.lists import (
    LOOKUPS_MAX,
    RECHECK_SECONDS_MAX,
    RECHECK_SECONDS_MIN,
    REFRESH_SECONDS_MIN,
    RELIST_PAUSE_FACTOR,
    RELIST_SECONDS_MAX,
    RELIST_SECONDS_MIN,
    ListConnections,
    ListTrust,
    ServerLists,
)
from tests.upstream.fakes import (
    MODERN,
    FakeClock,
    FakeServer,
    Message,
    connected,
    legacy,
    modern,
    offers,
    peer_of,
    run,
    say,
    until,
)
from tests.upstream.server_scene import Scene, play

TOOLS = OfferKind.TOOLS


class ListClock(FakeClock):
    """Keeps the tasks that were spawned."""

    def __init__(self) -> None:
        super().__init__(100.0)
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))


class ListScene:
    """The lists of a modern server, which answers when the test says so."""

    def __init__(self) -> None:
        self.connection, self.channel, _ = connected()
        self.connection.peer = peer_of(MODERN, tools={}, prompts={})
        self.clock = ListClock()
        self.changed: list[frozenset[OfferKind]] = []
        self.warnings: list[str | None] = []
        self.cost = 0.0
        config = ServerConfig(slug="s", name="s", timeout_seconds=5.0)
        self.lists = ServerLists(config, self, self.clock)

    async def read(self, *names: str, kind: OfferKind = TOOLS, **hints: Any) -> None:
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

    def come_due(self) -> float:
        """Let the one thing that is planned come due; how long that took."""
        ((delay, planned),) = self.clock.timers
        self.clock.timers.clear()
        self.clock.seconds += delay
        planned()
        return delay

    @property
    def tools(self) -> list[str]:
        return [offer.native for offer in self.lists.known[TOOLS].offers]

    # As the owner of the lists.

    def list_connections(self) -> ListConnections:
        return ListConnections(main=self.connection)

    def on_lists_read(
        self, connections: ListConnections, warning: str | None, changed: frozenset[OfferKind]
    ) -> None:
        self.clock.cpu_seconds += self.cost
        self.changed.append(changed)
        self.warnings.append(warning)


def renew(scene: ListScene, kind: OfferKind = TOOLS, **trust: Any) -> bool:
    return scene.lists.refresh(kind, ListTrust(**{"timed": True, **trust}))


def test_a_list_is_shown_until_its_time_is_over_and_then_read_first() -> None:
    async def scene() -> None:
        at = ListScene()
        assert renew(at), "it was never read"
        await at.read("a", ttlMs=5000, cacheScope="public")
        assert at.lists.freshness(TOOLS) == Freshness(5000, public=True)

        at.clock.seconds += 4.875
        assert not renew(at)
        assert at.lists.freshness(TOOLS) == Freshness(125, public=True)
        at.clock.seconds += 0.125
        assert at.lists.freshness(TOOLS) == Freshness(0, public=True)
        assert renew(at)
        assert at.lists.is_awaited(TOOLS)
        await at.read("b", ttlMs=5000, cacheScope="public")

        assert not at.lists.is_awaited(TOOLS)
        assert at.tools == ["b"]
        assert at.changed == [frozenset({TOOLS})] * 2

    run(scene)


def test_nothing_is_read_because_time_goes_by() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.read("a", ttlMs=1)
        at.clock.seconds += 1e6

        assert at.clock.timers == []
        assert len(at.channel.sent) == 1

    run(scene)


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [(0.001, RELIST_SECONDS_MIN), (0.1, 0.1 * RELIST_PAUSE_FACTOR), (9.0, RELIST_SECONDS_MAX)],
)
def test_lists_that_are_dear_to_take_in_are_read_less_often(cost: float, seconds: float) -> None:
    async def scene() -> None:
        at = ListScene()
        at.cost = cost
        at.lists.mark_stale([TOOLS])
        (first, look) = at.clock.timers.pop()
        assert first == 0.0, "the first change is told at once"
        look()
        await at.read("a")
        at.clock.seconds += 0.5
        at.lists.mark_stale([TOOLS])
        assert [round(after, 6) for after, _ in at.clock.timers] == [seconds - 0.5]

    run(scene)


async def read_silently(at: ListScene) -> None:
    """Have a list read whose server neither gives it a time nor tells of changes."""
    assert renew(at, timed=False)
    await at.read("a")


def test_a_list_without_a_time_whose_changes_are_told_does_not_get_old() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)
        at.clock.seconds += 1e6

        assert not renew(at, timed=False, notified_since=-inf)
        assert not renew(at, timed=False, notified_since=100.0)
        assert len(at.clock.tasks) == 1

    run(scene)


def test_that_changes_are_told_makes_no_time_longer() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.read("a", ttlMs=5000)
        at.clock.seconds += 5.0

        assert renew(at, notified_since=-inf), "its server says that it is over"
        await at.read("a", "b")
        assert at.tools == ["a", "b"]

    run(scene)


def test_a_list_that_may_change_without_a_word_is_shown_for_a_few_seconds() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)
        at.clock.seconds += RECHECK_SECONDS_MIN - 0.5

        assert not renew(at, timed=False)
        assert not renew(at, timed=False, notified_since=101.0), "it may have changed before"
        assert len(at.clock.tasks) == 1

    run(scene)


def test_a_newcomer_is_not_shown_what_is_known_to_have_changed() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)
        at.lists.mark_stale([TOOLS])
        told: dict[str, Any] = {"timed": False, "notified_since": -inf}

        assert not renew(at, **told, first_view=True), "it was asked for so lately"
        at.clock.seconds += REFRESH_SECONDS_MIN
        assert not renew(at, **told), "who has seen the old one is told when there is another"
        assert renew(at, **told, first_view=True)
        await at.read("a", "b")
        assert at.tools == ["a", "b"]

    run(scene)


def test_then_it_is_read_again_while_it_is_shown() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)
        at.clock.seconds += RECHECK_SECONDS_MIN

        assert not renew(at, timed=False)
        assert not renew(at, timed=False)
        assert len(at.clock.tasks) == 2
        await at.read("b")
        assert (at.tools, at.changed[-1]) == (["b"], frozenset({TOOLS}))

    run(scene)


def test_after_a_minute_it_is_read_before_it_is_shown() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)
        at.clock.seconds += RECHECK_SECONDS_MAX

        assert renew(at, timed=False)
        assert renew(at, timed=False), "who comes meanwhile waits as well"
        await at.read("b")
        assert not at.lists.is_awaited(TOOLS)
        assert len(at.clock.tasks) == 2

    run(scene)


def test_for_a_newcomer_a_list_is_read_again_though_changes_are_told() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)

        at.clock.seconds += RECHECK_SECONDS_MIN
        assert not renew(at, timed=False, notified_since=-inf, first_view=True)
        assert len(at.clock.tasks) == 2
        await at.read("a")
        at.clock.seconds += RECHECK_SECONDS_MAX
        assert renew(at, timed=False, notified_since=-inf, first_view=True)
        await at.read("a")

    run(scene)


@pytest.mark.parametrize(
    ("trust", "hints", "seconds"),
    [
        ({"timed": False}, {}, RECHECK_SECONDS_MIN),
        ({"timed": False, "notified_since": -inf}, {}, RECHECK_SECONDS_MIN),
        ({"timed": True}, {"ttlMs": 3_600_000}, RECHECK_SECONDS_MIN),
        ({"timed": True}, {"ttlMs": 0}, REFRESH_SECONDS_MIN),
    ],
    ids=["untold", "told", "timed", "out of date"],
)
def test_a_list_that_was_read_just_now_is_read_once_more_for_newcomers_who_were_shown_it(
    trust: dict[str, Any], hints: dict[str, Any], seconds: float
) -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at, timed=trust["timed"])
        await at.read("a", **hints)
        at.clock.seconds += 0.25
        for _ in range(2):
            assert not renew(at, **trust, first_view=True)
        assert len(at.clock.tasks) == 1, "not before its time"

        assert at.come_due() == seconds - 0.25
        await at.read("a", "b", **hints)
        assert at.changed[-1] == frozenset({TOOLS})
        assert (len(at.clock.tasks), at.clock.timers) == (2, [])

    run(scene)


def test_it_is_not_read_again_if_it_was_since_it_was_shown_to_them() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)
        renew(at, timed=False, first_view=True)
        ((delay, look),) = at.clock.timers
        at.clock.seconds += 1.0
        at.lists.read_all()
        await until(lambda: len(at.channel.sent) == 2)
        say(at.connection, id=at.channel.sent[1]["id"], result=offers("a"))
        await until(lambda: len(at.channel.sent) == 3)
        say(at.connection, id=at.channel.sent[2]["id"], result={"prompts": []})
        await until(lambda: len(at.changed) == 2)

        at.clock.seconds += delay
        look()
        assert len(at.clock.tasks) == 2

    run(scene)


def test_nothing_is_read_for_newcomers_once_it_is_over() -> None:
    async def scene() -> None:
        at = ListScene()
        await read_silently(at)
        renew(at, timed=False, first_view=True)
        at.lists.close()
        at.come_due()
        assert len(at.clock.tasks) == 1

    run(scene)


def test_a_newcomer_does_not_wait_for_a_list_that_has_time_left() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.read("a", ttlMs=3_600_000)
        at.clock.seconds += RECHECK_SECONDS_MAX

        assert not renew(at, first_view=True)
        await at.read("b", ttlMs=3_600_000)
        assert at.tools == ["b"]

    run(scene)


def test_names_that_are_in_no_list_have_it_read_at_once_for_all_who_ask() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.read("a", ttlMs=3_600_000)
        numbers = {at.lists.look_up((TOOLS,)) for _ in range(100)}
        assert len(at.clock.tasks) == 1
        assert at.come_due() == 0.0
        await at.read("b", ttlMs=3_600_000)

        assert ({at.lists.lookups_done}, at.tools) == (numbers, ["b"])
        assert len(at.clock.tasks) == 2

    run(scene)


def test_they_do_not_have_it_read_too_often() -> None:
    async def scene() -> None:
        at = ListScene()
        at.clock.timers.clear()
        for _ in range(LOOKUPS_MAX):
            assert at.lists.look_up((TOOLS,)) is not None
            at.come_due()
            await at.read("a")

        assert at.lists.look_up((TOOLS,)) is None
        at.clock.seconds += RELIST_SECONDS_MIN
        assert at.lists.look_up((TOOLS,)) == LOOKUPS_MAX + 1
        at.come_due()
        await at.read("a")
        assert at.lists.look_up((TOOLS,)) is None

    run(scene)


def test_a_reading_that_began_before_the_name_was_asked_for_does_not_count() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.asked()
        number = at.lists.look_up((TOOLS,))
        at.come_due()
        await at.read("a")
        assert number is not None
        assert at.lists.lookups_done < number
        await at.read("a", "b")

        assert at.lists.lookups_done == number
        assert at.tools == ["a", "b"]

    run(scene)


def test_many_who_ask_at_once_cause_one_reading_and_so_do_many_in_a_second() -> None:
    async def scene() -> None:
        at = ListScene()
        assert [renew(at) for _ in range(5)] == [True] * 5
        await at.read("a", ttlMs=0)

        at.clock.seconds += REFRESH_SECONDS_MIN - 0.5
        assert not renew(at)
        at.clock.seconds += 0.5
        assert [renew(at), renew(at)] == [True, True]
        await at.read("a")

        assert len(at.channel.sent) == 2

    run(scene)


def test_whoever_wants_a_list_that_is_being_read_waits_for_it() -> None:
    async def scene() -> None:
        at = ListScene()
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
        at = ListScene()
        renew(at, OfferKind.PROMPTS)
        assert renew(at)
        await at.asked()
        assert [sent["method"] for sent in at.channel.sent] == ["prompts/list"]
        await at.read(kind=OfferKind.PROMPTS)
        assert at.lists.is_awaited(TOOLS)
        await at.read("a")

        assert [sent["method"] for sent in at.channel.sent] == ["prompts/list", "tools/list"]
        assert at.clock.timers == []

    run(scene)


def test_lists_that_are_read_together_become_known_together_when_they_are_announced() -> None:
    async def scene() -> None:
        at = ListScene()
        at.lists.read_all()
        await at.asked()
        say(at.connection, id=at.channel.sent[-1]["id"], result=offers("a"))
        await until(lambda: at.channel.sent[-1]["method"] == "prompts/list")

        assert not at.lists.known, "the lists of other connections are compared with these"
        say(at.connection, id=at.channel.sent[-1]["id"], result={"prompts": [{"name": "p"}]})
        await at.ended()
        assert at.tools == ["a"]
        assert at.changed[0] >= {TOOLS, OfferKind.PROMPTS}

    run(scene)


def test_what_was_planned_is_not_read_twice() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.read("a")
        at.clock.seconds += RELIST_SECONDS_MIN
        at.lists.mark_stale((TOOLS,))
        assert renew(at)
        await at.read("b")

        ((_, planned),) = at.clock.timers
        planned()

        assert len(at.clock.tasks) == 2

    run(scene)


def test_a_list_that_is_the_same_stays_the_same_and_is_dated_anew() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.read("a", ttlMs=1000)
        before = at.lists.known[TOOLS]
        at.clock.seconds += 10.0
        renew(at)
        await at.read("a", ttlMs=2000, cacheScope="public")

        after = at.lists.known[TOOLS]
        assert at.changed[-1] == frozenset()
        assert after.offers is before.offers
        assert (after.freshness, after.read_at) == (Freshness(2000, public=True), 110.0)

    run(scene)


def test_a_server_that_refuses_or_is_lost_leaves_the_list_as_it_was_known() -> None:
    async def scene() -> None:
        at = ListScene()
        renew(at)
        await at.read("a", ttlMs=1000)
        at.clock.seconds += 10.0
        renew(at)
        await at.asked()
        error = {"code": -32603, "message": "out of order"}
        say(at.connection, id=at.channel.sent[-1]["id"], error=error)
        await at.ended()
        assert (at.tools, at.clock.timers) == (["a"], [])
        assert at.lists.freshness(TOOLS) == STALE

        at.clock.seconds += 10.0
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


def test_a_modern_server_has_its_time_whatever_it_tells() -> None:
    async def scene() -> Scene:
        at = Scene(telling)
        at.server.open(SHARED)
        await at.listed()

        trust = at.server.trust(TOOLS, newcomer=False)
        assert trust.timed
        assert at.server.listings[TOOLS].freshness == Freshness(60_000, public=True)
        return at

    play(scene)


def test_a_legacy_server_is_relied_on_if_it_promises_to_tell() -> None:
    async def scene() -> Scene:
        def promising(message: Message) -> list[Message]:
            answers = legacy(tools__list=offers("a"), prompts__list={"prompts": []})(message)
            if message.get("method") == "initialize":
                told: Message = {"tools": {"listChanged": True}, "prompts": {}}
                answers[0]["result"]["capabilities"] = told
            return answers

        at = Scene(promising)
        at.server.open(SHARED)
        await at.listed()

        told = [at.server.trust(kind, newcomer=False) for kind in (TOOLS, OfferKind.PROMPTS)]
        assert told == [ListTrust(timed=False, notified_since=-inf), ListTrust(timed=False)]
        assert at.server.trust(OfferKind.SKILLS, newcomer=True) == ListTrust(
            timed=True, first_view=True
        )
        return at

    play(scene)


def keep_one(at: Scene) -> None:
    server = at.server
    params = b'{"uri":"x:1"}'
    reading = server.read_cache.prepare("s", "x:1", params, LOCAL)
    assert reading is not None
    server.read_cache.store(reading, b'{"ttlMs":60000,"contents":[]}', at.clock.seconds)
    assert len(server.read_cache) == 1


def test_what_a_server_says_of_its_resources_ends_what_was_kept_of_them() -> None:
    async def scene() -> Scene:
        at = Scene(telling)
        at.server.open(SHARED)
        await at.listed()

        def says(server: FakeServer, method: str, **params: Any) -> None:
            server.say(method=f"notifications/{method}", params=params)

        keep_one(at)
        says(at.spawner.servers[0], "resources/updated", uri="x:1")
        await until(lambda: len(at.server.read_cache) == 0)
        keep_one(at)
        says(at.spawner.servers[0], "tools/list_changed")
        says(at.spawner.servers[0], "message", level="info")
        await until(lambda: ("told", (SHARED, "notifications/message")) in at.story)
        assert len(at.server.read_cache) == 1
        says(at.spawner.servers[0], "resources/list_changed")
        await until(lambda: len(at.server.read_cache) == 0)
        keep_one(at)
        at.spawner.servers[0].die(1)
        await until(lambda: at.count("started") == 2)
        assert len(at.server.read_cache) == 0
        return at

    play(scene)


# Templates of a server that declares none


TEMPLATES = OfferKind.TEMPLATES


async def tell_templates(scene: ListScene, *uris: str) -> None:
    """Wait for the question, and answer it."""
    asked = len(scene.channel.sent)
    await until(lambda: len(scene.channel.sent) > asked)
    listed = [{"name": uri, "uriTemplate": uri} for uri in uris]
    say(scene.connection, id=scene.channel.sent[-1]["id"], result={TEMPLATES.value: listed})
    await scene.ended()


def templates(scene: ListScene) -> list[str]:
    return [offer.native for offer in scene.lists.known[TEMPLATES].offers]


def test_templates_that_are_not_declared_are_asked_for_once() -> None:
    async def scene() -> None:
        at = ListScene()
        assert at.lists.read_undeclared()
        assert at.lists.read_undeclared(), "somebody else wants to see them, too"
        await tell_templates(at, "x:{y}")
        assert templates(at) == ["x:{y}"]
        assert at.changed == [frozenset({TEMPLATES})]

        assert not at.lists.read_undeclared()
        at.lists.mark_stale([TEMPLATES])
        _, look = at.clock.timers.pop()
        look()
        await at.ended()
        assert templates(at) == ["x:{y}"]
        assert len(at.channel.sent) == 1

    run(scene)


def test_they_are_asked_for_again_over_another_connection() -> None:
    async def scene() -> None:
        at = ListScene()
        at.lists.read_undeclared()
        await tell_templates(at, "x:{y}")
        at.connection, at.channel, _ = connected()
        at.connection.peer = peer_of(MODERN, tools={})
        assert at.lists.read_undeclared()
        await tell_templates(at)
        assert templates(at) == []

    run(scene)


def test_they_are_not_asked_for_before_somebody_wants_to_see_them() -> None:
    async def scene() -> None:
        at = ListScene()
        at.connection.peer = peer_of(MODERN, logging={})
        at.lists.read_all()
        await at.ended()
        assert at.channel.sent == []
        assert templates(at) == []

    run(scene)


@pytest.mark.parametrize("mute", [True, False])
def test_a_server_that_does_not_know_them_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, mute: bool
) -> None:
    async def scene() -> None:
        if mute:
            monkeypatch.setattr(lists, "UNDECLARED_SECONDS_MAX", 0.001)
        at = ListScene()
        at.lists.read_undeclared()
        if not mute:
            await until(lambda: len(at.channel.sent) == 1)
            error = {"code": -32601, "message": "Method not found"}
            say(at.connection, id=at.channel.sent[0]["id"], error=error)
        await at.ended()
        assert templates(at) == []
        assert at.warnings == [None]
        assert not at.lists.read_undeclared()

    run(scene)
