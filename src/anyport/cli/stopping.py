"""What asks a gateway that serves to stop: a signal to finish, a second one to stop at once.

Knows nothing of what there is to finish.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from anyport.cli.ending import FAILED, GOOD, INTERRUPTED

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Counts the signals that ask us to stop."""

    def __init__(self, at_once: Callable[[int], None]) -> None:
        self._at_once = at_once
        """Takes the exit code of a gateway that had no time to finish."""
        self._first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def listen(self) -> None:
        """Take the signals, but for those that whoever started us wants ignored."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(NotImplementedError):  # Windows has no such signals to speak of.
                    loop.add_signal_handler(number, self.take, number)

    def take(self, number: signal.Signals) -> None:
        """One signal has come."""
        interrupted = number is signal.SIGINT
        if self._first.done():
            self._at_once(INTERRUPTED if interrupted else FAILED)
        else:
            self._first.set_result(INTERRUPTED if interrupted else GOOD)

    def ask(self) -> None:
        """Something else than a signal asks us to finish, and does not count as one."""
        if not self._first.done():
            self._first.set_result(GOOD)

    def when_asked(self, act: Callable[[], None]) -> None:
        """Do something as soon as we are asked to finish."""
        self._first.add_done_callback(lambda _: act())

    async def wait_asked(self) -> int:
        """Wait until we are asked to finish; the exit code once everything is finished."""
        return await asyncio.shield(self._first)
