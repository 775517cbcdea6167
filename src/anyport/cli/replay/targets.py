"""Where requests are replayed: a server, without a gateway, or a gateway in this process."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from anyport.cli.connect.client import SETTLE_SECONDS_MAX, FrameHandler, GatewayTransport
from anyport.cli.connect.local import POLL_SECONDS, connect_in_process, is_settled
from anyport.cli.exit_codes import CommandFailed
from anyport.cli.replay.cases import ClientOpening, RecordedAnswer
from anyport.cli.setup import Setup
from anyport.clock import Clock
from anyport.config.model import ServerConfig
from anyport.gateway.gateway import Gateway
from anyport.gateway.identity import IDENTITY
from anyport.protocol import meta
from anyport.protocol.errors import Situation, Timeout
from anyport.protocol.headers import Annotations, read_annotations
from anyport.protocol.revisions import NEWEST_LEGACY, Era, Revision, find_revision
from anyport.upstream.call_queue import call_slots_of
from anyport.upstream.connection import Connection, Noise, OwnRequest
from anyport.upstream.handshake import HandshakeFailed, HandshakeOptions
from anyport.upstream.http.transport import HttpTransport
from anyport.upstream.pending_call import NoAnswer
from anyport.upstream.stdio.process import ProcessSpawner
from anyport.upstream.stdio.transport import StdioTransport
from anyport.upstream.transport import ServerQuirks, UpstreamContext, UpstreamTransport
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import METHOD_NOT_FOUND, BadFrame, Failure, Notification, Request, Result

Answer: TypeAlias = Result | Failure | NoAnswer

TOOL_PAGES_MAX: Final = 100
"""Of the tool list that is read before tools are called."""

_TRACE: Final = (meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE)


class ReplayTarget(Protocol):
    """A conversation with a server or a gateway."""

    @property
    def handshake_answer(self) -> Answer | None:
        """The answer to `initialize`; None without a handshake."""

    @property
    def is_gateway(self) -> bool:
        """Whether an Anyport gateway answers."""

    async def request(self, method: str, params: bytes | None, script: "AnswerScript") -> Answer:
        """Send a request; requests of the server are answered from the script."""

    def notify(self, method: str, params: bytes | None) -> None:
        """Send a notification."""


class AnswerScript:
    """The recorded answers to requests of servers, each used once."""

    def __init__(self, answers: Sequence[RecordedAnswer] = ()) -> None:
        self._remaining = list(answers)

    def answer(self, request: Request) -> Result | Failure:
        if request.method == "ping":
            return Result(request.id, b"{}")
        for answer in self._remaining:
            if answer.method == request.method:
                self._remaining.remove(answer)
                if answer.failed:
                    return Failure(request.id, answer.answer)
                return Result(request.id, answer.answer)
        message = f"No answer to {request.method} was recorded"
        return Failure(request.id, jsonrpc.encode_error(METHOD_NOT_FOUND, message))


def prepare_params(
    params: bytes | None, revision: Revision | None, opening: ClientOpening, token: bytes
) -> bytes | None:
    """Params with the `_meta` of this conversation: trace, progress token, revision."""
    raw = params or b"{}"
    raw_meta = raw_json.members(raw).get("_meta")
    is_object = raw_meta is not None and bytes(raw_meta)[:1] == b"{"
    recorded = raw_json.members(raw_meta) if raw_meta is not None and is_object else {}
    changes: dict[str, bytes | None] = dict.fromkeys(_TRACE)
    if meta.PROGRESS_TOKEN in recorded:
        changes[meta.PROGRESS_TOKEN] = token
    if revision is not None and revision.era is Era.MODERN:
        changes[meta.PROTOCOL_VERSION] = raw_json.encode_string(revision.name)
        if meta.CLIENT_CAPABILITIES not in recorded:
            changes[meta.CLIENT_CAPABILITIES] = opening.capabilities
        if meta.CLIENT_INFO not in recorded:
            changes[meta.CLIENT_INFO] = opening.client_info
    else:
        changes |= dict.fromkeys(meta.REQUEST_KEYS)
    edited = meta.edit_meta(raw, changes)
    return None if params is None and edited == raw else edited


async def list_target_tools(target: ReplayTarget) -> Mapping[str, Mapping[str, Any]]:
    """The tools of a target by name; empty if it does not list any."""
    tools: dict[str, Mapping[str, Any]] = {}
    params: bytes | None = b"{}"
    for _ in range(TOOL_PAGES_MAX):
        answer = await target.request("tools/list", params, AnswerScript())
        if not isinstance(answer, Result):
            break
        page = msgspec.json.decode(answer.result)
        for tool in page.get("tools") or ():
            tools[str(tool.get("name"))] = tool
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            break
        params = msgspec.json.encode({"cursor": cursor})
    return tools


class ServerTarget:
    """A conversation with a server, over the transports of the gateway."""

    def __init__(self, config: ServerConfig, opening: ClientOpening) -> None:
        self.handshake_answer: Answer | None = None
        self._config = config
        self._opening = opening
        self._connection: Connection | None = None
        self._script = AnswerScript()
        self._schemas: dict[str, bytes] = {}

    @property
    def is_gateway(self) -> bool:
        if self._connection is None or self._connection.peer is None:
            return False
        name = raw_json.members(self._connection.peer.server_info).get("name")
        return name is not None and name == raw_json.members(IDENTITY).get("name")

    async def open(self, transport: UpstreamTransport) -> None:
        """Connect and do the handshake.

        Raises:
            CommandFailed: the server cannot be reached.
        """
        try:
            self._connection = await transport.open()
        except HandshakeFailed as error:
            reason = transport.redact_reason(str(error))
            noise = "" if transport.noise is None else f"; {transport.noise}"
            name = f"server '{self._config.slug}'" if self._config.url is None else self._config.url
            raise CommandFailed(f"cannot connect to {name}: {reason}{noise}") from None

    async def request(self, method: str, params: bytes | None, script: AnswerScript) -> Answer:
        """Send a request; requests of the server are answered from the script."""
        connection = self._connection
        assert connection is not None and connection.peer is not None, "only asked when it is open"
        self._script = script
        sent = prepare_params(params, connection.peer.revision, self._opening, b"0")
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def settle(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        reports = sent is not None and meta.PROGRESS_TOKEN.encode() in sent
        call = connection.call(method, sent, settle, _ignore_progress if reports else None)
        if isinstance(call, NoAnswer):
            return call
        seconds = self._config.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                answer = await answered
        except TimeoutError:
            connection.cancel(call, None)
            return NoAnswer(f"did not answer within {seconds:g} s", Situation.TIMED_OUT)
        if method == "tools/list" and isinstance(answer, Result):
            self._remember_schemas(answer.result)
        return answer

    def notify(self, method: str, params: bytes | None) -> None:
        assert self._connection is not None, "only asked when it is open"
        self._connection.notify(method, params)

    # What a server sends unasked, and what becomes of its connection; see `TransportOwner`.

    def on_request(self, connection: Connection, request: Request) -> None:
        connection.answer(request.id, self._script.answer(request))

    def on_own_request(self, request: OwnRequest, answer: Answer, seconds: float) -> None:
        if request[0] == "initialize":
            self.handshake_answer = answer

    def on_draining(self, connection: Connection, reason: str) -> None:
        connection.end(reason)

    def on_notification(self, connection: Connection, notification: Notification) -> None: ...

    def on_noise(self, noise: Noise, reason: str) -> None: ...

    def on_unreachable(self, reason: str) -> None: ...

    def on_connection_end(self, connection: Connection) -> None: ...

    def on_session_renewed(self, connection: Connection) -> None: ...

    def on_gap(self, connection: Connection) -> None: ...

    def on_stderr(self, lines: list[str]) -> None: ...

    def on_timeout(self, timeout: Timeout) -> None: ...

    def is_repeatable(self, tool: str) -> bool | None:
        return None

    def refresh_tools(self, then: Callable[[], None]) -> None:
        then()

    def tool_annotations(self, tool: str) -> Annotations:
        """The arguments of a tool that are repeated in headers."""
        annotations = read_annotations(self._schemas.get(tool, b"{}"))
        return {} if isinstance(annotations, str) else annotations

    def _remember_schemas(self, result: bytes) -> None:
        for tool in msgspec.json.decode(result).get("tools") or ():
            self._schemas[str(tool.get("name"))] = msgspec.json.encode(tool.get("inputSchema"))


@asynccontextmanager
async def open_server_target(
    config: ServerConfig, opening: ClientOpening, redact: Callable[[str], str]
) -> AsyncIterator[ServerTarget]:
    """A conversation with a server for the time of a block.

    Raises:
        CommandFailed: the server cannot be reached.
    """
    if config.unresolved:
        raise CommandFailed(f"cannot start server '{config.slug}': {config.unresolved[0]}")
    pinned = None if opening.revision is None else find_revision(opening.revision)
    target = ServerTarget(config, opening)
    spawner = ProcessSpawner()
    options = HandshakeOptions(
        client_info=opening.client_info,
        capabilities=opening.capabilities,
        protocol=config.protocol if pinned is None else pinned.name,
    )
    context = UpstreamContext(
        clock=Clock(_raise), spawner=spawner, client_info=opening.client_info, redact=redact
    )
    quirks = ServerQuirks()
    transport: UpstreamTransport
    if config.url is None:
        transport = StdioTransport(config, options, context, target, quirks)
    else:
        call_slots = call_slots_of(config)
        transport = HttpTransport(config, options, context, target, quirks, call_slots)
    try:
        await target.open(transport)
        yield target
    finally:
        await transport.stop("the replay is over")
        await transport.clean_up()
        await spawner.close()


def _raise(error: BaseException) -> None:
    raise error


def _ignore_progress(reports: object) -> None:
    """Servers may send progress, but it is not compared."""


class GatewayTarget:
    """A conversation with a gateway in this process."""

    is_gateway = True

    def __init__(
        self, connect: Callable[[FrameHandler], GatewayTransport], opening: ClientOpening
    ) -> None:
        self.handshake_answer: Answer | None = None
        self._opening = opening
        revision = None if opening.revision is None else find_revision(opening.revision)
        self._revision = revision or NEWEST_LEGACY
        self._request_ids = count(1)
        self._pending: dict[bytes, asyncio.Future[Answer]] = {}
        self._script = AnswerScript()
        self._transport = connect(self._on_frame)

    async def open(self) -> None:
        """Do the handshake, if the revision has one.

        Raises:
            CommandFailed: the gateway refused it.
        """
        if self._revision.era is Era.MODERN:
            return
        opening = self._opening
        params = {
            "protocolVersion": opening.revision or NEWEST_LEGACY.name,
            "capabilities": msgspec.Raw(opening.capabilities),
            "clientInfo": msgspec.Raw(opening.client_info),
        }
        self.handshake_answer = await self.request(
            "initialize", msgspec.json.encode(params), AnswerScript()
        )
        if not isinstance(self.handshake_answer, Result):
            raise CommandFailed("the gateway refused the recorded handshake")
        self.notify("notifications/initialized", None)

    async def request(self, method: str, params: bytes | None, script: AnswerScript) -> Answer:
        """Send a request; requests of the server are answered from the script."""
        self._script = script
        id = b"%d" % next(self._request_ids)
        sent = prepare_params(params, self._revision, self._opening, id)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[id] = answered
        self._transport.send(
            jsonrpc.encode_request(id, method, sent), lambda error: self._on_lost(id, error)
        )
        return await answered

    def notify(self, method: str, params: bytes | None) -> None:
        self._transport.send(jsonrpc.encode_notification(method, params))

    async def close(self) -> None:
        await self._transport.close()

    def _on_frame(self, raw: bytes) -> None:
        frame = jsonrpc.decode(raw, jsonrpc.OUTBOUND)
        match frame:
            case Result() | Failure():
                self._settle(frame.id or b"", frame)
            case Request():
                self._reply(frame)
            case BadFrame(message=message):
                for id in list(self._pending):
                    self._settle(id, NoAnswer(f"the answer is not a JSON-RPC message: {message}"))

    def _reply(self, request: Request) -> None:
        answer = self._script.answer(request)
        # Not at once: the conversation is still in the call that delivers this request.
        if isinstance(answer, Result):
            frame = jsonrpc.encode_result(request.id, answer.result)
        else:
            frame = jsonrpc.encode_failure(request.id, answer.error)
        asyncio.get_running_loop().call_soon(self._transport.send, frame)

    def _on_lost(self, id: bytes, error: CommandFailed) -> None:
        self._settle(id, NoAnswer(str(error)))

    def _settle(self, id: bytes, answer: Answer) -> None:
        future = self._pending.pop(id, None)
        if future is not None and not future.done():
            future.set_result(answer)


@asynccontextmanager
async def start_replay_gateway(setup: Setup) -> AsyncIterator[Gateway]:
    """A gateway for the time of a block, without hooks."""
    config = replace(setup.config, hooks=())
    async with Gateway(config, setup.state_dir, sole=True) as gateway:
        yield gateway


@asynccontextmanager
async def open_gateway_target(
    gateway: Gateway, profile: str, opening: ClientOpening
) -> AsyncIterator[GatewayTarget]:
    """A conversation for the time of a block, which begins when the servers have started."""
    target = GatewayTarget(connect_in_process(gateway, profile), opening)
    try:
        await target.open()
        # A modern client has no handshake: its first request starts the servers.
        await target.request("tools/list", None, AnswerScript())
        await _wait_settled(gateway, profile)
        yield target
    finally:
        await target.close()


async def _wait_settled(gateway: Gateway, profile: str) -> None:
    started_at = time.monotonic()
    servers = gateway.profiles[profile].servers.values()
    while not all(map(is_settled, servers)) and time.monotonic() - started_at < SETTLE_SECONDS_MAX:
        await asyncio.sleep(POLL_SECONDS)
