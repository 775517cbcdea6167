"""The world around a simulated gateway: its clock, its chance, its descriptors, who can be reached.

`World.inside()` puts it in the place of the real one, at the edges only: the clocks and the random
numbers of the standard library, reading and writing descriptors, the limits of the process, and
the reaper. What the gateway does between these edges is what it always does.

All of that is there for the thread that the world runs in. Others of the same process, which tests
that ran before may have left, go on in the real world, and know nothing of this one.

Everything that happens is noted, in order; `World.digest()` of two runs of one seed is the same.
"""

import asyncio
import errno
import hashlib
import os
import random
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any, Final
from unittest import mock

from anyport.clock import Clock
from anyport.gateway.memory import MemoryAllocator, MemoryPressure
from anyport.ingress.http import server
from anyport.record.journal.writer import JournalWriter, WorkerThread, WriteResult
from anyport.upstream.stdio.process import ProcessSpawner
from tests.rig.simulation.loop import BEGINNING, THREAD_SECONDS_MAX, SimLoop
from tests.rig.simulation.network import (
    Delivery,
    NetworkConditions,
    ReadEnd,
    Socket,
    Wire,
    WriteEnd,
)
from tests.rig.simulation.ordered_sets import ordered_sets
from tests.rig.simulation.processes import Keeper, Program

FIRST_FD: Final = 1_000_000
"""Descriptors from here on are the world's; all others are the real machine's."""
DAWN: Final = 1_790_000_000.0
"""The date at first."""
FREE_BYTES_MIN: Final = 16 * 1024 * 1024
"""Room for the files of all simulations that run side by side; each has a hundred kilobytes."""

Address = tuple[str, int]
Factory = Callable[[], asyncio.Protocol]


class Environment:
    """One simulated world."""

    def __init__(self, seed: str, weather: NetworkConditions) -> None:
        self.seed = seed
        self.weather = weather
        self.loop = SimLoop(self.chance("loop"))
        self.loop.net = self
        self.fds: dict[int, ReadEnd | WriteEnd] = {}
        self.programs: dict[str, Callable[[], Program | None]] = {}
        """What can be started, by its first argument; None in place of a program: it is gone."""
        self.hosts: dict[Address, Callable[[], asyncio.Protocol | None]] = {}
        """Who can be reached; None in place of a protocol: nobody answers."""
        self.doors: dict[int, Factory] = {}
        """Where the gateway listens."""
        self.keepers: list[Keeper] = []
        self.sockets: list[Socket] = []
        self.faults: list[str] = []
        self.notes: list[tuple[float, str, str, str]] = []
        self.short_of_memory = False
        self.disk_seconds = 0.0
        """What a write to the disk takes."""
        self.disk_full = False
        self._thread_chance = self.chance("threads")
        self._fd_last = FIRST_FD
        self._wires = 0

    # Time and chance.

    def chance(self, name: str) -> random.Random:
        """A source of chance that depends on the seed and its name alone."""
        return random.Random(f"{self.seed}/{name}")

    @property
    def now(self) -> float:
        """Seconds since it all began."""
        return self.loop.time() - BEGINNING

    def note(self, who: str, what: str, about: object = "") -> None:
        """Something happened."""
        self.notes.append((self.now, who, what, str(about)))

    def fault(self, words: str) -> None:
        """Something happened that must not."""
        self.note("FAULT", words)
        self.faults.append(f"at {self.now:.3f}: {words}")

    def note_tasks(self) -> None:
        """Who is still waiting, and where."""
        for task in asyncio.all_tasks(self.loop):
            waits: Any = task.get_coro()
            places = []
            while waits is not None:
                frame = getattr(waits, "cr_frame", None) or getattr(waits, "gi_frame", None)
                if frame is not None:
                    places.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
                waits = getattr(waits, "cr_await", None) or getattr(waits, "gi_yieldfrom", None)
            self.note("task", task.get_name(), " > ".join(places))

    def recover(self) -> None:
        """There is enough memory again, and the disk is as it should be."""
        self.short_of_memory = self.disk_full = False
        self.disk_seconds = 0.0

    def digest(self) -> str:
        """What happened, in a word."""
        return hashlib.sha256(repr(self.notes).encode()).hexdigest()[:16]

    # What things are made of.

    def wire(self, name: str, deliver: Delivery) -> Wire:
        """A wire in this weather."""
        return Wire(self.loop, self.chance(name), self.weather, deliver)

    def new_fd(self) -> int:
        """A descriptor."""
        self._fd_last += 1
        return self._fd_last

    def new_keeper(self) -> Keeper:
        """Starts one process."""
        keeper = Keeper(self, len(self.keepers) + 1)
        self.keepers.append(keeper)
        return keeper

    def join(self, one: asyncio.Protocol, other: asyncio.Protocol) -> Socket:
        """Connect two protocols; the socket of the first."""
        self._wires += 1
        near, far = Socket(self.loop, one), Socket(self.loop, other)
        near.peer, far.peer = far, near
        near.wire = self.wire(f"s{self._wires}>", far.arrived)
        far.wire = self.wire(f"s{self._wires}<", near.arrived)
        self.sockets += (near, far)
        one.connection_made(near)
        other.connection_made(far)
        return near

    # What the loop calls.

    def listen(self, protocol: Factory, port: int) -> None:
        """The gateway takes connections."""
        self.doors[port] = protocol

    def shut(self, port: int) -> None:
        """It takes no more."""
        self.doors.pop(port, None)

    async def connect(
        self, protocol: Factory, host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """The gateway opens a connection."""
        await asyncio.sleep(self.weather.latency_seconds)
        find = self.hosts.get((host, port))
        far = None if find is None else find()
        if far is None:
            raise ConnectionRefusedError(111, "connection refused")
        near = protocol()
        return self.join(near, far), near

    # The edges.

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Have all that runs meanwhile live in this world."""
        epoch = DAWN - BEGINNING
        # Ours are named by themselves, so that the type checker finds what was renamed.
        ours: list[tuple[Any, Any, Any]] = [
            (WorkerThread, WorkerThread.submit, lambda *job: self._begin_away(*job)),
            (WorkerThread, WorkerThread.wait, lambda away, seconds: _bring(away)),
            (MemoryPressure, MemoryPressure.is_short, lambda pressure: self.short_of_memory),
            (MemoryAllocator, MemoryAllocator.collect, lambda memory: None),
            (MemoryAllocator, MemoryAllocator.return_idle, lambda memory: None),
            (server, server._files_max, lambda: server.CONNECTIONS_MAX + server.FILES_RESERVED),
            (server, server.set_keepalive_options, lambda descriptor, seconds: None),
            (JournalWriter, JournalWriter._append, self._on_disk(JournalWriter._append)),
            (ProcessSpawner, ProcessSpawner._start_keeper, lambda _: self.new_keeper().ends),
        ]
        edges: list[tuple[Any, str, Any]] = [
            *((owner, function.__name__, replacement) for owner, function, replacement in ours),
            (Clock, "monotonic", lambda *_: self.loop.time()),
            (Clock, "now", lambda *_: epoch + self.loop.time()),
            (time, "monotonic", self.loop.time),
            (time, "time", lambda: epoch + self.loop.time()),
            (time, "clock_gettime", lambda clock: self.loop.time()),
            (time, "thread_time", lambda: 0.0),
            (os, "urandom", self.chance("urandom").randbytes),
            (os, "read", self._or_real(os.read, lambda end, size: end.read(size))),
            (os, "writev", self._or_real(os.writev, lambda end, parts: end.write(parts))),
            (os, "close", self._or_real(os.close, self._close)),
            (os, "fstat", self._or_real(os.fstat, lambda end: _FIFO)),
            (os, "get_blocking", self._or_real(os.get_blocking, lambda end: False)),
            (os, "set_blocking", self._or_real(os.set_blocking, lambda end, blocking: None)),
        ]
        with ExitStack() as stack:
            stack.enter_context(ordered_sets())
            stack.callback(random.setstate, random.getstate())
            random.seed(f"{self.seed}/random")
            for owner, name, replacement in edges:
                edge = _for_this_thread(getattr(owner, name), replacement)
                stack.enter_context(mock.patch.object(owner, name, edge))
            yield

    def _on_disk(self, append: Callable[..., WriteResult]) -> Callable[..., WriteResult]:
        def on_disk(outflow: JournalWriter, lines: list[bytes], check: bool) -> WriteResult:
            if self.disk_full:
                return WriteResult(0, 0, OSError(errno.ENOSPC, "no space left"), self.disk_seconds)
            return append(outflow, lines, check)._replace(seconds=self.disk_seconds)

        return on_disk

    def _begin_away(
        self, away: WorkerThread[Any], work: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        """What would be done in a thread of its own is done as one step of the loop."""
        away._callback = lambda _: done(work())
        self.loop.call_later(self._thread_chance.random() * THREAD_SECONDS_MAX, _bring, away)

    def _or_real(self, real: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int, *args: Any) -> Any:
            if fd < FIRST_FD:
                return real(fd, *args)
            end = self.fds.get(fd)
            if end is None:
                self.fault(f"{real.__name__} of a descriptor that is closed")
                raise OSError(9, "bad file descriptor")
            return ours(end, *args)

        return call

    def _close(self, end: ReadEnd | WriteEnd) -> None:
        if end.fd in self.loop.watched_fds:
            self.fault("a descriptor was closed that is still watched")
        del self.fds[end.fd]
        end.closed()


def _for_this_thread(real: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    here = get_ident()

    def call(*args: Any) -> Any:
        return ours(*args) if get_ident() == here else real(*args)

    return call


def _bring(away: WorkerThread[Any]) -> bool:
    done, away._callback = away._callback, None
    if done is not None:
        done(None)
    return True


def state_directory() -> Path:
    """Where the files of simulated gateways lie: in memory, where there is room for them."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    roomy = usable and shutil.disk_usage(memory).free >= FREE_BYTES_MIN
    return memory if roomy else Path(tempfile.gettempdir())


_FIFO: Final = os.stat_result((stat.S_IFIFO | 0o600, 0, 0, 1, 0, 0, 0, 0, 0, 0))
