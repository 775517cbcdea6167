"""One exchange on its way to one server: the question out, the answer back, in their eras' words.

Decides nothing about where it goes: the relay has decided that, and is told how it ended.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from anyport.gateway.deadlines import Deadlines, Term
from anyport.gateway.leases import Leases, Seat
from anyport.gateway.ledger import Habit
from anyport.gateway.parks import LOST, Parks
from anyport.gateway.profile import Profile
from anyport.gateway.rounds import inquire
from anyport.gateway.track import Run, Track, Way, track_of
from anyport.protocol import meta
from anyport.protocol.back import Inquiry, asks_for_input
from anyport.protocol.errors import Situation, from_server, invalid_params, lost, not_running
from anyport.protocol.exchange import (
    Answered,
    Ending,
    Exchange,
    Failed,
    Progress,
    Refused,
)
from anyport.protocol.reading import CALL, split_token
from anyport.protocol.revision import Era
from anyport.protocol.shape import ShapedResult, read_shape
from anyport.routing.rewrite import rewrite_result
from anyport.upstream.connection import Answer, Call, Connection, Lost
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Failure, Result

HELD_REPORTS_MAX: Final = 64
"""Of what a server tells of its progress while its client fetches an answer; the last count."""
TRACKS_MAX: Final = 512
"""Names that are remembered for one caller, with how their calls travel."""


class Office(Protocol):
    """The relay, as an errand sees it."""

    clock: Callable[[], float]
    deadlines: Deadlines
    leases: Leases
    parks: Parks

    def finish(
        self,
        exchange: Exchange,
        slug: str,
        native: str,
        ending: Ending,
        waited: float | None = None,
    ) -> None:
        """The one way out of a call."""

    def give_up(self, exchange: Exchange, slug: str, native: str) -> None:
        """The other way out: the client no longer wants the answer."""

    def broke(self, exchange: Exchange, error: Exception) -> None:
        """Something of ours broke on the way."""

    def note_pending(self, exchange: Exchange, slug: str, native: str) -> None:
        """A call takes a while."""

    def habit(self, exchange: Exchange, slug: str, native: str) -> Habit:
        """How calls like this one are noted."""


class Errand(Term):
    """One exchange on its way to one server, and the answer on its way back."""

    __slots__ = (
        "_call",
        "_held",
        "_lease",
        "_native",
        "_params",
        "_profile",
        "_relay",
        "_seat",
        "_sent",
        "_waited",
        "delayed",
        "server",
        "under_way",
    )

    def __init__(
        self,
        relay: Office,
        exchange: Exchange,
        profile: Profile,
        server: Server,
        native: str,
        params: bytes,
    ) -> None:
        super().__init__(exchange, server.config.timeout_seconds, exchange.started)
        self.server = server
        self.delayed = False
        """Whether it had to wait for the server before it could be sent."""
        self.under_way = True
        """Whether the server is what everybody waits for."""
        self._relay = relay
        self._profile = profile
        self._native = native
        self._params = params
        """What the server was last asked with; before that, what the client sent."""
        self._lease: Connection | None = None
        self._seat: Seat | None = None
        """Where it has a connection to itself."""
        self._call: Call | None = None
        self._held: tuple[bytes, ...] = ()
        """What the server told while nobody was there to hear it."""
        self._sent = 0.0
        self._waited: float | None = None
        """How long the server took, all its rounds together."""

    def wait(self) -> None:
        """Set the clock; somebody else asks the server."""
        self.exchange.on_cancel = self._cancelled
        self._relay.deadlines.start(self)
        self.under_way = False

    def begin(self) -> None:
        """Set the clock, ask for a connection."""
        relay, exchange = self._relay, self.exchange
        exchange.on_cancel = self._cancelled
        relay.deadlines.start(self)
        scope = self.server.config.scope
        asks = exchange.caller.askable and exchange.method.may_need_input and scope != "shared"
        key = relay.leases.key(scope, exchange.caller)
        self.server.lease(key, self._met if asks else self._leased)
        self.delayed = self.delayed or not self.sent

    def take_over(self, run: Run) -> None:
        """Go on with a call that has been sent."""
        self._lease, self._call, self._sent = run.track.connection, run.call, run.started
        self.exchange.on_cancel = self._cancelled

    def overdue(self) -> None:
        """The server has had its time."""
        fault = lost(self.server.slug, Situation.TIMED_OUT, f"{self.seconds:g}s")
        self._stop(members.text(fault.message))
        self._finish(Failed(fault))

    def linger(self) -> None:
        """It takes a while: that is worth an event of its own."""
        self._relay.note_pending(self.exchange, self.server.slug, self._native)

    def _met(self, lease: Connection | str) -> None:
        """A server that keeps sessions gets one for this call alone: then it may ask."""
        peer = None if isinstance(lease, str) else lease.peer
        if self.exchange.ended or peer is None or peer.revision.era is Era.MODERN:
            self._leased(lease)
            return
        seat = self._relay.leases.seat(self.server, self.exchange.caller)
        if seat is None:  # Too many at a time: then it may not ask, but it may work.
            self._leased(lease)
            return
        self._seat = seat
        self.exchange.lease = seat.key.owner
        self.server.lease(seat.key, self._leased)

    def _leased(self, lease: Connection | str) -> None:
        if self.exchange.ended:
            return
        try:
            if isinstance(lease, str):
                self._finish(Failed(not_running(self.server.slug, lease)))
            else:
                self._forward(lease)
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self._relay.broke(self.exchange, error)

    def _forward(self, lease: Connection) -> None:
        peer, exchange = lease.peer, self.exchange
        if peer is None:
            reason = "it has not finished its handshake"
            self._finish(Failed(not_running(self.server.slug, reason)))
            return
        if peer.revision.era is Era.LEGACY and "requestState" in exchange.found:
            # Such a server never gave one, and what we gave in its place is not this.
            self._finish(Failed(invalid_params(LOST)))
            return
        self._lease = lease
        if self.delayed:
            self._waited = self._relay.clock() - exchange.started
        params = peer.back.params(self._params, exchange.found.get("_meta"), exchange.caller)
        if exchange.context:
            params = meta.restamp(params, exchange.context)
        self._ask(params)

    def _ask(self, params: bytes) -> None:
        """Put the request to the server; again, with answers, when it needed to know more."""
        exchange, lease = self.exchange, self._lease
        if lease is None:
            return
        self._params = params
        self._sent = self._relay.clock()
        call = lease.call(
            exchange.method.name,
            params,
            self.answered,
            None if exchange.progress_token is None else self.progressed,
            self._native,
            exchange.param_fields,
        )
        if isinstance(call, Lost):
            self.answered(call)
        elif not exchange.ended:
            self._call = call

    def answered(self, answer: Answer) -> None:
        """The server has answered, or will not."""
        self._waited = (self._waited or 0.0) + self._relay.clock() - self._sent
        try:
            ending = self._ending(answer)
            if isinstance(ending, Inquiry):
                inquire(self.exchange, ending, self._params, self._ask, self._finish)
            else:
                self.finish(ending)
        except members.Ambiguous:
            self.finish(self._misbehaved("answered with an object that names a member twice"))
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self._relay.broke(self.exchange, error)

    def _ending(self, answer: Answer) -> Ending | Inquiry:
        """A server's answer as the caller may get it."""
        method, slug = self.exchange.method, self.server.slug
        peer = None if self._lease is None else self._lease.peer
        match answer:
            case Result(result=result) if result[:1] == b"{" and peer is not None:
                shape = answer.shape if isinstance(answer, ShapedResult) else read_shape(result)
                if not method.may_need_input and asks_for_input(shape):
                    return self._misbehaved(f"asked for input, which {method.name} has no room for")
                ending = peer.back.ending(result, shape, self.exchange.caller, slug)
                return self._public(ending) if self._profile.catalog.public_uris else ending
            case Result():
                return self._misbehaved("answered with a result that is not an object")
            case Failure(error=error):
                context = self._profile.config.errors == "context"
                return Refused(from_server(error, slug) if context else error)
            case Lost(reason=reason, situation=situation):
                return Failed(lost(slug, situation, reason))

    def _public(self, ending: Ending | Inquiry) -> Ending | Inquiry:
        """Make the URIs in a result public, where a server's own are not unique."""
        if not isinstance(ending, Answered):
            return ending
        public = partial(self._profile.catalog.public_uri, self.server.slug)
        rewritten = rewrite_result(self.exchange.method.name, ending.result, public)
        return Answered(rewritten, ending.shape)

    def progressed(self, reports: Sequence[bytes]) -> None:
        """The server has told how far it has come."""
        if self.exchange.ended:
            self._held = (*self._held, *reports)[-HELD_REPORTS_MAX:]
            return
        self.extend(self._relay.clock())
        for params in reports:
            self.exchange.tell(self.exchange, Progress(params))

    # While nobody waits for it: see `parks`.

    @property
    def sent(self) -> bool:
        """Whether the server knows of it."""
        return self._call is not None

    def rest(self) -> None:
        """Nobody waits for it for a while: its time stands still."""
        self._relay.deadlines.clear(self.exchange)
        self.exchange.on_cancel = None

    def wake(self, exchange: Exchange) -> None:
        """Somebody waits for it again."""
        before, self.exchange = self.exchange, exchange
        exchange.trace_id, exchange.span_id = before.trace_id, before.span_id
        exchange.parent_span_id, exchange.started = before.parent_span_id, before.started
        exchange.name, exchange.lease = before.name, before.lease
        exchange.on_cancel = self._cancelled
        self.extend(self._relay.clock())
        self._relay.deadlines.start(self)
        held, self._held = self._held, ()
        self.progressed(held)

    def finish(self, ending: Ending) -> None:
        """It has ended; if nobody waits for that, it is kept for whoever comes back."""
        if not self._relay.parks.ended(self, ending):
            self._finish(ending)

    def abandon(self) -> None:
        """Nobody will come back: the server is told, and the record."""
        self._stop(None)
        self._relay.give_up(self.exchange, self.server.slug, self._native)

    def _cancelled(self, reason: bytes | None) -> None:
        """The client gave up: the server is told, and the record."""
        self._relay.parks.forget(self)
        self._stop(reason)
        self._relay.give_up(self.exchange, self.server.slug, self._native)

    def _stop(self, reason: bytes | None) -> None:
        # The call holds on to this errand: cut, or both wait for the garbage collector.
        call, self._call = self._call, None
        if self._lease is not None and call is not None:
            self._lease.cancel(call, reason)
        self._leave()

    def _leave(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            self._relay.leases.leave(self.server, self.exchange.caller, seat)

    def _finish(self, ending: Ending) -> None:
        self._call = None
        self._leave()
        if isinstance(ending, Answered) and self.exchange.method.name == CALL:
            self._remember()
        self._relay.finish(self.exchange, self.server.slug, self._native, ending, self._waited)

    def _remember(self) -> None:
        """The next call of that name may take the track that this one leaves."""
        exchange, lease = self.exchange, self._lease
        memory = exchange.caller.memory
        if exchange.context or lease is None or len(memory) >= TRACKS_MAX:
            return
        key = (exchange.name, exchange.progress_token is None)
        known: Track | None = memory.get(key)
        catalog = self._profile.catalog
        if known is not None and known.connection is lease and known.catalog is catalog:
            about = exchange.found.get("_meta")
            if known.about == (b"" if about is None else split_token(bytes(about))[0]):
                return
        habit = self._relay.habit(exchange, self.server.slug, self._native)
        way = Way(self._profile, self.server, self._native, lease)
        track = track_of(exchange, way, habit)
        if track is not None:
            memory[key] = track

    def _misbehaved(self, words: str) -> Failed:
        return Failed(lost(self.server.slug, Situation.MISBEHAVED, words))
