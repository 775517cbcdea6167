"""`anyport stats`: how often each tool was called, how that ended, and how long it took."""

from dataclasses import asdict
from typing import Final

from anyport.cli.copied import COPIED_EVENTS_MAX, journal
from anyport.cli.ending import GOOD, say
from anyport.cli.events import since_terms
from anyport.cli.journal import GIVEN_UP, open_index
from anyport.cli.options import Given
from anyport.cli.recorded import Asked
from anyport.cli.render import milliseconds, out_json, table
from anyport.cli.tools import GATEWAY_ITSELF
from anyport.record.counting import Stat
from anyport.record.event import ENDINGS, KINDS
from anyport.record.filter_tree import Filter, Term, Text

TITLES: Final = (
    "SERVER", "KIND", "SUBJECT", "CALLS", "FAILED", "CANCELLED", "MEAN", "P50", "P95",
)  # fmt: skip
NUMBERS: Final = TITLES[3:]
FAILURES: Final = ("failure", "timeout")
_CALLS: Final = Term(
    key="type", values=tuple(Text(kind) for kind, about in KINDS.items() if about.paired)
)
"""Only what begins and ends has a duration worth counting."""


def stats(given: Given, words: tuple[str, ...], *, since: str | None, server: str | None) -> int:
    """Show the statistics; the exit code."""
    terms = [*Asked(words).filter.terms, *since_terms(since)]
    if server is not None:
        terms.append(Term(key="server", values=(Text(server),)))
    if not any(term.key == "type" and not term.negated for term in terms):
        terms.append(_CALLS)
    filter = Filter(terms=tuple(terms))
    question = {"filter": str(filter)}
    with journal(given, question) as source, open_index(source.state_dir) as index:
        counted = index.stats(source.to_sort_out(filter))
    if not source.complete:
        say(f"only the newest {COPIED_EVENTS_MAX} events are counted; narrow it with --since")
    if not counted.complete:
        say(GIVEN_UP)
    found = counted.rows
    if given.json:
        out_json([asdict(stat) for stat in found])
        return GOOD
    found.sort(key=lambda stat: (stat.server or "", stat.event_type, -_count(stat, ENDINGS)))
    table(TITLES, [_row(stat) for stat in found], whole=NUMBERS)
    return GOOD


def _row(stat: Stat) -> tuple[str, ...]:
    return (
        stat.server or GATEWAY_ITSELF,
        stat.event_type.removeprefix("gateway."),
        stat.target or "",
        str(_count(stat, ENDINGS)),
        str(_count(stat, FAILURES)),
        str(_count(stat, ("cancelled",))),
        milliseconds(stat.mean_ms),
        milliseconds(stat.p50_ms),
        milliseconds(stat.p95_ms),
    )


def _count(stat: Stat, statuses: tuple[str, ...] | frozenset[str]) -> int:
    return sum(stat.counts.get(status, 0) for status in statuses)
