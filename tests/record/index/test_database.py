"""The database of the index; what it does when broken is shown on the index as a whole."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anyport.record.index.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(tmp_path / "index")) as database:
        yield database


def sorts(database: Database) -> list[bytes]:
    return [about for (about,) in database.rows("SELECT about FROM sorts ORDER BY about")]


def add(database: Database, about: bytes) -> None:
    database.execute("INSERT INTO sorts (about) VALUES (?)", (about,))


def test_changes_are_made_together_or_not_at_all(database: Database) -> None:
    state = database.content_version
    with database.write_transaction():
        add(database, b"a")
    assert database.content_version == state
    with pytest.raises(RuntimeError), database.write_transaction():
        add(database, b"b")
        raise RuntimeError
    assert sorts(database) == [b"a"]
    assert database.content_version != state  # What we remember of the change is wrong now.


def test_one_who_reads_sees_one_moment(database: Database, tmp_path: Path) -> None:
    with closing(Database(tmp_path / "index")) as other:
        with database.read_transaction():
            assert sorts(database) == []
            add(other, b"a")
            assert sorts(database) == []
        assert sorts(database) == [b"a"]


def test_what_another_process_writes_is_noticed(database: Database, tmp_path: Path) -> None:
    state = database.content_version
    add(database, b"ours")
    assert database.content_version == state
    with closing(Database(tmp_path / "index")) as other:
        add(other, b"theirs")
    assert database.content_version != state
