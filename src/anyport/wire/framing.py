"""Cutting frames from a byte stream.

One message a line, as stdio has it. Fed in any portions; never raises; memory is bounded by the
limit whatever is fed. Knows lines, not what stands on them.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

EDGE_BYTES: Final = 4096
"""What is kept of an over-long message at either end, to find out whose answer it was.

Every SDK writes the id among the first members or as the last one.
"""


class Overlong(msgspec.Struct, frozen=True, gc=False):
    """In place of a line that was longer than the limit, or that nobody could keep."""

    size: int
    edges: bytes
    """The first and the last bytes of the line."""


def cut_short(whole: bytes | Overlong) -> Overlong:
    """In place of a message for which there is no memory."""
    if isinstance(whole, Overlong):
        return whole
    return Overlong(len(whole), whole[:EDGE_BYTES] + whole[-EDGE_BYTES:])


class LineSplitter:
    """Turns portions of bytes into whole lines without their ends."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held = bytearray()
        """What is kept of the unfinished line; portions of a byte or two must not cost more."""
        self._size = 0
        self._head = b""
        """The start of the line being thrown away; empty while a line is being kept."""

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line have come so far."""
        return self._size

    @property
    def kept(self) -> int:
        """How many of them are in memory."""
        return len(self._held) + len(self._head)

    def feed(self, portion: bytes) -> list[bytes | Overlong]:
        """The lines that this portion finished, empty ones left out."""
        *ends, rest = portion.split(b"\n")
        if self._size or len(portion) > self.bytes_max or b"\r" in portion:
            whole = [line for end in ends if (line := self._end(end))]
        else:
            whole = [end for end in ends if end and not end.isspace()]
        self._keep(rest)
        return whole

    def drop(self) -> None:
        """Keep no more of the unfinished line than of an over-long one."""
        if self._size and not self._head:
            self._head = bytes(self._held[:EDGE_BYTES])
            del self._held[:-EDGE_BYTES]

    def finish(self) -> list[bytes | Overlong]:
        """What is left when the stream ends without a last newline."""
        line = self._end(b"")
        return [line] if line else []

    def _end(self, piece: bytes) -> bytes | Overlong:
        """The line that ends with this piece; empty if nothing stands on it."""
        if self._size or len(piece) > self.bytes_max:
            self._keep(piece)
            piece = self._whole()
            size, head = self._size, self._head
            self._held, self._size, self._head = bytearray(), 0, b""
            if head:
                return Overlong(size, head + piece[-EDGE_BYTES:])
        piece = piece.removesuffix(b"\r")
        return b"" if piece.isspace() else piece

    def _whole(self) -> bytes:
        """What is kept of the line, or its end if there is no memory for it."""
        try:
            return bytes(self._held)
        except MemoryError:
            self.drop()
            return bytes(self._held)

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        try:
            self._held += piece
        except MemoryError:
            self._head = self._head or bytes(self._held[:EDGE_BYTES]) or piece[:EDGE_BYTES]
            self._held = bytearray(piece[-EDGE_BYTES:])
        if self._head or self._size > self.bytes_max:
            self._head = self._head or bytes(self._held[:EDGE_BYTES])
            del self._held[:-EDGE_BYTES]


def lines(frames: Sequence[bytes]) -> bytes:
    """Each frame as one line."""
    block = b"\n".join((*frames, b""))
    plain = block.count(b"\n") == len(frames) and b"\r" not in block
    return block if plain else b"".join(map(line, frames))


def line(frame: bytes) -> bytes:
    """The frame as one line."""
    return unbroken(frame) + b"\n"


def unbroken(frame: bytes) -> bytes:
    """The frame without line breaks.

    JSON has no raw ones inside strings, so those between members may become spaces.
    """
    if b"\n" in frame or b"\r" in frame:
        return frame.replace(b"\n", b" ").replace(b"\r", b" ")
    return frame
