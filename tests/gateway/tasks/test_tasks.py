"""What clients of either era ask about their tasks, whichever era the server speaks."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway.tasks.render import NOT_FOUND
from anyport.protocol.exchange import NeedInput, Question, ServerNotification
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.wire.jsonrpc import Failure, Request, Result
from tests.gateway.fakes import LEGACY, MODERN, Asked, caller
from tests.gateway.task_rig import (
    BOTH,
    DONE,
    ENTRY,
    ERAS,
    FORM,
    RELATED,
    SWEET,
    TaskRig,
    TaskServer,
    ended,
    given_up,
    in_session,
    listening,
    play,
    task_of,
    told,
    without_session,
)
from tests.upstream.fakes import Message, connected, run, until

ME = without_session(elicitation={})


# Modern clients.


@BOTH
def test_a_modern_client_sees_how_its_task_stands(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        asked = rig.ask("tasks/get", handle, ME)
        await rig.server.tells("working", statusMessage="hm")

        answer = await ended(asked)

        assert (answer["taskId"], answer["status"]) == (handle.id, "working")
        assert answer["statusMessage"] == "hm"

    play(ERAS[era], scene)


def test_a_sessions_task_is_asked_for_its_result_when_it_is_over() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = rig.ask("tasks/get", rig.handle(ME), ME)
        await rig.server.tells("completed")
        await rig.server.answers("tasks/result", result=DONE)

        assert (await ended(asked))["result"] == {**DONE, "resultType": "complete"}

    play(LEGACY, scene)


@BOTH
def test_a_server_that_refuses_or_is_lost_is_told_as_such(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        error = {"code": 7, "message": "no"}
        for method in ("tasks/get", "tasks/cancel" if era is Era.MODERN else "tasks/get"):
            asked = rig.ask(method, rig.handle(ME), ME)
            await rig.server.answers(method, error=error)
            assert (await ended(asked))["code"] == 7
        asked = rig.ask("tasks/get", rig.handle(ME), ME)
        await rig.server.asked("tasks/get")
        rig.server.connection.end("it exited")
        assert await ended(asked) == "Server 's' is not running: it exited"

    play(ERAS[era], scene)


def test_a_modern_client_brings_answers_to_a_modern_server() -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        asked = rig.ask("tasks/update", handle, ME, inputResponses={"k": SWEET})
        brought = await rig.server.answers("tasks/update", result={})
        assert brought["inputResponses"] == {"k": SWEET}
        assert await ended(asked) == {}

        refused = rig.ask("tasks/update", handle, ME, inputResponses={})
        await rig.server.answers("tasks/update", error={"code": 1, "message": "no"})
        assert (await ended(refused))["code"] == 1

    play(MODERN, scene)


@BOTH
@pytest.mark.parametrize("params", [{}, {"inputResponses": 5}])
def test_answers_have_to_be_there(era: Era, params: Message) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = rig.ask("tasks/update", rig.handle(ME), ME, **params)

        assert "needs inputResponses" in await ended(asked)

    play(ERAS[era], scene)


def test_answers_to_a_session_answer_its_own_questions() -> None:
    async def scene(rig: TaskRig) -> None:
        said: list[Result | Failure] = []
        handle = rig.handle(ME)
        question = Question("elicitation/create", json.dumps(FORM).encode(), said.append)
        handle.add_question(question)

        wrong = {"q1": {"action": "odd"}, "q2": SWEET}
        for answers in ({}, wrong):
            assert await ended(rig.ask("tasks/update", handle, ME, inputResponses=answers)) == {}
            assert question.open
        assert await ended(rig.ask("tasks/update", handle, ME, inputResponses={"q1": SWEET})) == {}

        assert isinstance(said[0], Result)
        assert json.loads(said[0].result) == SWEET
        assert rig.server.requests == []

    play(LEGACY, scene)


@BOTH
def test_a_modern_client_cancels_a_task_and_is_told_no_more_than_that(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        asked = rig.ask("tasks/cancel", handle, ME)
        await rig.server.answers("tasks/cancel", result=told(era, "cancelled"))
        assert await ended(asked) == {}

        # Only a session's server has promised that it is cancelled from then on.
        later = rig.ask("tasks/get", handle, ME)
        if era is Era.MODERN:
            await rig.server.tells("completed", result=DONE)
        assert (await ended(later))["status"] == ("completed" if era is Era.MODERN else "cancelled")
        again = rig.ask("tasks/cancel", handle, ME)
        assert await ended(again) == {}

    play(ERAS[era], scene)


def test_a_session_that_does_not_cancel_is_the_states_business_too() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = rig.ask("tasks/cancel", rig.handle(ME), ME)
        await rig.server.answers("tasks/cancel", error={"code": -32602, "message": "over"})

        assert await ended(asked) == {}

    play(LEGACY, scene)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_modern_client_has_to_declare_tasks_with_each_request(method: str) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = rig.ask(method, rig.handle(ME), caller(None, MODERN))

        assert "declare the extension" in await ended(asked)

    play(MODERN, scene)


# Clients with a session.


@BOTH
def test_in_a_session_a_task_is_seen_and_listed(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        handle = rig.handle(by)
        asked = rig.ask("tasks/get", handle, by)
        await rig.server.tells("working", statusMessage="hm")

        answer = await ended(asked)

        assert (answer["taskId"], answer["statusMessage"], answer["ttl"]) == (handle.id, "hm", None)
        assert (await ended(rig.ask("tasks/list", "", by)))["tasks"] == [answer]
        refused = rig.ask("tasks/get", handle, by)
        await rig.server.answers("tasks/get", error={"code": 7, "message": "no"})
        assert (await ended(refused))["code"] == 7

    play(ERAS[era], scene)


def test_the_result_of_a_sessions_task_is_the_servers_answer() -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        handle = rig.handle(by)
        asked = rig.ask("tasks/result", handle, by)
        await rig.server.answers("tasks/result", result=DONE)

        assert await ended(asked) == {**DONE, "_meta": {RELATED: {"taskId": handle.id}}}
        # What is known need not be asked again.
        assert await ended(rig.ask("tasks/result", handle, by)) == await ended(asked)
        assert len(rig.server.requests) == 1

    play(LEGACY, scene)


def test_the_result_of_a_modern_servers_task_is_waited_for() -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        asked = rig.ask("tasks/result", rig.handle(by), by)
        await rig.server.tells("working")
        await rig.server.tells("completed", result={**DONE, "resultType": "complete"})

        answer = await ended(asked)
        assert answer["content"] == DONE["content"]
        assert "resultType" not in answer

    play(MODERN, scene)


def test_a_result_that_came_at_once_is_no_servers_to_tell() -> None:
    for era in Era:

        async def scene(rig: TaskRig) -> None:
            by, _ = in_session()
            over = task_of(Era.MODERN, "completed", result=DONE)
            handle = rig.handle(by, over, native="")

            answer = await ended(rig.ask("tasks/result", handle, by))
            assert answer["content"] == DONE["content"]
            assert (await ended(rig.ask("tasks/get", handle, by)))["status"] == "completed"
            words = await ended(rig.ask("tasks/cancel", handle, by))
            assert words == "The task cannot be cancelled: it is completed"
            assert rig.server.requests == []

        play(ERAS[era], scene)


@BOTH
def test_a_task_that_failed_has_its_error_for_a_result(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        asked = rig.ask("tasks/result", rig.handle(by), by)
        error = {"code": 4002, "message": "broke"}
        if era is Era.LEGACY:
            await rig.server.answers("tasks/result", error=error)
            await rig.server.tells("failed")
        else:
            await rig.server.tells("failed", error=error)

        assert (await ended(asked))["code"] == 4002

    play(ERAS[era], scene)


@BOTH
def test_in_a_session_what_was_cancelled_stays_so(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        handle = rig.handle(by)
        asked = rig.ask("tasks/cancel", handle, by)
        await rig.server.tells("working")
        await rig.server.answers("tasks/cancel", result=told(era, "cancelled"))
        assert (await ended(asked))["status"] == "cancelled"

        assert (await ended(rig.ask("tasks/get", handle, by)))["status"] == "cancelled"
        words = await ended(rig.ask("tasks/result", handle, by))
        assert "was cancelled" in words["message"]
        assert "cannot be cancelled" in await ended(rig.ask("tasks/cancel", handle, by))

    play(ERAS[era], scene)


@BOTH
def test_what_cannot_be_cancelled_is_told_in_a_session(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        first = rig.ask("tasks/cancel", rig.handle(by), by)
        await rig.server.answers("tasks/get", error={"code": 7, "message": "no"})
        assert (await ended(first))["code"] == 7
        second = rig.ask("tasks/cancel", rig.handle(by), by)
        await rig.server.tells("working")
        await rig.server.answers("tasks/cancel", error={"code": 8, "message": "no"})
        assert (await ended(second))["code"] == 8

    play(ERAS[era], scene)


@BOTH
def test_a_result_may_be_waited_for_twice(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        handle = rig.handle(by)
        both = [rig.ask("tasks/result", handle, by) for _ in range(2)]
        await until(lambda: len(handle.waiting_exchanges) == 2)
        for _ in range(2 if era is Era.LEGACY else 1):
            if era is Era.LEGACY:
                await rig.server.answers("tasks/result", result=DONE)
            else:
                await rig.server.tells("completed", result=DONE)
        if era is Era.MODERN:
            late = await rig.server.asked("tasks/get")
            rig.server.connection.receive(
                json.dumps({"jsonrpc": "2.0", "id": late["id"], "result": told(era)}).encode()
            )

        assert await ended(both[0]) == await ended(both[1])
        assert handle.waiting_exchanges == []

    play(ERAS[era], scene)


# What servers tell and ask for their tasks, and who gets to hear it.


def request(native: str = "native") -> Request:
    params = {**FORM, "_meta": {RELATED: {"taskId": native}}}
    return Request(b"9", "elicitation/create", json.dumps(params).encode())


def test_what_a_modern_server_tells_is_told_to_those_who_listen() -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        heard, deaf = listening(rig, handle, by=ME), listening(rig, by=ME)
        unable = listening(rig, handle, by=without_session())
        asking = told(Era.MODERN, "input_required", inputRequests={"k": ENTRY})
        for params in (asking, told(Era.MODERN, "completed", result=DONE)):
            rig.tasks.on_status(rig.server, rig.server.connection, json.dumps(params).encode())
            await rig.settle()

        assert [task["status"] for task in heard] == ["input_required", "completed"]
        assert {task["taskId"] for task in heard} == {handle.id}
        assert [task["status"] for task in unable] == ["completed"]
        assert (deaf, rig.server.requests) == ([], [])

    play(MODERN, scene)


def test_of_a_sessions_task_they_are_told_what_it_has_come_to() -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        heard = listening(rig, handle, by=ME)
        params = json.dumps(told(Era.LEGACY, "completed")).encode()
        rig.tasks.on_status(rig.server, rig.server.connection, params)
        await rig.server.answers("tasks/result", result=DONE)
        await rig.settle()
        assert heard[0]["result"]["content"] == DONE["content"]

        lost = rig.handle(ME)
        more = listening(rig, lost, by=ME)
        rig.tasks.on_status(
            rig.server, rig.server.connection, json.dumps(told(Era.LEGACY)).encode()
        )
        await rig.server.answers("tasks/get", error={"code": 1, "message": "no"})
        await rig.settle()
        assert more == []

    play(LEGACY, scene)


@BOTH
def test_a_session_is_told_of_its_own_tasks_in_its_own_words(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, session = in_session()
        handle = rig.handle(by)
        line = rig.server.connection
        for params in (told(era, "failed"), told(era, id="unknown"), {"odd": 1}):
            rig.tasks.on_status(rig.server, line, json.dumps(params).encode())

        ((method, params),) = session.notified
        assert (method, params["taskId"]) == ("notifications/tasks/status", handle.id)
        assert (params["status"], handle.task.status) == ("failed", "failed")

    play(ERAS[era], scene)


def test_what_is_told_over_another_connection_is_of_another_task() -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        other, _, _ = connected(LEGACY)
        rig.tasks.on_status(rig.server, other, json.dumps(told(Era.LEGACY, "failed")).encode())

        assert handle.task.status == "working"

    play(LEGACY, scene)


def test_a_question_for_a_task_is_for_its_client() -> None:
    async def scene(rig: TaskRig) -> None:
        handle, line = rig.handle(ME), rig.server.connection
        heard = listening(rig, handle, by=ME)
        assert rig.tasks.question_target(rig.server, line, request("unknown")) is None
        assert rig.tasks.question_target(rig.server, line, Request(b"9", "roots/list")) is None

        audience = rig.tasks.question_target(rig.server, line, request())
        assert audience is not None
        assert audience.capabilities is ME.capabilities
        audience.ask(Question("elicitation/create", request().params, lambda _: None))
        await rig.server.tells("input_required")
        await rig.settle()

        assert handle.open_questions.keys() == {"q1"}
        assert heard[0]["inputRequests"] == {"q1": ENTRY}

    play(LEGACY, scene)


def test_a_session_is_asked_where_it_waits_or_wherever_it_can_be() -> None:
    async def scene(rig: TaskRig) -> None:
        by, session = in_session(elicitation={})
        handle, line = rig.handle(by), rig.server.connection
        audience = rig.tasks.question_target(rig.server, line, request())
        assert audience is not None

        def put() -> Question:
            question = Question("elicitation/create", request().params, lambda _: None)
            audience.ask(question)
            assert json.loads(question.params or b"")["_meta"] == {RELATED: {"taskId": handle.id}}
            return question

        first = put()
        assert session.asked == [first]
        # One who waits, but cannot be asked, is not; one who can is asked along with the result.
        unable = rig.ask("tasks/result", handle, in_session()[0])
        await until(lambda: len(handle.waiting_exchanges) == 1)
        second = put()
        assert (session.asked, unable.told) == ([first, second], [])
        waiting = rig.ask("tasks/result", handle, by)
        await until(lambda: len(handle.waiting_exchanges) == 2)
        third = put()
        assert waiting.told == [NeedInput(third)]

        for _ in range(2):
            await rig.server.answers("tasks/result", result=DONE)
        await rig.settle()
        assert not any(question.open for question in (first, second, third))

    play(LEGACY, scene)


def test_progress_of_a_task_is_told_under_the_token_of_its_call() -> None:
    async def scene(rig: TaskRig) -> None:
        by, session = in_session()
        handle = rig.handle(by)
        began = Asked("tools/call", {}, by).exchange
        began.progress_token = b'"mine"'

        def report(progress: Any) -> None:
            native = {"progressToken": 7, "progress": progress}
            rig.tasks.on_progress(handle, began, [json.dumps(native).encode()])

        for progress in (1, 1, 2, 0):
            report(progress)
        own = {"progressToken": "mine", "_meta": {RELATED: {"taskId": handle.id}}}
        told = [("notifications/progress", {**own, "progress": each}) for each in (1, 1, 2, 0)]
        assert session.notified == told
        waiting = rig.ask("tasks/result", handle, by)
        await until(lambda: bool(handle.waiting_exchanges))
        report({"odd": 1})
        (notice,) = waiting.told
        assert isinstance(notice, ServerNotification)
        assert json.loads(notice.params or b"")["progress"] == {"odd": 1}
        await rig.server.answers("tasks/result", result=DONE)
        await ended(waiting)

        began.progress_token = None
        report(9)
        assert len(session.notified) == len(told)

    play(LEGACY, scene)


# Requests, sessions and gateways that end while tasks live, and whose those are.


# Cancelled requests.


@BOTH
def test_who_gives_up_waiting_does_not_cancel_the_task(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        handle = rig.handle(by)
        asked = rig.ask("tasks/result", handle, by)
        await rig.server.asked("tasks/result" if era is Era.LEGACY else "tasks/get")

        asked.exchange.cancel()
        await rig.settle()

        assert asked.told == []
        assert (handle.waiting_exchanges, handle.task.status) == ([], "working")
        assert [sent["method"] for sent in rig.server.requests[1:]] == []
        assert rig.server.notices == ["notifications/cancelled"]

    play(ERAS[era], scene)


def test_a_request_that_was_given_up_before_it_began_is_not_made() -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        asked = rig.ask("tasks/result", rig.handle(by), by)
        asked.exchange.cancel()
        await rig.settle()

        assert rig.server.requests == []

    play(LEGACY, scene)


@BOTH
def test_when_the_gateway_stops_nobody_waits_any_more(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        handle = rig.handle(by)
        asked = rig.ask("tasks/result", handle, by)
        await rig.server.asked("tasks/result" if era is Era.LEGACY else "tasks/get")

        rig.tasks.stop()
        late = rig.ask("tasks/result", handle, by)
        for task in rig.running:
            await given_up(task)

        assert asked.ending == "Server 's' is not running: the gateway is stopping"
        assert late.ending is None

    play(ERAS[era], scene)


def test_what_breaks_of_ours_is_answered_and_reported() -> None:
    async def whole() -> None:
        with pytest.raises(ExceptionGroup) as broke:
            async with asyncio.TaskGroup() as group:
                rig = TaskRig(TaskServer(MODERN), group)
                handle = rig.handle(ME)
                rig.tasks.remote = None  # type: ignore[assignment]
                asked = rig.ask("tasks/get", handle, ME)
        assert broke.group_contains(AttributeError)
        assert asked.ending.startswith("Internal error")

    run(whole)


def test_an_object_that_names_a_member_twice_is_the_servers_fault() -> None:
    async def scene(rig: TaskRig) -> None:
        by, _ = in_session()
        asked = rig.ask("tasks/result", rig.handle(by), by)
        sent = await rig.server.asked("tasks/result")
        raw = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"content":[]}}' % sent["id"]
        rig.server.connection.receive(raw)

        assert "names a member twice" in await ended(asked)

    play(LEGACY, scene)


# Whose they are.


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result"])
def test_a_task_is_nobody_elses(method: str) -> None:
    async def scene(rig: TaskRig) -> None:
        by = in_session()[0] if method == "tasks/result" else ME
        handle = rig.handle(by)
        other = replace(by, principal=Principal("token", "other"), cache={})
        elsewhere = replace(by, profile="elsewhere", cache={})

        for stranger in (other, elsewhere):
            assert rig.ask(method, handle, stranger).ending == NOT_FOUND
        for id in ("", "made-up", handle.id + "A"):
            assert rig.ask(method, id, by).ending == NOT_FOUND
        rig.clock.seconds = 1e9
        assert rig.ask(method, handle, by).ending == NOT_FOUND
        assert rig.server.requests == []

    play(LEGACY, scene)


def test_a_client_listens_for_its_own_tasks() -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        theirs = rig.handle(replace(ME, principal=Principal("token", "other"), cache={}))
        asked = Asked("subscriptions/listen", {}, ME)

        def heard(ids: object, by: Asked = asked) -> Any:
            return rig.tasks.find_listenable(by.exchange, rig.profile, ids)

        assert heard([handle.id, theirs.id, "made-up", 5]) == (handle,)
        assert heard(None) == heard("x") == ()
        undeclared = Asked("subscriptions/listen", {}, caller(None, MODERN))
        assert "declare" in heard([], undeclared).message
        assert heard(None, undeclared) == ()

    play(MODERN, scene)


# Sessions that end.


def test_with_a_session_its_tasks_are_over_and_make_room() -> None:
    async def scene(rig: TaskRig) -> None:
        by, session = in_session()
        handle, done = rig.handle(by), rig.handle(by, native="2")
        modern = rig.handle(ME, native="3")
        heard = listening(rig, modern, by=ME)
        done.update(task_of(Era.LEGACY, "completed", result=DONE))

        rig.tasks.on_connection_lost(rig.server.connection)
        await rig.settle()

        assert (handle.task.status, done.task.status) == ("failed", "completed")
        answer = await ended(rig.ask("tasks/result", handle, by))
        assert "session that the task belonged to has ended" in answer["message"]
        assert [params["status"] for _, params in session.notified] == ["failed"]
        assert heard[0]["error"]["code"] == -32603
        assert rig.server.requests == []

    play(LEGACY, scene)


def test_a_connection_that_begins_a_session_anew_knows_none_of_its_tasks() -> None:
    async def scene(rig: TaskRig) -> None:
        handle = rig.handle(ME)
        rig.tasks.on_session_renewed(rig.server, LeaseKey(owner="other"))
        assert handle.task.status == "working"
        rig.tasks.on_session_renewed(rig.server, SHARED)
        assert handle.task.status == "failed"

    play(LEGACY, scene)


def test_the_connection_of_a_task_is_kept_until_it_is_over() -> None:
    async def scene(rig: TaskRig) -> None:
        handle, released = rig.handle(ME), []
        said: list[Result | Failure] = []
        heard = listening(rig, handle, by=ME)
        handle.add_question(Question("elicitation/create", request().params, said.append))
        rig.tasks.spawn(rig.tasks.hold_until_done(handle, lambda: released.append(1)))
        await rig.server.asked("tasks/result")
        assert (released, said) == ([], [])

        sent = rig.server.requests[-1]["id"]
        rig.server.connection.receive(
            json.dumps({"jsonrpc": "2.0", "id": sent, "result": DONE}).encode()
        )
        await rig.settle()

        assert released == [1]
        assert isinstance(said[0], Failure)
        assert heard[-1]["status"] == "completed"

    play(LEGACY, scene)


def test_or_until_its_time_is_over() -> None:
    async def scene(rig: TaskRig) -> None:
        handle, released = rig.handle(ME, task_of(Era.LEGACY, ttl=10)), []
        rig.tasks.spawn(rig.tasks.hold_until_done(handle, lambda: released.append(1)))
        await rig.settle()

        assert (released, rig.server.notices) == ([1], ["notifications/cancelled"])

    play(LEGACY, scene)
