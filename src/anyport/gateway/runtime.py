"""The running gateway: owns the servers, the record and every task; starts and stops them.

It is what fronts call and what servers report to. It decides little itself: each matter has its
own file beside this one.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from anyport import __version__
from anyport.config.schema import Config, ServerConfig
from anyport.gateway.cache import ListCache
from anyport.gateway.deadlines import SWEEP_SECONDS, Deadlines
from anyport.gateway.describe import IDENTITY, describe
from anyport.gateway.desk import Desk, Means
from anyport.gateway.events import Events
from anyport.gateway.feed import Feed
from anyport.gateway.interest import Interest
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Ledger
from anyport.gateway.memory import Memory
from anyport.gateway.metrics import Metrics
from anyport.gateway.mishap import mishap
from anyport.gateway.profile import Profile
from anyport.gateway.questions import Questions
from anyport.gateway.relay import Relay, World
from anyport.gateway.status import gateway_status
from anyport.gateway.tasks import ABOUT_TASKS
from anyport.gateway.tools import GATEWAY_TOOLS
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Caller, Exchange, Failed, Session
from anyport.protocol.legacy_front import Description
from anyport.protocol.method import Kind
from anyport.protocol.seal import Seal
from anyport.record.event import EventType, MetadataValue, Status
from anyport.record.journal import Journal
from anyport.record.keys import load_keys
from anyport.record.ration import Ration
from anyport.record.redact import Redactor
from anyport.upstream.connection import Connection
from anyport.upstream.environment import child_environment
from anyport.upstream.process import Warden
from anyport.upstream.road import Surroundings
from anyport.upstream.server import LeaseKey, Server, Setting
from anyport.wire import members
from anyport.wire.frame import Notification, Request

ASLEEP: Final = frozenset({"server/discover", "ping"})
"""What a client may ask before it is known to stay: no server is started for it."""

STDERR_EVENTS_PER_SECOND_MAX: Final = 10
"""Lines of one server's stderr that the journal keeps; the rest stay in the ring only."""

MEMORY_SECONDS: Final = 0.1
"""When the allocator is set up: not while a client waits for the first answer."""

STOP_SECONDS_MAX: Final = 10.0
"""Servers that are asked to stop have all gone by then: two graces and a kill."""


class Gateway:
    """One gateway process."""

    def __init__(self, config: Config, state_dir: Path, *, sole: bool) -> None:
        self.config = config
        self.metrics = Metrics(time.monotonic)
        self.draining = False
        self._redact = Redactor(
            {secret for server in config.servers.values() for secret in server.secrets}
        )
        self.journal = Journal(
            state_dir,
            source="anyport",
            clock=time.time,
            redact=self._redact,
            on_pending=self._journal_pending,
        )
        self._trace_id = os.urandom(16).hex()
        self._cache = ListCache(state_dir)
        self.events = Events(state_dir, self.journal)
        self._deadlines = Deadlines()
        self._memory = Memory()
        self._group = asyncio.TaskGroup()
        self._awake: set[str] = set()
        """Sessions whose servers have been started; an empty name for callers without one."""
        self._stderr_ration = Ration(STDERR_EVENTS_PER_SECOND_MAX)
        self.warden = Warden()
        self.servers = self._make_servers(sole)
        self.profiles = {
            slug: Profile(profile, self.servers, GATEWAY_TOOLS)
            for slug, profile in config.profiles.items()
        }
        # Ids must be unlikely to meet again, not impossible to guess; this is no system call.
        chance = random.Random(os.urandom(32)).randbytes
        self._ledger = Ledger(self.journal, time.monotonic, chance, self.metrics)
        self._leases = Leases(self._later, sole=sole)
        keys, self.keys_warning = load_keys(state_dir, os.urandom)
        self.seal = Seal(keys)
        self._deadlines.on_wake = self._sweep_later
        world = self._world()
        self.relay = Relay(self.profiles, self._ledger, self._deadlines, self._leases, world)
        self.again = self.relay.again
        """What fronts call for a call that was made before."""
        self.feed = Feed(self.profiles, self.relay.open_exchanges, self.relay.parks.away)
        self._interest = Interest(self.feed, self._later)
        self._questions = Questions(self.feed.sessions, self.relay, self._later)
        self._desk = Desk(self.relay, self.feed, self._interest, self._means())
        self.relay.desk = self._desk

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._later(MEMORY_SECONDS, self._memory.give_back)
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        servers = sorted(self.servers)
        self._note("gateway.started", version=__version__, pid=os.getpid(), servers=servers)
        for server in self.servers.values():
            self._registered(server)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.relay.tasks.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await asyncio.gather(*(server.stop() for server in self.servers.values()))
        for server in self.servers.values():
            if server.tenders:
                self._note("gateway.backend_stopped", server=server.slug, reason="gateway stopped")
        await self.warden.close()
        # Every task ends with its server. What ended us is our caller's to see, not the group's,
        # which would wrap it and leave the journal open.
        await self._group.__aexit__(None, None, None)
        reason = "interrupted" if kind or self.draining else "end of input"
        self._note("gateway.stopped", reason=reason)
        self.events.close()
        self.journal.close()

    # What fronts call.

    @property
    def identity(self) -> bytes:
        """Our `serverInfo`."""
        return IDENTITY

    def begin(self, exchange: Exchange) -> None:
        """Take an exchange to its ending."""
        if exchange.method.name not in ASLEEP:
            self.wake(exchange.caller)
        try:
            self.relay.begin(exchange)
        except members.Ambiguous as error:
            exchange.end(Failed(invalid_params(f"Invalid params: {error}")))
        except Exception as error:  # noqa: BLE001 - whatever breaks, the caller gets an answer
            self.relay.broke(exchange, error)

    def describe(self, profile: str) -> Description:
        """How the gateway presents itself, known without waiting."""
        found = self.profiles[profile]
        instructions = {slug: server.instructions for slug, server in found.servers.items()}
        extensions, transparent = found.extensions, found.transparent
        return describe(found.config, instructions, extensions, transparent=transparent)

    def status(self, profile: Profile) -> dict[str, Any]:
        """How the gateway and the servers of a profile are doing."""
        return gateway_status(
            profile,
            self.journal,
            uptime_seconds=self.metrics.uptime_seconds,
            debug=bool(os.environ.get("ANYPORT_DEBUG")),
        )

    def opened(self, session: Session) -> None:
        """A legacy session was opened."""
        self.feed.opened(session)
        self._ledger.opened(session, self._trace_id)
        self.wake(
            Caller(
                profile=session.profile,
                session=session,
                revision=session.revision,
                capabilities=session.capabilities,
            )
        )

    def closed(self, session: Session) -> None:
        """A legacy session has ended."""
        self.feed.closed(session)
        self._awake.discard(session.id)
        self._leases.forget(session.id)
        for server in self.profiles[session.profile].servers.values():
            server.drop(session.id)
            self._interest.forget(server, session)
        cancelled = (task := asyncio.current_task()) is not None and task.cancelling()
        reason = "interrupted" if cancelled or self.draining else session.parting
        self._ledger.closed(session, self._trace_id, reason)

    def heard(self, session: Session | None, notification: Notification) -> None:
        """A client's notification, for the servers that its session has to itself."""
        if session is None:
            return
        profile = self.profiles[session.profile]
        if notification.method != "notifications/roots/list_changed" and not profile.transparent:
            return
        for server in profile.servers.values():
            for key, connection in server.connections():
                if key.owner == session.id:
                    connection.notify(notification.method, notification.params)

    def wake(self, caller: Caller) -> None:
        """Start the servers, side by side, when the first client has said what it can do."""
        awake = "" if caller.session is None else caller.session.id
        if awake in self._awake:
            return
        self._awake.add(awake)
        for server in self.profiles[caller.profile].servers.values():
            if caller.session is not None or server.main is None:
                server.lease(self._leases.key(server.config.scope, caller), lambda _: None)

    # What servers report.

    def listed(self, server: Server, changed: frozenset[Kind]) -> None:
        """A server's lists were read."""
        self._cache.keep(server)
        for profile in self.profiles.values():
            if changed and server.slug in profile.servers and (visible := profile.refresh()):
                self.feed.lists_changed(profile, visible)
        self._desk.lists_settled()

    def started(self, server: Server, key: LeaseKey) -> None:
        """A connection to a server is ready."""
        peer, main = server.peer, server.main
        if peer is not None and main is not None:
            self._note(
                "gateway.backend_started",
                server=server.slug,
                era=peer.revision.era.value,
                revision=peer.revision.name,
                transport=server.transport,
                restarts=main.restarts,
            )
        self._desk.pass_level(server)
        self.relay.tasks.renewed(server, key)
        self._interest.restore(server, key)

    def failed(self, server: Server, reason: str) -> None:
        """A server broke, or could not be started."""
        self.metrics.restarted(server.slug)
        self._note(
            "gateway.backend_failed",
            "failure",
            error_message=reason,
            server=server.slug,
            transport=server.transport,
            restarts=0 if server.main is None else server.main.restarts,
        )
        self._desk.lists_settled()

    def stopped(self, server: Server) -> None:
        """A connection was closed because its session has ended."""
        self._note("gateway.backend_stopped", server=server.slug, reason="session ended")

    def asked(self, server: Server, key: LeaseKey, line: Connection, request: Request) -> None:
        """A server asks something."""
        self._questions.asked(server, key, line, request)

    def told(
        self, server: Server, key: LeaseKey, line: Connection, notification: Notification
    ) -> None:
        """A server says something on its own."""
        if notification.method == "notifications/cancelled":
            self._questions.withdrawn(line, notification)
        elif notification.method in ABOUT_TASKS:
            self.relay.tasks.told(server, line, notification.params or b"{}")
        else:
            self.feed.told(server, key, notification, line.about)

    def lost(self, server: Server, line: Connection) -> None:
        """A connection has ended."""
        self._questions.lost(line)
        self.relay.tasks.lost(line)

    def wrote(self, server: Server, lines: list[str]) -> None:
        """A server wrote to its stderr: it goes into the record, never to a client."""
        for text in lines[: self._stderr_ration.take(server.slug, len(lines), time.monotonic())]:
            self._note(
                "gateway.stderr", method="notifications/stderr", server=server.slug, line=text
            )

    def report(self, error: BaseException) -> None:
        """Say on stderr that something broke which should not have."""
        sys.stderr.write(f"anyport: internal error: {self._redact(mishap(error))}\n")

    def _make_servers(self, sole: bool) -> dict[str, Server]:
        setting = Setting(
            surroundings=self._surroundings,
            spawn=self.spawn,
            later=self._later,
            client_info=IDENTITY,
            clock=time.monotonic,
            sole=sole,
        )
        servers = {
            slug: Server(config, setting, self) for slug, config in self.config.servers.items()
        }
        for server in servers.values():
            self._cache.recall(server, time.time())
        return servers

    def _world(self) -> World:
        return World(
            clock=time.monotonic,
            report=self.report,
            later=self._later,
            now=time.time,
            seal=self.seal,
            spawn=self.spawn,
        )

    def _means(self) -> Means:
        return Means(
            status=self.status,
            events=self.events.query,
            describe=self.describe,
            spawn=self.spawn,
            later=self._later,
            list_seconds=self.config.gateway.list_seconds,
            cursor_key=os.urandom(16),
        )

    def _surroundings(self, config: ServerConfig) -> Surroundings:
        return Surroundings(
            warden=self.warden,
            environ=child_environment(os.environ, config.env),
            redact=self._redact,
            clock=time.monotonic,
            chance=lambda: int.from_bytes(os.urandom(2)) / 0xFFFF,
        )

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a task that ends before the gateway does; what it raises is reported."""
        self._group.create_task(self._guarded(work), name=name)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - one task's fault must not end the others
            self.report(error)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What breaks in a callback of the loop; everything else goes on."""
        self.report(context.get("exception") or RuntimeError(str(context.get("message"))))

    def _later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, act)

    def _sweep_later(self) -> None:
        self._later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        try:
            self._deadlines.sweep(time.monotonic())
        finally:
            self._deadlines.asleep = not self._deadlines.terms
            if self._deadlines.asleep:
                self._memory.give_back()
            else:
                self._sweep_later()

    def _registered(self, server: Server) -> None:
        about = {} if server.obstacle is None else {"reason": server.obstacle}
        transport = server.transport
        self._note("gateway.backend_registered", server=server.slug, transport=transport, **about)

    def _journal_pending(self) -> None:
        asyncio.get_running_loop().call_soon(self.journal.flush)

    def _note(
        self,
        event: EventType,
        status: Status = "success",
        /,
        *,
        error_message: str | None = None,
        **metadata: MetadataValue,
    ) -> None:
        self.journal.note(
            event, status, trace_id=self._trace_id, metadata=metadata, error_message=error_message
        )
