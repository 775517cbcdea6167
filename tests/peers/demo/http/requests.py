"""HTTP/1.1 requests, parsed from the bytes of a connection. Whatever is ambiguous is refused."""

import asyncio
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from tests.peers.demo.headers import Headers

HEAD_BYTES_MAX: Final = 64 * 1024  # Many times what clients send, and soon read.
BODY_BYTES_MAX: Final = 128 * 1024 * 1024  # Twice what the tool 'big' can make: echoes fit too.
READ_SECONDS_MAX: Final = 30  # A client that began a request must also end it.
SIZE_LINE_CHARS_MAX: Final = 16  # More hexadecimal digits than any chunk that fits needs.

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, read to its end."""

    method: str
    path: str
    query: dict[str, str]
    headers: Headers
    version: str
    body: bytes = b""

    @property
    def keeps_alive(self) -> bool:
        return self.version == "HTTP/1.1" and "close" not in self.headers.listed("Connection")

    @property
    def takes_chunks(self) -> bool:
        return self.version == "HTTP/1.1"


class BadHttp(Exception):
    """What came is no request that can be answered; the connection cannot be used further."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def read_request(
    reader: asyncio.StreamReader, write: Callable[[bytes], None]
) -> HttpRequest | None:
    """The next request; None where the connection ended instead.

    Raises:
        BadHttp: what came is not one, or is too large, or does not come to an end.
    """
    try:
        # A connection may be idle for as long as it likes, and empty lines before a request are
        # to be ignored (RFC 9112, 2.2).
        while (first := await reader.read(1)) in (b"\r", b"\n"):
            pass
        async with asyncio.timeout(READ_SECONDS_MAX):
            request = parse_head(first + await reader.readuntil(b"\r\n\r\n"))
            if request.headers.listed("Expect") == ["100-continue"]:
                write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await _read_body(reader, request.headers)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise BadHttp(431, "The header is too large") from error
    except TimeoutError as error:
        raise BadHttp(408, "The request does not come to an end") from error
    return msgspec.structs.replace(request, body=body)


def parse_head(head: bytes) -> HttpRequest:
    """
    Raises:
        BadHttp: it is not the head of a request.
    """
    start, *lines = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    try:
        method, target, version = start.split(" ")
        split = urlsplit(target)
    except ValueError as error:
        raise BadHttp(400, "That is no request line") from error
    if not _TOKEN.fullmatch(method) or version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadHttp(400, "That is no request line")
    headers = Headers(_field(line) for line in lines)
    # No Host is as bad as two of them, and both must be answered with 400 (RFC 9112, 3.2).
    if len(headers.all("Host")) > 1 or (version == "HTTP/1.1" and not headers.all("Host")):
        raise BadHttp(400, "There must be one Host")
    query = dict(parse_qsl(split.query))
    return HttpRequest(
        method=method, path=split.path, query=query, headers=headers, version=version
    )


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadHttp(400, "That is no header field")
    return name, value.strip(" \t")


async def _read_body(reader: asyncio.StreamReader, headers: Headers) -> bytes:
    lengths, codings = headers.all("Content-Length"), headers.all("Transfer-Encoding")
    if codings:
        # Two ways to find the end are one too many: others may have chosen the other one.
        if lengths or [coding.lower() for coding in codings] != ["chunked"]:
            raise BadHttp(400, "The length of the body is in doubt")
        return await _read_chunks(reader)
    if not lengths:
        return b""
    if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdecimal()):
        raise BadHttp(400, "The length of the body is in doubt")
    return await reader.readexactly(_bounded(int(lengths[0])))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := await _read_size(reader):
        body += await reader.readexactly(_bounded(len(body) + size) - len(body))
        if await reader.readexactly(2) != b"\r\n":
            raise BadHttp(400, "That is no chunk")
    trailer_bytes = 0
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        trailer_bytes += len(line)
        if trailer_bytes > HEAD_BYTES_MAX:
            raise BadHttp(431, "The trailer is too large")
    return bytes(body)


async def _read_size(reader: asyncio.StreamReader) -> int:
    line = (await reader.readuntil(b"\r\n")).decode("latin-1")
    digits = line.partition(";")[0].strip()
    if len(digits) > SIZE_LINE_CHARS_MAX or not re.fullmatch(r"[0-9A-Fa-f]+", digits):
        raise BadHttp(400, "That is no chunk")
    return int(digits, 16)


def _bounded(size: int) -> int:
    if size > BODY_BYTES_MAX:
        raise BadHttp(413, f"The body is larger than {BODY_BYTES_MAX} bytes")
    return size
