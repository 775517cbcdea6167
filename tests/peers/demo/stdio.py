"""stdio, whatever stdin and stdout are.

A pipe or a socket is read and written by the event loop. Anything else, such as a regular file, is
read by a thread and written directly, because the loop cannot wait for it.
"""

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

LINE_BYTES_MAX: Final = 128 * 1024 * 1024  # Twice what the tool 'big' can make: echoes fit too.
CHUNK_BYTES: Final = 64 * 1024  # As much as a pipe holds on most systems.

OnLine: TypeAlias = Callable[[bytes | None], None]
"""Takes one line without its end; None stands for a line that was too long to keep."""


def say(text: str) -> None:
    """Writes a line to standard error, for people."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class LineSplitter:
    """Cuts a stream of bytes at its newlines."""

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._rest = bytearray()
        self._overlong = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield self._end(line)
        self._add(rest)

    def finish(self) -> Iterator[bytes | None]:
        """The last line, if the stream ended without ending it."""
        if self._rest or self._overlong:
            yield self._end(b"")

    def _add(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > self._line_bytes_max:
            self._overlong = True
        if self._overlong:
            self._rest.clear()

    def _end(self, part: bytes) -> bytes | None:
        self._add(part)
        line = None if self._overlong else bytes(self._rest)
        self._rest.clear()
        self._overlong = False
        return line


class Output(asyncio.BaseProtocol):
    """Standard output. What is written after the reader has gone is dropped."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pipe: asyncio.WriteTransport | None = None

    @classmethod
    async def open(cls) -> "Output":
        output = cls()
        if _is_waitable(sys.stdout.fileno()):
            loop = asyncio.get_running_loop()
            output._pipe, _ = await loop.connect_write_pipe(lambda: output, sys.stdout)
        return output

    def write(self, line: bytes) -> None:
        if self._pipe is None:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        elif not self.lost.done():
            self._pipe.write(line + b"\n")

    async def close(self) -> None:
        """Waits until all that was written has gone out."""
        if self._pipe is not None:
            self._pipe.close()
            await self.lost

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


class Input(asyncio.Protocol):
    """Standard input: calls `on_line` for each line, until `ended`."""

    def __init__(self, on_line: OnLine) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_line = on_line
        self._splitter = LineSplitter()

    async def pump(self) -> None:
        """Returns when the input has ended."""
        loop = asyncio.get_running_loop()
        if _is_waitable(sys.stdin.fileno()):
            await loop.connect_read_pipe(lambda: self, sys.stdin)
            await self.ended
            return
        while chunk := await loop.run_in_executor(None, os.read, sys.stdin.fileno(), CHUNK_BYTES):
            self.data_received(chunk)
        self.connection_lost(None)

    def data_received(self, data: bytes) -> None:
        for line in self._splitter.feed(data):
            self._on_line(line)

    def connection_lost(self, _error: Exception | None) -> None:
        for line in self._splitter.finish():
            self._on_line(line)
        if not self.ended.done():
            self.ended.set_result(None)


def _is_waitable(fileno: int) -> bool:
    """Whether the event loop can wait for this file. On Windows it never can."""
    mode = os.fstat(fileno).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
