"""How tasks go on, and how they end: with whoever waits, with sessions, with gateways."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.servers import STOP_SECONDS_MAX
from tests.harness import DEMO, Message, gateway
from tests.journeys.clients import META, ModernClient, SessionClient
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import said
from tests.journeys.task_clients import (
    ABLE,
    BACKS,
    RELATED,
    SWEET,
    brew,
    ended,
    legacy,
    look,
    modern,
    site_with_tasks,
    wait_status,
)
from tests.peers.http_driver import HttpDemo


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with site_with_tasks(tmp_path_factory.mktemp("tasks")) as there:
        yield there


# Progress.


@pytest.mark.parametrize("server", ["old", "http-old"])
def test_the_progress_of_a_task_is_told_under_the_token_of_its_call(
    site: HttpGateway, server: str
) -> None:
    """ "The progress token ... MUST remain valid throughout the task's lifetime"."""
    client = legacy(site, **ABLE)
    stream = client.listen()
    params = {
        "name": f"{server}__brew",
        "arguments": {"cups": 3},
        "task": {},
        "_meta": {"progressToken": "mine"},
    }
    id = client.request("tools/call", params)["result"]["task"]["taskId"]
    look(client, id)
    first = stream.wait_method("notifications/progress")["params"]
    waiting = client.start("tasks/result", {"taskId": id})
    ending = waiting.ending()
    told = [m["params"] for m in waiting.seen if m.get("method") == "notifications/progress"]

    assert "cup" in said(ending)
    assert [params["progress"] for params in (first, *told)] == [1, 2, 3]
    for params in (first, *told):
        assert params["progressToken"] == "mine"
        assert params["_meta"][RELATED] == {"taskId": id}
    stream.close()


@pytest.mark.parametrize("server", ["old", "http-old"])
def test_a_client_that_takes_no_task_hears_how_far_it_has_come(
    site: HttpGateway, server: str
) -> None:
    for client in (modern(site, tasks=False), legacy(site, "2025-06-18", **ABLE)):
        answer = client.call(f"{server}__brew_only", {"cups": 3}, progressToken="mine")

        assert "cup" in said(answer)
        told = [m["params"] for m in client.seen if m.get("method") == "notifications/progress"]
        assert [params["progress"] for params in told] == [1, 2, 3]
        assert {params["progressToken"] for params in told} == {"mine"}


# Sessions, requests and gateways that end.


@pytest.mark.parametrize("server", BACKS)
def test_who_hangs_up_while_waiting_neither_cancels_the_task_nor_loses_its_result(
    site: HttpGateway, server: str
) -> None:
    client = legacy(site, **ABLE)
    id = brew(client, f"{server}__brew", cups=2, ask=True)["result"]["task"]["taskId"]
    waiting = client.start("tasks/result", {"taskId": id})
    asked = waiting.wait_method("elicitation/create")
    event = waiting.last_id
    waiting.close()

    client.reply(asked, SWEET)
    resumed = client.listen(after=event)
    ending = next(m for m in resumed.messages() if "result" in m)

    assert json.loads(ending["result"]["content"][1]["text"]) == SWEET
    assert ended(client, id)["status"] == "completed"
    resumed.close()


@pytest.mark.parametrize("server", BACKS)
def test_who_cancels_the_waiting_does_not_cancel_the_task(site: HttpGateway, server: str) -> None:
    client = legacy(site, **ABLE)
    id = brew(client, f"{server}__brew", hold=True)["result"]["task"]["taskId"]
    waiting = client.start("tasks/result", {"taskId": id}, id="waiting")

    client.notify("notifications/cancelled", {"requestId": "waiting"})

    assert "error" in waiting.ending()
    assert look(client, id)["status"] == "working"


@pytest.mark.parametrize(("server", "status"), [("old", "failed"), ("new", "working")])
def test_the_tasks_of_a_session_end_with_it(site: HttpGateway, server: str, status: str) -> None:
    """Those of a modern server belong to whoever has the id, whatever the session."""
    first, second = legacy(site, **ABLE), legacy(site, **ABLE)
    id = brew(first, f"{server}__brew", hold=True)["result"]["task"]["taskId"]
    assert look(second, id)["status"] == "working"

    first.delete().close()

    task = wait_status(second, id, status)
    if status == "failed":
        assert "session" in task["statusMessage"]
        error = second.request("tasks/result", {"taskId": id})["error"]
        assert "session that the task belonged to has ended" in error["message"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["waited for", "absorbed", "asking"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_gateway_stops_although_tasks_go_on(tmp_path: Path, era: str, how: str) -> None:
    with gateway(tmp_path, {"d": [*DEMO, "--tasks", f"--{era}-only"]}) as client:
        client.initialize(capabilities=ABLE)
        if how == "absorbed":
            params: Message = {"name": "d__brew_only", "arguments": {"hold": True}}
            client.start("tools/call", {**params, "_meta": {"progressToken": 1}})
        else:
            waits = {"ask": True} if how == "asking" else {"hold": True}
            params = {"name": "d__brew", "arguments": waits, "task": {}}
            made = client.request("tools/call", params)["result"]["task"]
            client.start("tasks/result", {"taskId": made["taskId"]})
        if how == "asking":
            client.wait_method("elicitation/create")
        else:
            # What was sent before has been taken by then.
            client.call("d__echo", {"text": "x"})

        client.process.send_signal(signal.SIGTERM)

        assert client.process.wait(STOP_SECONDS_MAX) == 0


# What tools say of tasks.


def test_a_session_is_told_which_tools_may_be_tasks(site: HttpGateway) -> None:
    def supports(client: ModernClient | SessionClient) -> dict[str, Any]:
        tools = client.request("tools/list")["result"]["tools"]
        return {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in tools}

    told = supports(legacy(site))
    assert (told["old__brew"], told["old__brew_only"], told["old__echo"]) == (
        "optional",
        "required",
        None,
    )
    assert {told[f"new__{tool}"] for tool in ("brew", "brew_only", "echo")} == {"optional"}
    assert told["plain__echo"] is None
    for client in (modern(site), legacy(site, "2025-06-18")):
        assert set(supports(client).values()) == {None}


def test_any_tool_of_a_modern_server_may_be_a_task_of_a_session(site: HttpGateway) -> None:
    client = legacy(site)
    params = {"name": "new__echo", "arguments": {"text": "x"}, "task": {"ttl": 60_000}}
    task = client.request("tools/call", params)["result"]["task"]

    assert (task["status"], task["ttl"]) == ("completed", 60_000)
    answer = client.request("tasks/result", {"taskId": task["taskId"]})
    assert said(answer) == "x"


@pytest.mark.parametrize("server", ["old", "http-old"])
def test_what_a_model_may_say_meanwhile_is_passed_on(site: HttpGateway, server: str) -> None:
    for client in (legacy(site), modern(site)):
        made = brew(client, f"{server}__brew_only")["result"]

        assert made["_meta"][f"{META}model-immediate-response"] == "The kettle is on."


def test_a_server_that_forgets_a_session_has_forgotten_its_tasks(tmp_path: Path) -> None:
    with HttpDemo("--tasks", "--legacy-only", "--lose-sessions", "6") as forgetful:
        servers = {"s": {"url": f"http://127.0.0.1:{forgetful.port}/mcp"}}
        with serving(tmp_path, servers) as site:
            client = modern(site)
            id = brew(client, "s__brew_only", hold=True)["result"]["taskId"]
            for _ in range(20):
                task = client.request("tasks/get", {"taskId": id}).get("result", {})
                if task.get("status") == "failed":
                    break

    assert "session that the task belonged to has ended" in task["error"]["message"]
