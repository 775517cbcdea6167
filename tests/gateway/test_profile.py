"""A view of some servers, and what changes in it."""

from anyport.protocol.extension import APPS, SKILLS
from anyport.protocol.method import Kind
from anyport.routing.offers import Listing, Offer
from tests.gateway.fakes import FakeServer, profile_of


def names(*servers: FakeServer, kind: Kind = Kind.TOOLS, **config: object) -> list[str]:
    return [entry.public for entry in profile_of(*servers, **config).catalog.entries(kind)]


def test_it_shows_what_its_servers_offer_after_the_tools_of_the_gateway() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    one.offer(Kind.TOOLS, "echo")
    two.offer(Kind.TOOLS, "echo")

    assert names(one, two) == ["gateway_status", "get_events", "one__echo", "two__echo"]
    assert names(one, two, gateway_tools=False) == ["one__echo", "two__echo"]
    assert names(one, prefix="never", gateway_tools=False) == ["echo"]


def test_what_is_denied_is_not_there() -> None:
    server = FakeServer("s")
    server.offer(Kind.TOOLS, "read", "delete")

    assert names(server, gateway_tools=False, deny=("s/del*",)) == ["s__read"]


def test_a_refresh_tells_which_lists_look_different_now() -> None:
    server = FakeServer("s")
    profile = profile_of(server)
    server.offer(Kind.TOOLS, "a")
    server.offer(Kind.PROMPTS, "p")

    assert profile.refresh() == {Kind.TOOLS, Kind.PROMPTS}
    assert profile.refresh() == frozenset()
    server.offer(Kind.TOOLS, "a", "b")
    assert profile.refresh() == {Kind.TOOLS}


def test_a_change_that_nobody_sees_is_none() -> None:
    server = FakeServer("s")
    profile = profile_of(server, allow=("public*",))
    server.offer(Kind.TOOLS, "hidden")

    assert profile.refresh() == frozenset()


def test_it_is_settled_when_all_its_servers_are() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    profile = profile_of(one, two)
    one.listed = True
    assert not profile.settled
    two.late = True
    assert profile.settled


def test_it_is_transparent_with_one_server_and_no_prefix() -> None:
    one, two = FakeServer("one"), FakeServer("two")

    assert profile_of(one, prefix="never").transparent
    assert not profile_of(one, two, prefix="never").transparent
    assert not profile_of(one).transparent


def test_a_server_that_is_about_to_tell_what_it_offers_owns_the_names_that_begin_like_it() -> None:
    late, told = FakeServer("my-docs"), FakeServer("told")
    told.offer(Kind.TOOLS, "echo")
    profile, dashed = profile_of(late, told), profile_of(late, told, separator="-")

    assert profile.awaited_owner("my-docs__add") is late
    assert dashed.awaited_owner("my_docs-add") is late
    assert dashed.silent_owner("my_docs-add") is late
    for name in ("told__add", "add", "my-docs"):
        assert profile.awaited_owner(name) is None
    late.offer(Kind.TOOLS, "add")
    assert profile.awaited_owner("my-docs__other") is None


def test_its_extensions_are_those_of_its_servers_with_what_holds_for_all_of_them() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    profile = profile_of(one, two)
    assert profile.extensions == {}

    one.listed, one.extensions = True, {SKILLS: b'{"directoryRead":true}'}
    assert profile.extensions == {SKILLS: b"{}"}, "nothing is known of the other one"
    two.listed = True
    assert profile.extensions == {SKILLS: b'{"directoryRead":true}'}
    two.extensions = {SKILLS: b"{}", APPS: b"{}"}
    assert profile.extensions == {SKILLS: b"{}", APPS: b"{}"}
    assert profile.catalog.view.settings("one", SKILLS) == b'{"directoryRead":true}'
    assert profile.catalog.view.settings("one", APPS) is None


def test_a_tool_with_a_view_makes_it_one_of_apps_whatever_its_server_declares() -> None:
    server = FakeServer("s")
    view = b'{"name":"dice","_meta":{"ui":{"resourceUri":"ui://dice"}}}'
    server.listings[Kind.TOOLS] = Listing(offers=(Offer("dice", view),))

    assert profile_of(server).extensions == {APPS: b"{}"}
    assert profile_of(server, deny=("s/dice",)).extensions == {}
