import json
import time
from pathlib import Path

import pytest

from anyport.record.timekeeping import (
    AWAY_SECONDS,
    DOUBT_SECONDS,
    FILE,
    JUMP_SECONDS,
    SEEN_SECONDS,
    Steady,
    Timekeeping,
    prudent,
    running,
)
from tests.record.story import NOON

YEAR = 365 * 86400.0


class Clocks:
    """The one on the wall, and the one that only runs."""

    def __init__(self) -> None:
        self.wall = NOON
        self.runs = 1000.0

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.runs += seconds

    def timekeeping(self, path: Path) -> Timekeeping:
        return Timekeeping(path, lambda: self.wall, lambda: self.runs)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_the_clock_that_runs_does_not_depend_on_the_time_of_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = running()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= running() - before < 60


def test_steady_time_begins_with_the_wall_and_never_jumps(clocks: Clocks) -> None:
    steady = Steady(lambda: clocks.wall, lambda: clocks.runs)
    assert steady() == NOON
    clocks.wall += YEAR
    clocks.go_on(5)
    assert steady() == NOON + 5


def test_a_clock_that_runs_well_is_trusted(clocks: Clocks, tmp_path: Path) -> None:
    keeping = clocks.timekeeping(tmp_path)
    for _ in range(3):
        clocks.go_on(10)
        clocks.wall += JUMP_SECONDS / 10  # Pulled right, a little at a time.
        assert keeping.look() is None
    assert not keeping.doubted


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 3600.0, -3600.0, JUMP_SECONDS])
def test_a_jump_is_told_once_and_the_clock_doubted_for_a_while(
    clocks: Clocks, tmp_path: Path, jump: float
) -> None:
    keeping = clocks.timekeeping(tmp_path)
    keeping.look()
    clocks.wall += jump
    assert keeping.look() == jump
    assert keeping.look() is None
    assert keeping.doubted
    clocks.go_on(DOUBT_SECONDS)
    assert not keeping.doubted


def test_who_comes_after_a_jump_knows_of_it(clocks: Clocks, tmp_path: Path) -> None:
    keeping = clocks.timekeeping(tmp_path)
    keeping.look()
    clocks.wall += YEAR
    keeping.look()
    clocks.go_on(60)
    other = clocks.timekeeping(tmp_path)
    assert other.look() is None
    assert other.doubted


@pytest.mark.parametrize("jump", [AWAY_SECONDS + 1, YEAR, -60.0])
def test_a_jump_between_two_lives_is_not_missed(
    clocks: Clocks, tmp_path: Path, jump: float
) -> None:
    clocks.timekeeping(tmp_path).look()
    clocks.wall += jump
    other = clocks.timekeeping(tmp_path)
    assert other.look() is None  # Nobody knows whether it was one.
    assert other.doubted


def test_a_day_without_use_is_nothing_strange(clocks: Clocks, tmp_path: Path) -> None:
    clocks.timekeeping(tmp_path).look()
    clocks.go_on(86400)
    other = clocks.timekeeping(tmp_path)
    other.look()
    assert not other.doubted


def test_the_file_is_written_now_and_then(clocks: Clocks, tmp_path: Path) -> None:
    keeping = clocks.timekeeping(tmp_path)
    keeping.look()
    clocks.go_on(SEEN_SECONDS - 1)
    keeping.look()
    assert json.loads((tmp_path / FILE).read_bytes()) == {"seen": NOON, "doubted": None}
    clocks.go_on(1)
    keeping.look()
    assert json.loads((tmp_path / FILE).read_bytes())["seen"] == NOON + SEEN_SECONDS


@pytest.mark.parametrize("content", [b"", b"[]", b'{"seen":"now"}', b"\xff"])
def test_a_file_that_makes_no_sense_is_written_anew(
    clocks: Clocks, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)
    keeping = clocks.timekeeping(tmp_path)
    assert keeping.look() is None
    assert not keeping.doubted
    assert json.loads((tmp_path / FILE).read_bytes())["seen"] == NOON


def test_where_no_file_can_be_written_a_jump_is_known_all_the_same(
    clocks: Clocks, tmp_path: Path
) -> None:
    (tmp_path / "state").write_bytes(b"in the way")
    keeping = clocks.timekeeping(tmp_path / "state")
    keeping.look()
    clocks.wall += YEAR
    assert keeping.look() == YEAR
    assert keeping.doubted


def test_nothing_is_too_old_by_a_clock_that_is_doubted(clocks: Clocks, tmp_path: Path) -> None:
    assert prudent(tmp_path, NOON) == NOON  # Nobody knows better.
    keeping = clocks.timekeeping(tmp_path)
    keeping.look()
    assert prudent(tmp_path, NOON + 60) == NOON + 60
    assert prudent(tmp_path, NOON + YEAR) == prudent(tmp_path, NOON - YEAR) == 0.0
    clocks.wall += YEAR
    keeping.look()
    assert prudent(tmp_path, NOON + YEAR + 60) == 0.0
    assert prudent(tmp_path, NOON + YEAR + DOUBT_SECONDS) > 0.0
