"""What becomes of the processes, whoever is killed: server, keeper, reaper or gateway."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.upstream.stdio import process, reaper
from anyport.upstream.stdio.process import ChildProcess, ExitStatus, ProcessSpawner, SpawnFailed
from tests.upstream.processes import (
    TREE,
    TREE_SIZE,
    alive,
    children_of,
    command,
    descriptors_of,
    disown_children,
    eventually,
    marked,
    naps_of,
    new_mark,
    own_children,
    parent_of,
    python,
    read,
)

GATEWAY_KILLS = 5
"""Enough to see it fail, few enough to wait for: each takes half a second."""

GATEWAY_SERVERS = 10

CYCLES = 200

GATEWAY = """
import asyncio, os, sys
from anyport.upstream.stdio.process import Command, ProcessSpawner

async def serve(tree, mark, count):
    spawner = ProcessSpawner()
    command = Command(
        argv=(sys.executable, "-I", "-S", "-c", tree), env={"MARK": mark}, cwd=None
    )
    children = await asyncio.gather(*(spawner.spawn(command) for _ in range(int(count))))
    for child in children:
        os.set_blocking(child.stdout, True)
        os.read(child.stdout, 6)
    os.write(1, b"ready\\n")
    await asyncio.Event().wait()

asyncio.run(serve(*sys.argv[1:]))
"""


def play(scene: Callable[[ProcessSpawner], Coroutine[Any, Any, None]]) -> None:
    async def with_spawner() -> None:
        disown_children()
        spawner = ProcessSpawner()
        try:
            await scene(spawner)
        finally:
            await spawner.close()
        assert own_children() == {}

    asyncio.run(with_spawner())


async def grow_tree(spawner: ProcessSpawner, mark: str) -> ChildProcess:
    child = await spawner.spawn(python(TREE, mark=mark))
    assert await read(child.stdout) == b"ready\n"
    assert len(marked(mark)) == TREE_SIZE
    return child


async def echo(child: ChildProcess) -> None:
    os.write(child.stdin, b"hello\n")
    assert await read(child.stdout) == b"hello\n"


def test_a_tree_that_ignores_everything_is_gone_when_stop_returns() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        mark = new_mark()
        child = await grow_tree(spawner, mark)

        how = await child.stop(grace_seconds=0.01, terminate_seconds=0.01)

        assert how == ExitStatus(code=None, signal=signal.SIGKILL)
        assert marked(mark) == set()
        child.close()

    play(scene)


def test_what_a_server_leaves_running_ends_with_it() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        mark = new_mark()
        child = await grow_tree(spawner, mark)

        os.kill(child.pid, signal.SIGKILL)

        await child.wait()
        await eventually(lambda: not marked(mark))
        child.close()

    play(scene)


def test_a_descendant_that_keeps_forking_does_not_get_away() -> None:
    # It gives up by itself in the end: should this test be killed, nobody could catch it.
    runner = """
import os, time
os.setsid()
os.write(1, b"ready\\n")
until = time.monotonic() + 30
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
"""
    launcher = f"import os\nif os.fork():\n    os.read(0, 1)\nelse:\n    exec({runner!r})"

    async def scene(spawner: ProcessSpawner) -> None:
        mark = new_mark()
        child = await spawner.spawn(python(launcher, mark=mark))
        await read(child.stdout)

        await child.stop()

        assert marked(mark) == set()
        child.close()

    play(scene)


@pytest.mark.parametrize("_", range(GATEWAY_KILLS))
@pytest.mark.slow
def test_nothing_survives_the_kill_of_the_gateway(_: int) -> None:
    mark = new_mark()
    with subprocess.Popen(
        [sys.executable, "-c", GATEWAY, TREE, mark, str(GATEWAY_SERVERS)], stdout=subprocess.PIPE
    ) as gateway:
        assert gateway.stdout is not None
        assert gateway.stdout.readline() == b"ready\n"
        family = reaper.descendants(gateway.pid, ())
        assert len(family) == 1 + GATEWAY_SERVERS * (1 + TREE_SIZE)
        killed_at = time.monotonic()
        gateway.kill()

    asyncio.run(eventually(lambda: not marked(mark) and not any(map(alive, family))))
    assert time.monotonic() - killed_at < 20


def test_a_killed_keeper_takes_its_server_along() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        mark = new_mark()
        neighbour = await spawner.spawn(command("cat"))
        child = await grow_tree(spawner, mark)

        os.kill(parent_of(child.pid), signal.SIGKILL)

        assert await child.wait() == ExitStatus(code=None, signal=signal.SIGKILL)
        await eventually(lambda: not marked(mark))
        await echo(neighbour)
        for each in (child, neighbour):
            await each.stop()
            each.close()

    play(scene)


def test_a_killed_reaper_is_replaced_and_its_servers_run_on() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        mark = new_mark()
        old, tree = await spawner.spawn(command("cat")), await grow_tree(spawner, mark)
        (first,) = own_children()

        os.kill(first, signal.SIGKILL)
        await eventually(lambda: first not in own_children())
        new = await spawner.spawn(command("cat"))

        await echo(old)
        await echo(new)
        await tree.stop(grace_seconds=0, terminate_seconds=0)
        assert marked(mark) == set()
        for child in (old, new, tree):
            await child.stop()
            child.close()

    play(scene)


def test_a_reaper_that_is_killed_during_a_start_fails_that_start_alone() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("cat"))
        (first,) = own_children()
        os.kill(first, signal.SIGSTOP)
        starts = asyncio.gather(spawner.spawn(command("cat")), return_exceptions=True)
        await asyncio.sleep(0)

        os.kill(first, signal.SIGKILL)

        (failure,) = await starts
        assert isinstance(failure, SpawnFailed)
        await echo(child)
        await echo(await spawner.spawn(command("cat")))

    play(scene)


def test_with_reaper_and_keeper_killed_the_group_is_still_ended() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("sleep", "1000"))
        (first,) = own_children()

        os.kill(first, signal.SIGKILL)
        os.kill(parent_of(child.pid), signal.SIGKILL)

        assert await child.wait() == ExitStatus(code=None, signal=signal.SIGKILL)
        await eventually(lambda: not alive(child.pid))
        child.close()

    play(scene)


@pytest.mark.slow
def test_a_keeper_that_is_stuck_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        mark = new_mark()
        child = await grow_tree(spawner, mark)
        os.kill(parent_of(child.pid), signal.SIGSTOP)
        monkeypatch.setattr(process, "KEEPER_GONE_SECONDS_MAX", 0.01)

        how = await child.stop(grace_seconds=0, terminate_seconds=0)

        assert how == ExitStatus(code=None, signal=signal.SIGKILL)
        monkeypatch.undo()
        await spawner.close()
        assert marked(mark) == set()
        child.close()

    play(scene)


def test_stop_signals_for_the_whole_group_leave_the_keeping_to_the_gateway() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("cat"))
        (first,) = own_children()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(first, number)
            os.kill(parent_of(child.pid), number)

        await echo(child)
        await echo(await spawner.spawn(command("cat")))
        child.close()

    play(scene)


def test_nobody_wakes_up_while_nothing_happens() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child, neighbour = await spawner.spawn(command("cat")), await spawner.spawn(command("cat"))
        (first,) = own_children()
        watched = (first, parent_of(child.pid), parent_of(neighbour.pid))
        # All sleep once the last exec is told; from here on they have nothing to do.
        await eventually(lambda: all(children_of(parent_of(pid))[pid] == b"S" for pid in watched))
        naps = [naps_of(pid) for pid in watched]

        for _ in range(200):
            await echo(child)

        assert [naps_of(pid) for pid in watched] == naps
        child.close()
        neighbour.close()

    play(scene)


@pytest.mark.slow
def test_many_starts_and_stops_leave_nothing() -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        async def cycle() -> None:
            child = await spawner.spawn(command("sh", "-c", "sleep 1000 & cat"))
            await child.stop()
            child.close()

        await cycle()
        (first,) = own_children()
        before = [descriptors_of(os.getpid()), descriptors_of(first)]

        for _ in range(CYCLES):
            await cycle()

        await eventually(lambda: children_of(first) == {})
        assert [*own_children()] == [first]
        assert [descriptors_of(os.getpid()), descriptors_of(first)] == before

    play(scene)


def test_a_fork_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(errno.EAGAIN, "no more")

    monkeypatch.setattr(os, "fork", refuse)
    gateway, link = socket.socketpair()
    control, far_control = socket.socketpair()
    with gateway, link, control:
        socket.send_fds(gateway, [b"+"], [far_control.fileno()] * reaper.DESCRIPTORS)
        far_control.close()

        assert reaper.start_keeper(link, set())

        assert control.recv(64) == b"failed fork %d\n" % errno.EAGAIN
        assert control.recv(64) == b""


def test_a_request_without_its_descriptors_is_dropped() -> None:
    gateway, link = socket.socketpair()
    with link:
        with gateway:
            gateway.send(b"+")
            assert reaper.start_keeper(link, set())
        assert not reaper.start_keeper(link, set())
