"""How an exchange comes to the connection that it may use.

Which one that is depends on what the server speaks: a modern one serves everybody over one. To a
legacy one it is the scope that decides, and whether the client can be asked.
"""

from typing import Protocol

from anyport.gateway.leases import PRINCIPALS_MAX, SEATS_MAX, Leases, Seat
from anyport.protocol.exchange import Exchange
from anyport.protocol.revision import Era
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED
from anyport.upstream.server import Server


class Traveller(Protocol):
    """The errand, as its way to a connection sees it."""

    exchange: Exchange
    server: Server

    def take_seat(self, seat: Seat) -> None:
        """A connection is its own until it leaves."""

    def leased(self, lease: Connection | str) -> None:
        """It has a connection, or there is none for the reason given."""

    def refuse(self, reason: str) -> None:
        """There is no room for it."""


class Approach:
    """The way of one exchange."""

    __slots__ = ("_key", "_leases", "_traveller")

    def __init__(self, traveller: Traveller, leases: Leases) -> None:
        self._traveller = traveller
        self._leases = leases
        self._key = SHARED

    def begin(self) -> None:
        """Ask for a connection."""
        exchange, server = self._traveller.exchange, self._traveller.server
        scope, caller = server.config.scope, exchange.caller
        key = self._leases.key(scope, caller)
        if exchange.method.extension is not None and server.asleep:
            # What it speaks is known when it runs.
            server.lease(next(iter(server.tenders), SHARED), lambda _: self.begin())
            return
        if exchange.method.extension is not None and server.modern:
            key = SHARED  # Many that speak both eras have their extensions in one of them only.
        self._key = key
        asks = caller.askable and exchange.method.may_need_input
        apart = asks if scope == "auto" else scope != "shared"
        server.lease(key, self._met if apart else self._traveller.leased)

    def _met(self, lease: Connection | str) -> None:
        """A server that keeps sessions gets one for this call, or this principal, alone."""
        traveller = self._traveller
        exchange, server = traveller.exchange, traveller.server
        peer = None if isinstance(lease, str) else lease.peer
        if exchange.ended or peer is None or peer.revision.era is Era.MODERN:
            traveller.leased(lease)
            return
        scope, caller = server.config.scope, exchange.caller
        if scope != "call" and not (caller.askable and exchange.method.may_need_input):
            self._share(lease)
            return
        seat = self._leases.seat(server, caller)
        if seat is not None:
            exchange.lease = seat.key.owner
            traveller.take_seat(seat)
            server.lease(seat.key, traveller.leased)
        elif scope == "auto":  # Then the server may not ask, but it may work.
            traveller.leased(lease)
        else:
            traveller.refuse(f"{SEATS_MAX} calls are open, each with a connection of its own")

    def _share(self, lease: Connection | str) -> None:
        """Use what only this principal's calls use, unless the session has one of its own."""
        traveller = self._traveller
        exchange, server = traveller.exchange, traveller.server
        if self._key != SHARED:
            traveller.leased(lease)
            return
        key = self._leases.shared_by(server, exchange.caller)
        if key is None:
            words = f"it serves {PRINCIPALS_MAX} others, each over a connection of its own"
            traveller.refuse(words)
            return
        exchange.lease = key.owner
        server.lease(key, traveller.leased)
