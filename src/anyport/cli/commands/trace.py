"""`anyport trace`: the events of one trace."""

from datetime import datetime
from typing import Final

from anyport.cli.commands.events import out_lines
from anyport.cli.connect.journal import (
    JournalEvent,
    decode_event,
    full_trace_id,
    open_index,
    open_journal,
    trace_term,
)
from anyport.cli.connect.traffic import FilterQuery
from anyport.cli.exit_codes import SUCCESS, CommandFailed
from anyport.cli.options import SharedOptions
from anyport.cli.output import format_ms, out, table
from anyport.record.filter.ast import Filter
from anyport.record.redact.escape import make_printable

TITLES: Final = ("AT", "TYPE", "STATUS", "SERVER", "SUBJECT", "TOOK", "MESSAGE")
NO_WRAP: Final = ("AT", "STATUS", "TOOK")


def trace(options: SharedOptions, trace_id: str, words: tuple[str, ...]) -> int:
    """Print the timeline of a trace, or its events that match a filter; the exit code."""
    filter = FilterQuery(words).filter
    combined = Filter(terms=(trace_term(trace_id), *filter.terms))
    with (
        open_journal(options, {"filter": str(combined)}) as source,
        open_index(source.state_dir) as index,
    ):
        full_id = full_trace_id(index, trace_id.strip())
        lines = index.trace(full_id, source.remaining_filter(filter))
    if not lines:
        raise CommandFailed(f"no event has the trace id {trace_id}")
    if options.json:
        out_lines(lines)
        return SUCCESS
    trace_events = [event for line in lines if (event := decode_event(line)) is not None]
    # Events are written when a call ends.
    began_at = min(event.began_at for event in trace_events)
    out(
        make_printable(
            f"trace {trace_events[0].trace_id}, {began_at.astimezone():%Y-%m-%d %H:%M:%S %Z}"
        )
    )
    table(TITLES, [_row(event, began_at) for event in trace_events], no_wrap=NO_WRAP)
    count = "1 event" if len(trace_events) == 1 else f"{len(trace_events)} events"
    out(f"{count} in {format_ms(_offset_ms(trace_events[-1], began_at))}")
    return SUCCESS


def _row(event: JournalEvent, began_at: datetime) -> tuple[str, ...]:
    return (
        f"+{format_ms(_offset_ms(event, began_at))}",
        event.event_type.removeprefix("gateway."),
        event.status,
        event.server,
        event.subject,
        format_ms(event.duration_ms),
        event.message,
    )


def _offset_ms(event: JournalEvent, began_at: datetime) -> float:
    return (event.ended_at - began_at).total_seconds() * 1000
