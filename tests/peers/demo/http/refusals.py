"""Requests refused before their message is read: origin, media types, methods."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tests.peers.demo.faults import Fault
from tests.peers.demo.http.connection import JSON, TEXT, Fields, Response
from tests.peers.demo.http.requests import HttpRequest
from tests.peers.demo.messages import Identity, error

JSON_TYPE: Final = "application/json"
EVENTS_TYPE: Final = "text/event-stream"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class RequestRefused(Exception):
    """A request that gets a status and a word of explanation."""

    def __init__(self, status: HTTPStatus, text: str, headers: Fields | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}

    def write(self, response: Response) -> None:
        response.whole(self.status, {**TEXT, **self.headers}, f"{self}\n".encode())


class MessageRefused(RequestRefused):
    """One that brought a message, and is told in the words of JSON-RPC."""

    def __init__(self, status: HTTPStatus, fault: Fault, identity: Identity | None = None) -> None:
        super().__init__(status, fault.message)
        self._body = error(identity, fault)

    def write(self, response: Response) -> None:
        response.whole(self.status, JSON, msgspec.json.encode(self._body))


def check_origin(request: HttpRequest) -> None:
    """A page from elsewhere, open in a browser here, may not speak to this server.

    "Servers MUST validate the Origin header on all incoming connections to prevent DNS rebinding
    attacks" (basic/transports).
    """
    for origin in request.headers.all("Origin"):
        if not _is_local(origin):
            raise RequestRefused(HTTPStatus.FORBIDDEN, f"Requests from {origin} are not welcome")


def check_brings_json(request: HttpRequest) -> None:
    if request.headers.listed("Content-Type") != [JSON_TYPE]:
        raise RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type must be {JSON_TYPE}")


def check_takes(request: HttpRequest, *kinds: str) -> None:
    """The client must be ready for every one of these kinds."""
    taken = request.headers.listed("Accept")
    for kind in kinds:
        if not {kind, f"{kind.partition('/')[0]}/*", "*/*"}.intersection(taken):
            raise RequestRefused(
                HTTPStatus.NOT_ACCEPTABLE, f"Accept must list {' and '.join(kinds)}"
            )


def wrong_method(allowed: Iterable[str]) -> RequestRefused:
    methods = ", ".join(allowed)
    return RequestRefused(HTTPStatus.METHOD_NOT_ALLOWED, f"Use {methods}", {"Allow": methods})


def _is_local(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in _LOCAL
    except ValueError:
        return False
