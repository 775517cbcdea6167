"""When the lists of a server are read, and how old they may get.

They are read when the server has started, when it reports a change, when a client wants a list that
may have changed unnoticed, and when a client asks for a name that is in none. They are never
polled: "Clients SHOULD NOT treat TTL as a polling interval" (server/utilities/caching).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from math import inf
from typing import Final, Protocol

import msgspec

from anyport.catalog.offers import ListCollector, Listing, Offer, read_page, widen_listing
from anyport.clock import Clock
from anyport.config.model import ServerConfig
from anyport.protocol.cache_hints import STALE, Freshness
from anyport.protocol.errors import Situation, error_code
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import LIST_METHODS, METHODS, OfferKind
from anyport.protocol.revisions import Era
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Connection, call_and_wait
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, CallOutcome, NoAnswer, Retryable
from anyport.wire import raw_json
from anyport.wire.jsonrpc import METHOD_NOT_FOUND, Failure, Result

# Reading lists, all pages of each.
#
# Many servers offer more to clients that they may ask something, such as a tool that needs
# sampling. So a list is read twice where there is a connection for such clients. A list that cannot
# be read keeps its last known content, with a warning.

ATTEMPTS_MAX: Final = 2
"""For one page, unless the server cannot be reached at all."""
UNDECLARED_SECONDS_MAX: Final = 1.0
"""How long to wait for a list that the server has not declared: many never answer unknown
methods."""
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
"""Delays between attempts double up to this."""

CAPABILITY: Final[Mapping[OfferKind, str]] = {
    OfferKind.TOOLS: "tools",
    OfferKind.RESOURCES: "resources",
    OfferKind.TEMPLATES: "resources",
    OfferKind.PROMPTS: "prompts",
}
"""The capability that announces each list."""


class ListReader:
    """Reads the lists of one server, and remembers the offers that only some clients see."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._over_http = config.url is not None
        self._interactive_offers: dict[OfferKind, tuple[Offer, ...]] = {}
        self._backoff = Backoff()
        self._undeclared_wanted_on: Connection | None = None
        """The connection on which undeclared templates are requested next."""
        self._undeclared_read_on: Connection | None = None
        """The connection on which they were."""

    @property
    def complete(self) -> bool:
        """Whether offers for clients that the server may ask are included."""
        return bool(self._interactive_offers)

    def request_undeclared(self, main: Connection | None) -> bool:
        """Request the templates with the next reading, although the server declares none.

        False if that was done already. The official SDKs declare `resources` only for a list of
        resources, and serve templates all the same.
        """
        if main is None or main is self._undeclared_read_on:
            return False
        self._undeclared_wanted_on = main
        return True

    def restore(self, known: Mapping[OfferKind, Listing]) -> None:
        """Take over what was cached."""
        for kind, listing in known.items():
            if any(offer.needs_input for offer in listing.offers):
                self._interactive_offers[kind] = listing.offers

    def delay(self, chance: float) -> float:
        """Seconds until lists that could not be read are tried again; `chance` is from 0 to 1."""
        return self._backoff.delay(None, chance)

    async def refresh(
        self,
        listings: dict[OfferKind, Listing],
        kinds: Set[OfferKind],
        main: Connection,
        interactive: Connection | None,
    ) -> str | None:
        """Read some of the lists again; returns a warning if one could not be read.

        `interactive` is a connection over which the server may ask the client, if `main` is not.
        """
        warning: str | None = None
        try:
            async with asyncio.timeout(self._config.timeout_seconds):
                for kind in [kind for kind in OfferKind if kind in kinds]:
                    if kind is OfferKind.TEMPLATES and lacks_list(main.peer, kind):
                        await self._read_undeclared(kind, listings, main)
                        continue
                    listing = await self._read(kind, main, interactive)
                    if listing is None:
                        listings.setdefault(kind, Listing())
                    elif isinstance(listing, Listing):
                        listings[kind] = listing
                    elif (
                        listing.outcome is CallOutcome.UNREACHABLE
                        or listing.situation is Situation.BUSY
                    ):
                        warning = f"its {kind.value} could not be asked for: {listing.reason}"
                    elif listing.situation is not Situation.NOT_RUNNING:
                        warning = f"asked for its {kind.value}, it {listing.reason}"
        except TimeoutError:
            warning = f"it did not list what it offers in {self._config.timeout_seconds:g} s"
        if warning is None:
            self._backoff = Backoff()
        return warning

    async def _read_undeclared(
        self, kind: OfferKind, listings: dict[OfferKind, Listing], main: Connection
    ) -> None:
        """Once per connection, when a client wants to see it."""
        listings.setdefault(kind, Listing())
        if self._undeclared_wanted_on is not main:
            return
        self._undeclared_wanted_on, self._undeclared_read_on = None, main
        try:
            async with asyncio.timeout(UNDECLARED_SECONDS_MAX):
                found = await read_list(main, kind, over_http=self._over_http, declared=False)
        except TimeoutError:
            return
        if isinstance(found, Listing):
            listings[kind] = found

    async def _read(
        self, kind: OfferKind, main: Connection, interactive: Connection | None
    ) -> Listing | NoAnswer | None:
        listing = await read_list(main, kind, over_http=self._over_http)
        if not isinstance(listing, Listing):
            return listing
        interactive_listing = None
        if interactive is not None:
            interactive_listing = await read_list(interactive, kind, over_http=self._over_http)
        if isinstance(interactive_listing, Listing):
            shared_names = {offer.native for offer in listing.offers}
            self._interactive_offers[kind] = tuple(
                msgspec.structs.replace(offer, needs_input=offer.native not in shared_names)
                for offer in interactive_listing.offers
            )
        if kind not in self._interactive_offers:
            return listing
        listing = widen_listing(listing, self._interactive_offers[kind])
        self._interactive_offers[kind] = listing.offers
        return listing


def has_list(peer: Peer, kind: OfferKind) -> bool:
    """Whether a server declares such a list."""
    extension = METHODS[LIST_METHODS[kind]].extension
    return peer.offers(CAPABILITY[kind]) if extension is None else extension in peer.extensions


def lacks_list(peer: Peer | None, kind: OfferKind) -> bool:
    """Whether a server has completed its handshake and declares no such list."""
    return peer is not None and not has_list(peer, kind)


def notifies_changes(peer: Peer, kind: OfferKind) -> bool:
    """Whether a server promises to report changes of such a list. There is no such promise for
    skills."""
    return kind in CAPABILITY and peer.offers(CAPABILITY[kind], "listChanged")


async def read_list(
    connection: Connection, kind: OfferKind, *, over_http: bool, declared: bool = True
) -> Listing | NoAnswer | None:
    """Read one list; None if the server answers with an error, which says nothing about its
    content.

    Returns `NoAnswer` if a page was lost or not answered.
    """
    peer = connection.peer
    if peer is None:
        return NoAnswer("it has not finished its handshake")
    if declared and not has_list(peer, kind):
        return Listing()
    modern = peer.revision.era is Era.MODERN
    collector = ListCollector(kind, kind is OfferKind.TOOLS and modern and TASKS in peer.extensions)
    cursor: bytes | None = None
    while True:
        params = b"{}" if cursor is None else raw_json.encode_object([("cursor", cursor)])
        answer = await _request_with_retry(
            connection, LIST_METHODS[kind], peer.adapter.gateway_params(params)
        )
        match answer:
            case NoAnswer():
                return answer
            case Failure(error=error):
                # Many servers with resources do not know the method for templates.
                return Listing() if error_code(error) == METHOD_NOT_FOUND else None
            case Result(result=result):
                page = read_page(kind, result, over_http=over_http)
                if page is None:
                    return collector.listing()
                cursor = collector.add(page)
                if cursor is None:
                    return collector.listing()


async def _request_with_retry(connection: Connection, method: str, params: bytes) -> Answer:
    """Send a request that is safe to repeat, again if its connection was lost.

    An unreachable server is tried until the circuit breaker has the connection replaced.
    """
    attempts, pause = 0, RETRY_SECONDS
    while True:
        connection.own_requests += 1
        answer = await call_and_wait(connection, method, params)
        attempts += 1
        if (
            not isinstance(answer, NoAnswer)
            or answer.retryable is Retryable.NEVER
            or not connection.usable
        ):
            return answer
        if attempts >= ATTEMPTS_MAX and answer.outcome is not CallOutcome.UNREACHABLE:
            return answer
        await asyncio.sleep(pause)
        pause = min(2 * pause, RETRY_SECONDS_MAX)


RELIST_SECONDS_MIN: Final = 2.0
"""Between readings for a server that keeps reporting changes."""
RELIST_PAUSE_FACTOR: Final = 200
"""The pause grows with the time it takes to update clients: thousands of tools that keep changing,
or a profile that has thousands, may take half a percent of the event loop."""
RELIST_SECONDS_MAX: Final = 60.0
"""The pause grows no longer than this."""
REFRESH_SECONDS_MIN: Final = 1.0
"""Least age at which an expired list is read again, however short its TTL."""
RECHECK_SECONDS_MIN: Final = 5.0
"""The same, for a list without TTL that may have changed unnoticed."""
RECHECK_SECONDS_MAX: Final = 60.0
"""Up to this age such a list is shown while it is read again; then it is read first."""
LOOKUPS_MAX: Final = 8
"""Readings in a row for names that are in no list; then one every `RELIST_SECONDS_MIN`."""

_NEVER: Final = -inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTrust:
    """How far a list can be trusted when a client asks for it."""

    timed: bool
    """Whether the list has a TTL."""
    notified_since: float = inf
    """Since when the server has reported every change."""
    first_view: bool = False
    """Whether it is the first list that a session sees. It has had no notifications, so a list
    without TTL is checked."""


class _Due(Enum):
    """Whether and when a list is read again because a client asks for it."""

    NOT = "not"
    LATER = "later"
    """It was read too recently; the known list is shown, and read again as soon as possible."""
    BACKGROUND = "background"
    """The known list is shown, and clients are notified if it has changed."""
    BLOCKING = "blocking"
    """The list is read before it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConnections:
    """The connections through which lists are read."""

    main: Connection | None
    interactive: Connection | None = None
    """One over which the server may ask the client, where it may offer more."""


class ListsOwner(Protocol):
    """A server, or one connection that has lists of its own."""

    def list_connections(self) -> ListConnections: ...

    def on_lists_read(
        self, connections: ListConnections, warning: str | None, changed: frozenset[OfferKind]
    ) -> None:
        """Lists were read, and `changed` of them differ; `warning` says what could not be read."""


class ServerLists:
    """The lists of one server, and when they are read."""

    def __init__(self, config: ServerConfig, owner: ListsOwner, clock: Clock) -> None:
        self.known: dict[OfferKind, Listing] = {}
        self.complete = False
        """Whether offers for clients that the server may ask are included."""
        self._owner = owner
        self._clock = clock
        self._task_name = f"list {config.slug}"
        self._reader = ListReader(config)
        self._stale: set[OfferKind] = set()
        """To be read as soon as possible."""
        self._reading: set[OfferKind] = set()
        self._awaited: set[OfferKind] = set()
        """Lists that requests wait for."""
        self._planned = False
        self._planned_at = _NEVER
        """When lists were last read because the server reported a change."""
        self._pause_seconds = RELIST_SECONDS_MIN
        """Until lists are read again for that reason."""
        self._requested_at: dict[OfferKind, float] = {}
        self._shown_at: dict[OfferKind, float] = {}
        """Lists that were shown to a new session too soon after the last reading, and when."""
        self.lookups_done = 0
        """Finished readings for names that were in no list."""
        self._lookups = 0
        """Started readings of that kind."""
        self._lookup_kinds: set[OfferKind] = set()
        """To be read in the next of them."""
        self._lookups_allowed = float(LOOKUPS_MAX)
        """A token bucket."""
        self._lookups_allowed_at = _NEVER
        self._refresh_waiters: list[Callable[[], None]] = []
        """Callbacks that wait for the tools to be read again."""

    def restore(self, known: Mapping[OfferKind, Listing], *, complete: bool) -> None:
        """Take over what was cached."""
        self.known.update(known)
        self.complete = complete
        self._reader.restore(known)

    def read_all(self, *, awaited: bool = False) -> None:
        """Read every list: the process or the session is new.

        With `awaited`, requests wait for them.
        """
        self._stale.update(OfferKind)
        if awaited:
            self._awaited.update(OfferKind)
        self._start()

    def mark_stale(self, kinds: Iterable[OfferKind]) -> None:
        """These lists may have changed: read them again, but not too often."""
        self._stale.update(kinds)
        if self._reading or self._planned or not self._stale:
            return
        self._planned = True
        delay = self._planned_at + self._pause_seconds - self._clock.monotonic()
        self._clock.later(max(0.0, delay), self._read_planned)

    def refresh_tools(self, then: Callable[[], None]) -> None:
        """Read the tools again, then call back."""
        self._refresh_waiters.append(then)
        self.mark_stale((OfferKind.TOOLS,))

    def refresh(self, kind: OfferKind, trust: ListTrust) -> bool:
        """Read a list again if it may have changed; returns whether the request has to wait."""
        due = self._due(kind, trust)
        if due is _Due.LATER:
            self._plan_reread(kind, expired=trust.timed and self._is_expired(kind))
        if due is _Due.BLOCKING:
            self._awaited.add(kind)
        if due in (_Due.BACKGROUND, _Due.BLOCKING) and kind not in self._reading:
            self._stale.add(kind)
            self._start()
        return self.is_awaited(kind)

    def read_undeclared(self) -> bool:
        """Read templates that the server does not declare; returns whether the request has to
        wait."""
        if not self.is_awaited(OfferKind.TEMPLATES) and self._reader.request_undeclared(
            self._owner.list_connections().main
        ):
            self._stale.add(OfferKind.TEMPLATES)
            self._awaited.add(OfferKind.TEMPLATES)
            self._start()
        return self.is_awaited(OfferKind.TEMPLATES)

    def look_up(self, kinds: Iterable[OfferKind]) -> int | None:
        """Read these lists at once, because a client wants a name that is in none.

        Returns the value of `lookups_done` at which the result is known; None if they were read too
        often.
        """
        if not self._lookup_kinds:
            if not self._allow_lookup():
                return None
            # In the next turn of the loop, so that one reading serves all requests of this turn.
            self._clock.later(0.0, self._look_up)
        self._lookup_kinds.update(kinds)
        return self._lookups + 1

    def is_awaited(self, kind: OfferKind) -> bool:
        """Whether a list is being read that requests wait for."""
        return kind in self._awaited

    def close(self) -> None:
        """Read nothing more, and let waiting requests go on."""
        for kinds in (self._awaited, self._stale, self._lookup_kinds, self._shown_at):
            kinds.clear()
        self.lookups_done = self._lookups + 1

    def freshness(self, kind: OfferKind) -> Freshness:
        """The cache hints of a list now."""
        listing = self.known.get(kind)
        if listing is None:
            return STALE
        if kind in self._stale or kind in self._reading:
            return Freshness(0, listing.freshness.public)
        return listing.freshness.remaining_after(self._clock.monotonic() - listing.read_at)

    def _due(self, kind: OfferKind, trust: ListTrust) -> _Due:
        listing, now = self.known.get(kind, Listing()), self._clock.monotonic()
        expired = trust.timed and self._is_expired(kind)
        if trust.timed:
            if kind in self._reading or kind in self._awaited:
                return _Due.BLOCKING
        elif (
            trust.first_view
            and kind in self._stale
            and now >= self._earliest_read_at(kind, expired=True)
        ):
            return _Due.BLOCKING  # The server has reported a change.
        trusted = trust.timed or trust.notified_since <= listing.read_at
        if trusted and not expired and not trust.first_view:
            return _Due.NOT
        if now < self._earliest_read_at(kind, expired=expired):
            return _Due.LATER if trust.first_view and kind not in self._stale else _Due.NOT
        too_old = now - listing.read_at >= RECHECK_SECONDS_MAX
        return _Due.BLOCKING if expired or (too_old and not trust.timed) else _Due.BACKGROUND

    def _is_expired(self, kind: OfferKind) -> bool:
        """Whether the TTL of a list is over, or a change was reported."""
        return kind in self._stale or self.freshness(kind).ttl_ms <= 0

    def _earliest_read_at(self, kind: OfferKind, *, expired: bool) -> float:
        """When a list may be read again; `expired` lists sooner."""
        asked_at = self._requested_at.get(kind, _NEVER)
        if expired:
            return asked_at + REFRESH_SECONDS_MIN
        return max(asked_at, self.known.get(kind, Listing()).read_at) + RECHECK_SECONDS_MIN

    def _plan_reread(self, kind: OfferKind, *, expired: bool) -> None:
        """Read a list again as soon as it may be: it may have changed before it was shown."""
        planned, now = kind in self._shown_at, self._clock.monotonic()
        self._shown_at[kind] = now
        if not planned:
            delay = self._earliest_read_at(kind, expired=expired) - now
            self._clock.later(delay, partial(self._reread, kind))

    def _reread(self, kind: OfferKind) -> None:
        shown_at = self._shown_at.pop(kind, None)
        if shown_at is not None and self._requested_at.get(kind, _NEVER) <= shown_at:
            self._stale.add(kind)
            self._start()

    def _allow_lookup(self) -> bool:
        now = self._clock.monotonic()
        earned = (now - self._lookups_allowed_at) / RELIST_SECONDS_MIN
        self._lookups_allowed = min(LOOKUPS_MAX, self._lookups_allowed + earned)
        self._lookups_allowed_at = now
        if self._lookups_allowed < 1:
            return False
        self._lookups_allowed -= 1
        return True

    def _look_up(self) -> None:
        if self._reading or not self._lookup_kinds:
            return  # The lists may have been sent before the name was asked for: read them again.
        kinds, self._lookup_kinds = self._lookup_kinds, set()
        self._lookups += 1
        self._stale |= kinds
        self._start()

    def _read_planned(self) -> None:
        self._planned = False
        if self._stale and not self._reading:
            self._planned_at = self._clock.monotonic()
            self._start()

    def _start(self) -> None:
        if self._reading or not self._stale:
            return
        self._reading, self._stale = self._stale, set()
        self._requested_at.update(dict.fromkeys(self._reading, self._clock.monotonic()))
        self._clock.spawn(self._read(), self._task_name)

    async def _read(self) -> None:
        """Read the stale lists, all pages of each."""
        kinds, connections, clock = self._reading, self._owner.list_connections(), self._clock
        before, began, warning = dict(self.known), clock.monotonic(), None
        if connections.main is not None and connections.main.peer is not None:
            # Published together, and announced in the same turn: lists of other connections are
            # compared with these, so they have to be the ones that clients are shown.
            current = dict(before)
            warning = await self._reader.refresh(
                current, kinds, connections.main, connections.interactive
            )
            self.known.update(
                {kind: now for kind, now in current.items() if now is not before.get(kind)}
            )
            self.complete = self.complete or self._reader.complete
            if warning is not None:
                delay = self._reader.delay(clock.random())
                clock.later(delay, partial(self.mark_stale, tuple(kinds)))
        changed = {kind for kind in kinds if self.known.get(kind) != before.get(kind)}
        for kind in kinds:
            self._set_read_time(kind, before.get(kind), began)
        self._reading = set()
        self._awaited -= kinds
        self.lookups_done = max(self.lookups_done, self._lookups)
        started = clock.thread_time()
        self._owner.on_lists_read(connections, warning, frozenset(changed))
        self._set_pause(clock.thread_time() - started)
        if OfferKind.TOOLS not in self._stale:
            waiters, self._refresh_waiters = self._refresh_waiters, []
            for then in waiters:
                then()
        if self._awaited:
            self._start()
        self._look_up()
        self.mark_stale(())

    def _set_pause(self, seconds: float) -> None:
        pause = min(RELIST_PAUSE_FACTOR * seconds, RELIST_SECONDS_MAX)
        self._pause_seconds = max(RELIST_SECONDS_MIN, pause)

    def _set_read_time(self, kind: OfferKind, before: Listing | None, began: float) -> None:
        """Set when a list was read; an unchanged list keeps its object."""
        now = self.known.get(kind)
        if now is None or now is before:
            return
        kept = before if before == now and before is not None else now
        self.known[kind] = replace(kept, freshness=now.freshness, read_at=began)
