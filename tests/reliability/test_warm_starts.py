"""What is known of servers before they run: listed from the start, started on first use."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import DEMO, read_events
from tests.journeys.clients import ModernClient, SessionClient, names
from tests.journeys.http_gateway import serving
from tests.journeys.scripts import (
    Scripted,
    eventually,
    gateway,
    note,
    result,
    rule,
    said,
    text,
    tools,
)
from tests.rig.idle_servers import (
    ELICITATION,
    FORM_ANSWER,
    IDLE_SECONDS,
    backend,
    events,
    lazily,
    wait_for,
)
from tests.rig.small_servers import MINIMAL, python, tool_names
from tests.rig.small_servers import status as status_of
from tests.upstream.processes import marked, new_mark


@pytest.mark.slow
def test_after_a_restart_tools_are_listed_and_the_first_call_starts_the_server(
    tmp_path: Path,
) -> None:
    server = Scripted(tmp_path / "server", tools("work"), rule("tools/call", result(text("done"))))
    servers = {"it": lazily(server.command)}
    with gateway(tmp_path, servers) as client:
        client.initialize()
        assert tool_names(client) == {"it__work"}, "it is started once, to learn what it offers"
        assert client.finish() == 0
    learned = server.starts

    with gateway(tmp_path, servers) as client:
        client.initialize()
        assert tool_names(client) == {"it__work"}
        assert tool_names(client) == {"it__work"}
        report = status_of(client)["backends"]["it"]
        assert server.starts == learned, "nobody has used it"
        assert (report["status"], report["list"]) == ("idle", "last known")
        assert report["reason"] == "not started yet: it is started on first use"
        assert (report["tool_count"], report["last_error"], report["pid"]) == (1, None, None)

        assert said(client.call("it__work")) == "done"

        assert status_of(client)["backends"]["it"]["status"] == "running"
        assert server.starts > learned
        assert client.finish() == 0
    stopped = events(tmp_path / "state", "gateway.backend_stopped", "it")
    assert len(stopped) == 2


@pytest.mark.slow
def test_a_server_that_was_never_used_was_never_there(tmp_path: Path) -> None:
    server = Scripted(tmp_path / "server", tools("work"))
    servers = {"it": lazily(server.command)}
    with gateway(tmp_path, servers) as client:
        client.initialize()
        tool_names(client)
        client.finish()
    before = len(read_events(tmp_path / "state"))

    with gateway(tmp_path, servers) as client:
        client.initialize()
        assert tool_names(client) == {"it__work"}
        client.finish()

    noted = [event["event_type"] for event in read_events(tmp_path / "state")[before:]]
    assert "gateway.backend_started" not in noted
    assert "gateway.backend_stopped" not in noted
    for command in (["tools"], ["status"], ["why", "it__work"]):
        told = anyport(tmp_path, *command)
        assert "it" in told
        assert "is not running" not in told
    assert server.starts == 1, "to look at it is not to use it"
    assert anyport(tmp_path, "call", "it__work", expect=1)
    assert server.starts > 1


def anyport(tmp_path: Path, *argv: str, expect: int = 0) -> str:
    """Run a command with the configuration and the state of the gateways here; all it says."""
    where = ("--config", tmp_path / "anyport.json", "--state-dir", tmp_path / "state")
    done = subprocess.run(
        [sys.executable, "-m", "anyport", *argv, *map(str, where)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("era", ["--legacy-only", "--modern-only"])
def test_a_gateway_for_many_is_there_with_all_tools_and_no_process(
    tmp_path: Path, era: str
) -> None:
    mark = new_mark()
    servers = {"it": lazily([*DEMO, era], env={"MARK": mark}, idleSeconds=IDLE_SECONDS)}
    with serving(tmp_path, servers) as site:
        known = names(SessionClient(site))
        assert "it__echo" in known
    eventually(lambda: marked(mark) == set(), "no process")

    with serving(tmp_path, servers) as site:
        clients: list[SessionClient | ModernClient] = [
            SessionClient(site),
            ModernClient(site),
            SessionClient(site, "2024-11-05"),
        ]
        for client in clients:
            assert sorted(names(client)) == sorted(known)
        assert marked(mark) == set(), "clients have come, and nobody has used it"
        assert backend(clients[0], "it")["status"] == "idle"

        for client in clients:
            assert said(client.call("it__echo", {"text": "hello"})) == "hello"
            wait_for(client, "it", "idle")
            assert sorted(names(client)) == sorted(known)
        eventually(lambda: marked(mark) == set(), "no process")
        idle = events(site.state, "gateway.backend_idle", "it")
        assert idle[-1]["metadata"] == {"server": "it", "seconds": IDLE_SECONDS}
        started = events(site.state, "gateway.backend_started", "it")
        assert len(started) >= len(clients)
        assert events(site.state, "gateway.backend_failed", "it") == []


@pytest.mark.slow
def test_a_session_is_asked_by_a_server_that_its_call_has_started(tmp_path: Path) -> None:
    servers = {"it": lazily([*DEMO, "--legacy-only"])}
    with gateway(tmp_path, servers) as client:
        client.initialize(capabilities=ELICITATION)
        tool_names(client)
        client.finish()

    with gateway(tmp_path, servers) as client:
        client.initialize(capabilities=ELICITATION)
        assert "it__elicit" in tool_names(client)
        assert status_of(client)["backends"]["it"]["status"] == "idle"
        call = client.start("tools/call", {"name": "it__elicit", "arguments": {}})
        asked = client.wait_method("elicitation/create")
        client.send({"jsonrpc": "2.0", "id": asked["id"], "result": FORM_ANSWER})
        assert "Ada" in said(client.answer(call))


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"tools":{"tools":[]},"complete":7}', b"\xff" * 99]
)
def test_a_damaged_memory_of_a_server_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    server = Scripted(tmp_path / "server", tools("work"))
    servers = {"it": lazily(server.command)}
    with gateway(tmp_path, servers) as client:
        client.initialize()
        tool_names(client)
        client.finish()
    (file,) = (tmp_path / "state" / "lists").iterdir()
    whole = json.loads(file.read_bytes())
    file.write_bytes(damage)

    with gateway(tmp_path, servers) as client:
        client.initialize()
        assert tool_names(client) == {"it__work"}
        client.finish()

    assert json.loads(file.read_bytes()) == whole, "in whatever order its lists were read"


@pytest.mark.slow
def test_what_was_another_server_before_is_not_shown(tmp_path: Path) -> None:
    one = Scripted(tmp_path / "one", tools("first"))
    two = Scripted(tmp_path / "two", tools("second"))
    for server, tool in ((one, "it__first"), (two, "it__second"), (one, "it__first")):
        with gateway(tmp_path, {"it": lazily(server.command)}) as client:
            client.initialize()
            assert tool_names(client) == {tool}
            client.finish()
    assert (one.starts, two.starts) == (1, 1), "each is known by what it is"


@pytest.mark.slow
def test_what_changed_meanwhile_is_told_when_the_server_is_started(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    listed = note("notifications/tools/list_changed")
    before = Scripted(folder, tools("work"), rule("tools/call", result(text("done")), listed))
    servers: Mapping[str, Any] = {"it": lazily(before.command)}
    with gateway(tmp_path, servers) as client:
        client.initialize()
        tool_names(client)
        client.finish()
    Scripted(folder, tools("work", "play"), rule("tools/call", result(text("done"))))

    with gateway(tmp_path, servers) as client:
        client.initialize()
        assert tool_names(client) == {"it__work"}
        assert said(client.call("it__work")) == "done"
        client.wait_method("notifications/tools/list_changed")
        assert tool_names(client) == {"it__work", "it__play"}


SHY: Final = (
    MINIMAL
    + """
names = ["plain"]
greet = shake_hands

def shake_hands(message):
    names.extend(["asking"] if "elicitation" in message["params"]["capabilities"] else [])
    greet(message)

serve(names, lambda message: say(message, "here"))
"""
)
"""A server that shows one of its tools only to those whom it may ask."""


@pytest.mark.slow
def test_what_only_those_see_who_can_be_asked_is_remembered_as_that(tmp_path: Path) -> None:
    servers = {"it": lazily(python(SHY))}
    with serving(tmp_path, servers) as site:
        assert {"it__plain", "it__asking"} <= set(
            names(SessionClient(site, capabilities=ELICITATION))
        )

    with serving(tmp_path, servers) as site:
        assert "it__asking" in names(SessionClient(site, capabilities=ELICITATION))
        others = SessionClient(site)
        assert "it__plain" in names(others)
        assert "it__asking" not in names(others)
        assert backend(others, "it")["status"] == "idle"
