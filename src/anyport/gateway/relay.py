"""The way of a message. Read this first.

`begin` takes an exchange from its request to its ending: route, lease, tell the server, tell the
caller. Everything on the way is synchronous; what has to be waited for calls back. Every way out
of a call is noted exactly once in the record, before the caller is told.
"""

from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from anyport.gateway.deadlines import Deadlines
from anyport.gateway.endings import Endings
from anyport.gateway.errand import Errand
from anyport.gateway.handles import Handles
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Habit, Ledger
from anyport.gateway.mirror import contradiction
from anyport.gateway.parks import Parks
from anyport.gateway.profile import Profile
from anyport.gateway.questions import Audience
from anyport.gateway.states import States
from anyport.gateway.tasks import Means as TaskMeans
from anyport.gateway.tasks import Tasks
from anyport.gateway.track import Run, Track
from anyport.protocol.errors import Fault, Situation, method_not_found, not_running
from anyport.protocol.exchange import (
    Caller,
    Ending,
    Exchange,
    Failed,
    Front,
    NeedInput,
    Question,
    Teller,
)
from anyport.protocol.method import Travel
from anyport.protocol.reading import PlainCall
from anyport.protocol.seal import Seal
from anyport.routing.route import Local, Route, Unroutable, resolve
from anyport.upstream.connection import Call, Connection
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Request

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

    def wait_for_server(self, server: Server, waited: float, then: Callable[[], None]) -> None:
        """Run something once a server has told what it offers, or cannot, or had its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the relay needs from outside."""

    clock: Callable[[], float]
    report: Callable[[Exception], None]
    """Takes what broke and should not have."""
    later: Callable[[float, Callable[[], None]], object]
    """Runs something after some seconds."""
    now: Callable[[], float]
    """The time of day: what clients carry for us may outlive the process."""
    seal: Seal
    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    """Runs a task of the loop that someone waits for."""


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
        self.deadlines = deadlines
        self.leases = leases
        self.clock = world.clock
        self.later = world.later
        self.parks = Parks(world.seal, world.later)
        self.states = States(world.seal, world.now)
        self.endings = Endings(self.states)
        means = TaskMeans(spawn=world.spawn, now=world.now)
        self.tasks = Tasks(Handles(world.seal), means)
        self._profiles = profiles
        self._ledger = ledger
        self._report = world.report

    def again(
        self, plain: PlainCall, caller: Caller, front: Front, teller: Teller, key: Hashable
    ) -> Run | None:
        """A call on the track that its caller's last one of that name has left, if it holds."""
        track: Track | None = caller.memory.get((plain.name, plain.token is None))
        if track is None or track.about != plain.about:
            return None
        if track.catalog is not track.profile.catalog:
            return None
        connection = track.connection
        if connection.lost is not None or connection.over is not None:
            return None
        if self.deadlines.asleep:
            self.deadlines.wake()
        return Run(self, track, plain, front, teller, key)

    def begin(self, exchange: Exchange) -> None:
        """Take an exchange on its way."""
        profile = self._profiles[exchange.caller.profile]
        self._ledger.identify(exchange)
        extension = exchange.method.extension
        if extension is not None and extension not in profile.extensions:
            self._desk.wait_for_lists(profile, partial(self._extended, exchange, profile))
        else:
            self._begin(exchange, profile)

    def _extended(self, exchange: Exchange, profile: Profile) -> None:
        """A method that nobody has, unless a server turns out to have it."""
        if exchange.ended:
            return
        if exchange.method.extension in profile.extensions:
            self._begin(exchange, profile)
        else:
            exchange.end(Failed(method_not_found(exchange.method.name)))

    def _begin(self, exchange: Exchange, profile: Profile) -> None:
        if exchange.method.travel in (Travel.LOCAL, Travel.MERGE):
            self._desk.answer(exchange, profile)
        elif "requestState" in exchange.found and self.parks.come_back(exchange):
            return
        else:
            self._route(exchange, profile, waits=2)

    # What calls on a track need.

    def passed(self, run: Run, size: int, waited: float) -> None:
        """A call on a track has its result: note it."""
        del self.deadlines.terms[run]
        try:
            self._ledger.passed(run.track.habit, run.started, size, waited)
        except Exception as error:  # noqa: BLE001 - the caller gets the answer even so
            self._report(error)

    def left(self, run: Run) -> Errand:
        """A call leaves its track: from now on it is an exchange like any other."""
        track, plain, params = run.track, run.plain, run.params
        exchange = Exchange(
            id=plain.id,
            method=run.method,
            params=params,
            found=members.members(params),
            caller=track.caller,
            teller=run.teller,
            tell=run.front.tell,
            key=run.key,
            progress_token=plain.token,
            reached=run.reached,
            name=track.public,
        )
        self._ledger.mark(exchange)
        exchange.started = run.started
        asked = track.params(plain)
        errand = Errand(self, exchange, track.profile, track.server, track.native, asked)
        errand.take_over(run)
        del self.deadlines.terms[run]
        self.deadlines.start(errand)
        run.front.swap(run.key, exchange)
        return errand

    # What exchanges need.

    def open_exchanges(self, server: Server, of: Call | None = None) -> list[Exchange]:
        """What a server works on now; or the one among it for which it was asked this."""
        for run in [term for term in self.deadlines.terms.values() if isinstance(term, Run)]:
            if run.track.server is server and (of is None or run.call is of):
                run.leave()
        errands = [term for term in self.deadlines.terms.values() if isinstance(term, Errand)]
        mine = [term for term in errands if term.server is server and term.under_way]
        return [errand.exchange for errand in mine if of is None or errand.call is of]

    # What servers ask.

    def exchange_on(self, owner: str) -> Exchange | None:
        """The call that has a connection to itself, once the server knows of it."""
        for term in self.deadlines.terms.values():
            if isinstance(term, Errand) and term.exchange.lease == owner and term.sent:
                return term.exchange
        waiting = self.parks.find(owner)
        return None if waiting is None else waiting.exchange

    def audience(self, server: Server, line: Connection, request: Request) -> Audience | None:
        """Whom a server asks that asks for one of its tasks; None if it does not."""
        return self.tasks.audience(server, line, request)

    def may_ask(self, exchange: Exchange) -> bool:
        """Whether there is room for one more question."""
        return not exchange.lease or not self.parks.full(exchange.caller.principal)

    def ask(self, exchange: Exchange, question: Question) -> None:
        """Put a server's question to the client of a call."""
        errand = self.deadlines.terms.get(exchange) or self.parks.find(exchange.lease)
        if exchange.lease and exchange.caller.session is None and isinstance(errand, Errand):
            self.parks.ask(errand, question)
        else:
            exchange.tell(exchange, NeedInput(question))

    def start(self, exchange: Exchange, slug: str, native: str) -> None:
        """A call starts that no server is asked for: what becomes of it if the client gives up."""
        exchange.on_cancel = lambda _: self.give_up(exchange, slug, native)

    def habit(self, exchange: Exchange, slug: str, native: str) -> Habit:
        """How calls like this one are noted."""
        return self._ledger.habit(exchange, slug, native)

    def note_pending(self, exchange: Exchange, slug: str, native: str) -> None:
        """Note that a call takes a while; what is answered at once is noted when it ends."""
        if exchange.method.event is not None:
            self._ledger.begin(exchange, slug, native)

    def finish(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending: Ending,
        waited: float | None = None,
    ) -> None:
        """The one way out of a call: note it, then tell the caller."""
        self.deadlines.terms.pop(exchange, None)
        try:
            if not exchange.ended and exchange.method.event is not None:
                self._ledger.end(exchange, slug, native, ending, waited)
        except Exception as error:  # noqa: BLE001 - the caller gets the answer even so
            self._report(error)
        exchange.end(ending)

    def give_up(self, exchange: Exchange, slug: str, native: str) -> None:
        """The other way out: the client no longer wants the answer, and is told nothing more."""
        self.deadlines.clear(exchange)
        if exchange.method.event is not None:
            self._ledger.cancelled(exchange, slug, native)

    def broke(self, exchange: Exchange, error: Exception) -> None:
        """Something of ours broke on the way: the caller gets to know, and the record too."""
        self._report(error)
        ending = Failed(Fault(situation=Situation.INTERNAL, message=BROKE))
        if exchange.name:
            errand = self.deadlines.terms.get(exchange)
            slug = errand.server.slug if isinstance(errand, Errand) else ""
            self.finish(exchange, slug, exchange.name, ending)
        else:
            exchange.end(ending)  # It had not even started.

    def _route(self, exchange: Exchange, profile: Profile, *, waits: int) -> None:
        """`waits` is how often it may still wait: for all lists, then for its own server's."""
        if exchange.ended:
            return
        delayed = waits < 2
        route = resolve(exchange.method, exchange.params, exchange.found, profile.catalog)
        match route:
            case Route():
                exchange.name = route.public
                server = profile.servers[route.slug]
                contradicts = contradiction(exchange, server.annotations(route.native))
                if contradicts is not None:
                    self.finish(exchange, route.slug, route.native, Failed(contradicts))
                    return
                errand = Errand(self, exchange, profile, server, route.native, route.params)
                errand.delayed = delayed
                if exchange.method.name in SUBSCRIPTIONS:
                    errand.wait()
                    self._desk.subscribe(exchange, server, route)
                else:
                    errand.begin()
            case Local(tool=tool):
                exchange.name = tool
                self.start(exchange, "", tool)
                self._desk.use_tool(exchange, profile, tool)
            case Unroutable(final=False) if waits == 2 and not profile.settled:
                retry = partial(self._route, exchange, profile, waits=1)
                self._desk.wait_for_lists(profile, retry)
            case Unroutable(final=False, public=public) if waits and (
                awaited := profile.awaited_owner(public)
            ):
                retry = partial(self._route, exchange, profile, waits=0)
                waited = self.clock() - exchange.started
                self._desk.wait_for_server(awaited, waited, retry)
            case Unroutable(fault=fault, public=public):
                exchange.name = public
                owner = profile.silent_owner(public)
                if owner is not None:
                    fault = not_running(owner.slug, owner.reason or "it is still starting")
                slug = "" if owner is None else owner.slug
                self.start(exchange, slug, public)
                lost = self.clock() - exchange.started if delayed else None
                self.finish(exchange, slug, public, Failed(fault), lost)

    @property
    def _desk(self) -> Desk:
        if self.desk is None:
            raise RuntimeError("the relay has no desk")
        return self.desk
