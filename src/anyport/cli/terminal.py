"""A person at a terminal, asked a line at a time without stopping the loop."""

import asyncio
import os
import sys
from typing import Final

from anyport.record.text import printable

LINE_BYTES: Final = 4096
"""What a terminal hands over at once; the kernel allows no longer line."""


def someone_is_there() -> bool:
    """Whether questions can be read and answered where we run."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


async def read_line(prompt: str) -> str | None:
    """The answer to a prompt; None when the person ends the input."""
    sys.stderr.write(printable(prompt))
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    descriptor = sys.stdin.fileno()

    def take() -> None:
        if not typed.done():
            typed.set_result(os.read(descriptor, LINE_BYTES))

    loop.add_reader(descriptor, take)
    try:
        line = await typed
    finally:
        loop.remove_reader(descriptor)
    if not line:
        sys.stderr.write("\n")
        return None
    return line.decode("utf-8", "replace").strip()
