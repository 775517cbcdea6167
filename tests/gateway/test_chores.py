"""The tasks and timers of a gateway."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anyport.gateway.chores import Chores


def played(scene: Callable[[Chores], Coroutine[Any, Any, None]]) -> list[str]:
    """What was reported while a scene was played."""
    reported: list[str] = []

    async def whole() -> None:
        chores = Chores(lambda error: reported.append(str(error)))
        await chores.begin()
        await scene(chores)
        await chores.end()

    asyncio.run(whole())
    return reported


def test_the_end_waits_for_every_task() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    async def scene(chores: Chores) -> None:
        for number in range(3):
            chores.spawn(work(number), "work")

    assert played(scene) == []
    assert done == [0, 1, 2]


def test_one_that_breaks_is_reported_and_ends_alone() -> None:
    done: list[str] = []

    async def bad() -> None:
        raise ValueError("broken")

    async def good() -> None:
        await asyncio.sleep(0)
        done.append("good")

    async def scene(chores: Chores) -> None:
        chores.spawn(bad(), "bad")
        chores.spawn(good(), "good")

    assert played(scene) == ["broken"]
    assert done == ["good"]


def test_a_callback_that_breaks_is_reported() -> None:
    async def scene(chores: Chores) -> None:
        over = asyncio.Event()

        def act() -> None:
            over.set()
            raise ValueError("late")

        chores.later(0, act)
        await over.wait()

    assert played(scene) == ["late"]


def test_one_that_comes_after_the_end_is_left_undone() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    async def whole() -> None:
        chores = Chores(lambda error: None)
        await chores.begin()
        await chores.end()
        chores.spawn(work(), "too late")
        await asyncio.sleep(0)

    asyncio.run(whole())
    assert begun == []
