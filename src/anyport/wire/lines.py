"""Newline-delimited JSON, as the stdio transport has it: one message per line.

Never raises; memory is bounded by the size limit, whatever is fed.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

EDGE_BYTES: Final = 4096
"""Kept from each end of an overlong message, to find its id.

Every SDK writes the id among the first members or as the last one.
"""


class Overlong(msgspec.Struct, frozen=True, gc=False):
    """Stands in for a message over the size limit, or one that did not fit in memory."""

    size: int
    edges: bytes
    """The first and the last bytes of the message."""


def truncate_message(whole: bytes | Overlong) -> Overlong:
    """Reduce a message that does not fit in memory to its edges."""
    if isinstance(whole, Overlong):
        return whole
    return Overlong(len(whole), whole[:EDGE_BYTES] + whole[-EDGE_BYTES:])


class LineSplitter:
    """Splits a byte stream into lines."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()
        """The unfinished line. A bytearray: portions of a byte or two must stay cheap."""
        self._line_bytes = 0
        self._overlong_head = b""
        """The start of an overlong line that is being dropped; empty while a line is kept."""

    @property
    def pending_bytes(self) -> int:
        """Bytes received of the unfinished line."""
        return self._line_bytes

    @property
    def buffered_bytes(self) -> int:
        """How many of them are in memory."""
        return len(self._buffer) + len(self._overlong_head)

    def feed(self, portion: bytes) -> list[bytes | Overlong]:
        """The lines that this portion completes, without empty ones."""
        while b"\n\n" in portion:  # Cheap even for thousands of empty lines.
            portion = portion.replace(b"\n\n", b"\n")
        *ends, rest = portion.split(b"\n")
        if self._line_bytes or len(portion) > self.bytes_max or b"\r" in portion:
            complete_lines = [line for end in ends if (line := self._finish_line(end))]
        else:
            complete_lines = [end for end in ends if end and not end.isspace()]
        self._append(rest)
        return complete_lines

    def truncate(self) -> None:
        """Reduce the unfinished line to its edges."""
        if self._line_bytes and not self._overlong_head:
            self._overlong_head = bytes(self._buffer[:EDGE_BYTES])
            del self._buffer[:-EDGE_BYTES]

    def finish(self) -> list[bytes | Overlong]:
        """The last line, if the stream ends without a newline."""
        line = self._finish_line(b"")
        return [line] if line else []

    def _finish_line(self, ending: bytes) -> bytes | Overlong:
        """The line that ends with this piece; empty if it is blank."""
        if self._line_bytes or len(ending) > self.bytes_max:
            self._append(ending)
            ending = self._join_line()
            size, head = self._line_bytes, self._overlong_head
            self._buffer, self._line_bytes, self._overlong_head = bytearray(), 0, b""
            if head:
                return Overlong(size, head + ending[-EDGE_BYTES:])
        ending = ending.removesuffix(b"\r")
        return b"" if ending.isspace() else ending

    def _join_line(self) -> bytes:
        """The buffered line, or its edges if there is no memory to join it."""
        try:
            return bytes(self._buffer)
        except MemoryError:
            self.truncate()
            return bytes(self._buffer)

    def _append(self, portion: bytes) -> None:
        self._line_bytes += len(portion)
        try:
            self._buffer += portion
        except MemoryError:
            self._overlong_head = (
                self._overlong_head or bytes(self._buffer[:EDGE_BYTES]) or portion[:EDGE_BYTES]
            )
            self._buffer = bytearray(portion[-EDGE_BYTES:])
        if self._overlong_head or self._line_bytes > self.bytes_max:
            self._overlong_head = self._overlong_head or bytes(self._buffer[:EDGE_BYTES])
            del self._buffer[:-EDGE_BYTES]


def encode_lines(frames: Sequence[bytes]) -> bytes:
    block = b"\n".join((*frames, b""))
    plain = block.count(b"\n") == len(frames) and b"\r" not in block
    return block if plain else b"".join(map(encode_line, frames))


def encode_line(frame: bytes) -> bytes:
    return remove_line_breaks(frame) + b"\n"


def remove_line_breaks(frame: bytes) -> bytes:
    """Replace the line breaks of a frame by spaces.

    JSON strings contain no raw line breaks, so only whitespace between members changes.
    """
    if b"\n" in frame or b"\r" in frame:
        return frame.replace(b"\n", b" ").replace(b"\r", b" ")
    return frame
