"""Cache hints of results."""

import json

import pytest
from msgspec import Raw

from anyport.protocol.cache_hints import (
    STALE,
    Freshness,
    least_fresh,
    missing_hints,
    read_freshness,
    with_placeholder_hints,
)
from anyport.protocol.result import ABSENT, GATEWAY_SHAPE, read_shape


def test_valid_cache_hints_are_read() -> None:
    assert read_freshness(Raw(b"300000"), Raw(b'"public"')) == Freshness(300_000, public=True)
    assert read_freshness(Raw(b"1"), Raw(b'"private"')) == Freshness(1, public=False)


@pytest.mark.parametrize("ttl", [b"", b"-1", b"1.5", b'"9"', b"null", b"1e9", b"9" * 16, b"[1]"])
def test_a_time_that_makes_no_sense_is_none(ttl: bytes) -> None:
    assert read_freshness(Raw(ttl) if ttl else ABSENT, Raw(b'"public"')).ttl_ms == 0


@pytest.mark.parametrize("scope", [b"", b'"shared"', b'"Public"', b"true", b"null"])
def test_an_unknown_cache_scope_is_private(scope: bytes) -> None:
    assert not read_freshness(Raw(b"9"), Raw(scope) if scope else ABSENT).public


def test_of_many_answers_in_one_only_that_is_allowed_which_each_allows() -> None:
    assert least_fresh([Freshness(5, True), Freshness(3, True)]) == Freshness(3, True)
    assert least_fresh([Freshness(5, False), Freshness(9, True)]) == Freshness(5, False)
    assert least_fresh([]) == STALE


def test_time_goes_by_and_never_below_nothing() -> None:
    fresh = Freshness(5000, public=True)

    assert fresh.remaining_after(0.0) == fresh
    assert fresh.remaining_after(1.2345) == Freshness(3765, public=True)
    assert (
        fresh.remaining_after(5.0)
        == fresh.remaining_after(float("inf"))
        == Freshness(0, public=True)
    )


def test_a_result_is_stamped_and_stamped_again() -> None:
    bare = b'{"tools":[],"n":1.0}'
    first, second = Freshness(12, public=True), Freshness(7)

    stamped = first.stamp(bare)
    again = second.restamp(stamped, first)

    assert json.loads(stamped) == {**json.loads(bare), "ttlMs": 12, "cacheScope": "public"}
    assert json.loads(again) == {**json.loads(bare), "ttlMs": 7, "cacheScope": "private"}
    assert first.restamp(again, second) == stamped
    assert stamped.endswith(bare[1:])


@pytest.mark.parametrize(
    ("original", "repair"),
    [
        (b"{}", {"ttlMs": b"0", "cacheScope": b'"private"'}),
        (b'{"ttlMs":-1,"cacheScope":"public"}', {"ttlMs": b"0"}),
        (b'{"ttlMs":5,"cacheScope":"everybody"}', {"cacheScope": b'"private"'}),
        (b'{"ttlMs":5,"cacheScope":"private"}', {}),
    ],
)
def test_hints_that_are_missing_or_make_no_sense_are_made_safe(
    original: bytes, repair: dict[str, bytes]
) -> None:
    assert missing_hints(read_shape(original)) == repair


def test_a_shape_can_say_that_hints_will_be_there() -> None:
    assert len(with_placeholder_hints(GATEWAY_SHAPE).ttl)
    assert len(with_placeholder_hints(GATEWAY_SHAPE).scope)
    assert GATEWAY_SHAPE.ttl is ABSENT
