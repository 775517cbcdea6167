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


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"event_type": "tool_call"}, "event_type must be one of .*gateway.tool_call"),
        ({"status": "good"}, "status must be one of .*success"),
        ({"colour": "red"}, "There is no 'colour' to ask by; there are trace_id, event_type"),
    ],
)
def test_who_asks_wrongly_is_told_what_can_be_asked(
    archive: Archive, parameters: dict[str, str], words: str
) -> None:
    with pytest.raises(BadQuery, match=words):
        asyncio.run(archive.events.page(parameters))
    with pytest.raises(BadQuery, match=words):
        archive.ask(**parameters)


def test_arguments_that_are_no_object_are_refused(archive: Archive) -> None:
    with pytest.raises(BadQuery):
        asyncio.run(archive.events.query(b"[]"))


def pages(archive: Archive, **parameters: str) -> list[list[str]]:
    """The trace ids of every page, from the newest page to the oldest."""
    found: list[list[str]] = []
    cursor: str | None = None
    while True:
        asked = parameters if cursor is None else {**parameters, "cursor": cursor}
        page = asyncio.run(archive.events.page(asked))
        found.append([json.loads(line)["trace_id"] for line in page.lines])
        cursor = page.cursor
        if cursor is None:
            return found


def test_pages_joined_are_the_whole_though_all_happened_at_one_moment(archive: Archive) -> None:
    whole = [event["trace_id"] for event in archive.ask()]

    found = pages(archive, limit="4")

    assert [len(page) for page in found] == [4, 4, 3]
    assert [trace for page in reversed(found) for trace in page] == whole


def test_a_page_that_is_just_full_may_be_followed_by_an_empty_one(archive: Archive) -> None:
    assert [len(page) for page in pages(archive, limit="11")] == [11, 0]


def test_pages_can_be_narrowed_like_a_search(archive: Archive) -> None:
    found = pages(archive, event_type="gateway.tool_call", status="pending", limit="2")

    assert [len(page) for page in found] == [2, 2, 1]


@pytest.mark.parametrize("cursor", ["", "x", "é", "WzFd", "WzEsIjIiLC0xXQ", "W10="])
def test_a_cursor_that_was_never_given_is_refused(archive: Archive, cursor: str) -> None:
    with pytest.raises(BadQuery, match="The cursor is not one that was given here"):
        asyncio.run(archive.events.page({"cursor": cursor}))
