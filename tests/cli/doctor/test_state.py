"""The state directory, judged."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from anyport.cli.doctor import state as module
from anyport.cli.doctor.findings import Level, Section
from anyport.cli.doctor.state import (
    JournalEnd,
    StateCondition,
    check_journal_end,
    check_state,
    inspect_state,
)
from anyport.config.model import RecordConfig
from anyport.record.index.index import INDEX_FILE as INDEX
from anyport.record.index.index import Index
from anyport.record.tamper.checkpoints import HEADS_FILE, KEY_FILE
from tests.cli.doctor.facts import codes, the
from tests.record.story import file_of, heads_of, written

NOW = 1_785_240_000.25
"""When the stories of the record happen."""

GOOD = StateCondition(directory=Path("/state"), exists=True, free_bytes=2**40)


def judged(directory: Path, now: float = NOW) -> Section:
    return check_state(inspect_state(directory, now), RecordConfig(), now)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory as a gateway leaves it."""
    directory = tmp_path / "state"
    heads_of(directory).sign(written(directory, 3))
    index = Index(directory)
    index.catch_up()
    index.close()
    return directory


def content(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_good_one_is_one_line(state: Path) -> None:
    section = judged(state)

    assert codes(section) == []
    assert section.summary.startswith(f"{state}: a journal of ")
    assert "the last 3 records are valid" in the(section, "journal").what


def test_looking_changes_nothing(state: Path) -> None:
    before = content(state)

    judged(state)

    assert content(state) == before


def test_one_that_is_not_there_yet_will_be_made(tmp_path: Path) -> None:
    section = judged(tmp_path / "not" / "yet")

    assert section.level is Level.OK
    assert section.summary.endswith("does not exist yet")
    assert not (tmp_path / "not").exists()


def test_a_file_in_its_place_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    assert codes(judged(tmp_path / "state"), Level.PROBLEM) == ["unusable"]


def test_one_that_cannot_be_written_or_made_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # Root may write anywhere.

    assert the(judged(tmp_path), "unusable").fix == f"chmod u+rwx {tmp_path}"
    made = the(judged(tmp_path / "new"), "unusable")
    assert made.what == f"{tmp_path / 'new'} cannot be created in {tmp_path}"


def test_what_others_can_read_is_to_be_closed(state: Path) -> None:
    file_of(state).chmod(0o644)

    finding = the(judged(state), "private")

    assert finding.level is Level.WARNING
    assert f"can read {state}"[:60] in finding.what
    assert finding.fix == f"chmod -R go= {state}"


def test_a_disk_that_is_nearly_full_is_a_warning() -> None:
    section = check_state(replace(GOOD, free_bytes=2**20), RecordConfig(), NOW)

    assert codes(section, Level.WARNING) == ["disk"]


def test_more_than_is_kept_is_a_hint() -> None:
    record = RecordConfig(keep_bytes=1000, payload_bytes=1000)

    assert codes(check_state(replace(GOOD, journal_bytes=1200), record, NOW)) == []
    assert codes(check_state(replace(GOOD, journal_bytes=1300), record, NOW)) == ["kept"]
    assert "payloadBytes" in next(
        finding.fix
        for finding in check_state(replace(GOOD, payload_bytes=1300), record, NOW).findings
        if finding.level is Level.HINT
    )


def test_a_journal_that_was_changed_is_a_problem(state: Path) -> None:
    path = file_of(state)
    path.write_bytes(path.read_bytes().replace(b"2026-07-28", b"2026-07-27"))

    finding = the(judged(state), "journal")

    assert (finding.level, finding.fix) == (Level.PROBLEM, "anyport verify")


def test_a_head_that_lies_further_back_is_good_and_said() -> None:
    end = JournalEnd(records=5, head="0badcafe:1")

    told = the(check_state(replace(GOOD, end=end), RecordConfig(), NOW), "journal")

    assert told.level is Level.OK
    assert "is older" in told.what


def test_an_event_of_the_future_shows_a_wrong_clock() -> None:
    def section(seconds: float) -> Section:
        end = JournalEnd(records=1, newest=datetime.fromtimestamp(NOW + seconds, UTC))
        return check_state(replace(GOOD, end=end), RecordConfig(), NOW)

    assert codes(section(5)) == []
    assert codes(section(3600)) == ["clock"]
    assert "3,600 s ahead" in the(section(3600), "clock").what


def test_an_index_that_is_damaged_or_of_another_version_is_a_warning(state: Path) -> None:
    index = state / INDEX
    with sqlite3.connect(index) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert "another schema version (99" in the(judged(state), "index").what

    index.write_bytes(b"this is no database, and long enough to be taken for one" * 10)
    assert the(judged(state), "index").level is Level.WARNING


def test_an_index_that_somebody_writes_to_is_good(state: Path) -> None:
    index = Index(state)
    try:
        assert codes(judged(state)) == []
    finally:
        index.close()


def test_files_of_processes_that_ended_are_told(state: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lists = state / "lists"
    lists.mkdir(mode=0o700)
    for name in (f"a.{ended.pid}.tmp", f"b.{os.getpid()}.tmp"):
        (lists / name).touch(mode=0o600)
    (state / "heads.tmp").touch(mode=0o600)
    os.utime(state / "heads.tmp", (NOW, NOW))
    (state / f"{INDEX}.unusable").touch(mode=0o600)

    now = judged(state)
    later = judged(state, NOW + 7200)

    assert f"a.{ended.pid}.tmp" in the(now, "leftovers").fix
    assert f"b.{os.getpid()}.tmp" not in the(now, "leftovers").fix
    assert "heads.tmp" not in the(now, "leftovers").fix
    assert "heads.tmp" in the(later, "leftovers").fix
    assert "unusable" in the(later, "leftovers").fix


def test_a_journal_that_nobody_touched_fits(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 5))
    written(tmp_path, 2, writer="deadbeef")

    end = check_journal_end(tmp_path)

    assert (end.records, end.head, end.head_seen, end.fault) == (7, "0badcafe:5", True, None)
    assert end.newest is not None
    assert end.newest.isoformat() == "2026-07-28T12:00:00.250000+00:00"


def test_where_there_is_nothing_nothing_is_wrong(tmp_path: Path) -> None:
    assert check_journal_end(tmp_path) == JournalEnd()


def test_a_journal_without_heads_is_looked_at_all_the_same(tmp_path: Path) -> None:
    written(tmp_path, 3)

    assert (check_journal_end(tmp_path).records, check_journal_end(tmp_path).head) == (3, None)


def test_a_record_that_was_changed_is_found(tmp_path: Path) -> None:
    written(tmp_path, 5)
    path = file_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"2026-07-28", b"2026-07-27", 1)
    path.write_bytes(b"".join(lines))

    assert check_journal_end(tmp_path).fault == "record 4 of writer 0badcafe was changed"


def test_a_record_that_was_taken_out_is_missed(tmp_path: Path) -> None:
    written(tmp_path, 5)
    path = file_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[2]
    path.write_bytes(b"".join(lines))

    assert check_journal_end(tmp_path).fault == "records of writer 0badcafe are missing before 4"


def test_a_journal_that_was_written_anew_does_not_fit_its_head(tmp_path: Path) -> None:
    other = tmp_path / "other"
    heads_of(tmp_path).sign(written(tmp_path, 3))
    written(other, 1, writer="deadbeef")
    written(other, 3)
    changed = file_of(other).read_bytes().replace(b"12:00", b"13:00")
    file_of(tmp_path).write_bytes(changed)

    assert check_journal_end(tmp_path).fault is not None


def test_a_head_that_cannot_be_trusted_is_told(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 3))
    heads = tmp_path / HEADS_FILE
    heads.write_bytes(heads.read_bytes().replace(b'"seq":3', b'"seq":2'))

    assert "cannot be trusted" in (check_journal_end(tmp_path).fault or "")


def test_a_key_that_others_can_read_is_told(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 3))
    (tmp_path / KEY_FILE).chmod(0o644)

    assert "users other than its owner" in (check_journal_end(tmp_path).fault or "")


def test_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 1))
    written(tmp_path, 50, writer="deadbeef")
    monkeypatch.setattr(module, "TAIL_BYTES_MAX", 4096)

    end = check_journal_end(tmp_path)

    assert 0 < end.records < 50
    assert (end.head, end.head_seen, end.fault) == ("0badcafe:1", False, None)
