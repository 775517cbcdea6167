"""Transparent profiles: clients get what the one server says itself.

The server is leased as for any call, so limits, restarts and the record apply. Between a client and
a server of different eras the gateway answers in the server's place, from what the server has said.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from anyport.catalog.offers import ListCollector, read_page
from anyport.clock import Clock
from anyport.gateway.calls.answers import AnswerTranslator, misbehaviour, not_ready_fault
from anyport.gateway.calls.leases import ALL_IN_USE
from anyport.gateway.identity import IDENTITY
from anyport.gateway.profile import Profile
from anyport.protocol import meta
from anyport.protocol.adapters.legacy_client import LOG_LEVELS
from anyport.protocol.adapters.modern_client import SUPPORTED_REVISIONS
from anyport.protocol.adapters.server import InputRequiredResult
from anyport.protocol.capabilities import translated_capabilities
from anyport.protocol.errors import not_running
from anyport.protocol.exchange import (
    Answered,
    Ending,
    Exchange,
    Failed,
    Progress,
    ServerNotification,
)
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import (
    CANCELLED_NOTIFICATION,
    LISTEN_FLAGS,
    OfferKind,
    RoutingRule,
)
from anyport.protocol.revisions import Era
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, CallSubject, NoAnswer, PendingCall
from anyport.upstream.server import RESOURCE_UPDATED, Server
from anyport.upstream.subscriptions import ACKNOWLEDGED
from anyport.upstream.supervisor import NotReady
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Notification

if TYPE_CHECKING:
    from anyport.gateway.relay import Relay

LISTEN: Final = "subscriptions/listen"

SUBSCRIPTIONS_OF_CONNECTION_MAX: Final = 64
"""Subscriptions forwarded over one connection: over HTTP each takes up a request that calls need.
For clients beyond this the gateway itself subscribes, once for all."""


INTRODUCTION_SECONDS_MAX: Final = 55.0
"""How long `initialize` waits for the server; most clients give up after a minute."""


class TransparentMethods:
    """Requests that a transparent profile's server answers, and the gateway answers elsewhere."""

    def __init__(
        self,
        relay: "Relay",
        subscriptions: "TransparentSubscriptions",
        clock: Clock,
        answer_locally: Callable[[Exchange, Profile], None],
    ) -> None:
        self._relay = relay
        self._subscriptions = subscriptions
        self._clock = clock
        self._answer_locally = answer_locally
        """Answers as in an ordinary profile, where client and server are of different eras."""

    def is_for_server(self, exchange: Exchange) -> bool:
        return (
            exchange.method.routing is RoutingRule.MERGE or exchange.method.name in _PASSED_METHODS
        )

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        """Have the server answer; introductions have a time limit, because it may have to start."""
        (server,) = profile.servers.values()
        key = self._relay.leases.key(server, exchange.caller)
        if key.of_session and not self._relay.leases.make_room(server, key):
            exchange.end(Failed(not_ready_fault(server, ALL_IN_USE)))
            return
        if exchange.method.name in _INTRODUCTION_METHODS:
            give_up = partial(_fail_introduction, exchange, server)
            self._clock.later(INTRODUCTION_SECONDS_MAX, give_up)
        server.lease(key, partial(self._on_lease, exchange, profile, server))

    def _on_lease(
        self,
        exchange: Exchange,
        profile: Profile,
        server: Server,
        connection: Connection | NotReady,
    ) -> None:
        """The server is connected, or `connection` is the reason why not."""
        if exchange.ended:
            return
        peer = None if isinstance(connection, NotReady) else connection.peer
        is_introduction = exchange.method.name in ("initialize", "server/discover")
        is_same_era = peer is not None and peer.revision.era is exchange.caller.revision.era
        if peer is not None and not is_same_era:
            server.listen_for_changes()  # The client cannot listen across eras: the gateway does.
        if exchange.method.name == "initialize" or (is_introduction and not is_same_era):
            if peer is None:
                reason = (
                    connection.reason
                    if isinstance(connection, NotReady)
                    else "it has not finished its handshake"
                )
                exchange.end(Failed(not_ready_fault(server, reason)))
            else:
                exchange.end(Answered(introduce_server(exchange, peer)))
        elif not is_same_era and peer is not None:
            server.read_lists()
            self._answer_locally(exchange, profile)
        elif exchange.method.name == LISTEN:
            self._listen(exchange, profile, server, connection)
        else:
            if exchange.method.name == "logging/setLevel":
                _remember_level(exchange, server)
            elif exchange.method.kind is not None:
                _learn_page(exchange, server, exchange.method.kind)
            self._relay.route(exchange, profile)

    def _listen(
        self,
        exchange: Exchange,
        profile: Profile,
        server: Server,
        connection: Connection | NotReady,
    ) -> None:
        """Forward the subscription, or serve it from the gateway's own if there are too many."""
        if isinstance(connection, NotReady):
            exchange.end(Failed(not_ready_fault(server, connection.reason)))
        elif not self._subscriptions.open(exchange, profile, server, connection):
            server.listen_for_changes()
            self._answer_locally(exchange, profile)


_PAGES: Final = "pages"
_INTRODUCTION_METHODS: Final = frozenset({"initialize", "server/discover", "logging/setLevel"})
_PASSED_METHODS: Final = _INTRODUCTION_METHODS | {LISTEN}


def introduce_server(exchange: Exchange, peer: Peer) -> bytes:
    """What a server has said about itself, in the terms of its client's era."""
    revision, legacy = exchange.caller.revision, peer.revision.era is Era.LEGACY
    capabilities = {name: bytes(raw) for name, raw in peer.capabilities.items()}
    if revision.era is not peer.revision.era:
        capabilities = translated_capabilities(peer.capabilities, peer.extensions, revision)
    declared = raw_json.encode_object(capabilities.items())
    server_info = IDENTITY if peer.server_info == b"{}" else peer.server_info
    if revision.era is Era.LEGACY:
        initialize_result = peer.handshake_result if legacy else b"{}"
        changes: dict[str, bytes | None] = {
            "protocolVersion": raw_json.encode_string(revision.name),
            "capabilities": declared,
            "serverInfo": server_info,
        }
    else:
        initialize_result = b"{}"
        changes = {
            "supportedVersions": msgspec.json.encode(SUPPORTED_REVISIONS),
            "capabilities": declared,
        }
    if peer.instructions is not None:
        changes["instructions"] = raw_json.encode_string(peer.instructions)
    return raw_json.edit(initialize_result, changes)


def _fail_introduction(exchange: Exchange, server: Server) -> None:
    if not exchange.ended:
        reason = server.reason or f"it did not answer within {INTRODUCTION_SECONDS_MAX:g} s"
        exchange.end(Failed(not_running(server.slug, reason)))


def _learn_page(exchange: Exchange, server: Server, kind: OfferKind) -> None:
    """Collect the pages of a list that pass through, and learn the list from them."""
    pages, previous = exchange.caller.cache, exchange.on_end
    if "cursor" not in exchange.param_members:
        tasks = server.modern and TASKS in server.extensions
        pages[_PAGES, kind] = ListCollector(kind, kind is OfferKind.TOOLS and tasks)
    collector: ListCollector | None = pages.get((_PAGES, kind))

    def on_end(exchange: Exchange, ending: Ending | None) -> None:
        if previous is not None:
            previous(exchange, ending)
        if collector is None or not isinstance(ending, Answered):
            return
        page = read_page(kind, ending.result, over_http=server.config.url is not None)
        if page is not None and collector.add(page) is None:
            server.learn(kind, collector.listing())

    exchange.on_end = on_end


def _remember_level(exchange: Exchange, server: Server) -> None:
    """Once the server has accepted a log level, remember it: a restarted server gets it again."""
    session, previous = exchange.caller.session, exchange.on_end
    level = raw_json.decode_string(exchange.param_members.get("level"))

    def on_end(exchange: Exchange, ending: Ending | None) -> None:
        if previous is not None:
            previous(exchange, ending)
        if session is None or level not in LOG_LEVELS or not isinstance(ending, Answered):
            return
        session.log_level = level
        for key, connection in server.connections():
            if key.owner == session.id:
                connection.log_level = level

    exchange.on_end = on_end


# Subscriptions of modern clients: each is forwarded to the server as it came.
#
# The server itself says which parts of a filter it honours, unknown ones included, and it ends the
# subscription. Notifications on a subscription reach only the client that opened it. A subscription
# that is lost is opened again, and its client is told what it may have missed.


class TransparentSubscriptions:
    """Open subscriptions that were forwarded to servers."""

    def __init__(self, answer_translator: AnswerTranslator, clock: Clock) -> None:
        self.answer_translator = answer_translator
        self.clock = clock
        self._open: dict[Exchange, TransparentSubscription] = {}

    def open(
        self, exchange: Exchange, profile: Profile, server: Server, connection: Connection
    ) -> bool:
        """Forward a subscription; False if the connection has too many already."""
        if (
            sum(each.connection is connection for each in self._open.values())
            >= SUBSCRIPTIONS_OF_CONNECTION_MAX
        ):
            return False
        subscription = self._open[exchange] = TransparentSubscription(
            self, exchange, profile, server
        )
        previous = exchange.on_end

        def on_end(exchange: Exchange, ending: Ending | None) -> None:
            del self._open[exchange]
            subscription.stop()
            if previous is not None:
                previous(exchange, ending)

        exchange.on_end = on_end
        subscription.begin(connection)
        return True

    def on_notification(self, connection: Connection, notification: Notification) -> bool:
        """Pass a notification on to the client of its subscription; False if it belongs to none."""
        if not self._open:
            return False
        call, params = connection.related_call, notification.params
        if (
            notification.method == CANCELLED_NOTIFICATION
            and params is not None
            and params[:1] == b"{"
        ):
            call = connection.find_call(raw_json.members(params).get("requestId"))
        for subscription in self._open.values() if call is not None else ():
            if subscription.call is call:
                subscription.on_notification(notification)
                return True
        return False

    def on_connection_renewed(self, server: Server, key: LeaseKey) -> None:
        """Open lost subscriptions again over a new connection."""
        for other, connection in server.connections():
            for each in [each for each in self._open.values() if each.server is server]:
                is_own = key == server.key_of("", each.exchange.caller.principal)
                if other == key and is_own and each.call is None:
                    each.begin(connection)

    def retire(self, server: Server) -> None:
        """End the subscriptions of a removed server: clients have to subscribe again."""
        for each in [each for each in self._open.values() if each.server is server]:
            each.exchange.end(Answered(b"{}"))


class TransparentSubscription:
    """One client's subscription, and the request towards the server that it has become."""

    __slots__ = (
        "_acknowledged",
        "_backoff",
        "_begun_at",
        "_profile",
        "_registry",
        "call",
        "connection",
        "exchange",
        "server",
    )

    def __init__(
        self,
        registry: TransparentSubscriptions,
        exchange: Exchange,
        profile: Profile,
        server: Server,
    ) -> None:
        self.exchange = exchange
        self.server = server
        self.connection: Connection | None = None
        self.call: PendingCall | None = None
        """The request at the server; None while the subscription is lost."""
        self._registry = registry
        self._profile = profile
        self._acknowledged = False
        self._begun_at = 0.0
        self._backoff = Backoff()

    def begin(self, connection: Connection) -> None:
        exchange, peer = self.exchange, connection.peer
        if peer is None or peer.revision.era is Era.LEGACY:
            exchange.end(misbehaviour(self.server.slug, "has begun to speak another era"))
            return
        self.connection, self._begun_at = connection, self._registry.clock.monotonic()
        params = peer.adapter.request_params(
            exchange.params, exchange.param_members.get("_meta"), exchange.caller
        )
        if exchange.trace_context:
            params = meta.edit_meta(params, exchange.trace_context)
        if exchange.transcript is not None:
            exchange.transcript.on_request_sent(LISTEN, params)
        on_progress = None if exchange.progress_token is None else self._on_progress
        subject = CallSubject(fields=exchange.param_fields)
        call = connection.call(LISTEN, params, self._on_answer, on_progress, subject)
        if isinstance(call, NoAnswer):
            self._on_answer(call)
        elif connection.waits_for(call):
            self.call = call

    def on_notification(self, notification: Notification) -> None:
        method, params = notification.method, notification.params or b"{}"
        if method == CANCELLED_NOTIFICATION:
            # The server ends it. Over HTTP a stream must not carry this notification further.
            self.exchange.end(misbehaviour(self.server.slug, "has ended the subscription"))
        elif method == ACKNOWLEDGED and self._acknowledged:
            self._catch_up(params)
        elif params[:1] == b"{":
            self._acknowledged = self._acknowledged or method == ACKNOWLEDGED
            self.exchange.emit(ServerNotification(method, params))

    def stop(self) -> None:
        """Cancel the request at the server: the client's side has ended."""
        call, self.call = self.call, None
        if call is not None and self.connection is not None:
            self.connection.cancel(call, None)

    def _schedule_restart(self, connection: Connection) -> None:
        """Schedule the next attempt on this connection, with back-off."""
        if connection.usable:  # Otherwise `on_connection_renewed` opens it again.
            clock = self._registry.clock
            delay = self._backoff.delay(clock.monotonic() - self._begun_at, clock.random())
            clock.later(delay, lambda: self._restart(connection))

    def _restart(self, connection: Connection) -> None:
        is_lost = self.call is None and self.connection is connection and not self.exchange.ended
        if is_lost and connection.usable:
            self.begin(connection)

    def _catch_up(self, params: bytes) -> None:
        """After a gap, announce everything that the subscription covers: it may have changed."""
        try:
            honoured = raw_json.members(raw_json.members(params).get("notifications", Raw(b"{}")))
            uris = msgspec.json.decode(honoured.get("resourceSubscriptions", Raw(b"[]")))
        except msgspec.DecodeError:
            return
        for method, flag in LISTEN_FLAGS.items():
            if bytes(honoured.get(flag, b"")) == b"true":
                self.exchange.emit(ServerNotification(method, b"{}"))
        for uri in uris if isinstance(uris, list) else ():
            if isinstance(uri, str):
                uri_params = raw_json.encode_object([("uri", raw_json.encode_string(uri))])
                self.exchange.emit(ServerNotification(RESOURCE_UPDATED, uri_params))

    def _on_progress(self, reports: Sequence[bytes]) -> None:
        for params in reports:
            self.exchange.emit(Progress(params))

    def _on_answer(self, answer: Answer) -> None:
        connection, self.call = self.connection, None
        # The server did not end the subscription: it is only lost, and goes on later.
        if isinstance(answer, NoAnswer) and self._acknowledged and connection is not None:
            self._schedule_restart(connection)
            return
        peer = None if connection is None else connection.peer
        request = (self.exchange, self._profile, self.server)
        ending = self._registry.answer_translator.translate(answer, peer, *request)
        if isinstance(ending, InputRequiredResult):
            ending = misbehaviour(self.server.slug, "asked for input on a subscription")
        self.exchange.end(ending)
