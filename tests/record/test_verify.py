import os
import shutil
import threading
from pathlib import Path

import pytest

from anyport.record import segments as segments_module
from anyport.record import verify as verify_module
from anyport.record.chain import Chain, Link
from anyport.record.heads import FILE, KEY_FILE, trusted_keys
from anyport.record.outflow import RETRY_SECONDS
from anyport.record.segments import turn_over
from anyport.record.verify import (
    Outside,
    Report,
    StillChanging,
    verify,
)
from tests.record.story import ManualClock, file_of, heads_of, note, opened, written

OURS, THEIRS = "0badcafe", "deadbeef"


def checked(directory: Path, **outside: object) -> Report:
    return verify(directory, Outside(**outside))  # type: ignore[arg-type]


def kinds(directory: Path, **outside: object) -> list[str]:
    return [fault.kind for fault in checked(directory, **outside).faults]


def cut(directory: Path, count: int) -> None:
    """Take the last records out of a journal."""
    path = file_of(directory)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-count]))


# A good journal


def test_a_journal_that_nobody_touched_is_good(tmp_path: Path) -> None:
    head = written(tmp_path, 5)
    heads_of(tmp_path).sign(head)
    newest = written(tmp_path, 2, writer=THEIRS)
    report = checked(tmp_path)
    assert report.faults == ()
    assert (report.records, report.writers, report.files) == (7, 2, 1)
    assert (report.unsigned, report.removed, report.parts, report.unlinked) == (2, 0, 0, 0)
    assert report.newest == newest
    assert report.head is not None
    assert (report.head.writer, report.head.seq) == (OURS, 5)
    assert report.since == report.until == "2026-07-28T12:00:00.250000+00:00"
    assert report.keys == tuple(trusted_keys(tmp_path))


def test_nothing_is_good_too(tmp_path: Path) -> None:
    report = checked(tmp_path)
    assert (report.faults, report.records, report.head, report.newest) == ((), 0, None, None)


def test_chains_go_on_from_file_to_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", 1000)
    clock = ManualClock()
    journals = [opened(tmp_path, clock) for _ in range(3)]
    for n in range(40):
        note(journals[n % 3], n=n)
        journals[n % 3].flush()
        clock.now += RETRY_SECONDS / 2 if n != 20 else 7 * 86400
    for journal in journals:
        journal.close()
        assert journal.head is not None
        heads_of(tmp_path).sign(journal.head)
    report = checked(tmp_path)
    assert report.faults == ()
    assert (report.records, report.writers) == (40, 3)
    assert report.files > 5
    assert file_of(tmp_path, "2026-08").exists()


def test_a_torn_last_record_is_reported_and_is_no_fault(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 5))
    written(tmp_path, 3, writer=THEIRS)
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    report = checked(tmp_path)
    assert (report.faults, report.records, report.parts) == ((), 7, 1)
    written(tmp_path, 3, writer="11111111")
    report = checked(tmp_path)
    assert (report.faults, report.records, report.parts) == ((), 10, 1)


# What was cut, removed, rewritten, restored


def test_a_tail_that_was_cut_is_missed_by_its_head(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 9))
    cut(tmp_path, 3)
    (fault,) = checked(tmp_path).faults
    assert (fault.kind, fault.writer, fault.seq) == ("cut", OURS, 7)
    assert str(fault) == (
        f"writer {OURS} has written 9 records for sure, and the journal has 6 of them: "
        "the end was cut off"
    )


def test_the_last_head_tells_how_many_records_there_were(tmp_path: Path) -> None:
    journal, signer = opened(tmp_path, writer=OURS), heads_of(tmp_path)
    for n in range(6):
        note(journal, n=n)
        journal.flush()
        assert journal.head is not None
        signer.sign(journal.head)
    journal.close()
    file_of(tmp_path).unlink()
    (fault,) = checked(tmp_path).faults
    assert fault.text.startswith(f"writer {OURS} has written 6 records for sure, and none is there")


def test_what_no_head_vouches_for_can_be_cut_unseen(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 2, writer=THEIRS))
    written(tmp_path, 9)
    newest = checked(tmp_path).newest
    cut(tmp_path, 3)
    assert kinds(tmp_path) == []
    assert kinds(tmp_path, head=newest) == ["restored"]


def test_a_whole_chain_that_was_removed_is_missed(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 3))
    file_of(tmp_path).unlink()
    written(tmp_path, 2, writer=THEIRS)
    (fault,) = checked(tmp_path).faults
    assert (fault.kind, fault.writer, fault.seq) == ("chain missing", OURS, 1)


def test_a_copy_that_was_restored_is_older_than_its_anchor(tmp_path: Path) -> None:
    state, anchor = tmp_path / "state", tmp_path / "anchor"
    signer = heads_of(state, anchor=anchor)
    signer.sign(written(state, 4))
    shutil.copytree(state, tmp_path / "copy")
    head = written(state, 4, writer=THEIRS)
    signer.sign(head)
    assert kinds(state, anchor=anchor, head=head) == []

    shutil.rmtree(state)
    shutil.copytree(tmp_path / "copy", state)
    assert kinds(state) == []
    for outside in ({"anchor": anchor}, {"head": head}):
        (fault,) = checked(state, **outside).faults
        assert (fault.kind, fault.writer, fault.seq) == ("restored", THEIRS, 1)
        assert "an older copy was put in its place" in fault.text


def test_a_head_that_was_given_must_be_that_record(tmp_path: Path) -> None:
    head = written(tmp_path, 4)
    heads_of(tmp_path).sign(written(tmp_path, 2, writer=THEIRS))
    assert kinds(tmp_path, head=head) == []
    (fault,) = checked(tmp_path, head=head._replace(hash=b"0" * 32)).faults
    assert (fault.kind, fault.seq) == ("rewritten", 4)


def rewrite(directory: Path) -> Link:
    """Change the second record and link everything anew, as whoever knows how would do it."""
    path = file_of(directory)
    bare = [
        line[: line.rindex(b',"writer"')] + b"}\n"
        for line in path.read_bytes().splitlines(keepends=True)
    ]
    bare[1] = bare[1].replace(b'"n":2', b'"n":7')
    path.write_bytes(b"".join(Chain(OURS).link(bare)))
    newest = checked(directory).newest
    assert newest is not None
    return newest


def test_a_chain_that_was_made_anew_is_seen_by_its_head(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 4))
    rewrite(tmp_path)
    (fault,) = checked(tmp_path).faults
    assert (fault.kind, fault.line, fault.seq) == ("rewritten", 4, 4)


def test_heads_of_another_key_are_not_believed(tmp_path: Path) -> None:
    head = written(tmp_path, 4)
    heads_of(tmp_path).sign(head)
    (tmp_path / FILE).unlink()
    key = (tmp_path / KEY_FILE).read_bytes()
    (tmp_path / KEY_FILE).unlink()
    heads_of(tmp_path, key=2).sign(head)
    theirs = checked(tmp_path).keys[0]
    (tmp_path / KEY_FILE).write_bytes(key)
    (fault,) = checked(tmp_path).faults
    assert str(fault) == ("heads.jsonl: line 1: it is signed with a key that is not this journal's")
    assert kinds(tmp_path, key=theirs) == []
    assert kinds(tmp_path, key="0" * 64) == ["heads"]


def test_who_makes_everything_anew_with_another_key_is_seen_from_outside(tmp_path: Path) -> None:
    state, anchor = tmp_path / "state", tmp_path / "anchor"
    old = written(state, 4)
    heads_of(state, anchor=anchor).sign(old)
    (state / FILE).unlink()
    (state / KEY_FILE).unlink()
    heads_of(state, key=2).sign(rewrite(state))
    assert kinds(state) == []
    assert kinds(state, anchor=anchor) == ["heads"]
    assert kinds(state, head=old) == ["rewritten"]


def test_heads_that_are_gone_are_missed(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 4))
    (tmp_path / FILE).rename(tmp_path / "heads")
    (fault,) = checked(tmp_path).faults
    assert str(fault) == "heads.jsonl: the signed heads are gone"

    (tmp_path / "heads").rename(tmp_path / FILE)
    (tmp_path / KEY_FILE).chmod(0o644)
    assert kinds(tmp_path) == ["heads", "heads"]
    (tmp_path / KEY_FILE).unlink()
    (fault,) = checked(tmp_path).faults
    assert str(fault) == "heads.jsonl: there is no key to check it with"


def test_an_anchor_that_is_gone_is_missed(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    heads_of(tmp_path, anchor=anchor).sign(written(tmp_path, 4))
    report = checked(tmp_path, anchor=anchor)
    assert (report.faults, report.anchored) == ((), 1)
    heads_of(tmp_path).sign(written(tmp_path, 4, writer=THEIRS))  # By one that knows no anchor.
    for lose in (lambda: anchor.write_bytes(b""), anchor.unlink):
        lose()
        (fault,) = checked(tmp_path, anchor=anchor).faults
        assert str(fault) == "the anchor: the signed heads are gone"


def test_an_anchor_that_is_new_has_nothing_yet(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    heads_of(tmp_path).sign(written(tmp_path, 4))
    report = checked(tmp_path, anchor=anchor)
    assert (report.faults, report.anchored) == ((), 0)
    assert checked(tmp_path).anchored is None
    heads_of(tmp_path, anchor=anchor).sign(written(tmp_path, 4, writer=THEIRS))
    report = checked(tmp_path, anchor=anchor)
    assert (report.faults, report.anchored) == ((), 1)


def test_heads_and_key_that_are_both_gone_are_missed_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    state, anchor = tmp_path / "state", tmp_path / "anchor"
    head = written(state, 4)
    heads_of(state, anchor=anchor).sign(head)
    (key,) = trusted_keys(state)
    (state / FILE).unlink()
    (state / KEY_FILE).unlink()
    missed = "heads.jsonl: signatures are expected, and there is none"

    def complaints(**outside: object) -> list[str]:
        return [str(fault) for fault in checked(state, **outside).faults]

    assert complaints(key=key) == [missed]
    assert complaints(head=head) == [missed]
    assert complaints(key=key, anchor=anchor) == [missed]
    assert complaints(anchor=anchor) == ["the anchor: there is no key to check it with"]


def test_faults_of_the_journal_and_of_its_heads_are_both_told(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 4))
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"n":3', b'"n":7'))
    (tmp_path / FILE).unlink()
    journal, heads = checked(tmp_path).faults
    assert (journal.kind, journal.seq, journal.line) == ("edited", 3, 3)
    assert journal.file == "events/2026-07/events.jsonl"
    assert heads.kind == "heads"


# While a gateway writes


def test_a_journal_is_verified_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", 20_000)
    monkeypatch.setattr("anyport.record.outflow.RETRY_SECONDS", 0.0)
    stop = threading.Event()

    def write() -> None:
        journals = [opened(tmp_path) for _ in range(2)]
        signer = heads_of(tmp_path)
        n = 0
        while not stop.wait(0.002):  # Faster than any gateway, and slower than a reader.
            n += 1
            for journal in journals:
                for part in range(10):
                    note(journal, n=n, part=part)
                journal.flush()
            if n % 20 == 0 and journals[0].head is not None:
                signer.sign(journals[0].head)
        for journal in journals:
            journal.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        reports: list[Report] = []
        while len(reports) < 15 or reports[-1].files < 3:
            try:
                reports.append(checked(tmp_path))
            except StillChanging:
                continue
    finally:
        stop.set()
        writer.join(60)
    assert [fault for report in reports for fault in report.faults] == []
    assert reports[-1].records > reports[0].records


def test_a_file_is_found_again_under_its_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 4)
    pieces = segments_module.snapshot(tmp_path / "events")
    active = file_of(tmp_path)
    turn_over(active, active.stat())
    written(tmp_path, 4, writer=THEIRS)
    monkeypatch.setattr(verify_module, "snapshot", lambda _: pieces)
    report = checked(tmp_path)
    assert (report.faults, report.records) == ((), 4)


def test_a_file_that_retention_takes_meanwhile_makes_it_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 4)
    snapshot = segments_module.snapshot
    looks = []

    def look(events_dir: Path) -> object:
        looks.append(events_dir)
        pieces = snapshot(events_dir)
        if len(looks) == 1:
            active = file_of(tmp_path)
            active.rename(active.parent / "gone")
            written(tmp_path, 2, writer=THEIRS)
        return pieces

    monkeypatch.setattr(verify_module, "snapshot", look)
    assert checked(tmp_path).records == 2
    assert len(looks) == 2

    monkeypatch.setattr(segments_module, "segments", lambda _: [tmp_path / str(len(looks))])
    monkeypatch.setattr(verify_module, "snapshot", snapshot)
    with pytest.raises(StillChanging):
        checked(tmp_path)


def test_nothing_is_written_while_verifying(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 4))

    def listed() -> list[tuple[str, int]]:
        return sorted((os.fspath(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))

    before = listed()
    checked(tmp_path)
    assert listed() == before
