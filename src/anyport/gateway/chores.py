"""The tasks and timers of a gateway: they end before it does, and what they raise is reported.

One that breaks ends alone. What they do is known to whoever starts them.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Chores:
    """All that is under way beside the messages."""

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self._report = report
        self._group = asyncio.TaskGroup()

    async def begin(self) -> None:
        """From now on tasks can be started; what breaks in a callback of the loop is reported."""
        await self._group.__aenter__()
        asyncio.get_running_loop().set_exception_handler(self._unhandled)

    async def end(self) -> None:
        """Wait for the last of them."""
        # What ended the gateway is its caller's to see, not the group's, which would wrap it.
        await self._group.__aexit__(None, None, None)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task that ends before the gateway does; what it raises is reported."""
        guarded = self._guarded(work)
        try:
            self._group.create_task(guarded, name=name)
        except RuntimeError:  # A timer was late: the last task has ended, and so has the gateway.
            guarded.close()
            work.close()

    def later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        """Do something after some seconds."""
        return asyncio.get_running_loop().call_later(seconds, act)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - one task's fault must not end the others
            self._report(error)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What breaks in a callback of the loop; everything else goes on."""
        self._report(context.get("exception") or RuntimeError(str(context.get("message"))))
