"""What the record needs now and then: its head signed, and what is too old or too much removed.

All of it in a thread, so that no call waits for it; and imported there, so that no client waits
for that at the start. When it is due is decided here; how it is done is the record's business.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from anyport.config.schema import RecordConfig
from anyport.gateway.noting import Note
from anyport.record.away import Away
from anyport.record.chain import Link
from anyport.record.journal import Journal
from anyport.record.timekeeping import Timekeeping, running

if TYPE_CHECKING:
    from anyport.record.retention import Pruned

LOOK_SECONDS: Final = 10.0
"""Between two looks at what is due; more heads than that nobody needs."""

HEAD_SECONDS: Final = 60.0
"""A head is signed so long after the one before it, if there are records that it can vouch for."""

HEAD_RECORDS: Final = 64
"""With so many new records it is signed at the next look."""


WAIT_SECONDS_MAX: Final = 5.0
"""For what was begun; on a disk that hangs it never ends, and nothing may wait for that."""

DISTRUST_SECONDS: Final = 60.0
"""Between two files of the journal that are given up because the disk failed on them."""

DISTRUSTED: Final = (
    "The disk failed to keep what it had taken (Input/output error): a file of the journal may "
    "lack its last records, and a new one was begun"
)


class Done(NamedTuple):
    """What has come of a look."""

    jump: float | None
    """By which the clock has jumped."""
    pruned: "Pruned | None"
    suspect: bool
    """Whether the disk did not keep what it had taken."""


class Upkeep:
    """Looks after the record of one gateway."""

    def __init__(
        self,
        state_dir: Path,
        config: RecordConfig,
        journal: Journal,
        note: Note,
        clock: Callable[[], float],
        runs: Callable[[], float] = running,
    ) -> None:
        self._state_dir = state_dir
        self._config = config
        self._journal = journal
        self._note = note
        self._clock = clock
        self._signed = 0
        """The number of the last record that a head vouches for."""
        self._signed_at = float("-inf")
        """Who has just started signs at the first look: so there is always a head to begin with."""
        self._time = Timekeeping(state_dir, clock, runs)
        self._distrusted_at = float("-inf")
        self._runs = runs
        self._loop: asyncio.AbstractEventLoop | None = None
        self._away: Away[Done] = Away(self._back)
        self._looked = False

    def take(self, config: RecordConfig) -> None:
        """The configuration has changed."""
        self._config = config

    async def look(self) -> None:
        """Do what is due; what takes long goes on without anybody waiting for it."""
        if self._away.busy:
            return
        self._looked = True
        await self._have_done(self._due_head(), prune=True)

    async def end(self) -> None:
        """Sign the last head, when the journal is closed.

        Who did not live long enough for a look removes what is too old now: there may be many
        such, and nobody else.
        """
        if self._away.wait(WAIT_SECONDS_MAX):
            head = self._journal.head
            new = head if head and head.seq > self._signed else None
            await self._have_done(new, prune=not self._looked)

    async def _have_done(self, head: Link | None, *, prune: bool) -> None:
        over, self._loop = asyncio.Event(), asyncio.get_running_loop()

        def tell(done: Done) -> None:
            self._tell(done)
            over.set()

        self._away.begin(partial(self._work, head, prune=prune), tell)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await over.wait()
        except TimeoutError:
            pass  # It removes a lot, or its disk hangs.

    def _back(self, act: Callable[[], None]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(act)

    def _tell(self, done: Done) -> None:
        if done.jump is not None:
            self._note("gateway.clock_jumped", seconds=round(done.jump, 3))
        if done.suspect and self._runs() - self._distrusted_at >= DISTRUST_SECONDS:
            self._distrusted_at = self._runs()
            self._journal.outflow.distrust()
            self._journal.complain("disk", DISTRUSTED)
        pruned = done.pruned
        if pruned is not None and pruned.segments:
            self._note(
                "gateway.journal_pruned",
                segments=pruned.segments,
                bytes=pruned.bytes,
                until=pruned.until,
            )

    def _due_head(self) -> Link | None:
        head = self._journal.head
        new = 0 if head is None else head.seq - self._signed
        waited = abs(self._clock() - self._signed_at)
        return head if new >= HEAD_RECORDS or (new and waited >= HEAD_SECONDS) else None

    def _work(self, head: Link | None, *, prune: bool) -> Done:
        jump = self._time.look() if (self._state_dir / "events").is_dir() else None
        # Late: a client waits for the start of the gateway.
        from anyport.record.heads import Heads  # noqa: PLC0415
        from anyport.record.retention import Keeping, Retention  # noqa: PLC0415

        config = self._config
        heads = Heads(
            self._state_dir,
            anchor=None if config.anchor is None else Path(config.anchor),
            clock=self._clock,
            random_bytes=os.urandom,
        )
        retention = Retention(
            self._state_dir,
            journal=Keeping(days=config.keep_days, bytes=config.keep_bytes),
            payloads=Keeping(days=config.payload_days, bytes=config.payload_bytes),
            heads=heads,
            clock=self._clock,
        )
        errors: list[str] = []
        pruned, suspect = None, False
        try:
            if head is not None:
                heads.sign(head)
                self._signed, self._signed_at = head.seq, self._clock()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and tried again
            suspect = isinstance(error, OSError) and error.errno == errno.EIO
            errors.append(f"The journal cannot be signed: {_reason(error)}")
        try:
            pruned = retention.enforce(by_age=not self._time.doubted) if prune else None
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(f"What is too old cannot be removed: {_reason(error)}")
        self._journal.complain("upkeep", errors[0] if errors else None)
        return Done(jump=jump, pruned=pruned, suspect=suspect)


def _reason(error: Exception) -> str:
    """Why something failed, without the path of a file."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
