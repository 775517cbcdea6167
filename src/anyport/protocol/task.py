"""Tasks: work that goes on after its request was answered, as either era writes them.

Inside there is one `Task`. The handshake's tasks (2025-11-25) and those of the modern extension
tell the same of it under other names, in other places, and count a tool's own failure differently.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol import meta
from anyport.protocol.extension import TASKS
from anyport.protocol.revision import Era
from anyport.wire import members

WORKING: Final = "working"
INPUT_REQUIRED: Final = "input_required"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
OVER: Final = frozenset({COMPLETED, FAILED, CANCELLED})
_STATUSES: Final = OVER | {WORKING, INPUT_REQUIRED}

POLL_SECONDS_MIN: Final = 0.02
POLL_SECONDS: Final = 1.0
POLL_SECONDS_MAX: Final = 30.0
"""Between two looks at a task: at least, where its server wishes nothing, and at most."""

_NAMES: Final[Mapping[Era, tuple[str, str]]] = {
    Era.LEGACY: ("ttl", "pollInterval"),
    Era.MODERN: ("ttlMs", "pollIntervalMs"),
}
"""How each era calls the time a task is kept, and the time between two looks at it."""
_KNOWN: Final = frozenset(
    {"taskId", "status", "createdAt", "lastUpdatedAt", "statusMessage"}
    | {"inputRequests", "result", "error", "resultType", "_meta"}
    | {name for names in _NAMES.values() for name in names}
)
"""What is told of a task in either era, and of what is told."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """How a task stands. Values are raw where nobody here reads them."""

    status: str
    created: bytes
    updated: bytes
    ttl: bytes = b"null"
    poll: bytes | None = None
    message: bytes | None = None
    requests: Mapping[str, bytes] = {}
    """What it waits for: raw questions by their keys."""
    result: bytes | None = None
    """What its request would have been answered with."""
    error: bytes | None = None
    more: Mapping[str, bytes] = {}
    """What its server tells besides, which is nobody's here to leave out."""

    @property
    def over(self) -> bool:
        """Whether it will not change any more."""
        return self.status in OVER

    @property
    def poll_seconds(self) -> float:
        """How long to wait before looking again."""
        wish = _number(self.poll)
        seconds = POLL_SECONDS if wish is None else wish / 1000
        return min(max(seconds, POLL_SECONDS_MIN), POLL_SECONDS_MAX)

    @property
    def ttl_seconds(self) -> float | None:
        """How long it is kept after it was made; None for as long as its server likes."""
        kept = _number(self.ttl)
        return None if kept is None else kept / 1000


def read_task(raw: bytes, era: Era, now: str) -> tuple[str, Task] | None:
    """The id and the state of a task as a server tells them; None if it is no task.

    `now` stands for times that the server left out.
    """
    try:
        found = members.members(raw)
    except msgspec.DecodeError:
        return None
    id, status = members.string(found.get("taskId")), members.string(found.get("status"))
    if id is None or status not in _STATUSES:
        return None
    ttl, poll = (found.get(name) for name in _NAMES[era])
    task = Task(
        status=status,
        created=_raw(found.get("createdAt"), b'"') or members.text(now),
        updated=_raw(found.get("lastUpdatedAt"), b'"') or members.text(now),
        ttl=b"null" if _number(ttl) is None else bytes(ttl or b"null"),
        poll=None if _number(poll) is None else bytes(poll or b""),
        message=_raw(found.get("statusMessage"), b'"'),
        requests=_entries(found.get("inputRequests")) if status == INPUT_REQUIRED else {},
        result=_raw(found.get("result"), b"{"),
        error=_raw(found.get("error"), b"{"),
        more={name: bytes(value) for name, value in found.items() if name not in _KNOWN},
    )
    return id, task


def read_created(result: bytes, era: Era, now: str) -> tuple[str, Task] | None:
    """The task that a request has become; None if it was answered otherwise."""
    try:
        found = members.members(result)
    except msgspec.DecodeError:
        return None
    if era is Era.LEGACY:
        inner = found.get("task")
        return None if inner is None else read_task(bytes(inner), era, now)
    return (
        read_task(result, era, now) if members.string(found.get("resultType")) == "task" else None
    )


def render(task: Task, id: str, era: Era) -> list[tuple[str, bytes]]:
    """The members that tell of a task, without what it waits for or has come to."""
    ttl, poll = _NAMES[era]
    told = [
        ("taskId", members.text(id)),
        ("status", members.text(_status(task, era))),
        ("createdAt", task.created),
        ("lastUpdatedAt", task.updated),
        (ttl, task.ttl),
    ]
    if task.message is not None:
        told.append(("statusMessage", task.message))
    if task.poll is not None:
        told.append((poll, task.poll))
    return [*told, *task.more.items()]


def render_whole(task: Task, id: str) -> bytes:
    """A task with what it waits for or has come to, as the extension tells it."""
    told = render(task, id, Era.MODERN)
    if task.status == INPUT_REQUIRED:
        told.append(("inputRequests", members.join(task.requests.items())))
    elif task.status == COMPLETED:
        told.append(("result", task.result or b"{}"))
    elif task.status == FAILED:
        told.append(("error", task.error or b'{"code":-32603,"message":"The task failed"}'))
    return members.join(told)


def render_created(task: Task, id: str, era: Era, result: bytes = b"{}") -> bytes:
    """The answer to a request that has become a task.

    `result` is the server's. What is in its `_meta` is for the client, such as what its model may
    say meanwhile; but not by which id the server knows the task, nor who the server is.
    """
    told = render(task, id, era)
    if era is Era.LEGACY:
        told = [("task", members.join(told))]
    else:
        told.insert(0, ("resultType", b'"task"'))
    about = members.members(result).get("_meta")
    if about is not None and bytes(about)[:1] == b"{":
        left = members.edit(bytes(about), dict.fromkeys((meta.RELATED_TASK, meta.SERVER_INFO)))
        told += [("_meta", left)] if members.members(left) else []
    return members.join(told)


def offers_tasks(declared: Raw | None) -> bool:
    """Whether the server of a session, by its `tasks` capability, makes tasks of tool calls."""
    try:
        for name in ("requests", "tools", "call"):
            if declared is None:
                return False
            declared = members.members(declared).get(name)
    except msgspec.DecodeError:
        return False
    return declared is not None and bytes(declared)[:1] == b"{"


def declare_tasks(params: bytes) -> bytes:
    """The params of a modern request, whose sender takes a task for an answer."""
    about = members.members(params).get("_meta")
    declared = None if about is None else members.members(about).get(meta.CLIENT_CAPABILITIES)
    capabilities = b"{}" if declared is None else bytes(declared)
    known = members.members(capabilities).get("extensions")
    extensions = members.edit(b"{}" if known is None else bytes(known), {TASKS: b"{}"})
    capabilities = members.edit(capabilities, {"extensions": extensions})
    return meta.restamp(params, {meta.CLIENT_CAPABILITIES: capabilities})


def related(id: str) -> Mapping[str, bytes]:
    """What a message says in `_meta` that belongs to a task of a session."""
    return {meta.RELATED_TASK: members.join([("taskId", members.text(id))])}


def related_task(params: bytes | None) -> str | None:
    """The id of the task that a message in a session belongs to."""
    if params is None or meta.RELATED_TASK.encode() not in params:
        return None
    try:
        about = members.members(params)["_meta"]
        return members.string(members.members(members.members(about)[meta.RELATED_TASK])["taskId"])
    except (msgspec.DecodeError, KeyError):
        return None


def _status(task: Task, era: Era) -> str:
    """A tool that fails is a failed task in a session, and a completed one of the extension."""
    if era is Era.LEGACY and task.status == COMPLETED and task.result is not None:
        failed = members.members(task.result).get("isError")
        return FAILED if failed is not None and bytes(failed) == b"true" else COMPLETED
    return task.status


def _entries(raw: Raw | None) -> Mapping[str, bytes]:
    try:
        found = {} if raw is None else members.members(raw)
    except msgspec.DecodeError:
        return {}
    return {key: bytes(entry) for key, entry in found.items()}


def _raw(value: Raw | None, opening: bytes) -> bytes | None:
    return None if value is None or bytes(value)[:1] != opening else bytes(value)


def _number(raw: Raw | bytes | None) -> float | None:
    try:
        number = None if raw is None else msgspec.json.decode(raw, type=float | None)
    except msgspec.DecodeError:
        return None
    return number if number is not None and number >= 0 else None
