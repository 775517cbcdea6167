"""Server-sent events: `text/event-stream` parsed and encoded by the WHATWG rules.

Never raises; memory is bounded by the size limit, whatever is fed. When to reconnect and resume is
decided by the transports.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import msgspec

from anyport.wire.lines import EDGE_BYTES, Overlong, remove_line_breaks

EVENT_LINES_MAX: Final = 65_536
"""Lines in one event: each costs as much as a short event. An event with more is reported as
overlong."""
_RETRY_DIGITS_MAX: Final = 9
"""Longer values, of more than eleven days, are ignored."""

EVENT_ID_BYTES_MAX: Final = 1024
"""An event id is sent back in a header and must leave room for the rest of the head."""

_DATA: Final = re.compile(rb"\ndata: ?")
_ID: Final = re.compile(rb"(?! )[\x20-\x7e\x80-\xff]{0,%d}(?<! )" % EVENT_ID_BYTES_MAX)
"""An id that survives as a header value. After any other id the stream cannot be resumed: a
truncated or cleaned id may mean something else to its server."""
_BOM: Final = b"\xef\xbb\xbf"
_DATA_PREFIX: Final = b"data: "
_MESSAGE_PREFIX: Final = b"event: message\ndata: "
"""How nearly every event with one message begins."""
_COMMON_LAYOUTS: Final = (
    (b"event: message\r\ndata: ", b"\r\n\r\n", 3),
    (_MESSAGE_PREFIX, b"\n\n", 3),
    (b"data: ", b"\r\n\r\n", 2),
    (_DATA_PREFIX, b"\n\n", 2),
)
"""Prefix and suffix of an event with one message, and its number of lines."""
_MESSAGE_SEPARATOR: Final = b"\n\n" + _MESSAGE_PREFIX
_DATA_PREFIX_BYTES: Final = len(_DATA_PREFIX)
_MESSAGE_PREFIX_BYTES: Final = len(_MESSAGE_PREFIX)


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event with data, which may be empty."""

    data: bytes
    name: str = "message"
    id: str | None = None


class EventSplitter:
    """Splits a byte stream into events."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.last_id = ""
        """The last id of all events, those without data included: the value for `Last-Event-ID`."""
        self.retry_ms: int | None = None
        self._at_start = True
        self._after_cr = False
        self._buffer = bytearray()
        """The unfinished event. A bytearray: portions of a byte or two must stay cheap."""
        self._dropped_bytes = 0
        self._overlong_head = b""
        """The start of an overlong event that is being dropped; empty while an event is kept."""

    @property
    def pending_bytes(self) -> int:
        """Bytes received of the unfinished event."""
        return self._dropped_bytes + len(self._buffer)

    @property
    def buffered_bytes(self) -> int:
        """How many of them are in memory."""
        return len(self._buffer) + len(self._overlong_head)

    def truncate(self) -> None:
        """Reduce the unfinished event to its edges."""
        if self._buffer and not self._overlong_head:
            self._overlong_head = bytes(self._buffer[:EDGE_BYTES])
            self._trim()

    def feed(self, portion: bytes) -> list[SseEvent | Overlong]:
        """The events that this portion completes."""
        return [event for event in self.parse(portion) if event is not None]

    def parse(self, portion: bytes) -> Iterator[SseEvent | Overlong | None]:
        """Yield the events that this portion completes, None for one without data.

        Exhaust the iterator before the next portion.
        """
        if self._after_cr and portion:
            # CR LF is one line ending, even if it arrives in two portions.
            self._after_cr = False
            portion = portion.removeprefix(b"\n")
        if b"\r" in portion:
            self._after_cr = portion.endswith(b"\r")
            portion = portion.replace(b"\r\n", b"\n")
            if b"\r" in portion:
                portion = portion.replace(b"\r", b"\n")
        if self._buffer:
            search_start = len(self._buffer) - 1
            self._buffer += portion
            if self._buffer.find(b"\n\n", search_start) < 0:
                self._trim()
                return
            portion = bytes(self._buffer)
            self._buffer.clear()
        *blocks, rest = portion.split(b"\n\n")
        for block in blocks:
            yield self._parse_block(block)
        if rest:
            self._buffer += rest
            self._trim()

    def messages(self, portion: bytes) -> Iterable[bytes | Overlong]:
        """The data of the events that this portion completes, empty for an event without data.

        Exhaust the iterator before the next portion.
        """
        mid_event = self._buffer or self._overlong_head or self._after_cr
        if not mid_event and len(portion) <= self.bytes_max:
            payloads = _split_uniform_messages(portion)
            if payloads:
                self._at_start = False
                return payloads
        return map(_event_data, self.parse(portion))

    def _parse_block(self, block: bytes) -> SseEvent | Overlong | None:
        if not self._overlong_head:
            self._dropped_bytes = 0
            while len(block) > self.bytes_max and block.startswith(b":"):
                block = block.partition(b"\n")[2]
        if (
            self._overlong_head
            or len(block) > self.bytes_max
            or block.count(b"\n") > EVENT_LINES_MAX
        ):
            return self._make_overlong(block)
        if self._at_start:
            self._at_start = False
            block = block.removeprefix(_BOM)
        if block.startswith(_MESSAGE_PREFIX):
            if block.find(b"\n", _MESSAGE_PREFIX_BYTES) < 0:
                return SseEvent(block[_MESSAGE_PREFIX_BYTES:])
        elif block.startswith(_DATA_PREFIX) and block.find(b"\n", _DATA_PREFIX_BYTES) < 0:
            return SseEvent(block[_DATA_PREFIX_BYTES:])
        return self._parse_fields(block)

    def _parse_fields(self, block: bytes) -> SseEvent | None:
        if block.startswith(b"data:") and block.count(b"\ndata:") == block.count(b"\n"):
            return SseEvent(_DATA.sub(b"\n", b"\n" + block)[1:])  # Fast path: data lines only.
        data_lines: list[bytes] = []
        name, id = "", None
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data_lines.append(value)
            elif field == b"event":
                name = value.decode(errors="replace")
            elif field == b"id" and b"\0" not in value:
                id = self.last_id = value.decode(errors="replace") if _ID.fullmatch(value) else ""
            elif field == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS_MAX:
                self.retry_ms = int(value)
        return SseEvent(b"\n".join(data_lines), name or "message", id) if data_lines else None

    def _trim(self) -> None:
        """Drop what exceeds the limit of an unfinished event."""
        buffer = self._buffer
        # The last newline may be the first half of the empty line that ends the event.
        bytes_max = self.bytes_max + buffer.endswith(b"\n")
        if len(buffer) <= bytes_max and not self._overlong_head:
            return
        while not self._overlong_head and buffer.startswith(b":"):
            # Comments that keep the stream alive do not count towards the size of an event.
            end = buffer.find(b"\n")
            if end < 0:
                self._dropped_bytes += len(buffer) - 1
                del buffer[1:]
                return
            self._dropped_bytes = 0
            del buffer[: end + 1]
        if len(buffer) > bytes_max and not self._overlong_head:
            self._overlong_head = bytes(buffer[:EDGE_BYTES])
        if self._overlong_head:
            self._dropped_bytes += max(0, len(buffer) - EDGE_BYTES)
            del buffer[:-EDGE_BYTES]

    def _make_overlong(self, block: bytes) -> Overlong:
        head, size = self._overlong_head or block[:EDGE_BYTES], self._dropped_bytes + len(block)
        self._overlong_head, self._dropped_bytes, self._at_start = b"", 0, False
        fields, mark, start = (b"\n" + head.removeprefix(_BOM)).partition(b"\ndata:")
        self._parse_fields(fields)
        edge = start.removeprefix(b" ") if mark else head
        return Overlong(size, edge + block[-EDGE_BYTES:])


def _event_data(event: SseEvent | Overlong | None) -> bytes | Overlong:
    return event.data if isinstance(event, SseEvent) else event or b""


def _split_uniform_messages(portion: bytes) -> list[bytes | Overlong]:
    """The messages of complete events that are all written in the same common layout."""
    for opening, ending, lines in _COMMON_LAYOUTS:
        if portion.startswith(opening) and portion.endswith(ending):
            payloads = portion[len(opening) : -len(ending)].split(ending + opening)
            # Every line belongs to the layout: no event has another field.
            if portion.count(b"\n") == lines * len(payloads) and all(payloads):
                carriage_returns = len(payloads) * lines if b"\r" in ending else 0
                return (
                    cast(list[bytes | Overlong], payloads)
                    if portion.count(b"\r") == carriage_returns
                    else []
                )
    return []


def encode_numbered_events(messages: Sequence[bytes], stream: bytes, number: int) -> list[bytes]:
    """Encode one event per message, with ids that count up in their stream."""
    joined = b"".join(messages)  # One check for all: hardly any message has a line break.
    if remove_line_breaks(joined) is not joined:
        messages = [remove_line_breaks(message) for message in messages]
    return [
        b"event: message\nid: %b-%d\ndata: %b\n\n" % (stream, at, message)
        for at, message in enumerate(messages, number)
    ]


def encode_events(messages: Sequence[bytes]) -> bytes:
    """Encode one event per message, in one piece."""
    block = _MESSAGE_PREFIX + _MESSAGE_SEPARATOR.join(messages) + b"\n\n"
    if block.count(b"\n") == 3 * len(messages) and b"\r" not in block:
        return block
    return b"".join(map(encode_event, messages))


def encode_event(data: bytes, name: bytes = b"message") -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, remove_line_breaks(data))
