"""Lines of the journal, read from its files where the index says that they stand.

A file may have been removed since the index looked, or have got a number; a line that is not
there any more is none. Lines are given as they were noted, without their places in the chain.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from anyport.record.chain import without_link
from anyport.record.intake import PLACE_BITS, Found, Known
from anyport.record.reading import event_in
from anyport.record.segments import segments

_OFFSET_MASK = (1 << PLACE_BITS) - 1


class Lines:
    """Reads lines for the time of one question."""

    def __init__(self, events_dir: Path, files: Mapping[int, Known]) -> None:
        self._events_dir = events_dir
        self._files = files
        self._open: dict[int, int | None] = {}
        self.bytes_read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for fd in self._open.values():
            if fd is not None:
                os.close(fd)

    def read(self, place: int, length: int) -> bytes | None:
        """The event of the line at a place; None if it is gone."""
        number = place >> PLACE_BITS
        if number not in self._open:
            self._open[number] = self._opened(number)
        fd = self._open[number]
        if fd is None:
            return None
        line = os.pread(fd, length, place & _OFFSET_MASK)
        self.bytes_read += length
        event = event_in(line)
        return None if event is None else without_link(event)

    def _opened(self, number: int) -> int | None:
        known = self._files.get(number)
        if known is None:
            return None
        for path in (self._events_dir / known.path, *segments(self._events_dir)):
            with suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if Found(path, fd).is_same(known):
                    return fd
                os.close(fd)
        return None
