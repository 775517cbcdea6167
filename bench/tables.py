"""Figures to tables of Markdown, readable as plain text too."""

from collections.abc import Sequence
from statistics import median

from bench.comparisons import Comparison
from bench.footprint import Footprint
from bench.measure import Measured, Outcome


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, all others to the right, all cells of a column equally wide."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        [head[0].ljust(widths[0]), *map(str.rjust, head[1:], widths[1:])],
        ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])],
        *([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows),
    ]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def ratio(measured: Measured, base: Measured | None, by: str = "cpu") -> float | None:
    """How many times the base's CPU, or throughput, a target has: the median of the rounds.

    Within a round the two were measured within seconds, so that both had the same neighbours.
    """
    found = ratios(measured, base, by)
    return median(found) if found else None


def ratios(measured: Measured, base: Measured | None, by: str = "cpu") -> list[float]:
    """The ratio of each round."""
    field = "cpu_us" if by == "cpu" else "rps"
    pairs = zip(measured.samples, base.samples, strict=True) if base else ()
    return [getattr(one, field) / below for one, other in pairs if (below := getattr(other, field))]


def calls_table(comparison: Comparison, outcome: Outcome) -> str:
    base = next((row.base for row in comparison.rows if row.base), "").partition(",")[0]
    rivals = any(row.rival for row in comparison.rows)
    relation = f"{'throughput' if comparison.by == 'rps' else 'CPU'}, x {base}"
    head = ["target", "conn.", "CPU µs", relation, "rounds"]
    head += ["x Anyport"] if rivals else []
    head += ["calls/s", "p50 ms", "p99 ms", "share", "MB", "errors"]
    rows = []
    for measured in outcome.measured:
        under = outcome.find(measured.base, measured.connections)
        figures = measured.figures
        rounds = ratios(measured, under, comparison.by)
        row = [
            measured.row,
            str(measured.connections),
            cpu(measured),
            _times(ratio(measured, under, comparison.by)),
            f"{_times(min(rounds))}-{_times(max(rounds))}" if rounds else "",
        ]
        if rivals:
            against = outcome.find(measured.rival, measured.connections)
            row.append(_times(ratio(measured, against)))
        row += [
            f"{figures.rps:,.0f}",
            f"{figures.p50_ms:.2f}",
            f"{figures.p99_ms:.2f}",
            f"{figures.share:.2f}",
            f"{measured.rss_mb:.0f}",
            str(figures.errors),
        ]
        rows.append(row)
    return table(head, rows)


def starts_table(footprint: Footprint) -> str:
    head = ["target", "CPU s", "with children", "seconds", "MB"]
    rows = [
        [
            start.name,
            f"{start.cpu_seconds:.2f}",
            f"{start.tree_cpu_seconds:.2f}",
            f"{start.wall_seconds:.2f}",
            f"{start.rss_mb:.1f}",
        ]
        for start in footprint.starts
    ]
    return table(head, rows)


def idle_table(footprint: Footprint) -> str:
    head = ["idle streams", "opened", "still open", "kB each", "µs CPU to open", "ms CPU in 3 s"]
    rows = [
        [
            idle.name + (f" (then: {idle.refusal})" if idle.refusal else ""),
            f"{idle.opened:,}",
            f"{idle.alive:,}",
            f"{idle.kilobytes_each:.2f}",
            f"{idle.open_cpu_us:.0f}",
            f"{idle.idle_cpu_ms:.0f}",
        ]
        for idle in footprint.idle
    ]
    return table(head, rows)


def cpu(measured: Measured) -> str:
    whole = measured.figures.cpu_us
    text = f"{whole:,.0f}" if whole >= 1000 else f"{whole:.1f}"
    return f"{text} (own {measured.figures.own_cpu_us:,.1f})" if measured.children else text


def _times(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 20 else f"{value:.2f}"
