"""Cutting events from an event stream, and writing them.

`text/event-stream` as the WHATWG rules have it: fed in any portions; never raises; memory is
bounded by the limit whatever is fed. Knows events, not what stands in them, nor when a broken
stream is taken up again.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from anyport.wire.framing import EDGE_BYTES, Overlong, unbroken

_RETRY_DIGITS_MAX: Final = 9
"""A longer wait than eleven days is no wait anybody meant."""

_BOM: Final = b"\xef\xbb\xbf"
_PLAIN: Final = b"data: "
_NAMED: Final = b"event: message\ndata: "
"""How nearly every event that holds one message begins."""
_USUAL: Final = (
    (b"event: message\r\ndata: ", b"\r\n\r\n", 3),
    (_NAMED, b"\n\n", 3),
    (b"data: ", b"\r\n\r\n", 2),
    (_PLAIN, b"\n\n", 2),
)
"""Each with its end, and how many lines it has."""
_BETWEEN: Final = b"\n\n" + _NAMED
_PLAIN_BYTES: Final = len(_PLAIN)
_NAMED_BYTES: Final = len(_NAMED)


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event that has data, if only an empty one."""

    data: bytes
    name: str = "message"
    id: str | None = None


class EventSplitter:
    """Turns portions of bytes into whole events."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.last_id = ""
        """Of all events so far, those without data included: what `Last-Event-ID` has to say."""
        self.retry_ms: int | None = None
        self._fresh = True
        self._after_cr = False
        self._held = bytearray()
        """What is kept of the unfinished event; portions of a byte or two must not cost more."""
        self._dropped = 0
        self._head = b""
        """The start of the event being thrown away; empty while an event is being kept."""

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished event have come so far."""
        return self._dropped + len(self._held)

    @property
    def kept(self) -> int:
        """How many of them are in memory."""
        return len(self._held) + len(self._head)

    def drop(self) -> None:
        """Keep no more of the unfinished event than of an over-long one."""
        if self._held and not self._head:
            self._head = bytes(self._held[:EDGE_BYTES])
            self._trim()

    def feed(self, portion: bytes) -> list[Event | Overlong]:
        """The events that this portion finished."""
        if self._after_cr and portion:
            # CR LF is one line end, also when it comes in two portions.
            self._after_cr = False
            portion = portion.removeprefix(b"\n")
        if b"\r" in portion:
            self._after_cr = portion.endswith(b"\r")
            portion = portion.replace(b"\r\n", b"\n")
            if b"\r" in portion:
                portion = portion.replace(b"\r", b"\n")
        if self._held:
            looked = len(self._held) - 1
            self._held += portion
            if self._held.find(b"\n\n", looked) < 0:
                self._trim()
                return []
            portion = bytes(self._held)
            self._held.clear()
        *blocks, rest = portion.split(b"\n\n")
        events = [event for block in blocks if (event := self._event(block)) is not None]
        if rest:
            self._held += rest
            self._trim()
        return events

    def messages(self, portion: bytes) -> list[bytes | Overlong]:
        """What stands in the events that this portion finished, apart from those without data."""
        amid = self._held or self._head or self._after_cr
        if not amid and len(portion) <= self.bytes_max:
            found = _messages_alike(portion)
            if found:
                self._fresh = False
                return found
        events = self.feed(portion)
        messages = [event if isinstance(event, Overlong) else event.data for event in events]
        return [message for message in messages if message]

    def _event(self, block: bytes) -> Event | Overlong | None:
        if not self._head:
            self._dropped = 0
            while len(block) > self.bytes_max and block.startswith(b":"):
                block = block.partition(b"\n")[2]
        if self._head or len(block) > self.bytes_max:
            return self._overlong(block)
        if self._fresh:
            self._fresh = False
            block = block.removeprefix(_BOM)
        if block.startswith(_NAMED):
            if block.find(b"\n", _NAMED_BYTES) < 0:
                return Event(block[_NAMED_BYTES:])
        elif block.startswith(_PLAIN) and block.find(b"\n", _PLAIN_BYTES) < 0:
            return Event(block[_PLAIN_BYTES:])
        return self._read(block)

    def _read(self, block: bytes) -> Event | None:
        parts: list[bytes] = []
        name, id = "", None
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                parts.append(value)
            elif field == b"event":
                name = value.decode(errors="replace")
            elif field == b"id" and b"\0" not in value:
                id = self.last_id = value.decode(errors="replace")
            elif field == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS_MAX:
                self.retry_ms = int(value)
        return Event(b"\n".join(parts), name or "message", id) if parts else None

    def _trim(self) -> None:
        """Keep no more of an unfinished event than the limit allows."""
        held = self._held
        # Its last line end may turn out to be the first half of what ends the event.
        bytes_max = self.bytes_max + held.endswith(b"\n")
        if len(held) <= bytes_max and not self._head:
            return
        while not self._head and held.startswith(b":"):
            # Comments that only keep the stream alive are no part of any event.
            end = held.find(b"\n")
            if end < 0:
                self._dropped += len(held) - 1
                del held[1:]
                return
            self._dropped = 0
            del held[: end + 1]
        if len(held) > bytes_max and not self._head:
            self._head = bytes(held[:EDGE_BYTES])
        if self._head:
            self._dropped += max(0, len(held) - EDGE_BYTES)
            del held[:-EDGE_BYTES]

    def _overlong(self, block: bytes) -> Overlong:
        head, size = self._head or block[:EDGE_BYTES], self._dropped + len(block)
        self._head, self._dropped, self._fresh = b"", 0, False
        fields, mark, start = (b"\n" + head.removeprefix(_BOM)).partition(b"\ndata:")
        self._read(fields)
        edge = start.removeprefix(b" ") if mark else head
        return Overlong(size, edge + block[-EDGE_BYTES:])


def _messages_alike(portion: bytes) -> list[bytes | Overlong]:
    """The messages in whole events, if all are written in the same one of the usual ways."""
    for opening, ending, lines in _USUAL:
        if portion.startswith(opening) and portion.endswith(ending):
            found = portion[len(opening) : -len(ending)].split(ending + opening)
            # No line but those that each of them has.
            if portion.count(b"\n") == lines * len(found) and all(found):
                returns = len(found) * lines if b"\r" in ending else 0
                return (
                    cast(list[bytes | Overlong], found) if portion.count(b"\r") == returns else []
                )
    return []


def numbered_events(messages: Sequence[bytes], stream: bytes, number: int) -> list[bytes]:
    """Events that hold one message each, with ids that count from a number in their stream."""
    joined = b"".join(messages)  # One look at all of them: hardly any has a line break.
    if unbroken(joined) is not joined:
        messages = [unbroken(message) for message in messages]
    return [
        b"event: message\nid: %b-%d\ndata: %b\n\n" % (stream, at, message)
        for at, message in enumerate(messages, number)
    ]


def plain_events(messages: Sequence[bytes]) -> bytes:
    """Events that hold one message each, in one piece."""
    block = _NAMED + _BETWEEN.join(messages) + b"\n\n"
    if block.count(b"\n") == 3 * len(messages) and b"\r" not in block:
        return block
    return b"".join(map(event, messages))


def event(data: bytes, name: bytes = b"message") -> bytes:
    """One event that holds one message."""
    return b"event: %b\ndata: %b\n\n" % (name, unbroken(data))
