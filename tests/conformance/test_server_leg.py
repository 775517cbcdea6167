"""The suite calls a server: the reference server, alone and with the gateway in front of it.

Every check that passes where nothing stands between passes through the gateway, at every revision
that the suite knows and with the server behind it over every transport. Where the server is of the
other era than the suite, what passes with a server of both is to pass.

Every way is tried at its newest revision on every change, and Streamable HTTP at the newest of
either era; the rest, and the reference server alone, by `make test-all`.
"""

import pytest
from _pytest.mark.structures import ParameterSet

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


def case(way: str, revision: str, *rest: int) -> ParameterSet:
    newest = {WAYS[way].revisions[-1]}
    if way == "http":
        newest.add(suite.LEGACY_REVISIONS[-1])
    chosen = revision in newest and not WAYS[way].direct
    return pytest.param(way, revision, *rest, marks=() if chosen else pytest.mark.exhaustive)


PLACES = [(name, revision) for name, way in WAYS.items() for revision in way.revisions]
THROUGH = [case(*place) for place in PLACES if not WAYS[place[0]].direct]
DIRECT = [case(*place) for place in PLACES if WAYS[place[0]].direct]


@pytest.mark.parametrize(("way", "revision"), THROUGH)
def test_what_passes_directly_passes_through_the_gateway(
    way: str, revision: str, find: Find
) -> None:
    found = find(way, revision)
    faults = [
        f"{scenario}: {fault}"
        for scenario, expected in expected_of(BASELINE, WAYS[way].sdk, revision).items()
        for fault in judge(
            expected,
            found.get(scenario, ()),
            excused(EXCUSES, way, revision, scenario),
            excused(unsteady(EXCUSES), way, revision, scenario),
        )
    ]
    assert not faults, "\n".join(faults)


ACROSS = [
    # Of 40; a server that knows sessions only passes 5 of them with nothing between.
    case("sdk1-http", "2026-07-28", 27),
    case("legacy-only", "2026-07-28", 39),
    case("modern-only", "2025-11-25", 32),  # Of 33.
    case("modern-only", "2025-06-18", 27),  # Of 27.
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
