"""Tasks of both eras: work that goes on after its request was answered.

Inside the gateway there is one `Task`. Handshake tasks (2025-11-25) and the modern extension
describe it with different names, in different places, and treat a failed tool differently.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.extensions import TASKS
from anyport.protocol.revisions import Era
from anyport.wire import raw_json

WORKING: Final = "working"
INPUT_REQUIRED: Final = "input_required"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
TERMINAL_STATUSES: Final = frozenset({COMPLETED, FAILED, CANCELLED})
_STATUSES: Final = TERMINAL_STATUSES | {WORKING, INPUT_REQUIRED}

POLL_SECONDS_MIN: Final = 0.02
POLL_SECONDS: Final = 1.0
POLL_SECONDS_MAX: Final = 30.0
"""Poll interval: lower limit, default if the server suggests none, and upper limit."""

_NAMES: Final[Mapping[Era, tuple[str, str]]] = {
    Era.LEGACY: ("ttl", "pollInterval"),
    Era.MODERN: ("ttlMs", "pollIntervalMs"),
}
"""The members for time to live and poll interval in each era."""
_KNOWN_MEMBERS: Final = frozenset(
    {"taskId", "status", "createdAt", "lastUpdatedAt", "statusMessage"}
    | {"inputRequests", "result", "error", "resultType", "_meta"}
    | {name for names in _NAMES.values() for name in names}
)
"""Members of a task in either era, and of results that hold one."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """State of a task. Values stay raw unless the gateway reads them."""

    status: str
    created: bytes
    updated: bytes
    ttl: bytes = b"null"
    poll: bytes | None = None
    message: bytes | None = None
    requests: Mapping[str, bytes] = {}
    """Raw questions that it waits for, by key."""
    result: bytes | None = None
    """The result of its request."""
    error: bytes | None = None
    more: Mapping[str, bytes] = {}
    """Members that the gateway does not know, to be passed on."""

    @property
    def is_terminal(self) -> bool:
        """Whether the state is final."""
        return self.status in TERMINAL_STATUSES

    @property
    def poll_seconds(self) -> float:
        """How long to wait before the next poll."""
        requested_ms = _number(self.poll)
        seconds = POLL_SECONDS if requested_ms is None else requested_ms / 1000
        return min(max(seconds, POLL_SECONDS_MIN), POLL_SECONDS_MAX)

    @property
    def ttl_seconds(self) -> float | None:
        """How long it is kept after its creation; None if the server decides."""
        kept_ms = _number(self.ttl)
        return None if kept_ms is None else kept_ms / 1000


def read_task(raw: bytes, era: Era, now: str) -> tuple[str, Task] | None:
    """Read a task of a server; returns its id and state, or None if it is not a task.

    `now` replaces missing times.
    """
    try:
        task_members = raw_json.members(raw)
    except msgspec.DecodeError:
        return None
    id, status = (
        raw_json.decode_string(task_members.get("taskId")),
        raw_json.decode_string(task_members.get("status")),
    )
    if id is None or status not in _STATUSES:
        return None
    ttl, poll = (task_members.get(name) for name in _NAMES[era])
    task = Task(
        status=status,
        created=_raw_value(task_members.get("createdAt"), b'"') or raw_json.encode_string(now),
        updated=_raw_value(task_members.get("lastUpdatedAt"), b'"') or raw_json.encode_string(now),
        ttl=b"null" if _number(ttl) is None else bytes(ttl or b"null"),
        poll=None if _number(poll) is None else bytes(poll or b""),
        message=_raw_value(task_members.get("statusMessage"), b'"'),
        requests=_raw_members(task_members.get("inputRequests"))
        if status == INPUT_REQUIRED
        else {},
        result=_raw_value(task_members.get("result"), b"{"),
        error=_raw_value(task_members.get("error"), b"{"),
        more={name: bytes(value) for name, value in task_members.items() if _is_extra_member(name)},
    )
    return id, task


def read_create_result(result: bytes, era: Era, now: str) -> tuple[str, Task] | None:
    """The task that a result announces; None if the request was answered otherwise."""
    try:
        result_members = raw_json.members(result)
    except msgspec.DecodeError:
        return None
    if era is Era.LEGACY:
        inner = result_members.get("task")
        return None if inner is None else read_task(bytes(inner), era, now)
    return (
        read_task(result, era, now)
        if raw_json.decode_string(result_members.get("resultType")) == "task"
        else None
    )


def render_task(task: Task, id: str, era: Era) -> list[tuple[str, bytes]]:
    """The members of a task, without questions and outcome."""
    ttl, poll = _NAMES[era]
    task_members = [
        ("taskId", raw_json.encode_string(id)),
        ("status", raw_json.encode_string(_status(task, era))),
        ("createdAt", task.created),
        ("lastUpdatedAt", task.updated),
        (ttl, task.ttl),
    ]
    if task.message is not None:
        task_members.append(("statusMessage", task.message))
    if task.poll is not None:
        task_members.append((poll, task.poll))
    return [*task_members, *task.more.items()]


def render_detailed_task(task: Task, id: str) -> bytes:
    """Encode a task with its questions or outcome, as the modern extension has it."""
    task_members = render_task(task, id, Era.MODERN)
    if task.status == INPUT_REQUIRED:
        task_members.append(("inputRequests", raw_json.encode_object(task.requests.items())))
    elif task.status == COMPLETED:
        task_members.append(("result", task.result or b"{}"))
    elif task.status == FAILED:
        task_members.append(("error", task.error or b'{"code":-32603,"message":"The task failed"}'))
    return raw_json.encode_object(task_members)


def render_create_result(task: Task, id: str, era: Era, result: bytes = b"{}") -> bytes:
    """Encode the answer to a request that has become a task.

    `result` is the server's. Its `_meta` is for the client, such as text for the model while the
    task runs, except the server's own task id and identity.
    """
    task_members = render_task(task, id, era)
    if era is Era.LEGACY:
        task_members = [("task", raw_json.encode_object(task_members))]
    else:
        task_members.insert(0, ("resultType", b'"task"'))
    raw_meta = raw_json.members(result).get("_meta")
    if raw_meta is not None and bytes(raw_meta)[:1] == b"{":
        remaining_meta = raw_json.edit(
            bytes(raw_meta), dict.fromkeys((meta.RELATED_TASK, meta.SERVER_INFO))
        )
        task_members += [("_meta", remaining_meta)] if raw_json.members(remaining_meta) else []
    return raw_json.encode_object(task_members)


def supports_tasks(declared: Raw | None) -> bool:
    """Whether a legacy server, by its `tasks` capability, runs tool calls as tasks."""
    try:
        for name in ("requests", "tools", "call"):
            if declared is None:
                return False
            declared = raw_json.members(declared).get(name)
    except msgspec.DecodeError:
        return False
    return declared is not None and bytes(declared)[:1] == b"{"


def declare_tasks(params: bytes) -> bytes:
    """Add to the params of a modern request that the sender accepts a task as the answer."""
    raw_meta = raw_json.members(params).get("_meta")
    declared = (
        None if raw_meta is None else raw_json.members(raw_meta).get(meta.CLIENT_CAPABILITIES)
    )
    capabilities = b"{}" if declared is None else bytes(declared)
    known = raw_json.members(capabilities).get("extensions")
    extensions = raw_json.edit(b"{}" if known is None else bytes(known), {TASKS: b"{}"})
    capabilities = raw_json.edit(capabilities, {"extensions": extensions})
    return meta.edit_meta(params, {meta.CLIENT_CAPABILITIES: capabilities})


def related_task_meta(id: str) -> Mapping[str, bytes]:
    """The `_meta` of a message that belongs to a task of a session."""
    return {meta.RELATED_TASK: raw_json.encode_object([("taskId", raw_json.encode_string(id))])}


def read_related_task(params: bytes | None) -> str | None:
    """The id of the task that a message of a session belongs to."""
    if params is None or meta.RELATED_TASK.encode() not in params:
        return None
    try:
        raw_meta = raw_json.members(params)["_meta"]
        return raw_json.decode_string(
            raw_json.members(raw_json.members(raw_meta)[meta.RELATED_TASK])["taskId"]
        )
    except (msgspec.DecodeError, KeyError):
        return None


def _is_extra_member(name: str) -> bool:
    return name not in _KNOWN_MEMBERS and raw_json.find_lookalike((name,), _KNOWN_MEMBERS) is None


def _status(task: Task, era: Era) -> str:
    """The status in an era: a tool that fails is a failed task in a session, a completed one in the
    extension."""
    if era is Era.LEGACY and task.status == COMPLETED and task.result is not None:
        failed = raw_json.members(task.result).get("isError")
        return FAILED if failed is not None and bytes(failed) == b"true" else COMPLETED
    return task.status


def _raw_members(raw: Raw | None) -> Mapping[str, bytes]:
    try:
        found = {} if raw is None else raw_json.members(raw)
    except msgspec.DecodeError:
        return {}
    return {key: bytes(entry) for key, entry in found.items()}


def _raw_value(value: Raw | None, opening: bytes) -> bytes | None:
    return None if value is None or bytes(value)[:1] != opening else bytes(value)


def _number(raw: Raw | bytes | None) -> float | None:
    try:
        number = None if raw is None else msgspec.json.decode(raw, type=float | None)
    except msgspec.DecodeError:
        return None
    return number if number is not None and number >= 0 else None
