"""What is recorded of tasks: the call that began one, every look at it, and how it ended."""

import json
from collections.abc import Iterator

import pytest

from tests.harness import DEMO, Message
from tests.journeys.capture_clients import ROWS, RecordReader, texts
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.task_clients import brew, ended, legacy, modern

BACKS = ("new", "old")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    servers = {
        "new": [*DEMO, "--tasks", "--modern-only"],
        "old": [*DEMO, "--tasks", "--legacy-only"],
        "hidden": {
            "command": DEMO[0],
            "args": [*DEMO[1:], "--tasks", "--modern-only"],
            "capture": "off",
        },
    }
    path = tmp_path_factory.mktemp("tasks")
    with serving(path, servers, record={"capture": "full"}) as site:
        modern(site).request("tools/list")
        yield site


@pytest.fixture
def book(tasks: HttpGateway) -> RecordReader:
    book = RecordReader(tasks.state)
    book.turn()
    return book


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("back", BACKS)
def test_a_call_that_becomes_a_task_and_each_look_at_it_are_rows(
    tasks: HttpGateway, book: RecordReader, back: str, era: str
) -> None:
    client = modern(tasks) if era == "modern" else legacy(tasks)
    book.turn()
    made = brew(client, f"{back}__brew_only", cups=3)["result"]
    id = made.get("taskId") or made["task"]["taskId"]
    ended(client, id)

    call, *looks = book.rows()
    about = call["metadata"]
    assert (call["event_type"], about["server"], about["tool"]) == (
        *("gateway.tool_call", back),
        "brew_only",
    )
    assert about.get("outcome", "ok") == "ok"
    answer = book.payloads(call)[-1]
    assert json.loads(bytes(answer.payload or b"")) == made
    assert len(looks) >= 1
    for look in looks:
        assert look["event_type"] == "gateway.exchange"
        assert (look["metadata"]["method"], look["metadata"]["server"]) == ("tasks/get", back)
    # What the gateway asks the server for that is its own.
    own = [event for event in book.events() if event["event_type"] in ROWS]
    asked = [event["metadata"] for event in own if "profile" not in event["metadata"]]
    assert {each["server"] for each in asked} == {back}
    assert "tasks/get" in {each["method"] for each in asked}


@pytest.mark.parametrize("back", BACKS)
def test_a_task_that_the_gateway_waits_for_is_one_row_with_all_its_answers(
    tasks: HttpGateway, book: RecordReader, back: str
) -> None:
    client = legacy(tasks, "2025-06-18")
    book.turn()
    made = client.call(f"{back}__brew_only", {"cups": 2})["result"]

    row = book.row("tools/call")
    about = row["metadata"]
    assert about.get("outcome", "ok") == "ok"
    assert about.get("queue_ms", 0.0) + about["server_ms"] <= row["duration_ms"]
    insisted = ["response tools/call", "request tools/call"] if back == "new" else []
    assert texts(row) == [*insisted, "response tools/call"]
    *_, created, final, answer = book.payloads(row)
    assert b"taskId" in bytes(created.payload or b"")
    assert b"taskId" not in bytes(final.payload or b"")
    assert json.loads(bytes(answer.payload or b"")) == made


def test_what_is_asked_about_the_tasks_of_a_server_is_recorded_as_the_server_is(
    tasks: HttpGateway, book: RecordReader
) -> None:
    client = modern(tasks)
    made: Message = brew(client, "hidden__brew", cups=2)["result"]
    ended(client, made["taskId"])

    assert {event["event_type"] for event in book.events()} == {"gateway.tool_call"}
    files = (tasks.state / "payloads").glob("*/*.jsonl")
    assert made["taskId"].encode() not in b"".join(file.read_bytes() for file in files)
