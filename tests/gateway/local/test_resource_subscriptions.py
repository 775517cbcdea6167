"""Which resources are followed, and what their servers hear of it."""

import json

import pytest

from anyport.catalog.route import Route
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.local.notifications import ListenStream, Notifications
from anyport.gateway.local.resource_subscriptions import CompletionBarrier, ResourceSubscriptions
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Revision
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.server import Server
from anyport.upstream.supervisor import LeaseCallback
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
from tests.upstream.fakes import Message, peer_of, say


class Scene:
    """A server with a resource, and clients that follow it."""

    def __init__(self, revision: Revision = LEGACY, **profile: bool) -> None:
        self.server = FakeServer("s", revision)
        self.server.offer(OfferKind.RESOURCES, "x:1")
        self.watched = self.server.watched
        profiles = {"default": profile_of(self.server, **profile)}
        self.notifications = Notifications(profiles, CallTable(FakeClock()))
        self.clock = FakeClock()
        self.subscriptions = ResourceSubscriptions(self.notifications, self.clock)

    def session(self, id: str = "mine") -> FakeSession:
        session = FakeSession(id)
        self.notifications.on_session_opened(session)
        return session

    def take(self, verb: str, session: FakeSession | None) -> Asked:
        asked = Asked(f"resources/{verb}", {"uri": "x:1"}, caller(session))
        route = Route(slug="s", params=asked.exchange.params, native="x:1", public="x:1")
        self.subscriptions.handle_request(asked.exchange, self.server, route)
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
    waiting: list[LeaseCallback] = []
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

    scene.subscriptions.resubscribe(scene.server, SHARED)

    assert scene.told == [("resources/subscribe", "x:1")] * 2


def test_a_session_follows_over_the_connection_that_is_its_own() -> None:
    scene = Scene()
    mine = LeaseKey(owner="mine", interactive=True)
    scene.server.have(mine)

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

    scene.notifications.on_session_closed(session)
    scene.subscriptions.forget(scene.server, session)

    assert scene.told[1:] == [("resources/unsubscribe", "x:1")]


def test_the_wishes_of_a_listener_count_as_much_as_those_of_a_session() -> None:
    scene = Scene(MODERN)
    asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
    scene.notifications.streams[asked.exchange] = ListenStream(
        asked.exchange, frozenset(), frozenset({"x:1"})
    )

    scene.subscriptions.sync([scene.server])

    assert scene.watched == [{"x:1"}]
    assert json.dumps(scene.told) == "[]"


@pytest.mark.parametrize(
    ("capabilities", "words"),
    [
        ({"resources": {}}, "Method not found: resources/subscribe"),
        (
            {"resources": {"subscribe": True}},
            "Server 's' does not announce changes of this resource: x:1",
        ),
    ],
)
def test_a_resource_that_a_modern_server_will_not_tell_of_cannot_be_followed(
    capabilities: Message, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(MODERN)
    scene.server.connection.peer = peer_of(MODERN, **capabilities)
    monkeypatch.setattr(scene.server, "refuses", lambda key, uri: uri == "x:1")
    session = scene.session()

    asked = scene.take("subscribe", session)
    scene.server.acknowledge.pop()()

    assert asked.ending == words
    assert session.subscriptions == set()
    assert scene.watched == [{"x:1"}, frozenset()]


def test_a_resource_that_a_legacy_server_does_not_tell_one_of_is_refused_to_the_next() -> None:
    scene = Scene()
    listening = Asked("subscriptions/listen", by=caller(revision=MODERN))
    scene.notifications.streams[listening.exchange] = ListenStream(
        listening.exchange, frozenset(), frozenset({"x:1"})
    )
    scene.subscriptions.sync([scene.server])
    scene.answer(error={"code": -32601, "message": "no"})
    session = scene.session()

    asked = scene.take("subscribe", session)

    assert asked.ending == "Method not found: resources/subscribe"
    assert session.subscriptions == set()


STREAMLESS = "Server 's' has no stream on which to announce changes of this resource: x:1"


def test_what_a_server_without_a_stream_would_tell_nobody_cannot_be_followed() -> None:
    scene = Scene()
    scene.server.channel.streamless = True
    session = scene.session()

    asked = scene.take("subscribe", session)

    assert asked.ending == STREAMLESS
    assert session.subscriptions == set()
    assert scene.told == []
    assert scene.subscriptions.is_rejected(scene.server, SHARED, "x:1"), "nor by who listens"


def test_what_was_followed_before_its_server_had_no_stream_can_be_left() -> None:
    scene = Scene()
    session = scene.session()
    scene.take("subscribe", session)
    scene.answer(result={})
    scene.server.channel.streamless = True

    asked = scene.take("unsubscribe", session)
    scene.answer(result={})

    assert asked.ending == {}
    assert scene.told == [("resources/subscribe", "x:1"), ("resources/unsubscribe", "x:1")]


def test_a_server_that_turns_out_to_have_no_stream_while_it_starts_is_not_followed() -> None:
    scene = Scene()
    waiting: list[LeaseCallback] = []
    scene.server.waiting = waiting
    session = scene.session()

    asked = scene.take("subscribe", session)
    assert asked.ending is None
    scene.server.channel.streamless = True
    waiting[0](scene.server.connection)

    assert asked.ending == STREAMLESS
    assert session.subscriptions == set()
    assert scene.told == []


def test_in_a_transparent_profile_a_server_without_a_stream_answers_itself() -> None:
    scene = Scene(transparent=True)
    scene.server.channel.streamless = True

    for id in ("one", "two"):
        asked = scene.take("subscribe", scene.session(id))
        scene.answer(result={})
        assert asked.ending == {}

    assert scene.told == [("resources/subscribe", "x:1")]


def test_nobody_waits_for_ever_for_a_server_to_know() -> None:
    scene = Scene(MODERN)

    asked = scene.take("subscribe", scene.session())
    scene.clock.pass_by()

    assert asked.ending == {}


def test_a_resource_that_a_server_does_not_tell_of_is_known_as_such_until_it_is_left() -> None:
    scene = Scene()
    asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
    listening = ListenStream(asked.exchange, frozenset(), frozenset({"x:1"}))
    scene.notifications.streams[asked.exchange] = listening
    done: list[int] = []

    scene.subscriptions.sync([scene.server], lambda: done.append(1))
    assert done == []
    scene.answer(error={"code": -32602, "message": "no"})
    assert done == [1]
    assert scene.subscriptions.is_rejected(scene.server, SHARED, "x:1")

    del scene.notifications.streams[asked.exchange]
    scene.subscriptions.sync([scene.server])
    assert not scene.subscriptions.is_rejected(scene.server, SHARED, "x:1")


def test_where_nobody_follows_anything_a_new_connection_is_no_reason_to_ask_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, looked = Scene(), list[LeaseKey]()
    look = scene.notifications.subscribed_uris

    def counted(server: Server, key: LeaseKey) -> frozenset[str]:
        looked.append(key)
        return look(server, key)

    monkeypatch.setattr(scene.notifications, "subscribed_uris", counted)
    session = scene.session()
    scene.subscriptions.resubscribe(scene.server, SHARED)
    assert looked == []

    session.subscriptions.add("x:1")
    scene.subscriptions.resubscribe(scene.server, SHARED)
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
    server.offer(OfferKind.RESOURCES, "x:1")
    server.waiting = []
    scene.notifications = Notifications({"default": profile_of(server)}, CallTable(FakeClock()))
    scene.subscriptions = ResourceSubscriptions(scene.notifications, scene.clock)
    told: list[str] = []

    scene.subscriptions.sync([server], lambda: told.append("nobody follows"))
    assert (server.leased, told) == ([], ["nobody follows"])

    listening = Asked("subscriptions/listen", {}, caller(revision=MODERN))
    scene.notifications.streams[listening.exchange] = ListenStream(
        listening.exchange, frozenset(), frozenset({"x:1"})
    )
    scene.subscriptions.sync([server], lambda: told.append("it is told"))
    assert (server.leased, len(told)) == ([SHARED], 1), "it has to start first"
    server.sleeping = False
    for ready in server.waiting:
        ready(server.connection)
    scene.answer(result={})

    assert scene.told == [("resources/subscribe", "x:1")]
    assert told[1:] == ["it is told"]


def test_what_follows_happens_once_when_everything_has() -> None:
    happened: list[int] = []
    tally = CompletionBarrier(lambda: happened.append(1))
    first, second = tally.expect(), tally.expect()

    first()
    first()
    tally.close()
    assert happened == []
    second()
    second()
    tally.give_up()

    assert happened == [1]


def test_with_nothing_to_wait_for_it_happens_at_once() -> None:
    happened: list[int] = []
    CompletionBarrier(lambda: happened.append(1)).close()

    assert happened == [1]


def test_who_has_waited_long_enough_goes_on() -> None:
    happened: list[int] = []
    tally = CompletionBarrier(lambda: happened.append(1))
    late = tally.expect()
    tally.close()

    tally.give_up()
    late()

    assert happened == [1]
