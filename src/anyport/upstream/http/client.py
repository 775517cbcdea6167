"""An HTTP/1.1 client to one origin: a pool of connections, and who waits for one of them.

Knows HTTP; what the bodies mean is its takers' business.
"""

import asyncio
from collections import deque
from typing import Final, cast

from anyport.protocol.room import Room
from anyport.protocol.timeouts import Timeout
from anyport.upstream.http.dial import Undialled, dial
from anyport.upstream.http.line import Line, Shape, Taker, Trouble, TroubleKind, read_shape
from anyport.upstream.http.patience import Patience
from anyport.upstream.http.place import Place
from anyport.wire.http import Heads

CONNECTIONS_MAX: Final = 256
"""Open connections to one server: its open calls, its streams, and what is said beside them."""
WAITING_REQUESTS_MAX: Final = 1024
"""Requests that wait for one of those."""


class Client:
    """Requests to one origin."""

    def __init__(
        self,
        place: Place,
        bytes_max: int,
        room: Room | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.place = place
        self.bytes_max = bytes_max
        self.patience = patience or Patience()
        self.room = room or Room()
        """For large replies, of all servers."""
        self.heads: Heads[Shape] = Heads(read_shape)
        self.idle: list[Line] = []
        """The last used comes first: the others may then grow old and be closed."""
        self.lines: set[Line] = set()
        self._loop = asyncio.get_running_loop()
        self._dials: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[Taker, bytes]] = deque()
        self._closed = False
        self._sweeping = False
        self._absolute = place.origin.encode() if place.proxy and not place.secure else b""

    def request(self, head: bytes, body: bytes | None, taker: Taker) -> None:
        """Send a request: `head` is its lines, each with its end, without a length."""
        if self._absolute:
            verb, _, rest = head.partition(b" ")
            head = b"%b %b%b" % (verb, self._absolute, rest)
        if body is None:
            message = head + b"\r\n"
        else:
            message = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
        while self.idle:
            line = self.idle.pop()
            if line.usable(self._loop.time()):
                line.send(taker, message)
                return
        self._wait(taker, message)

    def give_up(self, taker: Taker) -> None:
        """Nobody wants the reply any more: the connection is closed, and no callback comes."""
        if taker.line is not None:
            taker.line.give_up(taker)
        else:
            self._waiting = deque(entry for entry in self._waiting if entry[0] is not taker)

    def release(self, line: Line) -> None:
        """A connection is free again, or has been in use for long enough."""
        now = self._loop.time()
        if now >= line.until:
            self.patience.tell(Timeout.AGE)
            line.retire()
            return  # It will be forgotten, and another opened if somebody waits.
        while self._waiting:
            if not line.open:
                return  # It will be forgotten, and another opened.
            line.send(*self._waiting.popleft())
            return
        line.since = now
        self.idle.append(line)

    def forget(self, line: Line) -> None:
        """A connection is gone."""
        if line not in self.lines:
            return  # It is being opened: what becomes of that is told there.
        self.lines.discard(line)
        if line in self.idle:
            self.idle.remove(line)
        if len(self._dials) < len(self._waiting) and not self._closed:
            self._dial()

    def close(self) -> None:
        """Close every connection; whoever waits is told."""
        self._closed = True
        for dialling in self._dials:
            dialling.cancel()
        for line in list(self.lines):
            line.give_up(None)
        self._fail_waiting(Trouble(TroubleKind.CUT, "the connection was closed", sent=False))

    def _wait(self, taker: Taker, message: bytes) -> None:
        taker.line = None
        if self._closed or len(self._waiting) >= WAITING_REQUESTS_MAX:
            words = "the connection was closed" if self._closed else "too many requests wait for it"
            trouble = Trouble(TroubleKind.CONNECT, words, sent=False)
            self._loop.call_soon(taker.failed, trouble)
            return
        self._waiting.append((taker, message))
        if len(self._dials) < len(self._waiting):
            self._dial()

    def _dial(self) -> None:
        if len(self.lines) + len(self._dials) >= CONNECTIONS_MAX:
            return
        dialling = self._loop.create_task(self._open())
        self._dials.add(dialling)
        dialling.add_done_callback(self._dials.discard)
        if not self._sweeping:
            self._sweeping = True
            self._sweep_later()

    async def _open(self) -> None:
        line = Line(self)
        problem = await dial(self.place, line, self.patience.connect_seconds)
        # At once: the task is done a turn later, and whoever comes until then would count on it.
        self._dials.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        if problem is None and line.open:
            line.until = self.patience.until(self._loop.time())
            self.lines.add(line)
            self.release(line)
            return
        if problem is None:
            problem = Undialled(words="it closed the connection at once")
        kind = TroubleKind.TLS if problem.secure else TroubleKind.CONNECT
        timeout = Timeout.CONNECT if problem.late else None
        if timeout is not None:
            self.patience.tell(timeout)
        trouble = Trouble(kind, problem.words, sent=False, timeout=timeout)
        # Only the request that this connection was for has to fail: each has its own.
        if self._waiting:
            taker, _ = self._waiting.popleft()
            taker.failed(trouble)
        # What came too late for one of its own, because there were too many, has one now.
        if len(self._dials) < len(self._waiting) and not self._closed:
            self._dial()

    def _fail_waiting(self, trouble: Trouble) -> None:
        waiting, self._waiting = self._waiting, deque()
        for taker, _ in waiting:
            taker.failed(trouble)

    def _sweep_later(self) -> None:
        seconds = self.patience.sweep_seconds
        self._loop.call_later(seconds, self._sweep, self._loop.time() + 2 * seconds)

    def _sweep(self, late: float) -> None:
        """Close what nobody has used for long, and what has gone silent."""
        now = self._loop.time()
        # Who is late was held up: what came meanwhile is still to be read, and is no silence.
        if now < late:
            for line in list(self.lines):
                line.look(now)
        self._sweeping = bool(self.lines or self._dials) and not self._closed
        if self._sweeping:
            self._sweep_later()
