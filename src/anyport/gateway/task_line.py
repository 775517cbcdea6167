"""What servers of either era are asked about their tasks.

Each request is a coroutine that ends with what the server said, or with why it said nothing. Who
wants to know, and how they are told, is not known here.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from anyport.gateway.handles import Handle
from anyport.protocol.errors import Situation
from anyport.protocol.exchange import Caller
from anyport.protocol.revision import Era
from anyport.protocol.task import (
    CANCELLED,
    COMPLETED,
    FAILED,
    WORKING,
    Task,
    declare_tasks,
    read_task,
)
from anyport.upstream.asking import ask
from anyport.upstream.call import Answer, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.key import SHARED
from anyport.wire import codec, members
from anyport.wire.frame import INTERNAL_ERROR, Failure, Result

RESULT_SECONDS_MAX: Final = 3600.0
"""How long somebody may wait for the result of a task in one request."""

Seen = Task | Failure | Lost
"""How a task stands, or why that is not known."""


class TaskLine:
    """Asks servers about tasks."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        """The time as tasks tell it."""

    async def look(self, handle: Handle, caller: Caller) -> Seen:
        """How a task stands."""
        # What is over will not change any more. What has come of it, a session tells elsewhere.
        if handle.settled or (handle.task.over and handle.era is Era.LEGACY):
            return handle.task
        answer = await self._ask(handle, caller, "tasks/get")
        if not isinstance(answer, Result):
            return answer
        read = read_task(answer.result, handle.era, self._now())
        if read is None or read[0] != handle.native:
            return _misbehaved("answered with no task, or with another one")
        return handle.see(read[1])

    async def whole(self, handle: Handle, caller: Caller) -> Seen:
        """How a task stands and, if it is over, what has come of it."""
        seen = await self.look(handle, caller)
        lacks = isinstance(seen, Task) and seen.over and not handle.settled
        return await self.result(handle, caller) if lacks else seen

    async def result(
        self, handle: Handle, caller: Caller, seconds: float = RESULT_SECONDS_MAX
    ) -> Seen:
        """A session's task when it is over; until then its server may ask."""
        if handle.settled:
            return handle.task
        try:
            async with asyncio.timeout(seconds):
                return await self._result(handle, caller)
        except TimeoutError:
            return Lost(f"{seconds:g}s", Situation.TIMED_OUT)

    async def update(self, handle: Handle, caller: Caller, answers: bytes) -> Failure | Lost | None:
        """Bring a modern server's task the answers it waits for; why not, if that fails."""
        answer = await self._ask(handle, caller, "tasks/update", inputResponses=answers)
        return None if isinstance(answer, Result) else answer

    async def cancel(self, handle: Handle, caller: Caller) -> Failure | Lost | None:
        """Have a task cancelled; why not, if that fails.

        A session's task is cancelled from then on; one of the extension will be, perhaps.
        """
        answer = await self._ask(handle, caller, "tasks/cancel")
        if not isinstance(answer, Result):
            return answer
        if handle.era is Era.LEGACY:
            read = read_task(answer.result, handle.era, self._now())
            told = read is not None and read[1].status == CANCELLED
            handle.see(read[1] if read is not None and told else self.cancelled(handle))
        return None

    def cancelled(self, handle: Handle) -> Task:
        """A task as it stands once it has been cancelled."""
        updated = members.text(self._now())
        return replace(
            handle.task, status=CANCELLED, updated=updated, message=None, requests={}, result=None
        )

    async def _result(self, handle: Handle, caller: Caller) -> Seen:
        while handle.shared:
            # Nobody is asked over a connection that others share, and it has room for so many
            # open requests: there it is looked at now and then, rather than waited for.
            seen = await self.look(handle, caller)
            if not isinstance(seen, Task) or handle.settled:
                return seen
            if seen.status != WORKING:
                break
            await asyncio.sleep(seen.poll_seconds)
        answer = await self._ask(handle, caller, "tasks/result")
        if isinstance(answer, Lost):
            return answer
        if isinstance(answer, Result) and "content" in members.members(answer.result):
            return handle.see(replace(handle.task, status=COMPLETED, result=answer.result))
        # Whether this is the error of the request or of the question, only its state can tell. So
        # it is with what is no result of a tool: the Python SDK has that for a task that failed.
        seen = await self.look(handle, caller)
        if isinstance(seen, Task) and seen.over and seen.status != COMPLETED:
            error = answer.error if isinstance(answer, Failure) else _error_of(seen)
            handle.see(replace(seen, error=error))
            return replace(seen, error=error)
        if isinstance(answer, Failure):
            return answer
        return handle.see(replace(handle.task, status=COMPLETED, result=answer.result))

    async def _ask(self, handle: Handle, caller: Caller, method: str, **more: bytes) -> Answer:
        seconds = handle.server.config.timeout_seconds
        try:
            # Who waits for a result says how long.
            async with asyncio.timeout(None if method == "tasks/result" else seconds):
                connection = await _connection(handle)
                peer = None if isinstance(connection, str) else connection.peer
                if isinstance(connection, str) or peer is None:
                    return Lost(connection if isinstance(connection, str) else "it is starting")
                if peer.revision.era is not handle.era:
                    return Lost("it speaks another revision now, which has no such task")
                params = [("taskId", members.text(handle.native)), *more.items()]
                told = peer.back.params(members.join(params), None, caller)
                if handle.era is Era.MODERN:
                    told = declare_tasks(told)
                answer = await ask(connection, method, told, handle.native)
        except TimeoutError:
            return Lost(f"{seconds:g}s", Situation.TIMED_OUT)
        if isinstance(answer, Result) and answer.result[:1] != b"{":
            return _misbehaved("answered with a result that is not an object")
        return answer


async def _connection(handle: Handle) -> Connection | str:
    """The connection over which a server knows of a task, or why there is none."""
    if handle.era is Era.LEGACY:
        # Another session would not know of the task: none is opened for it.
        known = handle.connection
        usable = known is not None and known.usable
        return known if known is not None and usable else ENDED
    waiting: asyncio.Future[Connection | str] = asyncio.get_running_loop().create_future()
    handle.server.lease(SHARED, lambda it: None if waiting.done() else waiting.set_result(it))
    return await waiting


ENDED: Final = "the session that the task belonged to has ended"


def _error_of(task: Task) -> bytes | None:
    """The error of a task whose server has no words for it but how the task stands."""
    if task.status != FAILED:
        return None
    words = None if task.message is None else members.string(Raw(task.message))
    return codec.error(INTERNAL_ERROR, words or "The task failed")


def _misbehaved(words: str) -> Lost:
    return Lost(words, Situation.MISBEHAVED)
