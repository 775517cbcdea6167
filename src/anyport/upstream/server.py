"""One configured server: its connections, what it offers, and how it is doing.

Holds the last known lists whatever happens to the process, so that a server that is down still
shows what it would offer. Decides nothing about clients; tells its `Owner` what it hears.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from anyport.config.schema import ServerConfig
from anyport.protocol.headers import NO_ANNOTATIONS, Annotations
from anyport.protocol.method import CHANGES, Kind
from anyport.protocol.principal import Principal
from anyport.protocol.revision import Era
from anyport.upstream.connection import Connection, Hearer, Peer
from anyport.upstream.handshake import Introduction
from anyport.upstream.listing import tells_changes
from anyport.upstream.lists import Lines, Lists, Readings
from anyport.upstream.owner import Owner
from anyport.upstream.road import Catalogue, Learned, Surroundings
from anyport.upstream.shelf import Shelf
from anyport.upstream.tender import Ready, State, Tender, Watcher
from anyport.upstream.watch import ACKNOWLEDGED, Ticking, Watch
from anyport.wire import members
from anyport.wire.frame import Notification

UPDATED: Final = "notifications/resources/updated"

_CHANGED: Final[Mapping[str, tuple[Kind, ...]]] = {
    method: tuple(kind for kind in Kind if CHANGES[kind] == method) for method in CHANGES.values()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseKey:
    """Which callers may share a connection."""

    owner: str = ""
    """The session that has the connection to itself; empty for one that is shared."""
    capabilities: bytes = b"{}"
    """What a legacy server may ask over it."""
    interactive: bool = False
    """Whether it may ask anything."""
    principal: Principal | None = None
    """Whose calls have it to themselves, one at a time."""


SHARED: Final = LeaseKey()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all servers of a gateway share."""

    surroundings: Callable[[ServerConfig], Surroundings]
    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    """Runs a task that someone waits for."""
    later: Callable[[float, Callable[[], None]], object]
    """Runs something after some seconds."""
    client_info: bytes
    clock: Callable[[], float]
    sole: bool = True
    """There is one client: what it opens first serves for everything."""
    shelf: Shelf = field(default_factory=Shelf)
    """What servers allow to be said again."""


class Server:
    """A server of the configuration."""

    def __init__(self, config: ServerConfig, setting: Setting, owner: Owner) -> None:
        self.config = config
        self.slug = config.slug
        self.instructions: str | None = None
        self.extensions: Mapping[str, bytes] = {}
        """What it offers, or last offered, of those that we know, with their settings."""
        self.learned = Learned()
        self.listed = False
        """Whether the lists are those of the process that runs, or will never come."""
        self.late = False
        """Someone has waited for its lists in vain: nobody else does until they come."""
        self.warning: str | None = None
        self.last_error: str | None = self.obstacle
        """Why it is or was down."""
        self.tenders: dict[LeaseKey, Tender] = {}
        self._leaving: set[Tender] = set()
        self._setting = setting
        self._owner = owner
        self._watches: dict[LeaseKey, Watch | None] = {}
        self._trials: set[LeaseKey] = set()
        """Connections on which a modern server is asked for a handshake."""
        self._may_shake_hands = False
        """It is modern, and has not refused one."""
        self._time = Ticking(
            later=setting.later,
            clock=setting.clock,
            chance=lambda: setting.surroundings(config).chance(),
        )
        readings = Readings(
            lines=self._lines,
            spawn=lambda work: setting.spawn(work, f"list {self.slug}"),
            time=self._time,
            done=self._lists_read,
        )
        self.lists = Lists(config, readings)
        self.listings = self.lists.known
        """The last known lists."""
        self.shelf = setting.shelf
        self._latest: LeaseKey | None = None
        """Of those over which it may ask, the connection that last said something of its lists."""

    @property
    def obstacle(self) -> str | None:
        """Why it will not even be tried."""
        if self.config.disabled:
            return "it is disabled in the configuration"
        if self.config.unresolved:
            return "; ".join(self.config.unresolved)
        return None

    @property
    def transport(self) -> str:
        """What carries it, as far as is known."""
        return self.config.transport if self.main is None else self.main.road.transport

    @property
    def main(self) -> Tender | None:
        """The connection that was opened first, through which lists are read."""
        return next(iter(self.tenders.values()), None)

    @property
    def state(self) -> State:
        """How it is doing."""
        if self.main is None:
            return State.STOPPED if self.obstacle is not None else State.STARTING
        return self.main.state

    @property
    def reason(self) -> str | None:
        """Why it is not running."""
        if self.main is None:
            return self.obstacle
        return None if self.main.state is State.READY else self.main.reason

    @property
    def peer(self) -> Peer | None:
        """What it said of itself, while it runs."""
        return None if self.main is None else self.main.peer

    @property
    def modern(self) -> bool:
        """Whether it runs and needs no handshake."""
        return self.peer is not None and self.peer.revision.era is Era.MODERN

    @property
    def settled(self) -> bool:
        """Whether waiting longer would not change its lists."""
        if self.late or self.obstacle is not None:
            return True
        if self.state in (State.BROKEN, State.STOPPED):
            return True
        return self.listed and not self._widening

    @property
    def _widening(self) -> bool:
        """Whether a client is on its way who may see more than any before."""
        if self.modern or self.lists.complete:
            return False
        return any(
            key.interactive and tender.state in (State.STARTING, State.READY)
            for key, tender in self.tenders.items()
            if tender is not self.main
        )

    def key_of(self, session: str) -> LeaseKey:
        """The key of the connection that serves a session: its own where it has one."""
        return next((key for key in self.tenders if key.owner == session), SHARED)

    def open(self, key: LeaseKey) -> Tender | None:
        """The tender of a key, started if there is none; None if it will not be tried."""
        tender = self.tenders.get(key)
        if tender is not None:
            return tender
        if self.obstacle is not None:
            return None
        if self.modern and not (key.interactive and self._may_shake_hands):
            # Each of its requests says what it may ask: one connection serves everyone.
            return self.main
        return self._start(key, trial=self.modern)

    def lease(self, key: LeaseKey, ready: Ready) -> None:
        """Hand over a connection for this key, or the reason why there is none."""
        if key.owner and self.main is None and not self._setting.sole:
            # What lists are read and resources followed through must outlive the session.
            self.open(SHARED)
        main = self.main
        if main is not None and key not in self.tenders and main.state is State.STARTING:
            # Whether it needs a connection of its own depends on the era.
            main.when_ready(lambda _: self._lease(key, ready))
        else:
            self._lease(key, ready)

    def _lease(self, key: LeaseKey, ready: Ready) -> None:
        tender = self.open(key)
        if tender is None:
            ready(self.obstacle or "it is not configured")
        elif key in self._trials:
            tender.when_ready(partial(self._tried, ready))
        else:
            tender.when_ready(ready)

    def lease_main(self, ready: Ready) -> None:
        """Hand over the first connection, which everything that concerns all callers uses."""
        if self.main is None:
            ready(self.reason or "it has not been started")
        else:
            self.main.when_ready(ready)

    def drop(self, owner: str) -> None:
        """Close the connections that only this session used."""
        for key in [key for key in self.tenders if owner and key.owner == owner]:
            self._watches.pop(key, None)
            self._dismiss(key)

    async def stop(self) -> None:
        """End every process, those that are leaving already included."""
        tenders = [*self.tenders.values(), *self._leaving]
        await asyncio.gather(*(tender.stop() for tender in tenders))

    def _dismiss(self, key: LeaseKey) -> None:
        tender = self.tenders.pop(key)
        self._trials.discard(key)
        self._leaving.add(tender)
        self._setting.spawn(self._let_go(tender), f"stop {self.slug}")

    async def _let_go(self, tender: Tender) -> None:
        await tender.stop("the session it belonged to has ended")
        self._leaving.discard(tender)
        self._owner.stopped(self)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        """Every connection that is ready."""
        return [
            (key, tender.connection)
            for key, tender in self.tenders.items()
            if tender.state is State.READY and tender.connection is not None
        ]

    def watch(
        self, uris: frozenset[str], tasks: frozenset[str], expect: Callable[[], Callable[[], None]]
    ) -> None:
        """Have a modern server tell when these resources and tasks change."""
        for watch in filter(None, self._watches.values()):
            watch.follow(uris, tasks, expect())

    def mark_stale(self, kinds: tuple[Kind, ...]) -> None:
        """These lists may have changed: read them again, soon but not too often."""
        self.lists.mark_stale(kinds)

    def hears(self, kind: Kind) -> bool:
        """Whether it would tell us now that a list has changed."""
        watch = next(filter(None, self._watches.values()), None)
        told = self.peer is not None and tells_changes(self.peer, kind)
        return told and watch is not None and watch.hears(kind)

    def annotations(self, tool: str) -> Annotations:
        """Which arguments of a tool are repeated in header fields."""
        listing = self.listings.get(Kind.TOOLS)
        return NO_ANNOTATIONS if listing is None else listing.annotated.get(tool, NO_ANNOTATIONS)

    def refresh_tools(self, then: Callable[[], None]) -> None:
        """Read the tools again, then call back."""
        self.lists.refresh_tools(then)

    def _tried(self, ready: Ready, lease: Connection | str) -> None:
        """A server that has no handshake serves this caller as it serves all others."""
        self.lease_main(ready) if isinstance(lease, str) else ready(lease)

    def _start(self, key: LeaseKey, *, trial: bool = False) -> Tender:
        """A new connection. A trial asks a modern server for a handshake all the same.

        Many speak both eras, and do not say so. What such a server asks of a legacy client while
        it works on a call, it has no way to ask of a modern one.
        """
        introduction = Introduction(
            client_info=self._setting.client_info,
            capabilities=key.capabilities,
            protocol=Era.LEGACY.value if trial else self.config.protocol,
            to_be_asked=trial,
        )
        watcher = Watcher(
            on_ready=lambda connection: self._ready(key, connection),
            on_broken=lambda reason: self._broken(key, reason),
            on_stderr=lambda lines: self._owner.wrote(self, lines) if lines else None,
            hearer=lambda connection: self._ear(key, connection),
            catalogue=Catalogue(annotations=self.annotations, refresh=self.refresh_tools),
        )
        surroundings = self._setting.surroundings(self.config)
        learned = Learned() if trial else self.learned
        tender = Tender(self.config, introduction, surroundings, watcher, learned)
        self.tenders[key] = tender
        if trial:
            self._trials.add(key)
        self._setting.spawn(tender.run(), f"tend {self.slug}")
        return tender

    def _ear(self, key: LeaseKey, connection: Callable[[], Connection]) -> Hearer:
        return Hearer(
            on_request=lambda request: self._owner.asked(self, key, connection(), request),
            on_notification=lambda notification: self._heard(key, connection(), notification),
            on_end=lambda: self._owner.lost(self, connection()),
        )

    def _ready(self, key: LeaseKey, connection: Connection) -> None:
        peer = connection.peer
        if peer is None or key not in self.tenders:
            return
        self.instructions = peer.instructions
        self._trials.discard(key)
        if self.tenders[key] is self.main:
            self.extensions = peer.extensions
            self._may_shake_hands = self.config.protocol == "auto"
        self._watches[key] = self._watch(key, connection)
        self._owner.started(self, key)
        if self.tenders[key] is not self.main and (self.modern or not key.interactive):
            return
        self._latest = key
        self.shelf.clear(self.slug)
        self.lists.read_all()

    def _watch(self, key: LeaseKey, connection: Connection) -> Watch | None:
        peer = connection.peer
        if peer is None or peer.revision.era is Era.LEGACY:
            return None
        watch = Watch(connection, peer.back, self._time, partial(self._missed, key, connection))
        watch.follow(frozenset())
        return watch

    def _missed(self, key: LeaseKey, connection: Connection, uris: frozenset[str]) -> None:
        """Nobody was listening for a while: whatever could have changed is taken to have."""
        self.mark_stale(tuple(Kind))
        self.shelf.clear(self.slug)
        for uri in uris:
            changed = Notification(UPDATED, members.join([("uri", members.text(uri))]))
            self._owner.told(self, key, connection, changed)

    def _broken(self, key: LeaseKey, reason: str) -> None:
        if key in self._trials:
            self._may_shake_hands = False
            self._trials.discard(key)
            self._setting.spawn(self.tenders.pop(key).stop(reason), f"stop {self.slug}")
            return
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.stop()
        if self.tenders.get(key) is self.main:
            self.listed = False
        self.last_error = reason
        self._owner.failed(self, reason)

    def _heard(self, key: LeaseKey, line: Connection, notification: Notification) -> None:
        kinds = _CHANGED.get(notification.method)
        if kinds is not None:
            self._latest = key
            self.mark_stale(kinds)
            if Kind.RESOURCES in kinds:
                self.shelf.clear(self.slug)
            return
        if notification.method == ACKNOWLEDGED:
            watch = self._watches.get(key)
            if watch is not None:
                watch.acknowledged(notification.params)
        elif notification.method == UPDATED:
            self.shelf.changed(self.slug, notification.params)
        self._owner.told(self, key, line, notification)

    def _lines(self) -> Lines:
        main = None if self.main is None else self.main.connection
        return Lines(main=main, asking=self._asking())

    def _asking(self) -> Connection | None:
        """A connection over which it may ask, and sees fit to show more."""
        found = {
            key: connection
            for key, connection in self.connections()
            if key.interactive and self.tenders[key] is not self.main
        }
        # A modern one shows the same to all, unless a process of one session says otherwise.
        first = None if self.modern else next(iter(found.values()), None)
        return first if self._latest is None else found.get(self._latest, first)

    def _lists_read(self, lines: Lines, warning: str | None, changed: frozenset[Kind]) -> None:
        if lines.main is not None and lines.main.peer is not None:
            self.warning = warning
            self.listed = lines.main.lost is None
            self.late = False
        self._owner.listed(self, changed)
