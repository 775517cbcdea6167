"""Texts in events, and in what was said."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anyport.record.filter import parse_filter
from anyport.record.searching import Search
from tests.record.story import NOON, ONE

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
    with closing(Search(state_dir, parse_filter(filter, NOON))) as search:
        return search.fits(event)


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
    with closing(Search(payloads, parse_filter("repository", NOON))) as search:
        search.fits(line())
        once = search.bytes_read
        assert once > 100
        search.fits(line(tool="repository"))  # Found in the event itself.
    assert search.bytes_read == once


def test_an_empty_file_is_no_matter(payloads: Path) -> None:
    (payloads / "payloads" / f"{FILE}.jsonl").write_bytes(b"")
    assert not fits(payloads, "repository", line())
