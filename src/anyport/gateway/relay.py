"""The way of a message. Read this first.

`begin` takes an exchange from its request to its ending: route, lease, tell the server, tell the
caller. Everything on the way is synchronous; what has to be waited for calls back. Every way out
of a call is noted exactly once in the record, before the caller is told.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from anyport.gateway.deadlines import Deadlines
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Ledger
from anyport.gateway.profile import Profile
from anyport.gateway.rounds import inquire
from anyport.protocol import meta
from anyport.protocol.back import Inquiry, asks_for_input
from anyport.protocol.errors import Fault, Situation, from_server, lost, not_running
from anyport.protocol.exchange import (
    Answered,
    Ending,
    Exchange,
    Failed,
    Progress,
    Refused,
)
from anyport.protocol.method import Travel
from anyport.routing.rewrite import rewrite_result
from anyport.routing.route import Local, Route, Unroutable, resolve
from anyport.upstream.connection import Answer, Call, Connection, Lost
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Failure, Result

BROKE: Final = "Internal error: the gateway failed to handle this request"
SUBSCRIPTIONS: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})


class Desk(Protocol):
    """Answers what no single server can."""

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        """Answer a request that the gateway answers itself."""

    def use_tool(self, exchange: Exchange, profile: Profile, tool: str) -> None:
        """Run one of the gateway's own tools."""

    def subscribe(self, exchange: Exchange, server: Server, route: Route) -> None:
        """Start or end a client's interest in a resource."""

    def wait_for_lists(self, profile: Profile, then: Callable[[], None]) -> None:
        """Run something once every server has told what it offers, or has had its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the relay needs from outside."""

    clock: Callable[[], float]
    report: Callable[[Exception], None]
    """Takes what broke and should not have."""


class Relay:
    """Takes exchanges to their endings."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        ledger: Ledger,
        deadlines: Deadlines,
        leases: Leases,
        world: World,
    ) -> None:
        self.desk: Desk | None = None
        self.open: dict[Exchange, Server] = {}
        """Exchanges that a server works on."""
        self.deadlines = deadlines
        self.leases = leases
        self.clock = world.clock
        self._profiles = profiles
        self._ledger = ledger
        self._report = world.report

    def begin(self, exchange: Exchange) -> None:
        """Take an exchange on its way."""
        profile = self._profiles[exchange.caller.profile]
        self._ledger.identify(exchange)
        if exchange.method.travel in (Travel.LOCAL, Travel.MERGE):
            self._desk.answer(exchange, profile)
        else:
            self._route(exchange, profile, again=True)

    def start(self, exchange: Exchange, slug: str, native: str) -> None:
        """Note that a call starts, and what becomes of it when the client gives up."""
        if exchange.method.event is not None:
            self._ledger.begin(exchange, slug, native)
        exchange.on_cancel = lambda _: self.give_up(exchange, slug, native)

    def finish(self, exchange: Exchange, slug: str, native: str, ending: Ending) -> None:
        """The one way out of a call: note it, then tell the caller."""
        self._forget(exchange)
        try:
            if not exchange.ended and exchange.method.event is not None:
                self._ledger.end(exchange, slug, native, ending)
        except Exception as error:  # noqa: BLE001 - the caller gets the answer even so
            self._report(error)
        exchange.end(ending)

    def give_up(self, exchange: Exchange, slug: str, native: str) -> None:
        """The other way out: the client no longer wants the answer, and is told nothing more."""
        self._forget(exchange)
        if exchange.method.event is not None:
            self._ledger.cancelled(exchange, slug, native)

    def broke(self, exchange: Exchange, error: Exception) -> None:
        """Something of ours broke on the way: the caller gets to know, and the record too."""
        self._report(error)
        ending = Failed(Fault(situation=Situation.INTERNAL, message=BROKE))
        if exchange.name:
            server = self.open.get(exchange)
            slug = "" if server is None else server.slug
            self.finish(exchange, slug, exchange.name, ending)
        else:
            exchange.end(ending)  # It had not even started.

    def _route(self, exchange: Exchange, profile: Profile, *, again: bool) -> None:
        if exchange.ended:
            return
        route = resolve(exchange.method, exchange.params, profile.catalog)
        match route:
            case Route():
                exchange.name = route.public
                Errand(self, exchange, profile, route).begin(self._desk)
            case Local(tool=tool):
                exchange.name = tool
                self.start(exchange, "", tool)
                self._desk.use_tool(exchange, profile, tool)
            case Unroutable(final=False) if again and not profile.settled:
                retry = partial(self._route, exchange, profile, again=False)
                self._desk.wait_for_lists(profile, retry)
            case Unroutable(fault=fault, public=public):
                exchange.name = public
                owner = profile.silent_owner(public)
                if owner is not None:
                    fault = not_running(owner.slug, owner.reason or "it is still starting")
                slug = "" if owner is None else owner.slug
                self.start(exchange, slug, public)
                self.finish(exchange, slug, public, Failed(fault))

    def _forget(self, exchange: Exchange) -> None:
        self.open.pop(exchange, None)
        self.deadlines.clear(exchange)

    @property
    def _desk(self) -> Desk:
        if self.desk is None:
            raise RuntimeError("the relay has no desk")
        return self.desk


class Errand:
    """One exchange on its way to one server, and the answer on its way back."""

    __slots__ = (
        "_call",
        "_exchange",
        "_lease",
        "_params",
        "_profile",
        "_relay",
        "_route",
        "_server",
    )

    def __init__(self, relay: Relay, exchange: Exchange, profile: Profile, route: Route) -> None:
        self._relay = relay
        self._exchange = exchange
        self._profile = profile
        self._route = route
        self._server = profile.servers[route.slug]
        self._lease: Connection | None = None
        self._call: Call | None = None
        self._params = route.params
        """What the server was last asked with."""

    def begin(self, desk: Desk) -> None:
        """Note the start, set the clock, ask for a connection."""
        relay, exchange, server = self._relay, self._exchange, self._server
        relay.start(exchange, server.slug, self._route.native)
        exchange.on_cancel = self._cancelled
        seconds = server.config.timeout_seconds
        relay.deadlines.start(exchange, seconds, relay.clock(), self._overdue)
        if exchange.method.name in SUBSCRIPTIONS:
            desk.subscribe(exchange, server, self._route)
            return
        relay.open[exchange] = server
        server.lease(relay.leases.key(server.config.scope, exchange.caller), self._leased)

    def _leased(self, lease: Connection | str) -> None:
        if self._exchange.ended:
            return
        try:
            self._forward(lease)
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self._relay.broke(self._exchange, error)

    def _forward(self, lease: Connection | str) -> None:
        peer = None if isinstance(lease, str) else lease.peer
        if isinstance(lease, str) or peer is None:
            reason = lease if isinstance(lease, str) else "it has not finished its handshake"
            self._finish(Failed(not_running(self._server.slug, reason)))
            return
        self._lease = lease
        params = peer.back.params(self._route.params, self._exchange.caller)
        if self._exchange.context:
            params = meta.restamp(params, self._exchange.context)
        self._ask(params)

    def _ask(self, params: bytes) -> None:
        """Put the request to the server; again, with answers, when it needed to know more."""
        exchange, lease = self._exchange, self._lease
        if lease is None:
            return
        self._params = params
        progress = None if exchange.progress_token is None else self._progressed
        call = lease.call(exchange.method.name, params, self._answered, progress)
        if isinstance(call, Lost):
            self._answered(call)
        else:
            self._call = call

    def _answered(self, answer: Answer) -> None:
        try:
            ending = self._ending(answer)
            if isinstance(ending, Inquiry):
                inquire(self._exchange, ending, self._params, self._ask, self._finish)
            else:
                self._finish(ending)
        except members.Ambiguous:
            self._finish(self._misbehaved("answered with an object that names a member twice"))
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self._relay.broke(self._exchange, error)

    def _ending(self, answer: Answer) -> Ending | Inquiry:
        """A server's answer as the caller may get it."""
        method, slug = self._exchange.method, self._server.slug
        peer = None if self._lease is None else self._lease.peer
        match answer:
            case Result(result=result) if result[:1] == b"{" and peer is not None:
                if not method.may_need_input and asks_for_input(result):
                    return self._misbehaved(f"asked for input, which {method.name} has no room for")
                return self._public(peer.back.ending(result, self._exchange.caller, slug))
            case Result():
                return self._misbehaved("answered with a result that is not an object")
            case Failure(error=error):
                context = self._profile.config.errors == "context"
                return Refused(from_server(error, slug) if context else error)
            case Lost(reason=reason, situation=situation):
                return Failed(lost(slug, situation, reason))

    def _public(self, ending: Ending | Inquiry) -> Ending | Inquiry:
        """Make the URIs in a result public, where a server's own are not unique."""
        catalog = self._profile.catalog
        if not catalog.public_uris or not isinstance(ending, Answered):
            return ending
        public = partial(catalog.public_uri, self._server.slug)
        return Answered(rewrite_result(self._exchange.method.name, ending.result, public))

    def _progressed(self, params: bytes) -> None:
        if not self._exchange.ended:
            self._relay.deadlines.extend(self._exchange, self._relay.clock())
            self._exchange.tell(self._exchange, Progress(params))

    def _overdue(self) -> None:
        seconds = f"{self._server.config.timeout_seconds:g}s"
        fault = lost(self._server.slug, Situation.TIMED_OUT, seconds)
        self._stop(members.text(fault.message))
        self._finish(Failed(fault))

    def _cancelled(self, reason: bytes | None) -> None:
        """The client gave up: the server is told, and the record."""
        self._stop(reason)
        self._relay.give_up(self._exchange, self._server.slug, self._route.native)

    def _stop(self, reason: bytes | None) -> None:
        # The call holds on to this errand: cut, or both wait for the garbage collector.
        call, self._call = self._call, None
        if self._lease is not None and call is not None:
            self._lease.cancel(call, reason)

    def _finish(self, ending: Ending) -> None:
        self._call = None
        self._relay.finish(self._exchange, self._server.slug, self._route.native, ending)

    def _misbehaved(self, words: str) -> Failed:
        return Failed(lost(self._server.slug, Situation.MISBEHAVED, words))
