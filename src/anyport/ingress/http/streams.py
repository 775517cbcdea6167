"""SSE streams to one client: sent on a connection, buffered, and resumed on another one.

Each stream of a session numbers its events. Sent events are kept within limits, so that a client
that lost its connection can ask for what follows the last event it saw. MCP 2025-06-18, transports:
only events of that same stream are replayed.

An event id is `{prefix}{stream}[.{request}]-{number}`. The prefix is random, so that ids of another
process are never mistaken for this one's. The request id in it tells a client which answer was lost
with that process.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from anyport.ingress.http.connection import HttpConnection
from anyport.wire.sse import encode_events, encode_numbered_events

EVENTS_KEPT_MAX: Final = 512
"""Of one session, over all its streams."""
EVENT_BYTES_KEPT_MAX: Final = 1024 * 1024
"""Of one session; a larger event is sent but cannot be replayed."""
STREAMS_KEPT_MAX: Final = 64
"""Of one session; the oldest ended one makes room."""
REQUEST_ID_BYTES_MAX: Final = 64
"""Longer request ids are left out of event ids; a UUID is far shorter."""
CONNECTIONS_PER_STREAM_MAX: Final = 4
"""Connections on which a client may wait for the events of one stream; the oldest is closed."""
RETRY_MS: Final = 1000
"""How long a client should wait before it reconnects."""
HEADERS: Final = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)


class ReplayBuffer:
    """Sent events of one session, oldest first."""

    __slots__ = ("_bytes", "_count", "_events", "_id_prefix", "_stream_count", "streams")

    def __init__(self, name: str = "") -> None:
        self._id_prefix = name
        self.streams: dict[str, ResumableStream] = {}
        self._events: list[tuple[ResumableStream, int, Sequence[bytes]]] = []
        """Events sent together, with the number of the first."""
        self._count = 0
        self._bytes = 0
        self._stream_count = 0

    def open(self, *, primed: bool, request: bytes | None = None) -> "ResumableStream":
        """Open a stream, which may be for the answer to a request."""
        if len(self.streams) >= STREAMS_KEPT_MAX:
            oldest = next((id for id, stream in self.streams.items() if stream.ended), "")
            self.streams.pop(oldest, None)
        self._stream_count += 1
        id = f"{self._id_prefix}{self._stream_count:x}"
        if request is not None and len(request) <= REQUEST_ID_BYTES_MAX:
            id = f"{id}.{request.hex()}"
        stream = ResumableStream(id, self, primed=primed)
        self.streams[stream.id] = stream
        return stream

    def keep(self, stream: "ResumableStream", number: int, raws: Sequence[bytes]) -> None:
        """Keep events, numbered from `number`, and drop the oldest over the limits."""
        size = sum(map(len, raws))
        if size > EVENT_BYTES_KEPT_MAX or len(raws) > EVENTS_KEPT_MAX:
            # Too large together: keep each event that is small enough by itself.
            for at, raw in enumerate(raws, number):
                if len(raw) <= EVENT_BYTES_KEPT_MAX:
                    self.keep(stream, at, (raw,))
            return
        kept = self._events
        kept.append((stream, number, raws))
        self._count += len(raws)
        self._bytes += size
        while self._count > EVENTS_KEPT_MAX or self._bytes > EVENT_BYTES_KEPT_MAX:
            oldest = kept.pop(0)[2]
            self._count -= len(oldest)
            self._bytes -= sum(map(len, oldest))

    def close(self) -> None:
        """End all streams and drop all events."""
        streams, self.streams, self._events = self.streams, {}, []
        self._count = self._bytes = 0
        for stream in streams.values():
            stream.close()

    def events_after(self, stream: "ResumableStream", number: int) -> list[bytes]:
        """The kept events of a stream after a number."""
        return [
            raw
            for owner, first, raws in self._events
            if owner is stream
            for at, raw in enumerate(raws, first)
            if at > number
        ]

    def find(self, last_event_id: str) -> "tuple[ResumableStream, int] | None":
        """The stream and the number that an event id names."""
        id, dash, number = last_event_id.partition("-")
        stream = self.streams.get(id)
        if stream is None or not dash or not number.isascii() or not number.isdigit():
            return None
        at = int(number[:9])
        return (stream, at) if at <= stream.count else None

    def lost_request_id(self, last_event_id: str) -> bytes | None:
        """The raw request id in an event id of another process; None if there is none."""
        stream, dash, _ = last_event_id.partition("-")
        _, dot, named = stream.partition(".")
        if not dot or not dash or stream.startswith(self._id_prefix):
            return None
        try:
            raw = bytes.fromhex(named[: 2 * REQUEST_ID_BYTES_MAX])
            msgspec.json.decode(raw, type=str | int | float)
        except (ValueError, msgspec.DecodeError):
            return None
        return raw


class ResumableStream:
    """A stream of a session that a client can resume."""

    __slots__ = (
        "_connections",
        "_name",
        "_primed",
        "_replay_buffer",
        "_sent_count",
        "count",
        "ended",
        "id",
    )

    def __init__(self, id: str, replay_buffer: ReplayBuffer, *, primed: bool) -> None:
        self.id = id
        self._name = id.encode()
        self.count = 0
        """Number of events so far."""
        self.ended = False
        self._replay_buffer = replay_buffer
        self._primed = primed
        self._connections: list[HttpConnection] = []
        """MCP 2025-06-18, transports: an event goes to one connection only, the newest."""
        self._sent_count = 0
        """Number of the last event that was written to a connection."""

    @property
    def has_connection(self) -> bool:
        return bool(self._connections)

    def attach(self, connection: HttpConnection, after: int | None = None) -> None:
        """Send the stream on this connection from now on, starting with missed events."""
        connection.start_event_stream(self, HEADERS)
        if len(self._connections) >= CONNECTIONS_PER_STREAM_MAX:
            self._end_on_connection(self._connections.pop(0))
        self._connections.append(connection)
        if self._primed and after is None:
            # MCP 2025-11-25, transports: "The server SHOULD immediately send an SSE event
            # consisting of an event ID and an empty data field in order to prime the client to
            # reconnect".
            connection.write(
                b"id: %b-%d\nretry: %d\ndata: \n\n" % (self._name, self.count, RETRY_MS)
            )
        first_missed = self._sent_count if after is None else after
        if self.count > first_missed:
            connection.write(*self._replay_buffer.events_after(self, first_missed))
        self._sent_count = self.count
        if self.ended:
            self._finish()

    def send_frames(self, *frames: bytes) -> None:
        """Send frames, or keep them until a client reconnects."""
        raws = encode_numbered_events(frames, self._name, self.count + 1)
        self._replay_buffer.keep(self, self.count + 1, raws)
        self.count += len(raws)
        if self._connections:
            self._connections[-1].write(*raws)
            self._sent_count = self.count

    def end(self, frame: bytes) -> None:
        """Send the last frame."""
        self.send_frames(frame)
        self.ended = True
        self._finish()

    def detach(self, connection: HttpConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)

    def close(self) -> None:
        """End the stream without an answer."""
        self.ended = True
        self._finish()

    def _finish(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            self._end_on_connection(connection)

    def _end_on_connection(self, connection: HttpConnection) -> None:
        connection.stream = None
        connection.finish()


class PlainStream:
    """A stream that cannot be resumed: a client that loses it repeats its request."""

    __slots__ = ("_connection",)

    def __init__(
        self, connection: HttpConnection, fields: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._connection: HttpConnection | None = connection
        connection.start_event_stream(self, (*HEADERS, *fields))

    def send_frames(self, *frames: bytes) -> None:
        if self._connection is not None:
            self._connection.write(encode_events(frames))

    def end(self, frame: bytes) -> None:
        """Send the last frame."""
        self.send_frames(frame)
        self.close()

    def detach(self, connection: HttpConnection) -> None:
        self._connection = None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.stream = None
            connection.finish()


class PlainStreamOpener:
    def open_stream(self, connection: HttpConnection) -> None:
        PlainStream(connection)


PLAIN_STREAM_OPENER: Final = PlainStreamOpener()
