"""The clock of a gateway: its timers and background tasks."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anyport.clock import Clock, boottime, describe_error


def errors_of(scene: Callable[[Clock], Coroutine[Any, Any, None]]) -> list[str]:
    """What is reported while something runs by a clock."""
    reported: list[str] = []

    async def whole() -> None:
        clock = Clock(lambda error: reported.append(str(error)))
        await clock.start()
        await scene(clock)
        await clock.stop()

    asyncio.run(whole())
    return reported


def test_the_end_waits_for_every_task() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    async def scene(clock: Clock) -> None:
        for number in range(3):
            clock.spawn(work(number), "work")

    assert errors_of(scene) == []
    assert done == [0, 1, 2]


def test_one_that_breaks_is_reported_and_ends_alone() -> None:
    done: list[str] = []

    async def bad() -> None:
        raise ValueError("broken")

    async def good() -> None:
        await asyncio.sleep(0)
        done.append("good")

    async def scene(clock: Clock) -> None:
        clock.spawn(bad(), "bad")
        clock.spawn(good(), "good")

    assert errors_of(scene) == ["broken"]
    assert done == ["good"]


def test_a_callback_that_breaks_is_reported() -> None:
    async def scene(clock: Clock) -> None:
        over = asyncio.Event()

        def act() -> None:
            over.set()
            raise ValueError("late")

        clock.later(0, act)
        await over.wait()

    assert errors_of(scene) == ["late"]


def test_one_that_comes_after_the_end_is_left_undone() -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    async def whole() -> None:
        clock = Clock(lambda error: None)
        await clock.start()
        await clock.stop()
        clock.spawn(work(), "too late")
        await asyncio.sleep(0)

    asyncio.run(whole())
    assert begun == []


def test_an_error_is_described_by_its_type_text_and_function_without_a_trace() -> None:
    def careless() -> None:
        raise KeyError("lost")

    try:
        careless()
    except KeyError as error:
        text = describe_error(error)

    assert text.startswith("KeyError: 'lost' (")
    assert text.endswith("careless)")
    assert "\n" not in text


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert describe_error(ValueError("x")) == "ValueError: x"


def test_the_boot_time_clock_does_not_depend_on_the_time_of_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = boottime()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= boottime() - before < 60


def test_steady_time_begins_with_the_time_of_day_and_never_jumps() -> None:
    class SetClock(Clock):
        time_of_day, booted = 1_000_000.0, 500.0

        def now(self) -> float:
            return self.time_of_day

        def boottime(self) -> float:
            return self.booted

    clock = SetClock(lambda error: None)
    assert clock.steady_now() == 1_000_000.0
    clock.time_of_day += 86400
    clock.booted += 5
    assert clock.steady_now() == 1_000_005.0
