"""Clients of either era with tasks, and a gateway before servers of either era that have them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.harness import DEMO, Message
from tests.journeys.clients import META, ModernClient, SessionClient
from tests.journeys.http_gateway import HttpGateway, serving
from tests.peers.http_driver import HttpDemo
from tests.rig.probe import eventually

TASKS: Final = f"{META}tasks"
RELATED: Final = f"{META}related-task"
ABLE: Final[Message] = {"elicitation": {"form": {}}}
BACKS: Final = ("new", "old", "http-new", "http-old")
OVER: Final = ("completed", "failed", "cancelled")
SWEET: Final[Message] = {"action": "accept", "content": {"sugar": True}}


@contextmanager
def site_with_tasks(tmp_path: Path) -> Iterator[HttpGateway]:
    """A gateway with a server of each kind that has tasks, and one that has none."""
    with HttpDemo("--tasks", "--modern-only") as new, HttpDemo("--tasks", "--legacy-only") as old:
        servers = {
            "new": [*DEMO, "--tasks", "--modern-only"],
            "old": [*DEMO, "--tasks", "--legacy-only"],
            "http-new": {"url": f"http://127.0.0.1:{new.port}/mcp"},
            "http-old": {"url": f"http://127.0.0.1:{old.port}/mcp"},
            "plain": list(DEMO),
        }
        with serving(tmp_path, servers) as there:
            yield there


def modern(site: HttpGateway, *, tasks: bool = True, **capabilities: Any) -> ModernClient:
    declared = {**capabilities, "extensions": {TASKS: {}}} if tasks else capabilities
    return ModernClient(site, **{f"{META}clientCapabilities": declared})


def legacy(site: HttpGateway, revision: str = "2025-11-25", **capabilities: Any) -> SessionClient:
    return SessionClient(site, revision, capabilities)


def brew(client: ModernClient | SessionClient, tool: str, **arguments: Any) -> Message:
    params: Message = {"name": tool, "arguments": arguments}
    if isinstance(client, SessionClient) and client.revision == "2025-11-25":
        params["task"] = {"ttl": 60_000}
    return client.request("tools/call", params)


def look(client: ModernClient | SessionClient, id: str) -> Message:
    answer = client.request("tasks/get", {"taskId": id})
    assert "result" in answer, answer
    result: Message = answer["result"]
    assert result["taskId"] == id
    return result


def ended(client: ModernClient | SessionClient, id: str) -> Message:
    return wait_status(client, id, *OVER)


def wait_status(client: ModernClient | SessionClient, id: str, *wanted: str) -> Message:
    """A task, once its status is one of these."""
    task: Message = {}

    def reached() -> bool:
        task.update(look(client, id))
        return task["status"] in wanted

    eventually(reached, f"the task is {wanted}")
    return task
