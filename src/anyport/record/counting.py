"""Statistics of events: how often something happened, how it ended, how long it took."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Group: TypeAlias = tuple[str, str | None, str | None]
"""Type of event, server, target."""

NAMED_BY_METHOD: Final = ("gateway.exchange", "gateway.frame")
"""Types of events that are about a method, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """How often something happened, how it ended, and how long it took."""

    event_type: str
    server: str | None
    target: str | None
    """The tool, the prompt, or the address of the resource; of other traffic, its method."""
    counts: dict[str, int]
    """By status. What is `pending` here has begun; compare it with the endings."""
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The statistics that were asked for."""

    rows: list[Stat]
    complete: bool
    """Whether all events that match were counted."""


class Tally:
    """Counts one group."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.took = array("d")

    def stat(self, group: Group) -> Stat:
        """What was counted."""
        event_type, server, target = group
        ascending = sorted(self.took)
        return Stat(
            event_type=event_type,
            server=server,
            target=target,
            counts=self.counts,
            mean_ms=round(sum(ascending) / len(ascending), 3) if ascending else None,
            p50_ms=_percentile(ascending, 50),
            p95_ms=_percentile(ascending, 95),
        )


def in_order(tallies: Iterable[tuple[Group, Tally]]) -> list[Stat]:
    """Statistics by type, server and target; what has none of these first."""
    ordered = sorted(tallies, key=lambda pair: tuple(name or "" for name in pair[0]))
    return [tally.stat(group) for group, tally in ordered]


def _percentile(ascending: Sequence[float], percent: int) -> float | None:
    """The nearest rank: a value that did occur."""
    if not ascending:
        return None
    return ascending[-(-len(ascending) * percent // 100) - 1]
