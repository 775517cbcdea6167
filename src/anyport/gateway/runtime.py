"""The running gateway: owns the servers, the record and every task; starts and stops them.

It is what fronts call and what servers report to. It decides little itself: each matter has its
own file beside this one.
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
from anyport.config.schema import Config
from anyport.gateway.admission import Admission
from anyport.gateway.asides import Asides
from anyport.gateway.cache import ListCache
from anyport.gateway.chores import Chores
from anyport.gateway.context import Ids
from anyport.gateway.deadlines import SWEEP_SECONDS, Deadlines
from anyport.gateway.describe import IDENTITY, describe
from anyport.gateway.desk import Desk, Means
from anyport.gateway.events import Events
from anyport.gateway.feed import Feed
from anyport.gateway.fleet import Fleet
from anyport.gateway.fleet import Means as FleetMeans
from anyport.gateway.hooks import Hooks
from anyport.gateway.hooks import Means as HookMeans
from anyport.gateway.interest import Interest
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Ledger
from anyport.gateway.memory import Memory
from anyport.gateway.metrics import Metrics
from anyport.gateway.mishap import mishap
from anyport.gateway.pressure import Pressure, find_gauges
from anyport.gateway.profile import Profile
from anyport.gateway.questions import Questions
from anyport.gateway.relay import Relay, World
from anyport.gateway.reload import Reload
from anyport.gateway.reports import Reports
from anyport.gateway.status import gateway_status
from anyport.gateway.tap import Tap
from anyport.gateway.telemetry import Telemetry
from anyport.gateway.tools import GATEWAY_TOOLS
from anyport.gateway.upkeep import LOOK_SECONDS, Upkeep
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Caller, Exchange, Failed, Session
from anyport.protocol.front import Aside
from anyport.protocol.legacy_front import Description
from anyport.protocol.seal import Seal
from anyport.record.event import EventType, MetadataValue, Status
from anyport.record.journal import Journal
from anyport.record.keys import load_keys
from anyport.record.outline import Digests
from anyport.record.payloads import Payloads
from anyport.record.redact import Redactor
from anyport.record.timekeeping import Steady
from anyport.upstream.key import SHARED
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Failure, Notification, Result

ASLEEP: Final = frozenset({"server/discover", "ping"})
"""What a client may ask before it is known to stay: no server is started for it."""

INTERRUPTED: Final = "interrupted"
HANDED_OVER: Final = "handed over"

MEMORY_SECONDS: Final = 0.1
"""When the allocator is set up: not while a client waits for the first answer."""


class Gateway:
    """One gateway process."""

    draining = False
    """Whether it only finishes what it has begun."""
    parting = INTERRUPTED
    """Why it ends, if it does not end by itself."""
    _leaving = False

    def __init__(self, config: Config, state_dir: Path, *, sole: bool) -> None:
        self.config = config
        self.metrics = Metrics(time.monotonic)
        self._sole = sole
        self._chores = Chores(self.report)
        self.spawn, self._later = self._chores.spawn, self._chores.later
        self.redact = Redactor(config.secrets, config.record.redact_keys)
        self.journal = Journal(
            state_dir,
            source="anyport",
            clock=time.time,
            redact=self.redact,
            on_pending=self._journal_pending,
        )
        self._trace_id = os.urandom(16).hex()
        self._cache = ListCache(state_dir)
        self.reports = Reports(self, self._cache)
        self.events = Events(state_dir, self.journal)
        self._deadlines = Deadlines()
        self.memory = Memory()
        pressure = Pressure(find_gauges, self.memory.collect)
        self.admission = Admission(config.gateway, pressure)
        self._awake: dict[str, Caller] = {}
        """Sessions whose servers have been started; an empty name for callers without one."""
        self.fleet = Fleet(self._fleet_means(), self.reports, self._cache)
        self.warden, self.servers = self.fleet.warden, self.fleet.servers
        self.servers.update(self.fleet.make(config.servers.values()))
        self.profiles = {
            slug: Profile(profile, self.servers, GATEWAY_TOOLS)
            for slug, profile in config.profiles.items()
        }
        # Ids must be unlikely to meet again, not impossible to guess; this is no system call.
        ids = Ids(random.Random(os.urandom(32)).randbytes)
        keys, self.keys_warning = load_keys(state_dir, os.urandom)
        self.seal = Seal(keys)
        payloads = Payloads(state_dir, self.journal.writer, time.time)
        self.tap = Tap(config, self.redact, payloads, Digests(keys[-1]))
        self.asides = Asides(self.journal, self.tap, ids, time.monotonic, self._trace_id)
        self._ledger = Ledger(self.journal, time.monotonic, ids, self.metrics, self.tap)
        self.telemetry = Telemetry(config.telemetry, os.environ, time.time, self._say)
        self._ledger.share = self.telemetry.share
        self.leases = Leases(self._later, sole=sole)
        self._deadlines.on_wake = self._sweep_later
        world = self._world()
        self.relay = Relay(self.profiles, self._ledger, self._deadlines, self.leases, world)
        self.again = self.relay.again
        """What fronts call for a call that was made before."""
        self.feed = Feed(self.profiles, self.relay.open_exchanges, self.relay.parks.away)
        self.interest = Interest(self.feed, self._later)
        self.questions = Questions(self.feed.sessions, self.relay, self._later, self.asides)
        self.questions.on_late = self.metrics.timed_out
        seconds = config.gateway.list_seconds
        self.desk = Desk(self.relay, self.feed, self.interest, self._means(), seconds)
        self.relay.desk = self.desk
        self.hooks = Hooks(self._hook_means(state_dir))
        self.upkeep = Upkeep(state_dir, config.record, self.journal, self.note, time.time)
        self.reload = Reload(self)
        self.reload.heard.append(lambda config: self.admission.limit(config.gateway))

    async def __aenter__(self) -> Self:
        await self._chores.begin()
        self._record_begins()
        self._later(MEMORY_SECONDS, self.memory.give_back)
        self.telemetry.start(self.journal, self.metrics, self._later)
        self.hooks.replace(self.config.hooks, self.config.gateway.hooks_match)
        self._later(LOOK_SECONDS if self._sole else 0, self._look_after)
        servers = sorted(self.servers)
        self.note("gateway.started", version=__version__, pid=os.getpid(), servers=servers)
        for server in self.servers.values():
            self._registered(server)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leaving = True
        await self.hooks.stop()
        self.relay.tasks.stop()
        self.relay.parks.stop()
        up = [server.slug for server in self.servers.values() if server.up]
        await self.fleet.stop()
        for slug in up:
            self.note("gateway.backend_stopped", server=slug, reason="gateway stopped")
        await self.warden.close()
        await self._chores.end()  # Every task ends with its server.
        reason = self.parting if kind or self.draining else "end of input"
        self.note("gateway.stopped", reason=reason)
        self.hooks.close()
        await self.telemetry.close()
        self.events.close()
        self.journal.close()
        self.tap.payloads.close()
        await self.upkeep.end()

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
            self.hooks,
            self.telemetry,
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
        self._awake.pop(session.id, None)
        self.leases.forget(session.id)
        for server in self.profiles[session.profile].servers.values():
            server.drop(session.id)
            self.interest.forget(server, session)
        cancelled = (task := asyncio.current_task()) is not None and task.cancelling()
        reason = self.parting if cancelled or self.draining else session.parting
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

    def aside(self, caller: Caller, said: Aside, answer: Result | Failure | None = None) -> None:
        """A client said something that is no exchange: it goes into the record."""
        self.asides.heard(caller, said, answer)

    def wake(self, caller: Caller) -> None:
        """Start the servers, side by side, when the first client has said what it can do."""
        awake = "" if caller.session is None else caller.session.id
        if awake in self._awake:
            return
        self._awake[awake] = caller
        for server in self.profiles[caller.profile].servers.values():
            if caller.session is not None or server.main is None:
                server.prepare(self.leases.key(server.config.scope, caller))

    def start(self, server: Server, config: Config) -> None:
        """Start a server of a new configuration, as those before it were."""
        if not self._sole:
            server.prepare(SHARED)
            return
        for caller in self._awake.values():
            if server.slug in config.profiles[caller.profile].servers:
                server.prepare(self.leases.key(server.config.scope, caller))

    def report(self, error: BaseException) -> None:
        """Say on stderr that something broke which should not have."""
        self._say(f"internal error: {mishap(error)}")

    def _say(self, words: str) -> None:
        sys.stderr.write(f"anyport: {self.redact(words)}\n")

    def _fleet_means(self) -> FleetMeans:
        return FleetMeans(
            spawn=self.spawn,
            later=self._later,
            redact=self.redact,
            asides=lambda: self.asides,
            at_work=lambda server: self.relay.at_work(server),
            room=self.admission.room,
            sole=self._sole,
        )

    def _world(self) -> World:
        return World(
            clock=time.monotonic,
            report=self.report,
            later=self._later,
            now=Steady(time.time),
            seal=self.seal,
            spawn=self.spawn,
            admission=self.admission,
        )

    def _means(self) -> Means:
        return Means(
            status=self.status,
            events=self.events.query,
            describe=self.describe,
            spawn=self.spawn,
            later=self._later,
            cursor_key=os.urandom(16),
        )

    def _hook_means(self, state_dir: Path) -> HookMeans:
        return HookMeans(
            journal=self.journal,
            state_dir=state_dir,
            profiles=self.profiles,
            begin=self.begin,
            warden=self.warden,
            redact=self.redact,
            spawn=self.spawn,
            soon=lambda act: asyncio.get_running_loop().call_soon(act),
            now=time.time,
            random_bytes=os.urandom,
            trace_id=self._trace_id,
        )

    def _look_later(self) -> None:
        self._later(LOOK_SECONDS, self._look_after)

    def _look_after(self) -> None:
        if not self._leaving:
            self.spawn(self._look(), "look after the record")

    async def _look(self) -> None:
        try:
            await self.upkeep.look()
            await self.events.keep_up(lambda: not self._deadlines.terms)
            self.memory.give_back()  # Whoever always has something to do never rests.
        finally:
            self._look_later()

    def _sweep_later(self) -> None:
        self._later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        try:
            self._deadlines.sweep(time.monotonic())
        finally:
            self._deadlines.asleep = not self._deadlines.terms
            if self._deadlines.asleep:
                self.memory.give_back()
            else:
                self._sweep_later()

    def _registered(self, server: Server) -> None:
        about = {} if server.obstacle is None else {"reason": server.obstacle}
        transport = server.transport
        self.note("gateway.backend_registered", server=server.slug, transport=transport, **about)

    def _record_begins(self) -> None:
        sluice, loop = self.relay.sluice, asyncio.get_running_loop()
        sluice.begin(self.config.record.on_failure, loop, self._say)
        self.reload.heard.append(lambda config: sluice.take(config.record.on_failure))

    def _journal_pending(self) -> None:
        asyncio.get_running_loop().call_soon(self.journal.flush)

    def note(
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
