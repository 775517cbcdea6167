"""Payloads, erased for good."""

import os
from pathlib import Path

import pytest

from anyport.record.erasure import (
    ErasureTotals,
    erase_payloads,
    match_payload_lines,
    measure_erasure,
)
from anyport.record.filter.parser import parse_filter
from tests.record.recorded import (
    PAYLOAD_FILE,
    exchange,
    find_payload,
    payload_line,
    write_events,
    write_payloads,
)
from tests.record.story import NOON

LATER = NOON + 7200
A, B, C = "a" * 16, "b" * 16, "c" * 16


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Three calls of two people; each has said something."""
    write_events(
        tmp_path,
        exchange(span_id=A, principal="alice"),
        exchange(span_id=B, principal="bob"),
        exchange(span_id=C, principal="alice", server="docs"),
    )
    write_payloads(
        tmp_path,
        payload_line(A, secret="apple", principal="alice"),
        payload_line(B, secret="banana", principal="bob"),
        payload_line(C, secret="cherry \\u00e4 \\", principal="alice"),
    )
    return tmp_path


def erase(state: Path, text: str, now: float = LATER) -> ErasureTotals:
    with match_payload_lines(state, parse_filter(text, NOON)) as doomed:
        return erase_payloads(state, doomed, now)


def weigh(state: Path, text: str) -> ErasureTotals:
    with match_payload_lines(state, parse_filter(text, NOON)) as doomed:
        return measure_erasure(state, doomed)


def residue(state: Path, word: str) -> list[Path]:
    """Every file in which a word stands."""
    files = (path for path in state.rglob("*") if path.is_file())
    return [path for path in files if word.encode() in path.read_bytes()]


def remaining(state: Path) -> list[str]:
    found = {"a": A, "b": B, "c": C}
    return [name for name, span in found.items() if find_payload(state, PAYLOAD_FILE, span)]


def test_one_persons_payloads_go_and_the_journal_stays(state: Path) -> None:
    journal = state / "events" / "2026-07" / "events.jsonl"
    before = journal.read_bytes()
    erased = erase(state, "principal:alice")

    assert (erased.exchanges, erased.files) == (2, 0)
    assert residue(state, "apple") == residue(state, "cherry") == []
    assert remaining(state) == ["b"]
    assert journal.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("server:docs", ["a", "b"]),
        ("-server:docs", ["c"]),
        (f"id:{A[:4]}", ["b", "c"]),
        ("until:2026-07-28", ["a", "b", "c"]),
        ("since:2026-07-28", []),
        ("text:banana", ["a", "c"]),
        ("text:CHERRY", ["a", "b"]),
        ('text:"cherry \\\\u00e4"', ["a", "b"]),
        ("-text:banana", ["b"]),
        ("principal:alice text:apple", ["b", "c"]),
        ("principal:bob text:apple", ["a", "b", "c"]),
        ("text:create_issue", []),
        ("text:github server:github", ["c"]),
    ],
)
def test_what_a_filter_matches_goes(state: Path, text: str, left: list[str]) -> None:
    weighed = weigh(state, text)
    assert remaining(state) == ["a", "b", "c"]
    erased = erase(state, text)

    assert remaining(state) == left
    assert erased.exchanges == weighed.exchanges == 3 - len(left)
    assert erased.bytes == weighed.bytes


def test_a_file_of_which_nothing_remains_is_removed_once_its_hour_is_over(state: Path) -> None:
    write_payloads(state, payload_line(A, secret="date"), file="2026-07-28/14-1f3a9c0e-0")
    erased = erase(state, "")

    assert erased.files == 1
    assert [path.name for path in (state / "payloads").rglob("*.jsonl")] == ["14-1f3a9c0e-0.jsonl"]
    assert residue(state, "date") == residue(state, "apple") == []
    assert erase(state, "", LATER + 3600) == ErasureTotals(files=1)
    assert list((state / "payloads").iterdir()) == []


def test_a_gateway_may_go_on_writing_to_the_file(state: Path) -> None:
    path = state / "payloads" / f"{PAYLOAD_FILE}.jsonl"
    writing = os.open(path, os.O_WRONLY | os.O_APPEND)
    erase(state, "", NOON)
    os.write(writing, payload_line("d" * 16) + b"\n")
    os.close(writing)

    assert remaining(state) == []
    assert find_payload(state, PAYLOAD_FILE, "d" * 16) == payload_line("d" * 16)


@pytest.mark.parametrize(
    ("text", "goes"), [("principal:alice", True), ("principal:bob", False), ("server:x", False)]
)
def test_a_payload_that_the_journal_does_not_know_is_judged_by_itself(
    state: Path, text: str, goes: bool
) -> None:
    write_payloads(state, payload_line("e" * 16, secret="elder", principal="alice"))
    erase(state, text)

    assert (residue(state, "elder") == []) is goes


@pytest.mark.parametrize("order", [0, 1])
def test_a_torn_line_goes_with_the_one_it_runs_into(state: Path, order: int) -> None:
    first, second = [payload_line("e" * 16, secret="elder"), payload_line("f" * 16, secret="fig")]
    write_events(state, exchange(span_id=("e" * 16, "f" * 16)[order], server="torn"))
    write_payloads(state, first[:-40] + second)
    erase(state, "server:torn")

    assert residue(state, "elder") == residue(state, "fig") == []


def test_an_id_within_what_was_said_dooms_nothing(state: Path) -> None:
    line = payload_line("e" * 16).replace(b'{"progress":1}', b'{"span_id":"%b"}' % A.encode())
    write_events(state, exchange(span_id="e" * 16, server="other", principal="bob"))
    write_payloads(state, line)
    erase(state, f"id:{A} server:github")

    assert find_payload(state, PAYLOAD_FILE, "e" * 16) == line


def test_what_was_erased_before_does_not_count_again(state: Path) -> None:
    assert erase(state, "principal:alice", NOON).exchanges == 2
    assert erase(state, "principal:alice", NOON) == ErasureTotals()


def test_where_nothing_was_kept_nothing_goes(tmp_path: Path) -> None:
    write_payloads(tmp_path)
    assert erase(tmp_path, "principal:alice", NOON) == ErasureTotals()
    assert weigh(tmp_path, "") == ErasureTotals()
