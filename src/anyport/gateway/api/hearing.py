"""What of the journal each follower gets: the events that match a filter, or the rows they make.

However many follow, a line is decoded once, and becomes a row once. Knows no streams.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from anyport.record.filter_tree import Filter
from anyport.record.matching import matcher
from anyport.record.row import row_of
from anyport.record.text import escape_line

Choose: TypeAlias = Callable[[bytes], bytes | None]
"""What a follower gets for a line of the journal; None for nothing."""


class Hearing:
    """Remembers what the last line says, for the next who asks about the same one."""

    def __init__(self) -> None:
        self._line = b""
        self._event: dict[str, Any] = {}
        self._row: bytes | None = None

    def events(self, filter: Filter) -> Choose:
        """Events that match, as they are."""
        matches = matcher(filter)

        def choose(line: bytes) -> bytes | None:
            self._hear(line)
            return line if matches(self._event) else None

        return choose

    def rows(self, filter: Filter) -> Choose:
        """Rows of the traffic whose events match."""
        matches = matcher(filter)

        def choose(line: bytes) -> bytes | None:
            self._hear(line)
            if not matches(self._event):
                return None
            if self._row is None:
                row = row_of(self._event)
                self._row = b"" if row is None else escape_line(msgspec.json.encode(row))
            return self._row or None

        return choose

    def _hear(self, line: bytes) -> None:
        if line is not self._line:
            self._line = line
            self._event = msgspec.json.decode(line)
            self._row = None
