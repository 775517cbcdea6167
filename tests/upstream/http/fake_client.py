"""A client that sends nothing: it writes down what it was asked, and the test is the server."""

from dataclasses import dataclass
from typing import cast

from anyport.protocol.memory_budget import MemoryBudget
from anyport.protocol.scheduler import FairScheduler
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import HttpTimeouts, ResponseHandler
from anyport.wire.http1 import ResponseHead

PLACE = "http://server.example/mcp"


@dataclass(slots=True, kw_only=True)
class SentRequest:
    """One request."""

    head: bytes
    body: bytes | None
    handler: ResponseHandler
    cancelled: bool = False

    @property
    def target(self) -> str:
        return self.head.split(b" ")[1].decode()


class FakeClient:
    """Remembers requests."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.bytes_max = bytes_max
        self.memory_budget = MemoryBudget()
        self.scheduler = FairScheduler()
        self.timeouts = HttpTimeouts()
        self.asked: list[SentRequest] = []

    def request(self, head: bytes, body: bytes | None, handler: ResponseHandler) -> None:
        self.asked.append(SentRequest(head=head, body=body, handler=handler))

    def cancel(self, handler: ResponseHandler) -> None:
        for asked in self.asked:
            if asked.handler is handler:
                asked.cancelled = True

    @property
    def client(self) -> HttpClient:
        return cast(HttpClient, self)

    @property
    def last(self) -> SentRequest:
        return self.asked[-1]


def head(status: int = 200, media: str = "application/json", **fields: str) -> ResponseHead:
    """The head of a reply."""
    return ResponseHead(
        status=status,
        fields=tuple((name.replace("_", "-"), value) for name, value in fields.items()),
        body_length=None,
        chunked=False,
        keep_alive=True,
        media_type=media,
    )


STREAM = head(media="text/event-stream")
