"""Write buffer: bytes that wait for a slow peer.

A large message that is written in many pieces is never copied. The owner of the descriptor writes
the buffers and reports how many bytes were taken.
"""

from collections import deque
from itertools import islice
from typing import Final

WRITEV_BUFFERS_MAX: Final = 512
"""Half of what Linux takes in one `writev`."""


class WriteBuffer:
    """Queue of bytes to write."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes waiting."""
        self._buffers: deque[bytes | memoryview] = deque()

    def add(self, buffer: bytes) -> None:
        self._buffers.append(buffer)
        self.size += len(buffer)

    def next_buffers(self) -> list[bytes | memoryview]:
        """The buffers for the next `writev`."""
        return list(islice(self._buffers, WRITEV_BUFFERS_MAX))

    def consume(self, count: int) -> None:
        """Drop the bytes that have been written."""
        self.size -= count
        while count and count >= len(self._buffers[0]):
            count -= len(self._buffers.popleft())
        if count:
            self._buffers[0] = memoryview(self._buffers[0])[count:]

    def remaining(self) -> tuple[bytes, bool]:
        """All waiting bytes, and whether they begin in the middle of a buffer."""
        is_partial = bool(self._buffers) and isinstance(self._buffers[0], memoryview)
        return b"".join(self._buffers), is_partial

    def clear(self) -> None:
        self._buffers.clear()
        self.size = 0
