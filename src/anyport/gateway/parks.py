"""Calls of modern clients that wait, on a legacy server, for the client to come back with answers.

A legacy server asks while it works; a modern client is asked by answering it that input is
required. So the server's call stays open, parked, and the client gets a state to come back with.
Whoever comes back with it, for the same call, brings the answers to the server's own questions.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from anyport.gateway.responses import bring, responses_of
from anyport.gateway.states import INVALID, mark
from anyport.protocol.errors import invalid_params
from anyport.protocol.exchange import Answered, Ending, Exchange, Failed, Log, Question
from anyport.protocol.principal import Principal
from anyport.protocol.seal import Seal
from anyport.protocol.timeouts import Timeout
from anyport.protocol.upgrade import embedded, input_request, input_required
from anyport.wire import codec, members
from anyport.wire.frame import INTERNAL_ERROR, Failure, Result

GATHER_SECONDS: Final = 0.03
"""A server that asks several things asks them within this time; the client is asked once."""
PARK_SECONDS_MAX: Final = 570.0
"""How long a client may take to come back; a server's question is given up a little later."""
PARKS_MAX: Final = 256
PARKS_OF_ONE_MAX: Final = 64
"""Parked calls of all clients, and of one principal's."""
HELD_LOGS_MAX: Final = 64
"""Of what a server logs for a parked call while its client fetches an answer; the last count."""

KIND: Final = "park"
ID_BYTES: Final = 16
"""Of chance in what names a park: nobody guesses 128 bits."""


class Waiting(Protocol):
    """A call that a server works on, as a park sees it."""

    exchange: Exchange

    def rest(self) -> None:
        """Nobody waits for it for a while: its time stands still."""

    def wake(self, exchange: Exchange) -> None:
        """Somebody waits for it again."""

    def finish(self, ending: Ending) -> None:
        """It has ended."""

    def abandon(self) -> None:
        """Nobody will come back: tell the server, and the record."""


class Park:
    """One call, and what it waits for."""

    __slots__ = (
        "asked",
        "ending",
        "id",
        "logs",
        "mark",
        "principal",
        "questions",
        "shown",
        "waiting",
    )

    def __init__(self, waiting: Waiting) -> None:
        exchange = waiting.exchange
        self.id = ""
        """Under which it can be come back to; empty while somebody waits for its answer."""
        self.waiting = waiting
        self.principal = exchange.caller.principal
        self.mark = mark(exchange)
        self.questions: dict[str, Question] = {}
        self.asked = 0
        self.shown = False
        """Whether its client is about to be asked."""
        self.ending: Ending | None = None
        """How it ended while nobody waited for it."""
        self.logs: tuple[Log, ...] = ()
        """What its server logged meanwhile."""

    @property
    def open(self) -> dict[str, Question]:
        """What has not been answered, nor withdrawn."""
        return {key: question for key, question in self.questions.items() if question.open}

    def log(self, log: Log) -> None:
        """Keep what the server logs for it until somebody is there to hear it."""
        self.logs = (*self.logs, log)[-HELD_LOGS_MAX:]


class Parks:
    """All parked calls."""

    def __init__(self, seal: Seal, later: Callable[[float, Callable[[], None]], object]) -> None:
        self._seal = seal
        self._later = later
        self._parks: dict[str, Park] = {}
        self._of: dict[Waiting, Park] = {}
        self.on_late: Callable[[Timeout], None] = lambda _: None
        """Told that a client has not come back in time."""

    def __len__(self) -> int:
        return len(self._parks)

    def full(self, principal: Principal) -> bool:
        """Whether no more calls of this principal's can wait."""
        if len(self._of) >= PARKS_MAX:
            return True
        return sum(park.principal == principal for park in self._of.values()) >= PARKS_OF_ONE_MAX

    def find(self, owner: str) -> Waiting | None:
        """The call that uses this connection, if it is one that has asked."""
        found = (waiting for waiting in self._of if waiting.exchange.lease == owner)
        return next(found, None) if owner else None

    def away(self, owner: str) -> Park | None:
        """The call that uses this connection, if its client has gone to fetch an answer."""
        waiting = self.find(owner)
        park = None if waiting is None else self._of[waiting]
        return park if park is not None and park.id else None

    def ask(self, waiting: Waiting, question: Question) -> None:
        """A server asks something in the middle of a call."""
        park = self._of.get(waiting)
        if park is None:
            park = self._of[waiting] = Park(waiting)
        park.asked += 1
        park.questions[f"q{park.asked}"] = question
        if not park.shown and not park.id:
            park.shown = True
            self._later(GATHER_SECONDS, partial(self._show, park))

    def ended(self, waiting: Waiting, ending: Ending) -> bool:
        """A call has ended; True if nobody waits for that now, but may come back for it."""
        park = self._of.get(waiting)
        if park is None:
            return False
        if not park.id:
            del self._of[waiting]
            return False
        park.ending = ending
        return True

    def forget(self, waiting: Waiting) -> None:
        """A call is given up."""
        park = self._of.pop(waiting, None)
        if park is not None:
            self._parks.pop(park.id, None)

    def stop(self) -> None:
        """The gateway stops: nobody can come back any more."""
        for id, park in list(self._parks.items()):
            self._expire(park, id)

    def come_back(self, exchange: Exchange) -> bool:
        """Take a client back to its call; False if it has not been here."""
        raw = exchange.found.get("requestState")
        state = members.string(raw)
        claims = None if state is None else self._seal.open(KIND, state)
        if claims is None:
            return False
        park = self._parks.get(claims.decode())
        if park is None or park.mark != mark(exchange):
            exchange.end(Failed(invalid_params(INVALID)))
        else:
            self._go_on(park, exchange)
        return True

    def _show(self, park: Park) -> None:
        """Ask the client everything that is open."""
        park.shown = False
        waiting, questions = park.waiting, park.open
        if park.ending is not None or self._of.get(waiting) is not park:
            return
        if waiting.exchange.ended or not questions:
            return
        park.id = os.urandom(ID_BYTES).hex()
        self._parks[park.id] = park
        self._later(PARK_SECONDS_MAX, partial(self._late, park, park.id))
        waiting.rest()
        state = self._seal.seal(KIND, park.id.encode())
        entries = [(key, entry_of(question)) for key, question in questions.items()]
        waiting.exchange.end(Answered(input_required(entries, members.text(state))))

    def _go_on(self, park: Park, exchange: Exchange) -> None:
        # Once only: who comes with the same state again comes too late.
        del self._parks[park.id]
        park.id = ""
        before = park.waiting.exchange
        park.waiting.wake(exchange)
        logs, park.logs = park.logs, ()
        if exchange.caller.log_level == before.caller.log_level:
            for log in logs:
                exchange.happen(log)
        if park.ending is not None:
            del self._of[park.waiting]
            park.waiting.finish(park.ending)
            return
        bring(responses_of(exchange) or {}, park.open)
        if park.open and not exchange.ended:
            self._show(park)

    def _late(self, park: Park, id: str) -> None:
        if id in self._parks:
            self.on_late(Timeout.ANSWER)
            self._expire(park, id)

    def _expire(self, park: Park, id: str) -> None:
        """The client has not come back: the server is told what a person would say who left."""
        if self._parks.pop(id, None) is None:
            return
        self._of.pop(park.waiting, None)
        for question in park.open.values():
            question.answer(_no_answer(question.method))
        park.waiting.abandon()


def entry_of(question: Question) -> bytes:
    """A question as one of `inputRequests`."""
    return input_request(question.method, embedded(question.method, question.params))


def _no_answer(method: str) -> Result | Failure:
    if method == "elicitation/create":
        return Result(b"", b'{"action":"cancel"}')
    code = -1 if method == "sampling/createMessage" else INTERNAL_ERROR
    return Failure(None, codec.error(code, "The client has not come back with an answer"))
