"""Tasks of revision 2025-11-25."""

import json
from collections.abc import Iterator

import pytest

from tests.peers.driver import EVERYTHING, KEY, Demo, Json

RELATED = f"{KEY}related-task"
ANSWER = {"action": "accept", "content": {"sugar": False}}


@pytest.fixture(scope="module")
def shared() -> Iterator[Demo]:
    with Demo("--tasks") as demo:
        demo.handshake("2025-11-25", EVERYTHING)
        yield demo


@pytest.fixture
def demo(shared: Demo) -> Demo:
    """One session serves all: each test looks only at the tasks it began."""
    shared.seen.clear()
    return shared


def begin(demo: Demo, tool: str = "brew", /, **arguments: object) -> str:
    params = {"name": tool, "arguments": arguments, "task": {}}
    identity: str = demo.ask("tools/call", params)["result"]["task"]["taskId"]
    return identity


def status(demo: Demo, task: str) -> str:
    word: str = demo.ask("tasks/get", {"taskId": task})["result"]["status"]
    return word


def told(demo: Demo, task: str) -> list[str]:
    """What the session was notified of so far."""
    method = "notifications/tasks/status"
    heard = [m["params"] for m in demo.seen if m.get("method") == method]
    return [params["status"] for params in heard if params["taskId"] == task]


def answer(demo: Demo, question: Json) -> None:
    demo.send({"jsonrpc": "2.0", "id": question["id"], "result": ANSWER})


def test_what_there_is_for_tasks_is_declared() -> None:
    with Demo("--tasks") as demo:
        declared = demo.handshake("2025-11-25")["capabilities"]["tasks"]
        tools = demo.ask("tools/list")["result"]["tools"]

    assert declared == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    support = {t["name"]: t["execution"]["taskSupport"] for t in tools if "execution" in t}
    assert support == {"brew": "optional", "brew_only": "required"}


def test_without_the_option_a_wish_for_a_task_is_ignored() -> None:
    with Demo() as demo:
        assert "tasks" not in demo.handshake("2025-11-25")["capabilities"]
        params = {"name": "echo", "arguments": {"text": "x"}, "task": {}}

        assert demo.ask("tools/call", params)["result"]["content"][0]["text"] == "x"
        assert demo.ask("tasks/list")["error"]["code"] == -32601


def test_a_call_becomes_a_task_that_keeps_its_time(demo: Demo) -> None:
    cases: list[Json] = [{}, {"ttl": 60_000}, {"ttl": None}]
    for ttl in cases:
        result = demo.ask("tools/call", {"name": "brew_only", "task": ttl})["result"]

        task = result["task"]
        assert (task["status"], task["ttl"]) == ("working", ttl.get("ttl"))
        assert task["createdAt"] == task["lastUpdatedAt"]
        assert result["_meta"] == {f"{KEY}model-immediate-response": "The kettle is on."}
        assert len(task["taskId"]) == 32
        assert demo.ask("tasks/get", {"taskId": task["taskId"]})["result"]["ttl"] == ttl.get("ttl")


def test_a_task_whose_time_is_over_is_gone(demo: Demo) -> None:
    result = demo.ask("tools/call", {"name": "brew", "task": {"ttl": 0}})["result"]
    task = result["task"]["taskId"]

    assert demo.ask("tasks/get", {"taskId": task})["error"]["code"] == -32602
    listed = demo.ask("tasks/list")["result"]["tasks"]
    assert task not in [each["taskId"] for each in listed]


def test_a_call_that_cannot_be_what_it_wants_is_refused(demo: Demo) -> None:
    cases: list[tuple[Json, int]] = [
        ({"name": "echo", "arguments": {"text": "x"}, "task": {}}, -32601),
        ({"name": "brew_only"}, -32601),
        ({"name": "brew", "task": []}, -32602),
        ({"name": "brew", "task": {"ttl": "long"}}, -32602),
        ({"name": "brew", "task": {"ttl": -1}}, -32602),
        ({"name": "brew", "task": {"ttl": True}}, -32602),
        ({"name": "brew", "arguments": {"cups": 0}, "task": {}}, -32602),
    ]
    for params, code in cases:
        assert demo.ask("tools/call", params)["error"]["code"] == code


def test_each_look_takes_it_a_step_further(demo: Demo) -> None:
    task = begin(demo, cups=3)

    assert [status(demo, task) for _ in range(4)] == ["working", "working", *["completed"] * 2]
    assert told(demo, task) == ["completed"]


def test_who_waits_for_the_result_gets_it_as_the_tool_would_have_given_it(demo: Demo) -> None:
    task = begin(demo, cups=3)

    first, again = [demo.ask("tasks/result", {"taskId": task})["result"] for _ in range(2)]

    assert first == again
    assert first["content"] == [{"type": "text", "text": "3 of 3 cups"}]
    assert first["_meta"] == {RELATED: {"taskId": task}}
    assert told(demo, task) == ["completed"]


def test_a_tool_that_fails_makes_a_task_that_failed(demo: Demo) -> None:
    task = begin(demo, fail=True)

    result = demo.ask("tasks/result", {"taskId": task})["result"]

    assert (result["isError"], result["_meta"]) == (True, {RELATED: {"taskId": task}})
    looked = demo.ask("tasks/get", {"taskId": task})["result"]
    assert (looked["status"], looked["statusMessage"]) == ("failed", "The coffee is cold")


def test_a_task_that_breaks_gives_its_error_back(demo: Demo) -> None:
    task = begin(demo, broken=True, cups=2)

    error = demo.ask("tasks/result", {"taskId": task})["error"]

    assert error == {"code": 4002, "message": "The kettle broke", "data": {"cups": 2}}
    assert status(demo, task) == "failed"


def test_the_question_comes_while_the_client_waits_for_the_result(demo: Demo) -> None:
    task = begin(demo, ask=True, cups=2)
    assert [status(demo, task) for _ in range(2)] == ["input_required"] * 2
    assert told(demo, task) == ["input_required"]
    assert [m["method"] for m in demo.seen] == ["notifications/tasks/status"]

    waiting = demo.request("tasks/result", {"taskId": task})
    question = demo.wait_for_method("elicitation/create")
    assert question["params"]["_meta"] == {RELATED: {"taskId": task}}
    assert status(demo, task) == "input_required"
    answer(demo, question)

    result = demo.answer_to(waiting)["result"]
    assert json.loads(result["content"][1]["text"]) == ANSWER
    assert told(demo, task) == ["input_required", "working", "completed"]


def test_a_client_that_refuses_to_answer_has_a_task_that_failed(demo: Demo) -> None:
    task = begin(demo, ask=True)
    waiting = demo.request("tasks/result", {"taskId": task})
    question = demo.wait_for_method("elicitation/create")

    error = {"code": -1, "message": "User rejected"}
    demo.send({"jsonrpc": "2.0", "id": question["id"], "error": error})

    result = demo.answer_to(waiting)["result"]
    assert result["isError"] is True and "User rejected" in result["content"][0]["text"]
    assert status(demo, task) == "failed"


def test_a_client_that_cannot_be_asked_has_a_task_that_failed() -> None:
    with Demo("--tasks") as demo:
        demo.handshake("2025-11-25")
        task = begin(demo, ask=True)

        assert status(demo, task) == "failed"
        text = demo.ask("tasks/result", {"taskId": task})["result"]["content"][0]["text"]
        assert "elicitation.form" in text


def test_a_task_is_cancelled_once(demo: Demo) -> None:
    task = begin(demo, hold=True)
    assert [status(demo, task) for _ in range(2)] == ["working"] * 2

    cancelled = demo.ask("tasks/cancel", {"taskId": task})["result"]

    assert (cancelled["taskId"], cancelled["status"]) == (task, "cancelled")
    assert demo.ask("tasks/cancel", {"taskId": task})["error"]["code"] == -32602
    assert demo.ask("tasks/result", {"taskId": task})["error"]["code"] == -32800
    assert (status(demo, task), told(demo, task)) == ("cancelled", ["cancelled"])


def test_who_waits_hears_that_the_task_was_cancelled(demo: Demo) -> None:
    task = begin(demo, hold=True)
    waiting = demo.request("tasks/result", {"taskId": task})

    demo.ask("tasks/cancel", {"taskId": task})

    assert demo.answer_to(waiting)["error"]["code"] == -32800


def test_progress_is_reported_for_as_long_as_the_task_lives(demo: Demo) -> None:
    params = {"name": "brew", "arguments": {"cups": 2}, "task": {}, "_meta": {"progressToken": "p"}}
    task = demo.ask("tools/call", params)["result"]["task"]["taskId"]
    assert demo.seen == []

    demo.ask("tasks/result", {"taskId": task})

    reports = [m["params"] for m in demo.seen if m["method"] == "notifications/progress"]
    assert [(r["progressToken"], r["progress"], r["total"]) for r in reports] == [
        ("p", 1, 2),
        ("p", 2, 2),
    ]
    assert all(report["_meta"] == {RELATED: {"taskId": task}} for report in reports)


def test_tasks_are_listed_in_pages() -> None:
    with Demo("--tasks", "--page-size", "2") as demo:
        demo.handshake("2025-11-25")
        tasks = [begin(demo, hold=True) for _ in range(3)]

        first = demo.ask("tasks/list")["result"]
        second = demo.ask("tasks/list", {"cursor": first["nextCursor"]})["result"]

        listed = [task["taskId"] for page in (first, second) for task in page["tasks"]]
        assert (listed, "nextCursor" in second) == (tasks, False)
        assert demo.ask("tasks/list", {"cursor": "nonsense"})["error"]["code"] == -32602
