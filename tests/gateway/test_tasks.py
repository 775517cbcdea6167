"""What clients of either era ask about their tasks, whichever era the server speaks."""

import json

import pytest

from anyport.protocol.exchange import Question
from anyport.protocol.revision import Era
from anyport.wire.frame import Failure, Result
from tests.gateway.fakes import LEGACY, MODERN, caller
from tests.gateway.tasking import (
    BOTH,
    DONE,
    ERAS,
    FORM,
    RELATED,
    SWEET,
    House,
    ended,
    in_session,
    play,
    task_of,
    told,
    without_session,
)
from tests.upstream.fakes import Message, until

ME = without_session(elicitation={})


# Modern clients.


@BOTH
def test_a_modern_client_sees_how_its_task_stands(era: Era) -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        asked = house.ask("tasks/get", handle, ME)
        await house.server.tells("working", statusMessage="hm")

        answer = await ended(asked)

        assert (answer["taskId"], answer["status"]) == (handle.id, "working")
        assert answer["statusMessage"] == "hm"

    play(ERAS[era], scene)


def test_a_sessions_task_is_asked_for_its_result_when_it_is_over() -> None:
    async def scene(house: House) -> None:
        asked = house.ask("tasks/get", house.handle(ME), ME)
        await house.server.tells("completed")
        await house.server.answers("tasks/result", result=DONE)

        assert (await ended(asked))["result"] == {**DONE, "resultType": "complete"}

    play(LEGACY, scene)


@BOTH
def test_a_server_that_refuses_or_is_lost_is_told_as_such(era: Era) -> None:
    async def scene(house: House) -> None:
        error = {"code": 7, "message": "no"}
        for method in ("tasks/get", "tasks/cancel" if era is Era.MODERN else "tasks/get"):
            asked = house.ask(method, house.handle(ME), ME)
            await house.server.answers(method, error=error)
            assert (await ended(asked))["code"] == 7
        asked = house.ask("tasks/get", house.handle(ME), ME)
        await house.server.asked("tasks/get")
        house.server.connection.end("it exited")
        assert await ended(asked) == "Server 's' is not running: it exited"

    play(ERAS[era], scene)


def test_a_modern_client_brings_answers_to_a_modern_server() -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        asked = house.ask("tasks/update", handle, ME, inputResponses={"k": SWEET})
        brought = await house.server.answers("tasks/update", result={})
        assert brought["inputResponses"] == {"k": SWEET}
        assert await ended(asked) == {}

        refused = house.ask("tasks/update", handle, ME, inputResponses={})
        await house.server.answers("tasks/update", error={"code": 1, "message": "no"})
        assert (await ended(refused))["code"] == 1

    play(MODERN, scene)


@BOTH
@pytest.mark.parametrize("params", [{}, {"inputResponses": 5}])
def test_answers_have_to_be_there(era: Era, params: Message) -> None:
    async def scene(house: House) -> None:
        asked = house.ask("tasks/update", house.handle(ME), ME, **params)

        assert "needs inputResponses" in await ended(asked)

    play(ERAS[era], scene)


def test_answers_to_a_session_answer_its_own_questions() -> None:
    async def scene(house: House) -> None:
        said: list[Result | Failure] = []
        handle = house.handle(ME)
        question = Question("elicitation/create", json.dumps(FORM).encode(), said.append)
        handle.ask(question)

        wrong = {"q1": {"action": "odd"}, "q2": SWEET}
        for answers in ({}, wrong):
            assert await ended(house.ask("tasks/update", handle, ME, inputResponses=answers)) == {}
            assert question.open
        assert (
            await ended(house.ask("tasks/update", handle, ME, inputResponses={"q1": SWEET})) == {}
        )

        assert isinstance(said[0], Result)
        assert json.loads(said[0].result) == SWEET
        assert house.server.requests == []

    play(LEGACY, scene)


@BOTH
def test_a_modern_client_cancels_a_task_and_is_told_no_more_than_that(era: Era) -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        asked = house.ask("tasks/cancel", handle, ME)
        await house.server.answers("tasks/cancel", result=told(era, "cancelled"))
        assert await ended(asked) == {}

        # Only a session's server has promised that it is cancelled from then on.
        later = house.ask("tasks/get", handle, ME)
        if era is Era.MODERN:
            await house.server.tells("completed", result=DONE)
        assert (await ended(later))["status"] == ("completed" if era is Era.MODERN else "cancelled")
        again = house.ask("tasks/cancel", handle, ME)
        assert await ended(again) == {}

    play(ERAS[era], scene)


def test_a_session_that_does_not_cancel_is_the_states_business_too() -> None:
    async def scene(house: House) -> None:
        asked = house.ask("tasks/cancel", house.handle(ME), ME)
        await house.server.answers("tasks/cancel", error={"code": -32602, "message": "over"})

        assert await ended(asked) == {}

    play(LEGACY, scene)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_modern_client_has_to_declare_tasks_with_each_request(method: str) -> None:
    async def scene(house: House) -> None:
        asked = house.ask(method, house.handle(ME), caller(None, MODERN))

        assert "declare the extension" in await ended(asked)

    play(MODERN, scene)


# Clients with a session.


@BOTH
def test_in_a_session_a_task_is_seen_and_listed(era: Era) -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        handle = house.handle(by)
        asked = house.ask("tasks/get", handle, by)
        await house.server.tells("working", statusMessage="hm")

        answer = await ended(asked)

        assert (answer["taskId"], answer["statusMessage"], answer["ttl"]) == (handle.id, "hm", None)
        assert (await ended(house.ask("tasks/list", "", by)))["tasks"] == [answer]
        refused = house.ask("tasks/get", handle, by)
        await house.server.answers("tasks/get", error={"code": 7, "message": "no"})
        assert (await ended(refused))["code"] == 7

    play(ERAS[era], scene)


def test_the_result_of_a_sessions_task_is_the_servers_answer() -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        handle = house.handle(by)
        asked = house.ask("tasks/result", handle, by)
        await house.server.answers("tasks/result", result=DONE)

        assert await ended(asked) == {**DONE, "_meta": {RELATED: {"taskId": handle.id}}}
        # What is known need not be asked again.
        assert await ended(house.ask("tasks/result", handle, by)) == await ended(asked)
        assert len(house.server.requests) == 1

    play(LEGACY, scene)


def test_the_result_of_a_modern_servers_task_is_waited_for() -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        asked = house.ask("tasks/result", house.handle(by), by)
        await house.server.tells("working")
        await house.server.tells("completed", result={**DONE, "resultType": "complete"})

        answer = await ended(asked)
        assert answer["content"] == DONE["content"]
        assert "resultType" not in answer

    play(MODERN, scene)


def test_a_result_that_came_at_once_is_no_servers_to_tell() -> None:
    for era in Era:

        async def scene(house: House) -> None:
            by, _ = in_session()
            over = task_of(Era.MODERN, "completed", result=DONE)
            handle = house.handle(by, over, native="")

            answer = await ended(house.ask("tasks/result", handle, by))
            assert answer["content"] == DONE["content"]
            assert (await ended(house.ask("tasks/get", handle, by)))["status"] == "completed"
            words = await ended(house.ask("tasks/cancel", handle, by))
            assert words == "The task cannot be cancelled: it is completed"
            assert house.server.requests == []

        play(ERAS[era], scene)


@BOTH
def test_a_task_that_failed_has_its_error_for_a_result(era: Era) -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        asked = house.ask("tasks/result", house.handle(by), by)
        error = {"code": 4002, "message": "broke"}
        if era is Era.LEGACY:
            await house.server.answers("tasks/result", error=error)
            await house.server.tells("failed")
        else:
            await house.server.tells("failed", error=error)

        assert (await ended(asked))["code"] == 4002

    play(ERAS[era], scene)


@BOTH
def test_in_a_session_what_was_cancelled_stays_so(era: Era) -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        handle = house.handle(by)
        asked = house.ask("tasks/cancel", handle, by)
        await house.server.tells("working")
        await house.server.answers("tasks/cancel", result=told(era, "cancelled"))
        assert (await ended(asked))["status"] == "cancelled"

        assert (await ended(house.ask("tasks/get", handle, by)))["status"] == "cancelled"
        words = await ended(house.ask("tasks/result", handle, by))
        assert "was cancelled" in words["message"]
        assert "cannot be cancelled" in await ended(house.ask("tasks/cancel", handle, by))

    play(ERAS[era], scene)


@BOTH
def test_what_cannot_be_cancelled_is_told_in_a_session(era: Era) -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        first = house.ask("tasks/cancel", house.handle(by), by)
        await house.server.answers("tasks/get", error={"code": 7, "message": "no"})
        assert (await ended(first))["code"] == 7
        second = house.ask("tasks/cancel", house.handle(by), by)
        await house.server.tells("working")
        await house.server.answers("tasks/cancel", error={"code": 8, "message": "no"})
        assert (await ended(second))["code"] == 8

    play(ERAS[era], scene)


@BOTH
def test_a_result_may_be_waited_for_twice(era: Era) -> None:
    async def scene(house: House) -> None:
        by, _ = in_session()
        handle = house.handle(by)
        both = [house.ask("tasks/result", handle, by) for _ in range(2)]
        await until(lambda: len(handle.waiting) == 2)
        for _ in range(2 if era is Era.LEGACY else 1):
            if era is Era.LEGACY:
                await house.server.answers("tasks/result", result=DONE)
            else:
                await house.server.tells("completed", result=DONE)
        if era is Era.MODERN:
            late = await house.server.asked("tasks/get")
            house.server.connection.receive(
                json.dumps({"jsonrpc": "2.0", "id": late["id"], "result": told(era)}).encode()
            )

        assert await ended(both[0]) == await ended(both[1])
        assert handle.waiting == []

    play(ERAS[era], scene)
