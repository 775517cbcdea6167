"""Real processes for tests: servers that misbehave, and what /proc says about them."""

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from anyport.upstream.stdio.process import ChildProcess, Command

DEADLINE_SECONDS = 60.0
"""For things that take milliseconds; only a broken build waits this long."""

TREE = """
import os, signal

def stay():
    while True:
        signal.pause()

signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    stay()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
os.wait()
os.write(1, b"ready\\n")
stay()
"""
"""A server that ignores everything, its child, and a grandchild in a session of its own."""

TREE_SIZE = 3


def new_mark() -> str:
    return f"mark-{uuid.uuid4()}"


def command(*argv: str, mark: str = "", **env: str) -> Command:
    return Command(argv=argv, env={"PATH": os.environ["PATH"], "MARK": mark, **env}, cwd=None)


def python(source: str, *arguments: str, mark: str = "") -> Command:
    return command(sys.executable, "-I", "-S", "-c", source, *arguments, mark=mark)


def marked(mark: str) -> set[int]:
    """Every process, in whatever session, that has the mark in its environment."""
    return {pid for pid in _pids() if mark.encode() in _read(pid, "environ")}


def alive(pid: int) -> bool:
    return _fields(pid)[:1] not in ([], [b"Z"])


def parent_of(pid: int) -> int:
    return int(_fields(pid)[1])


def group_and_session_of(pid: int) -> tuple[int, int]:
    return int(_fields(pid)[2]), int(_fields(pid)[3])


_others: set[int] = set()
"""Children of this process that are not the present test's: those of longer-lived fixtures."""


def disown_children() -> None:
    """From now on only what is started later counts as a child of this test."""
    _others.clear()
    _others.update(children_of(os.getpid()))


def own_children() -> dict[int, bytes]:
    """The children that this test has, with their states."""
    return {pid: state for pid, state in children_of(os.getpid()).items() if pid not in _others}


def children_of(pid: int) -> dict[int, bytes]:
    """The children of a process with their states; zombies have `Z`.

    Other tests of the same worker may have left it the tracker that `multiprocessing` keeps.
    """
    states = {
        child: _fields(child)
        for child in _pids()
        if b"multiprocessing" not in _read(child, "cmdline")
    }
    return {child: state[0] for child, state in states.items() if state[1:2] == [b"%d" % pid]}


def descriptors_of(pid: int) -> set[int]:
    return {
        int(name)
        for name in os.listdir(f"/proc/{pid}/fd")
        if os.path.lexists(f"/proc/{pid}/fd/{name}")
    }


def naps_of(pid: int) -> int:
    """How often a process has gone to sleep, and so how often it was woken."""
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"voluntary_ctxt_switches"):
            return int(line.split()[1])
    raise AssertionError("the kernel does not count")


async def eventually(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, "it never came to be"
        await asyncio.sleep(0.005)


async def read(fd: int, until: bytes | None = b"\n") -> bytes:
    """What a pipe says, up to a mark or to its end."""
    loop = asyncio.get_running_loop()
    said = bytearray()
    done = asyncio.Event()

    def more() -> None:
        chunk = os.read(fd, 1 << 20)
        said.extend(chunk)
        if not chunk or (until is not None and said.endswith(until)):
            done.set()

    loop.add_reader(fd, more)
    try:
        await asyncio.wait_for(done.wait(), DEADLINE_SECONDS)
    finally:
        loop.remove_reader(fd)
    return bytes(said)


async def output_of(child: ChildProcess) -> bytes:
    """All that a server writes to stdout until it ends; then it is put away."""
    said = await read(child.stdout, until=None)
    await child.stop()
    child.close()
    return said


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _fields(pid: int) -> list[bytes]:
    """State, parent, group, session and so on; nothing when there is no such process."""
    return _read(pid, "stat").rpartition(b") ")[2].split()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
