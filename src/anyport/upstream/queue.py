"""The places that a server has for calls, and who gets the next one that becomes free.

Calls are taken in turns, client by client: whoever has asked for five hundred things waits for
them, and whoever has asked for one waits for a turn. When there is no room to wait in, the client
that has most of it gives something up. Pure: no loop, no clock, and not what a call is.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

from anyport.config.schema import (
    QUEUE_DEFAULT,
    QUEUE_SECONDS_DEFAULT,
    SERVER_CALLS_DEFAULT,
    ServerConfig,
)

T = TypeVar("T", bound=Hashable)


class Waiter(Protocol):
    """A call, as far as its turn is concerned."""

    who: object
    """Whose it is."""
    home: Any
    """Is told to `go` on with it when it has got its place."""

    def __hash__(self) -> int: ...


W = TypeVar("W", bound=Waiter)


class Turns(Generic[T]):
    """Those who wait, each client's in the order in which they came."""

    __slots__ = ("_lines", "_size")

    def __init__(self) -> None:
        self._lines: OrderedDict[object, OrderedDict[T, None]] = OrderedDict()
        """By client, whose turn is next first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def of(self, who: object) -> int:
        """How many of a client's are waiting."""
        line = self._lines.get(who)
        return 0 if line is None else len(line)

    def add(self, who: object, one: T) -> None:
        """One more waits; a client who had nothing here comes last."""
        self._lines.setdefault(who, OrderedDict())[one] = None
        self._size += 1

    def take(self) -> T:
        """The next one. Its client's other calls wait until all others have had a turn.

        Raises:
            StopIteration: nobody waits.
        """
        who = next(iter(self._lines))
        line = self._lines[who]
        one, _ = line.popitem(last=False)
        self._shrunk(who)
        if line:
            self._lines.move_to_end(who)
        return one

    def drop(self, who: object, one: T) -> None:
        """One no longer waits."""
        line = self._lines.get(who)
        if line is not None and one in line:
            del line[one]
            self._shrunk(who)

    def displace(self, who: object) -> T | None:
        """Make room for one of this client's; what gives way, if somebody has more waiting.

        That is the newest of whoever has most: what has waited longest is nearest to its turn.
        """
        if not self._lines:
            return None
        greediest = max(self._lines, key=self.of)
        if self.of(greediest) <= self.of(who) + 1:
            # With as many as the newcomer would have there is nothing to even out.
            return None
        one, _ = self._lines[greediest].popitem()
        self._shrunk(greediest)
        return one

    def _shrunk(self, who: object) -> None:
        self._size -= 1
        if not self._lines[who]:
            del self._lines[who]


class Places(Generic[W]):
    """How many calls a server works on, and those that wait for it."""

    __slots__ = ("calls_max", "queue_max", "queue_seconds", "taken", "waiting")

    def __init__(
        self,
        calls_max: int = SERVER_CALLS_DEFAULT,
        queue_max: int = QUEUE_DEFAULT,
        queue_seconds: float = QUEUE_SECONDS_DEFAULT,
    ) -> None:
        self.calls_max = calls_max
        self.queue_max = queue_max
        self.queue_seconds = queue_seconds
        self.taken = 0
        self.waiting: Turns[W] = Turns()

    @property
    def full(self) -> bool:
        """Whether the next call can neither begin nor wait."""
        return self.taken >= self.calls_max and len(self.waiting) >= self.queue_max

    @property
    def words(self) -> str:
        """How full they are, for people."""
        return f"open calls: {self.taken}, waiting: {len(self.waiting)}"

    def admit(self) -> None:
        """Give free places to those whose turn it is, on whichever connection they wait."""
        while self.waiting and self.taken < self.calls_max:
            one = self.waiting.take()
            self.taken += 1
            one.home.go(one)


def places_of(config: ServerConfig) -> Places[W]:
    """As many as the configuration has for a server, or for one of its processes."""
    return Places(config.calls_max, config.queue_max, config.queue_seconds)
