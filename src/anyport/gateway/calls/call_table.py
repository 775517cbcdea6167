"""The table of calls in flight: open, overdue, parked; at which server, on whose connection.

There is one for a gateway. Only the fast path writes to `CallTable.open` itself: a method call for
each of its calls would cost too much.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from anyport.clock import Clock
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import Exchange
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.pending_call import PendingCall
from anyport.upstream.server import Server

if TYPE_CHECKING:
    from anyport.gateway.calls.call import Call
    from anyport.gateway.calls.fast_path import FastCall

SWEEP_SECONDS: Final = 0.25
"""Between two looks for overdue calls; a timer for each call would cost more than the call."""


class CallTable:
    """The calls in flight."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.open: dict[Exchange | FastCall, Call | FastCall] = {}
        """Calls whose clients wait, by exchange; one on the fast path has none, and is its own
        key."""
        self.questioned: dict[Call, None] = {}
        """Calls of modern clients in which a legacy server has asked something: parked ones, and
        those that are about to be parked or have been."""
        self.parked: dict[str, Call] = {}
        """Calls whose clients were told that input is required, by the id that they come back
        with. Their time stands still."""
        self.is_sweep_scheduled = False
        """There are no sweeps while nothing is open."""
        self.on_sweep: Callable[[float], None] = lambda _: None
        """Called with the time at every sweep."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when the last call has ended."""

    def __len__(self) -> int:
        return len(self.open)

    def add(self, call: "Call") -> None:
        """Add a call that starts, or goes on."""
        self.open[call.exchange] = call
        if not self.is_sweep_scheduled:
            self.schedule_sweep()

    def remove(self, exchange: Exchange) -> None:
        """Remove a call that has ended, or is parked."""
        self.open.pop(exchange, None)

    def find(self, exchange: Exchange) -> "Call | None":
        """The call of an exchange, open or in the middle of a question."""
        call = self.open.get(exchange) or self.find_questioned_by_owner(exchange.lease_owner)
        return None if call is None else call.leave_fast_path()

    # At a server.

    def at_server(self, server: Server) -> Iterator["Call | FastCall"]:
        """The open calls to one server."""
        return (call for call in self.open.values() if call.server is server)

    def exchanges_at(self, server: Server, cause: PendingCall | None = None) -> list[Exchange]:
        """The exchanges that a server works on; only the one of `cause`, where that is known."""
        calls = [
            call.leave_fast_path()
            for call in list(self.at_server(server))
            if cause is None or call.pending is cause
        ]
        return [call.exchange for call in calls if not call.is_answered_locally]

    def exchanges_over(self, server: Server, key: LeaseKey) -> list[Exchange]:
        """The exchanges that a server works on over one connection."""
        return [e for e in self.exchanges_at(server) if uses_connection(server, key, e)]

    # Parked.

    def add_questioned(self, call: "Call") -> None:
        """Add a call to those in which the server has asked something."""
        self.questioned[call] = None

    def park(self, id: str, call: "Call") -> None:
        """Add a call to the parked ones, by the id that its client comes back with."""
        self.parked[id] = call

    def unpark(self, id: str) -> None:
        """Remove a call from the parked ones: its client is back."""
        self.parked.pop(id, None)

    def forget(self, call: "Call", id: str) -> None:
        """Remove a questioned call that has ended; `id` is that of `park`, or empty."""
        self.questioned.pop(call, None)
        self.parked.pop(id, None)

    # On a connection that a call has to itself.

    def find_by_owner(self, owner: str) -> "Call | None":
        """The call that a connection belongs to, once its server knows of the call."""
        for call in self.open.values():
            if call.lease_owner == owner and call.pending is not None:
                return call.leave_fast_path()
        return self.find_questioned_by_owner(owner)

    def find_questioned_by_owner(self, owner: str) -> "Call | None":
        """The call that a connection belongs to, if its server has asked over it."""
        calls = (call for call in self.questioned if call.lease_owner == owner)
        return next(calls, None) if owner else None

    def find_parked_by_owner(self, owner: str) -> "Call | None":
        """The call that a connection belongs to, if it is parked."""
        call = self.find_questioned_by_owner(owner)
        return call if call is not None and call.is_parked else None

    # Overdue.

    def schedule_sweep(self) -> None:
        self.is_sweep_scheduled = True
        self._clock.later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        try:
            self.sweep(self._clock.monotonic())
        finally:
            self.is_sweep_scheduled = False
            if self.open:
                self.schedule_sweep()
            else:
                self.on_idle()

    def sweep(self, now: float) -> None:
        """End every call that is overdue."""
        self.on_sweep(now)
        for key, call in list(self.open.items()):
            if key not in self.open:
                continue  # Ending one call may have ended another.
            timeout = call.check_deadline(now)
            if timeout is not None:
                self.open.pop(key, None)
                call.on_timeout(timeout)

    def expire_all(self, timeout: Timeout) -> None:
        """End every call that is open."""
        for _ in range(2):  # A call on the fast path leaves it the first time.
            for key, call in list(self.open.items()):
                if key in self.open:
                    call.on_timeout(timeout)


def connection_owner(server: Server, exchange: Exchange) -> str:
    """The owner of the connection that an exchange uses; empty for the shared one."""
    session = exchange.caller.session
    is_own = session is not None and server.has_own_connection(session.id)
    return exchange.lease_owner or (session.id if session is not None and is_own else "")


def uses_connection(server: Server, key: LeaseKey, exchange: Exchange) -> bool:
    session = exchange.caller.session
    if session is not None and session.id == key.owner:
        return not exchange.lease_owner
    return connection_owner(server, exchange) == key.owner
