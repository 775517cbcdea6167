"""How a server is reached: what a tender asks of any transport, and what it tells them.

A road opens one connection after another. It knows bytes and handshakes; when to try again, and
who is waiting, is the tender's business.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from anyport.protocol.headers import NO_ANNOTATIONS, Annotations
from anyport.protocol.room import Room
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Call
from anyport.upstream.connection import Connection
from anyport.upstream.hearer import Hearer
from anyport.upstream.own import Record
from anyport.upstream.process import Child, Warden
from anyport.upstream.queue import Places


class Way(Enum):
    """What a server behind a URL turned out to speak."""

    MODERN = "streamable-http, modern"
    LEGACY = "streamable-http, legacy"
    EVENTS = "sse"

    @property
    def transport(self) -> str:
        """As the configuration spells it."""
        return self.value.partition(",")[0]


@dataclass(slots=True)
class Learned:
    """What earlier lives of a server taught; all its connections share it."""

    dies_of_probe: bool = False
    """`server/discover` kills it: it is spoken to as a legacy server at once."""
    is_misled: bool = False
    """It starts slowly, and `initialize` makes a legacy server of it: it is not sent that."""
    way: Way | None = None
    way_since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a connection needs from the world."""

    warden: Warden
    environ: dict[str, str]
    """The whole environment of a server that is a process."""
    redact: Callable[[str], str]
    clock: Callable[[], float]
    chance: Callable[[], float]
    record: Record = field(default_factory=Record)
    room: Room = field(default_factory=Room)
    """For large messages, whosever they are."""
    timed_out: Callable[[Timeout], None] = lambda _: None
    """Told of everything about a server that took too long."""
    places: Places[Call] | None = None
    """Of a server that is the same one behind all its connections; a process has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What a connection over HTTP must know of the tools it calls."""

    annotations: Callable[[str], Annotations] = lambda _: NO_ANNOTATIONS
    """Which arguments of a tool are repeated in header fields."""
    refresh: Callable[[Callable[[], None]], None] = lambda then: then()
    """Reads the tools again, then calls back: what was known of them is out of date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traveller:
    """Who is told what happens on a road."""

    on_over: Callable[[Connection, str], None]
    """A connection cannot be used for anything new; the text says why."""
    on_renewed: Callable[[Connection], None]
    """The server has forgotten us, and was told everything anew on the same connection."""
    on_stderr: Callable[[list[str]], None]
    hearer: Callable[[Callable[[], Connection]], Hearer]
    """Makes the ear for a connection that is about to be opened."""
    catalogue: Catalogue = field(default_factory=Catalogue)


class Road(Protocol):
    """One way to one server."""

    @property
    def transport(self) -> str:
        """What carries it, as far as is known."""

    @property
    def line(self) -> Connection | None:
        """The connection of this life, also while its handshake is under way."""

    @property
    def child(self) -> Child | None:
        """The process behind it, where there is one."""

    @property
    def noise(self) -> str | None:
        """What the server said in place of an answer."""

    async def open(self) -> Connection:
        """A connection that is ready.

        Raises:
            HandshakeFailed: there is none; the text says why.
        """

    async def clear(self) -> None:
        """Put away what is left of a life that is over."""

    async def rest(self, reason: str) -> None:
        """End a life in good order: nobody needs it now, and another may follow."""

    async def stop(self, reason: str) -> None:
        """End everything for good; an `open` under way fails."""

    def shown(self, reason: str) -> str:
        """A reason that callers may read: without secrets, and without where things lie."""
