"""A configured server: its connections, its lists, and its health.

The last known lists outlive the process, so that a server that is down still shows what it offers.
What concerns clients is reported to the `ServerListener`.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, Protocol

from anyport.catalog.offers import Listing, is_repeatable
from anyport.config.model import ServerConfig
from anyport.protocol.errors import Timeout
from anyport.protocol.headers import NO_ANNOTATIONS, Annotations
from anyport.protocol.methods import CHANGE_NOTIFICATIONS, QUESTION_CAPABILITIES, OfferKind
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.upstream.call_queue import call_slots_of
from anyport.upstream.circuit_breaker import CircuitBreaker, ServerHealth
from anyport.upstream.connection import Connection, Noise, OwnRequest
from anyport.upstream.connection_lists import ConnectionLists, ListDifference, ListsByConnection
from anyport.upstream.handshake import START_SECONDS_MAX, HandshakeOptions
from anyport.upstream.handshake_trials import HandshakeTrials, handshake_seconds_max
from anyport.upstream.lease_key import SHARED, LeaseKey, owner_of_all, owner_of_sessions
from anyport.upstream.lists import (
    ListConnections,
    ListTrust,
    ServerLists,
    notifies_changes,
)
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer
from anyport.upstream.pool import SESSION_ENDED, ConnectionDemand, ConnectionPool, count_uses
from anyport.upstream.subscriptions import (
    ACKNOWLEDGED,
    ServerSubscriptions,
    SubscriptionFilter,
)
from anyport.upstream.supervisor import (
    ConnectionSupervisor,
    LeaseCallback,
    NotReady,
    ServerState,
)
from anyport.upstream.transport import ServerQuirks, UpstreamContext
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Notification, Request

# The border to the gateway, which decides what a server's events mean for clients.


class ServerListener(Protocol):
    """Receives what servers report."""

    def on_lists_read(self, server: "Server", changed: frozenset[OfferKind]) -> None:
        """Lists were read; `changed` of them differ from before."""

    def on_connection_lists_read(self, server: "Server", *, changed: bool) -> None:
        """The lists of a single connection were read, or dropped with it.

        `changed` says whether its clients see other lists than before.
        """

    def on_session_moved(self, server: "Server", session: str) -> None:
        """Another connection, which is open already, serves a session from now on."""

    def on_connection_ready(self, server: "Server", key: LeaseKey) -> None: ...

    def on_list_changed(
        self, server: "Server", key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        """The server reports that a list has changed."""

    def on_connection_failed(self, server: "Server", reason: str) -> None:
        """A connection was lost, or could not be opened."""

    def on_connection_closed(self, server: "Server", reason: str) -> None:
        """A connection was closed because it is not needed any more."""

    def on_idle_stop(self, server: "Server", seconds: float) -> None:
        """A connection was closed after this time without use; the next use opens it again."""

    def is_relied_on(self, server: "Server", key: LeaseKey, connection: Connection | None) -> bool:
        """Whether a client relies on the state of a connection, such as a task or a subscription.

        Without a connection: on the state that it had when it was open.
        """

    def on_ejected(self, server: "Server", reason: str, failures: int, seconds: float) -> None:
        """The circuit breaker has opened."""

    def on_restored(self, server: "Server", seconds: float) -> None:
        """The circuit breaker has closed after this time."""

    def on_request(
        self, server: "Server", key: LeaseKey, connection: Connection, request: Request
    ) -> None:
        """The server sent a request."""

    def on_notification(
        self, server: "Server", key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        """The server sent a notification."""

    def on_connection_lost(self, server: "Server", connection: Connection) -> None:
        """A connection has ended."""

    def on_noise(self, server: "Server", noise: Noise, reason: str) -> None:
        """The server sent something that cannot be used."""

    def on_own_request(
        self,
        server: "Server",
        peer: Peer | None,
        request: OwnRequest,
        answer: Answer,
        seconds: float,
    ) -> None:
        """The gateway made a request for itself, and this is how it ended; `peer` is None before
        the handshake of its connection."""

    def on_timeout(self, server: "Server", timeout: Timeout) -> None: ...

    def on_stderr(self, server: "Server", lines: list[str]) -> None: ...


RESOURCE_UPDATED: Final = "notifications/resources/updated"
CANCELLED: Final = "notifications/cancelled"
INTERACTIVE_LISTING: Final = "lists"
"""Owner of the connection that is opened to read the lists for clients that the server may ask."""
INTERACTIVE_LISTING_ATTEMPTS_MAX: Final = 3
"""How often that is tried until the server is started again."""
IDLE_STOP_REASON: Final = "it was idle for {:g} s; it is started on the next use"
_PERSONAL: Final = frozenset({"elicitation", "sampling"})
"""Requests of servers that only one client can answer."""

_KINDS_BY_CHANGE: Final[Mapping[str, tuple[OfferKind, ...]]] = {
    method: tuple(kind for kind in OfferKind if CHANGE_NOTIFICATIONS[kind] == method)
    for method in CHANGE_NOTIFICATIONS.values()
}


class Server:
    """A server of the configuration."""

    def __init__(
        self, config: ServerConfig, context: UpstreamContext, listener: ServerListener
    ) -> None:
        self.config = config
        self.context = context
        self.listener = listener
        self.slug = config.slug
        self.instructions: str | None = None
        self.server_info = b"{}"
        """As of its last handshake."""
        self.extensions: Mapping[str, bytes] = {}
        """As of its last handshake, with their settings; including extensions that we do not
        know."""
        self.offered_capabilities: frozenset[str] | None = None
        """As of its last handshake; None if there was none yet."""
        self.quirks = ServerQuirks()
        self.reads_lists = True
        """Whether its lists are read ahead; else lists that pass to clients are remembered."""
        self._changes_requested = False
        """Whether it is asked to report changes although its lists are not read."""
        self.lists_ready = False
        """Whether its lists are those of the running process, or will never come."""
        self.lists_overdue = False
        """A request has waited for its lists in vain: no other waits until they come."""
        self.warning: str | None = None
        self.last_error: str | None = self.disabled_reason
        """Why it is or was down."""
        clock = context.clock
        self.call_slots = call_slots_of(config)
        self._clock = clock
        self._pool = ConnectionPool(self, clock)
        self.supervisors = self._pool.supervisors
        """By lease key; the one that was opened first comes first."""
        self._demand = ConnectionDemand(self, self._pool, clock)
        self._idle_check_planned = False
        self.health = ServerHealth(self, CircuitBreaker(enabled=config.breaker), clock)
        self._subscriptions = ServerSubscriptions(clock, self.on_gap)
        self.lists = ServerLists(config, self, clock)
        self.listings = self.lists.known
        """The last known lists."""
        self._connection_lists = ListsByConnection(self, clock)
        """Lists of connections that have their own."""
        self.read_cache = context.read_cache
        self._interactive_lists_read: set[frozenset[str]] = set()
        """The kinds of clients for which its lists were read since it was started."""
        self._interactive_lists_wanted: frozenset[str] | None = None
        """The kind of clients for which they are being read."""
        self._interactive_listing_failures = 0

    @property
    def disabled_reason(self) -> str | None:
        """Why it is not to be started at all."""
        if self.config.disabled:
            return "it is disabled in the configuration"
        if self.config.unresolved:
            return "; ".join(self.config.unresolved)
        return None

    @property
    def transport(self) -> str:
        """As in the configuration, as far as it is known."""
        return self.config.transport if self.main is None else self.main.transport.transport_name

    @property
    def main(self) -> ConnectionSupervisor | None:
        """The connection that was opened first; lists are read over it."""
        return self._pool.main

    @property
    def state(self) -> ServerState:
        if self.main is None:
            return ServerState.STOPPED if self.disabled_reason is not None else ServerState.STARTING
        return self.main.state

    @property
    def reason(self) -> str | None:
        """Why it is not running."""
        if self.main is None:
            return self.disabled_reason
        return None if self.main.state is ServerState.READY else self.main.reason

    def timeout_of(self, reason: str) -> Timeout | None:
        """The timeout that is the reason why one of its connections is down."""
        found = (each.timeout for each in self.supervisors.values() if each.reason == reason)
        return next(found, None)

    @property
    def peer(self) -> Peer | None:
        return self._pool.peer

    @property
    def modern(self) -> bool:
        """Whether it is running and modern."""
        return self.peer is not None and self.peer.revision.era is Era.MODERN

    @property
    def up(self) -> bool:
        """Whether a connection is open, or is to be opened."""
        return any(
            supervisor.state is not ServerState.IDLE for supervisor in self.supervisors.values()
        )

    @property
    def asleep(self) -> bool:
        """Whether it is stopped until its next use."""
        return self.main is not None and self.main.asleep

    @property
    def open_calls(self) -> int:
        """Open calls, without the subscriptions of the gateway itself."""
        return sum(
            connection.open_calls - self._subscriptions.calls(key)
            for key, connection in self.connections()
        )

    @property
    def lists_settled(self) -> bool:
        """Whether waiting would not change its lists."""
        at_rest = self.state in (ServerState.BROKEN, ServerState.IDLE, ServerState.STOPPED)
        if self.lists_overdue or self.disabled_reason is not None or at_rest:
            return True
        # A server that is started on first use shows its cached lists until then.
        known = self.lists_ready or (self._demand.lazy and bool(self.listings))
        # The lists for clients that it may ask may be being read just now.
        return known and (self._interactive_lists_wanted is None or self.lists.complete)

    @property
    def _offers_known(self) -> bool:
        """Whether its lists are known, or are not read at all."""
        return bool(self.listings) or not self.reads_lists

    def read_lists(self) -> None:
        """Read its lists from now on."""
        if not self.reads_lists:
            self.listen_for_changes()
            self.reads_lists = True
            self.lists_ready = False
            self.lists.read_all()

    def listen_for_changes(self) -> None:
        """Have it report changes although its lists are not read."""
        if not self._wants_changes:
            self._changes_requested = True
            self._subscriptions.start()

    @property
    def _wants_changes(self) -> bool:
        """Whether a modern server gets a subscription as soon as it is ready."""
        return self.reads_lists or self._changes_requested

    def source_for(
        self, session: str, principal: Principal, *, askable: bool = False
    ) -> "Server | ConnectionLists":
        """The lists that a session sees, or callers without one: a connection's own, or the
        server's.

        `askable` is for callers without a session that the server may ask.
        """
        return self._connection_lists_for(session, principal, askable=askable) or self

    def difference_for(
        self, session: str, principal: Principal, *, askable: bool = False
    ) -> ListDifference | None:
        """What a session sees instead of the server's lists."""
        own = self._connection_lists_for(session, principal, askable=askable)
        return None if own is None else own.difference

    def _connection_lists_for(
        self, session: str, principal: Principal, *, askable: bool
    ) -> ConnectionLists | None:
        own = self._connection_lists.find_for_calls(principal) if askable else None
        return own or self._connection_lists.find(self.key_of(session, principal))

    def _first_call_key(self, principal: Principal | None) -> LeaseKey | None:
        """The oldest of the connections that serve one call of a principal at a time.

        Calls that come one after the other mostly use this one, so its lists show what they have
        changed.
        """
        found = (key for key in self.supervisors if key.of_one_call and key.principal == principal)
        return next(found, None)

    @property
    def differences(self) -> frozenset[ListDifference]:
        """All differences between lists of connections and the server's."""
        return self._connection_lists.differences

    @property
    def lists_warning(self) -> str | None:
        """A warning for the operator about lists of connections."""
        return self._connection_lists.warning

    def learn(self, kind: OfferKind, listing: Listing) -> None:
        """Remember a list that has passed to a client as a whole."""
        if not self.reads_lists and self.listings.get(kind) != listing:
            self.listings[kind] = listing
            self.listener.on_lists_read(self, frozenset({kind}))

    def prepare(self, key: LeaseKey) -> None:
        """A client has connected: start the server, unless it is to be started on first use."""
        self._pool.open_first(key)
        if self.main is not None and not (self._demand.lazy and self._offers_known):
            self.main.wake()  # Without a waiter: the places are for those who need the connection.

    def lacks_interactive_lists(self, questions: frozenset[str]) -> bool:
        """Whether it is not known yet what the server offers to clients that it may ask this."""
        main = self.main
        if (
            main is None
            or self._interactive_lists_wanted is not None
            or questions in self._interactive_lists_read
        ):
            return False
        return not (self.lists.complete and (self._demand.lazy or main.asleep))

    def read_interactive_lists(self, questions: frozenset[str], capabilities: bytes) -> None:
        """Read the lists for clients that the server may ask this, if they are not known.

        Over a connection of the gateway's own, which is closed again: no session needs one for a
        list.
        """
        if self.main is not None and self.main.state is not ServerState.BROKEN:
            self._interactive_lists_wanted = questions
            self._pool.lease_main(lambda _: self._open_interactive_listing(questions, capabilities))

    def _open_interactive_listing(self, questions: frozenset[str], capabilities: bytes) -> None:
        key = LeaseKey(owner=INTERACTIVE_LISTING, capabilities=capabilities, interactive=True)
        first = next(iter(self.supervisors), None)
        if self._interactive_lists_wanted != questions:
            return
        if self.state is not ServerState.READY:
            self._interactive_lists_wanted = None
        elif self.modern or first is None or first.interactive:
            self._interactive_lists_wanted = None
            self._interactive_lists_read.add(questions)
        elif (supervisor := self._pool.open(key)) is not None:
            supervisor.wake()

    def open(self, key: LeaseKey) -> ConnectionSupervisor | None:
        """The supervisor for a key, started if there is none; None if the server is not to be
        started."""
        return self._pool.open(key)

    def lease(self, key: LeaseKey, ready: LeaseCallback) -> None:
        """Pass a connection for this key to `ready`, or the reason why there is none."""
        self._pool.lease(key, ready)

    @property
    def separates_principals(self) -> bool:
        """Whether principals must not share its connections."""
        scope = self.config.scope
        return scope != "shared" and (scope != "auto" or self.context.has_several_principals())

    @property
    def _isolates_principals(self) -> bool:
        """Whether there are several principals, and they must not share its connections."""
        return self.separates_principals and self.context.has_several_principals()

    def key_for(self, principal: Principal) -> LeaseKey:
        """The key for all calls of a principal.

        What one principal leaves in a process or a session, another could read. A process keeps
        such state in either era; a modern server behind a URL is one for all of its clients anyway.
        """
        if not self.separates_principals:
            return SHARED
        apart = self.config.url is None and self._isolates_principals
        return LeaseKey(owner=owner_of_all(principal), principal=principal, separate=apart)

    def key_for_sessions(self, principal: Principal) -> LeaseKey:
        """The key for all legacy sessions of a principal, to a server that speaks both eras."""
        return LeaseKey(
            owner=owner_of_sessions(principal),
            principal=principal,
            legacy=True,
            fallback=self.key_for(principal),
        )

    def has_or_may_try(self, key: LeaseKey) -> bool:
        """Whether a connection of this key is open, or worth a handshake trial."""
        return key in self.supervisors or self.trials.may_try(key, self._clock.monotonic())

    def assign_session(self, session: str, key: LeaseKey) -> None:
        """Have a shared connection serve a session from now on."""
        if self._pool.assign_session(session, key) and self.era_of(key) is not None:
            self.listener.on_session_moved(self, session)

    def is_fallback(self, key: LeaseKey, connection: Connection) -> bool:
        """Whether a connection is used in place of one of this key, which may become available
        later."""
        tried = self.modern and key.wants_session and self.trials.may_ever_try(key)
        return tried and self.key_of_connection(connection) != key

    def key_of(self, session: str, principal: Principal) -> LeaseKey:
        """The key of the connection that serves a session, or callers without one."""
        return self._pool.key_of(session, principal)

    def has_own_connection(self, session: str) -> bool:
        return self._pool.has_own_connection(session)

    def key_of_connection(self, connection: Connection) -> LeaseKey | None:
        return next((key for key, other in self.connections() if other is connection), None)

    def may_concern(self, connection: Connection, principal: Principal) -> bool:
        """Whether what a server sends over a connection may be meant for a principal."""
        key = self.key_of_connection(connection)
        return key is None or key.principal in (None, principal)

    @property
    def trials(self) -> HandshakeTrials:
        """Handshake trials, if it is modern."""
        return self._pool.trials

    def own_keys(self) -> list[LeaseKey]:
        """The keys of connections that belong to a session, a call or a principal."""
        return [key for key in self._pool.keys if key.of_session or key.principal is not None]

    def needs_another(self, key: LeaseKey) -> bool:
        """Whether a lease of this key would open a connection."""
        return self._pool.needs_another(key)

    def uses(self, key: LeaseKey) -> int:
        """How many requests clients have sent over a connection."""
        connection = self._connection_of(key)
        return 0 if connection is None else count_uses(connection)

    def is_busy(self, key: LeaseKey) -> bool:
        """Whether a connection is in use, or a client relies on its state."""
        if self._pool.is_starting(key):
            return True
        connection = self._connection_of(key)
        return connection is not None and (
            connection.open_calls > self._subscriptions.calls(key)
            or self.is_relied_on(key, connection)
        )

    def era_of(self, key: LeaseKey) -> Era | None:
        """The era of a connection; None if it is not open."""
        connection = self._connection_of(key)
        peer = None if connection is None else connection.peer
        return None if peer is None else peer.revision.era

    def streamless(self, key: LeaseKey) -> bool:
        """Whether the server is known to have no stream for what belongs to no call."""
        connection = self._connection_of(key)
        return connection is not None and connection.streamless

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        """Every connection that is ready."""
        return self._pool.connections()

    def _connection_of(self, key: LeaseKey) -> Connection | None:
        return next((each for other, each in self.connections() if other == key), None)

    def expect_return(self, seconds: float) -> None:
        """A client was asked something for the server, and may return within this time."""
        self._demand.expect_return(seconds)

    def drop(self, owner: str, reason: str = SESSION_ENDED) -> None:
        """Close the connections that belong to this session, principal or call."""
        self._pool.forget_session(owner)
        for key in [key for key in self.supervisors if owner and key.owner == owner]:
            self._subscriptions.forget(key)
            self._demand.forget(key)
            self._pool.close(key, reason)
            self._forget_lists(key)

    async def stop(self, reason: str = "the gateway is stopping") -> None:
        """Close every connection, including those that are being closed."""
        await self._pool.stop(reason)

    @property
    def waiting_calls(self) -> int:
        """Calls that are queued for a slot."""
        return sum(connection.waiting_calls for _, connection in self.connections())

    def subscribe(
        self,
        key: LeaseKey,
        filter: SubscriptionFilter,
        expect_acknowledgement: Callable[[], Callable[[], None]],
    ) -> None:
        """Have a modern server report changes of these resources and tasks over a connection.

        `expect_acknowledgement` is called first, and returns what is called once it has answered.
        """
        self._subscriptions.subscribe(key, filter, expect_acknowledgement)

    def refuses(self, key: LeaseKey, uri: str) -> bool:
        """Whether a modern server has said that it will not report changes of this resource."""
        return self._subscriptions.refuses(key, uri)

    def mark_stale(self, kinds: tuple[OfferKind, ...]) -> None:
        """These lists may have changed: read them again, but not too often."""
        if self.reads_lists:
            self.lists.mark_stale(kinds)

    def trust(self, kind: OfferKind, *, newcomer: bool) -> ListTrust:
        """How far a list can be trusted; a `newcomer` has not seen any.

        Lists of modern servers have a TTL. So do lists of skills, whose changes no server reports.
        """
        main = None if self.main is None else self.main.connection
        timed = self.modern or kind is OfferKind.SKILLS
        notifies = self.peer is not None and notifies_changes(self.peer, kind)
        since = main.listening_since if notifies and main is not None else inf
        return ListTrust(timed=timed, notified_since=since, first_view=newcomer)

    def annotations(self, tool: str) -> Annotations:
        """Which arguments of a tool are repeated in header fields."""
        listing = self.listings.get(OfferKind.TOOLS)
        return (
            NO_ANNOTATIONS
            if listing is None
            else listing.annotations_by_tool.get(tool, NO_ANNOTATIONS)
        )

    def is_repeatable(self, key: LeaseKey, tool: str) -> bool | None:
        """Whether calling a tool twice is as good as once, as listed over a connection."""
        own = self._connection_lists.find(key)
        listings = self.listings if own is None else own.listings
        return is_repeatable(listings.get(OfferKind.TOOLS), tool)

    def refresh_tools(self, then: Callable[[], None]) -> None:
        """Read the tools again, unless clients do that, then call back."""
        if self.reads_lists:
            self.lists.refresh_tools(then)
        else:
            then()

    def make_supervisor(self, key: LeaseKey, *, trial: bool) -> ConnectionSupervisor:
        """Create the supervisor of a new connection.

        A trial asks a modern server for a handshake. Many speak both eras without saying so, and in
        a session such a server can ask the client while it works on a call.
        """
        options = HandshakeOptions(
            client_info=key.client_info or self.context.client_info,
            capabilities=key.capabilities,
            protocol=Era.LEGACY.value if trial else self.config.protocol,
            first_era=Era.LEGACY if key.of_session or key.legacy else Era.MODERN,
            revision=key.revision,
            trial=trial,
            seconds_max=self._trial_seconds if trial else None,
            is_transparent=self.context.is_transparent,
            passes_unknown_extensions=self.context.passes_unknown_extensions,
        )
        quirks = ServerQuirks(reuse=self.quirks.reuse) if trial else self.quirks
        return ConnectionSupervisor(self, key, options, quirks)

    @property
    def _trial_seconds(self) -> float:
        """How long a handshake trial may take."""
        began = 0.0 if self.main is None else self.main.opening_seconds
        return min(START_SECONDS_MAX, handshake_seconds_max(began, self.config.timeout_seconds))

    def is_needed(self, key: LeaseKey) -> bool:
        """Whether a connection is to be open although nothing waits for it."""
        return self._demand.is_needed(key, known=self._offers_known)

    def on_ejected(self, reason: str, failures: int, seconds: float) -> None:
        """The circuit breaker has opened."""
        self.listener.on_ejected(self, reason, failures, seconds)

    def on_restored(self, seconds: float) -> None:
        """The circuit breaker has closed after this time."""
        self.listener.on_restored(self, seconds)

    def on_connection_closed(self, reason: str) -> None:
        """A connection was closed for good."""
        self.listener.on_connection_closed(self, reason)

    def lease_main(self, ready: LeaseCallback) -> None:
        main = self.main
        if main is None:
            ready(NotReady("it has not been started"))
        else:
            main.when_ready(ready)

    def reconnect(self, reason: str) -> None:
        """The server cannot be reached: open all connections anew."""
        for supervisor in self.supervisors.values():
            supervisor.reconnect(reason)

    def replace_connection(self, connection: Connection, reason: str) -> bool:
        """Open a connection anew that does not answer probes, unless calls are open on it; returns
        whether it was."""
        silent = [one for one in self.supervisors.values() if one.connection is connection]
        if connection.open_calls:
            return False
        for supervisor in silent:
            supervisor.reconnect(reason)
        return bool(silent)

    def on_ready(self, key: LeaseKey, connection: Connection) -> None:
        peer = connection.peer
        if peer is None or key not in self.supervisors:
            return
        self.instructions, self.server_info = peer.instructions, peer.server_info
        self._pool.on_ready(key, automatic=self.config.protocol == "auto")
        if self.supervisors[key] is self.main:
            self.extensions = peer.extensions
            self._interactive_lists_read.clear()
            self._interactive_listing_failures = 0
            self.offered_capabilities = peer.offered_capabilities
        else:
            # Some offer more to a client that they may ask, or in the other era.
            self.offered_capabilities = (
                self.offered_capabilities or frozenset()
            ) | peer.offered_capabilities
        self.health.on_handshake()
        self._demand.on_opened(key, connection)
        self._plan_idle_check()
        self._subscriptions.open(key, connection, at_once=self._wants_changes)
        if key.owner != INTERACTIVE_LISTING:
            self.listener.on_connection_ready(self, key)
        if self.supervisors[key] is self.main or key.owner == INTERACTIVE_LISTING:
            self._read_all()
        elif self.reads_lists and self._has_own_lists(key):
            self._connection_lists.start(key, connection)

    def _has_own_lists(self, key: LeaseKey) -> bool:
        """Whether a connection can have lists of its own."""
        if not key.of_one_call:
            return True
        return self.config.scope != "call" and key == self._first_call_key(key.principal)

    def _read_all(self) -> None:
        self.read_cache.clear(self.slug)
        if self.reads_lists:
            self.lists.read_all()
        else:
            self.lists_ready, self.lists_overdue = True, False
            self.listener.on_lists_read(self, frozenset())

    def on_gap(
        self, key: LeaseKey, connection: Connection, uris: frozenset[str] = frozenset()
    ) -> None:
        """Notifications may have been lost: treat everything as changed."""
        self._mark_stale(key, tuple(OfferKind))
        self.read_cache.clear(self.slug)
        for uri in uris:
            changed = Notification(
                RESOURCE_UPDATED, raw_json.encode_object([("uri", raw_json.encode_string(uri))])
            )
            self.listener.on_notification(self, key, connection, changed)

    def on_broken(self, key: LeaseKey, reason: str) -> None:
        if self._pool.drop_failed_trial(key, reason):
            return
        if key.owner == INTERACTIVE_LISTING:
            self._interactive_listing_failures += 1
            self._stop_interactive_listing(
                seen=self._interactive_listing_failures >= INTERACTIVE_LISTING_ATTEMPTS_MAX
            )
            self.listener.on_lists_read(self, frozenset())
            return
        self._subscriptions.close(key)
        if self.supervisors.get(key) is self.main:
            self.lists_ready = False
        self.last_error = reason
        self.listener.on_connection_failed(self, reason)
        self._forget_lists(key)

    def _stop_interactive_listing(self, *, seen: bool) -> None:
        if seen and self._interactive_lists_wanted is not None:
            self._interactive_lists_read.add(self._interactive_lists_wanted)
        self._interactive_lists_wanted = None
        key = self._pool.key_of_owner(INTERACTIVE_LISTING)
        if key is not None:
            self._demand.forget(key)
            self._pool.close(key, None)

    def is_relied_on(self, key: LeaseKey, connection: Connection | None) -> bool:
        return self.listener.is_relied_on(self, key, connection)

    def _plan_idle_check(self) -> None:
        seconds = self._demand.check_seconds
        if seconds is not None and not self._idle_check_planned:
            self._idle_check_planned = True
            self._clock.later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        self._idle_check_planned = False
        for key in self._demand.idle(self._subscriptions.calls) if self._offers_known else ():
            self._subscriptions.forget(key)
            seconds = self._demand.idle_seconds(key)
            self.supervisors[key].suspend(IDLE_STOP_REASON.format(seconds))
            self.listener.on_idle_stop(self, seconds)
            self._forget_lists(key)
        if self.connections():
            self._plan_idle_check()

    def on_request(self, key: LeaseKey, connection: Connection, request: Request) -> None:
        if QUESTION_CAPABILITIES.get(request.method) in _PERSONAL and not self._demand.asks:
            self._demand.asks = True
            self._plan_idle_check()
        self.listener.on_request(self, key, connection, request)

    def on_notification(
        self, key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        kinds = _KINDS_BY_CHANGE.get(notification.method)
        if kinds is not None:
            self._mark_stale(key, kinds)
            if OfferKind.RESOURCES in kinds:
                self.read_cache.clear(self.slug)
            self.listener.on_list_changed(self, key, connection, notification)
            return
        if notification.method == ACKNOWLEDGED:
            self._subscriptions.on_acknowledged(key, notification.params, connection.related_call)
        elif notification.method == CANCELLED:
            params = notification.params or b"{}"
            if params[:1] != b"{":
                self.listener.on_noise(self, notification, "it does not say what is cancelled")
                return
            call = connection.find_call(raw_json.members(params).get("requestId"))
            if call is not None:
                self._subscriptions.on_cancelled(key, call)
        elif notification.method == RESOURCE_UPDATED:
            self.read_cache.on_resource_changed(self.slug, notification.params)
        self.listener.on_notification(self, key, connection, notification)

    def list_connections(self) -> ListConnections:
        main = None if self.main is None else self.main.connection
        return ListConnections(main=main, interactive=self._interactive_connection())

    def _interactive_connection(self) -> Connection | None:
        """The connection over which lists are read for clients that the server may ask.

        Not that of a session, whose lists are for that session alone.
        """
        key = self._pool.key_of_owner(INTERACTIVE_LISTING)
        return None if key is None else self._connection_of(key)

    def _mark_stale(self, key: LeaseKey, kinds: tuple[OfferKind, ...]) -> None:
        """A server has reported over a connection that lists may have changed.

        A server behind a URL is one for all connections, whichever of them carries the report.
        """
        if not self._connection_lists.mark_stale(key, kinds) or self.config.url is not None:
            self.mark_stale(kinds)

    def on_connection_lists_read(self, key: LeaseKey, changed: bool) -> None:
        """The lists of a connection were read; `changed` if they differ in another way than before.

        A server behind a URL may have changed for all clients, and reported it only there.
        """
        if changed and self.config.url is not None:
            self.mark_stale(tuple(OfferKind))
        self.listener.on_connection_lists_read(self, changed=changed)

    def _forget_lists(self, key: LeaseKey) -> None:
        """A connection is closed: drop its lists."""
        changed = self._connection_lists.forget(key)
        if changed is None:
            return
        self.listener.on_connection_lists_read(self, changed=changed)
        first = self._first_call_key(key.principal) if key.of_one_call else None
        connection = None if first is None else self._connection_of(first)
        if first is not None and connection is not None:
            self._connection_lists.start(first, connection)

    def on_lists_read(
        self, connections: ListConnections, warning: str | None, changed: frozenset[OfferKind]
    ) -> None:
        if connections.main is not None and connections.main.peer is not None:
            self.warning = warning
            first = next(iter(self.supervisors), None)  # It may have been closed meanwhile.
            if self.modern or (first is not None and first.interactive):
                self.lists.complete = True
            self.lists_ready = connections.main.closed_with is None
            self.lists_overdue = False
        if connections.interactive is not None:
            self._stop_interactive_listing(seen=True)
        if changed:
            self._connection_lists.compare()
            if self.config.url is not None:
                self._connection_lists.mark_differing_stale(changed)
        self.listener.on_lists_read(self, changed)
