"""Which resources somebody follows, and keeping the servers told of it.

However many clients follow a resource over one connection, its server hears of the first and of
the last. After a restart the server is told again.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from anyport.gateway.endings import unready
from anyport.gateway.feed import Feed
from anyport.gateway.tally import Tally
from anyport.protocol.errors import Fault, Situation
from anyport.protocol.exchange import Answered, Exchange, Failed, Refused, Session
from anyport.routing.route import Route
from anyport.upstream.call import Answer, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED, LeaseKey
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Failure

ANSWER_SECONDS_MAX: Final = 2.0
"""A client that wants to follow something waits this long for the servers to know of it."""


def _nothing() -> None:
    """Nobody waits."""


class Interest:
    """The resources that the servers know to be followed."""

    def __init__(self, feed: Feed, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._feed = feed
        self._later = later
        self._known: dict[tuple[str, LeaseKey], set[str]] = {}
        self._refused: set[tuple[str, str]] = set()
        """Of those followed now, the ones that their servers do not tell of."""

    def take(self, exchange: Exchange, server: Server, route: Route) -> None:
        """A legacy client starts or ends following a resource."""
        session = exchange.caller.session
        if session is None:
            words = f"{exchange.method.name} needs a session: send initialize first"
            exchange.end(Failed(Fault(situation=Situation.INVALID_REQUEST, message=words)))
            return
        key = server.key_of(session.id)
        if exchange.method.name == "resources/subscribe":
            session.subscriptions.add(route.public)
            news = route.native not in self._known.get((server.slug, key), set())
        else:
            session.subscriptions.discard(route.public)
            news = route.native not in self._feed.uris_of(server, key)
        if not news or server.modern:
            self.sync([server], lambda: exchange.end(Answered(b"{}")))
            return
        server.lease(key, partial(self._forward, exchange, session, server, route))

    def restore(self, server: Server, key: LeaseKey) -> None:
        """A connection to a server is new: over it, nothing is known yet."""
        gone = [
            (slug, old)
            for slug, old in self._known
            if slug == server.slug and old.principal is not None and old not in server.tenders
        ]
        for known in gone:
            del self._known[known]
        self._known[server.slug, key] = set()
        self.sync([server])

    def forget(self, server: Server, session: Session) -> None:
        """A session has ended, and the connection that only it used."""
        for known in [known for known in self._known if known[1].owner == session.id]:
            del self._known[known]
        self.sync([server])

    def sync(self, servers: Iterable[Server], then: Callable[[], None] = _nothing) -> None:
        """Tell servers what has changed in what is followed; go on when they have answered."""
        tally = Tally(then)
        for server in servers:
            if server.modern:
                uris, tasks = self._feed.uris_of(server, SHARED), self._feed.tasks_of(server)
                server.watch(uris, tasks, tally.expect)
            elif server.asleep:
                self._wake(server, tally)
            else:
                self._sync_sessions(server, tally)
        if then is not _nothing:
            self._later(ANSWER_SECONDS_MAX, tally.give_up)
        tally.close()

    def refused(self, slug: str, native: str) -> bool:
        """Whether a server has said that it will not tell of this resource."""
        return (slug, native) in self._refused

    def _wake(self, server: Server, tally: Tally) -> None:
        """Only a server that runs can tell of what is followed."""
        if self._feed.uris_of(server, SHARED) or self._feed.tasks_of(server):
            happened = tally.expect()
            server.lease(SHARED, lambda _: self.sync([server], happened))

    def _sync_sessions(self, server: Server, tally: Tally) -> None:
        followed = self._feed.followed
        for key, connection in server.connections():
            known = self._known.get((server.slug, key), set())
            if not followed and not known:
                continue  # There may be many sessions, and this is done for each that comes.
            wanted = self._feed.uris_of(server, key)
            self._known[server.slug, key] = set(wanted)
            for uri in sorted(wanted - known):
                happened = tally.expect()
                done = partial(self._told, server.slug, key, uri, happened)
                self._tell(connection, "resources/subscribe", uri, done)
            for uri in sorted(known - wanted):
                self._refused.discard((server.slug, uri))
                self._tell(connection, "resources/unsubscribe", uri, lambda _: None)

    def _tell(
        self, connection: Connection, method: str, uri: str, done: Callable[[Answer], None]
    ) -> None:
        params = members.join([("uri", members.text(uri))])
        call = connection.call(method, params, done)
        if isinstance(call, Lost):
            done(call)

    def _told(
        self, slug: str, key: LeaseKey, uri: str, happened: Callable[[], None], answer: Answer
    ) -> None:
        if isinstance(answer, Failure):
            self._refused.add((slug, uri))
        else:
            self._refused.discard((slug, uri))
        happened()

    def _forward(
        self,
        exchange: Exchange,
        session: Session,
        server: Server,
        route: Route,
        lease: Connection | str,
    ) -> None:
        """Let the server itself say whether the resource can be followed."""
        if isinstance(lease, str):
            session.subscriptions.discard(route.public)
            exchange.end(Failed(unready(server, lease)))
            return
        if server.modern:
            # It was still starting when the client asked, and nobody knew what it speaks.
            self.sync([server], lambda: exchange.end(Answered(b"{}")))
            return
        answered = partial(self._answered, exchange, session, server, route)
        sent = lease.call(exchange.method.name, route.params, answered)
        if isinstance(sent, Lost):
            answered(sent)

    def _answered(
        self, exchange: Exchange, session: Session, server: Server, route: Route, answer: Answer
    ) -> None:
        if isinstance(answer, Lost | Failure):
            session.subscriptions.discard(route.public)
        if isinstance(answer, Lost):
            exchange.end(Failed(answer.fault(server.slug)))
        elif isinstance(answer, Failure):
            exchange.end(Refused(answer.error))
        else:
            known = self._known.setdefault((server.slug, server.key_of(session.id)), set())
            if exchange.method.name == "resources/subscribe":
                known.add(route.native)
            else:
                known.discard(route.native)
            exchange.end(Answered(b"{}"))
