"""Tasks of revision 2025-11-25: they belong to a session, which can list them.

The client says with each call whether it wants a task. A task asks its client with a request, sent
while the client waits for the result.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from tests.peers.demo import content, questions
from tests.peers.demo.brew import Brew
from tests.peers.demo.calls import Call, Method, Send, declares
from tests.peers.demo.faults import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Fault,
    MissingCapability,
    Unanswered,
    object_member,
)
from tests.peers.demo.paging import page
from tests.peers.demo.revisions import Json
from tests.peers.demo.tasks import POLL_MS, Phase, Task, Tasks

RELATED_KEY: Final = "io.modelcontextprotocol/related-task"
MEANWHILE_KEY: Final = "io.modelcontextprotocol/model-immediate-response"

CAPABILITY: Final[Json] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


class LegacyTasks:
    """The tasks of one session; `send` is for what belongs to no request."""

    def __init__(self, tasks: Tasks, send: Send) -> None:
        self._tasks = tasks
        self._send = send
        self.methods: Mapping[str, Method] = {
            "tasks/get": self._get,
            "tasks/result": lambda call, params: self._result(call, tasks.named(params)),
            "tasks/cancel": self._cancel,
            "tasks/list": self._list,
        }

    def starts(self, params: Json, support: str) -> bool:
        """Whether a call of a tool wants to be a task.

        Raises:
            Fault: the tool cannot be one, or can be nothing else.
        """
        wanted = "task" in params
        # Both get "a -32601 (Method not found) error" (basic/utilities/tasks).
        if wanted and support == "forbidden":
            raise Fault(METHOD_NOT_FOUND, "This tool cannot be called as a task")
        if support == "required" and not wanted:
            raise Fault(METHOD_NOT_FOUND, "This tool can only be called as a task")
        return wanted

    def start(self, call: Call, brew: Brew) -> Json:
        ttl_ms = object_member(call.request.params, "task").get("ttl")
        if ttl_ms is not None and (type(ttl_ms) is not int or ttl_ms < 0):
            raise Fault(INVALID_PARAMS, "'ttl' must be a number of milliseconds")
        needed = questions.sugar(call.revision).capability
        able = declares(call.capabilities, needed)
        unaskable = None if able else content.failure(str(MissingCapability(needed)))
        task = self._tasks.start(brew, ttl_ms, unaskable)
        task.watchers.append(self._tell)
        task.on_step = lambda filled: self._report(call, task, filled)
        return {"task": _words(task), "_meta": {MEANWHILE_KEY: "The kettle is on."}}

    def hang_up(self) -> None:
        """Nobody will look any more, nor is there to be told."""
        for task in self._tasks.all():
            task.watchers.clear()
            task.cancel()

    def _get(self, _call: Call, params: Json) -> Json:
        task = self._tasks.named(params)
        task.look()
        return _words(task)

    def _cancel(self, _call: Call, params: Json) -> Json:
        task = self._tasks.named(params)
        # "Receivers MUST reject cancellation requests for tasks already in a terminal status".
        if task.is_over:
            raise Fault(INVALID_PARAMS, f"The task is over already: {_status(task)}")
        task.cancel()
        return _words(task)

    def _list(self, call: Call, params: Json) -> Json:
        entries = [_words(task) for task in self._tasks.all()]
        return page(call.server_state.options, "tasks", entries, params)

    async def _result(self, call: Call, task: Task) -> Json:
        """Takes the steps that are left, then answers as the tool would have."""
        while task.outcome is None:
            if task.look():
                continue
            if task.phase is Phase.ASKING and task.ask_client is None:
                await _ask(call, task)
            else:
                await task.change()
        if isinstance(task.outcome, Fault):
            raise task.outcome
        # "The tasks/result operation MUST include this metadata in its response".
        return {**task.outcome, "_meta": _related(task)}

    def _tell(self, task: Task) -> None:
        message = {"method": "notifications/tasks/status", "params": _words(task)}
        self._send({"jsonrpc": "2.0", **message})

    def _report(self, call: Call, task: Task, filled: int) -> None:
        """The call has been answered, but its progress token is good for all of the task."""
        params = call.progress_report(filled, task.brew.cups, task.message)
        if params is not None:
            params["_meta"] = _related(task)
            self._send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


async def _ask(call: Call, task: Task) -> None:
    """Asks the client, unless the task ends first; then the question is withdrawn."""

    async def put() -> None:
        question = questions.sugar(call.revision)
        params = {**(question.params or {}), "_meta": _related(task)}
        try:
            task.answer(await call.ask(msgspec.structs.replace(question, params=params)))
        except Unanswered as error:
            task.end(content.failure(str(error)))

    try:
        async with asyncio.TaskGroup() as group:
            task.ask_client = group.create_task(put())
    finally:
        task.ask_client = None
        task.stir()  # If this call was cancelled, another that waits may ask in its place.


def _status(task: Task) -> str:
    outcome = task.outcome
    # "For tool calls specifically, this includes cases where the tool call result has isError set
    # to true" (basic/utilities/tasks).
    went_wrong = isinstance(outcome, Fault) or (outcome is not None and "isError" in outcome)
    return "failed" if task.phase is Phase.DONE and went_wrong else task.phase.value


def _words(task: Task) -> Json:
    return {
        "taskId": task.identity,
        "status": _status(task),
        "statusMessage": task.message,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
        "ttl": task.ttl_ms,
        "pollInterval": POLL_MS,
    }


def _related(task: Task) -> Json:
    return {RELATED_KEY: {"taskId": task.identity}}
