"""A configured server: its connections, its lists, and what its owner hears of it."""

from dataclasses import replace
from typing import Any

import pytest

from anyport.config.schema import ServerConfig
from anyport.protocol.extension import SKILLS
from anyport.protocol.method import Kind
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED
from anyport.upstream.lists import RELIST_SECONDS_MIN
from anyport.upstream.tender import State
from tests.upstream.fakes import legacy, modern, offers, silent, until
from tests.upstream.recorded import CONFIG, MINE, Scene, play


def test_lists_are_read_when_a_server_has_started() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a", "b")))
        assert (at.server.state, at.server.settled) == (State.STARTING, False)
        at.server.open(SHARED)
        await at.listed()

        assert at.tools == ["a", "b"]
        assert at.server.settled
        assert at.story[0] == ("started", SHARED)
        # What it does not offer is not asked for, and known to be empty.
        asked = [message["method"] for message in at.warden.servers[0].heard]
        assert "prompts/list" not in asked
        assert at.server.listings[Kind.PROMPTS].offers == ()
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
        given: list[Connection | str] = []
        at.server.lease(SHARED, given.append)

        assert at.server.open(SHARED) is None
        assert isinstance(given[0], str)
        assert given[0].startswith(reason)
        assert at.server.settled
        assert at.server.state is State.STOPPED
        assert at.warden.commands == []
        return at

    play(scene)


def test_a_server_that_is_down_is_settled_and_keeps_its_last_lists() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=offers("a")), "it is gone for good")
        at.server.open(SHARED)
        await at.listed()

        at.warden.servers[0].die(1)
        await until(lambda: at.count("failed") == 2)

        assert at.server.settled
        assert not at.server.listed
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

        at.warden.servers[0].die(1)
        await at.listed(2)

        assert at.tools == ["a", "b"]
        assert at.story[-1] == ("listed", frozenset({Kind.TOOLS}))
        return at

    play(scene)


def test_a_server_that_hangs_on_its_list_is_settled_when_somebody_has_waited() -> None:
    async def scene() -> Scene:
        at = Scene(legacy(tools__list=None), config=replace(CONFIG, timeout_seconds=0.05))
        at.server.open(SHARED)
        await until(lambda: at.count("started") == 1)
        assert not at.server.settled
        at.server.late = True
        assert at.server.settled

        await at.listed()

        # From now on it counts as listed; nothing will come of waiting.
        assert (at.server.listed, at.server.late) == (True, False)
        assert at.server.warning == "it did not list what it offers in 0.05 s"

        at.warden.servers[0].script = legacy(tools__list=offers("a"))
        at.now += RELIST_SECONDS_MIN
        at.server.mark_stale((Kind.TOOLS,))
        at.later.pop()[1]()
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
            at.warden.servers[0].say(method="notifications/tools/list_changed")
        await until(lambda: len(at.later) == 1)
        assert at.later[0][0] == 0

        at.later.pop()[1]()
        await at.listed(2)
        for _ in range(5):
            at.server.mark_stale((Kind.TOOLS,))

        assert [seconds for seconds, _ in at.later] == [RELIST_SECONDS_MIN]
        assert at.count("told") == 0
        return at

    play(scene)


def test_what_a_server_says_on_its_own_is_told_with_its_connection() -> None:
    async def scene() -> Scene:
        at = Scene(legacy())
        at.server.open(MINE)
        await at.listed()

        at.warden.servers[0].say(method="notifications/message", params={})
        at.warden.servers[0].say(id=7, method="roots/list")
        await until(lambda: at.count("asked") == 1)

        assert ("told", (MINE, "notifications/message")) in at.story
        assert ("asked", (MINE, "roots/list")) in at.story
        initialize = next(m for m in at.warden.servers[0].heard if m.get("method") == "initialize")
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
        given: list[Connection | str] = []

        at.server.drop("")
        at.server.drop("mine")
        await until(lambda: at.count("stopped") == 1)

        assert list(at.server.tenders) == [SHARED]
        assert [server.child.exited is None for server in at.warden.servers] == [True, False]
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

        assert at.warden.servers[0].child.stopped
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

        assert at.server.extensions == {SKILLS: b"{}"}
        listing = at.server.listings[Kind.SKILLS]
        assert [offer.native for offer in listing.offers] == ["skill://a/SKILL.md"]
        at.warden.servers[0].die()
        await until(lambda: at.count("failed") > 0)
        assert at.server.extensions == {SKILLS: b"{}"}
        return at

    play(scene)
