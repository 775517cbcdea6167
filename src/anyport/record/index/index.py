"""The index of the journal: finds events, traces and statistics without reading all of it.

The journal is the truth. The index says where in it each event is, and may be deleted at any time:
it is built again. It never writes the journal. Import it late, because a gateway without queries
needs no SQLite. Its methods may take long: call them in a thread, any thread.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from anyport.record.filter.ast import Filter, FilterTerm, Text
from anyport.record.index.database import Database, IndexBusy, IndexLost
from anyport.record.index.indexer import (
    PLACE_BITS,
    STRETCH_BITS,
    IndexedFile,
    Indexer,
    OpenedSegment,
    find_event,
)
from anyport.record.index.query import IndexedRow, Position, RowFinder, select_events
from anyport.record.index.statistics import (
    METHOD_EVENT_TYPES,
    Stat,
    StatCounter,
    StatGroup,
    Stats,
    sort_stats,
)
from anyport.record.journal.reader import TextSearch
from anyport.record.journal.segments import segments
from anyport.record.tamper.chain import strip_link
from anyport.record.trace_ids import normalise_trace_id

__all__ = ["Index", "IndexBusy", "IndexLost", "IndexPage", "Position", "Stat", "Stats"]
INDEX_FILE: Final = "events.sqlite3"

QUERY_EVENTS_MAX: Final = 1000
"""Events per query."""

TRACE_EVENTS_MAX: Final = 10_000
"""Events of one trace: people want all of it, but a client may put a year into one."""

SCANNED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes to read for one query that only the lines can answer: about half a second."""

MATCH_ALL: Final = Filter()
_OFFSET_MASK: Final = (1 << PLACE_BITS) - 1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPage:
    """One page of the events that match."""

    rows: list[tuple[Position, bytes]]
    """Lines of JSON with their positions, oldest first."""
    older: Position | None
    """Where the next older page begins; None at the end."""
    complete: bool
    """Whether everything down to `older`, or to the end, was searched. If not, the search stopped
    there after reading too much; the next page continues it."""

    @property
    def lines(self) -> list[bytes]:
        return [line for _, line in self.rows]


class Index:
    """Answers queries about the journal below a state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._events_dir = state_dir / "events"
        self._database = Database(state_dir / INDEX_FILE)
        self._indexer = Indexer(self._database, self._events_dir)

    def close(self) -> None:
        self._database.close()

    @property
    def trouble(self) -> str | None:
        """What is or was wrong with its file, as a sentence."""
        return self._database.trouble

    def catch_up(self) -> bool:
        """Index what was appended to the journal; False if another process is in the way."""
        try:
            self._run_with_recovery(self._catch_up)
        except IndexBusy:  # It indexes the same.
            return False
        return True

    def catch_up_step(self, bytes_max: int = 1 << STRETCH_BITS) -> bool:
        """Index the next part; returns whether there may be more."""
        with suppress(IndexBusy), closing(self._indexer.index_in_steps(bytes_max)) as pieces:
            return self._run_with_recovery(lambda: next(pieces, self) is None)
        return False

    @property
    def broken_line_count(self) -> int:
        """Lines of the journal that are not events, such as torn ones."""
        statement = "SELECT coalesce(sum(broken), 0) FROM files"
        return int(self._run_with_recovery(lambda: self._database.rows(statement))[0][0])

    def query(self, filter: Filter = MATCH_ALL, limit: int = 100) -> list[bytes]:
        """The newest events that match, as lines of JSON, oldest first."""
        return self.page(None, filter, limit).lines

    def page(
        self,
        before: Position | None = None,
        filter: Filter = MATCH_ALL,
        limit: int = 100,
        bytes_max: int = sys.maxsize,
    ) -> IndexPage:
        """The newest events before a position, with their positions.

        It ends early at `bytes_max`, which the last event may exceed.
        """
        limit = max(1, min(limit, QUERY_EVENTS_MAX))
        return self._run_with_recovery(lambda: self._page(before, filter, limit, bytes_max))

    def trace(self, trace_id: str, filter: Filter = MATCH_ALL) -> list[bytes]:
        """All events of one trace that match, oldest first."""
        normalised = normalise_trace_id(trace_id) or trace_id.strip()
        trace_term = FilterTerm(key="trace", values=(Text(normalised),))
        combined = Filter(terms=(trace_term, *filter.terms))
        return self._run_with_recovery(
            lambda: self._page(None, combined, TRACE_EVENTS_MAX, sys.maxsize)
        ).lines

    def stats(self, filter: Filter = MATCH_ALL) -> Stats:
        """A row for each event type, server and target among the events that match."""
        return self._run_with_recovery(lambda: self._stats(filter))

    def _run_with_recovery(self, work: Callable[[], _T]) -> _T:
        return self._database.run_with_recovery(work, self._catch_up)

    def _catch_up(self) -> None:
        for _ in self._indexer.index_in_steps():
            if self._database.is_closed:
                break

    def _page(
        self, before: Position | None, filter: Filter, limit: int, bytes_max: int
    ) -> IndexPage:
        selection = select_events(filter)
        found: list[tuple[Position, bytes]] = []
        size, older, complete = 0, None, True
        with self._open_reader(selection.line_terms) as reader:
            finder = RowFinder(self._database, selection, before)
            for row in finder.newest_first(None if selection.line_terms.terms else limit):
                line = reader.read(row)
                if line is not None:
                    found.append((row.position, line))
                    size += len(line)
                complete = not reader.is_exhausted
                if len(found) == limit or size >= bytes_max or not complete:
                    older = row.position
                    break
        return IndexPage(rows=found[::-1], older=older, complete=complete or len(found) == limit)

    def _stats(self, filter: Filter) -> Stats:
        selection = select_events(filter)
        counters: dict[StatGroup, StatCounter] = {}
        complete = True
        with self._open_reader(selection.line_terms) as reader:
            sort_rows = self._database.rows("SELECT number, about FROM sorts")
            sorts = {
                number: _group_and_status(msgspec.json.decode(about)) for number, about in sort_rows
            }
            for row in RowFinder(self._database, selection).all():
                if selection.line_terms.terms and reader.read(row) is None:
                    complete = not reader.is_exhausted
                    if complete:
                        continue
                    break
                group, status = sorts[row.sort]
                counter = counters.get(group) or counters.setdefault(group, StatCounter())
                counter.counts[status] = counter.counts.get(status, 0) + 1
                if row.took is not None:
                    counter.durations_ms.append(row.took)
        return Stats(rows=sort_stats(counters.items()), complete=complete)

    @contextmanager
    def _open_reader(self, rest: Filter) -> Iterator["_RowReader"]:
        with (
            self._database.read_transaction(),
            LineReader(self._events_dir, self._indexer.indexed_files()) as lines,
            closing(TextSearch(self._state_dir, rest)) as search,
        ):
            yield _RowReader(lines, search if rest.terms else None)


class LineReader:
    """Reads the lines of the journal that a query has found.

    A file may have been rotated or removed since it was indexed; a line that is gone is None.
    """

    def __init__(self, events_dir: Path, files: Mapping[int, IndexedFile]) -> None:
        self._events_dir = events_dir
        self._files = files
        self._descriptors: dict[int, int | None] = {}
        self.bytes_read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for fd in self._descriptors.values():
            if fd is not None:
                os.close(fd)

    def read(self, place: int, length: int) -> bytes | None:
        """The event of the line at a place, without its link; None if it is gone."""
        number = place >> PLACE_BITS
        if number not in self._descriptors:
            self._descriptors[number] = self._open_file(number)
        fd = self._descriptors[number]
        if fd is None:
            return None
        line = os.pread(fd, length, place & _OFFSET_MASK)
        self.bytes_read += length
        event = find_event(line)
        return None if event is None else strip_link(event)

    def _open_file(self, number: int) -> int | None:
        indexed_file = self._files.get(number)
        if indexed_file is None:
            return None
        for path in (self._events_dir / indexed_file.path, *segments(self._events_dir)):
            with suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                if OpenedSegment(path, fd).is_same(indexed_file):
                    return fd
                os.close(fd)
        return None


class _RowReader:
    """Reads lines and applies the terms that only they can answer, up to a limit of bytes."""

    def __init__(self, lines: LineReader, search: TextSearch | None) -> None:
        self._lines = lines
        self._search = search

    def read(self, row: IndexedRow) -> bytes | None:
        """The line of a row; None if it is gone, or does not match."""
        line = self._lines.read(row.place, row.length)
        if line is None or self._search is None or self._search.matches(line):
            return line
        return None

    @property
    def is_exhausted(self) -> bool:
        """Whether the limit is reached."""
        search = self._search
        return search is not None and self._lines.bytes_read + search.bytes_read > SCANNED_BYTES_MAX


def _group_and_status(event: dict[str, Any]) -> tuple[StatGroup, str]:
    """What an event is counted under, and its status."""
    event_metadata = event["metadata"]
    texts = {name: text for name, text in event_metadata.items() if isinstance(text, str)}
    if event["event_type"] in METHOD_EVENT_TYPES:
        target = texts.get("method")
    else:
        target = texts.get("tool") or texts.get("prompt") or texts.get("uri")
    return (event["event_type"], texts.get("server"), target), event["status"]
