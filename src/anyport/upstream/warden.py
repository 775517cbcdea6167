"""Keeps the processes of stdio servers, so that nothing outlives its server or the gateway.

A program of its own, started as `python -I -S warden.py FD`:

    gateway ── warden ── keeper ── server ── whatever the server starts
                  └───── keeper ── server ── …

The warden forks one keeper for each server, and kills what a dead keeper left behind. A keeper
forks its server, tells how it ended, and kills what is left of the tree. Both are subreapers:
a descendant that leaves its session or loses its parent is still theirs.

Nothing here knows of MCP, of configuration or of what servers say; it imports only what every
keeper may carry in memory, and nothing of Anyport. What is said, and where:

    gateway → warden    one byte, with four descriptors: stdin, stdout, stderr, control
    gateway → keeper    on control: `pack`ed argv, env and cwd; then TERMINATE. The end: kill all
    keeper → gateway    on control: lines `started PID`, `failed STAGE ERRNO`, `exited CODE`.
                        The end: the tree is gone
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False  # Importing `typing` would cost the warden a sixth of its memory.
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final, NoReturn, TypeAlias

Order: TypeAlias = tuple[list[bytes], dict[bytes, bytes], bytes | None]
"""What to run: argv, environment, working directory. Bytes, so that nothing is re-encoded."""

TERMINATE: Final = b"T"

SWEEP_SECONDS: Final = 0.02
"""Between two searches for survivors: killing the group is mostly enough, and a search costs."""

KILL_SECONDS_MAX: Final = 5.0
"""A process that outlives SIGKILL this long hangs in the kernel; nobody should wait for it."""

KEEPERS_SECONDS_MAX: Final = 2.0
"""For keepers to clear their own trees when the gateway is gone; then the warden does it."""

DESCRIPTORS: Final = 4

_LENGTH: Final = struct.Struct("!I")
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36


def pack(order: Order) -> bytes:
    body = marshal.dumps(order)
    return _LENGTH.pack(len(body)) + body


def main(gateway_fd: int) -> None:
    """Run as the warden until the gateway hangs up and the last keeper has gone."""
    gateway = socket.socket(fileno=gateway_fd)
    # A stop signal for the whole control group reaches us too, but the gateway decides when
    # servers stop, and it may want to drain them first. Its end is told by the socket.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper(b"anyport-warden")
    deaths = watch_deaths()
    gc.freeze()  # The collector would write to every page that keepers share with us.
    keepers: set[int] = set()
    while True:
        ready = wait(gateway_fd, deaths)
        if deaths in ready:
            bury(keepers)
        if gateway_fd in ready and not admit(gateway, keepers):
            break
    gateway.close()
    clear(deaths, patience=KEEPERS_SECONDS_MAX)


def admit(gateway: socket.socket, keepers: set[int]) -> bool:
    """Fork a keeper for one request; False when the gateway has hung up."""
    try:
        message, fds, _, _ = socket.recv_fds(gateway, 1, DESCRIPTORS)
    except ConnectionError:
        return False
    if len(fds) == DESCRIPTORS:
        control = socket.socket(fileno=fds.pop())
        try:
            pid = os.fork()
        except OSError as error:
            tell(control, f"failed fork {error.errno}")
        else:
            if pid == 0:
                gateway.close()
                keep(control, fds)
            keepers.add(pid)
        control.close()
    for fd in fds:
        os.close(fd)
    return bool(message)


def bury(keepers: set[int]) -> None:
    """Collect dead keepers, and kill what those that did not finish their work left behind."""
    dead, _ = reap()
    untidy = any(code != 0 or pid not in keepers for pid, code in dead.items())
    keepers.difference_update(dead)
    if untidy:
        sweep(spare=keepers)


def keep(control: socket.socket, stdio: list[int]) -> NoReturn:
    """Run as the keeper of one server, from its start until nothing is left of its tree."""
    left = True
    try:
        become_subreaper(b"anyport-keeper")
        deaths = watch_deaths()
        server = start(control, stdio)
        for fd in stdio:
            os.close(fd)
        if server is not None:
            attend(control, deaths, server)
            with contextlib.suppress(OSError):
                os.killpg(server, signal.SIGKILL)
        left = clear(deaths, control=control, server=server)
    except BaseException:  # noqa: BLE001 - a forked copy must never return to the warden's loop.
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1 if left else 0)


def start(control: socket.socket, stdio: list[int]) -> int | None:
    """Read the order and fork the server; None when there is nothing to keep."""
    order = read_order(control)
    if order is None:
        return None
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        tell(control, f"failed fork {error.errno}")
        return None
    if pid == 0:
        become_server(order, stdio, writer)
    os.close(writer)
    complaint = os.read(reader, 64)  # Ends without a word when exec has closed the pipe.
    os.close(reader)
    if complaint:
        tell(control, f"failed {complaint.decode()}")
        return None
    tell(control, f"started {pid}")
    return pid


def attend(control: socket.socket, deaths: int, server: int) -> None:
    """Pass on signals until the server has exited, or the gateway wants it killed."""
    while True:
        ready = wait(control.fileno(), deaths)
        if control.fileno() in ready:
            if not hear(control):
                return
            # The group exists: its leader is not yet reaped.
            with contextlib.suppress(OSError):
                os.killpg(server, signal.SIGTERM)
        if deaths in ready:
            dead, _ = reap()
            if server in dead:
                tell(control, f"exited {dead[server]}")
                return


def clear(
    deaths: int,
    *,
    control: socket.socket | None = None,
    server: int | None = None,
    patience: float = SWEEP_SECONDS,
) -> bool:
    """Reap until no child is left, killing every descendant once patience ends.

    True when something is left that even SIGKILL did not end in time.
    """
    now = time.monotonic()
    sweep_at, give_up_at = now + patience, now + patience + KILL_SECONDS_MAX
    while True:
        dead, left = reap()
        if control is not None and server in dead:
            tell(control, f"exited {dead[server]}")
        now = time.monotonic()
        if not left or now > give_up_at:
            return left
        if now >= sweep_at:
            sweep()
            sweep_at = now + SWEEP_SECONDS
        wait(deaths, seconds=sweep_at - now)


def become_server(order: Order, stdio: list[int], complaints: int) -> NoReturn:
    """Turn this forked copy into the server, or tell the keeper why that cannot be."""
    argv, env, cwd = order
    stage = "prepare"
    try:
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        close_all_but(complaints)
        # Python ignores SIGPIPE, the warden ignores SIGTERM, and ignoring survives exec.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = "cwd"
        if cwd is not None:
            os.chdir(cwd)
        stage = "command"
        execute(argv, env)
    except OSError as error:
        os.write(complaints, f"{stage} {error.errno}".encode())
    finally:
        os._exit(127)


def execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Exec the command, looked up on the server's own PATH. No shell is ever involved.

    Raises:
        OSError: the most telling failure of all places tried.
    """
    command = argv[0]
    path = env.get(b"PATH", os.fsencode(os.defpath))
    failure = OSError(errno.ENOENT, "not found")
    for folder in [b""] if b"/" in command else path.split(b":"):
        program = os.path.join(folder, command)
        try:
            os.execve(program, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            # The file is there, so it is the interpreter in its first line that is not.
            if os.path.exists(program):
                failure = OSError(errno.ENOEXEC, "no interpreter")
        except OSError as error:
            failure = error
    raise failure


def close_all_but(kept: int) -> None:
    # Not closerange: where Python lacks the system call it tries every number up to the
    # limit, and containers set that to a thousand million.
    for name in os.listdir("/dev/fd"):
        if (fd := int(name)) > 2 and fd != kept:
            with contextlib.suppress(OSError):  # The listing's own descriptor is gone by now.
                os.close(fd)


def read_order(control: socket.socket) -> Order | None:
    """The order, or None when the gateway hung up before it was complete."""
    header = read_exactly(control, _LENGTH.size)
    body = header and read_exactly(control, _LENGTH.unpack(header)[0])
    if not body:
        return None
    order: Order = marshal.loads(body)
    return order


def read_exactly(control: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        chunk = hear(control, length - len(received))
        if not chunk:
            return b""
        received += chunk
    return bytes(received)


def hear(control: socket.socket, length: int = 64) -> bytes:
    try:
        return control.recv(length)
    except ConnectionError:
        return b""


def tell(control: socket.socket, line: str) -> None:
    with contextlib.suppress(ConnectionError):  # Nobody is left to be told.
        control.sendall(f"{line}\n".encode())


def become_subreaper(name: bytes) -> None:
    """Adopt every descendant that loses its parent, and say in `ps` who we are."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
        libc.prctl(_PR_SET_NAME, name)


def watch_deaths() -> int:
    """A descriptor that becomes readable when a child dies: no timer, no wake-up while idle."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def wait(*fds: int, seconds: float | None = None) -> set[int]:
    """The descriptors that have something to say; the last one is that of `watch_deaths`."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(None if seconds is None else max(0, seconds) * 1000)}
    if fds[-1] in ready:
        os.read(fds[-1], 4096)
    return ready


def reap() -> tuple[dict[int, int], bool]:
    """Every child that has died, with its exit code, and whether any child is left."""
    dead: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return dead, False
        if pid == 0:
            return dead, True
        dead[pid] = os.waitstatus_to_exitcode(status)


def sweep(spare: Collection[int] = ()) -> None:
    """Kill every descendant, whatever its session, except those spared and theirs."""
    for pid in descendants(os.getpid(), spare):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def descendants(root: int, spare: Collection[int]) -> list[int]:
    """Everything below a process. Empty where there is no /proc: there only groups are killed."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                # `pid (name) state ppid …`, and the name may hold spaces and brackets.
                parent = int(stat.read().rpartition(b")")[2].split(None, 2)[1])
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = [pid for pid in children.get(queue.pop(), ()) if pid not in spare]
        found += below
        queue += below
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]))
