"""Fair scheduler: shares the event loop among peers.

Messages of a peer are handled by a `WorkSteps` iterator that yields the cost of each step. What
exceeds the share of one turn queues, round-robin among peers, and its connection is not read until
it is done. A peer whose messages took long rests for a multiple of that time. So no peer delays
others for longer than its largest message takes, nor often. The event loop and the clock are
arguments.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

WorkSteps = Iterator[int]
"""Handles received messages step by step; each step yields its cost in messages. A step with a
large message yields the cost before handling it."""

TURN_COST_MAX: Final = 64
"""Messages of one connection handled as they arrive; further ones queue."""
BUSY_COST_MAX: Final = 4
"""The same while other peers queue; a well-behaved peer sends one or two at a time."""
SLICE_COST_MAX: Final = 8
"""Messages from the queue in one turn of the event loop: less than a millisecond."""
REQUEST_COST: Final = 4
"""Cost of a queued request, in messages."""
MESSAGE_BYTES: Final = 2 * 1024
"""Bytes that cost as much as a message: a read of 128 KiB uses up a turn."""
HEAVY_BYTES: Final = 4 * 1024
"""The cost of a larger message is charged before it is handled."""
TURN_SECONDS_MAX: Final = 0.003
"""CPU time per turn for one peer's messages as they arrive, over all its connections; single small
ones are not timed."""
SLICE_SECONDS_MAX: Final = 0.001
"""CPU time per turn for queued messages."""
LONG_SECONDS: Final = 0.005
"""A peer that used more CPU time in a turn sent a large message, or an expensive one."""
REST_FACTOR: Final = 9
"""The peer rests this many times as long: it gets at most a tenth of the time."""
GROUP_REST_FACTOR: Final = 3
"""The rest of its group pauses this many times as long: together they get at most a quarter."""
REST_SECONDS_MAX: Final = 2.0
"""No rest is longer than this."""


def cost_of(size: int) -> int:
    """The cost of handling so many bytes; a large message always counts as more than a few small
    ones."""
    cost = 1 + size // MESSAGE_BYTES
    return cost if size <= HEAVY_BYTES else max(cost, BUSY_COST_MAX)


class GroupedPeer:
    """A peer that shares its place in the queue with a group: several connections of one client
    must not get more time than one."""

    __slots__ = ()
    group: object
    """None if it is alone."""


class SchedulerLoop(Protocol):
    """The methods of an event loop that the scheduler uses."""

    def call_soon(self, callback: Callable[[], object]) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> object: ...


_Queue: TypeAlias = deque[tuple[WorkSteps, Callable[[], None], int]]
"""Work left for one peer, each with the cost charged for it already."""


class FairScheduler:
    """Queue of peers that have sent more than one turn handles.

    Without an event loop everything is handled at once.
    """

    def __init__(
        self, loop: SchedulerLoop | None = None, cpu_clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`cpu_clock` is the CPU time of this thread: on a busy machine nothing must be charged for
        the work of other processes."""
        self._loop = loop
        self._cpu_clock = cpu_clock
        self._queues: dict[object, dict[object, _Queue]] = {}
        """Queued work by group and peer; the next group and its next peer come first."""
        self._resting_peers: dict[object, _Queue] = {}
        """Resting peers and their work."""
        self._paused_groups: dict[object, dict[object, _Queue]] = {}
        """Paused groups and their work."""
        self._used_seconds: dict[object, float] = {}
        """CPU time used in this turn, by peer and by group."""
        self._scheduled = False

    def run(self, peer: object, work: WorkSteps, on_done: Callable[[], None]) -> bool:
        """Handle work at once; False if some is left for later turns.

        Then the connection must not be read until `on_done` is called.
        """
        spent, limit = 0, 1 if peer in self._resting_peers else BUSY_COST_MAX
        for step in work:
            spent += step
            if spent >= limit and self._loop is not None:
                left = self._run_within_turn(peer, work, spent, step)
                if left is None:
                    return True
                self._enqueue(peer, work, on_done, left)
                self._schedule()
                return False
        return True

    def defer(self, peer: object, work: WorkSteps, on_done: Callable[[], None]) -> None:
        """Handle work in later turns, then call `on_done`."""
        if self._loop is None:
            deque(work, maxlen=0)
            on_done()
            return
        self._enqueue(peer, work, on_done)
        self._schedule()

    def _run_within_turn(self, peer: object, work: WorkSteps, spent: int, step: int) -> int | None:
        """Handle more than a single small message, as far as the turn allows.

        Returns None if all is done, else the cost charged last.
        """
        group = _group_of(peer)
        limit = BUSY_COST_MAX if self._queues else TURN_COST_MAX
        left = TURN_SECONDS_MAX - self._used_seconds.get(group, 0.0)
        if (
            spent >= limit
            or left <= 0
            or peer in self._resting_peers
            or group in self._paused_groups
        ):
            return step
        started_at = self._cpu_clock()
        try:
            for step in work:
                spent += step
                if spent >= limit or (step > 1 and self._cpu_clock() - started_at >= left):
                    return step
            return None
        finally:
            self._charge(peer, self._cpu_clock() - started_at)

    def _enqueue(
        self, peer: object, work: WorkSteps, on_done: Callable[[], None], paid: int = 0
    ) -> None:
        queue = self._resting_peers.get(peer)
        if queue is None:
            group = _group_of(peer)
            peers = self._paused_groups.get(group)
            if peers is None:
                peers = self._queues.setdefault(group, {})
            queue = peers.setdefault(peer, deque())
        queue.append((work, on_done, paid if paid > 1 else 0))

    def _schedule(self) -> None:
        if not self._scheduled and self._queues:
            self._scheduled = True
            self._call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._scheduled = False
        spent, started_at = 0, self._cpu_clock()
        try:
            while self._queues and spent < SLICE_COST_MAX:
                spent += self._run_next_peer(SLICE_COST_MAX - spent)
                if self._cpu_clock() - started_at >= SLICE_SECONDS_MAX:
                    break
        finally:
            self._schedule()

    def _run_next_peer(self, limit: int) -> int:
        """Handle some work of the next peer; returns its cost."""
        group, peers = next(iter(self._queues.items()))
        del self._queues[group]
        peer, queue = next(iter(peers.items()))
        del peers[peer]
        work, on_done, spent = queue.popleft()
        if queue:
            peers[peer] = queue  # Behind the others of its group.
        if peers:
            self._queues[group] = peers  # Behind the other groups.
        started_at = self._cpu_clock()
        try:
            for step in work:
                spent += step
                if spent >= limit:
                    self._enqueue(peer, work, on_done, step)
                    break
            else:
                on_done()
        finally:
            self._charge(peer, self._cpu_clock() - started_at)
        return max(1, spent)

    def _charge(self, peer: object, seconds: float) -> None:
        """Charge CPU time to a peer; if it used too much, it rests and its group pauses."""
        if not self._used_seconds:
            self._call_soon(self._used_seconds.clear)
        used = self._add_seconds(peer, seconds)
        group = _group_of(peer)
        if used >= LONG_SECONDS and peer not in self._resting_peers:
            peers = self._paused_groups.get(group) or self._queues.get(group) or {}
            self._resting_peers[peer] = peers.pop(peer, deque())
            if not peers:
                self._queues.pop(group, None)
            self._call_later(REST_FACTOR * used, lambda: self._resume_peer(peer))
        if group is peer:
            return
        used = self._add_seconds(group, seconds)
        if used >= LONG_SECONDS and group not in self._paused_groups:
            self._paused_groups[group] = self._queues.pop(group, {})
            self._call_later(GROUP_REST_FACTOR * used, lambda: self._resume_group(group))

    def _add_seconds(self, key: object, seconds: float) -> float:
        self._used_seconds[key] = used = self._used_seconds.get(key, 0.0) + seconds
        return used

    def _resume_peer(self, peer: object) -> None:
        for work, on_done, paid in self._resting_peers.pop(peer):
            self._enqueue(peer, work, on_done, paid)
        self._schedule()

    def _resume_group(self, group: object) -> None:
        peers = self._paused_groups.pop(group)
        if peers:
            self._queues[group] = peers
        self._schedule()

    def _call_soon(self, callback: Callable[[], object]) -> None:
        assert self._loop is not None
        self._loop.call_soon(callback)

    def _call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        assert self._loop is not None
        self._loop.call_later(min(seconds, REST_SECONDS_MAX), callback)


def _group_of(peer: object) -> object:
    group = peer.group if isinstance(peer, GroupedPeer) else None
    return peer if group is None else group
