"""An HTTP ingress with clients whose sockets are fakes, and a request handler that only records.

The clock of the event loop is advanced by the test; timers fire as they would.
"""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from anyport.config.model import Token
from anyport.ingress.http.access import AccessControl
from anyport.ingress.http.connection import HttpConnection
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.legacy_sse import LegacySseSessions
from anyport.ingress.http.request_head import RequestHeadParser
from anyport.ingress.http.responder import HttpResponder
from anyport.ingress.http.server import SWEEP_SECONDS, HttpIngress
from anyport.ingress.http.session_store import SessionStore
from anyport.ingress.http.sessions import HttpSessions
from anyport.protocol.exchange import Answered, Exchange
from anyport.protocol.quota import QuotaLimits
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.wire.http1 import (
    HEAD_END,
    ChunkedDecoder,
    RequestHead,
    ResponseHead,
    encode_chunk,
    read_response_head,
)
from anyport.wire.lines import Overlong
from anyport.wire.sse import EventSplitter
from tests.protocol.fakes import META, FakeRequestHandler, request

BOTH = "application/json, text/event-stream"


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time can be advanced."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class Transport:
    """The gateway's end of a socket: keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True
        self.ended = False
        self.unsent = 0
        """Bytes that the client has not read."""
        self.closed_by: str | None = None
        self.connection: HttpConnection | None = None

    def write(self, raw: bytes) -> None:
        assert not self.ended, "nothing can be written after the end"
        if self.closed_by is None:
            self.written += raw

    def writelines(self, raws: list[bytes]) -> None:
        self.write(b"".join(raws))

    def write_eof(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed_by is not None

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, closed_by: str) -> None:
        if self.closed_by is None:
            self.closed_by = closed_by
            asyncio.get_running_loop().call_soon(self._lost)

    def _lost(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.connection_lost(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response, as far as it was received."""

    head: ResponseHead
    body: bytes
    whole: bool

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def json(self) -> Any:
        assert self.head.get("content-type") == "application/json"
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str | None, bytes]]:
        """Ids and data of the events of a stream, without comments."""
        assert self.head.get("content-type") == "text/event-stream"
        reader = EventSplitter(1 << 20)
        found = []
        for event in reader.feed(self.body):
            assert not isinstance(event, Overlong)
            found.append((event.id, event.data))
        return found

    @property
    def messages(self) -> list[Any]:
        """The messages of the events, without priming events."""
        return [json.loads(held) for _, held in self.events if held]


class HttpClient:
    """A client with one connection."""

    def __init__(self, stage: "Stage") -> None:
        self.transport = Transport()
        self.connection = HttpConnection(stage.ingress)
        self.transport.connection = self.connection
        self.connection.connection_made(cast(Any, self.transport))

    def send(self, *pieces: bytes) -> None:
        """Send bytes in these pieces."""
        for piece in pieces:
            if self.transport.connection is not None:
                self.connection.data_received(piece)

    async def ask(self, raw: bytes) -> HttpResponse:
        """Send a request; returns the response that follows at once."""
        before = len(self.responses)
        self.send(raw)
        await settle()
        assert len(self.responses) > before, "nothing was answered"
        return self.responses[-1]

    def disconnect(self) -> None:
        self.transport.close()

    @property
    def responses(self) -> list[HttpResponse]:
        """All responses in order; the last may be incomplete."""
        found: list[HttpResponse] = []
        raw = self.transport.written
        while raw:
            raw_head, end, raw = raw.partition(HEAD_END)
            assert end, "half a head"
            head = read_response_head(raw_head)
            if head.status < 200:
                continue
            if head.chunked:
                chunks = ChunkedDecoder()
                body = b"".join(chunks.feed(raw))
                raw, whole = chunks.unused_data, chunks.done
            else:
                length = head.body_length or 0
                body, raw = raw[:length], raw[length:]
                whole = len(body) == length
            found.append(HttpResponse(head=head, body=body, whole=whole))
        return found

    @property
    def response(self) -> HttpResponse:
        """The only response."""
        (response,) = self.responses
        return response


class Stage:
    """The ingress, and the fakes behind it."""

    def __init__(
        self,
        *,
        tokens: tuple[Token, ...] = (),
        sessions_max: int = 100,
        client_sessions_max: int = 100,
        idle_seconds: float = 600.0,
        state: Path | None = None,
    ) -> None:
        self.handler = FakeRequestHandler()
        self.address = ("", 0)
        self.flushed: list[int] = []
        """Bytes written to any client when events were recorded."""
        self.clients: list[HttpClient] = []
        self.app_requests: list[tuple[RequestHead, bytes, HttpResponder]] = []
        access = AccessControl(hosts=("localhost",), origins=(), tokens=tokens)
        seal = Seal([bytes(KEY_BYTES)])
        clock = asyncio.get_running_loop().time
        limits = QuotaLimits(sessions_max, client_sessions_max)
        self.sessions = HttpSessions(
            self.handler,
            seal,
            os.urandom,
            limits=limits,
            idle_seconds=idle_seconds,
            store=None if state is None else SessionStore(state, clock, clock),
        )
        self.legacy_sse = LegacySseSessions(self.sessions, limits)
        now = asyncio.get_running_loop().time()
        self.endpoint = Endpoint(self.handler, self.sessions, self.legacy_sse, now)
        self.head_parser = RequestHeadParser(access, {"default": None, "dev": None}, "default")
        self.ingress = HttpIngress(self.head_parser, self.endpoint, self._serve_app, self._flush)

    def client(self) -> HttpClient:
        client = HttpClient(self)
        self.clients.append(client)
        return client

    def answer_at_once(self, result: bytes = b'{"n":1}') -> None:
        """From now on answer every request at once."""
        self.handler.on_begin = lambda exchange: exchange.end(Answered(result))

    @property
    def last(self) -> Exchange:
        return self.handler.last

    async def open_session(
        self, revision: str = "2025-06-18", path: str = "/mcp/default", **fields: str
    ) -> str:
        """Open a session; returns its id."""
        client = self.client()
        response = await client.ask(post(initialize_request(revision), path, **fields))
        assert response.status == 200
        id = response.head.get("mcp-session-id")
        assert id is not None
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        ready = post(note, path, mcp_session_id=id, mcp_protocol_version=revision, **fields)
        assert (await client.ask(ready)).status == 202
        client.disconnect()
        await settle()
        return id

    def _serve_app(self, head: RequestHead, body: bytes, response: HttpResponder) -> None:
        self.app_requests.append((head, body, response))

    def _flush(self) -> None:
        self.flushed.append(sum(len(client.transport.written) for client in self.clients))


async def settle() -> None:
    """Let the event loop run until nothing is left to do."""
    for _ in range(8):
        await asyncio.sleep(0)


async def advance_clock(seconds: float) -> None:
    """Advance the clock, one sweep at a time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Clock)
    while seconds > 0:
        step = min(seconds, SWEEP_SECONDS)
        loop.ahead += step
        seconds -= step
        await settle()


def play(scene: Callable[["Stage"], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a scene with a stage of its own."""

    async def whole() -> None:
        stage = Stage(**settings)
        stage.address = await stage.ingress.listen("127.0.0.1", 0)
        try:
            await scene(stage)
        finally:
            await stage.ingress.close()
            await settle()

    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(whole())


# Requests as clients write them.


def initialize_request(revision: str = "2025-06-18", id: Any = "hello") -> Any:
    return request("initialize", {"protocolVersion": revision, "capabilities": {}}, id)


def raw_request(verb: str, path: str, body: bytes | None, fields: dict[str, str]) -> bytes:
    """Encode a request; underscores in the names of fields become hyphens."""
    named = {"host": "localhost:1", **{n.replace("_", "-"): v for n, v in fields.items()}}
    lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def post(message: Any, path: str = "/mcp/default", **fields: str) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return raw_request(
        "POST", path, body, {"content-type": "application/json", "accept": BOTH, **fields}
    )


def post_chunked(body: bytes, step: int = 7) -> bytes:
    """A legacy message in chunked encoding."""
    head, _, _ = post(b"").partition(b"content-length")
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    return (
        head + b"transfer-encoding: chunked\r\n\r\n" + b"".join(map(encode_chunk, [*pieces, b""]))
    )


def post_modern(method: str, params: Any = None, id: Any = 1, **fields: str) -> bytes:
    """A modern request with the headers that it must have."""
    params = {"_meta": META, **(params or {})}
    named = params.get("name") or params.get("uri")
    about = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
    if named is not None and method in ("tools/call", "prompts/get", "resources/read"):
        about["mcp_name"] = named
    return post(request(method, params, id), **{**about, **fields})


def get(path: str = "/mcp/default", **fields: str) -> bytes:
    return raw_request("GET", path, None, {"accept": "text/event-stream", **fields})


def delete(path: str = "/mcp/default", **fields: str) -> bytes:
    return raw_request("DELETE", path, None, fields)
