"""What stands before the body of every request to one server, and what its replies mean as such.

Pure. Knows which header fields are HTTP's and MCP's own, and that a redirect must not lead away
from the origin; what the bodies say is others' business.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from anyport import __version__
from anyport.protocol.meta import TRACEPARENT, TRACESTATE
from anyport.upstream.call import Fields
from anyport.upstream.http.place import BadUrl, Place
from anyport.wire.http import ReplyHead

REDIRECTS_MAX: Final = 3
"""Of one request; a server that sends us in circles is given up."""

_REDIRECTS: Final = (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT)
"""The two that keep the method and the body."""
_ACCEPT_BOTH: Final = (
    b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)
_ACCEPT_EVENTS: Final = b"Accept: text/event-stream\r\nCache-Control: no-cache\r\n"
_OURS: Final = frozenset(
    (
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "expect"),
        *("host", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade"),
    )
)
"""Fields that say how this very request is to be read: no configuration may contradict them."""


TRACE_FIELDS: Final = (TRACEPARENT, TRACESTATE)


class Outgoing:
    """Writes the heads of requests."""

    def __init__(self, place: Place, headers: Mapping[str, str]) -> None:
        self.place = place
        named = {"User-Agent": f"anyport/{__version__}"}
        for name, value in headers.items():
            if name.lower() == "user-agent":
                del named["User-Agent"]
            if name.lower() not in _OURS and not name.lower().startswith("mcp-"):
                named[name] = value
        lines = b"".join(field(name, value) for name, value in named.items())
        self._rest = b" HTTP/1.1\r\nHost: %b\r\n%b" % (place.authority.encode("ascii"), lines)

    def post(self, fields: bytes = b"") -> bytes:
        """A message goes to the server."""
        return self._head(b"POST", _ACCEPT_BOTH + fields)

    def get(self, fields: bytes = b"") -> bytes:
        """A stream is asked for."""
        return self._head(b"GET", _ACCEPT_EVENTS + fields)

    def delete(self, fields: bytes) -> bytes:
        """A session is ended."""
        return self._head(b"DELETE", fields)

    def _head(self, verb: bytes, fields: bytes) -> bytes:
        target = self.place.target.encode("ascii")
        return b"%b %b%b%b" % (verb, target, self._rest, fields)


def trace_lines(fields: Fields) -> bytes:
    """Those fields of a call that name its trace, which every request may have."""
    return b"".join(field(name, value) for name, value in fields if name in TRACE_FIELDS)


def field(name: str, value: str, encoding: str = "utf-8") -> bytes:
    """One line of a head."""
    return f"{name}: {value}\r\n".encode(encoding)


def redirected(place: Place, reply: ReplyHead) -> Place | None:
    """Where a reply sends the same request, if it may go there."""
    location = reply.get("location") if reply.status in _REDIRECTS else None
    if location is None:
        return None
    try:
        there = Place.parse(urljoin(place.origin + place.target, location))
    except (BadUrl, ValueError):
        return None
    if there.origin != place.origin:
        return None
    return Place(
        scheme=place.scheme,
        host=place.host,
        port=place.port,
        target=there.target,
        proxy=place.proxy,
    )


def aimed(head: bytes, place: Place) -> bytes:
    """The same head for another target."""
    verb, _, rest = head.partition(b" ")
    return b"%b %b %b" % (verb, place.target.encode("ascii"), rest.partition(b" ")[2])


def complaint(reply: ReplyHead) -> str:
    """Says what is wrong with a reply that holds no message; continues "the server …"."""
    status = f"HTTP {reply.status}"
    if reply.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"wants authorization ({status}): set headers"
    if reply.status == HTTPStatus.ACCEPTED:
        return f"accepted the request ({status}) but did not answer it"
    if 300 <= reply.status < 400:
        return f"answered with a redirect ({status}) that is not followed; set url to where it is"
    return f"answered with {status} and {reply.media_type or 'nothing'}, which is no MCP message"
