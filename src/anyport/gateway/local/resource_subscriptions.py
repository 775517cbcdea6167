"""Resource subscriptions towards servers.

However many clients are subscribed to a resource over one connection, its server gets one
`resources/subscribe` for the first and one `resources/unsubscribe` for the last. After a restart
everything is subscribed again.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from anyport.catalog.route import Route
from anyport.clock import Clock
from anyport.gateway.calls.answers import not_ready_fault
from anyport.gateway.local.notifications import Notifications, resource_lease_key
from anyport.protocol.errors import Fault, Situation, invalid_params, method_not_found
from anyport.protocol.exchange import Answered, ErrorAnswered, Exchange, Failed, Session
from anyport.protocol.revisions import Era
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.server import Server
from anyport.upstream.supervisor import NotReady
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure


class CompletionBarrier:
    """Calls back once, after several things have completed.

    It starts with one entry of its own, so that it cannot complete before `close` is called.
    """

    def __init__(self, on_complete: Callable[[], None]) -> None:
        self._on_complete = on_complete
        self._open_count = 1

    def expect(self) -> Callable[[], None]:
        """Wait for one more; call the returned function when it has completed."""
        self._open_count += 1
        is_completed = False

        def on_completed() -> None:
            nonlocal is_completed
            if not is_completed:
                is_completed = True
                self.close()

        return on_completed

    def close(self) -> None:
        """Remove one entry: the barrier's own, or one that has completed."""
        self._open_count -= 1
        if self._open_count == 0:
            self._on_complete()

    def give_up(self) -> None:
        """Call back now, whatever is still missing."""
        if self._open_count > 0:
            self._open_count = 0
            self._on_complete()


SUBSCRIBE_SECONDS_MAX: Final = 2.0
"""How long a client's subscription waits for servers to confirm theirs."""


def _noop() -> None: ...


class ResourceSubscriptions:
    """What the gateway is subscribed to at each server, kept in line with what clients want."""

    def __init__(self, notifications: Notifications, clock: Clock) -> None:
        self._notifications = notifications
        self._clock = clock
        self._subscribed: dict[tuple[str, LeaseKey], set[str]] = {}
        self._rejected: set[tuple[str, LeaseKey, str]] = set()
        """Subscriptions that servers have refused."""

    def handle_request(self, exchange: Exchange, server: Server, route: Route) -> None:
        """Handle `resources/subscribe` and `resources/unsubscribe` of a legacy client."""
        session = exchange.caller.session
        if session is None:
            message = f"{exchange.method.name} needs a session: send initialize first"
            exchange.end(Failed(Fault(situation=Situation.INVALID_REQUEST, message=message)))
            return
        key = resource_lease_key(server, session)
        if self._lacks_stream(exchange, server, key):
            exchange.end(Failed(_without_stream(server, route)))
            return
        if exchange.method.name == "resources/subscribe":
            session.subscriptions.add(route.public)
            is_new = route.native not in self._subscribed.get((server.slug, key), set())
        else:
            session.subscriptions.discard(route.public)
            is_new = route.native not in self._notifications.subscribed_uris(server, key)
        # Only the first and the last subscriber concern the server. A modern one gets a filter.
        if not is_new or server.era_of(key) is Era.MODERN:
            self.sync([server], partial(self._on_synced, exchange, session, server, route))
            return
        server.lease(key, partial(self._forward, exchange, session, server, route))

    def resubscribe(self, server: Server, key: LeaseKey) -> None:
        """Subscribe again over a new connection, which starts without subscriptions."""
        closed = [
            (slug, old)
            for slug, old in self._subscribed
            if slug == server.slug and old.principal is not None and old not in server.supervisors
        ]
        for subscription in closed:
            del self._subscribed[subscription]
        self._subscribed[server.slug, key] = set()
        self.sync([server])

    def forget(self, server: Server, session: Session) -> None:
        """Drop the subscriptions of a session that has ended, and of its own connections."""
        for subscription in [each for each in self._subscribed if each[1].owner == session.id]:
            del self._subscribed[subscription]
        self.sync([server])

    def sync(self, servers: Iterable[Server], then: Callable[[], None] = _noop) -> None:
        """Bring servers in line with what clients want, then call `then` (after 2 s at most)."""
        barrier = CompletionBarrier(then)
        for server in servers:
            if server.asleep:
                self._start_server(server, barrier)
            else:
                self._sync_server(server, barrier)
        if then is not _noop:
            self._clock.later(SUBSCRIBE_SECONDS_MAX, barrier.give_up)
        barrier.close()

    def is_rejected(self, server: Server, key: LeaseKey, native: str) -> bool:
        """Whether a server will not announce changes: it refused, or has no stream."""
        return self._has_refused(server, key, native) or server.streamless(key)

    def _has_refused(self, server: Server, key: LeaseKey, native: str) -> bool:
        return (server.slug, key, native) in self._rejected or server.refuses(key, native)

    def _lacks_stream(self, exchange: Exchange, server: Server, key: LeaseKey) -> bool:
        """Whether a client wants to subscribe at a server that has no stream for notifications.

        In a transparent profile the server itself answers.
        """
        is_subscribe = exchange.method.name == "resources/subscribe"
        is_transparent = self._notifications.is_transparent(exchange.caller.profile)
        return is_subscribe and not is_transparent and server.streamless(key)

    def _on_synced(
        self, exchange: Exchange, session: Session, server: Server, route: Route
    ) -> None:
        """Answer a client after its server was synced, with an error if the server refused."""
        key = resource_lease_key(server, session)
        is_rejected = self._has_refused(server, key, route.native)
        if exchange.method.name != "resources/subscribe" or not is_rejected:
            exchange.end(Answered(b"{}"))
            return
        session.subscriptions.discard(route.public)
        self.sync([server])
        if server.peer is not None and not server.peer.offers("resources", "subscribe"):
            exchange.end(Failed(method_not_found(exchange.method.name)))
            return
        message = (
            f"Server '{server.slug}' does not announce changes of this resource: {route.public}"
        )
        exchange.end(Failed(invalid_params(message)))

    def _start_server(self, server: Server, barrier: CompletionBarrier) -> None:
        """Start a stopped server if anything is subscribed: only a running one can notify."""
        if any(self._notifications.listen_filter(server, SHARED)):
            on_completed = barrier.expect()
            server.lease(SHARED, lambda _: self.sync([server], on_completed))

    def _sync_server(self, server: Server, barrier: CompletionBarrier) -> None:
        has_subscribers = self._notifications.has_subscribers
        for key, connection in server.connections():
            subscribed = self._subscribed.get((server.slug, key), set())
            if not has_subscribers and not subscribed:
                continue  # Cheap exit: this runs for every session that opens or closes.
            if connection.peer is not None and connection.peer.revision.era is Era.MODERN:
                listen_filter = self._notifications.listen_filter(server, key)
                self._subscribed[server.slug, key] = {*listen_filter.uris, *listen_filter.tasks}
                server.subscribe(key, listen_filter, barrier.expect)
                continue
            # A legacy server gets a request per resource, and only for what has changed. What is
            # subscribed is noted before it answers: another sync must not ask again meanwhile.
            wanted = self._notifications.subscribed_uris(server, key)
            self._subscribed[server.slug, key] = set(wanted)
            for uri in sorted(wanted - subscribed):
                on_completed = barrier.expect()
                done = partial(self._on_subscribed, (server.slug, key, uri), on_completed)
                self._send_request(connection, "resources/subscribe", uri, done)
            for uri in sorted(subscribed - wanted):
                self._rejected.discard((server.slug, key, uri))
                self._send_request(connection, "resources/unsubscribe", uri, lambda _: None)

    def _send_request(
        self, connection: Connection, method: str, uri: str, done: Callable[[Answer], None]
    ) -> None:
        params = raw_json.encode_object([("uri", raw_json.encode_string(uri))])
        call = connection.call(method, params, done)
        if isinstance(call, NoAnswer):
            done(call)

    def _on_subscribed(
        self,
        subscription: tuple[str, LeaseKey, str],
        on_completed: Callable[[], None],
        answer: Answer,
    ) -> None:
        if isinstance(answer, Failure):
            self._rejected.add(subscription)
        else:
            self._rejected.discard(subscription)
        on_completed()

    def _forward(
        self,
        exchange: Exchange,
        session: Session,
        server: Server,
        route: Route,
        connection: Connection | NotReady,
    ) -> None:
        """Forward the request, so that the server itself accepts or refuses it."""
        if isinstance(connection, NotReady):
            session.subscriptions.discard(route.public)
            exchange.end(Failed(not_ready_fault(server, connection.reason)))
            return
        if connection.peer is not None and connection.peer.revision.era is Era.MODERN:
            # The server was still starting when the client asked, and its era was not known.
            self.sync([server], partial(self._on_synced, exchange, session, server, route))
            return
        if self._lacks_stream(exchange, server, resource_lease_key(server, session)):
            session.subscriptions.discard(route.public)
            exchange.end(Failed(_without_stream(server, route)))
            return
        on_answer = partial(self._on_answer, exchange, session, server, route)
        sent = connection.call(exchange.method.name, route.params, on_answer)
        if isinstance(sent, NoAnswer):
            on_answer(sent)

    def _on_answer(
        self, exchange: Exchange, session: Session, server: Server, route: Route, answer: Answer
    ) -> None:
        if isinstance(answer, NoAnswer | Failure):
            session.subscriptions.discard(route.public)
        if isinstance(answer, NoAnswer):
            exchange.end(Failed(answer.fault(server.slug)))
        elif isinstance(answer, Failure):
            exchange.end(ErrorAnswered(answer.error))
        else:
            key = resource_lease_key(server, session)
            subscribed = self._subscribed.setdefault((server.slug, key), set())
            if exchange.method.name == "resources/subscribe":
                subscribed.add(route.native)
            else:
                subscribed.discard(route.native)
            exchange.end(Answered(b"{}"))


def _without_stream(server: Server, route: Route) -> Fault:
    message = f"Server '{server.slug}' has no stream on which to announce changes of this resource"
    return invalid_params(f"{message}: {route.public}")
