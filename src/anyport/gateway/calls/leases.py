"""Leases: which connection a call uses, and who may share it.

A legacy server's questions do not say which call caused them, so a connection over which a
server may ask belongs to one session.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from anyport.clock import Clock
from anyport.gateway.calls.connection_quota import ConnectionQuota, PrivateConnection
from anyport.protocol.exchange import Caller, Session
from anyport.protocol.extensions import EXTENSIONS, bridged_capabilities
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.pool import SESSION_ENDED
from anyport.upstream.server import Server
from anyport.upstream.supervisor import NotReady
from anyport.wire import raw_json

if TYPE_CHECKING:
    from anyport.gateway.calls.call import Call

EXCLUSIVE_CONNECTIONS_MAX: Final = 16
"""Exclusive connections of one principal to one server: as many calls in which its modern clients
can be asked run at a time, and each may be a process."""
EXCLUSIVE_IDLE_SECONDS: Final = 60.0
"""How long an unused exclusive connection is kept for a next call."""
PRINCIPAL_IDLE_SECONDS: Final = 1800.0
"""How long an unused connection of one principal's calls is kept, and the first of its exclusive
connections: what a server remembers of earlier calls is there."""
PRINCIPAL_CONNECTIONS_MAX: Final = 64
"""Connections of principals to one server, one for each; each may be a process."""

EVICTED: Final = "others needed the room"
ALL_IN_USE: Final = "too many connections of single clients are open, and all are in use"


class Leases:
    """Hands out connections, and keeps the keys of sessions, which never change."""

    def __init__(
        self,
        clock: Clock,
        *,
        sole: bool,
        servers: Callable[[], Iterable[Server]] = tuple,
        is_transparent: Callable[[str], bool] = lambda _: False,
        passes_unknown: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._is_transparent = is_transparent
        """Whether a profile is transparent: each of its sessions has a connection of its own."""
        self._passes_unknown = passes_unknown
        """Whether extensions that the gateway does not know pass in a profile."""
        self._clock = clock
        self._servers = servers
        """The servers whose connections count towards the quotas."""
        self._quota = ConnectionQuota()
        self._sole = sole
        self._exclusives: dict[tuple[Server, Principal], list[ExclusiveConnection]] = {}
        self._numbers = count(1)
        self._keys: dict[str, dict[LeaseKey, LeaseKey]] = {}
        """Keys of sessions with connections of their own, by the key that would serve else."""
        self._principal_connections: dict[PrivateConnection, None] = {}
        """Connections that the calls of one principal share."""

    # A connection for one call. What the server speaks decides which: over one connection a modern
    # server serves everybody who may share it; to a legacy one it is the scope that decides, and
    # whether the client can be asked.

    def acquire(self, call: "Call") -> None:
        """Lease a connection for a call: it gets `on_lease`, or `refuse` with the reason."""
        exchange, server = call.exchange, call.server
        is_extension = exchange.method.extension is not None
        if is_extension and server.asleep:
            # Which era it speaks is known when it runs.
            server.lease(next(iter(server.supervisors), SHARED), lambda _: self.acquire(call))
            return
        key = self.key(server, exchange.caller)
        # Many servers of both eras have their extensions in one of them only.
        has_own = key.owner and key.principal is None and not (is_extension and server.modern)
        if not has_own or server.config.scope == "call":
            server.lease(SHARED, partial(self._on_shared_lease, call))
            return
        call.preferred_key = key
        if self.make_room(server, key):
            server.lease(key, partial(self._on_private_lease, call))
        elif server.config.scope == "session":
            call.refuse(ALL_IN_USE)
        else:  # Without a connection of the session's own the server cannot ask, but it can work.
            server.lease(SHARED, partial(self._on_shared_lease, call))

    def _on_shared_lease(self, call: "Call", connection: Connection | NotReady) -> None:
        """Use the shared connection, or lease one for this call, or this principal, alone."""
        exchange, server = call.exchange, call.server
        peer = None if isinstance(connection, NotReady) else connection.peer
        if exchange.ended or peer is None:
            call.on_lease(connection)
            return
        scope, caller, era = server.config.scope, exchange.caller, peer.revision.era
        asks = caller.askable and exchange.method.may_need_input
        if era is Era.MODERN or scope == "shared" or not (scope == "call" or asks):
            self._lease_for_principal(call, connection, era)
            return
        exclusive = self.acquire_exclusive(server, caller)
        if isinstance(exclusive, ExclusiveConnection):
            exchange.lease_owner, call.exclusive = exclusive.key.owner, exclusive
            server.lease(exclusive.key, call.on_lease)
        elif scope == "auto":  # Without one the server cannot ask, but it can work.
            self._lease_for_principal(call, connection, Era.LEGACY)
        else:
            call.refuse(exclusive)

    def _lease_for_principal(
        self, call: "Call", connection: Connection | NotReady, era: Era
    ) -> None:
        """Lease what only this principal's calls use, where principals must not share."""
        exchange, server = call.exchange, call.server
        if era is Era.MODERN and exchange.method.extension is None and self._lease_in_own_era(call):
            return
        key = server.key_for(exchange.caller.principal)
        if key == SHARED or (era is Era.MODERN and not key.separate):
            _deliver(call, connection)
            return
        refusal = self.register_principal_lease(server, key)
        if refusal is None:
            server.lease(key, partial(self._on_private_lease, call))
        else:
            call.refuse(refusal)

    def _lease_in_own_era(self, call: "Call") -> bool:
        """Serve a session in its own era, with others of its principal; False if that is not so.

        A server that speaks both eras is then what its client would have met directly.
        """
        server, caller = call.server, call.exchange.caller
        key = self.key_for_sessions(server, caller)
        if caller.session is None or key is None:
            return False
        call.preferred_key = call.preferred_key or key
        if not server.has_or_may_try(key) or self.register_principal_lease(server, key) is not None:
            return False
        server.assign_session(caller.session.id, key)
        server.lease(key, partial(self._on_private_lease, call))
        return True

    def _on_private_lease(self, call: "Call", connection: Connection | NotReady) -> None:
        exchange, server = call.exchange, call.server
        if isinstance(connection, NotReady):
            # The principal's may have been tried in place of the session's: it is kept for a while.
            others = server.key_for(exchange.caller.principal)
            if others.principal is not None and others in server.supervisors:
                self.register_principal_lease(server, others)
        else:
            key = server.key_of_connection(connection)
            if key is not None and key.principal is not None:
                exchange.lease_owner = key.owner
                self.register_principal_lease(server, key)
        _deliver(call, connection)

    # Keys.

    def key(self, server: Server, caller: Caller) -> LeaseKey:
        """The key of the connection for one request, if the server is a legacy one."""
        session, others = caller.session, server.key_for(caller.principal)
        scope = server.config.scope
        transparent = scope != "shared" and self._is_transparent(caller.profile)
        has_own = has_own_connection(
            scope, caller, sole=self._sole
        ) or self._shares_unknown_extension(server, caller)
        if session is None or not (transparent or has_own):
            return others
        keys = self._keys.setdefault(session.id, {})
        key = keys.get(others)
        if key is None:
            if transparent:
                key = transparent_lease_key(caller, session, others)
            else:
                declared = capabilities_for_server(
                    caller, unknown=self._passes_unknown(caller.profile)
                )
                key = session_lease_key(caller, session, others, declared)
            keys[others] = key
        return key

    def key_for_sessions(self, server: Server, caller: Caller) -> LeaseKey | None:
        """The key of the connection that a session shares with others in its own era, if any."""
        if caller.session is None or self._sole or server.config.scope in ("shared", "call"):
            return None
        return server.key_for_sessions(caller.principal)

    def _shares_unknown_extension(self, server: Server, caller: Caller) -> bool:
        """Whether client and server share an extension that the gateway does not know.

        A client declares it in a handshake, so its session needs a connection of its own.
        """
        unknown = caller.capabilities.unknown
        passes = (
            unknown and server.config.scope != "shared" and self._passes_unknown(caller.profile)
        )
        return bool(passes) and not unknown.isdisjoint(server.extensions)

    def make_room(self, server: Server, key: LeaseKey) -> bool:
        """Make room for a private connection; False if the quota is full of connections in use."""
        if self._sole or not server.needs_another(key):
            return True
        open_connections = [
            PrivateConnection(each, own) for each in self._servers() for own in each.own_keys()
        ]
        exclusives = {
            PrivateConnection(at, exclusive.key): exclusive
            for (at, _), of_principal in self._exclusives.items()
            for exclusive in of_principal
        }
        evicted = self._quota.choose_evictions(
            PrivateConnection(server, key),
            open_connections,
            spare={own for own, exclusive in exclusives.items() if exclusive.free},
            held={own for own, exclusive in exclusives.items() if not exclusive.free},
        )
        for one in evicted or ():
            self._principal_connections.pop(one, None)
            if one in exclusives:
                self._close_exclusive(one.server, one.holder, exclusives[one], EVICTED)
            else:
                one.server.drop(one.key.owner, EVICTED)
        return evicted is not None

    def register_principal_lease(self, server: Server, key: LeaseKey) -> str | None:
        """Count a connection that the calls of one principal share; returns why not, at the limit.

        It is dropped when nobody has used it for a while.
        """
        where = PrivateConnection(server, key)
        if where not in self._principal_connections:
            same_kind = [
                own
                for own in self._principal_connections
                if own.server is server and own.key.of_sessions == key.of_sessions
            ]
            if len(same_kind) >= PRINCIPAL_CONNECTIONS_MAX:
                idle = next((own for own in same_kind if not server.is_busy(own.key)), None)
                if idle is None:
                    others = PRINCIPAL_CONNECTIONS_MAX
                    return f"it serves {others} others, each over a connection of its own"
                self._principal_connections.pop(idle)
                server.drop(idle.key.owner, EVICTED)
            if not self.make_room(server, key):
                return ALL_IN_USE
            self._principal_connections[where] = None
            used = server.uses(key)
            self._clock.later(
                PRINCIPAL_IDLE_SECONDS, partial(self._check_principal_idle, server, key, used)
            )
        return None

    def _check_principal_idle(self, server: Server, key: LeaseKey, used: int) -> None:
        where = PrivateConnection(server, key)
        if where not in self._principal_connections:
            return  # Its server has gone, or another needed the room.
        uses, busy = server.uses(key), server.is_busy(key)
        if uses == used and not busy:
            self._principal_connections.pop(where)
            server.drop(key.owner)
        else:
            self._clock.later(
                PRINCIPAL_IDLE_SECONDS, partial(self._check_principal_idle, server, key, uses)
            )

    def acquire_exclusive(self, server: Server, caller: Caller) -> "ExclusiveConnection | str":
        """A connection for one call alone, or the reason why there is none.

        What a legacy server asks does not say for which call: there must be no other.
        """
        exclusives = self._exclusives.setdefault((server, caller.principal), [])
        declared = capabilities_for_server(caller, unknown=self._passes_unknown(caller.profile))
        exclusive = next(
            (each for each in exclusives if each.free and each.declares(declared)), None
        )
        if exclusive is None:
            exclusive = next((each for each in exclusives if each.free), None)
            if len(exclusives) >= EXCLUSIVE_CONNECTIONS_MAX:
                if exclusive is None:
                    open_calls = EXCLUSIVE_CONNECTIONS_MAX
                    return f"{open_calls} calls are open, each with a connection of its own"
                self._close_exclusive(server, caller.principal, exclusive)
            key = LeaseKey(
                owner=f"call-{next(self._numbers)}",
                capabilities=declared,
                interactive=caller.capabilities.interactive,
                principal=caller.principal,
            )
            if not self.make_room(server, key):
                return ALL_IN_USE
            exclusive = ExclusiveConnection(key)
            self._exclusives.setdefault((server, caller.principal), []).append(exclusive)
        exclusive.free = False
        return exclusive

    def release_exclusive(
        self, server: Server, caller: Caller, exclusive: "ExclusiveConnection"
    ) -> None:
        """Keep the connection of a call that has ended for a next one, or close it."""
        exclusive.free = True
        exclusive.use_count += 1
        if server.config.scope == "call":
            # The next one must find nothing of it.
            self._close_exclusive(server, caller.principal, exclusive)
        elif not exclusive.has_idle_check:
            self._schedule_idle_check(server, caller.principal, exclusive)

    def _schedule_idle_check(
        self, server: Server, principal: Principal, exclusive: "ExclusiveConnection"
    ) -> None:
        """Check in a while whether it was used meanwhile: one timer each, not one for each call."""
        exclusive.has_idle_check = True
        first = self._exclusives[server, principal][0] is exclusive
        seconds = PRINCIPAL_IDLE_SECONDS if first else EXCLUSIVE_IDLE_SECONDS
        self._clock.later(
            seconds,
            partial(self._check_exclusive_idle, server, principal, exclusive, exclusive.use_count),
        )

    def _check_exclusive_idle(
        self, server: Server, principal: Principal, exclusive: "ExclusiveConnection", used: int
    ) -> None:
        exclusive.has_idle_check = False
        if not exclusive.free or exclusive not in self._exclusives.get((server, principal), ()):
            return  # Whoever leaves it has it looked at again.
        if exclusive.use_count == used:
            self._close_exclusive(server, principal, exclusive)
        else:
            self._schedule_idle_check(server, principal, exclusive)

    def _close_exclusive(
        self,
        server: Server,
        principal: Principal,
        exclusive: "ExclusiveConnection",
        reason: str = SESSION_ENDED,
    ) -> None:
        exclusives = self._exclusives.get((server, principal), [])
        if exclusive in exclusives:
            exclusives.remove(exclusive)
            server.drop(exclusive.key.owner, reason)
        if not exclusives:
            self._exclusives.pop((server, principal), None)

    def retire(self, server: Server) -> None:
        """Close what a server that was removed from the configuration has unused."""
        for where in [where for where in self._exclusives if where[0] is server]:
            for exclusive in [each for each in self._exclusives[where] if each.free]:
                self._close_exclusive(*where, exclusive)
        for shared in [shared for shared in self._principal_connections if shared.server is server]:
            del self._principal_connections[shared]

    def forget(self, session_id: str) -> None:
        """Forget a session that has ended."""
        self._keys.pop(session_id, None)


def _deliver(call: "Call", connection: Connection | NotReady) -> None:
    if call.preferred_key is not None and not isinstance(connection, NotReady):
        # What a call over a fallback needs says nothing about the next one.
        call.uses_fallback = call.server.is_fallback(call.preferred_key, connection)
    call.on_lease(connection)


def has_own_connection(scope: str, caller: Caller, *, sole: bool) -> bool:
    """Whether a session has connections of its own.

    `sole` is said of a gateway that serves one client only, as on stdin and stdout: there that
    costs no second process.
    """
    if scope == "shared" or caller.session is None:
        return False
    return sole or scope == "session" or caller.capabilities.interactive


def session_lease_key(
    caller: Caller, session: Session, others: LeaseKey, declared: bytes
) -> LeaseKey:
    """The key of a session's own connection."""
    return LeaseKey(
        owner=session.id,
        capabilities=declared,
        interactive=caller.capabilities.interactive,
        legacy=True,
        client_principal=caller.principal,
        fallback=others,
    )


def transparent_lease_key(caller: Caller, session: Session, others: LeaseKey) -> LeaseKey:
    """The same for a transparent profile, where the server sees the session's client."""
    return LeaseKey(
        owner=session.id,
        # It cannot make tasks of its questions through this gateway.
        capabilities=raw_json.edit(caller.capabilities.raw, {"tasks": None}),
        client_info=session.client,
        revision=session.revision.name,
        legacy=True,
        client_principal=caller.principal,
        fallback=others,
    )


def capabilities_for_server(caller: Caller, *, unknown: bool = False) -> bytes:
    """The client capabilities that a legacy server is sent, with `unknown` extensions if wanted."""
    # Before the handshake it is not known which extensions the server offers.
    own = caller.capabilities
    return bridged_capabilities(own.raw, Era.LEGACY, EXTENSIONS, own.unknown if unknown else ())


class ExclusiveConnection:
    """A connection for one call at a time."""

    __slots__ = ("free", "has_idle_check", "key", "use_count")

    def __init__(self, key: LeaseKey) -> None:
        self.key = key
        self.free = True
        self.has_idle_check = False
        self.use_count = 0
        """How many calls have used it."""

    def declares(self, declared: bytes) -> bool:
        """Whether it was opened with just these client capabilities."""
        return self.key.capabilities == declared
