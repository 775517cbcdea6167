"""The official conformance suite: where it is, how it is run, and what it found.

Everything comes from `tests/real/install`. The suite is one program for two legs: it calls a server
at a URL as a client would, or it is the server that a client command is pointed at. It writes what
it checked into a folder, and this file reads that. It knows nothing of the gateway, nor of what
ought to pass.
"""

import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".real"
PROGRAM: Final = HOME / "conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"

LEGACY_REVISIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS: Final = (*LEGACY_REVISIONS, "2026-07-28")
"""All that the suite knows; 2024-11-05 is not among them."""

SCENARIO_SECONDS_MAX: Final = 60
"""For one scenario; on an idle machine it takes a twentieth of that, so only a hang reaches it."""
RUN_SECONDS_MAX: Final = 600
"""For all scenarios of one revision."""
HUNG_MAX: Final = 1
"""How many scenarios of a run may hang and be tried once more. The reference server of the SDK 1.30
hangs in one now and then with nobody between it and the suite."""
HUNG: Final = "scenario-timeout"
"""The check that the suite puts in for a scenario that it gave up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that a scenario looked at. A scenario may look at the same thing repeatedly."""

    id: str
    status: str
    """SUCCESS, FAILURE, WARNING, SKIPPED or INFO."""
    message: str


Findings: TypeAlias = Mapping[str, Sequence[Check]]
"""What was checked, by the scenario."""
Find: TypeAlias = Callable[[str, str], Findings]
"""Runs the suite on a way if nobody has yet; what it found at a revision."""


def run_server_leg(url: str, revision: str, folder: Path) -> Findings:
    """All scenarios of a revision against the server at a URL, one after the other.

    What a scenario that never ended has checked is not known: it is missing from the findings.
    """
    options = ["--url", url, "--spec-version", revision, *_limits(folder)]
    _run(["server", "--suite", "all", *options], folder)
    for scenario in hung(read_findings(folder))[:HUNG_MAX]:
        _run(["server", "--scenario", scenario, *options], folder)
    return read_findings(folder)


def run_server_scenario(url: str, scenario: str, folder: Path) -> Sequence[Check]:
    """One scenario against the server at a URL, such as one of an extension."""
    _run(["server", "--url", url, "--scenario", scenario, *_limits(folder)], folder)
    return read_findings(folder).get(scenario, ())


def run_client_leg(
    command: Sequence[str], scenario: str, revision: str, folder: Path
) -> Sequence[Check]:
    """One scenario against a client, started as this command with the URL of a server after it."""
    options = ["--command", shlex.join(command), "--scenario", scenario, "--spec-version", revision]
    _run(["client", *options, *_limits(folder)], folder)
    return read_findings(folder).get(scenario, ())


def hung(findings: Findings) -> list[str]:
    """The scenarios that the suite gave up."""
    return [
        scenario
        for scenario, checks in findings.items()
        if any(check.id == HUNG for check in checks)
    ]


def list_scenarios(leg: str, revision: str) -> list[str]:
    """The scenarios of a revision for a leg, which is "server" or "client"."""
    listing = _run(["list", f"--{leg}", "--spec-version", revision])
    return re.findall(r"^  - (\S+)", listing, re.MULTILINE)


def list_extension_scenarios(leg: str) -> list[str]:
    """The scenarios of extensions, which belong to no revision."""
    return re.findall(r"^  - (\S+) \[extension\]", _run(["list", f"--{leg}"]), re.MULTILINE)


def read_findings(folder: Path) -> Findings:
    """What the suite has written into a folder; of a scenario that ran twice, the second time."""
    findings = {}
    for file in sorted(folder.glob("**/checks.json")):  # Their names end with the time.
        name = file.parent.relative_to(folder).as_posix()
        match = _RESULT.fullmatch(name)
        assert match, f"{name} is not how the suite names its results"
        findings[match["scenario"]] = [
            Check(
                id=check["id"],
                status=check["status"],
                message=check.get("errorMessage") or check.get("description") or "",
            )
            for check in json.loads(file.read_bytes())
        ]
    return findings


def missing() -> list[str]:
    """The environments that are not there, or were made from other lock files than these."""
    real = ROOT / "tests" / "real"
    locks = {
        HOME / "conformance" / "lock.json": Path(__file__).parent / "node" / "package-lock.json",
        HOME / "sources" / "lock.txt": real / "python-sources.txt",
    }
    for sdk in ("sdk1", "sdk2"):
        locks[HOME / sdk / "lock.txt"] = real / f"python-{sdk}.txt"
        locks[HOME / "sources" / sdk / "lock.txt"] = real / f"python-{sdk}.txt"
    return [
        str(copy.parent.relative_to(ROOT))
        for copy, lock in locks.items()
        if not copy.is_file() or copy.read_bytes() != lock.read_bytes()
    ]


_RESULT: Final = re.compile(
    r"(?:server-)?(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z", re.ASCII
)
_MACHINES: Final[Mapping[str, str]] = {"x86_64": "x64", "aarch64": "arm64"}


def _limits(folder: Path) -> list[str]:
    return ["--output-dir", str(folder), "--timeout", str(SCENARIO_SECONDS_MAX * 1000)]


def _run(arguments: Sequence[str], folder: Path | None = None) -> str:
    """Its exit code says whether all was well, which is not for it to judge here."""
    run = subprocess.run(
        [_node(), str(PROGRAM), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"NO_COLOR": "1"},
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "suite.log").open("a") as log:
            log.write(run.stdout)
    return run.stdout


def _node() -> str:
    """The one that was installed with the suite; where there is none for the machine, its own."""
    machine = _MACHINES.get(platform.machine(), "")
    node = HOME / "conformance" / "node_modules" / f"node-linux-{machine}" / "bin" / "node"
    return str(node) if node.is_file() else "node"
