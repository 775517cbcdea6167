"""What a call turns into: a task of the client's era, or the result of one that was waited for."""

import json
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway.handles import TASK_SECONDS_MAX, TASKS_OF_ONE_MAX
from anyport.gateway.turn import turn_of
from anyport.protocol.errors import Fault
from anyport.protocol.exchange import Answered, Caller, Failed, Refused
from anyport.protocol.extension import TASKS
from anyport.protocol.revision import REVISIONS, Era
from anyport.protocol.task import Task
from anyport.upstream.call import Lost
from anyport.upstream.key import SHARED, LeaseKey
from anyport.wire import codec
from anyport.wire.frame import Failure
from tests.gateway.fakes import LEGACY, MODERN, caller
from tests.gateway.tasking import (
    BOTH,
    DONE,
    ERAS,
    House,
    in_session,
    play,
    told,
    without_session,
)
from tests.gateway.turning import CAPABILITIES, ENVELOPE, FakeErrand, Scene, offer, wishing
from tests.upstream.fakes import Message, peer_of

MEANWHILE = "io.modelcontextprotocol/model-immediate-response"


# How it is asked.


def test_what_a_session_wishes_for_reaches_a_session_as_it_is() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, wishing(), "optional", task={"ttl": 5})

        assert asked.params["task"] == {"ttl": 5}
        assert asked.turn.alters

    play(LEGACY, scene)


def test_to_a_modern_server_it_says_that_a_task_will_do() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, wishing(), task={"ttl": 5})

        assert "task" not in asked.params
        assert asked.params["_meta"][CAPABILITIES] == {"extensions": {TASKS: {}}}
        assert asked.turn.alters

    play(MODERN, scene)


@pytest.mark.parametrize("by", [without_session(), caller(None, MODERN), wishing()])
def test_a_tool_that_must_be_a_task_is_asked_for_one_whoever_calls_it(by: Caller) -> None:
    async def scene(house: House) -> None:
        assert Scene(house, by, "required").params["task"] == {}

    play(LEGACY, scene)


@pytest.mark.parametrize("by", [without_session(), caller(None, MODERN), wishing()])
def test_a_modern_server_is_asked_as_the_call_came(by: Caller) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, by)

        assert asked.params == ENVELOPE
        assert not asked.turn.alters

    play(MODERN, scene)


@pytest.mark.parametrize(
    ("by", "support"),
    [(without_session(), "optional"), (caller(None, MODERN), None), (wishing(), "optional")],
)
def test_a_sessions_tool_that_need_not_be_a_task_is_called_as_any_other(
    by: Caller, support: str | None
) -> None:
    async def scene(house: House) -> None:
        offer(house.server, support)
        errand = FakeErrand(house, by, {})

        line = house.server.connection
        assert turn_of(house.tasks, errand, house.profile, line, "brew") is None

    play(LEGACY, scene)


def test_a_tool_that_cannot_be_a_task_says_so_to_who_wants_one() -> None:
    async def scene(house: House) -> None:
        errand = FakeErrand(house, wishing(), {"task": {}})
        line = house.server.connection

        def turned() -> Any:
            return turn_of(house.tasks, errand, house.profile, line, "brew")

        for support in (None, "forbidden"):
            offer(house.server, support)
            fault = turned()
            assert isinstance(fault, Fault)
            assert fault.code(LEGACY) == -32601
        house.server.listings.clear()
        assert isinstance(turned(), Fault)
        line.peer = peer_of(LEGACY)
        assert isinstance(turned(), Fault)
        line.peer = None
        assert isinstance(turned(), Fault)

    play(LEGACY, scene)


@BOTH
def test_where_nobody_has_tasks_the_wish_for_one_is_passed_over(era: Era) -> None:
    async def scene(house: House) -> None:
        house.server.extensions = {}
        line = house.server.connection
        line.peer = peer_of(ERAS[era])
        errand = FakeErrand(house, wishing(), {"task": {}})

        assert turn_of(house.tasks, errand, house.profile, line, "brew") is None

    play(ERAS[era], scene)


def test_a_client_of_a_revision_without_tasks_has_none() -> None:
    async def scene(house: House) -> None:
        by = replace(wishing(), revision=REVISIONS["2025-06-18"], memory={})
        asked = Scene(house, by, task={})
        assert asked.take(resultType="complete", **DONE) is False
        ending = Answered(b"{}")

        assert asked.turn.minted(ending) is ending

    play(MODERN, scene)


# What it turns into.


@BOTH
@pytest.mark.parametrize("front", list(Era))
def test_a_task_is_given_to_a_client_in_the_words_of_its_era(era: Era, front: Era) -> None:
    async def scene(house: House) -> None:
        wish: Message = {"task": {}} if front is Era.LEGACY else {}
        by = wishing() if front is Era.LEGACY else without_session()
        asked = Scene(house, by, "required", **wish)
        about = {"_meta": {MEANWHILE: "soon", "io.modelcontextprotocol/serverInfo": {}}}

        assert asked.created(**about)

        result = asked.errand.result
        task = result["task"] if front is Era.LEGACY else result
        (handle,) = house.tasks.handles.of_caller(by, 0.0)
        assert (task["taskId"], task["status"]) == (handle.id, "working")
        assert ("resultType" in result) == (front is Era.MODERN)
        assert result["_meta"] == {MEANWHILE: "soon"}
        assert "native" not in json.dumps(result)
        assert handle.connection is (house.server.connection if era is Era.LEGACY else None)

    play(ERAS[era], scene)


@BOTH
def test_a_result_is_no_task(era: Era) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, without_session(), "required")

        assert not asked.take(**DONE)
        assert not asked.turn.take(Lost("gone"))
        assert not asked.turn.take(Failure(None, codec.error(-1, "no")))
        ending = Answered(b"{}")
        assert asked.turn.minted(ending) is ending
        assert asked.errand.endings == []

    play(ERAS[era], scene)


@BOTH
def test_a_result_that_comes_at_once_is_a_task_that_is_over(era: Era) -> None:
    async def scene(house: House) -> None:
        for wish, kept in ({"ttl": 5000}, 5000), ({}, None), ({"ttl": "x"}, None), ({"ttl": -5}, 0):
            asked = Scene(house, wishing(), "optional", task=wish)
            ending = asked.turn.minted(Answered(json.dumps(DONE).encode()))
            assert isinstance(ending, Answered)
            task = json.loads(ending.result)["task"]
            assert task["status"] == "completed"
            assert task["ttl"] == (TASK_SECONDS_MAX * 1000 if kept is None else kept)
        (handle, *_) = house.tasks.handles.of_caller(wishing(), -1.0)
        assert handle.local
        assert json.loads(handle.task.result or b"") == DONE

        refused = Refused(b"{}")
        assert asked.turn.minted(refused) is refused

    play(ERAS[era], scene)


@BOTH
def test_when_there_are_too_many_the_new_one_is_cancelled(era: Era) -> None:
    async def scene(house: House) -> None:
        by = wishing()
        for number in range(TASKS_OF_ONE_MAX):
            house.handle(by, native=f"{number}")
        asked = Scene(house, by, "optional", task={})

        assert asked.created()
        params = await house.server.answers("tasks/cancel", result=told(era, "cancelled"))
        await house.settle()

        assert params["taskId"] == "native"
        (ending,) = asked.errand.endings
        assert isinstance(ending, Failed)
        assert "too many tasks" in ending.fault.message
        # One that no server knows of need not be cancelled.
        minted = asked.turn.minted(Answered(b"{}"))
        assert isinstance(minted, Failed)
        assert len(house.running) == 1

    play(ERAS[era], scene)


def test_the_connection_of_a_task_is_kept_while_it_lives() -> None:
    async def scene(house: House) -> None:
        server, key = house.server, LeaseKey(owner="call-1")
        server.connections = lambda: [(key, server.connection)]  # type: ignore[method-assign]
        asked = Scene(house, without_session(), "required")
        asked.errand.seated = True
        assert asked.created()
        await house.server.asked("tasks/result")
        assert asked.errand.left == 0

        sent = house.server.requests[-1]["id"]
        house.server.connection.receive(codec.result(b"%d" % sent, b'{"content":[]}'))
        await house.settle()
        assert asked.errand.left == 1

    play(LEGACY, scene)


def test_where_it_has_none_to_itself_nobody_waits() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, without_session(), "required")
        assert asked.created()

        assert (house.running, house.server.requests) == ([], [])

    play(LEGACY, scene)


@pytest.mark.parametrize(("key", "shared"), [(SHARED, True), (LeaseKey(owner="mine"), False)])
def test_a_task_knows_whether_others_use_its_connection(key: LeaseKey, shared: bool) -> None:
    async def scene(house: House) -> None:
        server = house.server
        server.connections = lambda: [(key, server.connection)]  # type: ignore[method-assign]
        asked = Scene(house, without_session(), "required")
        asked.created()

        (handle,) = house.tasks.handles.of_caller(without_session(), 0.0)
        assert handle.shared is shared

    play(LEGACY, scene)


def test_the_client_of_a_session_goes_on_hearing_how_far_it_has_come() -> None:
    async def scene(house: House) -> None:
        by, session = in_session()
        asked = Scene(house, by, "optional", task={})
        asked.errand.exchange.progress_token = b"5"
        asked.created()
        assert asked.errand.hearing is not None

        asked.errand.hearing([b'{"progressToken":1,"progress":1}'])
        assert session.notified[0][1]["progressToken"] == 5
        (handle,) = house.tasks.handles.of_caller(by, 0.0)
        handle.see(Task(status="completed", created=b"", updated=b""))
        assert asked.errand.hearing is None

    play(LEGACY, scene)


def test_a_client_without_a_session_does_not() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, without_session(), "required")
        asked.created()

        assert asked.errand.hearing is None

    play(LEGACY, scene)
