"""One connection of one client, and the responses written to it, whole or as event streams."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from tests.peers.demo.http.requests import HEAD_BYTES_MAX, BadHttp, HttpRequest, read_request

UNREAD_BYTES_MAX: Final = 256 * 1024 * 1024  # Two of the largest messages that can be sent.
LINGER_SECONDS_MAX: Final = 2  # Time enough to read a line, if one wants to.
KEEP_ALIVE_SECONDS: Final = 15  # Less than the patience of those who stand between us.

Fields: TypeAlias = Mapping[str, str]
JSON: Final[Fields] = {"Content-Type": "application/json"}
TEXT: Final[Fields] = {"Content-Type": "text/plain; charset=utf-8"}
_EVENTS: Final[Fields] = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}


class Response:
    """The answer to one request; once the client is gone, writing to it does nothing."""

    def __init__(self, transport: asyncio.WriteTransport, *, chunks: bool, closes: bool) -> None:
        self.over = asyncio.Event()
        """Set when it has been written to its end, or its client is gone."""
        self.on_lost: Callable[[], None] | None = None
        """Called when the client goes away before the end."""
        self.closes = closes or not chunks
        self._transport = transport
        self._chunks = chunks
        self._streams = False

    def whole(self, status: int, headers: Fields, body: bytes = b"") -> None:
        length: Fields = (
            {} if status == HTTPStatus.NO_CONTENT else {"Content-Length": str(len(body))}
        )
        self._write(self._head(status, {**headers, **length}) + body)
        self.over.set()

    def open_events(self, headers: Fields) -> None:
        """Begins a stream of events, whose end is not known yet."""
        self._streams = True
        coding: Fields = {"Transfer-Encoding": "chunked"} if self._chunks else {}
        self._write(self._head(HTTPStatus.OK, {**_EVENTS, **headers, **coding}))

    def event(self, event: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(event), event) if self._chunks else event)

    def end(self) -> None:
        """Ends a stream of events."""
        if self._chunks:
            self._write(b"0\r\n\r\n")
        self.over.set()

    def lose(self) -> None:
        """The client is gone."""
        if not self.over.is_set():
            self.over.set()
            if self.on_lost is not None:
                self.on_lost()

    async def wait_over(self) -> None:
        """Waits for the end. Streams are kept alive with comments until then."""
        while not self.over.is_set():
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    await self.over.wait()
            except TimeoutError:
                if self._streams:
                    self.event(b":\n\n")

    def _head(self, status: int, headers: Fields) -> bytes:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Connection: close"] if self.closes else []
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _write(self, part: bytes) -> None:
        if self.over.is_set():
            return
        self._transport.write(part)
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self._transport.abort()


Answer: TypeAlias = Callable[[HttpRequest, Response], None]
"""Answers one request: at once, or by writing the response later."""


class Connection(asyncio.Protocol):
    """Reads requests one after the other, and waits for the response to each.

    It is among the `open_ones` from its first moment to its last.
    """

    def __init__(
        self, answer: Answer, group: asyncio.TaskGroup, open_ones: "set[Connection]"
    ) -> None:
        self.task: asyncio.Task[None]
        self._answer = answer
        self._group = group
        self._open_ones = open_ones
        self._reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport
        self._response: Response | None = None

    def finish(self) -> None:
        """Closes the connection behind the response that is being written, if any."""
        if self._response is None or self._response.over.is_set():
            self._transport.close()
        else:
            self._response.closes = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._reader.set_transport(transport)  # Which is told to wait when too much is unread.
        self._open_ones.add(self)
        self.task = self._group.create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def eof_received(self) -> None:
        """A client that will say no more is gone: returning nothing closes the connection."""

    def connection_lost(self, _error: Exception | None) -> None:
        self._reader.feed_eof()
        if self._response is not None:
            self._response.lose()

    async def _serve(self) -> None:
        try:
            while request := await read_request(self._reader, self._transport.write):
                response = self._respond(request)
                self._answer(request, response)
                if self._transport.is_closing():  # It may have been lost before it was answered.
                    response.lose()
                await response.wait_over()
                if response.closes:
                    break
        except BadHttp as bad:
            self._respond(None).whole(bad.status, TEXT, f"{bad}\n".encode())
            await self._linger()
        finally:
            self._open_ones.discard(self)
            self._transport.close()

    async def _linger(self) -> None:
        """Reads what is still coming: closed on the spot, the client might never see why."""
        self._transport.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS_MAX):
                while await self._reader.read(HEAD_BYTES_MAX):
                    pass

    def _respond(self, request: HttpRequest | None) -> Response:
        self._response = Response(
            self._transport,
            chunks=request is None or request.takes_chunks,
            closes=request is None or not request.keeps_alive,
        )
        return self._response
