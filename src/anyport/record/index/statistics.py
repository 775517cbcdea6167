"""Statistics of events: counts by status, and durations."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

StatGroup: TypeAlias = tuple[str, str | None, str | None]
"""Event type, server, target."""

METHOD_EVENT_TYPES: Final = ("gateway.exchange", "gateway.frame")
"""Event types whose target is the method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """Statistics of one group of events."""

    event_type: str
    server: str | None
    target: str | None
    """The tool, prompt or resource URI; of other traffic, the method."""
    counts: dict[str, int]
    """By status. `pending` counts beginnings: compare it with the final ones."""
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    rows: list[Stat]
    complete: bool
    """Whether all events that match were counted."""


class StatCounter:
    """Counts one group."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.durations_ms = array("d")

    def to_stat(self, group: StatGroup) -> Stat:
        event_type, server, target = group
        ascending = sorted(self.durations_ms)
        return Stat(
            event_type=event_type,
            server=server,
            target=target,
            counts=self.counts,
            mean_ms=round(sum(ascending) / len(ascending), 3) if ascending else None,
            p50_ms=_percentile(ascending, 50),
            p95_ms=_percentile(ascending, 95),
        )


def sort_stats(counters: Iterable[tuple[StatGroup, StatCounter]]) -> list[Stat]:
    """Statistics ordered by type, server and target; empty ones first."""
    ordered = sorted(counters, key=lambda pair: tuple(name or "" for name in pair[0]))
    return [tally.to_stat(group) for group, tally in ordered]


def _percentile(ascending: Sequence[float], percent: int) -> float | None:
    """Percentile by nearest rank, which is a value that occurred."""
    if not ascending:
        return None
    return ascending[-(-len(ascending) * percent // 100) - 1]
