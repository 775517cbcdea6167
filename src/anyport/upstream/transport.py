"""Transports to servers, and what all servers of a gateway share.

A transport opens one connection after another and performs the handshakes. When to try again, and
who waits for a connection, is up to the supervisor.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from anyport.clock import Clock
from anyport.protocol.errors import Timeout
from anyport.protocol.headers import Annotations
from anyport.protocol.memory_budget import MemoryBudget
from anyport.protocol.scheduler import FairScheduler
from anyport.upstream.connection import Connection, ConnectionListener
from anyport.upstream.http.connection_reuse import ConnectionReuse
from anyport.upstream.read_cache import ReadCache
from anyport.upstream.stdio.process import ChildProcess, ProcessSpawner


class HttpDialect(Enum):
    """Era and transport of a server behind a URL."""

    MODERN = "streamable-http, modern"
    LEGACY = "streamable-http, legacy"
    LEGACY_SSE = "sse"

    @property
    def transport_name(self) -> str:
        """As in the configuration."""
        return self.value.partition(",")[0]


@dataclass(slots=True)
class ServerQuirks:
    """What earlier connections to a server have shown; all its connections share it."""

    dies_of_probe: bool = False
    """`server/discover` crashes it: it gets `initialize` at once."""
    avoid_initialize: bool = False
    """It starts slowly, and `initialize` makes a legacy server of it: it does not get that."""
    dialect: HttpDialect | None = None
    dialect_since: float = 0.0
    reuse: ConnectionReuse = field(default_factory=ConnectionReuse)
    """Whether HTTP connections to it can be used more than once."""
    group: object = field(default_factory=object)
    """Identifies the server to the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamContext:
    """What all servers of a gateway share."""

    clock: Clock
    spawner: ProcessSpawner
    client_info: bytes
    """The gateway, as it introduces itself to servers."""
    redact: Callable[[str], str] = str
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """The gateway's own environment; child processes inherit some of it."""
    memory_budget: MemoryBudget = field(default_factory=MemoryBudget)
    """For large messages."""
    scheduler: FairScheduler = field(default_factory=FairScheduler)
    """Divides the event loop's time among servers that send a lot."""
    read_cache: ReadCache = field(default_factory=ReadCache)
    single_client: bool = True
    """There is one client: the connection that it opens first serves everything."""
    has_several_principals: Callable[[], bool] = lambda: False
    """Whether two or more principals are configured."""
    is_transparent: Callable[[str], bool] = lambda _: False
    """Whether a profile is transparent."""
    passes_unknown_extensions: Callable[[str], bool] = lambda _: False
    """Whether a profile passes extensions that the gateway does not know."""


class TransportOwner(ConnectionListener, Protocol):
    """Supervises a transport and takes what its connections report."""

    def on_draining(self, connection: Connection, reason: str) -> None:
        """Nothing new can be sent over a connection; open calls may still be answered."""

    def on_session_renewed(self, connection: Connection) -> None:
        """The server had lost the session, and a new one was opened on the same connection."""

    def on_gap(self, connection: Connection) -> None:
        """Notifications may have been lost: there was no stream to receive them on."""

    def on_stderr(self, lines: list[str]) -> None: ...

    def on_timeout(self, timeout: Timeout) -> None: ...

    def tool_annotations(self, tool: str) -> Annotations:
        """Which arguments of a tool are repeated in header fields."""

    def is_repeatable(self, tool: str) -> bool | None:
        """Whether the server says that calling a tool twice is as good as once; None: no word."""

    def refresh_tools(self, then: Callable[[], None]) -> None:
        """Read the tools again because what is known of them is outdated, then call back."""


class UpstreamTransport(Protocol):
    """Opens connections to one server, one at a time."""

    @property
    def transport_name(self) -> str:
        """As in the configuration, as far as it is known."""

    @property
    def current_connection(self) -> Connection | None:
        """The latest connection, even before its handshake is done."""

    @property
    def child(self) -> ChildProcess | None:
        """The server process, if there is one."""

    @property
    def noise(self) -> str | None:
        """What the server sent instead of MCP, in a sentence."""

    async def open(self) -> Connection:
        """Open a connection and perform the handshake.

        Raises:
            HandshakeFailed: the server cannot be used; the text says why.
        """

    async def clean_up(self) -> None:
        """Release the resources of a connection that has ended."""

    async def suspend(self, reason: str) -> None:
        """Close an idle connection in good order; another may be opened later."""

    async def stop(self, reason: str) -> None:
        """Close everything for good; an `open` in progress fails."""

    def redact_reason(self, reason: str) -> str:
        """A reason that clients may read: without secrets and file paths."""
