"""The long run, shortened: twelve servers, steady load, and every fault of the list.

`python tools/soak.py run` does the same for as long as it is told to.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.rig.fault_injection import FAULTS
from tests.rig.long_run import Plan, run
from tests.rig.scale import measured

pytestmark = pytest.mark.slow

FAULT_SECONDS: Final = 1.6
PLAN: Final = Plan(
    seconds=FAULT_SECONDS * len(FAULTS),
    calls_per_second=100,
    fault_seconds=FAULT_SECONDS,
    warm_seconds=3,
    # Others use this machine, too: it may have less time than the load takes, and only a standstill
    # takes as long as this.
    p99_seconds_max=30.0,
    open_calls_max=16,
)


def test_whatever_happens_every_call_is_answered_and_no_neighbour_suffers(tmp_path: Path) -> None:
    outcome = run(PLAN, tmp_path)

    measured(calls=outcome.calls, p99_ms=round(1e3 * outcome.account.percentile(0.99)))
    assert outcome.account.violations == []
    assert not outcome.own_faults
    assert outcome.verdicts() == dict.fromkeys(outcome.verdicts(), True)
    # A fault is left out where all that it could hit are hit already.
    assert outcome.faults.total() > 0.8 * len(FAULTS)
    assert outcome.account.excused, "no fault was felt by anybody"
