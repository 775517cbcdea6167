"""SIGTERM and SIGINT: the first one lets open requests finish, the second stops at once."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from anyport.cli.exit_codes import FAILED, INTERRUPTED, SUCCESS

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Waits for a request to stop."""

    def __init__(self, stop_at_once: Callable[[int], None]) -> None:
        self._stop_at_once = stop_at_once
        """Takes the exit code."""
        self._stop_requested: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def listen(self) -> None:
        """Handle the signals, except those that the parent process set to be ignored."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(NotImplementedError):  # Windows does not support it.
                    loop.add_signal_handler(number, self.on_signal, number)

    def on_signal(self, number: signal.Signals) -> None:
        interrupted = number is signal.SIGINT
        if self._stop_requested.done():
            self._stop_at_once(INTERRUPTED if interrupted else FAILED)
        else:
            self._stop_requested.set_result(INTERRUPTED if interrupted else SUCCESS)

    def request_stop(self) -> None:
        """Request a stop without a signal."""
        if not self._stop_requested.done():
            self._stop_requested.set_result(SUCCESS)

    def add_stop_callback(self, callback: Callable[[], None]) -> None:
        """Call back at the first request to stop."""
        self._stop_requested.add_done_callback(lambda _: callback())

    async def wait_stop_requested(self) -> int:
        """Wait for a request to stop; the exit code to use after finishing."""
        return await asyncio.shield(self._stop_requested)
