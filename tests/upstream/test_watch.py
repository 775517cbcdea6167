"""The subscription that keeps a modern server talking."""

from collections.abc import Callable

import pytest

from anyport.protocol.method import Kind
from anyport.upstream.call import Lost
from anyport.upstream.connection import Connection
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


def acknowledging(number: int) -> bytes:
    about = b'{"io.modelcontextprotocol/subscriptionId":%d}' % number
    return b'{"notifications":{"toolsListChanged":true},"_meta":%b}' % about


def test_a_change_opens_a_new_subscription_before_the_old_one_is_ended() -> None:
    connection, channel, _ = connected(MODERN)
    watch = watching(connection)

    watch.follow(frozenset())
    watch.follow(frozenset())
    watch.acknowledged(acknowledging(1))
    watch.follow(frozenset({"b:", "a:"}))

    assert wishes(channel) == [None, ["a:", "b:"]]
    watch.acknowledged(acknowledging(1))
    assert wishes(channel) == [None, ["a:", "b:"]], "that was the old one"
    watch.acknowledged(acknowledging(2))
    assert wishes(channel) == [None, ["a:", "b:"], ("ended", 1)]


def test_a_server_that_acknowledges_nothing_has_one_subscription_at_a_time() -> None:
    connection, channel, _ = connected(MODERN)
    watch = watching(connection)

    for uri in ("a:", "b:"):
        watch.follow(frozenset({uri}))

    assert wishes(channel) == [["a:"], ("ended", 1), ["b:"]]


def test_whoever_waits_goes_on_when_the_server_has_acknowledged() -> None:
    connection, _, _ = connected(MODERN)
    watch = watching(connection)
    heard: list[str] = []

    watch.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("first"))
    watch.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("second"))
    assert heard == []
    watch.acknowledged(acknowledging(1))
    watch.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("third"))

    assert heard == ["first", "second", "third"]


@pytest.mark.parametrize("how", ["refused", "stopped", "gone"])
def test_whoever_waits_goes_on_when_the_server_never_will(how: str) -> None:
    connection, _, _ = connected(MODERN)
    watch = watching(connection)
    heard: list[str] = []
    if how == "gone":
        connection.end("gone")
    watch.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("on"))

    if how == "refused":
        say(connection, id=1, error={"code": -32601, "message": "no"})
    watch.stop()

    assert heard == ["on"]


def test_tasks_are_listened_for_by_one_who_takes_them() -> None:
    connection, channel, _ = connected(MODERN)

    watching(connection).follow(frozenset(), frozenset({"t2", "t1"}))

    params = channel.sent[0]["params"]
    assert params["notifications"]["taskIds"] == ["t1", "t2"]
    declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert declared == {"extensions": {"io.modelcontextprotocol/tasks": {}}}


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
    assert later.gaps == [frozenset({"a:"})], "for a while nobody would have been told"


def test_what_the_server_will_tell_is_what_it_has_acknowledged() -> None:
    connection, channel, _ = connected(MODERN)
    watch = watching(connection)
    watch.follow(frozenset())
    assert not watch.hears(Kind.TOOLS)

    watch.acknowledged(b'{"notifications":{"toolsListChanged":true,"promptsListChanged":false}}')
    assert {kind for kind in Kind if watch.hears(kind)} == {Kind.TOOLS}
    watch.acknowledged(b'{"notifications":{"resourcesListChanged":true}}')
    resources = {Kind.RESOURCES, Kind.TEMPLATES, Kind.SKILLS}
    assert {kind for kind in Kind if watch.hears(kind)} == resources

    connection.settle(channel.calls[-1], Lost("cut"))
    assert not watch.hears(Kind.RESOURCES)


@pytest.mark.parametrize("params", [None, b"{}", b"[]", b'{"notifications":7}'])
def test_an_acknowledgement_of_nothing_changes_nothing(params: bytes | None) -> None:
    connection, _, _ = connected(MODERN)
    watch = watching(connection)
    watch.follow(frozenset())
    watch.acknowledged(b'{"notifications":{"toolsListChanged":true}}')

    watch.acknowledged(params)

    assert watch.hears(Kind.TOOLS)


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
