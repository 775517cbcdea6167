"""The journal, read from end to end."""

import json
from collections.abc import Iterator
from pathlib import Path

from anyport.record.filter import parse_filter
from anyport.record.scan import scan, scan_events
from tests.record.recorded import exchange, write_events
from tests.record.story import NOON


def spans(lines: Iterator[bytes]) -> list[str]:
    return [json.loads(line)["metadata"]["span_id"] for line in lines]


def test_lines_come_as_they_were_written_with_their_place_in_the_chain(tmp_path: Path) -> None:
    path = write_events(tmp_path, exchange(span_id="1"), exchange(span_id="2"))

    assert list(scan(tmp_path)) == path.read_bytes().splitlines()
    assert b'"seq":2' in path.read_bytes()


def test_files_come_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    write_events(tmp_path, exchange(span_id="1"), month="2026-06")
    path = write_events(tmp_path, exchange(span_id="2"))
    path.rename(path.with_name("events-0001.jsonl"))
    write_events(tmp_path, exchange(span_id="3"))

    assert spans(scan(tmp_path)) == ["1", "2", "3"]


def test_a_file_that_gets_its_number_meanwhile_is_not_missed(tmp_path: Path) -> None:
    write_events(tmp_path, exchange(span_id="1"), month="2026-06")
    path = write_events(tmp_path, exchange(span_id="2"))

    lines = scan(tmp_path)
    first = next(lines)
    path.rename(path.with_name("events-0001.jsonl"))
    write_events(tmp_path, exchange(span_id="3"))

    assert sorted(spans(iter([first, *lines]))) == ["1", "2", "3"]


def test_a_line_without_its_end_is_not_there_yet(tmp_path: Path) -> None:
    path = write_events(tmp_path, exchange(span_id="1"))
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2026')

    assert spans(scan(tmp_path)) == ["1"]


def test_months_before_the_moment_are_not_read(tmp_path: Path) -> None:
    write_events(tmp_path, exchange(span_id="1"), month="2026-06")
    write_events(tmp_path, exchange(span_id="2"))

    assert spans(scan(tmp_path, NOON)) == ["2"]


def test_where_nothing_was_recorded_nothing_comes(tmp_path: Path) -> None:
    assert list(scan(tmp_path)) == []


def test_only_events_that_match_come(tmp_path: Path) -> None:
    path = write_events(tmp_path, exchange(span_id="1"), exchange(span_id="2", server="docs"))
    with path.open("ab") as file:
        file.write(b"torn\n\xff\n[]\n")
    write_events(tmp_path, exchange(span_id="3", server="docs"))

    found = list(scan_events(tmp_path, parse_filter("server:docs since:2026-07-01", NOON)))
    assert spans(line for line, _ in found) == ["2", "3"]
    assert [event["metadata"]["server"] for _, event in found] == ["docs", "docs"]
