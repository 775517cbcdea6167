"""A modern server's task is seen through to its end for a client that waits in a session."""

import asyncio
import json
from typing import Any

import pytest

from anyport.gateway import vigil
from anyport.gateway.handles import Handle
from anyport.gateway.task_line import TaskLine
from anyport.gateway.vigil import follow, unaskable
from anyport.protocol.errors import MISSING_CAPABILITY
from anyport.protocol.exchange import Caller, Failed, Question
from anyport.protocol.revision import Era
from anyport.upstream.parting import BROKEN
from anyport.wire import codec
from anyport.wire.frame import Failure, Result
from tests.gateway.fakes import MODERN, caller
from tests.gateway.tasking import (
    ENTRY,
    FORM,
    RELATED,
    SWEET,
    Tasked,
    given_up,
    in_session,
    task_of,
    without_session,
)
from tests.upstream.fakes import Message, run, until

SAMPLING: Message = {"method": "sampling/createMessage", "params": {"messages": []}}
URL: Message = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "m", "url": "javascript:alert(1)"},
}


class Watch:
    """Somebody waits for the result of a task."""

    def __init__(
        self, group: asyncio.TaskGroup, server: Tasked, by: Caller, handle: Handle | None = None
    ) -> None:
        self.handle = handle or Handle(
            "ours", "native", server, Era.MODERN, by, task_of(Era.MODERN)
        )
        self.questions: list[Question] = []
        line = TaskLine(lambda: "now")
        self.task = group.create_task(follow(line, self.handle, by, self.questions.append))

    async def question(self) -> Question:
        await until(lambda: bool(self.questions))
        return self.questions[-1]

    def seen(self) -> Any:
        return self.task.result()


ABLE, _ = in_session(elicitation={"form": {}, "url": {}}, sampling={})


def test_it_is_looked_at_until_it_is_over() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("working")
            await server.tells("input_required", inputRequests={})
            await server.tells("completed", result={"content": []})

        assert watch.seen().result == b'{"content": []}'

    run(scene)


def test_what_it_waits_for_is_asked_at_once_and_brought_at_once() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
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
        server = Tasked(MODERN)
        nameless = Handle("", "native", server, Era.MODERN, ABLE, task_of(Era.MODERN))
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE, nameless)
            await server.tells("input_required", inputRequests={"a": ENTRY})
            question = await watch.question()
            assert json.loads(question.params or b"") == FORM
            question.answer(Failure(None, codec.error(-1, "rejected")))
            brought = await server.answers("tasks/update", result={})
            await server.tells("completed", result={})

        assert brought["inputResponses"] == {"a": {"action": "decline"}}

    run(scene)


def test_of_two_who_wait_one_is_asked_and_the_other_if_that_one_leaves() -> None:
    async def scene() -> None:
        server = Tasked(MODERN)
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
        server = Tasked(MODERN)
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
        server = Tasked(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests={"a": SAMPLING})
            (await watch.question()).answer(Failure(None, codec.error(-1, "no")))
            await server.answers("tasks/cancel", result={})

        assert "did not answer: sampling" in watch.seen().fault.message

    run(scene)


def test_a_person_who_does_not_answer_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vigil, "QUESTION_SECONDS_MAX", 0.01)

    async def scene() -> None:
        server = Tasked(MODERN)
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
        server = Tasked(MODERN)
        withdrawn: list[bytes | None] = []
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.tells("input_required", inputRequests={"a": ENTRY})
            (await watch.question()).on_withdrawn = withdrawn.append
            watch.handle.see(TaskLine(lambda: "now").cancelled(watch.handle))

        assert watch.seen().status == "cancelled"
        assert withdrawn == [None]
        assert [sent["method"] for sent in server.requests] == ["tasks/get"]

    run(scene)


def test_what_the_server_refuses_is_passed_on() -> None:
    async def scene() -> None:
        server, error = Tasked(MODERN), {"code": 5, "message": "no"}
        async with asyncio.TaskGroup() as group:
            unseen, untold = Watch(group, server, ABLE), Tasked(MODERN)
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
        server = Tasked(MODERN)
        async with asyncio.TaskGroup() as group:
            watch = Watch(group, server, ABLE)
            await server.asked("tasks/get")
            server.connection.end("it exited")

        assert watch.seen() == BROKEN.sent("it exited")

    run(scene)


def test_what_a_client_declares_with_a_request_decides_what_that_may_be_told() -> None:
    handle = Handle("ours", "native", Tasked(MODERN), Era.MODERN, ABLE, task_of(Era.MODERN))
    entry = {"a": json.dumps(ENTRY).encode()}

    assert unaskable({}, caller(None, MODERN), handle) is None
    assert unaskable(entry, without_session(elicitation={}), handle) is None
    refusal = unaskable(entry, without_session(), handle)
    assert refusal is not None
    assert refusal.fault.code(MODERN) == MISSING_CAPABILITY
    assert json.loads(refusal.fault.data or b"")["requiredCapabilities"] == {"elicitation": {}}
