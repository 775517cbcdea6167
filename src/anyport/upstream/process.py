"""Starts the processes of stdio servers, tells how they ended, and ends them.

The gateway's side of `warden.py`: it hands over pipes, keeps the other ends, and listens to one
control socket for each server. It knows nothing of MCP and never reads or writes the pipes.

Nothing started here survives the gateway: whatever ends it, `kill -9` included, closes the
control sockets, and at that each keeper kills its server's whole tree.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from anyport.upstream import warden
from anyport.upstream.unstarted import no_room, unstarted

PIPE_BYTES: Final = 256 * 1024
"""Large frames cross in few wake-ups. Not more: Linux grants a user 64 MiB of pipes in all, and
once those are spent it shrinks every new pipe of every program of theirs."""

SPAWNS_AT_ONCE_MAX: Final = 32
"""Starting is a burst of forks and, until it is done, of four descriptors more for each."""

SPAWN_SECONDS_MAX: Final = 10.0
"""From request to exec takes milliseconds; only a hanging file system takes longer."""

GRACE_SECONDS_MAX: Final = 2.0
"""A server whose input was closed has this long to go by itself."""

TERMINATE_SECONDS_MAX: Final = 2.0
"""And this long after SIGTERM; then it is killed."""

LOST_SECONDS_MAX: Final = warden.KEEPERS_SECONDS_MAX + warden.KILL_SECONDS_MAX + 1.0
"""A keeper or warden that still has not gone is stopped or stuck itself."""

REAP_SECONDS: Final = 0.005
"""A process closes its sockets just before it can be reaped."""

INTERPRETER_VARIABLES: Final = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH")
"""Some Pythons find their own library with these. The servers do not get them from us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to start."""

    # Both may hold secrets, so neither shows in a log by accident.
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    """The whole environment of the server; nothing is added to it."""
    cwd: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a server ended: with a code, or by a signal."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.code}"
        names = {known.value: known.name for known in signal.Signals}
        return f"killed by {names.get(self.signal, f'signal {self.signal}')}"


class SpawnFailed(Exception):
    """A server could not be started; the text says why, in words for the operator."""


class Child:
    """One running server and the gateway's ends of its pipes, owned by who spawned it.

    `stdin`, `stdout` and `stderr` are non-blocking descriptors, -1 once closed here. Whoever
    watches one in an event loop stops watching before it is closed.
    """

    def __init__(self, ends: "_Ends", *, pid: int, forget: Callable[["Child"], None]) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = ends.stdin, ends.stdout, ends.stderr
        self.exited: Exit | None = None
        """Set when the server has exited; the rest of its tree is killed right after that."""
        self.on_killed: Callable[[], None] | None = None
        """Called if it does not end when it is asked to."""
        self._on_exit: Callable[[Exit], None] | None = None
        self._control = ends.control
        self._heard = b""
        self._forget = forget
        self._timers: list[asyncio.TimerHandle] = []
        self._ended = asyncio.Event()
        self._gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._control.fileno(), self._hear)

    @property
    def on_exit(self) -> Callable[[Exit], None] | None:
        """Called once, when the server has exited; at once if it is set after that.

        What the server wrote before it exited may still be in the pipes.
        """
        return self._on_exit

    @on_exit.setter
    def on_exit(self, callback: Callable[[Exit], None] | None) -> None:
        self._on_exit = callback
        if callback is not None and self.exited is not None:
            callback(self.exited)

    def close_stdin(self) -> None:
        """Tell the server that no more is coming: the polite way to ask it to exit."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def terminate(self) -> None:
        """Send SIGTERM to the server's process group."""
        with contextlib.suppress(OSError):  # The keeper, and so the server, is gone already.
            self._control.send(warden.TERMINATE)

    def kill(self) -> None:
        """Have the server and everything below it killed, at once."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def wait(self) -> Exit:
        """Wait until the server has exited. Its tree may take some milliseconds more."""
        await self._ended.wait()
        assert self.exited is not None
        return self.exited

    async def stop(
        self,
        *,
        grace_seconds: float = GRACE_SECONDS_MAX,
        terminate_seconds: float = TERMINATE_SECONDS_MAX,
    ) -> Exit:
        """Close stdin, then SIGTERM, then kill, and wait until the whole tree is gone.

        The first call sets the pace, and it is kept even if that caller is cancelled.
        """
        if not self._timers and not self._gone.is_set():
            self.close_stdin()
            kill_after = grace_seconds + terminate_seconds
            self._timers = [
                self._loop.call_later(grace_seconds, self.terminate),
                self._loop.call_later(kill_after, self._lose_patience),
                self._loop.call_later(kill_after + LOST_SECONDS_MAX, self._depart),
            ]
        await self._gone.wait()
        return await self.wait()

    def close(self) -> None:
        """Close what is still open of the pipes. This does not stop the server."""
        self.close_stdin()
        for fd in (self.stdout, self.stderr):
            if fd >= 0:
                os.close(fd)
        self.stdout = self.stderr = -1

    def _lose_patience(self) -> None:
        if self.exited is None and self.on_killed is not None:
            self.on_killed()
        self.kill()

    def _hear(self) -> None:
        try:
            chunk = self._control.recv(64)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._depart()
            return
        self._heard += chunk
        if self._heard.endswith(b"\n"):
            code = int(self._heard.split()[1])
            self._end(Exit(code=code if code >= 0 else None, signal=-code if code < 0 else None))

    def _end(self, how: Exit) -> None:
        self.exited = how
        self._ended.set()
        if self._on_exit is not None:
            self._on_exit(how)

    def _depart(self) -> None:
        """The keeper is gone, and with it, unless it was killed, the whole tree."""
        if self._gone.is_set():
            return
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for timer in self._timers:
            timer.cancel()
        self._gone.set()
        self._forget(self)
        if self.exited is None:
            # The warden kills what a lost keeper leaves, unless it was lost as well.
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            self._end(Exit(code=None, signal=signal.SIGKILL))


class Warden:
    """Spawns servers through one warden process, which starts with the first of them.

    One that is killed is replaced at the next spawn. Its servers run on, with their keepers.
    """

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._unreaped: list[subprocess.Popen[bytes]] = []
        self._children: set[Child] = set()
        self._turns = asyncio.Semaphore(SPAWNS_AT_ONCE_MAX)
        self._closed = False

    async def spawn(self, command: Command) -> Child:
        """Start a server; it has been exec'ed when this returns.

        Raises:
            SpawnFailed: it could not be started.
        """
        order = _encode(command)
        async with self._turns:
            self._refuse_if_closed()
            try:
                ends = self._hand_over()
            except OSError as error:
                raise SpawnFailed(no_room(error.errno)) from error
            try:
                async with asyncio.timeout(SPAWN_SECONDS_MAX):
                    pid = await _send_order(ends.control, order, command)
                self._refuse_if_closed()
            except BaseException as error:
                ends.close()  # At which the keeper kills whatever it may have started.
                if isinstance(error, TimeoutError):
                    raise SpawnFailed(f"it did not start in {SPAWN_SECONDS_MAX:g} s") from error
                raise
        child = Child(ends, pid=pid, forget=self._children.discard)
        self._children.add(child)
        return child

    async def close(self) -> None:
        """Kill what still runs, and wait until it and the warden are gone.

        Those who want their servers to end politely `stop` them before.
        """
        self._closed = True
        for child in self._children:
            child.kill()
        self._unlink()
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + LOST_SECONDS_MAX
        while self._children or self._unreaped:
            if loop.time() > give_up_at:
                for child in tuple(self._children):
                    child._depart()
                for process in self._unreaped:
                    process.kill()
            await asyncio.sleep(REAP_SECONDS)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SpawnFailed("the gateway is shutting down")

    def _hand_over(self) -> "_Ends":
        """Make the pipes and give the server's ends to a new keeper."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            control, far_control = socket.socketpair()
            ours.callback(control.close)
            theirs.callback(far_control.close)
            control.setblocking(False)
            near, far = [], []
            for name in ("stdin", "stdout", "stderr"):
                reader, writer = os.pipe()
                mine, its = (writer, reader) if name == "stdin" else (reader, writer)
                ours.callback(os.close, mine)
                theirs.callback(os.close, its)
                os.set_blocking(mine, False)
                if name != "stderr" and sys.platform == "linux":
                    with contextlib.suppress(OSError):  # The user's allowance is spent.
                        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
                near.append(mine)
                far.append(its)
            link = self._link or self._start()
            # If the warden was killed just now, the end of `control` will say so.
            with contextlib.suppress(ConnectionError):
                socket.send_fds(link, [b"+"], [*far, far_control.fileno()])
            ours.pop_all()
        return _Ends(stdin=near[0], stdout=near[1], stderr=near[2], control=control)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", warden.__file__, str(fd)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[fd],
                env={k: v for k, v in os.environ.items() if k in INTERPRETER_VARIABLES},
                cwd="/",
                # So that Ctrl-C in the gateway's terminal is the gateway's alone.
                start_new_session=True,
            )
            undo.pop_all()
        ours.setblocking(False)
        # The warden never says a word: what can be read is its end.
        asyncio.get_running_loop().add_reader(ours.fileno(), self._unlink)
        self._link = ours
        return ours

    def _unlink(self) -> None:
        if self._link is not None and self._process is not None:
            asyncio.get_running_loop().remove_reader(self._link.fileno())
            self._link.close()
            self._unreaped.append(self._process)
            self._link = self._process = None
            self._reap()

    def _reap(self) -> None:
        self._unreaped = [process for process in self._unreaped if process.poll() is None]
        if self._unreaped:
            asyncio.get_running_loop().call_later(REAP_SECONDS, self._reap)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """The gateway's ends of what connects it with one server and its keeper."""

    stdin: int
    stdout: int
    stderr: int
    control: socket.socket

    def close(self) -> None:
        self.control.close()
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)


def _encode(command: Command) -> bytes:
    """The order for the keeper, refused here where exec would refuse it less clearly."""
    if not command.argv or not command.argv[0]:
        raise SpawnFailed("its command is empty")
    names = "".join(command.env)
    if "=" in names or "" in command.env:
        raise SpawnFailed("the name of an environment variable is empty or contains '='")
    texts = (*command.argv, names, *command.env.values(), command.cwd or "")
    if any("\0" in text for text in texts):
        raise SpawnFailed("its command, environment or working directory contains a NUL character")
    try:
        return warden.pack(
            (
                [os.fsencode(word) for word in command.argv],
                {os.fsencode(name): os.fsencode(text) for name, text in command.env.items()},
                None if command.cwd is None else os.fsencode(command.cwd),
            )
        )
    except UnicodeEncodeError as error:
        raise SpawnFailed("its command or environment contains half a character") from error


async def _send_order(control: socket.socket, order: bytes, command: Command) -> int:
    """Give the keeper its order; the server's process id, once it runs."""
    loop = asyncio.get_running_loop()
    answer = b""
    with contextlib.suppress(ConnectionError):
        await loop.sock_sendall(control, order)
        # One byte at a time: what follows the first line is for the child to hear.
        while not answer.endswith(b"\n") and (byte := await loop.sock_recv(control, 1)):
            answer += byte
    match answer.decode().split():
        case ["started", pid]:
            return int(pid)
        case ["failed", stage, number]:
            raise SpawnFailed(unstarted(stage, int(number), command.argv[0], command.cwd))
        case _:
            raise SpawnFailed("the process that keeps servers was killed; try again")
