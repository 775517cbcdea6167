"""The management API as a Starlette application; imported with the first request for it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
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
from anyport.gateway.api.openapi import EVENT_STREAM, JSON
from anyport.gateway.api.schemas import (
    MEDIA_TYPE,
    READ_ALLOW,
    SAFE_HEADERS,
    Contents,
    ProfilesAnswer,
    Servers,
    encode_problem,
)
from anyport.gateway.api.stream import (
    FOLLOWERS_MAX,
    FOLLOWERS_OF_ONE_MAX,
    Follower,
    LineSelector,
    SelectLine,
)
from anyport.gateway.explain import explain_name
from anyport.gateway.gateway import Gateway
from anyport.gateway.local.event_queries import BadQuery, EventsBusy
from anyport.gateway.reload import ReloadRefused
from anyport.protocol.quota import QuotaLimits, QuotaTable
from anyport.record.filter.ast import Filter
from anyport.record.index.query import without_traffic
from anyport.record.index.traffic import NoSuchId

NAME_CHARS_MAX: Final = 64
"""Length of an unknown name in an error."""
NAMES_SHOWN_MAX: Final = 50
"""Known names that such an error lists."""

Endpoint = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


def build(gateway: Gateway) -> Starlette:
    endpoints = Api(gateway).endpoints
    app = Starlette(
        routes=[
            Route(path, endpoint, methods=[openapi.OPERATIONS[path].method])
            for path, endpoint in endpoints.items()
        ],
        exception_handlers=dict.fromkeys((ApiError, HTTPException, Exception), _handle_error),
    )
    app.router.redirect_slashes = False  # Redirects would go wherever the `Host` field says.
    return app


class Api:
    """The endpoints."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._line_selector = LineSelector()
        self._followers: QuotaTable[Follower] = QuotaTable(
            QuotaLimits(FOLLOWERS_MAX, FOLLOWERS_OF_ONE_MAX)
        )
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
        links = {row.name: path for path, row in openapi.OPERATIONS.items()}
        return _json(Contents(name=views.NAME, version=__version__, links=links))

    async def openapi(self, request: Request) -> Response:
        return _answer(openapi.document())

    async def status(self, request: Request) -> Response:
        return _json(views.status_view(self._gateway))

    async def servers(self, request: Request) -> Response:
        servers = self._gateway.servers.values()
        shown = tuple(views.server_view(self._gateway, server) for server in servers)
        return _json(Servers(servers=shown))

    async def server(self, request: Request) -> Response:
        server = _look_up("server", request, self._gateway.servers)
        return _json(views.server_view(self._gateway, server))

    async def profiles(self, request: Request) -> Response:
        profiles = self._gateway.profiles.values()
        return _json(ProfilesAnswer(profiles=tuple(map(views.profile_view, profiles))))

    async def profile(self, request: Request) -> Response:
        return _json(views.profile_detail(_look_up("profile", request, self._gateway.profiles)))

    async def why(self, request: Request) -> Response:
        parameters = _query_parameters(request)
        profiles = self._gateway.profiles
        slug = parameters.get("profile") or (
            next(iter(profiles)) if len(profiles) == 1 else "default"
        )
        if not parameters.get("name"):
            raise ApiError(400, "A name is needed: /api/v1/why?name=server__tool")
        if slug not in profiles:
            if parameters.get("profile"):
                raise ApiError(404, _not_found_text("profile", slug, profiles))
            names = _join_names(list(profiles))
            raise ApiError(400, f"Name a profile with profile=; the profiles are: {names}")
        return _json(explain_name(parameters["name"], profiles[slug], self._gateway.servers))

    async def reload(self, request: Request) -> Response:
        preview = _query_parameters(request).get("preview", "false")
        if preview not in ("true", "false"):
            raise ApiError(400, "preview must be true or false")
        try:
            if preview == "true":
                return _json(views.reload_view(*await self._gateway.reload.preview()))
            changes = await self._gateway.reload.run()
        except ReloadRefused as error:
            raise ApiError(422, f"The configuration stays as it is: {error}") from None
        return _json(views.reload_view(changes))

    async def events(self, request: Request) -> Response:
        with _mapped_errors():
            page = await self._gateway.events.page(_query_parameters(request))
        return _page(b"events", page.lines, page.cursor)

    async def traffic(self, request: Request) -> Response:
        with _mapped_errors():
            page = await self._gateway.events.traffic(_query_parameters(request))
        rows = await asyncio.to_thread(views.encode_rows, page.lines)
        return _page(b"rows", rows, page.cursor)

    async def detail(self, request: Request) -> Response:
        with _mapped_errors():
            details = await views.encode_details(self._gateway.events, request.path_params["id"])
        return _answer(details)

    async def follow(self, request: Request) -> Response:
        return self._follow(
            request, lambda text: self._line_selector.select_events(without_traffic(text))
        )

    async def follow_traffic(self, request: Request) -> Response:
        return self._follow(request, self._line_selector.select_rows)

    def _follow(
        self, request: Request, line_selector_for: Callable[[Filter], SelectLine]
    ) -> Response:
        if request.method == "HEAD":
            return Response(headers=dict(SAFE_HEADERS), media_type=EVENT_STREAM)
        with _mapped_errors():
            select_line = line_selector_for(views.parse_follow_filter(_query_parameters(request)))
        followers, principal = self._followers, request.state.principal
        # At the limit, the oldest follower of the first principal in this order has to go.
        for evicted_principal in followers.eviction_order(principal) or ():
            oldest = next(iter(followers.items_of(evicted_principal)))
            followers.remove(evicted_principal, oldest)
            oldest.end()
            break
        try:
            follower = Follower(self._gateway.journal, select_line)
        except ValueError as error:
            raise ApiError(503, str(error)) from None
        followers.add(principal, follower)
        return _FollowResponse(follower, partial(followers.remove, principal, follower))


class ApiError(Exception):
    """A request that cannot be answered; the detail is for people."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class _FollowResponse(StreamingResponse):
    """Closes its follower however the response ends, even before the first byte."""

    def __init__(self, follower: Follower, on_end: Callable[[], None]) -> None:
        super().__init__(follower.stream(), headers=dict(SAFE_HEADERS), media_type=EVENT_STREAM)
        self._follower = follower
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._follower.close()
            self._on_end()


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except EventsBusy as error:
        raise ApiError(503, str(error)) from None
    except BadQuery as error:
        raise ApiError(400, str(error)) from None
    except NoSuchId as error:
        raise ApiError(404, str(error)) from None


def _page(name: bytes, items: list[bytes], cursor: str | None) -> Response:
    cursor_json = msgspec.json.encode(cursor)
    return _answer(b'{"%b":[%b],"next_cursor":%b}' % (name, b",".join(items), cursor_json))


def _json(answer: msgspec.Struct) -> Response:
    return _answer(msgspec.json.encode(answer))


def _answer(body: bytes) -> Response:
    return Response(body, headers=dict(SAFE_HEADERS), media_type=JSON)


def _look_up(what: str, request: Request, known: Mapping[str, T]) -> T:
    name = request.path_params[what]
    if name not in known:
        raise ApiError(404, _not_found_text(what, name, known))
    return known[name]


def _not_found_text(what: str, name: str, known: Mapping[str, object]) -> str:
    shown_name = name[:NAME_CHARS_MAX]
    return f"There is no {what} {shown_name!r}; the {what}s are: {_join_names(list(known))}"


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN_MAX]) or "none"
    return (
        shown
        if len(names) <= NAMES_SHOWN_MAX
        else f"{shown} and {len(names) - NAMES_SHOWN_MAX} more"
    )


def _query_parameters(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    if len(pairs) > len(dict(pairs)):
        raise ApiError(400, "A parameter is given more than once")
    return dict(pairs)


async def _handle_error(request: Request, error: Exception) -> Response:
    match error:
        case ApiError(status=status, detail=detail):
            return _problem(status, detail)
        case HTTPException(status_code=405):
            row = openapi.OPERATIONS.get(request.url.path)
            allowed = READ_ALLOW if row is None or row.method == "GET" else row.method
            hint = None if allowed == READ_ALLOW else f"Use {allowed} here"
            return _problem(405, hint, allow=allowed)
        case HTTPException(status_code=status):
            return _problem(status, None)
    return _problem(500, None)


def _problem(status: int, detail: str | None, **fields: str) -> Response:
    headers = dict(SAFE_HEADERS) | fields
    return Response(encode_problem(status, detail), status, headers=headers, media_type=MEDIA_TYPE)
