"""The journal, read from end to end."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anyport.record.filter.parser import parse_filter
from anyport.record.journal.reader import TextSearch, read_lines_since, read_matching_events
from tests.record.recorded import exchange, write_events
from tests.record.story import NOON, ONE


def spans(lines: Iterator[bytes]) -> list[str]:
    return [json.loads(line)["metadata"]["span_id"] for line in lines]


def test_lines_come_as_they_were_written_with_their_place_in_the_chain(tmp_path: Path) -> None:
    path = write_events(tmp_path, exchange(span_id="1"), exchange(span_id="2"))

    assert list(read_lines_since(tmp_path)) == path.read_bytes().splitlines()
    assert b'"seq":2' in path.read_bytes()


def test_files_come_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    write_events(tmp_path, exchange(span_id="1"), month="2026-06")
    path = write_events(tmp_path, exchange(span_id="2"))
    path.rename(path.with_name("events-0001.jsonl"))
    write_events(tmp_path, exchange(span_id="3"))

    assert spans(read_lines_since(tmp_path)) == ["1", "2", "3"]


def test_a_file_that_gets_its_number_meanwhile_is_not_missed(tmp_path: Path) -> None:
    write_events(tmp_path, exchange(span_id="1"), month="2026-06")
    path = write_events(tmp_path, exchange(span_id="2"))

    lines = read_lines_since(tmp_path)
    first = next(lines)
    path.rename(path.with_name("events-0001.jsonl"))
    write_events(tmp_path, exchange(span_id="3"))

    assert sorted(spans(iter([first, *lines]))) == ["1", "2", "3"]


def test_a_line_without_its_end_is_not_there_yet(tmp_path: Path) -> None:
    path = write_events(tmp_path, exchange(span_id="1"))
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2026')

    assert spans(read_lines_since(tmp_path)) == ["1"]


def test_months_before_the_moment_are_not_read(tmp_path: Path) -> None:
    write_events(tmp_path, exchange(span_id="1"), month="2026-06")
    write_events(tmp_path, exchange(span_id="2"))

    assert spans(read_lines_since(tmp_path, NOON)) == ["2"]


def test_where_nothing_was_recorded_nothing_comes(tmp_path: Path) -> None:
    assert list(read_lines_since(tmp_path)) == []


def test_only_events_that_match_come(tmp_path: Path) -> None:
    path = write_events(tmp_path, exchange(span_id="1"), exchange(span_id="2", server="docs"))
    with path.open("ab") as file:
        file.write(b"torn\n\xff\n[]\n")
    write_events(tmp_path, exchange(span_id="3", server="docs"))

    found = list(read_matching_events(tmp_path, parse_filter("server:docs since:2026-07-01", NOON)))
    assert spans(line for line, _ in found) == ["2", "3"]
    assert [event["metadata"]["server"] for _, event in found] == ["docs", "docs"]


# Text search


FILE = "2026-07-28/12-0badcafe-0"
SPAN = "00f067aa0ba902b7"


def line(**metadata: Any) -> bytes:
    told = {"tool": "Create", "span_id": SPAN, "payload_file": FILE} | metadata
    return json.dumps({"trace_id": ONE, "error_message": "Rate LIMIT", "metadata": told}).encode()


def said(*frames: dict[str, Any], span_id: str = SPAN) -> str:
    return json.dumps({"span_id": span_id, "frames": frames}, separators=(",", ":")) + "\n"


@pytest.fixture
def payloads(tmp_path: Path) -> Path:
    path = tmp_path / "payloads" / f"{FILE}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(
        said({"payload": {"name": "other"}}, span_id="1" * 16)
        + said(
            {"kind": "request", "payload": {"title": "Grün", "deep": [['quoted "text"', 3]]}},
            {"kind": "response", "error": {"message": "no such repository"}},
        )
        # What somebody said is no beginning of a line, whatever it looks like.
        + said({"payload": f'{{"span_id":"{"2" * 16}"'}, span_id="3" * 16)
        + '{"span_id":"'
        + "4" * 16
        + '","frames":[{"payload":"torn'
    )
    return tmp_path


def fits(state_dir: Path, filter: str, event: bytes) -> bool:
    with closing(TextSearch(state_dir, parse_filter(filter, NOON))) as search:
        return search.matches(event)


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("create", True),
        ('"rate limit"', True),
        ("GRÜN", True),
        (r'"quoted \"text"', True),
        ("repository", True),
        ("repository create", True),
        ("repository,nothing", True),
        ("nothing", False),
        ("repository nothing", False),
        ("-repository", False),
        ("-nothing", True),
        ("-create", False),
        ("other", False),
        ("request", False),
        ("title", False),
        ("repository tool:Create", True),
        ("repository tool:create", False),
        ("id:00f*", True),
    ],
)
def test_a_text_is_found_in_the_event_and_in_what_was_said(
    payloads: Path, filter: str, found: bool
) -> None:
    assert fits(payloads, filter, line()) is found


@pytest.mark.parametrize(
    "event",
    [
        line(payload_file="2026-07-28/13-0badcafe-0"),
        line(payload_file="../../etc/passwd"),
        line(payload_file=7),
        line(span_id="2" * 16),
        line(span_id="4" * 16),
        line(span_id=None),
        b'{"metadata":3}',
        b"{}",
    ],
)
def test_what_was_erased_or_torn_or_never_there_has_no_texts(payloads: Path, event: bytes) -> None:
    assert not fits(payloads, "repository", event)
    assert fits(payloads, "-repository", event)


def test_how_much_was_read_of_payloads_is_told(payloads: Path) -> None:
    with closing(TextSearch(payloads, parse_filter("repository", NOON))) as search:
        search.matches(line())
        once = search.bytes_read
        assert once > 100
        search.matches(line(tool="repository"))  # Found in the event itself.
    assert search.bytes_read == once


def test_an_empty_file_is_no_matter(payloads: Path) -> None:
    (payloads / "payloads" / f"{FILE}.jsonl").write_bytes(b"")
    assert not fits(payloads, "repository", line())
