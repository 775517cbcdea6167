"""`anyport events`: what happened, from the journal."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, Self

from anyport.cli.copied import Source, journal
from anyport.cli.ending import GOOD, WrongUsage, say
from anyport.cli.follow import Tail
from anyport.cli.journal import (
    GIVEN_UP,
    TITLES,
    WHOLE,
    Event,
    cells,
    decode,
    open_index,
    term_of_trace,
    whole_trace_id,
)
from anyport.cli.options import Given
from anyport.cli.recorded import Asked
from anyport.cli.render import Columns, flush, out, table
from anyport.config.faults import suggestion
from anyport.record.event import ENDINGS, KINDS
from anyport.record.filter_tree import Filter, Moment, Term, Text
from anyport.record.searching import Search
from anyport.record.selecting import happenings
from anyport.record.since import parse_since
from anyport.record.text import escape_line

PREFIX: Final = "gateway."
TYPES: Final = tuple(kind.removeprefix(PREFIX) for kind in KINDS)
STATUSES: Final = ("pending", *sorted(ENDINGS))

TYPICAL: Final = (
    "07-28 12:00:00.250",
    max(TYPES, key=len),
    max(STATUSES, key=len),
    "a-server",
    "a-tool-of-a-server",
    "100.0 ms",
    "4bf92f35",
)
"""What a row of one who follows has room for: the rows that will come are not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events are asked for."""

    words: tuple[str, ...] = ()
    """A filter."""
    event_type: str | None = None
    status: str | None = None
    since: str | None = None
    trace: str | None = None
    server: str | None = None
    limit: int = 100

    @property
    def filter(self) -> Filter:
        """The same as one filter.

        Raises:
            WrongUsage: there is none of these words, or no time of the text.
        """
        options = {"type": self.event_type, "status": self.status, "server": self.server}
        terms = [
            Term(key=key, values=(Text(value),))
            for key, value in options.items()
            if value is not None
        ]
        if self.trace is not None:
            terms.append(term_of_trace(self.trace))
        return happenings(
            Filter(terms=(*Asked(self.words).filter.terms, *terms, *since_terms(self.since)))
        )

    def judged(self) -> Self:
        """The same with the type in full.

        Raises:
            WrongUsage: there is no such type or status.
        """
        status, kind = self.status, self.event_type
        if status is not None and status not in STATUSES:
            raise WrongUsage(f"there is no status '{status}': {suggestion(status, STATUSES)}")
        if kind is None:
            return self
        whole = kind if kind.startswith(PREFIX) else f"{PREFIX}{kind}"
        if whole not in KINDS:
            raise WrongUsage(f"there is no type '{kind}': {suggestion(kind, TYPES)}")
        return replace(self, event_type=whole)


def events(given: Given, wanted: Wanted, *, follow: bool) -> int:
    """Show the newest events that are wanted, and new ones as they come; the exit code."""
    filter = wanted.filter
    with journal(given, {"filter": str(filter)}, wanted.limit) as source:
        filter = source.to_sort_out(filter)
        # The end of the files is noted before they are read: nothing falls between the two.
        tail = Tail(source.state_dir)
        past: list[bytes] = []
        if not follow or (source.state_dir / "events").is_dir():
            past = _past(source.state_dir, wanted, filter)
        if follow:
            _follow(source, tail, filter, past, as_json=given.json)
    if not past:
        say("no event matches")
    _show(past, as_json=given.json)
    return GOOD


def _follow(
    source: Source, tail: Tail, filter: Filter, past: list[bytes], *, as_json: bool
) -> NoReturn:
    columns = Columns(TITLES, TYPICAL, *(cells(event) for event in _decoded(past)))
    if not as_json:
        out(columns.line(TITLES))
    _append(past, columns, as_json=as_json)
    known = set(past)
    while True:
        source.refresh()
        with closing(Search(source.state_dir, filter)) as search:
            lines = [line for line in tail.new_lines() if line not in known]
            fresh = [line for line in lines if decode(line) is not None and search.fits(line)]
        known = set()
        _append(fresh, columns, as_json=as_json)
        time.sleep(source.look_seconds)


def since_terms(text: str | None) -> tuple[Term, ...]:
    """What is not older than that.

    Raises:
        WrongUsage: the text is no time.
    """
    if text is None:
        return ()
    try:
        moment = Moment(round(parse_since(text, time.time()), 6))
    except ValueError as error:
        raise WrongUsage(f"--since: {error}") from None
    return (Term(key="since", values=(moment,)),)


def out_lines(lines: list[bytes]) -> None:
    """Events as the journal has them."""
    for line in lines:
        out(escape_line(line).decode())


def _past(state_dir: Path, wanted: Wanted, filter: Filter) -> list[bytes]:
    with open_index(state_dir) as index:
        if wanted.trace is not None:
            whole_trace_id(index, wanted.trace.strip())
        page = index.page(None, filter, wanted.limit)
    if not page.complete:
        say(GIVEN_UP)
    return page.lines


def _decoded(lines: list[bytes]) -> Iterator[Event]:
    return (event for line in lines if (event := decode(line)) is not None)


def _show(lines: list[bytes], *, as_json: bool) -> None:
    if as_json:
        out_lines(lines)
    elif lines:
        table(TITLES, [cells(event) for event in _decoded(lines)], whole=WHOLE)


def _append(lines: list[bytes], columns: Columns, *, as_json: bool) -> None:
    if as_json:
        out_lines(lines)
    else:
        for event in _decoded(lines):
            out(columns.line(cells(event)))
    flush()
