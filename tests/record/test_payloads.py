"""Payloads lie beside the journal, an hour or some megabytes in a file."""

import errno
import os
import stat
from pathlib import Path

import pytest

from anyport.record import payloads as module
from anyport.record.payloads import Payloads, payload_files, payload_path
from tests.record.shelved import find_payload

NOON = 1_785_240_000.0  # 2026-07-28T12:00:00Z


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def line(span_id: str, text: str = "") -> bytes:
    return b'{"span_id":"%b","frames":["%b"]}' % (span(span_id).encode(), text.encode())


def span(name: str) -> str:
    return name.rjust(16, "0")


def found(state_dir: Path, place: str, name: str) -> bytes | None:
    return find_payload(state_dir, place, span(name))


def test_a_line_is_found_by_the_name_of_its_file_and_its_span(tmp_path: Path) -> None:
    kept = Payloads(tmp_path, "cafe", Clock())
    place = kept.place()
    for number in range(3):
        assert kept.add(line(f"span{number}"))
    kept.flush()

    assert place == "2026-07-28/12-cafe-0"
    assert found(tmp_path, place, "span1") == line("span1")
    assert found(tmp_path, place, "span9") is None
    (file,) = payload_files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_payload_that_looks_like_the_beginning_of_a_line_is_not_taken_for_one(
    tmp_path: Path,
) -> None:
    kept = Payloads(tmp_path, "cafe", Clock())
    place = kept.place()
    kept.add(b'{"span_id":"a","frames":[{"span_id":"%b","x":1}]}' % span("b").encode())
    kept.add(line("b", "the real one"))
    kept.flush()

    assert found(tmp_path, place, "b") == line("b", "the real one")


def test_every_hour_has_a_file_of_its_own(tmp_path: Path) -> None:
    clock = Clock()
    kept = Payloads(tmp_path, "cafe", clock)
    names = []
    for hour in range(3):
        clock.now = NOON + hour * 3600
        names.append(kept.place())
        kept.add(line(f"span{hour}"))
        kept.flush()

    assert names == [f"2026-07-28/{12 + hour}-cafe-0" for hour in range(3)]
    assert [path.stem for path in payload_files(tmp_path)] == [name[11:] for name in names]


def test_a_file_that_is_large_enough_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 120)
    kept = Payloads(tmp_path, "cafe", Clock())
    names = []
    for number in range(4):
        names.append(kept.place())
        kept.add(line(f"span{number}", "x" * 60))
        kept.flush()

    assert names == [f"2026-07-28/12-cafe-{number // 2}" for number in range(4)]


def test_what_does_not_fit_is_counted_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 50)
    kept = Payloads(tmp_path, "cafe", Clock())
    kept.place()

    assert not kept.add(line("span", "x" * 60))
    assert kept.lost_count == 1


def test_a_folder_that_cannot_be_written_loses_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "payloads").write_text("in the way")
    monkeypatch.setattr(module, "PENDING_BYTES_MAX", 10)
    kept = Payloads(tmp_path, "cafe", Clock())
    kept.place()
    assert kept.add(line("first"))
    kept.flush()

    assert not kept.add(line("second"))
    (tmp_path / "payloads").unlink()
    kept.flush()

    assert found(tmp_path, kept.name, "first") == line("first")
    assert kept.lost_count == 1


def test_a_full_disk_keeps_what_did_not_fit_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Payloads(tmp_path, "cafe", Clock())
    kept.place()
    kept.add(line("first"))
    kept.add(line("second"))
    room, write = len(line("first")) + 5, os.write

    def confined(fd: int, block: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written, room = write(fd, block[:room]), 0
        return written

    monkeypatch.setattr(os, "write", confined)
    kept.flush()
    assert kept.last_error == "Payloads cannot be written: No space left on device"
    assert found(tmp_path, kept.name, "first") == line("first")
    assert found(tmp_path, kept.name, "second") is None

    monkeypatch.undo()
    kept.flush()
    assert kept.last_error is None
    assert kept.lost_count == 0
    assert found(tmp_path, kept.name, "second") == line("second")


def test_a_file_that_was_removed_is_begun_again(tmp_path: Path) -> None:
    clock = Clock()
    kept = Payloads(tmp_path, "cafe", clock)
    place = kept.place()
    kept.add(line("first"))
    kept.flush()
    (file,) = payload_files(tmp_path)
    file.unlink()
    clock.now += module.CHECK_SECONDS
    kept.add(line("second"))
    kept.flush()

    assert found(tmp_path, place, "first") is None
    assert found(tmp_path, place, "second") == line("second")


def test_what_is_waiting_is_written_at_the_end(tmp_path: Path) -> None:
    kept = Payloads(tmp_path, "cafe", Clock())
    place = kept.place()
    kept.add(line("last"))
    kept.close()

    assert found(tmp_path, place, "last") == line("last")


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/../b", "2026-07-28/..", "", "a/b/c"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    path = payload_path(tmp_path, name)
    assert path is None or path.is_relative_to(tmp_path / "payloads")
    assert found(tmp_path, name, "x") is None


def test_what_waits_across_an_hour_goes_to_the_file_of_its_own_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    kept = Payloads(tmp_path, "cafe", clock)
    (tmp_path / "payloads").write_text("in the way")
    first = kept.place()
    kept.add(line("first"))
    kept.flush()
    clock.now += module.HOUR_SECONDS
    second = kept.place()
    kept.add(line("second"))
    (tmp_path / "payloads").unlink()
    kept.flush()

    assert first != second
    assert found(tmp_path, first, "first") == line("first")
    assert found(tmp_path, second, "second") == line("second")
    kept.close()
    assert kept.lost_count == 0


def test_on_a_slow_disk_it_waits_for_the_journal_to_write_it(tmp_path: Path) -> None:
    kept = Payloads(tmp_path, "cafe", Clock())
    kept.deferred = True
    place = kept.place()
    kept.add(line("first"))
    kept.flush()
    assert found(tmp_path, place, "first") is None

    kept.begin()
    kept.add(line("second"))  # While the first is being written.
    kept.work()
    kept.finish()
    assert found(tmp_path, place, "first") == line("first")
    assert found(tmp_path, place, "second") is None
    kept.deferred = False
    kept.close()
    assert found(tmp_path, place, "second") == line("second")
    assert kept.lost_count == 0


def test_what_a_disk_that_hangs_has_not_taken_is_counted_at_the_end(tmp_path: Path) -> None:
    kept = Payloads(tmp_path, "cafe", Clock())
    kept.deferred = True
    kept.place()
    kept.add(line("first"))
    kept.begin()
    kept.add(line("second"))
    kept.close()
    assert kept.lost_count == 2
