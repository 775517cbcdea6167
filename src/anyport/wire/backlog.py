"""Bytes that wait to be written to a peer, in order.

A slow peer takes a large message in many small pieces; what is left of it is never copied. Pure:
whoever owns the descriptor writes what `next` gives and says how much of it was taken.
"""

from collections import deque
from itertools import islice
from typing import Final

PIECES_MAX: Final = 512
"""Half of what Linux takes in one system call."""


class Backlog:
    """A queue of bytes."""

    def __init__(self) -> None:
        self.size = 0
        """How many bytes wait."""
        self._pieces: deque[bytes | memoryview] = deque()

    def add(self, piece: bytes) -> None:
        """Queue some bytes."""
        self._pieces.append(piece)
        self.size += len(piece)

    def next(self) -> list[bytes | memoryview]:
        """What to write now, for one `writev`."""
        return list(islice(self._pieces, PIECES_MAX))

    def taken(self, count: int) -> None:
        """So many bytes have been written."""
        self.size -= count
        while count and count >= len(self._pieces[0]):
            count -= len(self._pieces.popleft())
        if count:
            self._pieces[0] = memoryview(self._pieces[0])[count:]

    def rest(self) -> tuple[bytes, bool]:
        """All that waits, and whether it begins in the middle of what was queued."""
        begun = bool(self._pieces) and isinstance(self._pieces[0], memoryview)
        return b"".join(self._pieces), begun

    def clear(self) -> None:
        """Nobody wants it any more."""
        self._pieces.clear()
        self.size = 0
