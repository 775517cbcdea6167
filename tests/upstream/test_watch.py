"""The subscription that keeps a modern server talking."""

from collections.abc import Callable

from anyport.upstream.connection import Connection, Lost
from anyport.upstream.watch import LISTEN_AGAIN_SECONDS, Ticking, Watch
from tests.upstream.fakes import MODERN, FakeChannel, connected, peer_of, say


class Later:
    """A clock that is wound by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.gaps: list[frozenset[str]] = []

    def __call__(self, seconds: float, act: Callable[[], None]) -> None:
        self.due.append((seconds, act))


def watching(connection: Connection, later: Later | None = None) -> Watch:
    later = later or Later()
    time = Ticking(later=later, clock=lambda: later.now, chance=lambda: 0.0)
    return Watch(connection, peer_of(MODERN).back, time, later.gaps.append)


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
    watch = watching(connection)

    watch.follow(frozenset())
    watch.follow(frozenset())
    watch.follow(frozenset({"b:", "a:"}))

    assert wishes(channel) == [None, ["a:", "b:"], ("ended", 1)]


def test_a_subscription_that_ended_in_good_order_is_opened_again_after_a_while() -> None:
    connection, channel, _ = connected(MODERN)
    later = Later()
    watch = watching(connection, later)
    watch.follow(frozenset({"a:"}))

    say(connection, id=1, result={"resultType": "complete"})
    ((seconds, act),) = later.due
    act()

    assert seconds == LISTEN_AGAIN_SECONDS
    assert wishes(channel) == [["a:"], ["a:"]]


def test_a_server_that_refuses_is_not_asked_again() -> None:
    connection, _, _ = connected(MODERN)
    later = Later()
    watching(connection, later).follow(frozenset())

    say(connection, id=1, error={"code": -32601, "message": "no"})

    assert later.due == []


def test_nothing_is_asked_of_a_server_that_is_gone() -> None:
    connection, channel, _ = connected(MODERN)
    later = Later()
    watch = watching(connection, later)
    watch.follow(frozenset())

    connection.end("gone")
    watch.follow(frozenset({"a:"}))

    assert later.due == []
    assert len(channel.sent) == 1


def test_a_lost_stream_is_opened_again_and_anything_may_have_changed_meanwhile() -> None:
    connection, channel, _ = connected(MODERN)
    later = Later()
    watch = watching(connection, later)
    watch.follow(frozenset({"a:"}))
    delays: list[float] = []
    for _ in range(4):
        call = channel.calls[-1]
        later.now += 1.0
        connection.settle(call, Lost("cut"))
        ((seconds, act),) = later.due
        later.due.clear()
        delays.append(seconds)
        act()

    assert delays == [0.0, 1.0, 3.0, 9.0], "it is asked later and later"
    assert later.gaps == [frozenset({"a:"})] * 4
    assert wishes(channel) == [["a:"]] * 5


def test_who_has_stopped_listening_does_not_begin_again() -> None:
    connection, channel, _ = connected(MODERN)
    later = Later()
    watch = watching(connection, later)
    watch.follow(frozenset())
    connection.settle(channel.calls[-1], Lost("cut"))

    watch.stop()
    later.due[0][1]()

    assert len(channel.sent) == 1
    assert later.gaps == []


def test_to_stop_is_told_to_the_server() -> None:
    connection, channel, _ = connected(MODERN)
    watch = watching(connection)
    watch.follow(frozenset())

    watch.stop()

    assert wishes(channel) == [None, ("ended", 1)]
