"""Interfaces for answering HTTP requests: the responder, event streams, and the HTTP application
beside MCP."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from anyport.protocol.errors import RetryAfter
from anyport.protocol.principal import Principal
from anyport.wire.http1 import RequestHead

if TYPE_CHECKING:  # It imports this module.
    from anyport.ingress.http.connection import HttpConnection

Fields = Iterable[tuple[str, str]]
JSON_CONTENT_TYPE: Final = ("content-type", "application/json")


def status_of(
    code: int | None, retry_after: RetryAfter | None, statuses: Mapping[int, int]
) -> tuple[int, Fields]:
    """HTTP status and header fields for a JSON-RPC error, or for an answer that asks to retry
    later."""
    status = 200 if code is None else statuses.get(code, 200)
    if retry_after is None:
        return status, (JSON_CONTENT_TYPE,)
    after = () if retry_after.seconds is None else (("retry-after", str(retry_after.seconds)),)
    return retry_after.status or status, (JSON_CONTENT_TYPE, *after)


class HttpResponder(Protocol):
    """Responds to one HTTP request. Call either `answer` once, or `start`, `write` and `finish`."""

    principal: Principal
    on_closed: Callable[[], None] | None
    """Called once if the client disconnects before the response is complete."""

    @property
    def unsent_bytes(self) -> int: ...

    def answer(self, status: int, body: bytes = b"", fields: Fields = ()) -> None:
        """Send the whole response; adds the length, but no `content-type`."""

    def start(self, status: int, fields: Fields) -> None:
        """Send the head of a response that comes in pieces."""

    def write(self, *pieces: bytes) -> None: ...

    def finish(self) -> None: ...


class EventStream(Protocol):
    """An event stream as the body of a response. It may outlive its connection."""

    def send_frames(self, *frames: bytes) -> None: ...

    def end(self, frame: bytes) -> None:
        """Send the last frame."""

    def detach(self, connection: "HttpConnection") -> None:
        """The connection was closed."""


class StreamOpener(Protocol):
    """Opens an event stream when a response needs one."""

    def open_stream(self, connection: "HttpConnection") -> None: ...


HttpApp = Callable[[RequestHead, bytes, HttpResponder], None]
"""Answers requests that are not MCP: everything outside `/mcp/{profile}`."""
