"""A call that may become a task: how it is asked, and what its answer turns into.

Servers decide, or tools demand, that work goes on after the answer; clients say whether they can
live with that. Where both can, the client gets a task of its own era. Where the client cannot, the
gateway waits in its place, and answers the call with what has come of the task.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from anyport.gateway.handles import TASK_SECONDS_MAX, Handle
from anyport.gateway.profile import Profile
from anyport.gateway.task_words import declares_tasks, outcome
from anyport.gateway.tasks import Tasks
from anyport.protocol import meta
from anyport.protocol.errors import (
    MISSING_CAPABILITY,
    Fault,
    Situation,
    error_code,
    lost,
)
from anyport.protocol.exchange import Answered, Caller, Ending, Exchange, Failed, Question
from anyport.protocol.extension import TASKS
from anyport.protocol.method import Kind
from anyport.protocol.revision import Era
from anyport.protocol.task import COMPLETED, Task, declare_tasks, read_created, render_created
from anyport.upstream.call import Answer, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Failure, Result


class Errand(Protocol):
    """The call, as its turn sees it."""

    exchange: Exchange
    server: Server

    def ask(self, params: bytes) -> None:
        """Put the request to the server."""

    def conclude(self, answer: Answer) -> None:
        """The answer that nobody has to wait for any more."""

    def finish(self, ending: Ending) -> None:
        """The call has ended."""

    def put(self, question: Question) -> None:
        """Put a question of the task to the client."""

    def progressed(self, reports: Sequence[bytes]) -> None:
        """The server has told how far it has come."""

    def hear(self, report: Callable[[Sequence[bytes]], None]) -> Callable[[], object] | None:
        """Go on hearing how far it has come; what is returned ends that."""

    def keep_seat(self) -> Callable[[], None] | None:
        """Leave the connection to the task, if it is its own; what is returned gives it back."""


class Turn:
    """What a call may turn into."""

    __slots__ = (
        "_asked",
        "_connection",
        "_era",
        "_errand",
        "_front",
        "_handle",
        "_tasks",
        "_waiting",
    )

    def __init__(
        self, tasks: Tasks, errand: Errand, connection: Connection, era: Era, front: Era | None
    ) -> None:
        self._tasks = tasks
        self._errand = errand
        self._connection = connection
        self._era = era
        """The server's."""
        self._front = front
        """How the client wants its task; None if it wants none."""
        self._asked = b""
        self._handle: Handle | None = None
        """Of the task that is waited for in the client's place."""
        self._waiting: asyncio.Task[Any] | None = None

    @property
    def alters(self) -> bool:
        """Whether the call is not asked as it came."""
        return self._era is Era.LEGACY or self._front is Era.LEGACY

    def params(self, params: bytes) -> bytes:
        """How the server is asked."""
        if self._era is Era.LEGACY:
            # Only tools that must be tasks are asked for one that the client did not ask for.
            asked = params if self._front is Era.LEGACY else members.edit(params, {"task": b"{}"})
        elif self._front is Era.LEGACY:
            asked = declare_tasks(members.edit(params, {"task": None}))
        else:
            asked = params
        self._asked = asked
        return asked

    def take(self, answer: Answer) -> bool:
        """Whether an answer is a task, or the demand for one, and is dealt with."""
        if isinstance(answer, Failure):
            return self._insists(answer.error)
        if not isinstance(answer, Result):
            return False
        made = read_created(answer.result, self._era, self._tasks.moment())
        if made is None:
            return False
        native, task = made
        if self._front is None:
            self._handle = self._bound(self._unknown(native, task))
            self._handle.on_over = self._errand.hear(self._errand.progressed)
            self._tasks.begin(self._wait(self._handle))
            return True
        handle = self._open(native, task)
        if isinstance(handle, Handle):
            self._attend(handle)
            told = render_created(task, handle.id, self._front, answer.result)
            self._errand.finish(Answered(told))
        else:
            self._errand.finish(handle)
        return True

    def minted(self, ending: Ending) -> Ending:
        """A result that came at once, as the task that the client of a session asked for."""
        if self._front is not Era.LEGACY or not isinstance(ending, Answered):
            return ending
        moment = members.text(self._tasks.moment())
        ttl = _ttl(self._errand.exchange)
        task = Task(status=COMPLETED, created=moment, updated=moment, ttl=ttl, result=ending.result)
        handle = self._open("", task)
        if not isinstance(handle, Handle):
            return handle
        self._tasks.handles.weigh(handle)
        return Answered(render_created(task, handle.id, Era.LEGACY))

    def stop(self) -> None:
        """Nobody wants the answer any more."""
        handle, self._handle = self._handle, None
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
        if handle is not None:
            handle.close()
            self._tasks.begin(self._drop(handle))

    @property
    def _caller(self) -> Caller:
        return self._errand.exchange.caller

    def _insists(self, error: bytes) -> bool:
        """A modern server answers with a task or not at all: then it is waited for here."""
        if self._era is Era.LEGACY or self._front is not None or not self._asked:
            return False
        if error_code(error) != MISSING_CAPABILITY or TASKS.encode() not in error:
            return False
        asked, self._asked = self._asked, b""  # Once: who still insists wants something else.
        self._errand.ask(declare_tasks(asked))
        return True

    def _open(self, native: str, task: Task) -> Handle | Failed:
        """A handle for the client; or why there is none, and the task is not to go on."""
        tasks, server = self._tasks, self._errand.server
        now = tasks.means.now()
        handle = tasks.handles.open(self._caller, server, self._era, native, task, now)
        if handle is not None:
            return self._bound(handle)
        if native:
            tasks.begin(self._drop(self._bound(self._unknown(native, task))))
        words = "too many tasks are kept for this client"
        return Failed(lost(server.slug, Situation.BUSY, words))

    def _attend(self, handle: Handle) -> None:
        """See to it that a session's task can go on, and that its client hears of that."""
        if self._era is Era.MODERN:
            return
        if self._front is Era.LEGACY:
            report = partial(self._tasks.progressed, handle, self._errand.exchange)
            handle.on_over = self._errand.hear(report)
        release = self._errand.keep_seat()
        if release is not None:
            self._tasks.begin(self._tasks.hold(handle, release))

    def _unknown(self, native: str, task: Task) -> Handle:
        """A handle for nobody but the gateway."""
        return Handle("", native, self._errand.server, self._era, self._caller, task)

    def _bound(self, handle: Handle) -> Handle:
        """The handle of a session's task belongs to the connection of that session."""
        if self._era is Era.LEGACY:
            handle.connection = self._connection
            known = self._errand.server.connections()
            handle.shared = all(key.owner == "" for key, line in known if line is self._connection)
        return handle

    async def _wait(self, handle: Handle) -> None:
        """Wait for a task in the place of a client that cannot."""
        if self._handle is None:
            return
        self._waiting = asyncio.current_task()
        try:
            seen = await self._tasks.final(handle, self._caller, self._errand.put)
        except asyncio.CancelledError:
            if self._handle is not None:  # It is not the client who gave up.
                self._errand.conclude(Lost("the gateway is stopping"))
            raise
        self._handle = self._waiting = None
        handle.close()
        if isinstance(seen, Failed):
            self._errand.finish(seen)
        elif not isinstance(seen, Task):
            self._errand.conclude(seen)
        elif seen.result is not None:
            # Nobody knows of the task, nor by which id its server does.
            bare = meta.restamp(seen.result, {meta.RELATED_TASK: None})
            self._errand.conclude(Result(b"", bare))
        else:
            self._errand.conclude(outcome(seen, handle))

    async def _drop(self, handle: Handle) -> None:
        await self._tasks.line.cancel(handle, self._caller)


def turn_of(
    tasks: Tasks, errand: Errand, profile: Profile, connection: Connection, native: str
) -> Turn | Fault | None:
    """What a call may turn into; None if into nothing but its result."""
    exchange, peer = errand.exchange, connection.peer
    caller = exchange.caller
    # "Receivers that do not declare the task capability for a request type MUST process requests
    # of that type normally, ignoring any task-augmentation metadata" (basic/utilities/tasks).
    wants = "task" in exchange.found and caller.revision.tasks and TASKS in profile.extensions
    if peer is None or TASKS not in peer.extensions:
        return _no_task(native) if wants else None
    era = peer.revision.era
    front: Era | None = Era.LEGACY if wants else None
    if front is None and caller.revision.era is Era.MODERN and declares_tasks(caller):
        front = Era.MODERN
    if era is Era.LEGACY:
        listing = errand.server.listings.get(Kind.TOOLS)
        support = None if listing is None else listing.tasked.get(native)
        if wants and support is None:
            return _no_task(native)
        if not wants and support != "required":
            return None
    return Turn(tasks, errand, connection, era, front)


def _no_task(native: str) -> Fault:
    # "Servers SHOULD return a -32601 (Method not found) error" (basic/utilities/tasks).
    words = f"Tool {native} does not run as a task: call it without one"
    return Fault(situation=Situation.METHOD_NOT_FOUND, message=words)


def _ttl(exchange: Exchange) -> bytes:
    """How long a client wants its task to be kept, as far as that can be granted."""
    limit = TASK_SECONDS_MAX * 1000
    try:
        wish = members.members(exchange.found["task"]).get("ttl")
        wanted = limit if wish is None else msgspec.json.decode(wish, type=float)
    except (msgspec.DecodeError, KeyError):
        wanted = limit
    return b"%d" % min(max(wanted, 0), limit)
