"""Measures Anyport beside nginx and other proxies: `make bench`, or `python bench/run.py`.

A full run writes docs/evidence/performance.md and .bench/results.json; a quick or partial one
prints its tables and writes .bench/results-partial.json. `--report` measures nothing and writes the
page anew.
"""

import argparse
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

if __name__ == "__main__":  # Python puts the folder of a script on the path, not the one above.
    sys.path[0] = str(Path(__file__).parents[1])

from bench.comparisons import COMPARISONS
from bench.footprint import footprint
from bench.goals import Results, goals_table
from bench.machine import machine, versions
from bench.measure import Effort, compare, say
from bench.prepare import HOME, LOCKS, ROOT, STUBS, Unprepared, interpreter, require_tools, stub
from bench.report import Circumstances, faults, faults_text, page, section
from bench.tables import idle_table, starts_table

FULL: Final = Effort(rounds=7, seconds=2, streams=5000, starts=5)
QUICK: Final = Effort(rounds=3, seconds=1, streams=1000, starts=2)
FOOTPRINT: Final = "footprint"
NAMES: Final = (*(comparison.name for comparison in COMPARISONS), FOOTPRINT)
WHOLE: Final = HOME / "results.json"
WRITTEN: Final = ROOT / "docs" / "evidence" / "performance.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a run leaves behind."""

    circumstances: Circumstances
    results: Results


def main(argv: list[str]) -> int:
    options = _options(argv)
    if options.report:
        return _report()
    chosen = options.only.split(",") if options.only else list(NAMES)
    if unknown := set(chosen) - set(NAMES):
        print(f"There is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that processes are ended.
    try:
        _prepare()
    except Unprepared as error:
        print(f"Cannot measure: {error}.", file=sys.stderr)
        return 1
    effort = QUICK if options.quick else FULL
    began, place = time.monotonic(), machine()
    results = _measure(chosen, effort)
    circumstances = Circumstances(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        minutes=(time.monotonic() - began) / 60,
        machine=place,
        versions=versions(),
        effort=effort,
    )
    _keep(results, circumstances, whole=not (options.quick or options.only))
    print("\n" + goals_table(results))
    print(f"\n{faults_text(results) or 'No errors.'}")
    return 1 if faults(results) else 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short runs; nothing is written")
    parser.add_argument("--only", metavar="NAME,...", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--report", action="store_true", help="the page of the last full run anew")
    return parser.parse_args(argv)


def _prepare() -> None:
    require_tools()
    for name in STUBS:
        stub(name)
    for name in LOCKS:
        interpreter(name)


def _measure(chosen: list[str], effort: Effort) -> Results:
    outcomes = []
    for comparison in COMPARISONS:
        if comparison.name in chosen:
            say(f"{comparison.name}: {comparison.title}")
            outcomes.append(compare(comparison, effort))
            found = Results(outcomes=tuple(outcomes), footprint=None)
            print(f"\n{section(comparison, found)}\n", flush=True)
    taken = None
    if FOOTPRINT in chosen:
        say(FOOTPRINT)
        taken = footprint(effort)
        print(f"\n### Memory and start\n\n{starts_table(taken)}\n\n{idle_table(taken)}", flush=True)
    return Results(outcomes=tuple(outcomes), footprint=taken)


def _keep(results: Results, circumstances: Circumstances, *, whole: bool) -> None:
    kept = Kept(circumstances=circumstances, results=results)
    pretty = msgspec.json.format(msgspec.json.encode(kept), indent=1)
    (WHOLE if whole else HOME / "results-partial.json").write_bytes(pretty)
    if whole:
        WRITTEN.write_text(page(results, circumstances))


def _report() -> int:
    try:
        kept = msgspec.json.decode(WHOLE.read_bytes(), type=Kept)
    except FileNotFoundError:
        print("There are no figures yet: `make bench` takes them.", file=sys.stderr)
        return 1
    WRITTEN.write_text(page(kept.results, kept.circumstances))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
