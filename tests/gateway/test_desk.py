"""What the gateway answers itself."""

import asyncio
import json
import time
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from anyport.gateway.desk import BadQuery, Desk, Means
from anyport.gateway.feed import Feed
from anyport.gateway.handles import Handles
from anyport.gateway.interest import Interest
from anyport.gateway.relay import Relay
from anyport.gateway.tasks import Means as TaskMeans
from anyport.gateway.tasks import Tasks
from anyport.protocol.exchange import Ending, Exchange, Notice
from anyport.protocol.extension import SKILLS
from anyport.protocol.legacy_front import Description
from anyport.protocol.method import Kind
from anyport.protocol.revision import Revision
from anyport.protocol.seal import KEY_BYTES, Seal
from anyport.upstream.key import SHARED
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    Asked,
    FakeServer,
    FakeSession,
    Later,
    caller,
    profile_of,
)
from tests.upstream.fakes import say


class FakeRelay:
    """Takes endings, and what broke."""

    def __init__(self) -> None:
        self.broken: list[Exception] = []
        seal = Seal([bytes(KEY_BYTES)])
        self.tasks = Tasks(
            Handles(seal), TaskMeans(spawn=lambda work, _: work.close(), now=time.time)
        )

    def finish(self, exchange: Exchange, slug: str, native: str, ending: Ending) -> None:
        exchange.end(ending)

    def broke(self, exchange: Exchange, error: Exception) -> None:
        self.broken.append(error)


class Scene:
    """A desk with one server behind it."""

    def __init__(self, *servers: FakeServer) -> None:
        self.servers = servers or (FakeServer("s"),)
        self.server = self.servers[0]
        self.profile = profile_of(*self.servers)
        self.feed = Feed({"default": self.profile}, lambda *_: [], lambda _: None)
        self.later = Later()
        self.work: list[Coroutine[Any, Any, None]] = []
        self.events: Any = b"[]"
        self.offered: dict[str, bytes] = {}
        self.relay = FakeRelay()
        means = Means(
            status=lambda profile: {"profile": profile.slug},
            events=self._events,
            describe=lambda _: Description(b"{}", "Use me.", self.offered),
            spawn=lambda work, _: self.work.append(work),
            later=self.later,
            cursor_key=b"key",
        )
        interest = Interest(self.feed, self.later)
        self.desk = Desk(cast(Relay, self.relay), self.feed, interest, means, 2.0)

    def ask(self, method: str, params: Any = None, session: FakeSession | None = None) -> Asked:
        revision = MODERN if method in ("server/discover", "subscriptions/listen") else LEGACY
        asked = Asked(method, params, caller(session, revision))
        self.desk.answer(asked.exchange, self.profile)
        return asked

    async def _events(self, arguments: bytes, trace_id: str) -> tuple[bytes, ...]:
        if isinstance(self.events, Exception):
            raise self.events
        found: bytes = self.events
        return found, json.dumps({"trace_id": trace_id}).encode()


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
    scene.server.offer(Kind.SKILLS, "skill://tea/SKILL.md")
    scene.profile.refresh()

    assert scene.ask("skills/list").ending == {"skills": [{"uri": "skill://tea/SKILL.md"}]}


def test_a_list_of_settled_servers_is_answered_at_once() -> None:
    scene = Scene()
    scene.server.offer(Kind.TOOLS, "echo")
    scene.profile.refresh()

    assert tools(scene.ask("tools/list")) == ["gateway_status", "get_events", "s__echo"]
    assert scene.later.due == []


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_a_list_is_put_together_once_and_anew_when_it_has_changed(revision: Revision) -> None:
    scene = Scene()

    def ask() -> Asked:
        asked = Asked("tools/list", None, caller(None, revision))
        scene.desk.answer(asked.exchange, scene.profile)
        return asked

    scene.server.offer(Kind.TOOLS, "echo")
    scene.profile.refresh()
    first, second = ask(), ask()
    scene.server.offer(Kind.TOOLS, "other")
    scene.profile.refresh()

    assert tools(first) == tools(second)
    assert first.told[0] is second.told[0]
    assert tools(ask())[-1] == "s__other"


def test_a_list_waits_for_servers_that_have_not_told_yet() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    scene = Scene(one, two)
    asked = scene.ask("tools/list")
    one.offer(Kind.TOOLS, "a")
    scene.desk.lists_settled()
    assert asked.ending is None

    two.offer(Kind.TOOLS, "b")
    scene.profile.refresh()
    scene.desk.lists_settled()
    scene.desk.lists_settled()
    scene.later.pass_by()

    assert tools(asked)[2:] == ["one__a", "two__b"]


def test_a_list_does_not_wait_for_ever_and_the_next_not_at_all() -> None:
    one, two = FakeServer("one"), FakeServer("two")
    scene = Scene(one, two)
    one.offer(Kind.TOOLS, "a")
    scene.profile.refresh()
    first, second = scene.ask("tools/list"), scene.ask("prompts/list")
    assert [seconds for seconds, _ in scene.later.due] == [2.0, 2.0]

    scene.later.due[0][1]()

    assert tools(first)[2:] == ["one__a"]
    assert second.ending == {"prompts": []}
    assert (one.late, two.late) == (False, True)
    assert tools(scene.ask("tools/list"))[2:] == ["one__a"]


def test_whoever_needs_one_server_waits_for_that_one_and_within_its_time() -> None:
    scene = Scene()
    told: list[str] = []
    scene.server.listed = False
    scene.desk.wait_for_server(scene.server, 2.0, lambda: told.append("listed"))
    scene.desk.lists_settled()
    assert told == []
    assert [seconds for seconds, _ in scene.later.due] == [scene.server.config.timeout_seconds - 2]

    scene.server.offer(Kind.TOOLS, "echo")
    scene.desk.lists_settled()
    scene.later.pass_by()

    assert told == ["listed"]
    late = FakeServer("late")
    scene.desk.wait_for_server(late, 1e9, lambda: told.append("too late"))
    scene.later.pass_by()
    assert told == ["listed", "too late"]


def test_a_list_that_was_cancelled_while_it_waited_is_not_answered() -> None:
    scene = Scene()
    asked = scene.ask("tools/list")
    asked.exchange.cancel()

    scene.later.pass_by()

    assert asked.told == []


def test_a_session_that_has_seen_a_list_hears_of_its_changes() -> None:
    scene = Scene()
    scene.server.listed = True
    session = FakeSession()
    scene.feed.opened(session)
    scene.ask("tools/list", session=session)

    scene.feed.lists_changed(scene.profile, frozenset({Kind.TOOLS}))

    assert session.notified == [("notifications/tools/list_changed", None)]


@pytest.mark.parametrize("cursor", ["nonsense", "", 7])
def test_a_cursor_of_somebody_else_is_refused(cursor: object) -> None:
    scene = Scene()
    scene.server.listed = True

    assert str(scene.ask("tools/list", {"cursor": cursor}).ending).startswith("Invalid cursor")


def test_a_null_cursor_is_none() -> None:
    scene = Scene()
    scene.server.listed = True

    assert "tools" in scene.ask("tools/list", {"cursor": None}).ending


def test_a_level_is_kept_and_passed_to_servers_that_log() -> None:
    scene = Scene()
    session = FakeSession()
    scene.feed.opened(session)

    assert scene.ask("logging/setLevel", {"level": "warning"}, session).ending == {}

    assert session.log_level == "warning"
    (sent,) = scene.server.channel.sent
    assert (sent["method"], sent["params"]) == ("logging/setLevel", {"level": "warning"})


@pytest.mark.parametrize("params", [{}, {"level": "loud"}, {"level": 3}])
def test_a_level_that_does_not_exist_is_refused(params: object) -> None:
    assert "level must be one of debug" in Scene().ask("logging/setLevel", params).ending


def test_listening_is_acknowledged_with_what_is_honoured() -> None:
    scene = Scene()
    scene.server.offer(Kind.RESOURCES, "x:1")
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
    assert isinstance(notice, Notice)
    assert notice.method == "notifications/subscriptions/acknowledged"
    assert json.loads(notice.params) == {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["x:1"]}
    }
    assert scene.feed.uris_of(scene.server, SHARED) == {"x:1"}
    asked.exchange.cancel()
    assert scene.feed.listening == {}
    assert scene.feed.uris_of(scene.server, SHARED) == frozenset()


def test_following_a_resource_waits_until_it_is_known_whose_it_is() -> None:
    scene = Scene()
    scene.server.listed = False

    wishes = {"resourceSubscriptions": ["x:1"]}
    asked = scene.ask("subscriptions/listen", {"notifications": wishes})
    gone = scene.ask("subscriptions/listen", {"notifications": wishes})
    gone.exchange.cancel()
    assert asked.told == []
    scene.server.offer(Kind.RESOURCES, "x:1")
    scene.profile.refresh()
    scene.desk.lists_settled()
    say(scene.server.connection, id=1, result={})

    (notice,) = asked.told
    assert isinstance(notice, Notice)
    assert json.loads(notice.params) == {"notifications": wishes}
    assert [listening.exchange for listening in scene.feed.listening.values()] == [asked.exchange]


@pytest.mark.parametrize("params", [{}, {"notifications": []}, {"notifications": None}])
def test_listening_for_nothing_in_particular_is_refused(params: object) -> None:
    asked = Scene().ask("subscriptions/listen", params)

    assert asked.ending == "Invalid params: subscriptions/listen needs notifications, an object"


def text(asked: Asked) -> Any:
    return json.loads(asked.ending["content"][0]["text"])


def test_gateway_status_is_a_document_in_a_text() -> None:
    scene, asked = Scene(), Asked()
    scene.desk.use_tool(asked.exchange, scene.profile, "gateway_status")

    assert text(asked) == {"profile": "default", "trace_id": asked.exchange.trace_id}


def run_events(events: Any) -> tuple[Scene, Asked]:
    scene, asked = Scene(), Asked(params={"name": "get_events", "arguments": {"limit": 1}})
    scene.events = events
    scene.desk.use_tool(asked.exchange, scene.profile, "get_events")
    asyncio.run(scene.work[0])
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
