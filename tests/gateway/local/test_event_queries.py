"""Questions to the journal."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.local.event_queries import (
    INCOMPLETE_MESSAGE,
    PAGE_BYTES_MAX,
    TOO_LARGE,
    BadQuery,
    EventQueries,
)
from anyport.gateway.local.gateway_tools import text_result
from anyport.record.event import EVENT_BYTES_MAX, TEXT_CHARS_MAX
from anyport.record.index import index
from anyport.record.journal.journal import Journal

MINE = "a" * 32


class Archive:
    """A journal of a few calls, and what can be asked of it."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path, source="test", now=lambda: 1_800_000_000.0, redact=str)
        self.events = EventQueries(path, self.journal)

    def note(self, trace_id: str, status: Any, event_type: Any = "gateway.tool_call") -> None:
        self.journal.record(event_type, status, trace_id=trace_id, metadata={"tool": "echo"})

    def ask(self, **arguments: object) -> list[dict[str, Any]]:
        raw, _ = self.ask_raw(json.dumps(arguments).encode())
        found: list[dict[str, Any]] = json.loads(raw)
        return found

    def ask_raw(self, arguments: bytes) -> tuple[bytes, bytes]:
        result = json.loads(asyncio.run(self.events.query(arguments, MINE)))
        events, about = (item["text"].encode() for item in result["content"])
        return events, about


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
        ({"filter": "status:error"}, 1),
        ({"filter": "tool:e* -status:pending", "status": "success"}, 5),
        ({"filter": "type:started"}, 1),
        ({"filter": "ECHO"}, 11),
        ({"filter": "since:2030-01-01"}, 0),
        ({"filter": ""}, 11),
        ({"trace_id": ""}, 11),
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
        archive.ask_raw(b"[]")


def test_a_filter_that_is_none_is_shown_with_the_fault_marked(archive: Archive) -> None:
    with pytest.raises(BadQuery) as caught:
        archive.ask(filter="status:eror")

    *_, line, carets = str(caught.value).splitlines()
    assert line == "status:eror"
    assert carets == "       ^^^^"
    with pytest.raises(BadQuery, match="status: has no such value"):
        asyncio.run(archive.events.page({"filter": "status:eror"}))
    with pytest.raises(BadQuery, match="status: has no such value"):
        asyncio.run(archive.events.traffic({"filter": "status:eror"}))


def test_the_answer_tells_the_trace_of_the_call_that_asked(archive: Archive) -> None:
    _, about = archive.ask_raw(b"{}")
    assert json.loads(about) == {"trace_id": MINE}


def test_a_search_that_was_given_up_says_so(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "SCANNED_BYTES_MAX", 1000)
    events, about = archive.ask_raw(b'{"filter": "no-such-text"}')
    assert json.loads(events) == []
    assert json.loads(about)["incomplete"] == INCOMPLETE_MESSAGE


def long_events(archive: Archive, bytes_min: int) -> int:
    """Notes long events that come to at least so much; how many."""
    texts = {f"text-{number}": "x" * TEXT_CHARS_MAX for number in range(10)}
    count = 1 + bytes_min // (len(texts) * TEXT_CHARS_MAX)
    for number in range(count):
        archive.journal.record(
            "gateway.stderr", "success", trace_id=f"{number:032x}", metadata=texts
        )
    return count


def test_an_answer_has_the_newest_events_up_to_so_many_bytes_and_says_so(archive: Archive) -> None:
    count = long_events(archive, 2 * PAGE_BYTES_MAX)
    raw, about = archive.ask_raw(b'{"event_type": "gateway.stderr", "limit": 1000}')
    events = json.loads(raw)
    assert PAGE_BYTES_MAX <= len(raw) < PAGE_BYTES_MAX + EVENT_BYTES_MAX + len(events)
    assert [int(event["trace_id"], 16) for event in events] == [*range(count)][-len(events) :]
    assert json.loads(about)["incomplete"] == TOO_LARGE

    _, about = archive.ask_raw(b'{"event_type": "gateway.stderr", "limit": 3}')
    assert "incomplete" not in json.loads(about)


def test_pages_of_long_events_are_shorter_and_lead_to_each_other(archive: Archive) -> None:
    count = long_events(archive, 2 * PAGE_BYTES_MAX)
    found = pages(archive, event_type="gateway.stderr", limit="1000")
    assert len(found) == 3
    assert [id for page in reversed(found) for id in page] == [f"{n:032x}" for n in range(count)]


def test_an_answer_is_put_together_in_a_thread(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def put_together(*documents: bytes) -> bytes:
        threads.append(threading.get_ident())
        return text_result(*documents)

    monkeypatch.setattr("anyport.gateway.local.event_queries.text_result", put_together)
    assert len(archive.ask()) == 11
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


# Frames, and requests that are no calls


@pytest.fixture
def busy(archive: Archive) -> Archive:
    """With traffic that is seldom wanted."""
    archive.journal.record(
        "gateway.exchange",
        "success",
        trace_id="e" * 32,
        metadata={"method": "tools/list", "span_id": "0123456789abcdef"},
    )
    frame: dict[str, Any] = {"kind": "server-notification", "side": "server", "bytes": 7}
    archive.journal.record("gateway.frame", "success", trace_id="e" * 32, metadata=frame)
    return archive


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({}, 11),
        ({"status": "success"}, 5),
        ({"filter": "status:ok"}, 5),
        ({"filter": "-type:started"}, 10),
        ({"event_type": "gateway.frame"}, 1),
        ({"filter": "type:exchange,frame"}, 2),
        ({"filter": "type:*"}, 13),
        ({"filter": "method:tools/list"}, 1),
        ({"filter": "kind:server-*"}, 1),
        ({"filter": "side:server"}, 1),
        ({"filter": "id:0123456789"}, 1),
        ({"trace_id": "e" * 32}, 2),
    ],
)
def test_lesser_traffic_is_shown_to_who_asks_for_it(
    busy: Archive, arguments: dict[str, object], count: int
) -> None:
    assert len(busy.ask(**arguments)) == count


def test_traffic_is_every_exchange_that_ended_and_every_frame(busy: Archive) -> None:
    page = asyncio.run(busy.events.traffic({"limit": "3"}))
    assert [json.loads(line)["event_type"] for line in page.lines] == [
        *("gateway.tool_call", "gateway.exchange", "gateway.frame")
    ]
    assert page.cursor is not None
    older = asyncio.run(busy.events.traffic({"cursor": page.cursor, "filter": "status:success"}))
    assert len(older.lines) == 3
    assert older.cursor is None


# Keeping up


def test_nobody_asks_and_nothing_is_done(archive: Archive, tmp_path: Path) -> None:
    archive.journal.flush()
    asyncio.run(archive.events.keep_up(lambda: True))
    assert not (tmp_path / "events.sqlite3").exists()


@pytest.mark.parametrize("idle", [True, False])
def test_after_a_question_the_index_is_kept_up_while_the_gateway_is_idle(
    archive: Archive, idle: bool
) -> None:
    archive.ask()
    archive.note("1" * 32, "success")
    archive.journal.flush()
    asyncio.run(archive.events.keep_up(lambda: idle))
    assert archive.events._index is not None
    assert len(archive.events._index.query()) == (12 if idle else 11)


def test_after_a_while_without_questions_it_is_not(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.ask()
    archive.note("1" * 32, "success")
    archive.journal.flush()
    monkeypatch.setattr("anyport.gateway.local.event_queries.KEEP_UP_SECONDS", 0.0)
    asyncio.run(archive.events.keep_up(lambda: True))
    assert archive.events._index is not None
    assert len(archive.events._index.query()) == 11


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
    with pytest.raises(BadQuery, match="The cursor is not one of this gateway"):
        asyncio.run(archive.events.page({"cursor": cursor}))
