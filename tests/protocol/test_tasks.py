"""Tasks of both eras."""

import json
from typing import Any

import pytest

from anyport.protocol.revisions import Era
from anyport.protocol.tasks import (
    POLL_SECONDS,
    POLL_SECONDS_MAX,
    POLL_SECONDS_MIN,
    Task,
    declare_tasks,
    read_create_result,
    read_related_task,
    read_task,
    related_task_meta,
    render_create_result,
    render_detailed_task,
    render_task,
    supports_tasks,
)
from anyport.wire import raw_json

NOW = "2026-01-01T00:00:00Z"
TOLD = {
    "taskId": "t",
    "status": "working",
    "createdAt": "a",
    "lastUpdatedAt": "b",
    "statusMessage": "hm",
}
LEGACY = {**TOLD, "ttl": 1000, "pollInterval": 20}
MODERN = {**TOLD, "ttlMs": 1000, "pollIntervalMs": 20}


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def read(value: Any, era: Era) -> Task:
    found = read_task(raw(value), era, NOW)
    assert found is not None
    assert found[0] == value["taskId"]
    return found[1]


def converted(task: Task, era: Era) -> Any:
    return json.loads(raw_json.encode_object(render_task(task, "t", era)))


def test_a_task_has_no_second_id_that_some_client_could_take_for_the_first() -> None:
    task = read({**MODERN, "TaskId": "other", "Vendor": 1}, Era.MODERN)

    assert converted(task, Era.MODERN) == {**MODERN, "Vendor": 1}


@pytest.mark.parametrize(("value", "era"), [(LEGACY, Era.LEGACY), (MODERN, Era.MODERN)])
def test_a_task_is_rendered_for_either_era(value: Any, era: Era) -> None:
    task = read(value, era)

    assert converted(task, Era.LEGACY) == LEGACY
    assert converted(task, Era.MODERN) == MODERN
    assert (task.poll_seconds, task.ttl_seconds, task.is_terminal) == (0.02, 1.0, False)


def test_what_a_server_left_out_is_made_up_safely() -> None:
    task = read({"taskId": "t", "status": "working"}, Era.LEGACY)

    assert converted(task, Era.LEGACY) == {
        "taskId": "t",
        "status": "working",
        "createdAt": NOW,
        "lastUpdatedAt": NOW,
        "ttl": None,
    }
    assert (task.poll_seconds, task.ttl_seconds) == (POLL_SECONDS, None)


@pytest.mark.parametrize(
    ("poll", "seconds"), [(0, POLL_SECONDS_MIN), (10**9, POLL_SECONDS_MAX), ("x", POLL_SECONDS)]
)
def test_no_server_is_asked_all_the_time_or_never(poll: Any, seconds: float) -> None:
    assert read({**LEGACY, "pollInterval": poll}, Era.LEGACY).poll_seconds == seconds


@pytest.mark.parametrize(
    "value", [5, {}, {"taskId": 5, "status": "working"}, {"taskId": "t", "status": "odd"}]
)
def test_what_is_no_task_is_none(value: Any) -> None:
    assert read_task(raw(value), Era.LEGACY, NOW) is None


def test_a_task_result_is_recognized() -> None:
    assert read_create_result(raw({"task": LEGACY}), Era.LEGACY, NOW) is not None
    assert read_create_result(raw({"content": []}), Era.LEGACY, NOW) is None
    assert read_create_result(raw({**MODERN, "resultType": "task"}), Era.MODERN, NOW) is not None
    assert read_create_result(raw({**MODERN, "resultType": "complete"}), Era.MODERN, NOW) is None
    assert read_create_result(b"5", Era.MODERN, NOW) is None


def test_a_new_task_is_wrapped_in_a_session_and_flat_without() -> None:
    task = read(MODERN, Era.MODERN)

    assert json.loads(render_create_result(task, "t", Era.LEGACY)) == {"task": LEGACY}
    assert json.loads(render_create_result(task, "t", Era.MODERN)) == {
        "resultType": "task",
        **MODERN,
    }


@pytest.mark.parametrize("era", list(Era))
def test_meta_of_a_new_task_is_passed_on_without_the_servers_id(era: Era) -> None:
    about = {
        "io.modelcontextprotocol/model-immediate-response": "soon",
        "io.modelcontextprotocol/related-task": {"taskId": "native"},
        "io.modelcontextprotocol/serverInfo": {"name": "s"},
    }
    task = read(MODERN, Era.MODERN)

    def about_of(value: Any) -> Any:
        return json.loads(render_create_result(task, "t", era, raw(value))).get("_meta")

    assert about_of({"_meta": about}) == {
        "io.modelcontextprotocol/model-immediate-response": "soon"
    }
    del about["io.modelcontextprotocol/model-immediate-response"]
    for value in ({"_meta": about}, {"_meta": None}, {}):
        assert about_of(value) is None


def test_unknown_members_of_tasks_are_passed_on() -> None:
    task = read({**LEGACY, "vendor": {"a": 1}, "_meta": {"b": 1}, "ttlMs": 7}, Era.LEGACY)

    assert converted(task, Era.LEGACY) == {**LEGACY, "vendor": {"a": 1}}
    assert converted(task, Era.MODERN) == {**MODERN, "vendor": {"a": 1}}


def test_times_that_are_no_texts_are_not_passed_on() -> None:
    task = read({**LEGACY, "createdAt": 5, "lastUpdatedAt": None}, Era.LEGACY)

    assert (task.created, task.updated) == (
        raw_json.encode_string(NOW),
        raw_json.encode_string(NOW),
    )


@pytest.mark.parametrize(
    ("status", "name", "value"),
    [
        ("input_required", "inputRequests", {"k": {"method": "roots/list"}}),
        ("completed", "result", {"content": []}),
        ("failed", "error", {"code": -1, "message": "m"}),
    ],
)
def test_a_whole_task_says_what_it_waits_for_or_has_come_to(
    status: str, name: str, value: Any
) -> None:
    whole = {**MODERN, "status": status, name: value}

    assert json.loads(render_detailed_task(read(whole, Era.MODERN), "t")) == whole


def test_the_failure_of_a_tool_is_that_of_its_task_only_in_a_session() -> None:
    whole = {**MODERN, "status": "completed", "result": {"content": [], "isError": True}}
    task = read(whole, Era.MODERN)

    assert converted(task, Era.LEGACY)["status"] == "failed"
    assert converted(task, Era.MODERN)["status"] == "completed"


def test_the_extension_is_declared_beside_what_is_declared_already() -> None:
    caps: dict[str, Any] = {"sampling": {}, "extensions": {"a/b": {}}}
    key = "io.modelcontextprotocol/clientCapabilities"

    declared = json.loads(declare_tasks(raw({"_meta": {key: caps}})))["_meta"][key]

    assert declared == {
        "sampling": {},
        "extensions": {"a/b": {}, "io.modelcontextprotocol/tasks": {}},
    }


@pytest.mark.parametrize(
    ("value", "offers"),
    [
        ({"requests": {"tools": {"call": {}}}}, True),
        ({"requests": {"tools": {}}}, False),
        ({"list": {}}, False),
        (5, False),
    ],
)
def test_task_support_is_read_from_nested_capabilities(value: Any, offers: bool) -> None:
    assert supports_tasks(raw_json.members(raw({"tasks": value})).get("tasks")) is offers


def test_a_message_says_to_which_task_it_belongs() -> None:
    about = {key: json.loads(value) for key, value in related_task_meta("t").items()}

    assert read_related_task(raw({"_meta": about})) == "t"
    for other in (None, b"{}", raw({"_meta": {"io.modelcontextprotocol/related-task": 5}})):
        assert read_related_task(other) is None
