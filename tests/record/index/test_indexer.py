"""Keeping up with files; what comes of it is shown on the index as a whole."""

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anyport.record.filter.keys import KEYS
from anyport.record.index import indexer
from anyport.record.index.database import Database
from anyport.record.index.index import INDEX_FILE, Index
from anyport.record.index.indexer import (
    NO_ID,
    ROWS_PER_INSERT,
    SESSION_FIELD,
    SORT_METADATA,
    SORT_TOP,
    SPAN_FIELD,
    STRETCH_BITS,
    TRACE_FIELD,
    IdField,
    Indexer,
    RowBatch,
    RowParser,
    find_event,
    find_ids,
    is_storable_id,
    session_digits,
)
from anyport.record.index.indexer import session_digits as digits_of
from tests.record.story import NOON, ONE, Story, numbers


def test_a_stretch_that_grows_stays_one(story: Story, index: Index) -> None:
    for n in range(5):
        took = {} if n == 4 else {"duration_ms": float(n)}
        story.call(n, trace_id=f"{n + 1:032x}", **took)
        story.clock.seconds += 1
        index.catch_up()
    ((_, first, last, longest, places, marks),) = index._database.rows("SELECT * FROM stretches")
    assert last - first == 4
    assert longest == 3.0
    assert len(places) == 5 * 8
    assert len(marks) == 5 * 32


@pytest.mark.parametrize("count", [1, ROWS_PER_INSERT - 1, ROWS_PER_INSERT, ROWS_PER_INSERT + 1])
def test_every_row_of_a_piece_is_kept(story: Story, index: Index, count: int) -> None:
    for n in range(count):
        story.call(n)
    index.catch_up()
    assert numbers(index.query()) == list(range(count))


def test_lines_belong_to_the_stretch_in_which_they_begin(story: Story, index: Index) -> None:
    story.call(1)
    line = story.file.read_bytes()
    count = (3 << STRETCH_BITS) // len(line)
    story.file.write_bytes(line * count)
    index.catch_up()
    rows = index._database.rows(
        "SELECT place >> ?, count(*) FROM events GROUP BY 1", (STRETCH_BITS,)
    )
    stretches = index._database.rows("SELECT number, length(marks) / 32 FROM stretches")
    assert rows == stretches
    assert sum(number for _, number in rows) == count


def test_sorts_of_a_file_that_is_gone_go_with_it(story: Story, index: Index) -> None:
    story.call(1, tool="old")
    story.clock.seconds += 40 * 86_400
    story.call(2, tool="new")
    story.call(3, tool="new", trace_id="odd")
    index.catch_up()
    story.file.unlink()
    index.catch_up()
    assert len(index._database.rows("SELECT * FROM sorts")) == 1
    assert len(index._database.rows("SELECT * FROM spread")) == 1
    assert len(index._database.rows("SELECT * FROM odd")) == 1
    story.clock.seconds += 1
    story.call(4, tool="old")
    index.catch_up()
    assert numbers(index.query()) == [2, 3, 4]


def test_numbers_of_sorts_are_not_remembered_across_a_change_by_another(
    story: Story, index: Index, tmp_path: Path
) -> None:
    story.call(1, tool="a")
    index.catch_up()
    with closing(Index(tmp_path)) as other:
        story.call(2, tool="b")
        story.call(3, tool="a")
        with other._database.write_transaction():
            other._database.execute("UPDATE sorts SET number = number + 10")
            other._database.execute("UPDATE spread SET sort = sort + 10")
            other._database.execute("UPDATE events SET sort = sort + 10")
        index.catch_up()
        assert {stat.target: stat.counts for stat in index.stats().rows} == {
            "a": {"success": 2},
            "b": {"success": 1},
        }


def test_what_failed_half_way_is_done_again_as_a_whole(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Database(tmp_path / INDEX_FILE)) as database:
        intake = Indexer(database, tmp_path / "events")
        story.call(1, tool="a")
        keep = Indexer._store

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Indexer, "_store", fail)
        with pytest.raises(KeyboardInterrupt):
            list(intake.index_in_steps())
        monkeypatch.setattr(Indexer, "_store", keep)
        list(intake.index_in_steps())
        rows = "SELECT count(*) FROM events JOIN sorts ON number = sort"
        assert database.rows(rows) == [(1,)]


def test_a_file_without_end_has_nothing_to_read(story: Story, index: Index) -> None:
    story.call(1)
    story.file.with_name("events-0001.jsonl").symlink_to("/dev/zero")
    index.catch_up()
    assert numbers(index.query()) == [1]


def test_no_file_stays_open(story: Story, index: Index) -> None:
    for n in range(20):
        story.call(n)
    before = len(os.listdir("/proc/self/fd"))
    index.catch_up_step(500)
    index.catch_up()
    index.query()
    assert len(os.listdir("/proc/self/fd")) == before


# Parsing of lines


class Sorts:
    """Numbers sorts as they come."""

    def __init__(self) -> None:
        self.known: list[bytes] = []
        self.reader = RowParser(self.find)

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
    batch = Sorts().reader.parse(text, 1000)

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
    assert sorts.reader.parse(text, 0).column("sort") == [1, 1, 2]
    # The slower way finds the same ones: an id that is no number takes it.
    assert sorts.reader.parse(line(same, trace_id="odd"), 0).column("sort") == [1]
    assert json.loads(sorts.known[0]) == {
        "event_type": "gateway.tool_call",
        "status": "success",
        "error_code": None,
        "metadata": {"server": "a", "tool": "t", "client": "c 1"},
    }


def test_what_was_forgotten_is_asked_for_again() -> None:
    sorts = Sorts()
    sorts.reader.parse(line(), 0)
    sorts.known = [b"another"]
    assert sorts.reader.parse(line(), 0).column("sort") == [1]
    sorts.reader.forget_sorts()
    assert sorts.reader.parse(line(), 0).column("sort") == [2]


@pytest.mark.parametrize("what", ["SORTS_REMEMBERED_MAX", "SESSIONS_REMEMBERED_MAX"])
def test_no_more_is_remembered_than_there_is_room_for(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, what, 3)
    sorts = Sorts()
    lines = [line({"tool": str(n), "session": f"s-{n}"}) for n in range(10)]
    batch = sorts.reader.parse(b"".join(lines), 0)
    assert batch.column("sort") == list(range(1, 11))
    assert [mark[-16:] for mark in batch.id_digits] == [session_digits(f"s-{n}") for n in range(10)]
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
    batch = Sorts().reader.parse(line() + line(metadata, trace_id=trace_id), 0)
    assert batch.id_digits == [ONE + NO_ID * 2, mark + NO_ID]
    assert batch.unusual_ids == ([] if odd is None else [(len(line()), *odd)])
    assert len(batch.id_block) == 64


def test_a_line_that_is_no_event_is_counted_and_takes_its_room() -> None:
    text = b"garbage\n\n \n" + line()
    batch = Sorts().reader.parse(text, 0)
    assert batch.broken_line_count == 1
    assert batch.column("place") == [text.index(b"{")]


def test_an_event_that_follows_on_a_torn_line_stands_where_that_line_begins() -> None:
    torn = line()[:60] + line()
    batch = Sorts().reader.parse(torn, 0)
    assert (batch.broken_line_count, batch.column("place")) == (1, [0])
    assert batch.column("length") == [len(torn) - 1]
    assert find_event(torn[:-1]) == line()[:-1]
    assert find_event(line()[:-1]) == line()[:-1]
    assert find_event(torn[:50]) is None


def test_what_has_the_wrong_type_counts_as_absent() -> None:
    told = {"queue_ms": True, "server_ms": "1", "params_bytes": [1], "bytes": 10**30}
    for metadata in (told, 3, "text"):
        batch = Sorts().reader.parse(line(metadata, duration_ms="1"), 0)
        size = 1e30 if metadata is told else None
        assert batch.rows[4:] == [None, None, None, size]


def test_everything_that_a_filter_can_ask_of_a_sort_is_in_it() -> None:
    elsewhere = {"trace_id", "metadata.span_id", "metadata.session", "timestamp", "duration_ms"}
    elsewhere |= {"metadata.queue_ms", "metadata.server_ms", *KEYS["size"].where}
    asked = {path for name, key in KEYS.items() if name != "text" for path in key.where}
    kept = {*SORT_TOP, *(f"metadata.{name}" for name in SORT_METADATA)}
    assert asked - elsewhere == kept


def test_the_quick_way_and_the_slow_way_agree_on_every_member() -> None:
    names = [field.name for field in msgspec.structs.fields(indexer._IndexedMetadata)]
    told: dict[str, Any] = {name: name for name in names}
    told |= {name: n + 1 for n, name in enumerate(names) if name.endswith(("_ms", "bytes"))}
    told["span_id"] = "00f067aa0ba902b7"
    text = line(told, duration_ms=1.0, error_code=-1)
    sorts = Sorts()
    quick, slow = sorts.reader._parse_fast(text, 5), sorts.reader._parse_slow(text, 5)
    assert [getattr(quick, name) for name in RowBatch.__slots__] == [
        getattr(slow, name) for name in RowBatch.__slots__
    ]
    assert set(json.loads(sorts.known[0])["metadata"]) == set(SORT_METADATA)


# Packed ids


ONE, TWO = "4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737"
BLOCK = bytes.fromhex(
    "".join(
        [
            ONE + "00f067aa0ba902b7" + digits_of("s-1"),
            TWO + "10f067aa0ba902b7" + digits_of("s-2"),
            # Its span is what the trace of another begins with.
            "f" * 32 + ONE[:16] + NO_ID,
            NO_ID * 2 + NO_ID + digits_of("s-1"),
        ]
    )
)


@pytest.mark.parametrize(
    ("field", "beginning", "found"),
    [
        (TRACE_FIELD, ONE, [0]),
        (TRACE_FIELD, ONE[:31], [0, 1]),
        (TRACE_FIELD, ONE[:4], [0, 1]),
        (TRACE_FIELD, ONE[:5], [0, 1]),
        (TRACE_FIELD, "4bf93", []),
        (TRACE_FIELD, "ffff", [2]),
        (SPAN_FIELD, "4bf9", [2]),
        (SPAN_FIELD, "00f067aa0ba902b7", [0]),
        (SPAN_FIELD, "f067", []),
        (SESSION_FIELD, digits_of("s-1"), [0, 3]),
        (SESSION_FIELD, digits_of("s-3"), []),
        (TRACE_FIELD, "0000", []),
        (TRACE_FIELD, ONE + "0", []),
        (TRACE_FIELD, "no such id", []),
        (TRACE_FIELD, ONE.upper(), []),
    ],
)
def test_an_id_is_found_by_its_beginning_and_in_its_own_field_alone(
    field: IdField, beginning: str, found: list[int]
) -> None:
    assert list(find_ids(BLOCK, field, beginning)) == found


def test_a_session_of_any_name_has_digits_of_its_own() -> None:
    names = ["", "s", "S", "s" * 5000, "ö", "\ud800"]
    assert len({digits_of(name) for name in names}) == len(names)
    assert all(is_storable_id(digits_of(name), SESSION_FIELD) for name in names)


@pytest.mark.parametrize(
    ("text", "plain"), [(ONE, True), (ONE.upper(), False), (ONE[:-1], False), ("g" * 32, False)]
)
def test_only_small_hexadecimal_digits_of_the_right_number_are_plain(
    text: str, plain: bool
) -> None:
    assert is_storable_id(text, TRACE_FIELD) is plain
