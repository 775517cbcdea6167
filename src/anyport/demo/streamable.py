"""Streamable HTTP of the demo server, on `/mcp`, both eras.

A response is JSON, or an event stream once something precedes the answer. The server sends nothing
unasked, so GET has no stream.
"""

import asyncio
import base64
import secrets
import signal
import socket
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import msgspec

from anyport.demo.features import RequestError
from anyport.demo.revisions import LEGACY, MODERN, Json
from anyport.demo.server import (
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_VERSION,
    DemoSession,
    answer_modern,
    is_modern,
    log,
    refusal,
    respond,
)
from anyport.wire import jsonrpc
from anyport.wire.http1 import (
    HEAD_BYTES_MAX,
    HEAD_END,
    LAST_CHUNK,
    BadMessage,
    ChunkedDecoder,
    RequestHead,
    encode_chunk,
    encode_response_head,
    encode_streaming_head,
)
from anyport.wire.http1 import read_request_head as parse_head
from anyport.wire.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    BadFrame,
    Failure,
    Request,
    Result,
)
from anyport.wire.sse import encode_event

HEADER_MISMATCH: Final = -32020
SESSIONS_MAX: Final = 100
READ_SECONDS_MAX: Final = 30
PATH: Final = "/mcp"
LOCAL: Final = {"localhost", "127.0.0.1", "::1"}
VERSION_HEADER: Final = "mcp-protocol-version"
SESSION_HEADER: Final = "mcp-session-id"
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member of params that `Mcp-Name` repeats."""
STATUSES: Final = {
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH), 400),
    **dict.fromkeys((MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION), 400),
}
"""HTTP status of the errors of 2026-07-28; 200 for all others."""


def listen(host: str, port: int) -> socket.socket:
    """Bind the address; raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


async def serve_http(listener: socket.socket) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with asyncio.TaskGroup() as group:
        site = DemoHttpServer(group)
        server = await asyncio.start_server(site.connect, sock=listener, limit=HEAD_BYTES_MAX)
        host, port = listener.getsockname()[:2]
        address = f"[{host}]" if ":" in host else host
        log(f"anyport-demo listening on http://{address}:{port}{PATH}")
        await stop.wait()
        server.close()
        site.close()


class HttpResponse:
    """The response to one HTTP request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.done = asyncio.Event()
        self.fields: dict[str, str] = {}
        self._writer = writer
        self._streams = False

    def send(self, message: bytes) -> None:
        if not self._streams:
            self._streams = True
            fields = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
            self._writer.write(encode_streaming_head(200, tuple({**fields, **self.fields}.items())))
        self._writer.write(encode_chunk(encode_event(message)))

    def finish(self, answer: bytes | None, status: int = 200) -> None:
        if self._streams:
            if answer is not None:
                self.send(answer)
            self._writer.write(LAST_CHUNK)
            self.done.set()
        elif answer is None:
            self.respond(HTTPStatus.ACCEPTED)
        else:
            self.respond(status, answer, "application/json")

    def respond(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
        fields = {**({"Content-Type": kind} if body else {}), **self.fields}
        length = b"" if status == HTTPStatus.NO_CONTENT else b"Content-Length: %d\r\n" % len(body)
        self._writer.write(encode_response_head(status, fields.items(), length) + body)
        self.done.set()


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[RequestHead, bytes]:
    """Read the next request of a connection.

    Raises:
        BadMessage: it is invalid or too large.
        asyncio.IncompleteReadError: the connection ended.
    """
    first = await reader.readexactly(1)  # A connection may be idle for as long as it likes.
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            head = parse_head((first + await reader.readuntil(HEAD_END)).removesuffix(HEAD_END))
            if head.expects_continue:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return head, await _read_body(reader, head)
    except (asyncio.LimitOverrunError, TimeoutError) as error:
        raise BadMessage(HTTPStatus.BAD_REQUEST, "The request is too large or too slow") from error


async def _read_body(reader: asyncio.StreamReader, head: RequestHead) -> bytes:
    too_large = BadMessage(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large")
    if head.body_length is not None:
        if head.body_length > jsonrpc.INBOUND.bytes_max:
            raise too_large
        return await reader.readexactly(head.body_length)
    chunks, body = ChunkedDecoder(), b""
    while not chunks.done:
        portion = b"" if chunks.has_more else await reader.read(HEAD_BYTES_MAX)
        if not portion and not chunks.has_more:
            raise asyncio.IncompleteReadError(body, None)
        body += b"".join(chunks.feed(portion))
        if len(body) > jsonrpc.INBOUND.bytes_max:
            raise too_large
    if chunks.unused_data:
        raise BadMessage(HTTPStatus.BAD_REQUEST, "Requests cannot be pipelined behind chunks")
    return body


class DemoHttpServer:
    """The HTTP server: sessions, connections and routes."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._sessions: dict[str, DemoSession] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after the other."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        reply = HttpResponse(writer)
        try:
            keep_alive = True
            while keep_alive:
                reply = HttpResponse(writer)
                head, body = await read_request(reader, writer)
                keep_alive = head.keep_alive
                reply.fields.update({} if keep_alive else {"Connection": "close"})
                self._handle(head, body, reply)
                await reply.done.wait()
                await writer.drain()
        except BadMessage as error:
            reply.fields["Connection"] = "close"
            reply.respond(error.status, f"{error}\n".encode())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        for connection in self._connections:
            connection.cancel()

    def _handle(self, head: RequestHead, body: bytes, reply: HttpResponse) -> None:
        try:
            self._route(head, body, reply)
        except BadMessage as error:
            reply.respond(error.status, f"{error}\n".encode())
        except Exception as error:  # noqa: BLE001 - one bad request must not end the server.
            log(f"internal error: {type(error).__name__}: {error}")
            reply.respond(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _route(self, head: RequestHead, body: bytes, reply: HttpResponse) -> None:
        # "Servers MUST validate the Origin header" (basic/transports): DNS rebinding.
        if any(_host(origin) not in LOCAL for origin in head.all("origin")):
            raise BadMessage(HTTPStatus.FORBIDDEN, "Only pages from this machine are welcome")
        if head.target.partition("?")[0] != PATH:
            raise BadMessage(HTTPStatus.NOT_FOUND, f"The server is at {PATH}")
        if head.method == "DELETE" and head.get(SESSION_HEADER) is not None:
            self._session(head).close()
            del self._sessions[str(head.get(SESSION_HEADER))]
            reply.respond(HTTPStatus.NO_CONTENT)
        elif head.method != "POST":
            reply.fields["Allow"] = "POST, DELETE"
            raise BadMessage(HTTPStatus.METHOD_NOT_ALLOWED, "Use POST")
        else:
            self._post(head, body, reply)

    def _post(self, head: RequestHead, body: bytes, reply: HttpResponse) -> None:
        if _types(head, "content-type") != ["application/json"]:
            message = "Content-Type must be application/json"
            raise BadMessage(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
        required, accepted = ("application/json", "text/event-stream"), _types(head, "accept")
        if "*/*" not in accepted and not set(required).issubset(accepted):
            raise BadMessage(
                HTTPStatus.NOT_ACCEPTABLE, f"Accept must list {' and '.join(required)}"
            )
        if jsonrpc.is_batch(body) and head.get(VERSION_HEADER) != MODERN:
            self._session(head).receive_batch(body, reply)
            return
        frame = jsonrpc.decode(body)
        initializes = isinstance(frame, Request) and frame.method == "initialize"
        if isinstance(frame, BadFrame):
            reply.finish(refusal(frame, frame.id), HTTPStatus.BAD_REQUEST)
        elif isinstance(frame, Request) and (
            is_modern(frame) or (head.get(VERSION_HEADER) == MODERN and not initializes)
        ):
            self._group.create_task(_answer_modern(head, frame, reply))
        elif head.get(VERSION_HEADER) == MODERN and not initializes:
            is_answer = isinstance(frame, Result | Failure)
            reply.respond(HTTPStatus.BAD_REQUEST if is_answer else HTTPStatus.ACCEPTED)
        elif isinstance(frame, Request) and initializes and head.get(SESSION_HEADER) is None:
            self._group.create_task(self._initialize(frame, reply))
        else:
            self._session(head).receive(frame, reply)

    async def _initialize(self, request: Request, reply: HttpResponse) -> None:
        session = DemoSession(self._group)
        answer = await respond(request, session.answer(request, reply))
        if session.revision:
            if len(self._sessions) >= SESSIONS_MAX:
                self._sessions.pop(next(iter(self._sessions))).close()
            id = secrets.token_hex(16)
            self._sessions[id] = session
            reply.fields[SESSION_HEADER] = id
        reply.finish(answer)

    def _session(self, head: RequestHead) -> DemoSession:
        """The session that a request names."""
        id, version = head.get(SESSION_HEADER), head.get(VERSION_HEADER)
        if version is not None and version not in LEGACY:
            raise BadMessage(HTTPStatus.BAD_REQUEST, f"Unsupported protocol version: {version}")
        if id is None:
            raise BadMessage(HTTPStatus.BAD_REQUEST, f"There is no {SESSION_HEADER}")
        session = self._sessions.get(id)
        if session is None:
            raise BadMessage(HTTPStatus.NOT_FOUND, "There is no such session; send 'initialize'")
        if version not in (None, session.revision):
            raise BadMessage(HTTPStatus.BAD_REQUEST, f"The session speaks {session.revision}")
        return session


async def _answer_modern(head: RequestHead, request: Request, reply: HttpResponse) -> None:
    def check_headers(version: str, params: Json) -> None:
        """Headers must repeat what the body says, for intermediaries that read headers only."""
        name = params.get(NAMED_BY.get(request.method, ""))
        for field, value in (
            (VERSION_HEADER, version),
            ("mcp-method", request.method),
            ("mcp-name", name),
        ):
            if isinstance(value, str) and [_unwrapped(v) for v in head.all(field)] != [value]:
                raise RequestError(HEADER_MISMATCH, f"Header mismatch: {field}")

    answer = await respond(request, answer_modern(request, reply.send, check_headers))
    error = msgspec.json.decode(answer).get("error", {"code": 0})
    reply.finish(answer, STATUSES.get(error["code"], HTTPStatus.OK))


def _types(head: RequestHead, name: str) -> list[str]:
    """The media types of a header, without parameters."""
    types = ",".join(head.all(name)).split(",")
    return [each.partition(";")[0].strip().lower() for each in types]


def _unwrapped(value: str) -> str | None:
    """The text of a header value, decoded if it is `=?base64?…?=`."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None
