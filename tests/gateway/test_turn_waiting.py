"""A task that is waited for in the place of a client that takes none."""

import json
from dataclasses import replace

import pytest

from anyport.protocol.exchange import Caller, Failed
from anyport.protocol.extension import TASKS
from anyport.protocol.revision import Era
from anyport.upstream.call import Lost
from anyport.upstream.parting import BROKEN
from anyport.wire import codec
from anyport.wire.frame import Failure, Result
from tests.gateway.fakes import LEGACY, MODERN, caller, declared
from tests.gateway.tasking import (
    BOTH,
    DONE,
    ENTRY,
    ERAS,
    SWEET,
    House,
    given_up,
    play,
    told,
    without_session,
)
from tests.gateway.turning import CAPABILITIES, Scene, wishing
from tests.upstream.fakes import until

INSISTS = codec.error(
    -32021, "tasks", b'{"requiredCapabilities":{"extensions":{"%b":{}}}}' % TASKS.encode()
)


@BOTH
def test_a_client_that_takes_no_task_gets_what_has_come_of_it(era: Era) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN), "required")
        assert asked.created()
        server = house.server
        await server.tells("working")
        await server.tells("completed", **({"result": DONE} if era is Era.MODERN else {}))
        if era is Era.LEGACY:
            await server.answers("tasks/result", result=DONE)
        await house.settle()

        (answer,) = asked.errand.concluded
        assert isinstance(answer, Result)
        assert json.loads(answer.result) == DONE
        assert (asked.errand.endings, len(house.tasks.handles)) == ([], 0)
        asked.turn.stop()
        assert server.notices == []

    play(ERAS[era], scene)


@BOTH
@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_or_the_error_that_it_ended_with(era: Era, status: str) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN), "required")
        asked.created()
        error = {"code": 4002, "message": "broke"}
        failed = status == "failed"
        await house.server.tells(status, **({"error": error} if failed else {}))
        await house.settle()

        (answer,) = asked.errand.concluded
        assert isinstance(answer, Failure)
        assert json.loads(answer.error)["code"] == (4002 if failed else -32000)

    play(ERAS[era], scene)


@BOTH
def test_or_why_nothing_is_known_of_it(era: Era) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN), "required")
        asked.created()
        await house.server.asked("tasks/get")
        house.server.connection.end("it exited")
        await house.settle()

        assert asked.errand.concluded == [BROKEN.sent("it exited")]

    play(ERAS[era], scene)


def test_what_the_task_waits_for_is_asked_by_way_of_the_call() -> None:
    async def scene(house: House) -> None:
        able = declared({"elicitation": {}})
        asked = Scene(house, replace(caller(None, MODERN), capabilities=able))
        asked.created()
        await house.server.tells("input_required", inputRequests={"k": ENTRY})
        await until(lambda: bool(asked.errand.questions))
        (question,) = asked.errand.questions
        assert "_meta" not in json.loads(question.params or b"")

        question.answer(Result(b"", json.dumps(SWEET).encode()))
        brought = await house.server.answers("tasks/update", result={})
        await house.server.tells("completed", result=DONE)
        await house.settle()

        assert brought["inputResponses"] == {"k": SWEET}
        assert len(asked.errand.concluded) == 1

    play(MODERN, scene)


def test_a_task_that_asks_what_the_client_cannot_be_asked_ends_its_call() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN))
        asked.created()
        await house.server.tells("input_required", inputRequests={"k": ENTRY})
        await house.server.answers("tasks/cancel", result={})
        await house.settle()

        (ending,) = asked.errand.endings
        assert isinstance(ending, Failed)
        assert "elicitation" in ending.fault.message

    play(MODERN, scene)


def test_meanwhile_the_client_hears_how_far_it_has_come() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN), "required")
        asked.created()
        assert asked.errand.hearing is not None
        asked.errand.hearing([b"{}"])
        assert asked.errand.reports == [b"{}"]

        await house.server.tells("cancelled")
        await house.settle()
        assert asked.errand.hearing is None

    play(LEGACY, scene)


@BOTH
def test_a_client_that_gives_up_has_the_task_cancelled(era: Era) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN), "required")
        asked.created()
        await house.server.asked("tasks/get")

        asked.turn.stop()
        params = await house.server.answers("tasks/cancel", result=told(era, "cancelled"))
        await house.settle()
        asked.turn.stop()

        assert params["taskId"] == "native"
        assert (asked.errand.concluded, asked.errand.endings) == ([], [])
        assert asked.errand.hearing is None

    play(ERAS[era], scene)


def test_also_if_it_gives_up_at_once() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN))
        asked.created()
        asked.turn.stop()
        await house.server.answers("tasks/cancel", result={})
        await house.settle()

        assert [sent["method"] for sent in house.server.requests] == ["tasks/cancel"]

    play(MODERN, scene)


@BOTH
def test_when_the_gateway_stops_the_call_is_answered(era: Era) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN), "required")
        asked.created()
        await house.server.asked("tasks/get")
        house.tasks.stop()
        for task in house.running:
            await given_up(task)

        assert asked.errand.concluded == [Lost("the gateway is stopping")]

    play(ERAS[era], scene)


# Servers that insist.


@pytest.mark.parametrize("by", [caller(None, MODERN), wishing()])
def test_a_server_that_insists_on_a_task_gets_its_way_once(by: Caller) -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, by)

        assert asked.turn.take(Failure(None, INSISTS))
        (sent,) = asked.errand.sent
        assert sent["_meta"][CAPABILITIES] == {"extensions": {TASKS: {}}}
        assert not asked.turn.take(Failure(None, INSISTS))

        assert asked.created()
        await house.server.tells("completed", result=DONE)
        await until(lambda: bool(asked.errand.concluded))

    play(MODERN, scene)


def test_one_that_needs_something_else_does_not() -> None:
    async def scene(house: House) -> None:
        other = codec.error(-32021, "sampling", b'{"requiredCapabilities":{"sampling":{}}}')
        assert not Scene(house, caller(None, MODERN)).turn.take(Failure(None, other))
        words = codec.error(-32602, TASKS)
        assert not Scene(house, caller(None, MODERN)).turn.take(Failure(None, words))
        # Who has declared tasks is told what the server says.
        assert not Scene(house, without_session()).turn.take(Failure(None, INSISTS))

    play(MODERN, scene)


def test_a_session_cannot_insist_so() -> None:
    async def scene(house: House) -> None:
        asked = Scene(house, caller(None, MODERN), "required")

        assert not asked.turn.take(Failure(None, INSISTS))

    play(LEGACY, scene)
