"""`anyport stats`: how often each tool was called, how that ended, and how long it took."""

from dataclasses import asdict
from typing import Final

from anyport.cli.copied import COPIED_EVENTS_MAX, journal
from anyport.cli.ending import GOOD, say
from anyport.cli.events import read_since
from anyport.cli.journal import open_index
from anyport.cli.options import Given
from anyport.cli.render import milliseconds, out_json, table
from anyport.cli.tools import GATEWAY_ITSELF
from anyport.record.event import ENDINGS, KINDS
from anyport.record.index import Stat

TITLES: Final = (
    "SERVER", "KIND", "SUBJECT", "CALLS", "FAILED", "CANCELLED", "MEAN", "P50", "P95",
)  # fmt: skip
NUMBERS: Final = TITLES[3:]
FAILURES: Final = ("failure", "timeout")


def stats(given: Given, *, since: str | None, server: str | None) -> int:
    """Show the statistics; the exit code."""
    earliest = read_since(since)
    with journal(given, {"since": since}) as source, open_index(source.state_dir) as index:
        found = [stat for stat in index.stats(earliest) if _is_wanted(stat, server)]
    if not source.complete:
        say(f"only the newest {COPIED_EVENTS_MAX} events are counted; narrow it with --since")
    if given.json:
        out_json([asdict(stat) for stat in found])
        return GOOD
    found.sort(key=lambda stat: (stat.server or "", stat.event_type, -_count(stat, ENDINGS)))
    table(TITLES, [_row(stat) for stat in found], whole=NUMBERS)
    return GOOD


def _is_wanted(stat: Stat, server: str | None) -> bool:
    """Only what begins and ends has a duration worth counting."""
    calls = {kind for kind, about in KINDS.items() if about.paired}
    return stat.event_type in calls and (server is None or stat.server == server)


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
