"""Clients of the official SDKs whose gateway is replaced or dies: their sessions go on."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import write_config
from tests.real import rig
from tests.real.conftest import chosen
from tests.rig.takeovers import LEGACY, activated, takeovers

pytestmark = pytest.mark.real

CLIENTS: Final = ("py1", "py2-legacy", "ts1", "ts2-legacy")
COUNTER: Final = "demo://counter"
CHANGED: Final = "notifications/tools/list_changed"
UPDATED: Final = "notifications/resources/updated"
STEPS: Final[list[rig.Step]] = [
    {"do": "subscribe", "uri": COUNTER},
    # Nothing has changed; so it is told by the gateway with which it goes on.
    {"do": "wait", "method": CHANGED},
    {"do": "call", "name": "s__touch"},
    {"do": "wait", "method": UPDATED, "uri": COUNTER},
    {"do": "call", "name": "s__elicit"},
]


def visit(client: str, port: int, restart: Callable[[], Any]) -> list[rig.Observation]:
    """What a client sees whose gateway is restarted when it has subscribed."""
    target = f"http://127.0.0.1:{port}/mcp"
    command = [*rig.client_command(client), "--steps", json.dumps(STEPS), "--", target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        seen = []
        try:
            for line in running.stdout:
                seen.append(json.loads(line))
                if (seen[-1]["saw"], seen[-1]["step"]) == ("result", 0):
                    restart()
        finally:
            running.kill()
    return seen


def check(seen: list[rig.Observation]) -> None:
    assert [each["method"] for each in rig.of(seen, "waited")] == [CHANGED, UPDATED], seen
    assert [each["method"] for each in rig.of(seen, "asked", 4)] == ["elicitation/create"]
    assert "canned" in rig.text(rig.of(seen, "result", 4)[0])
    assert rig.of(seen, "error") == []
    assert seen[-1]["saw"] == "closed"


@pytest.mark.parametrize("client", chosen(CLIENTS, "py1", "ts2-legacy"))
def test_a_client_whose_gateway_is_replaced_goes_on(client: str, tmp_path: Path) -> None:
    with takeovers(tmp_path, {"s": LEGACY}) as running:
        check(visit(client, running.port, running.upgrade))


@pytest.mark.parametrize("client", chosen(CLIENTS, "py2-legacy", "ts1"))
def test_a_client_whose_gateway_dies_goes_on_with_the_next(client: str, tmp_path: Path) -> None:
    with kept(tmp_path) as (port, restart):
        check(visit(client, port, restart))


@contextmanager
def kept(folder: Path) -> Iterator[tuple[int, Callable[[], None]]]:
    """A gateway at an address that stays open when it dies; its port, and how to have that."""
    config = write_config(folder, {"s": LEGACY})
    argv = ("--config", str(config), "--state-dir", str(folder / "state"))
    with socket.create_server(("127.0.0.1", 0)) as address:
        running = [activated(address, *argv)]

        def restart() -> None:
            running[-1].kill()
            running[-1].wait()
            running.append(activated(address, *argv))

        try:
            yield address.getsockname()[1], restart
        finally:
            for each in running:
                each.kill()
                each.wait()
