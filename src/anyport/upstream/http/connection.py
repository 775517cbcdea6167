"""One HTTP/1.1 client connection: a request out, a whole response or an event stream in.

Callbacks, no tasks: a response that comes in one piece goes from the socket to its handler in one
call. Every buffer is bounded. Which connection a request uses is up to the client.
"""

import asyncio
import select
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from anyport.config.model import CONNECT_SECONDS_DEFAULT, STREAM_IDLE_SECONDS_DEFAULT, ServerConfig
from anyport.protocol.errors import Timeout
from anyport.protocol.memory_budget import LARGE_BYTES, MemoryReservation
from anyport.protocol.scheduler import HEAVY_BYTES, WorkSteps, cost_of
from anyport.wire.http1 import (
    HEAD_BYTES_MAX,
    HEAD_END,
    BadMessage,
    ChunkedDecoder,
    ResponseHead,
)
from anyport.wire.http1 import read_response_head as read_head

if TYPE_CHECKING:
    from anyport.upstream.http.client import HttpClient

# Timeouts of a server over HTTP, and the age of connections to it.

AGE_SECONDS_MAX: Final = 3600.0
"""A busy connection is closed after this, between two requests: the name may resolve differently by
now, and a load balancer gets to choose again."""
AGE_SPREAD: Final = 0.1
"""Connections live shorter by up to this part, so that they are not all closed together."""
SWEEP_SECONDS_MAX: Final = 0.5
"""Between sweeps; a timeout is noticed at most two of these late."""
SWEEPS: Final = 4
"""Sweeps within the shortest timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTimeouts:
    """Timeouts of one server."""

    connect_seconds: float = CONNECT_SECONDS_DEFAULT
    first_byte_seconds: float | None = None
    """None: no limit besides the timeout of the call."""
    stream_idle_seconds: float = STREAM_IDLE_SECONDS_DEFAULT
    age_seconds: float = AGE_SECONDS_MAX
    random: Callable[[], float] = lambda: 0.0
    on_timeout: Callable[[Timeout], None] = lambda _: None
    """Called whenever one of them expires."""

    @property
    def sweep_seconds(self) -> float:
        """Seconds between sweeps."""
        shortest = min(self.stream_idle_seconds, self.first_byte_seconds or inf)
        return min(SWEEP_SECONDS_MAX, shortest / SWEEPS)

    def silence_seconds_max(self, timeout: Timeout | None) -> float:
        """How many seconds may pass without a byte."""
        if timeout is Timeout.FIRST_BYTE:
            return self.first_byte_seconds or inf
        return inf if timeout is None else self.stream_idle_seconds

    def describe(self, timeout: Timeout) -> str:
        """What has not come in time, and the setting that allows more."""
        seconds = self.silence_seconds_max(timeout)
        if timeout is Timeout.FIRST_BYTE:
            return f"no reply began within {seconds:g} s (firstByteSeconds)"
        return f"it sent nothing for {seconds:g} s (streamIdleSeconds)"

    def expires_at(self, now: float) -> float:
        """When a connection that is opened now reaches its age limit."""
        return now + self.age_seconds * (1 - AGE_SPREAD * self.random())


def http_timeouts_of(
    config: ServerConfig, random: Callable[[], float], on_timeout: Callable[[Timeout], None]
) -> HttpTimeouts:
    """Timeouts as configured."""
    return HttpTimeouts(
        connect_seconds=config.connect_seconds,
        first_byte_seconds=config.first_byte_seconds,
        stream_idle_seconds=config.stream_idle_seconds,
        random=random,
        on_timeout=on_timeout,
    )


# Decompression, within bounds. A few kilobytes can expand to gigabytes: they are decompressed in
# pieces, so that the handler can stop.

INFLATED_BYTES: Final = 64 * 1024
"""Size of a decompressed piece."""


class BadCompression(Exception):
    """A body is not compressed as it says."""


class Decompressor:
    """Decompresses gzip and deflate, piece by piece."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(wbits=47)  # 32 + 15: gzip or zlib, by its header.
        self._begun = False

    @property
    def is_incomplete(self) -> bool:
        """Whether the compressed data ends too early."""
        return self._begun and not self._inflater.eof

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Decompress a piece.

        Raises:
            BadCompression: it is not compressed as it says.
        """
        self._begun = self._begun or bool(piece)
        more = bool(piece)
        while more:
            try:
                plain = self._inflater.decompress(piece, INFLATED_BYTES)
            except zlib.error:
                raise BadCompression from None
            if self._inflater.unused_data:
                raise BadCompression  # Trailing data would be kept, however much there is of it.
            yield plain
            piece = self._inflater.unconsumed_tail
            # Output may be left when all input is consumed.
            more = bool(piece) or len(plain) == INFLATED_BYTES


def decompressor_for(head: ResponseHead) -> Decompressor | None:
    """The decompressor for a body; None if it is not compressed.

    Raises:
        BadMessage: it has an encoding that was not requested.
    """
    coding = (head.get("content-encoding") or "identity").strip().lower()
    if coding == "identity":
        return None
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise BadMessage(400, "a content encoding nobody asked for")
    return Decompressor()


KEPT_SECONDS_MAX: Final = 4.0
"""A connection that is idle for longer may be closed by the server just as it is used again: many
servers close theirs after five seconds."""
INTERIM_REPLIES_MAX: Final = 16
"""Responses such as 100 and 103 before the real one; there is hardly ever more than one."""

CHUNKS_PER_MESSAGE: Final = 32
"""Chunks of a body that cost as much as a message."""
COLLECTED_PER_MESSAGE: Final = 32 * 1024
"""Bytes of a body that cost as much, as long as they are only collected."""

EVENT_STREAM: Final = "text/event-stream"
MISCOMPRESSED: Final = "its response is not compressed as it says"


class HttpFailureKind(Enum):
    """Why there is no response."""

    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    CUT_OFF = "cut"
    TOO_LARGE = "too-large"
    NO_MEMORY = "crowded"
    """Over the memory budget."""
    MALFORMED = "malformed"


class HttpFailure(msgspec.Struct, frozen=True, gc=False):
    """Why there is no response, or only a part of one."""

    kind: HttpFailureKind
    reason: str
    sent: bool = True
    """False if the server cannot have seen the request."""
    timeout: Timeout | None = None
    """The timeout that has expired, if that is the reason."""


class NoMemoryLeft(Exception):
    """The memory budget is used up."""


class BodyTooLarge(Exception):
    """A body is over the limit."""


class ResponseHandler(Protocol):
    """Receives the response to one request. One of the last three methods is the last call."""

    http_connection: "ClientConnection | None"
    """The connection that carries or carried the request; None while it waits for one."""

    @property
    def wait_timeout(self) -> Timeout | None:
        """The timeout for the first byte of the response; None if the caller has its own."""

    @property
    def repeatable(self) -> bool:
        """Whether the server may get the request twice."""

    def renew_body(self) -> bytes | None:
        """The body to send the request again with; None for the same as before."""

    def on_stream(self, head: ResponseHead) -> None: ...

    def on_stream_data(self, portion: bytes) -> WorkSteps: ...

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        """The whole response, if it is not an event stream."""

    def on_stream_closed(self, failure: HttpFailure | None) -> None:
        """The stream has ended; `failure` says why, if it was cut off."""

    def on_failure(self, failure: HttpFailure) -> None:
        """No whole response will come."""


class ResponseShape(msgspec.Struct, frozen=True, gc=False):
    """A response head that was seen before, as kept in the cache of heads."""

    head: ResponseHead
    whole_length: int
    """The length of a body that needs no processing; -1 for any other."""


def read_response_shape(raw: bytes) -> ResponseShape:
    """Parse a head.

    Raises:
        BadMessage: it is not one.
    """
    head = read_head(raw)
    plain = head.get("content-encoding") is None and head.media_type != EVENT_STREAM
    simple = plain and head.status >= 200 and head.keep_alive and head.body_length is not None
    return ResponseShape(head, (head.body_length or 0) if simple else -1)


class ClientConnection(asyncio.Protocol):
    """One connection, with one request at a time."""

    __slots__ = (
        "_body",
        "_body_left",
        "_chunks",
        "_client",
        "_deferred",
        "_handler",
        "_head",
        "_inflate",
        "_interim_replies",
        "_known_heads",
        "_lost",
        "_partial_head",
        "_peek",
        "_quiet_since",
        "_resendable",
        "_reservation",
        "_size",
        "_transport",
        "expires_at",
        "idle_since",
        "uses",
    )

    def __init__(self, client: "HttpClient") -> None:
        self.idle_since = 0.0
        self.uses = 0
        """Requests that were sent on it."""
        self.expires_at = inf
        """When it reaches its age limit."""
        self._client = client
        self._known_heads = client.heads.cached
        self._transport: asyncio.Transport | None = None
        self._peek: select.poll | None = None
        """Tells whether the socket has unread data."""
        self._resendable: bytes | None = None
        """The request that is being sent, if it may be sent again."""
        self._handler: ResponseHandler | None = None
        self._quiet_since: float | None = None
        self._partial_head = b""
        self._reservation = MemoryReservation(client.memory_budget)
        """For a large response."""
        self._deferred = False
        """Some data is left to later turns of the loop; nothing is read until it is handled."""
        self._lost = False
        """Whether the connection was lost meanwhile."""
        self._reset()

    def _reset(self) -> None:
        self._reservation.release()
        self._head: ResponseHead | None = None
        self._chunks: ChunkedDecoder | None = None
        self._inflate: Decompressor | None = None
        self._body_left: int | None = None
        self._interim_replies = 0
        self._body: list[bytes] = []
        self._size = 0

    # For the client.

    @property
    def open(self) -> bool:
        """Whether a request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_unanswered(self) -> bool:
        """Whether a request was sent on it, and no byte of the response has come."""
        begun = self._head is not None or bool(self._partial_head) or self._interim_replies > 0
        return self._handler is not None and not begun

    def usable(self, now: float) -> bool:
        """Whether it may be used again; closes it if it was idle for too long.

        Unread data on an idle connection is most likely its end: the server will not see what is
        sent now. Looking costs a system call, so it is done only before the second use: a server
        that has kept the connection once hardly closes it after the next answer.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if now - self.idle_since > KEPT_SECONDS_MAX:
            transport.abort()
            return False
        return self.uses > 1 or self._peek is None or not self._peek.poll(0)

    def send(self, handler: ResponseHandler, message: bytes) -> None:
        handler.http_connection = self
        self.uses += 1
        self._resendable = message if self.uses > 1 and handler.repeatable else None
        self._handler = handler
        self._quiet_since = None
        if self._transport is not None:
            self._transport.write(message)

    def cancel(self, handler: ResponseHandler | None) -> None:
        """Close the connection without a callback, if it carries the request of this handler."""
        if handler is not None and self._handler is not handler:
            return
        self._handler, current = None, self._handler
        if self._transport is not None:
            self._transport.abort()
        if handler is None and current is not None:
            self._report_cut(current, "the gateway closed the connection")

    def close(self) -> None:
        """Close the connection, on which no request is open."""
        if self._transport is not None:
            self._transport.close()

    def check_timeouts(self, now: float) -> None:
        """Close it if nothing has moved for too long."""
        handler, timeouts = self._handler, self._client.timeouts
        if handler is None:
            self.usable(now)
            return
        if self._quiet_since is None or self._deferred:
            self._quiet_since = now
        begun = self._head is not None or bool(self._partial_head)
        timeout = Timeout.STREAM_IDLE if begun else handler.wait_timeout
        if timeout is not None and now - self._quiet_since >= timeouts.silence_seconds_max(timeout):
            timeouts.on_timeout(timeout)
            self._fail(HttpFailureKind.TIMEOUT, timeouts.describe(timeout), timeout)

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has no such base.
        socket = transport.get_extra_info("socket")
        if socket is not None:
            self._peek = select.poll()
            self._peek.register(socket.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Bytes of a response. Fast path: it is whole, and its head is in the cache."""
        if self._head is None and not self._partial_head:
            end = data.find(HEAD_END)
            shape = self._known_heads.get(data[:end])
            length = len(data) - end - 4
            if shape is not None and end > 0 and HEAVY_BYTES >= length == shape.whole_length:
                handler, self._handler = self._handler, None
                if handler is not None:
                    self._client.release(self)
                    handler.on_response(shape.head, data[end + 4 :])
                    return
        self._quiet_since = None
        self._run(self._receive(data))

    def eof_received(self) -> None:
        """The server will send no more: that ends a body without a length."""
        head = self._head
        if head is not None and head.body_length is None and not head.chunked:
            self._run(self._complete(reuse=False))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed; data that came before is handled first."""
        self._transport = None
        self._lost = True
        if not self._deferred:
            self._on_lost()

    def _run(self, work: WorkSteps) -> None:
        """Handle received data, and read no more until that is done."""
        if not self._client.scheduler.run(self._client, work, self._resume):
            self._deferred = True
            if self.open and self._transport is not None:
                self._transport.pause_reading()

    def _resume(self) -> None:
        """All received data is handled: read on."""
        self._deferred = False
        if self._lost:
            self._on_lost()
        elif self.open and self._transport is not None:
            self._transport.resume_reading()

    def _on_lost(self) -> None:
        self._reservation.release()
        self._client.forget(self)
        message = self._resendable if self.is_unanswered else None
        handler, self._handler = self._handler, None
        if handler is None:
            return
        if message is not None and handler.repeatable:
            # The server had closed it before: RFC 9110, 9.2.2, allows another attempt.
            self._client.resend(handler, message)
        else:
            self._report_cut(handler, "it closed the connection before its reply was complete")

    # Reading a response piece by piece.

    @property
    def _streaming(self) -> bool:
        return self._head is not None and self._head.media_type == EVENT_STREAM

    def _receive(self, data: bytes) -> WorkSteps:
        try:
            yield from self._read(data)
        except BadMessage as error:
            self._fail(HttpFailureKind.MALFORMED, f"its response is not HTTP: {error}")
        except BadCompression:
            self._fail(HttpFailureKind.MALFORMED, MISCOMPRESSED)
        except (NoMemoryLeft, MemoryError):
            self._fail(HttpFailureKind.NO_MEMORY, f"{self._size} bytes; the call was carried out")
        except BodyTooLarge:
            reason = f"its reply has more than {self._client.bytes_max} bytes"
            self._fail(HttpFailureKind.TOO_LARGE, reason)

    def _read(self, data: bytes) -> WorkSteps:
        handler = self._handler
        if handler is None:
            raise BadMessage(400, "more than one reply to a request")
        if self._head is None:
            rest = self._read_head(data)
            if rest is None:
                return
            data = rest
        if self._chunks is None:
            yield from self._read_counted(data, handler)
        else:
            yield from self._read_chunks(data, self._chunks, handler)

    def _read_counted(self, data: bytes, handler: ResponseHandler) -> WorkSteps:
        """A body with a length, or one that ends with the connection."""
        if self._body_left is not None:
            self._body_left -= len(data)
        yield from self._read_body(data)
        if self._handler is not handler:
            return
        if self._body_left is not None and self._body_left < 0:
            raise BadMessage(400, "its body is longer than it says")
        if self._body_left == 0:
            yield from self._complete(reuse=True)

    def _read_chunks(
        self, data: bytes, chunks: ChunkedDecoder, handler: ResponseHandler
    ) -> WorkSteps:
        while True:
            pieces = chunks.feed(data)
            # Joined, because a body in chunks of one byte would take fifty times its size.
            yield from self._read_body(b"".join(pieces))
            if self._handler is not handler:
                return
            if chunks.done:
                yield from self._complete(reuse=not chunks.unused_data)
            if chunks.done or not chunks.has_more:
                return
            yield len(pieces) // CHUNKS_PER_MESSAGE
            data = b""

    def _read_head(self, data: bytes) -> bytes | None:
        """Read the head; returns the bytes after it, or None if it is incomplete or interim."""
        data = self._partial_head + data
        while True:
            end = data.find(HEAD_END)
            if end < 0:
                if len(data) > HEAD_BYTES_MAX:
                    raise BadMessage(431, "its head does not end")
                self._partial_head = data
                return None
            head = self._client.heads.parse(data[:end]).head
            data = data[end + 4 :]
            if head.status >= 200:
                break
            self._interim_replies += 1  # 100 and 103 are followed by the real one.
            if self._interim_replies > INTERIM_REPLIES_MAX:
                raise BadMessage(400, "too many interim replies")
        self._partial_head = b""
        self._head = head
        self._inflate = decompressor_for(head)
        if head.chunked:
            self._chunks = ChunkedDecoder()
        else:
            self._body_left = head.body_length
        if self._streaming and self._handler is not None:
            self._handler.on_stream(head)
        return data

    def _read_body(self, piece: bytes) -> WorkSteps:
        """One piece of the body, as received."""
        if self._inflate is not None:
            for plain in self._inflate.feed(piece):
                yield cost_of(len(plain))
                yield from self._read_decoded(plain)
        elif piece:
            yield (cost_of if self._streaming else _cost_of_collecting)(len(piece))
            yield from self._read_decoded(piece)

    def _read_decoded(self, piece: bytes) -> WorkSteps:
        if self._streaming:
            if self._handler is not None:
                yield from self._handler.on_stream_data(piece)
            return
        self._size += len(piece)
        if self._size > self._client.bytes_max:
            raise BodyTooLarge
        if self._size > LARGE_BYTES and not self._reservation.resize(self._size):
            raise NoMemoryLeft
        self._body.append(piece)

    def _complete(self, *, reuse: bool) -> WorkSteps:
        if self._size > HEAVY_BYTES:
            yield cost_of(self._size)
        self._finish(reuse=reuse)

    def _finish(self, *, reuse: bool) -> None:
        """The response is complete."""
        if self._inflate is not None and self._inflate.is_incomplete and not self._streaming:
            self._fail(HttpFailureKind.MALFORMED, MISCOMPRESSED)
            return
        handler, head, body = self._handler, self._head, self._body
        streamed = self._streaming
        self._handler = None
        self._reset()
        if reuse and head is not None and head.keep_alive and self.open:
            self._client.release(self)
        elif self._transport is not None:
            self._transport.close()
        if handler is None or head is None:
            return
        if streamed:
            handler.on_stream_closed(None)
        else:
            handler.on_response(head, b"".join(body) if len(body) != 1 else body[0])

    def _fail(self, kind: HttpFailureKind, reason: str, timeout: Timeout | None = None) -> None:
        handler, self._handler = self._handler, None
        if self._transport is not None:
            self._transport.abort()
        if handler is not None:
            self._report_failure(handler, HttpFailure(kind, reason, timeout=timeout))

    def _report_cut(self, handler: ResponseHandler, reason: str) -> None:
        self._report_failure(handler, HttpFailure(HttpFailureKind.CUT_OFF, reason))

    def _report_failure(self, handler: ResponseHandler, failure: HttpFailure) -> None:
        if self._streaming:
            handler.on_stream_closed(failure)
        else:
            handler.on_failure(failure)


def _cost_of_collecting(size: int) -> int:
    return 1 + size // COLLECTED_PER_MESSAGE
