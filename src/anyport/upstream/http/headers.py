"""Heads of HTTP requests to a server, redirects, and what a response without a message means."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from anyport import __version__
from anyport.protocol.meta import TRACEPARENT, TRACESTATE
from anyport.upstream.http.url import BadUrl, HttpUrl
from anyport.upstream.pending_call import Fields
from anyport.wire.http1 import ResponseHead

REDIRECTS_MAX: Final = 3
"""For one request."""

_REDIRECTS: Final = (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT)
"""The redirects that keep method and body."""
_ACCEPT_BOTH: Final = (
    b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)
_ACCEPT_EVENTS: Final = b"Accept: text/event-stream\r\nCache-Control: no-cache\r\n"
_RESERVED_FIELDS: Final = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "last-event-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Header fields that define how a request is read: the configuration cannot override them."""


TRACE_FIELDS: Final = (TRACEPARENT, TRACESTATE)


class RequestHeads:
    """Writes the heads of requests to one URL."""

    def __init__(self, url: HttpUrl, headers: Mapping[str, str]) -> None:
        self.url = url
        named = {"User-Agent": f"anyport/{__version__}"}
        for name, value in headers.items():
            if name.lower() == "user-agent":
                del named["User-Agent"]
            if name.lower() not in _RESERVED_FIELDS and not name.lower().startswith("mcp-"):
                named[name] = value
        lines = b"".join(header_line(name, value) for name, value in named.items())
        self._common_fields = b" HTTP/1.1\r\nHost: %b\r\n%b" % (
            url.authority.encode("ascii"),
            lines,
        )

    def post(self, fields: bytes = b"") -> bytes:
        """Head of a request that sends a message."""
        return self._head(b"POST", _ACCEPT_BOTH + fields)

    def get(self, fields: bytes = b"") -> bytes:
        """Head of a request for an event stream."""
        return self._head(b"GET", _ACCEPT_EVENTS + fields)

    def delete(self, fields: bytes) -> bytes:
        """Head of a request that ends a session."""
        return self._head(b"DELETE", fields)

    def _head(self, verb: bytes, fields: bytes) -> bytes:
        target = self.url.target.encode("ascii")
        return b"%b %b%b%b" % (verb, target, self._common_fields, fields)


def trace_headers(fields: Fields) -> bytes:
    """The trace context of a call, which every request may carry."""
    return b"".join(header_line(name, value) for name, value in fields if name in TRACE_FIELDS)


def header_line(name: str, value: str, encoding: str = "utf-8") -> bytes:
    return f"{name}: {value}\r\n".encode(encoding)


def redirect_target(url: HttpUrl, response: ResponseHead) -> HttpUrl | None:
    """The target of a redirect, if it stays on the same origin."""
    location = response.get("location") if response.status in _REDIRECTS else None
    if location is None:
        return None
    try:
        target = HttpUrl.parse(urljoin(url.origin + url.target, location))
    except (BadUrl, ValueError):
        return None
    if target.origin != url.origin:
        return None
    return HttpUrl(
        scheme=url.scheme, host=url.host, port=url.port, target=target.target, proxy=url.proxy
    )


def retarget(head: bytes, url: HttpUrl) -> bytes:
    """The same head with another target."""
    verb, _, rest = head.partition(b" ")
    return b"%b %b %b" % (verb, url.target.encode("ascii"), rest.partition(b" ")[2])


def describe_bad_response(response: ResponseHead) -> str:
    """What is wrong with a response that has no message; continues "the server …"."""
    status = f"HTTP {response.status}"
    if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"wants authorization ({status}): set headers"
    if response.status == HTTPStatus.ACCEPTED:
        return f"accepted the request ({status}) but did not answer it"
    if 300 <= response.status < 400:
        return f"answered with a redirect ({status}) that is not followed; set url to where it is"
    return f"answered with {status} and {response.media_type or 'nothing'}, which is no MCP message"
