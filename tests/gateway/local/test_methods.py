"""What the gateway answers itself."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.catalog.offers import Listing
from anyport.catalog.route import Unroutable
from anyport.gateway.calls.answers import AnswerTranslator
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.calls.leases import Leases
from anyport.gateway.elicitation.request_state import RequestStates
from anyport.gateway.gateway import Gateway
from anyport.gateway.local import methods as local_methods_module
from anyport.gateway.local.event_queries import BadQuery
from anyport.gateway.local.gateway_tools import text_result
from anyport.gateway.local.methods import LOOKUPS_WAITING_MAX, LocalMethods
from anyport.gateway.local.notifications import Notifications
from anyport.gateway.local.resource_subscriptions import ResourceSubscriptions
from anyport.gateway.profile import Profile
from anyport.gateway.relay import Relay
from anyport.gateway.tasks.handles import TaskHandles
from anyport.gateway.tasks.tasks import TaskMethods
from anyport.protocol.adapters.legacy_client import GatewayDescription
from anyport.protocol.cache_hints import Freshness
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Ending, Exchange, ServerNotification
from anyport.protocol.extensions import SKILLS
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Revision
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.upstream.lease_key import SHARED
from anyport.upstream.lists import ListConnections, ServerLists
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    Asked,
    FakeClock,
    FakeServer,
    FakeSession,
    caller,
    profile_of,
)
from tests.upstream.fakes import peer_of, say


class FakeRelay:
    """Takes endings, and what broke."""

    def __init__(self, clock: FakeClock) -> None:
        self.broken: list[Exception] = []
        self.leases = Leases(FakeClock(), sole=True)
        seal = Seal([bytes(KEY_BYTES)])
        self.answer_translator = AnswerTranslator(RequestStates(seal, clock.now))
        self.tasks = TaskMethods(TaskHandles(seal), clock)

    def route(self, exchange: Exchange, profile: Profile) -> None:
        """There is no transparent profile."""

    def finish(self, exchange: Exchange, ending: Ending) -> None:
        exchange.end(ending)

    def on_internal_error(self, exchange: Exchange, error: Exception) -> None:
        self.broken.append(error)


class Scene:
    """Local methods, and one server."""

    def __init__(self, *servers: FakeServer, **config: Any) -> None:
        self.servers = servers or (FakeServer("s"),)
        self.server = self.servers[0]
        self.profile = profile_of(*self.servers, **config)
        self.notifications = Notifications({"default": self.profile}, CallTable(FakeClock()))
        self.clock = FakeClock()
        self.config = SimpleNamespace(gateway=SimpleNamespace(list_seconds=2.0))
        self.found: Any = b"[]"
        self.events = SimpleNamespace(query=self._query)
        self.noted: list[tuple[str, dict[str, object]]] = []
        self.offered: dict[str, bytes] = {}
        self.relay = FakeRelay(self.clock)
        subscriptions = ResourceSubscriptions(self.notifications, self.clock)
        self.local_methods = LocalMethods(
            cast(Gateway, self), cast(Relay, self.relay), self.notifications, subscriptions
        )

    def status(self, profile: Profile) -> dict[str, str]:
        return {"profile": profile.slug}

    def describe(self, profile: str) -> GatewayDescription:
        return GatewayDescription(b"{}", "Use me.", self.offered)

    def ask(self, method: str, params: Any = None, session: FakeSession | None = None) -> Asked:
        revision = MODERN if method in ("server/discover", "subscriptions/listen") else LEGACY
        asked = Asked(method, params, caller(session, revision))
        self.local_methods.answer(asked.exchange, self.profile)
        return asked

    def note(
        self,
        event: str,
        status: str = "success",
        /,
        *,
        error_message: str | None = None,
        **about: object,
    ) -> None:
        self.noted.append((event, about))

    async def _query(self, arguments: bytes, trace_id: str) -> bytes:
        if isinstance(self.found, Exception):
            raise self.found
        found: bytes = self.found
        return text_result(found, json.dumps({"trace_id": trace_id}).encode())


def tools(asked: Asked) -> list[str]:
    return [tool["name"] for tool in asked.ending["tools"]]


def test_a_ping_is_answered() -> None:
    assert Scene().ask("ping").ending == {}


def test_discovery_tells_revisions_capabilities_and_instructions() -> None:
    told = Scene().ask("server/discover").ending

    assert told["supportedVersions"] == ["2026-07-28"]
    assert "tools" in told["capabilities"]
    assert told["instructions"] == "Use me."


def test_discovery_tells_the_extensions_of_the_servers() -> None:
    scene = Scene()
    scene.offered = {SKILLS: b'{"n":1.0}'}

    assert scene.ask("server/discover").ending["capabilities"]["extensions"] == {SKILLS: {"n": 1.0}}


def test_skills_are_listed_like_anything_else() -> None:
    scene = Scene()
    scene.server.offer(OfferKind.SKILLS, "skill://tea/SKILL.md")
    scene.profile.refresh()

    assert scene.ask("skills/list").ending == {"skills": [{"uri": "skill://tea/SKILL.md"}]}


def test_a_name_that_waited_for_an_earlier_server_is_listed_when_that_had_its_time() -> None:
    slow, quick = FakeServer("slow"), FakeServer("quick")
    scene = Scene(slow, quick, prefix="on-conflict", gateway_tools=False)
    quick.offer(OfferKind.TOOLS, "echo")
    quick.lists_ready = True
    scene.local_methods.refresh(scene.profile)
    assert scene.profile.catalog.entries(OfferKind.TOOLS) == ()

    asked = scene.ask("tools/list")
    assert asked.ending is None
    scene.clock.pass_by()
    assert tools(asked) == ["echo"]

    slow.offer(OfferKind.TOOLS, "echo")
    scene.local_methods.refresh(scene.profile)
    assert tools(scene.ask("tools/list")) == ["slow__echo", "echo"]
    assert scene.noted == [
        (
            "gateway.name_conflict",
            {
                "profile": "default",
                "server": "slow",
                "list": "tools",
                "count": 1,
                "names": ["echo"],
                "owners": ["quick"],
                "public_names": ["slow__echo"],
            },
        )
    ]


def test_a_list_of_settled_servers_is_answered_at_once() -> None:
    scene = Scene()
    scene.server.offer(OfferKind.TOOLS, "echo")
    scene.profile.refresh()

    assert tools(scene.ask("tools/list")) == ["gateway_status", "get_events", "s__echo"]
    assert scene.clock.due == []


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_a_list_is_put_together_once_and_anew_when_it_has_changed(revision: Revision) -> None:
    scene = Scene()

    def ask() -> Asked:
        asked = Asked("tools/list", None, caller(None, revision))
        scene.local_methods.answer(asked.exchange, scene.profile)
        return asked

    scene.server.offer(OfferKind.TOOLS, "echo")
    scene.profile.refresh()
    first, second = ask(), ask()
    scene.server.offer(OfferKind.TOOLS, "other")
    scene.profile.refresh()

    assert tools(first) == tools(second)
    assert first.told[0] is second.told[0]
    assert tools(ask())[-1] == "s__other"


def test_a_list_waits_for_servers_that_have_not_told_yet() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    scene = Scene(one, two)
    asked = scene.ask("tools/list")
    one.offer(OfferKind.TOOLS, "a")
    scene.local_methods.on_lists_settled()
    assert asked.ending is None

    two.offer(OfferKind.TOOLS, "b")
    scene.profile.refresh()
    scene.local_methods.on_lists_settled()
    scene.local_methods.on_lists_settled()
    scene.clock.pass_by()

    assert tools(asked)[2:] == ["one__a", "two__b"]


def test_a_list_does_not_wait_for_ever_and_the_next_not_at_all() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    scene = Scene(one, two)
    one.offer(OfferKind.TOOLS, "a")
    scene.profile.refresh()
    first, second = scene.ask("tools/list"), scene.ask("prompts/list")
    assert [seconds for seconds, _ in scene.clock.due] == [2.0, 2.0]

    scene.clock.due[0][1]()

    assert tools(first)[2:] == ["one__a"]
    assert second.ending == {"prompts": []}
    assert (one.lists_overdue, two.lists_overdue) == (False, True)
    assert tools(scene.ask("tools/list"))[2:] == ["one__a"]


def test_whoever_needs_one_server_waits_for_that_one_and_within_its_time() -> None:
    scene = Scene()
    told: list[str] = []
    scene.server.lists_ready = False
    scene.local_methods.wait_for_server(scene.server, 2.0, lambda: told.append("listed"))
    scene.local_methods.on_lists_settled()
    assert told == []
    assert [seconds for seconds, _ in scene.clock.due] == [scene.server.config.timeout_seconds - 2]

    scene.server.offer(OfferKind.TOOLS, "echo")
    scene.local_methods.on_lists_settled()
    scene.clock.pass_by()

    assert told == ["listed"]
    late = FakeServer("late")
    scene.local_methods.wait_for_server(late, 1e9, lambda: told.append("too late"))
    scene.clock.pass_by()
    assert told == ["listed", "too late"]


def test_a_list_that_was_cancelled_while_it_waited_is_not_answered() -> None:
    scene = Scene()
    asked = scene.ask("tools/list")
    asked.exchange.cancel()

    scene.clock.pass_by()

    assert asked.told == []


def test_a_session_that_has_seen_a_list_hears_of_its_changes() -> None:
    scene = Scene()
    scene.server.lists_ready = True
    session = FakeSession()
    scene.notifications.on_session_opened(session)
    scene.ask("tools/list", session=session)

    scene.notifications.notify_lists_changed(scene.profile, frozenset({OfferKind.TOOLS}))

    assert session.notified == [("notifications/tools/list_changed", None)]


@pytest.mark.parametrize("cursor", ["nonsense", "", 7])
def test_a_cursor_of_somebody_else_is_refused(cursor: object) -> None:
    scene = Scene()
    scene.server.lists_ready = True

    assert str(scene.ask("tools/list", {"cursor": cursor}).ending).startswith("Invalid cursor")


def test_a_null_cursor_is_none() -> None:
    scene = Scene()
    scene.server.lists_ready = True

    assert "tools" in scene.ask("tools/list", {"cursor": None}).ending


def test_a_level_is_kept_and_passed_to_servers_that_log() -> None:
    scene = Scene()
    session = FakeSession()
    scene.notifications.on_session_opened(session)

    assert scene.ask("logging/setLevel", {"level": "warning"}, session).ending == {}

    assert session.log_level == "warning"
    (sent,) = scene.server.channel.sent
    assert (sent["method"], sent["params"]) == ("logging/setLevel", {"level": "warning"})


@pytest.mark.parametrize("params", [{}, {"level": "loud"}, {"level": 3}])
def test_a_level_that_does_not_exist_is_refused(params: object) -> None:
    assert "level must be one of debug" in Scene().ask("logging/setLevel", params).ending


def test_listening_is_acknowledged_with_what_is_honoured() -> None:
    scene = Scene()
    scene.server.offer(OfferKind.RESOURCES, "x:1")
    scene.profile.refresh()
    wishes = {
        "toolsListChanged": True,
        "promptsListChanged": False,
        "somethingElse": True,
        "resourceSubscriptions": ["x:1", 7],
    }

    asked = scene.ask("subscriptions/listen", {"notifications": wishes})
    assert asked.told == [], "the server has not answered yet"
    say(scene.server.connection, id=1, result={})

    (notice,) = asked.told
    assert isinstance(notice, ServerNotification)
    assert notice.method == "notifications/subscriptions/acknowledged"
    assert json.loads(notice.params or b"") == {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["x:1"]}
    }
    assert scene.notifications.subscribed_uris(scene.server, SHARED) == {"x:1"}
    asked.exchange.cancel()
    assert scene.notifications.streams == {}
    assert scene.notifications.subscribed_uris(scene.server, SHARED) == frozenset()


def test_following_a_resource_waits_until_it_is_known_whose_it_is() -> None:
    scene = Scene()
    scene.server.lists_ready = False

    wishes = {"resourceSubscriptions": ["x:1"]}
    asked = scene.ask("subscriptions/listen", {"notifications": wishes})
    gone = scene.ask("subscriptions/listen", {"notifications": wishes})
    gone.exchange.cancel()
    assert asked.told == []
    scene.server.offer(OfferKind.RESOURCES, "x:1")
    scene.profile.refresh()
    scene.local_methods.on_lists_settled()
    say(scene.server.connection, id=1, result={})

    (notice,) = asked.told
    assert isinstance(notice, ServerNotification)
    assert json.loads(notice.params or b"") == {"notifications": wishes}
    open_exchanges = [stream.exchange for stream in scene.notifications.streams.values()]
    assert open_exchanges == [asked.exchange]


@pytest.mark.parametrize("params", [{}, {"notifications": []}, {"notifications": None}])
def test_listening_for_nothing_in_particular_is_refused(params: object) -> None:
    asked = Scene().ask("subscriptions/listen", params)

    assert asked.ending == "Invalid params: subscriptions/listen needs notifications, an object"


def text(asked: Asked) -> Any:
    return json.loads(asked.ending["content"][0]["text"])


def test_gateway_status_is_a_document_in_a_text() -> None:
    scene, asked = Scene(), Asked()
    scene.local_methods.run_gateway_tool(asked.exchange, scene.profile, "gateway_status")

    assert text(asked) == {"profile": "default", "trace_id": asked.exchange.trace_id}


def run_events(events: Any) -> tuple[Scene, Asked]:
    scene, asked = Scene(), Asked(params={"name": "get_events", "arguments": {"limit": 1}})
    scene.found = events
    scene.local_methods.run_gateway_tool(asked.exchange, scene.profile, "get_events")
    asyncio.run(scene.clock.spawned[0])
    return scene, asked


def test_get_events_answers_when_the_journal_was_read() -> None:
    _, asked = run_events(b'[{"a":1}]')

    assert text(asked) == [{"a": 1}]


def test_get_events_tells_the_trace_of_its_own_call_beside_the_events() -> None:
    _, asked = run_events(b"[]")

    _, about = asked.ending["content"]
    assert json.loads(about["text"]) == {"trace_id": asked.exchange.trace_id}


def test_a_bad_question_to_the_journal_is_an_error_the_model_can_read() -> None:
    _, asked = run_events(BadQuery("limit is not a number"))

    assert asked.ending["isError"] is True
    assert asked.ending["content"][0]["text"] == "get_events: limit is not a number"


def test_a_journal_that_cannot_be_read_is_not_left_unanswered() -> None:
    broken = OSError("no such disk")
    scene, _ = run_events(broken)

    assert scene.relay.broken == [broken]


# How old the lists are that the gateway answers with, and what it says of that.


class ListClock(FakeClock):
    """Keeps the task that reads lists, for the test to run."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.reads += 1
        self.work = work


class Aging(FakeServer):
    """A modern server whose lists are read again when the test says so."""

    def __init__(self, slug: str = "s") -> None:
        super().__init__(slug, MODERN)
        self.list_clock = ListClock()
        self.lists = ServerLists(self.config, self, self.list_clock)
        self.listings = self.lists.known

    def list_connections(self) -> ListConnections:
        return ListConnections(main=None)

    def on_lists_read(
        self, connections: ListConnections, warning: str | None, changed: frozenset[OfferKind]
    ) -> None: ...


def ask_modern(scene: Scene, method: str = "tools/list") -> Asked:
    asked = Asked(method, None, caller(None, MODERN))
    scene.local_methods.answer(asked.exchange, scene.profile)
    return asked


def test_a_merged_list_says_the_least_that_its_servers_say() -> None:
    one, two = Aging("one"), Aging("two")
    one.listings[OfferKind.TOOLS] = Listing(freshness=Freshness(60_000, public=True), read_at=0.0)
    two.listings[OfferKind.TOOLS] = Listing(freshness=Freshness(90_000, public=True), read_at=0.0)
    one.lists_ready = two.lists_ready = True
    scene = Scene(one, two)

    first, second = ask_modern(scene), ask_modern(scene)
    assert first.told[0] is second.told[0]
    assert (first.ending["ttlMs"], first.ending["cacheScope"]) == (60_000, "public")
    one.list_clock.seconds = two.list_clock.seconds = 10.0
    third = ask_modern(scene)
    assert (third.ending["ttlMs"], third.ending["cacheScope"]) == (50_000, "public")
    assert {**third.ending, "ttlMs": 60_000} == first.ending
    two.listings[OfferKind.TOOLS] = Listing(freshness=Freshness(20_000), read_at=0.0)
    fourth = ask_modern(scene)
    assert (fourth.ending["ttlMs"], fourth.ending["cacheScope"]) == (10_000, "private")


def test_a_legacy_client_is_told_nothing_of_freshness() -> None:
    scene = Scene(Aging())
    scene.server.offer(OfferKind.TOOLS, "echo")
    scene.profile.refresh()

    assert set(scene.ask("tools/list").ending) == {"tools"}


def test_a_list_that_is_too_old_is_read_again_before_it_is_shown() -> None:
    server = Aging()
    server.offer(OfferKind.TOOLS, "old")
    scene = Scene(server)
    server.list_clock.seconds = 60.0
    asked, another = ask_modern(scene), ask_modern(scene)
    assert (asked.ending, another.ending, server.list_clock.reads) == (None, None, 1)
    scene.local_methods.on_lists_settled()
    assert asked.ending is None

    asyncio.run(server.list_clock.work)
    server.offer(OfferKind.TOOLS, "new")
    scene.profile.refresh()
    scene.local_methods.on_lists_settled()

    assert tools(asked)[2:] == tools(another)[2:] == ["s__new"]


def test_a_list_that_cannot_be_read_in_time_is_shown_as_it_was_and_the_next_at_once() -> None:
    server = Aging()
    server.offer(OfferKind.TOOLS, "old")
    scene = Scene(server)
    server.list_clock.seconds = 60.0
    asked = ask_modern(scene)
    ((seconds, give_up),) = scene.clock.due

    give_up()

    assert seconds == 2.0
    assert tools(asked)[2:] == ["s__old"]
    assert (asked.ending["ttlMs"], server.lists_overdue) == (0, True)
    assert tools(ask_modern(scene))[2:] == ["s__old"]
    server.list_clock.work.close()


def unknown(name: str) -> Unroutable:
    return Unroutable(fault=invalid_params("?"), final=False, public=name, kinds=(OfferKind.TOOLS,))


def test_what_is_in_no_list_waits_for_the_list_to_be_read() -> None:
    server, done = Aging(), list[str]()
    server.offer(OfferKind.TOOLS, "old")
    scene = Scene(server)

    assert scene.local_methods.look_up(
        scene.profile, unknown("s__new"), caller(), lambda: done.append("new")
    )
    server.list_clock.pass_by()
    scene.local_methods.on_lists_settled()
    assert (server.list_clock.reads, done) == (1, [])
    asyncio.run(server.list_clock.work)
    scene.local_methods.on_lists_settled()

    assert done == ["new"]
    assert not scene.local_methods.look_up(
        scene.profile, unknown("other__new"), caller(), lambda: done.append("?")
    )


def test_what_takes_too_long_to_look_up_is_not_waited_for() -> None:
    server, done = Aging(), list[str]()
    server.offer(OfferKind.TOOLS, "old")
    scene = Scene(server)
    assert scene.local_methods.look_up(
        scene.profile, unknown("s__new"), caller(), lambda: done.append("new")
    )
    ((seconds, give_up),) = scene.clock.due

    give_up()

    assert (seconds, done, server.lists_overdue) == (2.0, ["new"], True)
    assert not scene.local_methods.look_up(
        scene.profile, unknown("s__new"), caller(), lambda: done.append("?")
    )


def test_only_so_many_wait_for_what_is_in_no_list() -> None:
    server, done = Aging(), list[int]()
    server.offer(OfferKind.TOOLS, "old")
    scene = Scene(server)

    def ask(number: int) -> bool:
        return scene.local_methods.look_up(
            scene.profile, unknown("s__new"), caller(), lambda: done.append(number)
        )

    waiting = [ask(number) for number in range(LOOKUPS_WAITING_MAX + 3)]
    assert (sum(waiting), waiting[-3:]) == (LOOKUPS_WAITING_MAX, [False] * 3)
    server.list_clock.pass_by()
    asyncio.run(server.list_clock.work)
    scene.local_methods.on_lists_settled()

    assert done == list(range(LOOKUPS_WAITING_MAX))
    assert (ask(0), server.list_clock.reads) == (True, 1), "the next one comes later"


def test_a_new_session_has_the_list_read_again_and_sees_the_difference() -> None:
    server = Aging()
    server.connection.peer = peer_of(LEGACY, tools={"listChanged": True})
    server.offer(OfferKind.TOOLS, "old")
    scene = Scene(server)
    server.list_clock.seconds = 30.0
    session = FakeSession()
    scene.notifications.on_session_opened(session)

    assert tools(scene.ask("tools/list", session=session))[2:] == ["s__old"]
    assert server.list_clock.reads == 1
    asyncio.run(server.list_clock.work)
    server.offer(OfferKind.TOOLS, "new")
    scene.local_methods.refresh(scene.profile)

    assert session.notified == [("notifications/tools/list_changed", None)]
    assert tools(scene.ask("tools/list", session=session))[2:] == ["s__new"]
    assert server.list_clock.reads == 1


def test_a_cursor_does_not_outlive_the_scope_that_its_list_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_methods_module, "PAGE_ENTRIES_MAX", 3)
    server = Aging()
    server.offer(OfferKind.TOOLS, "a", "b", "c")
    scene = Scene(server)
    first = ask_modern(scene)

    def go_on() -> Asked:
        params = {"cursor": first.ending["nextCursor"]}
        asked = Asked("tools/list", params, caller(None, MODERN))
        scene.local_methods.answer(asked.exchange, scene.profile)
        return asked

    assert go_on().ending["cacheScope"] == first.ending["cacheScope"] == "private"
    known = server.listings[OfferKind.TOOLS]
    server.listings[OfferKind.TOOLS] = replace(known, freshness=Freshness(60_000, public=True))
    assert str(go_on().ending).startswith("Invalid cursor")
