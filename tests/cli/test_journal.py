"""Events as people see them."""

import json
import sqlite3
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from anyport.cli.ending import CommandFailed
from anyport.cli.journal import cells, decode, open_index, term_of_trace, whole_trace_id
from anyport.record import database
from anyport.record.filter_tree import Filter
from tests.record.story import NOON, ONE, Story

WEST = timezone(timedelta(hours=-5))


def line(timestamp: str = "2026-07-28T12:00:00.250000+00:00") -> bytes:
    event = {
        "timestamp": timestamp,
        "trace_id": ONE,
        "status": "failure",
        "event_type": "gateway.tool_call",
        "metadata": {"server": "s", "tool": "t\x1b[2J"},
        "duration_ms": 1500.0,
        "error_code": -7,
        "error_message": "Not\ntoday",
    }
    return json.dumps(event).encode()


def test_an_event_is_a_row_in_the_time_of_its_reader() -> None:
    event = decode(line())
    assert event is not None
    assert cells(event, WEST) == (
        "07-28 07:00:00.250",
        "tool_call",
        "failure",
        "s",
        "t",
        "1.50 s",
        "11111111",
        "Not↵today (error -7)",
    )


@pytest.mark.parametrize(
    ("event_type", "metadata", "subject"),
    [
        ("exchange", {"method": "resources/subscribe", "uri": "x:y"}, "resources/subscribe"),
        ("frame", {"method": "notifications/progress"}, "notifications/progress"),
        ("session_started", {"client": "cursor 1.0"}, "cursor 1.0"),
        ("hook_failed", {"hook": "alarm"}, "alarm"),
        ("stderr", {"method": "notifications/stderr"}, ""),
        ("tool_call", {"tool": "echo", "method": "tools/call", "client": "x"}, "echo"),
    ],
)
def test_every_event_is_about_something(
    event_type: str, metadata: dict[str, str], subject: str
) -> None:
    told = json.loads(line()) | {"event_type": f"gateway.{event_type}", "metadata": metadata}
    event = decode(json.dumps(told).encode())
    assert event is not None
    assert event.subject == subject


def test_a_time_without_a_zone_is_utc() -> None:
    event = decode(line(timestamp="2026-07-28T12:00:00.250000"))
    assert event is not None
    assert event.moment.timestamp() == NOON


@pytest.mark.parametrize("broken", [b"", b"{", b'{"timestamp":"x"}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_event_is_nothing(broken: bytes) -> None:
    assert decode(broken) is None


@pytest.mark.parametrize(
    ("spelt", "found"),
    [
        ("11111111-1111-1111-1111-111111111111", 1),
        ("11111111-1111", 1),
        (" 1111 ", 1),
        ("1", 1),
        ("2" * 32, 0),
    ],
)
def test_a_trace_id_may_be_spelt_with_dashes_and_need_not_be_whole(
    tmp_path: Path, spelt: str, found: int
) -> None:
    Story(tmp_path).call(1)
    with open_index(tmp_path) as index:
        assert len(index.query(Filter(terms=(term_of_trace(spelt),)))) == found


def test_the_beginning_of_a_trace_id_stands_for_it_however_long_ago_it_was(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.call(0, trace_id="abcd" * 8)
    for n in range(1200):
        story.journal.note("gateway.stderr", "success", trace_id=ONE, metadata={"n": n})
    story.journal.flush()
    with open_index(tmp_path) as index:
        assert whole_trace_id(index, "abcdabcd") == "abcd" * 8


def test_the_index_is_up_to_date(tmp_path: Path) -> None:
    Story(tmp_path).call(1)
    with open_index(tmp_path) as index:
        assert len(index.query()) == 1


def test_where_nothing_was_recorded_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="nothing has been recorded"), open_index(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_index_that_another_process_keeps_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Story(tmp_path).call(1)
    with open_index(tmp_path):
        pass
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.0)
    other = sqlite3.connect(tmp_path / "events.sqlite3", isolation_level=None)
    with pytest.raises(CommandFailed, match="another process"), open_index(tmp_path) as index:
        other.execute("BEGIN EXCLUSIVE")
        index.rebuild()
    other.close()
