"""Clients of every revision in one loop, over raw sockets. Each keeps account of what it is told.

All of them use the same ids and the same progress token. What a client says bears a mark of its
own, and whatever comes to it is searched for the marks of others before anything else is done.
"""

import asyncio
import json
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from tests.harness import MODERN_META, Message
from tests.rig.raw_http_client import STREAM, Fields, head, post, request, tool_call
from tests.rig.raw_http_client import modern as modern_post

TOKEN: Final = "the same for all"
LEVEL: Final = "info"
META: Final = "io.modelcontextprotocol/"
FORMS: Final[Message] = {"sampling": {}, "roots": {}, "elicitation": {"form": {}}}
NO_FORMS: Final[Message] = {"sampling": {}, "roots": {}}
"""All that revisions before 2025-06-18 can be asked."""
BUFFER_BYTES: Final = 1 << 20
PAUSE_SECONDS: Final = 0.02

LOG: Final = "notifications/message"
_MARKS: Final = re.compile(rb"mark-[0-9a-f]{32}")


class MisdeliveredMessage(AssertionError):
    """A client was told what belongs to another."""


@dataclass(slots=True, kw_only=True)
class ReceivedMessages:
    """What a client is told in the course of one call."""

    questions: list[Message] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)
    answer: Message = field(default_factory=dict)

    def told(self, method: str) -> list[Message]:
        """The params of the notifications with this method."""
        return [note["params"] for note in self.notes if note["method"] == method]


class HttpLine:
    """One connection, for one request after the other."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "HttpLine":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=BUFFER_BYTES))

    def write(self, raw: bytes) -> None:
        """Send bytes, and wait for nothing."""
        self._writer.write(raw)

    async def ask(self, raw: bytes) -> tuple[int, dict[str, str]]:
        """Send a request; status and header fields of the response."""
        self._writer.write(raw)
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = [line.partition(": ") for line in lines if line]
        return int(first.split()[1]), {name.lower(): value for name, _, value in pairs}

    async def body(self, fields: dict[str, str]) -> bytes:
        """The whole body of a response."""
        if "content-length" in fields:
            return await self._reader.readexactly(int(fields["content-length"]))
        return b"".join([piece async for piece in self._pieces()])

    async def events(self) -> AsyncIterator[bytes]:
        """What the events of a stream hold, as they come."""
        rest = b""
        async for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                name, _, value = line.partition(b":")
                if name == b"data" and value.strip():
                    yield value

    async def _pieces(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readuntil(b"\r\n")

    def close(self) -> None:
        self._writer.close()


class ConcurrentClient:
    """What all clients have in common."""

    revision = ""

    def __init__(self, port: int, fields: Fields, capabilities: Message) -> None:
        self.port = port
        self.fields = fields
        self.capabilities = capabilities
        self.mark = f"mark-{uuid4().hex}"
        self.kin: frozenset[bytes] = frozenset()
        """The marks of all clients of the same person."""
        self.text = ""
        """What its present call is about."""
        self.account = ReceivedMessages()
        self._lines: list[HttpLine] = []
        self._readers: list[asyncio.Task[None]] = []

    async def open(self, group: asyncio.TaskGroup) -> None:
        """Get ready to call; `group` keeps whatever reads on the side."""

    async def close(self) -> None:
        """Leave in good order."""

    def hang_up(self) -> None:
        """Close every connection, whatever goes on there."""
        for reader in self._readers:
            reader.cancel()
        for line in self._lines:
            line.close()

    async def call(self, tool: str, turn: int, whom: str) -> ReceivedMessages:
        """Call a tool once; all that came of it."""
        self.text, self.account = f"{self.mark} in turn {turn}", ReceivedMessages()
        # Not all take equally long, so that they end in another order than they began.
        arguments = {"text": self.text, "whom": whom, "seconds": self._pause(turn)}
        await self._call(tool_call(tool, arguments, turn, progressToken=TOKEN))
        return self.account

    def _pause(self, turn: int) -> float:
        return (int(self.mark[-2:], 16) + turn) % 3 * PAUSE_SECONDS

    async def _call(self, message: Message) -> None:
        raise NotImplementedError

    async def _line(self) -> HttpLine:
        line = await HttpLine.open(self.port)
        self._lines.append(line)
        return line

    def read(self, raw: bytes) -> Message:
        """What came, if it can be this client's."""
        foreign = set(_MARKS.findall(raw)) - {self.mark.encode()}
        message: Message = json.loads(raw)
        # Of a log over a connection that one person's clients share nobody knows whose it is.
        if foreign and not (message.get("method") == LOG and foreign <= self.kin):
            raise MisdeliveredMessage(f"{self.mark} ({self.revision}) was told {raw!r}")
        return message

    def note(self, message: Message) -> None:
        """Keep account of what came besides questions."""
        if message.get("method") == LOG and self.mark not in message["params"]["data"]:
            return  # It is about another client of the same person.
        if "method" in message:
            self.account.notes.append(message)
        else:
            assert not self.account.answer, f"{self.account.answer} was followed by {message}"
            self.account.answer = message

    def reply_to(self, question: Message) -> Message:
        """The answer to a question, which is this client's own whatever was asked."""
        self.account.questions.append(question)
        words = f"answer: {self.text}"
        match question["method"]:
            case "elicitation/create":
                return {"action": "accept", "content": {"answer": words}}
            case "sampling/createMessage":
                content = {"type": "text", "text": words}
                return {"role": "assistant", "content": content, "model": "none"}
            case "roots/list":
                return {"roots": [{"uri": f"file:///{self.mark}", "name": words}]}
        raise AssertionError(f"nobody asks {question}")


class ModernClient(ConcurrentClient):
    """A client without a session, which is asked by being answered."""

    revision = "2026-07-28"

    async def open(self, group: asyncio.TaskGroup) -> None:
        self._own = await self._line()

    async def _call(self, message: Message) -> None:
        result = await self._ask(message)
        if result.get("resultType") == "input_required":
            asked = result["inputRequests"]
            answers = {key: self.reply_to(question) for key, question in asked.items()}
            state = result["requestState"]
            back = {**message["params"], "inputResponses": answers, "requestState": state}
            self.account.answer = {}
            await self._ask({**message, "params": back})

    async def _ask(self, message: Message) -> Message:
        params = message["params"]
        own = {f"{META}clientCapabilities": self.capabilities, f"{META}logLevel": LEVEL}
        about = {**MODERN_META, **params["_meta"], **own}
        whole = {**message, "params": {**params, "_meta": about}}
        _, fields = await self._own.ask(modern_post(whole, self.fields))
        if fields["content-type"] == STREAM:
            async for raw in self._own.events():
                self.note(self.read(raw))
        else:
            self.note(self.read(await self._own.body(fields)))
        result: Message = self.account.answer.get("result", {})
        return result


class SessionClient(ConcurrentClient):
    """A client with a session over Streamable HTTP, and its standing stream."""

    def __init__(self, port: int, fields: Fields, capabilities: Message, revision: str) -> None:
        super().__init__(port, fields, capabilities)
        self.revision = revision

    async def open(self, group: asyncio.TaskGroup) -> None:
        self._own, self._back = await self._line(), await self._line()
        status, fields = await self._own.ask(post(hello(self), self.fields))
        assert status == 200, status
        self.read(await self._own.body(fields))
        self.fields = {**self.fields, "Mcp-Session-Id": fields["mcp-session-id"]}
        if self.revision not in ("2024-11-05", "2025-03-26"):
            self.fields["MCP-Protocol-Version"] = self.revision
        await self._tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        standing = await self._line()
        status, _ = await standing.ask(head("GET", "/mcp", {"Accept": STREAM, **self.fields}))
        assert status == 200, status
        self._readers.append(group.create_task(self._hear(standing)))
        await self._wish()

    async def _wish(self) -> None:
        """Say what is to be logged."""
        self.account = ReceivedMessages()
        await self._call(request("logging/setLevel", {"level": LEVEL}, "level"))
        assert self.account.answer["result"] == {}

    async def close(self) -> None:
        # On a connection of its own: others may have been at work for longer than one is kept.
        status, _ = await (await self._line()).ask(head("DELETE", "/mcp", self.fields))
        assert status == 200, status

    async def _call(self, message: Message) -> None:
        status, fields = await self._own.ask(post(message, self.fields))
        assert status == 200, status
        if fields["content-type"] == STREAM:
            await self._hear(self._own)
        else:
            self.note(self.read(await self._own.body(fields)))

    async def _hear(self, line: HttpLine) -> None:
        async for raw in line.events():
            await self.take(self.read(raw))

    async def take(self, message: Message) -> None:
        """Answer what is a question, and keep the rest."""
        if "method" in message and "id" in message:
            result = self.reply_to(message)
            await self._tell({"jsonrpc": "2.0", "id": message["id"], "result": result})
        else:
            self.note(message)

    async def _tell(self, message: Message) -> None:
        status, fields = await self._back.ask(post(message, self.fields, self._address))
        assert status == 202, (status, message)
        await self._back.body(fields)

    _address = "/mcp"


class SseClient(SessionClient):
    """A client over HTTP+SSE: everything comes on one stream."""

    def __init__(self, port: int, fields: Fields, capabilities: Message) -> None:
        super().__init__(port, fields, capabilities, "2024-11-05")
        self._answered = asyncio.Event()

    async def open(self, group: asyncio.TaskGroup) -> None:
        self._own, self._back = await self._line(), await self._line()
        status, _ = await self._own.ask(head("GET", "/mcp", {"Accept": STREAM, **self.fields}))
        assert status == 200, status
        self._address = (await anext(self._own.events())).decode().strip()
        self._readers.append(group.create_task(self._hear(self._own)))
        await self._call(hello(self))
        await self._tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self._wish()

    async def close(self) -> None:
        """Its session ends with its stream."""

    async def _call(self, message: Message) -> None:
        self._answered.clear()
        await self._tell(message)
        await self._answered.wait()

    def note(self, message: Message) -> None:
        super().note(message)
        if self.account.answer:
            self._answered.set()


def hello(client: ConcurrentClient) -> Message:
    """The request that opens a session."""
    params: Message = {
        "protocolVersion": client.revision,
        "capabilities": client.capabilities,
        "clientInfo": {"name": "crowd", "version": "1"},
    }
    return request("initialize", params, 0)


def make_clients(port: int, fields: Fields) -> list[ConcurrentClient]:
    """The clients of one person: some of each kind, some of which cannot be asked."""
    clients = [
        *(ModernClient(port, fields, FORMS) for _ in range(3)),
        ModernClient(port, fields, NO_FORMS),
        ModernClient(port, fields, {}),
        SseClient(port, fields, NO_FORMS),
        SessionClient(port, fields, NO_FORMS, "2025-03-26"),
        SessionClient(port, fields, FORMS, "2025-06-18"),
        SessionClient(port, fields, FORMS, "2025-11-25"),
        SessionClient(port, fields, {}, "2025-11-25"),
    ]
    for client in clients:
        client.kin = frozenset(each.mark.encode() for each in clients)
    return clients
