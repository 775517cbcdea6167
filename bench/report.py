"""The page of a run: `docs/evidence/performance.md`, and the same tables on the terminal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bench.comparisons import COMPARISONS, Comparison
from bench.goals import Results, goals_table, missed
from bench.load import IDS_PER_RUN
from bench.measure import WARM_UP_SECONDS, Effort, Measured, Outcome
from bench.tables import calls_table, idle_table, ratio, starts_table

PAGE = """\
# Performance

What Anyport costs, measured against nginx as a plain reverse proxy for the same requests, and
against other MCP proxies. `make bench` generates this page; do not edit it.

{answer}

*Legacy* and *modern* are the eras of MCP, with and without a handshake: see the
[glossary](../contributing/glossary.md#protocol).

{place}

{noise}

{faults}
## Goals

Ratios hold within one run and carry over to other machines; absolute figures do not. Rows use
64 connections unless they name another number.

{goals}

{missed}
## Where the time goes

{events}The kernel's share was measured separately, on a busy machine: the system time
of the gateway in two seconds of load, as a share of its CPU.

| call                    |          kernel |
| ----------------------- | --------------: |
| small, HTTP server      |      about half |
| small, stdio server     |   about a third |
| ten events, HTTP server | about a quarter |

- With an HTTP server, the kernel's share is TCP: two reads and two writes for each call.
- The rest is Python: it parses the request and writes it to the server, parses the answer and
  writes it to the client, and writes one event to the journal.

## Calls

CPU is that of the target and all its child processes, for one request; *own* is the first process
alone. *Rounds* has the least and the greatest ratio of the rounds. *Share* is the part of its core
that the target used: where it is well below 1, the target was not the limit. *MB* is the resident
memory of the largest process after the load. A ratio is the median of the ratios of the rounds, so
it need not be the quotient of two figures in the table. *Legacy* or *modern* is what the client
speaks; to the server Anyport speaks the modern revision, except in the row *legacy, legacy server*,
whose server keeps sessions.

{calls}

## Memory and start

From the start of the process to the first complete `tools/list`, with an empty state directory;
memory when the process is idle again. The median of {starts} starts.

{started}

Idle streams, with one server:

{idle}

## Method

- wrk generates the load. It shares one core with the server, and the target has the other. For the
  real server it is the other way round: the server has a core, target and load share one.
- The servers are two small programs in C that answer both eras, over HTTP
  (`bench/stub/mcpstub.c`) and over stdio (`bench/stub/mcpstdio.c`).
- Before any load each target is verified: its tools are listed, and 16 concurrent clients make 192
  calls. Every answer must have the id of its request, the right content and, where events are
  expected, all of them, with the token of this call.
- Each request has a unique id. Legacy clients use 16 sessions in turn.
- Targets are measured in turn, {rounds} rounds of {seconds} s each after {warm_up} s of warming up,
  every other round in the opposite order. A figure is the median of the rounds, and so is a ratio:
  of two figures of one round, measured within seconds.
- CPU is counted until a target is idle again, so that deferred work is included. Its journal is
  on: every call through Anyport writes one event.
- Errors are refused or broken connections, answers that take more than 30 s, and statuses other
  than 2xx and 3xx.
- On a shared machine, CPU for each request is the steadiest figure. Throughput and latency depend
  on the neighbours.
- On the loopback interface the sender does the receiver's work in the kernel. Over a real network
  that part is smaller, and the target's own part weighs more.

## Run it yourself

```
make bench                                   # everything, and this page; about {minutes} minutes
.venv/bin/python bench/run.py --quick        # short runs, printed only
.venv/bin/python bench/run.py --only call,sse
.venv/bin/python bench/run.py --report       # rewrite this page from the last full run
```

You need Linux with two cores, wrk, nginx and gcc; they are installed where permitted. The peers
come from PyPI in the versions that `bench/requirements-mcp-proxy.txt` and
`bench/requirements-fastmcp.txt` pin. All output is in `.bench/`;
`.bench/results.json` has every single round.
"""

BEHIND: Final = (
    ("call", "Anyport", "With an HTTP server"),
    ("stdio", "Anyport, stdio", "with a stdio server, itself included,"),
)
"""Comparison, target and words of what a call is said to cost."""

PROGRESS_EVENTS: Final = 9
"""How many events a call of ten has besides its answer."""


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
        answer=answer(results),
        place=_place(circumstances),
        noise=_noise(circumstances),
        faults=faults_text(results),
        goals=goals_table(results),
        missed=_missed(results),
        events=_events(results),
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


def answer(results: Results) -> str:
    """What a call through the gateway costs, in two sentences; nothing if it was not measured."""
    costs = [_cost(results, *behind) for behind in BEHIND]
    alone = [_find(results, "call", row, 1) for row in ("Anyport, legacy", "direct")]
    if None in costs or None in alone:
        return ""
    through, direct = (measured.figures.p50_ms for measured in alone if measured)
    return (
        f"**What does a call through the gateway cost?** {'; '.join(filter(None, costs))}. "
        f"A client that calls alone, one call after the other, waits {through:.2f} ms instead of "
        f"{direct:.2f} ms (legacy, the median)."
    )


def _cost(results: Results, comparison: str, name: str, words: str) -> str | None:
    told = []
    for era in ("legacy", "modern"):
        measured = _find(results, comparison, f"{name}, {era}", 64)
        times = measured and ratio(measured, _find(results, comparison, measured.base, 64))
        if measured is None or times is None:
            return None
        told.append(f"{measured.figures.cpu_us:.0f} µs ({era}, {times:.2f} x nginx)")
    return f"{words} {' or '.join(told)} of CPU"


def _events(results: Results) -> str:
    """What one event more costs: a call with ten, less one with a plain answer."""
    told = []
    for era in ("legacy", "modern"):
        for target in ("Anyport", "nginx"):
            row = f"{target}, {era}"
            plain, ten = _find(results, "call", row, 64), _find(results, "sse", row, 64)
            if plain is None or ten is None:
                return ""
            each = (ten.figures.cpu_us - plain.figures.cpu_us) / PROGRESS_EVENTS
            told.append(f"{row} {each:.1f} µs")
    return f"An event of progress, from the tables below: {'; '.join(told)}.\n\n"


def _find(results: Results, comparison: str, row: str | None, connections: int) -> Measured | None:
    outcome = results.outcome(comparison)
    return outcome.find(row, connections) if outcome else None


def _missed(results: Results) -> str:
    count = len(missed(results))
    if not count:
        return ""
    return (
        f"Not reached: {count}. "
        "See [where the time goes](#where-the-time-goes) for the CPU of a call.\n"
    )


def _noise(circumstances: Circumstances) -> str:
    load = circumstances.machine.get("load before", "unknown")
    return (
        f"The load average before the run was {load}, where 0 is an idle machine. *Rounds* in "
        "the tables shows how much the rounds differ."
    )


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
