import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anyport.record import heads as heads_module
from anyport.record.chain import Link
from anyport.record.heads import FILE, KEY_FILE, trusted_keys
from anyport.record.keys import DamagedKeys
from anyport.record.statements import Span, Summary, read_statement, read_statements
from tests.record.story import heads_of, written

LINK = Link("0badcafe", 7, b"a" * 32)


def read(directory: Path) -> list[bytes]:
    return (directory / FILE).read_bytes().splitlines()


def test_a_head_is_signed_and_kept_beside_the_journal(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 3))
    (line,) = read(tmp_path)
    statement = json.loads(line)
    assert (statement["writer"], statement["seq"], statement["number"]) == ("0badcafe", 3, 1)
    assert read_statement(line, trusted_keys(tmp_path)).key == statement["key"]


def test_its_files_are_private_to_the_user(tmp_path: Path) -> None:
    heads_of(tmp_path / "state").sign(LINK)
    for name in (FILE, KEY_FILE):
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600


def test_heads_follow_each_other_whoever_signs(tmp_path: Path) -> None:
    ours, theirs = heads_of(tmp_path, key=1), heads_of(tmp_path, key=2)
    for signer in (ours, theirs, ours):
        signer.sign(LINK)
    known, fault = read_statements((tmp_path / FILE).read_bytes(), trusted_keys(tmp_path))
    assert fault is None
    assert known.last_head is not None
    assert known.last_head.number == 3


def test_heads_that_are_signed_at_once_all_follow(tmp_path: Path) -> None:
    def sign_many() -> None:
        for _ in range(20):
            heads_of(tmp_path).sign(LINK)

    threads = [threading.Thread(target=sign_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    known, fault = read_statements((tmp_path / FILE).read_bytes(), trusted_keys(tmp_path))
    assert fault is None
    assert known.last_head is not None
    assert known.last_head.number == 80


def test_what_a_crash_left_is_closed_first(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    signer = heads_of(tmp_path, anchor=anchor)
    signer.sign(LINK)
    for path in (tmp_path / FILE, anchor):
        path.write_bytes(path.read_bytes() + b'{"kind":"he')
    signer.sign(LINK)
    for path in (tmp_path / FILE, anchor):
        lines = path.read_bytes().splitlines()
        assert lines[1] == b'{"kind":"he'
        assert json.loads(lines[2])["number"] == 2


def test_an_anchor_gets_every_statement_too(tmp_path: Path) -> None:
    anchor = tmp_path / "elsewhere"
    signer = heads_of(tmp_path / "state", anchor=anchor)
    signer.sign(LINK)
    signer.bury("events/2026-07/events-0001.jsonl", 10, "", [], None)
    assert anchor.read_bytes() == (tmp_path / "state" / FILE).read_bytes()


def test_a_statement_says_whether_it_went_to_an_anchor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def anchored() -> list[bool]:
        return [json.loads(line).get("anchored", False) for line in read(tmp_path)]

    heads_of(tmp_path).sign(LINK)
    heads_of(tmp_path, anchor=tmp_path / "anchor").sign(LINK)
    heads_of(tmp_path).sign(LINK)
    assert anchored() == [False, True, False]
    monkeypatch.setattr(heads_module, "HEADS_BYTES_MAX", 100)
    heads_of(tmp_path).summarise(lambda: {"0badcafe"})
    assert anchored() == [True]


def test_an_anchor_that_cannot_be_written_costs_no_head(tmp_path: Path) -> None:
    signer = heads_of(tmp_path / "state", anchor=tmp_path / "no" / "anchor")
    with pytest.raises(FileNotFoundError):
        signer.sign(LINK)
    assert len(read(tmp_path / "state")) == 1


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        heads_of(tmp_path, anchor=Path("/dev/full")).sign(LINK)


def test_a_key_that_others_could_read_signs_nothing(tmp_path: Path) -> None:
    signer = heads_of(tmp_path)
    signer.sign(LINK)
    key = (tmp_path / KEY_FILE).read_bytes()
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(DamagedKeys):
        signer.sign(LINK)
    assert (tmp_path / KEY_FILE).read_bytes() == key
    assert len(read(tmp_path)) == 1


def test_a_long_file_becomes_one_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = tmp_path / "anchor"
    signer = heads_of(tmp_path, anchor=anchor)
    signer.sign(Link("deadbeef", 1, b"b" * 32))
    signer.bury("a", 10, "2026", [Span("0badcafe", 1, 5, "5" * 32, 5)], None)
    for seq in range(7, 10):
        signer.sign(Link("0badcafe", seq, b"%032d" % seq))
    signer.summarise(lambda: {"0badcafe"})
    assert len(read(tmp_path)) == 5  # It is not long yet.

    monkeypatch.setattr(heads_module, "HEADS_BYTES_MAX", 100)
    signer.summarise(lambda: {"0badcafe"})
    (line,) = read(tmp_path)
    summary = read_statement(line, trusted_keys(tmp_path))
    assert isinstance(summary, Summary)
    assert [(mark.writer, mark.seq) for mark in summary.heads] == [("0badcafe", 9)]
    assert [span.last for span in summary.spans] == [5]
    assert (summary.number, summary.removed, summary.until) == (6, 5, "2026")
    assert anchor.read_bytes().splitlines()[-1] == line

    signer.sign(LINK)
    known, fault = read_statements((tmp_path / FILE).read_bytes(), trusted_keys(tmp_path))
    assert fault is None
    assert known.last_head is not None
    assert known.last_head.number == 7


def test_a_file_with_a_fault_in_it_is_kept_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads_module, "HEADS_BYTES_MAX", 100)
    signer = heads_of(tmp_path)
    for _ in range(3):
        signer.sign(LINK)
    evidence = (tmp_path / FILE).read_bytes().replace(b'"seq":7', b'"seq":8', 1)
    (tmp_path / FILE).write_bytes(evidence)
    signer.summarise(lambda: {"0badcafe"})
    assert (tmp_path / FILE).read_bytes() == evidence


def test_nothing_heavy_is_imported_before_a_head_is_signed() -> None:
    code = "import sys, anyport.record.heads\nsys.exit('cryptography' in sys.modules)"
    source = str(Path(heads_module.__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": source}
    )
