"""How a request over HTTP is answered, seen from whoever answers it."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from anyport.protocol.principal import Principal
from anyport.wire.http import RequestHead

if TYPE_CHECKING:  # It imports this file.
    from anyport.ingress.http.inlet import Inlet

Fields = Iterable[tuple[str, str]]


class Reply(Protocol):
    """The way back to one request's sender. Exactly one of `answer` and `start` is called."""

    principal: Principal
    on_closed: Callable[[], None] | None
    """Called once if the client goes away before the answer is finished."""

    @property
    def unsent_bytes(self) -> int:
        """What the client has not taken yet."""

    def answer(self, status: int, body: bytes = b"", fields: Fields = ()) -> None:
        """The whole answer; the length is added, a `content-type` is not."""

    def start(self, status: int, fields: Fields) -> None:
        """The head of an answer that comes in pieces."""

    def write(self, piece: bytes) -> None:
        """One more piece."""

    def finish(self) -> None:
        """The last piece has been written."""


class Stream(Protocol):
    """Where frames go once an answer has become a stream that outlives its connection."""

    def note(self, frame: bytes) -> None:
        """One frame."""

    def end(self, frame: bytes) -> None:
        """The last frame."""

    def cut(self, inlet: "Inlet") -> None:
        """The connection it was sent on is gone."""


class Opener(Protocol):
    """Opens a stream when an answer needs one."""

    def open_stream(self, inlet: "Inlet") -> None:
        """The answer becomes a stream from now on."""


Aside = Callable[[RequestHead, bytes, Reply], None]
"""Answers what is not MCP: everything outside `/mcp/{profile}` and what lies below it."""
