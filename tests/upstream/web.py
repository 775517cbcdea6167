"""A web server in the test's own loop: a script decides, byte for byte, what every request gets."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anyport.config.model import ServerConfig
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import HandshakeOptions, start_request
from anyport.upstream.lease_key import SHARED
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.supervisor import ConnectionSupervisor, ServerState
from anyport.upstream.transport import ServerQuirks, UpstreamContext
from tests.upstream.fakes import (
    MODERN,
    FakeSpawner,
    LoopTimerClock,
    Message,
    SupervisedServer,
    accepting,
    silent,
    until,
)

REASONS = {200: "OK", 202: "Accepted"}


@dataclass(slots=True, kw_only=True)
class Heard:
    """One request as it came."""

    verb: str
    target: str
    fields: Mapping[str, str]
    body: bytes
    raw: bytes
    """The head, byte for byte."""

    @property
    def message(self) -> Message:
        return dict(json.loads(self.body))

    @property
    def method(self) -> str | None:
        found = self.message.get("method") if self.body else None
        return found if isinstance(found, str) else None

    @property
    def id(self) -> Any:
        return self.message.get("id")


@dataclass(slots=True)
class Reply:
    """Writes to whoever asked."""

    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the other side has closed the connection."""

    def send(self, raw: bytes) -> None:
        self.writer.write(raw)

    def whole(
        self, status: int, body: bytes = b"", media: str = "application/json", **fields: str
    ) -> None:
        """A reply with a length."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'x')}", f"Content-Length: {len(body)}"]
        if body:
            lines.append(f"Content-Type: {media}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def json(self, message: Message, status: int = 200, **fields: str) -> None:
        self.whole(status, json.dumps({"jsonrpc": "2.0", **message}).encode(), **fields)

    def stream(self) -> None:
        """The head of an event stream."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        self.send(head + b"Transfer-Encoding: chunked\r\n\r\n")

    def event(self, message: Message | str, id: str | None = None, name: str = "message") -> None:
        data = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        raw = f"event: {name}\n" + (f"id: {id}\n" if id is not None else "") + f"data: {data}\n\n"
        self.chunk(raw.encode())

    def chunk(self, raw: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(raw), raw))

    def end(self) -> None:
        """The end of a stream in good order."""
        self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection, whatever it is in the middle of."""
        self.writer.transport.abort()


Site = Callable[[Heard, Reply], Awaitable[None] | None]


class Web:
    """Listens on a free port."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.heard: list[Heard] = []
        self.connections = 0
        self.replies: list[Reply] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> "Web":
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def deaf(self) -> None:
        """Stop listening; connections that are open stay so."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def close(self) -> None:
        """Stop listening, and cut every connection."""
        self.deaf()
        while accepting() or self._tasks:
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def methods(self) -> list[str | None]:
        """What was posted."""
        return [heard.method for heard in self.heard if heard.verb == "POST"]

    def of(self, method: str) -> list[Heard]:
        return [heard for heard in self.heard if heard.body and heard.method == method]

    def gets(self) -> list[Heard]:
        return [heard for heard in self.heard if heard.verb == "GET"]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        reply = Reply(writer)
        try:
            while True:
                heard = await _read(reader)
                self.heard.append(heard)
                reply = Reply(writer)
                self.replies.append(reply)
                result = self.site(heard, reply)
                if result is not None:
                    await result
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            reply.gone.set()
            writer.close()
            self._writers.discard(writer)
            self._tasks.discard(task)


async def _read(reader: asyncio.StreamReader) -> Heard:
    raw = await reader.readuntil(b"\r\n\r\n")
    line, *lines = raw[:-4].decode("latin-1").split("\r\n")
    verb, target, _ = line.split(" ")
    pairs = [line.partition(": ") for line in lines]
    fields = {name.lower(): value for name, _, value in pairs}
    assert len(fields) == len(pairs), "a field stands twice"
    body = await reader.readexactly(int(fields.get("content-length", "0")))
    return Heard(verb=verb, target=target, fields=fields, body=body, raw=raw)


# Servers that behave.


def modern(call: Site | None = None, **discovery: Any) -> Site:
    """A modern server; `call` answers what is not part of the handshake."""

    def site(heard: Heard, reply: Reply) -> Awaitable[None] | None:
        if heard.verb != "POST":
            reply.whole(405, Allow="POST")
        elif heard.method == "server/discover":
            told = {"supportedVersions": [MODERN.name], "capabilities": {"tools": {}}, **discovery}
            reply.json({"id": heard.id, "result": told})
        elif call is not None:
            return call(heard, reply)
        else:
            reply.json({"id": heard.id, "result": {"resultType": "complete"}})
        return None

    return site


class Legacy:
    """A server with sessions; `call` answers what is not part of the handshake."""

    def __init__(self, call: Site | None = None, *, stands: Site | None = None) -> None:
        self.call = call
        self.stands = stands
        """Answers GET."""
        self.sessions: list[str] = []
        self.dead: set[str] = set()
        self.ended: list[str] = []
        self.revision = "2025-11-25"

    def __call__(self, heard: Heard, reply: Reply) -> Awaitable[None] | None:
        session = heard.fields.get("mcp-session-id")
        method = heard.method
        if method == "server/discover":
            error = {"code": -32600, "message": "Bad Request: Missing session ID"}
            reply.json({"id": "server-error", "error": error}, 400)
        elif method == "initialize":
            self.sessions.append(f"session-{len(self.sessions) + 1}")
            told = {"protocolVersion": self.revision, "capabilities": {"tools": {}}}
            reply.json({"id": heard.id, "result": told}, Mcp_Session_Id=self.sessions[-1])
        elif session not in self.sessions or session in self.dead:
            error = {"code": -32600, "message": "Session not found"}
            reply.json({"id": "server-error", "error": error}, 404)
        elif heard.verb == "DELETE":
            self.ended.append(session)
            reply.whole(200)
        elif heard.verb == "GET":
            if self.stands is None:
                reply.whole(405)
            else:
                return self.stands(heard, reply)
        elif heard.id is None or method is None:
            reply.whole(202)
        elif self.call is not None:
            return self.call(heard, reply)
        else:
            reply.json({"id": heard.id, "result": {}})
        return None


# The other side.


class Scene:
    """A supervisor of a connection to a URL, and everything it reported."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.quirks = ServerQuirks()
        config = ServerConfig(slug="s", name="s", url=url, **settings)
        options = HandshakeOptions(
            client_info=b'{"name":"gateway","version":"0"}',
            capabilities=b"{}",
            protocol=config.protocol,
        )
        context = UpstreamContext(
            clock=LoopTimerClock(),
            spawner=FakeSpawner(silent).spawner,
            client_info=b"{}",
            redact=lambda text: text.replace("secret", "***"),
        )
        self.owner = SupervisedServer(config, context)
        self.broken = self.owner.broken
        self.supervisor = ConnectionSupervisor(self.owner.server, SHARED, options, self.quirks)
        self.loop = asyncio.get_running_loop()
        self._task = self.loop.create_task(self.supervisor.run())

    async def __aenter__(self) -> "Scene":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.supervisor.stop("enough")
        await self._task

    async def connected(self) -> Connection:
        """The connection, once it is ready."""
        await until(lambda: self.supervisor.state is not ServerState.STARTING)
        assert self.supervisor.connection is not None, self.broken
        return self.supervisor.connection

    async def refused(self) -> str:
        """The reason, once it is broken."""
        await until(lambda: bool(self.broken))
        return self.broken[0]


async def call(connection: Connection, name: str = "echo", **arguments: Any) -> Answer:
    """Call a tool."""
    params = json.dumps({"name": name, "arguments": arguments}).encode()
    return await start_request(connection, "tools/call", params)


async def lost(connection: Connection, name: str = "echo", **arguments: Any) -> NoAnswer:
    """Call a tool that will not answer."""
    answer = await call(connection, name, **arguments)
    assert isinstance(answer, NoAnswer), answer
    return answer
