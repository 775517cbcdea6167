"""Supervisor of one connection: opens it, watches it, and opens it again with back-off.

It never gives up; callers that want the connection while the server is down get the reason at once.
A connection that is not needed stays closed until its next use.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.protocol.errors import Timeout
from anyport.protocol.headers import Annotations
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Connection, Noise, OwnRequest
from anyport.upstream.handshake import EraNotSupported, HandshakeFailed, HandshakeOptions, NoSession
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer
from anyport.upstream.stdio.process import ChildProcess
from anyport.upstream.stdio.transport import StdioTransport
from anyport.upstream.transport import ServerQuirks, UpstreamTransport
from anyport.wire.jsonrpc import Notification, Request

if TYPE_CHECKING:
    from anyport.upstream.server import Server

# Idle tracking. Using a connection records nothing: each counts its requests, and a periodic check
# sees whether the count has risen. Pure: time is an argument.

CHECKS_PER_IDLE_TIME: Final = 4
"""How often connections are checked within their idle time."""
CHECK_SECONDS_MAX: Final = 15.0
"""Longest time between checks, and so the most by which a connection is closed too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSample:
    """A connection at the time of a check."""

    uses: int
    """Requests of clients so far."""
    busy: bool
    """Whether it is in use, or a client relies on its state."""


@dataclass(frozen=True, slots=True)
class _LastUse:
    uses: int
    since: float
    """When it was last seen in use."""


class IdleTracker:
    """When the connections of one server were last used."""

    def __init__(self, idle_seconds: Callable[[LeaseKey], float]) -> None:
        self._idle_seconds = idle_seconds
        """How long a connection is kept unused; 0 for ever."""
        self._last_uses: dict[LeaseKey, _LastUse] = {}

    def check_seconds(self, open: Iterable[LeaseKey]) -> float | None:
        """Seconds until the next check; None if none of these is ever closed."""
        seconds = [self._idle_seconds(key) for key in open]
        shortest = min((each for each in seconds if each > 0), default=None)
        return None if shortest is None else min(shortest / CHECKS_PER_IDLE_TIME, CHECK_SECONDS_MAX)

    def on_opened(self, key: LeaseKey, uses: int, now: float) -> None:
        """A connection was opened: count that as a use."""
        self._last_uses[key] = _LastUse(uses, now)

    def forget(self, key: LeaseKey) -> None:
        """A connection is not needed any more."""
        self._last_uses.pop(key, None)

    def has_been_open(self, key: LeaseKey) -> bool:
        return key in self._last_uses

    def find_idle(self, open: Mapping[LeaseKey, UsageSample], now: float) -> list[LeaseKey]:
        """The open connections that have been idle for too long.

        The first one, over which lists are read, stays open as long as any other does.
        """
        for key, sample in open.items():
            last_use = self._last_uses.get(key)
            if last_use is None or sample.busy or sample.uses != last_use.uses:
                self._last_uses[key] = _LastUse(sample.uses, now)
        idle = [key for key in open if self._idle_seconds(key) > 0 and not self.is_recent(key, now)]
        return idle if len(idle) == len(open) else [key for key in idle if key != next(iter(open))]

    def is_recent(self, key: LeaseKey, now: float) -> bool:
        """Whether a connection was used within its idle time."""
        last_use = self._last_uses.get(key)
        return last_use is not None and now - last_use.since < self._idle_seconds(key)


NOT_STARTED_YET: Final = "not started yet: it is started on first use"

WAITERS_MAX: Final = 1024
"""Callers that may wait for one connection; as many as the call queue holds."""


class ServerState(Enum):
    STARTING = "starting"
    READY = "running"
    BROKEN = "failed"
    """It is restarted after a delay."""
    IDLE = "idle"
    """Closed for want of use; the next use opens it."""
    STOPPED = "stopped"


class NotReady(msgspec.Struct, frozen=True, gc=False):
    """Why a server has no connection to lease."""

    reason: str


LeaseCallback = Callable[[Connection | NotReady], None]


class ConnectionSupervisor:
    """Keeps one connection to a server open."""

    def __init__(
        self,
        server: "Server",
        key: LeaseKey,
        options: HandshakeOptions,
        quirks: ServerQuirks,
    ) -> None:
        self.server = server
        self.key = key
        self.asleep = not server.is_needed(key)
        """Whether it stays closed until it is used."""
        self.state = ServerState.IDLE if self.asleep else ServerState.STARTING
        self.reason: str | None = NOT_STARTED_YET if self.asleep else None
        """Why it is not running; while it is, why it last was not."""
        self.timeout: Timeout | None = None
        """The timeout that is the reason."""
        self.refused = False
        """Whether the server has said that it does not speak the requested era."""
        self.keeps_no_session = False
        """Whether it speaks it, but keeps no session in which it could ask its client."""
        self.restarts = 0
        self.opening_seconds = 0.0
        """How long opening took the last time."""
        self.connection: Connection | None = None
        self._clock = server.context.clock
        self._backoff = Backoff()
        self._waiters: list[LeaseCallback] = []
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._woken = asyncio.Event()
        """Set when it was used since it was last open."""
        self._suspended = False
        """Whether the connection was closed for want of use."""
        self._end_reason = ""
        """Why the connection was closed."""
        config, context = server.config, server.context
        self.transport: UpstreamTransport
        if config.url is None:
            self.transport = StdioTransport(config, options, context, self, quirks)
        else:
            # Imported late: a gateway with only stdio servers starts faster without HTTP.
            from anyport.upstream.http.transport import HttpTransport  # noqa: PLC0415

            self.transport = HttpTransport(
                config, options, context, self, quirks, server.call_slots
            )

    def when_ready(self, ready: LeaseCallback) -> None:
        """Pass the connection to `ready`, now or when it is open, or the reason why there is
        none."""
        if self.state is ServerState.READY and self.connection is not None:
            ready(self.connection)
            return
        self.wake()
        if self.state is ServerState.STARTING and len(self._waiters) < WAITERS_MAX:
            self._waiters.append(ready)
        elif self.state is ServerState.STARTING:
            ready(NotReady("it is starting, and too many calls are waiting for it"))
        else:
            ready(NotReady(self.reason or "no reason is known"))

    @property
    def can_become_ready(self) -> bool:
        """Whether it is worth waiting for."""
        return self.asleep or self.state is ServerState.STARTING

    def wake(self) -> None:
        """Open the connection as soon as possible."""
        self._woken.set()
        if self.asleep:
            self.asleep, self.state = False, ServerState.STARTING

    def suspend(self, reason: str) -> None:
        """Close an idle connection; its next use opens another."""
        if self.state is not ServerState.READY or self.connection is None:
            return
        self.connection.draining_reason = reason
        self.connection = None
        self.state, self.reason = ServerState.IDLE, reason
        self.asleep = self._suspended = True
        self._woken.clear()
        self._ended.set()

    def reconnect(self, reason: str) -> None:
        """Close the connection, and open another."""
        if self.connection is not None:
            self.on_draining(self.connection, reason)

    async def run(self) -> None:
        """Keep the connection open as long as it is needed, until `stop`."""
        while not self._stopping.is_set():
            await self._wait_until_needed()
            if self._stopping.is_set():
                break
            self.state = ServerState.STARTING
            ready_seconds = await self._run_once()
            if self._stopping.is_set() or self._suspended:
                continue
            self.restarts += 1
            delay = self._backoff.delay(ready_seconds, self._clock.random())
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
        self._set_down(ServerState.STOPPED, self._end_reason)

    async def stop(self, reason: str = "the gateway is stopping") -> None:
        """Close the connection for good."""
        self.stop_restarting(reason)
        await self.transport.stop(reason)

    def stop_restarting(self, reason: str) -> None:
        """Open no other connection; `stop` closes the current one."""
        self._stopping.set()
        self._woken.set()
        self._end_reason = reason

    async def _wait_until_needed(self) -> None:
        """Wait until the connection is needed. After a failure it counts as needed only if it is
        used."""
        if not self.server.is_needed(self.key) and not self._woken.is_set():
            self.asleep = True
            if self.state is ServerState.STARTING:
                self.state, self.reason = ServerState.IDLE, NOT_STARTED_YET
            await self._woken.wait()
        self.asleep = False

    async def _run_once(self) -> float | None:
        """Open one connection and wait for its end; returns how long it was ready, None if it never
        was."""
        self._ended.clear()
        self._suspended = False
        began = self._clock.monotonic()
        try:
            connection = await self.transport.open()
        except HandshakeFailed as error:
            noise = self.noise
            reason = str(error) if noise is None else f"{error}; {noise}"
            self.refused = isinstance(error, EraNotSupported)
            self.keeps_no_session = isinstance(error, NoSession)
            if error.timeout is Timeout.HANDSHAKE:
                self.on_timeout(error.timeout)
            await self._clean_up(self.transport.redact_reason(reason), error.timeout)
            return None
        if connection.draining_reason is not None:
            await self._clean_up(connection.draining_reason)
            return None
        since = self._clock.monotonic()
        self.opening_seconds = since - began
        self.state, self.connection = ServerState.READY, connection
        self._woken.clear()
        self.server.on_ready(self.key, connection)
        self._serve_waiters(connection)
        await self._ended.wait()
        if self._suspended:
            self._backoff = Backoff()
            await self.transport.suspend(self.reason or "")
        else:
            await self._clean_up(self._end_reason)
        return self._clock.monotonic() - since

    async def _clean_up(self, reason: str, timeout: Timeout | None = None) -> None:
        """Report why a connection has ended, and release its resources."""
        self._woken.clear()
        self.timeout = timeout
        self._set_down(ServerState.BROKEN, reason)
        if not self._stopping.is_set():
            self.server.on_broken(self.key, reason)
        await self.transport.clean_up()

    def _set_down(self, state: ServerState, reason: str) -> None:
        self.state, self.reason, self.asleep = state, reason, False
        waiters, self._waiters = self._waiters, []
        for ready in waiters:
            ready(NotReady(reason))

    def _serve_waiters(self, connection: Connection) -> None:
        waiters, self._waiters = self._waiters, []
        for ready in waiters:
            ready(connection)

    @property
    def child(self) -> ChildProcess | None:
        """The server process, if there is one."""
        return self.transport.child

    @property
    def current_connection(self) -> Connection | None:
        """The latest connection, even before its handshake is done."""
        return self.transport.current_connection

    @property
    def noise(self) -> str | None:
        """What a server that is not ready sent instead of MCP."""
        return None if self.state is ServerState.READY else self.transport.noise

    @property
    def peer(self) -> Peer | None:
        return None if self.connection is None else self.connection.peer

    # Reports of the transport and its connections; the server gets them with the lease key.

    def on_draining(self, connection: Connection, reason: str) -> None:
        """Nothing new can be sent over a connection; if it is the current one, open another."""
        connection.draining_reason = reason
        if connection is self.connection:
            self._end_reason = reason
            self.connection = None
            self.state, self.reason = ServerState.BROKEN, reason
            self._ended.set()

    def on_session_renewed(self, connection: Connection) -> None:
        self.server.on_ready(self.key, connection)

    def on_gap(self, connection: Connection) -> None:
        self.server.on_gap(self.key, connection)

    def on_request(self, connection: Connection, request: Request) -> None:
        self.server.on_request(self.key, connection, request)

    def on_notification(self, connection: Connection, notification: Notification) -> None:
        self.server.on_notification(self.key, connection, notification)

    def on_noise(self, noise: Noise, reason: str) -> None:
        self.server.listener.on_noise(self.server, noise, reason)

    def on_own_request(self, request: OwnRequest, answer: Answer, seconds: float) -> None:
        self.server.listener.on_own_request(self.server, self.peer, request, answer, seconds)

    def on_unreachable(self, reason: str) -> None:
        self.server.health.on_unreachable(reason)

    def on_connection_end(self, connection: Connection) -> None:
        self.server.listener.on_connection_lost(self.server, connection)

    def on_stderr(self, lines: list[str]) -> None:
        if lines:
            self.server.listener.on_stderr(self.server, lines)

    def on_timeout(self, timeout: Timeout) -> None:
        self.server.listener.on_timeout(self.server, timeout)

    def tool_annotations(self, tool: str) -> Annotations:
        return self.server.annotations(tool)

    def is_repeatable(self, tool: str) -> bool | None:
        return self.server.is_repeatable(self.key, tool)

    def refresh_tools(self, then: Callable[[], None]) -> None:
        self.server.refresh_tools(then)
