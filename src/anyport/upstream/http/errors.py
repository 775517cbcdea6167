"""What an HTTP response without an answer means for its call, and what it means if none came.

A server that says when to call again has not failed, nor has one that blames the request.
"""

from datetime import datetime
from http import HTTPStatus
from typing import Final

from anyport.protocol.errors import Situation
from anyport.upstream.http.connection import HttpFailure, HttpFailureKind
from anyport.upstream.http.headers import describe_bad_response
from anyport.upstream.pending_call import CallOutcome, NoAnswer, Retryable, RetryAfterFailure
from anyport.wire import jsonrpc
from anyport.wire.http1 import ResponseHead
from anyport.wire.jsonrpc import Failure, Result

WAIT_SECONDS_DEFAULT: Final = 1.0
"""For a 429 without `Retry-After`."""

UNREACHABLE_KINDS: Final = frozenset({HttpFailureKind.CONNECT, HttpFailureKind.TLS})
_REQUEST_AT_FAULT: Final = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
"""Statuses from 500 on that blame the request."""


def retry_after_of(response: ResponseHead) -> float | None:
    """Seconds until the server wants to be called again, if it says so."""
    seconds = _retry_after(response)
    if response.status == HTTPStatus.TOO_MANY_REQUESTS:
        return WAIT_SECONDS_DEFAULT if seconds is None else seconds
    return seconds if response.status == HTTPStatus.SERVICE_UNAVAILABLE else None


def busy_answer(
    response: ResponseHead, body: bytes, seconds: float
) -> RetryAfterFailure | Result | NoAnswer:
    """The outcome of a call that got a `Retry-After`, with the server's own error if there is one.

    A result counts all the same: the server has carried the call out.
    """
    # Mostly the sender is a proxy, with an error format of its own.
    is_message = body[:1] == b"{" and b'"jsonrpc"' in body
    frame = jsonrpc.decode(body, jsonrpc.OUTBOUND) if is_message else None
    if isinstance(frame, Failure):
        return RetryAfterFailure(frame.id, frame.error, seconds)
    if isinstance(frame, Result):
        return frame
    reason = f"it answered with HTTP {response.status}; ask again in {seconds:.0f} s"
    return NoAnswer(reason, Situation.BUSY, CallOutcome.GOOD, retry_after=seconds)


def answer_without_message(response: ResponseHead) -> NoAnswer:
    """The outcome of a call whose response has no message."""
    reason = describe_bad_response(response)
    if response.status < HTTPStatus.INTERNAL_SERVER_ERROR or response.status in _REQUEST_AT_FAULT:
        return NoAnswer(reason, Situation.MISBEHAVED, CallOutcome.GOOD)
    return NoAnswer(reason, Situation.MISBEHAVED, CallOutcome.BAD, Retryable.IF_SAFE)


def stream_cut_off(failure: HttpFailure | None) -> NoAnswer:
    """The outcome of a call whose stream ended before the answer."""
    if failure is not None:
        return answer_of_failure(failure)
    reason = "closed its stream before it had answered"
    return NoAnswer(reason, Situation.MISBEHAVED, CallOutcome.CONNECTION_LOST, Retryable.IF_SAFE)


def answer_of_failure(failure: HttpFailure) -> NoAnswer:
    """The outcome of a call without a response."""
    if failure.kind in UNREACHABLE_KINDS:
        timed_out = failure.timeout is not None
        situation = Situation.TIMED_OUT if timed_out else Situation.NOT_RUNNING
        outcome_and_retry = (CallOutcome.UNREACHABLE, Retryable.ALWAYS)
        return NoAnswer(failure.reason, situation, *outcome_and_retry, timeout=failure.timeout)
    if failure.kind is HttpFailureKind.NO_MEMORY:
        return NoAnswer(failure.reason, Situation.OVERLOADED, CallOutcome.GOOD)
    outcome = {
        HttpFailureKind.CUT_OFF: CallOutcome.CONNECTION_LOST,
        HttpFailureKind.TOO_LARGE: CallOutcome.GOOD,
    }
    retryable = Retryable.IF_SAFE if failure.sent else Retryable.ALWAYS
    if failure.kind is HttpFailureKind.TOO_LARGE:
        retryable = Retryable.NEVER
    reason = f"failed to answer: {failure.reason}"
    if failure.kind is HttpFailureKind.TIMEOUT:
        return NoAnswer(reason, Situation.TIMED_OUT, CallOutcome.BAD, timeout=failure.timeout)
    return NoAnswer(
        reason, Situation.MISBEHAVED, outcome.get(failure.kind, CallOutcome.BAD), retryable
    )


def _retry_after(response: ResponseHead) -> float | None:
    """In seconds. A date is compared with the server's own clock."""
    value = response.get("retry-after")
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    then, now = _parse_date(value), _parse_date(response.get("date") or "")
    if then is None or now is None:
        return None
    return max(0.0, (then - now).total_seconds())


def _parse_date(text: str) -> datetime | None:
    try:
        return datetime.strptime(text.replace("GMT", "+0000"), "%a, %d %b %Y %H:%M:%S %z")
    except ValueError:
        return None
