"""One configured server: its connections, what it offers, and how it is doing.

Holds the last known lists whatever happens to the process, so that a server that is down still
shows what it would offer. Decides nothing about clients; tells its `Owner` what it hears.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from anyport.config.schema import ServerConfig
from anyport.protocol.headers import NO_ANNOTATIONS, Annotations
from anyport.protocol.method import CHANGES, Kind
from anyport.protocol.revision import Era
from anyport.protocol.timeouts import Timeout
from anyport.upstream.breaker import Breaker
from anyport.upstream.call import Call
from anyport.upstream.connection import Connection
from anyport.upstream.guard import Guard, Ward
from anyport.upstream.handshake import Introduction
from anyport.upstream.hearer import Hearer
from anyport.upstream.key import LeaseKey
from anyport.upstream.listing import tells_changes
from anyport.upstream.lists import Lines, Lists, Readings
from anyport.upstream.needs import Needs
from anyport.upstream.owner import Owner
from anyport.upstream.peer import Peer
from anyport.upstream.pool import Pool
from anyport.upstream.queue import Places, places_of
from anyport.upstream.road import Catalogue, Learned
from anyport.upstream.setting import Setting
from anyport.upstream.tender import Ready, State, Tender, Watcher
from anyport.upstream.watch import ACKNOWLEDGED, Ticking
from anyport.upstream.watches import Watches
from anyport.wire import members
from anyport.wire.frame import Notification

UPDATED: Final = "notifications/resources/updated"
UNUSED_FOR: Final = "nobody has used it for {:g} s; it is started on the next use"

_CHANGED: Final[Mapping[str, tuple[Kind, ...]]] = {
    method: tuple(kind for kind in Kind if CHANGES[kind] == method) for method in CHANGES.values()
}


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
        self._setting = setting
        self._owner = owner
        self._places: Places[Call] = places_of(config)
        self._pool = Pool(self, setting, lambda: owner.stopped(self))
        self.tenders = self._pool.tenders
        """Its connections, the first of them first."""
        self._needs = Needs(config, self._pool, setting.clock, self._relied)
        self._looking = False
        """Whether somebody is going to look for connections that nobody uses."""
        self._time = Ticking(
            later=setting.later,
            clock=setting.clock,
            chance=lambda: setting.surroundings(config).chance(),
        )
        self.guard = Guard(Breaker(enabled=config.breaker), self._ward(), self._time)
        self._watches = Watches(self._time, self._missed)
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
        return self._pool.main

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

    def timeout_of(self, reason: str) -> Timeout | None:
        """Which time was over, where that is why a connection of it is not there."""
        found = (each.timeout for each in self.tenders.values() if each.reason == reason)
        return next(found, None)

    @property
    def peer(self) -> Peer | None:
        """What it said of itself, while it runs."""
        return self._pool.peer

    @property
    def modern(self) -> bool:
        """Whether it runs and needs no handshake."""
        return self.peer is not None and self.peer.revision.era is Era.MODERN

    @property
    def up(self) -> bool:
        """Whether it runs, or is to be running."""
        return any(tender.state is not State.IDLE for tender in self.tenders.values())

    @property
    def asleep(self) -> bool:
        """Whether it does not run, and is started when somebody uses it."""
        return self.main is not None and self.main.asleep

    @property
    def open_calls(self) -> int:
        """What it works on, save what it was asked for our own sake."""
        return sum(line.open_calls - self._watches.calls(key) for key, line in self.connections())

    @property
    def settled(self) -> bool:
        """Whether waiting longer would not change its lists."""
        at_rest = self.state in (State.BROKEN, State.IDLE, State.STOPPED)
        if self.late or self.obstacle is not None or at_rest:
            return True
        # Of one that is started on first use, what was listed last is as good as any.
        known = self.listed or (self._needs.lazy and bool(self.listings))
        return known and not self._widening

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

    def prepare(self, key: LeaseKey) -> None:
        """A client has come: start what it will need, save what waits until it is used."""
        known = bool(self.listings) and (self.lists.complete or not key.interactive)
        if self._needs.lazy and known:
            self._pool.open_first(key)
        elif key in self.tenders:
            self.tenders[key].rouse()  # Nobody waits: those who do may need the room for it.
        else:
            self.lease(key, lambda _: None)

    def open(self, key: LeaseKey) -> Tender | None:
        """The tender of a key, started if there is none; None if it will not be tried."""
        return self._pool.open(key)

    def lease(self, key: LeaseKey, ready: Ready) -> None:
        """Hand over a connection for this key, or the reason why there is none."""
        self._pool.lease(key, ready)

    def key_of(self, session: str) -> LeaseKey:
        """The key of the connection that serves a session: its own where it has one."""
        return self._pool.key_of(session)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        """Every connection that is ready."""
        return self._pool.connections()

    def await_return(self, seconds: float) -> None:
        """A client was asked for the server, and may come back within this time."""
        self._needs.await_return(seconds)

    def drop(self, owner: str) -> None:
        """Close the connections that only this session used."""
        self._pool.give_up(owner)
        for key in [key for key in self.tenders if owner and key.owner == owner]:
            self._watches.forget(key)
            self._needs.forget(key)
            self._pool.drop(key)

    async def stop(self, reason: str = "the gateway is stopping") -> None:
        """End every process, those that are leaving already included."""
        await self._pool.stop(reason)

    @property
    def waiting_calls(self) -> int:
        """How many calls wait for a place with it."""
        return sum(line.waiting_calls for _, line in self.connections())

    def watch(
        self, uris: frozenset[str], tasks: frozenset[str], expect: Callable[[], Callable[[], None]]
    ) -> None:
        """Have a modern server tell when these resources and tasks change."""
        self._watches.follow(uris, tasks, expect)

    def mark_stale(self, kinds: tuple[Kind, ...]) -> None:
        """These lists may have changed: read them again, soon but not too often."""
        self.lists.mark_stale(kinds)

    def hears(self, kind: Kind) -> bool:
        """Whether it would tell us now that a list has changed."""
        told = self.peer is not None and tells_changes(self.peer, kind)
        return told and self._watches.hears(kind)

    def annotations(self, tool: str) -> Annotations:
        """Which arguments of a tool are repeated in header fields."""
        listing = self.listings.get(Kind.TOOLS)
        return NO_ANNOTATIONS if listing is None else listing.annotated.get(tool, NO_ANNOTATIONS)

    def refresh_tools(self, then: Callable[[], None]) -> None:
        """Read the tools again, then call back."""
        self.lists.refresh_tools(then)

    def make(self, key: LeaseKey, *, trial: bool) -> Tender:
        """A new connection; see `pool`."""
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
            needed=lambda: self._needs.is_needed(key, known=bool(self.listings)),
        )
        surroundings = replace(self._setting.surroundings(self.config), places=self._places)
        learned = Learned() if trial else self.learned
        return Tender(self.config, introduction, surroundings, watcher, learned)

    def _ear(self, key: LeaseKey, connection: Callable[[], Connection]) -> Hearer:
        return Hearer(
            on_request=lambda request: self._owner.asked(self, key, connection(), request),
            on_notification=lambda notification: self._heard(key, connection(), notification),
            on_noise=partial(self._owner.garbled, self),
            on_end=lambda: self._owner.lost(self, connection()),
            on_unreached=self.guard.unreached,
        )

    def _ward(self) -> Ward:
        return Ward(
            connect=self._meet,
            renew=self._renew,
            replace=self._replace,
            ejected=lambda *how: self._owner.ejected(self, *how),
            restored=lambda seconds: self._owner.restored(self, seconds),
            probe_seconds=self.config.timeout_seconds,
        )

    def _meet(self, ready: Ready) -> None:
        main = self.main
        ready("it has not been started") if main is None else main.when_ready(ready)

    def _renew(self, reason: str) -> None:
        """It cannot be reached: whatever connections there are have to be opened anew."""
        for tender in self.tenders.values():
            tender.renew(reason)

    def _replace(self, connection: Connection, reason: str) -> bool:
        """It says nothing on that connection, and nobody waits for an answer on it any more."""
        silent = [one for one in self.tenders.values() if one.connection is connection]
        if connection.open_calls:
            return False
        for tender in silent:
            tender.renew(reason)
        return bool(silent)

    def _ready(self, key: LeaseKey, connection: Connection) -> None:
        peer = connection.peer
        if peer is None or key not in self.tenders:
            return
        self.instructions = peer.instructions
        self._pool.started(key, automatic=self.config.protocol == "auto")
        if self.tenders[key] is self.main:
            self.extensions = peer.extensions
        self.guard.greeted()
        self._needs.began(key, connection)
        self._look_later()
        self._watches.open(key, connection)
        self._owner.started(self, key)
        if self.tenders[key] is not self.main and (self.modern or not key.interactive):
            return
        self._latest = key
        self.shelf.clear(self.slug)
        self.lists.read_all()

    def _missed(self, key: LeaseKey, connection: Connection, uris: frozenset[str]) -> None:
        """Nobody was listening for a while: whatever could have changed is taken to have."""
        self.mark_stale(tuple(Kind))
        self.shelf.clear(self.slug)
        for uri in uris:
            changed = Notification(UPDATED, members.join([("uri", members.text(uri))]))
            self._owner.told(self, key, connection, changed)

    def _broken(self, key: LeaseKey, reason: str) -> None:
        if self._pool.refused(key, reason):
            return
        self._watches.close(key)
        if self.tenders.get(key) is self.main:
            self.listed = False
        self.last_error = reason
        self._owner.failed(self, reason)

    def _relied(self, key: LeaseKey, line: Connection | None) -> bool:
        return self._owner.relied_on(self, key, line)

    def _look_later(self) -> None:
        seconds = self._needs.look_seconds
        if seconds is not None and not self._looking:
            self._looking = True
            self._setting.later(seconds, self._look)

    def _look(self) -> None:
        """Close the connections that nobody uses."""
        self._looking = False
        for key in self._needs.idle(self._watches.calls) if self.listings else ():
            self._watches.forget(key)
            self.tenders[key].rest(UNUSED_FOR.format(self.config.idle_seconds))
            self._owner.rested(self)
        if self.connections():
            self._look_later()

    def _heard(self, key: LeaseKey, line: Connection, notification: Notification) -> None:
        kinds = _CHANGED.get(notification.method)
        if kinds is not None:
            self._latest = key
            self.mark_stale(kinds)
            if Kind.RESOURCES in kinds:
                self.shelf.clear(self.slug)
            return
        if notification.method == ACKNOWLEDGED:
            self._watches.acknowledged(key, notification.params)
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
            first = next(iter(self.tenders), None)  # Its session may have ended meanwhile.
            if self.modern or (first is not None and first.interactive):
                self.lists.complete = True
            self.listed = lines.main.lost is None
            self.late = False
        self._owner.listed(self, changed)
