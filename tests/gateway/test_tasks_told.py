"""What servers tell and ask for their tasks, and who gets to hear it."""

import json
from typing import Any

from anyport.protocol.exchange import NeedInput, Notice, Question
from anyport.protocol.revision import Era
from anyport.wire.frame import Request
from tests.gateway.fakes import LEGACY, MODERN, Asked
from tests.gateway.tasking import (
    BOTH,
    DONE,
    ENTRY,
    ERAS,
    FORM,
    RELATED,
    House,
    ended,
    in_session,
    listening,
    play,
    told,
    without_session,
)
from tests.upstream.fakes import connected, until

ME = without_session(elicitation={})


def request(native: str = "native") -> Request:
    params = {**FORM, "_meta": {RELATED: {"taskId": native}}}
    return Request(b"9", "elicitation/create", json.dumps(params).encode())


def test_what_a_modern_server_tells_is_told_to_those_who_listen() -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        heard, deaf = listening(house, handle, by=ME), listening(house, by=ME)
        unable = listening(house, handle, by=without_session())
        asking = told(Era.MODERN, "input_required", inputRequests={"k": ENTRY})
        for params in (asking, told(Era.MODERN, "completed", result=DONE)):
            house.tasks.told(house.server, house.server.connection, json.dumps(params).encode())
            await house.settle()

        assert [task["status"] for task in heard] == ["input_required", "completed"]
        assert {task["taskId"] for task in heard} == {handle.id}
        assert [task["status"] for task in unable] == ["completed"]
        assert (deaf, house.server.requests) == ([], [])

    play(MODERN, scene)


def test_of_a_sessions_task_they_are_told_what_it_has_come_to() -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        heard = listening(house, handle, by=ME)
        params = json.dumps(told(Era.LEGACY, "completed")).encode()
        house.tasks.told(house.server, house.server.connection, params)
        await house.server.answers("tasks/result", result=DONE)
        await house.settle()
        assert heard[0]["result"]["content"] == DONE["content"]

        lost = house.handle(ME)
        more = listening(house, lost, by=ME)
        house.tasks.told(
            house.server, house.server.connection, json.dumps(told(Era.LEGACY)).encode()
        )
        await house.server.answers("tasks/get", error={"code": 1, "message": "no"})
        await house.settle()
        assert more == []

    play(LEGACY, scene)


@BOTH
def test_a_session_is_told_of_its_own_tasks_in_its_own_words(era: Era) -> None:
    async def scene(house: House) -> None:
        by, session = in_session()
        handle = house.handle(by)
        line = house.server.connection
        for params in (told(era, "failed"), told(era, id="unknown"), {"odd": 1}):
            house.tasks.told(house.server, line, json.dumps(params).encode())

        ((method, params),) = session.notified
        assert (method, params["taskId"]) == ("notifications/tasks/status", handle.id)
        assert (params["status"], handle.task.status) == ("failed", "failed")

    play(ERAS[era], scene)


def test_what_is_told_over_another_connection_is_of_another_task() -> None:
    async def scene(house: House) -> None:
        handle = house.handle(ME)
        other, _, _ = connected(LEGACY)
        house.tasks.told(house.server, other, json.dumps(told(Era.LEGACY, "failed")).encode())

        assert handle.task.status == "working"

    play(LEGACY, scene)


def test_a_question_for_a_task_is_for_its_client() -> None:
    async def scene(house: House) -> None:
        handle, line = house.handle(ME), house.server.connection
        heard = listening(house, handle, by=ME)
        assert house.tasks.audience(house.server, line, request("unknown")) is None
        assert house.tasks.audience(house.server, line, Request(b"9", "roots/list")) is None

        audience = house.tasks.audience(house.server, line, request())
        assert audience is not None
        assert audience.capabilities is ME.capabilities
        audience.put(Question("elicitation/create", request().params, lambda _: None))
        await house.server.tells("input_required")
        await house.settle()

        assert handle.open.keys() == {"q1"}
        assert heard[0]["inputRequests"] == {"q1": ENTRY}

    play(LEGACY, scene)


def test_a_session_is_asked_where_it_waits_or_wherever_it_can_be() -> None:
    async def scene(house: House) -> None:
        by, session = in_session(elicitation={})
        handle, line = house.handle(by), house.server.connection
        audience = house.tasks.audience(house.server, line, request())
        assert audience is not None

        def put() -> Question:
            question = Question("elicitation/create", request().params, lambda _: None)
            audience.put(question)
            assert json.loads(question.params or b"")["_meta"] == {RELATED: {"taskId": handle.id}}
            return question

        first = put()
        assert session.asked == [first]
        # One who waits, but cannot be asked, is not; one who can is asked along with the result.
        unable = house.ask("tasks/result", handle, in_session()[0])
        await until(lambda: len(handle.waiting) == 1)
        second = put()
        assert (session.asked, unable.told) == ([first, second], [])
        waiting = house.ask("tasks/result", handle, by)
        await until(lambda: len(handle.waiting) == 2)
        third = put()
        assert waiting.told == [NeedInput(third)]

        for _ in range(2):
            await house.server.answers("tasks/result", result=DONE)
        await house.settle()
        assert not any(question.open for question in (first, second, third))

    play(LEGACY, scene)


def test_progress_of_a_task_is_told_under_the_token_of_its_call() -> None:
    async def scene(house: House) -> None:
        by, session = in_session()
        handle = house.handle(by)
        began = Asked("tools/call", {}, by).exchange
        began.progress_token = b'"mine"'

        def report(progress: Any) -> None:
            native = {"progressToken": 7, "progress": progress}
            house.tasks.progressed(handle, began, [json.dumps(native).encode()])

        for progress in (1, 1, 2, 0):
            report(progress)
        own = {"progressToken": "mine", "_meta": {RELATED: {"taskId": handle.id}}}
        assert session.notified == [
            ("notifications/progress", {**own, "progress": 1}),
            ("notifications/progress", {**own, "progress": 2}),
        ]
        waiting = house.ask("tasks/result", handle, by)
        await until(lambda: bool(handle.waiting))
        report({"odd": 1})
        (notice,) = waiting.told
        assert isinstance(notice, Notice)
        assert json.loads(notice.params)["progress"] == {"odd": 1}
        await house.server.answers("tasks/result", result=DONE)
        await ended(waiting)

        began.progress_token = None
        report(9)
        assert len(session.notified) == 2

    play(LEGACY, scene)
