"""The body of a request as it comes in: counted or chunked, in any portions, within limits.

One body has a limit, and all share the room for large messages: clients that send large requests,
or that never finish them, must not take the memory that others need. Knows no connections and no
JSON.
"""

from typing import Final

from anyport.protocol.errors import UNAVAILABLE
from anyport.protocol.room import Held, Room
from anyport.wire import codec
from anyport.wire.http import BadMessage, Chunks

BODY_BYTES_MAX: Final = codec.INBOUND.bytes_max
NO_ROOM: Final = "Too many large requests are waiting: try again later"


class Body:
    """One body."""

    __slots__ = ("_chunks", "_held", "_kept", "_length", "_size", "rest")

    def __init__(self, length: int, room: Room, *, kept: bool) -> None:
        """`length` is -1 for a chunked body. One that is not `kept` is only read to its end.

        Raises:
            BadMessage: it is going to be too large.
        """
        self.rest = b""
        """What came after its end."""
        self._length = length
        self._held = Held(room)
        self._chunks = Chunks() if length < 0 else None
        self._size = 0
        """How much has come."""
        self._kept: bytearray | None = bytearray() if kept else None
        if length > BODY_BYTES_MAX:
            raise _too_large()

    def feed(self, data: bytes) -> bool:
        """Take a portion; whether the body is whole now.

        Raises:
            BadMessage: it is too large, not chunked as it should be, or there is no room for it.
        """
        if self._chunks is None:
            wanted = self._length - self._size
            pieces, self.rest = [data[:wanted]], data[wanted:]
            whole = len(data) >= wanted
        else:
            pieces = self._chunks.feed(data)
            whole, self.rest = self._chunks.done, self._chunks.rest
        self._size += sum(map(len, pieces))
        if self._size > BODY_BYTES_MAX:
            raise _too_large()
        if self._kept is not None:
            if not self._held.keep(self._size):
                raise BadMessage(UNAVAILABLE, NO_ROOM)
            for piece in pieces:
                # As one piece: the smallest chunks must not take up the most.
                self._kept += piece
        return whole

    def take(self) -> bytes:
        """The body. From now on it is for whoever answers it to say that it is held."""
        kept = self._kept
        self.let_go()
        return bytes(kept or b"")

    def let_go(self) -> None:
        """It takes up nothing any more."""
        self._held.let_go()
        self._kept = None


def _too_large() -> BadMessage:
    return BadMessage(413, f"The body has more than {BODY_BYTES_MAX} bytes")
