"""One hook in operation: what waits for it, the task that works it off, and the counts.

Events are acted on one at a time, in the order in which they happened. The queue is bounded, and
what does not fit is counted and dropped: a hook never makes anybody wait. What a hook does, and
which events it is for, is not known here.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from anyport.gateway.hooks_action import Action, Again, Done, GivenUp, Occasion, pause_seconds
from anyport.gateway.hooks_spool import Slot, Spool

QUEUE_EVENTS_MAX: Final = 10_000
"""That wait for one hook: hours of failures, or a minute of everything."""
QUEUE_BYTES_MAX: Final = 8 * 1024 * 1024
"""The same in bytes: it is in memory, and in the spool."""

ATTEMPTS_MAX: Final = 10
"""Answers that refuse one event for now; then the ones behind it have their turn."""

DROPS_NOTED_SECONDS: Final = 60.0
"""Between two notes that a hook has dropped events: each tells of all since the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a queue needs from outside."""

    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    """Runs a task that someone waits for."""
    chance: Callable[[], float]
    """From 0 to 1."""
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]
    span_id: Callable[[], str]
    """Draws the id of a span of ours."""
    note_failed: Callable[["Queue", Occasion, str], None]
    note_dropped: Callable[["Queue", int], None]


class Waiting(msgspec.Struct):
    """An event in the queue."""

    line: bytes
    slot: Slot | None = None
    """Where it lies on the disk."""
    attempts: int = 0
    """All of them, and those that were answered."""
    answers: int = 0


class Queue:
    """What one hook has to do."""

    def __init__(self, name: str, action: Action, world: World, spool: Spool | None = None) -> None:
        self.name = name
        self.action = action
        self.delivered = 0
        self.failed = 0
        """Given up after all."""
        self.dropped = 0
        """Never tried: there was no room."""
        self.last_error: str | None = None
        self.missing: tuple[str, ...] = ()
        """What its texts refer to and the last event did not have."""
        self._world = world
        self._spool = spool
        self._waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._working = False
        self._pausing = False
        self._unnoted_drops = 0
        self._noted_at = float("-inf")
        self._closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether something is being done now, or about to be."""
        return self._working and not self._pausing

    def take(self, lines: list[bytes]) -> None:
        """Accept events, as far as there is room."""
        fitting: list[bytes] = []
        for line in lines:
            full = len(self._waiting) + len(fitting) >= QUEUE_EVENTS_MAX
            if full or self._bytes + len(line) > QUEUE_BYTES_MAX:
                self._drop()
            else:
                self._bytes += len(line)
                fitting.append(line)
        if not fitting:
            return
        slots = [None] * len(fitting) if self._spool is None else self._spool.keep(fitting)
        self._waiting += map(Waiting, fitting, slots)
        self._wake()

    def recall(self, now: float) -> None:
        """Go on with what earlier processes have left."""
        if self._spool is None:
            return
        for slot, line in self._spool.adopt(now, QUEUE_BYTES_MAX - self._bytes):
            self._bytes += len(line)
            self._waiting.append(Waiting(line, slot))
        self._wake()

    def halt(self) -> None:
        """Do nothing more: what is in the spool is for the next process."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Let go of everything."""
        self.halt()
        if self._spool is None:
            for _ in self._waiting:
                self._drop()
        else:
            self._spool.close()
        self._waiting.clear()
        if self._unnoted_drops:
            self._note_drops()
        self.action.close()

    def report(self) -> dict[str, Any]:
        """How it is doing."""
        spooled = None if self._spool is None else self._spool.last_error
        report = idle_report(self.action.kind, self.last_error or spooled) | {
            "delivered": self.delivered,
            "failed": self.failed,
            "dropped": self.dropped,
            "waiting": len(self._waiting),
        }
        if self.missing:
            report["missing"] = list(self.missing)
        return report

    def _wake(self) -> None:
        if self._waiting and not self._working and not self._closing:
            self._working = True
            self._world.spawn(self._work(), f"hook {self.name}")

    async def _work(self) -> None:
        self._task = asyncio.current_task()
        try:
            while self._waiting and not self._closing:
                await self._attempt(self._waiting[0])
        finally:
            self._working = self._pausing = False
            self._task = None

    async def _attempt(self, waiting: Waiting) -> None:
        occasion = Occasion(waiting.line, key_of(self.name, waiting.line), self._world.span_id())
        waiting.attempts += 1
        match await self.action.act(occasion):
            case Done(missing=missing):
                self.delivered += 1
                self.missing = missing
                self._finish(waiting)
            case Again(words=words, after_seconds=after, counts=counts):
                waiting.answers += counts
                self.last_error = words
                if waiting.answers >= ATTEMPTS_MAX:
                    self._give_up(waiting, occasion, f"{words}, {ATTEMPTS_MAX} times")
                else:
                    pause = pause_seconds(waiting.attempts, self._world.chance())
                    await self._pause(max(pause, after or 0.0))
            case GivenUp(words=words):
                self._give_up(waiting, occasion, words)

    async def _pause(self, seconds: float) -> None:
        self._pausing = True
        await self._world.sleep(seconds)
        self._pausing = False

    def _give_up(self, waiting: Waiting, occasion: Occasion, words: str) -> None:
        self.failed += 1
        self.last_error = words
        self._finish(waiting)
        self._world.note_failed(self, occasion, words)

    def _finish(self, waiting: Waiting) -> None:
        self._waiting.popleft()
        self._bytes -= len(waiting.line)
        if self._spool is not None and waiting.slot is not None:
            self._spool.done(waiting.slot)

    def _drop(self) -> None:
        self.dropped += 1
        self._unnoted_drops += 1
        now = self._world.clock()
        if abs(now - self._noted_at) >= DROPS_NOTED_SECONDS:
            self._noted_at = now
            self._note_drops()

    def _note_drops(self) -> None:
        count, self._unnoted_drops = self._unnoted_drops, 0
        self._world.note_dropped(self, count)


def idle_report(action: str, last_error: str | None) -> dict[str, Any]:
    """How a hook is doing that has not done anything."""
    counts = dict.fromkeys(("delivered", "failed", "dropped", "waiting"), 0)
    return {"action": action, **counts, "last_error": last_error}


def key_of(name: str, line: bytes) -> str:
    """What tells one event of one hook from all others, in every process."""
    return hashlib.blake2b(line, digest_size=16, key=name.encode()).hexdigest()
