"""An event loop on which time is a number: it stands still while anything can be done, and jumps
to the next timer when nothing can.

No socket, no pipe and no thread: descriptors are whatever the world behind the loop says they
are, connections are opened in that world, and what would run in a thread runs as one step of the
loop. Everything that asyncio promises is kept; where it promises nothing (which of two
descriptors is told first, when a thread gets its turn) a seeded chance decides. So a run of the
same seed is the same run.
"""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, Protocol

TURNS_AT_ONCE_MAX: Final = 10_000
"""Turns of the loop in which no time passes: whoever needs more is spinning."""

THREAD_SECONDS_MAX: Final = 0.02
"""What a thread takes at most to get its turn and be done."""

LIFE_SECONDS_MAX: Final = 100_000.0
"""No schedule takes so long."""

LAST_TURNS: Final = 20
"""For tasks that were cancelled to come to their end."""

BEGINNING: Final = 1000.0
"""What the clock shows at first."""


class Stuck(Exception):
    """Nothing can happen any more, and somebody still waits."""


class Endless(Exception):
    """It goes on and on."""


class Spinning(Exception):
    """The loop turns and turns, and time does not pass."""


class Network(Protocol):
    """Where connections lead."""

    def listen(self, protocol: Callable[[], asyncio.Protocol], port: int) -> None:
        """Somebody takes connections at this port."""

    def shut(self, port: int) -> None:
        """Nobody does any more."""

    async def connect(
        self, protocol: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Open a connection to somebody else.

        Raises:
            OSError: nobody is there.
        """


class SimLoop(asyncio.BaseEventLoop):
    """An event loop with a clock of its own."""

    net: Network

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._selector = self  # The base class asks `_selector.select`.
        self._clock_resolution = 1e-9
        self._chance = chance
        self._now = BEGINNING
        self._standing = 0
        self._watched: dict[tuple[int, bool], asyncio.Handle] = {}
        """What to call, by descriptor and whether it is about writing."""
        self.ready_fds: dict[tuple[int, bool], None] = {}
        """Descriptors that can be read or written now; the world keeps it up to date."""
        self.turns = 0

    def time(self) -> float:
        """Seconds since nobody knows when."""
        return self._now

    def stray_timers(self) -> list[asyncio.TimerHandle]:
        """What is still going to be called."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return [handle for handle in scheduled if not handle.cancelled()]

    def run_down(self) -> None:
        """Let what was cancelled come to its end."""
        self._standing = 0
        for _ in range(LAST_TURNS):
            self.call_soon(self.stop)
            self.run_forever()

    # What the base class calls in each turn.

    def select(self, timeout: float | None) -> list[asyncio.Handle]:
        """Which descriptors have something to tell; if none has, let time pass."""
        self.turns += 1
        handles = [self._watched[key] for key in self.ready_fds if key in self._watched]
        if len(handles) > 1:
            self._chance.shuffle(handles)
        if handles or timeout == 0:
            self._standing += 1
            if self._standing > TURNS_AT_ONCE_MAX:
                raise Spinning(f"{self._standing} turns at {self._now:.3f}")
        elif timeout is None:
            raise Stuck(f"nothing can happen after {self._now:.3f}")
        else:
            self._standing = 0
            # Not by adding: the sum may fall short of the timer by a rounding error.
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
            if self._now > LIFE_SECONDS_MAX:
                raise Endless(f"it has not ended in {self._now:.0f} s")
        return handles

    def _process_events(self, handles: list[asyncio.Handle]) -> None:
        for handle in handles:
            self._add_callback(handle)  # type: ignore[attr-defined]

    def _write_to_self(self) -> None:
        """There is no other thread that could have to wake us."""

    # Descriptors.

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Call back whenever the descriptor can be read."""
        self._watched[fd, False] = asyncio.Handle(callback, args, self)

    def remove_reader(self, fd: Any) -> bool:
        """Do so no more."""
        return self._forget(fd, writing=False)

    def add_writer(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        """Call back whenever the descriptor can be written."""
        self._watched[fd, True] = asyncio.Handle(callback, args, self)

    def remove_writer(self, fd: Any) -> bool:
        """Do so no more."""
        return self._forget(fd, writing=True)

    def _forget(self, fd: int, *, writing: bool) -> bool:
        handle = self._watched.pop((fd, writing), None)
        if handle is not None:
            handle.cancel()
        return handle is not None

    @property
    def watched_fds(self) -> set[int]:
        """Descriptors that somebody wants to hear of."""
        return {fd for fd, _ in self._watched}

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        """Send everything; sockets here take all they get."""
        sock.send(bytes(data))

    async def sock_recv(self, sock: Any, n: int) -> bytes:
        """Wait until there is something to read."""
        while True:
            try:
                received: bytes = sock.recv(n)
            except BlockingIOError:
                readable = self.create_future()
                self.add_reader(sock.fileno(), readable.set_result, None)
                try:
                    await readable
                finally:
                    self.remove_reader(sock.fileno())
            else:
                return received

    # Connections.

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        *,
        ssl: object = None,
        **options: object,
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Connect to somebody in the world."""
        assert ssl is None, "there is no TLS here"
        return await self.net.connect(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        **options: object,
    ) -> "Listening":
        """Have connections to this port taken."""
        self.net.listen(protocol_factory, port)
        return Listening(self.net, host, port)

    # Threads.

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Run it as one step of the loop, a little later."""
        future = self.create_future()
        self.call_later(self._chance.uniform(0, THREAD_SECONDS_MAX), _run, future, func, args)
        return future


class Listening:
    """What `create_server` returns."""

    def __init__(self, net: Network, host: str, port: int) -> None:
        self._net = net
        self._place = (host, port)
        self.sockets = (self,)

    def fileno(self) -> int:
        """None: there is no socket."""
        return -1

    def getsockname(self) -> tuple[str, int]:
        """Where it listens."""
        return self._place

    def close(self) -> None:
        """Take no more connections."""
        self._net.shut(self._place[1])

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""


def _run(future: "asyncio.Future[Any]", work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(work(*args))
    except Exception as error:  # noqa: BLE001 - it is raised again where somebody waits for it
        future.set_exception(error)
