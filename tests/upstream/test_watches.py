"""The subscriptions of one server, over all of its connections."""

from collections.abc import Callable

from anyport.protocol.method import Kind
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.watch import LISTEN_AGAIN_SECONDS, Ticking
from anyport.upstream.watches import Watches
from tests.upstream.fakes import LEGACY, MODERN, FakeChannel, connected, say
from tests.upstream.test_watch import acknowledging

OWN = LeaseKey(owner="session")


class Scene:
    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.missed: list[tuple[LeaseKey, Connection, frozenset[str]]] = []
        time = Ticking(
            later=lambda seconds, act: self.due.append((seconds, act)),
            clock=lambda: 0.0,
            chance=lambda: 0.0,
        )
        self.watches = Watches(time, lambda *what: self.missed.append(what))


def methods(channel: FakeChannel) -> list[str]:
    return [frame["method"] for frame in channel.sent]


def test_a_modern_server_is_listened_to_and_a_legacy_one_tells_unasked() -> None:
    at = Scene()
    modern, heard, _ = connected(MODERN)
    legacy, unheard, _ = connected(LEGACY)

    at.watches.open(SHARED, modern)
    at.watches.open(OWN, legacy)

    assert (methods(heard), methods(unheard)) == (["subscriptions/listen"], [])
    assert (at.watches.calls(SHARED), at.watches.calls(OWN)) == (1, 0)
    assert modern.own_requests == 1, "no client had a part in it"


def test_what_the_server_will_tell_is_known_once_it_has_said_so() -> None:
    at = Scene()
    connection, _, _ = connected(MODERN)
    at.watches.open(SHARED, connection)
    assert not at.watches.hears(Kind.TOOLS)

    at.watches.acknowledged(OWN, acknowledging(1))
    assert not at.watches.hears(Kind.TOOLS), "that was another connection"
    at.watches.acknowledged(SHARED, acknowledging(1))

    assert at.watches.hears(Kind.TOOLS)
    assert not at.watches.hears(Kind.PROMPTS)


def test_what_is_followed_is_asked_for_over_each_connection() -> None:
    at = Scene()
    told: list[str] = []
    channels = []
    for key in (SHARED, OWN):
        connection, channel, _ = connected(MODERN)
        at.watches.open(key, connection)
        at.watches.acknowledged(key, acknowledging(1))
        channels.append(channel)

    at.watches.follow(frozenset({"a:"}), frozenset(), lambda: lambda: told.append("done"))
    # The old subscription is ended when the new one is known to hold.
    assert at.watches.calls(SHARED) == 2
    for key in (SHARED, OWN):
        at.watches.acknowledged(key, acknowledging(2))

    assert told == ["done", "done"]
    for channel in channels:
        asked = channel.sent[1]["params"]["notifications"]
        assert asked["resourceSubscriptions"] == ["a:"]
    assert at.watches.calls(SHARED) == 1


def test_a_connection_of_no_use_is_not_listened_to_any_more() -> None:
    at = Scene()
    broken, channel, _ = connected(MODERN)
    leaving, silent, _ = connected(MODERN)
    at.watches.open(SHARED, broken)
    at.watches.open(OWN, leaving)

    at.watches.close(SHARED)
    at.watches.close(SHARED)
    at.watches.forget(OWN)

    assert methods(channel) == ["subscriptions/listen", "notifications/cancelled"]
    assert methods(silent) == ["subscriptions/listen"], "it ends with the connection"
    assert (at.watches.calls(SHARED), at.watches.calls(OWN)) == (0, 0)


def test_a_server_that_became_a_legacy_one_is_not_listened_to() -> None:
    at = Scene()
    modern, _, _ = connected(MODERN)
    legacy, _, _ = connected(LEGACY)
    at.watches.open(SHARED, modern)

    at.watches.open(SHARED, legacy)

    assert at.watches.calls(SHARED) == 0


def test_what_may_have_been_missed_is_told_with_the_connection() -> None:
    at = Scene()
    connection, _, _ = connected(MODERN)
    at.watches.open(OWN, connection)
    at.watches.follow(frozenset({"a:"}), frozenset(), lambda: lambda: None)

    say(connection, id=2, result={})
    (seconds, again) = at.due[-1]
    again()

    assert seconds == LISTEN_AGAIN_SECONDS
    assert at.missed == [(OWN, connection, frozenset({"a:"}))]
