"""Server side of one HTTP/1.1 connection: reads requests one at a time, writes responses and event
streams.

The parsed head and the body of a request go to the server together with this connection, which is
the way to respond. The common request arrives in one piece with a head that is in the cache, and
costs one look-up. The server sweeps over the connections to enforce deadlines.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from anyport.ingress.http.request_head import McpRequestHead
from anyport.ingress.http.responder import (
    JSON_CONTENT_TYPE,
    EventStream,
    Fields,
    StreamOpener,
    status_of,
)
from anyport.protocol.errors import UNAVAILABLE, RetryAfter, Timeout
from anyport.protocol.exchange import OpenRequest
from anyport.protocol.memory_budget import LARGE_BYTES, MemoryBudget, MemoryReservation
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.scheduler import (
    HEAVY_BYTES,
    REQUEST_COST,
    SLICE_COST_MAX,
    GroupedPeer,
    WorkSteps,
    cost_of,
)
from anyport.wire import jsonrpc
from anyport.wire.http1 import (
    HEAD_BYTES_MAX,
    HEAD_END,
    LAST_CHUNK,
    BadMessage,
    ChunkedDecoder,
    encode_chunk,
    encode_response_head,
    encode_streaming_head,
)

if TYPE_CHECKING:  # It imports this module.
    from anyport.ingress.http.server import HttpIngress

# Timeouts of clients over HTTP, and what a client reads when one of them expires.

HEAD_SECONDS_MAX: Final = 10.0
"""From the first byte of a request, or from the connection, to the end of its head."""
BODY_SECONDS_MAX: Final = 30.0
"""From the end of the head to the end of the body."""
IDLE_SECONDS_MAX: Final = 75.0
"""Between two requests on one connection."""
UNUSED_SECONDS_MIN: Final = 0.5
"""A connection must have been unused for this long before it makes room for another: a client that
has just connected, or just got its response, is about to send a request."""
STALLED_SECONDS_MAX: Final = 30.0
"""A client that stopped reading has this long to go on."""
LINGER_SECONDS_MAX: Final = 5.0
"""A rejected client may go on sending for this long before it reads the rejection."""
AGE_SECONDS_MAX: Final = 3600.0
"""A connection in constant use is closed after this, with a response: so that clients spread over
gateways that were added since, and nothing a connection holds is held forever."""
AGE_SPREAD: Final = 0.1
"""Random reduction of the age, so that connections opened together are not closed together."""

KEEP_ALIVE_SECONDS: Final = 15.0
"""Intermediaries cut a stream that is idle for a minute, some sooner."""
UNACKNOWLEDGED_SECONDS_MAX: Final = 30
"""How long sent data, keep-alive comments included, may stay unacknowledged by a client whose
machine or network has disappeared."""
PROBE_SECONDS: Final = 15
"""TCP keep-alive probes start after this idle time."""
NEVER: Final = float("inf")

_TIMEOUT_MESSAGES: Final = {
    Timeout.HEAD: f"The header of the request did not come within {HEAD_SECONDS_MAX:g} s",
    Timeout.BODY: f"The body of the request did not come within {BODY_SECONDS_MAX:g} s",
}


def retirement_time(now: float, fraction: float) -> float:
    """When a connection opened now reaches its maximum age; `fraction` is random, 0 to 1."""
    return now + AGE_SECONDS_MAX * (1 - AGE_SPREAD * fraction)


def timeout_kind(*, head_read: bool, begun: bool, open_seconds: float) -> Timeout:
    """Which timeout has expired on a connection that waits for its client."""
    if head_read:
        return Timeout.BODY
    # A client that sends nothing at all is disconnected before the idle time is over.
    return Timeout.HEAD if begun or open_seconds < IDLE_SECONDS_MAX else Timeout.IDLE


def timeout_message(timeout: Timeout) -> str:
    return _TIMEOUT_MESSAGES[timeout]


# The body of a request: counted or chunked, received in any portions, within limits.
#
# Each body has a limit, and all bodies share the memory budget for large messages: clients that
# send large requests, or never finish them, must not take the memory that others need.

BODY_BYTES_MAX: Final = jsonrpc.INBOUND.bytes_max
TOO_MANY_LARGE_REQUESTS: Final = "Too many large requests are waiting: try again later"


class RequestBody:
    """A request body while it is being received."""

    __slots__ = ("_buffer", "_chunks", "_length", "_memory", "_size", "rest")

    def __init__(self, length: int, memory_budget: MemoryBudget) -> None:
        """`length` is -1 for a chunked body.

        Raises:
            BadMessage: its length is over the limit.
        """
        self.rest = b""
        """The bytes after its end."""
        self._length = length
        self._memory = MemoryReservation(memory_budget)
        self._chunks = ChunkedDecoder() if length < 0 else None
        self._size = 0
        """Bytes received."""
        self._buffer = bytearray()
        if length > BODY_BYTES_MAX:
            raise _too_large()

    @property
    def size(self) -> int:
        """Bytes received."""
        return self._size

    @property
    def has_more_chunks(self) -> bool:
        """Whether chunks that were fed wait for the next call of `feed`."""
        return self._chunks is not None and self._chunks.has_more

    def feed(self, data: bytes) -> bool:
        """Add a portion; returns whether the body is complete.

        Raises:
            BadMessage: it is too large, not valid chunked encoding, or over the memory budget.
        """
        if self._chunks is None:
            remaining = self._length - self._size
            pieces, self.rest = [data[:remaining]], data[remaining:]
            whole = len(data) >= remaining
        else:
            pieces = self._chunks.feed(data)
            whole, self.rest = self._chunks.done, self._chunks.unused_data
        self._size += sum(map(len, pieces))
        if self._size > BODY_BYTES_MAX:
            raise _too_large()
        if not self._memory.resize(self._size):
            raise BadMessage(UNAVAILABLE, TOO_MANY_LARGE_REQUESTS)
        for piece in pieces:
            # One buffer: a list of pieces would make tiny chunks cost the most memory.
            self._buffer += piece
        return whole

    def take_bytes(self) -> bytes:
        """The complete body. Its memory reservation ends: the caller makes one if it holds the
        bytes."""
        data = bytes(self._buffer)
        self.release()
        return data

    def release(self) -> None:
        """Free the buffer and its memory reservation."""
        self._memory.release()
        self._buffer = bytearray()


def _too_large() -> BadMessage:
    return BadMessage(413, f"The body has more than {BODY_BYTES_MAX} bytes")


STREAM_UNSENT_BYTES_MAX: Final = 1024 * 1024
"""Unsent bytes of a stream whose client reads too slowly; over this, the stream is ended."""
ANSWERS_UNSENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""The same for a stream that carries the answers of many calls, which may be large, as long as the
memory budget has room."""
LINGER_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes that a rejected client may send before it reads the rejection."""
PIPELINED_BYTES_MAX: Final = 64 * 1024
"""Bytes buffered while a request is being answered; over this, reading is paused."""

UNKNOWN_GROUP: Final = "unknown"
"""The scheduler's group of all connections without a known principal."""

KEEP_ALIVE: Final = b": \n"
"""A comment without an empty line after it. The empty line would end an event: older Python clients
make an empty event of it if an earlier one had an id, and fail because it is not JSON."""

COPIED_BYTES_MAX: Final = 16 * 1024
"""Larger answers are sent in two pieces rather than copied behind the head."""
TLS_HELLO: Final = b"\x16"
"""The first byte of a client that expects TLS."""
_OK_JSON: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
)


class HttpConnection(asyncio.Protocol, GroupedPeer):
    """One HTTP/1.1 connection; also the reply writer and responder of its current request."""

    group = UNKNOWN_GROUP

    __slots__ = (
        "_buffer",
        "_deferred",
        "_has_next_request",
        "_incoming_body",
        "_incoming_request",
        "_known_heads",
        "_paused",
        "_peer",
        "_pending_count",
        "_refused_bytes",
        "_server",
        "_unsent_memory",
        "busy",
        "close_after_answer",
        "deadline",
        "error_statuses",
        "exchange",
        "is_head_request",
        "last_request",
        "on_closed",
        "opened_at",
        "principal",
        "retire_at",
        "stalled",
        "stream",
        "stream_opener",
        "streaming",
        "transport",
        "unsent_bytes_max",
    )

    def __init__(self, server: "HttpIngress") -> None:
        self.transport: asyncio.Transport | None = None
        self.principal: Principal = LOCAL
        self.last_request: McpRequestHead | None = None
        """The current request. Its client may have lost access by the time it is answered."""
        self.deadline = NEVER
        self.opened_at = 0.0
        self.retire_at = NEVER
        """From then on the next response closes the connection; nothing is cut short."""
        self.busy = False
        """Whether a request is being answered."""
        self.is_head_request = False
        """The response to a HEAD request has the head of the GET response and no body."""
        self.streaming = False
        """Whether the response is sent in pieces."""
        self.on_closed: Callable[[], None] | None = None
        self.stream_opener: StreamOpener | None = None
        """Opens the event stream when a frame has to be sent before the answer."""
        self.close_after_answer = False
        self.stalled = False
        """Whether the client has stopped reading."""
        self.exchange: OpenRequest | None = None
        """Cancelled when the client disconnects."""
        self.stream: EventStream | None = None
        self.unsent_bytes_max = STREAM_UNSENT_BYTES_MAX
        self.error_statuses: dict[int, int] = {}
        """HTTP status by JSON-RPC error code; 200 for all others."""
        self._server = server
        self._known_heads = server.heads.cached
        self._buffer = b""
        self._peer: object = None
        """Whose share of the event loop these requests use. None if unknown; then the connection
        has a share of its own."""
        self._pending_count = 0
        """Requests waiting for their turn, and batches with messages left to handle."""
        self._deferred = False
        """Whether received bytes are left for later turns of the event loop."""
        self._paused = False
        """Whether reading is paused."""
        self._has_next_request = False
        """Whether the next request is already in the buffer and about to be handled."""
        self._refused_bytes = 0
        """After a rejection: 1 plus the number of bytes received since, all ignored."""
        self._incoming_request: McpRequestHead | None = None
        self._incoming_body: RequestBody | None = None
        """The body of a request that did not arrive in one piece."""
        self._unsent_memory = MemoryReservation(server.memory_budget)
        """What the client has not read."""

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport has no such base class.
        self.transport = cast(asyncio.Transport, transport)
        self.opened_at = now = self._server.now
        self.retire_at = retirement_time(now, self._server.random_fraction())
        self.deadline = now + HEAD_SECONDS_MAX
        if not self._server.on_connected(self):
            self.refuse(UNAVAILABLE, "Too many connections")
            self.close()

    def data_received(self, data: bytes) -> None:
        """Receive bytes. A complete request with a cached head takes the fast path."""
        if self._incoming_request is None and not self._buffer and not self.busy:
            end = data.find(HEAD_END)
            request = self._known_heads.get(data[:end])
            if (
                request is not None
                and LARGE_BYTES >= request.length == len(data) - end - 4
                and end > 0
            ):
                self.busy = True
                self.deadline = NEVER
                self._peer = None if request.peer is LOCAL else request.peer
                if request.length <= HEAVY_BYTES:
                    self._server.serve(self, request, data[end + 4 :])
                else:
                    self._run_work(self._serve_large(request, data[end + 4 :]))
                return
        self._run_work(self._receive(data))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected: cancel what it waits for."""
        self.transport = None
        self.deadline = NEVER
        self._drop_body()
        self._unsent_memory.release()
        self._server.on_disconnected(self)
        if self.stream is not None:
            self.stream.detach(self)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.cancel(b'"The client closed the stream"')
        on_closed, self.on_closed = self.on_closed, None
        if on_closed is not None:
            on_closed()

    def pause_writing(self) -> None:
        """The client reads too slowly: stop reading from it until it catches up."""
        self.stalled = True
        self.update_unsent_memory()
        self.deadline = self._server.now + STALLED_SECONDS_MAX
        self._update_read_pause()

    def resume_writing(self) -> None:
        self.stalled = False
        self._unsent_memory.release()
        self.deadline = self._server.now + (KEEP_ALIVE_SECONDS if self.busy else IDLE_SECONDS_MAX)
        self._schedule_next_request()
        self._update_read_pause()

    # Requests.

    @property
    def has_pending_requests(self) -> bool:
        """Whether a complete request, or a part of a batch, waits for its turn."""
        return self._pending_count > 0

    @property
    def unused_since(self) -> float | None:
        """Since when the connection is idle; None while it is in use. The beginning of a head is
        not use."""
        if self.busy or self.stalled or self._incoming_request is not None:
            return None
        begun = self._buffer or self.deadline == self.opened_at + HEAD_SECONDS_MAX
        return self.deadline - (HEAD_SECONDS_MAX if begun else IDLE_SECONDS_MAX)

    def defer(self, batch: WorkSteps) -> None:
        """Handle the messages of a batch in later turns of the event loop."""
        self._pending_count += 1
        self._server.scheduler.defer(self._peer or self, batch, self._on_batch_handled)

    def _on_batch_handled(self) -> None:
        self._pending_count -= 1

    def _run_work(self, work: WorkSteps) -> None:
        """Handle received bytes, and pause reading if some are left for later turns."""
        self._deferred = not self._server.scheduler.run(
            self._peer or self, work, self._on_work_done
        )
        self._update_read_pause()

    def _on_work_done(self) -> None:
        self._deferred = False
        self._schedule_next_request()
        self._update_read_pause()

    def _update_read_pause(self) -> None:
        """Pause or resume reading. Back-pressure: a client that does not read, or sends faster than
        its requests are handled, is not read from."""
        transport = self.transport
        must_pause = self.stalled or self._deferred or len(self._buffer) > PIPELINED_BYTES_MAX
        if must_pause is not self._paused and transport is not None and not transport.is_closing():
            self._paused = must_pause
            if must_pause:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _receive(self, data: bytes) -> WorkSteps:
        """Parse received bytes. The head is parsed at once, because it tells whose turn the rest
        is."""
        if self.transport is None or self.transport.is_closing():
            return iter(())
        if self._refused_bytes:
            self._refused_bytes += len(data)
            if self._refused_bytes > LINGER_BYTES_MAX:
                self.transport.abort()
            return iter((cost_of(len(data)),))
        if self.busy:
            self._buffer += data
            return iter(())
        try:
            if self._incoming_request is None:
                data = self._read_head(self._buffer + data)
        except BadMessage as error:
            self.refuse(error.status, str(error))
        if self._incoming_request is None or self._incoming_body is None:
            return iter(())
        return self._read_body(data, self._incoming_request, self._incoming_body)

    def _read_head(self, data: bytes) -> bytes:
        """Parse the head if it is complete; returns the bytes after it."""
        # RFC 9112, 2.2: "SHOULD ignore at least one empty line (CRLF)" before a request.
        data = data.removeprefix(b"\r\n")
        end = data.find(HEAD_END)
        if end < 0:
            if data[:1] == TLS_HELLO:
                raise BadMessage(400, "This is plain HTTP: use http:// in the address")
            if len(data) > HEAD_BYTES_MAX:
                raise BadMessage(431, f"The header fields have more than {HEAD_BYTES_MAX} bytes")
            if not self._buffer and data:
                self.deadline = self._server.now + HEAD_SECONDS_MAX
            self._buffer = data
            return b""
        self._buffer = b""
        request = self._server.heads.parse(data[:end])
        self._peer = None if request.peer is LOCAL else request.peer
        denial = request.denial
        if denial is not None and request.length:
            # The body of a denied request is not read. RFC 9110, 10.1.1: a client that sent
            # `Expect: 100-continue` does not even send it.
            self._server.deny(self, request, denial)
            return b""
        body = RequestBody(request.length, self._server.memory_budget)
        if request.head.expects_continue and self.transport is not None:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._incoming_request, self._incoming_body = request, body
        self.deadline = self._server.now + BODY_SECONDS_MAX
        return data[end + 4 :]

    def _read_body(self, data: bytes, request: McpRequestHead, body: RequestBody) -> WorkSteps:
        try:
            whole = body.feed(data)
            while body.has_more_chunks and not whole:
                yield SLICE_COST_MAX
                if self._incoming_body is not body:
                    return  # The body was dropped in the meantime.
                whole = body.feed(b"")
        except BadMessage as error:
            self.refuse(error.status, str(error))
            return
        if not whole:
            yield cost_of(len(data))
            return
        # The request is complete: `_incoming_request` is only for one whose body is still
        # arriving.
        self._incoming_request, self._incoming_body, self._buffer = None, None, body.rest
        self.busy, self.deadline = True, NEVER
        if body.size <= HEAVY_BYTES:
            self._server.serve(self, request, body.take_bytes())
        else:
            yield from self._serve_large(request, body.take_bytes())

    def _serve_large(self, request: McpRequestHead, body: bytes) -> WorkSteps:
        """Serve a request with a large body when its turn comes; until then it counts against the
        memory budget.

        If the client disconnects in the meantime, it may still be served: see
        `serve_now`.
        """
        reservation = MemoryReservation(self._server.memory_budget)
        self._pending_count += 1
        try:
            if not reservation.resize(len(body)):
                self.refuse(UNAVAILABLE, TOO_MANY_LARGE_REQUESTS)
                return
            yield cost_of(len(body))
        finally:
            reservation.release()
            self._pending_count -= 1
        self._server.serve_now(self, request, body)

    def _drop_body(self) -> None:
        """Free the body that was being received."""
        body, self._incoming_body = self._incoming_body, None
        if body is not None:
            body.release()

    def _on_answer_complete(self) -> None:
        """The response is complete: close the connection, or make it ready for the next request."""
        self.streaming = self.is_head_request = False
        self.exchange = self.stream = self.stream_opener = self.on_closed = self.last_request = None
        self.deadline = self.deadline if self.stalled else self._server.now + IDLE_SECONDS_MAX
        if self.close_after_answer:
            self.close()
        elif self._buffer:
            # `busy` until the next request is taken up, so that bytes received meanwhile queue
            # behind it.
            self._has_next_request = True
            self._schedule_next_request()
        else:
            self.busy = False

    def _schedule_next_request(self) -> None:
        """Take up a pipelined request, once the client reads its responses."""
        ready = self._has_next_request and not self.stalled and not self._deferred
        if ready and self.transport is not None:
            self._deferred = True
            self._server.scheduler.defer(
                self._peer or self, self._receive_buffered(), self._on_work_done
            )

    def _receive_buffered(self) -> WorkSteps:
        data, self._buffer = self._buffer, b""
        self._has_next_request = self.busy = False
        yield from self._receive(data)
        yield REQUEST_COST

    # The connection as a reply writer: answers of MCP.

    @property
    def reply_only(self) -> bool:
        """Whether the client accepts no event stream, so that nothing can precede the answer."""
        return self.stream is None and self.stream_opener is None

    def send_frames(self, *frames: bytes) -> None:
        """Send frames before the answer; turns the response into an event stream."""
        if self.stream is None and self.stream_opener is not None and self.transport is not None:
            self.stream_opener.open_stream(self)
        if self.stream is not None:
            self.stream.send_frames(*frames)

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        """Send the answer: as the last event of a stream, or as a JSON response."""
        self.exchange = None
        if self.stream is not None:
            self.stream.end(frame)
        elif code is None and retry_after is None:
            if self.transport is not None:
                if len(frame) < COPIED_BYTES_MAX:
                    self._server.send(self, _OK_JSON % (len(frame), frame))
                else:
                    self._server.send(self, _OK_JSON % (len(frame), b""))
                    self._server.send(self, frame)
                if not (self._buffer or self.close_after_answer):
                    self.busy = False
                    self.stream_opener = None
                    self.deadline = self._server.now + IDLE_SECONDS_MAX
                else:
                    self._on_answer_complete()
        else:
            status, fields = status_of(code, retry_after, self.error_statuses)
            self.answer(status, frame, fields)

    # The connection as an HTTP responder.

    @property
    def unsent_bytes(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def update_unsent_memory(self) -> None:
        """Count what a stalled client has not read against the memory budget."""
        self._unsent_memory.resize(self.unsent_bytes)

    def answer(self, status: int, body: bytes = b"", fields: Fields = ()) -> None:
        if self.transport is None:
            return
        head = encode_response_head(status, fields, b"Content-Length: %d\r\n" % len(body))
        self._server.send(self, head if self.is_head_request else head + body)
        self._on_answer_complete()

    def start_event_stream(self, stream: EventStream, fields: Fields) -> None:
        """Turn the response into an event stream, kept alive by comments."""
        self.start(200, fields)
        self.stream = stream
        self.deadline = self._server.now + KEEP_ALIVE_SECONDS

    def on_deadline(self) -> None:
        """The deadline has passed: close the connection, or keep a response in progress alive."""
        if self.transport is None:
            self.deadline = NEVER
        elif self.stalled or self._refused_bytes or self.transport.is_closing():
            if self.stalled:
                self._server.on_timeout(Timeout.IDLE)
            self.transport.abort()
        elif self.busy:
            self.deadline = self._server.now + KEEP_ALIVE_SECONDS
            if self.stream is None and self.stream_opener is not None:
                self.stream_opener.open_stream(self)
            if self.stream is not None:
                self.write(KEEP_ALIVE)
        else:
            head_read, head_started = self._incoming_request is not None, bool(self._buffer)
            open_seconds = self._server.now - self.opened_at
            timeout = timeout_kind(
                head_read=head_read, begun=head_started, open_seconds=open_seconds
            )
            self._server.on_timeout(timeout)
            if head_read or head_started:
                self.refuse(408, timeout_message(timeout), timeout=timeout)
            self.close()

    def start(self, status: int, fields: Fields) -> None:
        self.streaming = True
        self.write_raw(encode_streaming_head(status, tuple(fields)))

    def write(self, *pieces: bytes) -> None:
        """Send one chunk."""
        if pieces and not self.is_head_request:
            self.write_raw(encode_chunk(b"".join(pieces)))

    def write_raw(self, raw: bytes) -> None:
        if self.transport is not None:
            self._server.send(self, raw)

    @property
    def is_keeping_up(self) -> bool:
        """Whether the client reads fast enough to be sent more; if not, the connection is aborted.

        A single message may exceed the limit: only what is unsent before it counts.
        """
        bytes_max = (
            STREAM_UNSENT_BYTES_MAX if self._server.memory_budget.is_full else self.unsent_bytes_max
        )
        keeping_up = not self.streaming or self.unsent_bytes <= bytes_max
        if not keeping_up and self.transport is not None:
            self.transport.abort()
        return keeping_up

    def finish(self) -> None:
        if self.transport is not None:
            if not self.is_head_request:
                self._server.send(self, LAST_CHUNK)
            self._on_answer_complete()

    def refuse(
        self, status: int, message: str, fields: Fields = (), timeout: Timeout | None = None
    ) -> None:
        """Reject what is not a valid request, and close: where the next one begins is unknown."""
        if self.transport is None:
            return
        data = None if timeout is None else b'{"timeout":"%b"}' % timeout.value.encode()
        body = jsonrpc.encode_failure(
            None, jsonrpc.encode_error(-32600, message, data), null_id=False
        )
        if status == UNAVAILABLE:
            has_request = self.busy or self._incoming_request is not None
            reason = "bytes" if has_request else "connections"
            fields = (*fields, ("retry-after", str(self._server.memory_budget.refuse(reason))))
        self.answer_and_close(status, body, (*fields, JSON_CONTENT_TYPE))

    def answer_and_close(self, status: int, body: bytes, fields: Fields) -> None:
        """Respond, then ignore what the client still sends and close."""
        closing = (*fields, ("connection", "close"))
        raw = encode_response_head(status, closing, b"Content-Length: %d\r\n" % len(body)) + body
        self._server.send(self, raw)
        self._buffer, self.busy, self._refused_bytes = b"", True, 1
        self._drop_body()
        self.deadline = self._server.now + LINGER_SECONDS_MAX
        asyncio.get_running_loop().call_soon(self._send_eof)

    def _send_eof(self) -> None:
        # RFC 9112, 9.6: an immediate close would reset the connection under a client that is still
        # sending, and the response would be lost with it. The client closes after reading.
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def cancel_exchange(self) -> None:
        """Cancel the open request, because its client has lost access."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.cancel(b'"The client is not let in any more"')

    def abort_stream(self) -> None:
        """End a response in progress, and close the connection."""
        self.cancel_exchange()
        if self.stream is not None:
            self.stream.detach(self)
        on_closed, self.on_closed = self.on_closed, None
        self.close_after_answer = True
        self.finish()
        if on_closed is not None:
            on_closed()

    def evict(self) -> None:
        """Close the connection to make room for another; unsent bytes are dropped."""
        if self.unsent_bytes and self.transport is not None:
            self.transport.abort()
        else:
            self.close()

    def close(self) -> None:
        """Close the connection when everything written has been sent."""
        transport = self.transport
        if transport is not None:
            self.deadline = self._server.now + STALLED_SECONDS_MAX
            asyncio.get_running_loop().call_soon(transport.close)
