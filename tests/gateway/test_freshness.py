"""How old the lists of a profile are, and which must be read again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway.freshness import of_list, of_part, renewing
from anyport.protocol.extension import SKILLS
from anyport.protocol.freshness import STALE, Freshness
from anyport.protocol.method import Kind
from anyport.routing.offers import Listing
from tests.gateway.fakes import LEGACY, MODERN, FakeServer, profile_of
from tests.upstream.fakes import peer_of

TOOLS = Kind.TOOLS
HOUR = Freshness(3_600_000, public=True)


def listed(slug: str, revision: Any = MODERN, freshness: Freshness = HOUR) -> FakeServer:
    server = FakeServer(slug, revision)
    server.listings[TOOLS] = Listing(freshness=freshness, read_at=0.0)
    server.listed = True
    return server


def disabled() -> FakeServer:
    return FakeServer("off", None, disabled=True)


def without_tools() -> FakeServer:
    server = FakeServer("bare", MODERN)
    server.connection.peer = peer_of(MODERN, prompts={})
    return server


def test_a_modern_server_has_its_word() -> None:
    assert of_part(listed("a"), TOOLS) == HOUR
    assert of_part(listed("a"), Kind.PROMPTS) == STALE, "it was not read yet"


def test_of_a_legacy_server_nothing_is_promised_whatever_it_says() -> None:
    assert of_part(listed("a", LEGACY), TOOLS) == STALE


def test_a_server_that_is_down_has_no_time_left_but_is_not_private_for_that() -> None:
    assert of_part(listed("a", None), TOOLS) == Freshness(0, public=True)
    assert of_part(FakeServer("a", None), TOOLS) == STALE


@pytest.mark.parametrize("server", [disabled, without_tools])
def test_who_has_no_such_list_has_no_say(server: Callable[[], FakeServer]) -> None:
    assert of_part(server(), TOOLS) is None
    assert of_list(profile_of(server(), listed("a")), TOOLS) == HOUR
    assert of_list(profile_of(server()), TOOLS) == STALE


def test_one_server_that_promises_nothing_spoils_it_for_all() -> None:
    assert of_list(profile_of(listed("a"), listed("b", LEGACY)), TOOLS) == STALE
    private = listed("b", freshness=Freshness(7_200_000))
    assert of_list(profile_of(listed("a"), private), TOOLS) == Freshness(HOUR.ttl_ms)


def test_only_lists_that_have_an_age_are_read_again() -> None:
    fine, late, starting = listed("fine"), listed("late"), listed("starting")
    late.late, starting.listed = True, False
    for server in (late, starting):
        server.listings[TOOLS] = Listing()
    legacy, down = listed("legacy", LEGACY, STALE), listed("down", None, STALE)

    others = (disabled(), without_tools(), fine, late, starting, legacy, down)
    assert renewing(profile_of(*others), TOOLS) == []


def test_the_skills_of_a_legacy_server_are_read_whenever_they_are_wanted() -> None:
    skilled = listed("old", LEGACY, STALE)
    skilled.connection.peer = replace(peer_of(LEGACY), extensions={SKILLS: b"{}"})
    asked: list[Kind] = []
    skilled.lists.renew = lambda kind, *, told: asked.append(kind) or not told  # type: ignore

    assert renewing(profile_of(skilled, listed("bare", LEGACY, STALE)), Kind.SKILLS) == [skilled]
    assert renewing(profile_of(skilled), TOOLS) == []
    assert asked == [Kind.SKILLS]
