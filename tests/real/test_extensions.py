"""Skills and apps of real SDKs behind the gateway, for a host of a real SDK in front of it.

The host checks what it gets: digests, sizes, frontmatter, and where the files of a skill lie.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import running
from tests.conformance import suite
from tests.harness import DEMO, LineClient, Message, write_config
from tests.real import rig
from tests.real.conftest import LIST_SECONDS

pytestmark = pytest.mark.real

NODE = ["node", "--preserve-symlinks", "--preserve-symlinks-main"]
SKILLS = "io.modelcontextprotocol/skills"
APPS = "io.modelcontextprotocol/ui"
MODES = ("legacy", "2026-07-28")


def node(script: str, *arguments: str) -> list[str]:
    return [*NODE, str(rig.HOME / "node" / script), *arguments]


def python(environment: str, script: str, *arguments: str) -> list[str]:
    return [str(rig.HOME / environment / "bin" / "python"), str(rig.HERE / script), *arguments]


@pytest.fixture
def servers(tmp_path: Path) -> Message:
    """Two on the TypeScript SDK with one skill of the same name, and one of another."""
    cocoa = tmp_path / "skills" / "cocoa"
    (cocoa / "notes").mkdir(parents=True)
    (cocoa / "SKILL.md").write_text("---\nname: cocoa\ndescription: Of FastMCP\n---\n\nStir.\n")
    (cocoa / "notes" / "milk.md").write_text("Warm.\n")
    return {
        "one": node("servers/extended_ts2.mjs", "tea", "stdio"),
        "two": node("servers/extended_ts2.mjs", "tea", "stdio"),
        "fm": python("fastmcp", "servers/extended_fm.py", str(cocoa.parent)),
        "py": python("sdk2", "servers/extended_py2.py"),
    }


@pytest.fixture
def url(tmp_path: Path, servers: Message) -> Iterator[str]:
    """The address of a gateway that knows what its servers offer."""
    patient = {"gateway": {"listSeconds": LIST_SECONDS}}
    config = write_config(tmp_path, servers, **patient)
    options = ["--config", str(config), "--state-dir", str(tmp_path / "state")]
    with running(*options) as gateway:
        address = f"{gateway.url}/mcp"
        visit("2026-07-28", [address])
        yield address


def visit(mode: str, target: list[str]) -> dict[str, Any]:
    """What the host finds."""
    command = node("clients/skills_client.mjs", "--steps", "[]", "--mode", mode, "--", *target)
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=rig.RUN_SECONDS_MAX, check=False
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_host_finds_and_verifies_the_skills_of_all_servers(url: str, mode: str) -> None:
    found = visit(mode, [url])

    # FastMCP reads no directories, so nobody can promise that for all.
    assert found["extensions"] == {APPS: {}, SKILLS: {}}
    assert (found["supported"], found["directoryRead"]) == (True, False)
    uris = [skill["uri"] for skill in found["listed"]]
    assert uris == [
        "one+skill://tea/SKILL.md",
        "two+skill://tea/SKILL.md",
        "skill://cocoa/SKILL.md",
    ]
    for skill in found["listed"]:
        assert all(file["verified"] for file in skill["files"].values())
    assert found["listed"][0]["files"]["references/MORE.md"]["text"] == "More of tea.\n"
    assert found["listed"][2]["files"]["notes/milk.md"]["text"] == "Warm.\n"


@pytest.mark.parametrize("mode", MODES)
def test_a_host_sees_the_view_of_each_server_and_each_server_that_it_can(
    url: str, mode: str
) -> None:
    views = visit(mode, [url])["views"]

    assert {name: view["page"]["text"] for name, view in views.items()} == {
        "one__show": "<p>tea</p>",
        "two__show": "<p>tea</p>",
        "py__show": "<p>python</p>",
    }
    for name, view in views.items():
        slug = name.partition("__")[0]
        assert view["uri"] == view["page"]["uri"] == f"ui://{slug}/view/main.html"
        assert view["page"]["mimeType"] == "text/html;profile=mcp-app"
    assert views["py__show"]["said"] == "look at it"


def test_a_gateway_on_pipes_knows_next_time_that_there_are_skills(
    tmp_path: Path, servers: Message
) -> None:
    alone = {"one": servers["one"]}
    config = write_config(tmp_path, alone, gateway={"listSeconds": LIST_SECONDS})
    options = ["--config", str(config), "--state-dir", str(tmp_path / "state")]
    target = [sys.executable, "-m", "anyport", "stdio", *options]
    client = LineClient(target)
    try:
        assert client.modern("skills/list")["result"]["skills"]
    finally:
        client.kill()

    for mode in MODES:
        found = visit(mode, target)
        assert found["directoryRead"]
        (skill,) = found["listed"]
        assert skill["children"] == ["skill://tea/SKILL.md", "skill://tea/references"]


@pytest.mark.parametrize("scenario", ["enumeration", "manifest", "directory"])
def test_the_official_suite_finds_no_fault_with_the_skills_of_several_servers(
    tmp_path: Path, servers: Message, scenario: str
) -> None:
    reading = {slug: servers[slug] for slug in ("one", "two")}
    reading["old"] = [*DEMO, "--legacy-only", "--skills"]
    config = write_config(tmp_path, reading, gateway={"listSeconds": LIST_SECONDS})
    with running("--config", str(config), "--state-dir", str(tmp_path / "state")) as gateway:
        address = f"{gateway.url}/mcp"
        visit("2026-07-28", [address])
        name = f"sep-2640-skills-{scenario}"
        checks = suite.run_server_scenario(address, name, tmp_path / "findings")

    assert {check.id for check in checks if check.status == "FAILURE"} == set()
    assert sum(check.status == "SUCCESS" for check in checks) >= 5
    # What is warned of cannot be otherwise where two servers have a skill of one name.
    expected = {"sep-2640-skill-uri-scheme", "sep-2640-names-should-be-unique"}
    assert {check.id for check in checks if check.status == "WARNING"} <= expected
