"""HTTP requests to a running gateway: its address, its management API, and MCP sessions."""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from anyport.cli.connect.client import REVISION, FrameHandler, GatewayTransport, LostHandler
from anyport.cli.exit_codes import CommandFailed, WrongUsage
from anyport.cli.options import CONFIG, PROFILE, STATE_DIR, TOKEN, URL, SharedOptions
from anyport.protocol.scheduler import WorkSteps, cost_of
from anyport.record.redact.escape import cut, make_printable
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import (
    ClientConnection,
    HttpFailure,
    HttpFailureKind,
    ResponseHandler,
)
from anyport.upstream.http.url import BadUrl, HttpUrl
from anyport.wire import jsonrpc
from anyport.wire.http1 import ResponseHead
from anyport.wire.jsonrpc import Failure, Result
from anyport.wire.sse import EventSplitter, SseEvent

TOKEN_VARIABLE: Final = "ANYPORT_TOKEN"
API: Final = "/api/v1"

SESSION_HEADER: Final = "mcp-session-id"
ACCEPTED_TYPES: Final = "application/json, text/event-stream"
PROBLEM_TYPE: Final = "application/problem+json"
"""Errors of the management API (RFC 9457); hardly any other server sends them."""

ERROR_MESSAGE_CHARS_MAX: Final = 300
"""Of an error message that is quoted; the peer may not be a gateway at all."""

API_SECONDS_MAX: Final = 30.0
"""For one API request: a reload may wait for servers, a search for the disk."""

CLOSE_SECONDS_MAX: Final = 2.0
"""For the last messages of a session: cancellations and the DELETE."""

AUTH_STATUSES: Final = frozenset({401, 403})
"""Refusals that do not tell whether a gateway or a proxy sent them."""

_ENDPOINT: Final = re.compile(r"(?P<root>.*)/mcp(?:/(?P<profile>[^/?]+))?/?")
_HEADER_VALUE: Final = re.compile(r"[!-~]+")


# The address


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The URL of a running gateway and of one of its profiles."""

    url: HttpUrl
    """The MCP endpoint of the profile."""
    root: str
    """The path prefix of the gateway behind a reverse proxy; usually empty."""
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.url.origin}{self.url.target}"

    @property
    def profile(self) -> str | None:
        """The profile in the URL; None for `/mcp` itself."""
        _, _, name = self.url.target.removeprefix(self.root).removeprefix("/mcp").partition("/")
        return unquote(name) or None

    def head(self, method: str, path: str | None = None, **headers: str) -> bytes:
        """The head of a request to the endpoint, or to a path of the gateway."""
        lines = [
            f"{method} {self.url.target if path is None else self.root + path} HTTP/1.1",
            f"Host: {self.url.authority}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        if self.token is not None:
            lines.append(f"Authorization: Bearer {self.token}")
        return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def read_target(options: SharedOptions, environ: Mapping[str, str]) -> Target:
    """The gateway that `--url` names: by its origin, an endpoint, or a path of a reverse proxy.

    Raises:
        WrongUsage: the URL is not valid, or contradicts other options.
    """
    assert options.url is not None, "only called with --url"
    for option, value in ((CONFIG, options.config), (STATE_DIR, options.state_dir)):
        if value:
            raise WrongUsage(f"{URL.name} connects to a running gateway: leave out {option.name}")
    token = options.token or environ.get(TOKEN_VARIABLE) or None
    if token is not None and not _HEADER_VALUE.fullmatch(token):
        raise WrongUsage("the token contains a character that a bearer token cannot have")
    try:
        url = HttpUrl.parse(options.url if "://" in options.url else f"http://{options.url}")
    except BadUrl as error:
        raise WrongUsage(f"{URL.name}: {error}") from None
    return _make_target(url, options.profile, token)


def _make_target(url: HttpUrl, profile: str | None, token: str | None) -> Target:
    endpoint = _ENDPOINT.fullmatch(url.target)
    if endpoint is None and url.target != "/":
        # Another MCP server, or a reverse proxy with paths of its own.
        if profile is not None:
            raise WrongUsage(f"with {PROFILE.name}, {URL.name} must end in /mcp or have no path")
        return Target(url=url, root="", token=token)
    root = "" if endpoint is None else endpoint["root"]
    url_profile = None if endpoint is None else endpoint["profile"]
    if url_profile and profile is not None:
        raise WrongUsage(f"{URL.name} names the profile '{url_profile}': leave out {PROFILE.name}")
    path = f"{root}/mcp"
    if url_profile or profile:
        path += f"/{url_profile or quote(profile or '', safe='')}"
    return Target(url=replace(url, target=path), root=root, token=token)


# Errors


class PathNotFound(CommandFailed):
    """HTTP 404, or an answer that no Anyport gateway would give."""


def unreachable_error(target: Target, failure: HttpFailure) -> CommandFailed:
    """The error for a request without a reply."""
    if failure.kind is HttpFailureKind.CONNECT:
        reason = failure.reason.removeprefix("no connection: ")
        return CommandFailed(
            f"cannot connect to {target.url.origin}: {reason}. "
            "Is a gateway running there? Start one with 'anyport serve'"
        )
    return CommandFailed(f"no answer from {target}: {make_printable(failure.reason)}")


def not_a_gateway_error(target: Target) -> PathNotFound:
    """The error for a server that has no management API."""
    return PathNotFound(
        f"{target.url.origin} is not an Anyport gateway: it has no {target.root}{API}. "
        f"If it is an MCP server, try 'anyport tools --url {target}'"
    )


def status_error(target: Target, head: ResponseHead, body: bytes) -> CommandFailed:
    """The error for a reply with another status or type than expected."""
    message = error_message_of(body)
    if head.status == 401:
        if target.token is None:
            return CommandFailed(
                f"{target.url.origin} requires a token (HTTP 401): "
                f"pass it with {TOKEN.name} or set {TOKEN_VARIABLE}"
            )
        return CommandFailed(f"{target.url.origin} does not accept this token (HTTP 401)")
    if head.status == 404:
        return PathNotFound(message or f"no MCP server at {target} (HTTP 404)")
    if message is None:
        media_type = make_printable(head.media_type) or "no content type"
        return CommandFailed(
            f"{target} is not an MCP server: it answered with HTTP {head.status} and {media_type}"
        )
    return CommandFailed(f"{target} refused the request (HTTP {head.status}): {message}")


def error_message_of(body: bytes) -> str | None:
    """The message of a JSON-RPC error or of a problem document; None if the body is neither."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    message = error.get("message") if isinstance(error, dict) else document.get("detail")
    if not isinstance(message, str) or not message:
        return None
    return cut(make_printable(message), ERROR_MESSAGE_CHARS_MAX)


# The management API


class ApiClient:
    """A client of the management API."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._client = HttpClient(target.url, jsonrpc.OUTBOUND.bytes_max)

    def send(self, head: bytes, body: bytes | None, handler: ResponseHandler) -> None:
        self._client.request(head, body, handler)

    async def get(self, path: str) -> bytes:
        """GET a JSON document.

        Raises:
            CommandFailed: for every other answer, and for none.
        """
        return await self._fetch("GET", path, None)

    async def post(self, path: str) -> bytes:
        """POST without a body; the JSON document in the answer.

        Raises:
            CommandFailed: for every other answer, and for none.
        """
        return await self._fetch("POST", path, b"")

    async def _fetch(self, method: str, path: str, body: bytes | None) -> bytes:
        handler = _JsonReplyHandler(self.target, repeatable=body is None)
        self.send(self.target.head(method, path, Accept="application/json"), body, handler)
        try:
            async with asyncio.timeout(API_SECONDS_MAX):
                outcome = await handler.outcome
        except TimeoutError:
            raise CommandFailed(
                f"{self.target.url.origin} did not answer within {API_SECONDS_MAX:g} s; "
                "is it stopped, or very busy?"
            ) from None
        finally:
            self._client.cancel(handler)
        if isinstance(outcome, CommandFailed):
            raise outcome
        return outcome

    def close(self) -> None:
        self._client.close()


class _ReplyHandlerBase:
    """The members of `ResponseHandler` that are the same for every request of a command."""

    wait_timeout = None
    repeatable = False

    def __init__(self, target: Target) -> None:
        self.http_connection: ClientConnection | None = None
        self._target = target

    def renew_body(self) -> None:
        """A repeated request has the same body."""


class _JsonReplyHandler(_ReplyHandlerBase):
    """One JSON document, or the error in its place."""

    def __init__(self, target: Target, *, repeatable: bool) -> None:
        super().__init__(target)
        self.repeatable = repeatable
        self.outcome: asyncio.Future[bytes | CommandFailed]
        self.outcome = asyncio.get_running_loop().create_future()

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        if head.status == 200 and head.media_type == "application/json":
            self._settle(body)
        elif head.media_type == PROBLEM_TYPE or head.status in AUTH_STATUSES or head.status >= 500:
            self._settle(status_error(self._target, head, body))
        else:
            self._settle(not_a_gateway_error(self._target))

    def on_stream(self, head: ResponseHead) -> None:
        self._settle(not_a_gateway_error(self._target))

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        """Skip an unexpected stream."""
        yield cost_of(len(portion))

    def on_stream_closed(self, trouble: HttpFailure | None) -> None:
        """The unexpected stream was an error already."""

    def on_failure(self, trouble: HttpFailure) -> None:
        self._settle(unreachable_error(self._target, trouble))

    def _settle(self, outcome: bytes | CommandFailed) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class EventStreamReader(_ReplyHandlerBase):
    """Reads a server-sent event stream of the management API."""

    repeatable = True

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._splitter = EventSplitter(jsonrpc.OUTBOUND.bytes_max)
        self._changed = asyncio.Event()
        self._events: list[SseEvent] = []
        self._is_open = False
        self._error: CommandFailed | None = None

    async def wait_open(self) -> None:
        """Wait until the stream is open: every later event will arrive.

        Raises:
            CommandFailed: the gateway refused the stream.
        """
        while not self._is_open:
            await self._wait_changed()

    async def next_events(self) -> list[SseEvent]:
        """Wait for events; all that have arrived.

        Raises:
            CommandFailed: the stream ended.
        """
        while not self._events:
            await self._wait_changed()
        events, self._events = self._events, []
        return events

    async def _wait_changed(self) -> None:
        if self._error is not None:
            raise self._error
        self._changed.clear()
        await self._changed.wait()

    def on_stream(self, head: ResponseHead) -> None:
        self._is_open = True
        self._changed.set()

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        messages = self._splitter.feed(portion)
        self._events += [event for event in messages if isinstance(event, SseEvent)]
        self._changed.set()
        yield cost_of(len(portion))

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        self._fail(status_error(self._target, head, body))

    def on_stream_closed(self, trouble: HttpFailure | None) -> None:
        self._fail(CommandFailed(f"the gateway at {self._target.url.origin} closed the stream"))

    def on_failure(self, trouble: HttpFailure) -> None:
        self._fail(unreachable_error(self._target, trouble))

    def _fail(self, error: CommandFailed) -> None:
        self._error = error
        self._changed.set()


# MCP


def connect_over_http(api: ApiClient) -> Callable[[FrameHandler], GatewayTransport]:
    """A transport factory for `GatewayClient`."""
    return partial(HttpGatewayTransport, api)


class HttpGatewayTransport:
    """Streamable HTTP to a gateway: a legacy session, a POST for each message.

    Nothing is resumed: the gateway is near, so an interrupted reply is an error for the user.
    """

    def __init__(self, api: ApiClient, on_frame: FrameHandler) -> None:
        self.api = api
        self.on_frame = on_frame
        self._session_id: str | None = None
        self._unconfirmed: set[asyncio.Future[None]] = set()
        """Messages that expect no answer and that the gateway has not accepted yet."""

    def send(self, frame: bytes, on_lost: LostHandler | None = None) -> None:
        head = self._head("POST", Accept=ACCEPTED_TYPES, Content_Type="application/json")
        accepted = self._track_accepted() if on_lost is None else None
        self.api.send(head, frame, _FrameReplyHandler(self, on_lost, accepted))

    async def open_stream(self) -> None:
        """Open the standalone stream, if the gateway has one."""
        accepted = asyncio.get_running_loop().create_future()
        head = self._head("GET", Accept="text/event-stream")
        self.api.send(head, None, _FrameReplyHandler(self, None, accepted))
        await accepted

    async def wait_sent(self) -> None:
        if self._unconfirmed:
            await asyncio.wait(self._unconfirmed)

    async def close(self) -> None:
        """Send what is left, then DELETE the session."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self.wait_sent()
                if self._session_id is not None:
                    handler = _FrameReplyHandler(self, None, self._track_accepted())
                    self.api.send(self._head("DELETE"), None, handler)
                    await self.wait_sent()

    def read_session_id(self, head: ResponseHead) -> None:
        """Keep the session id of a reply that has one."""
        self._session_id = head.get(SESSION_HEADER) or self._session_id

    def _track_accepted(self) -> "asyncio.Future[None]":
        accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unconfirmed.add(accepted)
        accepted.add_done_callback(self._unconfirmed.discard)
        return accepted

    def _head(self, method: str, **headers: str) -> bytes:
        if self._session_id is not None:
            headers |= {"Mcp_Session_Id": self._session_id, "MCP_Protocol_Version": REVISION}
        return self.api.target.head(method, **headers)


class _FrameReplyHandler(_ReplyHandlerBase):
    """The reply to one message: a JSON body or a stream of messages."""

    def __init__(
        self,
        transport: HttpGatewayTransport,
        on_lost: LostHandler | None,
        accepted: "asyncio.Future[None] | None",
    ) -> None:
        super().__init__(transport.api.target)
        self._transport = transport
        self._on_lost = on_lost
        self._accepted = accepted
        self._splitter = EventSplitter(jsonrpc.OUTBOUND.bytes_max)

    def on_stream(self, head: ResponseHead) -> None:
        self._transport.read_session_id(head)
        self._mark_accepted()

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        for event in self._splitter.feed(portion):
            yield 1
            if not isinstance(event, SseEvent):
                self._report_lost(CommandFailed(f"{self._target} sent a message that is too long"))
            elif event.data and event.name == "message":  # Priming events have no data.
                self._transport.on_frame(event.data)

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        self._transport.read_session_id(head)
        self._mark_accepted()
        is_json = head.status == 200 and head.media_type == "application/json"
        if is_json or _is_answer(body):
            self._transport.on_frame(body)
        else:
            self._report_lost(status_error(self._target, head, body))

    def on_stream_closed(self, trouble: HttpFailure | None) -> None:
        self._report_lost(CommandFailed(f"{self._target} closed the connection before it answered"))

    def on_failure(self, trouble: HttpFailure) -> None:
        self._mark_accepted()
        self._report_lost(unreachable_error(self._target, trouble))

    def _mark_accepted(self) -> None:
        if self._accepted is not None and not self._accepted.done():
            self._accepted.set_result(None)

    def _report_lost(self, error: CommandFailed) -> None:
        if self._on_lost is not None:
            self._on_lost(error)


def _is_answer(body: bytes) -> bool:
    """Whether the body answers a request by its id; such an error may have any HTTP status."""
    frame = jsonrpc.decode(body, jsonrpc.OUTBOUND)
    return isinstance(frame, Result | Failure) and frame.id is not None
