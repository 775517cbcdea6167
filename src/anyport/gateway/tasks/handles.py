"""Task handles: the tasks that clients know, under ids of the gateway.

An id is sealed, and says which server's task it is, and whose. So a modern server's task can still
be asked about after the gateway has restarted; a legacy task ends with its session.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from anyport.protocol.exchange import Caller, Exchange, Question
from anyport.protocol.revisions import Era
from anyport.protocol.sealing import Seal, digest_of
from anyport.protocol.tasks import CANCELLED, WORKING, Task
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server

TASKS_MAX: Final = 4096
"""Tasks of all clients."""
TASKS_OF_PRINCIPAL_MAX: Final = 256
"""Tasks of one principal; like all tasks together (`TASKS_MAX`), ended ones make room first."""
RESULTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Results of all tasks; the oldest make room, those of the same principal first."""
TASK_SECONDS_MAX: Final = 24 * 3600.0
"""Longest life of a handle, however long the server keeps the task."""
NATIVE_ID_CHARACTERS_MAX: Final = 1024
"""Longest task id that a server may use."""

_KIND: Final = "task"
_OWNER_BYTES: Final = 16
_NO_NATIVE_ID: Final = ""
"""Stands for the server's id of a task that ended at once, and that no server knows."""


class _TaskClaims(msgspec.Struct, array_like=True, frozen=True):
    """The content of a sealed id."""

    owner: bytes
    slug: str
    native: str
    durable: bool
    """Whether its server answers over any connection: modern servers do."""
    number: int
    expires: float


class TaskHandle:
    """A task that a client knows."""

    __slots__ = (
        "_question_count",
        "answered_keys",
        "caller",
        "connection",
        "era",
        "expires_at",
        "has_shared_connection",
        "id",
        "native",
        "on_end",
        "owner",
        "questions",
        "server",
        "task",
        "waiting_exchanges",
    )

    def __init__(
        self, id: str, native: str, server: Server, era: Era, caller: Caller, task: Task
    ) -> None:
        self.id = id
        self.native = native
        self.server = server
        self.era = era
        """The server's era on the connection of the task."""
        self.caller = caller
        """The caller that created the task."""
        self.owner = task_owner(caller)
        self.task = task
        """The last known state."""
        self.connection: Connection | None = None
        """The connection that a legacy task belongs to; a modern server knows it over any."""
        self.has_shared_connection = False
        """Whether other clients use that connection, too."""
        self.expires_at = 0.0
        self.questions: dict[str, Question] = {}
        """Its questions, the answered ones until they are pruned."""
        self.answered_keys: set[str] = set()
        """Input requests that were answered, by their keys, which a modern server never reuses."""
        self.waiting_exchanges: list[Exchange] = []
        """Requests that wait for its result, over which the client can be asked."""
        self.on_end: Callable[[], object] | None = None
        self._question_count = 0

    @property
    def is_local(self) -> bool:
        """Whether no server knows it: the call ended at once."""
        return self.native == _NO_NATIVE_ID

    @property
    def is_settled(self) -> bool:
        """Whether it has ended, and its result is known."""
        task = self.task
        has_outcome = task.result is not None or task.error is not None
        return task.is_terminal and (has_outcome or task.status == CANCELLED)

    @property
    def result_bytes(self) -> int:
        return len(self.task.result or b"") + len(self.task.error or b"")

    @property
    def open_questions(self) -> Mapping[str, Question]:
        """Its unanswered questions."""
        self.questions = {key: each for key, each in self.questions.items() if each.open}
        return self.questions

    def add_question(self, question: Question) -> None:
        """Add a question of a legacy server."""
        self._question_count += 1
        self.questions = {**self.open_questions, f"q{self._question_count}": question}

    def update(self, task: Task) -> Task:
        """Take over a state, unless the task has ended: a late message does not revive it."""
        if self.is_settled or (self.task.is_terminal and not task.is_terminal):
            return self.task
        self.task = task
        if task.is_terminal:
            self.close()
        return task

    def close(self) -> None:
        """Abandon open questions, and stop receiving progress."""
        for question in self.open_questions.values():
            question.abandon()
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


class TaskHandles:
    """The table of task handles."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._by_id: dict[str, TaskHandle] = {}
        self._created_count = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[TaskHandle]:
        return iter(self._by_id.values())

    def create(
        self, caller: Caller, server: Server, era: Era, native: str, task: Task, now: float
    ) -> TaskHandle | None:
        """A handle for a new task; None if there are too many tasks."""
        owner = task_owner(caller)
        if len(native) > NATIVE_ID_CHARACTERS_MAX or not self._make_room(owner, now):
            return None
        self._created_count += 1
        # A task that no server knows needs something else to make its id unique.
        number = 0 if native else self._created_count
        ttl = task.ttl_seconds
        expires = now + (TASK_SECONDS_MAX if ttl is None else min(ttl, TASK_SECONDS_MAX))
        claims = _TaskClaims(owner, server.slug, native, era is Era.MODERN, number, expires)
        id = self._seal.seal(_KIND, msgspec.msgpack.encode(claims))
        return self._add(TaskHandle(id, native, server, era, caller, task), expires)

    def find(
        self, id: str | None, caller: Caller, servers: Mapping[str, Server], now: float
    ) -> TaskHandle | None:
        """The task with this id, if it belongs to the caller."""
        handle = self._by_id.get(id or "")
        if handle is not None:
            return (
                handle if handle.owner == task_owner(caller) and now < handle.expires_at else None
            )
        sealed = None if id is None else self._seal.open(_KIND, id)
        try:
            claims = None if sealed is None else msgspec.msgpack.decode(sealed, type=_TaskClaims)
        except msgspec.DecodeError:
            return None
        if claims is None or claims.owner != task_owner(caller) or not claims.durable:
            return None
        server = servers.get(claims.slug)
        if server is None or claims.native == _NO_NATIVE_ID or now >= claims.expires:
            return None
        if not self._make_room(claims.owner, now):
            return None
        unknown_task = Task(status=WORKING, created=b'""', updated=b'""')
        handle = TaskHandle(id or "", claims.native, server, Era.MODERN, caller, unknown_task)
        return self._add(handle, claims.expires)

    def of_server(self, server: Server, native: str, connection: Connection) -> TaskHandle | None:
        """The task with a server's own id, as known over a connection."""
        for handle in reversed(self._by_id.values()):
            is_same_connection = (
                server.may_concern(connection, handle.caller.principal)
                if handle.era is Era.MODERN
                else handle.connection is connection
            )
            if handle.server is server and handle.native == native and is_same_connection:
                return handle
        return None

    def of_connection(self, connection: Connection) -> list[TaskHandle]:
        """The legacy tasks that belong to a connection."""
        return [handle for handle in self._by_id.values() if handle.connection is connection]

    def of_caller(self, caller: Caller, now: float) -> list[TaskHandle]:
        """The tasks of a caller's principal in its profile, newest first."""
        owner = task_owner(caller)
        return [
            h for h in reversed(self._by_id.values()) if h.owner == owner and now < h.expires_at
        ]

    def forget(self, handle: TaskHandle) -> None:
        self._by_id.pop(handle.id, None)
        handle.close()

    def limit_results(self, handle: TaskHandle) -> None:
        """Drop the results of other tasks if there are too many bytes after a new result."""
        total_bytes = sum(each.result_bytes for each in self._by_id.values())
        if total_bytes <= RESULTS_BYTES_MAX:
            return
        others = [each for each in self._by_id.values() if each.result_bytes and each is not handle]
        for other in sorted(others, key=lambda each: each.owner != handle.owner):
            if total_bytes > RESULTS_BYTES_MAX:
                total_bytes -= other.result_bytes
                self.forget(other)

    def _add(self, handle: TaskHandle, expires: float) -> TaskHandle:
        handle.expires_at = expires
        self._by_id[handle.id] = handle
        return handle

    def _make_room(self, owner: bytes, now: float) -> bool:
        """Whether there is room for one more, after dropping expired and ended tasks."""
        for handle in [h for h in self._by_id.values() if now >= h.expires_at]:
            self.forget(handle)
        own = [handle for handle in self._by_id.values() if handle.owner == owner]
        candidates = own if len(own) >= TASKS_OF_PRINCIPAL_MAX else list(self._by_id.values())
        if len(own) < TASKS_OF_PRINCIPAL_MAX and len(candidates) < TASKS_MAX:
            return True
        done = next((handle for handle in candidates if handle.task.is_terminal), None)
        if done is not None:
            self.forget(done)
        return done is not None


def task_owner(caller: Caller) -> bytes:
    """The owner of a task: a principal in a profile, whatever its session."""
    return digest_of((part.encode() for part in (*caller.principal, caller.profile)), _OWNER_BYTES)
