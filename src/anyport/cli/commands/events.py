"""`anyport events`: events from the journal."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, Self

from anyport.cli.connect.journal import (
    NO_WRAP,
    SEARCH_LIMITED,
    TITLES,
    JournalEvent,
    JournalSource,
    JournalTail,
    decode_event,
    event_cells,
    full_trace_id,
    open_index,
    open_journal,
    trace_term,
)
from anyport.cli.connect.traffic import FilterQuery
from anyport.cli.exit_codes import SUCCESS, WrongUsage, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.output import Columns, flush, out, out_raw, table
from anyport.config.faults import suggest
from anyport.record.event import EVENT_DESCRIPTIONS, FINAL_STATUSES
from anyport.record.filter.ast import Filter, FilterTerm, Moment, Text
from anyport.record.filter.since import parse_since
from anyport.record.index.query import without_traffic
from anyport.record.journal.reader import TextSearch

PREFIX: Final = "gateway."
TYPES: Final = tuple(kind.removeprefix(PREFIX) for kind in EVENT_DESCRIPTIONS)
STATUSES: Final = ("pending", *sorted(FINAL_STATUSES))

SAMPLE_ROW: Final = (
    "07-28 12:00:00.250",
    max(TYPES, key=len),
    max(STATUSES, key=len),
    "a-server",
    "a-tool-of-a-server",
    "100.0 ms",
    "4bf92f35",
)
"""Sets the column widths of `--follow`, since later rows are not known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """The events to show: a filter, and options that are terms of it."""

    words: tuple[str, ...] = ()
    event_type: str | None = None
    status: str | None = None
    since: str | None = None
    trace: str | None = None
    server: str | None = None
    limit: int = 100

    @property
    def filter(self) -> Filter:
        """Filter and options as one filter.

        Raises:
            WrongUsage: the filter or `--since` is not valid.
        """
        options = {"type": self.event_type, "status": self.status, "server": self.server}
        terms = [
            FilterTerm(key=key, values=(Text(value),))
            for key, value in options.items()
            if value is not None
        ]
        if self.trace is not None:
            terms.append(trace_term(self.trace))
        return without_traffic(
            Filter(terms=(*FilterQuery(self.words).filter.terms, *terms, *since_terms(self.since)))
        )

    def validated(self) -> Self:
        """Check the options, and complete the event type.

        Raises:
            WrongUsage: there is no such type or status.
        """
        status, kind = self.status, self.event_type
        if status is not None and status not in STATUSES:
            raise WrongUsage(f"there is no status '{status}': {suggest(status, STATUSES)}")
        if kind is None:
            return self
        event_type = kind if kind.startswith(PREFIX) else f"{PREFIX}{kind}"
        if event_type not in EVENT_DESCRIPTIONS:
            raise WrongUsage(f"there is no event type '{kind}': {suggest(kind, TYPES)}")
        return replace(self, event_type=event_type)


def events(options: SharedOptions, query: EventQuery, *, follow: bool) -> int:
    """Print the newest events that match, then new ones with `--follow`; the exit code."""
    filter = query.filter
    with open_journal(options, {"filter": str(filter)}, query.limit) as source:
        filter = source.remaining_filter(filter)
        # The tail begins before the index is read, so that no event falls between the two.
        tail = JournalTail(source.state_dir)
        recent: list[bytes] = []
        if not follow or (source.state_dir / "events").is_dir():
            recent = _recent_lines(source.state_dir, query, filter)
        if follow:
            _follow(source, tail, filter, recent, as_json=options.json)
    if not recent:
        notify_user("no event matches")
    _show(recent, as_json=options.json)
    return SUCCESS


def _follow(
    source: JournalSource, tail: JournalTail, filter: Filter, recent: list[bytes], *, as_json: bool
) -> NoReturn:
    columns = Columns(TITLES, SAMPLE_ROW, *(event_cells(event) for event in _decode_all(recent)))
    if not as_json:
        out(columns.line(TITLES))
    _append(recent, columns, as_json=as_json)
    already_shown = set(recent)
    while True:
        source.refresh()
        with closing(TextSearch(source.state_dir, filter)) as search:
            lines = [line for line in tail.new_lines() if line not in already_shown]
            fresh = [
                line for line in lines if decode_event(line) is not None and search.matches(line)
            ]
        already_shown = set()
        _append(fresh, columns, as_json=as_json)
        time.sleep(source.poll_seconds)


def since_terms(text: str | None) -> tuple[FilterTerm, ...]:
    """The term of `--since`.

    Raises:
        WrongUsage: the text is not a time.
    """
    if text is None:
        return ()
    try:
        moment = Moment(round(parse_since(text, time.time()), 6))
    except ValueError as error:
        raise WrongUsage(f"--since: {error}") from None
    return (FilterTerm(key="since", values=(moment,)),)


def out_lines(lines: list[bytes]) -> None:
    """Print events as the journal has them."""
    for line in lines:
        out_raw(line)


def _recent_lines(state_dir: Path, query: EventQuery, filter: Filter) -> list[bytes]:
    with open_index(state_dir) as index:
        if query.trace is not None:
            full_trace_id(index, query.trace.strip())
        page = index.page(None, filter, query.limit)
    if not page.complete:
        notify_user(SEARCH_LIMITED)
    return page.lines


def _decode_all(lines: list[bytes]) -> Iterator[JournalEvent]:
    return (event for line in lines if (event := decode_event(line)) is not None)


def _show(lines: list[bytes], *, as_json: bool) -> None:
    if as_json:
        out_lines(lines)
    elif lines:
        table(TITLES, [event_cells(event) for event in _decode_all(lines)], no_wrap=NO_WRAP)


def _append(lines: list[bytes], columns: Columns, *, as_json: bool) -> None:
    if as_json:
        out_lines(lines)
    else:
        for event in _decode_all(lines):
            out(columns.line(event_cells(event)))
    flush()
