"""A simulated MCP server over HTTP: sessions and streams in one era, single requests in the other.

What is said in a conversation is for `servers` to say; here it is put into responses, whole or
as streams, and lost where a connection is.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import msgspec

from tests.rig.simulation.call_plan import Json
from tests.rig.simulation.http_messages import Message, Reader, chunk, event, response, stream_head
from tests.rig.simulation.network import Socket
from tests.rig.simulation.server_sessions import LegacyServerSession, open_session
from tests.rig.simulation.servers import ServerSession, SimServer

JSON = {"Content-Type": "application/json"}


class SimHttpServer:
    """One server behind an address."""

    def __init__(self, server: SimServer) -> None:
        self.server = server
        self.sessions: dict[str, LegacyServerSession] = {}
        self.lines: list[SimHttpConnection] = []
        self.frozen = False
        self._chance = server.world.chance(f"{server.slug}.web")
        self._down = False
        self._sessions_ever = 0

    def answer_call(self) -> "SimHttpConnection | None":
        """Somebody connects; None if nobody is there."""
        if self._down or self._chance.random() < self.server.traits.missing_share:
            return None
        line = SimHttpConnection(self)
        self.lines.append(line)
        return line

    def crash(self, seconds: float) -> None:
        """Everything is gone; after some seconds it is there again, and knows nobody."""
        self.server.world.note(self.server.slug, "goes down")
        self._down = True
        self.server.world.loop.call_later(seconds, self._come_back)
        self.cut()
        self.forget()

    def _come_back(self) -> None:
        self._down = False

    def cut(self) -> None:
        """Every connection breaks."""
        for line in list(self.lines):
            line.socket.abort()

    def forget(self) -> None:
        """Every session is forgotten."""
        for talk in self.sessions.values():
            self._close(talk)
        self.sessions.clear()

    def freeze(self, seconds: float) -> None:
        """It takes nothing and says nothing for a while."""
        self.frozen = True
        self.server.world.loop.call_later(seconds, self.thaw)

    def thaw(self) -> None:
        """It goes on."""
        if self.frozen:
            self.frozen = False
            for line in list(self.lines):
                line.go_on()

    def begin(self) -> str:
        """A new session."""
        self._sessions_ever += 1
        talk = open_session(self.server)
        assert isinstance(talk, LegacyServerSession)
        talk.die = lambda code: self.crash(self._chance.random() * 5)
        name = f"session-{self._sessions_ever}"
        self.sessions[name] = talk
        return name

    def single(self) -> ServerSession:
        """A conversation of one request."""
        talk = open_session(self.server)
        talk.die = lambda code: self.crash(self._chance.random() * 5)
        return talk

    def end(self, name: str) -> None:
        """A session is over."""
        talk = self.sessions.pop(name, None)
        if talk is not None:
            self._close(talk)

    def _close(self, talk: ServerSession) -> None:
        talk.close()
        self.server.talks.remove(talk)

    def wants_stream(self) -> bool:
        """Whether an answer comes as a stream, although it need not."""
        return self._chance.random() < 0.3


class SimHttpConnection(asyncio.Protocol):
    """One connection; one request at a time."""

    socket: Socket

    def __init__(self, web: SimHttpServer) -> None:
        self.web = web
        self._reader = Reader()
        self._held: deque[bytes] = deque()
        self._unsaid: list[bytes] = []
        self._reply: Reply | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.socket = cast(Socket, transport)

    def data_received(self, data: bytes) -> None:
        self._held.append(data)
        self.go_on()

    def go_on(self) -> None:
        """Read what has come, and say what was not said."""
        if not self.web.frozen:
            unsaid, self._unsaid = self._unsaid, []
            for raw in unsaid:
                self.socket.write(raw)
        while self._held and not self.web.frozen:
            for message in self._reader.feed(self._held.popleft()):
                if isinstance(message, Message):
                    self._serve(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self.web.lines.remove(self)
        if self._reply is not None:
            self._reply.lost()

    def _serve(self, request: Message) -> None:
        verb = request.start.split(" ", 1)[0]
        self._reply = reply = Reply(self)
        name = request.fields.get("mcp-session-id", "")
        if verb == "POST":
            self._post(request, reply, name)
        elif self.web.server.traits.era == "modern":
            reply.whole(405)
        elif name not in self.web.sessions:
            reply.whole(404)
        elif verb == "DELETE":
            self.web.end(name)
            reply.whole(200)
        else:
            self._stand_by(reply, self.web.sessions[name])

    def _post(self, request: Message, reply: "Reply", name: str) -> None:
        message: Json = msgspec.json.decode(request.body)
        modern = self.web.server.traits.era == "modern"
        if modern:
            talk = self.web.single()
            reply.on_lost = lambda: self._forget(talk, message)
            reply.on_done = lambda: self._forget(talk, message)
        elif message.get("method") == "initialize":
            name = self.web.begin()
            reply.fields = {"Mcp-Session-Id": name}
            talk = self.web.sessions[name]
        elif message.get("method") == "server/discover":
            reply.whole(400)
            return
        elif name not in self.web.sessions:
            reply.whole(404 if name else 400)
            return
        else:
            talk = self.web.sessions[name]
        if "id" not in message or "method" not in message:
            reply.whole(202)
        else:
            reply.id = message["id"]
        talk.receive(message, reply.say)

    def _forget(self, talk: ServerSession, message: Json) -> None:
        """The one request of a modern conversation is over."""
        talk.cancelled(message.get("id"))
        if not talk.ended:
            talk.close()
            self.web.server.talks.remove(talk)

    def _stand_by(self, reply: "Reply", talk: LegacyServerSession) -> None:
        reply.open()
        talk.speak = reply.say

    def write(self, raw: bytes) -> None:
        """Send, or keep it until that can be done."""
        if self.web.frozen:
            self._unsaid.append(raw)
        else:
            self.socket.write(raw)


class Reply:
    """One response: a whole, or a stream that the answer ends."""

    def __init__(self, line: SimHttpConnection) -> None:
        self.id: Any = None
        self.fields: dict[str, str] = {}
        self.on_lost: Callable[[], None] = lambda: None
        self.on_done: Callable[[], None] = lambda: None
        self._line = line
        self._streams = False
        self._over = False

    def whole(self, status: int, body: bytes = b"") -> None:
        """All of it."""
        if not self._over:
            self._over = True
            self._line.write(response(status, {**JSON, **self.fields}, body))
            self.on_done()

    def open(self) -> None:
        """It is a stream."""
        if not self._streams:
            self._streams = True
            self._line.write(stream_head(self.fields))

    def say(self, message: Json | bytes) -> None:
        """A message on it."""
        if self._over:
            return
        if isinstance(message, bytes):
            self._garble(message.strip())
            return
        answers = self.id is not None and message.get("id") == self.id and "method" not in message
        if answers and not self._streams and not self._line.web.wants_stream():
            self.whole(200, msgspec.json.encode(message))
            return
        self.open()
        self._line.write(event(message))
        if answers:
            self._over = True
            self._line.write(chunk(b""))
            self.on_done()

    def _garble(self, noise: bytes) -> None:
        """What is no message: as an event, or in the place of the answer."""
        if self._streams:
            self._line.write(chunk(b"data: %b\n\n" % noise))
        else:
            self.whole(200, noise)

    def lost(self) -> None:
        """The connection is gone."""
        if not self._over:
            self._over = True
            self.on_lost()
