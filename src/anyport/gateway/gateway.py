"""The gateway: composes all parts, and starts and stops them.

Client adapters call it, and servers report to it. It decides little itself: each matter has a
module of its own.
"""

import asyncio
import os
import random
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from anyport import __version__
from anyport.clock import Clock, describe_error
from anyport.config.model import Config
from anyport.gateway.calls.admission import Admission
from anyport.gateway.calls.leases import Leases
from anyport.gateway.elicitation.server_requests import ServerRequests
from anyport.gateway.hooks.hooks import Hooks
from anyport.gateway.identity import IDENTITY, describe_gateway, server_info_of
from anyport.gateway.local.client_notifications import (
    forward_notification,
    reach_shared_connection,
    reach_sole_client,
)
from anyport.gateway.local.event_queries import EventQueries
from anyport.gateway.local.gateway_tools import GATEWAY_TOOLS
from anyport.gateway.local.methods import LocalMethods
from anyport.gateway.local.notifications import Notifications
from anyport.gateway.local.resource_subscriptions import ResourceSubscriptions
from anyport.gateway.memory import MemoryAllocator, MemoryPressure, find_memory_gauges
from anyport.gateway.profile import Profile
from anyport.gateway.recording.call_recorder import CallRecorder
from anyport.gateway.recording.maintenance import MAINTENANCE_SECONDS, RecordMaintenance
from anyport.gateway.recording.messages import MessageRecorder
from anyport.gateway.relay import Relay
from anyport.gateway.reload import Reload
from anyport.gateway.servers import ServerRegistry
from anyport.gateway.status import gateway_status
from anyport.observe.call_events import record_conflicts
from anyport.observe.metrics import Metrics
from anyport.observe.telemetry import Telemetry
from anyport.observe.trace_context import IdGenerator
from anyport.protocol.adapters.client import UnroutedMessage
from anyport.protocol.adapters.legacy_client import GatewayDescription
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Caller, Exchange, Failed, Session
from anyport.protocol.methods import Method, unknown_method
from anyport.protocol.scheduler import FairScheduler
from anyport.protocol.sealing import Seal
from anyport.record.capture import TrafficCapture
from anyport.record.event import EventType, MetadataValue, Status
from anyport.record.journal.journal import Journal
from anyport.record.journal.payloads import PayloadWriter
from anyport.record.redact.escape import make_printable
from anyport.record.redact.outline import PayloadDigests
from anyport.record.redact.redactor import Redactor
from anyport.record.tamper.keys import load_keys
from anyport.upstream.lease_key import SHARED
from anyport.upstream.list_cache import ListCache
from anyport.upstream.server import Server
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure, Notification, Result

NO_START_METHODS: Final = frozenset({"server/discover", "ping"})
"""Methods that start no server: a client may only be looking."""

INTERRUPTED: Final = "interrupted"
HANDED_OVER: Final = "handed over"

MEMORY_SETUP_SECONDS: Final = 0.1
"""When the allocator is set up: not while a client waits for its first answer."""


class Gateway:
    """One gateway process."""

    draining = False
    """Whether it only finishes the requests that it has."""
    stop_reason = INTERRUPTED
    """Why it stops, unless its input has ended."""
    _is_stopping = False

    def __init__(self, config: Config, state_dir: Path, *, sole: bool) -> None:
        self.config = config
        self.clock = Clock(self.report_error)
        self.metrics = Metrics(self.clock.monotonic)
        self.sole = sole
        self.redact = Redactor(config.secrets, config.record.redact_keys)
        self.journal = Journal(
            state_dir,
            source="anyport",
            now=self.clock.now,
            redact=self.redact,
            on_pending=self._journal_pending,
        )
        self._trace_id = self.clock.random_bytes(16).hex()
        self.events = EventQueries(state_dir, self.journal)
        self.memory = MemoryAllocator()
        pressure = MemoryPressure(find_memory_gauges, self.memory.collect)
        self.admission = Admission(config.gateway, pressure)
        self.scheduler = FairScheduler(asyncio.get_running_loop(), time.thread_time)
        self._started_for: dict[str, Caller] = {}
        """The first caller of each session, by session id; "" for callers without one."""
        self.server_registry = ServerRegistry(self, ListCache(state_dir))
        self.process_spawner, self.servers = (
            self.server_registry.process_spawner,
            self.server_registry.servers,
        )
        self.servers.update(
            self.server_registry.make(config.servers.values(), config.transparent_servers)
        )
        self.profiles: dict[str, Profile] = {
            slug: Profile(profile, self.servers, GATEWAY_TOOLS)
            for slug, profile in config.profiles.items()
        }
        # Ids must be unique, not impossible to guess: this saves a system call for each.
        ids = IdGenerator(random.Random(os.urandom(32)).randbytes)
        keys, self.keys_warning = load_keys(state_dir, self.clock.random_bytes)
        self.seal = Seal(keys)
        payloads = PayloadWriter(state_dir, self.journal.writer, self.clock.now)
        digests = PayloadDigests(keys[-1])
        self.capture = TrafficCapture(config, self.redact, payloads, digests, self.clock.soon)
        self.message_recorder = MessageRecorder(
            self.journal, self.capture, ids, self.clock.monotonic, self._trace_id
        )
        self._call_recorder = CallRecorder(
            self.journal, self.clock, ids, self.metrics, self.capture
        )
        self.telemetry = Telemetry(config.telemetry, os.environ, self.clock, self._tell_operator)
        self._call_recorder.trace_share = self.telemetry.sample_ratio
        self.leases = self._make_leases()
        self.relay = Relay(
            self.profiles,
            self._call_recorder,
            self.leases,
            self.admission,
            self.seal,
            self.clock,
        )
        self.relay.calls.on_idle = self.memory.return_idle
        self.prepare_fast_call = self.relay.prepare_fast_call
        self.notifications = Notifications(self.profiles, self.relay.calls)
        self.resource_subscriptions = ResourceSubscriptions(self.notifications, self.clock)
        self.server_requests = self._make_server_requests()
        self.local_methods = LocalMethods(
            self, self.relay, self.notifications, self.resource_subscriptions
        )
        self.relay.tasks.notifications = self.notifications
        self.relay.local_methods = self.local_methods
        self.hooks = Hooks(self, state_dir)
        self.maintenance = RecordMaintenance(
            state_dir, config.record, self.journal, self.note, self.clock
        )
        self.reload = Reload(self)
        self.reload.listeners.append(lambda config: self.admission.apply_config(config.gateway))

    async def __aenter__(self) -> Self:
        await self.clock.start()
        self._start_durability()
        self.clock.later(MEMORY_SETUP_SECONDS, self.memory.return_idle)
        self.telemetry.start(self.journal, self.metrics)
        self.hooks.replace(self.config.hooks, self.config.gateway.hooks_match)
        self.clock.later(MAINTENANCE_SECONDS if self.sole else 0, self._start_maintenance)
        servers = sorted(self.servers)
        self.note("gateway.started", version=__version__, pid=os.getpid(), servers=servers)
        for server in self.servers.values():
            self._record_registered(server)
        for profile in self.profiles.values():
            record_conflicts(profile.slug, profile.take_conflicts(), self.note)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_stopping = True
        await self.hooks.stop()
        self.relay.tasks.stop()
        self.relay.parked_calls.stop()
        running = [server.slug for server in self.servers.values() if server.up]
        await self.server_registry.stop()
        for slug in running:
            self.note("gateway.backend_stopped", server=slug, reason="gateway stopped")
        await self.process_spawner.close()
        await self.clock.stop()  # Every task ends with its server.
        reason = self.stop_reason if kind or self.draining else "end of input"
        self.note("gateway.stopped", reason=reason)
        self.hooks.close()
        await self.telemetry.close()
        self.events.close()
        self.journal.close()
        self.capture.payloads.close()
        await self.maintenance.finish()

    # For client adapters.

    def server_info(self, profile: str) -> bytes:
        """The `serverInfo` in results of a profile."""
        found = self.profiles.get(profile)  # A reload may have removed it during a call.
        return IDENTITY if found is None else server_info_of(found)

    def find_unknown_method(self, caller: Caller, method: str) -> Method | None:
        """A row for a method that no revision has, if a server of the profile may know it."""
        if self.is_transparent(caller.profile):
            return unknown_method(method)
        may_agree = caller.capabilities.unknown and self.passes_unknown(caller.profile)
        return unknown_method(method) if may_agree else None

    def is_transparent(self, profile: str) -> bool:
        found = self.profiles.get(profile)
        return found is not None and found.config.transparent

    def passes_unknown(self, profile: str) -> bool:
        found = self.profiles.get(profile)
        return found is not None and found.config.passes_unknown

    def has_several_principals(self) -> bool:
        """Whether two or more principals are configured."""
        return not self.sole and len(self.config.gateway.tokens) > 1

    def _session_passes_unknown(self, session: Session) -> bool:
        found = self.profiles.get(session.profile)
        return found is not None and found.passes_unknown(session.capabilities)

    def begin(self, exchange: Exchange) -> None:
        """Start the servers, if that was not done yet, and relay a request."""
        if exchange.method.name not in NO_START_METHODS:
            self.start_servers_for(exchange.caller)
        try:
            self.relay.begin(exchange)
        except raw_json.AmbiguousObject as error:
            exchange.end(Failed(invalid_params(f"Invalid params: {error}")))
        except Exception as error:  # noqa: BLE001 - whatever breaks, the caller gets an answer
            self.relay.on_internal_error(exchange, error)

    def describe(self, profile: str) -> GatewayDescription | None:
        """The gateway's answer to a handshake; None if the server of the profile answers."""
        found = self.profiles[profile]
        if found.config.transparent:
            return None
        instructions = {slug: server.instructions for slug, server in found.servers.items()}
        extensions, offered, transparent = (
            found.extensions,
            found.offered_capabilities,
            found.transparent,
        )
        return describe_gateway(
            found.config, instructions, extensions, offered, transparent=transparent
        )

    def status(self, profile: Profile) -> dict[str, Any]:
        """The status of the gateway and of a profile's servers."""
        return gateway_status(
            profile,
            self.journal,
            self.hooks,
            self.telemetry,
            uptime_seconds=self.metrics.uptime_seconds,
            debug=bool(os.environ.get("ANYPORT_DEBUG")),
        )

    def on_session_opened(self, session: Session) -> None:
        self.notifications.on_session_opened(session)
        self._call_recorder.on_session_opened(session, self._trace_id)
        self.start_servers_for(
            Caller(
                profile=session.profile,
                session=session,
                revision=session.revision,
                capabilities=session.capabilities,
                principal=session.principal,
                client=session.client,
            )
        )

    def on_session_closed(self, session: Session) -> None:
        self.notifications.on_session_closed(session)
        self._started_for.pop(session.id, None)
        self.leases.forget(session.id)
        for server in self.profiles[session.profile].servers.values():
            server.drop(session.id)
            self.resource_subscriptions.forget(server, session)
        cancelled = (task := asyncio.current_task()) is not None and task.cancelling()
        reason = self.stop_reason if cancelled or self.draining else session.close_reason
        self._call_recorder.on_session_closed(session, self._trace_id, reason)

    def on_notification(self, caller: Caller, notification: Notification) -> None:
        """Forward a client's notification to the servers."""
        profile = self.profiles.get(caller.profile)
        if profile is not None:
            reach_connection = reach_sole_client if self.sole else reach_shared_connection
            forward_notification(profile, caller, notification, reach_connection)

    def record_message(
        self, caller: Caller, message: UnroutedMessage, answer: Result | Failure | None = None
    ) -> None:
        """Record a message that belongs to no exchange."""
        self.message_recorder.record_client_message(caller, message, answer)

    def start_servers_for(self, caller: Caller) -> None:
        """Start the servers of a profile, side by side, for the first request of a session.

        A connection of the session's own is opened by its first call that needs one.
        """
        session_id = "" if caller.session is None else caller.session.id
        if session_id in self._started_for:
            return
        self._started_for[session_id] = caller
        for server in self.profiles[caller.profile].servers.values():
            if server.main is None:
                server.prepare(self.leases.key(server, caller))

    def start_server(self, server: Server, config: Config) -> None:
        """Start a server that a reload has added, if servers of its kind are started already."""
        if not self.sole:
            server.prepare(SHARED)
            return
        for caller in self._started_for.values():
            if server.slug in config.profiles[caller.profile].servers:
                server.prepare(self.leases.key(server, caller))

    def report_error(self, error: BaseException) -> None:
        """Report an error that should not have happened, on stderr."""
        self._tell_operator(f"internal error: {describe_error(error)}")

    def _tell_operator(self, message: str) -> None:
        sys.stderr.write(f"anyport: {make_printable(self.redact(message))}\n")

    def _make_leases(self) -> Leases:
        return Leases(
            self.clock,
            sole=self.sole,
            servers=self.servers.values,
            is_transparent=self.is_transparent,
            passes_unknown=self.passes_unknown,
        )

    def _make_server_requests(self) -> ServerRequests:
        relay = self.relay
        requests = ServerRequests(
            self.notifications.sessions,
            relay.calls,
            relay.parked_calls,
            relay.tasks,
            self.message_recorder,
            self.clock,
        )
        requests.on_timeout = self.metrics.count_timeout
        requests.passes_unknown = self._session_passes_unknown
        return requests

    def _schedule_maintenance(self) -> None:
        self.clock.later(MAINTENANCE_SECONDS, self._start_maintenance)

    def _start_maintenance(self) -> None:
        if not self._is_stopping:
            self.clock.spawn(self._run_maintenance(), "maintain the record")

    async def _run_maintenance(self) -> None:
        try:
            await self.maintenance.run_due()
            await self.events.keep_up(lambda: not self.relay.calls.open)
            self.memory.return_idle()  # A busy gateway never becomes idle.
        finally:
            self._schedule_maintenance()

    def _record_registered(self, server: Server) -> None:
        about = {} if server.disabled_reason is None else {"reason": server.disabled_reason}
        transport = server.transport
        self.note("gateway.backend_registered", server=server.slug, transport=transport, **about)

    def _start_durability(self) -> None:
        durability, loop = self.relay.durability, asyncio.get_running_loop()
        durability.begin(self.config.record, loop, self._tell_operator)
        self.reload.listeners.append(lambda config: durability.apply_config(config.record))

    def _journal_pending(self) -> None:
        self.clock.soon(self.journal.flush)

    def note(
        self,
        event: EventType,
        status: Status = "success",
        /,
        *,
        error_message: str | None = None,
        **metadata: MetadataValue,
    ) -> None:
        self.journal.record(
            event, status, trace_id=self._trace_id, metadata=metadata, error_message=error_message
        )
