"""A client that sends nothing: it writes down what it was asked, and the test is the server."""

from dataclasses import dataclass
from typing import cast

from anyport.protocol.room import Room
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import Taker
from anyport.upstream.http.patience import Patience
from anyport.wire.http import ReplyHead

PLACE = "http://server.example/mcp"


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request."""

    head: bytes
    body: bytes | None
    taker: Taker
    given_up: bool = False

    @property
    def target(self) -> str:
        return self.head.split(b" ")[1].decode()


class FakeClient:
    """Remembers requests."""

    def __init__(self, bytes_max: int = 1000) -> None:
        self.bytes_max = bytes_max
        self.room = Room()
        self.patience = Patience()
        self.asked: list[Asked] = []

    def request(self, head: bytes, body: bytes | None, taker: Taker) -> None:
        self.asked.append(Asked(head=head, body=body, taker=taker))

    def give_up(self, taker: Taker) -> None:
        for asked in self.asked:
            if asked.taker is taker:
                asked.given_up = True

    @property
    def client(self) -> Client:
        return cast(Client, self)

    @property
    def last(self) -> Asked:
        return self.asked[-1]


def head(status: int = 200, media: str = "application/json", **fields: str) -> ReplyHead:
    """The head of a reply."""
    return ReplyHead(
        status=status,
        fields=tuple((name.replace("_", "-"), value) for name, value in fields.items()),
        body_length=None,
        chunked=False,
        keep_alive=True,
        media_type=media,
    )


STREAM = head(media="text/event-stream")
