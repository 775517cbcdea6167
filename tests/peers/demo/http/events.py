"""SSE streams, resumable ones and others.

A resumable stream outlives its response: the client may lose one response and continue with
another.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

import msgspec

from tests.peers.demo.http.connection import Fields, Response
from tests.peers.demo.revisions import Json

RETRY_MS: Final = 100  # Long enough to be seen to be waited for, and no longer.
KEPT_EVENTS_MAX: Final = 1000  # More than any client misses before it comes back.
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024  # So that a thousand large ones do not fill the memory.


class EventStream(Protocol):
    """Carries messages to one client, in order."""

    def attach(self, response: Response, headers: Fields) -> None:
        """Begins the response that will carry it."""

    def send(self, message: Json) -> None: ...

    def end(self) -> None:
        """There will be nothing more."""

    def give_up(self) -> None:
        """Ends it without the answer that it was opened for."""


class PlainStream:
    """A stream that is lost with the response that carries it."""

    def __init__(self) -> None:
        self._response: Response | None = None

    def attach(self, response: Response, headers: Fields) -> None:
        self._response = response
        response.open_events(headers)

    def send(self, message: Json) -> None:
        if self._response is not None:
            self._response.event(event_of(msgspec.json.encode(message)))

    def end(self) -> None:
        if self._response is not None:
            self._response.end()

    give_up = end


class ResumableStream:
    """A stream whose last events are kept, so that a client can continue where it was cut off.

    The id of an event names the stream and the place in it, as revision 2025-11-25 advises.
    """

    def __init__(
        self, number: int, replay_buffer: "ReplayBuffer", primes: Callable[[], bool], *, drops: bool
    ) -> None:
        self.number = number
        self._ended = False
        self._replay_buffer = replay_buffer
        self._primes = primes
        self._drops = drops
        """Whether the next response that carries it ends after one event."""
        self._response: Response | None = None
        self._last = 0
        """The place of the newest event."""
        self._written = 0
        """The place of the newest that went out on a response."""
        self._kept: deque[bytes] = deque()
        """The newest events, without a gap."""

    @property
    def connected(self) -> bool:
        return self._response is not None

    @property
    def is_spent(self) -> bool:
        """Whether there is nothing left for anybody to come back for."""
        return self._ended and not self._kept

    def can_resume(self, after: int) -> bool:
        """Whether every event behind that place is still there."""
        return self._forgotten <= after <= self._last

    def attach(self, response: Response, headers: Fields) -> None:
        """Carries on with what no response has carried yet."""
        self._carry(response, headers)
        if self._primes():
            # "The server SHOULD immediately send an SSE event consisting of an event ID and an
            # empty data field", and a `retry` before it closes (basic/transports, 2025-11-25).
            self._write(b"id: %b\nretry: %d\ndata:\n\n" % (self._id(self._written), RETRY_MS))
        self._catch_up(self._written)

    def resume(self, response: Response, headers: Fields, after: int) -> None:
        """Carries on behind the event that the client saw last."""
        self._carry(response, headers)
        self._catch_up(after)

    def send(self, message: Json) -> None:
        self._last += 1
        event = event_of(msgspec.json.encode(message), self._id(self._last))
        self._kept.append(event)
        if self._response is not None:
            self._written = self._last
            self._write(event)
        self._replay_buffer.keep(self, len(event))

    def end(self) -> None:
        self._ended = True
        if self._response is not None:
            self._response.end()
        self._replay_buffer.tidy(self)

    def give_up(self) -> None:
        self.end()
        # A client that came back for the answer would come back for ever.
        self._replay_buffer.streams.pop(self.number, None)

    def forget_oldest(self) -> None:
        self._kept.popleft()

    @property
    def _forgotten(self) -> int:
        """The place of the newest event that is no longer kept."""
        return self._last - len(self._kept)

    def _carry(self, response: Response, headers: Fields) -> None:
        self._replay_buffer.streams[self.number] = self
        if self._response is not None:
            self._response.end()
        self._response = response

        def lost() -> None:
            if self._response is response:
                self._response = None

        response.on_lost = lost
        response.open_events(headers)

    def _catch_up(self, after: int) -> None:
        for event in list(islice(self._kept, max(after - self._forgotten, 0), None)):
            after += 1
            if self._response is not None:
                self._written = max(after, self._written)
                self._write(event)
        if self._ended and self._response is not None:
            self._response.end()

    def _write(self, event: bytes) -> None:
        assert self._response is not None
        self._response.event(event)
        if self._drops:
            self._drops = False
            self._response.end()
            self._response = None

    def _id(self, place: int) -> bytes:
        return b"%d.%d" % (self.number, place)


class ReplayBuffer:
    """The streams of one session, and how many of their events are kept: the newest."""

    def __init__(self) -> None:
        self.streams: dict[int, ResumableStream] = {}
        self._kept: deque[tuple[ResumableStream, int]] = deque()
        """Stream and size of each event that is kept, oldest first."""
        self._bytes = 0

    def keep(self, stream: ResumableStream, size: int) -> None:
        self._kept.append((stream, size))
        self._bytes += size
        while len(self._kept) > KEPT_EVENTS_MAX or self._bytes > KEPT_BYTES_MAX:
            oldest, size = self._kept.popleft()
            self._bytes -= size
            oldest.forget_oldest()
            self.tidy(oldest)

    def tidy(self, stream: ResumableStream) -> None:
        if stream.is_spent:
            self.streams.pop(stream.number, None)

    def find(self, event_id: str) -> tuple[ResumableStream, int] | None:
        """The stream of an event and its place there; None where it cannot be resumed."""
        number, _, place = event_id.partition(".")
        if not (number + place).isascii() or not (number.isdecimal() and place.isdecimal()):
            return None
        stream, after = self.streams.get(int(number)), int(place)
        return (stream, after) if stream is not None and stream.can_resume(after) else None


def event_of(text: bytes, event_id: bytes | None = None, kind: bytes = b"message") -> bytes:
    """One event; the text must be of one line, as JSON is here."""
    named = b"" if event_id is None else b"id: %b\n" % event_id
    return b"%bevent: %b\ndata: %b\n\n" % (named, kind, text)
