"""Event streams to one client: sent on a connection, kept for a while, resumed on another.

Each stream of a session counts its events. What has been sent is kept within bounds, so that a
client that lost its connection can ask for what came after the last event it saw (and only for
events of that stream). Knows events and connections; not what the frames mean.

The id of an event is `{shelf}{stream}[.{request}]-{number}`: a shelf is named by chance, so that
what another process sent is never taken for its own, and the request that a stream answers is
named in it, so that its client can be told when the answer is lost with that process.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from anyport.ingress.http.inlet import Inlet
from anyport.wire.events import numbered_events, plain_events

EVENTS_KEPT_MAX: Final = 512
"""Of one session, over all its streams."""
EVENT_BYTES_KEPT_MAX: Final = 1024 * 1024
"""Of one session; a larger event is sent but cannot be asked for again."""
STREAMS_KEPT_MAX: Final = 64
"""Of one session; the oldest that has ended makes room."""
REQUEST_ID_BYTES_MAX: Final = 64
"""A longer one does not travel in the ids of its events; a UUID is far shorter."""
RETRY_MS: Final = 1000
"""How long a client should wait before it comes back for the rest of a stream."""
HEADERS: Final = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
)


class Shelf:
    """The events one session keeps, oldest first."""

    __slots__ = ("_bytes", "_count", "_kept", "_name", "_opened", "streams")

    def __init__(self, name: str = "") -> None:
        self._name = name
        self.streams: dict[str, Resumable] = {}
        self._kept: list[tuple[Resumable, int, Sequence[bytes]]] = []
        """What was sent at once, with the number of the first event of it."""
        self._count = 0
        self._bytes = 0
        self._opened = 0

    def open(self, *, primed: bool, request: bytes | None = None) -> "Resumable":
        """A new stream, which may be for the answer to a request."""
        if len(self.streams) >= STREAMS_KEPT_MAX:
            oldest = next((id for id, stream in self.streams.items() if stream.ended), "")
            self.streams.pop(oldest, None)
        self._opened += 1
        id = f"{self._name}{self._opened:x}"
        if request is not None and len(request) <= REQUEST_ID_BYTES_MAX:
            id = f"{id}.{request.hex()}"
        stream = Resumable(id, self, primed=primed)
        self.streams[stream.id] = stream
        return stream

    def keep(self, stream: "Resumable", number: int, raws: Sequence[bytes]) -> None:
        """Remember events from this number on, and forget the oldest if there is no room."""
        size = sum(map(len, raws))
        if size > EVENT_BYTES_KEPT_MAX or len(raws) > EVENTS_KEPT_MAX:
            # Those that are small enough may each be asked for again.
            for at, raw in enumerate(raws, number):
                if len(raw) <= EVENT_BYTES_KEPT_MAX:
                    self.keep(stream, at, (raw,))
            return
        kept = self._kept
        kept.append((stream, number, raws))
        self._count += len(raws)
        self._bytes += size
        while self._count > EVENTS_KEPT_MAX or self._bytes > EVENT_BYTES_KEPT_MAX:
            oldest = kept.pop(0)[2]
            self._count -= len(oldest)
            self._bytes -= sum(map(len, oldest))

    def close(self) -> None:
        """End all streams, and keep nothing."""
        streams, self.streams, self._kept = self.streams, {}, []
        self._count = self._bytes = 0
        for stream in streams.values():
            stream.close()

    def after(self, stream: "Resumable", number: int) -> list[bytes]:
        """What a stream sent after an event."""
        return [
            raw
            for owner, first, raws in self._kept
            if owner is stream
            for at, raw in enumerate(raws, first)
            if at > number
        ]

    def find(self, last_event_id: str) -> "tuple[Resumable, int] | None":
        """The stream and the place in it that an event id names."""
        id, dash, number = last_event_id.partition("-")
        stream = self.streams.get(id)
        if stream is None or not dash or not number.isascii() or not number.isdigit():
            return None
        at = int(number[:9])
        return (stream, at) if at <= stream.count else None

    def missing(self, last_event_id: str) -> bytes | None:
        """The raw id of the request whose answer was on a stream of some other shelf."""
        stream, dash, _ = last_event_id.partition("-")
        _, dot, named = stream.partition(".")
        if not dot or not dash or stream.startswith(self._name):
            return None
        try:
            raw = bytes.fromhex(named[: 2 * REQUEST_ID_BYTES_MAX])
            msgspec.json.decode(raw, type=str | int | float)
        except (ValueError, msgspec.DecodeError):
            return None
        return raw


class Resumable:
    """One stream of a session."""

    __slots__ = ("_inlets", "_name", "_primed", "_shelf", "_waiting", "count", "ended", "id")

    def __init__(self, id: str, shelf: Shelf, *, primed: bool) -> None:
        self.id = id
        self._name = id.encode()
        self.count = 0
        """Events so far."""
        self.ended = False
        self._shelf = shelf
        self._primed = primed
        self._inlets: list[Inlet] = []
        """Connections that carry it; an event goes to the one opened last, and to no other."""
        self._waiting = 0
        """The first event that went out on no connection."""

    @property
    def carried(self) -> bool:
        """Whether a client is there to read it."""
        return bool(self._inlets)

    def carry(self, inlet: Inlet, after: int | None = None) -> None:
        """Send the stream on this connection from now on, what was missed first."""
        inlet.open_events(self, HEADERS)
        self._inlets.append(inlet)
        if self._primed and after is None:
            # "The server SHOULD immediately send an SSE event consisting of an event ID and an
            # empty data field in order to prime the client to reconnect" (2025-11-25).
            inlet.write(b"id: %b-%d\nretry: %d\ndata: \n\n" % (self._name, self.count, RETRY_MS))
        missed = self._waiting if after is None else after
        if self.count > missed:
            inlet.write(*self._shelf.after(self, missed))
        self._waiting = self.count
        if self.ended:
            self._finish()

    def note(self, *frames: bytes) -> None:
        """Send frames, or keep them until someone comes for them."""
        raws = numbered_events(frames, self._name, self.count + 1)
        self._shelf.keep(self, self.count + 1, raws)
        self.count += len(raws)
        if self._inlets:
            self._inlets[-1].write(*raws)
            self._waiting = self.count

    def end(self, frame: bytes) -> None:
        """Send the last frame."""
        self.note(frame)
        self.ended = True
        self._finish()

    def cut(self, inlet: Inlet) -> None:
        """A connection that carried it is gone."""
        if inlet in self._inlets:
            self._inlets.remove(inlet)

    def close(self) -> None:
        """Nothing more will come on it, and there is no answer to end it with."""
        self.ended = True
        self._finish()

    def _finish(self) -> None:
        inlets, self._inlets = self._inlets, []
        for inlet in inlets:
            inlet.stream = None
            inlet.finish()


class Plain:
    """A stream that cannot be resumed: its client asks again if it is lost."""

    __slots__ = ("_inlet",)

    def __init__(self, inlet: Inlet, fields: tuple[tuple[str, str], ...] = ()) -> None:
        self._inlet: Inlet | None = inlet
        inlet.open_events(self, (*HEADERS, *fields))

    def note(self, *frames: bytes) -> None:
        """Send frames."""
        if self._inlet is not None:
            self._inlet.write(plain_events(frames))

    def end(self, frame: bytes) -> None:
        """Send the last frame."""
        self.note(frame)
        self.close()

    def cut(self, inlet: Inlet) -> None:
        """The connection is gone."""
        self._inlet = None

    def close(self) -> None:
        """Nothing more will come."""
        inlet, self._inlet = self._inlet, None
        if inlet is not None:
            inlet.stream = None
            inlet.finish()


class PlainOpener:
    """Opens such streams."""

    def open_stream(self, inlet: Inlet) -> None:
        """An answer becomes a stream."""
        Plain(inlet)


PLAIN: Final = PlainOpener()
