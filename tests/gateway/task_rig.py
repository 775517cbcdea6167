"""A server that has tasks, played by hand, and clients of either era that have them."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.local.notifications import ListenStream, Notifications
from anyport.gateway.profile import Profile
from anyport.gateway.tasks.handles import TaskHandle, TaskHandles
from anyport.gateway.tasks.remote import RemoteTasks
from anyport.gateway.tasks.tasks import TaskMethods
from anyport.protocol.exchange import Caller, ServerNotification
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era, Revision
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.protocol.tasks import Task, read_task
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    Asked,
    FakeClock,
    FakeServer,
    FakeSession,
    caller,
    declared,
    profile_of,
)
from tests.upstream.fakes import Message, peer_of, run, say, until

RELATED = "io.modelcontextprotocol/related-task"
ERAS = {Era.LEGACY: LEGACY, Era.MODERN: MODERN}
FORM: Message = {"mode": "form", "message": "Sugar?", "requestedSchema": {"type": "object"}}
ENTRY: Message = {"method": "elicitation/create", "params": FORM}
DONE: Message = {"content": [{"type": "text", "text": "x"}]}
BOTH = pytest.mark.parametrize("era", list(Era))
SWEET: Message = {"action": "accept", "content": {"sugar": True}}


class TaskServer(FakeServer):
    """A server with tasks that answers when it is told to."""

    def __init__(self, revision: Revision, slug: str = "s", **config: Any) -> None:
        super().__init__(slug, revision, **config)
        self.connection.peer = replace(peer_of(revision), extensions={TASKS: b"{}"})
        self.extensions = {TASKS: b"{}"}
        self.era = revision.era
        self.taken = 0
        self.offer(OfferKind.TOOLS, "brew")

    async def asked(self, method: str) -> Message:
        """The next request, which must be of this method."""
        await until(lambda: len(self.requests) > self.taken)
        request = self.requests[self.taken]
        self.taken += 1
        assert request["method"] == method, request
        return request

    async def answers(self, method: str, **outcome: Any) -> Message:
        """Wait for a request and answer it; what was asked."""
        request = await self.asked(method)
        say(self.connection, id=request["id"], **outcome)
        params: Message = request.get("params", {})
        return params

    async def tells(self, status: str, **more: Any) -> Message:
        """Answer a look at the task."""
        return await self.answers("tasks/get", result=told(self.era, status, **more))

    @property
    def requests(self) -> list[Message]:
        return [sent for sent in self.channel.sent if "id" in sent and "method" in sent]

    @property
    def replies(self) -> list[Message]:
        """What it was answered itself."""
        return [sent for sent in self.channel.sent if "method" not in sent]

    @property
    def notices(self) -> list[str]:
        return [sent["method"] for sent in self.channel.sent if "id" not in sent]


def told(era: Era, status: str = "working", id: str = "native", **more: Any) -> Message:
    """A task as a server of this era tells of it; a look is worth while again at once."""
    poll = {"pollInterval": 0} if era is Era.LEGACY else {"pollIntervalMs": 0}
    return {"taskId": id, "status": status, "createdAt": "a", "lastUpdatedAt": "b", **poll, **more}


def task_of(era: Era, status: str = "working", **more: Any) -> Task:
    """The same, read."""
    read = read_task(json.dumps(told(era, status, **more)).encode(), era, "now")
    assert read is not None
    return read[1]


def without_session(**capabilities: Any) -> Caller:
    """A modern client that takes tasks."""
    able = declared({**capabilities, "extensions": {TASKS: {}}})
    return replace(caller(None, MODERN), capabilities=able)


def in_session(**capabilities: Any) -> tuple[Caller, FakeSession]:
    """A client of 2025-11-25."""
    session = FakeSession("mine", capabilities)
    return caller(session), session


class TaskClock(FakeClock):
    """A clock that is set by hand, and runs tasks in the group of a test."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        super().__init__()
        self.running: list[asyncio.Task[None]] = []
        self._group = group

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.running.append(self._group.create_task(work, name=name))


class TaskRig:
    """Tasks, the server that they are at, and the clock."""

    def __init__(self, server: TaskServer, group: asyncio.TaskGroup, **config: Any) -> None:
        self.server = server
        self.profile: Profile = profile_of(server, **config)
        self.clock = TaskClock(group)
        self.running = self.clock.running
        handles = TaskHandles(Seal([bytes(KEY_BYTES)]))
        self.tasks = TaskMethods(handles, self.clock)

    async def settle(self) -> None:
        """Wait for everything that has begun."""
        await until(lambda: all(task.done() for task in self.running))

    def handle(self, by: Caller, task: Task | None = None, native: str = "native") -> TaskHandle:
        """A task that this caller has."""
        era = self.server.era
        made = self.tasks.handles.create(
            by, self.server, era, native, task or task_of(era), self.clock.seconds
        )
        assert made is not None
        made.connection = self.server.connection if era is Era.LEGACY else None
        return made

    def ask(self, method: str, handle: TaskHandle | str, by: Caller, **params: Any) -> Asked:
        """A client's request about a task."""
        id = handle if isinstance(handle, str) else handle.id
        asked = Asked(method, {"taskId": id, **params}, by)
        self.tasks.answer(asked.exchange, self.profile)
        return asked


def play(revision: Revision, scene: Callable[[TaskRig], Coroutine[Any, Any, None]]) -> None:
    """Play a scene with a server of a revision."""

    async def whole() -> None:
        async with asyncio.TaskGroup() as group:
            await scene(TaskRig(TaskServer(revision), group))

    run(whole)


async def alongside(work: Coroutine[Any, Any, Any], play: Coroutine[Any, Any, Any]) -> Any:
    """What comes of something while a server plays its part."""
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(work)
        group.create_task(play)
    return asked.result()


async def ended(asked: Asked) -> Any:
    """How a request ends."""
    await until(lambda: asked.ending is not None)
    return asked.ending


async def given_up(task: asyncio.Task[Any]) -> None:
    """Wait for a task that was cancelled."""
    with suppress(asyncio.CancelledError):
        await task


def listening(rig: TaskRig, *handles: TaskHandle, by: Caller) -> list[Message]:
    """What somebody is told who listens for these."""
    notifications = rig.tasks.notifications or Notifications(
        {"default": rig.profile}, CallTable(FakeClock())
    )
    rig.tasks.notifications = notifications
    asked = Asked("subscriptions/listen", {}, by)
    heard: list[Message] = []

    def tell(_: Any, notice: Any) -> None:
        assert isinstance(notice, ServerNotification)
        if notice.method == "notifications/tasks":
            heard.append(json.loads(notice.params or b""))

    asked.exchange.deliver = tell
    stream = ListenStream(asked.exchange, frozenset(), frozenset(), handles)
    stream.acknowledge(b"{}")
    notifications.streams[asked.exchange] = stream
    return heard


NOW = "2026-01-01T00:00:00Z"
ME = caller(None, MODERN)


def remote_tasks() -> RemoteTasks:
    clock = FakeClock()
    clock.seconds = datetime.fromisoformat(NOW).timestamp()
    return RemoteTasks(clock)


def handle_at(server: TaskServer, *, shared: bool = False) -> TaskHandle:
    unseen = Task(status="working", created=b'"a"', updated=b'"b"')
    handle = TaskHandle("ours", "native", server, server.era, ME, unseen)
    if server.era is Era.LEGACY:
        handle.connection, handle.has_shared_connection = server.connection, shared
    return handle
