"""Keeping up with files; what comes of it is shown on the index as a whole."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from anyport.record.database import Database
from anyport.record.index import FILE, Index
from anyport.record.intake import INSERTED_ROWS, STRETCH_BITS, Intake
from tests.record.story import Story, numbers


def test_a_stretch_that_grows_stays_one(story: Story, index: Index) -> None:
    for n in range(5):
        took = {} if n == 4 else {"duration_ms": float(n)}
        story.call(n, trace_id=f"{n + 1:032x}", **took)
        story.clock.now += 1
        index.catch_up()
    ((_, first, last, longest, places, marks),) = index._database.rows("SELECT * FROM stretches")
    assert last - first == 4
    assert longest == 3.0
    assert len(places) == 5 * 8
    assert len(marks) == 5 * 32


@pytest.mark.parametrize("count", [1, INSERTED_ROWS - 1, INSERTED_ROWS, INSERTED_ROWS + 1])
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
    story.clock.now += 40 * 86_400
    story.call(2, tool="new")
    story.call(3, tool="new", trace_id="odd")
    index.catch_up()
    story.file.unlink()
    index.catch_up()
    assert len(index._database.rows("SELECT * FROM sorts")) == 1
    assert len(index._database.rows("SELECT * FROM spread")) == 1
    assert len(index._database.rows("SELECT * FROM odd")) == 1
    story.clock.now += 1
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
        with other._database.writing():
            other._database.run("UPDATE sorts SET number = number + 10")
            other._database.run("UPDATE spread SET sort = sort + 10")
            other._database.run("UPDATE events SET sort = sort + 10")
        index.catch_up()
        assert {stat.target: stat.counts for stat in index.stats().rows} == {
            "a": {"success": 2},
            "b": {"success": 1},
        }


def test_what_failed_half_way_is_done_again_as_a_whole(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Database(tmp_path / FILE)) as database:
        intake = Intake(database, tmp_path / "events")
        story.call(1, tool="a")
        keep = Intake._keep

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Intake, "_keep", fail)
        with pytest.raises(KeyboardInterrupt):
            list(intake.pieces())
        monkeypatch.setattr(Intake, "_keep", keep)
        list(intake.pieces())
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
    index.step(500)
    index.catch_up()
    index.query()
    assert len(os.listdir("/proc/self/fd")) == before
