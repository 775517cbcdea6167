"""An index that is damaged, strange, without room, or in use: every question has its answer."""

import multiprocessing
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyport.record.index import database
from anyport.record.index.index import INDEX_FILE, Index, IndexBusy, IndexLost
from anyport.record.index.indexer import Indexer
from tests.record.story import Story, numbers


@pytest.mark.parametrize(
    "content", [b"this is no database", b"SQLite format 3\0" + b"\xff" * 5000, b"\0" * 4096]
)
def test_a_corrupt_file_is_set_aside(story: Story, content: bytes) -> None:
    story.call(1)
    (story.directory / INDEX_FILE).write_bytes(content)
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query()) == [1]
    assert (story.directory / f"{INDEX_FILE}.unusable").read_bytes() == content
    index.close()


def test_a_file_that_breaks_while_in_use_is_built_again(story: Story, index: Index) -> None:
    for n in range(200):
        story.call(n)
    index.catch_up()
    index.close()
    path = story.directory / INDEX_FILE
    pages = path.read_bytes()
    path.write_bytes(pages[:4096] + b"\xa5" * (len(pages) - 4096))
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query(limit=1000)) == list(range(200))
    index.close()


def test_missing_tables_are_made_again(story: Story, index: Index) -> None:
    story.call(1)
    index.catch_up()
    index._database.execute("DROP TABLE events")
    assert numbers(index.query()) == [1]


def test_an_index_of_an_earlier_schema_is_set_aside(story: Story) -> None:
    story.call(1)
    db = sqlite3.connect(story.directory / INDEX_FILE)
    db.execute("PRAGMA user_version = 1")
    db.close()
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query()) == [1]
    assert (story.directory / f"{INDEX_FILE}.unusable").exists()
    assert index.trouble is not None
    assert "The index has schema 1, not" in index.trouble
    index.close()


def test_an_index_of_a_later_schema_is_left_alone(story: Story) -> None:
    """Its gateway may be running: two versions must not take the index from each other."""
    story.call(1)
    db = sqlite3.connect(story.directory / INDEX_FILE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = (story.directory / INDEX_FILE).stat().st_ino
    for _ in range(2):
        index = Index(story.directory)
        index.catch_up()
        assert numbers(index.query()) == [1]
        assert index.trouble is not None
        assert "newer version (99" in index.trouble
        index.close()
    assert (story.directory / INDEX_FILE).stat().st_ino == before
    assert not (story.directory / f"{INDEX_FILE}.unusable").exists()


def test_where_not_even_a_temporary_index_can_be_made_that_is_said(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.call(1)
    index = Index(story.directory)

    def fail(path: str) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    index.catch_up()
    index._database.execute("DROP TABLE events")
    monkeypatch.setattr(database, "connect", fail)
    with pytest.raises(IndexLost, match="unable to open database file"):
        index.query()
    with pytest.raises(IndexLost):
        Index(story.directory)


def test_where_no_file_can_be_made_questions_are_still_answered(story: Story) -> None:
    story.call(1)
    # Cannot be opened for writing, and cannot be replaced by the file set aside either.
    (story.directory / INDEX_FILE).mkdir()
    (story.directory / f"{INDEX_FILE}.unusable").write_bytes(b"")
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query()) == [1]
    index.close()


def test_an_index_for_which_there_is_no_room_is_kept_apart(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = database.connect

    def confined(path: str) -> sqlite3.Connection:
        db = connected(path)
        if path:
            db.execute("PRAGMA max_page_count = 14")
        return db

    monkeypatch.setattr(database, "connect", confined)
    for n in range(500):
        story.call(n)
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query(limit=1000)) == list(range(500))
    index.close()


def test_an_index_in_use_elsewhere_is_neither_waited_for_long_nor_thrown_away(
    story: Story, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.call(1)
    index.catch_up()
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    impatient = Index(story.directory)
    other = sqlite3.connect(story.directory / INDEX_FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    story.call(2)
    impatient.catch_up()
    assert numbers(impatient.query()) == [1]
    assert not impatient.catch_up()
    other.execute("ROLLBACK")
    other.close()
    impatient.catch_up()
    assert numbers(impatient.query()) == [1, 2]
    assert not (story.directory / f"{INDEX_FILE}.unusable").exists()
    impatient.close()


def index_again_and_again(directory: Path) -> None:
    for _ in range(20):
        index = Index(directory)
        index.catch_up()
        index.close()


def test_several_processes_index_each_event_once(story: Story, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=index_again_and_again, args=(tmp_path,)) for _ in range(3)]
    for other in others:
        other.start()
    for n in range(500):
        story.call(n)
    for other in others:
        other.join(60)
        assert other.exitcode == 0
    index = Index(tmp_path)
    index.catch_up()
    assert numbers(index.query(limit=1000)) == list(range(500))
    assert not (tmp_path / f"{INDEX_FILE}.unusable").exists()
    index.close()


def test_an_index_that_is_closed_at_work_is_neither_waited_for_long_nor_thrown_away(
    story: Story, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        story.call(n)
    pieces, begun = Indexer.index_in_steps, threading.Event()

    def slowly(self: Indexer, bytes_max: int = 500) -> Iterator[None]:
        for _ in pieces(self, bytes_max):
            begun.set()
            yield

    monkeypatch.setattr(Indexer, "index_in_steps", slowly)
    worker = threading.Thread(target=index.catch_up)
    worker.start()
    assert begun.wait(60)
    index.close()
    worker.join(60)
    with pytest.raises(IndexBusy):
        index.query()
    monkeypatch.undo()
    again = Index(story.directory)
    again.catch_up()
    assert numbers(again.query()) == list(range(20))
    again.close()
    assert not (story.directory / f"{INDEX_FILE}.unusable").exists()


def test_the_index_is_private_to_the_user(story: Story, index: Index) -> None:
    story.call(1)
    index.catch_up()
    for path in story.directory.glob(f"{INDEX_FILE}*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.path.exists(story.directory / INDEX_FILE)


@pytest.mark.parametrize("spoil", ["cut the log", "another's map", "no map"])
def test_what_a_crash_leaves_beside_the_index_costs_no_event(
    story: Story, index: Index, tmp_path: Path, spoil: str
) -> None:
    for n in range(50):
        story.call(n)
        index.catch_up()  # Each in a transaction of its own, which stays in the log.
    left = tmp_path / "left"
    shutil.copytree(story.directory, left, ignore=shutil.ignore_patterns("left"))
    log, map_ = left / f"{INDEX_FILE}-wal", left / f"{INDEX_FILE}-shm"
    assert log.stat().st_size > 0
    if spoil == "cut the log":
        os.truncate(log, log.stat().st_size // 2 + 7)
    elif spoil == "another's map":
        map_.write_bytes(b"\x5a" * map_.stat().st_size)
    else:
        map_.unlink()
    after = Index(left)
    after.catch_up()
    assert numbers(after.query(limit=1000)) == list(range(50))
    after.close()
