"""A real server that speaks both eras is spoken to in that of the client that calls."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import running
from tests.harness import write_config
from tests.real import rig
from tests.real.conftest import LIST_SECONDS, chosen

pytestmark = pytest.mark.real

TOOLS = ("sample", "elicit", "roots", "log", "fail")
STEPS: list[dict[str, Any]] = [
    {"do": "list", "what": "tools"},
    *({"do": "call", "name": f"pushing__{tool}", "arguments": {}} for tool in TOOLS),
    {"do": "wait", "method": "notifications/message"},
]


def check(seen: Sequence[rig.Observation]) -> None:
    at = {tool: step for step, tool in enumerate(TOOLS, start=1)}

    def said(tool: str) -> str:
        (result,) = rig.of(seen, "result", at[tool])
        return rig.text(result)

    assert said("sample") == "canned sample", seen
    assert said("elicit") == "accept"
    assert said("roots") == "file:///tmp/canned"
    assert said("log") == "2025-11-25"
    asked = [each["method"] for each in rig.of(seen, "asked")]
    assert asked == ["sampling/createMessage", "elicitation/create", "roots/list"]
    logs = [each["params"]["data"] for each in rig.of(seen, "notified")]
    assert "logged" in logs, "nobody has set a level"
    (failed,) = rig.of(seen, "error", at["fail"])
    assert (failed["code"], failed["message"]) == (-32050, "canned failure")


CLIENTS = ("py1", "ts1")


@pytest.mark.parametrize("client", chosen(CLIENTS, "py1"))
def test_what_it_does_in_sessions_reaches_a_legacy_client_on_stdio(
    tmp_path: Path, client: str
) -> None:
    config = write_config(
        tmp_path, {"pushing": rig.pushing()}, gateway={"listSeconds": LIST_SECONDS}
    )
    command = [sys.executable, "-m", "anyport", "stdio", "--config", str(config)]
    check(rig.client(client, STEPS, [*command, "--state-dir", str(tmp_path / "state")]))


@pytest.mark.parametrize("client", chosen(CLIENTS, "ts1"))
def test_what_it_does_in_sessions_reaches_a_legacy_client_over_http(
    tmp_path: Path, client: str
) -> None:
    config = write_config(
        tmp_path, {"pushing": rig.pushing()}, gateway={"listSeconds": LIST_SECONDS}
    )
    arguments = ("--config", str(config), "--state-dir", str(tmp_path / "state"))
    with running(*arguments) as gateway:
        check(rig.client(client, STEPS, [f"{gateway.url}/mcp"]))
