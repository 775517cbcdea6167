import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from anyport.record.tamper import checkpoints as heads_module
from anyport.record.tamper.chain import INITIAL_HASH, Link
from anyport.record.tamper.checkpoints import (
    HEADS_FILE,
    KEY_FILE,
    BadStatement,
    ChainSpan,
    CheckpointState,
    Head,
    RecordRef,
    Statement,
    Summary,
    Tombstone,
    encode_signed,
    find_last_statement,
    hash_statement,
    is_signature_valid,
    public_key,
    read_statement,
    read_statements,
    sign_text,
    signed_text,
    trusted_keys,
)
from anyport.record.tamper.keys import DamagedKeys
from tests.record.story import heads_of, written

LINK = Link("0badcafe", 7, b"a" * 32)


def read(directory: Path) -> list[bytes]:
    return (directory / HEADS_FILE).read_bytes().splitlines()


def test_a_head_is_signed_and_kept_beside_the_journal(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 3))
    (line,) = read(tmp_path)
    statement = json.loads(line)
    assert (statement["writer"], statement["seq"], statement["number"]) == ("0badcafe", 3, 1)
    assert read_statement(line, trusted_keys(tmp_path)).key == statement["key"]


@pytest.mark.parametrize("syncs", [True, False])
def test_record_and_head_are_on_the_disk_itself_unless_that_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncs: bool
) -> None:
    link = written(tmp_path, 3)
    heads_of(tmp_path).sign(link)  # There are keys now, which are made once.
    synced: list[str] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(
            os, name, lambda fd: synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        )
    heads_of(tmp_path, anchor=tmp_path / "anchor.jsonl", syncs=syncs).sign(link)
    assert synced == (["events.jsonl", HEADS_FILE, "anchor.jsonl"] if syncs else [])


def test_its_files_are_private_to_the_user(tmp_path: Path) -> None:
    heads_of(tmp_path / "state").sign(LINK)
    for name in (HEADS_FILE, KEY_FILE):
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600


def test_heads_follow_each_other_whoever_signs(tmp_path: Path) -> None:
    ours, theirs = heads_of(tmp_path, key=1), heads_of(tmp_path, key=2)
    for signer in (ours, theirs, ours):
        signer.sign(LINK)
    known, fault = read_statements((tmp_path / HEADS_FILE).read_bytes(), trusted_keys(tmp_path))
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
    known, fault = read_statements((tmp_path / HEADS_FILE).read_bytes(), trusted_keys(tmp_path))
    assert fault is None
    assert known.last_head is not None
    assert known.last_head.number == 80


def test_what_a_crash_left_is_closed_first(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    signer = heads_of(tmp_path, anchor=anchor)
    signer.sign(LINK)
    for path in (tmp_path / HEADS_FILE, anchor):
        path.write_bytes(path.read_bytes() + b'{"kind":"he')
    signer.sign(LINK)
    for path in (tmp_path / HEADS_FILE, anchor):
        lines = path.read_bytes().splitlines()
        assert lines[1] == b'{"kind":"he'
        assert json.loads(lines[2])["number"] == 2


def test_an_anchor_gets_every_statement_too(tmp_path: Path) -> None:
    anchor = tmp_path / "elsewhere"
    signer = heads_of(tmp_path / "state", anchor=anchor)
    signer.sign(LINK)
    signer.sign_removal("events/2026-07/events-0001.jsonl", 10, "", [], None)
    assert anchor.read_bytes() == (tmp_path / "state" / HEADS_FILE).read_bytes()


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
    signer.sign_removal("a", 10, "2026", [ChainSpan("0badcafe", 1, 5, "5" * 32, 5)], None)
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
    known, fault = read_statements((tmp_path / HEADS_FILE).read_bytes(), trusted_keys(tmp_path))
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
    evidence = (tmp_path / HEADS_FILE).read_bytes().replace(b'"seq":7', b'"seq":8', 1)
    (tmp_path / HEADS_FILE).write_bytes(evidence)
    signer.summarise(lambda: {"0badcafe"})
    assert (tmp_path / HEADS_FILE).read_bytes() == evidence


def test_nothing_heavy_is_imported_before_a_head_is_signed() -> None:
    code = "import sys, anyport.record.tamper.checkpoints\nsys.exit('cryptography' in sys.modules)"
    source = str(Path(heads_module.__file__).parents[3])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": source}
    )


# Statements


KEY = b"\x01" * 32
OURS = public_key(KEY).hex()
NOW = "2026-07-28T12:00:00.250000+00:00"


def line_of(statement: Statement, key: bytes = KEY) -> bytes:
    return encode_signed(statement, sign_text(key, signed_text(statement)))


def head(number: int = 1, previous: str = INITIAL_HASH.decode(), *, seq: int = 10) -> Head:
    return Head(
        number=number,
        previous=previous,
        time=NOW,
        key=OURS,
        writer="0badcafe",
        seq=seq,
        hash=f"{seq:032x}",
    )


def story(count: int) -> list[bytes]:
    """Heads that follow each other."""
    lines: list[bytes] = []
    previous = INITIAL_HASH.decode()
    for number in range(1, count + 1):
        lines.append(line_of(head(number, previous, seq=number * 10)))
        previous = hash_statement(lines[-1][:-1])
    return lines


def test_a_statement_is_one_line_and_read_again() -> None:
    line = line_of(head())
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line)["kind"] == "head"
    assert read_statement(line[:-1], {OURS}) == head()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda line: line.replace(b'"seq":10', b'"seq":11'), "its signature is invalid"),
        (lambda line: line.replace(b'"signature"', b'"signed"'), "it has no signature"),
        (lambda line: line[:-2], "not a signed statement"),
        (lambda line: b'{"kind":"will"}', "not a signed statement"),
        (lambda line: b"[" * 10_000, "not a signed statement"),
        (
            lambda line: line.replace(OURS.encode(), b"00" * 32),
            "a key that does not belong to this journal",
        ),
    ],
)
def test_a_statement_that_was_tampered_with_is_not_believed(
    spoil: Callable[[bytes], bytes], complaint: str
) -> None:
    with pytest.raises(BadStatement, match=complaint):
        read_statement(spoil(line_of(head())[:-1]), {OURS})


def test_a_statement_of_a_stranger_is_not_believed() -> None:
    theirs = b"\x02" * 32
    with pytest.raises(BadStatement, match="its signature is invalid"):
        read_statement(line_of(head(), theirs)[:-1], {OURS})


def test_the_last_statement_of_a_file_is_the_one_to_follow() -> None:
    one, two = story(2)
    assert find_last_statement(b"") == (0, INITIAL_HASH.decode())
    assert find_last_statement(one + two) == (2, hash_statement(two[:-1]))
    assert find_last_statement(one + two[:40]) == (1, hash_statement(one[:-1]))
    assert find_last_statement(one + two[:40] + b"\n") == (1, hash_statement(one[:-1]))


def test_a_file_of_statements_is_read_to_its_end() -> None:
    known, fault = read_statements(b"".join(story(3)), {OURS})
    assert fault is None
    assert known.heads == {"0badcafe": RecordRef("0badcafe", 30, f"{30:032x}")}
    assert [seq for _, seq in known.signed_hashes] == [10, 20, 30]
    assert known.last_head is not None
    assert known.last_head.number == 3


def test_what_a_crash_left_of_a_statement_is_skipped() -> None:
    one, two, three = story(3)
    for raw in (one + two[:50] + b"\n" + two + three, one + two + three + three[:9]):
        known, fault = read_statements(raw, {OURS})
        assert fault is None
        assert len(known.signed_hashes) == 3


@pytest.mark.parametrize("gone", [0, 1])
def test_a_statement_that_was_taken_out_is_missed(gone: int) -> None:
    lines = story(3)
    del lines[gone]
    known, fault = read_statements(b"".join(lines), {OURS})
    assert fault == f"line {gone + 1}: it does not follow the statement before it: one is missing"
    assert len(known.signed_hashes) == gone


def test_statements_in_another_order_are_noticed() -> None:
    one, two, three = story(3)
    assert read_statements(one + three + two, {OURS})[1] is not None


def test_an_anchor_may_have_fewer() -> None:
    one, _, three = story(3)
    known, fault = read_statements(one + three, {OURS}, must_be_complete=False)
    assert fault is None
    assert len(known.signed_hashes) == 2


def test_a_summary_stands_for_what_was_before_it() -> None:
    span = ChainSpan("0badcafe", 1, 4, "4" * 32, 4)
    summary = Summary(
        number=7,
        previous="f" * 32,
        time=NOW,
        key=OURS,
        heads=(RecordRef("0badcafe", 9, "9" * 32),),
        spans=(span,),
        removed=40,
        until=NOW,
        faults=("something",),
    )
    line = line_of(summary)
    known, fault = read_statements(line + line_of(head(8, hash_statement(line[:-1]))), {OURS})
    assert fault is None
    assert known.removed == 40
    assert known.spans == {"0badcafe": span}
    assert known.removed_ends == {("0badcafe", 4): "4" * 32}
    assert known.faults == ["something"]
    assert sorted(known.signed_hashes) == [("0badcafe", 9), ("0badcafe", 10)]
    assert read_statements(line_of(head()) + line, {OURS})[1] is not None


def test_a_tombstone_says_which_records_are_gone() -> None:
    known = CheckpointState()
    known.add(
        Tombstone(
            number=1,
            previous=INITIAL_HASH.decode(),
            time=NOW,
            key=OURS,
            file="events/2026-07/events-0001.jsonl",
            bytes=1000,
            until=NOW,
            spans=(
                ChainSpan("0badcafe", 1, 5, "5" * 32, 5),
                ChainSpan("deadbeef", 3, 4, "4" * 32, 2),
            ),
            fault="record 3 was changed",
        )
    )
    assert known.removed == 7
    assert known.is_removed(Link("0badcafe", 5, b""))
    assert not known.is_removed(Link("0badcafe", 6, b""))
    assert not known.is_removed(Link("11111111", 1, b""))
    assert known.faults == ["events/2026-07/events-0001.jsonl, removed since: record 3 was changed"]
    heads, spans = known.limit_to_writers({"deadbeef"})
    assert heads == ()
    assert [span.writer for span in spans] == ["deadbeef"]


# Signatures


# RFC 8032, section 7.1, test 2.
RFC_KEY = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNED = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_a_signature_is_the_one_of_the_standard() -> None:
    assert public_key(RFC_KEY) == PUBLIC
    assert sign_text(RFC_KEY, b"\x72") == SIGNED
    assert is_signature_valid(PUBLIC, b"\x72", SIGNED)


def test_nothing_else_is_signed() -> None:
    assert not is_signature_valid(PUBLIC, b"\x73", SIGNED)
    assert not is_signature_valid(PUBLIC, b"\x72", SIGNED[:-1] + b"\x01")
    assert not is_signature_valid(PUBLIC, b"\x72", b"short")
    assert not is_signature_valid(public_key(b"\x01" * 32), b"\x72", SIGNED)
    assert not is_signature_valid(b"no key", b"\x72", SIGNED)
