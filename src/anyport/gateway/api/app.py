"""The API as an ASGI application. Imported with the first request for it, and not before."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from anyport import __version__
from anyport.gateway.api import openapi, views
from anyport.gateway.api.answers import Contents, Profiles, Servers
from anyport.gateway.api.openapi import EVENT_STREAM, JSON
from anyport.gateway.api.problem import MEDIA_TYPE, READ_ONLY, SAFE, problem
from anyport.gateway.api.stream import Follower
from anyport.gateway.api.views import Gateway
from anyport.gateway.desk import BadQuery
from anyport.gateway.events import EventsBusy

ASKED_CHARS_MAX: Final = 64
"""What of a wrong name is repeated to the one who asked for it."""
NAMES_MAX: Final = 50
"""How many right ones are named to them."""

Endpoint = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


def build(gateway: Gateway) -> Starlette:
    """The application."""
    endpoints = Api(gateway).endpoints
    app = Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in endpoints.items()],
        exception_handlers=dict.fromkeys((Refusal, HTTPException, Exception), _refused),
    )
    app.router.redirect_slashes = False  # It would redirect to whatever `Host` says.
    return app


class Api:
    """What is answered at each path."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.endpoints: Mapping[str, Endpoint] = {
            "/mcp/{profile}/info": self.profile,
            "/api/v1": self.contents,
            "/api/v1/openapi.json": self.openapi,
            "/api/v1/status": self.status,
            "/api/v1/servers": self.servers,
            "/api/v1/servers/{server}": self.server,
            "/api/v1/profiles": self.profiles,
            "/api/v1/profiles/{profile}": self.profile,
            "/api/v1/events": self.events,
            "/api/v1/events/stream": self.follow,
        }

    async def contents(self, request: Request) -> Response:
        """What there is."""
        links = {row.name: path for path, row in openapi.OPERATIONS.items()}
        return _json(Contents(name=views.NAME, version=__version__, links=links))

    async def openapi(self, request: Request) -> Response:
        """The description of all this."""
        return _answer(openapi.document())

    async def status(self, request: Request) -> Response:
        """How everything is doing."""
        return _json(views.status_view(self._gateway))

    async def servers(self, request: Request) -> Response:
        """Every server."""
        servers = self._gateway.servers.values()
        shown = tuple(views.server_view(self._gateway, server) for server in servers)
        return _json(Servers(servers=shown))

    async def server(self, request: Request) -> Response:
        """One server."""
        server = _named("server", request, self._gateway.servers)
        return _json(views.server_view(self._gateway, server))

    async def profiles(self, request: Request) -> Response:
        """Every profile."""
        profiles = self._gateway.profiles.values()
        return _json(Profiles(profiles=tuple(map(views.profile_view, profiles))))

    async def profile(self, request: Request) -> Response:
        """One profile with all that it offers."""
        return _json(views.profile_detail(_named("profile", request, self._gateway.profiles)))

    async def events(self, request: Request) -> Response:
        """Some events."""
        try:
            page = await self._gateway.events.page(_once_each(request))
        except EventsBusy as error:
            raise Refusal(503, str(error)) from None
        except BadQuery as error:
            raise Refusal(400, str(error)) from None
        cursor = msgspec.json.encode(page.cursor)
        return _answer(b'{"events":[%b],"next_cursor":%b}' % (b",".join(page.lines), cursor))

    async def follow(self, request: Request) -> Response:
        """Every event from now on."""
        if request.method == "HEAD":
            return Response(headers=dict(SAFE), media_type=EVENT_STREAM)
        try:
            return _Following(Follower(self._gateway.journal))
        except ValueError as error:
            raise Refusal(503, str(error)) from None


class Refusal(Exception):
    """What was asked cannot be answered; the detail is for people."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class _Following(StreamingResponse):
    """Stops listening whatever becomes of the client, even before the first piece."""

    def __init__(self, follower: Follower) -> None:
        super().__init__(follower.pieces(), headers=dict(SAFE), media_type=EVENT_STREAM)
        self._follower = follower

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._follower.close()


def _json(answer: msgspec.Struct) -> Response:
    return _answer(msgspec.json.encode(answer))


def _answer(body: bytes) -> Response:
    return Response(body, headers=dict(SAFE), media_type=JSON)


def _named(what: str, request: Request, known: Mapping[str, T]) -> T:
    name = request.path_params[what]
    if name not in known:
        names = _some(list(known))
        asked = name[:ASKED_CHARS_MAX]
        raise Refusal(404, f"There is no {what} {asked!r}; the {what}s are: {names}")
    return known[name]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX]) or "none"
    return shown if len(names) <= NAMES_MAX else f"{shown} and {len(names) - NAMES_MAX} more"


def _once_each(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    if len(pairs) > len(dict(pairs)):
        raise Refusal(400, "A parameter is given more than once")
    return dict(pairs)


async def _refused(request: Request, error: Exception) -> Response:
    match error:
        case Refusal(status=status, detail=detail):
            return _problem(status, detail)
        case HTTPException(status_code=405):
            return _problem(405, None, allow=READ_ONLY)
        case HTTPException(status_code=status):
            return _problem(status, None)
    return _problem(500, None)


def _problem(status: int, detail: str | None, **fields: str) -> Response:
    headers = dict(SAFE) | fields
    return Response(problem(status, detail), status, headers=headers, media_type=MEDIA_TYPE)
