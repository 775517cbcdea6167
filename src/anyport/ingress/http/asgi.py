"""ASGI adapter: lets an ASGI application answer a request that is not MCP.

ASGI costs more per request than a whole MCP call, but management API and console are easier to
write with it. No framework is imported here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from anyport.ingress.http.responder import HttpResponder
from anyport.wire.http1 import RequestHead

UNSENT_BYTES_PAUSE: Final = 256 * 1024
"""A streamed response waits while more bytes than this are unsent."""

DRAIN_SECONDS: Final = 0.05
"""How often a waiting response checks for progress."""

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
"""An ASGI 3 application."""

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], None]
"""Runs a task whose exceptions are reported."""

FRAMING_FIELDS: Final = frozenset(
    {"content-length", "transfer-encoding", "connection", "keep-alive"}
)
"""Header fields that belong to the connection, not to the application."""

FAILED_BODY: Final = (
    b'{"type":"about:blank","title":"Internal Server Error","status":500,'
    b'"detail":"The gateway failed to answer this request; its standard error says why"}'
)


def serve_asgi(
    app: Application, head: RequestHead, body: bytes, reply: HttpResponder, spawn: Spawn
) -> None:
    """Have the application answer a request, in a task."""
    exchange = _Exchange(head, body, reply)
    spawn(exchange.run(app), f"{head.method} {head.target.partition('?')[0]}")


class _Exchange:
    """One request and response of the application."""

    def __init__(self, head: RequestHead, body: bytes, reply: HttpResponder) -> None:
        self._head = head
        self._body: bytes | None = body
        self._reply = reply
        self._closed = asyncio.Event()
        """Set when the client has disconnected, or the response is complete."""
        self._status = 0
        self._fields: list[tuple[str, str]] = []
        self._streaming = False
        reply.on_closed = self._closed.set

    async def run(self, app: Application) -> None:
        try:
            await app(self._scope(), self._receive, self._send)
            if not self._closed.is_set():
                raise RuntimeError("the application left its answer unfinished")
        finally:
            # The application failed, or was cancelled, before the response was complete.
            if not self._closed.is_set():
                self._abort()

    def _scope(self) -> Message:
        head = self._head
        raw_path, _, query = head.target.partition("?")
        return {
            "type": "http",
            # 2.3: the application listens for the disconnect itself while it streams.
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": head.method,
            "scheme": "http",
            "path": unquote(raw_path),
            "raw_path": raw_path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": [
                (name.encode("ascii"), value.encode("latin-1")) for name, value in head.fields
            ],
            "client": None,
            "server": None,
            "state": {"principal": self._reply.principal},
        }

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._closed.is_set():
            return  # ASGI: a send after the disconnect is a no-op.
        match message["type"]:
            case "http.response.start" if not self._status:
                self._status = message["status"]
                self._fields = _header_fields(message.get("headers", ()))
            case "http.response.body" if self._status:
                await self._send_body(
                    message.get("body", b""), more=message.get("more_body", False)
                )
            case kind:
                raise RuntimeError(f"the application sent {kind} out of turn")

    async def _send_body(self, piece: bytes, *, more: bool) -> None:
        if not more and not self._streaming:
            self._closed.set()
            self._reply.answer(self._status, piece, self._fields)
            return
        if not self._streaming:
            self._streaming = True
            self._reply.start(self._status, self._fields)
        if piece and self._head.method != "HEAD":
            self._reply.write(piece)
        if more:
            await self._wait_drained()
        else:
            self._closed.set()
            self._reply.finish()

    async def _wait_drained(self) -> None:
        """Wait until the client has read most of what was written, or has disconnected."""
        await asyncio.sleep(0)  # Writes go out at the end of a turn of the event loop.
        while self._reply.unsent_bytes > UNSENT_BYTES_PAUSE and not self._closed.is_set():
            try:
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._closed.wait()
            except TimeoutError:
                continue

    def _abort(self) -> None:
        self._closed.set()
        if self._streaming:
            self._reply.finish()
        else:
            self._reply.answer(500, FAILED_BODY, [("content-type", "application/problem+json")])


def _header_fields(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    return [(name, value) for name, value in named if name not in FRAMING_FIELDS]
