import json
from collections.abc import Callable

import pytest

from anyport.record.chain import START, Link
from anyport.record.ed25519 import public_key, signature
from anyport.record.statements import (
    BadStatement,
    Head,
    Known,
    Mark,
    Span,
    Statement,
    Summary,
    Tombstone,
    hash_of,
    last_of,
    read_statement,
    read_statements,
    sealed,
    text_of,
)

KEY = b"\x01" * 32
OURS = public_key(KEY).hex()
NOW = "2026-07-28T12:00:00.250000+00:00"


def line_of(statement: Statement, key: bytes = KEY) -> bytes:
    return sealed(statement, signature(key, text_of(statement)))


def head(number: int = 1, previous: str = START.decode(), *, seq: int = 10) -> Head:
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
    previous = START.decode()
    for number in range(1, count + 1):
        lines.append(line_of(head(number, previous, seq=number * 10)))
        previous = hash_of(lines[-1][:-1])
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
        (lambda line: line.replace(b'"seq":10', b'"seq":11'), "its signature is wrong"),
        (lambda line: line.replace(b'"signature"', b'"signed"'), "it has no signature"),
        (lambda line: line[:-2], "no signed statement"),
        (lambda line: b'{"kind":"will"}', "no signed statement"),
        (lambda line: b"[" * 10_000, "no signed statement"),
        (lambda line: line.replace(OURS.encode(), b"00" * 32), "a key that is not this journal's"),
    ],
)
def test_a_statement_that_was_tampered_with_is_not_believed(
    spoil: Callable[[bytes], bytes], complaint: str
) -> None:
    with pytest.raises(BadStatement, match=complaint):
        read_statement(spoil(line_of(head())[:-1]), {OURS})


def test_a_statement_of_a_stranger_is_not_believed() -> None:
    theirs = b"\x02" * 32
    with pytest.raises(BadStatement, match="its signature is wrong"):
        read_statement(line_of(head(), theirs)[:-1], {OURS})


def test_the_last_statement_of_a_file_is_the_one_to_follow() -> None:
    one, two = story(2)
    assert last_of(b"") == (0, START.decode())
    assert last_of(one + two) == (2, hash_of(two[:-1]))
    assert last_of(one + two[:40]) == (1, hash_of(one[:-1]))
    assert last_of(one + two[:40] + b"\n") == (1, hash_of(one[:-1]))


def test_a_file_of_statements_is_read_to_its_end() -> None:
    known, fault = read_statements(b"".join(story(3)), {OURS})
    assert fault is None
    assert known.heads == {"0badcafe": Mark("0badcafe", 30, f"{30:032x}")}
    assert [seq for _, seq in known.marks] == [10, 20, 30]
    assert known.last_head is not None
    assert known.last_head.number == 3


def test_what_a_crash_left_of_a_statement_is_skipped() -> None:
    one, two, three = story(3)
    for raw in (one + two[:50] + b"\n" + two + three, one + two + three + three[:9]):
        known, fault = read_statements(raw, {OURS})
        assert fault is None
        assert len(known.marks) == 3


@pytest.mark.parametrize("gone", [0, 1])
def test_a_statement_that_was_taken_out_is_missed(gone: int) -> None:
    lines = story(3)
    del lines[gone]
    known, fault = read_statements(b"".join(lines), {OURS})
    assert fault == f"line {gone + 1}: it does not follow the statement before it: one is missing"
    assert len(known.marks) == gone


def test_statements_in_another_order_are_noticed() -> None:
    one, two, three = story(3)
    assert read_statements(one + three + two, {OURS})[1] is not None


def test_an_anchor_may_have_fewer() -> None:
    one, _, three = story(3)
    known, fault = read_statements(one + three, {OURS}, all_of_them=False)
    assert fault is None
    assert len(known.marks) == 2


def test_a_summary_stands_for_what_was_before_it() -> None:
    span = Span("0badcafe", 1, 4, "4" * 32, 4)
    summary = Summary(
        number=7,
        previous="f" * 32,
        time=NOW,
        key=OURS,
        heads=(Mark("0badcafe", 9, "9" * 32),),
        spans=(span,),
        removed=40,
        until=NOW,
        faults=("something",),
    )
    line = line_of(summary)
    known, fault = read_statements(line + line_of(head(8, hash_of(line[:-1]))), {OURS})
    assert fault is None
    assert known.removed == 40
    assert known.spans == {"0badcafe": span}
    assert known.ends == {("0badcafe", 4): "4" * 32}
    assert known.faults == ["something"]
    assert sorted(known.marks) == [("0badcafe", 9), ("0badcafe", 10)]
    assert read_statements(line_of(head()) + line, {OURS})[1] is not None


def test_a_tombstone_says_which_records_are_gone() -> None:
    known = Known()
    known.take(
        Tombstone(
            number=1,
            previous=START.decode(),
            time=NOW,
            key=OURS,
            file="events/2026-07/events-0001.jsonl",
            bytes=1000,
            until=NOW,
            spans=(Span("0badcafe", 1, 5, "5" * 32, 5), Span("deadbeef", 3, 4, "4" * 32, 2)),
            fault="record 3 was changed",
        )
    )
    assert known.removed == 7
    assert known.is_removed(Link("0badcafe", 5, b""))
    assert not known.is_removed(Link("0badcafe", 6, b""))
    assert not known.is_removed(Link("11111111", 1, b""))
    assert known.faults == ["events/2026-07/events-0001.jsonl, removed since: record 3 was changed"]
    heads, spans = known.of_writers({"deadbeef"})
    assert heads == ()
    assert [span.writer for span in spans] == ["deadbeef"]
