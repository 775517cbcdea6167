"""A modern server that needs to know more, and a legacy client that can be asked.

What the server lists in `inputRequests` becomes real questions to the client; when all are
answered the request is made again, with the answers and the server's state as it came. An address
that somebody agreed to open is not asked about again while the server waits for it to be opened.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from anyport.gateway.endings import unfit_inquiry
from anyport.gateway.questions import refusal_of
from anyport.gateway.states import ROUNDS_MAX, STATE_BYTES_MAX, TOO_LARGE, TOO_OFTEN
from anyport.protocol.back import Inquiry
from anyport.protocol.downgrade_question import inexpressible, question_for
from anyport.protocol.errors import Fault, Situation, error_code
from anyport.protocol.exchange import Exchange, Failed, NeedInput, Question
from anyport.protocol.openable import wants_address
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Failure, Request, Result

AGAIN_SECONDS: Final = 0.05
AGAIN_SECONDS_MAX: Final = 10.0
"""Between two requests of which the server only wants to be asked again; each takes twice as
long as the one before."""
WAITS_MAX: Final = 64
"""How often it may want that: about ten minutes."""

USER_REJECTED: Final = -1
"""The code clients use when the person said no."""

ELICIT: Final = "elicitation/create"
_ACCEPTED: Final = b'{"action":"accept"}'


class Means(Protocol):
    """The errand, as its rounds see it."""

    exchange: Exchange
    server: Server

    def ask(self, params: bytes) -> None:
        """Put the request to the server, with answers."""

    def fail(self, ending: Failed) -> None:
        """It cannot be answered."""

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after a while."""


class Rounds:
    """All the times that a server asks before it answers one exchange."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._waits = 0
        self._opened: set[tuple[str, bytes | None]] = set()
        """Addresses that the client has agreed to open."""

    def inquire(self, inquiry: Inquiry, params: bytes) -> None:
        """Put every question to the client, then retry with the answers or fail."""
        means, exchange = self._means, self._means.exchange
        new = {key: q for key, q in inquiry.requests.items() if (key, q[1]) not in self._opened}
        refusal = self._refusal(inquiry, asks=bool(new))
        if refusal is not None:
            means.fail(refusal)
            return
        answers = dict.fromkeys(inquiry.requests.keys() - new.keys(), _ACCEPTED)
        if not new:
            self._waits += 1
            delay = min(AGAIN_SECONDS * 2.0**self._waits, AGAIN_SECONDS_MAX)
            means.later(delay, partial(self._again, params, answers, inquiry.state))
            return

        def answered(key: str, frame: Result | Failure) -> None:
            method, asked = inquiry.requests[key]
            answer = answer_of(method, frame)
            if answer is None:
                words = f"The client did not answer {method}, which the server needs"
                means.fail(_failed(words))
                return
            answers[key] = answer
            if _is_agreed(method, asked, answer):
                self._opened.add((key, asked))
            if len(answers) == len(inquiry.requests):
                self._again(params, answers, inquiry.state)

        for key, (method, asked) in new.items():
            if exchange.ended:
                return
            exchange.happen(NeedInput(Question(method, asked, partial(answered, key))))

    def done(self) -> None:
        """The server has answered: what was to be opened first has been, and clients are told."""
        caller = self._means.exchange.caller
        for _, asked in self._opened if caller.session is not None else ():
            told = question_for(ELICIT, asked or b"{}", caller.revision)
            id = None if told is None else members.members(told).get("elicitationId")
            if caller.session is not None and id is not None:
                params = members.join([("elicitationId", bytes(id))])
                caller.session.notify("notifications/elicitation/complete", params)

    def _refusal(self, inquiry: Inquiry, *, asks: bool) -> Failed | None:
        """Why the client is not asked."""
        exchange = self._means.exchange
        exchange.rounds += asks
        if exchange.rounds > ROUNDS_MAX or self._waits >= WAITS_MAX:
            return _failed(f"The server {TOO_OFTEN}")
        if inquiry.state is not None and len(inquiry.state) > STATE_BYTES_MAX:
            return _failed(f"The server {TOO_LARGE}")
        for method, asked in inquiry.requests.values():
            if refusal_of(Request(b"0", method, asked), exchange.caller.capabilities) is not None:
                return _failed(f"The server asked for {method}, which the client does not offer")
            # There is no way to tell such a server that its question has no words.
            revision = exchange.caller.revision
            if asked is not None and question_for(method, asked, revision) is None:
                return _failed(inexpressible(method, revision))
        return unfit_inquiry(inquiry, self._means.server)

    def _again(self, params: bytes, answers: dict[str, bytes], state: bytes | None) -> None:
        if self._means.exchange.ended:
            return
        responses = members.join(answers.items()) if answers else None
        changes = {"inputResponses": responses, "requestState": state}
        self._means.ask(members.edit(params, changes))


def answer_of(method: str, frame: Result | Failure) -> bytes | None:
    """A client's answer as `inputResponses` can hold it; None where there is no way to say no."""
    if isinstance(frame, Result):
        return frame.result
    if method != ELICIT:
        return None
    rejected = error_code(frame.error) == USER_REJECTED
    return b'{"action":"decline"}' if rejected else b'{"action":"cancel"}'


def _is_agreed(method: str, asked: bytes | None, answer: bytes) -> bool:
    """Whether somebody has agreed to open an address."""
    if not wants_address(method, asked) or answer[:1] != b"{":
        return False
    return members.string(members.members(answer).get("action")) == "accept"


def _failed(words: str) -> Failed:
    return Failed(Fault(situation=Situation.MISBEHAVED, message=words))
