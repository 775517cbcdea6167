"""How lines get to the file when the disk is slow; when it fails, see `test_journal_outage`."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyport.record.journal import segments
from anyport.record.journal import writer as module
from anyport.record.journal.payloads import PayloadWriter
from anyport.record.journal.writer import (
    PENDING_BYTES_MAX,
    QUICK_WRITES,
    RETRY_SECONDS,
    SLOW_SECONDS,
    JournalWriter,
    WorkerThread,
    WriteResult,
    advise_on_error,
)
from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.record.story import ManualClock, events, file_of, numbers, numbers_in, opened
from tests.record.story import note as noted


class FakeWorker(WorkerThread[WriteResult]):
    """A thread that does its work when the test says so."""

    def __init__(self) -> None:
        super().__init__(lambda act: act())
        self.job: tuple[Callable[[], WriteResult], Callable[[WriteResult], None]] | None = None

    @property
    def is_busy(self) -> bool:
        return self.job is not None

    def submit(self, work: Callable[[], WriteResult], done: Callable[[WriteResult], None]) -> None:
        assert self.job is None
        self.job = work, done

    def work(self) -> None:
        assert self.job is not None
        (work, done), self.job = self.job, None
        done(work())

    def wait(self, seconds: float) -> bool:
        if self.job is not None:
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
        self.journal = opened(path, self.clock, monotonic=lambda: self._now)
        self.file_writer: JournalWriter = self.journal.file_writer
        self.operations: list[str] = []
        """What was asked of the disk, in that order."""
        self.sync_error: int | None = None
        monkeypatch.setattr(os, "fdatasync", lambda fd: self.sync(fd))
        monkeypatch.setattr(os, "fsync", lambda fd: self.sync(fd))
        self.worker = FakeWorker()
        self.changes: list[tuple[str | None, bool]] = []
        self.file_writer.worker = self.worker
        self.file_writer.on_change = lambda: self.changes.append(
            (self.file_writer.last_error, self.file_writer.is_slow)
        )

    def write(self, fd: int, block: bytes) -> int:
        self._now += self.seconds
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        self.operations.append("write")
        return self._write(fd, block)

    def sync(self, fd: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
        self.operations.append("sync" if name.endswith(".jsonl") else f"sync {name}")
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))

    def file_creation(self) -> list[str]:
        """What making sure of a new file is."""
        above = [self.path.name, self.path.parent.name]
        return ["sync", *(f"sync {name}" for name in ("2026-07", "events", *above))]

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
    assert (disk.file_writer.accepted_count, disk.file_writer.written_count) == (2, 2)


def test_after_a_slow_write_the_next_ones_are_done_in_the_thread(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    assert disk.numbers() == [1]
    assert disk.changes == [(None, True)]

    disk.note(2, 3)
    disk.note(4)
    assert disk.numbers() == [1]
    assert disk.file_writer.written_count == 1
    disk.worker.work()
    assert disk.numbers() == [1, 2, 3]
    assert disk.changes == [(None, True)] * 2
    assert disk.worker.is_busy  # What came meanwhile follows.
    disk.worker.work()
    assert disk.numbers() == [1, 2, 3, 4]
    assert disk.file_writer.written_count == disk.file_writer.accepted_count == 4


def test_without_a_thread_every_write_is_done_at_once(disk: Disk) -> None:
    disk.file_writer.worker = None
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    assert disk.numbers() == [1, 2]
    assert not disk.file_writer.is_slow


def test_a_disk_that_is_quick_again_is_written_to_at_once_again(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(0)
    disk.seconds = 0.0
    for number in range(1, QUICK_WRITES + 1):
        assert disk.file_writer.is_slow
        disk.note(number)
        disk.worker.work()
    assert not disk.file_writer.is_slow
    disk.note(QUICK_WRITES + 1)
    assert disk.numbers() == list(range(QUICK_WRITES + 2))


def test_one_slow_write_among_quick_ones_begins_the_count_anew(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(0)
    for number in range(1, 2 * QUICK_WRITES):
        disk.seconds = SLOW_SECONDS if number % (QUICK_WRITES // 2) == 0 else 0.0
        disk.note(number)
        disk.worker.work()
        assert disk.file_writer.is_slow


def test_a_write_that_fails_in_the_thread_is_tried_again(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.error = errno.ENOSPC
    disk.note(2)
    disk.worker.work()
    trouble = "The event journal cannot be written: No space left on device"
    assert disk.file_writer.last_error == trouble
    assert disk.file_writer.errno == errno.ENOSPC
    disk.note(3)
    assert not disk.worker.is_busy  # Too early.

    disk.error = None
    disk.clock.seconds += RETRY_SECONDS
    disk.journal.flush()
    disk.worker.work()
    assert disk.numbers() == [1, 2, 3]
    assert disk.file_writer.last_error is None
    assert disk.file_writer.errno is None
    assert disk.file_writer.lost_count == 0


def test_a_disk_that_hangs_is_called_that_until_it_answers(disk: Disk) -> None:
    disk.file_writer.report_hang(1.0)  # Nothing is under way: nothing hangs.
    assert disk.file_writer.last_error is None
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    disk.file_writer.report_hang(1.0)
    words = "the disk has not answered for 1 s"
    assert disk.file_writer.last_error == f"The event journal cannot be written: {words}"
    disk.note(3)
    disk.worker.work()
    assert disk.file_writer.last_error is None
    disk.worker.work()
    assert disk.numbers() == [1, 2, 3]


def test_what_is_lost_while_the_thread_hangs_is_counted_exactly_where_it_is_missing(
    disk: Disk,
) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(-2)
    disk.note(-1)
    assert disk.worker.is_busy
    padding, count = "x" * 2000, 0
    while disk.file_writer.lost_count < 5:
        noted(disk.journal, n=count, padding=padding)
        count += 1
    kept = count - 5
    assert kept * 2000 > PENDING_BYTES_MAX // 2
    while disk.worker.is_busy:
        disk.worker.work()
    disk.note(count)  # There is room again: it stands behind the gap.
    disk.worker.work()

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

    assert not disk.worker.is_busy
    assert disk.numbers() == [1, 2, 3]


def test_the_end_does_not_wait_for_a_disk_that_hangs(disk: Disk) -> None:
    disk.seconds = SLOW_SECONDS
    disk.note(1)
    disk.note(2)
    disk.note(3)
    disk.worker.wait = lambda seconds: False  # type: ignore[method-assign]
    disk.journal.close()
    assert disk.journal.lost_count == 2


class FakePayloads(PayloadWriter):
    def __init__(self) -> None:
        self.is_deferred = self.syncs = False
        self.steps: list[str] = []

    def prepare_write(self) -> None:
        self.steps.append("prepare")

    def write_prepared(self) -> None:
        self.steps.append("write")

    def finish_write(self) -> None:
        self.steps.append("finish")


def test_payloads_are_written_in_the_same_go_while_the_disk_is_slow(disk: Disk) -> None:
    payloads = disk.file_writer.payloads = FakePayloads()
    disk.note(1)
    assert (payloads.steps, payloads.is_deferred) == ([], False)
    disk.seconds = SLOW_SECONDS
    disk.note(2)
    assert (payloads.steps, payloads.is_deferred) == ([], True)
    disk.note(3)
    assert payloads.steps == ["prepare"]
    disk.worker.work()
    assert payloads.steps == ["prepare", "write", "finish"]
    payloads.steps.clear()
    disk.journal.close()
    assert (payloads.steps, payloads.is_deferred) == (["prepare", "write", "finish"], False)


def test_a_disk_that_fails_on_a_file_is_given_another(disk: Disk) -> None:
    disk.note(1)
    disk.error = errno.EIO
    disk.note(2)
    assert disk.file_writer.last_error == "The event journal cannot be written: Input/output error"
    disk.clock.seconds += RETRY_SECONDS
    disk.note(3)  # The new file is empty: it is not given up again.
    disk.error = None
    disk.clock.seconds += RETRY_SECONDS
    disk.note(4)
    old = file_of(disk.path).with_name("events-0001.jsonl")
    assert [path.name for path in sorted(old.parent.iterdir())] == [old.name, "events.jsonl"]
    assert len(old.read_bytes().splitlines()) == 1
    assert disk.numbers() == [2, 3, 4]
    disk.file_writer.abandon_file()
    disk.note(5)
    assert disk.numbers() == [5]


def test_a_full_disk_is_no_reason_to_distrust_a_file(disk: Disk) -> None:
    disk.note(1)
    disk.error = errno.ENOSPC
    disk.note(2)
    disk.error = None
    disk.clock.seconds += RETRY_SECONDS
    disk.note(3)
    assert disk.numbers() == [1, 2, 3]


def test_limits_make_sense_together() -> None:
    assert module.SLOW_SECONDS < 0.25  # What others may be held up for at the most.
    assert module.CLOSE_SECONDS_MAX < 10


def test_descriptors_that_run_out_lose_nothing(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a file is file_creation, as at the turn of a month; those that are open go on."""
    open_file, room = os.open, False

    def confined(*arguments: Any, **more: Any) -> int:
        if not room:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_file(*arguments, **more)

    monkeypatch.setattr(os, "open", confined)
    disk.note(1)
    assert disk.file_writer.last_error == "The event journal cannot be written: Too many open files"
    room = True
    disk.clock.seconds += RETRY_SECONDS
    disk.note(2)
    assert disk.numbers() == [1, 2]
    assert disk.file_writer.lost_count == 0


# A disk that has to keep what it takes


def test_without_that_nothing_is_synced(disk: Disk) -> None:
    disk.note(1)
    disk.seconds = SLOW_SECONDS
    disk.note(2)
    disk.note(3)
    disk.journal.close()
    assert disk.operations == ["write"] * 3


def test_a_record_counts_when_the_disk_has_kept_it_and_the_place_of_its_file(disk: Disk) -> None:
    disk.file_writer.set_sync(enabled=True)
    disk.note(1)
    assert disk.operations == []  # It is done in the thread, however quick the disk is.
    disk.worker.work()
    assert disk.operations == [*disk.file_creation(), "write", "sync"]
    assert disk.file_writer.written_count == 1
    disk.operations.clear()
    disk.note(2)
    disk.worker.work()
    assert disk.operations == ["write", "sync"]
    assert disk.file_writer.written_count == 2


def test_one_sync_does_for_all_that_came_during_the_one_before(disk: Disk) -> None:
    disk.file_writer.set_sync(enabled=True)
    disk.note(0)
    for number in range(1, 33):
        disk.note(number)
    disk.worker.work()
    disk.operations.clear()
    disk.worker.work()
    assert disk.operations == ["write", "sync"]
    assert disk.file_writer.written_count == 33
    assert not disk.worker.is_busy


def test_each_new_file_is_found_again(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES_MAX", 1)
    disk.file_writer.set_sync(enabled=True)
    disk.note(1)
    disk.worker.work()
    disk.clock.seconds += RETRY_SECONDS
    disk.operations.clear()
    disk.note(2)  # The file has grown too large.
    disk.worker.work()
    assert disk.operations == [*disk.file_creation(), "write", "sync"]

    noted(disk.journal, n=3)
    disk.clock.seconds += 31 * 24 * 3600
    noted(disk.journal, n=4)
    disk.operations.clear()
    disk.journal.flush()
    disk.worker.work()
    august = [step.replace("2026-07", "2026-08") for step in disk.file_creation()]
    # The check comes first: the file of July has grown too large as well.
    assert disk.operations == [
        *disk.file_creation(),
        "write",
        "sync",
        *august,
        "write",
        "sync",
    ]


def test_what_the_disk_fails_to_keep_is_there_once_and_told(disk: Disk) -> None:
    disk.file_writer.set_sync(enabled=True)
    disk.note(1)
    disk.worker.work()
    disk.note(2)
    disk.sync_error = errno.EIO
    disk.worker.work()
    assert disk.file_writer.last_error == "The event journal cannot be written: Input/output error"
    assert (disk.file_writer.written_count, disk.file_writer.unsynced_count) == (1, 1)

    disk.clock.seconds += RETRY_SECONDS
    disk.operations.clear()
    disk.note(3)  # Nothing is written to a disk that keeps nothing; nor are files heaped up.
    disk.worker.work()
    disk.clock.seconds += RETRY_SECONDS
    disk.journal.flush()
    disk.worker.work()
    assert disk.operations == ["sync", "sync"]
    disk.sync_error = None
    disk.clock.seconds += RETRY_SECONDS
    disk.journal.flush()
    disk.worker.work()

    assert disk.file_writer.last_error is None
    assert (disk.file_writer.written_count, disk.file_writer.unsynced_count) == (3, 0)
    disk.journal.close()
    old = file_of(disk.path).with_name("events-0001.jsonl")
    assert numbers(old.read_bytes().splitlines()) == [1, 2]
    assert disk.numbers() == [3]
    assert verify(disk.path, ExternalEvidence()).faults == ()


def test_a_disk_that_works_again_is_found_out_with_nothing_to_write(disk: Disk) -> None:
    disk.file_writer.set_sync(enabled=True)
    disk.note(1)
    disk.sync_error = errno.EIO
    disk.worker.work()
    assert disk.file_writer.written_count == 0  # Its file could not even be created.
    disk.sync_error = None
    disk.clock.seconds += RETRY_SECONDS
    disk.journal.flush()
    disk.worker.work()
    assert disk.file_writer.written_count == 1
    disk.note(2)
    disk.sync_error = errno.EIO
    disk.worker.work()
    for error in (errno.EIO, None):
        disk.sync_error = error
        disk.clock.seconds += RETRY_SECONDS
        disk.journal.flush()
        disk.worker.work()
        assert (disk.file_writer.last_error is None) is (error is None)
    disk.journal.flush()
    assert not disk.worker.is_busy


def test_the_end_is_synced_too(disk: Disk) -> None:
    disk.file_writer.set_sync(enabled=True)
    disk.note(1)
    disk.note(2)
    disk.journal.close()
    assert disk.operations == [*disk.file_creation(), "write", "sync", "write", "sync"]
    assert disk.file_writer.written_count == 2


def test_a_file_that_is_open_already_is_found_again_too(disk: Disk) -> None:
    disk.note(1)
    disk.file_writer.set_sync(enabled=True)
    disk.operations.clear()
    disk.note(2)
    disk.worker.work()
    assert disk.operations == [*disk.file_creation(), "write", "sync"]


def test_payloads_are_synced_in_the_same_go(disk: Disk) -> None:
    payloads = disk.file_writer.payloads = FakePayloads()
    disk.file_writer.set_sync(enabled=True)
    assert (payloads.is_deferred, payloads.syncs) == (True, True)
    disk.note(1)
    disk.worker.work()
    assert payloads.steps == ["prepare", "write", "finish"]
    disk.file_writer.set_sync(enabled=False)
    assert (payloads.is_deferred, payloads.syncs) == (False, False)


# WorkerThread


class Loop:
    """What is called back waits for the test."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []
        self.came = threading.Event()

    def back(self, act: Callable[[], None]) -> None:
        self.asked.append(act)
        self.came.set()

    def turn(self) -> None:
        assert self.came.wait(60)
        self.came.clear()
        while self.asked:
            self.asked.pop(0)()


def test_work_is_done_in_a_thread_and_its_end_is_told_where_it_was_given_out() -> None:
    loop = Loop()
    told: list[str] = []
    thread: WorkerThread[str] = WorkerThread(loop.back)
    thread.submit(lambda: threading.current_thread().name, told.append)
    assert thread.is_busy
    assert told == []
    loop.turn()
    assert told == ["record"]
    assert not thread.is_busy


def test_there_is_one_piece_of_work_at_a_time() -> None:
    loop, go_on = Loop(), threading.Event()
    thread: WorkerThread[bool] = WorkerThread(loop.back)
    thread.submit(lambda: go_on.wait(60), lambda _: None)
    with pytest.raises(RuntimeError):
        thread.submit(lambda: True, lambda _: None)
    go_on.set()
    loop.turn()
    thread.submit(lambda: True, lambda _: None)
    loop.turn()


def test_who_waits_gets_the_end_and_it_is_told_once() -> None:
    loop = Loop()
    told: list[int] = []
    thread: WorkerThread[int] = WorkerThread(loop.back)
    assert thread.wait(0)  # There is nothing to wait for.
    thread.submit(lambda: 7, told.append)
    assert thread.wait(60)
    assert told == [7]
    loop.turn()
    assert told == [7]


def test_work_that_never_ends_is_not_waited_for() -> None:
    loop, go_on = Loop(), threading.Event()
    thread: WorkerThread[bool] = WorkerThread(loop.back)
    thread.submit(lambda: go_on.wait(60), lambda _: None)
    assert not thread.wait(0.01)
    assert thread.is_busy
    go_on.set()


def test_a_loop_that_has_ended_does_no_harm() -> None:
    def gone(act: Callable[[], None]) -> None:
        raise RuntimeError("the loop is closed")

    told: list[int] = []
    thread: WorkerThread[int] = WorkerThread(gone)
    for number in range(2):
        thread.submit(lambda number=number: number, told.append)  # type: ignore[misc]
        assert thread.wait(60)
    assert told == [0, 1]


# Advice on errors


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (errno.ENOSPC, "df -h '/my state'"),
        (errno.EACCES, "chown -R \"$USER\" '/my state'"),
        (errno.EROFS, "findmnt -T '/my state'"),
        (errno.ENOTDIR, "ls -ld '/my state'"),
        (errno.EMFILE, "ulimit -n"),
        (None, "ls -ld '/my state'"),
    ],
)
def test_there_is_a_command_for_every_error(number: int | None, command: str) -> None:
    words = advise_on_error(number, Path("/my state"))
    assert command in words
    assert "--state-dir" in words
