"""The Python SDK's own tests of client and server, with a transparent gateway in between.

They come with the source archive of the SDK and run unchanged, in an environment of their own;
`suite/between.py` puts the gateway between the two. What does not pass is in `exceptions.py`.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.interaction.exceptions import EXCEPTIONS
from tests.real import rig
from tests.rig.scale import scaled

HERE: Final = Path(__file__).parent / "suite"
SOURCES: Final = rig.HOME / "sources" / "sdk2"
PYTHON: Final = rig.HOME / "interaction" / "bin" / "python"
RUN_SECONDS_MAX: Final = scaled(1800.0, full=3600.0)
"""Each way takes minutes on two cores; only a hang reaches this."""
SHARE_MIN: Final = 0.98
"""Of the tests that pass without a gateway, on each way. The exceptions are named one by one; this
says how much they may be together."""

WAYS: Final = {
    "http-http": ("sse", "streamable-http", "streamable-http-stateless"),
    "http-stdio": ("in-memory",),
    "stdio-stdio": ("in-memory",),
}
"""Client to gateway and gateway to server; and the cells of the suite that are run that way."""
TESTS: Final = {"http-http": 467, "http-stdio": 228, "stdio-stdio": 228}
"""How many of its tests there are on each way: one that were left out would not be seen to fail."""


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS)
def test_the_interaction_suite_of_the_python_sdk_passes_save_what_is_explained(
    tmp_path: Path, way: str
) -> None:
    number, failed = run(way, tmp_path)

    assert set(failed) == expected(way)
    assert number == TESTS[way]
    assert number - len(failed) >= SHARE_MIN * number


def expected(way: str) -> set[str]:
    """The tests that fail, each with its cell."""
    return {
        f"{test}[{cell}]"
        for test, (cells, _) in EXCEPTIONS.items()
        for cell in cells
        if re.sub(r"-\d{4}-\d\d-\d\d$", "", cell) in WAYS[way]
    }


def run(way: str, folder: Path) -> tuple[int, list[str]]:
    """How many tests there were, and the names of those that failed; some share theirs."""
    if missing := rig.missing():
        pytest.fail(f"{', '.join(missing)} not installed: run tests/real/install", pytrace=False)
    report = folder / "report.xml"
    argv = [str(PYTHON), "-m", "pytest", "-c", str(HERE / "suite.ini"), "--rootdir", str(SOURCES)]
    argv += ["--confcutdir", "tests/interaction", "-p", "between", "-p", "no:cacheprovider"]
    argv += ["-q", "--junitxml", str(report), "tests/interaction"]
    about = {
        "ANYPORT_WAY": way,
        "ANYPORT_COMMAND": json.dumps([sys.executable, "-m", "anyport"]),
        "PYTHONPATH": f"{HERE}{os.pathsep}{SOURCES}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        argv, cwd=SOURCES, env=environ | about, capture_output=True, timeout=RUN_SECONDS_MAX
    )
    assert report.exists(), (done.stdout + done.stderr).decode(errors="replace")[-4000:]
    cases = list(ElementTree.parse(report).iter("testcase"))
    skipped = [case.get("name") for case in cases if case.find("skipped") is not None]
    assert not skipped
    bad = [
        case.get("name") or ""
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    return len(cases), bad
