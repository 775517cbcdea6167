"""Maintenance of the record: signs checkpoints, applies retention, and checks the clock.

This module decides when; `anyport.record` does it, in a thread, so that no call waits.
"""

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from anyport.clock import Clock
from anyport.config.model import RecordConfig
from anyport.observe.call_events import EventSink
from anyport.record.journal.journal import DISTRUSTED_MESSAGE, Journal
from anyport.record.journal.writer import WorkerThread
from anyport.record.tamper.chain import Link
from anyport.record.wall_clock import ClockMonitor

if TYPE_CHECKING:
    from anyport.record.retention import PruneResult

MAINTENANCE_SECONDS: Final = 10.0
"""How often to check what is due; also the shortest time between two heads."""

CHECKPOINT_SECONDS: Final = 60.0
"""A head is signed this long after the previous one, if there are new records."""

CHECKPOINT_RECORDS: Final = 64
"""With this many new records a head is signed at the next check."""


WAIT_SECONDS_MAX: Final = 5.0
"""How long to wait for work under way; on a disk that hangs it never ends."""

DISTRUST_SECONDS: Final = 60.0
"""The shortest time between two files that are given up because a sync failed."""


class MaintenanceResult(NamedTuple):
    clock_jump: float | None
    """Seconds by which the wall clock has jumped."""
    pruned: "PruneResult | None"
    is_disk_suspect: bool
    """Whether signing failed with an I/O error: the disk may have lost records, too."""


class RecordMaintenance:
    """Maintains the record of one gateway."""

    def __init__(
        self,
        state_dir: Path,
        config: RecordConfig,
        journal: Journal,
        record_event: EventSink,
        clock: Clock,
    ) -> None:
        self._state_dir = state_dir
        self._config = config
        self._journal = journal
        self._record_event = record_event
        self._clock = clock
        self._signed_seq = 0
        """Number of the last record that a head covers."""
        self._signed_at = float("-inf")
        """The first head is signed at the first check."""
        self._clock_monitor = ClockMonitor(state_dir, clock)
        self._distrusted_at = float("-inf")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: WorkerThread[MaintenanceResult] = WorkerThread(self._call_in_loop)
        self._has_run = False

    def apply_config(self, config: RecordConfig) -> None:
        self._config = config

    async def run_due(self) -> None:
        """Do what is due, and wait for it up to a limit."""
        if self._worker.is_busy:
            return
        self._has_run = True
        await self._run_in_thread(self._due_checkpoint(), prune=True)

    async def finish(self) -> None:
        """Sign the last head, after the journal is closed.

        A process that ended before the first check applies retention now: there may be many such
        processes, and no other.
        """
        if self._worker.wait(WAIT_SECONDS_MAX):
            head = self._journal.head
            new = head if head and head.seq > self._signed_seq else None
            await self._run_in_thread(new, prune=not self._has_run)

    async def _run_in_thread(self, head: Link | None, *, prune: bool) -> None:
        finished, self._loop = asyncio.Event(), asyncio.get_running_loop()

        def on_done(result: MaintenanceResult) -> None:
            self._report_result(result)
            finished.set()

        self._worker.submit(partial(self._work, head, prune=prune), on_done)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await finished.wait()
        except TimeoutError:
            pass  # It has a lot to remove, or its disk hangs.

    def _call_in_loop(self, act: Callable[[], None]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(act)

    def _report_result(self, result: MaintenanceResult) -> None:
        if result.clock_jump is not None:
            self._record_event("gateway.clock_jumped", seconds=round(result.clock_jump, 3))
        if result.is_disk_suspect and self._is_distrust_due():
            self._journal.file_writer.abandon_file()
            self._journal.set_trouble("disk", DISTRUSTED_MESSAGE)
        pruned = result.pruned
        if pruned is not None and pruned.segments:
            self._record_event(
                "gateway.journal_pruned",
                segments=pruned.segments,
                bytes=pruned.bytes,
                until=pruned.until,
            )

    def _is_distrust_due(self) -> bool:
        """Whether to give up the active file, at most once in `DISTRUST_SECONDS`."""
        now = self._clock.boottime()
        is_due = now - self._distrusted_at >= DISTRUST_SECONDS
        if is_due:
            self._distrusted_at = now
        return is_due

    def _due_checkpoint(self) -> Link | None:
        head = self._journal.head
        new = 0 if head is None else head.seq - self._signed_seq
        waited = abs(self._clock.now() - self._signed_at)
        return head if new >= CHECKPOINT_RECORDS or (new and waited >= CHECKPOINT_SECONDS) else None

    def _work(self, head: Link | None, *, prune: bool) -> MaintenanceResult:
        jump = self._clock_monitor.check_jump() if (self._state_dir / "events").is_dir() else None
        # Imported late: a client waits for the gateway to start.
        from anyport.record.retention import Retention, RetentionLimits  # noqa: PLC0415
        from anyport.record.tamper.checkpoints import CheckpointWriter  # noqa: PLC0415

        config = self._config
        checkpoints = CheckpointWriter(
            self._state_dir,
            anchor=None if config.anchor is None else Path(config.anchor),
            clock=self._clock,
            syncs=config.sync != "off",
        )
        retention = Retention(
            self._state_dir,
            journal=RetentionLimits(days=config.keep_days, bytes=config.keep_bytes),
            payloads=RetentionLimits(days=config.payload_days, bytes=config.payload_bytes),
            checkpoints=checkpoints,
            clock=self._clock,
        )
        errors: list[str] = []
        pruned, suspect = None, False
        try:
            if head is not None:
                checkpoints.sign(head)
                self._signed_seq, self._signed_at = head.seq, self._clock.now()
        except Exception as error:  # noqa: BLE001 - any failure is reported, and tried again
            suspect = isinstance(error, OSError) and error.errno == errno.EIO
            errors.append(f"The journal cannot be signed: {_reason(error)}")
        try:
            pruned = (
                retention.enforce(by_age=not self._clock_monitor.is_doubtful) if prune else None
            )
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(f"Old files of the record cannot be removed: {_reason(error)}")
        self._journal.set_trouble("upkeep", errors[0] if errors else None)
        return MaintenanceResult(clock_jump=jump, pruned=pruned, is_disk_suspect=suspect)


def _reason(error: Exception) -> str:
    """Why something failed, without the path of a file."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
