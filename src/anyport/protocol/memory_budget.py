"""Memory budget for large messages in flight, and limits on the open requests of a client.

Every holder of a large message makes a reservation: a body being received, a request waiting for
its server, an answer its client has not read. Small messages are bounded by the number of calls and
are not counted.
"""

import sys
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from anyport.protocol.errors import Fault, Situation, overloaded

if TYPE_CHECKING:  # It imports this module.
    from anyport.protocol.exchange import OpenRequest

OPEN_REQUESTS_MAX: Final = 4096
"""Unanswered requests of one client; a client with more never reads."""

OPEN_BYTES_MAX: Final = 64 * 1024 * 1024
"""Large requests of one client together. A message is in memory up to four times."""
LARGE_BYTES: Final = 64 * 1024
"""Smaller messages are bounded by their number and are not counted."""
RETRY_SECONDS_MIN: Final = 1
RETRY_SECONDS_MAX: Final = 5
"""Random between these, so that rejected clients do not all come back together."""


class MemoryBudget:
    """Memory taken by all large messages together."""

    __slots__ = ("_random", "bytes_max", "refusals", "used_bytes")

    def __init__(
        self, bytes_max: int = sys.maxsize, random: Callable[[], float] = lambda: 0.5
    ) -> None:
        """`random` returns a number from 0 to 1."""
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.refusals: dict[str, int] = {}
        """Number of rejections by reason."""
        self._random = random

    @property
    def is_full(self) -> bool:
        return self.used_bytes >= self.bytes_max

    def would_exceed(self, size: int) -> bool:
        """Whether so many bytes more would exceed the budget."""
        return size > LARGE_BYTES and self.used_bytes + size > self.bytes_max

    def refuse(self, reason: str) -> int:
        """Count a rejection; returns in how many seconds to retry, with jitter."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        span = RETRY_SECONDS_MAX - RETRY_SECONDS_MIN
        return RETRY_SECONDS_MIN + round(span * self._random())


class Splitter(Protocol):
    """Splits a byte stream into messages, and buffers the unfinished one."""

    @property
    def buffered_bytes(self) -> int: ...

    def truncate(self) -> None:
        """Reduce the unfinished message to its edges."""


class MemoryReservation:
    """The part of the budget that one holder takes up."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self.size = 0
        self._budget = budget

    def resize(self, size: int) -> bool:
        """Change the size of the reservation; False if that exceeds the budget."""
        growth = size - self.size
        budget = self._budget
        self.size = size
        budget.used_bytes += growth
        return growth <= 0 or budget.used_bytes <= budget.bytes_max

    def reserve_for_splitter(self, splitter: Splitter) -> None:
        """Count the buffer of a splitter once it is large; over the budget, it is truncated."""
        buffered = splitter.buffered_bytes
        if buffered <= LARGE_BYTES:
            self.release()
        elif not self.resize(buffered):
            splitter.truncate()
            self.release()

    def release(self) -> None:
        self._budget.used_bytes -= self.size
        self.size = 0


class ClientLoad:
    """Calls of one client in flight."""

    __slots__ = ("__weakref__", "calls")

    def __init__(self) -> None:
        self.calls = 0


def check_open_requests(
    open_requests: "Mapping[Hashable, OpenRequest]", key: Hashable, size: int
) -> Fault | None:
    """Why a client cannot open another request of this size."""
    if key in open_requests:
        message = "Invalid Request: a request with this id is still open"
        return Fault(situation=Situation.INVALID_REQUEST, message=message)
    if len(open_requests) >= OPEN_REQUESTS_MAX:
        message = f"Too many open requests: the limit is {OPEN_REQUESTS_MAX}"
        return overloaded(message, own=True, seconds=RETRY_SECONDS_MIN)
    if size > LARGE_BYTES:
        held_bytes = sum(len(exchange.params) for exchange in open_requests.values())
        if held_bytes + size > OPEN_BYTES_MAX:
            message = f"Too many bytes in open requests: the limit is {OPEN_BYTES_MAX}"
            return overloaded(message, own=True, seconds=RETRY_SECONDS_MIN)
    return None
