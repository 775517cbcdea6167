"""The suite calls a server with tasks, those of a session, as if they were the extension's.

The gateway makes the one of the other. A second gateway in front of it has a server behind it that
has the extension: what passes through one passes through two.
"""

from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.expectations import judge, passing
from tests.conformance.ways import Way, gateway, read_complaints

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("installed")]

WAY = Way(sdk="sdk1", revisions=(), extension="legacy_tasks")
MAY_FAIL = {
    # The rule is for who is unable to serve a client without tasks. The gateway waits for the task.
    "tasks-required-task-error": {"sep-2663-server-returns-missing-capability-when-required"},
}
PASS_OVER = {
    "tasks-status-notifications",  # The suite skips it, whatever the server does.
}


def check(url: str, folder: Path) -> None:
    """Run all there is about tasks."""
    names = [name for name in suite.list_extension_scenarios("server") if "tasks-" in name]
    assert names
    findings = {name: suite.run_server_scenario(url, name, folder / "found") for name in names}
    faults = [
        f"{name}: {fault}"
        for name, found in findings.items()
        for fault in judge({}, found, MAY_FAIL.get(name, set()))
    ]
    assert not faults, "\n".join(faults)
    assert passing(findings) == set(names) - MAY_FAIL.keys() - PASS_OVER
    assert not read_complaints(folder)


def test_tasks_of_a_session_are_tasks_of_the_extension(tmp_path: Path) -> None:
    with WAY.url(tmp_path) as url:
        check(url, tmp_path)


def test_tasks_of_the_extension_are_handed_on(tmp_path: Path) -> None:
    with WAY.url(tmp_path / "behind") as behind, gateway({"url": behind}, tmp_path) as url:
        check(url, tmp_path)
    assert not read_complaints(tmp_path / "behind")
