"""One connection to an HTTP server: a request out, a whole reply or an event stream in.

Callbacks, no tasks: a reply that comes in one piece goes from the socket to its taker in one
call. Every buffer is bounded. Knows HTTP; which connection a request travels on is decided by
the client that the connection belongs to.
"""

import asyncio
from enum import Enum
from math import inf
from typing import Final, Protocol, cast

import msgspec

from anyport.protocol.room import LARGE_BYTES, Held, Room
from anyport.protocol.timeouts import Timeout
from anyport.upstream.http.inflate import BadCompression, Inflate, TooLarge, inflate_for
from anyport.upstream.http.patience import Patience
from anyport.wire.http import END, HEAD_BYTES_MAX, BadMessage, Chunks, Heads, ReplyHead
from anyport.wire.http import read_reply_head as read_head

KEPT_SECONDS_MAX: Final = 4.0
"""A connection unused for longer may be closed by the server at the very moment we use it again:
many servers close theirs after five seconds."""
INTERIM_REPLIES_MAX: Final = 16
"""Replies such as 100 and 103 before the real one; there is hardly ever more than one."""

EVENT_STREAM: Final = "text/event-stream"
MISCOMPRESSED: Final = "its reply is not compressed as it says"


class TroubleKind(Enum):
    """What kept a reply from coming."""

    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    CUT = "cut"
    TOO_LARGE = "too-large"
    CROWDED = "crowded"
    """The gateway had no room for it."""
    MALFORMED = "malformed"


class Trouble(msgspec.Struct, frozen=True, gc=False):
    """Why there is no reply, or not a whole one."""

    kind: TroubleKind
    words: str
    sent: bool = True
    """False when the server cannot have seen the request."""
    timeout: Timeout | None = None
    """Which time was over, if it is that."""


class Crowded(Exception):
    """There is no room for what comes."""


class Taker(Protocol):
    """Who is told what becomes of one request. The last call is one of the last three."""

    line: "Line | None"
    """What the request travels on, or travelled on; None while it waits for that."""

    @property
    def waits(self) -> Timeout | None:
        """What ends the wait for a reply to begin; None if whoever asks looks after that."""

    def opened(self, head: ReplyHead) -> None:
        """An event stream begins."""

    def portion(self, portion: bytes) -> None:
        """More of that stream."""

    def answered(self, head: ReplyHead, body: bytes) -> None:
        """The whole reply, when it is not an event stream."""

    def closed(self, trouble: Trouble | None) -> None:
        """The stream is over, in good order or not."""

    def failed(self, trouble: Trouble) -> None:
        """No whole reply will come."""


class Shape(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of a reply's head."""

    head: ReplyHead
    whole_length: int
    """The length of a body that needs nothing done to it; -1 for every other."""


def read_shape(raw: bytes) -> Shape:
    """The shape of a raw head.

    Raises:
        BadMessage: it is none.
    """
    head = read_head(raw)
    plain = head.get("content-encoding") is None and head.media_type != EVENT_STREAM
    simple = plain and head.status >= 200 and head.keep_alive and head.body_length is not None
    return Shape(head, (head.body_length or 0) if simple else -1)


class Pool(Protocol):
    """The client, as a connection sees it."""

    heads: Heads[Shape]
    bytes_max: int
    room: Room
    patience: Patience

    def release(self, line: "Line") -> None:
        """A connection is free again."""

    def forget(self, line: "Line") -> None:
        """A connection is gone."""


class Line(asyncio.Protocol):
    """One connection; one request at a time."""

    __slots__ = (
        "_body",
        "_chunks",
        "_client",
        "_head",
        "_held",
        "_inflate",
        "_interim",
        "_kept",
        "_known",
        "_left",
        "_quiet_since",
        "_size",
        "_taker",
        "_transport",
        "since",
        "until",
    )

    def __init__(self, client: Pool) -> None:
        self.since = 0.0
        """Since when it is idle."""
        self.until = inf
        """When it is closed, unless it is in use then; see `patience`."""
        self._client = client
        self._known = client.heads.known
        self._transport: asyncio.Transport | None = None
        self._taker: Taker | None = None
        self._quiet_since: float | None = None
        self._held = b""
        self._kept = Held(client.room)
        """What has come of a large reply."""
        self._reset()

    def _reset(self) -> None:
        self._kept.let_go()
        self._head: ReplyHead | None = None
        self._chunks: Chunks | None = None
        self._inflate: Inflate | None = None
        self._left: int | None = None
        self._interim = 0
        self._body: list[bytes] = []
        self._size = 0

    # What the client does.

    @property
    def open(self) -> bool:
        """Whether anything can be sent on it."""
        return self._transport is not None and not self._transport.is_closing()

    def usable(self, now: float) -> bool:
        """Whether it may be used again; closed if it is too old for that."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if now - self.since > KEPT_SECONDS_MAX:
            transport.abort()
            return False
        return True

    def send(self, taker: Taker, message: bytes) -> None:
        """Send one request."""
        taker.line = self
        self._taker = taker
        self._quiet_since = None
        if self._transport is not None:
            self._transport.write(message)

    def give_up(self, taker: Taker | None) -> None:
        """Close the connection, if it is still this one's; silently."""
        if taker is not None and self._taker is not taker:
            return
        self._taker, waiting = None, self._taker
        if self._transport is not None:
            self._transport.abort()
        if taker is None and waiting is not None:
            self._tell_cut(waiting, "the gateway closed the connection")

    def retire(self) -> None:
        """Close it: nothing is under way on it."""
        if self._transport is not None:
            self._transport.close()

    def look(self, now: float) -> None:
        """Close it if nothing has moved for too long."""
        taker, patience = self._taker, self._client.patience
        if taker is None:
            self.usable(now)
            return
        if self._quiet_since is None:
            self._quiet_since = now
        begun = self._head is not None or bool(self._held)
        timeout = Timeout.STREAM_IDLE if begun else taker.waits
        if timeout is not None and now - self._quiet_since >= patience.allowed(timeout):
            patience.tell(timeout)
            self._broken(TroubleKind.TIMEOUT, patience.words(timeout), timeout)

    # What the loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has no such base.

    def data_received(self, data: bytes) -> None:
        """Bytes of a reply. The common one is whole, and its head has been seen before."""
        if self._head is None and not self._held:
            end = data.find(END)
            shape = self._known.get(data[:end])
            if shape is not None and end > 0 and shape.whole_length == len(data) - end - 4:
                taker, self._taker = self._taker, None
                if taker is not None:
                    self._client.release(self)
                    taker.answered(shape.head, data[end + 4 :])
                    return
        self._quiet_since = None
        try:
            self._receive(data)
        except BadMessage as error:
            self._broken(TroubleKind.MALFORMED, f"its reply is not HTTP: {error}")
        except BadCompression:
            self._broken(TroubleKind.MALFORMED, MISCOMPRESSED)
        except (Crowded, MemoryError):
            self._broken(TroubleKind.CROWDED, f"{self._size} bytes; the call was carried out")
        except TooLarge:
            words = f"its reply has more than {self._client.bytes_max} bytes"
            self._broken(TroubleKind.TOO_LARGE, words)

    def eof_received(self) -> None:
        """The server will send no more: that ends a body that has no other end."""
        head = self._head
        if head is not None and head.body_length is None and not head.chunked:
            self._finish(reuse=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        self._kept.let_go()
        self._client.forget(self)
        taker, self._taker = self._taker, None
        if taker is not None:
            self._tell_cut(taker, "it closed the connection before its reply was complete")

    # Reading a reply piece by piece.

    @property
    def _streaming(self) -> bool:
        return self._head is not None and self._head.media_type == EVENT_STREAM

    def _receive(self, data: bytes) -> None:
        if self._taker is None:
            raise BadMessage(400, "more than one reply to a request")
        if self._head is None:
            rest = self._begin(data)
            if rest is None:
                return
            data = rest
        if self._chunks is not None:
            # Joined, lest a body in chunks of one byte takes fifty times its size.
            self._take(b"".join(self._chunks.feed(data)))
            if self._chunks.done:
                self._finish(reuse=not self._chunks.rest)
            return
        if self._left is None:
            self._take(data)
            return
        self._left -= len(data)
        self._take(data)
        if self._left < 0:
            raise BadMessage(400, "its body is longer than it says")
        if self._left == 0:
            self._finish(reuse=True)

    def _begin(self, data: bytes) -> bytes | None:
        """Read the head; the bytes after it, or None if it is not whole or was only interim."""
        data = self._held + data
        while True:
            end = data.find(END)
            if end < 0:
                if len(data) > HEAD_BYTES_MAX:
                    raise BadMessage(431, "its head does not end")
                self._held = data
                return None
            head = self._client.heads.read(data[:end]).head
            data = data[end + 4 :]
            if head.status >= 200:
                break
            self._interim += 1  # 100 and 103 are followed by the real one.
            if self._interim > INTERIM_REPLIES_MAX:
                raise BadMessage(400, "too many interim replies")
        self._held = b""
        self._head = head
        self._inflate = inflate_for(head, self._client.bytes_max)
        if head.chunked:
            self._chunks = Chunks()
        else:
            self._left = head.body_length
        if self._streaming and self._taker is not None:
            self._taker.opened(head)
        return data

    def _take(self, piece: bytes) -> None:
        """One piece of the body, as it stood on the wire."""
        if self._inflate is not None:
            piece = self._inflate.feed(piece)
        if not piece:
            return
        if self._streaming:
            if self._taker is not None:
                self._taker.portion(piece)
            return
        self._size += len(piece)
        if self._size > self._client.bytes_max:
            raise TooLarge
        if self._size > LARGE_BYTES and not self._kept.keep(self._size):
            raise Crowded
        self._body.append(piece)

    def _finish(self, *, reuse: bool) -> None:
        """The reply is complete."""
        if self._inflate is not None and self._inflate.cut_off and not self._streaming:
            self._broken(TroubleKind.MALFORMED, MISCOMPRESSED)
            return
        taker, head, body = self._taker, self._head, self._body
        streamed = self._streaming
        self._taker = None
        self._reset()
        if reuse and head is not None and head.keep_alive and self.open:
            self._client.release(self)
        elif self._transport is not None:
            self._transport.close()
        if taker is None or head is None:
            return
        if streamed:
            taker.closed(None)
        else:
            taker.answered(head, b"".join(body) if len(body) != 1 else body[0])

    def _broken(self, kind: TroubleKind, words: str, timeout: Timeout | None = None) -> None:
        taker, self._taker = self._taker, None
        if self._transport is not None:
            self._transport.abort()
        if taker is not None:
            self._tell(taker, Trouble(kind, words, timeout=timeout))

    def _tell_cut(self, taker: Taker, words: str) -> None:
        self._tell(taker, Trouble(TroubleKind.CUT, words))

    def _tell(self, taker: Taker, trouble: Trouble) -> None:
        if self._streaming:
            taker.closed(trouble)
        else:
            taker.failed(trouble)
