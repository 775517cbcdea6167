"""The index of the journal, for questions: which events, of which trace, how many, how slow.

The journal is the truth; this says where in it events stand, in SQLite, and may be deleted at any
time: it is built again. It reads the journal's files and never writes them. Import it late: a
gateway that is not asked needs no database. Its calls may take long; they belong in a thread, any
thread.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from anyport.record.counting import NAMED_BY_METHOD, Group, Stat, Stats, Tally, in_order
from anyport.record.database import Database, IndexBusy, IndexLost
from anyport.record.filter_tree import Filter, Term, Text
from anyport.record.finding import Finder, Position, Row
from anyport.record.intake import STRETCH_BITS, Intake
from anyport.record.lines import Lines
from anyport.record.searching import Search
from anyport.record.selecting import select
from anyport.record.trace import normalise_trace_id

__all__ = ["Index", "IndexBusy", "IndexLost", "Page", "Position", "Stat", "Stats"]

FILE: Final = "events.sqlite3"

QUERY_EVENTS_MAX: Final = 1000
"""The most that one question is answered with."""

TRACE_EVENTS_MAX: Final = 10_000
"""The most of one trace: it is wanted whole, but a client may put a year into one."""

SCANNED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Read for one question that only the events themselves can answer: half a second's work."""

EVERYTHING: Final = Filter()

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of the events that match."""

    rows: list[tuple[Position, bytes]]
    """With the place of each, as lines of JSON, oldest first."""
    older: Position | None
    """Before this, there may be more; None where there are none."""
    complete: bool
    """Whether all were looked at down to `older`, or to the end. If not, the search was given up
    there after reading a lot, and goes on there if that is asked for."""

    @property
    def lines(self) -> list[bytes]:
        return [line for _, line in self.rows]


class Index:
    """Answers questions about the journal below a state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._events_dir = state_dir / "events"
        self._database = Database(state_dir / FILE)
        self._intake = Intake(self._database, self._events_dir)

    def close(self) -> None:
        self._database.close()

    @property
    def trouble(self) -> str | None:
        """What is or was wrong with its file, as a sentence."""
        return self._database.trouble

    def catch_up(self) -> bool:
        """Take in what was appended to the journal since the last time; False if that must wait."""
        try:
            self._safely(self._catch_up)
        except IndexBusy:  # Another process does the same.
            return False
        return True

    def step(self, bytes_max: int = 1 << STRETCH_BITS) -> bool:
        """Take in a part of that; says whether there may be more."""
        with suppress(IndexBusy), closing(self._intake.pieces(bytes_max)) as pieces:
            return self._safely(lambda: next(pieces, self) is None)
        return False

    def rebuild(self) -> None:
        """Forget everything and read the whole journal again."""

        def read_all_again() -> None:
            self._intake.forget_all()
            self._catch_up()

        self._safely(read_all_again)

    @property
    def broken_count(self) -> int:
        """Lines of the journal that are no events, such as what a crash left of one."""
        statement = "SELECT coalesce(sum(broken), 0) FROM files"
        return int(self._safely(lambda: self._database.rows(statement))[0][0])

    def query(self, filter: Filter = EVERYTHING, limit: int = 100) -> list[bytes]:
        """The newest events that match, as lines of JSON, oldest first."""
        return self.page(None, filter, limit).lines

    def page(
        self, before: Position | None = None, filter: Filter = EVERYTHING, limit: int = 100
    ) -> Page:
        """The same with the place of each; of those before a place, where one is given."""
        limit = max(1, min(limit, QUERY_EVENTS_MAX))
        return self._safely(lambda: self._page(before, filter, limit))

    def trace(self, trace_id: str, filter: Filter = EVERYTHING) -> list[bytes]:
        """All events of one trace that match, oldest first."""
        spelt = normalise_trace_id(trace_id) or trace_id.strip()
        of_trace = Term(key="trace", values=(Text(spelt),))
        both = Filter(terms=(of_trace, *filter.terms))
        return self._safely(lambda: self._page(None, both, TRACE_EVENTS_MAX)).lines

    def stats(self, filter: Filter = EVERYTHING) -> Stats:
        """One row for each type of event, server and target, of the events that match."""
        return self._safely(lambda: self._stats(filter))

    def _safely(self, work: Callable[[], _T]) -> _T:
        return self._database.safely(work, self._catch_up)

    def _catch_up(self) -> None:
        for _ in self._intake.pieces():
            if self._database.closed:
                break

    def _page(self, before: Position | None, filter: Filter, limit: int) -> Page:
        selection = select(filter)
        found: list[tuple[Position, bytes]] = []
        older, complete = None, True
        with self._reader(selection.rest) as reader:
            finder = Finder(self._database, selection, before)
            for row in finder.newest_first(None if selection.rest.terms else limit):
                line = reader.read(row)
                if line is not None:
                    found.append((row.position, line))
                complete = not reader.exhausted
                if len(found) == limit or not complete:
                    older = row.position
                    break
        return Page(rows=found[::-1], older=older, complete=complete or len(found) == limit)

    def _stats(self, filter: Filter) -> Stats:
        selection = select(filter)
        tallies: dict[Group, Tally] = {}
        complete = True
        with self._reader(selection.rest) as reader:
            known = self._database.rows("SELECT number, about FROM sorts")
            sorts = {number: _sort(msgspec.json.decode(about)) for number, about in known}
            for row in Finder(self._database, selection).all():
                if selection.rest.terms and reader.read(row) is None:
                    complete = not reader.exhausted
                    if complete:
                        continue
                    break
                group, status = sorts[row.sort]
                tally = tallies.get(group) or tallies.setdefault(group, Tally())
                tally.counts[status] = tally.counts.get(status, 0) + 1
                if row.took is not None:
                    tally.took.append(row.took)
        return Stats(rows=in_order(tallies.items()), complete=complete)

    @contextmanager
    def _reader(self, rest: Filter) -> Iterator["_Reader"]:
        with (
            self._database.reading(),
            Lines(self._events_dir, self._intake.known()) as lines,
            closing(Search(self._state_dir, rest)) as search,
        ):
            yield _Reader(lines, search if rest.terms else None)


class _Reader:
    """Reads lines, and decides what only they can tell, until that becomes too much."""

    def __init__(self, lines: Lines, search: Search | None) -> None:
        self._lines = lines
        self._search = search

    def read(self, row: Row) -> bytes | None:
        """The line of a row; None if it is gone, or not wanted."""
        line = self._lines.read(row.place, row.length)
        if line is None or self._search is None or self._search.fits(line):
            return line
        return None

    @property
    def exhausted(self) -> bool:
        """Whether too much was read that nobody wanted."""
        search = self._search
        return search is not None and self._lines.bytes_read + search.bytes_read > SCANNED_BYTES_MAX


def _sort(event: dict[str, Any]) -> tuple[Group, str]:
    """What is counted together, and how it ended."""
    about = event["metadata"]
    texts = {name: text for name, text in about.items() if isinstance(text, str)}
    if event["event_type"] in NAMED_BY_METHOD:
        target = texts.get("method")
    else:
        target = texts.get("tool") or texts.get("prompt") or texts.get("uri")
    return (event["event_type"], texts.get("server"), target), event["status"]
