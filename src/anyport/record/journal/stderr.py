"""Ring buffer of the last lines that a server wrote to stderr.

It never exceeds its limits. What a line means is unknown: stderr is free text, and no sign of an
error. Redaction is expensive, so only what is shown is redacted, not what is kept.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from anyport.record.redact.escape import make_printable
from anyport.record.redact.redactor import PemBlockRedactor

KEPT_BYTES_MAX: Final = 64 * 1024
"""Enough for a stack trace and what led to it."""

KEPT_LINES_MAX: Final = 2000
"""Bounds the overhead of very short lines."""

LINE_BYTES_MAX: Final = 8 * 1024
"""A longer line is split into pieces, so that a server that never ends a line is shown, too."""


class StderrRing:
    """Keeps the last lines that are not blank."""

    def __init__(self, *, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._lines: deque[str] = deque()
        self._sizes: deque[int] = deque()
        self._kept_bytes = 0
        self._partial = b""
        self._key_redactor = PemBlockRedactor()
        self.byte_count = 0
        """Bytes received."""
        self.line_count = 0
        """Lines completed, including dropped ones."""
        self.cut_count = 0
        """Lines that were split because of their length."""

    def feed(self, chunk: bytes) -> list[str]:
        """Add a chunk; returns the lines that it completes.

        They are not redacted, because few lines of a flood are ever shown: whoever shows one
        redacts it.
        """
        self.byte_count += len(chunk)
        *whole, self._partial = (self._partial + chunk).split(b"\n")
        lines = [line for raw in whole for line in self._split_line(raw)]
        if len(self._partial) > LINE_BYTES_MAX:
            done = (len(self._partial) - 1) // LINE_BYTES_MAX * LINE_BYTES_MAX
            lines += self._split_line(self._partial[:done])
            # The split between the stored part and the part that may still grow.
            self.cut_count += 1
            self._partial = self._partial[done:]
        return lines

    def end(self) -> list[str]:
        """The stream has ended: returns its last line, if it has no line end."""
        raw, self._partial = self._partial, b""
        return self._split_line(raw) if raw else []

    @property
    def last_line(self) -> str | None:
        """The newest text, even of an unfinished line."""
        if (unfinished := _text(self._partial)) and not self._key_redactor.is_inside_key:
            return self._redact(unfinished)
        return self._redact(self._lines[-1]) if self._lines else None

    def lines(self) -> list[str]:
        """The lines kept, oldest first."""
        return [self._redact(line) for line in self._lines]

    def _split_line(self, raw: bytes) -> list[str]:
        parts = [raw[at : at + LINE_BYTES_MAX] for at in range(0, len(raw), LINE_BYTES_MAX)]
        self.line_count += max(len(parts), 1)
        self.cut_count += max(len(parts) - 1, 0)
        shown = [self._key_redactor(line) for piece in parts if (line := _text(piece))]
        for line in shown:
            self._store_line(line)
        return shown

    def _store_line(self, line: str) -> None:
        size = len(line.encode())
        self._lines.append(line)
        self._sizes.append(size)
        self._kept_bytes += size
        while self._kept_bytes > KEPT_BYTES_MAX or len(self._lines) > KEPT_LINES_MAX:
            self._lines.popleft()
            self._kept_bytes -= self._sizes.popleft()


def _text(raw: bytes) -> str:
    """What a terminal would show of a line: after a carriage return, as of a progress bar, the last
    part."""
    return make_printable(raw.decode("utf-8", "replace").rstrip().rpartition("\r")[2])
