"""Servers, really started."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from anyport.cli.doctoring.examination import Examination, alone, examine
from anyport.config.load import load
from anyport.config.schema import Config
from anyport.protocol.method import Kind
from tests.cli.stage import tiny_entry

ODD = """
import json, sys
print("Starting up...", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "odd", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "one", "inputSchema": {"type": "object"}}, {}]}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""


def configured(folder: Path, **servers: Any) -> Config:
    file = folder / "anyport.json"
    everything = {
        "mcpServers": servers,
        "hooks": [{"name": "all", "on": "type:gateway.started", "run": ["touch", "told"]}],
        "record": {"anchor": str(folder / "anchor"), "capture": "full"},
    }
    file.write_text(json.dumps(everything))
    return load([file], {})


def examined(config: Config, *slugs: str, seconds_max: float = 20.0) -> Examination:
    return asyncio.run(examine(config, slugs or tuple(config.servers), seconds_max=seconds_max))


def script(text: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", "-c", text], "protocol": "legacy"}


def test_a_server_is_started_listed_and_stopped(tmp_path: Path) -> None:
    found = examined(configured(tmp_path, tiny=tiny_entry(tmp_path / "notes")))

    tiny = found.servers["tiny"]
    assert tiny.condition == "running"
    assert tiny.revision is not None
    assert tiny.revision.name == "2025-11-25"
    assert tiny.count(Kind.TOOLS) == 8
    assert tiny.started_seconds is not None
    assert tiny.listed_seconds is not None
    assert tiny.started_seconds <= tiny.listed_seconds
    assert "tiny__add" in {entry.public for entry in found.tools["default"]}


def test_servers_fail_side_by_side_each_with_its_reason(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        odd=script(ODD),
        dies=script("import sys; sys.exit('no database')"),
        gone={"command": str(tmp_path / "absent")},
    )

    servers = examined(config).servers

    assert servers["odd"].condition == "running"
    assert (servers["odd"].noise_count, servers["odd"].noise) == (1, "Starting up...")
    assert servers["odd"].warnings == ("1 of its tools cannot be used",)
    assert servers["dies"].condition == "failed"
    assert servers["dies"].stderr == ("no database",)
    assert servers["dies"].reason is not None
    assert "exit code 1" in servers["dies"].reason
    assert servers["gone"].condition == "failed"


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    config = configured(tmp_path, hangs=script("import sys; sys.stdin.read()"))

    found = examined(config, seconds_max=0.2)

    assert found.servers["hangs"].condition == "starting"
    assert found.servers["hangs"].started_seconds is None


def test_only_those_that_are_asked_for_are_started(tmp_path: Path) -> None:
    tiny = tiny_entry(tmp_path / "notes")
    config = configured(tmp_path, one=tiny, two=tiny)

    assert set(examined(config, "two").servers) == {"two"}
    assert asyncio.run(examine(config, ())) == Examination()


def test_nobody_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    config = configured(tmp_path, tiny=tiny_entry(tmp_path / "notes"))

    examined(config)

    assert [path.name for path in tmp_path.iterdir()] == ["anyport.json"]


def test_a_server_that_would_wait_for_its_first_use_is_started_now(tmp_path: Path) -> None:
    lazy = tiny_entry(tmp_path / "notes") | {"start": "first-use", "idleSeconds": 1}
    config = configured(tmp_path, lazy=lazy)

    (server,) = alone(config, ["lazy"]).servers.values()

    assert (server.start, server.idle_seconds) == ("eager", 0.0)
    assert examined(config).servers["lazy"].condition == "running"
