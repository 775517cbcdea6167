"""The subscription that keeps a modern server talking."""

import pytest

from anyport.upstream.connection import Connection
from anyport.upstream.pending_call import NoAnswer, PendingCall
from anyport.upstream.subscriptions import LISTEN_AGAIN_SECONDS, ConnectionSubscription
from tests.upstream.fakes import MODERN, FakeChannel, FakeClock, connected, peer_of, say


class GapClock(FakeClock):
    """A clock, and the gaps that a subscription reports."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[frozenset[str]] = []


def make_subscription(
    connection: Connection, clock: GapClock | None = None
) -> ConnectionSubscription:
    clock = clock or GapClock()
    return ConnectionSubscription(connection, peer_of(MODERN).adapter, clock, clock.gaps.append)


def requested_filters(channel: FakeChannel) -> list[object]:
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
    subscription = make_subscription(connection)

    subscription.follow(frozenset())
    subscription.follow(frozenset())
    subscription.on_acknowledged(acknowledging(1))
    subscription.follow(frozenset({"b:", "a:"}))

    assert requested_filters(channel) == [None, ["a:", "b:"]]
    subscription.on_acknowledged(acknowledging(1))
    assert requested_filters(channel) == [None, ["a:", "b:"]], "that was the old one"
    subscription.on_acknowledged(acknowledging(2))
    assert requested_filters(channel) == [None, ["a:", "b:"], ("ended", 1)]


def test_what_a_server_acknowledges_to_others_is_not_for_us() -> None:
    connection, channel, _ = connected(MODERN)
    subscription = make_subscription(connection)
    subscription.follow(frozenset({"a:"}))
    others = connection.call("subscriptions/listen", None, lambda _: None)
    assert isinstance(others, PendingCall)

    # Not every server says on which subscription it does.
    subscription.on_acknowledged(b'{"notifications":{}}', others)
    assert not subscription.refuses("a:")
    subscription.on_acknowledged(b'{"notifications":{}}', channel.calls[0])
    assert subscription.refuses("a:")


def test_a_server_that_acknowledges_nothing_has_one_subscription_at_a_time() -> None:
    connection, channel, _ = connected(MODERN)
    subscription = make_subscription(connection)

    for uri in ("a:", "b:"):
        subscription.follow(frozenset({uri}))

    assert requested_filters(channel) == [["a:"], ("ended", 1), ["b:"]]


def test_whoever_waits_goes_on_when_the_server_has_acknowledged() -> None:
    connection, _, _ = connected(MODERN)
    subscription = make_subscription(connection)
    heard: list[str] = []

    subscription.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("first"))
    subscription.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("second"))
    assert heard == []
    subscription.on_acknowledged(acknowledging(1))
    subscription.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("third"))

    assert heard == ["first", "second", "third"]


@pytest.mark.parametrize("how", ["refused", "stopped", "gone"])
def test_whoever_waits_goes_on_when_the_server_never_will(how: str) -> None:
    connection, _, _ = connected(MODERN)
    subscription = make_subscription(connection)
    heard: list[str] = []
    if how == "gone":
        connection.end("gone")
    subscription.follow(frozenset({"a:"}), frozenset(), lambda: heard.append("on"))

    if how == "refused":
        say(connection, id=1, error={"code": -32601, "message": "no"})
    subscription.stop()

    assert heard == ["on"]


def test_tasks_are_listened_for_by_one_who_takes_them() -> None:
    connection, channel, _ = connected(MODERN)

    make_subscription(connection).follow(frozenset(), frozenset({"t2", "t1"}))

    params = channel.sent[0]["params"]
    assert params["notifications"]["taskIds"] == ["t1", "t2"]
    declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert declared == {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def test_a_subscription_that_ended_in_good_order_is_opened_again_after_a_while() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset({"a:"}))

    say(connection, id=1, result={"resultType": "complete"})
    ((seconds, act),) = clock.timers
    act()

    assert seconds == LISTEN_AGAIN_SECONDS
    assert requested_filters(channel) == [["a:"], ["a:"]]
    assert clock.gaps == [frozenset({"a:"})], "for a while nobody would have been told"


@pytest.mark.parametrize("params", [None, b"{}", b"[]", b'{"notifications":7}'])
def test_an_acknowledgement_of_nothing_changes_nothing(params: bytes | None) -> None:
    connection, _, _ = connected(MODERN)
    subscription = make_subscription(connection)
    subscription.follow(frozenset({"a:"}))
    subscription.on_acknowledged(b'{"notifications":{"resourceSubscriptions":["a:"]}}')

    subscription.on_acknowledged(params)

    assert not subscription.refuses("a:")


def test_a_server_that_refuses_is_not_asked_again() -> None:
    connection, _, _ = connected(MODERN)
    clock = GapClock()
    make_subscription(connection, clock).follow(frozenset())

    say(connection, id=1, error={"code": -32601, "message": "no"})

    assert clock.timers == []


def test_a_subscription_goes_on_if_the_server_refuses_a_wider_one() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    told = b'{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:"]}}'
    heard: list[str] = []
    subscription.follow(frozenset({"a:"}))
    subscription.on_acknowledged(told)
    for number in (2, 3):
        subscription.follow(frozenset({"a:", "b:"}), frozenset(), lambda: heard.append("on"))
        say(connection, id=number, error={"code": -32602, "message": "there is no b:"})
        assert [subscription.refuses(uri) for uri in ("a:", "b:")] == [False, True]
    assert heard == ["on", "on"]
    assert requested_filters(channel) == [["a:"], ["a:", "b:"], ["a:", "b:"]]

    say(connection, id=1, result={"resultType": "complete"})
    clock.timers.pop()[1]()
    assert requested_filters(channel)[-1] == ["a:"], "it is opened again as it was"
    assert clock.timers == []


@pytest.mark.parametrize("ended", [True, False])
def test_what_a_server_refuses_does_not_cost_the_changes_of_everything_else(ended: bool) -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset())
    if ended:
        subscription.on_acknowledged(acknowledging(1))
    subscription.follow(frozenset({"a:"}))
    if ended:
        say(connection, id=1, result={"resultType": "complete"})

    say(connection, id=2, error={"code": -32602, "message": "there is no a:"})
    assert subscription.refuses("a:")
    ((seconds, act),) = clock.timers
    act()

    assert seconds == LISTEN_AGAIN_SECONDS
    assert [each for each in requested_filters(channel) if not isinstance(each, tuple)] == [
        None,
        ["a:"],
        None,
    ]
    subscription.on_acknowledged(acknowledging(3))
    assert subscription.refuses("a:")


def test_a_subscription_that_fails_after_its_acknowledgement_is_opened_again_ever_later() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset({"a:"}))
    delays: list[float] = []
    for number in (1, 2, 3):
        subscription.on_acknowledged(acknowledging(number))
        say(connection, id=number, error={"code": -32603, "message": "out of order"})
        ((seconds, act),) = clock.timers
        clock.timers.clear()
        delays.append(seconds)
        act()

    assert delays == [0.0, 1.0, 3.0]
    assert clock.gaps == [frozenset({"a:"})] * 3, "what may have been missed is announced"
    say(connection, id=4, error={"code": -32601, "message": "no"})
    assert clock.timers == [], "and one that it refuses is not asked for again"
    assert requested_filters(channel) == [["a:"]] * 4


def test_nothing_is_asked_of_a_server_that_is_gone() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset())

    connection.end("gone")
    subscription.follow(frozenset({"a:"}))

    assert clock.timers == []
    assert len(channel.sent) == 1


def test_a_lost_stream_is_opened_again_and_anything_may_have_changed_meanwhile() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset({"a:"}))
    delays: list[float] = []
    for _ in range(4):
        call = channel.calls[-1]
        clock.seconds += 1.0
        connection.settle(call, NoAnswer("cut"))
        ((seconds, act),) = clock.timers
        clock.timers.clear()
        delays.append(seconds)
        act()

    assert delays == [0.0, 1.0, 3.0, 9.0], "it is asked later and later"
    assert clock.gaps == [frozenset({"a:"})] * 4
    assert requested_filters(channel) == [["a:"]] * 5


def test_one_that_the_server_ends_as_one_cancels_a_request_is_opened_again() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset({"a:"}))
    subscription.on_acknowledged(acknowledging(1))

    subscription.on_cancelled(channel.calls[0])
    ((seconds, act),) = clock.timers
    act()

    assert seconds == 0.0
    assert requested_filters(channel) == [["a:"], ["a:"]], (
        "the server need not be told that it has ended"
    )
    assert clock.gaps == [frozenset({"a:"})], "what may have been missed is announced"
    subscription.on_cancelled(channel.calls[0])
    assert len(clock.timers) == 1, "that one is over"


def test_an_earlier_one_that_the_server_ends_costs_nothing() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset())
    subscription.on_acknowledged(acknowledging(1))
    subscription.follow(frozenset({"a:"}))

    subscription.on_cancelled(channel.calls[0])
    subscription.on_acknowledged(acknowledging(2))

    assert (clock.timers, clock.gaps) == ([], [])
    assert requested_filters(channel) == [None, ["a:"]]
    assert subscription.calls == 1


def test_who_has_stopped_listening_does_not_begin_again() -> None:
    connection, channel, _ = connected(MODERN)
    clock = GapClock()
    subscription = make_subscription(connection, clock)
    subscription.follow(frozenset())
    connection.settle(channel.calls[-1], NoAnswer("cut"))

    subscription.stop()
    clock.timers[0][1]()

    assert len(channel.sent) == 1
    assert clock.gaps == []


def test_to_stop_is_told_to_the_server() -> None:
    connection, channel, _ = connected(MODERN)
    subscription = make_subscription(connection)
    subscription.follow(frozenset())

    subscription.stop()

    assert requested_filters(channel) == [None, ("ended", 1)]


def test_a_server_says_which_resources_it_will_tell_of() -> None:
    connection, _, _ = connected(MODERN)
    subscription = make_subscription(connection)
    subscription.follow(frozenset({"a:", "b:"}))
    assert not subscription.refuses("a:"), "it has said nothing yet"

    subscription.on_acknowledged(b'{"notifications":{"resourceSubscriptions":["a:",7]}}')
    assert [subscription.refuses(uri) for uri in ("a:", "b:")] == [False, True]

    subscription.follow(frozenset({"a:"}))
    subscription.on_acknowledged(b'{"notifications":{"resourceSubscriptions":true}}')
    assert subscription.refuses("a:"), "that is no list"


def test_a_server_that_refuses_to_be_listened_to_tells_of_nothing() -> None:
    connection, channel, _ = connected(MODERN)
    subscription = make_subscription(connection)
    subscription.follow(frozenset({"a:"}))

    say(connection, id=channel.sent[-1]["id"], error={"code": -32601, "message": "no"})

    assert subscription.refuses("a:")
    subscription.follow(frozenset({"a:"}))
    assert not subscription.refuses("a:"), "it is asked once more"
