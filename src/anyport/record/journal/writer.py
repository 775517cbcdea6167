"""Writes the lines of the journal: links them, retries failed writes, counts lost events.

A write happens at once, on the event loop. While the disk is slow, and wherever every write is
synced, writes happen in a worker thread instead; all lines that come during one write share the
next. Whether answers wait for a write, and what happens to calls when it fails, is up to
`DurabilityGate`, which `on_change` notifies.
"""

import errno
import shlex
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeVar

from anyport.record.journal.payloads import PayloadWriter
from anyport.record.journal.segments import ActiveFile
from anyport.record.tamper.chain import Chain, Link, parse_link

_T = TypeVar("_T")

PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Kept in memory while the file cannot be written: some ten thousand events."""

RETRY_SECONDS: Final = 1.0
"""How often a failed write is retried, and how often to check that the file is still there."""

SLOW_SECONDS: Final = 0.05
"""A slower write has delayed the whole event loop: further ones happen in the thread."""

QUICK_WRITES: Final = 64
"""This many faster writes in a row show that the disk has recovered."""

CLOSE_SECONDS_MAX: Final = 2.0
"""How long `close` waits for a write under way; a hanging disk must not hold up the end."""

_MONTH_SLICE: Final = slice(len('{"timestamp":"'), len('{"timestamp":"2026-07'))


class Gap(NamedTuple):
    """Events that were lost."""

    lost: int
    first_lost: str
    """When the first of them happened."""
    trace_id: str
    """Trace id of the first one."""
    reason: str | None


class WriteResult(NamedTuple):
    lines: int
    """Lines that are completely in the file."""
    unsynced: int
    """The last of these, if their sync failed."""
    error: OSError | None
    seconds: float


class JournalWriter:
    """Appends the records of one writer to the files below a directory."""

    def __init__(
        self,
        directory: Path,
        writer: str,
        *,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        gap_line: Callable[[Gap], bytes],
    ) -> None:
        self.worker: WorkerThread[WriteResult] | None = None
        """Does slow writes; without it, all writes happen on the loop."""
        self.payloads: PayloadWriter | None = None
        """Written in the same go, before the lines that refer to them."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when writing begins or ceases to fail or to be slow, and when a write in the
        thread ends."""
        self.last_error: str | None = None
        """Why lines cannot be written, as a sentence; None while they can."""
        self.errno: int | None = None
        """Number of that error, if it has one."""
        self.is_slow = False
        """Whether the disk is slow, so that writes happen in the thread."""
        self.lost_count = 0
        """Events that never reached the file."""
        self.accepted_count = 0
        """Lines queued so far."""
        self.written_count = 0
        """Lines of those that are in the file, and on the disk where that is required."""
        self.unsynced_count = 0
        """Further lines in the file, whose sync has failed."""
        self._now = now
        self._monotonic = monotonic
        self._gap_line = gap_line
        self._gap: Gap | None = None
        self._file = ActiveFile(directory / "events")
        self._chain = Chain(writer)
        self._pending: list[bytes] = []
        self._linked: list[bytes] = []
        """Lines that have their link already, but could not be written yet."""
        self._held_bytes = 0
        """Of both queues."""
        self._last_line = b""
        """The last record that is completely in the file."""
        self._checked_at = float("-inf")
        self._quick_write_count = 0
        """Quick writes in a row, since a slow one."""

    @property
    def syncs(self) -> bool:
        """Whether each write is synced to disk, rather than left to the system."""
        return self._file.syncs

    def set_sync(self, *, enabled: bool) -> None:
        """Sync each write from now on, or no longer."""
        self._file.syncs = enabled
        self._configure_payloads()

    @property
    def is_deferred(self) -> bool:
        """Whether writes happen in the thread, so that answers have to wait for them."""
        worker = self.worker
        return worker is not None and (self.is_slow or self._file.syncs or worker.is_busy)

    @property
    def head(self) -> Link | None:
        """The link of the last record in the file; None before the first."""
        return parse_link(self._last_line[:-1])

    @property
    def is_full(self) -> bool:
        """Whether there is no room in memory: further events are lost."""
        if self._held_bytes >= PENDING_BYTES_MAX:
            self.flush()
        return self._held_bytes >= PENDING_BYTES_MAX

    def put(self, lines: list[bytes]) -> None:
        """Queue lines, each with its end, for the next `flush`."""
        self._pending += lines
        self._held_bytes += sum(map(len, lines))
        self.accepted_count += len(lines)

    def count_lost(self, now: str, trace_id: str) -> None:
        """Count an event for which there is no room.

        The newest events are lost, not the oldest. So the file stays in order, and the gap is
        recorded where it is.
        """
        self.lost_count += 1
        lost, first, trace, _ = self._gap or Gap(0, now, trace_id, None)
        self._gap = Gap(lost + 1, first, trace, self.last_error)

    def flush(self) -> None:
        """Write the queue. A failure shows in `last_error`, and the next flush tries again."""
        if (
            (self._held_bytes or self.unsynced_count)
            and not self._is_worker_busy
            and self._is_due()
        ):
            self._write()

    def report_hang(self, seconds: float) -> None:
        """Report that a write in the thread has taken too long to rely on."""
        if self._is_worker_busy and self.last_error is None:
            reason = f"the disk has not answered for {seconds:g} s"
            self.last_error = f"The event journal cannot be written: {reason}"
            self.on_change()

    def abandon_file(self) -> None:
        """Begin a new file, because a sync failed elsewhere."""
        if not self._is_worker_busy:
            self._file.mark_suspect()

    def close(self) -> None:
        """Write what can be written, and close the file."""
        if self._wait_for_worker():
            # What is left is written here, on the loop: no other write can come in between.
            self.worker, self.is_slow = None, False
            if self.payloads is not None:
                self.payloads.prepare_write()
                self.payloads.write_prepared()
                self.payloads.finish_write()
            self._configure_payloads()
            if self._held_bytes:
                self._write()
            self._file.close()
        self.lost_count += len(self._linked) + len(self._pending)
        self._linked, self._pending, self._held_bytes = [], [], 0

    def _wait_for_worker(self) -> bool:
        """Wait until the worker is idle; its result may start another write."""
        while self.worker is not None and self.worker.is_busy:
            if not self.worker.wait(CLOSE_SECONDS_MAX):
                return False
        return True

    @property
    def _is_worker_busy(self) -> bool:
        return self.worker is not None and self.worker.is_busy

    def _is_due(self) -> bool:
        return self.last_error is None or self._is_time_to_check(self._now())

    def _is_time_to_check(self, now: float) -> bool:
        # The absolute difference: the clock may be set back.
        return abs(now - self._checked_at) >= RETRY_SECONDS

    def _write(self) -> None:
        """Write both queues, on the loop or in the thread."""
        # Linked once and for good: a retry writes the same record again, byte for byte.
        self._linked += self._chain.link(self._pending)
        self._pending.clear()
        now = self._now()
        check = self._is_time_to_check(now)
        if check:
            self._checked_at = now
        if self.is_deferred and self.worker is not None:
            if self.payloads is not None:
                self.payloads.prepare_write()
            # A copy: the loop may link further lines meanwhile.
            append = partial(self._append_deferred, self._linked[:], check)
            self.worker.submit(append, self._on_write_done)
        else:
            before = (self.last_error, self.is_slow)
            self._apply_result(self._append(self._linked, check))
            if before != (self.last_error, self.is_slow):
                self.on_change()

    def _append_deferred(self, lines: list[bytes], check: bool) -> WriteResult:
        """Write payloads and lines in the thread."""
        # Payloads first: no line may refer to a payload that was not written.
        if self.payloads is not None:
            self.payloads.write_prepared()
        return self._append(lines, check)

    def _append(self, lines: list[bytes], check: bool) -> WriteResult:
        """Write lines, perhaps in the thread; nothing else uses the file meanwhile."""
        started_at, count, unsynced, error, sync = self._monotonic(), 0, 0, None, self._file.syncs
        try:
            if check:
                self._file.check_rotation()
            if not lines:  # Only a failed sync made this write due: try whether the disk works.
                self._file.replace_suspect()
            while count < len(lines):
                month, month_lines = _split_month(lines[count:] if count else lines)
                unsynced = self._file.append(month, month_lines)
                count += unsynced
                if sync:
                    self._file.sync()
                unsynced = 0
        except OSError as caught:
            error = caught
            self._file.close()  # The retry opens it again, or the file after it.
        return WriteResult(count, unsynced, error, self._monotonic() - started_at)

    def _on_write_done(self, result: WriteResult) -> None:
        if self.payloads is not None:
            self.payloads.finish_write()
        self._apply_result(result)
        self.on_change()

    def _apply_result(self, result: WriteResult) -> None:
        count, unsynced, error, seconds = result
        if count:
            # Including lines whose sync failed: the system may have them all the same, and a record
            # that is in the file twice would look like an inserted one.
            self._last_line = self._linked[count - 1]
            del self._linked[:count]
            self.written_count += count - unsynced
            self.unsynced_count += unsynced
        self.errno = None if error is None else error.errno
        if error is None:
            self.last_error = None
            # The disk works again. Answers no longer wait for lines whose sync failed: writing them
            # a second time would look like tampering.
            self.written_count += self.unsynced_count
            self.unsynced_count = 0
            self._record_gap()
        else:
            reason = error.strerror or type(error).__name__
            self.last_error = f"The event journal cannot be written: {reason}"
        self._update_slow(seconds)
        self._held_bytes = sum(map(len, self._linked)) + sum(map(len, self._pending))
        if error is None and self._held_bytes:  # All lines that came meanwhile share one write.
            self.flush()

    def _update_slow(self, seconds: float) -> None:
        """Update `is_slow` after a write that took this long."""
        if seconds >= SLOW_SECONDS:
            self.is_slow, self._quick_write_count = self.worker is not None, 0
        elif self.is_slow:
            self._quick_write_count += 1
            self.is_slow = self._quick_write_count < QUICK_WRITES
        self._configure_payloads()

    def _configure_payloads(self) -> None:
        """Payloads are written the way that the journal is."""
        if self.payloads is not None:
            self.payloads.syncs = self._file.syncs
            self.payloads.is_deferred = self.is_deferred

    def _record_gap(self) -> None:
        """After all lines that had room: the events after them were lost."""
        gap, self._gap = self._gap, None
        if gap is not None:
            self.put([self._gap_line(gap)])


def _split_month(lines: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The first month among some lines, and the lines of it; each line begins with its
    timestamp."""
    month = lines[0][_MONTH_SLICE]
    if lines[-1][_MONTH_SLICE] == month:
        return month, lines
    return month, list(takewhile(lambda line: line[_MONTH_SLICE] == month, lines))


class WorkerThread(Generic[_T]):
    """A daemon thread for disk writes that may hang, one job at a time.

    When the disk hangs, the thread may never return; nothing waits for it, not even the end of the
    process.
    """

    def __init__(self, call_in_loop: Callable[[Callable[[], None]], object]) -> None:
        """`call_in_loop` schedules a callback on the event loop, from any thread."""
        self._call_in_loop = call_in_loop
        self._jobs: SimpleQueue[Callable[[], _T]] = SimpleQueue()
        self._results: SimpleQueue[_T] = SimpleQueue()
        self._finished = threading.Semaphore(0)
        self._callback: Callable[[_T], None] | None = None
        self._is_started = False

    @property
    def is_busy(self) -> bool:
        """Whether a job was submitted whose result is not delivered yet."""
        return self._callback is not None

    def submit(self, work: Callable[[], _T], callback: Callable[[_T], None]) -> None:
        """Run `work`, which must not raise, and call `callback` with its result."""
        if self._callback is not None:
            raise RuntimeError("one piece of work after the other")
        self._callback = callback
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name="record", daemon=True).start()
        self._jobs.put(work)

    def wait(self, seconds: float) -> bool:
        """Wait for the current job, if any, and deliver its result; False on timeout."""
        if self._callback is None:
            return True
        if not self._finished.acquire(timeout=seconds):
            return False
        self._deliver_result()
        return True

    def _run(self) -> None:
        while True:
            self._results.put(self._jobs.get()())
            self._finished.release()
            with suppress(RuntimeError):  # The loop has ended; `wait` may still be called.
                self._call_in_loop(self._on_job_done)

    def _on_job_done(self) -> None:
        if self._finished.acquire(blocking=False):  # Otherwise `wait` has delivered the result.
            self._deliver_result()

    def _deliver_result(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(self._results.get())


_ADVICE: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.ENOSPC: "free space on its disk: 'df -h {place}' shows how much there is",
        errno.EDQUOT: "raise your quota or remove files: 'quota -s' shows how much there is",
        errno.EFBIG: "raise the limit on file sizes: 'ulimit -f' shows it",
        errno.EACCES: "make the user of the gateway its owner: 'sudo chown -R \"$USER\" {place}'",
        errno.EPERM: "make the user of the gateway its owner: 'sudo chown -R \"$USER\" {place}'",
        errno.EROFS: "its disk is read-only: 'findmnt -T {place}' shows why",
        errno.ENOTDIR: "a file is in its way: 'ls -ld {place}' shows it",
        errno.EEXIST: "a file is in its way: 'ls -ld {place}' shows it",
        errno.EMFILE: "raise the limit on open files: 'ulimit -n' shows it",
        errno.ENFILE: "the system has too many files open: 'cat /proc/sys/fs/file-nr' shows them",
        errno.EIO: "its disk is failing: 'sudo dmesg' shows more",
    }
)


def advise_on_error(number: int | None, state_dir: Path) -> str:
    """What to do about an error number, as a part of a sentence."""
    advice = _ADVICE.get(number or 0, "'ls -ld {place}' and 'df -h {place}' may show why")
    command = advice.format(place=shlex.quote(str(state_dir)))
    return f"{command}, or choose another directory with --state-dir"
