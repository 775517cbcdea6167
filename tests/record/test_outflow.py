"""How lines get to the file when the disk is slow; when it fails, see `test_journal_outage`."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyport.record import outflow as module
from anyport.record.away import Away
from anyport.record.outflow import (
    PENDING_BYTES_MAX,
    QUICK_WRITES,
    RETRY_SECONDS,
    SLOW_SECONDS,
    Outflow,
    Written,
)
from tests.record.story import ManualClock, events, file_of, numbers_in, opened
from tests.record.story import note as noted


class Hands(Away[Written]):
    """A thread that does its work when the test says so."""

    def __init__(self) -> None:
        super().__init__(lambda act: act())
        self.given: tuple[Callable[[], Written], Callable[[Written], None]] | None = None

    @property
    def busy(self) -> bool:
        return self.given is not None

    def begin(self, work: Callable[[], Written], done: Callable[[Written], None]) -> None:
        assert self.given is None
        self.given = work, done

    def work(self) -> None:
        assert self.given is not None
        (work, done), self.given = self.given, None
        done(work())

    def wait(self, seconds: float) -> bool:
        if self.given is not None:
            self.work()
        return True


class Disk:
    """Takes as long as it is told to; and a journal on it."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.clock = ManualClock()
        self.seconds = 0.0
        self.error: int | None = None
        self._now = 0.0
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)
        self.journal = opened(path, self.clock, timer=lambda: self._now)
        self.outflow: Outflow = self.journal.outflow
        self.hands = Hands()
        self.changes: list[tuple[str | None, bool]] = []
        self.outflow.away = self.hands
        self.outflow.on_change = lambda: self.changes.append(
            (self.outflow.last_error, self.outflow.slow)
        )

    def write(self, fd: int, block: bytes) -> int:
        self._now += self.seconds
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        return self._write(fd, block)

    def note(self, *numbers: int) -> None:
        for number in numbers:
            noted(self.journal, n=number)
        self.journal.flush()

    def numbers(self) -> list[int]:
        return numbers_in(self.path)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


def test_a_quick_disk_is_written_to_at_once(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS / 2
    disk.note(1)
    disk.note(2)
    assert disk.numbers() == [1, 2]
    assert disk.changes == []
    assert (disk.outflow.taken_count, disk.outflow.written_count) == (2, 2)


def test_after_a_slow_write_the_next_ones_are_done_in_the_thread(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    assert disk.numbers() == [1]
    assert disk.changes == [(None, True)]

    disk.note(2, 3)
    disk.note(4)
    assert disk.numbers() == [1]
    assert disk.outflow.written_count == 1
    disk.hands.work()
    assert disk.numbers() == [1, 2, 3]
    assert disk.changes == [(None, True)] * 2
    assert disk.hands.busy  # What came meanwhile follows.
    disk.hands.work()
    assert disk.numbers() == [1, 2, 3, 4]
    assert disk.outflow.written_count == disk.outflow.taken_count == 4


def test_without_a_thread_every_write_is_done_at_once(disk: Disk) -> None:
    disk.outflow.away = None
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    assert disk.numbers() == [1, 2]
    assert not disk.outflow.slow


def test_a_disk_that_is_quick_again_is_written_to_at_once_again(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(0)
    disk.seconds = 0.0
    for number in range(1, QUICK_WRITES + 1):
        assert disk.outflow.slow
        disk.note(number)
        disk.hands.work()
    assert not disk.outflow.slow
    disk.note(QUICK_WRITES + 1)
    assert disk.numbers() == list(range(QUICK_WRITES + 2))


def test_one_slow_write_among_quick_ones_begins_the_count_anew(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(0)
    for number in range(1, 2 * QUICK_WRITES):
        disk.seconds = SLOW_SECONDS if number % (QUICK_WRITES // 2) == 0 else 0.0
        disk.note(number)
        disk.hands.work()
        assert disk.outflow.slow


def test_a_write_that_fails_in_the_thread_is_tried_again(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.error = errno.ENOSPC
    disk.note(2)
    disk.hands.work()
    trouble = "The event journal cannot be written: No space left on device"
    assert disk.outflow.last_error == trouble
    assert disk.outflow.errno == errno.ENOSPC
    disk.note(3)
    assert not disk.hands.busy  # Too early.

    disk.error = None
    disk.clock.now += RETRY_SECONDS
    disk.journal.flush()
    disk.hands.work()
    assert disk.numbers() == [1, 2, 3]
    assert disk.outflow.last_error is None
    assert disk.outflow.errno is None
    assert disk.outflow.lost_count == 0


def test_a_disk_that_hangs_is_called_that_until_it_answers(disk: Disk) -> None:
    disk.outflow.hang(1.0)  # Nothing is under way: nothing hangs.
    assert disk.outflow.last_error is None
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    disk.outflow.hang(1.0)
    words = "the disk has not answered for 1 s"
    assert disk.outflow.last_error == f"The event journal cannot be written: {words}"
    disk.note(3)
    disk.hands.work()
    assert disk.outflow.last_error is None
    disk.hands.work()
    assert disk.numbers() == [1, 2, 3]


def test_what_is_lost_while_the_thread_hangs_is_counted_exactly_where_it_is_missing(
    disk: Disk,
) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(-2)
    disk.note(-1)
    assert disk.hands.busy
    padding, count = "x" * 2000, 0
    while disk.outflow.lost_count < 5:
        noted(disk.journal, n=count, padding=padding)
        count += 1
    kept = count - 5
    assert kept * 2000 > PENDING_BYTES_MAX // 2
    while disk.hands.busy:
        disk.hands.work()
    disk.note(count)  # There is room again: it stands behind the gap.
    disk.hands.work()

    found = events(disk.path)
    gaps = [at for at, event in enumerate(found) if event["event_type"] == "gateway.journal_gap"]
    assert len(gaps) == 1
    assert found[gaps[0]]["metadata"]["lost"] == 5
    rest = [event["metadata"]["n"] for at, event in enumerate(found) if at != gaps[0]]
    assert rest == [-2, -1, *range(kept), count]
    assert found[gaps[0] + 1]["metadata"]["n"] == count


def test_the_end_waits_for_a_write_that_is_under_way(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    disk.note(3)
    disk.journal.close()
    assert disk.numbers() == [1, 2, 3]
    assert disk.journal.lost_count == 0


def test_the_end_waits_for_the_write_that_follows_the_one_under_way(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    disk.note(3)  # Given to the thread as soon as it is back.
    disk.journal.close()

    assert not disk.hands.busy
    assert disk.numbers() == [1, 2, 3]


def test_the_end_does_not_wait_for_a_disk_that_hangs(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    disk.note(3)
    disk.hands.wait = lambda seconds: False  # type: ignore[method-assign]
    disk.journal.close()
    assert disk.journal.lost_count == 2


class FakeBeside:
    def __init__(self) -> None:
        self.deferred = False
        self.lost_count = 0
        self.last_error: str | None = None
        self.did: list[str] = []

    def begin(self) -> None:
        self.did.append("begin")

    def work(self) -> None:
        self.did.append("work")

    def finish(self) -> None:
        self.did.append("finish")


def test_what_lies_beside_is_written_in_the_same_go_while_the_disk_is_slow(disk: Disk) -> None:
    beside = disk.outflow.beside = FakeBeside()
    disk.note(1)
    assert (beside.did, beside.deferred) == ([], False)
    disk.seconds = SLOW_SECONDS
    disk.note(2)
    assert (beside.did, beside.deferred) == ([], True)
    disk.note(3)
    assert beside.did == ["begin"]
    disk.hands.work()
    assert beside.did == ["begin", "work", "finish"]
    beside.did.clear()
    disk.journal.close()
    assert (beside.did, beside.deferred) == (["begin", "work", "finish"], False)


def test_a_disk_that_fails_on_a_file_is_given_another(disk: Disk) -> None:
    disk.note(1)
    disk.error = errno.EIO
    disk.note(2)
    assert disk.outflow.last_error == "The event journal cannot be written: Input/output error"
    disk.clock.now += RETRY_SECONDS
    disk.note(3)  # The new file is empty: it is not given up again.
    disk.error = None
    disk.clock.now += RETRY_SECONDS
    disk.note(4)
    old = file_of(disk.path).with_name("events-0001.jsonl")
    assert [path.name for path in sorted(old.parent.iterdir())] == [old.name, "events.jsonl"]
    assert len(old.read_bytes().splitlines()) == 1
    assert disk.numbers() == [2, 3, 4]
    disk.outflow.distrust()
    disk.note(5)
    assert disk.numbers() == [5]


def test_a_full_disk_is_no_reason_to_distrust_a_file(disk: Disk) -> None:
    disk.note(1)
    disk.error = errno.ENOSPC
    disk.note(2)
    disk.error = None
    disk.clock.now += RETRY_SECONDS
    disk.note(3)
    assert disk.numbers() == [1, 2, 3]


def test_limits_make_sense_together() -> None:
    assert module.SLOW_SECONDS < 0.25  # What others may be held up for at the most.
    assert module.CLOSE_SECONDS_MAX < 10


def test_descriptors_that_run_out_lose_nothing(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a file is begun, as at the turn of a month; those that are open go on."""
    open_file, room = os.open, False

    def confined(*arguments: Any, **more: Any) -> int:
        if not room:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_file(*arguments, **more)

    monkeypatch.setattr(os, "open", confined)
    disk.note(1)
    assert disk.outflow.last_error == "The event journal cannot be written: Too many open files"
    room = True
    disk.clock.now += RETRY_SECONDS
    disk.note(2)
    assert disk.numbers() == [1, 2]
    assert disk.outflow.lost_count == 0
