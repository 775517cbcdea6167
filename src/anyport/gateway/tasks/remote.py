"""Requests about tasks to servers of either era: `tasks/get`, `result`, `update`, `cancel`."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from anyport.clock import Clock
from anyport.gateway.calls.answers import check_question_urls, misbehaviour
from anyport.gateway.elicitation.input_required_loop import input_response_of
from anyport.gateway.elicitation.server_requests import QUESTION_SECONDS_MAX
from anyport.gateway.tasks.handles import TaskHandle
from anyport.protocol import meta
from anyport.protocol.adapters.server import UNKNOWN_FORM, InputRequiredResult, read_input_required
from anyport.protocol.capabilities import find_missing_capabilities
from anyport.protocol.errors import Situation, missing_capability
from anyport.protocol.exchange import Caller, Failed, Question
from anyport.protocol.revisions import Era
from anyport.protocol.tasks import (
    CANCELLED,
    COMPLETED,
    FAILED,
    WORKING,
    Task,
    declare_tasks,
    read_task,
    related_task_meta,
)
from anyport.upstream.connection import Connection, call_and_wait
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.supervisor import NotReady
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import INTERNAL_ERROR, Failure, Result

RESULT_SECONDS_MAX: Final = 3600.0
"""How long one request may wait for the result of a task."""

TaskStatus = Task | Failure | NoAnswer
"""The state of a task, or why it is not known."""


class RemoteTasks:
    """Sends requests about tasks to their servers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def timestamp(self) -> str:
        """The current time, as tasks write it."""
        return f"{datetime.fromtimestamp(self._clock.steady_now(), UTC):%Y-%m-%dT%H:%M:%SZ}"

    async def get(self, handle: TaskHandle, caller: Caller) -> TaskStatus:
        """The state of a task."""
        # A task that has ended does not change any more. A legacy one has its result elsewhere.
        if handle.is_settled or (handle.task.is_terminal and handle.era is Era.LEGACY):
            return handle.task
        answer = await self._request(handle, caller, "tasks/get")
        if not isinstance(answer, Result):
            return answer
        read = read_task(answer.result, handle.era, self.timestamp())
        if read is None or read[0] != handle.native:
            return _misbehaviour_of_server("answered with no task, or with another one")
        return handle.update(read[1])

    async def get_with_result(self, handle: TaskHandle, caller: Caller) -> TaskStatus:
        """The state of a task and, if it has ended, its result."""
        task = await self.get(handle, caller)
        lacks_result = isinstance(task, Task) and task.is_terminal and not handle.is_settled
        return await self.wait_for_result(handle, caller) if lacks_result else task

    async def wait_for_result(
        self, handle: TaskHandle, caller: Caller, seconds: float = RESULT_SECONDS_MAX
    ) -> TaskStatus:
        """Wait until a legacy task has ended; meanwhile its server may ask questions."""
        if handle.is_settled:
            return handle.task
        try:
            async with asyncio.timeout(seconds):
                return await self._wait_for_result(handle, caller)
        except TimeoutError:
            return NoAnswer(f"{seconds:g}s", Situation.TIMED_OUT)

    async def update(
        self, handle: TaskHandle, caller: Caller, answers: bytes
    ) -> Failure | NoAnswer | None:
        """Send a modern server's task the answers it waits for; returns the failure, if any."""
        answer = await self._request(handle, caller, "tasks/update", inputResponses=answers)
        return None if isinstance(answer, Result) else answer

    async def cancel(self, handle: TaskHandle, caller: Caller) -> Failure | NoAnswer | None:
        """Cancel a task; returns the failure, if any.

        A legacy task is cancelled at once; a modern server may do it later, or not at all.
        """
        answer = await self._request(handle, caller, "tasks/cancel")
        if not isinstance(answer, Result):
            return answer
        if handle.era is Era.LEGACY:
            read = read_task(answer.result, handle.era, self.timestamp())
            is_cancelled = read is not None and read[1].status == CANCELLED
            handle.update(
                read[1] if read is not None and is_cancelled else self.as_cancelled(handle)
            )
        return None

    def as_cancelled(self, handle: TaskHandle) -> Task:
        """The state of a task that has just been cancelled."""
        updated = raw_json.encode_string(self.timestamp())
        return replace(
            handle.task, status=CANCELLED, updated=updated, message=None, requests={}, result=None
        )

    async def _wait_for_result(self, handle: TaskHandle, caller: Caller) -> TaskStatus:
        while handle.has_shared_connection:
            # `tasks/result` would block one of the few requests that a shared connection may have
            # open, and no question can come over it anyway: poll instead.
            task = await self.get(handle, caller)
            if not isinstance(task, Task) or handle.is_settled:
                return task
            if task.status != WORKING:
                break
            await asyncio.sleep(task.poll_seconds)
        answer = await self._request(handle, caller, "tasks/result")
        if isinstance(answer, NoAnswer):
            return answer
        if isinstance(answer, Result) and "content" in raw_json.members(answer.result):
            return handle.update(replace(handle.task, status=COMPLETED, result=answer.result))
        # An error may be the outcome of the task or that of this request: only the task's state
        # tells. So with a result without content, which the Python SDK sends for a task that
        # failed.
        task = await self.get(handle, caller)
        if isinstance(task, Task) and task.is_terminal and task.status != COMPLETED:
            error = answer.error if isinstance(answer, Failure) else _error_of(task)
            handle.update(replace(task, error=error))
            return replace(task, error=error)
        if isinstance(answer, Failure):
            return answer
        return handle.update(replace(handle.task, status=COMPLETED, result=answer.result))

    async def _request(
        self, handle: TaskHandle, caller: Caller, method: str, **more: bytes
    ) -> Answer:
        seconds = handle.server.config.timeout_seconds
        try:
            # The caller of `wait_for_result` sets the limit.
            async with asyncio.timeout(None if method == "tasks/result" else seconds):
                connection = await _find_connection(handle)
                if isinstance(connection, NotReady):
                    return NoAnswer(connection.reason)
                peer = connection.peer
                if peer is None:
                    return NoAnswer("it is starting")
                if peer.revision.era is not handle.era:
                    return NoAnswer("it speaks another revision now, which has no such task")
                params = [("taskId", raw_json.encode_string(handle.native)), *more.items()]
                request_params = peer.adapter.request_params(
                    raw_json.encode_object(params), None, caller
                )
                if handle.era is Era.MODERN:
                    request_params = declare_tasks(request_params)
                answer = await call_and_wait(connection, method, request_params, handle.native)
        except TimeoutError:
            return NoAnswer(f"{seconds:g}s", Situation.TIMED_OUT)
        if isinstance(answer, Result) and answer.result[:1] != b"{":
            return _misbehaviour_of_server("answered with a result that is not an object")
        return answer


async def _find_connection(handle: TaskHandle) -> Connection | NotReady:
    """The connection of a task, or the reason why there is none."""
    if handle.era is Era.LEGACY:
        # A new session would not know the task.
        connection = handle.connection
        if connection is not None and connection.usable:
            return connection
        return NotReady(SESSION_ENDED)
    leased: asyncio.Future[Connection | NotReady] = asyncio.get_running_loop().create_future()
    key = handle.server.key_for(handle.caller.principal)
    handle.server.lease(key, lambda result: None if leased.done() else leased.set_result(result))
    return await leased


SESSION_ENDED: Final = "the session that the task belonged to has ended"


def _error_of(task: Task) -> bytes | None:
    """An error made from the state of a failed task, whose server gave none."""
    if task.status != FAILED:
        return None
    message = None if task.message is None else raw_json.decode_string(Raw(task.message))
    return jsonrpc.encode_error(INTERNAL_ERROR, message or "The task failed")


def _misbehaviour_of_server(reason: str) -> NoAnswer:
    return NoAnswer(reason, Situation.MISBEHAVED)


# Polling of a modern task for a client that waits for its result.
#
# A modern task lists its input requests. The client is asked each of them once, however many of its
# requests wait for the result, and however long the server takes to notice the answers.

ClientAnswer = Result | Failure
AskClient = Callable[[Question], None]


async def poll_until_done(
    remote: RemoteTasks, handle: TaskHandle, caller: Caller, ask_client: AskClient
) -> TaskStatus | Failed:
    """Poll a task until it has ended, and have its input requests answered meanwhile."""
    while True:
        task = await remote.get(handle, caller)
        if not isinstance(task, Task) or task.is_terminal:
            return task
        asked_keys = handle.answered_keys | handle.open_questions.keys()
        new = {key: raw for key, raw in task.requests.items() if key not in asked_keys}
        if not new:
            await asyncio.sleep(task.poll_seconds)
            continue
        input_required = _build_input_required(new, caller, handle)
        answers = (
            input_required
            if isinstance(input_required, Failed)
            else await _collect_answers(input_required, handle, ask_client)
        )
        if isinstance(answers, Failed):
            await remote.cancel(handle, caller)
            return answers
        if handle.task.is_terminal:
            continue
        handle.answered_keys |= new.keys()
        failed = await remote.update(handle, caller, answers)
        if failed is not None:
            return failed


def why_not_askable(
    requests: Mapping[str, bytes], caller: Caller, handle: TaskHandle
) -> Failed | None:
    """Why a client cannot be asked what a task waits for."""
    input_required = _build_input_required(requests, caller, handle)
    return input_required if isinstance(input_required, Failed) else None


def _build_input_required(
    requests: Mapping[str, bytes], caller: Caller, handle: TaskHandle
) -> InputRequiredResult | Failed:
    slug = handle.server.slug
    if not requests:  # All of them may have been answered just now.
        return InputRequiredResult(requests={}, state=None)
    input_required = read_input_required(
        raw_json.encode_object([("inputRequests", raw_json.encode_object(requests.items()))])
    )
    try:
        missing = (
            {}
            if input_required is None
            else find_missing_capabilities(input_required.requests.values(), caller.capabilities)
        )
    except KeyError:
        input_required = None
    if input_required is None:
        return misbehaviour(slug, UNKNOWN_FORM)
    if missing and caller.revision.era is Era.LEGACY:
        return misbehaviour(slug, f"asked for what the client does not offer: {', '.join(missing)}")
    if missing:
        return Failed(missing_capability(slug, missing))
    return check_question_urls(input_required, handle.server) or input_required


async def _collect_answers(
    input_required: InputRequiredResult, handle: TaskHandle, ask_client: AskClient
) -> bytes | Failed:
    """Ask a client several questions; returns its answers as `inputResponses`."""
    loop = asyncio.get_running_loop()
    futures: dict[str, asyncio.Future[ClientAnswer]] = {
        key: loop.create_future() for key in input_required.requests
    }
    questions: dict[str, Question] = {}
    for key, (method, params) in input_required.requests.items():
        if handle.id:
            params = meta.edit_meta(params or b"{}", related_task_meta(handle.id))
        questions[key] = Question(method, params, partial(_set_answer, futures[key]))
    handle.questions = {**handle.open_questions, **questions}
    try:
        for question in questions.values():
            ask_client(question)
        await asyncio.wait(futures.values(), timeout=QUESTION_SECONDS_MAX)
    finally:
        for question in questions.values():
            question.abandon()
    answers: list[tuple[str, bytes]] = []
    for key, question in questions.items():
        answer = input_response_of(question.method, futures[key].result())
        if answer is None:
            fault = f"needs to know what the client did not answer: {question.method}"
            return misbehaviour(handle.server.slug, fault)
        answers.append((key, answer))
    return raw_json.encode_object(answers)


def _set_answer(future: asyncio.Future[ClientAnswer], answer: ClientAnswer) -> None:
    if not future.done():
        future.set_result(answer)
