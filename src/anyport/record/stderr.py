"""The last words of a server: a bounded memory of what it wrote to its standard error.

Pure: bytes go in as they come, lines come out. It never grows beyond its limits, whatever is
fed, and it does not know what a line means (stderr is free text and no sign of an error).
Redaction costs more than all the rest, so it is done to what is shown, not to what is kept.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from anyport.record.armour import Armour
from anyport.record.text import escape_line, printable

KEPT_BYTES_MAX: Final = 64 * 1024
"""Enough for a stack trace and what led to it."""

KEPT_LINES_MAX: Final = 2000
"""Bounds what very short lines cost beside their text."""

LINE_BYTES_MAX: Final = 8 * 1024
"""A longer line is cut into pieces of this size: a server that never ends a line is heard too."""


class StderrRing:
    """Keeps the last lines; blank ones are not kept."""

    def __init__(self, *, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._lines: deque[str] = deque()
        self._sizes: deque[int] = deque()
        self._kept_bytes = 0
        self._partial = b""
        self._armour = Armour()
        self.byte_count = 0
        """All that was ever fed."""
        self.line_count = 0
        """Lines ever completed, the dropped ones included."""
        self.cut_count = 0
        """How often a line was too long and was cut."""

    def feed(self, chunk: bytes) -> list[str]:
        """Take bytes as they were read; returns the lines they complete, not redacted.

        Of a flood hardly anything is ever shown; whoever passes a line on redacts it.
        """
        self.byte_count += len(chunk)
        *whole, self._partial = (self._partial + chunk).split(b"\n")
        lines = [line for raw in whole for line in self._kept(raw)]
        if len(self._partial) > LINE_BYTES_MAX:
            done = (len(self._partial) - 1) // LINE_BYTES_MAX * LINE_BYTES_MAX
            lines += self._kept(self._partial[:done])
            self.cut_count += 1  # Between what is done and what may still grow.
            self._partial = self._partial[done:]
        return lines

    def end(self) -> list[str]:
        """The stream has ended; a last line without a newline is complete now, as in `feed`."""
        raw, self._partial = self._partial, b""
        return self._kept(raw) if raw else []

    @property
    def last_line(self) -> str | None:
        """The newest text, even of a line that has not ended yet."""
        if (unfinished := _text(self._partial)) and not self._armour.is_open:
            return self._redact(unfinished)
        return self._redact(self._lines[-1]) if self._lines else None

    def lines(self) -> list[str]:
        """What is kept, oldest first."""
        return [self._redact(line) for line in self._lines]

    def _kept(self, raw: bytes) -> list[str]:
        pieces = [raw[at : at + LINE_BYTES_MAX] for at in range(0, len(raw), LINE_BYTES_MAX)]
        self.line_count += max(len(pieces), 1)
        self.cut_count += max(len(pieces) - 1, 0)
        shown = [self._armour(line) for piece in pieces if (line := _text(piece))]
        for line in shown:
            self._keep(line)
        return shown

    def _keep(self, line: str) -> None:
        size = len(line.encode())
        self._lines.append(line)
        self._sizes.append(size)
        self._kept_bytes += size
        while self._kept_bytes > KEPT_BYTES_MAX or len(self._lines) > KEPT_LINES_MAX:
            self._lines.popleft()
            self._kept_bytes -= self._sizes.popleft()


def stderr_notification(line: str) -> bytes:
    """A line as a frame for the record of traffic. It is no MCP method and is never sent."""
    return escape_line(
        msgspec.json.encode(
            {"jsonrpc": "2.0", "method": "notifications/stderr", "params": {"content": line}}
        )
    )


def _text(raw: bytes) -> str:
    """What a terminal would show of a line: where a progress bar went back, what came last."""
    return printable(raw.decode("utf-8", "replace").rstrip().rpartition("\r")[2])
