"""Tasks, independent of the era. There is no clock: a task takes a step whenever it is polled, so
that a test decides how fast it goes."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeAlias

from tests.peers.demo.brew import Brew
from tests.peers.demo.faults import INVALID_PARAMS, Fault, string_member
from tests.peers.demo.revisions import Json

POLL_MS: Final = 20
"""How often clients are asked to look, which is as often as they may."""
TASKS_MAX: Final = 1000  # Clients that never look again must not fill the memory.
CANCELLED: Final = -32800

Outcome: TypeAlias = Json | Fault
"""What the request would have been answered with."""


class Phase(Enum):
    """Where a task stands, in the words of both eras; what is done may be `failed` instead."""

    WORKING = "working"
    ASKING = "input_required"
    DONE = "completed"
    CANCELLED = "cancelled"


class Task:
    """One brew on its way."""

    def __init__(
        self,
        identity: str,
        brew: Brew,
        now: Callable[[], float],
        ttl_ms: int | None,
        unaskable: Outcome | None,
    ) -> None:
        self.identity = identity
        self.brew = brew
        self.ttl_ms = ttl_ms
        self.phase = Phase.WORKING
        self.message = brew.progress(0)
        self.outcome: Outcome | None = None
        self.ask_client: asyncio.Task[None] | None = None
        """Who puts the question to the client, where that takes a request of its own."""
        self.watchers: list[Callable[[Task], None]] = []
        """Called whenever it enters another phase."""
        self.on_step: Callable[[int], None] = lambda _filled: None
        self._now = now
        self._unaskable = unaskable
        self._created = self._updated = now()
        self._filled = 0
        self._told: Json | None = None
        self._stirred = asyncio.Event()

    @property
    def is_over(self) -> bool:
        return self.outcome is not None

    @property
    def has_expired(self) -> bool:
        return self.ttl_ms is not None and (self._now() - self._created) * 1000 >= self.ttl_ms

    @property
    def created_at(self) -> str:
        return _stamp(self._created)

    @property
    def updated_at(self) -> str:
        return _stamp(self._updated)

    def look(self) -> bool:
        """Lets it take its next step; says whether there was one to take."""
        if self.phase is not Phase.WORKING or self.brew.hold:
            return False
        if self._filled < self.brew.cups:
            self._fill()
        if self.brew.ask and self._told is None:
            self._ask()
        elif self._filled == self.brew.cups:
            self.end(self.brew.outcome(self._told))
        return True

    def answer(self, told: Json) -> None:
        """Takes the client's answer, if it waits for one."""
        if self.phase is Phase.ASKING:
            self._told = told
            self._enter(Phase.WORKING, self.brew.progress(self._filled))

    def end(self, outcome: Outcome) -> None:
        """The first end counts; what comes later changes nothing."""
        if not self.is_over:
            self.outcome = outcome
            self._enter(Phase.DONE, _summary(outcome))

    def cancel(self) -> None:
        if self.is_over:
            return
        self.outcome = Fault(CANCELLED, "The task was cancelled")
        self._enter(Phase.CANCELLED, self.outcome.message)
        if self.ask_client is not None:
            self.ask_client.cancel()

    async def change(self) -> None:
        """Returns when there may be something to do again for those who wait for the end."""
        await self._stirred.wait()

    def stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()

    def _fill(self) -> None:
        self._filled += 1
        self._updated = self._now()
        self.message = self.brew.progress(self._filled)
        self.on_step(self._filled)

    def _ask(self) -> None:
        if self._unaskable is None:
            self._enter(Phase.ASKING, "Waits to hear about sugar")
        else:
            self.end(self._unaskable)

    def _enter(self, phase: Phase, message: str) -> None:
        self.phase, self.message, self._updated = phase, message, self._now()
        self.stir()
        for watcher in list(self.watchers):
            watcher(self)


class Tasks:
    """The tasks that somebody can look at, by their ids. The oldest make room for more."""

    def __init__(self, new_id: Callable[[], str], now: Callable[[], float]) -> None:
        self._new_id = new_id
        self._now = now
        self._kept: dict[str, Task] = {}

    def start(self, brew: Brew, ttl_ms: int | None, unaskable: Outcome | None) -> Task:
        """Begins a task; `unaskable` ends it where the client cannot be asked what it must be."""
        if len(self.all()) >= TASKS_MAX:
            self._forget(next(iter(self._kept)))
        identity = self._new_id()
        self._kept[identity] = Task(identity, brew, self._now, ttl_ms, unaskable)
        return self._kept[identity]

    def all(self) -> list[Task]:
        """Those that have not outlived their time, oldest first."""
        for identity in [name for name, task in self._kept.items() if task.has_expired]:
            self._forget(identity)
        return list(self._kept.values())

    def find(self, identity: str) -> Task | None:
        task = self._kept.get(identity)
        return None if task is None or task.has_expired else task

    def named(self, params: Json) -> Task:
        """The task that a request is about.

        Raises:
            Fault: there is none.
        """
        task = self.find(string_member(params, "taskId"))
        if task is None:
            raise Fault(INVALID_PARAMS, "There is no such task, or no more")
        return task

    def _forget(self, identity: str) -> None:
        """Nobody can look at it any more, so nobody should go on waiting for it."""
        self._kept.pop(identity).cancel()


def _summary(outcome: Outcome) -> str:
    if isinstance(outcome, Fault):
        return outcome.message
    words: str = outcome["content"][0]["text"]
    return words


def _stamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
