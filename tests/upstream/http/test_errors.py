"""What replies without an answer say of a server."""

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.http.connection import HttpFailure, HttpFailureKind
from anyport.upstream.http.errors import (
    WAIT_SECONDS_DEFAULT,
    answer_of_failure,
    answer_without_message,
    busy_answer,
    retry_after_of,
    stream_cut_off,
)
from anyport.upstream.pending_call import CallOutcome, NoAnswer, Retryable, RetryAfterFailure
from anyport.wire.jsonrpc import Result
from tests.upstream.http.fake_client import head

DATE = "Tue, 28 Jul 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("status", "fields", "seconds"),
    [
        (429, {}, WAIT_SECONDS_DEFAULT),
        (429, {"retry-after": "7"}, 7.0),
        (429, {"retry-after": "0"}, 0.0),
        (503, {"retry-after": "7"}, 7.0),
        (503, {}, None),
        (500, {"retry-after": "7"}, None),
        (200, {"retry-after": "7"}, None),
        (503, {"retry-after": "Tue, 28 Jul 2026 12:01:30 GMT", "date": DATE}, 90.0),
        (503, {"retry-after": "Tue, 28 Jul 2026 11:00:00 GMT", "date": DATE}, 0.0),
        (503, {"retry-after": "Tue, 28 Jul 2026 12:01:30 GMT"}, None),
        (429, {"retry-after": "soon", "date": DATE}, WAIT_SECONDS_DEFAULT),
        (429, {"retry-after": "٣"}, WAIT_SECONDS_DEFAULT),
        (429, {"retry-after": "-1"}, WAIT_SECONDS_DEFAULT),
        (503, {"retry-after": "9" * 400}, 999_999_999.0),
    ],
)
def test_a_server_may_say_when_it_wants_to_be_asked_again(
    status: int, fields: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_of(head(status, **fields)) == seconds


def test_it_is_told_in_its_own_words_if_it_has_any() -> None:
    own = b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"slow down"}}'

    assert busy_answer(head(429), own, 3.0) == RetryAfterFailure(
        b"1", b'{"code":-5,"message":"slow down"}', 3.0
    )
    for other in (b"", b"<html>", b"{", b'{"error":"slow down"}'):
        told = busy_answer(head(429), other, 3.0)
        assert isinstance(told, NoAnswer)
        assert (told.situation, told.outcome) == (Situation.BUSY, CallOutcome.GOOD)
        assert (told.reason, told.retry_after) == (
            "it answered with HTTP 429; ask again in 3 s",
            3.0,
        )


def test_a_result_is_the_answer_also_of_a_server_that_wants_to_be_asked_later() -> None:
    done = b'{"jsonrpc":"2.0","id":1,"result":{"n":1}}'

    assert busy_answer(head(503), done, 3.0) == Result(b"1", b'{"n":1}')


@pytest.mark.parametrize(
    ("status", "sign", "again"),
    [
        (200, CallOutcome.GOOD, Retryable.NEVER),
        (302, CallOutcome.GOOD, Retryable.NEVER),
        (400, CallOutcome.GOOD, Retryable.NEVER),
        (401, CallOutcome.GOOD, Retryable.NEVER),
        (404, CallOutcome.GOOD, Retryable.NEVER),
        (500, CallOutcome.BAD, Retryable.IF_SAFE),
        (501, CallOutcome.GOOD, Retryable.NEVER),
        (502, CallOutcome.BAD, Retryable.IF_SAFE),
        (503, CallOutcome.BAD, Retryable.IF_SAFE),
        (504, CallOutcome.BAD, Retryable.IF_SAFE),
        (505, CallOutcome.GOOD, Retryable.NEVER),
    ],
)
def test_only_what_is_not_about_the_request_speaks_against_the_server(
    status: int, sign: CallOutcome, again: Retryable
) -> None:
    told = answer_without_message(head(status))

    assert (told.outcome, told.retryable) == (sign, again)
    assert f"HTTP {status}" in told.reason


@pytest.mark.parametrize(
    ("kind", "sent", "sign", "again"),
    [
        (HttpFailureKind.CONNECT, False, CallOutcome.UNREACHABLE, Retryable.ALWAYS),
        (HttpFailureKind.TLS, False, CallOutcome.UNREACHABLE, Retryable.ALWAYS),
        (HttpFailureKind.CUT_OFF, True, CallOutcome.CONNECTION_LOST, Retryable.IF_SAFE),
        (HttpFailureKind.CUT_OFF, False, CallOutcome.CONNECTION_LOST, Retryable.ALWAYS),
        (HttpFailureKind.TIMEOUT, True, CallOutcome.BAD, Retryable.NEVER),
        (HttpFailureKind.TOO_LARGE, True, CallOutcome.GOOD, Retryable.NEVER),
        (HttpFailureKind.MALFORMED, True, CallOutcome.BAD, Retryable.IF_SAFE),
    ],
)
def test_what_kept_a_reply_from_coming_tells_what_may_be_done(
    kind: HttpFailureKind, sent: bool, sign: CallOutcome, again: Retryable
) -> None:
    told = answer_of_failure(HttpFailure(kind, "no luck", sent=sent))

    assert (told.outcome, told.retryable) == (sign, again)
    assert "no luck" in told.reason


def test_a_stream_that_ends_before_the_answer_was_cut_off() -> None:
    told = stream_cut_off(None)

    assert (told.outcome, told.retryable) == (CallOutcome.CONNECTION_LOST, Retryable.IF_SAFE)
    assert (
        stream_cut_off(HttpFailure(HttpFailureKind.CUT_OFF, "cut")).reason
        == "failed to answer: cut"
    )
