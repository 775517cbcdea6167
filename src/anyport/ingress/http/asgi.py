"""Lets an ASGI application answer one request.

For what is not MCP: an application costs more for one request than a whole MCP call does, and is
pleasant to write. It knows nothing of the application, and imports no framework.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from anyport.ingress.http.reply import Reply
from anyport.wire.http import RequestHead

UNSENT_BYTES_PAUSE: Final = 256 * 1024
"""An answer in pieces waits while its client has so many of them to take."""

DRAIN_SECONDS: Final = 0.05
"""How often a waiting answer looks whether its client has taken something."""

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]
"""An ASGI 3 application."""

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], None]
"""Runs a task that someone waits for, and that may raise."""

FRAMING: Final = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive"})
"""Fields that are the connection's to say, not the application's."""

BROKE: Final = (
    b'{"type":"about:blank","title":"Internal Server Error","status":500,'
    b'"detail":"The gateway failed to answer this request; its standard error says why"}'
)


def serve_asgi(
    app: Application, head: RequestHead, body: bytes, reply: Reply, spawn: Spawn
) -> None:
    """Have the application answer; what it raises goes to the task that `spawn` runs."""
    exchange = _Exchange(head, body, reply)
    spawn(exchange.run(app), f"{head.method} {head.target.partition('?')[0]}")


class _Exchange:
    """One request to the application, and its answer."""

    def __init__(self, head: RequestHead, body: bytes, reply: Reply) -> None:
        self._head = head
        self._body: bytes | None = body
        self._reply = reply
        self._gone = asyncio.Event()
        """The client has left, or has its answer."""
        self._status = 0
        self._fields: list[tuple[str, str]] = []
        self._streaming = False
        reply.on_closed = self._gone.set

    async def run(self, app: Application) -> None:
        try:
            await app(self._scope(), self._receive, self._send)
            if not self._gone.is_set():
                raise RuntimeError("the application left its answer unfinished")
        finally:
            # It broke, or was cancelled, on the way.
            if not self._gone.is_set():
                self._break_off()

    def _scope(self) -> Message:
        head = self._head
        raw_path, _, query = head.target.partition("?")
        return {
            "type": "http",
            # 2.3: an application looks out for the disconnect by itself while it streams.
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
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._gone.is_set():
            return  # As ASGI wants it: who speaks to a client that has left is not to blame.
        match message["type"]:
            case "http.response.start" if not self._status:
                self._status = message["status"]
                self._fields = _fields(message.get("headers", ()))
            case "http.response.body" if self._status:
                await self._piece(message.get("body", b""), more=message.get("more_body", False))
            case kind:
                raise RuntimeError(f"the application sent {kind} out of turn")

    async def _piece(self, piece: bytes, *, more: bool) -> None:
        if not more and not self._streaming:
            self._gone.set()
            self._reply.answer(self._status, piece, self._fields)
            return
        if not self._streaming:
            self._streaming = True
            self._reply.start(self._status, self._fields)
        if piece and self._head.method != "HEAD":
            self._reply.write(piece)
        if more:
            await self._drained()
        else:
            self._gone.set()
            self._reply.finish()

    async def _drained(self) -> None:
        """Wait until the client has taken most of what was written, or has left."""
        await asyncio.sleep(0)  # What is written leaves us at the end of a turn of the loop.
        while self._reply.unsent_bytes > UNSENT_BYTES_PAUSE and not self._gone.is_set():
            try:
                async with asyncio.timeout(DRAIN_SECONDS):
                    await self._gone.wait()
            except TimeoutError:
                continue

    def _break_off(self) -> None:
        self._gone.set()
        if self._streaming:
            self._reply.finish()
        else:
            self._reply.answer(500, BROKE, [("content-type", "application/problem+json")])


def _fields(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    named = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    return [(name, value) for name, value in named if name not in FRAMING]
