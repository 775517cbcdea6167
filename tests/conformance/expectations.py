"""What must pass: all that passes where nothing stands between, but for what is listed.

`baseline.json` holds what passes directly, `exceptions.toml` what may fail through the gateway,
and why. Nothing is run here; the judgement is a plain function of what was found.
"""

import fnmatch
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.conformance.suite import Check, Findings

HERE: Final = Path(__file__).parent
BASELINE: Final = HERE / "baseline.json"
EXCEPTIONS: Final = HERE / "exceptions.toml"

Tally: TypeAlias = Mapping[str, int]
"""How often each check of a scenario passes; 0 for one that fails with nothing between."""
Passing: TypeAlias = Mapping[str, Mapping[str, Tally]]
"""The same for every scenario, and that for every revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """One check that may fail, and only while it does. Each field but the last may be a pattern."""

    way: str
    """The way through the gateway, as the test names it; for the client leg, `client`."""
    revision: str
    scenario: str
    check: str
    why: str
    """One sentence: what in the suite itself makes a gateway fail."""
    unsteady: bool = False
    """Whether it passes where the machine is slow enough."""


def read_baseline() -> Mapping[str, Passing]:
    """What passes directly, for `sdk1` and `sdk2` as servers and for `client`."""
    baseline: Mapping[str, Passing] = json.loads(BASELINE.read_bytes())
    return baseline


def expected_of(baseline: Mapping[str, Passing], sdk: str, revision: str) -> Mapping[str, Tally]:
    """What is to pass with the server of an SDK.

    Where that does not know the revision, the gateway is to make up for it: as much as with the
    server of `sdk2`, which knows them all.
    """
    return baseline[sdk].get(revision) or baseline["sdk2"][revision]


def passing(findings: Findings) -> Set[str]:
    """The scenarios that pass as the suite itself counts them.

    A warning does not matter there, and a scenario in which nothing was a success did not pass.
    """
    found = {name: {check.status for check in checks} for name, checks in findings.items()}
    return {name for name, has in found.items() if "SUCCESS" in has and "FAILURE" not in has}


def read_excuses(text: str | None = None) -> tuple[Excuse, ...]:
    """The list of exceptions."""
    tables: list[dict[str, Any]] = tomllib.loads(
        EXCEPTIONS.read_text() if text is None else text
    ).get("exception", [])
    return tuple(Excuse(**table) for table in tables)


def excused(excuses: Iterable[Excuse], way: str, revision: str, scenario: str) -> Set[str]:
    """The checks of a scenario that may fail, as patterns."""
    return {
        excuse.check
        for excuse in excuses
        if fnmatchcase(way, excuse.way)
        and fnmatchcase(revision, excuse.revision)
        and fnmatchcase(scenario, excuse.scenario)
    }


def tally(findings: Findings) -> dict[str, dict[str, int]]:
    """How often each check of each scenario passes, to be expected from now on."""
    return {scenario: _tally(checks) for scenario, checks in sorted(findings.items())}


def unsteady(excuses: Iterable[Excuse]) -> list[Excuse]:
    """Those of checks that pass now and then."""
    return [excuse for excuse in excuses if excuse.unsteady]


def judge(
    expected: Tally,
    found: Sequence[Check],
    excused: Set[str],
    unsteady: Set[str] = frozenset(),
) -> list[str]:
    """What is wrong with a scenario, a line for each check; nothing, if nothing is."""
    faults = _faults(expected, found)
    needed = {pattern for pattern in excused if fnmatch.filter(faults, pattern)}
    return [
        f"{check}: {why}"
        for check, why in faults.items()
        if not any(fnmatchcase(check, pattern) for pattern in needed)
    ] + [
        f"{pattern}: passes, yet is listed as an exception"
        for pattern in excused - needed - unsteady
    ]


_BAD: Final = frozenset({"FAILURE", "WARNING"})


def _tally(checks: Sequence[Check]) -> dict[str, int]:
    passed = Counter(check.id for check in checks if check.status == "SUCCESS")
    failed = {check.id: 0 for check in checks if check.status in _BAD}
    return dict(sorted((dict(passed) | failed).items()))


def _faults(expected: Tally, found: Sequence[Check]) -> dict[str, str]:
    faults = {c.id: c.message for c in found if c.status in _BAD and expected.get(c.id) != 0}
    passed = Counter(c.id for c in found if c.status == "SUCCESS")
    for check, times in expected.items():
        if passed[check] < times:
            faults.setdefault(check, f"passes {times} times directly, {passed[check]} times here")
    return faults
