"""The suite is the server: the reference client calls it, alone and through the gateway.

Every check that passes where nothing stands between passes through the gateway. The scenarios of
authorization all have one exception, so one of them for each revision is enough to see that it is
still needed. `make test` has the newest revision of either era: each of the other scenarios is of
one of these.
"""

import sys
from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.expectations import excused, judge, read_baseline, read_excuses
from tests.conformance.ways import read_complaints

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("installed")]


def is_authorization(scenario: str) -> bool:
    return scenario.startswith("auth/")


BASELINE = read_baseline()["client"]
EXCUSES = read_excuses()
LOGGED_IN = {revision: min(filter(is_authorization, BASELINE[revision])) for revision in BASELINE}
NEWEST = (suite.LEGACY_REVISIONS[-1], suite.REVISIONS[-1])
CASES = [
    pytest.param(revision, scenario, marks=() if revision in NEWEST else pytest.mark.exhaustive)
    for revision, scenarios in BASELINE.items()
    for scenario in scenarios
    if not is_authorization(scenario) or scenario == LOGGED_IN[revision]
]


@pytest.mark.parametrize(("revision", "scenario"), CASES)
def test_what_passes_directly_passes_through_the_gateway(
    revision: str, scenario: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.conformance.through", str(tmp_path / "way")]
    found = suite.run_client_leg(command, scenario, revision, tmp_path / "found")
    listed = excused(EXCUSES, "client", revision, scenario)
    faults = judge(BASELINE[revision][scenario], found, listed)
    assert not faults, "\n".join(faults)
    assert not read_complaints(tmp_path / "way")


@pytest.mark.parametrize("revision", suite.REVISIONS)
def test_the_baseline_has_every_scenario_of_the_suite(revision: str) -> None:
    assert set(suite.list_scenarios("client", revision)) == BASELINE[revision].keys()
