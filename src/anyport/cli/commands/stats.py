"""`anyport stats`: call counts, failures and latencies of each tool."""

from dataclasses import asdict
from typing import Final

from anyport.cli.commands.events import since_terms
from anyport.cli.commands.tools import GATEWAY_ITSELF
from anyport.cli.connect.journal import COPIED_EVENTS_MAX, SEARCH_LIMITED, open_index, open_journal
from anyport.cli.connect.traffic import FilterQuery
from anyport.cli.exit_codes import SUCCESS, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.output import format_ms, out_json, table
from anyport.record.event import EVENT_DESCRIPTIONS, FINAL_STATUSES
from anyport.record.filter.ast import Filter, FilterTerm, Text
from anyport.record.index.statistics import Stat

TITLES: Final = (
    "SERVER", "KIND", "SUBJECT", "CALLS", "FAILED", "CANCELLED", "MEAN", "P50", "P95",
)  # fmt: skip
NUMBERS: Final = TITLES[3:]
FAILURES: Final = ("failure", "timeout")
_PAIRED_TYPES: Final = FilterTerm(
    key="type",
    values=tuple(Text(kind) for kind, about in EVENT_DESCRIPTIONS.items() if about.paired),
)
"""Events with a beginning and an end, which have a duration."""


def stats(
    options: SharedOptions, words: tuple[str, ...], *, since: str | None, server: str | None
) -> int:
    """Print the statistics; the exit code."""
    terms = [*FilterQuery(words).filter.terms, *since_terms(since)]
    if server is not None:
        terms.append(FilterTerm(key="server", values=(Text(server),)))
    if not any(term.key == "type" and not term.negated for term in terms):
        terms.append(_PAIRED_TYPES)
    filter = Filter(terms=tuple(terms))
    query = {"filter": str(filter)}
    with open_journal(options, query) as source, open_index(source.state_dir) as index:
        statistics = index.stats(source.remaining_filter(filter))
    if not source.complete:
        notify_user(
            f"only the newest {COPIED_EVENTS_MAX} events are counted; narrow the query with --since"
        )
    if not statistics.complete:
        notify_user(SEARCH_LIMITED)
    rows = statistics.rows
    if options.json:
        out_json([asdict(stat) for stat in rows])
        return SUCCESS
    rows.sort(key=lambda stat: (stat.server or "", stat.event_type, -_count(stat, FINAL_STATUSES)))
    table(TITLES, [_row(stat) for stat in rows], no_wrap=NUMBERS)
    return SUCCESS


def _row(stat: Stat) -> tuple[str, ...]:
    return (
        stat.server or GATEWAY_ITSELF,
        stat.event_type.removeprefix("gateway."),
        stat.target or "",
        str(_count(stat, FINAL_STATUSES)),
        str(_count(stat, FAILURES)),
        str(_count(stat, ("cancelled",))),
        format_ms(stat.mean_ms),
        format_ms(stat.p50_ms),
        format_ms(stat.p95_ms),
    )


def _count(stat: Stat, statuses: tuple[str, ...] | frozenset[str]) -> int:
    return sum(stat.counts.get(status, 0) for status in statuses)
