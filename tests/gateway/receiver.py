"""A small HTTP server that takes what hooks post, and answers as it is told to."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

DEADLINE_SECONDS = 60.0
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class Receiver:
    """Remembers every request; answers with the next of `replies`, then with 204."""

    def __init__(self) -> None:
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.replies: list[bytes] = []
        self.open = asyncio.Event()
        """Nothing is answered as long as it is not set."""
        self.open.set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events?x=1"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    def answer(self, *statuses: int | str) -> None:
        """What the next requests get: a status, with header fields after it."""
        for status in statuses:
            line, _, fields = str(status).partition(" ")
            fields = f"{fields}\r\n" if fields else ""
            reply = f"HTTP/1.1 {line} X\r\n{fields}Content-Length: 0\r\n\r\n"
            self.replies.append(reply.encode())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                request, *lines = head.strip().split("\r\n")
                fields = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines)
                }
                self.heads.append({"request": request, **fields})
                self.bodies.append(await reader.readexactly(int(fields["content-length"])))
                await self.open.wait()
                writer.write(self.replies.pop(0) if self.replies else NO_CONTENT)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiver(port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver for the time of a block."""
    here = Receiver()
    server = await asyncio.start_server(here.serve, "127.0.0.1", port)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        here.open.set()
        server.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not true():
            await asyncio.sleep(0.001)
