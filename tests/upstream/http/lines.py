"""A line with a request on it, and a socket that is a fake."""

from typing import Any, cast

from anyport.protocol.room import Room
from anyport.protocol.timeouts import Timeout
from anyport.upstream.http.line import Line, Shape, TroubleKind, read_shape
from anyport.upstream.http.patience import Patience
from anyport.wire.http import Heads
from tests.upstream.http.takers import Told

BODY = b'{"jsonrpc":"2.0","id":1,"result":{}}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE = OK + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closing: str | None = None

    def write(self, raw: bytes) -> None:
        self.written += raw

    def close(self) -> None:
        self.closing = self.closing or "closed"

    def abort(self) -> None:
        self.closing = "aborted"

    def is_closing(self) -> bool:
        return self.closing is not None


class Pool:
    """A client that only remembers heads."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.heads: Heads[Shape] = Heads(read_shape)
        self.bytes_max = bytes_max
        self.room = Room()
        self.late: list[Timeout] = []
        self.patience = Patience(
            first_byte_seconds=5.0, stream_idle_seconds=20.0, tell=self.late.append
        )
        self.released = 0
        self.forgotten = 0

    def release(self, line: Line) -> None:
        self.released += 1

    def forget(self, line: Line) -> None:
        self.forgotten += 1


class Scene:
    """A line with a request on it."""

    def __init__(self, pool: Pool | None = None) -> None:
        self.pool = pool or Pool()
        self.transport = Transport()
        self.line = Line(self.pool)
        self.line.connection_made(cast(Any, self.transport))
        self.told = self.ask()

    def ask(self) -> Told:
        told = Told()
        self.line.send(told, b"POST / HTTP/1.1\r\n\r\n")
        return told

    def hear(self, *pieces: bytes) -> Told:
        for piece in pieces:
            self.line.data_received(piece)
        return self.told

    @property
    def trouble(self) -> tuple[TroubleKind, str]:
        assert self.told.trouble is not None
        return self.told.trouble.kind, self.told.trouble.words


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
