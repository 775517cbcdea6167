"""One exchange on its way to one server: the question out, the answer back, in their eras' words.

Decides nothing about where it goes: the relay has decided that, and is told how it ended.
"""

from collections.abc import Callable, Sequence
from functools import partial

from anyport.gateway.approach import Approach
from anyport.gateway.attempts import Attempts
from anyport.gateway.endings import misbehaved, unready
from anyport.gateway.laying import Way, remember
from anyport.gateway.leases import Seat
from anyport.gateway.office import Office
from anyport.gateway.profile import Profile
from anyport.gateway.resting import Resting
from anyport.gateway.rounds import Rounds
from anyport.gateway.track import Run
from anyport.gateway.turn import Turn, turn_of
from anyport.gateway.witness import asked_before, counted, spoken
from anyport.protocol import meta
from anyport.protocol.back import Inquiry
from anyport.protocol.errors import Fault, Situation, lost, timed_out
from anyport.protocol.exchange import (
    Answered,
    Ending,
    Exchange,
    Failed,
    NeedInput,
    Question,
)
from anyport.protocol.reading import CALL
from anyport.protocol.revision import Era
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Answer, Call, Concern, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.level import raise_level
from anyport.upstream.server import Server
from anyport.upstream.shelf import Reading
from anyport.wire import members
from anyport.wire.frame import Result


class Errand(Resting):
    """One exchange on its way to one server, and the answer on its way back."""

    __slots__ = (
        "_attempts",
        "_given",
        "_lease",
        "_params",
        "_profile",
        "_reading",
        "_rounds",
        "_seat",
        "_sent",
        "_turn",
        "_waited",
        "call",
        "delayed",
        "native",
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
        super().__init__(relay, exchange, server)
        self.delayed = False
        """Whether it had to wait for the server before it could be sent."""
        self.under_way = True
        """Whether the server is what everybody waits for."""
        if exchange.passage is not None:
            exchange.passage.server, exchange.passage.native = server.slug, native
        self._profile = profile
        self.native = native
        self._given: bytes | None = params
        """What the client sent; None where that has not been worked out."""
        self._params = params
        """What the server was last asked with; before that, what the client sent."""
        self._attempts = Attempts()
        self._lease: Connection | None = None
        self._seat: Seat | None = None
        """Where it has a connection to itself."""
        self.call: Call | None = None
        self._reading: Reading | None = None
        """What may be answered from what the server has said before, or kept for others."""
        self._rounds: Rounds | None = None
        self._turn: Turn | None = None
        """Set if the call may become a task."""
        self._sent = 0.0
        self._waited: float | None = None
        """How long the server took, all its rounds together."""

    def wait(self) -> None:
        """Set the clock; somebody else asks the server."""
        self.exchange.on_cancel = self.cancelled
        self._relay.deadlines.lend(self)
        self.under_way = False

    def begin(self) -> None:
        """Set the clock, ask for a connection."""
        relay, exchange = self._relay, self.exchange
        fault = self._attempts.admit(self.server)
        if fault is not None:
            self._finish(Failed(fault))
            return
        exchange.on_cancel = self.cancelled
        relay.deadlines.start(self)
        Approach(self, relay.leases).begin()
        self.delayed = self.delayed or not self.sent

    def take_over(self, run: Run) -> None:
        """Go on with a call that has been sent."""
        self._lease, self.call, self._sent = run.track.connection, run.call, run.started
        self._given = None
        spoken(self.exchange, self.server, self._lease)
        asked_before(self.exchange, self._params, run.started)
        turn = turn_of(self._relay.tasks, self, self._profile, self._lease, self.native)
        if isinstance(turn, Turn):
            self._turn = turn
            turn.params(self._params)
        self.exchange.on_cancel = self.cancelled

    def overdue(self, timeout: Timeout) -> None:
        """Its time is over; if it was the server's, that speaks against it."""
        self._relay.deadlines.on_timeout(timeout)
        fault = timed_out(self.server.slug, timeout, f"{self.allowed(timeout):g}s")
        lease, call, its_own = self._lease, self.call, timeout in (Timeout.TOTAL, Timeout.CAP)
        if its_own and lease is not None and call is not None and lease.waits_for(call):
            self._attempts.overdue(fault.message, self._sent, self.server)
        self._count(None)
        self._stop(members.text(fault.message))
        self._finish(Failed(fault))

    def look(self, now: float) -> Timeout | None:
        """A call that waits for a place with its server has a time of its own for that."""
        lease, call = self._lease, self.call
        if lease is not None and call is not None and lease.look(call, now):
            self._relay.deadlines.on_timeout(Timeout.QUEUE)
        return None if self.exchange.ended else super().look(now)

    def linger(self) -> None:
        """It takes a while: that is worth an event of its own."""
        self._relay.note_pending(self.exchange, self.server.slug, self.native)

    def take_seat(self, seat: Seat) -> None:
        """A connection is its own until it leaves."""
        self._seat = seat

    def refuse(self, reason: str) -> None:
        """There is no room for it."""
        self._finish(Failed(lost(self.server.slug, Situation.BUSY, reason)))

    def leased(self, lease: Connection | str) -> None:
        """It has a connection, or there is none for the reason given."""
        if self.exchange.ended:
            return
        try:
            if isinstance(lease, str):
                if not self._attempts.waits(self, self._relay.retries):
                    self._finish(Failed(unready(self.server, lease)))
            else:
                self._forward(lease)
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self._relay.broke(self.exchange, error)

    def _forward(self, lease: Connection) -> None:
        peer, exchange = lease.peer, self.exchange
        if peer is None:
            self._finish(Failed(unready(self.server, "it has not finished its handshake")))
            return
        era = peer.revision.era
        params = self._relay.states.unbind(exchange, self._params, self.server.slug, era)
        if isinstance(params, Fault):
            self._finish(Failed(params))
            return
        self._lease = lease
        spoken(exchange, self.server, lease)
        if self.delayed:
            self._waited = self._relay.clock() - exchange.started
            if exchange.passage is not None:
                exchange.passage.queued = self._waited
        params = peer.back.params(params, exchange.found.get("_meta"), exchange.caller)
        if exchange.context:
            params = meta.restamp(params, exchange.context)
        if exchange.method.name == CALL:
            turn = turn_of(self._relay.tasks, self, self._profile, lease, self.native)
            if isinstance(turn, Fault):
                self._finish(Failed(turn))
                return
            if turn is not None:
                self._turn = turn
                params = turn.params(params)
        level = exchange.caller.log_level
        if level is not None and era is Era.LEGACY:
            # A session's server logs as it was last told; this request has its own wish.
            raise_level(lease, level, partial(self._go, params, era))
        else:
            self._go(params, era)

    def _go(self, params: bytes, era: Era) -> None:
        if not self.exchange.ended and not self._said_before(params, era):
            self.ask(params)

    def _said_before(self, params: bytes, era: Era) -> bool:
        """Answer a read with what the server has said, if it allows that; see `shelf`."""
        exchange, shelf = self.exchange, self.server.shelf
        # Only a modern server says so; and it serves all over one connection, as one of many.
        if exchange.method.name != "resources/read" or era is Era.LEGACY:
            return False
        who = exchange.caller.principal
        reading = shelf.reading(self.server.slug, self.native, params, who)
        said = None if reading is None else shelf.find(reading, self._relay.clock())
        if said is None:
            self._reading = reading
            return False
        exchange.reused = True
        self._sent = self._relay.clock()
        self.answered(said)
        return True

    def ask(self, params: bytes) -> None:
        """Put the request to the server; again, with answers, when it needed to know more."""
        exchange, lease = self.exchange, self._lease
        if lease is None:
            return
        self._params = params
        self._sent = self._relay.clock()
        if exchange.passage is not None:
            sent = params if exchange.progress_token is None else lease.stamped(params)
            exchange.passage.asks(exchange.method.name, sent)
        call = lease.call(
            exchange.method.name,
            params,
            self.heard,
            None if exchange.progress_token is None else self.progressed,
            Concern(self.native, exchange.param_fields, exchange.share or exchange.teller),
        )
        if isinstance(call, Lost):
            self.heard(call)
        elif not exchange.ended:
            self.call = call

    def heard(self, answer: Answer) -> None:
        """The server has answered, or will not; then it may be asked once more."""
        try:
            repeats = self._attempts.hear(answer, self._sent, self, self._relay.retries)
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self._relay.broke(self.exchange, error)
            return
        if repeats:
            self._count(answer)
            self.call = None
        else:
            self.answered(answer)

    def repeat(self) -> None:
        """Ask for a connection, then the server, as if for the first time."""
        self._leave()
        self._lease = self._turn = None
        self.exchange.lease = ""
        if self._given is None:
            self._given = members.edit(self.exchange.params, {"name": members.text(self.native)})
        self._params = self._given
        Approach(self, self._relay.leases).begin()

    def answered(self, answer: Answer) -> None:
        """The server has answered, or will not."""
        self._count(answer)
        try:
            if self._turn is not None and self._turn.take(answer):
                self._sent = self._relay.clock()
                return
            # What came after questions depends on the answers, and is for nobody else.
            if self._reading is not None and self._rounds is None and isinstance(answer, Result):
                self.server.shelf.keep(self._reading, answer.result, self._relay.clock())
            peer = None if self._lease is None else self._lease.peer
            asked = (self.exchange, self._profile, self.server)
            ending = self._relay.endings.of(answer, peer, *asked)
            if isinstance(ending, Inquiry):
                self.extend(self._relay.clock())  # It may wait for somebody, and asks to wait.
                if self._rounds is None:
                    self._rounds = Rounds(self)
                self._rounds.inquire(ending, self._params)
            else:
                self.finish(ending if self._turn is None else self._turn.minted(ending))
        except members.Ambiguous:
            words = "answered with an object that names a member twice"
            self.finish(misbehaved(self.server.slug, words))
        except Exception as error:  # noqa: BLE001 - others wait for the same server
            self._relay.broke(self.exchange, error)

    def _count(self, answer: Answer | None) -> None:
        """The server has answered, or is given up while it works: either was its time."""
        if answer is not None or self.call is not None:
            took = counted(self.exchange, self.call, answer, self._sent, self._relay.clock())
            self._waited = (self._waited or 0.0) + took

    def conclude(self, answer: Answer) -> None:
        """What has come of the task that the call had become."""
        self._turn = None
        self.answered(answer)

    def keep_seat(self) -> Callable[[], None] | None:
        """Leave the connection to a task, if it is its own; what is returned gives it back."""
        seat, self._seat = self._seat, None
        leave = partial(self._relay.leases.leave, self.server, self.exchange.caller)
        return None if seat is None else partial(leave, seat)

    def put(self, question: Question) -> None:
        """Put a question of the task that it has become to its client."""
        if self.exchange.caller.session is not None:
            self.exchange.happen(NeedInput(question))
        elif self._relay.parks.full(self.exchange.caller.principal):
            question.abandon()
        else:
            self._relay.parks.ask(self, question)

    def hear(self, report: Callable[[Sequence[bytes]], None]) -> Callable[[], object] | None:
        """Go on hearing how far it has come; what is returned ends that."""
        call, lease = self.call, self._lease
        if call is None or lease is None or call.on_progress is None:
            return None
        call.on_progress = report
        return lease.hear(call)

    def fail(self, ending: Failed) -> None:
        """It cannot be answered, because the client was not or could not be asked."""
        self._finish(ending)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after a while."""
        self._relay.later(seconds, act)

    # While nobody waits for it: see `parks`.

    @property
    def sent(self) -> bool:
        """Whether the server knows of it."""
        return self.call is not None

    def wake(self, exchange: Exchange) -> None:
        """Somebody waits for it again."""
        self._attempts.committed = True
        super().wake(exchange)

    def finish(self, ending: Ending) -> None:
        """It has ended; if nobody waits for that, it is kept for whoever comes back."""
        if not self._relay.parks.ended(self, ending):
            self._finish(ending)

    def abandon(self) -> None:
        """Nobody will come back: the server is told, and the record."""
        self._stop(None)
        self._relay.give_up(self.exchange, self.server.slug, self.native)

    def cancelled(self, reason: bytes | None) -> None:
        """The client gave up: the server is told, and the record."""
        self._relay.parks.forget(self)
        self._count(None)
        self._stop(reason)
        self._relay.give_up(self.exchange, self.server.slug, self.native)

    def _stop(self, reason: bytes | None) -> None:
        call, self.call = self.call, None
        if self._lease is not None and call is not None:
            self._lease.cancel(call, reason)
        if self._turn is not None:
            self._turn.stop()
        self.put_away()

    def put_away(self) -> None:
        """Leave what it held to others."""
        self.call = None  # It holds on to this errand: both would wait for the garbage collector.
        self._attempts.end(self.server)
        self._leave()

    def _leave(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            self._relay.leases.leave(self.server, self.exchange.caller, seat)

    def _finish(self, ending: Ending) -> None:
        self._relay.parks.forget(self)
        self.put_away()
        if self._rounds is not None and isinstance(ending, Answered):
            self._rounds.done()
        called = isinstance(ending, Answered) and self.exchange.method.name == CALL
        if called and self._lease is not None and not (self._turn and self._turn.alters):
            way = Way(self._profile, self.server, self.native, self._lease)
            remember(self.exchange, way, self._relay.habit)
        self._relay.finish(self.exchange, self.server.slug, self.native, ending, self._waited)
