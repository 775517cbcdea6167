"""A line with a request on it, and a socket that is a fake."""

from typing import Any, cast

from anyport.protocol.errors import Timeout
from anyport.protocol.memory_budget import MemoryBudget
from anyport.protocol.scheduler import FairScheduler
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import (
    ClientConnection,
    HttpFailureKind,
    HttpTimeouts,
    ResponseHandler,
    ResponseShape,
    read_response_shape,
)
from anyport.wire.http1 import HeadCache
from tests.upstream.http.handlers import RecordingHandler

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

    def pause_reading(self) -> None:
        """Nothing comes but what a test says."""

    def is_closing(self) -> bool:
        return self.closing is not None

    def get_extra_info(self, name: str) -> None:
        """It has no socket."""


class FakeHttpClient:
    """A client that only remembers heads."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.heads: HeadCache[ResponseShape] = HeadCache(read_response_shape)
        self.bytes_max = bytes_max
        self.memory_budget = MemoryBudget()
        self.scheduler = FairScheduler()
        self.late: list[Timeout] = []
        self.timeouts = HttpTimeouts(
            first_byte_seconds=5.0, stream_idle_seconds=20.0, on_timeout=self.late.append
        )
        self.released = 0
        self.forgotten = 0
        self.repeated: list[bytes] = []

    def release(self, connection: ClientConnection) -> None:
        self.released += 1

    def forget(self, connection: ClientConnection) -> None:
        self.forgotten += 1

    def resend(self, handler: ResponseHandler, message: bytes) -> None:
        self.repeated.append(message)


class Scene:
    """A line with a request on it."""

    def __init__(self, pool: FakeHttpClient | None = None) -> None:
        self.pool = pool or FakeHttpClient()
        self.transport = Transport()
        self.connection = ClientConnection(cast(HttpClient, self.pool))
        self.connection.connection_made(cast(Any, self.transport))
        self.told = self.ask()

    def ask(self) -> RecordingHandler:
        told = RecordingHandler()
        self.connection.send(told, b"POST / HTTP/1.1\r\n\r\n")
        return told

    def hear(self, *pieces: bytes) -> RecordingHandler:
        for piece in pieces:
            self.connection.data_received(piece)
        return self.told

    @property
    def trouble(self) -> tuple[HttpFailureKind, str]:
        assert self.told.trouble is not None
        return self.told.trouble.kind, self.told.trouble.reason


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
