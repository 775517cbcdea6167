"""One configured server: its connections, what it offers, and how it is doing.

Holds the last known lists whatever happens to the process, so that a server that is down still
shows what it would offer. Decides nothing about clients; tells its `Owner` what it hears.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from anyport.config.schema import ServerConfig
from anyport.protocol.method import CHANGES, LISTS, Kind
from anyport.protocol.revision import Era
from anyport.routing.offers import Gathering, Listing, read_page
from anyport.upstream.connection import Connection, Hearer, Lost, Peer
from anyport.upstream.handshake import Introduction, ask
from anyport.upstream.tender import Ready, State, Surroundings, Tender, Watcher
from anyport.upstream.watch import Watch
from anyport.wire import members
from anyport.wire.frame import Failure, Notification, Request, Result

RELIST_SECONDS_MIN: Final = 2.0
"""Between two looks at the lists of a server that says all the time that they changed."""

_CAPABILITY: Final[Mapping[Kind, str]] = {
    Kind.TOOLS: "tools",
    Kind.RESOURCES: "resources",
    Kind.TEMPLATES: "resources",
    Kind.PROMPTS: "prompts",
}
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


SHARED: Final = LeaseKey()


class Owner(Protocol):
    """Who is told what a server does."""

    def listed(self, server: "Server", changed: frozenset[Kind]) -> None:
        """Its lists were read; these differ from what was known."""

    def started(self, server: "Server", key: LeaseKey) -> None:
        """A connection is ready."""

    def failed(self, server: "Server", reason: str) -> None:
        """A connection broke or could not be opened."""

    def stopped(self, server: "Server") -> None:
        """A connection was closed because nobody needs it any more."""

    def asked(self, server: "Server", key: LeaseKey, line: Connection, request: Request) -> None:
        """It asks something."""

    def told(
        self, server: "Server", key: LeaseKey, line: Connection, notification: Notification
    ) -> None:
        """It says something on its own."""

    def lost(self, server: "Server", line: Connection) -> None:
        """A connection has ended."""

    def wrote(self, server: "Server", lines: list[str]) -> None:
        """It wrote to its stderr."""


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


class Server:
    """A server of the configuration."""

    def __init__(self, config: ServerConfig, setting: Setting, owner: Owner) -> None:
        self.config = config
        self.slug = config.slug
        self.listings: dict[Kind, Listing] = {}
        """The last known lists."""
        self.instructions: str | None = None
        self.dies_of_probe = False
        """What the last life taught: asking for the era kills this server."""
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
        self._stale: set[Kind] = set()
        self._listing = False
        self._listed_at = float("-inf")

    @property
    def obstacle(self) -> str | None:
        """Why it will not even be tried."""
        if self.config.disabled:
            return "it is disabled in the configuration"
        if self.config.unresolved:
            return "; ".join(self.config.unresolved)
        if self.config.command is None:
            return "servers behind a URL are not supported yet"
        return None

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
        if self.listed or self.late or self.obstacle is not None:
            return True
        return self.state in (State.BROKEN, State.STOPPED)

    def open(self, key: LeaseKey) -> Tender | None:
        """The tender of a key, started if there is none; None if it will not be tried."""
        tender = self.tenders.get(key)
        if tender is not None:
            return tender
        if self.obstacle is not None:
            return None
        if self.modern:
            # Each of its requests says what it may ask: one connection serves everyone.
            return self.main
        return self._start(key)

    def lease(self, key: LeaseKey, ready: Ready) -> None:
        """Hand over a connection for this key, or the reason why there is none."""
        tender = self.open(key)
        if tender is None:
            ready(self.obstacle or "it is not configured")
            return
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
            tender = self.tenders.pop(key)
            self._watches.pop(key, None)
            self._leaving.add(tender)
            self._setting.spawn(self._let_go(tender), f"stop {self.slug}")

    async def stop(self) -> None:
        """End every process, those that are leaving already included."""
        tenders = [*self.tenders.values(), *self._leaving]
        await asyncio.gather(*(tender.stop() for tender in tenders))

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

    def watch(self, uris: frozenset[str]) -> None:
        """Have a modern server tell when these resources change."""
        for watch in self._watches.values():
            if watch is not None:
                watch.follow(uris)

    def mark_stale(self, kinds: tuple[Kind, ...]) -> None:
        """These lists may have changed: read them again, soon but not too often."""
        self._stale.update(kinds)
        if self._listing or not self._stale:
            return
        self._listing = True
        wait = max(0.0, self._listed_at + RELIST_SECONDS_MIN - self._setting.clock())
        self._setting.later(wait, self._relist)

    def _start(self, key: LeaseKey) -> Tender:
        introduction = Introduction(
            client_info=self._setting.client_info,
            capabilities=key.capabilities,
            protocol=self.config.protocol,
        )
        watcher = Watcher(
            on_ready=lambda connection: self._ready(key, connection),
            on_broken=lambda reason: self._broken(reason),
            on_stderr=lambda lines: self._owner.wrote(self, lines) if lines else None,
            hearer=lambda connection: self._ear(key, connection),
        )
        tender = Tender(self.config, introduction, self._setting.surroundings(self.config), watcher)
        tender.dies_of_probe = self.dies_of_probe
        self.tenders[key] = tender
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
        if peer is not None:
            self.instructions = peer.instructions
        tender = self.tenders.get(key)
        if tender is None:
            return
        self.dies_of_probe = tender.dies_of_probe
        self._watches[key] = self._watch(connection)
        self._owner.started(self, key)
        if self._listing:
            self._stale.update(Kind)
            return
        self._listing = True
        self._stale.update(Kind)
        self._setting.spawn(self._read_lists(), f"list {self.slug}")

    def _watch(self, connection: Connection) -> Watch | None:
        peer = connection.peer
        if peer is None or peer.revision.era is Era.LEGACY:
            return None
        watch = Watch(connection, peer.back, self._setting.later)
        watch.follow(frozenset())
        return watch

    def _broken(self, reason: str) -> None:
        self.listed = False
        self.last_error = reason
        self._owner.failed(self, reason)

    def _heard(self, key: LeaseKey, line: Connection, notification: Notification) -> None:
        kinds = _CHANGED.get(notification.method)
        if kinds is None:
            self._owner.told(self, key, line, notification)
        else:
            self.mark_stale(kinds)

    def _relist(self) -> None:
        self._listed_at = self._setting.clock()
        self._setting.spawn(self._read_lists(), f"list {self.slug}")

    async def _read_lists(self) -> None:
        """Read the lists that may have changed, all pages of each."""
        kinds, self._stale = self._stale, set()
        tender = self.main
        connection = None if tender is None else tender.connection
        changed: set[Kind] = set()
        if connection is not None and connection.peer is not None:
            try:
                async with asyncio.timeout(self.config.timeout_seconds):
                    for kind in [kind for kind in Kind if kind in kinds]:
                        listing = await self._read_list(connection, connection.peer, kind)
                        if listing is not None and listing != self.listings.get(kind):
                            self.listings[kind] = listing
                            changed.add(kind)
                self.warning = None
            except TimeoutError:
                self.warning = (
                    f"it did not list what it offers in {self.config.timeout_seconds:g} s"
                )
            self.listed = connection.lost is None
            self.late = False
        self._listing = False
        self._owner.listed(self, frozenset(changed))
        if self._stale:
            self.mark_stale(())

    async def _read_list(self, connection: Connection, peer: Peer, kind: Kind) -> Listing | None:
        """One list; None if the server was lost, or did not answer, on the way."""
        if not peer.offers(_CAPABILITY[kind]):
            return Listing()
        gathering = Gathering(kind)
        cursor: bytes | None = None
        while True:
            params = b"{}" if cursor is None else members.join([("cursor", cursor)])
            answer = await ask(connection, LISTS[kind], peer.back.own_params(params))
            match answer:
                case Lost():
                    return None
                case Failure():
                    # A list that does not exist: many servers have no templates.
                    return gathering.listing()
                case Result(result=result):
                    page = read_page(kind, result)
                    if page is None:
                        return gathering.listing()
                    cursor = gathering.add(page)
                    if cursor is None:
                        return gathering.listing()
