"""Which connection a caller's request uses. Pure.

A legacy server's questions do not say which call caused them, so a connection over which a
server may ask belongs to one session.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from anyport.protocol.exchange import Caller
from anyport.protocol.extension import EXTENSIONS, bridged_capabilities
from anyport.protocol.principal import Principal
from anyport.protocol.revision import Era
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.server import Server

SEATS_MAX: Final = 16
"""Connections to one server on which it may ask one principal's modern clients; as many of their
calls run at a time, and each may be a process."""
SEAT_IDLE_SECONDS: Final = 60.0
"""How long such a connection is kept for the next call."""
FIRST_SEAT_IDLE_SECONDS: Final = 1800.0
"""The first of them is kept longer: what a server remembers of earlier calls, it has there."""
PRINCIPALS_MAX: Final = 64
"""Connections to one server with `scope = "principal"`, one for each of them; each may be a
process."""


class Leases:
    """Remembers the keys of open sessions: they do not change from call to call."""

    def __init__(self, later: Callable[[float, Callable[[], None]], object], *, sole: bool) -> None:
        self._later = later
        self._sole = sole
        self._seats: dict[tuple[Server, Principal], list[Seat]] = {}
        self._numbers = count(1)
        self._keys: dict[tuple[str, str], LeaseKey] = {}
        self._shared: dict[tuple[Server, LeaseKey], int] = {}
        """How often each connection was used that one principal's calls share."""

    def key(self, scope: str, caller: Caller) -> LeaseKey:
        """The key of the connection for one request."""
        if caller.session is None:
            return SHARED
        where = (caller.session.id, scope)
        key = self._keys.get(where)
        if key is None:
            key = self._keys[where] = lease_key(scope, caller, sole=self._sole)
        return key

    def shared_by(self, server: Server, caller: Caller) -> LeaseKey | None:
        """The key of the connection that all calls of one principal share; None if too many do.

        It is dropped when nobody has used it for a while.
        """
        key = LeaseKey(owner=f"principal-{caller.principal}", principal=caller.principal)
        uses = self._shared.get((server, key))
        if uses is None:
            if sum(other is server for other, _ in self._shared) >= PRINCIPALS_MAX:
                return None
            self._later(FIRST_SEAT_IDLE_SECONDS, partial(self._look_at, server, key, 1))
        self._shared[server, key] = (uses or 0) + 1
        return key

    def _look_at(self, server: Server, key: LeaseKey, used: int) -> None:
        uses = self._shared.get((server, key))
        if uses is None:
            return  # Its server has gone.
        busy = any(line.open_calls for other, line in server.connections() if other == key)
        if uses == used and not busy:
            del self._shared[server, key]
            server.drop(key.owner)
        else:
            self._later(FIRST_SEAT_IDLE_SECONDS, partial(self._look_at, server, key, uses))

    def seat(self, server: Server, caller: Caller) -> "Seat | None":
        """A connection that one call has to itself.

        What a legacy server asks does not say for which call: there must be no other.
        """
        seats = self._seats.setdefault((server, caller.principal), [])
        declared = declaration(caller)
        seat = next((seat for seat in seats if seat.free and seat.declares(declared)), None)
        if seat is None:
            seat = next((seat for seat in seats if seat.free), None)
            if len(seats) >= SEATS_MAX:
                if seat is None:
                    return None
                self._clear(server, caller.principal, seat)
            key = LeaseKey(
                owner=f"call-{next(self._numbers)}",
                capabilities=declared,
                interactive=caller.capabilities.interactive,
                principal=caller.principal,
            )
            seat = Seat(key)
            self._seats.setdefault((server, caller.principal), []).append(seat)
        seat.free = False
        return seat

    def leave(self, server: Server, caller: Caller, seat: "Seat") -> None:
        """A call needs its connection no longer."""
        seat.free = True
        seat.used += 1
        if server.config.scope == "call":
            self._clear(server, caller.principal, seat)  # The next one must find nothing of it.
        elif not seat.watched:
            self._watch(server, caller.principal, seat)

    def _watch(self, server: Server, principal: Principal, seat: "Seat") -> None:
        """Look in a while whether it was used meanwhile; one look for each, not for each call."""
        seat.watched = True
        first = self._seats[server, principal][0] is seat
        seconds = FIRST_SEAT_IDLE_SECONDS if first else SEAT_IDLE_SECONDS
        self._later(seconds, partial(self._look, server, principal, seat, seat.used))

    def _look(self, server: Server, principal: Principal, seat: "Seat", used: int) -> None:
        seat.watched = False
        if not seat.free or seat not in self._seats.get((server, principal), ()):
            return  # Whoever leaves it has it looked at again.
        if seat.used == used:
            self._clear(server, principal, seat)
        else:
            self._watch(server, principal, seat)

    def _clear(self, server: Server, principal: Principal, seat: "Seat") -> None:
        seats = self._seats.get((server, principal), [])
        if seat in seats:
            seats.remove(seat)
            server.drop(seat.key.owner)
        if not seats:
            self._seats.pop((server, principal), None)

    def retire(self, server: Server) -> None:
        """A server is no longer in the configuration: no new call gets a connection to it."""
        for where in [where for where in self._seats if where[0] is server]:
            for seat in [seat for seat in self._seats[where] if seat.free]:
                self._clear(*where, seat)
        for shared in [shared for shared in self._shared if shared[0] is server]:
            del self._shared[shared]

    def forget(self, session_id: str) -> None:
        """A session has ended."""
        for where in [where for where in self._keys if where[0] == session_id]:
            del self._keys[where]


def lease_key(scope: str, caller: Caller, *, sole: bool) -> LeaseKey:
    """The key of the connection for one request.

    `sole` is said of a gateway that serves one client only, as on stdin and stdout: there a
    session of its own costs no second process.
    """
    session = caller.session
    if scope == "shared" or session is None:
        return SHARED
    if not (sole or scope == "session" or caller.capabilities.interactive):
        return SHARED
    return LeaseKey(
        owner=session.id,
        capabilities=declaration(caller),
        interactive=caller.capabilities.interactive,
    )


def declaration(caller: Caller) -> bytes:
    """What a legacy server is told that it may ask."""
    # Before the handshake it is not known which extensions the server offers.
    return bridged_capabilities(caller.capabilities.raw, Era.LEGACY, EXTENSIONS)


class Seat:
    """A connection for one call at a time."""

    __slots__ = ("free", "key", "used", "watched")

    def __init__(self, key: LeaseKey) -> None:
        self.key = key
        self.free = True
        self.watched = False
        self.used = 0
        """How often it was left."""

    def declares(self, declared: bytes) -> bool:
        """Whether the server was told just this when the connection was opened."""
        return self.key.capabilities == declared
