"""Bytes on their way in the simulated world: wires, sockets made of two, and ends of pipes.

Whatever is sent arrives in order, late, and cut into other pieces than it was sent in; how late
and how small is up to the weather and to a seeded chance of each wire's own, so that what happens
on one does not change what happens on another. Nothing here knows HTTP or lines.
"""

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.rig.simulation.loop import SimLoop

UNSENT_BYTES_HIGH: Final = 64 * 1024
UNSENT_BYTES_LOW: Final = 16 * 1024
"""Between these a socket that did not keep pace is still taken for one that does not."""


class Mark(Enum):
    """What comes after the bytes."""

    END = "end"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConditions:
    """How a wire treats what is sent over it."""

    latency_seconds: float = 0.001
    """At most, for most pieces."""
    cut_share: float = 0.0
    """How often a piece is cut in two, three or four."""
    stall_share: float = 0.0
    """How often a piece takes its time."""
    stall_seconds: float = 0.0


Delivery = Callable[[bytes | Mark], None]


class Wire:
    """One direction."""

    __slots__ = ("_chance", "_deliver", "_due", "_loop", "_queue", "_weather", "cut_off")

    def __init__(
        self, loop: SimLoop, chance: random.Random, weather: NetworkConditions, deliver: Delivery
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._weather = weather
        self._deliver = deliver
        self._due = 0.0
        self._queue: deque[bytes | Mark] = deque()
        self.cut_off = False

    def send(self, raw: bytes | Mark) -> None:
        """Have it delivered after everything that was sent before."""
        if self.cut_off:
            return
        pieces = self._cut(raw) if isinstance(raw, bytes) else (raw,)
        for piece in pieces:
            self._queue.append(piece)
            self._due = max(self._due, self._loop.time() + self._latency())
            # Each timer delivers whatever comes first: those of one moment have no order.
            self._loop.call_at(self._due, self._next)

    def hurry(self) -> None:
        """Deliver everything that is under way at once."""
        while self._queue:
            self._next()

    def drop(self) -> None:
        """What is under way is lost."""
        self._queue.clear()

    def cut(self) -> None:
        """What is under way is lost, and so is whatever comes after."""
        self._queue.clear()
        self.cut_off = True

    def _next(self) -> None:
        if self._queue:
            self._deliver(self._queue.popleft())

    def _latency(self) -> float:
        weather, chance = self._weather, self._chance
        seconds = chance.random() * weather.latency_seconds
        if weather.stall_share and chance.random() < weather.stall_share:
            seconds += chance.random() * weather.stall_seconds
        return seconds

    def _cut(self, raw: bytes) -> Iterable[bytes]:
        chance = self._chance
        if len(raw) < 2 or chance.random() >= self._weather.cut_share:
            return (raw,)
        places = sorted({chance.randrange(1, len(raw)) for _ in range(chance.randint(1, 3))})
        return [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]


class Socket(asyncio.Transport):
    """One end of a connection, as a protocol sees it."""

    def __init__(self, loop: SimLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.peer: Socket
        self.wire: Wire
        self.lost = False
        """Whether the protocol knows, or is about to know, that the connection is gone."""
        self._loop = loop
        self._closing = False
        self._said_all = False
        self._reading = True
        self._held: deque[bytes | Mark] = deque()
        self._unsent = 0
        self._stalled = False

    # What protocols call.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        raw = bytes(data)
        if self.lost or self._closing or self._said_all or not raw:
            return
        self._unsent += len(raw)
        self.wire.send(raw)
        if self._unsent > UNSENT_BYTES_HIGH and not self._stalled:
            self._stalled = True
            self.protocol.pause_writing()

    def write_eof(self) -> None:
        """Say that nothing more comes."""
        if not (self.lost or self._closing or self._said_all):
            self._said_all = True
            self.wire.send(Mark.END)

    def close(self) -> None:
        """Close when all has been sent."""
        if not self._closing:
            self._closing = True
            self._held.clear()
            if not self._stalled:
                self._leave(Mark.END)

    def abort(self) -> None:
        """Close now; what is under way is lost."""
        if not self.lost:
            self._closing = True
            self.wire.drop()
            self._leave(Mark.RESET)

    def is_closing(self) -> bool:
        """Whether it is of no use any more."""
        return self._closing or self.lost

    def pause_reading(self) -> None:
        """Keep what comes."""
        self._reading = False

    def resume_reading(self) -> None:
        """Hand over what was kept, and what comes."""
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._go_on)

    def get_write_buffer_size(self) -> int:
        """What the other side has not taken yet, if that is more than the system keeps for it."""
        return self._unsent if self._stalled else 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Nothing is known."""
        return default

    # What wires call.

    def arrived(self, piece: bytes | Mark) -> None:
        """Something has come from the other side."""
        if self.lost:
            if not isinstance(piece, Mark):
                self.wire.send(Mark.RESET)  # Nobody is here to take it.
            return
        if piece is Mark.RESET:
            self._held.clear()
            self.wire.cut()
            self._lose(ConnectionResetError(errno.ECONNRESET, "reset"))
        elif self._closing:
            self._taken(piece)
        elif self._reading and not self._held:
            self._take(piece)
        else:
            self._held.append(piece)

    def _go_on(self) -> None:
        while self._held and self._reading and not self.is_closing():
            self._take(self._held.popleft())

    def _take(self, piece: bytes | Mark) -> None:
        self._taken(piece)
        if isinstance(piece, bytes):
            self.protocol.data_received(piece)
        elif not self.protocol.eof_received():
            self.close()

    def _taken(self, piece: bytes | Mark) -> None:
        if isinstance(piece, bytes):
            self.peer._sent(len(piece))

    def _sent(self, size: int) -> None:
        self._unsent -= size
        if self._stalled and self._unsent <= UNSENT_BYTES_LOW:
            self._stalled = False
            if self._closing:
                self._leave(Mark.END)
            elif not self.lost:
                self.protocol.resume_writing()

    def _leave(self, mark: Mark) -> None:
        if self.lost:
            return
        if mark is Mark.RESET or not self._said_all:
            self.wire.send(mark)
        self._lose(None)

    def _lose(self, reason: Exception | None) -> None:
        self.lost = self._closing = True
        self._loop.call_soon(self.protocol.connection_lost, reason)


class ReadEnd:
    """A descriptor that the gateway reads from."""

    def __init__(self, loop: SimLoop, fd: int) -> None:
        self.fd = fd
        self._loop = loop
        self._buffer = bytearray()
        self._ended = False
        self._closed = False

    def arrived(self, piece: bytes | Mark) -> None:
        """More to read, or the end."""
        if self._closed:
            return
        if isinstance(piece, Mark):
            self._ended = True
        else:
            self._buffer += piece
        self._loop.ready_fds[self.fd, False] = None

    def read(self, size: int) -> bytes:
        """As `os.read` on a descriptor that does not block."""
        if not self._buffer:
            if self._ended:
                return b""
            raise BlockingIOError(errno.EAGAIN, "nothing to read")
        portion = bytes(self._buffer[:size])
        del self._buffer[:size]
        if not self._buffer and not self._ended:
            self._loop.ready_fds.pop((self.fd, False), None)
        return portion

    def closed(self) -> None:
        """The gateway has closed it."""
        self._closed = True
        self._loop.ready_fds.pop((self.fd, False), None)


class WriteEnd:
    """A descriptor that the gateway writes to; it takes so much, until somebody reads."""

    def __init__(self, loop: SimLoop, fd: int, room: int) -> None:
        self.fd = fd
        self.wire: Wire
        self.broken = False
        self._loop = loop
        self._room = room
        loop.ready_fds[fd, True] = None

    def write(self, buffers: Iterable[bytes | bytearray | memoryview]) -> int:
        """As `os.writev` on a descriptor that does not block."""
        if self.broken:
            raise BrokenPipeError(errno.EPIPE, "nobody reads")
        if self._room <= 0:
            raise BlockingIOError(errno.EAGAIN, "no room")
        taken = b"".join(buffers)[: self._room]
        self._room -= len(taken)
        if self._room <= 0:
            self._loop.ready_fds.pop((self.fd, True), None)
        self.wire.send(taken)
        return len(taken)

    def read(self, size: int) -> None:
        """The other side has taken so much."""
        self._room += size
        if self._room > 0 and not self.broken:
            self._loop.ready_fds[self.fd, True] = None

    def shatter(self) -> None:
        """The other side is gone; whoever waits to write is told."""
        if not self.broken:
            self.broken = True
            self._loop.ready_fds[self.fd, True] = None

    def closed(self) -> None:
        """The gateway has closed it."""
        self._loop.ready_fds.pop((self.fd, True), None)
        self.broken = True
        self.wire.send(Mark.END)
