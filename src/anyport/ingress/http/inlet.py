"""One HTTP connection from a client: requests in, one at a time; an answer or a stream out.

Bytes become a `Visit` and a body, and whoever is there to answer gets them together with this
connection as the way back. The common request comes in one piece with a head that has been seen
before, and costs one look-up. Deadlines are looked after by the ingress, which sweeps.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from anyport.ingress.http import patience
from anyport.ingress.http.body import Body
from anyport.ingress.http.patience import IDLE_SECONDS_MAX, KEEP_ALIVE_SECONDS, NEVER
from anyport.ingress.http.reply import JSON, Fields, Host, Opener, Stream, status_of
from anyport.ingress.http.visit import Visit
from anyport.protocol.errors import UNAVAILABLE, Pause
from anyport.protocol.exchange import Pending
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.room import Held
from anyport.protocol.timeouts import Timeout
from anyport.wire import codec
from anyport.wire.http import (
    END,
    HEAD_BYTES_MAX,
    LAST_CHUNK,
    BadMessage,
    chunk,
    reply_head,
    streaming_head,
)

STREAM_UNSENT_BYTES_MAX: Final = 1024 * 1024
"""What may wait for a client that reads its stream too slowly; then the stream is ended."""
ANSWERS_UNSENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""The same for a stream that carries the answers of many calls, which may be large, as long as
there is room for such."""
LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
"""A client that was refused may send so much more, until it reads that it was."""
PIPELINED_BYTES_MAX: Final = 64 * 1024
"""What may come while a request is being answered; then nothing more is read."""

KEEP_ALIVE: Final = b": \n"
"""A comment, and no empty line after it: that would end an event, and older Python clients make an
empty one of it as soon as any event before had an id, and then complain that it is no JSON."""

LARGE_BYTES: Final = 16 * 1024
"""What is larger is not copied just to be sent in one piece."""
TLS_HELLO: Final = b"\x16"
"""How a client begins that thinks TLS is spoken here."""
_OK_JSON: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
)


class Inlet(asyncio.Protocol):
    """One connection, and the way back for the request on it."""

    __slots__ = (
        *("_body", "_held", "_host", "_known", "_refused", "_untaken", "_visit", "_waits"),
        *("bare", "busy", "deadline", "exchange", "last", "on_closed", "opened", "opener"),
        *("principal", "stalled", "statuses", "stream", "streaming", "transport"),
        *("unsent_bytes_max", "until"),
    )

    def __init__(self, host: Host) -> None:
        self.transport: asyncio.Transport | None = None
        self.principal: Principal = LOCAL
        self.deadline = NEVER
        self.opened = 0.0
        self.until = NEVER
        """When its next answer is its last one; nothing is cut short for that."""
        self.busy = False
        """A request is being answered."""
        self.bare = False
        """It is a HEAD: the answer is what a GET would get, without the body."""
        self.streaming = False
        """Its answer comes in pieces."""
        self.on_closed: Callable[[], None] | None = None
        self.opener: Opener | None = None
        """Opens the stream that a first frame before the answer needs."""
        self.last = False
        """No other request follows on this connection."""
        self.stalled = False
        """The client has stopped reading."""
        self.exchange: Pending | None = None
        """What is cancelled when the client goes away."""
        self.stream: Stream | None = None
        self.unsent_bytes_max = STREAM_UNSENT_BYTES_MAX
        self.statuses: dict[int, int] = {}
        """The HTTP status for the code of a JSON-RPC error; 200 for all others."""
        self._host = host
        self._known = host.heads.known
        self._held = b""
        self._waits = False
        """The next request has come, and is taken up in a moment."""
        self._refused = 0
        """Once something was refused: one, and the bytes since, which nobody looks at."""
        self._visit: Visit | None = None
        self._body: Body | None = None
        """Of a request that did not come in one piece, until it is whole."""
        self._untaken = Held(host.room)
        """What the client has not read."""

    # What the loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has no such base.
        self.opened = now = self._host.now
        self.until = patience.until(now, self._host.chance())
        self.deadline = now + patience.HEAD_SECONDS_MAX
        if not self._host.arrived(self):
            self.refuse(UNAVAILABLE, "Too many connections")
            self.hang_up()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        if self._visit is None and not self._held and not self.busy:
            end = data.find(END)
            visit = self._known.get(data[:end])
            if visit is not None and visit.length == len(data) - end - 4 and end > 0:
                self.busy = True
                self.deadline = NEVER
                self._host.serve(self, visit, data[end + 4 :])
                return
        self._receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self.transport = None
        self.deadline = NEVER
        self._let_go()
        self._untaken.let_go()
        self._host.gone(self)
        if self.stream is not None:
            self.stream.cut(self)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.cancel(b'"The client closed the stream"')
        closed, self.on_closed = self.on_closed, None
        if closed is not None:
            closed()

    def pause_writing(self) -> None:
        """The client does not read as fast as we write; so it is not read from, either."""
        self.stalled = True
        self.recount()
        self.deadline = self._host.now + patience.STALLED_SECONDS_MAX
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.stalled = False
        self._untaken.let_go()
        self.deadline = self._host.now + (KEEP_ALIVE_SECONDS if self.busy else IDLE_SECONDS_MAX)
        if self._waits:
            self._go_on()
        elif self.transport is not None and len(self._held) <= PIPELINED_BYTES_MAX:
            self.transport.resume_reading()

    # Requests, piece by piece.

    def _receive(self, data: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if self._refused:
            self._refused += len(data)
            if self._refused > LINGER_BYTES_MAX:
                self.transport.abort()
            return
        if self.busy:
            self._held += data
            if len(self._held) > PIPELINED_BYTES_MAX:
                self.transport.pause_reading()
            return
        try:
            if self._visit is None:
                data = self._begin(self._held + data)
            if self._visit is not None and self._body is not None and self._body.feed(data):
                self._serve(self._visit, self._body)
        except BadMessage as error:
            self.refuse(error.status, str(error))

    def _begin(self, data: bytes) -> bytes:
        """Read the head, if it is whole; returns what follows it."""
        # RFC 9112, 2.2: "SHOULD ignore at least one empty line (CRLF)" before a request.
        data = data.removeprefix(b"\r\n")
        end = data.find(END)
        if end < 0:
            if data[:1] == TLS_HELLO:
                raise BadMessage(400, "This is plain HTTP: use http:// in the address")
            if len(data) > HEAD_BYTES_MAX:
                raise BadMessage(431, f"The header fields have more than {HEAD_BYTES_MAX} bytes")
            if not self._held and data:
                self.deadline = self._host.now + patience.HEAD_SECONDS_MAX
            self._held = data
            return b""
        self._held = b""
        visit = self._host.heads.read(data[:end])
        denial = visit.denial
        body = Body(visit.length, self._host.room, kept=denial is None)
        if visit.head.expects_continue and self.transport is not None:
            if denial is not None:
                # RFC 9110, 10.1.1: a final status instead of 100, and the body need not come.
                self.refuse(denial.status, denial.message, denial.fields)
                return b""
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._visit, self._body = visit, body
        self.deadline = self._host.now + patience.BODY_SECONDS_MAX
        return data[end + 4 :]

    def _serve(self, visit: Visit, body: Body) -> None:
        self._visit, self._body, self._held = None, None, body.rest
        self.busy = True
        self.deadline = NEVER
        self._host.serve(self, visit, body.take())

    def _let_go(self) -> None:
        """The request that was coming takes up nothing any more."""
        body, self._body = self._body, None
        if body is not None:
            body.let_go()

    def _next(self) -> None:
        """The answer is complete: the connection is free for the next request."""
        self.streaming = self.bare = False
        self.exchange = self.stream = self.opener = self.on_closed = None
        self.deadline = self.deadline if self.stalled else self._host.now + IDLE_SECONDS_MAX
        if self.last:
            self.hang_up()
        elif self._held:
            # Busy until then, so that what comes meanwhile takes its place behind.
            self._waits = True
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self.busy = False

    def _go_on(self) -> None:
        """Take the next request, which has come already, from a client that reads its answers."""
        if self._waits and self.transport is not None and not self.stalled:
            held, self._held = self._held, b""
            self._waits = self.busy = False
            self.transport.resume_reading()
            self._receive(held)

    # Answers of MCP.

    @property
    def mute(self) -> bool:
        """Whether the client takes no stream, and so nothing before the answer."""
        return self.stream is None and self.opener is None

    def note(self, *frames: bytes) -> None:
        """Frames before the answer: from now on the answer is a stream."""
        if self.stream is None and self.opener is not None and self.transport is not None:
            self.opener.open_stream(self)
        if self.stream is not None:
            self.stream.note(*frames)

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """The answer."""
        self.exchange = None
        if self.stream is not None:
            self.stream.end(frame)
        elif code is None and pause is None:
            if self.transport is not None:
                if len(frame) < LARGE_BYTES:
                    self._host.send(self, _OK_JSON % (len(frame), frame))
                else:
                    self._host.send(self, _OK_JSON % (len(frame), b""))
                    self._host.send(self, frame)
                if not (self._held or self.last):
                    self.busy = False
                    self.opener = None
                    self.deadline = self._host.now + IDLE_SECONDS_MAX
                else:
                    self._next()
        else:
            status, fields = status_of(code, pause, self.statuses)
            self.answer(status, frame, fields)

    # Answers of any kind.

    @property
    def unsent_bytes(self) -> int:
        """What the client has not taken yet."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def recount(self) -> None:
        """See how much a client that has stopped reading has not taken."""
        self._untaken.keep(self.unsent_bytes)

    def answer(self, status: int, body: bytes = b"", fields: Fields = ()) -> None:
        """The whole answer."""
        if self.transport is None:
            return
        head = reply_head(status, fields, b"Content-Length: %d\r\n" % len(body))
        self._host.send(self, head if self.bare else head + body)
        self._next()

    def open_events(self, stream: Stream, fields: Fields) -> None:
        """The answer is an event stream, which is kept alive by comments."""
        self.start(200, fields)
        self.stream = stream
        self.deadline = self._host.now + KEEP_ALIVE_SECONDS

    def overdue(self) -> None:
        """The deadline has passed: the client is let go, or told that we are still here."""
        if self.transport is None:
            self.deadline = NEVER
        elif self.stalled or self._refused or self.transport.is_closing():
            if self.stalled:
                self._host.timed_out(Timeout.IDLE)
            self.transport.abort()
        elif self.busy:
            self.deadline = self._host.now + KEEP_ALIVE_SECONDS
            if self.stream is None and self.opener is not None:
                self.opener.open_stream(self)
            if self.stream is not None:
                self.write(KEEP_ALIVE)
        else:
            read, begun = self._visit is not None, bool(self._held)
            open_seconds = self._host.now - self.opened
            timeout = patience.overdue(head_read=read, begun=begun, open_seconds=open_seconds)
            self._host.timed_out(timeout)
            if read or begun:
                self.refuse(408, patience.words(timeout), timeout=timeout)
            self.hang_up()

    def start(self, status: int, fields: Fields) -> None:
        """The head of an answer that comes in pieces."""
        self.streaming = True
        self.write_raw(streaming_head(status, tuple(fields)))

    def write(self, *pieces: bytes) -> None:
        """More of it, in one chunk."""
        if pieces and not self.bare:
            self.write_raw(chunk(b"".join(pieces)))

    def write_raw(self, raw: bytes) -> None:
        """Bytes as they are."""
        if self.transport is not None:
            self._host.send(self, raw)

    @property
    def keeps_pace(self) -> bool:
        """Whether the client has read enough of its stream to be sent more; if not, it is let go.

        One message may be larger than what may wait: it is what waits before it that counts.
        """
        most = STREAM_UNSENT_BYTES_MAX if self._host.room.full else self.unsent_bytes_max
        good = not self.streaming or self.unsent_bytes <= most
        if not good and self.transport is not None:
            self.transport.abort()
        return good

    def finish(self) -> None:
        """The last piece has been written."""
        if self.transport is not None:
            if not self.bare:
                self._host.send(self, LAST_CHUNK)
            self._next()

    def refuse(
        self, status: int, words: str, fields: Fields = (), timeout: Timeout | None = None
    ) -> None:
        """Answer what is no request, and take no other: nobody knows where the next one begins."""
        if self.transport is None:
            return
        data = None if timeout is None else b'{"timeout":"%b"}' % timeout.value.encode()
        body = codec.failure(None, codec.error(-32600, words, data), null_id=False)
        if status == UNAVAILABLE:
            why = "connections" if self._visit is None else "bytes"
            fields = (*fields, ("retry-after", str(self._host.room.turn_away(why))))
        closing = (*fields, JSON, ("connection", "close"))
        raw = reply_head(status, closing, b"Content-Length: %d\r\n" % len(body)) + body
        self._host.send(self, raw)
        self._held, self.busy, self._refused = b"", True, 1
        self._let_go()
        self.deadline = self._host.now + patience.LINGER_SECONDS_MAX
        asyncio.get_running_loop().call_soon(self._say_no_more)

    def _say_no_more(self) -> None:
        # RFC 9112, 9.6: closed at once, the connection would be reset under a client that is
        # still sending, and the refusal lost with it. The client closes when it has read it.
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()

    def hang_up(self) -> None:
        """Close the connection when all that was said has been sent."""
        transport = self.transport
        if transport is not None:
            self.deadline = self._host.now + patience.STALLED_SECONDS_MAX
            asyncio.get_running_loop().call_soon(transport.close)
