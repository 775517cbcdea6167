"""How much may be held of messages under way: of one client, and of all together.

Whoever holds a large piece of a message says so here: a body that is still coming, a request that
waits for its server, an answer that its client has not taken yet. What is small is bounded by the
number of calls and is not added up. Pure counters; what becomes of a message that finds no room is
decided by whoever has it.
"""

import sys
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from anyport.protocol.errors import Fault, Situation, overloaded

if TYPE_CHECKING:  # It names this file.
    from anyport.protocol.exchange import Pending

OPEN_REQUESTS_MAX: Final = 4096
"""Unanswered requests of one client; more is a client that never reads."""

OPEN_BYTES_MAX: Final = 64 * 1024 * 1024
"""What the large ones among them may hold together; a message is in memory up to four times."""
LARGE_BYTES: Final = 64 * 1024
"""What is smaller is bounded by its number alone, and need not be added up."""
RETRY_SECONDS_MIN: Final = 1
RETRY_SECONDS_MAX: Final = 5
"""Somebody who is turned away comes back after a while between these; all at once would be no
better then than now."""


class Room:
    """What all large messages take up together."""

    __slots__ = ("_chance", "bytes_max", "refused", "taken_bytes")

    def __init__(
        self, bytes_max: int = sys.maxsize, chance: Callable[[], float] = lambda: 0.5
    ) -> None:
        """`chance` is a number from 0 to 1, another each time."""
        self.bytes_max = bytes_max
        self.taken_bytes = 0
        self.refused: dict[str, int] = {}
        """How often somebody was turned away, for whatever reason."""
        self._chance = chance

    @property
    def full(self) -> bool:
        """Whether nothing more fits in."""
        return self.taken_bytes >= self.bytes_max

    def lacks(self, size: int) -> bool:
        """Whether so many bytes more would be too many."""
        return size > LARGE_BYTES and self.taken_bytes + size > self.bytes_max

    def turn_away(self, why: str) -> int:
        """In how many seconds somebody may come back; not the same for everybody."""
        self.refused[why] = self.refused.get(why, 0) + 1
        span = RETRY_SECONDS_MAX - RETRY_SECONDS_MIN
        return RETRY_SECONDS_MIN + round(span * self._chance())


class Splitter(Protocol):
    """Cuts messages from a stream, and keeps what has come of the next one."""

    @property
    def kept(self) -> int:
        """How many bytes that is."""

    def drop(self) -> None:
        """Keep no more of it."""


class Held:
    """What one holder takes up of it now."""

    __slots__ = ("_room", "size")

    def __init__(self, room: Room) -> None:
        self.size = 0
        self._room = room

    def keep(self, size: int) -> bool:
        """So many bytes are held from now on; False if there is no room for them."""
        grown = size - self.size
        room = self._room
        self.size = size
        room.taken_bytes += grown
        return grown <= 0 or room.taken_bytes <= room.bytes_max

    def weigh(self, splitter: Splitter) -> None:
        """What a splitter keeps counts once it is large; if there is no room, it is dropped."""
        kept = splitter.kept
        if kept <= LARGE_BYTES:
            self.let_go()
        elif not self.keep(kept):
            splitter.drop()
            self.let_go()

    def let_go(self) -> None:
        """Nothing is held any more."""
        self._room.taken_bytes -= self.size
        self.size = 0


class Share:
    """What one client has under way."""

    __slots__ = ("__weakref__", "calls")

    def __init__(self) -> None:
        self.calls = 0


def no_room(open: "Mapping[Hashable, Pending]", key: Hashable, size: int) -> Fault | None:
    """Why one more request of a client, of so many bytes, cannot be taken."""
    if key in open:
        words = "Invalid Request: a request with this id is still open"
        return Fault(situation=Situation.INVALID_REQUEST, message=words)
    if len(open) >= OPEN_REQUESTS_MAX:
        words = f"Too many open requests: the limit is {OPEN_REQUESTS_MAX}"
        return overloaded(words, own=True, seconds=RETRY_SECONDS_MIN)
    if size > LARGE_BYTES:
        held = sum(len(exchange.params) for exchange in open.values())
        if held + size > OPEN_BYTES_MAX:
            words = f"Too many bytes in open requests: the limit is {OPEN_BYTES_MAX}"
            return overloaded(words, own=True, seconds=RETRY_SECONDS_MIN)
    return None
