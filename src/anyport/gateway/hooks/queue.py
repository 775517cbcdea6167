"""The queue of one hook: waiting events, the task that works through them, and the counters.

Events are handled one at a time, in the order in which they happened. A hook that posts to a URL
keeps its events in a spool on disk, and only the next ones in memory. Queue and spool are bounded:
what does not fit is counted and dropped, because a hook never slows a client down.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
from collections import deque
from pathlib import Path
from typing import Any, Final

import msgspec

from anyport.clock import Clock
from anyport.gateway.hooks.actions import (
    ActionDone,
    ActionFailed,
    ActionRetry,
    HookAction,
    HookEvent,
    retry_delay_seconds,
)
from anyport.observe.call_events import EventSink
from anyport.record.journal.journal import Journal
from anyport.record.journal.segments import make_private_directory
from anyport.record.rate_limit import RateLimiter

# The spool: accepted events on disk, so that neither a restart nor a kill loses one.
#
# Segments hold events as the journal writes them, one a line. The first line of a segment is the
# offset up to which its events are done. A segment belongs to the process that holds its lock; an
# unlocked one was left behind by a process that ended, and the next process adopts it. When the
# disk cannot be written, the hook goes on in memory.

SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Size at which a new segment begins; a segment is deleted when all its events are done."""

SPOOL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Spool size of one hook: some hundred thousand events, a busy night."""

READ_BYTES: Final = 256 * 1024
"""Spooled events read into memory at a time, so that a recovered receiver never waits for disk."""

SPOOLED_SECONDS_MAX: Final = 7 * 24 * 3600.0
"""Events older than a week are deleted: their hook or its receiver is gone."""

SUFFIX: Final = ".jsonl"

_HEADER_BYTES: Final = 21
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC


class SpoolSegment:
    """One spool file, locked by this process."""

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.fd = fd
        self.size = size
        self.read_offset = _HEADER_BYTES
        """Offset of the next event to hand out."""
        self.pending_count = 0
        """Events that are not done."""

    def mark_done(self, end: int) -> None:
        """Record that all events before this offset are done."""
        self.pending_count -= 1
        os.pwrite(self.fd, _header(end), 0)

    def delete(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        os.close(self.fd)


class SpoolPosition:
    """The segment of a spooled event, and the offset at which the event ends."""

    __slots__ = ("end", "segment")

    def __init__(self, segment: SpoolSegment, end: int) -> None:
        self.segment = segment
        self.end = end


class Spool:
    """The segments of one hook; events are finished in the order in which they were appended."""

    def __init__(self, directory: Path, name: str) -> None:
        self.last_error: str | None = None
        """Why the spool cannot be written or read."""
        self._directory = directory
        self._name = name
        """Prefix of this process's files: two processes never share one. Names sort by age."""
        self._count = 0
        self._segments: deque[SpoolSegment] = deque()
        self._current: SpoolSegment | None = None

    @property
    def free_bytes(self) -> int:
        return SPOOL_BYTES_MAX - sum(segment.size for segment in self._segments)

    def append(self, lines: list[bytes]) -> bool:
        """Append events with one write; False if the disk refuses it."""
        try:
            segment = self._writable_segment()
            block = b"".join(line + b"\n" for line in lines)
            written = os.pwrite(segment.fd, block, segment.size)
            if written != len(block):
                os.ftruncate(segment.fd, segment.size)
                raise OSError(0, "the disk is full")
        except OSError as error:
            self.last_error = f"the spool cannot be written: {error.strerror or error}"
            return False
        self.last_error = None
        segment.size += len(block)
        segment.pending_count += len(lines)
        return True

    def read_next(self) -> list[tuple[SpoolPosition, bytes]]:
        """The next events that were not handed out yet."""
        for segment in self._segments:
            if segment.read_offset < segment.size:
                try:
                    return _read_next(segment)
                except OSError as error:
                    self.last_error = f"the spool cannot be read: {error.strerror or error}"
                    return []
        return []

    def skip_unread(self) -> None:
        """Leave the rest to the next process."""
        for segment in self._segments:
            segment.read_offset = segment.size

    def mark_done(self, position: SpoolPosition) -> None:
        """Record that an event was delivered or given up."""
        segment = position.segment
        with contextlib.suppress(OSError):
            segment.mark_done(position.end)
            if segment.pending_count:
                return
            if segment is not self._current:
                self._segments.remove(segment)
                segment.delete()
            else:
                os.ftruncate(segment.fd, 0)
                os.pwrite(segment.fd, _header(_HEADER_BYTES), 0)
                segment.size = segment.read_offset = _HEADER_BYTES

    def adopt_orphans(self, now: float) -> int:
        """Adopt segments of processes that have ended, within the size limit.

        Returns the number of events in them.
        """
        count = 0
        for path in self._orphan_paths():
            segment = None
            with contextlib.suppress(OSError):
                segment = _try_lock(path)
            if segment is None:
                continue
            if os.fstat(segment.fd).st_mtime < now - SPOOLED_SECONDS_MAX:
                segment.delete()
                continue
            if segment.size > self.free_bytes:
                os.close(segment.fd)  # Left for another process, or for our next start.
                break
            _find_undone(segment)
            if segment.pending_count:
                self._segments.append(segment)
                count += segment.pending_count
            else:
                segment.delete()
        return count

    def close(self) -> None:
        """Unlock every segment; unfinished ones stay for the next process."""
        for segment in self._segments:
            if segment.pending_count:
                os.close(segment.fd)
            else:
                segment.delete()
        self._segments.clear()
        self._current = None

    def _writable_segment(self) -> SpoolSegment:
        current = self._current
        if current is not None and current.size < SEGMENT_BYTES_MAX:
            return current
        make_private_directory(self._directory)
        self._count += 1
        path = self._directory / f"{self._name}-{self._count:04d}{SUFFIX}"
        # Lock the file before it gets a name that other processes look for.
        locked_path = path.with_suffix(".new")
        fd = os.open(locked_path, _FLAGS | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(fd, _header(_HEADER_BYTES), 0)
            os.rename(locked_path, path)
        except OSError:
            os.close(fd)
            raise
        if current is not None and not current.pending_count:
            self._segments.remove(current)
            current.delete()
        self._current = SpoolSegment(path, fd, _HEADER_BYTES)
        self._segments.append(self._current)
        return self._current

    def _orphan_paths(self) -> list[Path]:
        ours = {segment.path for segment in self._segments}
        return sorted(path for path in self._directory.glob(f"*{SUFFIX}") if path not in ours)


def clear_old(root: Path, now: float) -> None:
    """Delete spools that removed hooks have left behind."""
    for path in [*root.glob(f"*/*{SUFFIX}"), *root.glob("*/*.new")]:
        with contextlib.suppress(OSError):
            segment = _try_lock(path) if _modified(path) < now - SPOOLED_SECONDS_MAX else None
            if segment is not None:
                segment.delete()
    for folder in root.glob("*/"):
        with contextlib.suppress(OSError):
            folder.rmdir()  # Fails unless the folder is empty.


def _try_lock(path: Path) -> SpoolSegment | None:
    """The segment, unless another process holds it."""
    fd = os.open(path, _FLAGS | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file_status = os.fstat(fd)
        if file_status.st_nlink:  # Without a name, its owner has just deleted it.
            return SpoolSegment(path, fd, file_status.st_size)
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _find_undone(segment: SpoolSegment) -> None:
    """Find the first unfinished event and count the rest; a torn last line does not count."""
    raw = os.pread(segment.fd, segment.size, 0)
    first = raw[: _HEADER_BYTES - 1]
    segment.read_offset = max(int(first), _HEADER_BYTES) if first.isdigit() else _HEADER_BYTES
    segment.pending_count = raw.count(b"\n", segment.read_offset)
    segment.size = max(raw.rfind(b"\n") + 1, segment.read_offset)


def _read_next(segment: SpoolSegment) -> list[tuple[SpoolPosition, bytes]]:
    """Read the next events of a segment.

    Raises:
        OSError: the segment cannot be read.
    """
    raw = os.pread(
        segment.fd, min(READ_BYTES, segment.size - segment.read_offset), segment.read_offset
    )
    if b"\n" not in raw:  # A single event longer than READ_BYTES.
        raw = os.pread(segment.fd, segment.size - segment.read_offset, segment.read_offset)
    if b"\n" not in raw:
        raise OSError(0, "it was cut short")
    events: list[tuple[SpoolPosition, bytes]] = []
    for line in raw[: raw.rfind(b"\n")].split(b"\n"):
        segment.read_offset += len(line) + 1
        events.append((SpoolPosition(segment, segment.read_offset), line))
    return events


def _header(end: int) -> bytes:
    return b"%020d\n" % end


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


QUEUE_EVENTS_MAX: Final = 10_000
"""Events in memory for one hook: hours of failures, or a minute of all traffic."""
QUEUE_BYTES_MAX: Final = 8 * 1024 * 1024
"""The same limit in bytes. Spooled events count against SPOOL_BYTES_MAX instead."""

ATTEMPTS_MAX: Final = 10
"""Temporary refusals after which an event is given up, so that the ones behind it get a turn."""

DROPS_NOTED_SECONDS: Final = 60.0
"""Least time between two events about drops of a hook; each reports all since the last one."""

FAILURES_PER_SECOND_MAX: Final = 10
"""Failures of one hook that are recorded in the journal; all of them are counted."""


class HookRecorder:
    """Records failures and drops of hooks in the journal."""

    def __init__(self, journal: Journal, clock: Clock, note: EventSink) -> None:
        self._journal = journal
        self._clock = clock
        self._note = note
        self._failure_limit = RateLimiter(FAILURES_PER_SECOND_MAX)

    def record_failure(self, queue: "HookQueue", hook_event: HookEvent, reason: str) -> None:
        """Record that an event was given up, in the trace of that event."""
        if not self._failure_limit.acquire(queue.name, 1, self._clock.now()):
            return
        event = hook_event.event()
        self._journal.record(
            "gateway.hook_failed",
            "failure",
            trace_id=str(event["trace_id"]),
            metadata={
                "hook": queue.name,
                "action": queue.action.kind,
                "key": hook_event.key,
                "about": str(event["event_type"]),
            },
            error_message=reason,
        )

    def record_drops(self, queue: "HookQueue", count: int) -> None:
        self._note(
            "gateway.hook_dropped",
            "failure",
            error_message=f"the hook is too slow for its events: {queue.limit} wait for it already",
            hook=queue.name,
            action=queue.action.kind,
            dropped=count,
        )


class QueuedEvent(msgspec.Struct):
    """An event that waits in memory."""

    line: bytes
    position: SpoolPosition | None = None
    """Its place in the spool, if it is there."""
    attempts: int = 0
    answers: int = 0
    """Attempts that the receiver answered."""


class HookQueue:
    """The events of one hook, and the task that handles them."""

    def __init__(
        self,
        name: str,
        action: HookAction,
        clock: Clock,
        recorder: HookRecorder,
        spool: Spool | None = None,
    ) -> None:
        self.name = name
        self.action = action
        self.delivered = 0
        self.failed = 0
        """Events given up."""
        self.dropped = 0
        """Events never tried, for lack of room."""
        self.last_error: str | None = None
        self.missing: tuple[str, ...] = ()
        """Fields that the hook's templates name and the last event lacked."""
        self._clock = clock
        self._recorder = recorder
        self._spool = spool
        self._waiting: deque[QueuedEvent] = deque()
        self._waiting_bytes = 0
        self._spooled_count = 0
        """Events that are only on disk, behind those in memory."""
        self._task: asyncio.Task[None] | None = None
        self._is_working = False
        self._is_pausing = False
        self._unrecorded_drops = 0
        self._drops_recorded_at = float("-inf")
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._waiting) + self._spooled_count

    @property
    def limit(self) -> str:
        """The size limit, in words."""
        if self._spool is None:
            return f"{QUEUE_EVENTS_MAX:,} events or {QUEUE_BYTES_MAX >> 20} MiB"
        return f"{SPOOL_BYTES_MAX >> 20} MiB"

    @property
    def is_busy(self) -> bool:
        """Whether an action is running; a pause before a retry does not count."""
        return self._is_working and not self._is_pausing

    def add(self, lines: list[bytes]) -> None:
        """Queue events, as far as there is room."""
        if self._spool is None or not self._add_to_spool(self._spool, lines):
            # Without a usable disk the hook goes on in memory.
            self._add_to_memory(lines)
        self._start_work()

    def _add_to_spool(self, spool: Spool, lines: list[bytes]) -> bool:
        free_bytes = spool.free_bytes
        fitting: list[bytes] = []
        for line in lines:
            if len(line) < free_bytes:
                free_bytes -= len(line) + 1
                fitting.append(line)
        if fitting and not spool.append(fitting):
            return False
        self._spooled_count += len(fitting)
        for _ in range(len(lines) - len(fitting)):
            self._drop()
        return True

    def _add_to_memory(self, lines: list[bytes]) -> None:
        for line in lines:
            full = len(self._waiting) >= QUEUE_EVENTS_MAX
            if full or self._waiting_bytes + len(line) > QUEUE_BYTES_MAX:
                self._drop()
            else:
                self._waiting_bytes += len(line)
                self._waiting.append(QueuedEvent(line))

    def _fetch_spooled(self) -> None:
        """Read the next events from the spool once memory is empty."""
        if self._waiting or not self._spooled_count or self._spool is None:
            return
        for position, line in self._spool.read_next():
            self._spooled_count -= 1
            self._waiting_bytes += len(line)
            self._waiting.append(QueuedEvent(line, position))
        if not self._waiting:  # The spool cannot be read; the next process may have more luck.
            self._spool.skip_unread()
            unread, self._spooled_count = self._spooled_count, 0
            for _ in range(unread):
                self._drop()

    def adopt_spooled(self, now: float) -> None:
        """Take over events that earlier processes have left in the spool."""
        if self._spool is not None:
            self._spooled_count += self._spool.adopt_orphans(now)
            self._start_work()

    def stop(self) -> None:
        """Stop acting; spooled events are left to the next process."""
        self._is_closing = True
        if self._task is not None:
            self._task.cancel()

    def close(self) -> None:
        """Stop, and release the spool and the action."""
        self.stop()
        for queued in self._waiting:
            if queued.position is None:
                self._drop()
        if self._spool is not None:
            self._spool.close()
        self._waiting.clear()
        self._spooled_count = 0
        if self._unrecorded_drops:
            self._record_drops()
        self.action.close()

    def report(self) -> dict[str, Any]:
        """The state of the hook, for `gateway_status`."""
        spooled = None if self._spool is None else self._spool.last_error
        report = idle_report(self.action.kind, self.last_error or spooled) | {
            "delivered": self.delivered,
            "failed": self.failed,
            "dropped": self.dropped,
            "waiting": len(self),
        }
        if self.missing:
            report["missing"] = list(self.missing)
        return report

    def _start_work(self) -> None:
        self._fetch_spooled()
        if self._waiting and not self._is_working and not self._is_closing:
            self._is_working = True
            self._clock.spawn(self._work(), f"hook {self.name}")

    async def _work(self) -> None:
        self._task = asyncio.current_task()
        try:
            while self._waiting and not self._is_closing:
                await self._attempt(self._waiting[0])
                self._fetch_spooled()
        finally:
            self._is_working = self._is_pausing = False
            self._task = None

    async def _attempt(self, queued: QueuedEvent) -> None:
        span_id = self._clock.random_bytes(8).hex()
        hook_event = HookEvent(queued.line, event_key(self.name, queued.line), span_id)
        queued.attempts += 1
        match await self.action.act(hook_event):
            case ActionDone(missing=missing):
                self.delivered += 1
                self.missing = missing
                self._finish(queued)
            case ActionRetry(reason=reason, after_seconds=after, is_answer=is_answer):
                queued.answers += is_answer
                self.last_error = reason
                if queued.answers >= ATTEMPTS_MAX:
                    self._give_up(queued, hook_event, f"{reason}, {ATTEMPTS_MAX} times")
                else:
                    delay = retry_delay_seconds(queued.attempts, self._clock.random())
                    await self._pause(max(delay, after or 0.0))
            case ActionFailed(reason=reason):
                self._give_up(queued, hook_event, reason)

    async def _pause(self, seconds: float) -> None:
        self._is_pausing = True
        is_over = asyncio.Event()
        self._clock.later(seconds, is_over.set)
        await is_over.wait()
        self._is_pausing = False

    def _give_up(self, queued: QueuedEvent, hook_event: HookEvent, reason: str) -> None:
        self.failed += 1
        self.last_error = reason
        self._finish(queued)
        self._recorder.record_failure(self, hook_event, reason)

    def _finish(self, queued: QueuedEvent) -> None:
        self._waiting.popleft()
        self._waiting_bytes -= len(queued.line)
        if self._spool is not None and queued.position is not None:
            self._spool.mark_done(queued.position)

    def _drop(self) -> None:
        self.dropped += 1
        self._unrecorded_drops += 1
        now = self._clock.monotonic()
        if now - self._drops_recorded_at >= DROPS_NOTED_SECONDS:
            self._drops_recorded_at = now
            self._record_drops()

    def _record_drops(self) -> None:
        count, self._unrecorded_drops = self._unrecorded_drops, 0
        self._recorder.record_drops(self, count)


def idle_report(action: str, last_error: str | None) -> dict[str, Any]:
    """The report on a hook that has not acted on anything."""
    counts = dict.fromkeys(("delivered", "failed", "dropped", "waiting"), 0)
    return {"action": action, **counts, "last_error": last_error}


def event_key(name: str, line: bytes) -> str:
    """The idempotency key of an event for one hook, the same in every process."""
    return hashlib.blake2b(line, digest_size=16, key=name.encode()).hexdigest()
