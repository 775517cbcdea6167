"""Time, timers, background tasks and randomness: what a test or a simulation replaces.

One `Clock` serves a whole gateway. Its tasks end before the gateway does, and what one of them
raises is reported and ends that task alone.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any


def boottime() -> float:
    """Seconds since some moment; never jumps, and counts suspension where the system can."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Clock:
    """The time of day, a monotonic clock, timers, background tasks and random numbers."""

    def __init__(self, report_error: Callable[[BaseException], None]) -> None:
        self.report_error = report_error
        """Takes an error that should not have happened, for the operator."""
        self._group = asyncio.TaskGroup()
        self._start_offset = self.now() - self.boottime()

    # The system's functions themselves, not methods that call them: a call on the fast path asks
    # five times.

    now: Callable[..., float] = staticmethod(time.time)
    """The time of day, in seconds since 1970; it can be set, and then jumps."""
    monotonic: Callable[..., float] = staticmethod(time.monotonic)
    """Seconds since some moment; never jumps."""

    def boottime(self) -> float:
        """Like `monotonic`, but it also runs while the machine is suspended."""
        return boottime()

    def steady_now(self) -> float:
        """The time of day as set when the gateway started; never jumps."""
        return self.boottime() + self._start_offset

    def thread_time(self) -> float:
        """Processor time that this thread has used, in seconds."""
        return time.thread_time()

    def random(self) -> float:
        """A number from 0 to 1, for jitter; not for secrets."""
        return random.random()

    def random_bytes(self, size: int) -> bytes:
        """Random bytes that are good enough for keys."""
        return os.urandom(size)

    def later(self, seconds: float, act: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `act` after some seconds."""
        return asyncio.get_running_loop().call_later(seconds, act)

    def soon(self, act: Callable[[], object]) -> asyncio.Handle:
        """Call `act` in the next turn of the event loop."""
        return asyncio.get_running_loop().call_soon(act)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task that ends before the gateway does."""
        guarded = self._run_reported(work)
        try:
            self._group.create_task(guarded, name=name)
        except RuntimeError:  # A timer was late: the group is closed, and so is the gateway.
            guarded.close()
            work.close()

    async def start(self) -> None:
        """Open the task group, and report what breaks in a callback of the event loop."""
        await self._group.__aenter__()
        asyncio.get_running_loop().set_exception_handler(self._on_unhandled)

    async def stop(self) -> None:
        """Wait for the last task."""
        # What ended the gateway is for its caller, not for the group, which would wrap it.
        await self._group.__aexit__(None, None, None)

    async def _run_reported(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - one task's fault must not end the others
            self.report_error(error)

    def _on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.report_error(context.get("exception") or RuntimeError(str(context.get("message"))))


def describe_error(error: BaseException) -> str:
    """One line for the operator: what broke, and in which function. No stack trace."""
    text = f"{type(error).__name__}: {error}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return text if trace is None else f"{text} ({trace.tb_frame.f_code.co_qualname})"
