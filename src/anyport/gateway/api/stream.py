"""The journal as it is written, for one who follows it over HTTP.

A follower that reads too slowly misses events and is told how many; the gateway neither waits
for it nor keeps more for it than a limit.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from anyport.gateway.api.hearing import Choose
from anyport.record.journal import Journal

WAITING_BYTES_MAX: Final = 256 * 1024
"""Events that wait for a follower; some five hundred."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""Silence after which a comment is sent, so that nothing between takes the stream for dead."""

GATHER_SECONDS: Final = 0.02
"""What happens within it goes out at once: nobody sees the difference, and at a thousand events a
second each follower costs a twentieth."""

OPENING: Final = b"retry: 2000\n\n"
KEEP_ALIVE: Final = b": still here\n\n"


class Follower:
    """One who follows the events from now on, until closed."""

    def __init__(
        self,
        journal: Journal,
        choose: Choose | None = None,
        *,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        """Start to listen; to everything, or to what is chosen.

        Raises:
            ValueError: too many do already.
        """
        self._choose = choose
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._lost = 0
        self._news = asyncio.Event()
        self._keep_alive_seconds = keep_alive_seconds
        self.close = journal.subscribe(self._hear)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The stream, without end."""
        yield OPENING
        while True:
            try:
                async with asyncio.timeout(self._keep_alive_seconds):
                    await self._news.wait()
            except TimeoutError:
                yield KEEP_ALIVE
                continue
            await asyncio.sleep(GATHER_SECONDS)
            yield self._take()

    def _hear(self, line: bytes) -> None:
        chosen = line if self._choose is None else self._choose(line)
        if chosen is not None:
            self._keep(chosen)

    def _keep(self, line: bytes) -> None:
        if self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
            self._lost += 1
        else:
            self._waiting.append(line)
            self._waiting_bytes += len(line)
        self._news.set()

    def _take(self) -> bytes:
        # A line has no line breaks of any kind in it: the journal escapes them.
        piece = b"".join([b"data: %b\n\n" % line for line in self._waiting])
        if self._lost:
            piece += b'event: lost\ndata: {"lost":%d}\n\n' % self._lost
        self._waiting.clear()
        self._waiting_bytes = 0
        self._lost = 0
        self._news.clear()
        return piece
