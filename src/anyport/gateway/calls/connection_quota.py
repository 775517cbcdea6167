"""Quotas of private connections, and which one is evicted for another. Pure.

A private connection belongs to one session, call or principal, and may be a process. There is a
limit for each server, for each principal, and in all. At a limit, a spare connection that waits for
a next call is evicted first, else the one that the principal with most of them has not used for
longest. A connection in use is never evicted.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from anyport.protocol.principal import Principal
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.server import Server

PRIVATE_OF_PRINCIPAL_AT_SERVER_MAX: Final = 128
"""Of one principal, to one server."""
PRIVATE_OF_SERVER_MAX: Final = 256
"""To one server."""
PRIVATE_OF_PRINCIPAL_MAX: Final = 512
"""Of one principal, to all servers."""
PRIVATE_CONNECTIONS_MAX: Final = 1024
"""Of all principals, to all servers."""


class PrivateConnection(NamedTuple):
    """A connection to a server that belongs to one session, call or principal."""

    server: Server
    key: LeaseKey

    @property
    def holder(self) -> Principal:
        """The principal it belongs to."""
        return self.key.client_principal if self.key.principal is None else self.key.principal


_QUOTAS: Final[Sequence[tuple[int, Callable[[PrivateConnection, PrivateConnection], bool]]]] = (
    (
        PRIVATE_OF_PRINCIPAL_AT_SERVER_MAX,
        lambda one, new: one.holder == new.holder and one.server is new.server,
    ),
    (PRIVATE_OF_PRINCIPAL_MAX, lambda one, new: one.holder == new.holder),
    (PRIVATE_OF_SERVER_MAX, lambda one, new: one.server is new.server),
    (PRIVATE_CONNECTIONS_MAX, lambda one, new: True),
)
"""Each limit, and which open connections count towards it beside a new one."""


class ConnectionQuota:
    """Knows when each private connection was last in use."""

    def __init__(self) -> None:
        self._last_uses: dict[PrivateConnection, tuple[int, int]] = {}
        """The number of uses of each, and in which scan that number was first seen."""
        self._scan_count = 0

    def choose_evictions(
        self,
        new: PrivateConnection,
        open: Iterable[PrivateConnection],
        spare: Collection[PrivateConnection] = (),
        held: Collection[PrivateConnection] = (),
    ) -> list[PrivateConnection] | None:
        """The open connections to close for a new one; None if too few can be closed.

        `spare` connections go first; `held` ones never do, even while no call is open on them.
        """
        known = self._scan_uses(open)
        evicted: list[PrivateConnection] = []
        for limit, counts in _QUOTAS:
            candidates = [one for one in known if one not in evicted and counts(one, new)]
            for _ in range(len(candidates) - limit + 1):
                victim = self._victim(candidates, spare, held)
                if victim is None:
                    return None
                candidates.remove(victim)
                evicted.append(victim)
        return evicted

    def _scan_uses(self, open: Iterable[PrivateConnection]) -> list[PrivateConnection]:
        """Find out which were used since the last scan. Uses cost only a counter each."""
        self._scan_count += 1
        last_uses, self._last_uses = self._last_uses, {}
        for one in open:
            uses, before = one.server.uses(one.key), last_uses.get(one)
            changed = before is None or before[0] != uses
            self._last_uses[one] = (uses, self._scan_count) if changed or before is None else before
        return list(self._last_uses)

    def _victim(
        self,
        candidates: Sequence[PrivateConnection],
        spare: Collection[PrivateConnection],
        held: Collection[PrivateConnection],
    ) -> PrivateConnection | None:
        """The connection to close: unused for longest, of the principal with most of them."""
        counts = Counter(one.holder for one in candidates)

        def rank(one: PrivateConnection) -> tuple[bool, int, int]:
            return one not in spare, -counts[one.holder], self._last_uses[one][1]

        ranked = sorted((one for one in candidates if one not in held), key=rank)
        return next((one for one in ranked if not one.server.is_busy(one.key)), None)
