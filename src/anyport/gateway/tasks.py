"""What clients of either era ask about their tasks, whichever era the server of a task speaks.

A task of a session may ask while somebody waits for its result; a task of the extension lists what
it waits for. So between the two, questions become entries and entries become questions. How a call
becomes a task is told in `turn`; what servers are asked about tasks, in `task_line`; and how one
of them is seen through to its end for a client with a session, in `vigil`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from anyport.gateway.endings import misbehaved
from anyport.gateway.feed import Feed
from anyport.gateway.handles import TASKS_OF_ONE_MAX, Handle, Handles
from anyport.gateway.profile import Profile
from anyport.gateway.questions import Audience
from anyport.gateway.responses import bring, responses_of
from anyport.gateway.task_line import ENDED, Seen, TaskLine
from anyport.gateway.task_words import (
    declares_tasks,
    ending_of,
    not_found,
    outcome,
    result_of,
    told_of,
    words_of,
)
from anyport.gateway.vigil import Put, follow
from anyport.protocol import meta
from anyport.protocol.capability import lacking
from anyport.protocol.errors import (
    Fault,
    Situation,
    invalid_params,
    not_running,
)
from anyport.protocol.exchange import (
    Answered,
    Caller,
    Ending,
    Exchange,
    Failed,
    NeedInput,
    Notice,
    Question,
)
from anyport.protocol.extension import TASKS
from anyport.protocol.progress import PROGRESS, rises
from anyport.protocol.revision import Era
from anyport.protocol.task import (
    FAILED,
    Task,
    read_task,
    related,
    related_task,
)
from anyport.upstream.connection import Connection
from anyport.upstream.key import LeaseKey
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Request

Work = Callable[[Exchange, Profile, Handle], Coroutine[Any, Any, Ending]]

ABOUT_TASKS: Final = frozenset({"notifications/tasks/status", "notifications/tasks"})
"""What servers of either era tell of their tasks."""

_UNDECLARED: Final = Fault(
    situation=Situation.MISSING_CAPABILITY,
    message=f"Tasks are for clients that declare the extension {TASKS} with each request",
    data=msgspec.json.encode({"requiredCapabilities": {"extensions": {TASKS: {}}}}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What tasks need from the gateway."""

    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    now: Callable[[], float]
    """The time of day."""


class Tasks:
    """Answers what clients ask about tasks."""

    def __init__(self, handles: Handles, means: Means) -> None:
        self.handles = handles
        self.means = means
        self.line = TaskLine(self.moment)
        self.feed: Feed | None = None
        """Who listens."""
        self._running: set[asyncio.Task[Any]] = set()
        self._over = False
        self._legacy: dict[str, Work] = {
            "tasks/get": self._state,
            "tasks/result": self._result,
            "tasks/cancel": self._cancel_in_session,
        }
        self._modern: dict[str, Work] = {
            "tasks/get": self._whole,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }

    def moment(self) -> str:
        """The time as tasks tell it."""
        return f"{datetime.fromtimestamp(self.means.now(), UTC):%Y-%m-%dT%H:%M:%SZ}"

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a while, and is given up when the gateway stops."""
        self.means.spawn(self._run(work), "task")

    def stop(self) -> None:
        """The gateway stops: nothing is waited for any more."""
        self._over = True
        for task in self._running:
            task.cancel()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.current_task()
        if task is None or self._over:
            work.close()
            return
        self._running.add(task)
        try:
            await work
        finally:
            self._running.discard(task)

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        """Answer a request about tasks."""
        caller, now = exchange.caller, self.means.now()
        modern = caller.revision.era is Era.MODERN
        if modern and not declares_tasks(caller):
            exchange.end(Failed(_UNDECLARED))
            return
        if exchange.method.name == "tasks/list":
            listed = [members.join(told_of(each)) for each in self.handles.of_caller(caller, now)]
            exchange.end(Answered(b'{"tasks":[%b]}' % b",".join(listed)))
            return
        id = members.string(exchange.found.get("taskId"))
        handle = self.handles.find(id, caller, profile.servers, now)
        if handle is None:
            exchange.end(not_found())
            return
        if exchange.passage is not None:
            exchange.passage.server = handle.server.slug
        work = (self._modern if modern else self._legacy)[exchange.method.name]
        self.begin(self._serve(exchange, profile, handle, work))

    def audience(self, server: Server, line: Connection, request: Request) -> Audience | None:
        """Whom a server asks that asks for one of its tasks; None if it does not."""
        native = related_task(request.params)
        handle = None if native is None else self.handles.of_server(server, native, line)
        if handle is None:
            return None
        return Audience(handle.caller.capabilities, lambda question: self._put(handle, question))

    def heard_of(
        self, exchange: Exchange, profile: Profile, ids: object
    ) -> tuple[Handle, ...] | Fault:
        """The tasks that a client may listen for, of those that it wants to."""
        if ids is not None and not declares_tasks(exchange.caller):
            return _UNDECLARED
        now, wanted = self.means.now(), ids if isinstance(ids, list) else []
        found = [
            self.handles.find(id, exchange.caller, profile.servers, now)
            for id in wanted[:TASKS_OF_ONE_MAX]
            if isinstance(id, str)
        ]
        return tuple(handle for handle in found if handle is not None)

    def at_work(self, server: Server) -> bool:
        """Whether a server has a task that is not over yet."""
        return any(handle.server is server and not handle.task.over for handle in self.handles)

    # What servers tell.

    def told(self, server: Server, line: Connection, params: bytes) -> None:
        """A server tells how one of its tasks stands."""
        era = Era.LEGACY if line.peer is None else line.peer.revision.era
        read = read_task(params, era, self.moment())
        handle = None if read is None else self.handles.of_server(server, read[0], line)
        if read is None or handle is None:
            return
        handle.see(read[1])
        self._changed(handle)

    def lost(self, line: Connection) -> None:
        """A session with a server is over, and its tasks with it."""
        for handle in self.handles.of_connection(line):
            if not handle.settled:
                fault = not_running(handle.server.slug, ENDED)
                error = fault.render(handle.caller.revision)
                words = members.text(fault.message)
                handle.see(replace(handle.task, status=FAILED, message=words, error=error))
                self._changed(handle)

    def renewed(self, server: Server, key: LeaseKey) -> None:
        """A connection begins a session; if it had one before, that is over."""
        for other, line in server.connections():
            if other == key:
                self.lost(line)

    def progressed(self, handle: Handle, exchange: Exchange, reports: Sequence[bytes]) -> None:
        """A server tells how far a session's task has come, in words of the call that began it.

        The token of that call is good for as long as the task lives (basic/utilities/tasks).
        """
        session, token = handle.caller.session, exchange.progress_token
        for params in reports:
            if session is None or token is None or not rises(exchange, params):
                continue
            own = members.edit(params, {meta.PROGRESS_TOKEN: token})
            notice = Notice(PROGRESS, meta.restamp(own, related(handle.id)))
            waiting = next((one for one in handle.waiting if one.caller.session is session), None)
            if waiting is not None:
                waiting.happen(notice)
            else:
                session.notify(notice.method, notice.params)

    def _changed(self, handle: Handle) -> None:
        """Tell everybody who wants to know how a task stands."""
        session = handle.caller.session
        if session is not None:
            session.notify("notifications/tasks/status", members.join(told_of(handle)))
        self._tell_listeners(handle)

    def _tell_listeners(self, handle: Handle) -> None:
        feed = self.feed
        if feed is not None and feed.hears_of(handle):
            self.begin(self._spread(handle, feed))

    async def _spread(self, handle: Handle, feed: Feed) -> None:
        task = handle.task
        if handle.era is Era.LEGACY:
            # What it waits for and has come to, its server has not told.
            seen = await self.line.whole(handle, handle.caller)
            if not isinstance(seen, Task):
                return
            task = seen
        feed.task_changed(handle, lambda caller, profile: words_of(task, handle, caller, profile))

    def _put(self, handle: Handle, question: Question) -> None:
        """Put a question of a session's task to whoever has the task."""
        session = handle.caller.session
        handle.ask(question)
        if session is None:
            self._tell_listeners(handle)
            return
        asked = [(question.method, question.params)]
        question.params = meta.restamp(question.params or b"{}", related(handle.id))
        able = (one for one in handle.waiting if not lacking(asked, one.caller.capabilities))
        waiting = next(able, None)
        if waiting is not None:
            waiting.happen(NeedInput(question))
        else:
            session.ask(question)

    async def final(self, handle: Handle, caller: Caller, put: Put) -> Seen | Failed:
        """A task when it is over, whose client is asked meanwhile what it waits for."""
        if handle.era is Era.MODERN:
            return await follow(self.line, handle, caller, put)
        return await self.line.result(handle, caller)

    async def hold(self, handle: Handle, release: Callable[[], None]) -> None:
        """Wait for a session's task on the connection that it has to itself.

        The server asks only where somebody waits, and the connection is needed no longer than that.
        """
        try:
            seconds = max(0.0, handle.expires - self.means.now())
            await self.line.result(handle, handle.caller, seconds)
            self.handles.weigh(handle)
            self._tell_listeners(handle)
        finally:
            for question in handle.open.values():
                question.abandon()
            release()

    # What is answered.

    async def _serve(
        self, exchange: Exchange, profile: Profile, handle: Handle, work: Work
    ) -> None:
        task = asyncio.current_task()
        if task is None or exchange.ended:
            return
        exchange.on_cancel = lambda _: _give_up(task)
        before = handle.weight_bytes
        try:
            ending = await work(exchange, profile, handle)
            if handle.weight_bytes > before:
                self.handles.weigh(handle)
            exchange.end(ending)
        except asyncio.CancelledError:
            exchange.end(Failed(not_running(handle.server.slug, "the gateway is stopping")))
            raise
        except members.Ambiguous:
            words = "told of a task with an object that names a member twice"
            exchange.end(misbehaved(handle.server.slug, words))
        except Exception:
            words = "Internal error: the gateway failed to ask about this task"
            exchange.end(Failed(Fault(situation=Situation.INTERNAL, message=words)))
            raise

    async def _state(self, exchange: Exchange, profile: Profile, handle: Handle) -> Ending:
        seen = await self.line.look(handle, exchange.caller)
        if not isinstance(seen, Task):
            return ending_of(seen, profile, handle)
        return Answered(members.join(told_of(handle)))

    async def _whole(self, exchange: Exchange, profile: Profile, handle: Handle) -> Ending:
        seen = await self.line.whole(handle, exchange.caller)
        if not isinstance(seen, Task):
            return ending_of(seen, profile, handle)
        words = words_of(seen, handle, exchange.caller, profile)
        return Answered(words) if isinstance(words, bytes) else words

    async def _result(self, exchange: Exchange, profile: Profile, handle: Handle) -> Ending:
        def put(question: Question) -> None:
            exchange.happen(NeedInput(question))

        handle.waiting.append(exchange)
        try:
            seen = await self.final(handle, exchange.caller, put)
        finally:
            handle.waiting.remove(exchange)
        if not isinstance(seen, Task):
            return ending_of(seen, profile, handle)
        if seen.result is None:
            return ending_of(outcome(seen, handle), profile, handle)
        return Answered(result_of(seen.result, handle, exchange.caller, profile))

    async def _update(self, exchange: Exchange, profile: Profile, handle: Handle) -> Ending:
        responses = responses_of(exchange)
        if responses is None:
            return Failed(invalid_params("tasks/update needs inputResponses, an object"))
        if handle.era is Era.MODERN and not handle.task.over:
            answers = bytes(exchange.found["inputResponses"])
            failed = await self.line.update(handle, exchange.caller, answers)
            return Answered(b"{}") if failed is None else ending_of(failed, profile, handle)
        bring(responses, handle.open)
        return Answered(b"{}")

    async def _cancel(self, exchange: Exchange, profile: Profile, handle: Handle) -> Ending:
        """The extension's way: whether and when it has an effect shows in the state."""
        if not handle.task.over:
            failed = await self.line.cancel(handle, exchange.caller)
            if failed is not None and handle.era is Era.MODERN:
                return ending_of(failed, profile, handle)
        return Answered(b"{}")

    async def _cancel_in_session(
        self, exchange: Exchange, profile: Profile, handle: Handle
    ) -> Ending:
        """A session's way: from now on it is cancelled, whatever becomes of it."""
        seen = await self.line.look(handle, exchange.caller)
        if not isinstance(seen, Task):
            return ending_of(seen, profile, handle)
        if seen.over:
            status = dict(told_of(handle))["status"].decode().strip('"')
            return Failed(invalid_params(f"The task cannot be cancelled: it is {status}"))
        failed = await self.line.cancel(handle, exchange.caller)
        if failed is not None:
            return ending_of(failed, profile, handle)
        handle.see(self.line.cancelled(handle))
        return Answered(members.join(told_of(handle)))


def _give_up(task: asyncio.Task[Any]) -> None:
    task.cancel()
