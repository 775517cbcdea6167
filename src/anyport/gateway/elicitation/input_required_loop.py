"""The `input_required` loop: how a modern server asks the client of a session.

What the server lists in `inputRequests` becomes real requests to the client. When all are answered,
the call is sent again, with the answers and the server's state as it came. A client that has agreed
to open an address is not asked about it again while the server waits for it to be opened.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from anyport.gateway.calls.answers import check_question_urls, misbehaviour
from anyport.gateway.elicitation.request_state import (
    ASKED_TOO_OFTEN,
    ROUNDS_MAX,
    STATE_BYTES_MAX,
    STATE_TOO_LARGE,
)
from anyport.gateway.elicitation.server_requests import refusal_of
from anyport.protocol.adapters.downgrade import downgrade_question_params, explain_inexpressible
from anyport.protocol.adapters.elicitation import is_url_elicitation
from anyport.protocol.adapters.server import InputRequiredResult
from anyport.protocol.errors import USER_REJECTED, error_code
from anyport.protocol.exchange import Failed, NeedInput, Question
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure, Request, Result

if TYPE_CHECKING:
    from anyport.gateway.calls.call import Call

REPEAT_SECONDS: Final = 0.05
REPEAT_SECONDS_MAX: Final = 10.0
"""The back-off before a request that the server only wants to be sent again, and its limit."""
REPEATS_MAX: Final = 64
"""How often a server may want that: about ten minutes."""

ELICIT: Final = "elicitation/create"
_ACCEPTED: Final = b'{"action":"accept"}'


class InputRequiredLoop:
    """The rounds of one call: the server asks, the client answers, the request is sent again."""

    def __init__(self, call: "Call") -> None:
        self._call = call
        self._repeat_count = 0
        self._agreed_urls: set[tuple[str, bytes | None]] = set()
        """URLs that the client has agreed to open."""

    def ask(self, input_required: InputRequiredResult, params: bytes) -> None:
        """Put every question to the client, then retry with the answers or fail."""
        call, exchange = self._call, self._call.exchange
        new = {
            key: q
            for key, q in input_required.requests.items()
            if (key, q[1]) not in self._agreed_urls
        }
        refusal = self._refusal(input_required, asks=bool(new))
        if refusal is not None:
            call.finish(refusal)
            return
        answers = dict.fromkeys(input_required.requests.keys() - new.keys(), _ACCEPTED)
        if not new:
            self._repeat_count += 1
            delay = min(REPEAT_SECONDS * 2.0**self._repeat_count, REPEAT_SECONDS_MAX)
            call.later(delay, partial(self._send_answers, params, answers, input_required.state))
            return

        def on_answer(key: str, frame: Result | Failure) -> None:
            method, question_params = input_required.requests[key]
            answer = input_response_of(method, frame)
            if answer is None:
                reason = f"needs an answer to {method}, which the client did not give"
                call.finish(misbehaviour(call.server.slug, reason))
                return
            answers[key] = answer
            if _is_accepted_url(method, question_params, answer):
                self._agreed_urls.add((key, question_params))
            if len(answers) == len(input_required.requests):
                self._send_answers(params, answers, input_required.state)

        for key, (method, question_params) in new.items():
            if exchange.ended:
                return
            exchange.emit(NeedInput(Question(method, question_params, partial(on_answer, key))))

    def on_answered(self) -> None:
        """The server has answered: tell a legacy client that its URL elicitations are complete."""
        caller = self._call.exchange.caller
        for _, question_params in self._agreed_urls if caller.session is not None else ():
            question = downgrade_question_params(ELICIT, question_params or b"{}", caller.revision)
            id = None if question is None else raw_json.members(question).get("elicitationId")
            if caller.session is not None and id is not None:
                params = raw_json.encode_object([("elicitationId", bytes(id))])
                caller.session.notify("notifications/elicitation/complete", params)

    def _refusal(self, input_required: InputRequiredResult, *, asks: bool) -> Failed | None:
        """Why the client cannot be asked; None if it can."""
        exchange, slug = self._call.exchange, self._call.server.slug
        exchange.input_rounds += asks
        if exchange.input_rounds > ROUNDS_MAX or self._repeat_count >= REPEATS_MAX:
            return misbehaviour(slug, ASKED_TOO_OFTEN)
        if input_required.state is not None and len(input_required.state) > STATE_BYTES_MAX:
            return misbehaviour(slug, STATE_TOO_LARGE)
        for method, question_params in input_required.requests.values():
            if (
                refusal_of(Request(b"0", method, question_params), exchange.caller.capabilities)
                is not None
            ):
                return misbehaviour(slug, f"asked for {method}, which the client does not offer")
            # There is no way to tell such a server that its question cannot be expressed.
            revision = exchange.caller.revision
            if (
                question_params is not None
                and downgrade_question_params(method, question_params, revision) is None
            ):
                reason = explain_inexpressible(method, revision)
                return misbehaviour(slug, f"asked what the client cannot be asked. {reason}")
        return check_question_urls(input_required, self._call.server)

    def _send_answers(self, params: bytes, answers: dict[str, bytes], state: bytes | None) -> None:
        if self._call.exchange.ended:
            return
        responses = raw_json.encode_object(answers.items()) if answers else None
        changes = {"inputResponses": responses, "requestState": state}
        self._call.send_request(raw_json.edit(params, changes))


def input_response_of(method: str, frame: Result | Failure) -> bytes | None:
    """A client's answer for `inputResponses`; None where that has no form for an error."""
    if isinstance(frame, Result):
        return frame.result
    if method != ELICIT:
        return None
    rejected = error_code(frame.error) == USER_REJECTED
    return b'{"action":"decline"}' if rejected else b'{"action":"cancel"}'


def _is_accepted_url(method: str, question_params: bytes | None, answer: bytes) -> bool:
    """Whether a person has agreed to open a URL."""
    if not is_url_elicitation(method, question_params) or answer[:1] != b"{":
        return False
    return raw_json.decode_string(raw_json.members(answer).get("action")) == "accept"
