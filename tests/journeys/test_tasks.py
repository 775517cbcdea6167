"""Work that goes on after its request was answered, for clients and servers of either era."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, Message
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import said
from tests.journeys.task_clients import (
    ABLE,
    BACKS,
    RELATED,
    SWEET,
    TASKS,
    brew,
    ended,
    legacy,
    look,
    modern,
    site_with_tasks,
    wait_status,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    with site_with_tasks(tmp_path_factory.mktemp("tasks")) as there:
        yield there


# Modern clients.


@pytest.mark.parametrize("server", BACKS)
def test_a_modern_client_gets_a_task_and_in_the_end_its_result(
    site: HttpGateway, server: str
) -> None:
    client = modern(site)

    made = brew(client, f"{server}__brew_only", cups=2)["result"]
    assert made["resultType"] == "task"
    assert {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"} <= made.keys()
    task = ended(client, made["taskId"])

    assert task["resultType"] == "complete"
    assert task["status"] == "completed"
    assert "cup" in said(task)
    assert look(client, made["taskId"])["result"] == task["result"]


@pytest.mark.parametrize("server", BACKS)
def test_a_modern_client_answers_what_a_task_waits_for(site: HttpGateway, server: str) -> None:
    client = modern(site, **ABLE)
    id = brew(client, f"{server}__brew_only", cups=2, ask=True)["result"]["taskId"]

    task = wait_status(client, id, "input_required")
    ((key, entry),) = task["inputRequests"].items()
    assert entry["method"] == "elicitation/create"
    assert "_meta" not in entry["params"]
    update = {"taskId": id, "inputResponses": {key: SWEET, "unknown": SWEET}}
    assert client.request("tasks/update", update)["result"]["resultType"] == "complete"

    told = ended(client, id)["result"]["content"][1]["text"]
    assert json.loads(told) == SWEET


@pytest.mark.parametrize("server", BACKS)
@pytest.mark.parametrize(
    ("how", "status"), [("fail", "completed"), ("broken", "failed")], ids=["fails", "breaks"]
)
def test_a_modern_client_is_told_failures_of_tools_from_those_of_requests(
    site: HttpGateway, server: str, how: str, status: str
) -> None:
    client = modern(site)
    id = brew(client, f"{server}__brew_only", cups=1, **{how: True})["result"]["taskId"]
    task = ended(client, id)

    assert task["status"] == status
    assert task["result"]["isError"] if status == "completed" else task["error"]["code"]


@pytest.mark.parametrize("server", BACKS)
def test_a_modern_client_cancels_a_task(site: HttpGateway, server: str) -> None:
    client = modern(site)
    id = brew(client, f"{server}__brew_only", hold=True)["result"]["taskId"]
    assert look(client, id)["status"] == "working"

    assert client.request("tasks/cancel", {"taskId": id})["result"]["resultType"] == "complete"

    assert ended(client, id)["status"] == "cancelled"


@pytest.mark.parametrize("server", BACKS)
def test_a_client_that_takes_no_tasks_gets_the_result_as_if_there_were_none(
    site: HttpGateway, server: str
) -> None:
    for client in (modern(site, tasks=False), legacy(site, "2025-06-18")):
        answer = brew(client, f"{server}__brew_only", cups=2)

        assert "task" not in answer["result"]
        assert RELATED not in answer["result"].get("_meta", {})
        assert "cup" in said(answer)


@pytest.mark.parametrize("server", BACKS)
def test_a_client_that_takes_no_tasks_is_asked_what_the_task_waits_for(
    site: HttpGateway, server: str
) -> None:
    call = {"name": f"{server}__brew_only", "arguments": {"cups": 2, "ask": True}}
    client = modern(site, tasks=False, **ABLE)
    waiting = client.request("tools/call", call)["result"]
    assert waiting["resultType"] == "input_required"
    answers = dict.fromkeys(waiting["inputRequests"], SWEET)
    again = {**call, "inputResponses": answers, "requestState": waiting["requestState"]}
    result = client.request("tools/call", again)["result"]
    assert json.loads(result["content"][1]["text"]) == SWEET

    session = legacy(site, "2025-06-18", elicitation={})
    running = session.start("tools/call", call)
    asked = running.wait_method("elicitation/create")
    assert "_meta" not in asked["params"]
    session.reply(asked, SWEET)
    assert json.loads(running.ending()["result"]["content"][1]["text"]) == SWEET


# Clients with a session.


@pytest.mark.parametrize("server", BACKS)
def test_the_client_of_a_session_gets_a_task_and_in_the_end_its_result(
    site: HttpGateway, server: str
) -> None:
    client = legacy(site)

    made = brew(client, f"{server}__brew", cups=2)["result"]
    task = made["task"]
    assert {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl"} <= task.keys()
    answer = client.request("tasks/result", {"taskId": task["taskId"]})["result"]

    assert "cup" in answer["content"][0]["text"]
    assert answer["_meta"][RELATED] == {"taskId": task["taskId"]}
    assert "resultType" not in answer
    assert ended(client, task["taskId"])["status"] == "completed"
    listed = client.request("tasks/list")["result"]["tasks"]
    assert task["taskId"] in [each["taskId"] for each in listed]


@pytest.mark.parametrize("server", BACKS)
def test_the_client_of_a_session_is_asked_while_it_waits_for_the_result(
    site: HttpGateway, server: str
) -> None:
    client = legacy(site, **ABLE)
    id = brew(client, f"{server}__brew", cups=2, ask=True)["result"]["task"]["taskId"]

    waiting = client.start("tasks/result", {"taskId": id})
    asked = next(m for m in waiting.messages() if m.get("method") == "elicitation/create")
    assert asked["params"]["_meta"][RELATED] == {"taskId": id}
    client.reply(asked, SWEET)

    assert json.loads(waiting.ending()["result"]["content"][1]["text"]) == SWEET


@pytest.mark.parametrize("server", BACKS)
def test_in_a_session_the_failure_of_a_tool_is_that_of_its_task(
    site: HttpGateway, server: str
) -> None:
    client = legacy(site)
    id = brew(client, f"{server}__brew", fail=True)["result"]["task"]["taskId"]

    assert client.request("tasks/result", {"taskId": id})["result"]["isError"] is True
    assert ended(client, id)["status"] == "failed"


@pytest.mark.parametrize("server", BACKS)
def test_in_a_session_a_task_is_cancelled_at_once_and_once(site: HttpGateway, server: str) -> None:
    client = legacy(site)
    id = brew(client, f"{server}__brew", hold=True)["result"]["task"]["taskId"]

    assert client.request("tasks/cancel", {"taskId": id})["result"]["status"] == "cancelled"
    assert look(client, id)["status"] == "cancelled"
    assert client.request("tasks/cancel", {"taskId": id})["error"]["code"] == -32602


def test_a_tool_that_is_no_task_refuses_to_be_one(site: HttpGateway) -> None:
    client = legacy(site)
    for tool in ("old__echo", "plain__echo"):
        params = {"name": tool, "arguments": {"text": "x"}, "task": {}}

        assert client.request("tools/call", params)["error"]["code"] == -32601


# Whose tasks they are.


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_client_that_does_not_declare_tasks_may_not_ask_about_them(
    site: HttpGateway, method: str
) -> None:
    id = brew(modern(site), "new__brew")["result"]["taskId"]
    params = {"taskId": id, "inputResponses": {}}

    error = modern(site, tasks=False).request(method, params)["error"]

    assert error["code"] == -32021
    assert error["data"]["requiredCapabilities"] == {"extensions": {TASKS: {}}}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_an_id_that_was_never_given_is_not_found(site: HttpGateway, method: str) -> None:
    client = modern(site)
    id = brew(client, "new__brew", hold=True)["result"]["taskId"]

    for wrong in ("made-up", id[:-1], id + "A", id[:-1] + ("A" if id[-1] != "A" else "B")):
        error = client.request(method, {"taskId": wrong, "inputResponses": {}})["error"]
        assert (error["code"], error["message"][:14]) == (-32602, "Task not found")


def test_both_eras_are_told_that_there_are_tasks(site: HttpGateway) -> None:
    declared = legacy(site).opened["capabilities"]
    assert declared["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    discovered = modern(site).request("server/discover")["result"]["capabilities"]
    assert TASKS in discovered["extensions"]
    assert "tasks" not in legacy(site, "2025-06-18").opened["capabilities"]


@pytest.mark.parametrize("server", BACKS)
def test_a_modern_client_listens_for_a_task(site: HttpGateway, server: str) -> None:
    client = modern(site)
    id = brew(client, f"{server}__brew_only", hold=True)["result"]["taskId"]
    stream = client.listen(taskIds=[id, "made-up"])
    messages = stream.messages()
    assert next(messages)["params"]["notifications"]["taskIds"] == [id]

    client.request("tasks/cancel", {"taskId": id})

    told = next(m for m in messages if m["method"] == "notifications/tasks")["params"]
    assert (told["taskId"], told["status"]) == (id, "cancelled")
    stream.close()


# A server that is shown as it is, to clients of the other era.


def as_it_is(server: str) -> Message:
    return {"default": {"servers": [server], "transparent": True}}


def test_a_session_is_told_of_the_tasks_of_a_modern_server_in_its_own_words(
    tmp_path: Path,
) -> None:
    servers = {"new": [*DEMO, "--tasks", "--modern-only"]}
    with serving(tmp_path, servers, profiles=as_it_is("new")) as site:
        client = legacy(site)
        declared = client.opened["capabilities"]
        assert declared["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        assert "extensions" not in declared
        made = brew(client, "brew_only", cups=2)["result"]["task"]
        ended(client, made["taskId"])
        result = client.request("tasks/result", {"taskId": made["taskId"]})
        assert "cup" in said(result)

        # No revision before it has tasks, and none has the extension.
        before: Any = legacy(site, "2025-06-18").opened["capabilities"]
        assert not before.keys() & {"tasks", "extensions"}


def test_a_modern_client_is_told_of_the_tasks_of_a_session_in_its_own_words(
    tmp_path: Path,
) -> None:
    servers = {"old": [*DEMO, "--tasks", "--legacy-only"]}
    with serving(tmp_path, servers, profiles=as_it_is("old")) as site:
        client = modern(site)
        declared = client.request("server/discover")["result"]["capabilities"]
        assert declared["extensions"] == {TASKS: {}}
        assert "tasks" not in declared
        client.request("tools/list")
        made = brew(client, "brew_only", cups=2)["result"]
        assert made["resultType"] == "task"
        assert "cup" in said(ended(client, made["taskId"]))
