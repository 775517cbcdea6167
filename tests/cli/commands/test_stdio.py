"""`anyport stdio`, as a process: how it begins and how it ends."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS, LineClient, read_events

STDIO = [sys.executable, "-m", "anyport", "stdio"]

LOADED = """
import sys
from anyport.__main__ import main
code = main(["stdio"])
heavy = {"click", "rich", "sqlite3", "platformdirs", "difflib"} & set(sys.modules)
assert not heavy, heavy
sys.exit(code)
"""


def test_it_answers_and_ends_with_its_input(stage: Stage) -> None:
    stage.configure()
    client = LineClient(STDIO)
    client.initialize()

    assert client.finish() == 0
    assert client.stderr == b""
    client.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_stops_it_in_good_order(stage: Stage, number: signal.Signals, code: int) -> None:
    stage.configure()
    client = LineClient(STDIO)
    client.initialize()
    client.call("tiny__add", {"a": 1, "b": 2})

    client.process.send_signal(number)

    assert client.process.wait(WAIT_SECONDS) == code
    client.kill()
    assert client.stderr == b""
    last = read_events(stage.state)[-2:]
    assert [event["event_type"] for event in last] == ["gateway.backend_stopped", "gateway.stopped"]


def test_nothing_is_loaded_that_only_people_need(stage: Stage) -> None:
    stage.configure()
    subprocess.run([sys.executable, "-c", LOADED], stdin=subprocess.DEVNULL, check=True)


def test_a_broken_configuration_is_told_line_by_line(stage: Stage) -> None:
    (stage.folder / "anyport.toml").write_text('[gateway]\nlisten = 1\n[profile.x]\nprefix = "a"\n')

    ran = stage.run("stdio")

    assert (ran.code, ran.out) == (1, "")
    assert [line.partition(": ")[0] for line in ran.err.splitlines()] == [
        f"{stage.folder}/anyport.toml:2:10",
        f"{stage.folder}/anyport.toml:3:2",
    ]


def test_a_person_at_a_terminal_gets_the_entry_for_a_client(stage: Stage) -> None:
    file = stage.configure()

    server = entry_shown("--config", "anyport.json", "--profile", "default")

    assert server["command"] == sys.executable
    assert server["args"] == [
        *STDIO[1:], "--config", str(file), "--profile", "default",
    ]  # fmt: skip


def test_the_entry_for_a_client_has_the_command_of_the_server(stage: Stage) -> None:
    command = ["--", sys.executable, "-m", "anyport", "demo-server"]

    server = entry_shown("--transparent", *command)

    assert server["args"] == [*STDIO[1:], "--transparent", *command]


def entry_shown(*options: str) -> Any:
    """The entry that `anyport stdio` shows a person at a terminal, who then presses Ctrl-D."""
    terminal, its_end = pty.openpty()
    with subprocess.Popen([*STDIO, *options], stdin=its_end, stderr=subprocess.PIPE) as process:
        os.close(its_end)
        watchdog = threading.Timer(WAIT_SECONDS, process.kill)
        watchdog.start()
        os.write(terminal, b"\x04")  # Ctrl-D
        assert process.stderr is not None
        shown = process.stderr.read().decode()
        watchdog.cancel()
        assert process.wait(WAIT_SECONDS) == 0
    os.close(terminal)
    (entry,) = (line for line in shown.splitlines() if "mcpServers" in line)
    return json.loads(f"{{{entry}}}")["mcpServers"]["anyport"]
