"""Concurrency limit of a server, with a fair queue per client.

Queued calls take turns client by client, so that a client with five hundred calls waits for its
own calls and not in front of everyone else's. When the queue is full, the client with the most
queued calls loses its newest one. Pure: no event loop, no clock.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from anyport.config.model import (
    QUEUE_DEFAULT,
    QUEUE_SECONDS_DEFAULT,
    SERVER_CALLS_DEFAULT,
    ServerConfig,
)
from anyport.upstream.pending_call import PendingCall

T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """Round-robin queue over clients; each client's calls stay in order."""

    __slots__ = ("_queues", "_size")

    def __init__(self) -> None:
        self._queues: OrderedDict[object, OrderedDict[T, None]] = OrderedDict()
        """By client; the client whose turn is next comes first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def count_of(self, client: object) -> int:
        """How many calls of a client are queued."""
        queue = self._queues.get(client)
        return 0 if queue is None else len(queue)

    def add(self, client: object, call: T) -> None:
        """Queue a call. A client that had nothing queued goes to the end of the round."""
        self._queues.setdefault(client, OrderedDict())[call] = None
        self._size += 1

    def take(self) -> T:
        """Remove the next call; the other calls of its client wait for the next round.

        Raises:
            StopIteration: the queue is empty.
        """
        client = next(iter(self._queues))
        queue = self._queues[client]
        call, _ = queue.popitem(last=False)
        self._on_removed(client)
        if queue:
            self._queues.move_to_end(client)
        return call

    def drop(self, client: object, call: T) -> None:
        """Remove a call, if it is still queued."""
        queue = self._queues.get(client)
        if queue is not None and call in queue:
            del queue[call]
            self._on_removed(client)

    def displace(self, client: object) -> T | None:
        """Remove a call to make room for one of this client's; None if it has no better claim.

        The client with the most queued calls loses its newest: the oldest is next to be served.
        """
        if not self._queues:
            return None
        largest = max(self._queues, key=self.count_of)
        if self.count_of(largest) <= self.count_of(client) + 1:
            # The newcomer would have as many: there is nothing to even out.
            return None
        call, _ = self._queues[largest].popitem()
        self._on_removed(largest)
        return call

    def _on_removed(self, client: object) -> None:
        self._size -= 1
        if not self._queues[client]:
            del self._queues[client]


class CallSlots:
    """Concurrency limit: how many calls a server works on at once, and the queue for the rest."""

    __slots__ = ("calls_max", "queue", "queue_max", "queue_seconds", "used")

    def __init__(
        self,
        calls_max: int = SERVER_CALLS_DEFAULT,
        queue_max: int = QUEUE_DEFAULT,
        queue_seconds: float = QUEUE_SECONDS_DEFAULT,
    ) -> None:
        self.calls_max = calls_max
        self.queue_max = queue_max
        self.queue_seconds = queue_seconds
        self.used = 0
        self.queue: FairQueue[PendingCall] = FairQueue()

    @property
    def full(self) -> bool:
        """Whether the next call can neither be sent nor queued."""
        return self.used >= self.calls_max and len(self.queue) >= self.queue_max

    @property
    def summary(self) -> str:
        """Load, for error messages."""
        return f"open calls: {self.used}, waiting: {len(self.queue)}"

    def admit(self) -> None:
        """Give free slots to the next queued calls, whichever connection they wait on."""
        while self.queue and self.used < self.calls_max:
            call = self.queue.take()
            self.used += 1
            if call.connection is not None:
                call.connection.on_slot(call)


def call_slots_of(config: ServerConfig) -> CallSlots:
    """The limit that is configured for a server, or for each of its processes."""
    return CallSlots(config.calls_max, config.queue_max, config.queue_seconds)
