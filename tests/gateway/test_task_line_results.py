"""What has come of a session's task, and how long somebody waits for that."""

import json
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.call import Lost
from anyport.upstream.parting import BROKEN
from anyport.wire.frame import Failure
from tests.gateway.fakes import LEGACY
from tests.gateway.tasking import ME, Tasked, alongside, handle_at, line
from tests.upstream.fakes import run


def test_a_session_tells_what_has_come_of_a_task_when_it_is_asked_for_that() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)
        handle = handle_at(server)

        async def play() -> None:
            await server.tells("completed")
            await server.answers("tasks/result", result={"content": ["x"]})

        seen = await alongside(line().whole(handle, ME), play())

        assert (seen.status, json.loads(seen.result)) == ("completed", {"content": ["x"]})
        assert await line().result(handle, ME) is seen
        assert len(server.requests) == 2

    run(scene)


def test_a_tool_that_failed_in_a_session_has_a_result_all_the_same() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)

        async def play() -> None:
            await server.tells("failed")
            await server.answers("tasks/result", result={"content": [], "isError": True})

        seen = await alongside(line().whole(handle_at(server), ME), play())

        assert (seen.status, json.loads(seen.result)["isError"]) == ("completed", True)

    run(scene)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_the_error_of_a_result_is_the_tasks_if_the_task_has_failed(status: str) -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)
        handle = handle_at(server)
        error = {"code": 4002, "message": "broke"}

        async def play() -> None:
            await server.answers("tasks/result", error=error)
            await server.tells(status)

        seen = await alongside(line().result(handle, ME), play())

        assert (seen.status, json.loads(seen.error)) == (status, error)
        assert handle.settled

    run(scene)


@pytest.mark.parametrize(
    ("status", "more", "error"),
    [
        ("failed", {"statusMessage": "broke"}, {"code": -32603, "message": "broke"}),
        ("failed", {}, {"code": -32603, "message": "The task failed"}),
        ("cancelled", {}, None),
    ],
)
def test_what_is_no_result_of_a_tool_is_none_if_the_task_has_failed(
    status: str, more: dict[str, str], error: Any
) -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)
        handle = handle_at(server)

        async def play() -> None:
            await server.answers("tasks/result", result={"_meta": {}})
            await server.tells(status, **more)

        seen = await alongside(line().result(handle, ME), play())

        assert (seen.status, seen.result) == (status, None)
        assert (seen.error and json.loads(seen.error)) == error
        assert handle.settled

    run(scene)


def test_and_otherwise_it_is_what_the_server_has_for_a_result() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)

        async def play() -> None:
            await server.answers("tasks/result", result={"structuredContent": {"a": 1}})
            await server.tells("completed")

        seen = await alongside(line().result(handle_at(server), ME), play())

        assert (seen.status, json.loads(seen.result)) == (
            "completed",
            {"structuredContent": {"a": 1}},
        )

    run(scene)


@pytest.mark.parametrize("status", ["working", "completed"])
def test_and_otherwise_it_is_the_error_of_the_question(status: str) -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)

        async def play() -> None:
            await server.answers("tasks/result", error={"code": -32603, "message": "busy"})
            await server.tells(status)

        seen = await alongside(line().result(handle_at(server), ME), play())

        assert isinstance(seen, Failure)
        assert json.loads(seen.error)["message"] == "busy"

    run(scene)


def test_who_waits_for_a_result_waits_only_so_long() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY, timeout_seconds=0.001)

        seen = await line().result(handle_at(server), ME, 0.02)

        assert seen == Lost("0.02s", Situation.TIMED_OUT)
        assert server.notices == ["notifications/cancelled"]

    run(scene)


def test_a_server_that_goes_away_while_a_result_is_waited_for_is_lost() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)

        async def goes() -> None:
            await server.asked("tasks/result")
            server.connection.end("it exited")

        seen = await alongside(line().result(handle_at(server), ME), goes())

        assert seen == BROKEN.sent("it exited")

    run(scene)


def test_on_a_connection_of_others_a_task_is_looked_at_until_it_is_over() -> None:
    """A request that waits would take one of the places for open calls, perhaps for an hour."""

    async def scene() -> None:
        server = Tasked(LEGACY)
        handle = handle_at(server, shared=True)

        async def play() -> None:
            await server.tells("working")
            await server.tells("working")
            await server.tells("completed")
            await server.answers("tasks/result", result={"content": []})

        seen = await alongside(line().result(handle, ME), play())

        assert (seen.status, seen.result) == ("completed", b'{"content": []}')

    run(scene)


@pytest.mark.parametrize("status", ["cancelled", "input_required"])
def test_there_a_task_that_is_cancelled_has_no_result_and_one_that_waits_is_asked_for_it(
    status: str,
) -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)

        async def play() -> None:
            await server.tells(status)
            if status == "input_required":
                # What it asks is refused there, and so it goes on.
                await server.answers("tasks/result", result={"content": []})

        seen = await alongside(line().result(handle_at(server, shared=True), ME), play())

        assert seen.status == ("cancelled" if status == "cancelled" else "completed")

    run(scene)


def test_there_a_server_that_does_not_answer_is_lost() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY, timeout_seconds=0.01)

        seen = await line().result(handle_at(server, shared=True), ME)

        assert seen == Lost("0.01s", Situation.TIMED_OUT)

    run(scene)
