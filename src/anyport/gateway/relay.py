"""The way of a message. Read this first.

`begin` takes an exchange from its request to its ending: route, lease, tell the server, tell the
caller. Everything on the way is synchronous; what has to be waited for calls back. Every way out
of a call is noted exactly once in the record, in the turn of the loop in which the caller is told:
the record of a turn is written before anything that was said in it gets out.
"""

from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import random
from typing import Any, Final

from anyport.gateway.admission import Admission
from anyport.gateway.attempts import Retries
from anyport.gateway.deadlines import Deadlines
from anyport.gateway.endings import Endings, unready
from anyport.gateway.errand import Errand
from anyport.gateway.handles import Handles
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Habit, Ledger
from anyport.gateway.mirror import contradiction
from anyport.gateway.office import Desk
from anyport.gateway.parks import Parks
from anyport.gateway.profile import Profile
from anyport.gateway.questions import Audience
from anyport.gateway.sluice import Held
from anyport.gateway.states import States
from anyport.gateway.tasks import Means as TaskMeans
from anyport.gateway.tasks import Tasks
from anyport.gateway.track import Run, Track
from anyport.protocol.errors import Fault, broken, method_not_found
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
from anyport.protocol.room import LARGE_BYTES
from anyport.protocol.seal import Seal
from anyport.routing.route import Local, Route, Unroutable, resolve
from anyport.upstream.call import Call
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Request

SUBSCRIPTIONS: Final = frozenset({"resources/subscribe", "resources/unsubscribe"})


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
    chance: Callable[[], float] = random
    """A number from 0 to 1."""
    admission: Admission = field(default_factory=Admission)


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
        self.admission = world.admission
        deadlines.on_sweep = self.admission.look
        self.leases = leases
        self.clock = world.clock
        self.later = world.later
        self.parks = Parks(world.seal, world.later)
        deadlines.on_timeout = self.parks.on_late = ledger.timed_out
        self.states = States(world.seal, world.now)
        self.endings = Endings(self.states)
        means = TaskMeans(spawn=world.spawn, now=world.now)
        self.tasks = Tasks(Handles(world.seal), means)
        self.retries = Retries(world.clock, world.chance, world.later, self._active)
        self.sluice = ledger.sluice
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
        if track.profile is not self._profiles.get(caller.profile):
            return None  # The configuration has changed since.
        connection = track.connection
        if connection.lost is not None or connection.over is not None or track.breaker.shut:
            return None
        if self.sluice.refusal is not None:
            return None
        admission, share = self.admission, track.share
        if len(self.deadlines.terms) >= admission.calls_max or len(plain.arguments) > LARGE_BYTES:
            return None
        if share is not None:
            if share.calls >= admission.client_calls_max:
                return None
            share.calls += 1
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
        elif (
            "requestState" in exchange.found
            and self.sluice.refusal is None
            and self._come_back(exchange, profile)
        ):
            return
        else:
            self._route(exchange, profile, waits=2)

    def _come_back(self, exchange: Exchange, profile: Profile) -> bool:
        """Take a client back to its call, if it is one that waits for it; see `parks`."""
        passage = exchange.passage
        route = resolve(exchange.method, exchange.params, exchange.found, profile.catalog)
        if passage is not None and isinstance(route, Route):
            # For the record: it may turn out that nobody waits for it any more.
            exchange.name, passage.server, passage.native = route.public, route.slug, route.native
        back = self.parks.come_back(exchange)
        if back:
            self.admission.count(exchange)
        return back

    # What calls on a track need.

    def passed(self, run: Run, size: int, waited: float, result: bytes, frame: bytes) -> None:
        """A call on a track has its result: note it, and tell its caller."""
        del self.deadlines.terms[run]
        share = run.track.share
        if share is not None:
            share.calls -= 1
        try:
            self._ledger.passed(run.track.habit, run, size, waited, result, frame)
        except Exception as error:  # noqa: BLE001 - the caller gets the answer even so
            self._report(error)
        run.front.close(run.key)
        if self.sluice.shut:
            self.sluice.keep(Held(run, run.track.caller.revision, frame))
        else:
            run.teller.end(frame)

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
            share=track.share,
        )
        self._ledger.mark(exchange)
        exchange.started = run.started
        exchange.passage = run.passage or exchange.passage
        _, asked = run.sides()
        errand = Errand(self, exchange, track.profile, track.server, track.native, asked)
        errand.take_over(run)
        del self.deadlines.terms[run]
        self.deadlines.start(errand)
        run.front.swap(run.key, exchange)
        return errand

    # What exchanges need.

    def at_work(self, server: Server) -> bool:
        """Whether anybody waits for a server, or may come back to it."""
        if server.open_calls:
            return True
        errands = (term for term in self.deadlines.terms.values() if isinstance(term, Errand))
        return any(errand.server is server for errand in errands) or self.tasks.at_work(server)

    def _active(self, server: Server) -> int:
        """How many calls of a server are open, in whatever form."""
        terms = self.deadlines.terms.values()
        runs = sum(isinstance(term, Run) and term.track.server is server for term in terms)
        return runs + sum(isinstance(term, Errand) and term.server is server for term in terms)

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
            exchange.happen(NeedInput(question))

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
        """The one way out of a call: tell the caller, and note it before that gets out."""
        self.deadlines.terms.pop(exchange, None)
        ending = self.admission.told(ending)
        if exchange.ended or exchange.method.event is None:
            exchange.end(ending)
            return
        exchange.on_end = None  # It is noted here.
        try:
            exchange.end(ending)
        finally:
            self._note(exchange, slug, native, ending, waited)

    def _note(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending: Ending | None,
        waited: float | None = None,
    ) -> None:
        try:
            self._ledger.end(exchange, slug, native, ending, waited)
        except Exception as error:  # noqa: BLE001 - the caller gets the answer even so
            self._report(error)

    def give_up(self, exchange: Exchange, slug: str, native: str) -> None:
        """The other way out: the client no longer wants the answer, and is told nothing more."""
        self.deadlines.clear(exchange)
        if exchange.method.event is not None:
            exchange.on_end = None
            self._note(exchange, slug, native, None)

    def broke(self, exchange: Exchange, error: Exception) -> None:
        """Something of ours broke on the way: the caller gets to know, and the record too."""
        if not isinstance(error, MemoryError):
            self._report(error)
        ending = Failed(broken(error))
        if exchange.name:
            errand = self.deadlines.terms.get(exchange)
            if isinstance(errand, Errand):
                errand.put_away()
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
                barred = (
                    self._barred(exchange)
                    or contradiction(exchange, server.annotations(route.native))
                    or self.admission.enter(exchange, len(self.deadlines), self.clock())
                )
                if barred is not None:
                    self.finish(exchange, route.slug, route.native, Failed(barred))
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
                exchange.hold = None  # It may be asked what is wrong with the record.
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
                    fault = unready(owner, owner.reason or "it is still starting")
                slug = "" if owner is None else owner.slug
                self.start(exchange, slug, public)
                lost = self.clock() - exchange.started if delayed else None
                self.finish(exchange, slug, public, Failed(fault), lost)

    def _barred(self, exchange: Exchange) -> Fault | None:
        """Why a call is not made that could not be recorded; see `sluice`."""
        if self.sluice.refusal is None or exchange.method.event is None:
            return None
        exchange.hold = None
        return self.sluice.refusal

    @property
    def _desk(self) -> Desk:
        if self.desk is None:
            raise RuntimeError("the relay has no desk")
        return self.desk
