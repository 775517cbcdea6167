"""What Anyport holds itself to, and how far it is from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bench.footprint import Footprint
from bench.measure import Outcome
from bench.tables import ratio, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    outcomes: tuple[Outcome, ...]
    footprint: Footprint | None

    def outcome(self, name: str) -> Outcome | None:
        return next((found for found in self.outcomes if found.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    what: str
    bound: Literal["at most", "at least"]
    limit: float
    unit: str
    value: Callable[[Results], float | None]
    """None where it was not measured."""

    def reached(self, value: float) -> bool:
        return value <= self.limit if self.bound == "at most" else value >= self.limit


def times(
    comparison: str, row: str, *, base: str | None = None, by: str = "cpu", connections: int = 64
) -> Callable[[Results], float | None]:
    """The ratio of a row to its base, or to another row."""

    def value(results: Results) -> float | None:
        outcome = results.outcome(comparison)
        measured = outcome.find(row, connections) if outcome else None
        if outcome is None or measured is None:
            return None
        return ratio(measured, outcome.find(base or measured.base, connections), by)

    return value


def cpu_ms(comparison: str, row: str) -> Callable[[Results], float | None]:
    def value(results: Results) -> float | None:
        outcome = results.outcome(comparison)
        measured = outcome.find(row, 64) if outcome else None
        return measured.figures.cpu_us / 1000 if measured else None

    return value


def started(name: str, field: str) -> Callable[[Results], float | None]:
    def value(results: Results) -> float | None:
        for start in results.footprint.starts if results.footprint else ():
            if start.name == name:
                found: float = getattr(start, field)
                return found
        return None

    return value


def idle(name: str) -> Callable[[Results], float | None]:
    def value(results: Results) -> float | None:
        for streams in results.footprint.idle if results.footprint else ():
            if streams.name == name and streams.refusal is None:
                return streams.kilobytes_each
        return None

    return value


def _both(
    what: str, limit: float, comparison: str, row: str, *, by: str = "cpu", connections: int = 64
) -> tuple[Goal, ...]:
    """The same goal for clients of both eras."""
    return tuple(
        Goal(
            what=f"{what}, {era}",
            bound="at most" if by == "cpu" else "at least",
            limit=limit,
            unit="x nginx" if by == "cpu" else "x direct",
            value=times(comparison, f"{row}, {era}", by=by, connections=connections),
        )
        for era in ("legacy", "modern")
    )


def _peer(what: str, limit: float, row: str, base: str) -> Goal:
    return Goal(
        what=what,
        bound="at least",
        limit=limit,
        unit="x Anyport",
        value=times("peers", row, base=base),
    )


def _most(what: str, limit: float, unit: str, value: Callable[[Results], float | None]) -> Goal:
    return Goal(what=what, bound="at most", limit=limit, unit=unit, value=value)


REAL: Final = "throughput through a real SDK server"
LISTED: Final = "Anyport, 20 servers, 1,000 tools"

GOALS: Final = (
    *_both("CPU of a call, HTTP server", 1.6, "call", "Anyport"),
    *_both("CPU of a call, stdio server", 1.0, "stdio", "Anyport, stdio"),
    *_both("CPU of a call, 100 kB", 1.0, "big", "Anyport"),
    *_both("CPU of a call, ten events", 1.7, "sse", "Anyport"),
    *(
        _most(
            f"CPU of a call, {era} to {other}, {server} server",
            2.0,
            "x nginx",
            times("bridge", f"Anyport, {era}, {other} {server} server"),
        )
        for era, other in (("modern", "legacy"), ("legacy", "modern"))
        for server in ("HTTP", "stdio")
    ),
    *(
        _most(
            f"CPU of a call, capture {level}, {server} server, {era}",
            most,
            "x off",
            times("capture", f"{level}, {server} server, {era}"),
        )
        for level, most in (("shape", 1.1), ("full", 1.4))
        for server in ("HTTP", "stdio")
        for era in ("legacy", "modern")
    ),
    _peer("CPU of mcp-proxy, stdio server", 25, "mcp-proxy, stdio", "Anyport, stdio"),
    _peer("CPU of FastMCP, shared session", 50, "FastMCP, shared session", "Anyport"),
    *_both(f"{REAL}, 16 connections", 0.95, "real", "Anyport", by="rps", connections=16),
    *_both(f"{REAL}, 64 connections", 0.95, "real", "Anyport", by="rps"),
    _most("CPU of a list of 1,000 tools, legacy", 1, "ms", cpu_ms("list", "Anyport, legacy")),
    _most("CPU of a list of 1,000 tools, modern", 1, "ms", cpu_ms("list", "Anyport, modern")),
    _most("CPU of a call among 200 servers", 1.05, "x 1 server", times("many", "200 servers")),
    _most("memory, 1 server", 45, "MB", started("Anyport, 1 server", "rss_mb")),
    _most("memory, 1,000 tools", 50, "MB", started(LISTED, "rss_mb")),
    _most("memory of an idle stream, legacy", 4, "kB", idle("all of one session")),
    _most("memory of an idle stream and its session", 4, "kB", idle("one session each")),
    _most("memory of an idle stream, modern", 4, "kB", idle("modern listen")),
    _most("CPU to the first full list", 0.3, "s", started("Anyport, 1 server", "cpu_seconds")),
)


def missed(results: Results, goals: Sequence[Goal] = GOALS) -> list[Goal]:
    """The goals that were measured and not reached."""
    values = ((goal, goal.value(results)) for goal in goals)
    return [goal for goal, value in values if value is not None and not goal.reached(value)]


def goals_table(results: Results, goals: Sequence[Goal] = GOALS) -> str:
    """The goals that were measured."""
    rows = [
        [
            goal.what,
            f"{goal.bound} {goal.limit:g} {goal.unit}",
            f"{value:.0f}" if value >= 20 else f"{value:.2f}",
            "yes" if goal.reached(value) else "no",
        ]
        for goal in goals
        if (value := goal.value(results)) is not None
    ]
    return table(["what", "goal", "measured", "reached"], rows)
