"""`anyport doctor`."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyport.cli.commands.doctor import choose_servers
from anyport.cli.doctor.listener import ListenAddress
from anyport.cli.exit_codes import WrongUsage
from anyport.config.model import Config, UnknownProfile
from tests.cli.doctor.facts import config, server
from tests.cli.running import running
from tests.cli.stage import Ran, Stage
from tests.harness import WAIT_SECONDS
from tests.real import rig

ROOT = Path(__file__).parents[3]
AREAS = ["runtime", "configuration", "servers", "listening", "state", "clients"]


@pytest.fixture(autouse=True)
def no_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without the files of clients."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens on the usual port, whoever else uses this machine."""

    async def look(config: Config, environ: object) -> ListenAddress:
        return ListenAddress(url="http://127.0.0.1:8640", occupant="free")

    monkeypatch.setattr("anyport.cli.doctor.listener.probe_listener", look)


def found(ran: Ran, area: str) -> dict[str, Any]:
    """What was found in an area, by its code."""
    section = next(each for each in ran.json["sections"] if each["name"] == area)
    return {finding["code"]: finding for finding in section["findings"]}


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("free")
def test_with_nothing_at_all_it_looks_at_the_demonstration(stage: Stage) -> None:
    ran = stage.run("doctor")

    assert ran.code == 0
    heads = [line.split()[1] for line in ran.out.splitlines() if line[:1] not in (" ", "")][:-1]
    assert heads == AREAS
    assert "1 of 1 starts; 5 tools" in ran.out
    assert "\x1b" not in ran.out


def test_servers_that_work_and_one_that_does_not(stage: Stage) -> None:
    stage.configure(broken={"command": str(stage.folder / "absent")})

    ran = stage.run("doctor", "--json")

    assert ran.code == 1
    assert not ran.json["ok"]
    assert [section["name"] for section in ran.json["sections"]] == AREAS
    assert found(ran, "servers")["no-start"]["about"] == "broken"
    measured = ran.json["servers"]["tiny"]
    assert (measured["condition"], measured["tools"], measured["era"]) == ("running", 8, "legacy")
    assert ran.json["servers"]["broken"]["condition"] == "failed"


@pytest.mark.usefixtures("free")
def test_only_the_server_that_is_named_is_started(stage: Stage) -> None:
    stage.configure(broken={"command": str(stage.folder / "absent")})

    ran = stage.run("doctor", "--json", "--server", "tiny")

    assert list(ran.json["servers"]) == ["tiny"]
    assert ran.code == 0


def test_a_server_that_does_not_exist_is_wrong_usage(stage: Stage) -> None:
    stage.configure()

    ran = stage.run("doctor", "--server", "tinny")

    assert (ran.code, ran.out) == (2, "")
    assert "did you mean tiny?" in ran.err
    assert stage.run("doctor", "--profile", "nope").code == 2


def test_a_broken_configuration_is_a_finding_like_others(stage: Stage) -> None:
    (stage.folder / "anyport.json").write_text(
        '{"mcpServers": {"a": {"comand": "x"}}, "gatway": 1}'
    )

    ran = stage.run("doctor", "--json")

    assert ran.code == 1
    assert found(ran, "configuration")["fault"]["what"].startswith(
        f"{stage.folder}/anyport.json:1:"
    )
    assert found(ran, "servers").keys() == {"passed-over"}
    assert found(ran, "state")["directory"]["level"] == "ok"


def test_secrets_are_never_shown(stage: Stage) -> None:
    text = "import os, sys; sys.exit('cannot log in with ' + os.environ['API_KEY'])"
    stage.configure(
        dies={
            "command": sys.executable,
            "args": ["-c", text, "--password=open-sesame-2"],
            "env": {"API_KEY": "open-sesame"},
        },
        away={"url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "open-sesame-3"}},
    )

    for argv in (["doctor", "-v"], ["doctor", "--json"]):
        ran = stage.run(*argv)
        assert "cannot log in with [redacted]" in ran.out
        assert "sesame" not in ran.out + ran.err


@pytest.mark.usefixtures("free")
def test_the_state_of_others_is_only_read(stage: Stage) -> None:
    stage.configure()
    assert stage.run("call", "tiny__say", "text=hello").code == 0
    assert stage.run("events").code == 0
    before = content(stage.state)
    assert before

    assert stage.run("doctor").code == 0

    assert content(stage.state) == before


@pytest.mark.slow
def test_a_gateway_that_runs_is_found_and_not_disturbed(stage: Stage, no_clients: Path) -> None:
    file = stage.configure()
    with running("--config", str(file), "--state-dir", str(stage.state)) as there:
        address = there.url.removeprefix("http://")
        document = json.loads(file.read_text()) | {"gateway": {"listen": address}}
        file.write_text(json.dumps(document))
        (no_clients / ".cursor").mkdir()
        entry = {"anyport": {"url": f"{there.url}/mcp"}}
        (no_clients / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": entry}))

        ran = stage.run("doctor", "--json")

        assert found(ran, "listening")["address"]["what"] == "an Anyport gateway listens there"
        assert found(ran, "clients")["entry"]["about"] == "Cursor: anyport"
        assert ran.code == 0
        assert there.get("/readyz") == (200, {"status": "ok"})


@pytest.mark.slow
def test_an_interrupt_ends_it_and_the_servers(stage: Stage) -> None:
    hangs = stage.folder / "hangs.py"
    hangs.write_text("import os, sys\nopen('pid', 'w').write(str(os.getpid()))\nsys.stdin.read()\n")
    stage.configure(
        hangs={"command": sys.executable, "args": [str(hangs)], "cwd": str(stage.folder)}
    )
    command = [sys.executable, "-m", "anyport", "doctor", "--server", "hangs"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stderr is not None
        assert b"waiting for hangs" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((stage.folder / "pid").read_text()), 0)


@pytest.mark.real
@pytest.mark.usefixtures("free")
def test_real_servers_of_both_eras_are_well(stage: Stage) -> None:
    names = ("everything", "filesystem", "memory", "time", "old_python", "modern_python")
    lines = {name: rig.server(name, stage.folder / name) for name in names}
    (stage.folder / "filesystem").mkdir()
    stage.configure(
        **{name: {"command": line[0], "args": line[1:]} for name, line in lines.items()}
    )

    ran = stage.run("doctor", "--json")

    assert ran.code == 0, ran.out
    eras = {name: each["era"] for name, each in ran.json["servers"].items()}
    assert (eras["everything"], eras["modern-python"]) == ("legacy", "modern")
    assert all(each["tools"] for each in ran.json["servers"].values())


def test_every_code_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "commands" / "doctor.md").read_text("utf-8")
    for module in (ROOT / "src" / "anyport" / "cli" / "doctor").glob("*.py"):
        for code in re.findall(r'code="([a-z-]+)"', module.read_text("utf-8")):
            assert f"`{code}`" in page, (module.name, code)


def test_servers_are_chosen_by_profile_and_by_name() -> None:
    from_file = config(server("one"), server("two"))

    assert choose_servers(from_file, None, ()) == ("one", "two")
    assert choose_servers(from_file, "default", ("two",)) == ("two",)
    with pytest.raises(WrongUsage, match="there is no server 'three'"):
        choose_servers(from_file, None, ("three",))
    with pytest.raises(UnknownProfile):
        choose_servers(from_file, "dev", ())
