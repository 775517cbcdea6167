"""HTTP as the simulated clients and servers speak it: just enough, read piece by piece.

Written apart from the gateway's own reading of HTTP on purpose: two readers that share a mistake
would never notice it.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec


@dataclass(slots=True)
class Message:
    """A request or a response, as far as it has come."""

    start: str
    fields: Mapping[str, str]
    body: bytes = b""
    """Of what is no event stream."""

    @property
    def status(self) -> int:
        """Of a response."""
        return int(self.start.split(" ", 2)[1])

    @property
    def is_stream(self) -> bool:
        """Whether it consists of events."""
        return self.fields.get("content-type", "").startswith("text/event-stream")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream."""

    text: bytes
    id: str | None
    name: str


Part = Message | StreamEvent | None
"""A whole message; or the head of a stream, then its events; None at the end of a stream."""


@dataclass(slots=True)
class Reader:
    """Reads messages that follow each other on one connection."""

    _held: bytes = b""
    _message: Message | None = None
    _events: bytes = b""
    _last_id: str | None = field(default=None)

    def feed(self, raw: bytes) -> Iterator[Part]:
        """What can be made of these bytes and those before."""
        self._held += raw
        while True:
            if self._message is None:
                if not self._read_head():
                    return
                assert self._message is not None
                if self._message.is_stream:
                    yield self._message
                continue
            if self._message.is_stream:
                done = yield from self._read_stream()
                if not done:
                    return
                self._message = None
                yield None
                continue
            size = int(self._message.fields.get("content-length", "0"))
            if len(self._held) < size:
                return
            message, self._message = self._message, None
            message.body, self._held = self._held[:size], self._held[size:]
            yield message

    @property
    def whole(self) -> bool:
        """Whether nothing is left over."""
        return not self._held and self._message is None

    def _read_head(self) -> bool:
        head, found, rest = self._held.partition(b"\r\n\r\n")
        if not found:
            return False
        start, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        self._message = Message(start, {name.lower(): value.strip() for name, value in pairs})
        self._held = rest
        return True

    def _read_stream(self) -> Generator[Part, None, bool]:
        """Chunks, and events in them; True when the last chunk has come."""
        while True:
            size, found, rest = self._held.partition(b"\r\n")
            if not found:
                return False
            length = int(size, 16)
            if len(rest) < length + 2:
                return False
            self._held = rest[length + 2 :]
            if length == 0:
                return True
            self._events += rest[:length]
            *events, self._events = self._events.split(b"\n\n")
            for event in events:
                yield self._happened(event)

    def _happened(self, event: bytes) -> StreamEvent:
        texts, name = [], "message"
        for line in event.split(b"\n"):
            key, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if key == b"data":
                texts.append(value)
            elif key == b"id":
                self._last_id = value.decode()
            elif key == b"event":
                name = value.decode()
        return StreamEvent(b"\n".join(texts), self._last_id, name)


def request(
    verb: str, path: str, fields: Mapping[str, str], message: object | None = None
) -> bytes:
    """A request with a message as its body."""
    body = b"" if message is None else msgspec.json.encode(message)
    lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if message is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join((*lines, "", "")).encode() + body


def response(status: int, fields: Mapping[str, str], body: bytes = b"") -> bytes:
    """A whole response."""
    lines = [f"HTTP/1.1 {status} So", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body


def stream_head(fields: Mapping[str, str]) -> bytes:
    """How a response begins that is an event stream."""
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"]
    return "\r\n".join(
        (*lines, *(f"{name}: {value}" for name, value in fields.items()), "", "")
    ).encode()


def event(message: object, id: str | None = None) -> bytes:
    """One event of it, in a chunk."""
    named = b"" if id is None else b"id: %b\n" % id.encode()
    return chunk(b"%bdata: %b\n\n" % (named, msgspec.json.encode(message)))


def chunk(raw: bytes) -> bytes:
    """A chunk; an empty one is the last."""
    return b"%x\r\n%b\r\n" % (len(raw), raw)
