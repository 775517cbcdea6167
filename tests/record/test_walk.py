from io import FileIO
from pathlib import Path

import pytest

from anyport.record import walk as walk_module
from anyport.record.chain import Chain, link_of
from anyport.record.statements import Known, Mark, Span
from anyport.record.walk import Walk, claimed_spans, lines_of

OURS = "0badcafe"
NOW = "2026-07-28T12:00:%02d.000000+00:00"


def chained(count: int, writer: str = OURS, *, salt: str = "") -> list[bytes]:
    """Some records of one writer, without line ends."""
    lines = [f'{{"timestamp":"{NOW % n}","n":{n},"s":"{salt}"}}\n' for n in range(count)]
    return [line[:-1] for line in Chain(writer).link([line.encode() for line in lines])]


def walked(*files: list[bytes], known: Known | None = None) -> Walk:
    walk = Walk(known or Known())
    for number, lines in enumerate(files, 1):
        walk.read(f"file {number}", lines)
    walk.finish()
    return walk


def signed(*marks: Mark) -> Known:
    known = Known()
    for mark in marks:
        known.marks[mark.writer, mark.seq] = mark.hash
        known.heads[mark.writer] = mark
    return known


def mark_of(line: bytes) -> Mark:
    link = link_of(line)
    assert link is not None
    return Mark(link.writer, link.seq, link.hash.decode())


def span_of(line: bytes) -> Span:
    mark = mark_of(line)
    return Span(mark.writer, 1, mark.seq, mark.hash, mark.seq)


def removed(*spans: Span) -> Known:
    known = Known()
    known._bury(spans, "")
    known.removed = sum(span.count for span in spans)
    return known


# What is good


def test_a_whole_chain_is_good() -> None:
    walk = walked(chained(5))
    assert walk.fault is None
    assert (walk.records, walk.parts, walk.unlinked) == (5, 0, 0)
    assert (walk.since.decode(), walk.until.decode()) == (NOW % 0, NOW % 4)
    assert walk.newest == link_of(chained(5)[-1])
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
    assert (walk.records, walk.parts) == (2, 2)


def test_a_record_that_follows_on_the_part_of_another_counts() -> None:
    one, two = chained(2)
    theirs = chained(1, "deadbeef")[0]
    walk = walked([one, theirs[:40] + two])
    assert walk.fault is None
    assert (walk.records, walk.parts) == (2, 1)


def test_records_from_before_there_was_a_chain_are_counted() -> None:
    walk = walked([b'{"timestamp":"old"}', b'{"timestamp":"older"}', *chained(2)])
    assert walk.fault is None
    assert (walk.unlinked, walk.records) == (2, 2)


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
    assert walk.unmet == {}
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
    good = walked(chained(2, "deadbeef"), lines, chained(4, "11111111")).tally()
    assert (good.records, good.writers, good.files) == (5, 2, 2)
    assert (good.until.decode(), good.newest) == (NOW % 2, link_of(LINES[2]))


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
        f"file 1, line 3: record 3 of writer {OURS} stands further down: file 1, line 6"
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
            assert list(lines_of(file, size)) == lines


def test_a_line_without_an_end_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_module, "CHUNK_BYTES", 10)
    monkeypatch.setattr(walk_module, "LINE_BYTES_MAX", 20)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000 + b"\nnext\n")
    with FileIO(path) as file:
        long, following = lines_of(file)
    assert len(long) <= 30
    assert following == b"next"


def test_what_lines_claim_is_told_be_it_true_or_not() -> None:
    (span,) = claimed_spans([b"part", LINES[1], FORGED[3]])
    assert (span.last, span.count, span.hash) == (4, 2, mark_of(FORGED[3]).hash)
