"""Reaper: owns the processes of stdio servers, so that none outlives its server or the gateway.

A program of its own, started as `python -I -S reaper.py FD`:

    gateway ── reaper ── keeper ── server ── the server's own children
                  └───── keeper ── server ── …

The reaper forks one keeper per server, and kills what a lost keeper leaves behind. A keeper forks
its server, reports how it ended, and kills the rest of its process tree. Both are subreapers: a
descendant that leaves its session or loses its parent is still theirs.

This file imports nothing of Anyport, and only what every keeper can afford to keep in memory. The
protocol between the processes:

    gateway → reaper    one byte, with four descriptors: stdin, stdout, stderr, control
    gateway → keeper    on control: `pack`ed argv, env and cwd; then TERMINATE. The end: kill all
    keeper → gateway    on control: lines `started PID`, `failed STAGE ERRNO`, `exited CODE`.
                        The end: the process tree is gone
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

TYPE_CHECKING = False  # Importing `typing` would cost a sixth of the reaper's memory.
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final, NoReturn, TypeAlias

SpawnRequest: TypeAlias = tuple[list[bytes], dict[bytes, bytes], bytes | None]
"""argv, environment and working directory, as bytes, so that nothing is encoded again."""

TERMINATE: Final = b"T"

SWEEP_SECONDS: Final = 0.02
"""Between searches for survivors: killing the process group is mostly enough, and a search
costs."""

KILL_SECONDS_MAX: Final = 5.0
"""A process that survives SIGKILL for this long hangs in the kernel; nothing waits for it."""

KEEPERS_SECONDS_MAX: Final = 2.0
"""For keepers to kill their process trees when the gateway is gone; then the reaper does it."""

DESCRIPTORS: Final = 4

_LENGTH: Final = struct.Struct("!I")
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36


def pack(request: SpawnRequest) -> bytes:
    body = marshal.dumps(request)
    return _LENGTH.pack(len(body)) + body


def main(gateway_fd: int) -> None:
    """Run as the reaper until the gateway closes its socket and the last keeper has exited."""
    gateway = socket.socket(fileno=gateway_fd)
    # A stop signal to the whole control group arrives here too, but the gateway decides when
    # servers stop, and may drain them first. The end of its socket says when it has gone.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper(b"anyport-warden")  # What `ps` calls the reaper; documented.
    exit_fd = watch_child_exits()
    gc.freeze()  # The collector would write to every page that keepers share with us.
    keepers: set[int] = set()
    while True:
        ready = wait_readable(gateway_fd, exit_fd)
        if exit_fd in ready:
            reap_keepers(keepers)
        if gateway_fd in ready and not start_keeper(gateway, keepers):
            break
    gateway.close()
    kill_tree(exit_fd, seconds=KEEPERS_SECONDS_MAX)


def start_keeper(gateway: socket.socket, keepers: set[int]) -> bool:
    """Fork a keeper for one request; False if the gateway has closed its socket."""
    try:
        message, fds, _, _ = socket.recv_fds(gateway, 1, DESCRIPTORS)
    except ConnectionError:
        return False
    if len(fds) == DESCRIPTORS:
        control = socket.socket(fileno=fds.pop())
        try:
            pid = os.fork()
        except OSError as error:
            send_line(control, f"failed fork {error.errno}")
        else:
            if pid == 0:
                gateway.close()
                run_keeper(control, fds)
            keepers.add(pid)
        control.close()
    for fd in fds:
        os.close(fd)
    return bool(message)


def reap_keepers(keepers: set[int]) -> None:
    """Reap keepers, and kill what those that did not finish have left behind."""
    dead, _ = reap()
    has_leftovers = any(code != 0 or pid not in keepers for pid, code in dead.items())
    keepers.difference_update(dead)
    if has_leftovers:
        kill_descendants(spare=keepers)


def run_keeper(control: socket.socket, stdio: list[int]) -> NoReturn:
    """Run as the keeper of one server, from its start until its process tree is gone."""
    left = True
    try:
        become_subreaper(b"anyport-keeper")
        exit_fd = watch_child_exits()
        server = start_server(control, stdio)
        for fd in stdio:
            os.close(fd)
        if server is not None:
            supervise_server(control, exit_fd, server)
            with contextlib.suppress(OSError):
                os.killpg(server, signal.SIGKILL)
        left = kill_tree(exit_fd, control=control, server=server)
    except BaseException:  # noqa: BLE001 - a forked copy must never return to the loop of the reaper.
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1 if left else 0)


def start_server(control: socket.socket, stdio: list[int]) -> int | None:
    """Read the request and fork the server; None if it could not be started."""
    request = read_spawn_request(control)
    if request is None:
        return None
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        send_line(control, f"failed fork {error.errno}")
        return None
    if pid == 0:
        become_server(request, stdio, writer)
    os.close(writer)
    message = os.read(reader, 64)  # Empty if exec has closed the pipe.
    os.close(reader)
    if message:
        send_line(control, f"failed {message.decode()}")
        return None
    send_line(control, f"started {pid}")
    return pid


def supervise_server(control: socket.socket, exit_fd: int, server: int) -> None:
    """Pass on SIGTERM until the server has exited, or the gateway wants it killed."""
    while True:
        ready = wait_readable(control.fileno(), exit_fd)
        if control.fileno() in ready:
            if not receive(control):
                return
            # The group exists: its leader is not yet reaped.
            with contextlib.suppress(OSError):
                os.killpg(server, signal.SIGTERM)
        if exit_fd in ready:
            dead, _ = reap()
            if server in dead:
                send_line(control, f"exited {dead[server]}")
                return


def kill_tree(
    exit_fd: int,
    *,
    control: socket.socket | None = None,
    server: int | None = None,
    seconds: float = SWEEP_SECONDS,
) -> bool:
    """Reap until no child is left; after `seconds` kill every descendant.

    True if something survives even SIGKILL.
    """
    now = time.monotonic()
    sweep_at, give_up_at = now + seconds, now + seconds + KILL_SECONDS_MAX
    while True:
        dead, left = reap()
        if control is not None and server in dead:
            send_line(control, f"exited {dead[server]}")
        now = time.monotonic()
        if not left or now > give_up_at:
            return left
        if now >= sweep_at:
            kill_descendants()
            sweep_at = now + SWEEP_SECONDS
        wait_readable(exit_fd, seconds=sweep_at - now)


def become_server(request: SpawnRequest, stdio: list[int], error_fd: int) -> NoReturn:
    """Turn this forked copy into the server, or tell the keeper why that failed."""
    argv, env, cwd = request
    stage = "prepare"
    try:
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        close_all_but(error_fd)
        # Python ignores SIGPIPE, the reaper ignores SIGTERM, and ignoring survives exec.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage = "cwd"
        if cwd is not None:
            os.chdir(cwd)
        stage = "command"
        execute(argv, env)
    except OSError as error:
        os.write(error_fd, f"{stage} {error.errno}".encode())
    finally:
        os._exit(127)


def execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Execute the command, looked up on the server's own PATH. No shell is involved.

    Raises:
        OSError: the most telling failure of all directories tried.
    """
    command = argv[0]
    path = env.get(b"PATH", os.fsencode(os.defpath))
    failure = OSError(errno.ENOENT, "not found")
    for folder in [b""] if b"/" in command else path.split(b":"):
        program = os.path.join(folder, command)
        try:
            os.execve(program, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            # The file exists, so its interpreter is missing.
            if os.path.exists(program):
                failure = OSError(errno.ENOEXEC, "no interpreter")
        except OSError as error:
            failure = error
    raise failure


def close_all_but(kept: int) -> None:
    # Not closerange: where Python lacks the system call it tries every number up to the limit,
    # which containers set to a thousand million.
    for name in os.listdir("/dev/fd"):
        if (fd := int(name)) > 2 and fd != kept:
            with contextlib.suppress(OSError):  # The listing's own descriptor is closed by now.
                os.close(fd)


def read_spawn_request(control: socket.socket) -> SpawnRequest | None:
    """The request, or None if the gateway closed its socket before it was complete."""
    header = read_exactly(control, _LENGTH.size)
    body = header and read_exactly(control, _LENGTH.unpack(header)[0])
    if not body:
        return None
    request: SpawnRequest = marshal.loads(body)
    return request


def read_exactly(control: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        chunk = receive(control, length - len(received))
        if not chunk:
            return b""
        received += chunk
    return bytes(received)


def receive(control: socket.socket, length: int = 64) -> bytes:
    try:
        return control.recv(length)
    except ConnectionError:
        return b""


def send_line(control: socket.socket, line: str) -> None:
    with contextlib.suppress(ConnectionError):  # The gateway is gone.
        control.sendall(f"{line}\n".encode())


def become_subreaper(name: bytes) -> None:
    """Adopt every descendant that loses its parent, and set the name shown by `ps`."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
        libc.prctl(_PR_SET_NAME, name)


def watch_child_exits() -> int:
    """A descriptor that becomes readable when a child exits: no timer, no wake-up while idle."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def wait_readable(*fds: int, seconds: float | None = None) -> set[int]:
    """The descriptors that are readable; the last one is that of `watch_child_exits`."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(None if seconds is None else max(0, seconds) * 1000)}
    if fds[-1] in ready:
        os.read(fds[-1], 4096)
    return ready


def reap() -> tuple[dict[int, int], bool]:
    """The exit codes of children that have exited, and whether any child is left."""
    dead: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return dead, False
        if pid == 0:
            return dead, True
        dead[pid] = os.waitstatus_to_exitcode(status)


def kill_descendants(spare: Collection[int] = ()) -> None:
    """Kill every descendant in any session, except those spared and their own."""
    for pid in descendants(os.getpid(), spare):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def descendants(root: int, spare: Collection[int]) -> list[int]:
    """Every process below another. Empty without /proc: there, only process groups are killed."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                # `pid (name) state ppid …`; the name may hold spaces and brackets.
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
