"""The servers of a gateway: created, replaced and stopped, and what becomes of their events."""

import asyncio
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from anyport.config.model import ServerConfig
from anyport.gateway.calls.call import Call
from anyport.gateway.calls.call_table import uses_connection
from anyport.gateway.identity import IDENTITY
from anyport.gateway.tasks.tasks import TASK_NOTIFICATIONS
from anyport.protocol.errors import Timeout
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era
from anyport.record.event import MetadataValue
from anyport.record.rate_limit import RateLimiter
from anyport.upstream.connection import Connection, Noise, OwnRequest
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.list_cache import ListCache
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer
from anyport.upstream.pool import SESSION_ENDED
from anyport.upstream.server import Server
from anyport.upstream.stdio.process import (
    GRACE_SECONDS_MAX,
    TERMINATE_SECONDS_MAX,
    ProcessSpawner,
)
from anyport.upstream.transport import UpstreamContext
from anyport.wire.jsonrpc import Notification, Request

if TYPE_CHECKING:
    from anyport.gateway.gateway import Gateway
    from anyport.gateway.relay import Relay

KILLED_REASON: Final = (
    f"it did not exit within {GRACE_SECONDS_MAX + TERMINATE_SECONDS_MAX:g} s of being asked to, "
    "and was killed"
)

STDERR_EVENTS_PER_SECOND_MAX: Final = 10
"""Lines of one server's stderr that the journal records; the rest stay in memory only."""

STOP_SECONDS_MAX: Final = 10.0
"""Longest shutdown of all servers: two grace periods and a kill take less."""

RETIRED_POLL_SECONDS: Final = 0.25
"""Interval of checking whether a removed server has finished its calls."""


class ServerRegistry:
    """All servers: those of the configuration, new ones of a reload, and removed ones."""

    def __init__(self, gateway: "Gateway", list_cache: ListCache) -> None:
        self.process_spawner = ProcessSpawner()
        self.servers: dict[str, Server] = {}
        """The servers of the configuration, by slug. This mapping is never replaced."""
        self.events = ServerEvents(gateway, list_cache)
        self._gateway = gateway
        self._clock = gateway.clock
        self._list_cache = list_cache
        self._all_servers: set[Server] = set()
        """Every server that is not stopped yet."""
        self._context = UpstreamContext(
            clock=gateway.clock,
            spawner=self.process_spawner,
            client_info=IDENTITY,
            redact=gateway.redact,
            memory_budget=gateway.admission.memory_budget,
            scheduler=gateway.scheduler,
            is_transparent=gateway.is_transparent,
            passes_unknown_extensions=gateway.passes_unknown,
            single_client=gateway.sole,
            has_several_principals=gateway.has_several_principals,
        )

    def make(
        self, configs: Iterable[ServerConfig], transparent_slugs: Container[str] = ()
    ) -> dict[str, Server]:
        """Make servers that are not started yet, with their last known lists.

        Servers of transparent profiles never have their lists read.
        """
        servers = {config.slug: Server(config, self._context, self.events) for config in configs}
        for server in servers.values():
            self._all_servers.add(server)
            server.reads_lists = server.slug not in transparent_slugs
            self._list_cache.restore(server, self._clock.now())
        return servers

    def discard(self, servers: Iterable[Server]) -> None:
        """Stop servers that were made for a reload that did not happen."""
        for server in servers:
            self._clock.spawn(self._stop_server(server), f"stop {server.slug}")

    def replace(self, servers: Mapping[str, Server]) -> None:
        """Replace the servers of the configuration; removed ones stop after their open calls."""
        removed = [server for server in self.servers.values() if server not in servers.values()]
        self.servers.clear()
        self.servers.update(servers)
        for server in removed:
            self._clock.spawn(self._retire(server), f"retire {server.slug}")

    async def stop(self) -> None:
        """Stop all servers, within a time limit."""
        all_servers = tuple(self._all_servers)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await asyncio.gather(*(server.stop() for server in all_servers))

    async def _retire(self, server: Server) -> None:
        # Open calls end under the configuration that they began with. Each has a timeout of its
        # own, which progress may extend up to this limit.
        deadline = self._clock.monotonic() + server.config.timeout_seconds_max
        while self._gateway.relay.is_in_use(server) and self._clock.monotonic() < deadline:
            await asyncio.sleep(RETIRED_POLL_SECONDS)
        await self._stop_server(server)
        self.events.on_retired(server)

    async def _stop_server(self, server: Server) -> None:
        await server.stop("it is no longer in the configuration")
        self._all_servers.discard(server)


class ServerEvents:
    """Listens to servers, and passes what they report to the parts of the gateway it concerns."""

    def __init__(self, gateway: "Gateway", list_cache: ListCache) -> None:
        self._gateway = gateway
        self._list_cache = list_cache
        self._stderr_rate_limit = RateLimiter(STDERR_EVENTS_PER_SECOND_MAX)

    def on_timeout(self, server: Server, timeout: Timeout) -> None:
        """Count a timeout; whatever fails because of it is recorded on its own."""
        self._gateway.metrics.count_timeout(timeout)
        if timeout is Timeout.KILL:
            self._gateway.note(
                "gateway.backend_stopped",
                "timeout",
                error_message=KILLED_REASON,
                **_timeout_fields(server.slug, timeout),
            )

    def on_lists_read(self, server: Server, changed: frozenset[OfferKind]) -> None:
        """Save lists that were read, and show them in every profile with that server."""
        self._list_cache.save_if_changed(server)
        self._refresh(server if changed else None)

    def on_connection_lists_read(self, server: Server, *, changed: bool) -> None:
        """Lists of a single connection were read, or dropped with the connection."""
        local_methods = self._gateway.local_methods
        for profile in self._gateway.profiles.values() if changed else ():
            if server.slug in profile.servers:
                local_methods.refresh_variants(profile)
        local_methods.on_lists_settled()

    def on_session_moved(self, server: Server, session: str) -> None:
        """From now on a session uses another connection: move what depends on that."""
        moved = self._gateway.notifications.sessions.get(session)
        if moved is None:
            return
        if moved.subscriptions:
            self._gateway.resource_subscriptions.sync([server])
        profile = self._gateway.profiles.get(moved.profile)
        if profile is not None and profile.has_variants:
            self._gateway.local_methods.refresh_variants(profile)

    def on_connection_ready(self, server: Server, key: LeaseKey) -> None:
        """A connection is ready: bring the new process or session up to date."""
        gateway, supervisor = self._gateway, server.supervisors.get(key)
        # A server of both eras may speak one over this connection and the other over the first.
        peer = server.peer if supervisor is None else supervisor.peer
        if peer is not None and server.main is not None:
            gateway.note(
                "gateway.backend_started",
                server=server.slug,
                era=peer.revision.era.value,
                revision=peer.revision.name,
                transport=server.transport,
                restarts=server.main.restarts,
            )
        if supervisor is not None and supervisor.restarts and supervisor.peer is not None:
            gateway.notifications.on_server_restarted(server, key, supervisor.peer)
        if supervisor is not None and supervisor.connection is not None:
            gateway.metrics.start_lifetime(supervisor.connection)
        # The server knows nothing of what was set or asked over the connection before this one.
        gateway.local_methods.forward_log_level(server)
        gateway.relay.tasks.on_session_renewed(server, key)
        gateway.local_methods.transparent_subscriptions.on_connection_renewed(server, key)
        gateway.server_requests.on_session_renewed(server, key)
        gateway.resource_subscriptions.resubscribe(server, key)

    def on_list_changed(
        self, server: Server, key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        """Pass a list change on to transparent clients; others wait until the list was read."""
        subscriptions = self._gateway.local_methods.transparent_subscriptions
        if not subscriptions.on_notification(connection, notification):
            self._gateway.notifications.on_list_changed(server, key, notification.method)

    def on_connection_failed(self, server: Server, reason: str) -> None:
        """A connection broke, or could not be opened."""
        self._gateway.memory.request_collection()
        self._gateway.metrics.count_restart(server.slug)
        timeout = server.timeout_of(reason)
        fields: dict[str, MetadataValue] = {"server": server.slug}
        if timeout is not None:
            fields = _timeout_fields(server.slug, timeout)
        self._gateway.note(
            "gateway.backend_failed",
            "failure" if timeout is None else "timeout",
            error_message=reason,
            transport=server.transport,
            restarts=0 if server.main is None else server.main.restarts,
            **fields,
        )
        self._refresh(None)

    def on_ejected(self, server: Server, reason: str, failures: int, seconds: float) -> None:
        """The circuit breaker of a server has opened."""
        self._gateway.note(
            "gateway.backend_ejected",
            "failure",
            error_message=reason,
            server=server.slug,
            failures=failures,
            seconds=round(seconds, 3),
            reason=reason,
        )

    def on_restored(self, server: Server, seconds: float) -> None:
        """The circuit breaker of a server has closed."""
        ejected_seconds = round(seconds, 3)
        self._gateway.note("gateway.backend_restored", server=server.slug, seconds=ejected_seconds)

    def on_connection_closed(self, server: Server, reason: str) -> None:
        """A connection was closed in good order."""
        self._gateway.memory.request_collection()
        shown_reason = "session ended" if reason == SESSION_ENDED else reason
        self._gateway.note("gateway.backend_stopped", server=server.slug, reason=shown_reason)

    def on_idle_stop(self, server: Server, seconds: float) -> None:
        """A connection was closed by the idle timeout."""
        self._gateway.memory.request_collection()
        self._gateway.note("gateway.backend_idle", server=server.slug, seconds=seconds)

    def is_relied_on(self, server: Server, key: LeaseKey, connection: Connection | None) -> bool:
        return is_connection_in_use(self._gateway, server, key, connection)

    def on_retired(self, server: Server) -> None:
        """A removed server has finished its calls and was stopped."""
        self._gateway.memory.request_collection()
        reason = "no longer in the configuration"
        self._gateway.note("gateway.backend_stopped", server=server.slug, reason=reason)

    def on_request(
        self, server: Server, key: LeaseKey, connection: Connection, request: Request
    ) -> None:
        self._gateway.server_requests.on_request(server, key, connection, request)

    def on_notification(
        self, server: Server, key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        """Route a notification; it is recorded on its own unless it belongs to a call."""
        gateway = self._gateway
        subscriptions = gateway.local_methods.transparent_subscriptions
        if subscriptions.on_notification(connection, notification):
            return
        if notification.method == "notifications/cancelled":
            gateway.server_requests.on_cancelled(connection, notification)
        elif notification.method in TASK_NOTIFICATIONS:
            gateway.relay.tasks.on_status(server, connection, notification.params or b"{}")
        elif gateway.notifications.on_server_notification(
            server, key, notification, connection.related_call
        ):
            return
        gateway.message_recorder.record_server_message(server, notification)

    def on_connection_lost(self, server: Server, connection: Connection) -> None:
        self._gateway.metrics.end_connection(connection, server.slug)
        self._gateway.server_requests.on_connection_lost(connection)
        self._gateway.relay.tasks.on_connection_lost(connection)

    def on_noise(self, server: Server, noise: Noise, reason: str) -> None:
        """Record output that is not MCP, or answers nothing."""
        self._gateway.message_recorder.record_noise(server, noise, reason)

    def on_own_request(
        self,
        server: Server,
        peer: Peer | None,
        request: OwnRequest,
        answer: Answer,
        seconds: float,
    ) -> None:
        """Record a request of the gateway's own, such as a list or a handshake."""
        self._gateway.message_recorder.record_own_request(server, peer, request, answer, seconds)

    def _refresh(self, changed: Server | None) -> None:
        """Show lists that were read, and those that were withheld until a server had failed."""
        local_methods = self._gateway.local_methods
        for profile in self._gateway.profiles.values():
            is_affected = changed is not None and changed.slug in profile.servers
            if is_affected or profile.outdated:
                local_methods.refresh(profile)
        local_methods.on_lists_settled()

    def on_stderr(self, server: Server, lines: list[str]) -> None:
        """Record what a server wrote to stderr; no client gets it."""
        now = self._gateway.clock.monotonic()
        allowed_count = self._stderr_rate_limit.acquire(server.slug, len(lines), now)
        for line in lines[:allowed_count]:
            self._gateway.note(
                "gateway.stderr", method="notifications/stderr", server=server.slug, line=line
            )


def _timeout_fields(slug: str, timeout: Timeout) -> dict[str, MetadataValue]:
    return {"server": slug, "timeout": timeout.value}


# Connections in use.
#
# An idle server may be stopped, and is started again by the next call. A connection without a call
# is still in use while a user answers a question of its server, while a client is subscribed to one
# of its resources, and while the server works on a task. Interest in list changes does not count: a
# client gets those when the server runs again.


def is_connection_in_use(
    gateway: "Gateway", server: Server, key: LeaseKey, connection: Connection | None
) -> bool:
    """Whether stopping the server behind a connection would cost a client something."""
    return (
        _has_open_call(gateway.relay, server, key)
        or _has_open_task(gateway.relay, server, key, connection)
        or (connection is not None and gateway.server_requests.has_open(connection))
        or bool(gateway.notifications.subscribed_uris(server, key))
    )


def _has_open_call(relay: "Relay", server: Server, key: LeaseKey) -> bool:
    return any(
        isinstance(call, Call) and uses_connection(server, key, call.exchange)
        for call in relay.calls.at_server(server)
    )


def _has_open_task(
    relay: "Relay", server: Server, key: LeaseKey, connection: Connection | None
) -> bool:
    """A legacy task belongs to its own connection, a modern one to the first."""
    now = relay.clock.steady_now()
    return any(
        handle.server is server
        and not handle.task.is_terminal
        and now < handle.expires_at
        and (
            key == server.key_of("", handle.caller.principal)
            if handle.era is Era.MODERN
            else connection is not None and handle.connection is connection
        )
        for handle in relay.tasks.handles
    )
