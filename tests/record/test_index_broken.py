"""An index that is damaged, strange, without room, or in use: every question has its answer."""

import multiprocessing
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from anyport.record import index as index_module
from anyport.record.index import FILE, Index, IndexBusy
from tests.record.story import Story, numbers


@pytest.mark.parametrize(
    "content", [b"this is no database", b"SQLite format 3\0" + b"\xff" * 5000, b"\0" * 4096]
)
def test_a_corrupt_file_is_set_aside(story: Story, content: bytes) -> None:
    story.call(1)
    (story.directory / FILE).write_bytes(content)
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query()) == [1]
    assert (story.directory / f"{FILE}.unusable").read_bytes() == content
    index.close()


def test_a_file_that_breaks_while_in_use_is_built_again(story: Story, index: Index) -> None:
    for n in range(200):
        story.call(n)
    index.catch_up()
    index.close()
    path = story.directory / FILE
    pages = path.read_bytes()
    path.write_bytes(pages[:4096] + b"\xa5" * (len(pages) - 4096))
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query(limit=1000)) == list(range(200))
    index.close()


def test_missing_tables_are_made_again(story: Story, index: Index) -> None:
    story.call(1)
    index.catch_up()
    index._db.execute("DROP TABLE events")
    assert numbers(index.query()) == [1]


def test_an_index_of_a_newer_schema_is_set_aside(story: Story) -> None:
    story.call(1)
    db = sqlite3.connect(story.directory / FILE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query()) == [1]
    assert (story.directory / f"{FILE}.unusable").exists()
    index.close()


def test_where_no_file_can_be_made_questions_are_still_answered(story: Story) -> None:
    story.call(1)
    # Cannot be opened for writing, and cannot be replaced by the file set aside either.
    (story.directory / FILE).mkdir()
    (story.directory / f"{FILE}.unusable").write_bytes(b"")
    index = Index(story.directory)
    index.catch_up()
    assert numbers(index.query()) == [1]
    index.close()


def test_an_index_for_which_there_is_no_room_is_kept_apart(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = index_module._connected

    def confined(path: str) -> sqlite3.Connection:
        db = connected(path)
        if path:
            db.execute("PRAGMA max_page_count = 20")
        return db

    monkeypatch.setattr(index_module, "_connected", confined)
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
    monkeypatch.setattr(index_module, "BUSY_SECONDS", 0.01)
    impatient = Index(story.directory)
    other = sqlite3.connect(story.directory / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    story.call(2)
    impatient.catch_up()
    assert numbers(impatient.query()) == [1]
    with pytest.raises(IndexBusy):
        impatient.rebuild()
    other.execute("ROLLBACK")
    other.close()
    impatient.catch_up()
    assert numbers(impatient.query()) == [1, 2]
    assert not (story.directory / f"{FILE}.unusable").exists()
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
    assert not (tmp_path / f"{FILE}.unusable").exists()
    index.close()


def test_the_index_is_private_to_the_user(story: Story, index: Index) -> None:
    story.call(1)
    index.catch_up()
    for path in story.directory.glob(f"{FILE}*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.path.exists(story.directory / FILE)
