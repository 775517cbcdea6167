"""The SQLite database of the index: shared by several processes, and disposable.

Queries are answered whatever happens to the file: a damaged or outdated one is moved aside and
built again; if that fails, or if the file is of a newer version, a temporary database is used.
`trouble` says so.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from anyport.record.journal.segments import make_private_directory

BUSY_SECONDS: Final = 0.75
"""How long to wait for another process that writes. A transaction takes some tens of milliseconds,
and a user waits for the answer."""

OPEN_ATTEMPTS: Final = 3
"""When several processes create the index at once, all but one may have to try again."""

SCHEMA: Final = 2
"""Raised when the tables change; an index of an older number is built again."""

TABLES: Final = """
    CREATE TABLE IF NOT EXISTS files (
        number INTEGER PRIMARY KEY, path TEXT, inode INTEGER, head BLOB,
        indexed INTEGER, broken INTEGER
    );
    CREATE TABLE IF NOT EXISTS stretches (
        number INTEGER PRIMARY KEY, first_at REAL, last_at REAL, longest REAL,
        places BLOB, marks BLOB
    );
    CREATE TABLE IF NOT EXISTS sorts (number INTEGER PRIMARY KEY, about BLOB UNIQUE);
    CREATE TABLE IF NOT EXISTS spread (
        stretch INTEGER, sort INTEGER, PRIMARY KEY (stretch, sort)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS events (
        at REAL, place INTEGER, length INTEGER, sort INTEGER,
        took REAL, queue REAL, wait REAL, size REAL,
        PRIMARY KEY (at, place)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS odd (place INTEGER PRIMARY KEY, trace_id TEXT, span_id TEXT);
"""
"""Tables of the index: a block range index over the files of the journal.

`events` has a row per event, ordered by time, and no secondary index. A *stretch* is a block of 2
MiB of a file; `stretches` summarises each: the first and last time, the longest duration, the
positions of its lines and their packed ids (`indexer.py` says why ids are not indexed). A *sort* is
a set of labels that many events share, such as server, tool and client, stored once in `sorts`;
`spread` says which sorts occur in which stretch. `odd` has ids that are not plain hexadecimal.
"""

_TEMPORARY_PATH: Final = ""
"""SQLite keeps a database of this name in a temporary file of its own, for one process."""

_DAMAGED_MESSAGE: Final = (
    "The index of the journal was damaged ({}): it was kept as {}.unusable and rebuilt"
)
_UNUSABLE_MESSAGE: Final = "The index of the journal cannot be used ({}): a temporary one is used"
_NO_INDEX_MESSAGE: Final = "The index of the journal cannot be created: {}"

_T = TypeVar("_T")


class IndexBusy(Exception):
    """Another process held the index for too long, or it is closed."""


class IndexLost(Exception):
    """There is no index, and none can be made; the text says why."""


class _NewerSchema(Exception):
    """The file is good, but written by a newer version."""


class Database:
    """A connection that can be replaced, used by one thread at a time: see `run_with_recovery`."""

    def __init__(self, path: Path) -> None:
        """Open the database.

        Raises:
            IndexLost: no database works, not even a temporary one.
        """
        self._path = path
        self._lock = threading.Lock()
        self._epoch = 0
        self.trouble: str | None = None
        """What is or was wrong with the file, as a sentence."""
        self._connection = self._open()
        self.is_closed = False
        """Long operations in steps check this, and stop."""

    def close(self) -> None:
        """Close the file, after the operation under way."""
        self.is_closed = True
        with self._lock:
            self._connection.close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """The same as `rows`, one row at a time."""
        return self._connection.execute(statement, values)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement that changes something; returns the id of an inserted row."""
        return self._connection.execute(statement, values).lastrowid or 0

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    @property
    def content_version(self) -> tuple[int, int]:
        """Differs from before if another process may have changed the content, or a rollback
        has."""
        ((version,),) = self.rows("PRAGMA data_version")
        return self._epoch, version

    @contextmanager
    def write_transaction(self) -> Iterator[None]:
        """Commit all changes, or none."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            with self._connection:
                yield
        except BaseException:
            self._epoch += 1
            raise

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Answer all queries as of one moment."""
        self._connection.execute("BEGIN")
        with self._connection:
            yield

    def run_with_recovery(self, work: Callable[[], _T], refill: Callable[[], None]) -> _T:
        """Run an operation; if the database is broken, again with a new one that `refill` has
        filled.

        Raises:
            IndexBusy: another process held the database for too long, or it is closed.
            IndexLost: no database works, not even a temporary one.
        """
        with self._lock:
            if self.is_closed:
                raise IndexBusy("The index is closed")
            reason = ""
            for recover in (None, self._recreate, self._use_temporary):
                try:
                    if recover is not None:
                        recover(reason)
                        refill()
                    return work()
                except sqlite3.DatabaseError as error:
                    if _is_busy(error):
                        raise IndexBusy(str(error)) from error
                    reason = _reason(error)
            raise IndexLost(_NO_INDEX_MESSAGE.format(reason))

    def _recreate(self, reason: str) -> None:
        self._connection.close()
        self._move_aside(reason)
        self._epoch += 1
        self._connection = self._open()

    def _use_temporary(self, reason: str) -> None:
        self.trouble = _UNUSABLE_MESSAGE.format(reason)
        self._connection.close()
        self._epoch += 1
        self._connection = self._open_temporary()

    def _open(self) -> sqlite3.Connection:
        """Open the file, a new one in its place, or a temporary database."""
        for _ in range(OPEN_ATTEMPTS):
            try:
                make_private_directory(self._path.parent)
                # SQLite gives its side files the permissions of this one.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
                return connect(str(self._path))
            except _NewerSchema as error:
                trouble = str(error)
                break
            except sqlite3.Error as error:
                trouble = _UNUSABLE_MESSAGE.format(_reason(error))
                if not _is_busy(error):
                    self._move_aside(_reason(error))
            except OSError as error:
                trouble = _UNUSABLE_MESSAGE.format(_reason(error))
                break
        self.trouble = trouble
        return self._open_temporary()

    def _open_temporary(self) -> sqlite3.Connection:
        try:
            return connect(_TEMPORARY_PATH)
        except sqlite3.Error as error:
            raise IndexLost(_NO_INDEX_MESSAGE.format(_reason(error))) from None

    def _move_aside(self, reason: str) -> None:
        """Keep the last unusable file for an investigation."""
        for side_file in ("-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._path}{side_file}")
        with suppress(OSError):
            os.replace(self._path, f"{self._path}.unusable")
        self.trouble = _DAMAGED_MESSAGE.format(reason, self._path.name)


def connect(path: str) -> sqlite3.Connection:
    """Connect to an index of our schema.

    Raises:
        sqlite3.DatabaseError: the file is not an index, or outdated.
        _NewerSchema: it was written by a newer version.
    """
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if schema > SCHEMA:
            raise _NewerSchema(
                f"The index of the journal is of a newer version ({schema}, not {SCHEMA}): "
                "it is left alone, and a temporary one is used"
            )
        if schema not in (0, SCHEMA):
            raise sqlite3.DatabaseError(f"The index has schema {schema}, not {SCHEMA}")
        if schema == 0:
            connection.executescript(
                f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether the database is good, and only in use."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _reason(error: Exception) -> str:
    """Why something failed, without the path of a file."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
