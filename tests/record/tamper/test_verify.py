import os
import shutil
import threading
from io import FileIO
from pathlib import Path

import pytest

from anyport.gateway.recording.maintenance import CHECKPOINT_SECONDS, MAINTENANCE_SECONDS
from anyport.record.journal import segments as segments_module
from anyport.record.journal.segments import rotate_segment
from anyport.record.journal.writer import RETRY_SECONDS
from anyport.record.tamper import verify as verify_module
from anyport.record.tamper import verify as walk_module
from anyport.record.tamper.chain import Chain, Link, parse_link
from anyport.record.tamper.checkpoints import (
    HEADS_FILE,
    KEY_FILE,
    ChainSpan,
    CheckpointState,
    RecordRef,
    trusted_keys,
)
from anyport.record.tamper.verify import (
    FIRST_HEAD_SECONDS,
    LAST_HEAD_SECONDS,
    ChainVerifier,
    ExternalEvidence,
    StillChanging,
    VerificationReport,
    claimed_spans,
    read_lines,
    verify,
)
from tests.record.story import NOON, ONE, ManualClock, file_of, heads_of, note, opened, written

OURS, THEIRS = "0badcafe", "deadbeef"


def checked(directory: Path, **outside: object) -> VerificationReport:
    return verify(directory, ExternalEvidence(**outside))  # type: ignore[arg-type]


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
    assert (report.unsigned, report.removed, report.torn_lines, report.unlinked) == (2, 0, 0, 0)
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
        clock.seconds += RETRY_SECONDS / 2 if n != 20 else 7 * 86400
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
    assert (report.faults, report.records, report.torn_lines) == ((), 7, 1)
    written(tmp_path, 3, writer="11111111")
    report = checked(tmp_path)
    assert (report.faults, report.records, report.torn_lines) == ((), 10, 1)


# What was cut, removed, rewritten, restored


def test_a_tail_that_was_cut_is_missed_by_its_head(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 9))
    cut(tmp_path, 3)
    (fault,) = checked(tmp_path).faults
    assert (fault.kind, fault.writer, fault.seq) == ("cut", OURS, 7)
    assert str(fault) == (
        f"writer {OURS} is known to have written 9 records, and the journal has 6 of them: "
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
    assert fault.text.startswith(
        f"writer {OURS} is known to have written 6 records, and none is there"
    )


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
    (tmp_path / HEADS_FILE).unlink()
    key = (tmp_path / KEY_FILE).read_bytes()
    (tmp_path / KEY_FILE).unlink()
    heads_of(tmp_path, key=2).sign(head)
    theirs = checked(tmp_path).keys[0]
    (tmp_path / KEY_FILE).write_bytes(key)
    (fault,) = checked(tmp_path).faults
    assert str(fault) == (
        "heads.jsonl: line 1: it is signed with a key that does not belong to this journal"
    )
    assert kinds(tmp_path, key=theirs) == []
    assert kinds(tmp_path, key="0" * 64) == ["heads"]


def test_who_makes_everything_anew_with_another_key_is_seen_from_outside(tmp_path: Path) -> None:
    state, anchor = tmp_path / "state", tmp_path / "anchor"
    old = written(state, 4)
    heads_of(state, anchor=anchor).sign(old)
    (state / HEADS_FILE).unlink()
    (state / KEY_FILE).unlink()
    heads_of(state, key=2).sign(rewrite(state))
    assert kinds(state) == []
    assert kinds(state, anchor=anchor) == ["heads"]
    assert kinds(state, head=old) == ["rewritten"]


def test_heads_that_are_gone_are_missed(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 4))
    (tmp_path / HEADS_FILE).rename(tmp_path / "heads")
    (fault,) = checked(tmp_path).faults
    assert str(fault) == "heads.jsonl: the signed heads are missing"

    (tmp_path / "heads").rename(tmp_path / HEADS_FILE)
    (tmp_path / KEY_FILE).chmod(0o644)
    assert kinds(tmp_path) == ["heads", "heads"]
    (tmp_path / KEY_FILE).unlink()
    (fault,) = checked(tmp_path).faults
    assert str(fault) == "heads.jsonl: there is no key to verify it with"


def test_an_anchor_that_is_gone_is_missed(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    heads_of(tmp_path, anchor=anchor).sign(written(tmp_path, 4))
    report = checked(tmp_path, anchor=anchor)
    assert (report.faults, report.anchored) == ((), 1)
    heads_of(tmp_path).sign(written(tmp_path, 4, writer=THEIRS))  # By one that knows no anchor.
    for lose in (lambda: anchor.write_bytes(b""), anchor.unlink):
        lose()
        (fault,) = checked(tmp_path, anchor=anchor).faults
        assert str(fault) == "the anchor: the signed heads are missing"


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
    (state / HEADS_FILE).unlink()
    (state / KEY_FILE).unlink()
    missed = "heads.jsonl: signatures are expected, but there are none"

    def complaints(**outside: object) -> list[str]:
        return [str(fault) for fault in checked(state, **outside).faults]

    assert complaints(key=key) == [missed]
    assert complaints(head=head) == [missed]
    assert complaints(key=key, anchor=anchor) == [missed]
    assert complaints(anchor=anchor) == ["the anchor: there is no key to verify it with"]


def test_faults_of_the_journal_and_of_its_heads_are_both_told(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(written(tmp_path, 4))
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"n":3', b'"n":7'))
    (tmp_path / HEADS_FILE).unlink()
    journal, heads = checked(tmp_path).faults
    assert (journal.kind, journal.seq, journal.line) == ("edited", 3, 3)
    assert journal.file == "events/2026-07/events.jsonl"
    assert heads.kind == "heads"


# While a gateway writes


def test_a_journal_is_verified_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES_MAX", 20_000)
    monkeypatch.setattr("anyport.record.journal.writer.RETRY_SECONDS", 0.0)
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
        reports: list[VerificationReport] = []
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
    rotate_segment(active, active.stat())
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


# ChainVerifier


NOW = "2026-07-28T12:00:%02d.000000+00:00"


def chained(count: int, writer: str = OURS, *, salt: str = "") -> list[bytes]:
    """Some records of one writer, without line ends."""
    lines = [f'{{"timestamp":"{NOW % n}","n":{n},"s":"{salt}"}}\n' for n in range(count)]
    return [line[:-1] for line in Chain(writer).link([line.encode() for line in lines])]


def walked(*files: list[bytes], known: CheckpointState | None = None) -> ChainVerifier:
    walk = ChainVerifier(known or CheckpointState())
    for number, lines in enumerate(files, 1):
        walk.read(f"file {number}", lines)
    walk.finish()
    return walk


def signed(*marks: RecordRef) -> CheckpointState:
    known = CheckpointState()
    for mark in marks:
        known.signed_hashes[mark.writer, mark.seq] = mark.hash
        known.heads[mark.writer] = mark
    return known


def mark_of(line: bytes) -> RecordRef:
    link = parse_link(line)
    assert link is not None
    return RecordRef(link.writer, link.seq, link.hash.decode())


def span_of(line: bytes) -> ChainSpan:
    mark = mark_of(line)
    return ChainSpan(mark.writer, 1, mark.seq, mark.hash, mark.seq)


def removed(*spans: ChainSpan) -> CheckpointState:
    known = CheckpointState()
    known._add_removed(spans, "")
    known.removed = sum(span.count for span in spans)
    return known


# What is good


def test_a_whole_chain_is_good() -> None:
    walk = walked(chained(5))
    assert walk.fault is None
    assert (walk.records, walk.torn_line_count, walk.unlinked_count) == (5, 0, 0)
    assert (walk.since.decode(), walk.until.decode()) == (NOW % 0, NOW % 4)
    assert walk.newest == parse_link(chained(5)[-1])
    (span,) = walk.spans()
    assert (span.writer, span.first, span.last, span.count) == (OURS, 1, 5, 5)


def test_chains_of_several_writers_are_told_apart() -> None:
    ours, theirs = chained(4), chained(3, "deadbeef")
    mixed = [ours[0], theirs[0], theirs[1], ours[1], ours[2], theirs[2], ours[3]]
    walk = walked(mixed[:3], mixed[3:])
    assert walk.fault is None
    assert len(walk.links) == 2


def test_a_name_that_is_drawn_again_begins_another_chain() -> None:
    walk = walked(chained(4), chained(3, salt="later"))
    assert walk.fault is None
    assert walk.records == 7


def test_a_part_of_a_record_is_skipped() -> None:
    one, two, three = chained(3)
    walk = walked([one, two[:30], b"", two, three[:-1]])
    assert walk.fault is None
    assert (walk.records, walk.torn_line_count) == (2, 2)


def test_a_record_that_follows_on_the_part_of_another_counts() -> None:
    one, two = chained(2)
    theirs = chained(1, "deadbeef")[0]
    walk = walked([one, theirs[:40] + two])
    assert walk.fault is None
    assert (walk.records, walk.torn_line_count) == (2, 1)


def test_records_from_before_there_was_a_chain_are_counted() -> None:
    walk = walked([b'{"timestamp":"old"}', b'{"timestamp":"older"}', *chained(2)])
    assert walk.fault is None
    assert (walk.unlinked_count, walk.records) == (2, 2)


def test_a_chain_may_begin_where_retention_ended() -> None:
    lines = chained(6)
    walk = walked(lines[3:], known=removed(span_of(lines[2])))
    assert walk.fault is None
    (span,) = walk.spans()
    assert (span.first, span.last, span.count) == (4, 6, 3)


def test_a_file_that_is_signed_for_and_not_removed_yet_is_no_fault() -> None:
    lines = chained(6)
    assert walked(lines, known=removed(span_of(lines[2]))).fault is None


def test_what_was_signed_and_seen_is_met() -> None:
    lines = chained(5)
    walk = walked(lines, known=signed(mark_of(lines[1]), mark_of(lines[3])))
    assert walk.fault is None
    assert walk.unseen_hashes == {}
    assert walk.unsigned_count() == 1


def test_records_of_a_writer_that_never_signed_are_unsigned() -> None:
    lines = chained(5)
    walk = walked([*lines, *chained(2, "deadbeef")], known=signed(mark_of(lines[4])))
    assert walk.unsigned_count() == 2


# What is not


LINES = chained(6)
FORGED = chained(6, salt="forged")


def put(lines: list[bytes], at: int, *inserted: bytes) -> list[bytes]:
    return [*lines[:at], *inserted, *lines[at:]]


@pytest.mark.parametrize(
    ("lines", "kind", "line", "seq"),
    [
        ([*LINES[:2], LINES[2].replace(b'"n":2', b'"n":7'), *LINES[3:]], "edited", 3, 3),
        ([*LINES[:2], LINES[2].replace(b'"hash":"', b'"hush":"'), *LINES[3:]], "edited", 3, 3),
        ([*LINES[:2], FORGED[2], *LINES[3:]], "edited", 3, 3),
        ([LINES[0].replace(b'"n":0', b'"n":9'), *LINES[1:]], "edited", 1, 1),
        ([*LINES[:2], *LINES[3:]], "missing", 3, 3),
        ([*LINES[:1], *LINES[4:]], "missing", 2, 2),
        (LINES[1:], "missing", 1, 1),
        ([*LINES[:2], LINES[2][:20], *LINES[3:]], "missing", 4, 3),
        ([*LINES[:2], LINES[3], LINES[2], *LINES[4:]], "out of order", 3, 3),
        ([*LINES[:2], *LINES[3:], LINES[2]], "out of order", 3, 3),
        ([LINES[1], LINES[0], *LINES[2:]], "out of order", 1, 1),
        (put(LINES, 4, LINES[1]), "inserted", 5, 2),
        (put(LINES, 6, LINES[0]), "inserted", 7, 1),
        (put(LINES, 6, *LINES), "inserted", 7, 1),
        (put(LINES, 3, b'{"timestamp":"forged"}'), "inserted", 4, None),
        (put(LINES, 6, b'{"timestamp":"forged"}'), "inserted", 7, None),
        (put(LINES, 3, b'garbage{"timestamp":"forged"}'), "inserted", 4, None),
        (put(LINES, 2, FORGED[3]), "out of order", 3, 3),
        (put(LINES, 3, FORGED[3]), "edited", 4, 4),
    ],
)
def test_a_record_that_was_tampered_with_is_named(
    lines: list[bytes], kind: str, line: int, seq: int | None
) -> None:
    fault = walked(lines).fault
    assert fault is not None
    assert (fault.kind, fault.file, fault.line, fault.seq) == (kind, "file 1", line, seq)
    assert fault.writer == (None if seq is None else OURS)


def test_only_what_comes_before_the_first_fault_is_counted() -> None:
    walk = walked([*LINES[:2], *LINES[3:]], chained(9, "deadbeef"))
    assert walk.fault is not None
    assert walk.records == 2


@pytest.mark.parametrize(
    "lines",
    [
        put(LINES, 3, b'{"timestamp":"forged"}'),
        [*LINES[:3], LINES[3].replace(b'"hash":"', b'"hush":"'), *LINES[4:]],
        put(LINES[:-1], 3, b'{"timestamp":"forged"}', LINES[5], b'{"timestamp":"again"}'),
    ],
)
def test_what_follows_a_line_without_a_place_is_not_counted_as_good(lines: list[bytes]) -> None:
    good = walked(chained(2, "deadbeef"), lines, chained(4, "11111111")).totals()
    assert (good.records, good.writers, good.files) == (5, 2, 2)
    assert (good.until.decode(), good.newest) == (NOW % 2, parse_link(LINES[2]))


def test_a_stranger_comes_before_a_later_fault() -> None:
    lines = put(LINES, 1, b'{"timestamp":"forged"}')
    for spoilt in ([*lines[:4], *lines[6:]], [*lines[:5], lines[5].replace(b'"n"', b'"m"')]):
        fault = walked(spoilt).fault
        assert fault is not None
        assert (fault.kind, fault.line) == ("inserted", 2)


def test_a_chain_that_was_made_anew_is_not_the_one_that_was_signed() -> None:
    fault = walked(FORGED, known=signed(mark_of(LINES[2]), mark_of(LINES[4]))).fault
    assert fault is not None
    assert (fault.kind, fault.line, fault.seq) == ("rewritten", 3, 3)


def test_a_chain_must_begin_where_retention_ended() -> None:
    known = removed(span_of(LINES[2]))
    fault = walked(LINES[4:], known=known).fault
    assert fault is not None
    assert (fault.kind, fault.seq) == ("missing", 4)
    fault = walked(FORGED[3:], known=known).fault
    assert fault is not None
    assert (fault.kind, fault.seq) == ("edited", 4)
    fault = walked([b'{"timestamp":"forged"}'], known=known).fault
    assert fault is not None
    assert fault.kind == "inserted"


def test_a_fault_is_told_with_its_place() -> None:
    fault = walked([*LINES[:2], *LINES[4:]]).fault
    assert (
        str(fault) == f"file 1, line 3: records 3 to 4 of writer {OURS} are missing before this one"
    )
    fault = walked([*LINES[:2], *LINES[3:], LINES[2]]).fault
    assert str(fault) == (
        f"file 1, line 3: record 3 of writer {OURS} is further down: file 1, line 6"
    )


# Reading


def test_lines_are_read_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "CHUNK_BYTES", 7)
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n\na longer line\nrest")
    for size, lines in (
        (100, [b"one", b"two", b"", b"a longer line", b"rest"]),
        (11, [b"one", b"two", b"", b"a "]),
        (8, [b"one", b"two"]),
        (0, []),
    ):
        with FileIO(path) as file:
            assert list(read_lines(file, size)) == lines


def test_a_line_without_an_end_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_module, "CHUNK_BYTES", 10)
    monkeypatch.setattr(walk_module, "LINE_BYTES_MAX", 20)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000 + b"\nnext\n")
    with FileIO(path) as file:
        long, following = read_lines(file)
    assert len(long) <= 30
    assert following == b"next"


def test_what_lines_claim_is_told_be_it_true_or_not() -> None:
    (span,) = claimed_spans([b"part", LINES[1], FORGED[3]])
    assert (span.last, span.count, span.hash) == (4, 2, mark_of(FORGED[3]).hash)


# Journals without signatures


def unsigned(directory: Path, seconds: float, *, stopped: bool) -> Link:
    """A gateway that wrote for a while and signed nothing, or whose heads were removed."""
    clock = ManualClock()
    journal = opened(directory, clock, writer=OURS)
    note(journal)
    clock.seconds += seconds
    if stopped:
        journal.record("gateway.stopped", "success", trace_id=ONE, metadata={})
    else:
        note(journal)
    journal.close()
    assert journal.head is not None
    return journal.head


def complaints(directory: Path, *, later: float = 0.0) -> list[str]:
    """What is wrong so long after noon."""
    return [
        str(fault)
        for fault in verify(directory, ExternalEvidence(), now=lambda: NOON + later).faults
    ]


def test_a_gateway_has_signed_long_before_it_is_expected_to() -> None:
    assert FIRST_HEAD_SECONDS > 2 * (CHECKPOINT_SECONDS + MAINTENANCE_SECONDS)


def test_a_gateway_that_ended_has_signed(tmp_path: Path) -> None:
    unsigned(tmp_path, 1, stopped=True)
    assert complaints(tmp_path, later=2) == []  # It may be about to sign.
    assert complaints(tmp_path, later=LAST_HEAD_SECONDS + 2) == [
        f"heads.jsonl: nothing is signed, although writer {OURS} stopped normally: "
        "the heads were removed"
    ]


def test_a_gateway_that_wrote_for_long_has_signed(tmp_path: Path) -> None:
    unsigned(tmp_path, FIRST_HEAD_SECONDS + 1, stopped=False)
    assert complaints(tmp_path, later=FIRST_HEAD_SECONDS + 1) == [
        f"heads.jsonl: nothing is signed, although writer {OURS} wrote for longer than signing "
        "takes: the heads were removed"
    ]


def test_heads_that_were_emptied_are_missed_too(tmp_path: Path) -> None:
    heads_of(tmp_path).sign(unsigned(tmp_path, 1, stopped=True))
    assert complaints(tmp_path, later=1e6) == []
    (tmp_path / HEADS_FILE).write_bytes(b"")
    (complaint,) = complaints(tmp_path, later=1e6)
    assert "nothing is signed" in complaint


def test_gateways_that_were_killed_young_have_signed_nothing_and_raise_no_alarm(
    tmp_path: Path,
) -> None:
    for days in range(3):
        journal = opened(tmp_path, ManualClock(NOON + days * 86400))
        for n in range(300):
            note(journal, n=n)
        journal.close()
    assert complaints(tmp_path, later=1e6) == []


def test_records_that_no_gateway_wrote_are_no_reason(tmp_path: Path) -> None:
    file_of(tmp_path).parent.mkdir(parents=True)
    lines = [b'{"timestamp":"0001-01-01T00:00:00","event_type":"gateway.stopped"}\n', b'{"n":1}\n']
    file_of(tmp_path).write_bytes(b"".join(Chain(OURS).link(lines)))
    assert complaints(tmp_path, later=1e6) == []


def test_a_tombstone_is_a_signature_too(tmp_path: Path) -> None:
    unsigned(tmp_path, 1, stopped=True)
    heads_of(tmp_path).sign_removal("events/2026-06/events.jsonl", 10, "2026-06-30", [], None)
    assert complaints(tmp_path, later=1e6) == []
