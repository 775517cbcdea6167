"""A view of some servers, and what changes in it."""

from typing import Any

import pytest

from anyport.catalog.offers import Listing, Offer
from anyport.protocol.capabilities import SERVER_CAPABILITIES
from anyport.protocol.extensions import APPS, SKILLS
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import REVISIONS
from tests.gateway.fakes import LEGACY, MODERN, FakeServer, declared, profile_of


def names(*servers: FakeServer, kind: OfferKind = OfferKind.TOOLS, **config: object) -> list[str]:
    return [entry.public for entry in profile_of(*servers, **config).catalog.entries(kind)]


def test_it_shows_what_its_servers_offer_after_the_tools_of_the_gateway() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    one.offer(OfferKind.TOOLS, "echo")
    two.offer(OfferKind.TOOLS, "echo")

    assert names(one, two) == ["gateway_status", "get_events", "one__echo", "two__echo"]
    assert names(one, two, gateway_tools=False) == ["one__echo", "two__echo"]
    assert names(one, prefix="never", gateway_tools=False) == ["echo"]


def test_what_is_denied_is_not_there() -> None:
    server = FakeServer("s")
    server.offer(OfferKind.TOOLS, "read", "delete")

    assert names(server, gateway_tools=False, deny=("s/del*",)) == ["s__read"]


def test_a_refresh_tells_which_lists_look_different_now() -> None:
    server = FakeServer("s")
    profile = profile_of(server)
    server.offer(OfferKind.TOOLS, "a")
    server.offer(OfferKind.PROMPTS, "p")

    assert profile.refresh() == {OfferKind.TOOLS, OfferKind.PROMPTS}
    assert profile.refresh() == frozenset()
    server.offer(OfferKind.TOOLS, "a", "b")
    assert profile.refresh() == {OfferKind.TOOLS}


def test_a_change_that_nobody_sees_is_none() -> None:
    server = FakeServer("s")
    profile = profile_of(server, allow=("public*",))
    server.offer(OfferKind.TOOLS, "hidden")

    assert profile.refresh() == frozenset()


def test_it_is_settled_when_all_its_servers_are() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    profile = profile_of(one, two)
    one.lists_ready = True
    assert not profile.settled
    two.lists_overdue = True
    assert profile.settled


def test_it_is_transparent_with_one_server_and_no_prefix() -> None:
    one, two = FakeServer("one"), FakeServer("two")

    assert profile_of(one, prefix="never").transparent
    assert not profile_of(one, two, prefix="never").transparent
    assert not profile_of(one).transparent


def test_a_server_that_is_about_to_tell_what_it_offers_owns_the_names_that_begin_like_it() -> None:
    late, told = FakeServer("my-docs"), FakeServer("told")
    told.offer(OfferKind.TOOLS, "echo")
    profile, dashed = profile_of(late, told), profile_of(late, told, separator="-")

    assert profile.starting_owner("my-docs__add") is late
    assert dashed.starting_owner("my_docs-add") is late
    assert dashed.down_owner("my_docs-add") is late
    for name in ("told__add", "add", "my-docs"):
        assert profile.starting_owner(name) is None
    late.offer(OfferKind.TOOLS, "add")
    assert profile.starting_owner("my-docs__other") is None


def offering(slug: str, *offered: str) -> FakeServer:
    server = FakeServer(slug)
    server.offered_capabilities = frozenset(offered)
    return server


def test_it_offers_what_any_of_its_servers_offers() -> None:
    one, two = offering("one", "prompts"), offering("two", "resources", "logging")

    offered = profile_of(one, two, gateway_tools=False).offered_capabilities
    assert offered == {"prompts", "resources", "logging"}
    assert profile_of(one, two).offered_capabilities == {"tools", *offered}
    assert profile_of().offered_capabilities == {"tools"}


def test_a_server_of_which_nothing_is_known_may_offer_anything() -> None:
    one, unknown = offering("one", "tools"), FakeServer("unknown")
    profile = profile_of(one, unknown)
    assert profile.offered_capabilities == SERVER_CAPABILITIES

    unknown.offered_capabilities = frozenset()
    assert profile.offered_capabilities == {"tools"}


def test_one_that_will_not_even_be_tried_offers_what_it_still_shows() -> None:
    disabled = FakeServer("off", None, disabled=True)
    assert profile_of(disabled, gateway_tools=False).offered_capabilities == frozenset()

    disabled.offer(OfferKind.PROMPTS, "p")
    assert profile_of(disabled, gateway_tools=False).offered_capabilities == {"prompts"}


def test_its_extensions_are_those_of_its_servers_with_what_holds_for_all_of_them() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    profile = profile_of(one, two)
    assert profile.extensions == {}

    one.lists_ready, one.extensions = True, {SKILLS: b'{"directoryRead":true}'}
    assert profile.extensions == {SKILLS: b"{}"}, "nothing is known of the other one"
    two.lists_ready = True
    assert profile.extensions == {SKILLS: b'{"directoryRead":true}'}
    two.extensions = {SKILLS: b"{}", APPS: b"{}"}
    assert profile.extensions == {SKILLS: b"{}", APPS: b"{}"}
    assert profile.catalog.view.extension_settings("one", SKILLS) == b'{"directoryRead":true}'
    assert profile.catalog.view.extension_settings("one", APPS) is None


OWN = "com.example/x"


def test_an_extension_that_nobody_here_knows_is_one_of_a_profile_with_that_server_alone() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    for server in (one, two):
        server.lists_ready, server.extensions = True, {OWN: b'{"n":1}'}

    assert profile_of(one).extensions == {OWN: b'{"n":1}'}
    assert profile_of(one, two).extensions == {}
    # A method of it could do what the rules leave out.
    assert profile_of(one, deny=("one/danger",)).extensions == {}
    assert profile_of(one, allow=("one/echo",)).extensions == {}


@pytest.mark.parametrize(
    ("config", "client", "passes"),
    [
        ({}, {OWN: {}}, True),
        ({}, {OWN: {}, "com.example/y": {}}, True),
        ({}, {"com.example/y": {}}, False),
        ({}, {SKILLS: {}}, False),
        ({"deny": ("one/danger",)}, {OWN: {}}, False),
        ({"prefix": "never"}, {}, False),
        ({"transparent": True}, {}, True),
    ],
)
def test_what_no_revision_has_passes_where_both_sides_agree_on_it_or_nobody_is_between(
    config: dict[str, Any], client: dict[str, Any], passes: bool
) -> None:
    one = FakeServer("one")
    one.extensions = {OWN: b"{}", SKILLS: b"{}"}

    assert profile_of(one, **config).passes_unknown(declared({"extensions": client})) is passes


def test_of_several_servers_nobody_knows_whose_it_would_be() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    one.extensions = {OWN: b"{}"}

    assert not profile_of(one, two).passes_unknown(declared({"extensions": {OWN: {}}}))


def test_only_a_transparent_profile_keeps_a_servers_words_and_only_within_sessions() -> None:
    server, older = FakeServer("s"), REVISIONS["2025-03-26"]
    shown, never = profile_of(server, transparent=True), profile_of(server, prefix="never")

    assert shown.passes_results_unchanged(older, LEGACY)
    for client, answers in ((older, MODERN), (MODERN, LEGACY), (MODERN, MODERN)):
        assert not shown.passes_results_unchanged(client, answers)
    assert not never.passes_results_unchanged(older, LEGACY)


def test_a_tool_with_a_view_makes_it_one_of_apps_whatever_its_server_declares() -> None:
    server = FakeServer("s")
    view = b'{"name":"dice","_meta":{"ui":{"resourceUri":"ui://dice"}}}'
    server.listings[OfferKind.TOOLS] = Listing(offers=(Offer("dice", view),))

    assert profile_of(server).extensions == {APPS: b"{}"}
    assert profile_of(server, deny=("s/dice",)).extensions == {}
