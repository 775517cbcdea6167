"""When a server is started again."""

from anyport.upstream.backoff import (
    AFTER_HEALTH_SECONDS_MAX,
    DELAY_SECONDS_MAX,
    HEALTHY_SECONDS,
    JITTER,
    Backoff,
)


def test_each_failure_waits_longer_up_to_a_minute() -> None:
    backoff = Backoff()

    delays = [backoff.delay(None, 0.0) for _ in range(8)]

    assert delays == [1, 1, 3, 9, 27, 60, 60, 60]


def test_chance_takes_off_a_fifth_at_most() -> None:
    assert Backoff(9).delay(None, 1.0) == DELAY_SECONDS_MAX * (1 - JITTER)


def test_a_server_that_worked_and_died_is_started_again_at_once() -> None:
    assert Backoff().delay(0.5, 1.0) <= AFTER_HEALTH_SECONDS_MAX


def test_a_server_that_dies_again_soon_after_it_came_back_has_to_wait() -> None:
    backoff = Backoff()
    backoff.delay(5.0, 1.0)

    assert backoff.delay(5.0, 0.0) == 1
    assert backoff.delay(5.0, 0.0) == 3


def test_a_minute_of_health_wipes_out_what_went_wrong_before() -> None:
    backoff = Backoff(7)

    assert backoff.delay(HEALTHY_SECONDS, 1.0) <= AFTER_HEALTH_SECONDS_MAX
    assert backoff.delay(None, 0.0) == 1


def test_a_server_that_is_down_for_months_is_still_tried_every_minute() -> None:
    assert Backoff(1_000_000).delay(None, 0.0) == DELAY_SECONDS_MAX
