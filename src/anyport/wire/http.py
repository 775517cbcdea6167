"""Heads and bodies of HTTP/1.1, strictly.

Heads are parsed by llhttp and then held to stricter rules than it has, because two readers that
disagree about where a message ends, or whom it is for, are how requests are smuggled. Bodies are
either counted or chunked. No I/O, and no idea what MCP is.

A head that has been parsed once is remembered by its bytes: one client sends nearly the same
head with every request, and a look-up is all that it costs then.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import httptools
import msgspec

HEAD_BYTES_MAX: Final = 32 * 1024
"""A request line and its fields; browsers and proxies send a tenth of that."""
HEAD_FIELDS_MAX: Final = 100
"""Fields in one head."""
CHUNK_LINE_BYTES_MAX: Final = 256
"""The line that says how long a chunk is, extensions included."""
TRAILER_BYTES_MAX: Final = 8 * 1024
"""What may follow the last chunk; it is read and forgotten."""

HEADS_REMEMBERED_MAX: Final = 512
HEAD_BYTES_REMEMBERED_MAX: Final = 2048
"""Together at most a megabyte. When it is full it starts anew."""

HEADS_WRITTEN_MAX: Final = 16
"""Of heads of streams, which are all alike but for a session's id."""

END: Final = b"\r\n\r\n"
_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}


class BadMessage(Exception):
    """Bytes that are no HTTP message we accept; the status says what to answer."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """What stands before a request's body."""

    method: str
    target: str
    """As the request line has it: path and query."""
    fields: tuple[tuple[str, str], ...]
    """In order; names in lower case."""
    body_length: int | None
    """None for a chunked body."""
    keep_alive: bool
    expects_continue: bool

    def get(self, name: str) -> str | None:
        """The value of a field, the first where there are several."""
        for field, value in self.fields:
            if field == name:
                return value
        return None

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for field, value in self.fields if field == name]


class ReplyHead(msgspec.Struct, frozen=True, gc=False):
    """What stands before a reply's body."""

    status: int
    fields: tuple[tuple[str, str], ...]
    body_length: int | None
    """None where the body is chunked or ends with the connection."""
    chunked: bool
    keep_alive: bool
    media_type: str
    """The type alone, in lower case: no parameters."""

    def get(self, name: str) -> str | None:
        """The value of a field, the first where there are several."""
        for field, value in self.fields:
            if field == name:
                return value
        return None


H = TypeVar("H")


class Heads(Generic[H]):
    """Remembers what has been made of a head, by the bytes of the head."""

    def __init__(self, make: Callable[[bytes], H]) -> None:
        self._make = make
        self.known: dict[bytes, H] = {}
        """For look-ups that cannot afford a call."""

    def read(self, raw: bytes) -> H:
        """The head in these bytes, which end before the empty line.

        Raises:
            BadMessage: it is none.
        """
        head = self.known.get(raw)
        if head is None:
            head = self._make(raw)
            if len(raw) <= HEAD_BYTES_REMEMBERED_MAX:
                if len(self.known) >= HEADS_REMEMBERED_MAX:
                    self.known.clear()
                self.known[raw] = head
        return head

    def forget(self) -> None:
        """What was made of them no longer holds."""
        self.known.clear()


class _Collector:
    """Takes llhttp's callbacks."""

    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[str, str]] = []

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # RFC 9112, 5.1: white space around a value is no part of it; llhttp leaves the one after.
        text = value.decode("latin-1").strip(" \t")
        self.fields.append((name.decode("ascii").lower(), text))


def read_request_head(raw: bytes) -> RequestHead:
    """The head of a request.

    Raises:
        BadMessage: with the status to answer.
    """
    found = _Collector()
    parser = httptools.HttpRequestParser(found)
    _feed(parser, raw, found)
    _check_fields(found.fields)
    if not found.target:
        raise BadMessage(400, "Not an HTTP/1.1 message")
    version = parser.get_http_version()
    if version not in ("1.1", "1.0"):
        raise BadMessage(505, f"HTTP/{version} is not spoken here")
    line = b"%b %b HTTP/%b" % (parser.get_method(), found.target, version.encode())
    if raw.partition(b"\r\n")[0] != line:
        raise BadMessage(400, "A request line has a method, a target, a version, and single spaces")
    try:
        target = found.target.decode("ascii")
    except UnicodeDecodeError:
        raise BadMessage(400, "The request target must be ASCII") from None
    length, chunked = _body(found.fields)
    tokens = _tokens(found.fields, "connection")
    expected = [value.lower() for name, value in found.fields if name == "expect"]
    return RequestHead(
        method=parser.get_method().decode("ascii"),
        target=target,
        fields=tuple(found.fields),
        body_length=None if chunked else length or 0,
        keep_alive=version == "1.1" and "close" not in tokens,
        expects_continue=expected == ["100-continue"],
    )


def read_reply_head(raw: bytes) -> ReplyHead:
    """The head of a reply.

    Raises:
        BadMessage: it is none, or not one we can tell the end of.
    """
    found = _Collector()
    parser = httptools.HttpResponseParser(found)
    _feed(parser, raw, found)
    _check_fields(found.fields)
    length, chunked = _body(found.fields)
    status = parser.get_status_code()
    if status < 100:
        raise BadMessage(400, "A reply has a status of three digits")
    if status in (204, 304) or status < 200:
        length, chunked = 0, False
    tokens = _tokens(found.fields, "connection")
    kept = "close" not in tokens if parser.get_http_version() == "1.1" else "keep-alive" in tokens
    media = next((value for name, value in found.fields if name == "content-type"), "")
    return ReplyHead(
        status=status,
        fields=tuple(found.fields),
        body_length=length,
        chunked=chunked,
        keep_alive=kept and (chunked or length is not None),
        media_type=media.partition(";")[0].strip().lower(),
    )


def reply_head(status: int, fields: Iterable[tuple[str, str]], length: bytes) -> bytes:
    """The head of a reply; `length` is the field, with its line end, that says how long it is."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    reason = _REASONS.get(status, b"Unknown")
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (status, reason, lines.encode(), length)


@lru_cache(HEADS_WRITTEN_MAX)
def streaming_head(status: int, fields: tuple[tuple[str, str], ...]) -> bytes:
    """The head of a reply that comes in chunks."""
    return reply_head(status, fields, b"Transfer-Encoding: chunked\r\n")


def _feed(
    parser: httptools.HttpRequestParser | httptools.HttpResponseParser,
    raw: bytes,
    found: _Collector,
) -> None:
    if len(raw) > HEAD_BYTES_MAX:
        raise BadMessage(431, f"The header fields have more than {HEAD_BYTES_MAX} bytes")
    if b"\n" in raw.replace(b"\r\n", b"") or b"\0" in raw or b"\r" in raw.replace(b"\r\n", b""):
        raise BadMessage(400, "A line of the head has a stray control character")
    if b"\n " in raw or b"\n\t" in raw:
        raise BadMessage(400, "A header field must not continue on the next line")
    try:
        parser.feed_data(raw + END)
    except httptools.HttpParserUpgrade:
        pass  # Nothing here can be upgraded to; the request is answered as if it had not asked.
    except (httptools.HttpParserError, UnicodeDecodeError):
        raise BadMessage(400, "Not an HTTP/1.1 message") from None
    if len(found.fields) > HEAD_FIELDS_MAX:
        raise BadMessage(431, f"More than {HEAD_FIELDS_MAX} header fields")


def _check_fields(fields: list[tuple[str, str]]) -> None:
    for name, value in fields:
        if "_" in name:
            # Some servers behind take `content_length` for `content-length`.
            raise BadMessage(400, f"The header name {name[:64]!r} has an underscore")
        if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value):
            raise BadMessage(400, f"The header {name[:64]!r} has a control character")


def _body(fields: list[tuple[str, str]]) -> tuple[int | None, bool]:
    """How the body's end is found: its length, or that it is chunked."""
    lengths = [value for name, value in fields if name == "content-length"]
    codings = [value for name, value in fields if name == "transfer-encoding"]
    if lengths and codings:
        raise BadMessage(400, "A message has a Content-Length or a Transfer-Encoding, not both")
    if len(lengths) > 1 or len(codings) > 1:
        raise BadMessage(400, "A message says more than once how long it is")
    if codings:
        if codings[0].strip().lower() != "chunked":
            raise BadMessage(501, "The only transfer encoding known here is chunked")
        return None, True
    if not lengths:
        return None, False
    if not (lengths[0].isascii() and lengths[0].isdigit()) or len(lengths[0]) > 18:
        raise BadMessage(400, "Content-Length must be a number")
    return int(lengths[0]), False


def _tokens(fields: list[tuple[str, str]], name: str) -> set[str]:
    words = ",".join(value for field, value in fields if field == name)
    return {word.strip().lower() for word in words.split(",")}


_LENGTHS: Final = {b"%x" % length: length for length in range(1, 4096)}
"""The lengths of nearly all chunks, as they are nearly always written."""
_LENGTH_BYTES: Final = 5
"""The longest of those and its line end."""


class Chunks:
    """Takes a chunked body apart. Fed in any portions; memory is bounded by what is fed."""

    def __init__(self) -> None:
        self.rest = b""
        """Once `done`: what came after the body."""
        self.done = False
        self._held = b""
        self._left = 0
        """Bytes of the current chunk that are still to come, its line end included."""
        self._trailing = False
        self._trailer_bytes = 0

    def feed(self, portion: bytes) -> list[bytes]:
        """The pieces of the body that this portion brought.

        Raises:
            BadMessage: this is no chunked body.
        """
        raw = self._held + portion if self._held else portion
        at = 0
        pieces: list[bytes] = []
        while not self.done:
            if self._left:
                piece = raw[at : at + self._left]
                at += len(piece)
                pieces += self._piece(piece) if piece else []
                if self._left:
                    break
            if not self._trailing:
                at = _whole_chunks(raw, at, pieces)
            end = raw.find(b"\r\n", at)
            if (len(raw) if end < 0 else end) - at > self._line_bytes_max:
                raise BadMessage(400, "A line between or after the chunks is too long")
            if end < 0:
                break
            line, at = raw[at:end], end + 2
            if self._trailing:
                self._trailer_bytes += len(line) + 2
                self.done = not line
            else:
                self._left = _chunk_length(line) + 2
                self._trailing = self._left == 2
                if self._trailing:
                    self._left = 0
        self._held = b"" if self.done else raw[at:]
        if self.done:
            self.rest = raw[at:]
        return pieces

    @property
    def _line_bytes_max(self) -> int:
        return TRAILER_BYTES_MAX - self._trailer_bytes if self._trailing else CHUNK_LINE_BYTES_MAX

    def _piece(self, piece: bytes) -> list[bytes]:
        """What of these bytes belongs to the body; the chunk's own line end does not."""
        self._left -= len(piece)
        if self._left >= 2:
            return [piece]
        ending = 2 - self._left
        body, end = piece[: max(0, len(piece) - ending)], piece[-min(ending, len(piece)) :]
        if not b"\r\n".endswith(end) if self._left == 0 else end != b"\r":
            raise BadMessage(400, "A chunk is not as long as it says")
        return [body] if body else []


def _whole_chunks(raw: bytes, at: int, pieces: list[bytes]) -> int:
    """Take chunks that are there from end to end, and written as nearly all are; where they end."""
    while True:
        end = raw.find(b"\r\n", at, at + _LENGTH_BYTES)
        if end < 0:
            return at
        stop = end + 2 + _LENGTHS.get(raw[at:end], len(raw))
        if raw[stop : stop + 2] != b"\r\n":
            return at
        pieces.append(raw[end + 2 : stop])
        at = stop + 2


def _chunk_length(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
        raise BadMessage(400, "A chunk's length must be a hexadecimal number")
    return int(digits, 16)


def chunk(piece: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK: Final = b"0\r\n\r\n"
