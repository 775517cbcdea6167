"""Child processes of stdio servers: started through the reaper, and stopped with grace.

This is the gateway's side of `reaper.py`. It passes pipes, keeps the other ends, and reads one
control socket per server.

No process outlives the gateway: whatever ends it, even `kill -9`, closes the control sockets, and
then each keeper kills the whole process tree of its server.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from anyport.upstream.stdio import reaper

# Why a process could not be started, for the operator.


def describe_start_error(stage: str, number: int, name: str, cwd: str | None) -> str:
    """Why starting a command failed at this stage with this `errno`."""
    if stage == "fork":
        return describe_fork_error(number)
    name, cwd = _printable(name), None if cwd is None else _printable(cwd)
    if (stage, number) == ("command", errno.ENOENT) and "/" in name:
        return f"command '{name}' does not exist"
    sentence = _REASONS.get((stage, number)) or _REASONS[stage, None]
    return sentence.format(name=name, cwd=cwd, cause=os.strerror(number))


def _printable(text: str) -> str:
    """The environment need not be UTF-8, but messages must be."""
    return text.encode("utf-8", "replace").decode()


def describe_fork_error(number: int | None) -> str:
    """Why the system cannot start another process."""
    return f"this machine has no room for another process: {os.strerror(number or 0)}"


_REASONS: Final = {
    ("prepare", None): "its process could not be prepared: {cause}",
    ("cwd", errno.ENOENT): "working directory '{cwd}' does not exist",
    ("cwd", None): "working directory '{cwd}' cannot be used: {cause}",
    ("command", errno.ENOENT): "command '{name}' was not found on its PATH",
    ("command", errno.EACCES): "command '{name}' may not be executed: permission denied",
    ("command", errno.ENOEXEC): (
        "command '{name}' is no program for this system, or its interpreter is missing"
    ),
    ("command", errno.E2BIG): "its arguments and environment are longer than this system allows",
    ("command", None): "command '{name}' could not be started: {cause}",
}


# Environment of servers.
#
# An allow-list: the gateway's environment holds the secrets of every server, and no server must see
# those of another. Anything else that a server needs is in its configuration.

# fmt: off
INHERITED: Final = frozenset({
    # User and locale: shells and clocks go wrong without.
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    # Directories: package launchers keep their downloads there.
    "XDG_BIN_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    # Trusted certificates: behind an inspecting proxy nothing downloads without.
    "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    # Proxies.
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
    "all_proxy", "https_proxy", "http_proxy", "no_proxy",
    # Tool chains outside their usual place: launchers on PATH are often shims.
    "ASDF_DATA_DIR", "BUN_INSTALL", "DENO_DIR", "MISE_DATA_DIR", "NVM_DIR", "PNPM_HOME",
    "PYENV_ROOT", "VOLTA_HOME",
    # Container engine, for servers that are images.
    "CONTAINER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST",
})

INHERITED_PREFIXES: Final = (
    # Locale, category by category.
    "LC_",
    # Mirrors, caches and offline switches of package launchers.
    "NPM_CONFIG_", "PIP_", "UV_", "npm_config_",
)
# fmt: on

_SECRET_NAME: Final = re.compile("AUTH|CREDENTIAL|KEY|PASS|SECRET|TOKEN", re.IGNORECASE)
"""Credentials of launchers are credentials."""

_SECRET_VALUE: Final = re.compile(r"https?://[^/\s]*@|://[^/\s@]*:[^/\s]*@", re.IGNORECASE)
"""Mirrors and proxies often have their password in the URL."""

_SHELL_FUNCTION: Final = "() {"
"""Functions that bash exports: every bash below would define them."""


def child_environment(parent: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a server: what it may inherit, and what is configured."""
    inherited = {name: value for name, value in parent.items() if _may_inherit(name, value)}
    return {**inherited, **given}


def _may_inherit(name: str, value: str) -> bool:
    return (
        (name in INHERITED or name.startswith(INHERITED_PREFIXES))
        and not _SECRET_NAME.search(name)
        and not _SECRET_VALUE.search(value)
        and not value.startswith(_SHELL_FUNCTION)
    )


PIPE_BYTES: Final = 256 * 1024
"""Large frames cross in few wake-ups. Not more: Linux grants a user 64 MiB of pipes in all, and
once those are spent, every new pipe of every program of that user is small."""

SPAWNS_AT_ONCE_MAX: Final = 32
"""Each start forks, and until it is done holds four more descriptors."""

SPAWN_SECONDS_MAX: Final = 10.0
"""A start takes milliseconds; only a hanging file system takes longer."""

GRACE_SECONDS_MAX: Final = 2.0
"""How long a server may take to exit after its stdin was closed."""

TERMINATE_SECONDS_MAX: Final = 2.0
"""And after SIGTERM; then it is killed."""

KEEPER_GONE_SECONDS_MAX: Final = reaper.KEEPERS_SECONDS_MAX + reaper.KILL_SECONDS_MAX + 1.0
"""A keeper or reaper that has not exited by then is stuck itself."""

REAP_SECONDS: Final = 0.005
"""A process closes its sockets just before it can be reaped."""

INTERPRETER_VARIABLES: Final = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH")
"""Some Pythons find their own library with these. Servers do not get them from us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to start."""

    # Both may hold secrets, so neither is shown in logs.
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    """The whole environment of the server; nothing is added to it."""
    cwd: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """How a server ended: with a code, or by a signal."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.code}"
        names = {known.value: known.name for known in signal.Signals}
        return f"killed by {names.get(self.signal, f'signal {self.signal}')}"


class SpawnFailed(Exception):
    """A server could not be started; the text says why, for the operator."""


class ChildProcess:
    """A running server process, and the gateway's ends of its pipes.

    `stdin`, `stdout` and `stderr` are non-blocking descriptors, -1 once closed here. Event loop
    watchers must be removed before that.
    """

    def __init__(
        self, ends: "_PipeEnds", *, pid: int, forget: Callable[["ChildProcess"], None]
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = ends.stdin, ends.stdout, ends.stderr
        self.exit_status: ExitStatus | None = None
        """Set when the server has exited; the rest of its process tree is killed right after
        that."""
        self.on_killed: Callable[[], None] | None = None
        """Called if the server has to be killed."""
        self._on_exit: Callable[[ExitStatus], None] | None = None
        self._control = ends.control
        self._received = b""
        self._forget = forget
        self._timers: list[asyncio.TimerHandle] = []
        self._exit_event = asyncio.Event()
        self._gone_event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._control.fileno(), self._read_control)

    @property
    def on_exit(self) -> Callable[[ExitStatus], None] | None:
        """Called once, when the server has exited; at once if it is set after that.

        Its last output may still be in the pipes.
        """
        return self._on_exit

    @on_exit.setter
    def on_exit(self, callback: Callable[[ExitStatus], None] | None) -> None:
        self._on_exit = callback
        if callback is not None and self.exit_status is not None:
            callback(self.exit_status)

    def close_stdin(self) -> None:
        """Ask the server to exit, by ending its input."""
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def terminate(self) -> None:
        """Send SIGTERM to the server's process group."""
        with contextlib.suppress(OSError):  # The keeper, and so the server, has exited already.
            self._control.send(reaper.TERMINATE)

    def kill(self) -> None:
        """Have the server and its whole process tree killed."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def wait(self) -> ExitStatus:
        """Wait until the server has exited. Its process tree may take some milliseconds more."""
        await self._exit_event.wait()
        assert self.exit_status is not None
        return self.exit_status

    async def stop(
        self,
        *,
        grace_seconds: float = GRACE_SECONDS_MAX,
        terminate_seconds: float = TERMINATE_SECONDS_MAX,
    ) -> ExitStatus:
        """Close stdin, then send SIGTERM, then kill; wait until the whole process tree is gone.

        The times of the first call count, even if its caller is cancelled.
        """
        if not self._timers and not self._gone_event.is_set():
            self.close_stdin()
            kill_after = grace_seconds + terminate_seconds
            self._timers = [
                self._loop.call_later(grace_seconds, self.terminate),
                self._loop.call_later(kill_after, self._kill_after_timeout),
                self._loop.call_later(kill_after + KEEPER_GONE_SECONDS_MAX, self._on_keeper_gone),
            ]
        await self._gone_event.wait()
        return await self.wait()

    def close(self) -> None:
        """Close what is open of the pipes. This does not stop the server."""
        self.close_stdin()
        for fd in (self.stdout, self.stderr):
            if fd >= 0:
                os.close(fd)
        self.stdout = self.stderr = -1

    def _kill_after_timeout(self) -> None:
        if self.exit_status is None and self.on_killed is not None:
            self.on_killed()
        self.kill()

    def _read_control(self) -> None:
        try:
            chunk = self._control.recv(64)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._on_keeper_gone()
            return
        self._received += chunk
        if self._received.endswith(b"\n"):
            code = int(self._received.split()[1])
            self._set_exit(
                ExitStatus(code=code if code >= 0 else None, signal=-code if code < 0 else None)
            )

    def _set_exit(self, exit_status: ExitStatus) -> None:
        self.exit_status = exit_status
        self._exit_event.set()
        if self._on_exit is not None:
            self._on_exit(exit_status)

    def _on_keeper_gone(self) -> None:
        """The keeper has exited, and with it, unless it was killed, the whole process tree."""
        if self._gone_event.is_set():
            return
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for timer in self._timers:
            timer.cancel()
        self._gone_event.set()
        self._forget(self)
        if self.exit_status is None:
            # The reaper kills what a lost keeper leaves, unless it was lost as well.
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            self._set_exit(ExitStatus(code=None, signal=signal.SIGKILL))


class ProcessSpawner:
    """Starts servers through one reaper process, which is started with the first of them.

    A reaper that was killed is replaced at the next start. Its servers run on, with their keepers.
    """

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._unreaped: list[subprocess.Popen[bytes]] = []
        self._children: set[ChildProcess] = set()
        self._spawn_slots = asyncio.Semaphore(SPAWNS_AT_ONCE_MAX)
        self._closed = False

    async def spawn(self, command: Command) -> ChildProcess:
        """Start a server; the command has been executed when this returns.

        Raises:
            SpawnFailed: it could not be started.
        """
        request = _encode(command)
        async with self._spawn_slots:
            self._refuse_if_closed()
            try:
                ends = self._start_keeper()
            except OSError as error:
                raise SpawnFailed(describe_fork_error(error.errno)) from error
            try:
                async with asyncio.timeout(SPAWN_SECONDS_MAX):
                    pid = await _send_spawn_request(ends.control, request, command)
                self._refuse_if_closed()
            except BaseException as error:
                ends.close()  # At which the keeper kills whatever it may have started.
                if isinstance(error, TimeoutError):
                    raise SpawnFailed(f"it did not start in {SPAWN_SECONDS_MAX:g} s") from error
                raise
        child = ChildProcess(ends, pid=pid, forget=self._children.discard)
        self._children.add(child)
        return child

    async def close(self) -> None:
        """Kill what is still running, and wait until it and the reaper are gone.

        Servers that are to exit by themselves have to be stopped before.
        """
        self._closed = True
        for child in self._children:
            child.kill()
        self._close_link()
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + KEEPER_GONE_SECONDS_MAX
        while self._children or self._unreaped:
            if loop.time() > give_up_at:
                for child in tuple(self._children):
                    child._on_keeper_gone()
                for process in self._unreaped:
                    process.kill()
            await asyncio.sleep(REAP_SECONDS)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SpawnFailed("the gateway is shutting down")

    def _start_keeper(self) -> "_PipeEnds":
        """Make the pipes, and pass the server's ends to a new keeper."""
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
            link = self._link or self._start_reaper()
            # If the reaper was killed just now, the end of `control` will say so.
            with contextlib.suppress(ConnectionError):
                socket.send_fds(link, [b"+"], [*far, far_control.fileno()])
            ours.pop_all()
        return _PipeEnds(stdin=near[0], stdout=near[1], stderr=near[2], control=control)

    def _start_reaper(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", reaper.__file__, str(fd)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[fd],
                env={k: v for k, v in os.environ.items() if k in INTERPRETER_VARIABLES},
                cwd="/",
                # Ctrl-C in the gateway's terminal is for the gateway alone.
                start_new_session=True,
            )
            undo.pop_all()
        ours.setblocking(False)
        # The reaper writes nothing: when its socket is readable, it has exited.
        asyncio.get_running_loop().add_reader(ours.fileno(), self._close_link)
        self._link = ours
        return ours

    def _close_link(self) -> None:
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
class _PipeEnds:
    """The gateway's ends of the pipes and the control socket of one server."""

    stdin: int
    stdout: int
    stderr: int
    control: socket.socket

    def close(self) -> None:
        self.control.close()
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)


def _encode(command: Command) -> bytes:
    """The request for the keeper; rejects here what `exec` would reject less clearly."""
    if not command.argv or not command.argv[0]:
        raise SpawnFailed("its command is empty")
    names = "".join(command.env)
    if "=" in names or "" in command.env:
        raise SpawnFailed("the name of an environment variable is empty or contains '='")
    texts = (*command.argv, names, *command.env.values(), command.cwd or "")
    if any("\0" in text for text in texts):
        raise SpawnFailed("its command, environment or working directory contains a NUL character")
    try:
        return reaper.pack(
            (
                [os.fsencode(word) for word in command.argv],
                {os.fsencode(name): os.fsencode(text) for name, text in command.env.items()},
                None if command.cwd is None else os.fsencode(command.cwd),
            )
        )
    except UnicodeEncodeError as error:
        raise SpawnFailed("its command or environment contains half a character") from error


async def _send_spawn_request(control: socket.socket, request: bytes, command: Command) -> int:
    """Send the keeper its request; returns the process id of the server."""
    loop = asyncio.get_running_loop()
    answer = b""
    with contextlib.suppress(ConnectionError):
        await loop.sock_sendall(control, request)
        # One byte at a time: what follows the first line is for `ChildProcess` to read.
        while not answer.endswith(b"\n") and (byte := await loop.sock_recv(control, 1)):
            answer += byte
    match answer.decode().split():
        case ["started", pid]:
            return int(pid)
        case ["failed", stage, number]:
            raise SpawnFailed(
                describe_start_error(stage, int(number), command.argv[0], command.cwd)
            )
        case _:
            raise SpawnFailed("the process that keeps servers was killed; try again")
