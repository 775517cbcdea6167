"""The subscriptions of one server, over all of its connections."""

import pytest

from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.subscriptions import (
    LISTEN_AGAIN_SECONDS,
    ServerSubscriptions,
    SubscriptionFilter,
    raise_log_level,
    set_log_level,
)
from tests.upstream.fakes import LEGACY, MODERN, FakeChannel, FakeClock, connected, peer_of, say
from tests.upstream.test_subscriptions_connection import acknowledging

OWN = LeaseKey(owner="session")
FOLLOWED = SubscriptionFilter(uris=frozenset({"a:"}))


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.gaps: list[tuple[LeaseKey, Connection, frozenset[str]]] = []
        self.subscriptions = ServerSubscriptions(self.clock, lambda *what: self.gaps.append(what))


def methods(channel: FakeChannel) -> list[str]:
    return [frame["method"] for frame in channel.sent]


def test_a_modern_server_is_listened_to_and_a_legacy_one_tells_unasked() -> None:
    at = Scene()
    modern, heard, _ = connected(MODERN)
    legacy, unheard, _ = connected(LEGACY)

    at.subscriptions.open(SHARED, modern)
    at.subscriptions.open(OWN, legacy)

    assert (methods(heard), methods(unheard)) == (["subscriptions/listen"], [])
    assert (at.subscriptions.calls(SHARED), at.subscriptions.calls(OWN)) == (1, 0)
    assert modern.own_requests == 1, "no client had a part in it"


def test_it_can_wait_until_somebody_wants_to_hear_of_changes() -> None:
    at = Scene()
    connection, channel, _ = connected(MODERN)
    at.subscriptions.open(SHARED, connection, at_once=False)
    assert methods(channel) == []

    at.subscriptions.start()
    at.subscriptions.start()

    assert methods(channel) == ["subscriptions/listen"]


def test_or_until_somebody_follows_something() -> None:
    at = Scene()
    connection, channel, _ = connected(MODERN)
    at.subscriptions.open(SHARED, connection, at_once=False)

    at.subscriptions.subscribe(SHARED, FOLLOWED, lambda: lambda: None)
    at.subscriptions.start()

    assert methods(channel) == ["subscriptions/listen"]


def test_what_is_followed_is_asked_for_over_its_connection() -> None:
    at = Scene()
    told: list[str] = []
    channels = []
    for key in (SHARED, OWN):
        connection, channel, _ = connected(MODERN)
        at.subscriptions.open(key, connection)
        at.subscriptions.on_acknowledged(key, acknowledging(1))
        channels.append(channel)

    at.subscriptions.subscribe(OWN, FOLLOWED, lambda: lambda: told.append("done"))
    # The old subscription is ended when the new one is known to hold.
    assert at.subscriptions.calls(OWN) == 2
    at.subscriptions.on_acknowledged(OWN, acknowledging(2))

    assert told == ["done"]
    asked = channels[1].sent[1]["params"]["notifications"]
    assert asked["resourceSubscriptions"] == ["a:"]
    assert at.subscriptions.calls(OWN) == 1
    assert len(channels[0].sent) == 1, "what is followed there is another matter"


def test_a_connection_of_no_use_is_not_listened_to_any_more() -> None:
    at = Scene()
    broken, channel, _ = connected(MODERN)
    leaving, silent, _ = connected(MODERN)
    at.subscriptions.open(SHARED, broken)
    at.subscriptions.open(OWN, leaving)

    at.subscriptions.close(SHARED)
    at.subscriptions.close(SHARED)
    at.subscriptions.forget(OWN)

    assert methods(channel) == ["subscriptions/listen", "notifications/cancelled"]
    assert methods(silent) == ["subscriptions/listen"], "it ends with the connection"
    assert (at.subscriptions.calls(SHARED), at.subscriptions.calls(OWN)) == (0, 0)


def test_a_server_that_became_a_legacy_one_is_not_listened_to() -> None:
    at = Scene()
    modern, _, _ = connected(MODERN)
    legacy, _, _ = connected(LEGACY)
    at.subscriptions.open(SHARED, modern)

    at.subscriptions.open(SHARED, legacy)

    assert at.subscriptions.calls(SHARED) == 0


def test_what_may_have_been_missed_is_told_with_the_connection() -> None:
    at = Scene()
    connection, _, _ = connected(MODERN)
    at.subscriptions.open(OWN, connection)
    at.subscriptions.subscribe(OWN, FOLLOWED, lambda: lambda: None)

    say(connection, id=2, result={})
    (seconds, again) = at.clock.timers[-1]
    again()

    assert seconds == LISTEN_AGAIN_SECONDS
    assert at.gaps == [(OWN, connection, frozenset({"a:"}))]


def levels(channel: FakeChannel) -> list[str]:
    assert {frame["method"] for frame in channel.sent} <= {"logging/setLevel"}
    return [frame["params"]["level"] for frame in channel.sent]


def test_a_server_is_told_the_level_and_then_it_goes_on() -> None:
    connection, channel, _ = connected(LEGACY)
    went: list[str] = []

    raise_log_level(connection, "debug", lambda: went.append("on"))
    assert went == []
    say(connection, id=1, error={"code": -32601, "message": "no"})

    assert (levels(channel), went) == (["debug"], ["on"])


def test_a_server_that_says_enough_is_told_nothing() -> None:
    connection, channel, _ = connected(LEGACY)
    set_log_level(connection, "info")
    went: list[str] = []

    for level in ("info", "warning"):
        raise_log_level(connection, level, lambda: went.append("on"))
    assert (levels(channel), went) == (["info"], ["on", "on"])
    raise_log_level(connection, "debug", lambda: went.append("late"))

    assert (levels(channel), went) == (["info", "debug"], ["on", "on"])


@pytest.mark.parametrize("how", ["modern", "mute", "gone"])
def test_a_server_that_cannot_be_told_keeps_nobody_waiting(how: str) -> None:
    connection, channel, _ = connected(MODERN if how == "modern" else LEGACY)
    if how == "mute":
        connection.peer = peer_of(LEGACY, tools={})
    if how == "gone":
        connection.end("gone")
    went: list[str] = []

    raise_log_level(connection, "debug", lambda: went.append("on"))

    assert (channel.sent, went) == ([], ["on"])
