"""Lines as rows."""

import json
from typing import Any

import msgspec
import pytest

from anyport.record import reading
from anyport.record.filter_keys import KEYS
from anyport.record.marks import NO_ID, session_digits
from anyport.record.reading import SORT_METADATA, SORT_TOP, Batch, Reader, event_in
from tests.record.story import NOON, ONE


class Sorts:
    """Numbers sorts as they come."""

    def __init__(self) -> None:
        self.known: list[bytes] = []
        self.reader = Reader(self.find)

    def find(self, about: bytes) -> int:
        if about not in self.known:
            self.known.append(about)
        return self.known.index(about) + 1


def line(metadata: Any = None, **fields: Any) -> bytes:
    event = {
        "timestamp": "2026-07-28T12:00:00.250000+00:00",
        "trace_id": ONE,
        "status": "success",
        "event_type": "gateway.tool_call",
        "metadata": metadata or {},
    }
    return msgspec.json.encode(event | fields) + b"\n"


def test_a_row_is_a_moment_a_place_and_what_was_measured() -> None:
    told = {"queue_ms": 1, "server_ms": 2.5, "params_bytes": 7, "result_bytes": 9, "tool": "t"}
    text = line(told, duration_ms=4.5) + line()
    batch = Sorts().reader.read(text, 1000)

    first = text.index(b"\n")
    assert batch.rows == [
        *(NOON, 1000, first, 1, 4.5, 1.0, 2.5, 9.0),
        *(NOON, 1000 + first + 1, len(line()) - 1, 2, None, None, None, None),
    ]
    assert batch.column("sort") == [1, 2]
    assert batch.column("place") == [1000, 1000 + first + 1]


def test_events_of_a_sort_share_its_number() -> None:
    sorts = Sorts()
    same = {"server": "a", "tool": "t", "client": "c 1"}
    text = line(same) + line(same, duration_ms=3.0) + line(same, status="failure")
    assert sorts.reader.read(text, 0).column("sort") == [1, 1, 2]
    # The slower way finds the same ones: an id that is no number takes it.
    assert sorts.reader.read(line(same, trace_id="odd"), 0).column("sort") == [1]
    assert json.loads(sorts.known[0]) == {
        "event_type": "gateway.tool_call",
        "status": "success",
        "error_code": None,
        "metadata": {"server": "a", "tool": "t", "client": "c 1"},
    }


def test_what_was_forgotten_is_asked_for_again() -> None:
    sorts = Sorts()
    sorts.reader.read(line(), 0)
    sorts.known = [b"another"]
    assert sorts.reader.read(line(), 0).column("sort") == [1]
    sorts.reader.forget()
    assert sorts.reader.read(line(), 0).column("sort") == [2]


@pytest.mark.parametrize("what", ["SORTS_REMEMBERED_MAX", "SESSIONS_REMEMBERED_MAX"])
def test_no_more_is_remembered_than_there_is_room_for(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, what, 3)
    sorts = Sorts()
    lines = [line({"tool": str(n), "session": f"s-{n}"}) for n in range(10)]
    batch = sorts.reader.read(b"".join(lines), 0)
    assert batch.column("sort") == list(range(1, 11))
    assert [mark[-16:] for mark in batch.marks] == [session_digits(f"s-{n}") for n in range(10)]
    remembered = sorts.reader._sorts if what.startswith("SORTS") else sorts.reader._sessions
    assert len(remembered) <= 4


@pytest.mark.parametrize(
    ("metadata", "trace_id", "mark", "odd"),
    [
        ({"span_id": "00f067aa0ba902b7"}, ONE, ONE + "00f067aa0ba902b7", None),
        ({}, ONE, ONE + NO_ID, None),
        ({}, "11111111-1111-1111-1111-111111111111", ONE + NO_ID, None),
        ({}, "A" * 32, "a" * 32 + NO_ID, None),
        ({}, "odd", NO_ID * 3, ("odd", None)),
        ({"span_id": "x"}, ONE, ONE + NO_ID, (None, "x")),
        ({"span_id": "F" * 16}, ONE, ONE + NO_ID, (None, "F" * 16)),
        ({"span_id": "z" * 16}, ONE, ONE + NO_ID, (None, "z" * 16)),
        ({"span_id": 7}, ONE, ONE + NO_ID, None),
        ({"span_id": " " * 16}, "  " * 16, NO_ID * 3, ("  " * 16, " " * 16)),
    ],
)
def test_ids_that_are_no_numbers_are_kept_apart(
    metadata: dict[str, Any], trace_id: str, mark: str, odd: tuple[Any, Any] | None
) -> None:
    batch = Sorts().reader.read(line() + line(metadata, trace_id=trace_id), 0)
    assert batch.marks == [ONE + NO_ID * 2, mark + NO_ID]
    assert batch.odd == ([] if odd is None else [(len(line()), *odd)])
    assert len(batch.block) == 64


def test_a_line_that_is_no_event_is_counted_and_takes_its_room() -> None:
    text = b"garbage\n\n \n" + line()
    batch = Sorts().reader.read(text, 0)
    assert batch.broken == 1
    assert batch.column("place") == [text.index(b"{")]


def test_an_event_that_follows_on_a_torn_line_stands_where_that_line_begins() -> None:
    torn = line()[:60] + line()
    batch = Sorts().reader.read(torn, 0)
    assert (batch.broken, batch.column("place")) == (1, [0])
    assert batch.column("length") == [len(torn) - 1]
    assert event_in(torn[:-1]) == line()[:-1]
    assert event_in(line()[:-1]) == line()[:-1]
    assert event_in(torn[:50]) is None


def test_what_has_the_wrong_type_counts_as_absent() -> None:
    told = {"queue_ms": True, "server_ms": "1", "params_bytes": [1], "bytes": 10**30}
    for metadata in (told, 3, "text"):
        batch = Sorts().reader.read(line(metadata, duration_ms="1"), 0)
        size = 1e30 if metadata is told else None
        assert batch.rows[4:] == [None, None, None, size]


def test_everything_that_a_filter_can_ask_of_a_sort_is_in_it() -> None:
    elsewhere = {"trace_id", "metadata.span_id", "metadata.session", "timestamp", "duration_ms"}
    elsewhere |= {"metadata.queue_ms", "metadata.server_ms", *KEYS["size"].where}
    asked = {path for name, key in KEYS.items() if name != "text" for path in key.where}
    kept = {*SORT_TOP, *(f"metadata.{name}" for name in SORT_METADATA)}
    assert asked - elsewhere == kept


def test_the_quick_way_and_the_slow_way_agree_on_every_member() -> None:
    names = [field.name for field in msgspec.structs.fields(reading._Metadata)]
    told: dict[str, Any] = {name: name for name in names}
    told |= {name: n + 1 for n, name in enumerate(names) if name.endswith(("_ms", "bytes"))}
    told["span_id"] = "00f067aa0ba902b7"
    text = line(told, duration_ms=1.0, error_code=-1)
    sorts = Sorts()
    quick, slow = sorts.reader._read_quickly(text, 5), sorts.reader._read_slowly(text, 5)
    assert [getattr(quick, name) for name in Batch.__slots__] == [
        getattr(slow, name) for name in Batch.__slots__
    ]
    assert set(json.loads(sorts.known[0])["metadata"]) == set(SORT_METADATA)
