import os
from pathlib import Path
from typing import Any

import pytest

from anyport.record.filter.ast import Filter
from anyport.record.filter.parser import parse_filter
from anyport.record.index import index as index_module
from anyport.record.index import indexer
from anyport.record.index.index import INDEX_FILE, QUERY_EVENTS_MAX, Index, LineReader, Stat
from anyport.record.index.indexer import PLACE_BITS, IndexedFile, OpenedSegment
from anyport.record.tamper.chain import strip_link
from tests.record.story import NOON, ONE, TWO, Story, numbers

DAY = 86_400.0
TABLES = ("files", "stretches", "sorts", "spread", "events", "odd")


def everything(index: Index) -> list[Any]:
    return [index._database.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES]


def that(text: str) -> Filter:
    return parse_filter(text, NOON + 10 * 3600)


# Keeping up with the journal


def test_an_empty_state_directory_has_no_events(index: Index) -> None:
    index.catch_up()
    assert index.query() == []
    assert index.trace(ONE) == []
    assert index.stats().rows == []
    assert index.broken_line_count == 0


def test_what_is_appended_is_found_after_catching_up(story: Story, index: Index) -> None:
    story.call(1)
    assert index.query() == []
    index.catch_up()
    assert index.query() == [strip_link(story.file.read_bytes().rstrip())]
    story.call(2)
    index.catch_up()
    index.catch_up()
    assert numbers(index.query()) == [1, 2]


def test_an_index_rebuilt_equals_one_that_kept_up(
    story: Story, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "STRETCH_BITS", 10)
    for n in range(40):
        story.clock.seconds += DAY / 8  # Crosses into August.
        story.call(n, trace_id=ONE if n % 3 else TWO)
        if n % 7 == 0:
            index.catch_up()
    index.catch_up()
    kept_up = everything(index)
    assert next(len(rows) for rows in kept_up) == 2
    assert [len(rows) for rows in kept_up][4] == 40
    index.close()
    (story.directory / INDEX_FILE).unlink()
    rebuilt = Index(story.directory)
    rebuilt.catch_up()
    assert everything(rebuilt) == kept_up
    rebuilt.close()


def test_a_deleted_index_is_made_again(story: Story, index: Index) -> None:
    story.call(1)
    index.catch_up()
    index.close()
    (story.directory / INDEX_FILE).unlink()
    again = Index(story.directory)
    again.catch_up()
    assert numbers(again.query()) == [1]
    again.close()


def test_a_line_that_is_not_finished_is_left_for_later(story: Story, index: Index) -> None:
    story.call(1)
    whole = story.file.read_bytes()
    with story.file.open("ab") as file:
        file.write(whole[:50])
        file.flush()
        index.catch_up()
        assert len(index.query()) == 1
        file.write(whole[50:])
    index.catch_up()
    assert len(index.query()) == 2
    assert index.broken_line_count == 0


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[]",
        b"{}",
        b'{"timestamp":"yesterday","trace_id":"1","status":"success","event_type":"x"}',
        b'{"timestamp":"2026-07-28T12:00:00Z","trace_id":"1","status":1,"event_type":"x"}',
        b'{"timestamp":"2026-07-28T12:00:00Z","trace_id":"\xff","status":"s","event_type":"x"}',
        b'{"source":"\xff","timestamp":"2026-07-28T12:00:00Z","trace_id":"1",'
        b'"status":"success","event_type":"x"}',
        b'{"metadata":' + b'{"a":' * 100_000,
    ],
)
def test_a_broken_line_is_counted_and_skipped(story: Story, index: Index, line: bytes) -> None:
    story.call(1)
    with story.file.open("ab") as file:
        file.write(line + b"\n\n \n")
    story.call(2)
    index.catch_up()
    assert numbers(index.query()) == [1, 2]
    assert index.broken_line_count == 1


def test_an_event_that_follows_on_a_torn_line_is_not_lost(story: Story, index: Index) -> None:
    story.call(1)
    line = story.file.read_bytes()
    with story.file.open("ab") as file:
        file.write(line[:70] + line)
    index.catch_up()
    assert numbers(index.query()) == [1, 1]
    assert index.query()[1] == strip_link(line.rstrip())
    assert index.broken_line_count == 1


def test_a_line_longer_than_any_event_does_not_stop_the_index(story: Story, index: Index) -> None:
    story.call(1)
    with story.file.open("ab") as file:
        file.write(b"x" * 3 * (1 << indexer.STRETCH_BITS) + b"\n")
    story.call(2)
    index.catch_up()
    assert numbers(index.query()) == [1, 2]


def test_an_event_of_another_writer_is_welcome(story: Story, index: Index) -> None:
    story.file.parent.mkdir(parents=True)
    story.file.write_bytes(
        b'{"event_type": "workflow.started", "timestamp": "2026-07-28T12:00:01",'
        b' "status": "success", "trace_id": "550E8400-e29b-41d4-a716-446655440000"}\n'
    )
    index.catch_up()
    assert index.query(that("since:2026-07-28T12:00 status:ok")) == index.query()
    assert len(index.query(that("trace:550e8400e29b41d4a716446655440000"))) == 1
    assert len(index.trace("550e8400-e29b-41d4-a716-446655440000")) == 1


def test_a_file_that_gets_a_number_keeps_its_rows(story: Story, index: Index) -> None:
    story.call(1)
    index.catch_up()
    before = index._database.rows("SELECT * FROM events")
    numbered = story.file.rename(story.file.with_name("events-0001.jsonl"))
    assert numbers(index.query()) == [1]  # Found again under its new name.
    story.file.write_bytes(numbered.read_bytes().replace(b'"n":1', b'"n":2'))
    index.catch_up()
    assert numbers(index.query()) == [1, 2]
    assert index._database.rows("SELECT * FROM events")[:1] == before
    numbered.unlink()
    assert numbers(index.query()) == [2]  # What is gone is passed over.
    index.catch_up()
    assert len(index._database.rows("SELECT * FROM events")) == 1


def test_a_new_file_is_not_taken_for_a_pruned_one_whose_inode_it_got(
    story: Story, index: Index
) -> None:
    story.call(1)
    index.catch_up()
    known = index._database.rows("SELECT inode FROM files")
    text = story.file.read_bytes().replace(b"2026-07-28T12", b"2026-07-28T13")
    story.file.write_bytes(text.replace(b'"n":1', b'"n":2') * 2)
    index.catch_up()
    assert index._database.rows("SELECT inode FROM files") == known
    assert numbers(index.query()) == [2, 2]


def test_a_step_takes_in_no_more_than_a_part(story: Story, index: Index) -> None:
    for n in range(20):
        story.call(n)
    steps = 0
    while index.catch_up_step(1000):
        steps += 1
        assert len(index.query()) <= steps * 5
    assert numbers(index.query()) == list(range(20))
    assert steps > 4
    assert not index.catch_up_step()


def test_a_month_that_was_deleted_is_forgotten(story: Story, index: Index) -> None:
    story.call(1)
    story.clock.seconds += 10 * DAY
    story.call(2)
    index.catch_up()
    story.file.unlink()
    index.catch_up()
    assert numbers(index.query()) == [2]


@pytest.mark.parametrize("cut_short", [True, False])
def test_a_file_that_was_replaced_is_read_again(
    story: Story, index: Index, cut_short: bool
) -> None:
    story.call(1)
    story.call(2)
    index.catch_up()
    second = story.file.read_bytes().splitlines(keepends=True)[1]
    if cut_short:
        story.file.write_bytes(second)
    else:
        other = story.file.with_name("other")
        other.write_bytes(second * 2)
        other.replace(story.file)
    index.catch_up()
    assert numbers(index.query()) == ([2] if cut_short else [2, 2])


# Questions


@pytest.fixture
def asked(story: Story, index: Index) -> Index:
    """Four calls, an hour between them."""
    story.call(1, status="pending", trace_id=ONE, server="a")
    story.clock.seconds += 3600
    story.call(2, status="failure", trace_id=ONE, server="a")
    story.clock.seconds += 3600
    story.call(3, trace_id=TWO, server="b")
    story.clock.seconds += 3600
    story.call(4, trace_id=TWO, server="b", type="gateway.prompt_get")
    index.catch_up()
    return index


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("", [1, 2, 3, 4]),
        (f"trace:{ONE}", [1, 2]),
        ("trace:1111", [1, 2]),
        ("trace:1", [1, 2]),
        ("trace:1*", [1, 2]),
        ("-trace:1111", [3, 4]),
        ("type:tool_call", [1, 2, 3]),
        ("type:started", []),
        ("status:success", [3, 4]),
        ("server:b", [3, 4]),
        ("server:?", [1, 2, 3, 4]),
        ("-server:a", [3, 4]),
        ("since:2026-07-28T13:00:00.25Z", [2, 3, 4]),
        ("since:2026-07-28T13:00:00.250001Z", [3, 4]),
        ("until:2026-07-28T13:00:00.25Z", [1]),
        ("-since:2026-07-28T13:00:00.25Z", [1]),
        ("-until:2026-07-28T13:00:00.25Z", [2, 3, 4]),
        (f"trace:{ONE} status:failure since:2026-07-28", [2]),
        (f"trace:{ONE} server:b", []),
        ('trace:"\' OR 1=1 --"', []),
        ('server:"\' OR 1=1 --"', []),
    ],
)
def test_a_question_is_answered_with_the_newest_matches_oldest_first(
    asked: Index, filter: str, found: list[int]
) -> None:
    assert numbers(asked.query(that(filter))) == found


@pytest.mark.parametrize(
    ("limit", "filter", "found"),
    [
        (2, "", [3, 4]),
        (2, f"trace:{ONE}", [1, 2]),
        (1, "type:tool_call", [3]),
        (1, "t", [4]),
        (0, "", [4]),
        (-5, "", [4]),
    ],
)
def test_of_the_matches_no_more_than_wanted_are_given(
    asked: Index, limit: int, filter: str, found: list[int]
) -> None:
    assert numbers(asked.query(that(filter), limit)) == found


def test_no_question_gets_more_than_the_limit(story: Story, index: Index) -> None:
    for n in range(QUERY_EVENTS_MAX + 5):
        story.journal.record("gateway.stderr", "success", trace_id=ONE, metadata={"n": n})
    story.journal.flush()
    index.catch_up()
    assert numbers(index.query(limit=10**9)) == list(range(5, QUERY_EVENTS_MAX + 5))


def test_events_of_two_processes_come_in_the_order_of_time(story: Story, index: Index) -> None:
    story.clock.seconds = NOON + 2
    story.call(2)
    story.clock.seconds = NOON + 1
    story.call(1)
    index.catch_up()
    assert numbers(index.query()) == [1, 2]


def test_a_trace_is_told_from_its_beginning(asked: Index) -> None:
    assert numbers(asked.trace(ONE)) == [1, 2]
    assert numbers(asked.trace("22222222-2222-2222-2222-222222222222")) == [3, 4]
    assert asked.trace("no such") == []


def test_statistics_count_endings_and_measure_durations(story: Story, index: Index) -> None:
    for n in range(1, 101):
        story.call(n, status="pending")
        story.call(n, status="failure" if n > 90 else "success", duration_ms=float(n))
    story.journal.record("gateway.started", "success", trace_id=ONE, metadata={"pid": 1})
    story.journal.flush()
    index.catch_up()
    assert index.stats().rows == [
        Stat(
            event_type="gateway.started",
            server=None,
            target=None,
            counts={"success": 1},
            mean_ms=None,
            p50_ms=None,
            p95_ms=None,
        ),
        Stat(
            event_type="gateway.tool_call",
            server="s",
            target="t",
            counts={"pending": 100, "success": 90, "failure": 10},
            mean_ms=50.5,
            p50_ms=50.0,
            p95_ms=95.0,
        ),
    ]
    assert index.stats(that("since:2026-07-28T12:00:02")).rows == []
    assert [stat.counts for stat in index.stats(that("status:error dur:>95ms")).rows] == [
        {"failure": 5}
    ]


def test_one_duration_is_every_percentile(story: Story, index: Index) -> None:
    story.call(1, duration_ms=7.0)
    index.catch_up()
    (only,) = index.stats().rows
    assert (only.mean_ms, only.p50_ms, only.p95_ms) == (7.0, 7.0, 7.0)


def test_a_search_for_a_text_is_given_up_after_reading_a_lot_and_can_be_taken_up(
    story: Story, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        story.call(n, tool="needle" if n == 3 else "hay")
    index.catch_up()
    monkeypatch.setattr(index_module, "SCANNED_BYTES_MAX", 4000)
    before, found, looks = None, [], 0
    while True:
        page = index.page(before, that("needle"))
        found += numbers(page.lines)
        looks += 1
        assert page.complete is (page.older is None)
        if page.older is None:
            break
        before = page.older
    assert found == [3]
    assert looks > 1
    assert not index.stats(that("needle")).complete
    assert index.stats(that("tool:needle")).complete


def test_what_was_damaged_in_the_files_since_is_not_shown(story: Story, index: Index) -> None:
    story.call(1)
    story.call(2)
    index.catch_up()
    text = story.file.read_bytes()
    with story.file.open("r+b") as file:
        file.seek(len(text) - 40)
        file.write(b"x" * 30)
    assert numbers(index.query()) == [1]


# Reading of lines


def known(path: Path, number: int = 3) -> dict[int, IndexedFile]:
    fd = os.open(path, os.O_RDONLY)
    found = OpenedSegment(path, fd)
    file = IndexedFile(
        number=number, path=found.name, inode=found.inode, head=found.head, indexed=found.size
    )
    os.close(fd)
    return {number: file}


def test_a_line_is_read_without_its_place_in_the_chain(story: Story) -> None:
    story.call(1)
    story.call(2)
    first, second = story.file.read_bytes().splitlines()
    with LineReader(story.directory / "events", known(story.file)) as lines:
        place = 3 << PLACE_BITS
        assert lines.read(place, len(first)) == strip_link(first)
        assert lines.read(place + len(first) + 1, len(second)) == strip_link(second)
        assert lines.bytes_read == len(first) + len(second)
        assert lines.read(place + 1, len(first)) is None  # Nothing begins there.
        assert lines.read(4 << PLACE_BITS, len(first)) is None  # Nobody knows that file.


def test_a_file_is_found_under_another_name_and_another_is_not_taken_for_it(story: Story) -> None:
    story.call(1)
    files = known(story.file)
    text = story.file.read_bytes()
    numbered = story.file.rename(story.file.with_name("events-0001.jsonl"))
    story.file.write_bytes(text.replace(b'"n":1', b'"n":2'))
    with LineReader(story.directory / "events", files) as lines:
        assert lines.read(3 << PLACE_BITS, len(text) - 1) == strip_link(text[:-1])
    numbered.unlink()
    with LineReader(story.directory / "events", files) as lines:
        assert lines.read(3 << PLACE_BITS, len(text) - 1) is None


def test_no_file_stays_open(story: Story) -> None:
    story.call(1)
    before = len(os.listdir("/proc/self/fd"))
    with LineReader(story.directory / "events", known(story.file)) as lines:
        lines.read(3 << PLACE_BITS, 10)
    assert len(os.listdir("/proc/self/fd")) == before
