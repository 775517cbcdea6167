"""Which resources are followed, and what their servers hear of it."""

import json
from typing import cast

import pytest

from anyport.gateway.feed import Feed, Listening
from anyport.gateway.interest import Interest
from anyport.protocol.method import Kind
from anyport.protocol.revision import Revision
from anyport.routing.route import Route
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.server import Server
from anyport.upstream.tender import Ready, Tender
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


class Scene:
    """A server with a resource, and clients that follow it."""

    def __init__(self, revision: Revision = LEGACY) -> None:
        self.server = FakeServer("s", revision)
        self.server.offer(Kind.RESOURCES, "x:1")
        self.watched = self.server.watched
        self.feed = Feed({"default": profile_of(self.server)}, lambda *_: [], lambda _: None)
        self.later = Later()
        self.interest = Interest(self.feed, self.later)

    def session(self, id: str = "mine") -> FakeSession:
        session = FakeSession(id)
        self.feed.opened(session)
        return session

    def take(self, verb: str, session: FakeSession | None) -> Asked:
        asked = Asked(f"resources/{verb}", {"uri": "x:1"}, caller(session))
        route = Route(slug="s", params=asked.exchange.params, native="x:1", public="x:1")
        self.interest.take(asked.exchange, self.server, route)
        return asked

    @property
    def told(self) -> list[tuple[str, str]]:
        sent = self.server.channel.sent
        return [(frame["method"], frame["params"]["uri"]) for frame in sent]

    def answer(self, **outcome: object) -> None:
        say(self.server.connection, id=self.server.channel.sent[-1]["id"], **outcome)


def test_a_server_hears_of_the_first_follower_and_of_the_last() -> None:
    scene = Scene()
    one, two = scene.session("one"), scene.session("two")

    first = scene.take("subscribe", one)
    assert first.ending is None
    scene.answer(result={})
    assert first.ending == {}
    assert scene.take("subscribe", two).ending == {}
    assert scene.take("unsubscribe", one).ending == {}
    assert scene.told == [("resources/subscribe", "x:1")]

    last = scene.take("unsubscribe", two)
    scene.answer(result={})
    assert last.ending == {}
    assert scene.told[1:] == [("resources/unsubscribe", "x:1")]


def test_a_server_that_refuses_is_quoted_and_nobody_follows() -> None:
    scene = Scene()
    session = scene.session()

    asked = scene.take("subscribe", session)
    scene.answer(error={"code": -1, "message": "no"})

    assert asked.ending == {"code": -1, "message": "no"}
    assert session.subscriptions == set()


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_a_server_that_is_gone_is_a_reason_and_nobody_follows(moment: str) -> None:
    scene = Scene()
    session = scene.session()
    if moment == "before":
        scene.server.connection.end("exit code 1")

    asked = scene.take("subscribe", session)
    if moment == "meanwhile":
        scene.server.connection.end("exit code 1")

    assert asked.ending == "Server 's' is not running: exit code 1"
    assert session.subscriptions == set()


def test_a_server_that_is_down_is_a_reason() -> None:
    scene = Scene()
    scene.server.down = "it is disabled in the configuration"

    asked = scene.take("subscribe", scene.session())

    assert asked.ending == "Server 's' is not running: it is disabled in the configuration"


def test_following_needs_a_session() -> None:
    asked = Scene().take("subscribe", None)

    assert asked.ending == "resources/subscribe needs a session: send initialize first"


def test_a_modern_server_is_watched_instead() -> None:
    scene = Scene(MODERN)
    session = scene.session()

    for verb in ("subscribe", "unsubscribe"):
        asked = scene.take(verb, session)
        assert asked.ending is None, "the server does not know yet"
        scene.server.acknowledge.pop()()
        assert asked.ending == {}

    assert scene.watched == [{"x:1"}, frozenset()]
    assert scene.told == []


def test_a_server_that_turns_out_to_be_modern_while_it_starts_is_watched() -> None:
    scene = Scene(MODERN)
    peer, scene.server.connection.peer = scene.server.connection.peer, None
    waiting: list[Ready] = []
    scene.server.waiting = waiting

    asked = scene.take("subscribe", scene.session())
    scene.server.connection.peer = peer
    waiting[0](scene.server.connection)
    scene.server.acknowledge.pop()()

    assert asked.ending == {}
    assert scene.watched == [{"x:1"}]


def test_a_restarted_server_is_told_again_what_is_followed() -> None:
    scene = Scene()
    scene.take("subscribe", scene.session())
    scene.answer(result={})

    scene.interest.restore(scene.server, SHARED)

    assert scene.told == [("resources/subscribe", "x:1")] * 2


def test_a_session_follows_over_the_connection_that_is_its_own() -> None:
    scene = Scene()
    mine = LeaseKey(owner="mine", interactive=True)
    scene.server.tenders[mine] = cast(Tender, None)

    scene.take("subscribe", scene.session("mine"))
    scene.answer(result={})
    scene.take("subscribe", scene.session("another"))

    assert scene.server.leased == [mine, SHARED]
    assert scene.told == [("resources/subscribe", "x:1")] * 2


def test_a_server_hears_that_the_last_follower_has_left() -> None:
    scene = Scene()
    session = scene.session()
    scene.take("subscribe", session)
    scene.answer(result={})

    scene.feed.closed(session)
    scene.interest.forget(scene.server, session)

    assert scene.told[1:] == [("resources/unsubscribe", "x:1")]


def test_the_wishes_of_a_listener_count_as_much_as_those_of_a_session() -> None:
    scene = Scene(MODERN)
    asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
    scene.feed.listening[asked.exchange] = Listening(
        asked.exchange, frozenset(), frozenset({"x:1"})
    )

    scene.interest.sync([scene.server])

    assert scene.watched == [{"x:1"}]
    assert json.dumps(scene.told) == "[]"


def test_nobody_waits_for_ever_for_a_server_to_know() -> None:
    scene = Scene(MODERN)

    asked = scene.take("subscribe", scene.session())
    scene.later.pass_by()

    assert asked.ending == {}


def test_a_resource_that_a_server_does_not_tell_of_is_known_as_such_until_it_is_left() -> None:
    scene = Scene()
    asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
    listening = Listening(asked.exchange, frozenset(), frozenset({"x:1"}))
    scene.feed.listening[asked.exchange] = listening
    done: list[int] = []

    scene.interest.sync([scene.server], lambda: done.append(1))
    assert done == []
    scene.answer(error={"code": -32602, "message": "no"})
    assert done == [1]
    assert scene.interest.refused("s", "x:1")

    del scene.feed.listening[asked.exchange]
    scene.interest.sync([scene.server])
    assert not scene.interest.refused("s", "x:1")


def test_where_nobody_follows_anything_a_new_connection_is_no_reason_to_ask_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, looked = Scene(), list[LeaseKey]()
    look = scene.feed.uris_of

    def counted(server: Server, key: LeaseKey) -> frozenset[str]:
        looked.append(key)
        return look(server, key)

    monkeypatch.setattr(scene.feed, "uris_of", counted)
    session = scene.session()
    scene.interest.restore(scene.server, SHARED)
    assert looked == []

    session.subscriptions.add("x:1")
    scene.interest.restore(scene.server, SHARED)
    assert looked
    assert scene.told == [("resources/subscribe", "x:1")]


class Sleeper(FakeServer):
    """A server that is started when somebody asks for it."""

    sleeping = True

    @property
    def asleep(self) -> bool:
        return self.sleeping

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        return [] if self.sleeping else super().connections()


def test_a_server_that_sleeps_is_started_for_who_follows_one_of_its_resources() -> None:
    scene = Scene()
    server = scene.server = Sleeper("s")
    server.offer(Kind.RESOURCES, "x:1")
    server.waiting = []
    scene.feed = Feed({"default": profile_of(server)}, lambda *_: [], lambda _: None)
    scene.interest = Interest(scene.feed, scene.later)
    told: list[str] = []

    scene.interest.sync([server], lambda: told.append("nobody follows"))
    assert (server.leased, told) == ([], ["nobody follows"])

    listening = Asked("subscriptions/listen", {}, caller(revision=MODERN))
    scene.feed.listening[listening.exchange] = Listening(
        listening.exchange, frozenset(), frozenset({"x:1"})
    )
    scene.interest.sync([server], lambda: told.append("it is told"))
    assert (server.leased, len(told)) == ([SHARED], 1), "it has to start first"
    server.sleeping = False
    for ready in server.waiting:
        ready(server.connection)
    scene.answer(result={})

    assert scene.told == [("resources/subscribe", "x:1")]
    assert told[1:] == ["it is told"]
