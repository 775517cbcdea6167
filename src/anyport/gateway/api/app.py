"""The API as an ASGI application. Imported with the first request for it, and not before."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from anyport import __version__
from anyport.gateway.api import openapi, traffic, views
from anyport.gateway.api.answers import Contents, Profiles, Servers
from anyport.gateway.api.hearing import Choose, Hearing
from anyport.gateway.api.openapi import EVENT_STREAM, JSON
from anyport.gateway.api.problem import MEDIA_TYPE, READ_ONLY, SAFE, problem
from anyport.gateway.api.stream import Follower
from anyport.gateway.api.views import Gateway
from anyport.gateway.desk import BadQuery
from anyport.gateway.events import EventsBusy
from anyport.gateway.reload import Unfit
from anyport.gateway.why import why
from anyport.record.filter_tree import Filter
from anyport.record.selecting import happenings
from anyport.record.traffic import NoSuchId

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
        routes=[
            Route(path, endpoint, methods=[openapi.OPERATIONS[path].method])
            for path, endpoint in endpoints.items()
        ],
        exception_handlers=dict.fromkeys((Refusal, HTTPException, Exception), _refused),
    )
    app.router.redirect_slashes = False  # It would redirect to whatever `Host` says.
    return app


class Api:
    """What is answered at each path."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._hearing = Hearing()
        self.endpoints: Mapping[str, Endpoint] = {
            "/mcp/{profile}/info": self.profile,
            "/api/v1": self.contents,
            "/api/v1/openapi.json": self.openapi,
            "/api/v1/status": self.status,
            "/api/v1/servers": self.servers,
            "/api/v1/servers/{server}": self.server,
            "/api/v1/profiles": self.profiles,
            "/api/v1/profiles/{profile}": self.profile,
            "/api/v1/why": self.why,
            "/api/v1/reload": self.reload,
            "/api/v1/events": self.events,
            "/api/v1/events/stream": self.follow,
            "/api/v1/traffic": self.traffic,
            "/api/v1/traffic/stream": self.follow_traffic,
            "/api/v1/traffic/{id}": self.detail,
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

    async def why(self, request: Request) -> Response:
        """Why something is there, or not."""
        asked = _once_each(request)
        profiles = self._gateway.profiles
        slug = asked.get("profile") or (next(iter(profiles)) if len(profiles) == 1 else "default")
        if not asked.get("name"):
            raise Refusal(400, "A name is needed: /api/v1/why?name=server__tool")
        if slug not in profiles:
            if asked.get("profile"):
                raise Refusal(404, _no_such("profile", slug, profiles))
            names = _some(list(profiles))
            raise Refusal(400, f"Name a profile with profile=; the profiles are: {names}")
        return _json(why(asked["name"], profiles[slug], self._gateway.servers))

    async def reload(self, request: Request) -> Response:
        """Take over a changed configuration."""
        preview = _once_each(request).get("preview", "false")
        if preview not in ("true", "false"):
            raise Refusal(400, "preview must be true or false")
        try:
            if preview == "true":
                return _json(views.reload_view(*await self._gateway.reload.preview()))
            found = await self._gateway.reload.run()
        except Unfit as error:
            raise Refusal(422, f"The configuration stays as it is: {error}") from None
        return _json(views.reload_view(found))

    async def events(self, request: Request) -> Response:
        """Some events."""
        with _refusing():
            page = await self._gateway.events.page(_once_each(request))
        return _page(b"events", page.lines, page.cursor)

    async def traffic(self, request: Request) -> Response:
        """Some exchanges and frames."""
        with _refusing():
            page = await self._gateway.events.traffic(_once_each(request))
        rows = await asyncio.to_thread(traffic.rows, page.lines)
        return _page(b"rows", rows, page.cursor)

    async def detail(self, request: Request) -> Response:
        """What an id means, with all that is kept of it."""
        with _refusing():
            return _answer(await traffic.details(self._gateway.events, request.path_params["id"]))

    async def follow(self, request: Request) -> Response:
        """Every event from now on that matches."""
        return self._follow(request, lambda text: self._hearing.events(happenings(text)))

    async def follow_traffic(self, request: Request) -> Response:
        """Every exchange and frame from now on that matches."""
        return self._follow(request, self._hearing.rows)

    def _follow(self, request: Request, choose: Callable[[Filter], Choose]) -> Response:
        if request.method == "HEAD":
            return Response(headers=dict(SAFE), media_type=EVENT_STREAM)
        with _refusing():
            chosen = choose(traffic.followed(_once_each(request)))
        try:
            return _Following(Follower(self._gateway.journal, chosen))
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


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except EventsBusy as error:
        raise Refusal(503, str(error)) from None
    except BadQuery as error:
        raise Refusal(400, str(error)) from None
    except NoSuchId as error:
        raise Refusal(404, str(error)) from None


def _page(name: bytes, items: list[bytes], cursor: str | None) -> Response:
    place = msgspec.json.encode(cursor)
    return _answer(b'{"%b":[%b],"next_cursor":%b}' % (name, b",".join(items), place))


def _json(answer: msgspec.Struct) -> Response:
    return _answer(msgspec.json.encode(answer))


def _answer(body: bytes) -> Response:
    return Response(body, headers=dict(SAFE), media_type=JSON)


def _named(what: str, request: Request, known: Mapping[str, T]) -> T:
    name = request.path_params[what]
    if name not in known:
        raise Refusal(404, _no_such(what, name, known))
    return known[name]


def _no_such(what: str, name: str, known: Mapping[str, object]) -> str:
    asked = name[:ASKED_CHARS_MAX]
    return f"There is no {what} {asked!r}; the {what}s are: {_some(list(known))}"


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
            row = openapi.OPERATIONS.get(request.url.path)
            allowed = READ_ONLY if row is None or row.method == "GET" else row.method
            words = None if allowed == READ_ONLY else f"Use {allowed} here"
            return _problem(405, words, allow=allowed)
        case HTTPException(status_code=status):
            return _problem(status, None)
    return _problem(500, None)


def _problem(status: int, detail: str | None, **fields: str) -> Response:
    headers = dict(SAFE) | fields
    return Response(problem(status, detail), status, headers=headers, media_type=MEDIA_TYPE)
