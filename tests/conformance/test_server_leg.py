"""The suite calls a server: the reference server, alone and with the gateway in front of it.

Every check that passes where nothing stands between passes through the gateway, at every revision
that the suite knows and with the server behind it over every transport. Where the server is of the
other era than the suite, what passes with a server of both is to pass.
"""

import pytest

from tests.conformance import suite
from tests.conformance.expectations import (
    excused,
    expected_of,
    judge,
    passing,
    read_baseline,
    read_excuses,
    tally,
    unsteady,
)
from tests.conformance.suite import Find
from tests.conformance.ways import WAYS

pytestmark = pytest.mark.real

BASELINE = read_baseline()
EXCUSES = read_excuses()


PLACES = [(name, revision) for name, way in WAYS.items() for revision in way.revisions]
THROUGH = [
    (way, revision, scenario)
    for way, revision in PLACES
    if not WAYS[way].direct
    for scenario in expected_of(BASELINE, WAYS[way].sdk, revision)
]
DIRECT = [(way, revision) for way, revision in PLACES if WAYS[way].direct]


@pytest.mark.parametrize(("way", "revision", "scenario"), THROUGH)
def test_what_passes_directly_passes_through_the_gateway(
    way: str, revision: str, scenario: str, find: Find
) -> None:
    found = find(way, revision).get(scenario, ())
    expected = expected_of(BASELINE, WAYS[way].sdk, revision)[scenario]
    may_fail = excused(EXCUSES, way, revision, scenario)
    may_pass = excused(unsteady(EXCUSES), way, revision, scenario)
    faults = judge(expected, found, may_fail, may_pass)
    assert not faults, "\n".join(faults)


ACROSS = [
    # A server that knows sessions only passes 5 of 40 with nothing between.
    pytest.param("sdk1-http", "2026-07-28", 27, id="sdk1-http-2026-07-28-27-of-40"),
    pytest.param("legacy-only", "2026-07-28", 39, id="legacy-only-2026-07-28-39-of-40"),
    pytest.param("modern-only", "2025-11-25", 32, id="modern-only-2025-11-25-32-of-33"),
    pytest.param("modern-only", "2025-06-18", 27, id="modern-only-2025-06-18-27-of-27"),
]
"""Client and server of different eras, and how many scenarios pass."""


@pytest.mark.parametrize(("way", "revision", "count"), ACROSS)
def test_so_many_scenarios_pass_across_the_eras(
    way: str, revision: str, count: int, find: Find
) -> None:
    passed = passing(find(way, revision))
    now_and_then = {each.scenario for each in unsteady(EXCUSES) if each.way == way}
    assert count <= len(passed) <= count + len(now_and_then & passed)


@pytest.mark.parametrize(("way", "revision"), DIRECT)
def test_the_baseline_is_what_passes_directly(way: str, revision: str, find: Find) -> None:
    assert tally(find(way, revision)) == BASELINE[WAYS[way].sdk][revision]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("revision", suite.REVISIONS)
def test_the_baseline_has_every_scenario_of_the_suite(revision: str) -> None:
    assert set(suite.list_scenarios("server", revision)) == BASELINE["sdk2"][revision].keys()
