"""The fair scheduler handles peers in turn, a slice at a time."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from anyport.protocol.scheduler import (
    BUSY_COST_MAX,
    GROUP_REST_FACTOR,
    HEAVY_BYTES,
    LONG_SECONDS,
    MESSAGE_BYTES,
    REST_FACTOR,
    REST_SECONDS_MAX,
    SLICE_COST_MAX,
    TURN_COST_MAX,
    TURN_SECONDS_MAX,
    FairScheduler,
    GroupedPeer,
    cost_of,
)

FLOOD: Final = 10 * TURN_COST_MAX
LARGE_COST: Final = cost_of(4 * HEAVY_BYTES)


class Turns:
    """An event loop whose turns and clocks are driven by the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self._soon: list[Callable[[], object]] = []
        self._later: list[tuple[float, Callable[[], object]]] = []
        self.scheduler = FairScheduler(self, lambda: self.now)
        self.done: list[str] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> None:
        self._later.append((self.now + delay, callback))

    def turn(self) -> None:
        due = [callback for when, callback in self._later if when <= self.now]
        self._later = [(when, callback) for when, callback in self._later if when > self.now]
        soon, self._soon = self._soon, []
        for callback in (*soon, *due):
            callback()

    @property
    def idle(self) -> bool:
        return not self._soon

    def run(self, peer: object, work: Iterator[int], name: str = "") -> bool:
        return self.scheduler.run(peer, work, lambda: self.done.append(name))

    def defer(self, peer: object, work: Iterator[int], name: str = "") -> None:
        self.scheduler.defer(peer, work, lambda: self.done.append(name))


@pytest.fixture
def turns() -> Turns:
    return Turns()


def messages(handled: list[str], name: str, count: int) -> Iterator[int]:
    for _ in range(count):
        handled.append(name)
        yield 1


def test_a_few_messages_are_handled_at_once(turns: Turns) -> None:
    handled: list[str] = []

    assert turns.run("a", messages(handled, "a", 3))

    assert handled == ["a"] * 3
    assert turns.idle
    assert turns.done == []


def test_more_than_a_turn_may_cost_is_handled_in_later_ones(turns: Turns) -> None:
    handled: list[str] = []

    assert not turns.run("a", messages(handled, "a", FLOOD), "a")
    assert len(handled) == TURN_COST_MAX

    before = len(handled)
    while not turns.idle:
        turns.turn()
        assert len(handled) - before <= SLICE_COST_MAX
        before = len(handled)
    assert len(handled) == FLOOD
    assert turns.done == ["a"]


def test_while_others_queue_a_peer_gets_less_of_a_turn(turns: Turns) -> None:
    handled: list[str] = []
    turns.run("flood", messages([], "flood", FLOOD))

    assert turns.run("a", messages(handled, "a", BUSY_COST_MAX - 1))
    assert not turns.run("b", messages(handled, "b", FLOOD))

    assert handled.count("a") == BUSY_COST_MAX - 1
    assert handled.count("b") == BUSY_COST_MAX


def test_peers_take_turns_however_many_connections_one_of_them_has(turns: Turns) -> None:
    handled: list[str] = []
    for _ in range(100):
        turns.run("greedy", messages(handled, "greedy", FLOOD))
    turns.run("modest", messages(handled, "modest", FLOOD))
    handled.clear()

    for _ in range(10):
        turns.turn()

    assert handled.count("modest") == handled.count("greedy") == 5 * SLICE_COST_MAX


def test_the_connections_of_one_peer_take_turns(turns: Turns) -> None:
    handled: list[str] = []
    for name in "abc":
        turns.run("peer", messages(handled, name, FLOOD))
    handled.clear()

    for _ in range(3):
        turns.turn()

    assert sorted(set(handled)) == ["a", "b", "c"]


def test_a_peer_whose_message_took_long_waits_for_its_next(turns: Turns) -> None:
    handled: list[str] = []

    def heavy() -> Iterator[int]:
        for _ in range(2):
            yield TURN_COST_MAX
            handled.append("heavy")
            turns.now += 2 * LONG_SECONDS

    turns.run("heavy", heavy(), "heavy")
    turns.run("light", messages(handled, "light", FLOOD))
    handled.clear()
    turns.turn()
    assert handled == ["heavy"]

    while "heavy" in handled:
        handled.clear()
        turns.turn()
    turns.now += REST_FACTOR * 2 * LONG_SECONDS
    while not turns.idle:
        turns.turn()

    assert "heavy" in handled
    assert turns.done == ["heavy", ""] or turns.done == ["", "heavy"]


def test_no_peer_rests_for_ever(turns: Turns) -> None:
    def heavy() -> Iterator[int]:
        yield TURN_COST_MAX
        turns.now += 3600
        yield TURN_COST_MAX

    turns.run("heavy", heavy(), "heavy")
    turns.turn()
    turns.turn()
    assert turns.idle

    turns.now += REST_SECONDS_MAX
    turns.turn()
    turns.turn()

    assert turns.done == ["heavy"]


def test_work_that_breaks_costs_no_other(turns: Turns) -> None:
    handled: list[str] = []

    def broken() -> Iterator[int]:
        yield TURN_COST_MAX
        raise RuntimeError("broken")

    turns.run("a", broken())
    turns.run("b", messages(handled, "b", FLOOD), "b")
    with pytest.raises(RuntimeError):
        turns.turn()
    while not turns.idle:
        turns.turn()

    assert len(handled) == FLOOD
    assert turns.done == ["b"]


def test_bytes_cost_as_much_as_messages() -> None:
    assert cost_of(0) == 1
    assert cost_of(TURN_COST_MAX * MESSAGE_BYTES) > TURN_COST_MAX


def test_without_a_loop_everything_is_done_at_once() -> None:
    handled: list[str] = []
    done: list[str] = []
    scheduler = FairScheduler()

    assert scheduler.run("a", messages(handled, "a", FLOOD), lambda: done.append("a"))
    scheduler.defer("b", messages(handled, "b", FLOOD), lambda: done.append("b"))

    assert len(handled) == 2 * FLOOD
    assert done == ["b"]


def large(handled: list[str], turns: Turns, name: str, seconds: float) -> Iterator[int]:
    """Messages whose cost is charged before they are handled."""
    for _ in range(10):
        yield LARGE_COST
        handled.append(name)
        turns.now += seconds


def test_a_peer_whose_messages_took_long_as_they_arrived_waits_too(turns: Turns) -> None:
    handled: list[str] = []

    assert not turns.run("a", large(handled, turns, "a", LONG_SECONDS))
    assert handled == ["a"]
    for _ in range(5):
        turns.turn()
    assert handled == ["a"]

    turns.now += REST_FACTOR * LONG_SECONDS
    turns.turn()
    turns.turn()
    assert handled == ["a"] * 2


def test_what_a_peer_may_take_of_a_turn_is_for_all_of_its_connections(turns: Turns) -> None:
    handled: list[str] = []
    for _ in range(10):
        turns.run("greedy", large(handled, turns, "greedy", TURN_SECONDS_MAX / 2))
    turns.run("modest", messages(handled, "modest", 3))

    assert handled == ["greedy"] * 2 + ["modest"] * 3


def test_a_large_message_that_has_queued_has_its_turn_alone(turns: Turns) -> None:
    handled: list[str] = []
    for name in "abc":
        turns.run(name, once(handled, name, TURN_COST_MAX))

    for count in (1, 2, 3):
        turns.turn()
        assert handled == [*"abc"[:count]]


def test_large_messages_of_several_peers_take_turns(turns: Turns) -> None:
    handled: list[str] = []
    for name in "abc":
        turns.defer(name, large(handled, turns, name, 0.0))
    turns.turn()

    for count in range(1, 7):
        turns.turn()
        assert len(handled) <= count
    assert handled == [*"abcabc"[: len(handled)]]


def once(handled: list[str], name: str, cost: int) -> Iterator[int]:
    yield cost
    handled.append(name)


def test_a_peer_that_rests_leaves_whole_turns_to_the_others(turns: Turns) -> None:
    handled: list[str] = []
    turns.run("heavy", large([], turns, "heavy", LONG_SECONDS))

    assert turns.run("a", messages(handled, "a", TURN_COST_MAX - 1))


class Fellow(GroupedPeer):
    """A peer with a group."""

    group = "all"


def test_the_peers_of_a_group_share_the_place_of_one(turns: Turns) -> None:
    handled: list[str] = []
    for number in range(10):
        turns.run(Fellow(), messages(handled, f"{number}", FLOOD))
    turns.run("alone", messages(handled, "alone", FLOOD))
    handled.clear()

    for _ in range(20):
        turns.turn()

    assert handled.count("alone") == 10 * SLICE_COST_MAX
    assert {handled.count(f"{number}") for number in range(10)} == {SLICE_COST_MAX}


def test_one_of_a_group_rests_and_the_others_only_pause(turns: Turns) -> None:
    handled: list[str] = []
    seconds = 2 * LONG_SECONDS
    turns.run(Fellow(), large(handled, turns, "greedy", seconds))
    turns.run(modest := Fellow(), large(handled, turns, "modest", 0.0))
    assert turns.run(modest, messages(handled, "small", 3))
    turns.turn()
    assert handled == ["greedy", *["small"] * 3]

    turns.now += GROUP_REST_FACTOR * seconds
    turns.turn()
    turns.turn()
    assert "modest" in handled
    assert handled.count("greedy") == 1

    turns.now += REST_FACTOR * seconds
    while not turns.idle:
        turns.turn()
    assert handled.count("greedy") == 2


def test_who_comes_while_a_group_pauses_waits_with_it(turns: Turns) -> None:
    handled: list[str] = []
    turns.run(Fellow(), large([], turns, "greedy", LONG_SECONDS))
    turns.run(Fellow(), large(handled, turns, "new", 0.0), "new")
    turns.defer(Fellow(), messages(handled, "small", 1), "small")
    turns.turn()
    assert handled == []

    turns.now += GROUP_REST_FACTOR * LONG_SECONDS
    while "new" not in turns.done:
        turns.turn()
    assert turns.done == ["small", "new"]
