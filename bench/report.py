"""The page of a run: `docs/performance.md`, and the same tables on the terminal."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.comparisons import COMPARISONS, Comparison
from bench.goals import Results, goals_table
from bench.load import IDS_PER_RUN
from bench.measure import WARM_UP_SECONDS, Effort, Outcome
from bench.tables import calls_table, idle_table, starts_table

PAGE = """\
# Performance

What Anyport costs, measured against nginx as a plain reverse proxy for the same requests, and
against other proxies for MCP. This page is written by `make bench`; do not edit it.

{place}

{faults}
## Goals

Ratios hold within one run and carry over to other machines; absolute figures do not.

{goals}

## Calls

CPU is that of the target and all its child processes, for one request; *own* is the first process
alone. *Rounds* has the least and the greatest ratio of the rounds. *Share* is the part of its core
that the target used: where it is well below 1, the target was not the limit. *MB* is the resident
memory of the largest process after the load.

{calls}

## Memory and start

From the start of the process to the answer of the first full `tools/list`, from an empty state
directory; memory when it is idle again. The median of {starts} starts.

{started}

Streams on which nothing happens, with one server behind:

{idle}

## Method

- The load comes from wrk. It and the server behind run on one core, the target on another. For the
  real server it is the other way round: the server has a core, target and load share one.
- The servers behind are two small programs in C that answer both eras, over HTTP
  (`bench/stub/mcpstub.c`) and over stdio (`bench/stub/mcpstdio.c`).
- Before any load each target is verified: its tools are listed, and 16 clients at a time make 192
  calls. Every answer must have the id of its request, the right content and, where events are
  expected, all of them, with the token of this call.
- Each request has an id of its own. Legacy clients use 16 sessions in turn.
- Targets are measured in turn, {rounds} rounds of {seconds} s each after {warm_up} s of warming up,
  every other round in the opposite order. A figure is the median of the rounds, and so is a ratio:
  of the two figures of one round, which were taken within seconds.
- A target is charged until it is idle again, so that work it puts off is counted. Its journal is
  on: every call through Anyport writes one event.
- Errors are refused or broken connections, answers that did not come in 30 s, and statuses other
  than 2xx and 3xx.
- On a machine that others use too, CPU for each request is the steadiest figure. Throughput and
  latency depend on the neighbours.
- On the loopback the sender does the receiver's work in the kernel. With a real network between,
  that part is smaller, and the target's own part weighs more.

## Repeat it

```
make bench                                   # everything, and this page; about {minutes} minutes
.venv/bin/python bench/run.py --quick        # short runs, printed only
.venv/bin/python bench/run.py --only call,sse
```

It needs Linux with two cores, wrk, nginx and gcc, and installs them where it may. The peers come
from PyPI in the versions that `bench/requirements-mcp-proxy.txt` and
`bench/requirements-fastmcp.txt` pin. Everything that is made lies in `.bench/`; every single round
is in `.bench/results.json`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    date: str
    minutes: float
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    effort: Effort


def page(results: Results, circumstances: Circumstances) -> str:
    effort, footprint = circumstances.effort, results.footprint
    return PAGE.format(
        place=_place(circumstances),
        faults=faults_text(results),
        goals=goals_table(results),
        calls="\n\n".join(section(comparison, results) for comparison in COMPARISONS),
        starts=effort.starts,
        started=starts_table(footprint) if footprint else "",
        idle=idle_table(footprint) if footprint else "",
        rounds=effort.rounds,
        seconds=effort.seconds,
        warm_up=WARM_UP_SECONDS,
        minutes=round(circumstances.minutes),
    )


def section(comparison: Comparison, results: Results) -> str:
    outcome = results.outcome(comparison.name)
    if outcome is None or not outcome.measured:
        return f"### {comparison.title}\n\nNot measured."
    return f"### {comparison.title}\n\n{comparison.about}\n\n{calls_table(comparison, outcome)}"


def faults(results: Results) -> list[str]:
    """All that went wrong in a run, in words."""
    found = [fault for outcome in results.outcomes for fault in _faults_of(outcome)]
    return [*found, *(results.footprint.faults if results.footprint else ())]


def faults_text(results: Results) -> str:
    found = faults(results)
    if not found:
        return ""
    lines = "\n".join(f"- {fault}" for fault in found)
    return f"**This run had faults; its figures are not to be trusted:**\n\n{lines}\n"


def _faults_of(outcome: Outcome) -> list[str]:
    failed = [f"{outcome.name}: {fault}" for fault in outcome.faults]
    for measured in outcome.measured:
        figures = measured.figures
        if figures.errors:
            failed.append(
                f"{outcome.name}: {measured.row}, {measured.connections} connections: "
                f"{figures.errors} errors in {figures.requests} requests"
            )
        if any(sample.requests > IDS_PER_RUN for sample in measured.samples):
            failed.append(f"{outcome.name}: {measured.row}: ids were used twice")
    return failed


def _place(circumstances: Circumstances) -> str:
    lines = [f"- date: {circumstances.date}"]
    lines += [f"- {name}: {value}" for name, value in circumstances.machine.items()]
    versions = (f"{name} {value}" for name, value in circumstances.versions.items())
    return "\n".join([*lines, f"- versions: {', '.join(versions)}"])
