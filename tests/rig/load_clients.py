"""Clients of every kind that keep many calls open at once, for hours, and count every answer.

Each knows one way to speak to the gateway. What is called, and what an answer means, is for others
to say; here an answer that nobody asked for, or a second one, is a complaint.
"""

import asyncio
import json
import time
from asyncio import StreamReader
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from tests.harness import Message
from tests.rig.concurrent_clients import HttpLine
from tests.rig.raw_http_client import STREAM, Fields, head, post, request, tool_call
from tests.rig.raw_http_client import modern as modern_post

IDLE_SECONDS_MAX: Final = 5.0
"""A connection that was not used for so long is closed, before the gateway might do so."""

Complain = Callable[[str], None]


class CallPool:
    """Connections that are used again."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._free: list[tuple[float, HttpLine, StreamReader]] = []

    @asynccontextmanager
    async def line(self) -> AsyncIterator[HttpLine]:
        """A connection for one request; it is not used again unless all went well."""
        line, reader = self._take() or await self._open()
        try:
            yield line
        except BaseException:
            line.close()
            raise
        self._free.append((time.monotonic(), line, reader))

    def _take(self) -> tuple[HttpLine, StreamReader] | None:
        while self._free:
            since, line, reader = self._free.pop()
            if not reader.at_eof() and time.monotonic() - since < IDLE_SECONDS_MAX:
                return line, reader
            line.close()
        return None

    async def _open(self) -> tuple[HttpLine, StreamReader]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        return HttpLine(reader, writer), reader

    def rest(self) -> None:
        """Close what is not in use."""
        while self._free:
            self._free.pop()[1].close()


class LoadClient:
    """What all clients have in common."""

    kind = ""

    def __init__(self, port: int, add_violation: Complain) -> None:
        self.pool = CallPool(port)
        self.add_violation = add_violation
        self.ids = count(1)

    async def open(self, group: asyncio.TaskGroup) -> None:
        """Get ready to call; `group` keeps whatever reads on the side."""

    async def call(self, tool: str, arguments: Message) -> Message:
        """Call a tool; its one answer."""
        return await self.ask(tool_call(tool, arguments, next(self.ids)))

    async def ask(self, message: Message) -> Message:
        """Send a request; its one answer."""
        async with self.pool.line() as line:
            status, fields = await line.ask(self.written(message))
            said: list[Message]
            if fields.get("content-type") == STREAM:
                said = [json.loads(raw) async for raw in line.events()]
            else:
                said = [json.loads(await line.body(fields))]
        answers = [each for each in said if "method" not in each]
        if len(answers) != 1 or answers[0].get("id") != message["id"]:
            self.add_violation(f"{self.kind} asked {message} and was told {status} {said}")
        return answers[0]

    def written(self, message: Message) -> bytes:
        """A request, byte for byte."""
        raise NotImplementedError

    async def close(self) -> None:
        """Leave in good order."""

    def rest(self) -> None:
        """Keep no more connections than are needed."""
        self.pool.rest()


class ModernLoadClient(LoadClient):
    """A client without a session."""

    kind = "modern"

    def written(self, message: Message) -> bytes:
        return modern_post(message)


class BareLoadClient(LoadClient):
    """A legacy client that neither shakes hands nor has a session."""

    kind = "legacy without a session"

    def written(self, message: Message) -> bytes:
        return post(message)


class SessionLoadClient(LoadClient):
    """A legacy client with a session."""

    kind = "legacy session"

    def __init__(self, port: int, add_violation: Complain, revision: str = "2025-11-25") -> None:
        super().__init__(port, add_violation)
        self.revision = revision
        self.fields: Fields = {}

    async def open(self, group: asyncio.TaskGroup) -> None:
        async with self.pool.line() as line:
            status, fields = await line.ask(post(hello(self.revision)))
            assert status == 200, status
            await line.body(fields)
        self.fields = {"Mcp-Session-Id": fields["mcp-session-id"]}
        if self.revision > "2025-03-26":
            self.fields["MCP-Protocol-Version"] = self.revision
        await self.tell("notifications/initialized")

    async def tell(self, method: str, **params: object) -> None:
        """Send what is not answered."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        async with self.pool.line() as line:
            status, fields = await line.ask(post(message, self.fields))
            assert status == 202, status
            await line.body(fields)

    def written(self, message: Message) -> bytes:
        return post(message, self.fields)

    async def close(self) -> None:
        async with self.pool.line() as line:
            status, fields = await line.ask(head("DELETE", "/mcp", self.fields))
            await line.body(fields)
        if status != 200:
            self.add_violation(f"a session could not be ended: {status}")


class SseLoadClient(LoadClient):
    """A client over HTTP+SSE: all answers come on one stream."""

    kind = "HTTP+SSE"

    def __init__(self, port: int, add_violation: Complain) -> None:
        super().__init__(port, add_violation)
        self._waiting: dict[object, asyncio.Future[Message]] = {}
        self._address = ""

    async def open(self, group: asyncio.TaskGroup) -> None:
        self._stream = await HttpLine.open(self.pool.port)
        status, _ = await self._stream.ask(head("GET", "/mcp", {"Accept": STREAM}))
        assert status == 200, status
        events = self._stream.events()
        self._address = (await anext(events)).decode().strip()
        self._reader = group.create_task(self._hear(events))
        await self.ask(hello("2024-11-05"))
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def ask(self, message: Message) -> Message:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[message["id"]] = answer
        await self._post(message)
        return await answer

    async def _post(self, message: Message) -> None:
        async with self.pool.line() as line:
            status, fields = await line.ask(post(message, path=self._address))
            await line.body(fields)
        if status != 202:
            self.add_violation(f"{self.kind} was told {status} for {message}")

    async def _hear(self, events: AsyncIterator[bytes]) -> None:
        async for raw in events:
            message = json.loads(raw)
            if "method" in message:
                continue
            answer = self._waiting.pop(message.get("id"), None)
            if answer is None:
                self.add_violation(f"{self.kind} was told {raw!r}, and had not asked")
            elif not answer.done():
                answer.set_result(message)

    async def close(self) -> None:
        self._reader.cancel()
        self._stream.close()


def hello(revision: str) -> Message:
    """The request that opens a session."""
    about = {"name": "caller", "version": "1"}
    params: Message = {"protocolVersion": revision, "capabilities": {}, "clientInfo": about}
    return request("initialize", params, 0)
