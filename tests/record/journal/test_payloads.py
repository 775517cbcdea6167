"""Payloads lie beside the journal, an hour or some megabytes in a file."""

import errno
import os
import stat
from pathlib import Path

import pytest

from anyport.record.journal import payloads as module
from anyport.record.journal.payloads import (
    PAYLOAD_FILES_OPEN_MAX,
    PayloadReader,
    PayloadWriter,
    payload_files,
    payload_path,
)
from tests.record.recorded import PAYLOAD_FILE, find_payload, payload_line, write_payloads

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
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    place = writer.next_file_name()
    for number in range(3):
        assert writer.add(line(f"span{number}"))
    writer.flush()

    assert place == "2026-07-28/12-cafe-0"
    assert found(tmp_path, place, "span1") == line("span1")
    assert found(tmp_path, place, "span9") is None
    (file,) = payload_files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_payload_that_looks_like_the_beginning_of_a_line_is_not_taken_for_one(
    tmp_path: Path,
) -> None:
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    place = writer.next_file_name()
    writer.add(b'{"span_id":"a","frames":[{"span_id":"%b","x":1}]}' % span("b").encode())
    writer.add(line("b", "the real one"))
    writer.flush()

    assert found(tmp_path, place, "b") == line("b", "the real one")


def test_every_hour_has_a_file_of_its_own(tmp_path: Path) -> None:
    clock = Clock()
    writer = PayloadWriter(tmp_path, "cafe", clock)
    names = []
    for hour in range(3):
        clock.now = NOON + hour * 3600
        names.append(writer.next_file_name())
        writer.add(line(f"span{hour}"))
        writer.flush()

    assert names == [f"2026-07-28/{12 + hour}-cafe-0" for hour in range(3)]
    assert [path.stem for path in payload_files(tmp_path)] == [name[11:] for name in names]


def test_a_file_that_is_large_enough_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 120)
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    names = []
    for number in range(4):
        names.append(writer.next_file_name())
        writer.add(line(f"span{number}", "x" * 60))
        writer.flush()

    assert names == [f"2026-07-28/12-cafe-{number // 2}" for number in range(4)]


def test_what_does_not_fit_is_counted_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 50)
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    writer.next_file_name()

    assert not writer.add(line("span", "x" * 60))
    assert writer.lost_count == 1


def test_a_folder_that_cannot_be_written_loses_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "payloads").write_text("in the way")
    monkeypatch.setattr(module, "PENDING_BYTES_MAX", 10)
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    writer.next_file_name()
    assert writer.add(line("first"))
    writer.flush()

    assert not writer.add(line("second"))
    (tmp_path / "payloads").unlink()
    writer.flush()

    assert found(tmp_path, writer.name, "first") == line("first")
    assert writer.lost_count == 1


def test_a_full_disk_keeps_what_did_not_fit_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    writer.next_file_name()
    writer.add(line("first"))
    writer.add(line("second"))
    room, write = len(line("first")) + 5, os.write

    def confined(fd: int, block: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written, room = write(fd, block[:room]), 0
        return written

    monkeypatch.setattr(os, "write", confined)
    writer.flush()
    assert writer.last_error == "Payloads cannot be written: No space left on device"
    assert found(tmp_path, writer.name, "first") == line("first")
    assert found(tmp_path, writer.name, "second") is None

    monkeypatch.undo()
    writer.flush()
    assert writer.last_error is None
    assert writer.lost_count == 0
    assert found(tmp_path, writer.name, "second") == line("second")


def test_a_file_that_was_removed_is_begun_again(tmp_path: Path) -> None:
    clock = Clock()
    writer = PayloadWriter(tmp_path, "cafe", clock)
    place = writer.next_file_name()
    writer.add(line("first"))
    writer.flush()
    (file,) = payload_files(tmp_path)
    file.unlink()
    clock.now += module.CHECK_SECONDS
    writer.add(line("second"))
    writer.flush()

    assert found(tmp_path, place, "first") is None
    assert found(tmp_path, place, "second") == line("second")


def test_what_is_waiting_is_written_at_the_end(tmp_path: Path) -> None:
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    place = writer.next_file_name()
    writer.add(line("last"))
    writer.close()

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
    writer = PayloadWriter(tmp_path, "cafe", clock)
    (tmp_path / "payloads").write_text("in the way")
    first = writer.next_file_name()
    writer.add(line("first"))
    writer.flush()
    clock.now += module.HOUR_SECONDS
    second = writer.next_file_name()
    writer.add(line("second"))
    (tmp_path / "payloads").unlink()
    writer.flush()

    assert first != second
    assert found(tmp_path, first, "first") == line("first")
    assert found(tmp_path, second, "second") == line("second")
    writer.close()
    assert writer.lost_count == 0


def test_on_a_slow_disk_it_waits_for_the_journal_to_write_it(tmp_path: Path) -> None:
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    writer.is_deferred = True
    place = writer.next_file_name()
    writer.add(line("first"))
    writer.flush()
    assert found(tmp_path, place, "first") is None

    writer.prepare_write()
    writer.add(line("second"))  # While the first is being written.
    writer.write_prepared()
    writer.finish_write()
    assert found(tmp_path, place, "first") == line("first")
    assert found(tmp_path, place, "second") is None
    writer.is_deferred = False
    writer.close()
    assert found(tmp_path, place, "second") == line("second")
    assert writer.lost_count == 0


def test_on_a_disk_that_has_to_keep_it_a_line_is_synced_and_so_is_the_place_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    error: int | None = None

    def sync(fd: int) -> None:
        did.append(Path(os.readlink(f"/proc/self/fd/{fd}")).suffix or "folder")
        if error is not None:
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    writer.syncs = True
    place = writer.next_file_name()
    writer.add(line("first"))
    writer.flush()
    assert did == [".jsonl", *["folder"] * 4]
    did.clear()
    writer.add(line("second"))
    writer.flush()
    assert did == [".jsonl"]

    error = errno.EIO
    writer.add(line("third"))
    writer.flush()
    assert writer.last_error == "Payloads cannot be written: Input/output error"
    error = None
    writer.add(line("fourth"))
    writer.flush()
    assert writer.last_error is None
    lines = (payload_path(tmp_path, place) or tmp_path).read_bytes().splitlines()
    assert lines == [line(name) for name in ("first", "second", "third", "fourth")]
    writer.close()


def test_what_a_disk_that_hangs_has_not_taken_is_counted_at_the_end(tmp_path: Path) -> None:
    writer = PayloadWriter(tmp_path, "cafe", Clock())
    writer.is_deferred = True
    writer.next_file_name()
    writer.add(line("first"))
    writer.prepare_write()
    writer.add(line("second"))
    writer.close()
    assert writer.lost_count == 2


# PayloadReader


A, B = "a" * 16, "b" * 16


def test_each_exchange_is_found_in_its_file(tmp_path: Path) -> None:
    write_payloads(tmp_path, payload_line(A), payload_line(B))
    with PayloadReader(tmp_path) as shelf:
        assert shelf.read_line(PAYLOAD_FILE, A) == payload_line(A)
        assert shelf.read_line(PAYLOAD_FILE, B) == payload_line(B)


def test_many_files_can_be_asked_in_turn(tmp_path: Path) -> None:
    files = [f"2026-07-28/{hour:02}-1f3a9c0e-0" for hour in range(2 * PAYLOAD_FILES_OPEN_MAX)]
    for file in files:
        write_payloads(tmp_path, payload_line(A, secret=file), file=file)
    with PayloadReader(tmp_path) as shelf:
        for file in [*files, *files]:
            assert shelf.read_line(file, A) == payload_line(A, secret=file)


def test_an_id_within_what_was_said_is_not_its_own(tmp_path: Path) -> None:
    write_payloads(
        tmp_path, payload_line(B).replace(b'{"progress":1}', b'{"span_id":"%b"}' % A.encode())
    )
    with PayloadReader(tmp_path) as shelf:
        assert shelf.read_line(PAYLOAD_FILE, A) == b""


@pytest.mark.parametrize("file", ["2026-07-28/13-1f3a9c0e-0", "../../secrets", "", "x"])
def test_what_is_not_there_is_nothing(tmp_path: Path, file: str) -> None:
    write_payloads(tmp_path, b" " * 40, payload_line(B)[:-20])
    with PayloadReader(tmp_path) as shelf:
        assert shelf.read_line(file, A) == b""
        assert shelf.read_line(PAYLOAD_FILE, A) == b""


def test_a_line_without_its_end_is_not_there_yet(tmp_path: Path) -> None:
    path = write_payloads(tmp_path)
    path.write_bytes(payload_line(A)[:-20])
    with PayloadReader(tmp_path) as shelf:
        assert shelf.read_line(PAYLOAD_FILE, A) == b""
