"""A configured server: its connections, its lists, and what its owner hears of it."""

from dataclasses import replace
from typing import Any

import pytest

from anyport.config.model import ServerConfig
from anyport.protocol.extensions import SKILLS
from anyport.protocol.methods import OfferKind
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED
from anyport.upstream.lists import RELIST_SECONDS_MIN
from anyport.upstream.supervisor import NotReady, ServerState
from tests.upstream.fakes import FakeServer, Message, legacy, modern, offers, silent, until
from tests.upstream.server_scene import CONFIG, MINE, Scene, play


def test_lists_are_read_when_a_server_has_started() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a", "b")))
        assert (at.server.state, at.server.lists_settled) == (ServerState.STARTING, False)
        at.server.open(SHARED)
        await at.listed()

        assert at.tools == ["a", "b"]
        assert at.server.lists_settled
        assert at.story[0] == ("started", SHARED)
        # What it does not offer is not asked for, and known to be empty.
        asked = [message["method"] for message in at.spawner.servers[0].heard]
        assert "prompts/list" not in asked
        assert at.server.listings[OfferKind.PROMPTS].offers == ()
        return at

    play(scene)


@pytest.mark.parametrize("wanted", ["listen_for_changes", "read_lists"])
def test_a_modern_server_that_shows_itself_is_listened_to_when_somebody_needs_that(
    wanted: str,
) -> None:
    async def scene() -> Scene:
        at = Scene(modern(tools__list=offers("a")))
        at.server.reads_lists = False
        at.server.open(SHARED)
        await at.listed()
        (heard,) = [server.heard for server in at.spawner.servers]
        assert [message["method"] for message in heard] == ["server/discover"]

        getattr(at.server, wanted)()
        getattr(at.server, wanted)()
        await until(lambda: len(heard) > (wanted == "read_lists") + 1)

        asked = [message["method"] for message in heard[1:]]
        assert asked == ["subscriptions/listen", *["tools/list"] * (wanted == "read_lists")]
        return at

    play(scene)


def test_all_pages_of_a_list_are_read() -> None:
    def paged(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message.get("method") != "tools/list":
            return legacy()(message)
        page = 1 if "cursor" in message["params"] else 0
        more = {"nextCursor": ""} if page == 0 else {}
        return [{"id": message["id"], "result": {**offers(f"tool{page}"), **more}}]

    async def scene() -> Scene:
        at = Scene(paged)
        at.server.open(SHARED)
        await at.listed()

        assert at.tools == ["tool0", "tool1"]
        return at

    play(scene)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (replace(CONFIG, disabled=True), "it is disabled in the configuration"),
        (
            replace(CONFIG, unresolved=("X is not set", "Y is not set")),
            "X is not set; Y is not set",
        ),
    ],
)
def test_a_server_that_cannot_be_tried_says_why(config: ServerConfig, reason: str) -> None:
    async def scene() -> Scene:
        at = Scene(silent, config=config)
        given: list[Connection | NotReady] = []
        at.server.lease(SHARED, given.append)

        assert at.server.open(SHARED) is None
        assert isinstance(given[0], NotReady)
        assert given[0].reason.startswith(reason)
        assert at.server.lists_settled
        assert at.server.state is ServerState.STOPPED
        assert at.spawner.commands == []
        return at

    play(scene)


def test_a_server_that_is_down_is_settled_and_keeps_its_last_lists() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), "it is gone for good")
        at.server.open(SHARED)
        await at.listed()

        at.spawner.servers[0].die(1)
        await until(lambda: at.count("failed") == 2)

        assert at.server.lists_settled
        assert not at.server.lists_ready
        assert at.tools == ["a"]
        assert at.server.last_error == "it is gone for good"
        assert at.count("lost") == 1
        return at

    play(scene)


def test_a_restarted_server_is_listed_again_and_only_changes_are_told() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), legacy(tools__list=offers("a", "b")))
        at.server.open(SHARED)
        await at.listed()

        at.spawner.servers[0].die(1)
        await at.listed(2)

        assert at.tools == ["a", "b"]
        assert at.story[-1] == ("listed", frozenset({OfferKind.TOOLS}))
        return at

    play(scene)


def test_a_subscription_that_the_server_cancels_is_opened_again_and_the_lists_are_read() -> None:
    async def scene() -> Scene:
        at = Scene(modern(tools__list=offers("a")))
        at.server.open(SHARED)
        await at.listed()
        process = at.spawner.servers[0]
        (first,) = listened(process)
        process.script = modern(tools__list=offers("a", "b"))

        process.say(method="notifications/cancelled", params={"requestId": 4711})
        process.say(method="notifications/cancelled", params={"requestId": first["id"]})
        await until(lambda: len(at.clock.timers) > 0)
        while at.clock.timers:
            at.clock.timers.pop(0)[1]()
        await at.listed(2)

        assert at.tools == ["a", "b"]
        assert [each["params"] for each in listened(process)] == [first["params"]] * 2
        return at

    play(scene)


def test_what_cancels_nothing_that_could_be_named_is_noted_and_ignored() -> None:
    async def scene() -> Scene:
        at = Scene(modern(tools__list=offers("a")))
        at.server.open(SHARED)
        await at.listed()
        process = at.spawner.servers[0]

        for params in ([1], {"requestId": None}, {"requestId": [1]}, {}):
            process.say(method="notifications/cancelled", params=params)
        await until(lambda: at.count("told") == 3)

        assert at.count("garbled") == 1
        assert len(listened(process)) == 1
        return at

    play(scene)


def listened(process: FakeServer) -> list[Message]:
    return [each for each in process.heard if each["method"] == "subscriptions/listen"]


def test_a_server_that_hangs_on_its_list_is_settled_when_somebody_has_waited() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=None), config=replace(CONFIG, timeout_seconds=0.05))
        at.server.open(SHARED)
        await until(lambda: at.count("started") == 1)
        assert not at.server.lists_settled
        at.server.lists_overdue = True
        assert at.server.lists_settled

        await at.listed()

        # From now on it counts as listed; nothing will come of waiting.
        assert (at.server.lists_ready, at.server.lists_overdue) == (True, False)
        assert at.server.warning == "it did not list what it offers in 0.05 s"

        at.spawner.servers[0].script = legacy(tools__list=offers("a"))
        at.clock.seconds += RELIST_SECONDS_MIN
        at.server.mark_stale((OfferKind.TOOLS,))
        at.clock.timers.pop()[1]()
        await at.listed(2)
        assert at.server.warning is None
        assert at.tools == ["a"]
        return at

    play(scene)


def test_a_server_that_says_all_the_time_that_its_list_changed_is_asked_now_and_then() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")))
        at.server.open(SHARED)
        await at.listed()
        for _ in range(5):
            at.spawner.servers[0].say(method="notifications/tools/list_changed")
        await until(lambda: len(at.clock.timers) == 1)
        assert at.clock.timers[0][0] == 0

        at.clock.timers.pop()[1]()
        await at.listed(2)
        for _ in range(5):
            at.server.mark_stale((OfferKind.TOOLS,))

        assert [seconds for seconds, _ in at.clock.timers] == [RELIST_SECONDS_MIN]
        assert at.count("told") == 0
        return at

    play(scene)


def test_what_a_server_says_on_its_own_is_told_with_its_connection() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.server.open(MINE)
        await at.listed()

        at.spawner.servers[0].say(method="notifications/message", params={})
        at.spawner.servers[0].say(id=7, method="roots/list")
        await until(lambda: at.count("asked") == 1)

        assert ("told", (MINE, "notifications/message")) in at.story
        assert ("asked", (MINE, "roots/list")) in at.story
        initialize = next(m for m in at.spawner.servers[0].heard if m.get("method") == "initialize")
        assert initialize["params"]["capabilities"] == {"roots": {}}
        return at

    play(scene)


def test_a_legacy_server_has_a_connection_for_each_key_and_a_modern_one_shares() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.server.open(SHARED)
        await at.listed()
        assert at.server.open(MINE) is not at.server.open(SHARED)
        await until(lambda: at.count("started") == 2)
        assert len(at.server.connections()) == 2

        other = Scene(modern())
        other.server.open(SHARED)
        await other.listed()
        assert other.server.open(MINE) is other.server.open(SHARED)
        await other.server.stop()
        return at

    play(scene)


def test_a_session_that_ends_takes_its_connections_with_it_and_no_others() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.server.open(SHARED)
        at.server.open(MINE)
        await until(lambda: at.count("started") == 2)
        given: list[Connection | NotReady] = []

        at.server.drop("")
        at.server.drop("mine")
        await until(lambda: at.count("stopped") == 1)

        assert list(at.server.supervisors) == [SHARED]
        assert [server.child.exit_status is None for server in at.spawner.servers] == [True, False]
        assert at.count("failed") == 0
        at.server.lease(MINE, given.append)
        await until(lambda: len(given) == 1)
        assert isinstance(given[0], Connection)
        return at

    play(scene)


def test_stopping_waits_for_connections_that_are_leaving_already() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.server.open(MINE)
        await at.listed()

        at.server.drop("mine")
        await at.server.stop()

        assert at.spawner.servers[0].child.stopped
        return at

    play(scene)


def test_what_it_offers_is_known_and_stays_known_when_it_is_down() -> None:
    def capable(message: dict[str, Any]) -> list[dict[str, Any]]:
        answers = legacy(tools__list=offers("a"))(message)
        if message.get("method") == "initialize":
            told = {"tools": {}, "resources": {"subscribe": True}, "prompts": None, "x": {}}
            answers[0]["result"]["capabilities"] = told
        return answers

    async def scene() -> Scene:
        at = Scene(capable)
        assert at.server.offered_capabilities is None
        at.server.open(SHARED)
        await at.listed()

        offered = {"tools", "resources", "resources.subscribe"}
        assert at.server.offered_capabilities == offered
        at.spawner.servers[0].die()
        await until(lambda: at.count("failed") > 0)
        assert at.server.offered_capabilities == offered
        return at

    play(scene)


def test_what_it_offers_of_extensions_is_known_and_stays_known_when_it_is_down() -> None:
    def skilled(message: dict[str, Any]) -> list[dict[str, Any]]:
        answers = legacy(skills__list={"skills": [{"uri": "skill://a/SKILL.md"}]})(message)
        if message.get("method") == "initialize":
            answers[0]["result"]["capabilities"]["extensions"] = {SKILLS: {}, "x": {}}
        return answers

    async def scene() -> Scene:
        at = Scene(skilled)
        at.server.open(SHARED)
        await at.listed()

        assert at.server.extensions == {SKILLS: b"{}", "x": b"{}"}
        listing = at.server.listings[OfferKind.SKILLS]
        assert [offer.native for offer in listing.offers] == ["skill://a/SKILL.md"]
        at.spawner.servers[0].die()
        await until(lambda: at.count("failed") > 0)
        assert at.server.extensions == {SKILLS: b"{}", "x": b"{}"}
        return at

    play(scene)
