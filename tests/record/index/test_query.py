"""Rows of the index: what a filter finds there is what it finds in the events themselves."""

import itertools
import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyport.record.event import format_timestamp
from anyport.record.filter.ast import Filter
from anyport.record.filter.keys import KEYS
from anyport.record.filter.match import compile_filter
from anyport.record.filter.parser import parse_filter
from anyport.record.index.index import Index
from anyport.record.index.indexer import STRETCH_BITS
from anyport.record.index.query import (
    _ORDER_BY_TIME,
    _SELECT_ROWS,
    TRAFFIC_TYPES,
    IndexSelection,
    RowFinder,
    select_events,
    without_traffic,
)
from tests.record.story import NOON

IDS = ["0" * 31 + "1", "a" * 32, "ab" * 16, "A" * 32, "550e8400-e29b-41d4-a716-446655440000", "odd"]
SPANS = ["00f067aa0ba902b7", "00f067aa0ba902b8", "F" * 16, "x", 7, None]
TEXTS = ["a", "b", "ab", "A", "ö", "", 3, ["a"], None]
NUMBERS = [0, 1, 2.5, 1000, -1, True, "1", None]
TYPES = ["gateway.tool_call", "gateway.exchange", "gateway.frame", "gateway.started", "other"]

METADATA: dict[str, list[Any]] = {
    **dict.fromkeys(("server", "tool", "prompt", "public_name", "client", "session"), TEXTS),
    **dict.fromkeys(("queue_ms", "server_ms"), NUMBERS),
    **{key: [0, 10, 2000, "1", None] for key in ("params_bytes", "bytes")},
    "span_id": SPANS,
    "method": ["tools/list", None],
    "outcome": ["ok", "tool_error", None],
    "kind": ["request", "stderr", None],
    "side": ["client", "server", None],
    "client_revision": ["2025-06-18", "2026-07-28", None],
    "server_transport": ["stdio", "sse", None],
    "era": ["modern", None],
}

event: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 5).map(lambda n: format_timestamp(NOON + n)),
        "trace_id": st.sampled_from(IDS),
        "status": st.sampled_from(["pending", "success", "failure", "timeout"]),
        "event_type": st.sampled_from(TYPES),
        "metadata": st.one_of(
            st.fixed_dictionaries(
                {}, optional={name: st.sampled_from(some) for name, some in METADATA.items()}
            ),
            st.sampled_from([None, 3, "text"]),
        ),
    },
    optional={
        "duration_ms": st.sampled_from(NUMBERS),
        "error_code": st.sampled_from([-32602, 0, 1.5, "odd", None, True]),
        "error_message": st.sampled_from(["a", "AB", 1]),
    },
)

term = st.tuples(
    st.sampled_from(["", "-"]),
    st.sampled_from(
        [
            *("server:a", "server:a,b", "server:*", "server:?", "tool:a*", "prompt:a", "target:*b"),
            *("client:a", "session:a", "session:ab,b", "session:*", "type:tool_call", "type:*"),
            *("kind:exchange", "kind:stderr", "side:client", "outcome:ok", "outcome:*error"),
            *("code:-32602", "code:<0", "code:odd", "status:error", "status:ok", "era:modern"),
            *("revision:2025-*", "transport:stdio", "method:tools/*"),
            *("trace:aaaa", "trace:ab", "trace:abab", f"trace:{'a' * 32}", "trace:550e8400"),
            *("trace:odd", "trace:o*", "trace:0000", f"trace:{'a' * 40}"),
            *("id:00f067aa0ba902b7", "id:00f067aa0", "id:00f", "id:x", "id:ffff", "id:0*8"),
            *("dur:>1", "dur:<=2.5", "dur:1..1000", "dur:=0", "queue:<1s", "wait:>=1", "size:>5"),
            *("size:0", "size:<1kb,>1kb", "a", '"ab"', "text:ö"),
            *("since:2026-07-28T12:00:02.25Z", "until:2026-07-28T12:00:04.25Z"),
        ]
    ),
).map("".join)


def written(directory: Path, *files: list[dict[str, Any]]) -> None:
    folder = directory / "events" / "2026-07"
    folder.mkdir(parents=True)
    for number, events in enumerate(files):
        lines = [json.dumps(one | {"n": n}).encode() + b"\n" for n, one in enumerate(events)]
        name = "events.jsonl" if number == len(files) - 1 else f"events-{number + 1:04}.jsonl"
        (folder / name).write_bytes(b"".join(lines))


def in_time(*files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All events in their order: by moment, then by file, then as written."""
    placed = [
        (one["timestamp"], number, n, one | {"n": n})
        for number, events in enumerate(files)
        for n, one in enumerate(events)
    ]
    return [one for *_, one in sorted(placed, key=lambda place: place[:3])]


@settings(deadline=None, max_examples=50)
@given(st.lists(event, max_size=12), st.lists(event, max_size=12), st.lists(term, max_size=3))
def test_the_index_finds_what_the_matcher_would(
    first: list[dict[str, Any]], second: list[dict[str, Any]], terms: list[str]
) -> None:
    filter = parse_filter(" ".join(terms), NOON)
    expected = [one for one in in_time(first, second) if compile_filter(filter)(one)]
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), first, second)
        with closing(Index(Path(folder))) as index:
            index.catch_up()
            assert index.broken_line_count == 0
            assert [json.loads(line) for line in index.query(filter, 1000)] == expected
            counted = index.stats(filter).rows
            assert sum(sum(stat.counts.values()) for stat in counted) == len(expected)
            newest = index.page(None, filter, 3)
            assert [json.loads(line) for line in newest.lines] == expected[-3:]
            older = index.page(newest.older, filter, 1000) if newest.older else None
            rest = [] if older is None else [json.loads(line) for line in older.lines]
            assert rest == expected[:-3]


def many(count: int, second: float = 0.001) -> Iterator[dict[str, Any]]:
    for n in range(count):
        yield {
            "timestamp": format_timestamp(NOON + n * second),
            "trace_id": f"{n % 1000 + 1:032x}",
            "status": "failure" if n == 7 else "success",
            "event_type": "gateway.tool_call",
            "metadata": {"tool": "t", "server": "s", "padding": "x" * 200, "span_id": f"{n:016x}"},
        }


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Events of several stretches in two files that were written at the same time."""
    directory = tmp_path_factory.mktemp("state")
    written(directory, list(many(12_000)), list(many(12_000)))
    with closing(Index(directory)) as index:
        index.catch_up()
        yield index


def found(index: Index, filter: str, limit: int = 1000) -> list[int]:
    return [json.loads(line)["n"] for line in index.query(parse_filter(filter, NOON), limit)]


def test_stretches_that_overlap_come_in_one_order(index: Index) -> None:
    assert len(index._database.rows("SELECT * FROM stretches")) >= 4
    assert found(index, "") == list(
        itertools.chain(*zip(*[range(11_500, 12_000)] * 2, strict=True))
    )
    assert found(index, "status:failure") == [7, 7]
    assert found(index, "id:000000000000002a") == [42, 42]
    assert found(index, f"trace:{5:032x}") == [n for n in range(4, 12_000, 1000) for _ in "ab"]


def finder(index: Index, filter: str) -> RowFinder:
    return RowFinder(index._database, select_events(parse_filter(filter, NOON)))


def test_stretches_that_cannot_hold_what_is_wanted_are_passed_over(index: Index) -> None:
    everything = list(finder(index, "")._overlapping_stretches())
    rare = finder(index, "status:failure")
    assert len(list(rare._overlapping_stretches())) == 2
    assert list(finder(index, "server:none")._overlapping_stretches()) == []
    assert len(list(finder(index, "since:2026-07-28T12:00:11.9Z")._overlapping_stretches())) < len(
        everything
    )
    assert list(finder(index, "dur:>1s")._overlapping_stretches()) == []
    one = finder(index, "id:000000000000002a")
    looked_into = [stretch for stretch in everything if one._stretch_condition(stretch) is not None]
    assert len(looked_into) == 2


def test_whoever_has_enough_stops_at_the_newest_stretches(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    rows = RowFinder.rows

    def counted(self: RowFinder, stretch: Any, limit: int | None = None) -> Iterator[Any]:
        seen.append(stretch.number)
        return rows(self, stretch, limit)

    monkeypatch.setattr(RowFinder, "rows", counted)
    assert len(index.query()) == 100
    assert len(seen) <= 4 < len(index._database.rows("SELECT number FROM stretches"))


def test_rows_are_sought_in_the_order_of_time_and_never_sorted(index: Index) -> None:
    statement = f"EXPLAIN QUERY PLAN {_SELECT_ROWS} AND took > ? {_ORDER_BY_TIME}"
    plan = [row[3] for row in index._database.rows(statement, (0,) * 8)]
    assert plan == ["SEARCH events USING PRIMARY KEY (at>? AND at<?)"]
    assert STRETCH_BITS < 24


# How a filter is split


def selected(text: str) -> IndexSelection:
    return select_events(parse_filter(text, NOON))


def test_every_term_has_one_who_decides_it() -> None:
    selection = selected(
        "server:a -type:started dur:>1s size:1..2 -queue:<5 trace:4bf92f35 -session:s id:0* word"
    )
    assert str(selection.by_sort) == "server:a -type:gateway.started"
    assert selection.where == (
        " AND (took > ?) AND (size BETWEEN ? AND ?) AND NOT coalesce(queue < ?, 0)"
    )
    assert selection.values == (1000, 1, 2, 5)
    assert [marked.term.key for marked in selection.id_terms] == ["trace", "session"]
    assert str(selection.line_terms) == "id:0* text:word"


@pytest.mark.parametrize("key", KEYS)
def test_no_text_of_a_filter_becomes_sql(key: str) -> None:
    values = {"moment": "2026-07-28", "duration": "5", "bytes": "5", "word": "*';--*"}
    text = values.get(KEYS[key].kind, '"\';-- DROP TABLE"')
    selection = selected(f"{key}:{text} -{key}:{text}")
    assert not set("';-") & set(selection.where)
    assert "DROP" not in selection.where


@pytest.mark.parametrize(
    ("filter", "beginnings"),
    [
        ("trace:4bf92f35", ("4bf92f35",)),
        ("trace:4bf9", ("4bf9",)),
        ("trace:4bf", None),
        ("trace:4bf92f35,4bf", None),
        ("trace:4bf92f35*", None),
        ("id:x-y-z", ("x-y-z",)),
        ("session:a,b", 2),
        ("session:a*", None),
    ],
)
def test_ids_are_looked_for_by_their_digits_if_those_can_tell(
    filter: str, beginnings: tuple[str, ...] | int | None
) -> None:
    selection = selected(filter)
    if beginnings is None:
        assert selection.id_terms == ()
        assert str(selection.line_terms) == filter
    else:
        (marked,) = selection.id_terms
        assert selection.line_terms == Filter()
        found = marked.prefixes
        assert (len(found) if isinstance(beginnings, int) else found) == beginnings


@pytest.mark.parametrize(
    ("filter", "longest"),
    [
        *(("", 0), ("dur:>1s", 1000), ("dur:>=5,>2s", 5), ("dur:>5 dur:10..20", 10)),
        *(("dur:<5", -1), ("-dur:>5", -1), ("dur:=7", 7), ("dur:<5,>9", -1), ("size:>9", 0)),
    ],
)
def test_how_long_something_took_at_least_is_known_beforehand(filter: str, longest: float) -> None:
    assert selected(filter).duration_min == longest


def test_of_several_moments_the_narrowest_count() -> None:
    selection = selected(
        "since:2026-07-01 since:2026-07-03 -since:2026-07-09 until:2026-07-08 -until:2026-07-02"
    )
    assert selection == selected("since:2026-07-03 until:2026-07-08")


@pytest.mark.parametrize(
    ("filter", "all"),
    [
        *(("", False), ("server:a", False), ("status:error", False), ("-type:frame", False)),
        *(("-kind:response", False), ("word", False), ("type:tool_call", True)),
        *(("type:*", True), ("kind:response", True), ("side:client", True)),
        *(("method:ping", True), ("id:0123", True), ("trace:0123", True)),
    ],
)
def test_lesser_traffic_is_left_out_unless_it_is_asked_for(filter: str, all: bool) -> None:
    asked = parse_filter(filter, NOON)
    left_out = without_traffic(asked).terms[len(asked.terms) :]
    assert [str(term) for term in left_out] == ([] if all else [f"-type:{','.join(TRAFFIC_TYPES)}"])
