"""What a call turns into: a task of the client's era, or the result of one that was waited for."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from anyport.gateway.calls.call import Call
from anyport.gateway.tasks.augment import task_augmentation
from anyport.gateway.tasks.handles import TASK_SECONDS_MAX, TASKS_OF_PRINCIPAL_MAX
from anyport.protocol.errors import Fault
from anyport.protocol.exchange import Answered, Caller, ErrorAnswered, Failed
from anyport.protocol.extensions import TASKS
from anyport.protocol.revisions import REVISIONS, Era
from anyport.protocol.tasks import Task
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.pending_call import BROKEN, NoAnswer
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import LEGACY, MODERN, caller, declared
from tests.gateway.task_augmentation import (
    CAPABILITIES,
    ENVELOPE,
    FakeCall,
    Scene,
    offer,
    wishing,
)
from tests.gateway.task_rig import (
    BOTH,
    DONE,
    ENTRY,
    ERAS,
    SWEET,
    TaskRig,
    given_up,
    in_session,
    play,
    told,
    without_session,
)
from tests.upstream.fakes import Message, peer_of, until

MEANWHILE = "io.modelcontextprotocol/model-immediate-response"


# How it is asked.


def test_what_a_session_wishes_for_reaches_a_session_as_it_is() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, wishing(), "optional", task={"ttl": 5})

        assert asked.params["task"] == {"ttl": 5}
        assert asked.turn.changes_request

    play(LEGACY, scene)


def test_to_a_modern_server_it_says_that_a_task_will_do() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, wishing(), task={"ttl": 5})

        assert "task" not in asked.params
        assert asked.params["_meta"][CAPABILITIES] == {"extensions": {TASKS: {}}}
        assert asked.turn.changes_request

    play(MODERN, scene)


@pytest.mark.parametrize("by", [without_session(), caller(None, MODERN), wishing()])
def test_a_tool_that_must_be_a_task_is_asked_for_one_whoever_calls_it(by: Caller) -> None:
    async def scene(rig: TaskRig) -> None:
        assert Scene(rig, by, "required").params["task"] == {}

    play(LEGACY, scene)


@pytest.mark.parametrize("by", [without_session(), caller(None, MODERN), wishing()])
def test_a_modern_server_is_asked_as_the_call_came(by: Caller) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, by)

        assert asked.params == ENVELOPE
        assert not asked.turn.changes_request

    play(MODERN, scene)


@pytest.mark.parametrize(
    ("by", "support"),
    [(without_session(), "optional"), (caller(None, MODERN), None), (wishing(), "optional")],
)
def test_a_sessions_tool_that_need_not_be_a_task_is_called_as_any_other(
    by: Caller, support: str | None
) -> None:
    async def scene(rig: TaskRig) -> None:
        offer(rig.server, support)
        call = FakeCall(rig, by, {})

        line = rig.server.connection
        assert task_augmentation(rig.tasks, cast(Call, call), rig.profile, line, "brew") is None

    play(LEGACY, scene)


def test_a_tool_that_cannot_be_a_task_says_so_to_who_wants_one() -> None:
    async def scene(rig: TaskRig) -> None:
        call = FakeCall(rig, wishing(), {"task": {}})
        line = rig.server.connection

        def turned() -> Any:
            return task_augmentation(rig.tasks, cast(Call, call), rig.profile, line, "brew")

        for support in (None, "forbidden"):
            offer(rig.server, support)
            fault = turned()
            assert isinstance(fault, Fault)
            assert fault.code(LEGACY) == -32601
        rig.server.listings.clear()
        assert isinstance(turned(), Fault)
        line.peer = peer_of(LEGACY)
        assert isinstance(turned(), Fault)
        line.peer = None
        assert isinstance(turned(), Fault)

    play(LEGACY, scene)


@BOTH
def test_where_nobody_has_tasks_the_wish_for_one_is_passed_over(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        rig.server.extensions = {}
        line = rig.server.connection
        line.peer = peer_of(ERAS[era])
        call = FakeCall(rig, wishing(), {"task": {}})

        assert task_augmentation(rig.tasks, cast(Call, call), rig.profile, line, "brew") is None

    play(ERAS[era], scene)


def test_a_client_of_a_revision_without_tasks_has_none() -> None:
    async def scene(rig: TaskRig) -> None:
        by = replace(wishing(), revision=REVISIONS["2025-06-18"], cache={})
        asked = Scene(rig, by, task={})
        assert asked.take(resultType="complete", **DONE) is False
        ending = Answered(b"{}")

        assert asked.turn.wrap_ending(ending) is ending

    play(MODERN, scene)


# What it turns into.


@BOTH
@pytest.mark.parametrize("front", list(Era))
def test_a_task_is_given_to_a_client_in_the_words_of_its_era(era: Era, front: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        wish: Message = {"task": {}} if front is Era.LEGACY else {}
        by = wishing() if front is Era.LEGACY else without_session()
        asked = Scene(rig, by, "required", **wish)
        about = {"_meta": {MEANWHILE: "soon", "io.modelcontextprotocol/serverInfo": {}}}

        assert asked.created(**about)

        result = asked.call.result
        task = result["task"] if front is Era.LEGACY else result
        (handle,) = rig.tasks.handles.of_caller(by, 0.0)
        assert (task["taskId"], task["status"]) == (handle.id, "working")
        assert ("resultType" in result) == (front is Era.MODERN)
        assert result["_meta"] == {MEANWHILE: "soon"}
        assert "native" not in json.dumps(result)
        assert handle.connection is (rig.server.connection if era is Era.LEGACY else None)

    play(ERAS[era], scene)


@BOTH
def test_a_result_is_no_task(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, without_session(), "required")

        assert not asked.take(**DONE)
        assert not asked.turn.take_task(NoAnswer("gone"))
        assert not asked.turn.take_task(Failure(None, jsonrpc.encode_error(-1, "no")))
        ending = Answered(b"{}")
        assert asked.turn.wrap_ending(ending) is ending
        assert asked.call.endings == []

    play(ERAS[era], scene)


@BOTH
def test_a_result_that_comes_at_once_is_a_task_that_is_over(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        for wish, kept in ({"ttl": 5000}, 5000), ({}, None), ({"ttl": "x"}, None), ({"ttl": -5}, 0):
            asked = Scene(rig, wishing(), "optional", task=wish)
            ending = asked.turn.wrap_ending(Answered(json.dumps(DONE).encode()))
            assert isinstance(ending, Answered)
            task = json.loads(ending.result)["task"]
            assert task["status"] == "completed"
            assert task["ttl"] == (TASK_SECONDS_MAX * 1000 if kept is None else kept)
        (handle, *_) = rig.tasks.handles.of_caller(wishing(), -1.0)
        assert handle.is_local
        assert json.loads(handle.task.result or b"") == DONE

        refused = ErrorAnswered(b"{}")
        assert asked.turn.wrap_ending(refused) is refused

    play(ERAS[era], scene)


@BOTH
def test_when_there_are_too_many_the_new_one_is_cancelled(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        by = wishing()
        for number in range(TASKS_OF_PRINCIPAL_MAX):
            rig.handle(by, native=f"{number}")
        asked = Scene(rig, by, "optional", task={})

        assert asked.created()
        params = await rig.server.answers("tasks/cancel", result=told(era, "cancelled"))
        await rig.settle()

        assert params["taskId"] == "native"
        (ending,) = asked.call.endings
        assert isinstance(ending, Failed)
        assert "too many tasks" in ending.fault.message
        # One that no server knows of need not be cancelled.
        minted = asked.turn.wrap_ending(Answered(b"{}"))
        assert isinstance(minted, Failed)
        assert len(rig.running) == 1

    play(ERAS[era], scene)


def test_the_connection_of_a_task_is_kept_while_it_lives() -> None:
    async def scene(rig: TaskRig) -> None:
        server, key = rig.server, LeaseKey(owner="call-1")
        server.connections = lambda: [(key, server.connection)]  # type: ignore[method-assign]
        asked = Scene(rig, without_session(), "required")
        asked.call.seated = True
        assert asked.created()
        await rig.server.asked("tasks/result")
        assert asked.call.left == 0

        sent = rig.server.requests[-1]["id"]
        rig.server.connection.receive(jsonrpc.encode_result(b"%d" % sent, b'{"content":[]}'))
        await rig.settle()
        assert asked.call.left == 1

    play(LEGACY, scene)


def test_where_it_has_none_to_itself_nobody_waits() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, without_session(), "required")
        assert asked.created()

        assert (rig.running, rig.server.requests) == ([], [])

    play(LEGACY, scene)


@pytest.mark.parametrize(("key", "shared"), [(SHARED, True), (LeaseKey(owner="mine"), False)])
def test_a_task_knows_whether_others_use_its_connection(key: LeaseKey, shared: bool) -> None:
    async def scene(rig: TaskRig) -> None:
        server = rig.server
        server.connections = lambda: [(key, server.connection)]  # type: ignore[method-assign]
        asked = Scene(rig, without_session(), "required")
        asked.created()

        (handle,) = rig.tasks.handles.of_caller(without_session(), 0.0)
        assert handle.has_shared_connection is shared

    play(LEGACY, scene)


def test_the_client_of_a_session_goes_on_hearing_how_far_it_has_come() -> None:
    async def scene(rig: TaskRig) -> None:
        by, session = in_session()
        asked = Scene(rig, by, "optional", task={})
        asked.call.exchange.progress_token = b"5"
        asked.created()
        assert asked.call.hearing is not None

        asked.call.hearing([b'{"progressToken":1,"progress":1}'])
        assert session.notified[0][1]["progressToken"] == 5
        (handle,) = rig.tasks.handles.of_caller(by, 0.0)
        handle.update(Task(status="completed", created=b"", updated=b""))
        assert asked.call.hearing is None

    play(LEGACY, scene)


def test_a_client_without_a_session_does_not() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, without_session(), "required")
        asked.created()

        assert asked.call.hearing is None

    play(LEGACY, scene)


# A task that is waited for in the place of a client that takes none.


INSISTS = jsonrpc.encode_error(
    -32021, "tasks", b'{"requiredCapabilities":{"extensions":{"%b":{}}}}' % TASKS.encode()
)


@BOTH
def test_a_client_that_takes_no_task_gets_what_has_come_of_it(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN), "required")
        assert asked.created()
        server = rig.server
        await server.tells("working")
        await server.tells("completed", **({"result": DONE} if era is Era.MODERN else {}))
        if era is Era.LEGACY:
            await server.answers("tasks/result", result=DONE)
        await rig.settle()

        (answer,) = asked.call.concluded
        assert isinstance(answer, Result)
        assert json.loads(answer.result) == DONE
        assert (asked.call.endings, len(rig.tasks.handles)) == ([], 0)
        asked.turn.stop()
        assert server.notices == []

    play(ERAS[era], scene)


@BOTH
@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_or_the_error_that_it_ended_with(era: Era, status: str) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN), "required")
        asked.created()
        error = {"code": 4002, "message": "broke"}
        failed = status == "failed"
        await rig.server.tells(status, **({"error": error} if failed else {}))
        await rig.settle()

        (answer,) = asked.call.concluded
        assert isinstance(answer, Failure)
        assert json.loads(answer.error)["code"] == (4002 if failed else -32000)

    play(ERAS[era], scene)


@BOTH
def test_or_why_nothing_is_known_of_it(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN), "required")
        asked.created()
        await rig.server.asked("tasks/get")
        rig.server.connection.end("it exited")
        await rig.settle()

        assert asked.call.concluded == [BROKEN.result_for_sent("it exited")]

    play(ERAS[era], scene)


def test_what_the_task_waits_for_is_asked_by_way_of_the_call() -> None:
    async def scene(rig: TaskRig) -> None:
        able = declared({"elicitation": {}})
        asked = Scene(rig, replace(caller(None, MODERN), capabilities=able))
        asked.created()
        await rig.server.tells("input_required", inputRequests={"k": ENTRY})
        await until(lambda: bool(asked.call.questions))
        (question,) = asked.call.questions
        assert "_meta" not in json.loads(question.params or b"")

        question.answer(Result(b"", json.dumps(SWEET).encode()))
        brought = await rig.server.answers("tasks/update", result={})
        await rig.server.tells("completed", result=DONE)
        await rig.settle()

        assert brought["inputResponses"] == {"k": SWEET}
        assert len(asked.call.concluded) == 1

    play(MODERN, scene)


def test_a_task_that_asks_what_the_client_cannot_be_asked_ends_its_call() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN))
        asked.created()
        await rig.server.tells("input_required", inputRequests={"k": ENTRY})
        await rig.server.answers("tasks/cancel", result={})
        await rig.settle()

        (ending,) = asked.call.endings
        assert isinstance(ending, Failed)
        assert "elicitation" in ending.fault.message

    play(MODERN, scene)


def test_meanwhile_the_client_hears_how_far_it_has_come() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN), "required")
        asked.created()
        assert asked.call.hearing is not None
        asked.call.hearing([b"{}"])
        assert asked.call.reports == [b"{}"]

        await rig.server.tells("cancelled")
        await rig.settle()
        assert asked.call.hearing is None

    play(LEGACY, scene)


@BOTH
def test_a_client_that_gives_up_has_the_task_cancelled(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN), "required")
        asked.created()
        await rig.server.asked("tasks/get")

        asked.turn.stop()
        params = await rig.server.answers("tasks/cancel", result=told(era, "cancelled"))
        await rig.settle()
        asked.turn.stop()

        assert params["taskId"] == "native"
        assert (asked.call.concluded, asked.call.endings) == ([], [])
        assert asked.call.hearing is None

    play(ERAS[era], scene)


def test_also_if_it_gives_up_at_once() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN))
        asked.created()
        asked.turn.stop()
        await rig.server.answers("tasks/cancel", result={})
        await rig.settle()

        assert [sent["method"] for sent in rig.server.requests] == ["tasks/cancel"]

    play(MODERN, scene)


@BOTH
def test_when_the_gateway_stops_the_call_is_answered(era: Era) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN), "required")
        asked.created()
        await rig.server.asked("tasks/get")
        rig.tasks.stop()
        for task in rig.running:
            await given_up(task)

        assert asked.call.concluded == [NoAnswer("the gateway is stopping")]

    play(ERAS[era], scene)


# Servers that insist.


@pytest.mark.parametrize("by", [caller(None, MODERN), wishing()])
def test_a_server_that_insists_on_a_task_gets_its_way_once(by: Caller) -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, by)

        assert asked.turn.take_task(Failure(None, INSISTS))
        (sent,) = asked.call.sent
        assert sent["_meta"][CAPABILITIES] == {"extensions": {TASKS: {}}}
        assert not asked.turn.take_task(Failure(None, INSISTS))

        assert asked.created()
        await rig.server.tells("completed", result=DONE)
        await until(lambda: bool(asked.call.concluded))

    play(MODERN, scene)


def test_one_that_needs_something_else_does_not() -> None:
    async def scene(rig: TaskRig) -> None:
        other = jsonrpc.encode_error(
            -32021, "sampling", b'{"requiredCapabilities":{"sampling":{}}}'
        )
        assert not Scene(rig, caller(None, MODERN)).turn.take_task(Failure(None, other))
        words = jsonrpc.encode_error(-32602, TASKS)
        assert not Scene(rig, caller(None, MODERN)).turn.take_task(Failure(None, words))
        # Who has declared tasks is told what the server says.
        assert not Scene(rig, without_session()).turn.take_task(Failure(None, INSISTS))

    play(MODERN, scene)


def test_a_session_cannot_insist_so() -> None:
    async def scene(rig: TaskRig) -> None:
        asked = Scene(rig, caller(None, MODERN), "required")

        assert not asked.turn.take_task(Failure(None, INSISTS))

    play(LEGACY, scene)
