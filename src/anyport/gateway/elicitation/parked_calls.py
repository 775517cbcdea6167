"""Parked calls: how a legacy server asks a modern client.

A legacy server asks while it works; a modern client is asked by answering it that input is
required. So the server's call stays open, parked, and the client gets a `requestState` to come
back with. When it comes back with that, for the same call, it brings the answers to the server's
own questions.
"""

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from anyport.clock import Clock
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.elicitation.request_state import (
    INVALID_STATE,
    answer_questions,
    call_fingerprint,
    input_responses,
)
from anyport.protocol.adapters.upgrade import (
    embed_question_params,
    encode_input_request,
    encode_input_required,
)
from anyport.protocol.errors import USER_REJECTED, Timeout, invalid_params
from anyport.protocol.exchange import Answered, Ending, Exchange, Failed, Log, Question
from anyport.protocol.principal import Principal
from anyport.protocol.sealing import Seal
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import INTERNAL_ERROR, Failure, Result

if TYPE_CHECKING:
    from anyport.gateway.calls.call import Call

QUESTIONS_BATCH_SECONDS: Final = 0.03
"""How long questions are collected: a server that asks several things asks them within this time,
and the client is asked once."""
PARKED_SECONDS_MAX: Final = 570.0
"""How long a client may take to come back; a server's question expires a little later."""
PARKED_CALLS_MAX: Final = 256
"""Parked calls in all; see `ParkedCalls._eviction_candidate`."""
PARKED_CALLS_OF_PRINCIPAL_MAX: Final = 64
"""Parked calls of one principal; its servers cannot ask in further ones."""
BUFFERED_LOGS_MAX: Final = 64
"""Log messages that are kept for a parked call; the last count."""

SEAL_KIND: Final = "park"
PARKED_ID_BYTES: Final = 16
"""Random bytes in the id of a parked call: 128 bits cannot be guessed."""


class Parking:
    """What a call needs to be parked and resumed: questions, id, buffered logs."""

    __slots__ = (
        "ending",
        "fingerprint",
        "id",
        "is_ask_scheduled",
        "logs",
        "question_count",
        "questions",
    )

    def __init__(self, exchange: Exchange) -> None:
        self.id = ""
        """What the client comes back with; empty while it waits for the answer."""
        self.fingerprint = call_fingerprint(exchange)
        self.questions: dict[str, Question] = {}
        self.question_count = 0
        self.is_ask_scheduled = False
        self.ending: Ending | None = None
        """Set if the call ends while the client is away."""
        self.logs: tuple[Log, ...] = ()
        """What the server logs meanwhile."""

    @property
    def open_questions(self) -> dict[str, Question]:
        """The questions that were neither answered nor withdrawn."""
        return {key: question for key, question in self.questions.items() if question.open}

    def buffer_log(self, log: Log) -> None:
        """Keep a log message until the client is back."""
        self.logs = (*self.logs, log)[-BUFFERED_LOGS_MAX:]


class ParkedCalls:
    """Parks calls, and takes clients back to them. The table of calls holds which are parked."""

    def __init__(self, calls: CallTable, seal: Seal, clock: Clock) -> None:
        self._calls = calls
        self._seal = seal
        self._clock = clock
        self.on_timeout: Callable[[Timeout], None] = lambda _: None
        """Called when a client has not come back in time."""

    def is_full(self, principal: Principal) -> bool:
        """Whether no more calls of a principal can be parked."""
        counts = self._count_by_principal()
        if counts[principal] >= PARKED_CALLS_OF_PRINCIPAL_MAX:
            return True
        is_room = len(self._calls.questioned) < PARKED_CALLS_MAX
        return not is_room and self._eviction_candidate(principal) is None

    def _count_by_principal(self) -> Counter[Principal]:
        return Counter(call.exchange.caller.principal for call in self._calls.questioned)

    def _eviction_candidate(self, principal: Principal) -> "Call | None":
        """The parked call that is given up for a new one when there is no room: the oldest of the
        principal that has most, if that is more than this principal will have."""
        counts = self._count_by_principal()
        candidates = [
            call
            for call in self._calls.parked.values()
            if _parking(call).ending is None
            and counts[call.exchange.caller.principal] > counts[principal] + 1
        ]
        return max(
            candidates, key=lambda call: counts[call.exchange.caller.principal], default=None
        )

    def add_question(self, call: "Call", question: Question) -> None:
        """A legacy server asks something in the middle of a call."""
        parking = call.parking
        if parking is None:
            parking = Parking(call.exchange)
            if len(self._calls.questioned) >= PARKED_CALLS_MAX:
                evicted = self._eviction_candidate(call.exchange.caller.principal)
                if evicted is not None:
                    self._expire(_parking(evicted).id)
            call.parking = parking
            self._calls.add_questioned(call)
        parking.question_count += 1
        parking.questions[f"q{parking.question_count}"] = question
        if not parking.is_ask_scheduled and not parking.id:
            parking.is_ask_scheduled = True
            self._clock.later(QUESTIONS_BATCH_SECONDS, partial(self._ask_client, call, parking))

    def forget(self, call: "Call") -> None:
        """A call has ended."""
        parking, call.parking = call.parking, None
        self._calls.forget(call, "" if parking is None else parking.id)

    def stop(self) -> None:
        """The gateway stops: no client can come back any more."""
        for id in list(self._calls.parked):
            self._expire(id)

    def resume(self, exchange: Exchange) -> bool:
        """Take a client back to its parked call; False if it has none to come back to."""
        raw = exchange.param_members.get("requestState")
        state = raw_json.decode_string(raw)
        claims = None if state is None else self._seal.open(SEAL_KIND, state)
        if claims is None:
            return False
        call = self._calls.parked.get(claims.decode())
        if call is None or _parking(call).fingerprint != call_fingerprint(exchange):
            exchange.end(Failed(invalid_params(INVALID_STATE)))
        else:
            self._continue(call, _parking(call), exchange)
        return True

    def _ask_client(self, call: "Call", parking: Parking) -> None:
        """Park the call, and answer its client with all open questions."""
        parking.is_ask_scheduled = False
        questions = parking.open_questions
        if call.parking is not parking or call.exchange.ended or not questions:
            return
        parking.id = os.urandom(PARKED_ID_BYTES).hex()
        self._calls.park(parking.id, call)
        self._clock.later(PARKED_SECONDS_MAX, partial(self._on_timeout, parking.id))
        exchange = call.park()
        state = self._seal.seal(SEAL_KIND, parking.id.encode())
        entries = [(key, input_request_of(question)) for key, question in questions.items()]
        exchange.end(Answered(encode_input_required(entries, raw_json.encode_string(state))))

    def _continue(self, call: "Call", parking: Parking, exchange: Exchange) -> None:
        # Once only: a client that comes with the same state again comes too late.
        self._calls.unpark(parking.id)
        parking.id = ""
        log_level = call.exchange.caller.log_level
        call.resume(exchange)
        logs, parking.logs = parking.logs, ()
        if exchange.caller.log_level == log_level:
            for log in logs:
                exchange.emit(log)
        if parking.ending is not None:
            call.finish(parking.ending)
            return
        answer_questions(input_responses(exchange) or {}, parking.open_questions)
        if parking.open_questions and not exchange.ended:
            self._ask_client(call, parking)

    def _on_timeout(self, id: str) -> None:
        if id in self._calls.parked:
            self.on_timeout(Timeout.ANSWER)
            self._expire(id)

    def _expire(self, id: str) -> None:
        """Give a call up whose client has not come back, and answer the server in its place."""
        call = self._calls.parked.get(id)
        if call is None:
            return
        questions = _parking(call).open_questions
        self._calls.forget(call, id)
        for question in questions.values():
            question.answer(_refusal_of_absent_client(question.method))
        call.abandon()


def _parking(call: "Call") -> Parking:
    if call.parking is None:
        raise RuntimeError("a call that has not been asked anything cannot be parked")
    return call.parking


def input_request_of(question: Question) -> bytes:
    """A question as one of `inputRequests`."""
    return encode_input_request(
        question.method, embed_question_params(question.method, question.params)
    )


def _refusal_of_absent_client(method: str) -> Result | Failure:
    if method == "elicitation/create":
        return Result(b"", b'{"action":"cancel"}')
    code = USER_REJECTED if method == "sampling/createMessage" else INTERNAL_ERROR
    return Failure(None, jsonrpc.encode_error(code, "The client has not come back with an answer"))
