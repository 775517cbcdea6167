"""Thousands of simulated gateways in which everything goes wrong, each drawn from a seed.

    python -m tests.rig.simulation.schedule 42                  one seed, and all that happens
    python -m tests.rig.simulation.schedule 42 --without 3,5    without some of its steps
    python -m tests.rig.simulation.schedule 42 --shrink         as few steps as it takes to fail
    python -m tests.rig.simulation.schedule --count 10000       many, on all cores; names failures

`scenario` draws a schedule, `run` runs it, and `invariants` and the simulated clients and servers
check what must hold.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.rig.simulation.environment import state_directory
from tests.rig.simulation.run import Outcome, SimulationRun
from tests.rig.simulation.scenario import Scenario, draw


def play(seed: int, without: frozenset[int] = frozenset()) -> Outcome:
    """Run the schedule of a seed."""
    return perform(draw(seed), without)


def perform(script: Scenario, without: frozenset[int] = frozenset()) -> Outcome:
    """Run a schedule, drawn or written by hand."""
    state_dir = Path(tempfile.mkdtemp(prefix="anyport-sim-", dir=state_directory()))
    try:
        return SimulationRun(script, state_dir, without).run()
    finally:
        shutil.rmtree(state_dir, ignore_errors=True)


def command(seed: int, without: frozenset[int] = frozenset()) -> str:
    """How to see a schedule again."""
    left_out = f" --without {','.join(map(str, sorted(without)))}" if without else ""
    return f"python -m tests.rig.simulation.schedule {seed}{left_out}"


def complaint(outcome: Outcome) -> str:
    """What a failed schedule has to say."""
    faults = "".join(f"\n  {fault}" for fault in outcome.faults[:10])
    return f"seed {outcome.seed} failed; see it again with: {command(outcome.seed)}{faults}"


def shrink(seed: int, without: frozenset[int] = frozenset()) -> frozenset[int]:
    """Which steps a schedule does not need in order to fail."""
    for number in range(len(draw(seed).steps)):
        if number not in without and play(seed, without | {number}).faults:
            without |= {number}
    return without


def main() -> int:
    """The command; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.rig.simulation.schedule")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--without", default="")
    parser.add_argument("--shrink", action="store_true")
    given = parser.parse_args()
    if given.count > 1:
        return _many(given.seed, given.count)
    without = frozenset(int(number) for number in given.without.split(",") if number)
    if given.shrink:
        without = shrink(given.seed, without)
    outcome = play(given.seed, without)
    _tell(f"{draw(given.seed)}\n")
    for at, who, what, about in outcome.notes:
        _tell(f"{at:10.3f} {who} {what} {about}\n")
    _tell(f"digest {outcome.digest}, {outcome.seconds:.0f} simulated seconds\n")
    if outcome.faults:
        _tell(complaint(outcome) + "\n")
    if given.shrink:
        _tell(f"with the fewest steps: {command(given.seed, without)}\n")
    return 1 if outcome.faults else 0


def _many(first: int, count: int) -> int:
    began, failed, simulated = time.monotonic(), 0, 0.0
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for outcome in pool.imap_unordered(_brief, range(first, first + count), chunksize=8):
            simulated += outcome.seconds
            if outcome.faults:
                failed += 1
                _tell(complaint(outcome) + "\n")
    took = time.monotonic() - began
    _tell(
        f"{count} schedules in {took:.0f} s, {simulated / 86400:.1f} simulated days; "
        f"{failed} failed\n"
    )
    return 1 if failed else 0


def _brief(seed: int) -> Outcome:
    outcome = play(seed)
    outcome.notes = []
    return outcome


def _tell(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
