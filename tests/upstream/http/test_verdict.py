"""What replies without an answer say of a server."""

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.call import Lost
from anyport.upstream.http.line import Trouble, TroubleKind
from anyport.upstream.http.verdict import (
    WAIT_SECONDS_DEFAULT,
    cut_off,
    lost,
    not_now,
    unanswered,
    wait_of,
)
from anyport.upstream.sign import Again, Postponed, Sign
from tests.upstream.http.asked import head

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
    assert wait_of(head(status, **fields)) == seconds


def test_it_is_told_in_its_own_words_if_it_has_any() -> None:
    own = b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"slow down"}}'

    assert not_now(head(429), own, 3.0) == Postponed(
        b"1", b'{"code":-5,"message":"slow down"}', 3.0
    )
    for other in (b"", b"<html>", b"{", b'{"error":"slow down"}'):
        told = not_now(head(429), other, 3.0)
        assert isinstance(told, Lost)
        assert (told.situation, told.sign) == (Situation.BUSY, Sign.GOOD)
        assert (told.reason, told.retry_after) == (
            "it answered with HTTP 429; ask again in 3 s",
            3.0,
        )


@pytest.mark.parametrize(
    ("status", "sign", "again"),
    [
        (200, Sign.GOOD, Again.NEVER),
        (302, Sign.GOOD, Again.NEVER),
        (400, Sign.GOOD, Again.NEVER),
        (401, Sign.GOOD, Again.NEVER),
        (404, Sign.GOOD, Again.NEVER),
        (500, Sign.BAD, Again.IF_SAFE),
        (501, Sign.GOOD, Again.NEVER),
        (502, Sign.BAD, Again.IF_SAFE),
        (503, Sign.BAD, Again.IF_SAFE),
        (504, Sign.BAD, Again.IF_SAFE),
        (505, Sign.GOOD, Again.NEVER),
    ],
)
def test_only_what_is_not_about_the_request_speaks_against_the_server(
    status: int, sign: Sign, again: Again
) -> None:
    told = unanswered(head(status))

    assert (told.sign, told.again) == (sign, again)
    assert f"HTTP {status}" in told.reason


@pytest.mark.parametrize(
    ("kind", "sent", "sign", "again"),
    [
        (TroubleKind.CONNECT, False, Sign.UNREACHED, Again.ALWAYS),
        (TroubleKind.TLS, False, Sign.UNREACHED, Again.ALWAYS),
        (TroubleKind.CUT, True, Sign.ACCIDENT, Again.IF_SAFE),
        (TroubleKind.CUT, False, Sign.ACCIDENT, Again.ALWAYS),
        (TroubleKind.TIMEOUT, True, Sign.BAD, Again.NEVER),
        (TroubleKind.TOO_LARGE, True, Sign.GOOD, Again.NEVER),
        (TroubleKind.MALFORMED, True, Sign.BAD, Again.IF_SAFE),
    ],
)
def test_what_kept_a_reply_from_coming_tells_what_may_be_done(
    kind: TroubleKind, sent: bool, sign: Sign, again: Again
) -> None:
    told = lost(Trouble(kind, "no luck", sent=sent))

    assert (told.sign, told.again) == (sign, again)
    assert "no luck" in told.reason


def test_a_stream_that_ends_before_the_answer_was_cut_off() -> None:
    told = cut_off(None)

    assert (told.sign, told.again) == (Sign.ACCIDENT, Again.IF_SAFE)
    assert cut_off(Trouble(TroubleKind.CUT, "cut")).reason == "failed to answer: cut"
