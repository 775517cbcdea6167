"""How requests over HTTP are answered: what answers see of a connection, and it of the ingress."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from anyport.ingress.http.body import Room
from anyport.ingress.http.visit import Visit
from anyport.protocol.principal import Principal
from anyport.wire.http import Heads, RequestHead

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

    def write(self, *pieces: bytes) -> None:
        """More of it."""

    def finish(self) -> None:
        """The last piece has been written."""


class Stream(Protocol):
    """Where frames go once an answer has become a stream that outlives its connection."""

    def note(self, *frames: bytes) -> None:
        """Frames before the last."""

    def end(self, frame: bytes) -> None:
        """The last frame."""

    def cut(self, inlet: "Inlet") -> None:
        """The connection it was sent on is gone."""


class Host(Protocol):
    """The ingress, as a connection sees it."""

    heads: Heads[Visit]
    now: float
    """The time of the last sweep: near enough for deadlines of seconds."""
    room: Room
    """For bodies."""
    unsent_bytes: int
    """What clients that read too slowly had not taken at the last sweep."""

    def arrived(self, inlet: "Inlet") -> bool:
        """A connection was opened; False if there is no room for it."""

    def gone(self, inlet: "Inlet") -> None:
        """It is closed."""

    def serve(self, inlet: "Inlet", visit: Visit, body: bytes) -> None:
        """Answer a request."""

    def send(self, inlet: "Inlet", raw: bytes) -> None:
        """Write, once the record of what is said is safe."""


class Opener(Protocol):
    """Opens a stream when an answer needs one."""

    def open_stream(self, inlet: "Inlet") -> None:
        """The answer becomes a stream from now on."""


Aside = Callable[[RequestHead, bytes, Reply], None]
"""Answers what is not MCP: everything outside `/mcp/{profile}` and what lies below it."""
