"""A server that has tasks, played by hand, and clients of either era that have them."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from anyport.gateway.feed import Feed, Listening
from anyport.gateway.handles import Handle, Handles
from anyport.gateway.profile import Profile
from anyport.gateway.task_line import TaskLine
from anyport.gateway.tasks import Means, Tasks
from anyport.protocol.exchange import Caller, Notice
from anyport.protocol.extension import TASKS
from anyport.protocol.method import Kind
from anyport.protocol.revision import Era, Revision
from anyport.protocol.seal import KEY_BYTES, Seal
from anyport.protocol.task import Task, read_task
from tests.gateway.fakes import (
    LEGACY,
    MODERN,
    Asked,
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


class Tasked(FakeServer):
    """A server with tasks that answers when it is told to."""

    def __init__(self, revision: Revision, slug: str = "s", **config: Any) -> None:
        super().__init__(slug, revision, **config)
        self.connection.peer = replace(peer_of(revision), extensions={TASKS: b"{}"})
        self.extensions = {TASKS: b"{}"}
        self.era = revision.era
        self.taken = 0
        self.offer(Kind.TOOLS, "brew")

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


class House:
    """Tasks, the server that they are at, and the clock."""

    def __init__(self, server: Tasked, group: asyncio.TaskGroup, **config: Any) -> None:
        self.server = server
        self.profile: Profile = profile_of(server, **config)
        self.now = 0.0
        self.running: list[asyncio.Task[None]] = []
        self._group = group
        means = Means(spawn=self.spawn, now=lambda: self.now)
        self.tasks = Tasks(Handles(Seal([bytes(KEY_BYTES)])), means)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.running.append(self._group.create_task(work, name=name))

    async def settle(self) -> None:
        """Wait for everything that has begun."""
        await until(lambda: all(task.done() for task in self.running))

    def handle(self, by: Caller, task: Task | None = None, native: str = "native") -> Handle:
        """A task that this caller has."""
        era = self.server.era
        made = self.tasks.handles.open(by, self.server, era, native, task or task_of(era), self.now)
        assert made is not None
        made.connection = self.server.connection if era is Era.LEGACY else None
        return made

    def ask(self, method: str, handle: Handle | str, by: Caller, **params: Any) -> Asked:
        """A client's request about a task."""
        id = handle if isinstance(handle, str) else handle.id
        asked = Asked(method, {"taskId": id, **params}, by)
        self.tasks.answer(asked.exchange, self.profile)
        return asked


def play(revision: Revision, scene: Callable[[House], Coroutine[Any, Any, None]]) -> None:
    """Play a scene with a server of a revision."""

    async def whole() -> None:
        async with asyncio.TaskGroup() as group:
            await scene(House(Tasked(revision), group))

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


def listening(house: House, *handles: Handle, by: Caller) -> list[Message]:
    """What somebody is told who listens for these."""
    feed = house.tasks.feed or Feed({"default": house.profile}, lambda *_: [], lambda _: None)
    house.tasks.feed = feed
    asked = Asked("subscriptions/listen", {}, by)
    heard: list[Message] = []

    def tell(_: Any, notice: Any) -> None:
        assert isinstance(notice, Notice)
        if notice.method == "notifications/tasks":
            heard.append(json.loads(notice.params))

    asked.exchange.tell = tell
    stream = Listening(asked.exchange, frozenset(), frozenset(), handles)
    stream.acknowledge(b"{}")
    feed.listening[asked.exchange] = stream
    return heard


NOW = "2026-01-01T00:00:00Z"
ME = caller(None, MODERN)


def line() -> TaskLine:
    return TaskLine(lambda: NOW)


def handle_at(server: Tasked, *, shared: bool = False) -> Handle:
    unseen = Task(status="working", created=b'"a"', updated=b'"b"')
    handle = Handle("ours", "native", server, server.era, ME, unseen)
    if server.era is Era.LEGACY:
        handle.connection, handle.shared = server.connection, shared
    return handle
