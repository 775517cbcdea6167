"""How old the lists are that the gateway answers with, and what it says of that."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway import desk as desks
from anyport.protocol.freshness import Freshness
from anyport.protocol.method import Kind
from anyport.routing.offers import Listing
from anyport.upstream.lists import Lines, Lists, Readings
from tests.gateway.fakes import MODERN, Asked, FakeServer, caller
from tests.gateway.test_desk import Scene, tools


class Aging(FakeServer):
    """A modern server whose lists are read again when the test says so."""

    def __init__(self, slug: str = "s") -> None:
        super().__init__(slug, MODERN)
        self.now = 0.0
        self.reads = 0
        time = replace(self._time, clock=lambda: self.now)
        readings = Readings(
            lines=lambda: Lines(main=None),
            spawn=self._spawn,
            time=time,
            done=lambda *_: None,
        )
        self.lists = Lists(self.config, readings)
        self.listings = self.lists.known

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.reads += 1
        self.work = work


def ask_modern(scene: Scene, method: str = "tools/list") -> Asked:
    asked = Asked(method, None, caller(None, MODERN))
    scene.desk.answer(asked.exchange, scene.profile)
    return asked


def test_a_merged_list_says_the_least_that_its_servers_say() -> None:
    one, two = Aging("one"), Aging("two")
    one.listings[Kind.TOOLS] = Listing(freshness=Freshness(60_000, public=True), read_at=0.0)
    two.listings[Kind.TOOLS] = Listing(freshness=Freshness(90_000, public=True), read_at=0.0)
    one.listed = two.listed = True
    scene = Scene(one, two)

    first, second = ask_modern(scene), ask_modern(scene)
    assert first.told[0] is second.told[0]
    assert (first.ending["ttlMs"], first.ending["cacheScope"]) == (60_000, "public")
    one.now = two.now = 10.0
    third = ask_modern(scene)
    assert (third.ending["ttlMs"], third.ending["cacheScope"]) == (50_000, "public")
    assert {**third.ending, "ttlMs": 60_000} == first.ending
    two.listings[Kind.TOOLS] = Listing(freshness=Freshness(20_000), read_at=0.0)
    fourth = ask_modern(scene)
    assert (fourth.ending["ttlMs"], fourth.ending["cacheScope"]) == (10_000, "private")


def test_a_legacy_client_is_told_nothing_of_freshness() -> None:
    scene = Scene(Aging())
    scene.server.offer(Kind.TOOLS, "echo")
    scene.profile.refresh()

    assert set(scene.ask("tools/list").ending) == {"tools"}


def test_a_list_that_is_too_old_is_read_again_before_it_is_shown() -> None:
    server = Aging()
    server.offer(Kind.TOOLS, "old")
    scene = Scene(server)
    server.now = 60.0
    asked, another = ask_modern(scene), ask_modern(scene)
    assert (asked.ending, another.ending, server.reads) == (None, None, 1)
    scene.desk.lists_settled()
    assert asked.ending is None

    asyncio.run(server.work)
    server.offer(Kind.TOOLS, "new")
    scene.profile.refresh()
    scene.desk.lists_settled()

    assert tools(asked)[2:] == tools(another)[2:] == ["s__new"]


def test_a_list_that_cannot_be_read_in_time_is_shown_as_it_was_and_the_next_at_once() -> None:
    server = Aging()
    server.offer(Kind.TOOLS, "old")
    scene = Scene(server)
    server.now = 60.0
    asked = ask_modern(scene)
    ((seconds, give_up),) = scene.later.due

    give_up()

    assert seconds == 2.0
    assert tools(asked)[2:] == ["s__old"]
    assert (asked.ending["ttlMs"], server.late) == (0, True)
    assert tools(ask_modern(scene))[2:] == ["s__old"]
    server.work.close()


def test_a_cursor_does_not_outlive_the_scope_that_its_list_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(desks, "PAGE_ENTRIES_MAX", 3)
    server = Aging()
    server.offer(Kind.TOOLS, "a", "b", "c")
    scene = Scene(server)
    first = ask_modern(scene)

    def go_on() -> Asked:
        params = {"cursor": first.ending["nextCursor"]}
        asked = Asked("tools/list", params, caller(None, MODERN))
        scene.desk.answer(asked.exchange, scene.profile)
        return asked

    assert go_on().ending["cacheScope"] == first.ending["cacheScope"] == "private"
    known = server.listings[Kind.TOOLS]
    server.listings[Kind.TOOLS] = replace(known, freshness=Freshness(60_000, public=True))
    assert str(go_on().ending).startswith("Invalid cursor")
