"""Tasks of the extension to revision 2026-07-28: they belong to the holder of the id.

The server decides which calls become tasks, among those of clients that declare the extension.
Questions and the outcome are part of the task.
"""

from collections.abc import Mapping
from typing import Any, Final

from tests.peers.demo import questions
from tests.peers.demo.brew import Brew
from tests.peers.demo.calls import Call, Method, ServerState, declares
from tests.peers.demo.faults import INVALID_PARAMS, Fault, MissingCapability, object_member
from tests.peers.demo.revisions import Json, Revision
from tests.peers.demo.tasks import POLL_MS, Phase, Task

EXTENSION: Final = "io.modelcontextprotocol/tasks"
DECLARATION: Final[Json] = {"extensions": {EXTENSION: {}}}
TTL_MS: Final = 600_000  # As long as a person may take to answer, and then to come back.


class ModernTasks:
    """The tasks of this process, for every request that knows the id of one."""

    def __init__(self, server_state: ServerState) -> None:
        self._tasks = server_state.tasks
        self._offered = server_state.options.tasks
        methods: Mapping[str, Method] = {
            "tasks/get": self._get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }
        self.methods: Mapping[str, Method] = methods if self._offered else {}

    def starts(self, call: Call, support: str) -> bool:
        """Whether a call of a tool becomes a task.

        Raises:
            Fault: it would have to, but the client does not know tasks.
        """
        if support == "required":
            _require(call)
        return support != "forbidden" and declares(call.capabilities, DECLARATION)

    def start(self, call: Call, brew: Brew) -> Json:
        needed = questions.sugar(call.revision).capability
        able = declares(call.capabilities, needed)
        task = self._tasks.start(brew, TTL_MS, None if able else MissingCapability(needed).fault())
        return {"resultType": "task", **_words(task)}

    def watched(self, call: Call, wanted: Json) -> list[Task]:
        """The tasks that a subscription asks about, and can be told of.

        Raises:
            Fault: it may not ask, or asks nonsense.
        """
        if not self._offered or "taskIds" not in wanted:
            return []
        _require(call)
        ids: Any = wanted["taskIds"]
        if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
            raise Fault(INVALID_PARAMS, "'taskIds' must be an array of strings")
        found = (self._tasks.find(identity) for identity in dict.fromkeys(ids))
        return [task for task in found if task is not None]

    def _get(self, call: Call, params: Json) -> Json:
        _require(call)
        task = self._tasks.named(params)
        task.look()
        return detailed(task, call.revision)

    def _update(self, call: Call, params: Json) -> Json:
        _require(call)
        task = self._tasks.named(params)
        answers = object_member(params, "inputResponses")
        # "A server SHOULD ignore any inputResponses mapped to a key that is not currently
        # outstanding".
        answer = answers.get(questions.sugar(call.revision).key)
        if isinstance(answer, dict):
            task.answer(answer)
        return {}

    def _cancel(self, call: Call, params: Json) -> Json:
        """One that is over stays as it is, and the request is acknowledged all the same."""
        _require(call)
        self._tasks.named(params).cancel()
        return {}


def detailed(task: Task, revision: Revision) -> Json:
    """The task, with what its status calls for: questions, a result or an error."""
    words = _words(task)
    if task.phase is Phase.ASKING:
        question = questions.sugar(revision)
        words["inputRequests"] = {question.key: question.body()}
    elif task.phase is Phase.DONE:
        if isinstance(task.outcome, Fault):
            words["error"] = task.outcome.to_json()
        elif task.outcome is not None:
            words["result"] = {"resultType": "complete", **task.outcome}
    return words


def _require(call: Call) -> None:
    if not declares(call.capabilities, DECLARATION):
        raise MissingCapability(DECLARATION).fault()


def _words(task: Task) -> Json:
    # "The failed status MUST NOT be used to represent non-JSON-RPC errors."
    failed = task.phase is Phase.DONE and isinstance(task.outcome, Fault)
    return {
        "taskId": task.identity,
        "status": "failed" if failed else task.phase.value,
        "statusMessage": task.message,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
        "ttlMs": task.ttl_ms,
        "pollIntervalMs": POLL_MS,
    }
