"""Who waits for replies, in a test: everything that is told is written down."""

import asyncio
from collections.abc import Callable

from anyport.protocol.errors import Timeout
from anyport.protocol.scheduler import WorkSteps
from anyport.upstream.http.connection import ClientConnection, HttpFailure
from anyport.upstream.http.connection_reuse import ConnectionReuse
from anyport.wire.http1 import ResponseHead
from tests.upstream.fakes import until


class RecordingHandler:
    """One request's taker."""

    wait_timeout: Timeout | None = Timeout.FIRST_BYTE

    def __init__(self, *, repeatable: bool = False) -> None:
        self.repeatable = repeatable
        self.again: bytes | None = None
        """With what it is sent once more."""
        self.http_connection: ClientConnection | None = None
        self.calls: list[str] = []
        self.head: ResponseHead | None = None
        self.body = b""
        self.trouble: HttpFailure | None = None
        self.on_portion: Callable[[], None] = lambda: None

    def renew_body(self) -> bytes | None:
        return self.again

    def on_stream(self, head: ResponseHead) -> None:
        self.calls.append("opened")
        self.head = head

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        self.calls.append("portion")
        self.body += portion
        self.on_portion()
        yield 1

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        self.calls.append("answered")
        self.head, self.body = head, body

    def on_stream_closed(self, trouble: HttpFailure | None) -> None:
        self.calls.append("closed")
        self.trouble = trouble

    def on_failure(self, trouble: HttpFailure) -> None:
        self.calls.append("failed")
        self.trouble = trouble

    @property
    def over(self) -> bool:
        return bool(self.calls) and self.calls[-1] in ("answered", "closed", "failed")

    async def end(self) -> "RecordingHandler":
        """Wait for the last call; nothing may come after it."""
        await until(lambda: self.over)
        last = len(self.calls)
        await asyncio.sleep(0)
        assert len(self.calls) == last
        return self


def reuse_of_keep_alive() -> ConnectionReuse:
    """What the connections to a server have shown that keeps them open."""
    reuse = ConnectionReuse()
    reuse.on_stayed_open()
    return reuse
