"""The database of the index: one file that several processes share, and that may be lost.

Whatever is wrong with the file, questions are answered: one that is damaged, or of an earlier
version, is set aside and made again; where none can be made, or where that of a later version is in
the way, a temporary one serves. `trouble` says so. What is in it is told by its user.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from anyport.record.segments import make_private_directory

BUSY_SECONDS: Final = 0.75
"""How long to wait for another process that writes to the index: one transaction takes some tens of
milliseconds, and whoever asks wants an answer."""

OPEN_ATTEMPTS: Final = 3
"""Several processes may make the same new index at once; each but one may have to come again."""

SCHEMA: Final = 2
"""Raised when the tables change; an index of another number is built again."""

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
"""`events` has a row for each event, in the order of time, and no other index: a *stretch*, some
megabytes of a file, knows when its events happened, which took longest, which sorts are among
them, and their ids."""

_NO_FILE: Final = ""
"""SQLite keeps a database of this name in a temporary file of its own, for this process alone."""

_DAMAGED: Final = "The index of the journal was damaged ({}): kept as {}.unusable, and made anew"
_APART: Final = "The index of the journal cannot be used ({}): a temporary one serves"
_LOST: Final = "There is no index of the journal, and none can be made: {}"

_T = TypeVar("_T")


class IndexBusy(Exception):
    """Another process held the index for longer than we wait."""


class IndexLost(Exception):
    """There is no index, and none can be made; the text says why."""


class _Later(Exception):
    """The file is good, and of a later version than we know."""


class Database:
    """A connection that can be replaced. One thread uses it at a time: see `safely`."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            IndexLost: no database works, not even a temporary one.
        """
        self._path = path
        self._lock = threading.Lock()
        self._epoch = 0
        self.trouble: str | None = None
        """What is wrong with the file, or was when it was opened, as a sentence."""
        self._connection = self._opened()
        self.closed = False
        """Whoever works with it in steps stops then."""

    def close(self) -> None:
        """Let go of the file, as soon as nobody works with it any more."""
        self.closed = True
        with self._lock:
            self._connection.close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """All that a statement gives."""
        return self._connection.execute(statement, values).fetchall()

    def each(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """The same, a row at a time."""
        return self._connection.execute(statement, values)

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """A statement that changes something; the number of a row it made."""
        return self._connection.execute(statement, values).lastrowid or 0

    def run_each(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """A statement with one row of values after the other."""
        self._connection.executemany(statement, rows)

    @property
    def state(self) -> tuple[int, int]:
        """Another one where the content may be other than what we wrote ourselves."""
        ((version,),) = self.rows("PRAGMA data_version")
        return self._epoch, version

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All changes at once, or none."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            with self._connection:
                yield
        except BaseException:
            self._epoch += 1
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All answers as of one moment."""
        self._connection.execute("BEGIN")
        with self._connection:
            yield

    def safely(self, work: Callable[[], _T], refill: Callable[[], None]) -> _T:
        """Do something with the database; where that is broken, with a new one, filled again.

        Raises:
            IndexBusy: another process has held the database for too long, or it is closed.
            IndexLost: no database works, not even a temporary one.
        """
        with self._lock:
            if self.closed:
                raise IndexBusy("The index is closed")
            reason = ""
            for remedy in (None, self._start_afresh, self._start_apart):
                try:
                    if remedy is not None:
                        remedy(reason)
                        refill()
                    return work()
                except sqlite3.DatabaseError as error:
                    if _is_busy(error):
                        raise IndexBusy(str(error)) from error
                    reason = _reason(error)
            raise IndexLost(_LOST.format(reason))

    def _start_afresh(self, reason: str) -> None:
        self._connection.close()
        self._set_aside(reason)
        self._epoch += 1
        self._connection = self._opened()

    def _start_apart(self, reason: str) -> None:
        self.trouble = _APART.format(reason)
        self._connection.close()
        self._epoch += 1
        self._connection = self._nameless()

    def _opened(self) -> sqlite3.Connection:
        """The file, or a new one if it is not ours, or a database without a name."""
        for _ in range(OPEN_ATTEMPTS):
            try:
                make_private_directory(self._path.parent)
                # SQLite gives its side files the rights of this one.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
                return connected(str(self._path))
            except _Later as error:
                trouble = str(error)
                break
            except sqlite3.Error as error:
                trouble = _APART.format(_reason(error))
                if not _is_busy(error):
                    self._set_aside(_reason(error))
            except OSError as error:
                trouble = _APART.format(_reason(error))
                break
        self.trouble = trouble
        return self._nameless()

    def _nameless(self) -> sqlite3.Connection:
        try:
            return connected(_NO_FILE)
        except sqlite3.Error as error:
            raise IndexLost(_LOST.format(_reason(error))) from None

    def _set_aside(self, reason: str) -> None:
        """Keep a file we cannot use, one of them, for whoever wants to know why."""
        for side_file in ("-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._path}{side_file}")
        with suppress(OSError):
            os.replace(self._path, f"{self._path}.unusable")
        self.trouble = _DAMAGED.format(reason, self._path.name)


def connected(path: str) -> sqlite3.Connection:
    """A connection to an index of our schema.

    Raises:
        sqlite3.DatabaseError: the file is no index of ours.
        _Later: it is one of a later version.
    """
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        if schema > SCHEMA:
            raise _Later(
                f"The index of the journal is of a later version ({schema}, not {SCHEMA}): "
                "it is left alone, and a temporary one serves"
            )
        if schema not in (0, SCHEMA):
            raise sqlite3.DatabaseError(f"The index has schema {schema}, not {SCHEMA}")
        if schema == 0:
            db.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether the database is good and only in use."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _reason(error: Exception) -> str:
    """Why something failed, without the path of a file."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
