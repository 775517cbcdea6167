"""Tasks of the modern extension."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.driver import EVERYTHING, KEY, Demo, Json

EXTENSION = f"{KEY}tasks"
ABLE: Json = {**EVERYTHING, "extensions": {EXTENSION: {}}}
REQUIRED: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
ANSWER = {"action": "accept", "content": {"sugar": False}}
MEMBERS = {
    *("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs"),
    *("pollIntervalMs", "resultType", "_meta"),
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Demo]:
    with Demo("--tasks") as demo:
        yield demo


@pytest.fixture
def demo(shared: Demo) -> Demo:
    """One server serves all: each test looks only at the tasks it began."""
    shared.seen.clear()
    return shared


def ask(demo: Demo, method: str, capabilities: Json = ABLE, /, **params: Any) -> Json:
    return demo.ask_modern(method, params, capabilities)


def begin(demo: Demo, tool: str = "brew", capabilities: Json = ABLE, /, **given: object) -> str:
    result = ask(demo, "tools/call", capabilities, name=tool, arguments=given)["result"]
    assert (result["resultType"], result["status"]) == ("task", "working")
    assert result.keys() == MEMBERS
    identity: str = result["taskId"]
    return identity


def look(demo: Demo, task: str) -> Json:
    result: Json = ask(demo, "tasks/get", taskId=task)["result"]
    assert (result["resultType"], result["taskId"]) == ("complete", task)
    return result


def test_the_extension_is_declared_and_tools_say_nothing_of_it(demo: Demo) -> None:
    discovered = ask(demo, "server/discover")["result"]
    tools = ask(demo, "tools/list")["result"]["tools"]

    assert discovered["capabilities"]["extensions"] == {EXTENSION: {}}
    assert {"brew", "brew_only"} <= {tool["name"] for tool in tools}
    assert not any("execution" in tool for tool in tools)


def test_without_the_option_there_is_no_such_extension() -> None:
    with Demo() as demo:
        assert "extensions" not in ask(demo, "server/discover")["result"]["capabilities"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert ask(demo, method, taskId="t")["error"]["code"] == -32601
        wanted = {"taskIds": ["t"]}
        demo.request_modern("subscriptions/listen", {"notifications": wanted})
        acknowledged = demo.wait_for_method("notifications/subscriptions/acknowledged")
        assert acknowledged["params"]["notifications"] == {}


@pytest.mark.parametrize("tool", ["brew", "brew_only"])
def test_each_look_takes_it_a_step_further(demo: Demo, tool: str) -> None:
    task = begin(demo, tool, cups=2)

    first, last, again = look(demo, task), look(demo, task), look(demo, task)

    assert (first["status"], set(first)) == ("working", MEMBERS)
    assert (last["status"], set(last)) == ("completed", {*MEMBERS, "result"})
    assert last["result"] == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "2 of 2 cups"}],
    }
    assert again == last


def test_other_tools_never_become_tasks(demo: Demo) -> None:
    result = ask(demo, "tools/call", name="echo", arguments={"text": "x"})["result"]

    assert result["resultType"] == "complete"


def test_a_tool_that_must_be_a_task_needs_a_client_that_knows_them(demo: Demo) -> None:
    error = ask(demo, "tools/call", EVERYTHING, name="brew_only")["error"]

    assert (error["code"], error["data"]) == (-32021, REQUIRED)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_only_those_who_declare_tasks_may_touch_them(demo: Demo, method: str) -> None:
    task = begin(demo, hold=True)

    error = ask(demo, method, EVERYTHING, taskId=task, inputResponses={})["error"]

    assert (error["code"], error["data"]) == (-32021, REQUIRED)
    assert look(demo, task)["status"] == "working"


def test_the_methods_of_the_other_revision_are_gone(demo: Demo) -> None:
    for method in ("tasks/result", "tasks/list"):
        assert ask(demo, method, taskId="t")["error"]["code"] == -32601


def test_a_tool_that_fails_completes_its_task(demo: Demo) -> None:
    looked = look(demo, begin(demo, fail=True))

    assert (looked["status"], looked["result"]["isError"]) == ("completed", True)


def test_a_task_that_breaks_holds_its_error(demo: Demo) -> None:
    looked = look(demo, begin(demo, broken=True))

    assert (looked["status"], set(looked)) == ("failed", {*MEMBERS, "error"})
    assert looked["error"] == {"code": 4002, "message": "The kettle broke", "data": {"cups": 1}}


def test_the_question_is_part_of_the_task_until_it_is_answered(demo: Demo) -> None:
    task = begin(demo, ask=True, cups=2)
    asked, again = look(demo, task), look(demo, task)
    assert (asked["status"], set(asked)) == ("input_required", {*MEMBERS, "inputRequests"})
    assert again == asked
    assert asked["inputRequests"]["sugar"]["method"] == "elicitation/create"

    for answers in ({}, {"salt": ANSWER}, {"sugar": "yes"}):
        ack = ask(demo, "tasks/update", taskId=task, inputResponses=answers)["result"]
        assert (ack["resultType"], set(ack)) == ("complete", {"resultType", "_meta"})
        assert look(demo, task)["status"] == "input_required"
    answers = {"sugar": ANSWER, "salt": {}}
    ask(demo, "tasks/update", taskId=task, inputResponses=answers)
    late = {"sugar": {"action": "decline"}}
    assert "result" in ask(demo, "tasks/update", taskId=task, inputResponses=late)

    looked = look(demo, task)
    assert looked["status"] == "completed"
    assert json.loads(looked["result"]["content"][1]["text"]) == ANSWER


def test_a_client_that_cannot_be_asked_has_a_task_that_failed(demo: Demo) -> None:
    task = begin(demo, "brew", {"extensions": {EXTENSION: {}}}, ask=True)

    looked = look(demo, task)

    assert (looked["status"], looked["error"]["code"]) == ("failed", -32021)
    needed: Json = {"requiredCapabilities": {"elicitation": {"form": {}}}}
    assert looked["error"]["data"] == needed


def test_a_cancellation_is_acknowledged_whatever_comes_of_it(demo: Demo) -> None:
    held, done = begin(demo, hold=True), begin(demo)
    look(demo, done)

    for task in (held, held, done):
        ack = ask(demo, "tasks/cancel", taskId=task)["result"]
        assert ack.keys() == {"resultType", "_meta"}

    looked = look(demo, held)
    assert (looked["status"], set(looked)) == ("cancelled", MEMBERS)
    assert look(demo, done)["status"] == "completed"


def listen(demo: Demo, wanted: Json, capabilities: Json = ABLE) -> int:
    return demo.request_modern("subscriptions/listen", {"notifications": wanted}, capabilities)


def test_a_subscription_tells_what_a_look_would_show() -> None:
    with Demo("--tasks") as demo:
        task, other = begin(demo, ask=True), begin(demo, hold=True)
        stream = listen(demo, {"taskIds": [task, "unheard of", task], "toolsListChanged": True})
        acknowledged = demo.wait_for_method("notifications/subscriptions/acknowledged")
        assert acknowledged["params"]["notifications"] == {
            "toolsListChanged": True,
            "taskIds": [task],
        }

        looked = [look(demo, task)]
        ask(demo, "tasks/update", taskId=task, inputResponses={"sugar": ANSWER})
        looked.append(look(demo, task))
        ask(demo, "tasks/cancel", taskId=other)
        assert demo.finish() == 0

        told = [m["params"] for m in demo.seen if m.get("method") == "notifications/tasks"]
        assert [params["status"] for params in told] == ["input_required", "working", "completed"]
        assert all(params["_meta"] == {f"{KEY}subscriptionId": stream} for params in told)
        for shown, params in zip(looked, [told[0], told[2]], strict=True):
            strip = {"_meta", "resultType"}
            assert {k: v for k, v in shown.items() if k not in strip} == {
                k: v for k, v in params.items() if k not in strip
            }


def test_only_those_who_declare_tasks_may_listen_for_them(demo: Demo) -> None:
    refused = demo.answer_to(listen(demo, {"taskIds": []}, EVERYTHING))["error"]

    assert (refused["code"], refused["data"]) == (-32021, REQUIRED)
    for nonsense in ("t", [1], None):
        assert demo.answer_to(listen(demo, {"taskIds": nonsense}))["error"]["code"] == -32602
