"""Lists of single connections, where they differ from those of the server.

A process or a legacy session may list something for its own client only, such as a tool that a call
has added. So the lists of a connection that belongs to a session or a principal are read over that
connection, and shown only to the clients that it serves. Only what differs from the server's lists
is kept, as long as the connection is open.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.catalog.offers import Listing
from anyport.clock import Clock
from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.lists import (
    ListConnections,
    ListTrust,
    ServerLists,
    notifies_changes,
)
from anyport.upstream.peer import Peer

if TYPE_CHECKING:
    from anyport.upstream.server import Server

CONNECTION_LISTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""For the lists of one server's connections that differ from its own; equal ones count once. Beyond
it, clients of a connection see the server's lists."""

OVER_BUDGET: Final = (
    "what it lists over some connections alone takes more than "
    f"{CONNECTION_LISTS_BYTES_MAX >> 20} MiB: "
    "their clients are shown what everybody is"
)


@dataclass(frozen=True, slots=True, eq=False)
class ListDifference:
    """Lists that differ from the server's; connections with equal lists share one object."""

    listings: Mapping[OfferKind, Listing]
    digest: bytes
    size: int


class ConnectionLists:
    """The lists of one connection."""

    lists_ready: Final = True
    """They are always worth waiting for."""
    disabled_reason: Final = None

    def __init__(
        self, group: "ListsByConnection", key: LeaseKey, connection: Connection, clock: Clock
    ) -> None:
        self.key = key
        self.connection = connection
        self.lists = ServerLists(group.server.config, self, clock)
        self._group = group
        self.lists_overdue = False
        """A request has waited for them in vain: no other waits until they come."""
        self.has_been_read = False
        self.difference: ListDifference | None = None
        """What its clients see instead of the server's lists."""
        self.over_budget = False
        """Whether there is no room for the difference."""

    @property
    def listings(self) -> Mapping[OfferKind, Listing]:
        return self.lists.known

    @property
    def peer(self) -> Peer | None:
        return self.connection.peer

    @property
    def modern(self) -> bool:
        """Whether the connection was opened without a handshake."""
        return self.peer is not None and self.peer.revision.era is Era.MODERN

    def list_connections(self) -> ListConnections:
        return ListConnections(main=self.connection if self.connection.usable else None)

    def on_lists_read(
        self, connections: ListConnections, warning: str | None, changed: frozenset[OfferKind]
    ) -> None:
        if connections.main is not None:
            self._group.on_lists_read(self)

    def trust(self, kind: OfferKind, *, newcomer: bool) -> ListTrust:
        """How far a list can be trusted; a `newcomer` has not seen any."""
        notifies = self.peer is not None and notifies_changes(self.peer, kind)
        return ListTrust(
            timed=self.modern or kind is OfferKind.SKILLS,
            notified_since=self.connection.listening_since if notifies else inf,
            first_view=newcomer,
        )


class ListsByConnection:
    """The lists of all connections to one server that may have their own."""

    def __init__(self, server: "Server", clock: Clock) -> None:
        self.server = server
        self._clock = clock
        self._open: dict[LeaseKey, ConnectionLists] = {}
        self._of_calls: dict[Principal, ConnectionLists] = {}
        """Those of connections that serve one call at a time."""

    def find(self, key: LeaseKey) -> ConnectionLists | None:
        """The lists of a connection, if it has its own."""
        return self._open.get(key)

    def find_for_calls(self, principal: Principal) -> ConnectionLists | None:
        """Those of the connection that a principal's calls use one at a time, if it has its own."""
        return self._of_calls.get(principal)

    @property
    def differences(self) -> frozenset[ListDifference]:
        """All differences from the server's lists."""
        found = (own.difference for own in self._open.values())
        return frozenset(difference for difference in found if difference is not None)

    @property
    def warning(self) -> str | None:
        """A warning for the operator."""
        return OVER_BUDGET if any(own.over_budget for own in self._open.values()) else None

    def start(self, key: LeaseKey, connection: Connection) -> None:
        """Read the lists of a connection that was opened; until then it has those of the server."""
        lists = self._open[key] = ConnectionLists(self, key, connection, self._clock)
        lists.lists.known.update(self.server.listings)
        if key.of_one_call and key.principal is not None:
            self._of_calls[key.principal] = lists
        lists.lists.read_all(awaited=True)

    def on_lists_read(self, lists: ConnectionLists) -> None:
        """The lists of a connection were read: keep what differs from the server's."""
        if self._open.get(lists.key) is not lists:
            return  # The connection was closed, or opened again, while they were read.
        lists.lists_overdue, lists.has_been_read = False, True
        before = lists.difference
        self._compare(lists)
        self.server.on_connection_lists_read(lists.key, lists.difference is not before)

    def forget(self, key: LeaseKey) -> bool | None:
        """Drop the lists of a closed connection; returns whether they differed, None if it had
        none."""
        own = self._open.pop(key, None)
        if own is None:
            return None
        own.lists.close()
        if key.of_one_call and key.principal is not None:
            self._of_calls.pop(key.principal, None)
        return own.difference is not None

    def mark_stale(self, key: LeaseKey, kinds: Iterable[OfferKind]) -> bool:
        """Have lists of a connection read again; False if it has none of its own."""
        own = self._open.get(key)
        if own is not None:
            own.lists.mark_stale(kinds)
        return own is not None

    def mark_differing_stale(self, kinds: Iterable[OfferKind]) -> None:
        """The server's lists have changed: where a connection's lists differ, they may have changed
        too."""
        for own in self._open.values():
            if own.difference is not None:
                own.lists.mark_stale(kinds)

    def compare(self) -> None:
        """The server's lists have changed: compare all others with them."""
        for own in self._open.values():
            if own.over_budget:
                own.lists.known.update(self.server.listings)
            elif own.has_been_read:
                self._compare(own)

    def _compare(self, own: ConnectionLists) -> None:
        shared, known = self.server.listings, own.lists.known
        differing: dict[OfferKind, Listing] = {}
        for kind, listing in known.items():
            theirs = shared.get(kind, Listing())
            if not _is_same(listing, theirs, asks=own.key.interactive):
                differing[kind] = listing
            elif len(listing.offers) == len(theirs.offers):
                # Shared, to keep them in memory once.
                known[kind] = replace(listing, offers=theirs.offers)
        own.over_budget = False
        if not differing:
            own.difference = None
            return
        digest = _digest(differing)
        others = self.differences
        same = next((each for each in others if each.digest == digest), None)
        if same is not None:
            own.difference = same
            for kind, listing in same.listings.items():
                known[kind] = replace(known[kind], offers=listing.offers)
            return
        own.difference = None
        size = sum(len(offer.raw) for each in differing.values() for offer in each.offers)
        own.over_budget = (
            size + sum(each.size for each in self.differences) > CONNECTION_LISTS_BYTES_MAX
        )
        if own.over_budget:
            known.update({kind: shared.get(kind, Listing()) for kind in differing})
        else:
            own.difference = ListDifference(differing, digest, size)


def _is_same(own: Listing, everyones: Listing, *, asks: bool) -> bool:
    """Whether clients see the same in both lists; `asks` if the server may send them requests.

    Some servers list in a different order, or write JSON differently, in each era or process.
    """
    theirs = {
        offer.native: offer.raw for offer in everyones.offers if asks or not offer.needs_input
    }
    mine = {offer.native: offer.raw for offer in own.offers}
    return (
        own.tasks == everyones.tasks
        and mine.keys() == theirs.keys()
        and all(
            raw == theirs[name] or _is_same_json(raw, theirs[name]) for name, raw in mine.items()
        )
    )


def _is_same_json(one: bytes, other: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except (msgspec.DecodeError, RecursionError):
        return False


def _digest(listings: Mapping[OfferKind, Listing]) -> bytes:
    state = blake2b(digest_size=16)
    for kind, listing in listings.items():
        state.update(b"%b %d %d\n" % (kind.value.encode(), listing.tasks, len(listing.offers)))
        for offer in listing.offers:
            state.update(b"%d\n%b" % (len(offer.raw), offer.raw))
    return state.digest()
