"""What a session's own connection shows is listed and called in that session, and in no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from anyport.catalog.catalog import Catalog
from anyport.catalog.route import Unroutable
from anyport.gateway import profile as profiles
from anyport.gateway.local.list_freshness import list_freshness, list_source, recheck_lists_on_error
from anyport.gateway.local.notifications import ListenStream
from anyport.protocol.cache_hints import STALE
from anyport.protocol.errors import unknown_tool
from anyport.protocol.exchange import ServerNotification
from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import LOCAL
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.wire.jsonrpc import Notification
from tests.gateway.calls.fast_paths import Client, plain_result
from tests.gateway.fakes import MODERN, Asked, FakeServer, FakeSession, caller, profile_of
from tests.gateway.local.test_methods import Scene, tools
from tests.gateway.scene import Scene as Relaying
from tests.upstream.fakes import peer_of

TOOLS_CHANGED = ("notifications/tools/list_changed", None)
RESOURCES_CHANGED = ("notifications/resources/list_changed", None)
OWN = LeaseKey(owner="one", interactive=True, fallback=SHARED)


def publics(catalog: Catalog, kind: OfferKind = OfferKind.TOOLS) -> list[str]:
    return [entry.public for entry in catalog.entries(kind)]


def offering(slug: str = "s", *natives: str) -> FakeServer:
    server = FakeServer(slug)
    server.offer(OfferKind.TOOLS, *(natives or ("a",)))
    return server


class Two(Scene):
    """A local_methods, and two sessions that have seen the tools."""

    def __init__(self, *servers: FakeServer, **config: Any) -> None:
        super().__init__(*(servers or (offering(),)), **{"gateway_tools": False, **config})
        self.one, self.two = FakeSession("one", {"roots": {}}), FakeSession("two", {"roots": {}})
        for session in (self.one, self.two):
            self.notifications.on_session_opened(session)
            assert tools(self.ask("tools/list", session=session))

    def show(self, kind: OfferKind, *natives: str) -> None:
        """Have the own connection of the first session list these."""
        self.server.offer_apart("one", kind, *natives)
        self.local_methods.refresh_variants(self.profile)

    def seen(self, session: FakeSession) -> list[str]:
        return tools(self.ask("tools/list", session=session))


# What is seen.


def test_it_is_seen_in_that_session_alone() -> None:
    scene = Two()
    scene.show(OfferKind.TOOLS, "a", "b")

    assert scene.seen(scene.one) == ["s__a", "s__b"]
    assert scene.seen(scene.two) == ["s__a"]
    assert tools(scene.ask("tools/list")) == ["s__a"], "a client without a session"


def test_resources_templates_and_prompts_are_its_own_as_well() -> None:
    scene = Two()
    scene.show(OfferKind.RESOURCES, "x:1")
    scene.show(OfferKind.TEMPLATES, "y:{id}")
    scene.show(OfferKind.PROMPTS, "p")

    mine, others = (scene.profile.catalog_for(name, LOCAL) for name in ("one", "two"))
    assert publics(mine, OfferKind.PROMPTS) == ["s__p"]
    assert (mine.owner_of_uri("x:1"), mine.owner_of_uri("y:7")) == (("s", "x:1"), ("s", "y:7"))
    assert (others.owner_of_uri("x:1"), publics(others, OfferKind.PROMPTS)) == (None, [])


def test_what_other_servers_offer_is_seen_beside_it_under_the_rules_of_the_profile() -> None:
    scene = Two(offering("s"), offering("t"), deny=("s/secret",))
    scene.show(OfferKind.TOOLS, "b", "secret")

    assert scene.seen(scene.one) == ["s__b", "t__a"]
    assert scene.seen(scene.two) == ["s__a", "t__a"]


def test_sessions_whose_connections_list_the_same_have_one_catalog() -> None:
    server = offering()
    profile = profile_of(server)
    server.offer_apart("one", OfferKind.TOOLS, "b")
    server.offer_apart("two", OfferKind.TOOLS, "b")
    server.offer_apart("three", OfferKind.TOOLS, "a")
    profile.refresh_variants()

    one, two, three = (profile.catalog_for(name, LOCAL) for name in ("one", "two", "three"))
    assert one is two
    assert three is profile.catalog


def test_so_many_catalogs_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "VARIANTS_MAX", 2)
    server = offering()
    profile = profile_of(server)
    names = ("one", "two", "three")
    for name in names:
        server.offer_apart(name, OfferKind.TOOLS, name)
    profile.refresh_variants()

    first, second, third = (profile.catalog_for(name, LOCAL) for name in names)
    assert profile.catalog_for("three", LOCAL) is third
    assert profile.catalog_for("two", LOCAL) is second
    again = profile.catalog_for("one", LOCAL)
    assert again is not first
    assert publics(again) == publics(first)


def test_what_all_are_shown_goes_on_to_change_for_it_too() -> None:
    scene = Two(offering("s"), offering("t"))
    scene.show(OfferKind.TOOLS, "b")
    scene.servers[1].offer(OfferKind.TOOLS, "c")
    scene.local_methods.refresh(scene.profile)

    assert scene.seen(scene.one) == ["s__b", "t__c"]
    assert scene.one.notified == [TOOLS_CHANGED] * 2
    assert scene.two.notified == [TOOLS_CHANGED]


# Who is told.


def test_that_session_alone_is_told_that_its_list_has_changed() -> None:
    scene = Two()
    scene.show(OfferKind.TOOLS, "a", "b")
    assert (scene.one.notified, scene.two.notified) == ([TOOLS_CHANGED], [])

    scene.show(OfferKind.TOOLS, "a", "b")
    scene.show(OfferKind.PROMPTS, "p")
    assert scene.one.notified == [TOOLS_CHANGED], "it has seen no prompts"


def test_it_is_told_when_its_connection_is_closed_and_the_others_are_not() -> None:
    scene = Two()
    scene.show(OfferKind.TOOLS, "a", "b")
    scene.seen(scene.one)

    scene.server._connection_lists.forget(OWN)
    scene.local_methods.refresh_variants(scene.profile)

    assert (scene.one.notified, scene.two.notified) == ([TOOLS_CHANGED] * 2, [])
    assert scene.seen(scene.one) == ["s__a"]


def test_a_change_that_all_see_and_it_does_not_is_no_news_to_it() -> None:
    scene = Two()
    scene.show(OfferKind.TOOLS, "b")
    scene.server.offer(OfferKind.TOOLS, "a", "c")
    scene.local_methods.refresh(scene.profile)

    assert scene.one.notified == [TOOLS_CHANGED], "of its own list"
    assert scene.two.notified == [TOOLS_CHANGED]


def test_who_listens_without_a_session_hears_of_what_all_see() -> None:
    scene = Two()
    asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
    listening = ListenStream(asked.exchange, frozenset({"toolsListChanged"}), frozenset())
    listening.acknowledge(b"{}")
    scene.notifications.streams[asked.exchange] = listening
    asked.told.clear()

    scene.show(OfferKind.TOOLS, "b")
    assert asked.told == []
    scene.server.offer(OfferKind.TOOLS, "c")
    scene.local_methods.refresh(scene.profile)
    assert [told.method for told in asked.told if isinstance(told, ServerNotification)] == [
        TOOLS_CHANGED[0]
    ]


def test_an_update_of_what_only_it_is_shown_reaches_it_under_its_name_there() -> None:
    scene = Two(offering("s"), offering("t"))
    scene.servers[1].offer(OfferKind.RESOURCES, "x:1")
    scene.show(OfferKind.RESOURCES, "x:1")
    scene.local_methods.refresh(scene.profile)
    for session in (scene.one, scene.two):
        session.notified.clear()
    scene.one.subscriptions.add("s+x:1")

    assert scene.notifications.subscribed_uris(scene.server, OWN) == {"x:1"}
    params = json.dumps({"uri": "x:1"}).encode()
    updated = Notification("notifications/resources/updated", params)
    scene.notifications.on_server_notification(scene.server, OWN, updated)

    assert scene.one.notified == [("notifications/resources/updated", {"uri": "s+x:1"})]
    assert scene.two.notified == []


# How old they are.


def test_its_list_is_awaited_while_it_is_read_for_the_first_time() -> None:
    scene = Two()
    own = scene.server.offer_apart("one", OfferKind.TOOLS, "a", reading=True)
    asked = Asked("tools/list", None, caller(scene.one))
    scene.local_methods.answer(asked.exchange, scene.profile)
    assert asked.ending is None
    assert scene.seen(scene.two) == ["s__a"]

    own.lists.close()
    scene.show(OfferKind.TOOLS, "a", "b")
    scene.local_methods.on_lists_settled()
    assert tools(asked) == ["s__a", "s__b"]


def test_a_list_of_its_own_that_does_not_come_keeps_no_other_session_from_waiting() -> None:
    scene = Two()
    own = scene.server.offer_apart("one", OfferKind.TOOLS, "a", reading=True)
    asked = Asked("tools/list", None, caller(scene.one))
    scene.local_methods.answer(asked.exchange, scene.profile)

    scene.clock.pass_by()

    assert tools(asked) == ["s__a"]
    assert (own.lists_overdue, scene.server.lists_overdue) == (True, False)


def test_what_is_in_none_of_its_lists_is_asked_of_its_own_connection() -> None:
    scene = Two()
    own = scene.server.offer_apart("one", OfferKind.TOOLS, "a")
    sought = Unroutable(
        fault=unknown_tool("s__b"), final=False, public="s__b", kinds=(OfferKind.TOOLS,)
    )
    done: list[str] = []

    assert scene.local_methods.look_up(
        scene.profile, sought, caller(scene.one), lambda: done.append("looked up")
    )
    assert scene.server.lists._lookup_kinds == set()
    assert own.lists._lookup_kinds == {OfferKind.TOOLS}
    own.lists.close()
    scene.local_methods.on_lists_settled()
    assert done == ["looked up"]


def test_a_tool_that_its_connection_does_not_know_any_more_is_looked_up_there() -> None:
    server = offering()
    own = server.offer_apart("one", OfferKind.TOOLS, "a")
    who = caller(FakeSession("one"))

    recheck_lists_on_error(
        server, OfferKind.TOOLS, b'{"code":-32602,"message":"Unknown tool: a"}', who
    )

    assert (own.lists._lookup_kinds, server.lists._lookup_kinds) == ({OfferKind.TOOLS}, set())


def test_what_is_said_of_its_age_is_what_its_connection_lets_us_say() -> None:
    server = offering()
    profile = profile_of(server)
    own = server.offer_apart("one", OfferKind.TOOLS, "b")
    mine, others = caller(FakeSession("one")), caller(FakeSession("two"))
    server.connection.peer = peer_of(MODERN, tools={})

    assert list_source(server, mine) is own
    assert list_source(server, others) is list_source(server, None) is server
    assert list_freshness(profile, OfferKind.TOOLS, mine).ttl_ms == 60_000
    server.connection.peer = peer_of(caller().revision, tools={})
    assert list_freshness(profile, OfferKind.TOOLS, mine) == STALE


# What is called.


@pytest.fixture
def relaying(tmp_path: Path) -> Relaying:
    scene = Relaying(tmp_path)
    scene.server.offer_apart("one", OfferKind.TOOLS, "echo", "mine")
    scene.profile.refresh_variants()
    return scene


def test_a_tool_that_only_it_is_shown_can_be_called_in_it_alone(relaying: Relaying) -> None:
    params = {"name": "s__mine"}
    asked = relaying.begin(params=params, by=caller(FakeSession("one")))
    relaying.answer(result={"content": []})
    assert asked.ending == {"content": []}

    refused = relaying.begin(params=params, by=caller(FakeSession("two")))
    assert "Unknown tool: s__mine" in str(refused.ending)
    assert relaying.local_methods.sought[0].public == "s__mine"


def test_a_call_is_made_again_on_the_track_while_its_session_sees_the_same(
    relaying: Relaying,
) -> None:
    client = Client(relaying, caller(FakeSession("one")))
    client.prime({"name": "s__mine", "arguments": {}})

    client.call({"name": "s__mine", "arguments": {}}, 2)
    client.hear(plain_result(relaying))
    assert client.tracked == 1
    relaying.server.offer_apart("one", OfferKind.TOOLS, "echo")
    relaying.profile.refresh_variants()
    client.call({"name": "s__mine", "arguments": {}}, 3)
    assert client.tracked == 1
    assert "Unknown tool: s__mine" in json.dumps(client.wire.take()[-1])


def test_one_sessions_lists_take_nobody_else_from_the_track(relaying: Relaying) -> None:
    client = Client(relaying, caller(FakeSession("two")))
    client.prime({"name": "s__echo", "arguments": {}})
    relaying.server.offer_apart("one", OfferKind.TOOLS, "other")
    relaying.profile.refresh_variants()

    client.call({"name": "s__echo", "arguments": {}}, 2)
    assert client.tracked == 1
    client.hear(plain_result(relaying))


def test_a_session_that_gets_lists_of_its_own_leaves_the_track(relaying: Relaying) -> None:
    client = Client(relaying, caller(FakeSession("two")))
    client.prime({"name": "s__echo", "arguments": {}})
    relaying.server.offer_apart("two", OfferKind.TOOLS, "other")
    relaying.profile.refresh_variants()

    client.call({"name": "s__echo", "arguments": {}}, 2)
    assert client.tracked == 0
    assert "Unknown tool: s__echo" in json.dumps(client.wire.take()[-1])


def test_a_call_that_another_connection_stands_in_for_lays_no_track(tmp_path: Path) -> None:
    scene = Relaying(tmp_path, revision=MODERN)
    trials = scene.server.trials
    trials.on_server_started(automatic=True)
    client = Client(scene, caller(FakeSession("one")))
    client.prime()
    client.call(id=2)
    client.hear(plain_result(scene))
    assert client.tracked == 0, "the next one may find its own"

    trials.on_failure(scene.server.leased[-1], "no such method", 0.0, refused=True)
    for number in (3, 4):
        client.call(id=number)
        client.hear(plain_result(scene))
    assert client.tracked == 1, "there will be none"
