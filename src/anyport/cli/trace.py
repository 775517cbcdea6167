"""`anyport trace`: everything that belongs to one trace, from its beginning."""

from datetime import datetime
from typing import Final

from anyport.cli.copied import journal
from anyport.cli.ending import GOOD, CommandFailed
from anyport.cli.events import out_lines
from anyport.cli.journal import Event, decode, open_index, term_of_trace, whole_trace_id
from anyport.cli.options import Given
from anyport.cli.recorded import Asked
from anyport.cli.render import milliseconds, out, table
from anyport.record.filter_tree import Filter
from anyport.record.text import printable

TITLES: Final = ("AT", "TYPE", "STATUS", "SERVER", "SUBJECT", "TOOK", "MESSAGE")
WHOLE: Final = ("AT", "STATUS", "TOOK")


def trace(given: Given, trace_id: str, words: tuple[str, ...]) -> int:
    """Show the timeline of a trace, or what of it matches a filter; the exit code."""
    filter = Asked(words).filter
    question = Filter(terms=(term_of_trace(trace_id), *filter.terms))
    with (
        journal(given, {"filter": str(question)}) as source,
        open_index(source.state_dir) as index,
    ):
        whole = whole_trace_id(index, trace_id.strip())
        lines = index.trace(whole, source.to_sort_out(filter))
    if not lines:
        raise CommandFailed(f"there is no event of the trace {trace_id}")
    if given.json:
        out_lines(lines)
        return GOOD
    story = [event for line in lines if (event := decode(line)) is not None]
    # What is noted when it ends began before that.
    begin = min(event.began for event in story)
    out(printable(f"trace {story[0].trace_id}, {begin.astimezone():%Y-%m-%d %H:%M:%S %Z}"))
    table(TITLES, [_row(event, begin) for event in story], whole=WHOLE)
    count = "1 event" if len(story) == 1 else f"{len(story)} events"
    out(f"{count} in {milliseconds(_offset_ms(story[-1], begin))}")
    return GOOD


def _row(event: Event, begin: datetime) -> tuple[str, ...]:
    return (
        f"+{milliseconds(_offset_ms(event, begin))}",
        event.event_type.removeprefix("gateway."),
        event.status,
        event.server,
        event.subject,
        milliseconds(event.duration_ms),
        event.message,
    )


def _offset_ms(event: Event, begin: datetime) -> float:
    return (event.moment - begin).total_seconds() * 1000
