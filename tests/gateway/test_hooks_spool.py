"""The spool: what was accepted outlives the process, and is nobody else's meanwhile."""

import os
from pathlib import Path

import pytest

from anyport.gateway import hooks_spool
from anyport.gateway.hooks_spool import KEPT_SECONDS_MAX, Slot, Spool, clear_old

ROOM = 10**9


def left(folder: Path, name: str = "next", now: float = 0.0) -> list[bytes]:
    """What another process finds there."""
    spool = Spool(folder, name)
    found = [line for _, line in spool.adopt(now, ROOM)]
    spool.close()
    return found


def kept(spool: Spool, *lines: bytes) -> list[Slot]:
    slots = spool.keep(list(lines))
    return [slot for slot in slots if slot is not None]


def test_what_was_kept_and_not_done_is_there_for_the_next_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1", b"2")
    kept(spool, b"3")
    spool.close()

    assert left(tmp_path) == [b"1", b"2", b"3"]


def test_what_is_done_is_not_there_any_more(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    first, second, _ = kept(spool, b"1", b"2", b"3")
    spool.done(first)
    spool.done(second)
    spool.close()

    assert left(tmp_path) == [b"3"]


def test_when_all_is_done_nothing_is_left_on_the_disk(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    for slot in kept(spool, b"1", b"2"):
        spool.done(slot)
    for slot in kept(spool, b"3"):
        spool.done(slot)
    spool.close()

    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_is_worked_off_does_not_grow(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    for _ in range(100):
        for slot in kept(spool, b"x" * 1000):
            spool.done(slot)

    [file] = tmp_path.iterdir()
    assert file.stat().st_size < 100


def test_what_a_living_process_has_is_not_taken_from_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1")

    assert left(tmp_path) == []
    spool.close()
    assert left(tmp_path) == [b"1"]


def test_what_was_taken_over_can_be_done_or_left_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1", b"2")
    spool.close()

    second = Spool(tmp_path, "b")
    (slot, _), _ = second.adopt(0.0, ROOM)
    second.done(slot)
    second.close()

    assert left(tmp_path) == [b"2"]


def test_a_torn_last_line_is_no_event(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "a")
    kept(spool, b"1", b"2")
    spool.close()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])

    assert left(tmp_path) == [b"1"]


@pytest.mark.parametrize("raw", [b"", b"rubbish", b"9" * 20 + b"\n{}\n", b"x" * 20 + b"\n"])
def test_a_damaged_file_holds_nothing_and_is_removed(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(raw)

    assert left(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_large_amounts_lie_in_several_files_that_go_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks_spool, "SEGMENT_BYTES_MAX", 100)
    spool = Spool(tmp_path, "a")
    slots = [slot for number in range(6) for slot in kept(spool, b"%050d" % number)]

    assert len(list(tmp_path.iterdir())) == 3
    for slot in slots[:3]:
        spool.done(slot)
    assert len(list(tmp_path.iterdir())) == 2
    spool.close()
    assert [int(line) for line in left(tmp_path)] == [3, 4, 5]


def test_no_more_is_taken_over_than_there_is_room_for(tmp_path: Path) -> None:
    for name in "abc":
        spool = Spool(tmp_path, name)
        kept(spool, b"x" * 100)
        spool.close()

    spool = Spool(tmp_path, "next")
    assert len(spool.adopt(0.0, 250)) == 2
    spool.close()
    assert len(left(tmp_path)) == 3


def test_what_is_older_than_a_week_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "hook", "a")
    kept(spool, b"1")
    spool.close()
    [file] = (tmp_path / "hook").iterdir()
    modified = file.stat().st_mtime

    clear_old(tmp_path, modified + KEPT_SECONDS_MAX - 1)
    assert file.exists()
    assert left(tmp_path / "hook", now=modified + KEPT_SECONDS_MAX + 1) == []
    assert not file.exists()


def test_what_hooks_that_are_gone_have_left_is_removed_after_a_week(tmp_path: Path) -> None:
    mine, gone = Spool(tmp_path / "mine", "a"), Spool(tmp_path / "gone", "a")
    kept(mine, b"1")
    kept(gone, b"1")
    gone.close()

    clear_old(tmp_path, os.stat(tmp_path).st_mtime + 10 * KEPT_SECONDS_MAX)

    assert [folder.name for folder in tmp_path.iterdir()] == ["mine"]
    mine.close()


def test_a_disk_that_cannot_be_written_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the directory should be")
    spool = Spool(tmp_path / "spool", "a")

    assert spool.keep([b"1", b"2"]) == [None, None]
    assert spool.last_error is not None
    assert spool.last_error.startswith("the spool cannot be written: ")
    spool.close()


def test_the_files_are_private(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "a")
    kept(spool, b"1")

    [file] = (tmp_path / "spool").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "spool").stat().st_mode & 0o077 == 0
    spool.close()
