"""Questions to the journal."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.desk import BadQuery
from anyport.gateway.events import Events
from anyport.record.journal import Journal


class Archive:
    """A journal of a few calls, and what can be asked of it."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path, source="test", clock=lambda: 1_800_000_000.0, redact=str)
        self.events = Events(path, self.journal)

    def note(self, trace_id: str, status: Any, event_type: Any = "gateway.tool_call") -> None:
        self.journal.note(event_type, status, trace_id=trace_id, metadata={"tool": "echo"})

    def ask(self, **arguments: object) -> list[dict[str, Any]]:
        raw = asyncio.run(self.events.query(json.dumps(arguments).encode()))
        found: list[dict[str, Any]] = json.loads(raw)
        return found


@pytest.fixture
def archive(tmp_path: Path) -> Any:
    archive = Archive(tmp_path)
    for number in range(5):
        archive.note(f"{number:032x}", "pending")
        archive.note(f"{number:032x}", "failure" if number == 3 else "success")
    archive.note("f" * 32, "success", "gateway.started")
    yield archive
    archive.events.close()
    archive.journal.close()


def test_everything_noted_is_found_even_before_it_was_written(archive: Archive) -> None:
    assert len(archive.ask()) == 11


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"trace_id": f"{3:032x}"}, 2),
        ({"status": "failure"}, 1),
        ({"event_type": "gateway.started"}, 1),
        ({"event_type": "gateway.tool_call", "status": "pending"}, 5),
        ({"since": "2027-01-15T00:00:00Z"}, 11),
        ({"since": "2030-01-01T00:00:00Z"}, 0),
        ({"limit": 3}, 3),
        ({"limit": 0}, 1),
        ({"limit": 10**6}, 11),
    ],
)
def test_a_search_can_be_narrowed(
    archive: Archive, arguments: dict[str, object], count: int
) -> None:
    assert len(archive.ask(**arguments)) == count


@pytest.mark.parametrize(
    "arguments",
    [
        {"status": "fine"},
        {"event_type": "x"},
        {"since": "yesterday"},
        {"limit": "3"},
        {"unknown": 1},
        {"trace_id": 7},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    archive: Archive, arguments: dict[str, object]
) -> None:
    with pytest.raises(BadQuery):
        archive.ask(**arguments)


def test_arguments_that_are_no_object_are_refused(archive: Archive) -> None:
    with pytest.raises(BadQuery):
        asyncio.run(archive.events.query(b"[]"))
