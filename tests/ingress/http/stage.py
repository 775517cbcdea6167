"""An ingress with visitors whose sockets are fakes, before a relay that only listens.

Time passes when a test says so: the loop's clock is wound by hand, and everything that the
ingress does by the clock happens as it would.
"""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from anyport.config.schema import Token
from anyport.ingress.http.door import Door
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.older import OlderSessions
from anyport.ingress.http.register import Register
from anyport.ingress.http.reply import Reply
from anyport.ingress.http.server import SWEEP_SECONDS, HttpIngress
from anyport.ingress.http.sessions import Sessions
from anyport.ingress.http.visit import Reception
from anyport.protocol.exchange import Answered, Exchange
from anyport.protocol.seal import KEY_BYTES, Seal
from anyport.wire.events import EventSplitter
from anyport.wire.framing import Overlong
from anyport.wire.http import END, Chunks, ReplyHead, RequestHead, chunk, read_reply_head
from tests.protocol.fakes import META, FakeRelay, request

BOTH = "application/json, text/event-stream"


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time can be moved on."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class Transport:
    """The gateway's end of a socket: what is written is kept, what is closed is told."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True
        self.ended = False
        self.unsent = 0
        """Bytes that the client has not taken."""
        self.how: str | None = None
        self.inlet: Inlet | None = None

    def write(self, raw: bytes) -> None:
        assert not self.ended, "nothing can be written after the end"
        if self.how is None:
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
        return self.how is not None

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def _end(self, how: str) -> None:
        if self.how is None:
            self.how = how
            asyncio.get_running_loop().call_soon(self._lost)

    def _lost(self) -> None:
        inlet, self.inlet = self.inlet, None
        if inlet is not None:
            inlet.connection_lost(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One reply, as far as it has come."""

    head: ReplyHead
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
        """Ids and contents of the events of a stream; comments do not count."""
        assert self.head.get("content-type") == "text/event-stream"
        reader = EventSplitter(1 << 20)
        found = []
        for event in reader.feed(self.body):
            assert not isinstance(event, Overlong)
            found.append((event.id, event.data))
        return found

    @property
    def messages(self) -> list[Any]:
        """What the events hold, but for those that only prime."""
        return [json.loads(held) for _, held in self.events if held]


class Visitor:
    """One connection from a client."""

    def __init__(self, stage: "Stage") -> None:
        self.transport = Transport()
        self.inlet = Inlet(stage.ingress)
        self.transport.inlet = self.inlet
        self.inlet.connection_made(cast(Any, self.transport))

    def send(self, *pieces: bytes) -> None:
        """Send bytes, in these pieces."""
        for piece in pieces:
            if self.transport.inlet is not None:
                self.inlet.data_received(piece)

    async def ask(self, raw: bytes) -> Said:
        """Send a request; what has been said to it at once."""
        before = len(self.replies)
        self.send(raw)
        await settle()
        assert len(self.replies) > before, "nothing was answered"
        return self.replies[-1]

    def leave(self) -> None:
        """Close the connection."""
        self.transport.close()

    @property
    def replies(self) -> list[Said]:
        """Everything that was answered, in order; the last may not be whole."""
        said, raw = [], self.transport.written
        while raw:
            head, found, raw = raw.partition(END)
            assert found, "half a head"
            reply = read_reply_head(head)
            if reply.status < 200:
                continue
            if reply.chunked:
                chunks = Chunks()
                body = b"".join(chunks.feed(raw))
                raw, whole = chunks.rest, chunks.done
            else:
                length = reply.body_length or 0
                body, raw = raw[:length], raw[length:]
                whole = len(body) == length
            said.append(Said(head=reply, body=body, whole=whole))
        return said

    @property
    def reply(self) -> Said:
        """The one reply."""
        (reply,) = self.replies
        return reply


class Stage:
    """The ingress, and what stands behind it."""

    def __init__(
        self,
        *,
        tokens: tuple[Token, ...] = (),
        sessions_max: int = 100,
        idle_seconds: float = 600.0,
        state: Path | None = None,
    ) -> None:
        self.relay = FakeRelay()
        self.address = ("", 0)
        self.flushed: list[int] = []
        """How much had been written to anyone when the record was made safe."""
        self.visitors: list[Visitor] = []
        self.asides: list[tuple[RequestHead, bytes, Reply]] = []
        door = Door(hosts=("localhost",), origins=(), tokens=tokens)
        seal = Seal([bytes(KEY_BYTES)])
        clock = asyncio.get_running_loop().time
        self.sessions = Sessions(
            self.relay,
            seal,
            os.urandom,
            sessions_max=sessions_max,
            idle_seconds=idle_seconds,
            register=None if state is None else Register(state, clock),
        )
        self.older = OlderSessions(self.sessions, sessions_max)
        now = asyncio.get_running_loop().time()
        self.endpoint = Endpoint(self.relay, self.sessions, self.older, now)
        reception = Reception(door, {"default": None, "dev": None}, "default")
        self.ingress = HttpIngress(reception, self.endpoint, self._aside, self._flush)

    def visitor(self) -> Visitor:
        visitor = Visitor(self)
        self.visitors.append(visitor)
        return visitor

    def answer_at_once(self, result: bytes = b'{"n":1}') -> None:
        """From now on everything is answered as soon as it is asked."""
        self.relay.on_begin = lambda exchange: exchange.end(Answered(result))

    @property
    def last(self) -> Exchange:
        return self.relay.last

    async def open_session(
        self, revision: str = "2025-06-18", path: str = "/mcp/default", **fields: str
    ) -> str:
        """The id of a new session."""
        visitor = self.visitor()
        said = await visitor.ask(post(hello(revision), path, **fields))
        assert said.status == 200
        id = said.head.get("mcp-session-id")
        assert id is not None
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        ready = post(note, path, mcp_session_id=id, mcp_protocol_version=revision, **fields)
        assert (await visitor.ask(ready)).status == 202
        visitor.leave()
        await settle()
        return id

    def _aside(self, head: RequestHead, body: bytes, reply: Reply) -> None:
        self.asides.append((head, body, reply))

    def _flush(self) -> None:
        self.flushed.append(sum(len(visitor.transport.written) for visitor in self.visitors))


async def settle() -> None:
    """Let everything happen that happens at once."""
    for _ in range(8):
        await asyncio.sleep(0)


async def pass_by(seconds: float) -> None:
    """Let time pass, a sweep at a time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Clock)
    while seconds > 0:
        step = min(seconds, SWEEP_SECONDS)
        loop.ahead += step
        seconds -= step
        await settle()


def play(scene: Callable[["Stage"], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Play a scene on a stage of its own."""

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


# Requests, as clients write them.


def hello(revision: str = "2025-06-18", id: Any = "hello") -> Any:
    return request("initialize", {"protocolVersion": revision, "capabilities": {}}, id)


def raw_request(verb: str, path: str, body: bytes | None, fields: dict[str, str]) -> bytes:
    """A request; underscores in the names of fields are hyphens."""
    named = {"host": "localhost:1", **{n.replace("_", "-"): v for n, v in fields.items()}}
    lines = [f"{verb} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def post(message: Any, path: str = "/mcp/default", **fields: str) -> bytes:
    """A legacy message."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return raw_request(
        "POST", path, body, {"content-type": "application/json", "accept": BOTH, **fields}
    )


def post_chunked(body: bytes, step: int = 7) -> bytes:
    """A legacy message whose length nobody says."""
    head, _, _ = post(b"").partition(b"content-length")
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    return head + b"transfer-encoding: chunked\r\n\r\n" + b"".join(map(chunk, [*pieces, b""]))


def post_modern(method: str, params: Any = None, id: Any = 1, **fields: str) -> bytes:
    """A request of the era without handshake, its headers as they must be."""
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
