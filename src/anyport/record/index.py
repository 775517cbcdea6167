"""The index of the journal, for questions: which events, of which trace, how many, how slow.

The journal is the truth; this is a copy in SQLite that may be deleted at any time and is built
again. It reads the journal's files and never writes them. Import it late: a gateway that is not
asked needs no database. Its calls may take long; they belong in a thread, any thread.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec

from anyport.record.event import EventType, Status
from anyport.record.journal import FILE_NAME, make_private_directory
from anyport.record.trace import normalise_trace_id

FILE: Final = "events.sqlite3"

QUERY_EVENTS_MAX: Final = 1000
"""The most that one question is answered with."""

TRACE_EVENTS_MAX: Final = 10_000
"""The most of one trace: it is wanted whole, but a client may put a year into one."""

CHUNK_BYTES: Final = 1024 * 1024
"""Indexed in one transaction, so that several processes take turns quickly."""

BUSY_SECONDS: Final = 5.0
"""How long to wait for another process that writes to the index."""

OPEN_ATTEMPTS: Final = 3
"""Several processes may make the same new index at once; each but one may have to come again."""

SCHEMA: Final = 1
"""Raised when the tables change; an index of another number is built again."""

_TABLES: Final = """
    CREATE TABLE IF NOT EXISTS files (
        month TEXT PRIMARY KEY, inode INTEGER, indexed INTEGER, broken INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS events (
        month TEXT, start INTEGER, at REAL, trace_id TEXT, event_type TEXT, status TEXT,
        server TEXT, target TEXT, duration_ms REAL, line BLOB,
        PRIMARY KEY (month, start)
    );
    CREATE INDEX IF NOT EXISTS by_time ON events (at, month, start);
    CREATE INDEX IF NOT EXISTS by_trace ON events (trace_id, at, month, start);
    CREATE INDEX IF NOT EXISTS by_type ON events (event_type, at, month, start);
"""

_NO_FILE: Final = ""
"""SQLite keeps a database of this name in a temporary file of its own, for this process alone."""

_T = TypeVar("_T")


Position: TypeAlias = tuple[float, str, int]
"""Where an event stands in the order of time: its moment, its month, its place in the file."""


class Question(TypedDict, total=False):
    """What events are asked for; what is not said, or None, does not matter."""

    trace_id: str | None
    event_type: EventType | str | None
    status: Status | str | None
    server: str | None
    since: float | None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """How often something happened, how it ended, and how long it took."""

    event_type: str
    server: str | None
    target: str | None
    """The tool, the prompt, or the address of the resource."""
    counts: dict[str, int]
    """By status. What is `pending` here has begun; compare it with the endings."""
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None


class Index:
    """Answers questions about the journal below a state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._events_dir = state_dir / "events"
        self._path = state_dir / FILE
        self._lock = threading.Lock()
        self._db = self._opened()

    def close(self) -> None:
        self._db.close()

    def catch_up(self) -> None:
        """Take in what was appended to the journal since the last time."""
        with suppress(IndexBusy):  # Another process does the same.
            self._safely(self._catch_up)

    def rebuild(self) -> None:
        """Forget everything and read the whole journal again."""

        def read_all_again() -> None:
            with self._transaction():
                self._db.execute("DELETE FROM events")
                self._db.execute("DELETE FROM files")
            self._catch_up()

        self._safely(read_all_again)

    @property
    def broken_count(self) -> int:
        """Lines of the journal that are no events, such as what a crash left of one."""
        return int(self._rows("SELECT coalesce(sum(broken), 0) FROM files")[0][0])

    def query(self, **question: Unpack[Question]) -> list[bytes]:
        """The newest events that match, as lines of JSON, oldest first."""
        return [line for _, line in self.page(None, **question)]

    def page(
        self, before: Position | None, **question: Unpack[Question]
    ) -> list[tuple[Position, bytes]]:
        """The same with the place of each; of those before a place, where one is given."""
        since, limit = question.pop("since", None), question.pop("limit", 100)
        wanted = {column: value for column, value in question.items() if value is not None}
        if "trace_id" in wanted:
            wanted["trace_id"] = _stored_id(str(wanted["trace_id"]))
        at, month, start = before or (float("inf"), "", 0)
        rows = self._rows(
            "SELECT * FROM (SELECT at, month, start, line FROM events WHERE "
            + "".join(f"{column} = :{column} AND " for column in wanted)
            + "at >= :since AND (at, month, start) < (:at, :month, :start)"
            " ORDER BY at DESC, month DESC, start DESC LIMIT :limit) ORDER BY at, month, start",
            wanted
            | {"since": float("-inf") if since is None else since}
            | {"limit": max(1, min(limit, QUERY_EVENTS_MAX))}
            | {"at": at, "month": month, "start": start},
        )
        return [((at, month, start), line) for at, month, start, line in rows]

    def trace(self, trace_id: str) -> list[bytes]:
        """All events of one trace, oldest first."""
        rows = self._rows(
            "SELECT line FROM events WHERE trace_id = :trace_id"
            " ORDER BY at, month, start LIMIT :limit",
            {"trace_id": _stored_id(trace_id), "limit": TRACE_EVENTS_MAX},
        )
        return [line for (line,) in rows]

    def stats(self, since: float | None = None) -> list[Stat]:
        """One row for each type of event, server and target."""
        statement = (
            "SELECT event_type, server, target, status, duration_ms FROM events"
            " WHERE at >= ? ORDER BY event_type, server, target, duration_ms"
        )
        earliest = float("-inf") if since is None else since

        def grouped() -> list[Stat]:
            rows = self._db.execute(statement, (earliest,))
            return [_stat(key, group) for key, group in groupby(rows, key=lambda row: row[:3])]

        return self._safely(grouped)

    def _rows(self, statement: str, values: dict[str, Any] | None = None) -> list[Any]:
        return self._safely(lambda: self._db.execute(statement, values or {}).fetchall())

    def _safely(self, work: Callable[[], _T]) -> _T:
        """Do something with the database; where that is broken, with a new one.

        Raises:
            IndexBusy: another process has held the database for too long.
        """
        with self._lock:
            for remedy in (None, self._start_afresh, self._start_apart):
                try:
                    if remedy is not None:
                        remedy()
                    return work()
                except sqlite3.DatabaseError as error:
                    if _is_busy(error):
                        raise IndexBusy(str(error)) from error
                    trouble = error
            raise trouble

    def _start_afresh(self) -> None:
        self._db.close()
        self._set_aside()
        self._db = self._opened()
        self._catch_up()

    def _start_apart(self) -> None:
        self._db.close()
        self._db = _connected(_NO_FILE)
        self._catch_up()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            yield

    def _opened(self) -> sqlite3.Connection:
        """The file, or a new one if it is not ours, or a database without a name."""
        for _ in range(OPEN_ATTEMPTS):
            try:
                make_private_directory(self._path.parent)
                # SQLite gives its side files the rights of this one.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
                return _connected(str(self._path))
            except sqlite3.Error as error:
                if not _is_busy(error):
                    self._set_aside()
            except OSError:
                break
        return _connected(_NO_FILE)

    def _set_aside(self) -> None:
        """Keep a file we cannot use, one of them, for whoever wants to know why."""
        for side_file in ("-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._path}{side_file}")
        with suppress(OSError):
            os.replace(self._path, f"{self._path}.unusable")

    def _catch_up(self) -> None:
        files = {path.parent.name: path for path in self._events_dir.glob(f"*/{FILE_NAME}")}
        known = self._db.execute("SELECT month FROM files").fetchall()
        for month in {month for (month,) in known} - files.keys():
            with self._transaction():
                self._forget(month)
        for month, path in sorted(files.items()):
            # A file may be deleted while we look, or be another user's.
            with suppress(OSError), path.open("rb", buffering=0) as file:
                while self._take_chunk(month, file):
                    pass

    def _take_chunk(self, month: str, file: FileIO) -> bool:
        """Index the next lines of a file; says whether there may be more."""
        state = os.fstat(file.fileno())
        if self._progress(month) == (state.st_ino, state.st_size):
            return False
        with self._transaction():
            # Looked at again: another process may have been at the same file.
            state = os.fstat(file.fileno())
            inode, start = self._progress(month) or (state.st_ino, 0)
            if inode != state.st_ino or start > state.st_size:  # Another file, or cut short.
                self._forget(month)
                start = 0
            file.seek(start)
            chunk = file.read(CHUNK_BYTES)
            whole = chunk.rfind(b"\n") + 1
            if not whole and len(chunk) == CHUNK_BYTES:
                whole = CHUNK_BYTES  # No line of ours is so long.
            found = list(_decoded(chunk[:whole], start))
            events = [(month, *row) for row in found if row is not None]
            self._db.executemany(f"INSERT INTO events VALUES (?{', ?' * 9})", events)
            self._db.execute(
                "INSERT INTO files VALUES (:month, :inode, :indexed, :broken) ON CONFLICT"
                " DO UPDATE SET indexed = excluded.indexed, broken = broken + excluded.broken",
                {
                    "month": month,
                    "inode": state.st_ino,
                    "indexed": start + whole,
                    "broken": len(found) - len(events),
                },
            )
        return whole > 0

    def _progress(self, month: str) -> tuple[int, int] | None:
        row: tuple[int, int] | None = self._db.execute(
            "SELECT inode, indexed FROM files WHERE month = ?", (month,)
        ).fetchone()
        return row

    def _forget(self, month: str) -> None:
        self._db.execute("DELETE FROM events WHERE month = ?", (month,))
        self._db.execute("DELETE FROM files WHERE month = ?", (month,))


class IndexBusy(Exception):
    """Another process held the index for longer than we wait."""


class _Line(msgspec.Struct, frozen=True):
    """What of an event is asked for."""

    timestamp: datetime
    trace_id: str
    status: str
    event_type: str
    metadata: dict[str, Any] = {}
    duration_ms: float | None = None

    def columns(self) -> tuple[object, ...]:
        moment = self.timestamp
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        about = {key: value for key, value in self.metadata.items() if isinstance(value, str)}
        target = about.get("tool") or about.get("prompt") or about.get("uri")
        server = about.get("server")
        trace_id = _stored_id(self.trace_id)
        return (at, trace_id, self.event_type, self.status, server, target, self.duration_ms)


_decoder: Final = msgspec.json.Decoder(_Line)
_BEGINNING: Final = b'{"timestamp":"'


def _decoded(chunk: bytes, start: int) -> Iterator[tuple[object, ...] | None]:
    """The rows of some whole lines; None for a line that is no event."""
    for line in chunk.split(b"\n"):
        if line.strip():
            row = _row(line, start)
            yield row
            # A process killed while it wrote leaves a part of a line, and the line of another
            # may follow on it. Within an event the quotes of this text would be escaped.
            at = line.rfind(_BEGINNING)
            if row is None and at > 0 and (row := _row(line[at:], start)):
                yield row
        start += len(line) + 1


def _row(line: bytes, start: int) -> tuple[object, ...] | None:
    try:
        line.decode()
        return (start, *_decoder.decode(line).columns(), line)
    except (ValueError, OverflowError, RecursionError):  # Not JSON, not UTF-8, or no event.
        return None


def _stat(key: tuple[Any, ...], rows: Iterable[tuple[Any, ...]]) -> Stat:
    event_type, server, target = key
    counts: dict[str, int] = {}
    took: list[float] = []
    for _, _, _, status, duration_ms in rows:
        counts[status] = counts.get(status, 0) + 1
        if duration_ms is not None:
            took.append(duration_ms)
    return Stat(
        event_type=event_type,
        server=server,
        target=target,
        counts=counts,
        mean_ms=round(sum(took) / len(took), 3) if took else None,
        p50_ms=_percentile(took, 50),
        p95_ms=_percentile(took, 95),
    )


def _percentile(ascending: list[float], percent: int) -> float | None:
    """The nearest rank: a value that did occur."""
    if not ascending:
        return None
    return ascending[-(-len(ascending) * percent // 100) - 1]


def _connected(path: str) -> sqlite3.Connection:
    """A connection to an index of our schema.

    Raises:
        sqlite3.DatabaseError: the file is no index of ours.
    """
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        if schema not in (0, SCHEMA):
            raise sqlite3.DatabaseError(f"The index has schema {schema}, not {SCHEMA}")
        if schema == 0:
            db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _stored_id(trace_id: str) -> str:
    """Other writers and people give trace ids as UUIDs; one that is neither stays as it is."""
    return normalise_trace_id(trace_id) or trace_id


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether the database is good and only in use."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
