"""The tasks that clients were given, under ids of ours. Pure: the time is an argument.

An id is sealed: it says which server's task it is, and whose. So a task of a modern server, which
anybody may ask about who knows its id, outlives this process; one of a session lives no longer
than that.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from anyport.protocol.exchange import Caller, Exchange, Question
from anyport.protocol.revision import Era
from anyport.protocol.seal import Seal, digest_of
from anyport.protocol.task import CANCELLED, WORKING, Task
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server

TASKS_MAX: Final = 4096
TASKS_OF_ONE_MAX: Final = 256
"""Tasks of all clients, and of one principal's; those that are over make room first."""
RESULTS_BYTES_MAX: Final = 64 * 1024 * 1024
"""What has come of all tasks together; the oldest make room, a principal's own before others'."""
TASK_SECONDS_MAX: Final = 24 * 3600.0
"""A task whose server keeps it for longer, or for ever, is known here for this long."""
NATIVE_ID_CHARACTERS_MAX: Final = 1024
"""Of the id that a server gave its task."""

_KIND: Final = "task"
_OWNER_BYTES: Final = 16
_LOCAL: Final = ""
"""In place of a server's id: a task that is over, and of which no server knows."""


class _Claims(msgspec.Struct, array_like=True, frozen=True):
    """What an id says."""

    owner: bytes
    slug: str
    native: str
    durable: bool
    """Whether anybody may ask its server about it who knows its id."""
    number: int
    expires: float


class Handle:
    """One task that a client was given."""

    __slots__ = (
        "_asked",
        "answered",
        "caller",
        "connection",
        "era",
        "expires",
        "id",
        "native",
        "on_over",
        "owner",
        "questions",
        "server",
        "shared",
        "task",
        "waiting",
    )

    def __init__(
        self, id: str, native: str, server: Server, era: Era, caller: Caller, task: Task
    ) -> None:
        self.id = id
        self.native = native
        self.server = server
        self.era = era
        """Which its server speaks, over the connection that it belongs to."""
        self.caller = caller
        """Who started it."""
        self.owner = owner_of(caller)
        self.task = task
        """As it was last seen."""
        self.connection: Connection | None = None
        """The one over which a session's server knows of it; a modern one does over any."""
        self.shared = False
        """Whether others' calls wait for places on that connection."""
        self.expires = 0.0
        self.questions: dict[str, Question] = {}
        """What it has asked, as long as nobody has answered."""
        self.answered: set[str] = set()
        """What a modern server's task has been told, by keys that it never uses again."""
        self.waiting: list[Exchange] = []
        """Who waits for its result, and can be asked on the way."""
        self.on_over: Callable[[], object] | None = None
        self._asked = 0

    @property
    def local(self) -> bool:
        """Whether no server knows of it: it was over when it began."""
        return self.native == _LOCAL

    @property
    def settled(self) -> bool:
        """Whether there is nothing more to be known of it."""
        task = self.task
        ended = task.result is not None or task.error is not None
        return task.over and (ended or task.status == CANCELLED)

    @property
    def weight_bytes(self) -> int:
        """What has come of it."""
        return len(self.task.result or b"") + len(self.task.error or b"")

    @property
    def open(self) -> Mapping[str, Question]:
        """What has not been answered."""
        self.questions = {key: asked for key, asked in self.questions.items() if asked.open}
        return self.questions

    def ask(self, question: Question) -> None:
        """A session's server asks something for it."""
        self._asked += 1
        self.questions = {**self.open, f"q{self._asked}": question}

    def see(self, task: Task) -> Task:
        """Take how it stands; but it never goes on once it is over, whatever comes late."""
        if self.settled or (self.task.over and not task.over):
            return self.task
        self.task = task
        if task.over:
            self.close()
        return task

    def close(self) -> None:
        """Nobody needs to answer any more, and nothing more is heard of it."""
        for question in self.open.values():
            question.abandon()
        act, self.on_over = self.on_over, None
        if act is not None:
            act()


class Handles:
    """All of them."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._by_id: dict[str, Handle] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Handle]:
        return iter(self._by_id.values())

    def open(
        self, caller: Caller, server: Server, era: Era, native: str, task: Task, now: float
    ) -> Handle | None:
        """A handle for a new task; None if there are too many."""
        owner = owner_of(caller)
        if len(native) > NATIVE_ID_CHARACTERS_MAX or not self._room(owner, now):
            return None
        self._made += 1
        # A task that no server knows of still needs an id that no other has.
        number = 0 if native else self._made
        ttl = task.ttl_seconds
        expires = now + (TASK_SECONDS_MAX if ttl is None else min(ttl, TASK_SECONDS_MAX))
        claims = _Claims(owner, server.slug, native, era is Era.MODERN, number, expires)
        id = self._seal.seal(_KIND, msgspec.msgpack.encode(claims))
        return self._keep(Handle(id, native, server, era, caller, task), expires)

    def find(
        self, id: str | None, caller: Caller, servers: Mapping[str, Server], now: float
    ) -> Handle | None:
        """The task of this id, if it is this caller's."""
        handle = self._by_id.get(id or "")
        if handle is not None:
            return handle if handle.owner == owner_of(caller) and now < handle.expires else None
        sealed = None if id is None else self._seal.open(_KIND, id)
        try:
            claims = None if sealed is None else msgspec.msgpack.decode(sealed, type=_Claims)
        except msgspec.DecodeError:
            return None
        if claims is None or claims.owner != owner_of(caller) or not claims.durable:
            return None
        server = servers.get(claims.slug)
        if server is None or claims.native == _LOCAL or now >= claims.expires:
            return None
        if not self._room(claims.owner, now):
            return None
        unseen = Task(status=WORKING, created=b'""', updated=b'""')
        handle = Handle(id or "", claims.native, server, Era.MODERN, caller, unseen)
        return self._keep(handle, claims.expires)

    def of_server(self, server: Server, native: str, line: Connection) -> Handle | None:
        """The task that a server calls so, over this connection."""
        for handle in reversed(self._by_id.values()):
            here = handle.era is Era.MODERN or handle.connection is line
            if handle.server is server and handle.native == native and here:
                return handle
        return None

    def of_connection(self, line: Connection) -> list[Handle]:
        """The tasks of a session that this is the connection of."""
        return [handle for handle in self._by_id.values() if handle.connection is line]

    def of_caller(self, caller: Caller, now: float) -> list[Handle]:
        """All tasks of a caller's principal in its profile, the newest first."""
        owner = owner_of(caller)
        return [h for h in reversed(self._by_id.values()) if h.owner == owner and now < h.expires]

    def forget(self, handle: Handle) -> None:
        """It is not known any more."""
        self._by_id.pop(handle.id, None)
        handle.close()

    def weigh(self, handle: Handle) -> None:
        """Something has come of a task: others make room, if there is too much."""
        held = sum(each.weight_bytes for each in self._by_id.values())
        if held <= RESULTS_BYTES_MAX:
            return
        others = [each for each in self._by_id.values() if each.weight_bytes and each is not handle]
        for other in sorted(others, key=lambda each: each.owner != handle.owner):
            if held > RESULTS_BYTES_MAX:
                held -= other.weight_bytes
                self.forget(other)

    def _keep(self, handle: Handle, expires: float) -> Handle:
        handle.expires = expires
        self._by_id[handle.id] = handle
        return handle

    def _room(self, owner: bytes, now: float) -> bool:
        """Whether one more fits, once those have gone that are over, if need be."""
        for handle in [h for h in self._by_id.values() if now >= h.expires]:
            self.forget(handle)
        own = [handle for handle in self._by_id.values() if handle.owner == owner]
        crowd = own if len(own) >= TASKS_OF_ONE_MAX else list(self._by_id.values())
        if len(own) < TASKS_OF_ONE_MAX and len(crowd) < TASKS_MAX:
            return True
        over = next((handle for handle in crowd if handle.task.over), None)
        if over is not None:
            self.forget(over)
        return over is not None


def owner_of(caller: Caller) -> bytes:
    """Whose a task is: a principal's, in one profile, whatever the session."""
    return digest_of((part.encode() for part in (*caller.principal, caller.profile)), _OWNER_BYTES)
