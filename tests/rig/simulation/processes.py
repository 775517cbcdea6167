"""Processes of the simulated world, and the keepers that the gateway starts them through.

The gateway's own side of that, `upstream/stdio/process.py`, is the real one: only what it would
hand
over to the operating system, four descriptors for each server, is made here. A `Program` is what
runs in a process: it is told what comes in, and says what it likes.
"""

import errno
import marshal
import os
import signal
import socket
import struct
from typing import TYPE_CHECKING, Final, Protocol, cast

from anyport.upstream.stdio import process, reaper
from tests.rig.simulation.network import Mark, ReadEnd, WriteEnd

if TYPE_CHECKING:
    from tests.rig.simulation.environment import Environment

PIPE_BYTES: Final = 64 * 1024
CONTROL_SECONDS_MAX: Final = 0.002
"""What a word between the gateway and a keeper takes."""
FIRST_PID: Final = 10_000_000
"""No process of the real machine has such a number, so nothing here can hit one."""

_LENGTH: Final = struct.Struct("!I")


class Program(Protocol):
    """What runs in a process."""

    def started(self, process: "Process") -> None:
        """It has begun."""

    def line(self, raw: bytes) -> None:
        """A line came in."""

    def input_ended(self) -> None:
        """No more will."""

    def asked_to_end(self) -> None:
        """SIGTERM."""

    def ended(self) -> None:
        """The process is gone."""


class Process:
    """One run of a program."""

    def __init__(self, keeper: "Keeper", program: Program) -> None:
        self.alive = True
        self.frozen = False
        """It neither reads nor writes, as if it were stopped."""
        self._keeper = keeper
        self._program = program
        self._held: list[bytes | Mark] = []
        self._rest = b""

    def say(self, raw: bytes) -> None:
        """Write to stdout."""
        if self.alive and not self.frozen:
            self._keeper.stdout_wire.send(raw)

    def mutter(self, raw: bytes) -> None:
        """Write to stderr."""
        if self.alive and not self.frozen:
            self._keeper.stderr_wire.send(raw)

    def feed(self, piece: bytes | Mark) -> None:
        """Something lies in stdin."""
        if self.frozen:
            self._held.append(piece)
        elif self.alive:
            self._take(piece)

    def thaw(self) -> None:
        """Go on where it stopped."""
        self.frozen = False
        held, self._held = self._held, []
        for piece in held:
            self.feed(piece)

    def _take(self, piece: bytes | Mark) -> None:
        if isinstance(piece, Mark):
            self._program.input_ended()
            return
        self._keeper.stdin.read(len(piece))
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if self.alive:
                self._program.line(line)

    def terminate(self) -> None:
        """SIGTERM."""
        if self.alive and not self.frozen:
            self._program.asked_to_end()

    def exit(self, code: int) -> None:
        """The end, by its own hand or another's."""
        if self.alive:
            self.alive = False
            self._keeper.exited(code)
            self._program.ended()


class Keeper:
    """Starts one process, tells how it ended, and goes."""

    def __init__(self, world: "Environment", number: int) -> None:
        self.name = f"p{number}"
        self.pid = FIRST_PID + number
        self.process: Process | None = None
        self._world = world
        self._chance = world.chance(self.name)
        self._order = b""
        self._gone = False
        self.control = Control(world, world.new_fd(), self)
        self.stdin = WriteEnd(world.loop, world.new_fd(), PIPE_BYTES)
        self.stdout = ReadEnd(world.loop, world.new_fd())
        self.stderr = ReadEnd(world.loop, world.new_fd())
        for end in (self.control, self.stdin, self.stdout, self.stderr):
            world.fds[end.fd] = end
        self.stdin.wire = world.wire(f"{self.name}.stdin", self._feed)
        self.stdout_wire = world.wire(f"{self.name}.stdout", self.stdout.arrived)
        self.stderr_wire = world.wire(f"{self.name}.stderr", self.stderr.arrived)

    @property
    def ends(self) -> process._PipeEnds:
        """What the gateway holds of it."""
        return process._PipeEnds(
            stdin=self.stdin.fd,
            stdout=self.stdout.fd,
            stderr=self.stderr.fd,
            control=cast(socket.socket, self.control),
        )

    def _feed(self, piece: bytes | Mark) -> None:
        if self.process is not None:
            self.process.feed(piece)

    def heard(self, raw: bytes) -> None:
        """The gateway says something: the order first, later that the server should end."""
        if self._gone:
            return
        if self.process is not None:
            if raw == reaper.TERMINATE:
                self.process.terminate()
            return
        self._order += raw
        (size,) = _LENGTH.unpack_from(self._order)
        if len(self._order) - _LENGTH.size == size:
            argv, _, _ = marshal.loads(self._order[_LENGTH.size :])
            self._start([os.fsdecode(word) for word in argv])

    def _start(self, argv: list[str]) -> None:
        program = self._world.programs[argv[1]]()
        if program is None:
            self.tell(b"failed command %d\n" % errno.ENOENT)
            self._go()
            return
        self.process = process = Process(self, program)
        self._world.note(self.name, "started", argv[1])
        self.tell(b"started %d\n" % self.pid)
        program.started(process)

    def kill(self) -> None:
        """The gateway has hung up: nothing of the tree stays."""
        if self.process is not None and self.process.alive:
            self.process.exit(-signal.SIGKILL)
        elif self.process is None:
            self._go()

    def exited(self, code: int) -> None:
        """The process is gone; what it has written lies in the pipes."""
        self._world.note(self.name, "exited", code)
        self.stdout_wire.hurry()
        self.stderr_wire.hurry()
        self.stdout_wire.send(Mark.END)
        self.stderr_wire.send(Mark.END)
        self.stdin.shatter()
        self.tell(b"exited %d\n" % code)
        self._go()

    def _go(self) -> None:
        self._gone = True
        self._world.loop.call_later(2 * CONTROL_SECONDS_MAX, self.control.arrived, Mark.END)

    def tell(self, raw: bytes) -> None:
        """A word to the gateway. Two in a row keep their order: the second comes much later."""
        seconds = self._chance.random() * CONTROL_SECONDS_MAX
        self._world.loop.call_later(seconds, self.control.arrived, raw)


class Control(ReadEnd):
    """The gateway's end of the socket to a keeper."""

    def __init__(self, world: "Environment", fd: int, keeper: Keeper) -> None:
        super().__init__(world.loop, fd)
        self._world = world
        self._keeper = keeper
        self._hung_up = False

    def fileno(self) -> int:
        """Its descriptor."""
        return self.fd

    def recv(self, size: int) -> bytes:
        """As on a socket that does not block."""
        return self.read(size)

    def send(self, raw: bytes) -> int:
        """Say something to the keeper."""
        if self._hung_up:
            raise BrokenPipeError(errno.EPIPE, "nobody is there")
        self._world.loop.call_later(CONTROL_SECONDS_MAX, self._keeper.heard, raw)
        return len(raw)

    def shutdown(self, how: int) -> None:
        """Say no more: the keeper kills."""
        self._hang_up()

    def close(self) -> None:
        """Hear no more either."""
        self._hang_up()
        if self._world.fds.pop(self.fd, None) is not None:
            self.closed()

    def _hang_up(self) -> None:
        if not self._hung_up:
            self._hung_up = True
            self._world.loop.call_later(CONTROL_SECONDS_MAX, self._keeper.kill)
