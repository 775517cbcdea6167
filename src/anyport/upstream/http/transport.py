"""Transport to servers behind a URL."""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import Final

from anyport.config.model import ServerConfig
from anyport.protocol.errors import Timeout
from anyport.upstream.call_queue import CallSlots
from anyport.upstream.connection import Connection, bounds_for
from anyport.upstream.handshake import (
    HandshakeFailed,
    HandshakeOptions,
    NoSession,
    initialize_params,
    start_request,
)
from anyport.upstream.http.channel import HttpCall, HttpChannel
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import http_timeouts_of
from anyport.upstream.http.detect import DetectedServer, Detection
from anyport.upstream.http.fetch import fetch
from anyport.upstream.http.headers import RequestHeads
from anyport.upstream.http.legacy_sse import LegacySseChannel
from anyport.upstream.http.streamable import (
    HANDSHAKE_SECONDS_MAX,
    INITIALIZED,
    InitializeRequest,
    ModernChannel,
    SessionChannel,
)
from anyport.upstream.http.url import BadUrl, HttpUrl, proxy_from_environment
from anyport.upstream.pending_call import STOPPED, NoAnswer
from anyport.upstream.transport import (
    HttpDialect,
    ServerQuirks,
    TransportOwner,
    UpstreamContext,
)

LEGACY_ASSUMED_SECONDS: Final = 3600.0
"""How long a server is taken for a legacy one without probing: after an update it would still
answer legacy requests."""
SESSION_CLOSE_SECONDS_MAX: Final = 1.0
"""For ending the session of a server."""
DRAIN_CHECK_SECONDS: Final = 1.0
"""How often a draining connection is checked, until its last call is answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHttpConnection:
    """A connection, its channel and its HTTP client."""

    connection: Connection
    channel: HttpChannel
    client: HttpClient

    def end(self, reason: str) -> None:
        """Close everything; open calls fail."""
        self.connection.end(reason, STOPPED)
        self.client.close()


class HttpTransport:
    """Opens one connection at a time; earlier ones may still have open calls."""

    child = None
    noise = None

    def __init__(
        self,
        config: ServerConfig,
        options: HandshakeOptions,
        context: UpstreamContext,
        owner: TransportOwner,
        quirks: ServerQuirks,
        call_slots: CallSlots,
    ) -> None:
        """`call_slots` are those of the server: it is one, however many connections it has."""
        self.current_connection: Connection | None = None
        self._config = config
        self._options = options
        self._context = context
        self._owner = owner
        self._quirks = quirks
        self._call_slots = call_slots
        self._dialect: HttpDialect | None = None
        """As detected the last time."""
        self._client: HttpClient | None = None
        """During a handshake."""
        self._current: OpenHttpConnection | None = None
        self._draining: list[OpenHttpConnection] = []
        self._stopped: str | None = None

    @property
    def transport_name(self) -> str:
        """As detected, else as configured."""
        return self._config.transport if self._dialect is None else self._dialect.transport_name

    async def open(self) -> Connection:
        """Open a connection in the dialect that the server speaks."""
        bounds = bounds_for(self._config.message_bytes_max)
        url = self._parse_url()
        timeouts = http_timeouts_of(
            self._config, self._context.clock.random, self._owner.on_timeout
        )
        memory_budget, scheduler = self._context.memory_budget, self._context.scheduler
        reuse = self._quirks.reuse
        client = HttpClient(url, bounds.bytes_max, memory_budget, timeouts, scheduler, reuse)
        self._client = client
        default_seconds = HANDSHAKE_SECONDS_MAX
        seconds_max = min(default_seconds, self._options.seconds_max or default_seconds)
        try:
            async with asyncio.timeout(seconds_max):
                opened = await self._handshake(client, url)
        except (HandshakeFailed, TimeoutError) as error:
            client.close()
            self._quirks.dialect = None
            if self._stopped is not None:
                raise HandshakeFailed(self._stopped) from None
            if isinstance(error, HandshakeFailed):
                raise
            reason = f"it did not answer the handshake within {seconds_max:g} s"
            raise HandshakeFailed(reason, Timeout.HANDSHAKE) from None
        finally:
            self._client = None
        if self._stopped is not None:  # It was stopped before there was anything to stop.
            opened.end(self._stopped)
            raise HandshakeFailed(self._stopped)
        self._current = opened
        return opened.connection

    async def clean_up(self) -> None:
        """Close the connection, or leave it open until its calls are answered."""
        opened, self._current = self._current, None
        if opened is None:
            return
        if opened.connection.open_calls:
            self._draining.append(opened)
            asyncio.get_running_loop().call_later(
                DRAIN_CHECK_SECONDS, self._close_if_drained, opened
            )
        else:
            opened.end(opened.connection.draining_reason or "it is no longer used")

    async def suspend(self, reason: str) -> None:
        """End the session, and close the connection."""
        opened, self._current = self._current, None
        if opened is not None:
            self._owner.on_draining(opened.connection, reason)
            opened.connection.end(reason, STOPPED)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SESSION_CLOSE_SECONDS_MAX):
                    await opened.channel.close()
            opened.client.close()

    async def stop(self, reason: str) -> None:
        """End the session for good, and close all connections."""
        self._stopped = reason
        if self._client is not None:
            self._client.close()
        await self.suspend(reason)
        for draining in self._draining:
            draining.end(reason)
        self._draining.clear()

    def redact_reason(self, reason: str) -> str:
        """A reason without secrets."""
        return self._context.redact(reason)

    def _close_if_drained(self, opened: OpenHttpConnection) -> None:
        if opened not in self._draining:
            return
        if opened.connection.open_calls:
            asyncio.get_running_loop().call_later(
                DRAIN_CHECK_SECONDS, self._close_if_drained, opened
            )
        else:
            self._draining.remove(opened)
            opened.end(opened.connection.draining_reason or "it is no longer used")

    def _parse_url(self) -> HttpUrl:
        url, proxy = self._config.url or "", self._config.proxy
        proxy_url = proxy_from_environment(url, os.environ) if proxy == "env" else proxy
        try:
            return HttpUrl.parse(url, proxy=None if proxy_url == "none" else proxy_url)
        except BadUrl as error:
            raise HandshakeFailed(f"its url cannot be used: {error}") from None

    def _known_dialect(self) -> HttpDialect | None:
        """The dialect of the last handshake, while it need not be probed again."""
        quirks = self._quirks
        age = self._context.clock.monotonic() - quirks.dialect_since
        return quirks.dialect if age < LEGACY_ASSUMED_SECONDS else None

    async def _handshake(self, client: HttpClient, url: HttpUrl) -> OpenHttpConnection:
        request_heads = RequestHeads(url, self._config.headers)
        detection = Detection(
            client,
            request_heads,
            self._options,
            self._config.transport,
            self._context.clock,
            self._owner.on_own_request,
        )
        known = self._known_dialect()
        detected = await detection.run(known)
        if detected.url is not url:
            request_heads = RequestHeads(detected.url, self._config.headers)
        opened = await self._open_connection(
            detected, client, request_heads, detection.initialize_request
        )
        if known is None:
            self._quirks.dialect_since = self._context.clock.monotonic()
        self._dialect = self._quirks.dialect = detected.dialect
        return opened

    async def _open_connection(
        self,
        detected: DetectedServer,
        client: HttpClient,
        request_heads: RequestHeads,
        initialize: InitializeRequest,
    ) -> OpenHttpConnection:
        """Open a connection in the dialect that was detected."""
        if detected.dialect is HttpDialect.LEGACY_SSE:
            return await self._open_legacy_sse(detected, client, request_heads, initialize)
        peer = detected.peer
        if peer is None:
            raise RuntimeError("what was found does not say who it is")
        if detected.dialect is HttpDialect.MODERN:
            modern = ModernChannel(client, request_heads, self._owner, peer.revision)
            opened = self._make_connection(modern, detected.numbers_used)
            opened.connection.peer = peer
            return opened
        options = initialize.options
        if detected.session is None and options.trial and options.asks:
            raise NoSession("it keeps no session in which it could ask")
        session = SessionChannel(client, request_heads, self._owner, initialize)
        session.use_session(detected.session, peer.revision)
        opened = self._make_connection(session, detected.numbers_used)
        await self._send_initialized(client, request_heads.url, session.head)
        opened.connection.peer = peer
        session.open_stream(self._context.clock)
        await session.wait_for_stream()
        return opened

    async def _open_legacy_sse(
        self,
        detected: DetectedServer,
        client: HttpClient,
        request_heads: RequestHeads,
        initialize: InitializeRequest,
    ) -> OpenHttpConnection:
        channel = LegacySseChannel(client, request_heads, self._owner)
        opened = self._make_connection(channel, detected.numbers_used)
        connection = opened.connection
        try:
            await channel.start()
        except HandshakeFailed as error:
            if not detected.refusal:
                raise
            reason = f"it {detected.refusal}; asked for HTTP+SSE instead: {error}"
            raise HandshakeFailed(reason, error.timeout) from None
        params = initialize_params(initialize.options, initialize.revision)
        answer = await start_request(connection, "initialize", params)
        if isinstance(answer, NoAnswer):
            raise HandshakeFailed(answer.reason, answer.timeout)
        connection.peer = initialize.read_peer(answer)
        await self._send_initialized(client, request_heads.url, channel.head)
        return opened

    async def _send_initialized(self, client: HttpClient, url: HttpUrl, head: bytes) -> None:
        """Wait until it is accepted: a server may reject calls that overtake it."""
        response = await fetch(client, url, head, INITIALIZED)
        if response.failure is not None:
            raise HandshakeFailed(response.failure.reason, response.failure.timeout)

    def _make_connection(self, channel: HttpChannel, numbers_used: int) -> OpenHttpConnection:
        bounds = bounds_for(self._config.message_bytes_max)
        connection = Connection(
            channel, self._owner, bounds, self._context.clock, HttpCall, numbers_used
        )
        connection.call_slots = self._call_slots
        connection.memory_budget = self._context.memory_budget
        channel.connection = connection
        channel.may_repeat = self._config.retry != "never"
        self.current_connection = connection
        return OpenHttpConnection(connection=connection, channel=channel, client=channel.client)
