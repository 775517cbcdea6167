"""Server-sent events of the journal, for clients that follow it over HTTP.

A follower that reads too slowly loses events, and gets their number. The number of followers is
limited, in all and per principal; the oldest is closed to make room for a new one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeAlias

import msgspec

from anyport.record.filter.ast import Filter
from anyport.record.filter.match import compile_filter
from anyport.record.journal.journal import Journal
from anyport.record.redact.escape import escape_line
from anyport.record.traffic import row_of

SelectLine: TypeAlias = Callable[[bytes], bytes | None]
"""Turns a line of the journal into what a follower gets; None for nothing."""


class LineSelector:
    """Selects lines for all followers: each line is decoded once, and rendered as a row once."""

    def __init__(self) -> None:
        self._line = b""
        self._event: dict[str, Any] = {}
        self._row: bytes | None = None

    def select_events(self, filter: Filter) -> SelectLine:
        """Selects events that match a filter."""
        matches = compile_filter(filter)

        def select_line(line: bytes) -> bytes | None:
            self._decode_line(line)
            return line if matches(self._event) else None

        return select_line

    def select_rows(self, filter: Filter) -> SelectLine:
        """Selects rows of traffic whose events match a filter."""
        matches = compile_filter(filter)

        def select_line(line: bytes) -> bytes | None:
            self._decode_line(line)
            if not matches(self._event):
                return None
            if self._row is None:
                row = row_of(self._event)
                self._row = b"" if row is None else escape_line(msgspec.json.encode(row))
            return self._row or None

        return select_line

    def _decode_line(self, line: bytes) -> None:
        if line is not self._line:
            self._line = line
            self._event = msgspec.json.decode(line)
            self._row = None


WAITING_BYTES_MAX: Final = 256 * 1024
"""Unsent events of one follower: about five hundred."""

FOLLOWERS_MAX: Final = 60
"""Followers in all; the journal's other listeners are the gateway's own."""
FOLLOWERS_OF_ONE_MAX: Final = 16
"""Followers per token."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""Silence after which a comment is sent, so that no proxy closes the stream."""

GATHER_SECONDS: Final = 0.02
"""Events within this interval are sent together; at a thousand events a second that divides the
cost of a follower by twenty."""

OPENING: Final = b"retry: 2000\n\n"
KEEP_ALIVE: Final = b": still here\n\n"


class Follower:
    """A client that follows the journal."""

    def __init__(
        self,
        journal: Journal,
        select_line: SelectLine | None = None,
        *,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        """Subscribe to the journal; without `select_line`, to every event.

        Raises:
            ValueError: the journal has too many listeners.
        """
        self._select_line = select_line
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._lost_count = 0
        self._is_over = False
        self._has_news = asyncio.Event()
        self._keep_alive_seconds = keep_alive_seconds
        self.close = journal.subscribe(self._on_line)

    async def stream(self) -> AsyncIterator[bytes]:
        """The body of the response, until `end` is called."""
        yield OPENING
        while not self._is_over:
            try:
                async with asyncio.timeout(self._keep_alive_seconds):
                    await self._has_news.wait()
            except TimeoutError:
                yield KEEP_ALIVE
                continue
            await asyncio.sleep(GATHER_SECONDS)
            if piece := self._take_pending():
                yield piece

    def end(self) -> None:
        """End the stream, to make room for another one."""
        self.close()
        self._is_over = True
        self._has_news.set()

    def _on_line(self, line: bytes) -> None:
        selected = line if self._select_line is None else self._select_line(line)
        if selected is not None:
            self._enqueue(selected)

    def _enqueue(self, line: bytes) -> None:
        if self._pending_bytes + len(line) > WAITING_BYTES_MAX:
            self._lost_count += 1
        else:
            self._pending.append(line)
            self._pending_bytes += len(line)
        self._has_news.set()

    def _take_pending(self) -> bytes:
        # A line holds no line break of any kind: the journal escapes them.
        piece = b"".join([b"data: %b\n\n" % line for line in self._pending])
        if self._lost_count:
            piece += b'event: lost\ndata: {"lost":%d}\n\n' % self._lost_count
        self._pending.clear()
        self._pending_bytes = 0
        self._lost_count = 0
        self._has_news.clear()
        return piece
