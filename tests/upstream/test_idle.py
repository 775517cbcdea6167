"""Since when a connection is unused, told from looks at it."""

import pytest

from anyport.upstream.idle import LOOK_SECONDS_MAX, Glimpse, Idleness
from anyport.upstream.key import SHARED, LeaseKey

OWN = LeaseKey(owner="session")


def quiet(uses: int = 0) -> Glimpse:
    return Glimpse(uses=uses, busy=False)


BUSY = Glimpse(uses=0, busy=True)


def test_what_nobody_uses_is_closed_when_its_time_is_over_and_not_before() -> None:
    idleness = Idleness(10.0)
    idleness.began(SHARED, 0, 100.0)

    assert idleness.look({SHARED: quiet()}, 109.9) == []
    assert idleness.look({SHARED: quiet()}, 110.0) == [SHARED]


def test_a_use_between_two_looks_is_seen_by_the_count_of_requests() -> None:
    idleness = Idleness(10.0)
    idleness.began(SHARED, 3, 100.0)

    assert idleness.look({SHARED: quiet(4)}, 108.0) == []
    assert idleness.look({SHARED: quiet(4)}, 117.9) == []
    assert idleness.look({SHARED: quiet(4)}, 118.0) == [SHARED]


def test_what_is_in_use_is_never_closed_and_its_time_begins_when_that_is_over() -> None:
    idleness = Idleness(10.0)
    idleness.began(SHARED, 0, 100.0)

    assert idleness.look({SHARED: BUSY}, 1000.0) == []
    assert idleness.look({SHARED: quiet()}, 1009.0) == []
    assert idleness.look({SHARED: quiet()}, 1010.0) == [SHARED]


def test_what_was_never_seen_before_begins_with_the_first_look() -> None:
    idleness = Idleness(10.0)

    assert idleness.look({SHARED: quiet()}, 5.0) == []
    assert idleness.look({SHARED: quiet()}, 15.0) == [SHARED]


def test_the_first_connection_stays_as_long_as_any_other() -> None:
    idleness = Idleness(10.0)
    for key in (SHARED, OWN):
        idleness.began(key, 0, 0.0)

    assert idleness.look({SHARED: quiet(), OWN: BUSY}, 20.0) == []
    # Both have been unused for long: there is no need to wait for the first once more.
    assert idleness.look({SHARED: quiet(), OWN: quiet()}, 30.0) == [SHARED, OWN]


def test_another_connection_goes_while_the_first_is_in_use() -> None:
    idleness = Idleness(10.0)
    for key in (SHARED, OWN):
        idleness.began(key, 0, 0.0)

    assert idleness.look({SHARED: BUSY, OWN: quiet()}, 20.0) == [OWN]


def test_what_was_used_lately_is_worth_having() -> None:
    idleness = Idleness(10.0)
    assert (idleness.has_seen(OWN), idleness.is_recent(OWN, 0.0)) == (False, False)

    idleness.began(OWN, 0, 5.0)

    assert idleness.has_seen(OWN)
    assert idleness.is_recent(OWN, 14.9)
    assert not idleness.is_recent(OWN, 15.0)
    idleness.forget(OWN)
    assert not idleness.has_seen(OWN)


@pytest.mark.parametrize(
    ("idle_seconds", "look_seconds"), [(0.0, None), (2.0, 0.5), (3600.0, LOOK_SECONDS_MAX)]
)
def test_looks_are_as_rare_as_they_may_be(idle_seconds: float, look_seconds: float | None) -> None:
    assert Idleness(idle_seconds).look_seconds == look_seconds
