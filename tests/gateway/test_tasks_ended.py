"""Requests, sessions and gateways that end while tasks live, and whose those are."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway.task_words import NOT_FOUND
from anyport.protocol.exchange import Question
from anyport.protocol.principal import Principal
from anyport.protocol.revision import Era
from anyport.upstream.key import SHARED, LeaseKey
from anyport.wire.frame import Failure, Request, Result
from tests.gateway.fakes import LEGACY, MODERN, Asked, caller
from tests.gateway.tasking import (
    BOTH,
    DONE,
    ERAS,
    FORM,
    RELATED,
    House,
    Tasked,
    ended,
    given_up,
    in_session,
    listening,
    play,
    task_of,
    without_session,
)
from tests.upstream.fakes import run

ME = without_session(elicitation={})


def request(native: str = "native") -> Request:
    params = {**FORM, "_meta": {RELATED: {"taskId": native}}}
    return Request(b"9", "elicitation/create", json.dumps(params).encode())


# Cancelled requests.


@BOTH
def test_who_gives_up_waiting_does_not_cancel_the_task(era: Era) -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        handle = house.handle(by)
        asked = house.ask("tasks/result", handle, by)
        await house.server.asked("tasks/result" if era is Era.LEGACY else "tasks/get")

        asked.exchange.cancel()
        await house.settle()

        assert asked.told == []
        assert (handle.waiting, handle.task.status) == ([], "working")
        assert [sent["method"] for sent in house.server.requests[1:]] == []
        assert house.server.notices == ["notifications/cancelled"]

    play(ERAS[era], scene)


def test_a_request_that_was_given_up_before_it_began_is_not_made() -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        asked = house.ask("tasks/result", house.handle(by), by)
        asked.exchange.cancel()
        await house.settle()

        assert house.server.requests == []

    play(LEGACY, scene)


@BOTH
def test_when_the_gateway_stops_nobody_waits_any_more(era: Era) -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        handle = house.handle(by)
        asked = house.ask("tasks/result", handle, by)
        await house.server.asked("tasks/result" if era is Era.LEGACY else "tasks/get")

        house.tasks.stop()
        late = house.ask("tasks/result", handle, by)
        for task in house.running:
            await given_up(task)

        assert asked.ending == "Server 's' is not running: the gateway is stopping"
        assert late.ending is None

    play(ERAS[era], scene)


def test_what_breaks_of_ours_is_answered_and_reported() -> None:
    async def whole() -> None:
        with pytest.raises(ExceptionGroup) as broke:
            async with asyncio.TaskGroup() as group:
                house = House(Tasked(MODERN), group)
                handle = house.handle(ME)
                handle.server = None  # type: ignore[assignment]
                asked = house.ask("tasks/get", handle, ME)
        assert broke.group_contains(AttributeError)
        assert asked.ending.startswith("Internal error")

    run(whole)


def test_an_object_that_names_a_member_twice_is_the_servers_fault() -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        asked = house.ask("tasks/result", house.handle(by), by)
        sent = await house.server.asked("tasks/result")
        raw = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"content":[]}}' % sent["id"]
        house.server.connection.receive(raw)

        assert "names a member twice" in await ended(asked)

    play(LEGACY, scene)


# Whose they are.


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result"])
def test_a_task_is_nobody_elses(method: str) -> None:
    async def scene(house: House) -> None:
        by = in_session()[0] if method == "tasks/result" else ME
        handle = house.handle(by)
        other = replace(by, principal=Principal("token", "other"), memory={})
        elsewhere = replace(by, profile="elsewhere", memory={})

        for stranger in (other, elsewhere):
            assert house.ask(method, handle, stranger).ending == NOT_FOUND
        for id in ("", "made-up", handle.id + "A"):
            assert house.ask(method, id, by).ending == NOT_FOUND
        house.now = 1e9
        assert house.ask(method, handle, by).ending == NOT_FOUND
        assert house.server.requests == []

    play(LEGACY, scene)


def test_a_client_listens_for_its_own_tasks() -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        theirs = house.handle(replace(ME, principal=Principal("token", "other"), memory={}))
        asked = Asked("subscriptions/listen", {}, ME)

        def heard(ids: object, by: Asked = asked) -> Any:
            return house.tasks.heard_of(by.exchange, house.profile, ids)

        assert heard([handle.id, theirs.id, "made-up", 5]) == (handle,)
        assert heard(None) == heard("x") == ()
        undeclared = Asked("subscriptions/listen", {}, caller(None, MODERN))
        assert "declare" in heard([], undeclared).message
        assert heard(None, undeclared) == ()

    play(MODERN, scene)


# Sessions that end.


def test_with_a_session_its_tasks_are_over_and_make_room() -> None:
    async def scene(house: House) -> None:
        by, session = in_session()
        handle, done = house.handle(by), house.handle(by, native="2")
        modern = house.handle(ME, native="3")
        heard = listening(house, modern, by=ME)
        done.see(task_of(Era.LEGACY, "completed", result=DONE))

        house.tasks.lost(house.server.connection)
        await house.settle()

        assert (handle.task.status, done.task.status) == ("failed", "completed")
        answer = await ended(house.ask("tasks/result", handle, by))
        assert "session that the task belonged to has ended" in answer["message"]
        assert [params["status"] for _, params in session.notified] == ["failed"]
        assert heard[0]["error"]["code"] == -32603
        assert house.server.requests == []

    play(LEGACY, scene)


def test_a_connection_that_begins_a_session_anew_knows_none_of_its_tasks() -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        house.tasks.renewed(house.server, LeaseKey(owner="other"))
        assert handle.task.status == "working"
        house.tasks.renewed(house.server, SHARED)
        assert handle.task.status == "failed"

    play(LEGACY, scene)


def test_the_connection_of_a_task_is_kept_until_it_is_over() -> None:
    async def scene(house: House) -> None:
        handle, released = house.handle(ME), []
        said: list[Result | Failure] = []
        heard = listening(house, handle, by=ME)
        handle.ask(Question("elicitation/create", request().params, said.append))
        house.tasks.begin(house.tasks.hold(handle, lambda: released.append(1)))
        await house.server.asked("tasks/result")
        assert (released, said) == ([], [])

        sent = house.server.requests[-1]["id"]
        house.server.connection.receive(
            json.dumps({"jsonrpc": "2.0", "id": sent, "result": DONE}).encode()
        )
        await house.settle()

        assert released == [1]
        assert isinstance(said[0], Failure)
        assert heard[-1]["status"] == "completed"

    play(LEGACY, scene)


def test_or_until_its_time_is_over() -> None:
    async def scene(house: House) -> None:
        handle, released = house.handle(ME, task_of(Era.LEGACY, ttl=10)), []
        house.tasks.begin(house.tasks.hold(handle, lambda: released.append(1)))
        await house.settle()

        assert (released, house.server.notices) == ([1], ["notifications/cancelled"])

    play(LEGACY, scene)
