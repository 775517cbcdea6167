"""How old the lists of a profile are, and which must be read again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from anyport.catalog.offers import Listing, Offer
from anyport.catalog.route import Unroutable
from anyport.gateway.local.list_freshness import (
    UNKNOWN_NAME_ERROR_BYTES_MAX,
    list_freshness,
    recheck_lists_on_error,
    refresh_for_lookup,
    refresh_stale_lists,
    source_freshness,
)
from anyport.protocol.cache_hints import STALE, Freshness
from anyport.protocol.errors import invalid_params
from anyport.protocol.extensions import SKILLS
from anyport.protocol.methods import OfferKind
from tests.gateway.fakes import LEGACY, MODERN, FakeServer, profile_of
from tests.upstream.fakes import peer_of

TOOLS = OfferKind.TOOLS
HOUR = Freshness(3_600_000, public=True)


def listed(slug: str, revision: Any = MODERN, freshness: Freshness = HOUR) -> FakeServer:
    server = FakeServer(slug, revision)
    server.listings[TOOLS] = Listing(freshness=freshness, read_at=0.0)
    server.lists_ready = True
    return server


def disabled() -> FakeServer:
    return FakeServer("off", None, disabled=True)


def without_tools() -> FakeServer:
    server = FakeServer("bare", MODERN)
    server.connection.peer = peer_of(MODERN, prompts={})
    return server


def test_a_modern_server_has_its_word() -> None:
    assert source_freshness(listed("a"), TOOLS) == HOUR
    assert source_freshness(listed("a"), OfferKind.PROMPTS) == STALE, "it was not read yet"


def test_of_a_legacy_server_nothing_is_promised_whatever_it_says() -> None:
    assert source_freshness(listed("a", LEGACY), TOOLS) == STALE


def test_a_server_that_is_down_has_no_time_left_but_is_not_private_for_that() -> None:
    assert source_freshness(listed("a", None), TOOLS) == Freshness(0, public=True)
    assert source_freshness(FakeServer("a", None), TOOLS) == STALE


@pytest.mark.parametrize("server", [disabled, without_tools])
def test_who_has_no_such_list_has_no_say(server: Callable[[], FakeServer]) -> None:
    assert source_freshness(server(), TOOLS) is None
    assert list_freshness(profile_of(server(), listed("a")), TOOLS) == HOUR
    assert list_freshness(profile_of(server()), TOOLS) == STALE


def test_one_server_that_promises_nothing_spoils_it_for_all() -> None:
    assert list_freshness(profile_of(listed("a"), listed("b", LEGACY)), TOOLS) == STALE
    private = listed("b", freshness=Freshness(7_200_000))
    assert list_freshness(profile_of(listed("a"), private), TOOLS) == Freshness(HOUR.ttl_ms)


def test_only_lists_that_can_be_read_and_may_have_changed_are_read_again() -> None:
    fine, late, starting = listed("fine"), listed("late"), listed("starting")
    late.lists_overdue, starting.lists_ready = True, False
    for server in (late, starting):
        server.listings[TOOLS] = Listing()
    down = listed("down", None, STALE)

    others = (disabled(), without_tools(), fine, late, starting, down)
    assert refresh_stale_lists(profile_of(*others), TOOLS) == []


def sought_in(server: FakeServer) -> list[tuple[OfferKind, ...]]:
    """The lists in which something is looked up from now on."""
    sought: list[tuple[OfferKind, ...]] = []
    server.lists.look_up = lambda kinds: sought.append(tuple(kinds)) or len(sought)  # type: ignore
    return sought


def unroutable(public: str, *kinds: OfferKind) -> Unroutable:
    return Unroutable(fault=invalid_params("?"), final=False, public=public, kinds=kinds)


def test_a_name_that_begins_with_a_server_is_looked_up_there_alone() -> None:
    one, two = listed("one"), listed("two", LEGACY)
    first, second = sought_in(one), sought_in(two)

    asked = refresh_for_lookup(profile_of(one, two), unroutable("two__new", TOOLS))

    assert asked == [(two, 1)]
    assert (first, second) == ([], [(TOOLS,)])


@pytest.mark.parametrize(
    ("prefix", "slugs"),
    [("always", []), ("never", ["one", "two"]), ("on-conflict", ["one", "two"])],
)
def test_a_bare_name_is_looked_up_everywhere_if_somebody_could_have_it(
    prefix: str, slugs: list[str]
) -> None:
    one, two = listed("one"), listed("two")
    sought_in(one), sought_in(two)

    asked = refresh_for_lookup(profile_of(one, two, prefix=prefix), unroutable("new", TOOLS))

    assert asked == [(server, 1) for server in (one, two) if server.slug in slugs]


def test_a_uri_is_looked_up_everywhere_unless_it_names_its_server() -> None:
    one, two = (listed(slug) for slug in ("one", "two"))
    for server in (one, two):
        server.connection.peer = peer_of(MODERN, resources={})
        sought_in(server)
    profile = profile_of(one, two)
    kinds = (OfferKind.RESOURCES, OfferKind.TEMPLATES)

    everywhere = refresh_for_lookup(profile, unroutable("x:new", *kinds))
    there = refresh_for_lookup(profile, unroutable("two+x:new", *kinds))

    assert [source for source, _ in everywhere] == [one, two]
    assert [source for source, _ in there] == [two]


def test_who_is_down_late_or_has_no_such_list_is_not_asked() -> None:
    late = listed("late")
    late.lists_overdue = True
    servers = (
        disabled(),
        without_tools(),
        listed("down", None),
        late,
        FakeServer("starts", MODERN),
    )

    assert refresh_for_lookup(profile_of(*servers, prefix="never"), unroutable("new", TOOLS)) == []


@pytest.mark.parametrize(
    "words",
    [
        '{"code":-32602,"message":"Unknown tool: gone"}',
        '{"code":-32601,"message":"Tool gone not found"}',
        '{"content":[{"type":"text","text":"Unknown tool: gone"}],"isError":true}',
        '{"content":[{"type":"text","text":"Tool gone does not exist"}],"isError":true}',
    ],
)
def test_a_server_that_does_not_know_what_it_listed_is_asked_again(words: str) -> None:
    server = listed("a")
    sought = sought_in(server)

    recheck_lists_on_error(server, TOOLS, words.encode())

    assert sought == [(TOOLS,)]


@pytest.mark.parametrize(
    "words",
    [
        '{"code":-32602,"message":"Invalid arguments for tool gone: a is missing"}',
        '{"content":[{"type":"text","text":"File not found"}],"isError":true}',
        '{"code":-32602,"message":"Unknown tool: ' + "x" * UNKNOWN_NAME_ERROR_BYTES_MAX + '"}',
    ],
)
def test_other_failures_are_no_reason_to_look_again(words: str) -> None:
    server = listed("a")
    sought = sought_in(server)

    recheck_lists_on_error(server, TOOLS, words.encode())
    recheck_lists_on_error(server, None, b"Unknown tool")

    assert sought == []


def test_of_a_server_whose_lists_are_its_clients_to_read_none_is_read() -> None:
    server = listed("a")
    sought = sought_in(server)
    server.reads_lists = False

    recheck_lists_on_error(server, TOOLS, b'{"code":-32602,"message":"Unknown tool: a"}')

    assert sought == []


def test_of_a_resource_the_templates_are_read_too() -> None:
    server = listed("a")
    server.connection.peer = peer_of(MODERN, resources={})
    sought = sought_in(server)

    recheck_lists_on_error(
        server, OfferKind.RESOURCES, b'{"code":-32002,"message":"Resource not found"}'
    )

    assert sought == [(OfferKind.RESOURCES, OfferKind.TEMPLATES)]


def test_the_skills_of_a_legacy_server_are_read_whenever_they_are_wanted() -> None:
    skilled = listed("old", LEGACY, STALE)
    skilled.connection.peer = replace(peer_of(LEGACY), extensions={SKILLS: b"{}"})
    asked: list[OfferKind] = []
    skilled.lists.refresh = lambda kind, trust: asked.append(kind) or trust.timed  # type: ignore

    assert refresh_stale_lists(
        profile_of(skilled, listed("bare", LEGACY, STALE)), OfferKind.SKILLS
    ) == [skilled]
    assert refresh_stale_lists(profile_of(skilled), TOOLS) == []
    assert asked == [OfferKind.SKILLS, TOOLS], "a tool need not be waited for"


def test_templates_of_a_server_that_declares_none_are_asked_for_by_who_wants_to_see_them() -> None:
    bare, late, full = without_tools(), without_tools(), listed("full")
    bare.lists_ready = late.lists_ready = late.lists_overdue = True
    owed = [True]
    for server in (bare, late, full):
        server.lists.read_undeclared = lambda: owed.pop()  # type: ignore[method-assign]
        server.lists.refresh = lambda kind, trust: False  # type: ignore[method-assign]

    for kind in OfferKind:
        wanted = [bare] if kind is OfferKind.TEMPLATES else []
        assert refresh_stale_lists(profile_of(late, full, bare), kind) == wanted
    assert owed == []


def test_they_have_a_say_in_how_old_the_list_is() -> None:
    bare = without_tools()
    assert source_freshness(bare, OfferKind.TEMPLATES) is None
    bare.listings[OfferKind.TEMPLATES] = Listing(
        offers=(Offer("x:{y}", b"{}"),), freshness=HOUR, read_at=0.0
    )
    assert source_freshness(bare, OfferKind.TEMPLATES) is not None
