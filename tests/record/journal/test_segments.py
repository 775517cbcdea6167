import errno
import fcntl
import os
from pathlib import Path

import pytest

from anyport.record.journal import segments as segments_module
from anyport.record.journal.journal import Journal
from anyport.record.journal.segments import (
    DiskFull,
    LineAppender,
    SegmentsChanged,
    rotate_segment,
    segments,
    snapshot,
)
from anyport.record.journal.writer import RETRY_SECONDS
from tests.record.story import ManualClock, file_of, note, numbers, opened


def names(directory: Path) -> list[str]:
    return [f"{path.parent.name}/{path.name}" for path in segments(directory / "events")]


def numbers_everywhere(directory: Path) -> list[int]:
    files = segments(directory / "events")
    return numbers([line for path in files for line in path.read_bytes().splitlines()])


def test_files_are_found_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    wanted = [
        "2026-07/events-0001.jsonl",
        "2026-07/events-0002.jsonl",
        "2026-07/events-10000.jsonl",
        "2026-07/events.jsonl",
        "2026-08/events-0001.jsonl",
        "2026-08/events.jsonl",
    ]
    for name in [*wanted, "2026-08/events-old.jsonl", "2026-08/events.jsonl.bak"]:
        path = tmp_path / "events" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert names(tmp_path) == wanted
    assert segments(tmp_path / "nowhere") == []


def test_a_file_that_has_grown_large_gets_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", 1000)
    clock = ManualClock()
    journal = opened(tmp_path, clock)
    for n in range(12):
        note(journal, n=n)
        journal.flush()
        clock.seconds += RETRY_SECONDS
    journal.close()
    assert names(tmp_path) == [
        *(f"2026-07/events-{number:04}.jsonl" for number in (1, 2)),
        "2026-07/events.jsonl",
    ]
    assert numbers_everywhere(tmp_path) == list(range(12))


def test_processes_that_share_a_file_notice_that_it_was_turned_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", 1000)
    clock = ManualClock()
    ours, theirs = opened(tmp_path, clock), opened(tmp_path, clock)

    def write(journal: Journal, n: int) -> None:
        note(journal, n=n)
        journal.flush()

    for n in range(4):
        write(ours, n)
    write(theirs, 4)
    clock.seconds += RETRY_SECONDS
    write(ours, 5)
    assert names(tmp_path) == ["2026-07/events-0001.jsonl", "2026-07/events.jsonl"]
    write(theirs, 6)
    clock.seconds += RETRY_SECONDS
    write(theirs, 7)
    assert names(tmp_path) == ["2026-07/events-0001.jsonl", "2026-07/events.jsonl"]
    assert numbers(file_of(tmp_path).read_bytes().splitlines()) == [5, 6, 7]
    ours.close()
    theirs.close()


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    active = file_of(tmp_path)
    active.parent.mkdir(parents=True)
    (active.parent / "events-0007.jsonl").write_bytes(b"kept")
    active.write_bytes(b"more")
    rotate_segment(active, active.stat())
    assert names(tmp_path) == ["2026-07/events-0007.jsonl", "2026-07/events-0008.jsonl"]


def test_a_file_that_another_process_has_turned_over_is_left_alone(tmp_path: Path) -> None:
    active = file_of(tmp_path)
    active.parent.mkdir(parents=True)
    active.write_bytes(b"old")
    seen = active.stat()
    active.rename(active.parent / "events-0001.jsonl")
    rotate_segment(active, seen)
    active.write_bytes(b"new")
    rotate_segment(active, seen)
    assert active.read_bytes() == b"new"

    lock = os.open(active.parent, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    rotate_segment(active, active.stat())  # Somebody is at it: no wait.
    os.close(lock)
    assert names(tmp_path) == ["2026-07/events-0001.jsonl", "2026-07/events.jsonl"]


def test_a_file_that_cannot_be_turned_over_is_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", 10)
    clock = ManualClock()
    journal = opened(tmp_path, clock)
    note(journal, n=1)
    journal.flush()
    clock.seconds += RETRY_SECONDS

    def refused(path: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "rename", refused)
    note(journal, n=2)
    journal.flush()
    assert numbers_everywhere(tmp_path) == [1, 2]
    assert journal.last_error is None
    journal.close()


def test_a_file_is_found_again_by_its_beginning_and_taken_for_no_other(tmp_path: Path) -> None:
    active = file_of(tmp_path)
    active.parent.mkdir(parents=True)
    active.write_bytes(b"one\ntwo\n")
    (piece,) = snapshot(tmp_path / "events")
    with active.open("ab") as file:
        file.write(b"three\n")
    rotate_segment(active, active.stat())
    active.write_bytes(b"another\n")
    with piece.open() as found:
        assert found.read() == b"one\ntwo\nthree\n"
    assert piece.size == len(b"one\ntwo\n")

    for path in segments(tmp_path / "events"):
        path.unlink()
    active.write_bytes(b"other\n" * 9)  # It may well have the same inode.
    with pytest.raises(SegmentsChanged), piece.open():
        raise AssertionError


def test_a_file_that_is_turned_over_while_somebody_looks_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = file_of(tmp_path)
    active.parent.mkdir(parents=True)
    active.write_bytes(b"one\n")
    listed = segments(tmp_path / "events")
    answers = iter([listed, [*listed, active]])
    monkeypatch.setattr(segments_module, "segments", lambda _: next(answers))
    with pytest.raises(SegmentsChanged):
        snapshot(tmp_path / "events")
    monkeypatch.setattr(segments_module, "segments", lambda _: [tmp_path / "gone"])
    with pytest.raises(SegmentsChanged):
        snapshot(tmp_path / "events")


# Torn lines


Block = list[bytes]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> tuple[Block, list[int]]:
    """What was written, and how much of each block is taken; the rest of them whole."""
    taken: Block = []
    room: list[int] = []

    def write(_fd: int, block: bytes) -> int:
        part = block[: room.pop(0)] if room else block
        taken.append(part)
        return len(part)

    monkeypatch.setattr(os, "write", write)
    return taken, room


def test_lines_are_written_with_one_call(disk: tuple[Block, list[int]]) -> None:
    assert LineAppender().write(3, [b"one\n", b"two\n"]) == 2
    assert disk[0] == [b"one\ntwo\n"]


def test_a_line_of_which_a_part_was_taken_is_written_again_on_a_line_of_its_own(
    disk: tuple[Block, list[int]],
) -> None:
    taken, room = disk
    tail = LineAppender()
    room.append(len(b"one\ntw"))
    assert tail.write(3, [b"one\n", b"two\n"]) == 1
    assert tail.write(3, [b"two\n"]) == 1
    assert b"".join(taken).split(b"\n") == [b"one", b"tw", b"two", b""]
    assert not tail.ends_mid_line


def test_the_line_that_closes_a_torn_one_does_not_count(disk: tuple[Block, list[int]]) -> None:
    _taken, room = disk
    tail = LineAppender()
    room += [2, 1, 0]
    for _ in range(3):
        with pytest.raises(DiskFull) as full:
            tail.write(3, [b"one\n"])
        assert full.value.errno == errno.ENOSPC
    assert not tail.ends_mid_line
    assert tail.write(3, [b"one\n"]) == 1


def test_a_full_disk_that_takes_nothing_leaves_the_end_as_it_was(
    disk: tuple[Block, list[int]],
) -> None:
    _taken, room = disk
    tail = LineAppender()
    tail.ends_mid_line = True
    room.append(0)
    with pytest.raises(DiskFull):
        tail.write(3, [b"one\n"])
    assert tail.ends_mid_line


def test_a_disk_that_fails_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int, _block: bytes) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="nput/output") as told:
        LineAppender().write(3, [b"one\n"])
    assert not isinstance(told.value, DiskFull)
