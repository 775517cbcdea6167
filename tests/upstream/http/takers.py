"""Who waits for replies, in a test: everything that is told is written down."""

import asyncio
from collections.abc import Callable

from anyport.protocol.timeouts import Timeout
from anyport.upstream.http.line import Line, Trouble
from anyport.wire.http import ReplyHead
from tests.upstream.fakes import until


class Told:
    """One request's taker."""

    waits: Timeout | None = Timeout.FIRST_BYTE

    def __init__(self) -> None:
        self.line: Line | None = None
        self.calls: list[str] = []
        self.head: ReplyHead | None = None
        self.body = b""
        self.trouble: Trouble | None = None
        self.on_portion: Callable[[], None] = lambda: None

    def opened(self, head: ReplyHead) -> None:
        self.calls.append("opened")
        self.head = head

    def portion(self, portion: bytes) -> None:
        self.calls.append("portion")
        self.body += portion
        self.on_portion()

    def answered(self, head: ReplyHead, body: bytes) -> None:
        self.calls.append("answered")
        self.head, self.body = head, body

    def closed(self, trouble: Trouble | None) -> None:
        self.calls.append("closed")
        self.trouble = trouble

    def failed(self, trouble: Trouble) -> None:
        self.calls.append("failed")
        self.trouble = trouble

    @property
    def over(self) -> bool:
        return bool(self.calls) and self.calls[-1] in ("answered", "closed", "failed")

    async def end(self) -> "Told":
        """Wait for the last call; nothing may come after it."""
        await until(lambda: self.over)
        last = len(self.calls)
        await asyncio.sleep(0)
        assert len(self.calls) == last
        return self
