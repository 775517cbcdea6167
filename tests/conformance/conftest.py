"""The suite is run once for each way and revision, whoever of the test processes comes first."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.suite import Find, Findings
from tests.conformance.ways import WAYS, read_complaints

FOUND = "found"


@pytest.fixture(scope="session")
def installed() -> None:
    """Fail, not skip: a run that asked for the suite and had none must not look good."""
    if missing := suite.missing():
        pytest.fail(f"{', '.join(missing)} not installed: run tests/real/install", pytrace=False)


@pytest.fixture(scope="session")
def find(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Find:
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # What the processes of one run have in common.

    def find(way: str, revision: str) -> Findings:
        folder = place / "conformance" / way / revision
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = folder / "done"
            if not done.exists():
                done.write_text(_run(way, revision, folder))
        if failure := done.read_text():
            pytest.fail(failure, pytrace=False)
        return suite.read_findings(folder / FOUND)

    return find


def _run(way: str, revision: str, folder: Path) -> str:
    """Why it could not be run well: that is told by every test, not tried again."""
    try:
        with WAYS[way].url(folder) as url:
            suite.run_server_leg(url, revision, folder / FOUND)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "\n".join(read_complaints(folder))
