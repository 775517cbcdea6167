"""The account of a run: who may fail, who may not, and what grows."""

import random

import pytest

from tests.rig.fault_accounting import GOOD, Call, FaultAccount, Samples, slope


def call(server: str, began: float, ended: float, outcome: str = GOOD, **more: bool) -> Call:
    return Call(server=server, client="modern", began=began, ended=ended, outcome=outcome, **more)


def test_only_a_server_that_is_hit_may_fail_a_call() -> None:
    account = FaultAccount()
    hit = account.hit("a", 10.0)
    account.note(call("a", 9.0, 11.0, "gone"))
    account.note(call("b", 9.0, 11.0, "gone"))
    hit.ended = 12.0
    account.note(call("a", 11.5, 13.0, "gone"))
    account.note(call("a", 12.5, 13.0, "gone"))

    assert account.excused == {"gone": 2}
    assert account.violation_count == 2
    assert [words.split()[2] for words in account.violations] == ["b", "a"]


def test_the_answer_of_another_call_is_never_excused() -> None:
    account = FaultAccount()
    account.hit("a", 0.0)
    account.note(call("a", 1.0, 2.0, crossed=True))

    assert (account.good, account.violation_count) == (0, 1)


def test_only_calls_to_servers_that_were_not_hit_are_timed() -> None:
    account = FaultAccount()
    hit = account.hit("a", 0.0)
    account.note(call("a", 1.0, 9.0))
    hit.ended = 10.0
    account.note(call("a", 11.0, 11.5))
    account.note(call("b", 1.0, 1.25))

    assert account.good == 3
    assert [taken for _, taken in account.seconds] == [0.5, 0.25]
    assert account.percentile(0.99) == 0.5


def test_a_line_is_found_and_noise_is_none() -> None:
    draw = random.Random(1)
    times = [float(second) for second in range(1200)]
    rising = slope(times, [5.0 + at / 3600 + draw.gauss(0, 0.01) for at in times])
    level = slope(times, [5.0 + draw.gauss(0, 1.0) for _ in times])

    assert rising.per_hour == pytest.approx(1.0, abs=3 * rising.error)
    assert rising.error < 0.05
    assert abs(level.per_hour) < 4 * level.error


def test_what_wanders_is_less_sure_than_what_jumps_about() -> None:
    draw = random.Random(2)
    times = [float(second) for second in range(1200)]
    value, wandering = 0.0, []
    for _ in times:
        value = 0.99 * value + draw.gauss(0, 1.0)
        wandering.append(value)
    shuffled = draw.sample(wandering, len(wandering))

    assert slope(times, wandering).error > 3 * slope(times, shuffled).error


def test_what_was_before_can_be_left_out() -> None:
    samples = Samples()
    for second in range(100):
        samples.add(second, size=min(second, 50))

    assert samples.slope("size").per_hour > 1000
    assert samples.slope("size", share=0.5).per_hour == 0


def test_two_points_make_no_line() -> None:
    assert str(slope([0.0, 1.0], [0.0, 1.0])) == "+nan ± nan"
