"""Indexer: reads what is appended to the journal, and writes the rows of the index.

A file is identified by its inode and first bytes, not by its name: a rotated file keeps its rows,
and a new file with an old name does not get them.
"""

import os
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from anyport.record.event import EVENT_BYTES_MAX
from anyport.record.index.database import Database
from anyport.record.journal.segments import segments
from anyport.record.trace_ids import normalise_trace_id

STRETCH_BITS: Final = 21
"""A stretch is a block of 2 MiB: some thousand events, indexed in one transaction, so that several
processes take turns quickly."""

PLACE_BITS: Final = 40
"""A place is the number of a file, and in this many bits the offset of a line."""

LINE_BYTES_MAX: Final = 2 * EVENT_BYTES_MAX
"""Longer than any line of a gateway."""

FINGERPRINT_BYTES_MAX: Final = 96
"""Enough of a file to cover the time and trace id of its first event."""

ROWS_PER_INSERT: Final = 64
"""Rows per statement, because starting a statement is what costs."""

SORTS_REMEMBERED_MAX: Final = 10_000
SESSIONS_REMEMBERED_MAX: Final = 10_000
"""Caches for the events at hand; other entries are looked up in the database."""

ROW_COLUMNS: Final = ("at", "place", "length", "sort", "took", "queue", "wait", "size")
SORT_TOP: Final = ("event_type", "status", "error_code")
SORT_METADATA: Final = (
    "profile",
    "server",
    "method",
    "tool",
    "prompt",
    "uri",
    "public_name",
    "client",
    "principal",
    "outcome",
    "kind",
    "side",
    "era",
    "revision",
    "transport",
    "client_revision",
    "client_transport",
    "server_revision",
    "server_transport",
)
_SIZES: Final = ("params_bytes", "sent_bytes", "answer_bytes", "result_bytes", "bytes")
_EVENT_START: Final = b'{"timestamp":"'

_NO_SIZE: Final = -1.0
"""Smaller than any size."""

_INODE_MASK: Final = 2**63 - 1

# Ids are not indexed. They are random, so each event would change another page of an SQL index,
# which was measured to be too slow. Instead, the ids of a stretch are packed side by side into one
# block of bytes. A block is only appended to, and a search through a million ids takes some
# hundredths of a second.

ID_DIGITS: Final = 64
"""Hexadecimal digits per event: 32 of its trace id, 16 of its span id, 16 of a session digest."""

_ID_BYTES: Final = ID_DIGITS // 2
NO_ID: Final = "0" * 16

PREFIX_DIGITS_MIN: Final = 4
"""A shorter prefix matches too many ids; such a term is applied to the lines instead."""

_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class IdField:
    """A packed id: where it is in the bytes of an event."""

    start: int
    size: int


TRACE_FIELD: Final = IdField(0, 16)
SPAN_FIELD: Final = IdField(16, 8)
SESSION_FIELD: Final = IdField(24, 8)


def session_digits(session: str) -> str:
    """Digest that stands for a session, whose name may have any length."""
    return blake2b(
        session.encode(errors="surrogatepass"), digest_size=SESSION_FIELD.size
    ).hexdigest()


def is_storable_id(text: str, field: IdField) -> bool:
    """Whether an id can be packed as it is."""
    return len(text) == field.size * 2 and _HEX.issuperset(text)


def find_ids(block: bytes, field: IdField, prefix: str) -> Iterator[int]:
    """Which events of a block, counted from 0, have an id with this prefix."""
    if len(prefix) > field.size * 2 or not _HEX.issuperset(prefix):
        return
    whole = bytes.fromhex(prefix[: len(prefix) & ~1])
    absent = bytes(field.size)
    at = block.find(whole)
    while at >= 0:
        number, offset = divmod(at, _ID_BYTES)
        if offset == field.start:
            found = block[at : at + field.size]
            if found != absent and found.hex().startswith(prefix):
                yield number
        at = block.find(whole, at + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFile:
    """A file as the index knows it."""

    number: int
    path: str
    """Below the events directory."""
    inode: int
    head: bytes
    indexed: int
    """Bytes indexed, from the start."""


class OpenedSegment:
    """An open file of the journal."""

    def __init__(self, path: Path, fd: int) -> None:
        self.name = f"{path.parent.name}/{path.name}"
        self.fd = fd
        state = os.fstat(fd)
        self.inode = state.st_ino & _INODE_MASK
        self.size = state.st_size

    @cached_property
    def head(self) -> bytes:
        return os.pread(self.fd, FINGERPRINT_BYTES_MAX, 0)

    def is_same(self, indexed_file: IndexedFile) -> bool:
        """Whether this is that file, perhaps grown since."""
        return (
            self.inode == indexed_file.inode
            and self.size >= indexed_file.indexed
            and self.head.startswith(indexed_file.head)
        )


class RowBatch:
    """The rows of some lines."""

    __slots__ = ("broken_line_count", "id_block", "id_digits", "rows", "unusual_ids")

    def __init__(self) -> None:
        self.rows: list[Any] = []
        """All columns of the first row, then of the second, and so on: the values of one INSERT."""
        self.id_digits: list[str] = []
        """The ids of each row as digits, and of all rows as packed bytes."""
        self.id_block = b""
        self.unusual_ids: list[tuple[int, str | None, str | None]] = []
        """Ids that cannot be packed: the place, the trace id, the span id."""
        self.broken_line_count = 0
        """Lines that are not events."""

    def pack_ids(self) -> bytes:
        """Pack the ids of all rows.

        Raises:
            ValueError: some are not lower-case hexadecimal digits.
        """
        digits = "".join(self.id_digits)
        block = bytes.fromhex(digits)
        if block.hex() != digits:
            raise ValueError("Not all ids are small hexadecimal digits")
        return block

    def column(self, name: str) -> list[Any]:
        """One column of all rows."""
        return self.rows[ROW_COLUMNS.index(name) :: len(ROW_COLUMNS)]


class Indexer:
    """Indexes what is appended to the journal."""

    def __init__(self, database: Database, events_dir: Path) -> None:
        self._database = database
        self._events_dir = events_dir
        self._reader = RowParser(self._find_sort)
        self._content_version = (0, 0)

    def index_in_steps(self, bytes_max: int = 1 << STRETCH_BITS) -> Generator[None]:
        """Index everything new, a part with each step."""
        paths = segments(self._events_dir)
        self._remove_missing(paths)
        for path in paths:
            with suppress(OSError):  # It may be deleted meanwhile, or belong to another user.
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    while self._index_file(path, fd, bytes_max):
                        yield
                finally:
                    os.close(fd)

    def indexed_files(self) -> dict[int, IndexedFile]:
        """The indexed files by number."""
        return {file.number: file for file in self._read_indexed_files()}

    def _read_indexed_files(self) -> list[IndexedFile]:
        statement = "SELECT number, path, inode, head, indexed FROM files"
        return [
            IndexedFile(number=number, path=path, inode=inode, head=head, indexed=indexed)
            for number, path, inode, head, indexed in self._database.rows(statement)
        ]

    def _remove_missing(self, paths: list[Path]) -> None:
        known = self._read_indexed_files()
        present_inodes: set[int] = set()
        for path in paths if known else ():
            with suppress(OSError):
                present_inodes.add(path.stat().st_ino & _INODE_MASK)
        if any(file.inode not in present_inodes for file in known):
            with self._database.write_transaction():
                for file in self._read_indexed_files():
                    if file.inode not in present_inodes:
                        self._remove_file(file)

    def _index_file(self, path: Path, fd: int, bytes_max: int) -> bool:
        """Index the next lines of a file; returns whether there may be more."""
        segment = OpenedSegment(path, fd)
        indexed_file = next(
            (file for file in self._read_indexed_files() if segment.is_same(file)), None
        )
        if indexed_file is not None and (indexed_file.indexed, indexed_file.path) == (
            segment.size,
            segment.name,
        ):
            return False
        with self._database.write_transaction():
            # Checked again inside the transaction: another process may have indexed the file, or
            # replaced the sorts.
            if self._content_version != (state := self._database.content_version):
                self._content_version = state
                self._reader.forget_sorts()
            segment = OpenedSegment(path, fd)
            file = self._find_or_add(segment)
            start = file.indexed
            lines = _whole_lines(segment, start, bytes_max)
            batch = self._reader.parse(lines, file.number << PLACE_BITS | start)
            self._store(batch)
            self._database.execute(
                "UPDATE files SET path = ?, head = ?, indexed = ?, broken = broken + ?"
                " WHERE number = ?",
                (
                    segment.name,
                    segment.head,
                    start + len(lines),
                    batch.broken_line_count,
                    file.number,
                ),
            )
        return bool(lines)

    def _find_or_add(self, segment: OpenedSegment) -> IndexedFile:
        """The file in the index; rows of another file with its inode are removed."""
        for file in self._read_indexed_files():
            if segment.is_same(file):
                return file
            if segment.inode == file.inode:  # Replaced or truncated since.
                self._remove_file(file)
        number = self._database.execute(
            "INSERT INTO files (path, inode, head, indexed, broken) VALUES (?, ?, ?, 0, 0)",
            (segment.name, segment.inode, segment.head),
        )
        return IndexedFile(
            number=number, path=segment.name, inode=segment.inode, head=b"", indexed=0
        )

    def _remove_file(self, file: IndexedFile) -> None:
        shift = PLACE_BITS - STRETCH_BITS
        stretches = file.number << shift, (file.number + 1 << shift) - 1
        places = file.number << PLACE_BITS, (file.number + 1 << PLACE_BITS) - 1
        run = self._database.execute
        ((first, last),) = self._database.rows(
            "SELECT min(first_at), max(last_at) FROM stretches WHERE number BETWEEN ? AND ?",
            stretches,
        )
        run(
            "DELETE FROM events WHERE at BETWEEN ? AND ? AND place BETWEEN ? AND ?",
            (first, last, *places),
        )
        run("DELETE FROM stretches WHERE number BETWEEN ? AND ?", stretches)
        run("DELETE FROM spread WHERE stretch BETWEEN ? AND ?", stretches)
        run("DELETE FROM odd WHERE place BETWEEN ? AND ?", places)
        run("DELETE FROM files WHERE number = ?", (file.number,))
        run("DELETE FROM sorts WHERE number NOT IN (SELECT sort FROM spread)")
        self._reader.forget_sorts()

    def _store(self, batch: RowBatch) -> None:
        rows = batch.rows
        if not rows:
            return
        width = len(ROW_COLUMNS)
        step = ROWS_PER_INSERT * width
        for at in range(0, len(rows), step):
            values = rows[at : at + step]
            count = len(values) // width
            self._database.execute(_INSERT + ", ".join([_ONE_ROW] * count), values)
        # A batch is within one stretch: merge it into the summary of that stretch.
        places, times = array("Q", batch.column("place")), batch.column("at")
        stretch = places[0] >> STRETCH_BITS
        durations, earlier_places, earlier_ids = batch.column("took"), b"", b""
        for row in self._database.rows(
            "SELECT first_at, last_at, longest, places, marks FROM stretches WHERE number = ?",
            (stretch,),
        ):
            first, last, longest, earlier_places, earlier_ids = row
            times += (first, last)
            durations.append(longest)
        longest = max((duration for duration in durations if duration is not None), default=None)
        self._database.execute(
            "REPLACE INTO stretches VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(stretch, min(times), max(times), longest),
                *(earlier_places + places.tobytes(), earlier_ids + batch.id_block),
            ),
        )
        sorts = [(stretch, sort) for sort in set(batch.column("sort"))]
        self._database.execute_many("INSERT OR IGNORE INTO spread VALUES (?, ?)", sorts)
        self._database.execute_many("INSERT INTO odd VALUES (?, ?, ?)", batch.unusual_ids)

    def _find_sort(self, about: bytes) -> int:
        for (number,) in self._database.rows("SELECT number FROM sorts WHERE about = ?", (about,)):
            return int(number)
        return self._database.execute("INSERT INTO sorts (about) VALUES (?)", (about,))


_INSERT: Final = f"INSERT INTO events ({', '.join(ROW_COLUMNS)}) VALUES "
_ONE_ROW: Final = f"({', '.join('?' * len(ROW_COLUMNS))})"


def _whole_lines(file: OpenedSegment, start: int, bytes_max: int) -> bytes:
    """The next complete lines of a file, those that begin in the same stretch."""
    end = (start >> STRETCH_BITS) + 1 << STRETCH_BITS
    bytes_wanted = min(end - start, bytes_max)
    # Bounded by the size: a device that never ends has none.
    chunk = os.pread(file.fd, min(bytes_wanted + LINE_BYTES_MAX, file.size - start), start)
    whole = chunk.find(b"\n", bytes_wanted - 1) + 1 or chunk.rfind(b"\n") + 1
    if not whole and len(chunk) > LINE_BYTES_MAX:
        whole = len(chunk)
    return chunk[:whole]


class _IndexedMetadata(msgspec.Struct, gc=False):
    """Members of the metadata that filters can ask for."""

    span_id: str = NO_ID
    session: str = ""
    profile: str | None = None
    server: str | None = None
    method: str | None = None
    tool: str | None = None
    prompt: str | None = None
    uri: str | None = None
    public_name: str | None = None
    client: str | None = None
    principal: str | None = None
    outcome: str | None = None
    kind: str | None = None
    side: str | None = None
    era: str | None = None
    revision: str | None = None
    transport: str | None = None
    client_revision: str | None = None
    client_transport: str | None = None
    server_revision: str | None = None
    server_transport: str | None = None
    queue_ms: float | None = None
    server_ms: float | None = None
    params_bytes: float = _NO_SIZE
    sent_bytes: float = _NO_SIZE
    answer_bytes: float = _NO_SIZE
    result_bytes: float = _NO_SIZE
    bytes: float = _NO_SIZE


class _EventLine(msgspec.Struct, gc=False):
    """An event as the journal writes it, for the fast path."""

    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    trace_id: str
    status: str
    event_type: str
    metadata: _IndexedMetadata
    duration_ms: float | None = None
    error_code: int | str | None = None


class _LooseEvent(msgspec.Struct):
    """An event as any program may write it; a member of the wrong type counts as absent."""

    timestamp: datetime
    trace_id: str
    status: str
    event_type: str
    metadata: Any = None
    duration_ms: Any = None
    error_code: Any = None


_decoder: Final = msgspec.json.Decoder(_EventLine)
_loose_decoder: Final = msgspec.json.Decoder(_LooseEvent)

FindSort: TypeAlias = Callable[[bytes], int]
"""Finds or adds a sort by its JSON: an event reduced to its labels. Returns its number."""

_DECODE_ERRORS: Final = (ValueError, OverflowError, RecursionError)
"""Not JSON, not UTF-8, or not an event."""


class RowParser:
    """Parses lines into rows, with caches of sorts and sessions.

    This is the inner loop of indexing. Events repeat themselves, so their labels are stored once as
    a *sort*, and a row has its number, the time and some measurements. Anything unusual about a
    line, such as an id that is not hexadecimal, takes a slower path.
    """

    def __init__(self, find_sort: FindSort) -> None:
        self._find_sort = find_sort
        self._sorts: dict[object, int] = {}
        self._sessions: dict[str, str] = {"": NO_ID}

    def forget_sorts(self) -> None:
        """Drop the cache, because another process may have renumbered the sorts."""
        self._sorts.clear()

    def parse(self, lines: bytes, place: int) -> RowBatch:
        """Parse complete lines, of which the first is at `place`."""
        batch = self._parse_fast(lines, place)
        try:
            batch.id_block = batch.pack_ids()
        except ValueError:
            batch = self._parse_slow(lines, place)
            batch.id_block = batch.pack_ids()
        return batch

    def _parse_fast(self, lines: bytes, place: int) -> RowBatch:
        batch = RowBatch()
        rows, id_digits = batch.rows, batch.id_digits
        decode, sorts, sessions = _decoder.decode, self._sorts, self._sessions
        ascii_only = lines.isascii()
        for line in lines.split(b"\n"):
            length = len(line)
            try:
                if not ascii_only:
                    line.decode()
                event = decode(line)
                at = event.timestamp.timestamp()
                metadata = event.metadata
                if len(event.trace_id) != 32 or len(metadata.span_id) != 16:
                    raise ValueError
            except _DECODE_ERRORS:
                self._parse_unusual(batch, line, place)
                place += length + 1
                continue
            # In the order of SORT_TOP and SORT_METADATA.
            sort = (
                event.event_type, event.status, event.error_code,
                metadata.profile, metadata.server, metadata.method, metadata.tool, metadata.prompt,
                metadata.uri, metadata.public_name,
                metadata.client, metadata.principal, metadata.outcome, metadata.kind,
                metadata.side, metadata.era, metadata.revision,
                metadata.transport, metadata.client_revision, metadata.client_transport,
                metadata.server_revision,
                metadata.server_transport,
            )  # fmt: skip
            number = sorts.get(sort) or self._number_sort(sort)
            session = sessions.get(metadata.session) or self._digest_session(metadata.session)
            size = max(
                metadata.params_bytes,
                metadata.sent_bytes,
                metadata.answer_bytes,
                metadata.result_bytes,
                metadata.bytes,
            )
            rows += (
                at, place, length, number, event.duration_ms, metadata.queue_ms, metadata.server_ms,
                size if size >= 0 else None,
            )  # fmt: skip
            id_digits.append(event.trace_id + metadata.span_id + session)
            place += length + 1
        return batch

    def _parse_slow(self, lines: bytes, place: int) -> RowBatch:
        batch = RowBatch()
        for line in lines.split(b"\n"):
            self._parse_unusual(batch, line, place)
            place += len(line) + 1
        return batch

    def _parse_unusual(self, batch: RowBatch, line: bytes, place: int) -> None:
        if not line.strip():
            return
        event = _decode_loosely(line)
        if event is None:
            batch.broken_line_count += 1
            event = _decode_loosely(_skip_torn(line))
        if event is not None:
            self._add(batch, event, place, len(line))

    def _add(self, batch: RowBatch, event: _LooseEvent, place: int, length: int) -> None:
        event_metadata = event.metadata if isinstance(event.metadata, dict) else {}
        sort_members = {
            name: event_metadata[name]
            for name in SORT_METADATA
            if event_metadata.get(name) is not None
        }
        top = {name: getattr(event, name) for name in SORT_TOP}
        sort = _encode_sort(top, sort_members)
        sizes = [size for name in _SIZES if (size := _number(event_metadata.get(name))) is not None]
        batch.rows += (
            *(
                _seconds(event.timestamp),
                place,
                length,
                self._sorts.get(sort) or self._number_sort(sort),
            ),
            *(
                _number(event.duration_ms),
                _number(event_metadata.get("queue_ms")),
                _number(event_metadata.get("server_ms")),
            ),
            max(sizes, default=None),
        )
        trace_id, span_id, session = (
            normalise_trace_id(event.trace_id),
            event_metadata.get("span_id"),
            "",
        )
        odd_trace = event.trace_id if trace_id is None else None
        odd_span = (
            span_id
            if isinstance(span_id, str) and not is_storable_id(span_id, SPAN_FIELD)
            else None
        )
        if odd_trace is not None or odd_span is not None:
            batch.unusual_ids.append((place, odd_trace, odd_span))
        if isinstance(event_metadata.get("session"), str):
            session = event_metadata["session"]
        plain_span = span_id if isinstance(span_id, str) and odd_span is None else NO_ID
        batch.id_digits.append(
            (trace_id or NO_ID * 2)
            + plain_span
            + (self._sessions.get(session) or self._digest_session(session))
        )

    def _number_sort(self, sort: tuple[Any, ...] | bytes) -> int:
        if len(self._sorts) >= SORTS_REMEMBERED_MAX:
            self._sorts.clear()
        encoded = sort
        if not isinstance(encoded, bytes):
            top = dict(zip(SORT_TOP, sort, strict=False))
            members = zip(SORT_METADATA, sort[len(SORT_TOP) :], strict=True)
            encoded = _encode_sort(top, {name: text for name, text in members if text is not None})
        number = self._sorts[sort] = self._find_sort(encoded)
        return number

    def _digest_session(self, session: str) -> str:
        if len(self._sessions) >= SESSIONS_REMEMBERED_MAX:
            self._sessions = {"": NO_ID}
        digits = self._sessions[session] = session_digits(session)
        return digits


def find_event(line: bytes) -> bytes | None:
    """The event of a line, without a torn line before it; None if there is none."""
    for part in (line, _skip_torn(line)):
        if _decode_loosely(part) is not None:
            return part
    return None


def _skip_torn(line: bytes) -> bytes:
    """The part of a line after a torn line.

    A process that is killed while it writes leaves a torn line, and the line of another process may
    follow on it. Inside an event the quotes of this text would be escaped.
    """
    return line[max(line.rfind(_EVENT_START), 0) :]


def _encode_sort(top: Mapping[str, Any], event_metadata: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({**top, "metadata": event_metadata})


def _decode_loosely(line: bytes) -> _LooseEvent | None:
    try:
        line.decode()
        event = _loose_decoder.decode(line)
        _seconds(event.timestamp)
    except _DECODE_ERRORS:
        return None
    return event


def _seconds(moment: datetime) -> float:
    """Seconds since 1970; other programs may leave the zone out and mean UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
