import json
from pathlib import Path

import pytest

from anyport.record.wall_clock import (
    CLOCK_FILE,
    DOUBT_SECONDS,
    JUMP_SECONDS,
    SAVE_SECONDS,
    UNUSED_SECONDS_MAX,
    ClockMonitor,
    expiry_time,
)
from tests.record.story import NOON, ManualClock

YEAR = 365 * 86400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_clock_that_runs_well_is_trusted(clock: ManualClock, tmp_path: Path) -> None:
    monitor = ClockMonitor(tmp_path, clock)
    for _ in range(3):
        clock.seconds += 10
        clock.jump(JUMP_SECONDS / 10)  # Pulled right, a little at a time.
        assert monitor.check_jump() is None
    assert not monitor.is_doubtful


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 3600.0, -3600.0, JUMP_SECONDS])
def test_a_jump_is_told_once_and_the_clock_doubted_for_a_while(
    clock: ManualClock, tmp_path: Path, jump: float
) -> None:
    monitor = ClockMonitor(tmp_path, clock)
    monitor.check_jump()
    clock.jump(jump)
    assert monitor.check_jump() == jump
    assert monitor.check_jump() is None
    assert monitor.is_doubtful
    clock.seconds += DOUBT_SECONDS
    assert not monitor.is_doubtful


def test_who_comes_after_a_jump_knows_of_it(clock: ManualClock, tmp_path: Path) -> None:
    monitor = ClockMonitor(tmp_path, clock)
    monitor.check_jump()
    clock.jump(YEAR)
    monitor.check_jump()
    clock.seconds += 60
    other = ClockMonitor(tmp_path, clock)
    assert other.check_jump() is None
    assert other.is_doubtful


@pytest.mark.parametrize("jump", [UNUSED_SECONDS_MAX + 1, YEAR, -60.0])
def test_a_jump_between_two_lives_is_not_missed(
    clock: ManualClock, tmp_path: Path, jump: float
) -> None:
    ClockMonitor(tmp_path, clock).check_jump()
    clock.jump(jump)
    other = ClockMonitor(tmp_path, clock)
    assert other.check_jump() is None  # Nobody knows whether it was one.
    assert other.is_doubtful


def test_a_day_without_use_is_nothing_strange(clock: ManualClock, tmp_path: Path) -> None:
    ClockMonitor(tmp_path, clock).check_jump()
    clock.seconds += 86400
    other = ClockMonitor(tmp_path, clock)
    other.check_jump()
    assert not other.is_doubtful


def test_the_file_is_written_now_and_then(clock: ManualClock, tmp_path: Path) -> None:
    monitor = ClockMonitor(tmp_path, clock)
    monitor.check_jump()
    clock.seconds += SAVE_SECONDS - 1
    monitor.check_jump()
    assert json.loads((tmp_path / CLOCK_FILE).read_bytes()) == {"seen": NOON, "doubted": None}
    clock.seconds += 1
    monitor.check_jump()
    assert json.loads((tmp_path / CLOCK_FILE).read_bytes())["seen"] == NOON + SAVE_SECONDS


@pytest.mark.parametrize("content", [b"", b"[]", b'{"seen":"now"}', b"\xff"])
def test_a_file_that_makes_no_sense_is_written_anew(
    clock: ManualClock, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / CLOCK_FILE).write_bytes(content)
    monitor = ClockMonitor(tmp_path, clock)
    assert monitor.check_jump() is None
    assert not monitor.is_doubtful
    assert json.loads((tmp_path / CLOCK_FILE).read_bytes())["seen"] == NOON


def test_where_no_file_can_be_written_a_jump_is_known_all_the_same(
    clock: ManualClock, tmp_path: Path
) -> None:
    (tmp_path / "state").write_bytes(b"in the way")
    monitor = ClockMonitor(tmp_path / "state", clock)
    monitor.check_jump()
    clock.jump(YEAR)
    assert monitor.check_jump() == YEAR
    assert monitor.is_doubtful


def test_nothing_is_too_old_by_a_clock_that_is_doubted(clock: ManualClock, tmp_path: Path) -> None:
    assert expiry_time(tmp_path, NOON) == NOON  # Nobody knows better.
    monitor = ClockMonitor(tmp_path, clock)
    monitor.check_jump()
    assert expiry_time(tmp_path, NOON + 60) == NOON + 60
    assert expiry_time(tmp_path, NOON + YEAR) == expiry_time(tmp_path, NOON - YEAR) == 0.0
    clock.jump(YEAR)
    monitor.check_jump()
    assert expiry_time(tmp_path, NOON + YEAR + 60) == 0.0
    assert expiry_time(tmp_path, NOON + YEAR + DOUBT_SECONDS) > 0.0
