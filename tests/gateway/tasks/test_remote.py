"""What servers of either era are asked about their tasks, and what becomes of their answers."""

import asyncio
import json
from typing import Any

import pytest

from anyport.gateway.tasks import remote
from anyport.gateway.tasks.handles import TaskHandle
from anyport.gateway.tasks.remote import poll_until_done, why_not_askable
from anyport.protocol.errors import MISSING_CAPABILITY, Situation
from anyport.protocol.exchange import Caller, Failed, Question
from anyport.protocol.revisions import Era
from anyport.protocol.tasks import Task
from anyport.upstream.pending_call import BROKEN, NoAnswer
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import LEGACY, MODERN, caller
from tests.gateway.task_rig import (
    BOTH,
    ENTRY,
    ERAS,
    FORM,
    ME,
    RELATED,
    SWEET,
    TaskServer,
    alongside,
    given_up,
    handle_at,
    in_session,
    remote_tasks,
    task_of,
    told,
    without_session,
)
from tests.upstream.fakes import Message, peer_of, run, say, until


@BOTH
def test_a_look_asks_under_the_servers_own_id(era: Era) -> None:
    async def scene() -> None:
        server = TaskServer(ERAS[era])
        handle = handle_at(server)

        seen = await alongside(
            remote_tasks().get(handle, ME), server.tells("working", statusMessage="m")
        )

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
        server = TaskServer(MODERN)
        handle = handle_at(server)
        over = server.tells("completed", result={"content": []})
        await alongside(remote_tasks().get(handle, ME), over)

        assert (await remote_tasks().get_with_result(handle, ME)) is handle.task
        assert len(server.requests) == 1

    run(scene)


def test_a_task_that_was_over_when_it_began_is_asked_what_has_come_of_it() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        handle = handle_at(server)
        handle.task = task_of(Era.MODERN, "completed")
        over = server.tells("completed", result={"content": []})

        seen = await alongside(remote_tasks().get(handle, ME), over)

        assert seen.result == b'{"content": []}'
        assert await remote_tasks().get(handle, ME) is seen

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
        server = TaskServer(ERAS[era])
        handle = handle_at(server)

        seen = await alongside(
            remote_tasks().get(handle, ME), server.answers("tasks/get", **outcome)
        )

        assert isinstance(seen, NoAnswer)
        assert (seen.situation, words in seen.reason) == (Situation.MISBEHAVED, True)
        assert handle.task.status == "working"

    run(scene)


@BOTH
def test_a_refusal_is_passed_on_as_it_is(era: Era) -> None:
    async def scene() -> None:
        server = TaskServer(ERAS[era])
        error = {"code": -32602, "message": "gone"}
        refused = server.answers("tasks/get", error=error)

        seen = await alongside(remote_tasks().get(handle_at(server), ME), refused)

        assert isinstance(seen, Failure)
        assert json.loads(seen.error) == error

    run(scene)


@BOTH
def test_a_server_that_goes_away_meanwhile_is_lost(era: Era) -> None:
    async def scene() -> None:
        server = TaskServer(ERAS[era])

        async def goes() -> None:
            await server.asked("tasks/get")
            server.connection.end("it exited")

        seen = await alongside(remote_tasks().get(handle_at(server), ME), goes())

        assert seen == BROKEN.result_for_sent("it exited")

    run(scene)


def test_a_modern_server_that_is_down_says_why() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        server.down = "it is broken"

        assert await remote_tasks().get(handle_at(server), ME) == NoAnswer("it is broken")

    run(scene)


def test_a_session_that_has_ended_is_not_opened_again_for_its_tasks() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)
        handle = handle_at(server)
        handle.connection = None

        seen = await remote_tasks().get(handle, ME)
        assert isinstance(seen, NoAnswer)
        assert "session" in seen.reason
        handle.connection = server.connection
        server.connection.draining_reason = "it is about to go"
        assert await remote_tasks().get(handle, ME) == seen
        assert server.leased == []

    run(scene)


def test_a_server_that_has_not_finished_its_handshake_is_not_asked() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        server.connection.peer = None

        assert await remote_tasks().get(handle_at(server), ME) == NoAnswer("it is starting")

    run(scene)


def test_a_server_that_came_back_in_another_era_knows_nothing_of_the_task() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        handle = handle_at(server)
        server.connection.peer = peer_of(LEGACY)

        seen = await remote_tasks().get(handle, ME)

        assert isinstance(seen, NoAnswer)
        assert "another revision" in seen.reason
        assert server.requests == []

    run(scene)


@BOTH
def test_a_server_that_does_not_answer_is_not_waited_for(era: Era) -> None:
    async def scene() -> None:
        server = TaskServer(ERAS[era], timeout_seconds=0.01)

        seen = await remote_tasks().get(handle_at(server), ME)

        assert seen == NoAnswer("0.01s", Situation.TIMED_OUT)
        assert server.notices == ["notifications/cancelled"]

    run(scene)


def test_a_server_that_is_still_starting_is_not_waited_for_either() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN, timeout_seconds=0.01)
        server.waiting = []

        assert await remote_tasks().get(handle_at(server), ME) == NoAnswer(
            "0.01s", Situation.TIMED_OUT
        )
        server.waiting[0](server.connection)  # Too late, and it does no harm.

    run(scene)


def test_a_queue_that_is_full_is_said_at_once() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        server.channel.full = True

        seen = await remote_tasks().get(handle_at(server), ME)

        assert isinstance(seen, NoAnswer)
        assert seen.situation is Situation.BUSY

    run(scene)


def test_who_no_longer_wants_to_know_has_the_server_told() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(remote_tasks().get(handle_at(server), ME))
            await server.asked("tasks/get")
            looking.cancel()
            await given_up(looking)

        assert server.notices == ["notifications/cancelled"]

    run(scene)


# Answers and cancelling.


def test_answers_are_brought_to_a_modern_server() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        handle = handle_at(server)
        update = remote_tasks().update(handle, ME, b'{"k":{"action":"decline"}}')

        async with asyncio.TaskGroup() as group:
            brought = group.create_task(update)
            params = await server.answers("tasks/update", result={})

        assert brought.result() is None
        assert params["inputResponses"] == {"k": {"action": "decline"}}
        refused = server.answers("tasks/update", error={"code": 1, "message": "no"})
        failed = await alongside(remote_tasks().update(handle, ME, b"{}"), refused)
        assert isinstance(failed, Failure)

    run(scene)


@pytest.mark.parametrize("answer", [told(Era.LEGACY, "cancelled", statusMessage="done"), {}])
def test_a_sessions_task_is_cancelled_from_then_on(answer: Any) -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)
        handle = handle_at(server)
        said = server.answers("tasks/cancel", result=answer)

        assert await alongside(remote_tasks().cancel(handle, ME), said) is None
        assert handle.task.status == "cancelled"
        assert handle.task.message == (b'"done"' if answer else None)

    run(scene)


def test_whether_a_modern_servers_task_is_cancelled_only_its_state_tells() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        handle = handle_at(server)
        said = server.answers("tasks/cancel", result={})

        assert await alongside(remote_tasks().cancel(handle, ME), said) is None
        assert handle.task.status == "working"

    run(scene)


@BOTH
def test_a_task_that_cannot_be_cancelled_goes_on(era: Era) -> None:
    async def scene() -> None:
        server = TaskServer(ERAS[era])
        handle = handle_at(server)
        said = server.answers("tasks/cancel", error={"code": -32602, "message": "no"})

        assert isinstance(await alongside(remote_tasks().cancel(handle, ME), said), Failure)
        assert handle.task.status == "working"

    run(scene)


def test_a_look_that_comes_late_does_not_bring_a_cancelled_task_back() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)
        handle = handle_at(server)
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(remote_tasks().get(handle, ME))
            late = await server.asked("tasks/get")
            cancelling = group.create_task(remote_tasks().cancel(handle, ME))
            await server.answers("tasks/cancel", result=told(Era.LEGACY, "cancelled"))
            await until(cancelling.done)
            say(server.connection, id=late["id"], result=told(Era.LEGACY))

        seen = looking.result()
        assert isinstance(seen, Task)
        assert seen.status == handle.task.status == "cancelled"

    run(scene)


# A modern server's task is seen through to its end for a client that waits in a session.


SAMPLING: Message = {"method": "sampling/createMessage", "params": {"messages": []}}
URL: Message = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "m", "url": "javascript:alert(1)"},
}


class Watch:
    """Somebody waits for the result of a task."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        server: TaskServer,
        by: Caller,
        handle: TaskHandle | None = None,
    ) -> None:
        self.handle = handle or TaskHandle(
            "ours", "native", server, Era.MODERN, by, task_of(Era.MODERN)
        )
        self.questions: list[Question] = []
        line = remote_tasks()
        self.task = group.create_task(poll_until_done(line, self.handle, by, self.questions.append))

    async def question(self) -> Question:
        await until(lambda: bool(self.questions))
        return self.questions[-1]

    def seen(self) -> Any:
        return self.task.result()


ABLE, _ = in_session(elicitation={"form": {}, "url": {}}, sampling={})


def test_it_is_looked_at_until_it_is_over() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("working")
            await server.tells("input_required", inputRequests={})
            await server.tells("completed", result={"content": []})

        assert watch.seen().result == b'{"content": []}'

    run(scene)


def test_what_it_waits_for_is_asked_at_once_and_brought_at_once() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        entries = {"a": ENTRY, "b": SAMPLING}
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests=entries)
            await until(lambda: len(watch.questions) == 2)
            first, second = watch.questions
            assert json.loads(first.params or b"") == {
                **FORM,
                "_meta": {RELATED: {"taskId": "ours"}},
            }
            second.answer(Result(b"", b'{"model":"m"}'))
            first.answer(Result(b"", json.dumps(SWEET).encode()))
            brought = await server.answers("tasks/update", result={})
            # A server may take its time to notice; nobody is asked again meanwhile.
            await server.tells("input_required", inputRequests=entries)
            await server.tells("completed", result={})

        assert brought["inputResponses"] == {"a": SWEET, "b": {"model": "m"}}
        assert len(watch.questions) == 2

    run(scene)


def test_a_task_that_no_client_knows_is_not_named_to_any() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        nameless = TaskHandle("", "native", server, Era.MODERN, ABLE, task_of(Era.MODERN))
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE, nameless)
            await server.tells("input_required", inputRequests={"a": ENTRY})
            question = await watch.question()
            assert json.loads(question.params or b"") == FORM
            question.answer(Failure(None, jsonrpc.encode_error(-1, "rejected")))
            brought = await server.answers("tasks/update", result={})
            await server.tells("completed", result={})

        assert brought["inputResponses"] == {"a": {"action": "decline"}}

    run(scene)


def test_of_two_who_wait_one_is_asked_and_the_other_if_that_one_leaves() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        async with asyncio.TaskGroup() as group:
            first = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests={"a": ENTRY})
            await first.question()
            second = Watch(group, server, ABLE, first.handle)
            await server.tells("input_required", inputRequests={"a": ENTRY})
            await server.tells("input_required", inputRequests={"a": ENTRY})
            assert second.questions == []

            first.task.cancel()
            await given_up(first.task)
            assert not first.questions[0].open
            await server.tells("input_required", inputRequests={"a": ENTRY})
            (await second.question()).answer(Result(b"", json.dumps(SWEET).encode()))
            await server.answers("tasks/update", result={})
            await server.tells("completed", result={})

        assert second.seen().status == "completed"

    run(scene)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (URL, "not passed on"),
        ({"method": "odd/method"}, "form unknown"),
        ({"method": 5}, "form unknown"),
        ({"method": "roots/list"}, "does not offer: roots"),
    ],
)
def test_a_task_that_asks_what_cannot_be_asked_is_cancelled(entry: Message, words: str) -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests={"a": entry})
            await server.answers("tasks/cancel", result={})

        seen = watch.seen()
        assert isinstance(seen, Failed)
        assert words in seen.fault.message
        assert watch.questions == []

    run(scene)


def test_so_is_one_that_needs_what_the_client_did_not_say() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests={"a": SAMPLING})
            (await watch.question()).answer(Failure(None, jsonrpc.encode_error(-1, "no")))
            await server.answers("tasks/cancel", result={})

        assert "did not answer: sampling" in watch.seen().fault.message

    run(scene)


def test_a_person_who_does_not_answer_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "QUESTION_SECONDS_MAX", 0.01)

    async def scene() -> None:
        server = TaskServer(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests={"a": ENTRY})
            brought = await server.answers("tasks/update", result={})
            await server.tells("completed", result={})

        assert brought["inputResponses"] == {"a": {"action": "cancel"}}
        assert not watch.questions[0].open

    run(scene)


def test_a_task_that_is_cancelled_meanwhile_is_told_nothing_more() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        withdrawn: list[bytes | None] = []
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests={"a": ENTRY})
            (await watch.question()).on_withdrawn = withdrawn.append
            watch.handle.update(remote_tasks().as_cancelled(watch.handle))

        assert watch.seen().status == "cancelled"
        assert withdrawn == [None]
        assert [sent["method"] for sent in server.requests] == ["tasks/get"]

    run(scene)


def test_what_the_server_refuses_is_passed_on() -> None:
    async def scene() -> None:
        server, error = TaskServer(MODERN), {"code": 5, "message": "no"}
        async with asyncio.TaskGroup() as group:
            unseen, untold = Watch(group, server, ABLE), TaskServer(MODERN)
            await server.answers("tasks/get", error=error)
            late = Watch(group, untold, ABLE)
            await untold.tells("input_required", inputRequests={"a": ENTRY})
            (await late.question()).answer(Result(b"", b"{}"))
            await untold.answers("tasks/update", error=error)

        for watch in (unseen, late):
            seen = watch.seen()
            assert isinstance(seen, Failure)
            assert json.loads(seen.error) == error

    run(scene)


def test_a_server_that_goes_away_is_lost() -> None:
    async def scene() -> None:
        server = TaskServer(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.asked("tasks/get")
            server.connection.end("it exited")

        assert watch.seen() == BROKEN.result_for_sent("it exited")

    run(scene)


def test_what_a_client_declares_with_a_request_decides_what_that_may_be_told() -> None:
    handle = TaskHandle("ours", "native", TaskServer(MODERN), Era.MODERN, ABLE, task_of(Era.MODERN))
    entry = {"a": json.dumps(ENTRY).encode()}

    assert why_not_askable({}, caller(None, MODERN), handle) is None
    assert why_not_askable(entry, without_session(elicitation={}), handle) is None
    refusal = why_not_askable(entry, without_session(), handle)
    assert refusal is not None
    assert refusal.fault.code(MODERN) == MISSING_CAPABILITY
    assert json.loads(refusal.fault.data or b"")["requiredCapabilities"] == {"elicitation": {}}


# What has come of a session's task, and how long somebody waits for that.


def test_a_session_tells_what_has_come_of_a_task_when_it_is_asked_for_that() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)
        handle = handle_at(server)

        async def play() -> None:
            await server.tells("completed")
            await server.answers("tasks/result", result={"content": ["x"]})

        seen = await alongside(remote_tasks().get_with_result(handle, ME), play())

        assert (seen.status, json.loads(seen.result)) == ("completed", {"content": ["x"]})
        assert await remote_tasks().wait_for_result(handle, ME) is seen
        assert len(server.requests) == 2

    run(scene)


def test_a_tool_that_failed_in_a_session_has_a_result_all_the_same() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)

        async def play() -> None:
            await server.tells("failed")
            await server.answers("tasks/result", result={"content": [], "isError": True})

        seen = await alongside(remote_tasks().get_with_result(handle_at(server), ME), play())

        assert (seen.status, json.loads(seen.result)["isError"]) == ("completed", True)

    run(scene)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_the_error_of_a_result_is_the_tasks_if_the_task_has_failed(status: str) -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)
        handle = handle_at(server)
        error = {"code": 4002, "message": "broke"}

        async def play() -> None:
            await server.answers("tasks/result", error=error)
            await server.tells(status)

        seen = await alongside(remote_tasks().wait_for_result(handle, ME), play())

        assert (seen.status, json.loads(seen.error)) == (status, error)
        assert handle.is_settled

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
        server = TaskServer(LEGACY)
        handle = handle_at(server)

        async def play() -> None:
            await server.answers("tasks/result", result={"_meta": {}})
            await server.tells(status, **more)

        seen = await alongside(remote_tasks().wait_for_result(handle, ME), play())

        assert (seen.status, seen.result) == (status, None)
        assert (seen.error and json.loads(seen.error)) == error
        assert handle.is_settled

    run(scene)


def test_and_otherwise_it_is_what_the_server_has_for_a_result() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)

        async def play() -> None:
            await server.answers("tasks/result", result={"structuredContent": {"a": 1}})
            await server.tells("completed")

        seen = await alongside(remote_tasks().wait_for_result(handle_at(server), ME), play())

        assert (seen.status, json.loads(seen.result)) == (
            "completed",
            {"structuredContent": {"a": 1}},
        )

    run(scene)


@pytest.mark.parametrize("status", ["working", "completed"])
def test_and_otherwise_it_is_the_error_of_the_question(status: str) -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)

        async def play() -> None:
            await server.answers("tasks/result", error={"code": -32603, "message": "busy"})
            await server.tells(status)

        seen = await alongside(remote_tasks().wait_for_result(handle_at(server), ME), play())

        assert isinstance(seen, Failure)
        assert json.loads(seen.error)["message"] == "busy"

    run(scene)


def test_who_waits_for_a_result_waits_only_so_long() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY, timeout_seconds=0.001)

        seen = await remote_tasks().wait_for_result(handle_at(server), ME, 0.02)

        assert seen == NoAnswer("0.02s", Situation.TIMED_OUT)
        assert server.notices == ["notifications/cancelled"]

    run(scene)


def test_a_server_that_goes_away_while_a_result_is_waited_for_is_lost() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)

        async def goes() -> None:
            await server.asked("tasks/result")
            server.connection.end("it exited")

        seen = await alongside(remote_tasks().wait_for_result(handle_at(server), ME), goes())

        assert seen == BROKEN.result_for_sent("it exited")

    run(scene)


def test_on_a_connection_of_others_a_task_is_looked_at_until_it_is_over() -> None:
    """A request that waits would take one of the places for open calls, perhaps for an hour."""

    async def scene() -> None:
        server = TaskServer(LEGACY)
        handle = handle_at(server, shared=True)

        async def play() -> None:
            await server.tells("working")
            await server.tells("working")
            await server.tells("completed")
            await server.answers("tasks/result", result={"content": []})

        seen = await alongside(remote_tasks().wait_for_result(handle, ME), play())

        assert (seen.status, seen.result) == ("completed", b'{"content": []}')

    run(scene)


@pytest.mark.parametrize("status", ["cancelled", "input_required"])
def test_there_a_task_that_is_cancelled_has_no_result_and_one_that_waits_is_asked_for_it(
    status: str,
) -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY)

        async def play() -> None:
            await server.tells(status)
            if status == "input_required":
                # What it asks is refused there, and so it goes on.
                await server.answers("tasks/result", result={"content": []})

        seen = await alongside(
            remote_tasks().wait_for_result(handle_at(server, shared=True), ME), play()
        )

        assert seen.status == ("cancelled" if status == "cancelled" else "completed")

    run(scene)


def test_there_a_server_that_does_not_answer_is_lost() -> None:
    async def scene() -> None:
        server = TaskServer(LEGACY, timeout_seconds=0.01)

        seen = await remote_tasks().wait_for_result(handle_at(server, shared=True), ME)

        assert seen == NoAnswer("0.01s", Situation.TIMED_OUT)

    run(scene)
