"""Routing of server notifications: list changes, resource updates, logs, task states.

Each goes to exactly those legacy sessions and modern listen streams that want it, under the names
of their profile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Final, NamedTuple

import msgspec

from anyport.catalog.catalog import Catalog
from anyport.catalog.route import owner_of_uri
from anyport.catalog.uris import qualify
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.profile import Profile, changed_kinds
from anyport.gateway.tasks.handles import TaskHandle
from anyport.protocol import meta
from anyport.protocol.adapters.legacy_client import LOG_LEVELS
from anyport.protocol.capabilities import NO_CAPABILITIES, ClientCapabilities
from anyport.protocol.exchange import Caller, Exchange, Failed, Log, ServerNotification, Session
from anyport.protocol.methods import CHANGE_NOTIFICATIONS, LISTEN_FLAGS, OfferKind
from anyport.protocol.revisions import Era
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.lists import notifies_changes
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import PendingCall
from anyport.upstream.server import Server
from anyport.upstream.subscriptions import ACKNOWLEDGED, SubscriptionFilter
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Notification

# URL elicitations: sessions that wait for `notifications/elicitation/complete`.
#
# A server sends it over the connection on which it asked. If clients share that connection, only
# the id of the elicitation says which of them is meant.

ELICITATION_COMPLETE: Final = "notifications/elicitation/complete"

ELICITATIONS_AWAITED_MAX: Final = 64
"""Awaited elicitations of one session; the oldest are forgotten. Many servers never announce the
end."""


def remember_elicitation(session: Session | None, slug: str, params: bytes | None) -> None:
    """Remember that a user was sent to a URL, by a question or by an item of an error.

    A client without a session cannot be notified, and an elicitation without an id never ends.
    """
    id = None if params is None else _elicitation_id(params)
    if session is not None and id is not None:
        session.elicitations = (*session.elicitations, (slug, id))[-ELICITATIONS_AWAITED_MAX:]


def pop_waiting_sessions(sessions: Iterable[Session], slug: str, params: bytes) -> list[Session]:
    """The sessions that wait for the end of an elicitation; they wait no longer."""
    elicitation = (slug, _elicitation_id(params))
    waiting = [session for session in sessions if elicitation in session.elicitations]
    for session in waiting:
        session.elicitations = tuple(each for each in session.elicitations if each != elicitation)
    return waiting


def _elicitation_id(params: bytes) -> str | None:
    try:
        return raw_json.decode_string(raw_json.members(params).get("elicitationId"))
    except msgspec.DecodeError:
        return None


EARLY_NOTIFICATIONS_MAX: Final = 64
"""Notifications kept for a listen stream until it is acknowledged; the latest ones count."""

DEFAULT_LOG_LEVEL: Final = "info"
"""The level of most servers that got no `logging/setLevel`."""

_NO_KINDS: Final[set[OfferKind]] = set()


class ListenStream:
    """An open `subscriptions/listen` of a modern client."""

    __slots__ = ("_early_notifications", "exchange", "flags", "own_catalog", "tasks", "uris")

    def __init__(
        self,
        exchange: Exchange,
        flags: frozenset[str],
        uris: frozenset[str],
        tasks: tuple[TaskHandle, ...] = (),
    ) -> None:
        self.exchange = exchange
        self.tasks = tasks
        self.flags = flags
        self.uris = uris
        """Public URIs."""
        self.own_catalog: Catalog | None = None
        """The catalog that it was last notified of, if not the common one."""
        self._early_notifications: tuple[ServerNotification, ...] | None = ()
        """Notifications from before the acknowledgement; None after it."""

    def covers(self, server: Server, key: LeaseKey) -> bool:
        """Whether resource notifications over this connection are for it."""
        principal = self.exchange.caller.principal
        own = key.principal == principal and not key.of_sessions
        return own or key == server.key_of("", principal)

    def acknowledge(self, params: bytes) -> None:
        """Send the acknowledgement, which must be the first message on the stream."""
        early, self._early_notifications = self._early_notifications or (), None
        self.send(ACKNOWLEDGED, params)
        for notification in early:
            self.exchange.emit(notification)

    def send(self, method: str, params: bytes) -> None:
        notification = ServerNotification(method, params)
        early = self._early_notifications
        if early is None:
            self.exchange.emit(notification)
        else:
            self._early_notifications = (*early, notification)[-EARLY_NOTIFICATIONS_MAX:]


class SoleClient(NamedTuple):
    """The client of a gateway that serves only one."""

    profile: str
    notify: Callable[[str, bytes | None], None]


class Notifications:
    """Legacy sessions and listen streams, and which notifications they get."""

    def __init__(self, profiles: Mapping[str, Profile], calls: CallTable) -> None:
        self.sessions: dict[str, Session] = {}
        self.streams: dict[Exchange, ListenStream] = {}
        self.sole_client: SoleClient | None = None
        """The only client, which can be notified without a session."""
        self._profiles = profiles
        self._calls = calls
        self._shown_kinds: dict[str, set[OfferKind]] = {}
        self._own_catalogs: dict[str, Catalog] = {}
        """By session id: the catalog that it was last shown, if not the common one."""

    def on_session_opened(self, session: Session) -> None:
        self.sessions[session.id] = session

    def on_session_closed(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        self._shown_kinds.pop(session.id, None)
        self._own_catalogs.pop(session.id, None)

    def mark_shown(
        self, session: Session | None, kind: OfferKind, own_catalog: Catalog | None = None
    ) -> None:
        """Remember that a session has seen a list: from now on it is notified of changes.

        `own_catalog` is what it was shown, if not the common catalog.
        """
        if session is not None and session.id in self.sessions:
            self._shown_kinds.setdefault(session.id, set()).add(kind)
            if own_catalog is not None:
                self._own_catalogs[session.id] = own_catalog

    def has_shown(self, session: Session, kind: OfferKind) -> bool:
        return kind in self._shown_kinds.get(session.id, _NO_KINDS)

    def notify_lists_changed(
        self, profile: Profile, kinds: frozenset[OfferKind], before: Catalog | None = None
    ) -> None:
        """Notify clients whose lists have changed, once per list.

        `kinds` are the changes of the common catalog since `before`. A client that is shown a
        catalog of its own is notified when that one has changed.
        """
        if profile.config.transparent:
            return  # The notification of the server itself is passed on.
        changes = _ListChanges(profile, kinds, before or profile.catalog)
        for session in self._sessions_of(profile):
            own_catalog = (
                profile.catalog_for(session.id, session.principal) if profile.has_variants else None
            )
            changed = changes.between(self._own_catalogs.pop(session.id, None), own_catalog)
            if own_catalog is not None and own_catalog is not profile.catalog:
                self._own_catalogs[session.id] = own_catalog
            for method in _list_changed_methods(
                changed & self._shown_kinds.get(session.id, _NO_KINDS)
            ):
                session.notify(method, None)
        for stream in self._streams_of(profile):
            now = profile.catalog_of(stream.exchange.caller)
            changed = changes.between(stream.own_catalog, now)
            stream.own_catalog = None if now is profile.catalog else now
            for method in _list_changed_methods(changed):
                if LISTEN_FLAGS[method] in stream.flags:
                    stream.send(method, b"{}")

    def on_list_changed(self, server: Server, key: LeaseKey, method: str) -> None:
        """Pass a server's list change on to clients of its transparent profiles."""
        for profile in self._transparent_profiles(server):
            for session in self._sessions_of(profile):
                if key == server.key_of(session.id, session.principal):
                    session.notify(method, None)
            for stream in self._streams_of(profile):
                if server.modern and LISTEN_FLAGS[method] in stream.flags:
                    stream.send(method, b"{}")

    def on_server_restarted(self, server: Server, key: LeaseKey, peer: Peer) -> None:
        """A server has restarted: any of its lists may have changed."""
        for method in dict.fromkeys(
            CHANGE_NOTIFICATIONS[kind] for kind in OfferKind if notifies_changes(peer, kind)
        ):
            self.on_list_changed(server, key, method)

    def on_server_notification(
        self,
        server: Server,
        key: LeaseKey,
        notification: Notification,
        call: PendingCall | None = None,
    ) -> bool:
        """Route a server's notification, which belongs to `call` if that is known.

        Returns whether it became part of a client's exchange.
        """
        params = notification.params if notification.params is not None else b"{}"
        if params[:1] != b"{":
            return False
        match notification.method:
            case "notifications/message":
                return self._route_log(server, key, params, call)
            case "notifications/resources/updated":
                # From a modern server it carries the id of the gateway's own subscription.
                self._on_resource_updated(
                    server, key, meta.edit_meta(params, {meta.SUBSCRIPTION_ID: None})
                )
            case _ if (
                notification.method == ELICITATION_COMPLETE and key.owner not in self.sessions
            ):
                for session in pop_waiting_sessions(self.sessions.values(), server.slug, params):
                    session.notify(notification.method, params)
            case _ if notification.method == ACKNOWLEDGED:
                pass  # It acknowledges the gateway's own subscription.
            case _:
                return self._pass_on(server, key, notification, call)
        return False

    @property
    def has_subscribers(self) -> bool:
        """Whether any client is subscribed to a resource or a task; most never are."""
        return any(session.subscriptions for session in self.sessions.values()) or any(
            stream.uris or stream.tasks for stream in self.streams.values()
        )

    def subscribed_uris(self, server: Server, key: LeaseKey) -> frozenset[str]:
        """Native URIs to which clients are subscribed that are notified over this connection."""
        owners = [
            owner_of_uri(uri, catalog)
            for profile in self._profiles.values()
            if server.slug in profile.servers
            for catalog, uris in self._subscriptions_by_catalog(profile, server, key)
            for uri in uris
        ]
        return frozenset(
            owner[1] for owner in owners if owner is not None and owner[0] == server.slug
        )

    def listen_filter(self, server: Server, key: LeaseKey) -> SubscriptionFilter:
        """The filter of the subscription to a modern server over this connection."""
        return SubscriptionFilter(
            self.subscribed_uris(server, key), self._subscribed_tasks(server, key)
        )

    def has_task_listener(self, handle: TaskHandle) -> bool:
        return any(handle in stream.tasks for stream in self.streams.values())

    def notify_task(
        self, handle: TaskHandle, render: Callable[[Caller, Profile], bytes | Failed]
    ) -> None:
        """Send the state of a task to its listeners, except where `render` fails."""
        for stream in list(self.streams.values()):
            caller = stream.exchange.caller
            if handle in stream.tasks and not stream.exchange.ended:
                profile = self._profiles.get(caller.profile)
                rendered = None if profile is None else render(caller, profile)
                if isinstance(rendered, bytes):
                    stream.send("notifications/tasks", rendered)

    def wanted_log_level(self, server: Server) -> str | None:
        """The most verbose level that a session of the server's profiles has set."""
        levels = [
            session.log_level
            for session in self.sessions.values()
            if session.log_level is not None
            and server.slug in self._servers_of(session)
            and not self._has_own_server(server, session)
        ]
        return min(levels, key=LOG_LEVELS.index, default=None)

    def _subscribed_tasks(self, server: Server, key: LeaseKey) -> frozenset[str]:
        """The server's own ids of the tasks that have listeners."""
        return frozenset(
            handle.native
            for stream in self.streams.values()
            for handle in stream.tasks
            if handle.server is server and handle.era is Era.MODERN and not handle.task.is_terminal
            if stream.covers(server, key)
        )

    def _transparent_profiles(self, server: Server) -> list[Profile]:
        return [
            profile
            for profile in self._profiles.values()
            if profile.config.transparent and server.slug in profile.servers
        ]

    def is_transparent(self, slug: str) -> bool:
        profile = self._profiles.get(slug)
        return profile is not None and profile.config.transparent

    def _has_own_server(self, server: Server, session: Session) -> bool:
        """Whether a session of a transparent profile has the server to itself."""
        return self.is_transparent(session.profile) and server.has_own_connection(session.id)

    def _subscriptions_by_catalog(
        self, profile: Profile, server: Server, key: LeaseKey
    ) -> Iterator[tuple[Catalog, set[str] | frozenset[str]]]:
        """Subscribed URIs, each with the catalog that resolves it."""
        for session in self._sessions_of(profile):
            if session.subscriptions and key == resource_lease_key(server, session):
                yield profile.catalog_for(session.id, session.principal), session.subscriptions
        for stream in self._streams_of(profile):
            if stream.uris and stream.covers(server, key):
                yield profile.catalog_of(stream.exchange.caller), stream.uris

    def _pass_on(
        self, server: Server, key: LeaseKey, notification: Notification, call: PendingCall | None
    ) -> bool:
        """Pass on an unknown notification, of a newer revision or a vendor.

        On a shared connection it goes to the client that has the only open call there; otherwise to
        the sessions that are notified over this connection, as with logs.
        """
        method, params = notification.method, notification.params
        for exchange in () if call is None else self._calls.exchanges_at(server, call):
            exchange.emit(ServerNotification(method, params))
            return True
        owner = self.sessions.get(key.owner)
        if owner is not None:
            owner.notify(method, params)
            return False
        if self.sole_client is not None and self._passes(
            self.sole_client.profile, NO_CAPABILITIES, server
        ):
            self.sole_client.notify(method, params)
            return False
        exchanges = self._calls.exchanges_over(server, key)
        if len(exchanges) == 1:
            (exchange,), caller = exchanges, exchanges[0].caller
            if self._passes(caller.profile, caller.capabilities, server):
                exchange.emit(ServerNotification(method, params))
                return True
        if params is not None:
            params = meta.edit_meta(params, {meta.SUBSCRIPTION_ID: None})
        for session in self._recipients(server, key, exchanges):
            if self._passes(session.profile, session.capabilities, server):
                session.notify(method, params)
        return False

    def _passes(self, slug: str, capabilities: ClientCapabilities, server: Server) -> bool:
        """Whether unknown methods pass between this server and such a client."""
        profile = self._profiles.get(slug)
        return (
            profile is not None
            and server.slug in profile.servers
            and profile.passes_unknown(capabilities)
        )

    def _route_log(
        self, server: Server, key: LeaseKey, params: bytes, call: PendingCall | None
    ) -> bool:
        level = raw_json.decode_string(raw_json.members(params).get("level"))
        rank = LOG_LEVELS.index(level) if level in LOG_LEVELS else len(LOG_LEVELS)
        raised = any(each.log_level for other, each in server.connections() if other == key)
        for exchange in () if call is None else self._calls.exchanges_at(server, call):
            session = exchange.caller.session
            has_own_server = session is not None and self._has_own_server(server, session)
            if has_own_server or _wants_log(exchange.caller, rank, raised=raised):
                renamed = self._with_logger(exchange.caller.profile, server.slug, params)
                exchange.emit(Log(renamed, params))
                return True
            return False  # It belongs to this call, and to no other client.
        # Once for all sessions: a busy server has hundreds of open calls.
        exchanges = self._calls.exchanges_over(server, key)
        is_in_exchange, recipients = False, self._recipients(server, key, exchanges)
        logs: dict[str, Log] = {}
        for session in recipients:
            if self._has_own_server(server, session) or _session_wants_log(
                session, rank, raised=raised
            ):
                profile = session.profile
                if profile not in logs:
                    logs[profile] = Log(self._with_logger(profile, server.slug, params), params)
                own = exchanges if key.owner == session.id else ()
                is_in_exchange |= self._log_to_session(session, own, logs[profile])
        if self._log_to_call(server, key, rank, params, exchanges, recipients):
            return True
        return is_in_exchange

    def _log_to_session(self, session: Session, exchanges: Sequence[Exchange], log: Log) -> bool:
        """Over a session's own connection a log belongs to its call, if only one is open.

        What is sent outside a response stream "SHOULD be unrelated to any concurrently-running
        JSON-RPC request" (MCP 2025-06-18, transports): a log of a call goes with its answer.
        """
        if len(exchanges) != 1:
            session.notify("notifications/message", log.params)
            return False
        exchanges[0].emit(log)
        return True

    def _log_to_call(
        self,
        server: Server,
        key: LeaseKey,
        rank: int,
        params: bytes,
        exchanges: Sequence[Exchange],
        recipients: Sequence[Session],
    ) -> bool:
        """Send a log with the only open call on a connection.

        Modern clients get logs only with the request that asked for them, and so does a call that
        does not use its session's connection. A legacy server does not say which call a log belongs
        to: if several are open on the connection, none of them gets it.
        """
        parked = None if exchanges else self._calls.find_parked_by_owner(key.owner)
        if parked is not None:
            exchanges = [parked.exchange]
        if len(exchanges) != 1:
            return False
        (exchange,) = exchanges
        caller = exchange.caller
        if caller.session is not None and (
            not exchange.lease_owner or caller.session in recipients
        ):
            return False  # The session has got it.
        if not _wants_log(caller, rank, raised=True):
            return False
        log = Log(self._with_logger(caller.profile, server.slug, params), params)
        if parked is None or parked.parking is None:
            exchange.emit(log)
        else:
            parked.parking.buffer_log(log)
        return True

    def _on_resource_updated(self, server: Server, key: LeaseKey, params: bytes) -> None:
        native = raw_json.decode_string(raw_json.members(params).get("uri"))
        if native is None:
            return
        for profile in self._profiles.values():
            if server.slug not in profile.servers:
                continue
            public_uri = partial(_public_uri, server.slug, native)
            for session in self._sessions_of(profile):
                uri: str | None = None
                if session.subscriptions:
                    catalog = profile.catalog_for(session.id, session.principal)
                    uri = public_uri(catalog, session.subscriptions)
                if profile.config.transparent and key.owner == session.id:
                    uri = native
                if uri is not None and key == resource_lease_key(server, session):
                    renamed = _with_uri(params, native, uri)
                    session.notify("notifications/resources/updated", renamed)
            for stream in self._streams_of(profile):
                uri = public_uri(profile.catalog_of(stream.exchange.caller), stream.uris)
                if uri is not None and stream.covers(server, key):
                    renamed = _with_uri(params, native, uri)
                    stream.send("notifications/resources/updated", renamed)

    def _recipients(
        self, server: Server, key: LeaseKey, exchanges: Sequence[Exchange]
    ) -> list[Session]:
        """The sessions that get what belongs to no call; `exchanges` are open on the connection."""
        owner = self.sessions.get(key.owner)
        if owner is not None:
            return [owner]
        recipients = [
            session
            for session in self.sessions.values()
            if server.slug in self._servers_of(session) and _is_notified_over(server, key, session)
        ]
        # The log may be about any of these calls. Principals must not see each other's.
        principals = {session.principal for session in recipients}
        principals |= {exchange.caller.principal for exchange in exchanges}
        return recipients if len(principals) <= 1 else []

    def _sessions_of(self, profile: Profile) -> list[Session]:
        return [session for session in self.sessions.values() if session.profile == profile.slug]

    def _streams_of(self, profile: Profile) -> list[ListenStream]:
        return [
            stream
            for stream in self.streams.values()
            if stream.exchange.caller.profile == profile.slug and not stream.exchange.ended
        ]

    def _servers_of(self, session: Session) -> Mapping[str, Server]:
        return self._profiles[session.profile].servers

    def _with_logger(self, profile_slug: str, slug: str, params: bytes) -> bytes:
        """Put the server's name before the logger's, unless the profile is transparent."""
        profile = self._profiles.get(profile_slug)  # A reload may have removed it meanwhile.
        if profile is None or profile.transparent:
            return params
        logger = raw_json.decode_string(raw_json.members(params).get("logger"))
        name = slug if logger is None else f"{slug}/{logger}"
        return raw_json.edit(params, {"logger": raw_json.encode_string(name)})


class _ListChanges:
    """The changes of a profile's lists, for each pair of catalogs that a client saw and sees."""

    def __init__(self, profile: Profile, kinds: frozenset[OfferKind], before: Catalog) -> None:
        self._common_catalog = profile.catalog
        self._kinds = kinds
        self._catalog_before = before
        self._by_catalogs: dict[tuple[Catalog, Catalog], frozenset[OfferKind]] = {}

    def between(self, before: Catalog | None, now: Catalog | None) -> frozenset[OfferKind]:
        """The kinds that differ between two catalogs; None stands for the common one."""
        if before is None and now in (None, self._common_catalog):
            return self._kinds
        old, new = before or self._catalog_before, now or self._common_catalog
        if (old, new) not in self._by_catalogs:
            self._by_catalogs[old, new] = changed_kinds(old, new)
        return self._by_catalogs[old, new]


def _list_changed_methods(kinds: Set[OfferKind]) -> Iterable[str]:
    """The notifications for changed lists: some kinds share one."""
    return dict.fromkeys(CHANGE_NOTIFICATIONS[kind] for kind in OfferKind if kind in kinds)


def _wants_log(caller: Caller, rank: int, *, raised: bool) -> bool:
    """Whether a caller's request wants logs of this rank."""
    if caller.session is not None:
        return _session_wants_log(caller.session, rank, raised=raised)
    return caller.log_level is not None and rank >= LOG_LEVELS.index(caller.log_level)


def _session_wants_log(session: Session, rank: int, *, raised: bool) -> bool:
    """Whether a session wants logs of this rank."""
    # Another session may have raised the server's level: one that set none gets the default level.
    wanted = session.log_level or (DEFAULT_LOG_LEVEL if raised else None)
    return wanted is None or rank >= LOG_LEVELS.index(wanted)


def _is_notified_over(server: Server, key: LeaseKey, session: Session) -> bool:
    """Whether a session gets what belongs to no call over this connection.

    That is the connection of its calls: many servers announce what a call changes only there.
    """
    return key == server.key_of(session.id, session.principal)


def resource_lease_key(server: Server, session: Session) -> LeaseKey:
    """The connection over which a session is notified of resource changes.

    An HTTP server is the same behind all its connections, and some that speak both eras announce
    resource changes only in the modern one.
    """
    own, shared = (server.key_of(id, session.principal) for id in (session.id, ""))
    prefers_modern = server.config.url is not None and server.era_of(shared) is Era.MODERN
    return shared if prefers_modern and not own.revision else own


def _public_uri(
    slug: str, native: str, catalog: Catalog, subscribed: set[str] | frozenset[str]
) -> str | None:
    """The public form of a server's URI, if it or a parent of it is in `subscribed`."""
    public: str | None = None
    for uri in subscribed:
        owner = owner_of_uri(uri, catalog)
        if owner is None or owner[0] != slug:
            continue
        if owner[1] == native:
            return uri
        if native.startswith(owner[1].rstrip("/") + "/"):
            public = native if uri == owner[1] else qualify(slug, native)
    return public


def _with_uri(params: bytes, native: str, uri: str) -> bytes:
    return params if uri == native else raw_json.edit(params, {"uri": raw_json.encode_string(uri)})
