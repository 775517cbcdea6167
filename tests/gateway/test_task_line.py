"""What servers of either era are asked about their tasks, and what becomes of their answers."""

import asyncio
import json
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.protocol.revision import Era
from anyport.protocol.task import Task
from anyport.upstream.call import Lost
from anyport.upstream.parting import BROKEN
from anyport.wire.frame import Failure
from tests.gateway.fakes import LEGACY, MODERN
from tests.gateway.tasking import (
    BOTH,
    ERAS,
    ME,
    Tasked,
    alongside,
    given_up,
    handle_at,
    line,
    task_of,
    told,
)
from tests.upstream.fakes import peer_of, run, say, until


@BOTH
def test_a_look_asks_under_the_servers_own_id(era: Era) -> None:
    async def scene() -> None:
        server = Tasked(ERAS[era])
        handle = handle_at(server)

        seen = await alongside(line().look(handle, ME), server.tells("working", statusMessage="m"))

        assert handle.task is seen
        assert (seen.status, seen.message) == ("working", b'"m"')
        (request,) = server.requests
        assert request["params"]["taskId"] == "native"
        about = request["params"].get("_meta", {})
        declared = about.get("io.modelcontextprotocol/clientCapabilities", {})
        assert ("extensions" in declared) == (era is Era.MODERN)

    run(scene)


def test_what_is_over_is_not_looked_at_again() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        handle = handle_at(server)
        over = server.tells("completed", result={"content": []})
        await alongside(line().look(handle, ME), over)

        assert (await line().whole(handle, ME)) is handle.task
        assert len(server.requests) == 1

    run(scene)


def test_a_task_that_was_over_when_it_began_is_asked_what_has_come_of_it() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        handle = handle_at(server)
        handle.task = task_of(Era.MODERN, "completed")
        over = server.tells("completed", result={"content": []})

        seen = await alongside(line().look(handle, ME), over)

        assert seen.result == b'{"content": []}'
        assert await line().look(handle, ME) is seen

    run(scene)


@BOTH
@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"result": {"taskId": "other", "status": "working"}}, "no task, or with another"),
        ({"result": {}}, "no task, or with another"),
        ({"result": 5}, "not an object"),
    ],
)
def test_what_is_no_task_is_the_servers_fault(era: Era, outcome: Any, words: str) -> None:
    async def scene() -> None:
        server = Tasked(ERAS[era])
        handle = handle_at(server)

        seen = await alongside(line().look(handle, ME), server.answers("tasks/get", **outcome))

        assert isinstance(seen, Lost)
        assert (seen.situation, words in seen.reason) == (Situation.MISBEHAVED, True)
        assert handle.task.status == "working"

    run(scene)


@BOTH
def test_a_refusal_is_passed_on_as_it_is(era: Era) -> None:
    async def scene() -> None:
        server = Tasked(ERAS[era])
        error = {"code": -32602, "message": "gone"}
        refused = server.answers("tasks/get", error=error)

        seen = await alongside(line().look(handle_at(server), ME), refused)

        assert isinstance(seen, Failure)
        assert json.loads(seen.error) == error

    run(scene)


@BOTH
def test_a_server_that_goes_away_meanwhile_is_lost(era: Era) -> None:
    async def scene() -> None:
        server = Tasked(ERAS[era])

        async def goes() -> None:
            await server.asked("tasks/get")
            server.connection.end("it exited")

        seen = await alongside(line().look(handle_at(server), ME), goes())

        assert seen == BROKEN.sent("it exited")

    run(scene)


def test_a_modern_server_that_is_down_says_why() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        server.down = "it is broken"

        assert await line().look(handle_at(server), ME) == Lost("it is broken")

    run(scene)


def test_a_session_that_has_ended_is_not_opened_again_for_its_tasks() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)
        handle = handle_at(server)
        handle.connection = None

        seen = await line().look(handle, ME)
        assert isinstance(seen, Lost)
        assert "session" in seen.reason
        handle.connection = server.connection
        server.connection.over = "it is about to go"
        assert await line().look(handle, ME) == seen
        assert server.leased == []

    run(scene)


def test_a_server_that_has_not_finished_its_handshake_is_not_asked() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        server.connection.peer = None

        assert await line().look(handle_at(server), ME) == Lost("it is starting")

    run(scene)


def test_a_server_that_came_back_in_another_era_knows_nothing_of_the_task() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        handle = handle_at(server)
        server.connection.peer = peer_of(LEGACY)

        seen = await line().look(handle, ME)

        assert isinstance(seen, Lost)
        assert "another revision" in seen.reason
        assert server.requests == []

    run(scene)


@BOTH
def test_a_server_that_does_not_answer_is_not_waited_for(era: Era) -> None:
    async def scene() -> None:
        server = Tasked(ERAS[era], timeout_seconds=0.01)

        seen = await line().look(handle_at(server), ME)

        assert seen == Lost("0.01s", Situation.TIMED_OUT)
        assert server.notices == ["notifications/cancelled"]

    run(scene)


def test_a_server_that_is_still_starting_is_not_waited_for_either() -> None:
    async def scene() -> None:
        server = Tasked(MODERN, timeout_seconds=0.01)
        server.waiting = []

        assert await line().look(handle_at(server), ME) == Lost("0.01s", Situation.TIMED_OUT)
        server.waiting[0](server.connection)  # Too late, and it does no harm.

    run(scene)


def test_a_queue_that_is_full_is_said_at_once() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        server.channel.full = True

        seen = await line().look(handle_at(server), ME)

        assert isinstance(seen, Lost)
        assert seen.situation is Situation.BUSY

    run(scene)


def test_who_no_longer_wants_to_know_has_the_server_told() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(line().look(handle_at(server), ME))
            await server.asked("tasks/get")
            looking.cancel()
            await given_up(looking)

        assert server.notices == ["notifications/cancelled"]

    run(scene)


# Answers and cancelling.


def test_answers_are_brought_to_a_modern_server() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        handle = handle_at(server)
        update = line().update(handle, ME, b'{"k":{"action":"decline"}}')

        async with asyncio.TaskGroup() as group:
            brought = group.create_task(update)
            params = await server.answers("tasks/update", result={})

        assert brought.result() is None
        assert params["inputResponses"] == {"k": {"action": "decline"}}
        refused = server.answers("tasks/update", error={"code": 1, "message": "no"})
        failed = await alongside(line().update(handle, ME, b"{}"), refused)
        assert isinstance(failed, Failure)

    run(scene)


@pytest.mark.parametrize("answer", [told(Era.LEGACY, "cancelled", statusMessage="done"), {}])
def test_a_sessions_task_is_cancelled_from_then_on(answer: Any) -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)
        handle = handle_at(server)
        said = server.answers("tasks/cancel", result=answer)

        assert await alongside(line().cancel(handle, ME), said) is None
        assert handle.task.status == "cancelled"
        assert handle.task.message == (b'"done"' if answer else None)

    run(scene)


def test_whether_a_modern_servers_task_is_cancelled_only_its_state_tells() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        handle = handle_at(server)
        said = server.answers("tasks/cancel", result={})

        assert await alongside(line().cancel(handle, ME), said) is None
        assert handle.task.status == "working"

    run(scene)


@BOTH
def test_a_task_that_cannot_be_cancelled_goes_on(era: Era) -> None:
    async def scene() -> None:
        server = Tasked(ERAS[era])
        handle = handle_at(server)
        said = server.answers("tasks/cancel", error={"code": -32602, "message": "no"})

        assert isinstance(await alongside(line().cancel(handle, ME), said), Failure)
        assert handle.task.status == "working"

    run(scene)


def test_a_look_that_comes_late_does_not_bring_a_cancelled_task_back() -> None:
    async def scene() -> None:
        server = Tasked(LEGACY)
        handle = handle_at(server)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(line().look(handle, ME))
            late = await server.asked("tasks/get")
            cancelling = group.create_task(line().cancel(handle, ME))
            await server.answers("tasks/cancel", result=told(Era.LEGACY, "cancelled"))
            await until(cancelling.done)
            say(server.connection, id=late["id"], result=told(Era.LEGACY))

        seen = looking.result()
        assert isinstance(seen, Task)
        assert seen.status == handle.task.status == "cancelled"

    run(scene)
