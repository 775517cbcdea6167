"""How long an answer may be used again, and by whom."""

import json

import pytest
from msgspec import Raw

from anyport.protocol.freshness import STALE, Freshness, hinted, least, read_freshness, repaired
from anyport.protocol.shape import ABSENT, OWN, read_shape


def test_what_a_server_says_is_taken_at_its_word() -> None:
    assert read_freshness(Raw(b"300000"), Raw(b'"public"')) == Freshness(300_000, public=True)
    assert read_freshness(Raw(b"1"), Raw(b'"private"')) == Freshness(1, public=False)


@pytest.mark.parametrize("ttl", [b"", b"-1", b"1.5", b'"9"', b"null", b"1e9", b"9" * 16, b"[1]"])
def test_a_time_that_makes_no_sense_is_none(ttl: bytes) -> None:
    assert read_freshness(Raw(ttl) if ttl else ABSENT, Raw(b'"public"')).ttl_ms == 0


@pytest.mark.parametrize("scope", [b"", b'"shared"', b'"Public"', b"true", b"null"])
def test_who_is_not_said_to_be_everybody_is_the_one_who_asked(scope: bytes) -> None:
    assert not read_freshness(Raw(b"9"), Raw(scope) if scope else ABSENT).public


def test_of_many_answers_in_one_only_that_is_allowed_which_each_allows() -> None:
    assert least([Freshness(5, True), Freshness(3, True)]) == Freshness(3, True)
    assert least([Freshness(5, False), Freshness(9, True)]) == Freshness(5, False)
    assert least([]) == STALE


def test_time_goes_by_and_never_below_nothing() -> None:
    fresh = Freshness(5000, public=True)

    assert fresh.after(0.0) == fresh
    assert fresh.after(1.2345) == Freshness(3765, public=True)
    assert fresh.after(5.0) == fresh.after(float("inf")) == Freshness(0, public=True)


def test_a_result_is_stamped_and_stamped_again() -> None:
    bare = b'{"tools":[],"n":1.0}'
    first, second = Freshness(12, public=True), Freshness(7)

    stamped = first.stamped(bare)
    again = second.restamped(stamped, first)

    assert json.loads(stamped) == {**json.loads(bare), "ttlMs": 12, "cacheScope": "public"}
    assert json.loads(again) == {**json.loads(bare), "ttlMs": 7, "cacheScope": "private"}
    assert first.restamped(again, second) == stamped
    assert stamped.endswith(bare[1:])


@pytest.mark.parametrize(
    ("said", "repair"),
    [
        (b"{}", {"ttlMs": b"0", "cacheScope": b'"private"'}),
        (b'{"ttlMs":-1,"cacheScope":"public"}', {"ttlMs": b"0"}),
        (b'{"ttlMs":5,"cacheScope":"everybody"}', {"cacheScope": b'"private"'}),
        (b'{"ttlMs":5,"cacheScope":"private"}', {}),
    ],
)
def test_hints_that_are_missing_or_make_no_sense_are_made_safe(
    said: bytes, repair: dict[str, bytes]
) -> None:
    assert repaired(read_shape(said)) == repair


def test_a_shape_can_say_that_hints_will_be_there() -> None:
    assert len(hinted(OWN).ttl)
    assert len(hinted(OWN).scope)
    assert OWN.ttl is ABSENT
