"""A modern server that needs to know more, and a legacy client that can be asked.

What the server lists in `inputRequests` becomes real questions to the client; when all are
answered the request is made again, with the answers and the server's state as it came.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from anyport.gateway.questions import refusal_of
from anyport.protocol.back import Inquiry
from anyport.protocol.errors import Fault, Situation, error_code
from anyport.protocol.exchange import Exchange, Failed, NeedInput, Question
from anyport.wire import members
from anyport.wire.frame import Failure, Request, Result

ROUNDS_MAX: Final = 10
"""How often a server may ask before it answers; the official SDKs stop here too."""

USER_REJECTED: Final = -1
"""The code clients use when the person said no."""


def inquire(
    exchange: Exchange,
    inquiry: Inquiry,
    params: bytes,
    retry: Callable[[bytes], None],
    fail: Callable[[Failed], None],
) -> None:
    """Put every question to the client, then retry with the answers or fail."""
    exchange.rounds += 1
    if exchange.rounds > ROUNDS_MAX:
        fail(_failed(f"The server asked more than {ROUNDS_MAX} times without answering"))
        return
    answers: dict[str, bytes] = {}

    def answered(key: str, method: str, frame: Result | Failure) -> None:
        answer = _answer(method, frame)
        if answer is None:
            fail(_failed(f"The client did not answer {method}, which the server needs"))
            return
        answers[key] = answer
        if len(answers) == len(inquiry.requests) and not exchange.ended:
            retry(_with_answers(params, answers, inquiry.state))

    if not inquiry.requests:
        retry(_with_answers(params, {}, inquiry.state))
        return
    for method, asked in inquiry.requests.values():
        refusal = refusal_of(Request(b"0", method, asked), exchange.caller.capabilities)
        if refusal is not None:
            fail(_failed(f"The server asked for {method}, which the client does not offer"))
            return
    for key, (method, asked) in inquiry.requests.items():
        if exchange.ended:
            return
        question = Question(method, asked, partial(answered, key, method))
        exchange.tell(exchange, NeedInput(question))


def _answer(method: str, frame: Result | Failure) -> bytes | None:
    """A client's answer as `inputResponses` can hold it; None where there is no way to say no."""
    if isinstance(frame, Result):
        return frame.result
    if method != "elicitation/create":
        return None
    rejected = error_code(frame.error) == USER_REJECTED
    return b'{"action":"decline"}' if rejected else b'{"action":"cancel"}'


def _with_answers(params: bytes, answers: dict[str, bytes], state: bytes | None) -> bytes:
    return members.edit(
        params, {"inputResponses": members.join(answers.items()), "requestState": state}
    )


def _failed(words: str) -> Failed:
    return Failed(Fault(situation=Situation.MISBEHAVED, message=words))
