"""Tasks over HTTP: who owns them, and which stream carries what."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.driver import EVERYTHING, KEY, Json
from tests.peers.http_driver import HttpDemo, Response, Session

ABLE: Json = {**EVERYTHING, "extensions": {f"{KEY}tasks": {}}}
ANSWER = {"action": "accept", "content": {"sugar": True}}


@pytest.fixture(scope="module")
def demo() -> Iterator[HttpDemo]:
    with HttpDemo("--tasks") as demo:
        yield demo


def begin(session: Session, **arguments: Any) -> str:
    params = {"name": "brew", "arguments": arguments, "task": {}}
    identity: str = session.result("tools/call", params)["task"]["taskId"]
    return identity


def ask(demo: HttpDemo, method: str, headers: Json | None = None, /, **params: Any) -> Response:
    return demo.ask_modern(method, params, headers, clientCapabilities=ABLE)


def test_a_task_belongs_to_its_session(demo: HttpDemo) -> None:
    mine, yours = Session(demo), Session(demo)
    task = begin(mine, hold=True)

    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert yours.request(method, {"taskId": task}).message()["error"]["code"] == -32602
    assert yours.result("tasks/list")["tasks"] == []
    assert [each["taskId"] for each in mine.result("tasks/list")["tasks"]] == [task]
    assert mine.result("tasks/get", {"taskId": task})["status"] == "working"


def test_the_question_comes_on_the_stream_of_the_result(demo: HttpDemo) -> None:
    session = Session(demo, capabilities=EVERYTHING)
    task = begin(session, ask=True)
    news = session.get()

    waiting = session.request("tasks/result", {"taskId": task})
    question = waiting.wait_method("elicitation/create")
    session.reply(question["id"], ANSWER)

    result = waiting.message()["result"]
    assert json.loads(result["content"][1]["text"]) == ANSWER
    heard = [news.wait_method("notifications/tasks/status")["params"] for _ in range(3)]
    assert [each["status"] for each in heard] == ["input_required", "working", "completed"]


def test_where_there_are_no_streams_a_task_cannot_ask() -> None:
    with HttpDemo("--tasks", "--json-only") as demo:
        session = Session(demo, capabilities=EVERYTHING)

        result = session.result("tasks/result", {"taskId": begin(session, ask=True)})

        assert "no stream" in result["content"][0]["text"]


def test_without_a_session_a_task_belongs_to_whoever_knows_its_id(demo: HttpDemo) -> None:
    created = ask(demo, "tools/call", name="brew", arguments={"cups": 2}).message()["result"]
    task = created["taskId"]

    first, last = [ask(demo, "tasks/get", taskId=task).message()["result"] for _ in range(2)]

    assert (first["status"], last["status"]) == ("working", "completed")
    session = Session(demo)
    assert session.request("tasks/get", {"taskId": task}).message()["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@pytest.mark.parametrize("name", [None, "another"])
def test_the_header_names_the_task(demo: HttpDemo, method: str, name: str | None) -> None:
    created = ask(demo, "tools/call", name="brew", arguments={"hold": True}).message()["result"]
    params = {"taskId": created["taskId"], "inputResponses": {}}

    refused = ask(demo, method, {"Mcp-Name": name}, **params)
    taken = ask(demo, method, **params)

    assert (refused.status, refused.message()["error"]["code"]) == (400, -32020)
    assert (taken.status, taken.message()["result"]["resultType"]) == (200, "complete")


def test_a_subscription_hears_of_what_others_do_to_the_task(demo: HttpDemo) -> None:
    created = ask(demo, "tools/call", name="brew", arguments={"hold": True}).message()["result"]
    task = created["taskId"]
    stream = ask(demo, "subscriptions/listen", notifications={"taskIds": [task]})
    acknowledged = stream.wait_method("notifications/subscriptions/acknowledged")
    assert acknowledged["params"]["notifications"] == {"taskIds": [task]}

    ask(demo, "tasks/cancel", taskId=task)

    told = stream.wait_method("notifications/tasks")["params"]
    assert (told["taskId"], told["status"]) == (task, "cancelled")
