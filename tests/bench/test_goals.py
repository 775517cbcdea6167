"""The tables of the rig fit together, and its verdicts are right."""

import msgspec
import pytest

from bench.comparisons import COMPARISONS, Comparison
from bench.footprint import OPENERS, STARTED, Footprint, Idle, Start
from bench.goals import GOALS, Goal, Results, goals_table, missed
from bench.load import Sample
from bench.measure import Effort, Measured, Outcome
from bench.report import Circumstances, answer, faults, page
from bench.run import Kept
from bench.tables import ratio, table


def sample(cpu_us: float, *, errors: int = 0) -> Sample:
    return Sample(
        requests=100, rps=1e6 / cpu_us, p50_ms=1, p99_ms=2, errors=errors, bytes_each=3,
        cpu_us=cpu_us, own_cpu_us=cpu_us, share=1,
    )  # fmt: skip


def measured(row: str, cpus: list[float], *, base: str | None = None, errors: int = 0) -> Measured:
    samples = tuple(sample(cpu, errors=errors) for cpu in cpus)
    return Measured(
        row=row, connections=64, base=base, rival=None, children=False, samples=samples,
        figures=samples[0], rss_mb=1,
    )  # fmt: skip


def everything() -> Results:
    """A run in which every target and every start was the same."""
    outcomes = [
        Outcome(
            name=comparison.name,
            measured=tuple(
                Measured(
                    row=row.name, connections=connections, base=row.base, rival=row.rival,
                    children=row.children, samples=(sample(10),), figures=sample(10), rss_mb=1,
                )
                for connections in comparison.connections
                for row in comparison.rows
            ),
            faults=(),
        )
        for comparison in COMPARISONS
    ]  # fmt: skip
    starts = tuple(
        Start(name=name, cpu_seconds=1, tree_cpu_seconds=1, wall_seconds=1, rss_mb=1)
        for name, *_ in STARTED
    )
    idle = tuple(
        Idle(
            name=name, opened=1, alive=1, kilobytes_each=1, open_cpu_us=1, idle_cpu_ms=1,
            refusal=None,
        )
        for name in OPENERS
    )  # fmt: skip
    footprint = Footprint(starts=starts, idle=idle, faults=())
    return Results(outcomes=tuple(outcomes), footprint=footprint)


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda comparison: comparison.name)
def test_rows_are_compared_with_rows_that_are_there(comparison: Comparison) -> None:
    names = [row.name for row in comparison.rows]
    assert len(set(names)) == len(names)
    for row in comparison.rows:
        assert {row.base, row.rival} - {None} <= set(names) - {row.name}


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.what)
def test_a_full_run_measures_every_goal(goal: Goal) -> None:
    assert goal.value(everything()) is not None


def test_a_ratio_is_that_of_the_rounds() -> None:
    slow_then_fast = measured("base", [20, 10, 10])

    assert ratio(measured("target", [40, 20, 15]), slow_then_fast) == 2
    assert ratio(measured("target", [40]), None) is None


@pytest.mark.parametrize(
    ("bound", "value", "verdict"),
    [("at most", 1.6, "yes"), ("at most", 1.7, "no"), ("at least", 1.5, "no")],
)
def test_a_goal_is_reached_or_not(bound: str, value: float, verdict: str) -> None:
    goal = Goal(
        what="speed",
        bound="at most" if bound == "at most" else "at least",
        limit=1.6,
        unit="x",
        value=lambda results: value,
    )
    text = goals_table(Results(outcomes=(), footprint=None), [goal])

    assert text.splitlines()[2].split("|")[4].strip() == verdict


def test_what_was_not_measured_is_not_judged() -> None:
    assert len(goals_table(Results(outcomes=(), footprint=None)).splitlines()) == 2


def test_a_run_with_errors_says_so() -> None:
    broken = Outcome(name="call", measured=(measured("nginx", [1], errors=3),), faults=("x: gone",))

    found = faults(Results(outcomes=(broken,), footprint=None))

    assert found == ["call: x: gone", "call: nginx, 64 connections: 3 errors in 100 requests"]


def circumstances() -> Circumstances:
    return Circumstances(
        date="2026-01-01", minutes=15, machine={"memory": "1 GiB", "load before": "2.1"},
        versions={"nginx": "1"}, effort=Effort(rounds=7, seconds=2, streams=5000, starts=5),
    )  # fmt: skip


def test_the_page_has_every_comparison_and_no_fault_of_a_good_run() -> None:
    text = page(everything(), circumstances())

    assert all(f"### {comparison.title}\n" in text for comparison in COMPARISONS)
    assert "7 rounds of 2 s" in text
    assert "load average before the run was 2.1" in text
    assert "faults" not in text


def test_the_page_begins_with_what_a_call_costs() -> None:
    text = answer(everything())

    assert "10 µs (legacy, 1.00 x nginx)" in text
    assert text in page(everything(), circumstances()).partition("## ")[0]
    assert answer(Results(outcomes=(), footprint=None)) == ""


def test_the_page_counts_the_goals_that_were_not_reached() -> None:
    results = everything()

    assert "CPU of FastMCP, shared session" in {goal.what for goal in missed(results)}
    assert "memory, 1 server" not in {goal.what for goal in missed(results)}
    assert f"Not reached: {len(missed(results))}." in page(results, circumstances())


def test_the_page_can_be_written_again_from_what_a_run_leaves() -> None:
    kept = Kept(circumstances=circumstances(), results=everything())

    again = msgspec.json.decode(msgspec.json.encode(kept), type=Kept)

    assert page(again.results, again.circumstances) == page(kept.results, kept.circumstances)


def test_the_cells_of_a_column_are_equally_wide() -> None:
    assert table(["name", "n"], [["a", "100"], ["longer", "1"]]).splitlines() == [
        "| name   |   n |",
        "| ------ | --: |",
        "| a      | 100 |",
        "| longer |   1 |",
    ]
