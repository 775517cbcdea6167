"""HTTP/1.1 heads and bodies, parsed strictly.

llhttp parses the heads; stricter rules follow, because two parsers that disagree about where a
message ends, or which host it is for, allow request smuggling. A body has a `Content-Length` or is
chunked. No I/O and no MCP here.

Parsed heads are cached by their bytes: a client sends nearly the same head with every request, so
the usual cost is one look-up.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import httptools
import msgspec

HEAD_BYTES_MAX: Final = 32 * 1024
"""A request line and its header fields; browsers and proxies send a tenth of that."""
HEAD_FIELDS_MAX: Final = 100
CHUNK_LINE_BYTES_MAX: Final = 256
"""The line with the size of a chunk, extensions included."""
CHUNKS_MAX: Final = 256
"""Chunks parsed at a time: one read may bring tens of thousands."""
TRAILER_BYTES_MAX: Final = 8 * 1024
"""Trailer fields after the last chunk; they are checked and dropped."""

HEADS_CACHED_MAX: Final = 512
HEAD_BYTES_CACHED_MAX: Final = 2048
"""A megabyte at most in all. A full cache starts anew."""

STREAMING_HEADS_CACHED_MAX: Final = 16
"""Heads of streams differ in the session id only."""

HEAD_END: Final = b"\r\n\r\n"
_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}


class BadMessage(Exception):
    """Bytes that are not an acceptable HTTP message, with the status to answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Head(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What heads of requests and responses have in common."""

    fields: tuple[tuple[str, str], ...]
    """In order, with names in lower case."""

    def get(self, name: str) -> str | None:
        """The value of a field, the first one if it is repeated."""
        for field, value in self.fields:
            if field == name:
                return value
        return None


class RequestHead(_Head, frozen=True, gc=False, kw_only=True):
    """The request line and header fields of a request."""

    method: str
    target: str
    """Path and query, as in the request line."""
    body_length: int | None
    """None for a chunked body."""
    keep_alive: bool
    expects_continue: bool

    def all(self, name: str) -> list[str]:
        """Every value of a field."""
        return [value for field, value in self.fields if field == name]


class ResponseHead(_Head, frozen=True, gc=False, kw_only=True):
    """The status line and header fields of a response."""

    status: int
    body_length: int | None
    """None if the body is chunked or ends with the connection."""
    chunked: bool
    keep_alive: bool
    media_type: str
    """The media type alone, in lower case and without parameters."""


H = TypeVar("H")


class HeadCache(Generic[H]):
    """Cache of parsed heads, keyed by their bytes."""

    def __init__(self, parse: Callable[[bytes], H]) -> None:
        self._parse = parse
        self.cached: dict[bytes, H] = {}
        """Public for the hot path, which cannot afford a call."""

    def parse(self, raw: bytes) -> H:
        """Parse a head, given without the empty line at its end.

        Raises:
            BadMessage: not an acceptable head.
        """
        head = self.cached.get(raw)
        if head is None:
            head = self._parse(raw)
            if len(raw) <= HEAD_BYTES_CACHED_MAX:
                if len(self.cached) >= HEADS_CACHED_MAX:
                    self.cached.clear()
                self.cached[raw] = head
        return head

    def clear(self) -> None:
        """Forget all heads, because the rules they were parsed by have changed."""
        self.cached.clear()


class _Collector:
    """Collects what llhttp reports."""

    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[str, str]] = []

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # RFC 9112, 5.1: the whitespace around a field value is not part of it. llhttp strips only
        # what precedes the value.
        text = value.decode("latin-1").strip(" \t")
        self.fields.append((name.decode("ascii").lower(), text))


def read_request_head(raw: bytes) -> RequestHead:
    """Parse the head of a request.

    Raises:
        BadMessage: with the status to answer.
    """
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    _parse_head(parser, raw, collector)
    _check_fields(collector.fields)
    if not collector.target:
        raise BadMessage(400, "Not an HTTP/1.1 message")
    version = parser.get_http_version()
    if version not in ("1.1", "1.0"):
        raise BadMessage(505, f"HTTP/{version} is not supported")
    line = b"%b %b HTTP/%b" % (parser.get_method(), collector.target, version.encode())
    if raw.partition(b"\r\n")[0] != line:
        raise BadMessage(400, "A request line has a method, a target, a version, and single spaces")
    try:
        target = collector.target.decode("ascii")
    except UnicodeDecodeError:
        raise BadMessage(400, "The request target must be ASCII") from None
    length, chunked = _body_framing(collector.fields)
    tokens = _tokens(collector.fields, "connection")
    expected = [value.lower() for name, value in collector.fields if name == "expect"]
    return RequestHead(
        method=parser.get_method().decode("ascii"),
        target=target,
        fields=tuple(collector.fields),
        body_length=None if chunked else length or 0,
        keep_alive=version == "1.1" and "close" not in tokens,
        expects_continue=expected == ["100-continue"],
    )


def read_response_head(raw: bytes) -> ResponseHead:
    """Parse the head of a response.

    Raises:
        BadMessage: not a head, or one that does not tell where the body ends.
    """
    collector = _Collector()
    parser = httptools.HttpResponseParser(collector)
    _parse_head(parser, raw, collector)
    _check_fields(collector.fields)
    length, chunked = _body_framing(collector.fields)
    status = parser.get_status_code()
    if status < 100:
        raise BadMessage(400, "A reply has a status of three digits")
    if status in (204, 304) or status < 200:
        length, chunked = 0, False
    tokens = _tokens(collector.fields, "connection")
    keep_alive = (
        "close" not in tokens if parser.get_http_version() == "1.1" else "keep-alive" in tokens
    )
    media = next((value for name, value in collector.fields if name == "content-type"), "")
    return ResponseHead(
        status=status,
        fields=tuple(collector.fields),
        body_length=length,
        chunked=chunked,
        keep_alive=keep_alive and (chunked or length is not None),
        media_type=media.partition(";")[0].strip().lower(),
    )


def encode_response_head(status: int, fields: Iterable[tuple[str, str]], length: bytes) -> bytes:
    """Encode the head of a response. `length` is the complete framing field, CRLF included."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    reason = _REASONS.get(status, b"Unknown")
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (status, reason, lines.encode(), length)


@lru_cache(STREAMING_HEADS_CACHED_MAX)
def encode_streaming_head(status: int, fields: tuple[tuple[str, str], ...]) -> bytes:
    """Encode the head of a chunked response."""
    return encode_response_head(status, fields, b"Transfer-Encoding: chunked\r\n")


def _parse_head(
    parser: httptools.HttpRequestParser | httptools.HttpResponseParser,
    raw: bytes,
    collector: _Collector,
) -> None:
    if len(raw) > HEAD_BYTES_MAX:
        raise BadMessage(431, f"The header fields have more than {HEAD_BYTES_MAX} bytes")
    if b"\n" in raw.replace(b"\r\n", b"") or b"\0" in raw or b"\r" in raw.replace(b"\r\n", b""):
        raise BadMessage(400, "A line of the head has a stray control character")
    if b"\n " in raw or b"\n\t" in raw:
        raise BadMessage(400, "A header field must not continue on the next line")
    try:
        parser.feed_data(raw + HEAD_END)
    except httptools.HttpParserUpgrade:
        pass  # No upgrade is offered: the request is answered as if it had not asked for one.
    except (httptools.HttpParserError, UnicodeDecodeError):
        raise BadMessage(400, "Not an HTTP/1.1 message") from None
    if len(collector.fields) > HEAD_FIELDS_MAX:
        raise BadMessage(431, f"More than {HEAD_FIELDS_MAX} header fields")


_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def _check_fields(fields: list[tuple[str, str]]) -> None:
    for name, value in fields:
        if "_" in name:
            # CGI-like servers read `content_length` as `content-length`.
            raise BadMessage(400, f"The header name {name[:64]!r} has an underscore")
        if _CONTROL.search(value) is not None:
            raise BadMessage(400, f"The header {name[:64]!r} has a control character")


def _body_framing(fields: list[tuple[str, str]]) -> tuple[int | None, bool]:
    """The length of the body and whether it is chunked. RFC 9112, 6.3."""
    lengths = [value for name, value in fields if name == "content-length"]
    codings = [value for name, value in fields if name == "transfer-encoding"]
    if lengths and codings:
        raise BadMessage(400, "A message has a Content-Length or a Transfer-Encoding, not both")
    if len(lengths) > 1 or len(codings) > 1:
        raise BadMessage(400, "A message has one Content-Length or Transfer-Encoding, not several")
    if codings:
        if codings[0].strip().lower() != "chunked":
            raise BadMessage(501, "The only supported transfer encoding is chunked")
        return None, True
    if not lengths:
        return None, False
    if not (lengths[0].isascii() and lengths[0].isdigit()) or len(lengths[0]) > 18:
        raise BadMessage(400, "Content-Length must be a number")
    return int(lengths[0]), False


def _tokens(fields: list[tuple[str, str]], name: str) -> set[str]:
    message = ",".join(value for field, value in fields if field == name)
    return {word.strip().lower() for word in message.split(",")}


_COMMON_CHUNK_LENGTHS: Final = {b"%x" % length: length for length in range(1, 4096)}
"""Nearly all chunk sizes, in their usual spelling."""
_COMMON_LENGTH_LINE_BYTES: Final = 5
"""The longest of those with its CRLF."""


class ChunkedDecoder:
    """Incremental decoder of a chunked body. Memory is bounded by what it is fed."""

    def __init__(self) -> None:
        self.unused_data = b""
        """Once `done`: the bytes after the body."""
        self.done = False
        self.has_more = False
        """Whether fed bytes are left for the next call, because they hold more than `CHUNKS_MAX`
        chunks."""
        self._buffer = b""
        self._position = 0
        """Where in `_buffer` the next line or piece begins."""
        self._chunk_remaining = 0
        """Bytes of the current chunk still to come, with its CRLF."""
        self._in_trailers = False
        self._trailer_bytes = 0

    def feed(self, portion: bytes) -> list[bytes]:
        """Decode a portion into pieces of the body, at most `CHUNKS_MAX` at a time.

        Raises:
            BadMessage: not a chunked body.
        """
        raw, at = self._buffer, self._position
        if portion:
            raw, at = (raw[at:] + portion if len(raw) > at else portion), 0
        body_parts: list[bytes] = []
        self.has_more = False
        while not self.done:
            if self._chunk_remaining:
                data = raw[at : at + self._chunk_remaining]
                at += len(data)
                body_parts += self._read_data(data) if data else []
                if self._chunk_remaining:
                    break
            if len(body_parts) >= CHUNKS_MAX:
                self.has_more = True
                break
            if not self._in_trailers:
                at = _read_whole_chunks(raw, at, body_parts)
            end = raw.find(b"\r\n", at)
            if (len(raw) if end < 0 else end) - at > self._line_bytes_max:
                raise BadMessage(400, "A line between or after the chunks is too long")
            if end < 0:
                break
            self._read_line(raw[at:end])
            at = end + 2
        self._buffer, self._position = (raw, at) if at < len(raw) and not self.done else (b"", 0)
        if self.done:
            self.unused_data = raw[at:]
        return body_parts

    def _read_line(self, line: bytes) -> None:
        """Read a chunk size line or a trailer line."""
        if self._in_trailers:
            self._trailer_bytes += len(line) + 2
            self.done = _ends_trailers(line)
        else:
            self._chunk_remaining = _parse_chunk_length(line) + 2
            self._in_trailers = self._chunk_remaining == 2
            if self._in_trailers:
                self._chunk_remaining = 0

    @property
    def _line_bytes_max(self) -> int:
        return (
            TRAILER_BYTES_MAX - self._trailer_bytes if self._in_trailers else CHUNK_LINE_BYTES_MAX
        )

    def _read_data(self, data: bytes) -> list[bytes]:
        """The part of these bytes that is body, without the CRLF that ends the chunk."""
        self._chunk_remaining -= len(data)
        if self._chunk_remaining >= 2:
            return [data]
        ending = 2 - self._chunk_remaining
        body, end = data[: max(0, len(data) - ending)], data[-min(ending, len(data)) :]
        if not b"\r\n".endswith(end) if self._chunk_remaining == 0 else end != b"\r":
            raise BadMessage(400, "A chunk is not as long as it says")
        return [body] if body else []


def _read_whole_chunks(raw: bytes, at: int, body_parts: list[bytes]) -> int:
    """Fast path for complete chunks in the usual spelling; returns where they end."""
    while len(body_parts) < CHUNKS_MAX:
        end = raw.find(b"\r\n", at, at + _COMMON_LENGTH_LINE_BYTES)
        if end < 0:
            return at
        stop = end + 2 + _COMMON_CHUNK_LENGTHS.get(raw[at:end], len(raw))
        if raw[stop : stop + 2] != b"\r\n":
            return at
        body_parts.append(raw[end + 2 : stop])
        at = stop + 2
    return at


# RFC 9112, 7.1: a size and extensions. A parser that takes a bare LF in an extension for the end of
# the line, or skips a space before the size, sees other chunks than this one.
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")

# RFC 9112, 7.1.2: trailer fields follow the rules of header fields, so a line without a name is
# invalid. As in a head, no underscores and no folded lines.
_TRAILER: Final = re.compile(rb"([!#$%&'*+.^`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")

# RFC 9110, 6.5.1: a trailer must not carry framing, routing or authentication.
_FORBIDDEN_TRAILERS: Final = frozenset(
    (
        b"authorization",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"expect",
        b"host",
        b"origin",
        b"set-cookie",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)


def _parse_chunk_length(line: bytes) -> int:
    found = _CHUNK_LINE.fullmatch(line)
    if found is None:
        raise BadMessage(400, "A chunk begins with its length, a hexadecimal number")
    return int(found[1], 16)


def _ends_trailers(line: bytes) -> bool:
    """Whether the line is the empty one that ends the trailers; a trailer field is checked."""
    if not line:
        return True
    field = _TRAILER.fullmatch(line)
    if field is None:
        raise BadMessage(400, "A trailer line is not a header field")
    name = field[1].lower()
    if name in _FORBIDDEN_TRAILERS or name.startswith(b"mcp-"):
        raise BadMessage(400, f"The header {name.decode()[:64]!r} must not follow the body")
    return False


def encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK: Final = b"0\r\n\r\n"
