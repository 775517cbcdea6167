"""Task augmentation of `tools/call`: a call that becomes a task at its server.

The client says whether it accepts a task; the server decides whether it makes one. If both do, the
client gets a task of its own era. If only the server does, the gateway waits for the task in the
client's place, and answers the call with its result.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from anyport.gateway.local.list_freshness import list_source
from anyport.gateway.profile import Profile
from anyport.gateway.tasks.handles import TASK_SECONDS_MAX, TaskHandle
from anyport.gateway.tasks.render import declares_tasks, missing_result_error
from anyport.gateway.tasks.tasks import TaskMethods
from anyport.protocol import meta
from anyport.protocol.errors import MISSING_CAPABILITY, Fault, Situation, error_code, server_failure
from anyport.protocol.exchange import Answered, Caller, Ending, Exchange, Failed
from anyport.protocol.extensions import TASKS
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era
from anyport.protocol.tasks import (
    COMPLETED,
    Task,
    declare_tasks,
    read_create_result,
    render_create_result,
)
from anyport.upstream.connection import Connection
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure, Result

if TYPE_CHECKING:
    from anyport.gateway.calls.call import Call


class TaskAugmentation:
    """The task side of one call: from the request to the task, or to its result."""

    __slots__ = (
        "_call",
        "_client_era",
        "_connection",
        "_handle",
        "_request_sent",
        "_server_era",
        "_tasks",
        "_wait_task",
    )

    def __init__(
        self,
        tasks: TaskMethods,
        call: "Call",
        connection: Connection,
        server_era: Era,
        client_era: Era | None,
    ) -> None:
        self._tasks = tasks
        self._call = call
        self._connection = connection
        self._server_era = server_era
        self._client_era = client_era
        """The era of the task that the client gets; None if it accepts no task."""
        self._request_sent = b""
        self._handle: TaskHandle | None = None
        """The task that the gateway waits for in the client's place."""
        self._wait_task: asyncio.Task[Any] | None = None

    @property
    def changes_request(self) -> bool:
        """Whether the request to the server differs from the client's."""
        return self._server_era is Era.LEGACY or self._client_era is Era.LEGACY

    def request_params(self, params: bytes) -> bytes:
        """The parameters of the request to the server."""
        if self._server_era is Era.LEGACY:
            # The client did not ask for a task, but the tool requires one.
            changed = (
                params if self._client_era is Era.LEGACY else raw_json.edit(params, {"task": b"{}"})
            )
        elif self._client_era is Era.LEGACY:
            changed = declare_tasks(raw_json.edit(params, {"task": None}))
        else:
            changed = params
        self._request_sent = changed
        return changed

    def take_task(self, answer: Answer) -> bool:
        """Handle an answer that is a task, or demands one; False if it is an ordinary answer."""
        if isinstance(answer, Failure):
            return self._retry_with_task(answer.error)
        if not isinstance(answer, Result):
            return False
        created = read_create_result(
            answer.result, self._server_era, self._tasks.remote.timestamp()
        )
        if created is None:
            return False
        native, task = created
        if self._client_era is None:
            # The client accepts no task: keep the call open, and wait in its place.
            self._call.on_task_created()
            self._handle = self._bind_connection(self._internal_handle(native, task))
            self._handle.on_end = self._call.subscribe_progress(self._call.on_progress)
            self._tasks.spawn(self._wait(self._handle))
            return True
        handle = self._create_handle(native, task)
        if isinstance(handle, TaskHandle):
            self._follow_legacy_task(handle)
            rendered = render_create_result(task, handle.id, self._client_era, answer.result)
            self._call.finish(Answered(rendered))
        else:
            self._call.finish(handle)
        return True

    def wrap_ending(self, ending: Ending) -> Ending:
        """Wrap an immediate result in the task that a legacy client has asked for."""
        if self._client_era is not Era.LEGACY or not isinstance(ending, Answered):
            return ending
        now = raw_json.encode_string(self._tasks.remote.timestamp())
        ttl = _ttl(self._call.exchange)
        task = Task(status=COMPLETED, created=now, updated=now, ttl=ttl, result=ending.result)
        handle = self._create_handle("", task)
        if not isinstance(handle, TaskHandle):
            return handle
        self._tasks.handles.limit_results(handle)
        return Answered(render_create_result(task, handle.id, Era.LEGACY))

    def stop(self) -> None:
        """The call was cancelled: cancel the task that the gateway waits for."""
        handle, self._handle = self._handle, None
        wait_task, self._wait_task = self._wait_task, None
        if wait_task is not None:
            wait_task.cancel()
        if handle is not None:
            handle.close()
            self._tasks.spawn(self._cancel_remote(handle))

    @property
    def _caller(self) -> Caller:
        return self._call.exchange.caller

    def _retry_with_task(self, error: bytes) -> bool:
        """Repeat the call with the tasks extension declared, if the server insists on a task."""
        if self._server_era is Era.LEGACY or self._client_era is not None or not self._request_sent:
            return False
        if error_code(error) != MISSING_CAPABILITY or TASKS.encode() not in error:
            return False
        # Only once: a server that refuses again wants something else.
        sent, self._request_sent = self._request_sent, b""
        self._call.send_request(declare_tasks(sent))
        return True

    def _create_handle(self, native: str, task: Task) -> TaskHandle | Failed:
        """A handle for the client. If there are too many, the task is cancelled at the server."""
        tasks, server = self._tasks, self._call.server
        now = tasks.clock.steady_now()
        handle = tasks.handles.create(self._caller, server, self._server_era, native, task, now)
        if handle is not None:
            return self._bind_connection(handle)
        if native:
            tasks.spawn(
                self._cancel_remote(self._bind_connection(self._internal_handle(native, task)))
            )
        reason = "too many tasks are kept for this client"
        return Failed(server_failure(server.slug, Situation.BUSY, reason))

    def _follow_legacy_task(self, handle: TaskHandle) -> None:
        """Pass on the progress of a legacy task, and keep its exclusive connection, if any."""
        if self._server_era is Era.MODERN:
            return
        if self._client_era is Era.LEGACY:
            report = partial(self._tasks.on_progress, handle, self._call.exchange)
            handle.on_end = self._call.subscribe_progress(report)
        release = self._call.transfer_exclusive()
        if release is not None:
            self._tasks.spawn(self._tasks.hold_until_done(handle, release))

    def _internal_handle(self, native: str, task: Task) -> TaskHandle:
        """A handle of the gateway's own, which has no id."""
        return TaskHandle("", native, self._call.server, self._server_era, self._caller, task)

    def _bind_connection(self, handle: TaskHandle) -> TaskHandle:
        """Bind the handle of a legacy task to the connection of its session."""
        if self._server_era is Era.LEGACY:
            handle.connection = self._connection
            connections = self._call.server.connections()
            handle.has_shared_connection = all(
                key.owner == "" for key, each in connections if each is self._connection
            )
        return handle

    async def _wait(self, handle: TaskHandle) -> None:
        """Wait for a task in the place of a client that accepts none."""
        if self._handle is None:
            return
        self._wait_task = asyncio.current_task()
        try:
            task = await self._tasks.wait_until_done(handle, self._caller, self._call.ask_client)
        except asyncio.CancelledError:
            if self._handle is not None:  # Not cancelled by `stop`: the gateway is stopping.
                self._call.on_task_ended(NoAnswer("the gateway is stopping"))
            raise
        self._handle = self._wait_task = None
        handle.close()
        if isinstance(task, Failed):
            self._call.finish(task)
        elif not isinstance(task, Task):
            self._call.on_task_ended(task)
        elif task.result is not None:
            # The client does not know that there was a task: remove its id.
            result = meta.edit_meta(task.result, {meta.RELATED_TASK: None})
            self._call.on_task_ended(Result(b"", result))
        else:
            self._call.on_task_ended(missing_result_error(task, handle))

    async def _cancel_remote(self, handle: TaskHandle) -> None:
        await self._tasks.remote.cancel(handle, self._caller)


def task_augmentation(
    tasks: TaskMethods, call: "Call", profile: Profile, connection: Connection, native: str
) -> TaskAugmentation | Fault | None:
    """The task side of a call; None if it cannot become a task, a fault if it must not."""
    exchange, peer = call.exchange, connection.peer
    caller = exchange.caller
    # "Receivers that do not declare the task capability for a request type MUST process requests
    # of that type normally, ignoring any task-augmentation metadata" (basic/utilities/tasks).
    wants = (
        "task" in exchange.param_members and caller.revision.tasks and TASKS in profile.extensions
    )
    if peer is None or TASKS not in peer.extensions:
        return _no_task_support(native) if wants else None
    server_era = peer.revision.era
    client_era: Era | None = Era.LEGACY if wants else None
    if client_era is None and caller.revision.era is Era.MODERN and declares_tasks(caller):
        client_era = Era.MODERN
    if server_era is Era.LEGACY:
        listing = list_source(call.server, caller).listings.get(OfferKind.TOOLS)
        support = None if listing is None else listing.task_support_by_tool.get(native)
        if wants and support is None:
            return _no_task_support(native)
        if not wants and support != "required":
            return None
    return TaskAugmentation(tasks, call, connection, server_era, client_era)


def _no_task_support(native: str) -> Fault:
    # "Servers SHOULD return a -32601 (Method not found) error" (basic/utilities/tasks).
    message = f"Tool {native} does not run as a task: call it without one"
    return Fault(situation=Situation.METHOD_NOT_FOUND, message=message)


def _ttl(exchange: Exchange) -> bytes:
    """The TTL that a client has asked for, in milliseconds, within the limit."""
    limit = TASK_SECONDS_MAX * 1000
    try:
        raw = raw_json.members(exchange.param_members["task"]).get("ttl")
        ttl = limit if raw is None else msgspec.json.decode(raw, type=float)
    except (msgspec.DecodeError, KeyError):
        ttl = limit
    return b"%d" % min(max(ttl, 0), limit)
