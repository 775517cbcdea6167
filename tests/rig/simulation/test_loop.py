"""The simulated loop keeps what asyncio promises, and tells when nothing or everything happens."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from tests.rig.simulation.loop import BEGINNING, Endless, SimLoop, Spinning, Stuck
from tests.rig.simulation.network import Mark, NetworkConditions, Wire
from tests.rig.simulation.ordered_sets import Ordered

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T], loop: SimLoop | None = None) -> _T:
    loop = loop or SimLoop(random.Random(1))
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_down()
        loop.close()


def test_time_passes_only_when_nothing_else_can_happen() -> None:
    async def scene() -> list[float]:
        loop = asyncio.get_running_loop()
        seen = [loop.time()]
        for _ in range(100):
            await asyncio.sleep(0)
        seen.append(loop.time())
        await asyncio.sleep(1800)
        return [*seen, loop.time()]

    assert run(scene()) == [BEGINNING, BEGINNING, BEGINNING + 1800]


def test_a_deadline_comes_when_it_is_due() -> None:
    async def scene() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time() - BEGINNING

    assert run(scene()) == 60


def test_what_would_run_in_a_thread_is_a_step_of_the_loop() -> None:
    async def scene() -> tuple[int, str]:
        with pytest.raises(ValueError, match="no good"):
            await asyncio.to_thread(int, "no good")
        return await asyncio.to_thread(int, "7"), "done"

    assert run(scene()) == (7, "done")


def test_somebody_who_waits_for_nothing_is_noticed() -> None:
    async def scene() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        run(scene())


def test_a_loop_that_spins_is_noticed() -> None:
    async def scene() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Spinning):
        run(scene())


def test_what_goes_on_for_ever_is_noticed() -> None:
    async def scene() -> None:
        while True:
            await asyncio.sleep(3600)

    with pytest.raises(Endless):
        run(scene())


def test_a_descriptor_is_told_of_for_as_long_as_it_is_ready_and_watched() -> None:
    async def scene() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        told: list[str] = []
        loop.add_reader(5, told.append, "five")
        await asyncio.sleep(1)
        assert told == []
        loop.ready_fds[5, False] = None
        while len(told) < 3:
            await asyncio.sleep(0)
        loop.remove_reader(5)
        await asyncio.sleep(1)
        return told

    assert run(scene()) == ["five"] * 3


def test_a_wire_keeps_the_order_and_nothing_else() -> None:
    async def scene() -> list[bytes | Mark]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        came: list[bytes | Mark] = []
        storm = NetworkConditions(
            latency_seconds=1.0, cut_share=1.0, stall_share=0.5, stall_seconds=5.0
        )
        wire = Wire(loop, random.Random(3), storm, came.append)
        for number in range(10):
            wire.send(b"<%03d>" % number)
        wire.send(Mark.END)
        await asyncio.sleep(100)
        return came

    came = run(scene())
    assert came.pop() is Mark.END
    assert b"".join(piece for piece in came if isinstance(piece, bytes)) == b"".join(
        b"<%03d>" % number for number in range(10)
    )
    assert len(came) > 10


def test_ordered_sets_are_sets() -> None:
    mine = Ordered("cab")
    mine |= {"d"}
    mine.discard("a")
    mine.difference_update("z", "b")
    assert list(mine.union("x")) == ["c", "d", "x"]
    assert mine - {"c"} == {"d"}
