"""Connection pool of one server: which connection serves a caller, and when it is opened and
closed.

A modern server needs one connection for all clients, a legacy server one for each session that it
may ask something. A server that speaks both eras is asked for a handshake on behalf of such a
session.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from anyport.clock import Clock
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.upstream.connection import Connection
from anyport.upstream.handshake_trials import HandshakeTrials
from anyport.upstream.lease_key import SHARED, LeaseKey, owner_of_all
from anyport.upstream.peer import Peer
from anyport.upstream.supervisor import (
    ConnectionSupervisor,
    IdleTracker,
    LeaseCallback,
    NotReady,
    ServerState,
    UsageSample,
)

if TYPE_CHECKING:
    from anyport.upstream.server import Server

SESSION_ENDED: Final = "the session it belonged to has ended"


class ConnectionPool:
    """The connections to one server, by lease key."""

    def __init__(self, server: "Server", clock: Clock) -> None:
        self.supervisors: dict[LeaseKey, ConnectionSupervisor] = {}
        self._keys: dict[str, LeaseKey] = {}
        """By owner."""
        self._shared_sessions: dict[str, LeaseKey] = {}
        """Keys of connections that serve several sessions, by session."""
        self._closing: set[ConnectionSupervisor] = set()
        self._server = server
        self._clock = clock
        self.trials = HandshakeTrials()
        self._waiting: dict[int, tuple[LeaseKey, LeaseCallback]] = {}
        """Leases that wait until the era of the server is known."""
        self._numbers = count()
        self._stopped: str | None = None
        """Why nothing is opened any more: leases that were waiting must not open a connection at
        the end."""

    @property
    def main(self) -> ConnectionSupervisor | None:
        """The connection that was opened first; lists are read over it."""
        return next(iter(self.supervisors.values()), None)

    @property
    def peer(self) -> Peer | None:
        return None if self.main is None else self.main.peer

    @property
    def modern(self) -> bool:
        """Whether the server is running and modern."""
        return self.peer is not None and self.peer.revision.era is Era.MODERN

    def key_of(self, session: str, principal: Principal) -> LeaseKey:
        """The key of the connection that serves a session, or callers without one.

        The session's own connection, else that of its principal, else the shared one.
        """
        own = self._keys.get(session) or self._shared_sessions.get(session)
        if own is not None and own in self.supervisors:
            return own
        own = self._keys.get(owner_of_all(principal))
        if own is not None:
            return own
        # With a single client, its own connection may be the only one.
        return next(iter(self.supervisors), SHARED) if self.modern else SHARED

    def assign_session(self, session: str, key: LeaseKey) -> bool:
        """Have a shared connection serve a session; returns whether that is new."""
        is_new = self._shared_sessions.get(session) != key
        self._shared_sessions[session] = key
        return is_new

    def has_own_connection(self, session: str) -> bool:
        return session in self._keys

    def key_of_owner(self, owner: str) -> LeaseKey | None:
        return self._keys.get(owner)

    @property
    def keys(self) -> list[LeaseKey]:
        """The keys of all connections, and of leases that wait for the era to be known."""
        waiting = (key for key, _ in self._waiting.values())
        return list(dict.fromkeys((*self.supervisors, *waiting)))

    def is_starting(self, key: LeaseKey) -> bool:
        """Whether a lease waits for this connection to be opened."""
        supervisor = self.supervisors.get(key)
        if supervisor is None:
            return any(other == key for other, _ in self._waiting.values())
        return supervisor.state is ServerState.STARTING

    def needs_another(self, key: LeaseKey) -> bool:
        """Whether a lease of this key would open a connection."""
        if key in self.keys:
            return False
        tries = key.wants_session and self.trials.may_try(key, self._clock.monotonic())
        return not self.modern or key.separate or tries

    def lease_main(self, ready: LeaseCallback) -> None:
        """Lease the connection that was opened first."""
        if self.main is None:
            ready(NotReady(self._server.disabled_reason or "it has not been started"))
        else:
            self.main.when_ready(ready)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        """Every connection that is ready."""
        return [
            (key, supervisor.connection)
            for key, supervisor in self.supervisors.items()
            if supervisor.state is ServerState.READY and supervisor.connection is not None
        ]

    def open(self, key: LeaseKey) -> ConnectionSupervisor | None:
        """The supervisor for a key, started if there is none; None if the server is not to be
        started."""
        supervisor = self.supervisors.get(key)
        if supervisor is not None:
            return supervisor
        if self._stopped is not None or self._server.disabled_reason is not None:
            return None
        if not self.modern or key.separate:
            return self._start(key, trial=False)
        if key.wants_session and self.trials.may_try(key, self._clock.monotonic()):
            return self._start(key, trial=True)
        # A modern request carries its client's capabilities: one connection serves all clients.
        return self.main if key.fallback is None else self.open(key.fallback)

    def open_first(self, key: LeaseKey) -> None:
        """Open the connection that lists are read over, for a client with this key.

        It has to outlive the client's session, so it is not the client's own unless there is only
        one client.
        """
        if self.main is None:
            self.open(key if self._server.context.single_client else SHARED)

    def lease(self, key: LeaseKey, ready: LeaseCallback) -> None:
        """Pass a connection for this key to `ready`, or the reason why there is none."""
        if key.owner:
            self.open_first(key)
        main = self.main
        if main is not None and key not in self.supervisors and main.can_become_ready:
            # Whether the key needs a connection of its own depends on the era, which is not known
            # yet: park the lease until the first handshake is done.
            number = next(self._numbers)
            self._waiting[number] = (key, ready)
            main.when_ready(lambda _: self._resume_lease(number))
            return
        if main is not None and main.asleep:
            main.wake()
        self._lease(key, ready)

    def on_ready(self, key: LeaseKey, *, automatic: bool) -> None:
        """A connection is ready; `automatic` if the configuration does not choose its era."""
        self.trials.on_success(key, self._clock.monotonic())
        if self.supervisors[key] is self.main:
            self.trials.on_server_started(automatic=automatic)

    def drop_failed_trial(self, key: LeaseKey, reason: str) -> bool:
        """Drop a failed connection if it was only a handshake trial; returns whether it was."""
        if key not in self.trials.open:
            return False
        supervisor = self._remove(key)
        now = self._clock.monotonic()
        silent = supervisor.timeout is not None
        if supervisor.keeps_no_session:
            self.trials.keeps_no_session(key)
        else:
            self.trials.on_failure(key, reason, now, refused=supervisor.refused, silent=silent)
        self._clock.spawn(supervisor.stop(reason), f"stop {self._server.slug}")
        return True

    def forget_session(self, owner: str) -> None:
        """A session has ended: cancel its leases that wait for the era."""
        self.trials.forget(owner)
        self._shared_sessions.pop(owner, None)
        theirs = [each for each, (key, _) in self._waiting.items() if owner and key.owner == owner]
        for number in theirs:
            _, ready = self._waiting.pop(number)
            ready(NotReady(SESSION_ENDED))

    def close(self, key: LeaseKey, reason: str | None) -> None:
        """Close a connection for good. Without a reason that is not reported."""
        description = reason or "it is not needed any more"
        supervisor = self._remove(key)
        self.trials.open.discard(key)
        if supervisor.connection is not None:
            # Callers that still hold it must not use it.
            supervisor.connection.draining_reason = description
        self._closing.add(supervisor)
        supervisor.stop_restarting(description)
        reported = reason if supervisor.state is not ServerState.IDLE else None
        self._clock.spawn(
            self._stop_dropped(supervisor, description, reported), f"stop {self._server.slug}"
        )

    async def stop(self, reason: str) -> None:
        """Close every connection, including those that are being closed."""
        self._stopped = reason
        supervisors = [*self.supervisors.values(), *self._closing]
        await asyncio.gather(*(supervisor.stop(reason) for supervisor in supervisors))

    async def _stop_dropped(
        self, supervisor: ConnectionSupervisor, description: str, reported: str | None
    ) -> None:
        await supervisor.stop(description)
        self._closing.discard(supervisor)
        if reported is not None:
            self._server.on_connection_closed(reported)

    def _remove(self, key: LeaseKey) -> ConnectionSupervisor:
        self._keys.pop(key.owner, None)
        return self.supervisors.pop(key)

    def _resume_lease(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            self._lease(*waiting)

    def _lease(self, key: LeaseKey, ready: LeaseCallback) -> None:
        supervisor = self.open(key)
        if supervisor is None:
            reason = self._stopped or self._server.disabled_reason or "it is not configured"
            ready(NotReady(reason))
        elif key in self.trials.open:
            supervisor.when_ready(partial(self._on_trial_done, key, ready))
        else:
            supervisor.when_ready(ready)

    def _on_trial_done(
        self, key: LeaseKey, ready: LeaseCallback, result: Connection | NotReady
    ) -> None:
        """A trial that failed is not the caller's problem: lease the fallback."""
        if not isinstance(result, NotReady):
            ready(result)
        elif key.fallback is not None:
            self._lease(key.fallback, ready)
        else:
            self.lease_main(ready)

    def _start(self, key: LeaseKey, *, trial: bool) -> ConnectionSupervisor:
        supervisor = self.supervisors[key] = self._server.make_supervisor(key, trial=trial)
        if key.owner:
            self._keys[key.owner] = key
        if trial:
            self.trials.open.add(key)
        self._clock.spawn(supervisor.run(), f"run {self._server.slug}")
        return supervisor


# Demand: whether a connection is to be opened, kept or closed.
#
# `start` in the configuration says whether a server is started before its first use, and
# `idleSeconds` how long an unused connection is kept. By default only a session's own connection to
# a server that asks its client is closed.

OWN_IDLE_SECONDS: Final = 300.0
"""How long a session's own connection to a server that asks is kept unused by default: each may be
a process, and most sessions are idle most of the time."""


class ConnectionDemand:
    """Decides which connections of a server are needed."""

    def __init__(self, server: "Server", pool: ConnectionPool, clock: Clock) -> None:
        self.lazy = server.config.start == "first-use"
        """Whether it is started on first use."""
        self.asks = False
        """Whether the server has sent a request that only one client can answer."""
        self._server = server
        self._config = server.config
        self._idle_tracker = IdleTracker(self.idle_seconds)
        self._pool = pool
        self._clock = clock
        self._awaited_until = float("-inf")
        """Until when a client may return with an answer for the server."""

    @property
    def check_seconds(self) -> float | None:
        """Seconds until idle connections are to be looked for; None if there are never any."""
        return self._idle_tracker.check_seconds(key for key, _ in self._pool.connections())

    def idle_seconds(self, key: LeaseKey) -> float:
        """How long a connection is kept unused; 0 for ever."""
        if self._config.idle_seconds is not None:
            return self._config.idle_seconds
        first = self._pool.supervisors.get(key) is self._pool.main
        # In other scopes, and in transparent profiles, a session is promised that the state the
        # server keeps for it is its own.
        own = key.of_session and key.interactive and not key.revision
        closes = self.asks and own and not first and self._config.scope == "auto"
        return OWN_IDLE_SECONDS if closes else 0.0

    def on_opened(self, key: LeaseKey, connection: Connection) -> None:
        self._idle_tracker.on_opened(key, count_uses(connection), self._clock.monotonic())

    def forget(self, key: LeaseKey) -> None:
        """A connection will not be opened again."""
        self._idle_tracker.forget(key)

    def expect_return(self, seconds: float) -> None:
        """A client was asked something for the server, and may return within this time.

        The server may keep what it needs to go on in memory only, so it is not stopped meanwhile.
        """
        self._awaited_until = max(self._awaited_until, self._clock.monotonic() + seconds)

    def is_needed(self, key: LeaseKey, *, known: bool) -> bool:
        """Whether a connection is to be open although nothing waits for it.

        `known` says whether it is known what the server offers; if not, it is started to find out.
        """
        always = not self.lazy and self.idle_seconds(key) <= 0
        if always or not known:
            return True
        if not self.lazy and not self._idle_tracker.has_been_open(key):
            return True
        pool, now = self._pool, self._clock.monotonic()
        lists = pool.supervisors.get(key) is pool.main and bool(pool.connections())
        return (
            lists or self._idle_tracker.is_recent(key, now) or self._server.is_relied_on(key, None)
        )

    def idle(self, own_calls: Callable[[LeaseKey], int]) -> list[LeaseKey]:
        """The connections that are not needed any more.

        `own_calls` returns how many requests of the gateway itself are open on one.
        """
        now = self._clock.monotonic()
        awaited = now < self._awaited_until
        samples = {
            key: UsageSample(
                uses=count_uses(connection),
                busy=awaited
                or connection.open_calls > own_calls(key)
                or self._server.is_relied_on(key, connection),
            )
            for key, connection in self._pool.connections()
        }
        return self._idle_tracker.find_idle(samples, now)


def count_uses(connection: Connection) -> int:
    """How many requests clients have sent over a connection."""
    return connection.last_number - connection.own_requests
