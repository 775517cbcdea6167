"""`anyport events`: what happened, from the journal."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, Self

from anyport.cli.copied import COPIED_EVENTS_MAX, Source, journal
from anyport.cli.ending import GOOD, WrongUsage, say
from anyport.cli.follow import Tail
from anyport.cli.journal import (
    TITLES,
    WHOLE,
    Event,
    cells,
    decode,
    open_index,
    same_trace,
    whole_trace_id,
)
from anyport.cli.options import Given
from anyport.cli.render import Columns, flush, out, table
from anyport.config.faults import suggestion
from anyport.record.event import ENDINGS, KINDS
from anyport.record.since import parse_since
from anyport.record.text import escape_line
from anyport.record.trace import normalise_trace_id

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

    event_type: str | None = None
    status: str | None = None
    since: str | None = None
    trace: str | None = None
    server: str | None = None
    limit: int = 100

    @property
    def question(self) -> dict[str, str | None]:
        """What of it a gateway elsewhere can be asked; the rest is sorted out here."""
        return {
            "event_type": self.event_type,
            "status": self.status,
            "since": self.since,
            "trace_id": None if self.trace is None else normalise_trace_id(self.trace),
        }

    @property
    def is_answered_elsewhere(self) -> bool:
        """Whether that leaves nothing to be sorted out."""
        return self.server is None and (self.trace is None) == (self.question["trace_id"] is None)

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

    def includes(self, event: Event) -> bool:
        """Whether an event that has just happened is one of them."""
        return (
            (self.event_type is None or event.event_type == self.event_type)
            and (self.status is None or event.status == self.status)
            and (self.server is None or event.server == self.server)
            and (self.trace is None or same_trace(event, self.trace))
        )


def events(given: Given, wanted: Wanted, *, follow: bool) -> int:
    """Show the newest events that are wanted, and new ones as they come; the exit code."""
    since = read_since(wanted.since)
    enough = wanted.limit if wanted.is_answered_elsewhere else COPIED_EVENTS_MAX
    with journal(given, wanted.question, enough) as source:
        # The end of the files is noted before they are read: nothing falls between the two.
        tail = Tail(source.state_dir)
        past: list[bytes] = []
        if not follow or (source.state_dir / "events").is_dir():
            past = _past(source.state_dir, wanted, since)
        if follow:
            _follow(source, tail, wanted, past, as_json=given.json)
    if not past:
        say("no event matches")
    _show(past, as_json=given.json)
    return GOOD


def _follow(
    source: Source, tail: Tail, wanted: Wanted, past: list[bytes], *, as_json: bool
) -> NoReturn:
    columns = Columns(TITLES, TYPICAL, *(cells(event) for event in _decoded(past)))
    if not as_json:
        out(columns.line(TITLES))
    _append(past, columns, as_json=as_json)
    known = set(past)
    while True:
        source.refresh()
        fresh = [line for line in _fresh(tail, wanted) if line not in known]
        known = set()
        _append(fresh, columns, as_json=as_json)
        time.sleep(source.look_seconds)


def read_since(text: str | None) -> float | None:
    """The moment from which on events are wanted.

    Raises:
        WrongUsage: the text is no time.
    """
    try:
        return None if text is None else parse_since(text, time.time())
    except ValueError as error:
        raise WrongUsage(f"--since: {error}") from None


def out_lines(lines: list[bytes]) -> None:
    """Events as the journal has them."""
    for line in lines:
        out(escape_line(line).decode())


def _past(state_dir: Path, wanted: Wanted, since: float | None) -> list[bytes]:
    with open_index(state_dir) as index:
        return index.query(
            trace_id=None if wanted.trace is None else whole_trace_id(index, wanted.trace.strip()),
            event_type=wanted.event_type,
            status=wanted.status,
            server=wanted.server,
            since=since,
            limit=wanted.limit,
        )


def _fresh(tail: Tail, wanted: Wanted) -> Iterator[bytes]:
    for line in tail.new_lines():
        event = decode(line)
        if event is not None and wanted.includes(event):
            yield line


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
