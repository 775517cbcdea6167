"""The suite calls a server: the reference server, alone and with the gateway in front of it.

Every check that passes where nothing stands between passes through the gateway, at every revision
that the suite knows and with the server behind it over every transport.
"""

import pytest

from tests.conformance import suite
from tests.conformance.expectations import excused, judge, read_baseline, read_excuses, tally
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
    for scenario in BASELINE[WAYS[way].sdk][revision]
]
DIRECT = [(way, revision) for way, revision in PLACES if WAYS[way].direct]


@pytest.mark.parametrize(("way", "revision", "scenario"), THROUGH)
def test_what_passes_directly_passes_through_the_gateway(
    way: str, revision: str, scenario: str, find: Find
) -> None:
    found = find(way, revision).get(scenario, ())
    expected = BASELINE[WAYS[way].sdk][revision][scenario]
    faults = judge(expected, found, excused(EXCUSES, way, revision, scenario))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("way", "revision"), DIRECT)
def test_the_baseline_is_what_passes_directly(way: str, revision: str, find: Find) -> None:
    assert tally(find(way, revision)) == BASELINE[WAYS[way].sdk][revision]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("revision", suite.REVISIONS)
def test_the_baseline_has_every_scenario_of_the_suite(revision: str) -> None:
    assert set(suite.list_scenarios("server", revision)) == BASELINE["sdk2"][revision].keys()
