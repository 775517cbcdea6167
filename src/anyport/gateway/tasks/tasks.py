"""Task methods of clients: `tasks/get`, `list`, `result`, `update` and `cancel`, in both eras.

While a client waits for the result of a legacy task, the server of that task may ask it questions;
a modern task lists its input requests instead. Between the eras, questions become input requests
and input requests become questions.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from anyport.clock import Clock
from anyport.gateway.calls.answers import misbehaviour
from anyport.gateway.elicitation.request_state import answer_questions, input_responses
from anyport.gateway.elicitation.server_requests import QuestionTarget
from anyport.gateway.local.notifications import Notifications
from anyport.gateway.profile import Profile
from anyport.gateway.tasks.handles import TASKS_OF_PRINCIPAL_MAX, TaskHandle, TaskHandles
from anyport.gateway.tasks.remote import (
    SESSION_ENDED,
    AskClient,
    RemoteTasks,
    TaskStatus,
    poll_until_done,
)
from anyport.gateway.tasks.render import (
    declares_tasks,
    ending_for_failure,
    missing_result_error,
    render_for_modern,
    render_for_session,
    render_result,
    task_not_found,
)
from anyport.protocol import meta
from anyport.protocol.capabilities import find_missing_capabilities
from anyport.protocol.errors import Fault, Situation, invalid_params, not_running
from anyport.protocol.exchange import (
    Answered,
    Caller,
    Ending,
    Exchange,
    Failed,
    NeedInput,
    Question,
    ServerNotification,
)
from anyport.protocol.extensions import TASKS
from anyport.protocol.meta import PROGRESS
from anyport.protocol.revisions import Era
from anyport.protocol.tasks import FAILED, Task, read_related_task, read_task, related_task_meta
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.server import Server
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Request

TaskMethod = Callable[[Exchange, Profile, TaskHandle], Coroutine[Any, Any, Ending]]

TASK_NOTIFICATIONS: Final = frozenset({"notifications/tasks/status", "notifications/tasks"})
"""Notifications of servers about their tasks, in either era."""

_TASKS_NOT_DECLARED: Final = Fault(
    situation=Situation.MISSING_CAPABILITY,
    message=f"Tasks are for clients that declare the extension {TASKS} with each request",
    data=msgspec.json.encode({"requiredCapabilities": {"extensions": {TASKS: {}}}}),
)


class TaskMethods:
    """Answers requests about tasks, and notifies clients of their states."""

    def __init__(self, handles: TaskHandles, clock: Clock) -> None:
        self.handles = handles
        self.clock = clock
        self.remote = RemoteTasks(clock)
        self.notifications: Notifications | None = None
        """Set once it exists; notifies modern listeners."""
        self._running: set[asyncio.Task[Any]] = set()
        self._is_stopped = False
        self._legacy: dict[str, TaskMethod] = {
            "tasks/get": self._get_legacy,
            "tasks/result": self._get_result,
            "tasks/cancel": self._cancel_legacy,
        }
        self._modern: dict[str, TaskMethod] = {
            "tasks/get": self._get_modern,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel_modern,
        }

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of the event loop that is cancelled when the gateway stops."""
        self.clock.spawn(self._run(work), "task")

    def stop(self) -> None:
        """Cancel everything that waits for a server's task."""
        self._is_stopped = True
        for task in self._running:
            task.cancel()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.current_task()
        if task is None or self._is_stopped:
            work.close()
            return
        self._running.add(task)
        try:
            await work
        finally:
            self._running.discard(task)

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        """Answer a request about tasks."""
        caller, now = exchange.caller, self.clock.steady_now()
        is_modern = caller.revision.era is Era.MODERN
        if is_modern and not declares_tasks(caller):
            exchange.end(Failed(_TASKS_NOT_DECLARED))
            return
        if exchange.method.name == "tasks/list":
            listed = [
                raw_json.encode_object(render_for_session(each))
                for each in self.handles.of_caller(caller, now)
            ]
            exchange.end(Answered(b'{"tasks":[%b]}' % b",".join(listed)))
            return
        task_id = raw_json.decode_string(exchange.param_members.get("taskId"))
        handle = self.handles.find(task_id, caller, profile.servers, now)
        if handle is None:
            exchange.end(task_not_found())
            return
        exchange.server = handle.server.slug
        method = (self._modern if is_modern else self._legacy)[exchange.method.name]
        self.spawn(self._run_method(exchange, profile, handle, method))

    def question_target(
        self, server: Server, connection: Connection, request: Request
    ) -> QuestionTarget | None:
        """The client of the task that a server's request is about; None if it is about none."""
        native = read_related_task(request.params)
        handle = None if native is None else self.handles.of_server(server, native, connection)
        if handle is None:
            return None
        return QuestionTarget(
            handle.caller.capabilities, lambda question: self._ask_client(handle, question)
        )

    def find_listenable(
        self, exchange: Exchange, profile: Profile, ids: object
    ) -> tuple[TaskHandle, ...] | Fault:
        """Those of the requested task ids that the client may listen for."""
        if ids is not None and not declares_tasks(exchange.caller):
            return _TASKS_NOT_DECLARED
        now, wanted = self.clock.steady_now(), ids if isinstance(ids, list) else []
        handles = [
            self.handles.find(id, exchange.caller, profile.servers, now)
            for id in wanted[:TASKS_OF_PRINCIPAL_MAX]
            if isinstance(id, str)
        ]
        return tuple(handle for handle in handles if handle is not None)

    def has_open_task(self, server: Server) -> bool:
        """Whether a task of a server is still open."""
        return any(
            handle.server is server and not handle.task.is_terminal for handle in self.handles
        )

    # What servers report.

    def on_status(self, server: Server, connection: Connection, params: bytes) -> None:
        """A server has sent the state of one of its tasks."""
        era = Era.LEGACY if connection.peer is None else connection.peer.revision.era
        read = read_task(params, era, self.remote.timestamp())
        handle = None if read is None else self.handles.of_server(server, read[0], connection)
        if read is None or handle is None:
            return
        handle.update(read[1])
        self._announce_status(handle)

    def on_connection_lost(self, connection: Connection) -> None:
        """A session with a server has ended: its tasks have failed."""
        for handle in self.handles.of_connection(connection):
            if not handle.is_settled:
                fault = not_running(handle.server.slug, SESSION_ENDED)
                error = fault.render(handle.caller.revision)
                message = raw_json.encode_string(fault.message)
                handle.update(replace(handle.task, status=FAILED, message=message, error=error))
                self._announce_status(handle)

    def on_session_renewed(self, server: Server, key: LeaseKey) -> None:
        """A connection has begun a new session: the one before has ended."""
        for other, connection in server.connections():
            if other == key:
                self.on_connection_lost(connection)

    def on_progress(self, handle: TaskHandle, exchange: Exchange, reports: Sequence[bytes]) -> None:
        """Pass on the progress of a legacy task.

        The progress token of the call stays valid while the task lives (basic/utilities/tasks).
        """
        session, token = handle.caller.session, exchange.progress_token
        for params in reports:
            if session is None or token is None:
                continue
            own_params = raw_json.edit(params, {meta.PROGRESS_TOKEN: token})
            own_params = meta.edit_meta(own_params, related_task_meta(handle.id))
            exchanges = (
                each for each in handle.waiting_exchanges if each.caller.session is session
            )
            waiting = next(exchanges, None)
            if waiting is not None:
                waiting.emit(ServerNotification(PROGRESS, own_params))
            else:
                session.notify(PROGRESS, own_params)

    def _announce_status(self, handle: TaskHandle) -> None:
        """Send the state of a task to its session, and to listeners."""
        session = handle.caller.session
        if session is not None:
            session.notify(
                "notifications/tasks/status", raw_json.encode_object(render_for_session(handle))
            )
        self._notify_listeners(handle)

    def _notify_listeners(self, handle: TaskHandle) -> None:
        notifications = self.notifications
        if notifications is not None and notifications.has_task_listener(handle):
            self.spawn(self._send_status(handle, notifications))

    async def _send_status(self, handle: TaskHandle, notifications: Notifications) -> None:
        task = handle.task
        if handle.era is Era.LEGACY:
            # A legacy notification has neither the questions nor the result.
            status = await self.remote.get_with_result(handle, handle.caller)
            if not isinstance(status, Task):
                return
            task = status
        notifications.notify_task(
            handle, lambda caller, profile: render_for_modern(task, handle, caller, profile)
        )

    def _ask_client(self, handle: TaskHandle, question: Question) -> None:
        """Ask the client of a legacy task a question of its server."""
        session = handle.caller.session
        handle.add_question(question)
        if session is None:
            self._notify_listeners(handle)
            return
        questions = [(question.method, question.params)]
        question.params = meta.edit_meta(question.params or b"{}", related_task_meta(handle.id))
        askable = (
            each
            for each in handle.waiting_exchanges
            if not find_missing_capabilities(questions, each.caller.capabilities)
        )
        waiting = next(askable, None)
        if waiting is not None:
            waiting.emit(NeedInput(question))
        else:
            session.ask(question)

    async def wait_until_done(
        self, handle: TaskHandle, caller: Caller, ask_client: AskClient
    ) -> TaskStatus | Failed:
        """Wait until a task has ended; its client is asked what it waits for meanwhile."""
        if handle.era is Era.MODERN:
            return await poll_until_done(self.remote, handle, caller, ask_client)
        return await self.remote.wait_for_result(handle, caller)

    async def hold_until_done(self, handle: TaskHandle, release: Callable[[], None]) -> None:
        """Wait for a legacy task on the connection that it has to itself, then release that.

        The server can only ask questions while a `tasks/result` is open.
        """
        try:
            seconds = max(0.0, handle.expires_at - self.clock.steady_now())
            await self.remote.wait_for_result(handle, handle.caller, seconds)
            self.handles.limit_results(handle)
            self._notify_listeners(handle)
        finally:
            for question in handle.open_questions.values():
                question.abandon()
            release()

    # The methods.

    async def _run_method(
        self, exchange: Exchange, profile: Profile, handle: TaskHandle, method: TaskMethod
    ) -> None:
        task = asyncio.current_task()
        if task is None or exchange.ended:
            return
        exchange.on_cancel = lambda _: _cancel_task(task)
        bytes_before = handle.result_bytes
        try:
            ending = await method(exchange, profile, handle)
            if handle.result_bytes > bytes_before:
                self.handles.limit_results(handle)
            exchange.end(ending)
        except asyncio.CancelledError:
            exchange.end(Failed(not_running(handle.server.slug, "the gateway is stopping")))
            raise
        except raw_json.AmbiguousObject:
            fault = "described a task with an object that names a member twice"
            exchange.end(misbehaviour(handle.server.slug, fault))
        except Exception:
            message = "Internal error: the gateway failed to ask about this task"
            exchange.end(Failed(Fault(situation=Situation.INTERNAL, message=message)))
            raise

    async def _get_legacy(self, exchange: Exchange, profile: Profile, handle: TaskHandle) -> Ending:
        status = await self.remote.get(handle, exchange.caller)
        if not isinstance(status, Task):
            return ending_for_failure(status, profile, handle)
        return Answered(raw_json.encode_object(render_for_session(handle)))

    async def _get_modern(self, exchange: Exchange, profile: Profile, handle: TaskHandle) -> Ending:
        status = await self.remote.get_with_result(handle, exchange.caller)
        if not isinstance(status, Task):
            return ending_for_failure(status, profile, handle)
        rendered = render_for_modern(status, handle, exchange.caller, profile)
        return Answered(rendered) if isinstance(rendered, bytes) else rendered

    async def _get_result(self, exchange: Exchange, profile: Profile, handle: TaskHandle) -> Ending:
        def ask_client(question: Question) -> None:
            exchange.emit(NeedInput(question))

        handle.waiting_exchanges.append(exchange)
        try:
            status = await self.wait_until_done(handle, exchange.caller, ask_client)
        finally:
            handle.waiting_exchanges.remove(exchange)
        if not isinstance(status, Task):
            return ending_for_failure(status, profile, handle)
        if status.result is None:
            return ending_for_failure(missing_result_error(status, handle), profile, handle)
        return Answered(render_result(status.result, handle, exchange.caller, profile))

    async def _update(self, exchange: Exchange, profile: Profile, handle: TaskHandle) -> Ending:
        responses = input_responses(exchange)
        if responses is None:
            return Failed(invalid_params("tasks/update needs inputResponses, an object"))
        if handle.era is Era.MODERN and not handle.task.is_terminal:
            answers = bytes(exchange.param_members["inputResponses"])
            failed = await self.remote.update(handle, exchange.caller, answers)
            return (
                Answered(b"{}") if failed is None else ending_for_failure(failed, profile, handle)
            )
        answer_questions(responses, handle.open_questions)
        return Answered(b"{}")

    async def _cancel_modern(
        self, exchange: Exchange, profile: Profile, handle: TaskHandle
    ) -> Ending:
        """Modern: whether and when the task is cancelled shows in its state."""
        if not handle.task.is_terminal:
            failed = await self.remote.cancel(handle, exchange.caller)
            if failed is not None and handle.era is Era.MODERN:
                return ending_for_failure(failed, profile, handle)
        return Answered(b"{}")

    async def _cancel_legacy(
        self, exchange: Exchange, profile: Profile, handle: TaskHandle
    ) -> Ending:
        """Legacy: the task counts as cancelled from now on, whatever the server does."""
        task = await self.remote.get(handle, exchange.caller)
        if not isinstance(task, Task):
            return ending_for_failure(task, profile, handle)
        if task.is_terminal:
            status = dict(render_for_session(handle))["status"].decode().strip('"')
            return Failed(invalid_params(f"The task cannot be cancelled: it is {status}"))
        failed = await self.remote.cancel(handle, exchange.caller)
        if failed is not None:
            return ending_for_failure(failed, profile, handle)
        handle.update(self.remote.as_cancelled(handle))
        return Answered(raw_json.encode_object(render_for_session(handle)))


def _cancel_task(task: asyncio.Task[Any]) -> None:
    task.cancel()
