"""How requests over HTTP are answered: what answers see of a connection, and it of the ingress."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from anyport.ingress.http.visit import Visit
from anyport.protocol.errors import Pause
from anyport.protocol.principal import Principal
from anyport.protocol.room import Room
from anyport.protocol.timeouts import Timeout
from anyport.wire.http import Heads, RequestHead

if TYPE_CHECKING:  # It imports this file.
    from anyport.ingress.http.inlet import Inlet

Fields = Iterable[tuple[str, str]]
JSON: Final = ("content-type", "application/json")


def status_of(
    code: int | None, pause: Pause | None, statuses: Mapping[int, int]
) -> tuple[int, Fields]:
    """The status of an answer that is an error, or puts its client off, and its header fields."""
    status = 200 if code is None else statuses.get(code, 200)
    if pause is None:
        return status, (JSON,)
    after = () if pause.seconds is None else (("retry-after", str(pause.seconds)),)
    return pause.status or status, (JSON, *after)


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
    """For bodies that are coming, and for what clients that read too slowly have not taken."""

    @property
    def timed_out(self) -> Callable[[Timeout], None]:
        """Told whenever a client took too long."""

    @property
    def chance(self) -> Callable[[], float]:
        """A number from 0 to 1."""

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
