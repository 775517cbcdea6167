"""Tasks of real servers for clients of real SDKs, each by the means of its own SDK.

The TypeScript SDK 1.x and the Python SDK 1.x have the tasks of 2025-11-25, on either side. The
SDKs 2.x have none: to their clients a tool that must be a task is a tool like any other.

A gateway is started by its client, or there already. `make test` has every client with tasks at
either, every one without at one of them, and all kinds of tasks at both; `make test-all` has all.
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
from tests.harness import DEMO, Message, write_config
from tests.pairwise import pairwise
from tests.real import rig
from tests.real.conftest import LIST_SECONDS

pytestmark = pytest.mark.real

RELATED = "io.modelcontextprotocol/related-task"
RESEARCH: Message = {
    "tool": "everything__simulate-research-query",
    "arguments": {"topic": "python", "ambiguous": True},
}
BREW: Message = {"tool": "new__brew_only", "arguments": {"cups": 2, "ask": True}}
BREW_OLD: Message = {"tool": "old__brew_only", "arguments": {"cups": 2, "ask": True}}
TASKS = {"research": RESEARCH, "extension": BREW, "session": BREW_OLD}
"""Of a real server, and of ours in either era; all ask before they are done."""
ANSWERS = {"research": "Clarification**: programming", "extension": "sugar", "session": "sugar"}
_NODE = ["node", "--preserve-symlinks", "--preserve-symlinks-main"]
_PYTHON = str(rig.HOME / "sdk1" / "bin" / "python")
CLIENTS = {
    "ts1": [*_NODE, str(rig.HOME / "node" / "clients" / "tasks_ts1.mjs")],
    "py1": [_PYTHON, str(rig.HERE / "clients" / "tasks_py1.py")],
}


def servers() -> Message:
    return {
        "everything": rig.server("everything"),
        "new": [*DEMO, "--tasks", "--modern-only"],
        "old": [*DEMO, "--tasks", "--legacy-only"],
    }


WAYS = ("stdio", "http")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """Gateways with all of them: one that the client starts, and one that is there already."""
    path: Path = tmp_path_factory.mktemp("tasks")
    config = write_config(path, servers(), gateway={"listSeconds": LIST_SECONDS})
    options = ["--config", str(config), "--state-dir", str(path / "state")]
    # Whoever opens a session is told what servers offer that have been seen before.
    started = [sys.executable, "-m", "anyport", "stdio", *options]
    rig.client("py2-legacy", [{"do": "list", "what": "tools"}], started)
    with running(*options) as gateway:
        yield {"stdio": started, "http": [f"{gateway.url}/mcp"]}


def visit(client: str, steps: list[Message], target: list[str]) -> dict[str, Any]:
    """What a client sees."""
    command = [*CLIENTS[client], "--steps", json.dumps(steps), "--", *target]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=rig.RUN_SECONDS_MAX, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    saw: dict[str, Any] = json.loads(run.stdout)
    return saw


@pytest.mark.parametrize(("way", "client", "kind"), pairwise(WAYS, [*CLIENTS], [*TASKS]))
def test_a_client_with_tasks_sees_one_through_and_cancels_another(
    targets: dict[str, list[str]], way: str, client: str, kind: str
) -> None:
    step = TASKS[kind]
    saw = visit(client, [step, step], targets[way])

    assert saw["declared"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert saw["supports"]["everything__simulate-research-query"] == "required"
    assert saw["supports"]["everything__echo"] in (None, "forbidden")
    assert saw["supports"]["new__brew_only"] == saw["supports"]["new__echo"] == "optional"
    (asked,) = saw["asked"]
    assert asked["_meta"][RELATED]["taskId"] == saw["created"]["taskId"]
    text = "\n".join(block["text"] for block in saw["result"]["content"])
    assert ANSWERS[kind] in text
    assert saw["again"]["content"] == saw["result"]["content"]
    assert saw["result"]["_meta"][RELATED]["taskId"] == saw["created"]["taskId"]
    assert saw["cancelled"]["status"] == "cancelled"
    listed = {task["taskId"]: task["status"] for task in saw["listed"]}
    assert listed[saw["created"]["taskId"]] == "completed"
    assert listed[saw["cancelled"]["taskId"]] == "cancelled"


WITHOUT = {
    "py2-modern": "stdio",
    "py2-legacy": "http",
    "ts2-modern": "http",
    "ts1-0": "http",
    "py1-12": "stdio",
}
"""Clients without tasks, and where `make test` sends them."""


@pytest.mark.parametrize(
    ("way", "client"),
    [
        pytest.param(way, client, marks=() if way == usual else pytest.mark.exhaustive)
        for way in WAYS
        for client, usual in WITHOUT.items()
    ],
)
def test_a_client_without_tasks_calls_a_tool_that_must_be_one(
    targets: dict[str, list[str]], way: str, client: str
) -> None:
    target = targets[way]
    if (way, client) == ("http", "ts1-0"):
        target = [f"{target[0]}/default/sse"]
    steps = [
        {"do": "call", "name": step["tool"], "arguments": step["arguments"]}
        for step in TASKS.values()
    ]
    saw = rig.client(client, steps, target)

    for step, kind in enumerate(TASKS):
        (result,) = rig.of(saw, "result", step)
        asked = [each["method"] for each in rig.of(saw, "asked", step)]
        questions = [method for method in asked if method != "roots/list"]
        # The oldest have no word for a question to a person.
        if client == "ts1-0":
            assert questions == []
        else:
            assert questions == ["elicitation/create"]
            assert ANSWERS[kind] in rig.text(result)
