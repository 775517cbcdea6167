"""The subscription that keeps a modern server talking."""

from collections.abc import Callable

from anyport.upstream.watch import LISTEN_AGAIN_SECONDS, Watch
from tests.upstream.fakes import MODERN, FakeChannel, connected, peer_of, say


class Later:
    """A clock that is wound by hand."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, act: Callable[[], None]) -> None:
        self.due.append((seconds, act))


def wishes(channel: FakeChannel) -> list[object]:
    """What each subscription asked for, and which ones were ended."""
    told: list[object] = []
    for frame in channel.sent:
        if frame["method"] == "subscriptions/listen":
            told.append(frame["params"]["notifications"].get("resourceSubscriptions"))
        else:
            told.append(("ended", frame["params"]["requestId"]))
    return told


def test_a_change_opens_a_new_subscription_before_the_old_one_is_ended() -> None:
    connection, channel, _ = connected(MODERN)
    watch = Watch(connection, peer_of(MODERN).back, Later())

    watch.follow(frozenset())
    watch.follow(frozenset())
    watch.follow(frozenset({"b:", "a:"}))

    assert wishes(channel) == [None, ["a:", "b:"], ("ended", 1)]


def test_a_subscription_that_ended_in_good_order_is_opened_again_after_a_while() -> None:
    connection, channel, _ = connected(MODERN)
    later = Later()
    watch = Watch(connection, peer_of(MODERN).back, later)
    watch.follow(frozenset({"a:"}))

    say(connection, id=1, result={"resultType": "complete"})
    ((seconds, act),) = later.due
    act()

    assert seconds == LISTEN_AGAIN_SECONDS
    assert wishes(channel) == [["a:"], ["a:"]]


def test_a_server_that_refuses_is_not_asked_again() -> None:
    connection, _, _ = connected(MODERN)
    later = Later()
    Watch(connection, peer_of(MODERN).back, later).follow(frozenset())

    say(connection, id=1, error={"code": -32601, "message": "no"})

    assert later.due == []


def test_nothing_is_asked_of_a_server_that_is_gone() -> None:
    connection, channel, _ = connected(MODERN)
    later = Later()
    watch = Watch(connection, peer_of(MODERN).back, later)
    watch.follow(frozenset())

    connection.end("gone")
    watch.follow(frozenset({"a:"}))

    assert later.due == []
    assert len(channel.sent) == 1
