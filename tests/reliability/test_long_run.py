"""The long run, shortened: twelve servers, steady load, and every fault of the list.

`python tools/soak.py run` does the same for as long as it is told to.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.rig.fault_injection import FAULTS
from tests.rig.long_run import Plan, run

pytestmark = pytest.mark.slow

FAULT_SECONDS: Final = 1.6
PLAN: Final = Plan(
    seconds=FAULT_SECONDS * len(FAULTS),
    calls_per_second=100,
    fault_seconds=FAULT_SECONDS,
    warm_seconds=3,
    # Others use this machine, too: only a standstill takes as long as this.
    p99_seconds_max=3.0,
)


def test_whatever_happens_every_call_is_answered_and_no_neighbour_suffers(tmp_path: Path) -> None:
    outcome = run(PLAN, tmp_path)

    assert outcome.account.violations == []
    assert not outcome.own_faults
    assert outcome.verdicts() == dict.fromkeys(outcome.verdicts(), True)
    # A fault is left out where all that it could hit are hit already.
    assert outcome.faults.total() > 0.8 * len(FAULTS)
    assert outcome.account.excused, "no fault was felt by anybody"
