"""A call on its way that becomes a task: its connection, its time, and what its client is asked."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyport.catalog.offers import Listing, Offer
from anyport.gateway.calls.leases import ExclusiveConnection
from anyport.gateway.elicitation import parked_calls
from anyport.protocol.exchange import Caller, Progress
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era, Revision
from tests.gateway.fakes import LEGACY, MODERN, Asked, caller, declared
from tests.gateway.scene import Scene
from tests.gateway.task_rig import ENTRY, RELATED, SWEET, told, without_session
from tests.upstream.fakes import Message, peer_of, run, say, until

ABLE = replace(caller(None, MODERN), capabilities=declared({"elicitation": {}}))
TOOL = b'{"name":"echo","execution":{"taskSupport":"required"}}'

ASK = parked_calls.QUESTIONS_BATCH_SECONDS


class Stage:
    """A scene whose server makes tasks, and whose tasks of the loop run."""

    def __init__(self, path: Path, revision: Revision) -> None:
        self.scene = Scene(path, revision=revision)
        self.server = self.scene.server
        self.server.connection.peer = replace(peer_of(revision), extensions={TASKS: b"{}"})
        self.server.extensions = {TASKS: b"{}"}
        self.server.listings[OfferKind.TOOLS] = Listing(offers=(Offer("echo", TOOL),))
        self.era = revision.era
        self.taken = 0

    def call(self, by: Caller, **params: Any) -> Asked:
        return self.scene.begin(params={"name": "s__echo", **params}, by=by)

    async def answers(self, method: str, **outcome: Any) -> Message:
        """Let the next request be this one, and answer it."""
        sent = self.server.channel.sent
        await until(lambda: any("id" in each and "method" in each for each in sent[self.taken :]))
        while "method" not in sent[self.taken] or "id" not in sent[self.taken]:
            self.taken += 1
        request = sent[self.taken]
        self.taken += 1
        assert request["method"] == method, request
        say(self.server.connection, id=request["id"], **outcome)
        params: Message = request["params"]
        return params

    async def creates(self) -> Message:
        flat = {"resultType": "task", **told(self.era)}
        made = {"task": told(self.era)} if self.era is Era.LEGACY else flat
        return await self.answers("tools/call", result=made)


def play(
    path: Path, revision: Revision, scene: Callable[[Stage], Coroutine[Any, Any, None]]
) -> None:
    async def whole() -> None:
        stage = Stage(path, revision)
        async with asyncio.TaskGroup() as group:

            async def begin() -> None:
                while not over.is_set():
                    while stage.scene.clock.spawned:
                        group.create_task(stage.scene.clock.spawned.pop(0))
                    await asyncio.sleep(0.001)

            over = asyncio.Event()
            group.create_task(begin())
            await scene(stage)
            over.set()

    run(whole)


def test_the_time_that_a_task_takes_is_the_servers(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        asked = stage.call(caller(None, MODERN))
        stage.scene.now = 1.0
        await stage.creates()
        stage.scene.now = 5.0
        await stage.answers("tasks/get", result=told(Era.MODERN, "completed", result={"a": 1}))
        await until(lambda: asked.ending is not None)

        assert asked.ending["a"] == 1
        assert stage.scene.statuses == ["success"]
        assert stage.scene.overheads() == 0.0

    play(tmp_path, MODERN, scene)


def test_a_call_whose_time_is_over_has_its_task_cancelled(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        asked = stage.call(caller(None, MODERN))
        await stage.creates()
        await stage.answers("tasks/get", result=told(Era.MODERN))
        stage.scene.now = 61.0
        stage.scene.calls.sweep(61.0)
        await stage.answers("tasks/cancel", result={})

        assert asked.ending == "Tool execution timeout (60s)"

    play(tmp_path, MODERN, scene)


def test_progress_of_a_task_is_that_of_its_call_and_gives_it_time(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        asked = Asked(params={"name": "s__echo"}, by=caller(None, MODERN))
        asked.exchange.progress_token = b"7"
        stage.scene.relay.begin(asked.exchange)
        await stage.creates()
        stage.scene.now = 59.0
        report = {"progressToken": 1, "progress": 1, "_meta": {RELATED: {"taskId": "native"}}}
        say(stage.server.connection, method="notifications/progress", params=report)
        stage.scene.calls.sweep(61.0)

        assert [type(each) for each in asked.told] == [Progress]
        await stage.answers("tasks/get", result=told(Era.LEGACY, "cancelled"))
        await until(lambda: asked.ending is not None)
        say(stage.server.connection, method="notifications/progress", params=report)
        assert stage.server.connection.unsolicited_count == 1

    play(tmp_path, LEGACY, scene)


@pytest.mark.parametrize("full", [False, True])
def test_what_a_task_waits_for_is_asked_by_answering_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    if full:
        monkeypatch.setattr(parked_calls, "PARKED_CALLS_OF_PRINCIPAL_MAX", 0)

    async def scene(stage: Stage) -> None:
        asked = stage.call(ABLE)
        await stage.creates()
        asking = told(Era.MODERN, "input_required", inputRequests={"k": ENTRY})
        await stage.answers("tasks/get", result=asking)
        if not full:
            await until(lambda: any(due[0] == ASK for due in stage.scene.clock.due))
            next(due for due in stage.scene.clock.due if due[0] == ASK)[1]()
            waiting = asked.ending
            assert waiting["resultType"] == "input_required"
            (key,) = waiting["inputRequests"]
            state = {"requestState": waiting["requestState"], "inputResponses": {key: SWEET}}
            asked = stage.call(ABLE, **state)
        brought = await stage.answers("tasks/update", result={})
        await stage.answers("tasks/get", result=told(Era.MODERN, "completed", result={"a": 1}))
        await until(lambda: asked.ending is not None)

        assert brought["inputResponses"] == {"k": {"action": "cancel"} if full else SWEET}
        assert asked.ending["a"] == 1

    play(tmp_path, MODERN, scene)


def test_the_connection_of_a_task_is_not_given_to_others_before_it_is_over(tmp_path: Path) -> None:
    by = without_session(elicitation={})

    async def scene(stage: Stage) -> None:
        leases, server = stage.scene.relay.leases, stage.server
        asked = stage.call(by)
        (key,) = [key for key in server.leased if key.owner]
        await stage.creates()
        assert asked.ending["resultType"] == "task"

        other = leases.acquire_exclusive(server, by)
        assert isinstance(other, ExclusiveConnection)
        assert other.key != key
        await stage.answers("tasks/get", result=told(Era.LEGACY, "completed"))
        await stage.answers("tasks/result", result={"content": []})
        (handle,) = stage.scene.relay.tasks.handles.of_caller(by, 0.0)
        await until(lambda: handle.is_settled)
        free = leases.acquire_exclusive(server, by)
        assert isinstance(free, ExclusiveConnection)
        assert free.key == key

    play(tmp_path, LEGACY, scene)
