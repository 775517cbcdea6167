"""stdio transport of the demo server, both eras on one pair of pipes."""

import asyncio
import os
import sys
import threading
from contextlib import suppress
from typing import Final

from anyport.demo.server import DemoSession, answer_modern, is_modern
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Request
from anyport.wire.lines import LineSplitter, Overlong, encode_line

CHUNK_BYTES: Final = 64 * 1024


async def serve_stdio() -> None:
    """Serve until stdin ends, then finish the requests in flight."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # A thread, because stdin may be a file; a daemon, because Ctrl-C must not wait for it.
    threading.Thread(target=_read_stdin, args=(loop, chunks), daemon=True).start()
    splitter = LineSplitter(jsonrpc.INBOUND.bytes_max)
    async with asyncio.TaskGroup() as group:
        client = StdioClient(group)
        while chunk := await chunks.get():
            for each in splitter.feed(chunk):
                client.receive(each)
        for each in splitter.finish():
            client.receive(each)
        await client.session.drain()


class StdioClient:
    """The client on stdin and stdout."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.session = DemoSession(group)

    def receive(self, raw: bytes | Overlong) -> None:
        if isinstance(raw, Overlong):
            id = jsonrpc.id_at_edge(raw.edges)
            bad = jsonrpc.too_large_error(raw.size, jsonrpc.INBOUND.bytes_max, id)
            self.session.receive(bad, self)
            return
        if jsonrpc.is_batch(raw):
            self.session.receive_batch(raw, self)
            return
        frame = jsonrpc.decode(raw)
        # The era is decided per message: a client may probe one era before the other.
        if isinstance(frame, Request) and is_modern(frame):
            self.session.start(frame, answer_modern(frame, self.send), self)
        else:
            self.session.receive(frame, self)

    def send(self, message: bytes) -> None:
        rest = encode_line(message)
        with suppress(BrokenPipeError):  # stdin ends too, then.
            while rest:
                rest = rest[os.write(sys.stdout.fileno(), rest) :]

    def finish(self, answer: bytes | None) -> None:
        if answer is not None:
            self.send(answer)


def _read_stdin(loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[bytes]) -> None:
    """Queue what is read, and b"" at the end. `os.read` holds no lock at exit."""
    with suppress(RuntimeError):  # The event loop has ended.
        while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        loop.call_soon_threadsafe(chunks.put_nowait, b"")
