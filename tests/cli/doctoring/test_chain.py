"""The end of the journal, looked at quickly."""

from pathlib import Path

import pytest

from anyport.cli.doctoring import chain
from anyport.cli.doctoring.chain import End, look
from anyport.record.heads import FILE, KEY_FILE
from tests.record.story import file_of, heads_of, written


def test_a_journal_that_nobody_touched_fits(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 5))
    written(tmp_path, 2, writer="deadbeef")

    end = look(tmp_path)

    assert (end.records, end.head, end.head_seen, end.fault) == (7, "0badcafe:5", True, None)
    assert end.newest is not None
    assert end.newest.isoformat() == "2026-07-28T12:00:00.250000+00:00"


def test_where_there_is_nothing_nothing_is_wrong(tmp_path: Path) -> None:
    assert look(tmp_path) == End()


def test_a_journal_without_heads_is_looked_at_all_the_same(tmp_path: Path) -> None:
    written(tmp_path, 3)

    assert (look(tmp_path).records, look(tmp_path).head) == (3, None)


def test_a_record_that_was_changed_is_found(tmp_path: Path) -> None:
    written(tmp_path, 5)
    path = file_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"2026-07-28", b"2026-07-27", 1)
    path.write_bytes(b"".join(lines))

    assert look(tmp_path).fault == "record 4 of writer 0badcafe was changed"


def test_a_record_that_was_taken_out_is_missed(tmp_path: Path) -> None:
    written(tmp_path, 5)
    path = file_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[2]
    path.write_bytes(b"".join(lines))

    assert look(tmp_path).fault == "records of writer 0badcafe are missing before 4"


def test_a_journal_that_was_written_anew_does_not_fit_its_head(tmp_path: Path) -> None:
    other = tmp_path / "other"
    heads_of(tmp_path).sign(written(tmp_path, 3))
    written(other, 1, writer="deadbeef")
    written(other, 3)
    changed = file_of(other).read_bytes().replace(b"12:00", b"13:00")
    file_of(tmp_path).write_bytes(changed)

    assert look(tmp_path).fault is not None


def test_a_head_that_cannot_be_trusted_is_told(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 3))
    heads = tmp_path / FILE
    heads.write_bytes(heads.read_bytes().replace(b'"seq":3', b'"seq":2'))

    assert "cannot be trusted" in (look(tmp_path).fault or "")


def test_a_key_that_others_can_read_is_told(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 3))
    (tmp_path / KEY_FILE).chmod(0o644)

    assert "others than its owner" in (look(tmp_path).fault or "")


def test_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 1))
    written(tmp_path, 50, writer="deadbeef")
    monkeypatch.setattr(chain, "TAIL_BYTES_MAX", 4096)

    end = look(tmp_path)

    assert 0 < end.records < 50
    assert (end.head, end.head_seen, end.fault) == ("0badcafe:1", False, None)
