"""Events as people see them."""

import json
import sqlite3
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from anyport.cli.ending import CommandFailed
from anyport.cli.journal import cells, decode, open_index, same_trace
from anyport.record import index as record_index
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
        "Not\N{REPLACEMENT CHARACTER}today (error -7)",
    )


def test_a_time_without_a_zone_is_utc() -> None:
    event = decode(line(timestamp="2026-07-28T12:00:00.250000"))
    assert event is not None
    assert event.moment.timestamp() == NOON


@pytest.mark.parametrize("broken", [b"", b"{", b'{"timestamp":"x"}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_event_is_nothing(broken: bytes) -> None:
    assert decode(broken) is None


def test_a_trace_id_may_be_spelt_with_dashes() -> None:
    event = decode(line())
    assert event is not None
    assert same_trace(event, "11111111-1111-1111-1111-111111111111")
    assert not same_trace(event, "2" * 32)


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
    monkeypatch.setattr(record_index, "BUSY_SECONDS", 0.0)
    other = sqlite3.connect(tmp_path / "events.sqlite3", isolation_level=None)
    with pytest.raises(CommandFailed, match="another process"), open_index(tmp_path) as index:
        other.execute("BEGIN EXCLUSIVE")
        index.rebuild()
    other.close()
