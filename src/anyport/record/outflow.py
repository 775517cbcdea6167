"""What was noted, on its way to the file: linked, written, kept while that fails, counted if lost.

A write is done at once, where it is asked for. A disk that was slow is written to in a thread from
then on, if there is one, until it has been quick for a while: see `Away`. Who waits for a write,
and what becomes of them if it fails, is for others to say: they are told when something changes.
What a line says is not known here, save when it was noted.
"""

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from anyport.record.away import Away
from anyport.record.chain import Chain, Link, link_of
from anyport.record.segments import ActiveFile

PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""What is kept in memory while the file cannot be written: some ten thousand events."""

RETRY_SECONDS: Final = 1.0
"""How often a file that failed is tried again, and a good one is checked to be still there."""

SLOW_SECONDS: Final = 0.05
"""A write that took longer has held everybody up: the next ones are done in a thread."""

QUICK_WRITES: Final = 64
"""So many in a row that took less show that the disk has recovered."""

CLOSE_SECONDS_MAX: Final = 2.0
"""How long the end waits for a write that is under way; a disk that hangs holds nobody up."""

_MONTH: Final = slice(len('{"timestamp":"'), len('{"timestamp":"2026-07'))


class Gap(NamedTuple):
    """Events that were lost."""

    lost: int
    first_lost: str
    """When the first of them was to be noted."""
    trace_id: str
    """Its trace."""
    reason: str | None


class Written(NamedTuple):
    """What has come of a write."""

    lines: int
    """That are in the file as a whole."""
    error: OSError | None
    seconds: float


class Beside(Protocol):
    """What is written to other files in the same go, before the lines that tell of it."""

    deferred: bool
    """Whether it waits for that; else it is written where it is asked for."""
    lost_count: int
    last_error: str | None

    def begin(self) -> None:
        """Set apart what there is; called by who asks for the write, as `finish` is."""

    def work(self) -> None:
        """Write it, perhaps in another thread."""

    def finish(self) -> None:
        """Take what has come of it."""


class Outflow:
    """The way of one writer's records to the files below a directory."""

    def __init__(
        self,
        directory: Path,
        writer: str,
        *,
        clock: Callable[[], float],
        timer: Callable[[], float],
        gap_line: Callable[[Gap], bytes],
    ) -> None:
        self.away: Away[Written] | None = None
        """Where slow writes are done; without one, all are done at once."""
        self.beside: Beside | None = None
        self.on_change: Callable[[], None] = lambda: None
        """Told when writing begins to fail, or not to; to be slow, or not to; and when a write
        in the thread has ended."""
        self.last_error: str | None = None
        """Why nothing can be written now, as a sentence; None while it can."""
        self.errno: int | None = None
        """The number of that error, where the system has given one."""
        self.slow = False
        """Whether writes are done in the thread."""
        self.lost_count = 0
        """Events that never reached the file, in all."""
        self.taken_count = 0
        """Lines that were taken to be written, in all."""
        self.written_count = 0
        """Lines of those that are in the file."""
        self._clock = clock
        self._timer = timer
        self._gap_line = gap_line
        self._gap: Gap | None = None
        self._file = ActiveFile(directory / "events")
        self._chain = Chain(writer)
        self._pending: list[bytes] = []
        self._linked: list[bytes] = []
        """What could not be written yet, and has its place in the chain already."""
        self._bytes = 0
        """Of both."""
        self._last = b""
        """The last record that is in the file as a whole."""
        self._checked_at = float("-inf")
        self._quick = 0
        """Writes in a row that were quick, since one was slow."""

    @property
    def head(self) -> Link | None:
        """The place of the last record that is in the file; None before the first."""
        return link_of(self._last[:-1])

    @property
    def full(self) -> bool:
        """Whether no more is kept in memory: what comes now is lost."""
        if self._bytes >= PENDING_BYTES_MAX:
            self.flush()
        return self._bytes >= PENDING_BYTES_MAX

    def put(self, lines: list[bytes]) -> None:
        """Take lines, each with its end, that will be written by the next `flush`."""
        self._pending += lines
        self._bytes += sum(map(len, lines))
        self.taken_count += len(lines)

    def lose(self, now: str, trace_id: str) -> None:
        """Count an event for which there is no room.

        The newest are lost, not the oldest: so the file stays in order, and the record of the gap
        stands where the gap is.
        """
        self.lost_count += 1
        lost, first, trace, _ = self._gap or Gap(0, now, trace_id, None)
        self._gap = Gap(lost + 1, first, trace, self.last_error)

    def flush(self) -> None:
        """Write all that there is. A failure shows in `last_error`; the next flush tries again."""
        if self._bytes and not self._is_away and self._is_due():
            self._write()

    def hang(self, seconds: float) -> None:
        """A write in the thread has taken so long that nobody relies on it any more."""
        if self._is_away and self.last_error is None:
            words = f"the disk has not answered for {seconds:g} s"
            self.last_error = f"The event journal cannot be written: {words}"
            self.on_change()

    def distrust(self) -> None:
        """Begin a new file: the disk did not keep what it had taken."""
        if not self._is_away:
            self._file.distrust()

    def close(self) -> None:
        """Write what can be written, and let go of the file."""
        if self._is_back():
            self.away, self.slow = None, False
            if self.beside is not None:
                self.beside.begin()
                self.beside.work()
                self.beside.finish()
                self.beside.deferred = False
            if self._bytes:
                self._write()
            self._file.close()
        self.lost_count += len(self._linked) + len(self._pending)
        self._linked, self._pending, self._bytes = [], [], 0

    def _is_back(self) -> bool:
        """Wait until the thread is done; with what it was given when it came back, too."""
        while self.away is not None and self.away.busy:
            if not self.away.wait(CLOSE_SECONDS_MAX):
                return False
        return True

    @property
    def _is_away(self) -> bool:
        return self.away is not None and self.away.busy

    def _is_due(self) -> bool:
        return self.last_error is None or self._is_time_to_check(self._clock())

    def _is_time_to_check(self, now: float) -> bool:
        return abs(now - self._checked_at) >= RETRY_SECONDS  # Also when the clock was set back.

    def _write(self) -> None:
        # Linked once, for good: a record that has to be written again is the same record.
        self._linked += self._chain.link(self._pending)
        self._pending.clear()
        now = self._clock()
        check = self._is_time_to_check(now)
        if check:
            self._checked_at = now
        if self.slow and self.away is not None:
            if self.beside is not None:
                self.beside.begin()
            self.away.begin(partial(self._append, self._linked[:], check), self._came_back)
        else:
            before = (self.last_error, self.slow)
            self._took(self._append(self._linked, check))
            if before != (self.last_error, self.slow):
                self.on_change()

    def _append(self, lines: list[bytes], check: bool) -> Written:
        """Write lines, perhaps in a thread: nothing else touches the file meanwhile."""
        if self.slow and self.beside is not None:
            self.beside.work()
        began, count, error = self._timer(), 0, None
        try:
            if check:
                self._file.check_place()
            while count < len(lines):
                month, some = _of_one_month(lines[count:] if count else lines)
                count += self._file.append(month, some)
        except OSError as caught:
            error = caught
            self._file.close()
        return Written(count, error, self._timer() - began)

    def _came_back(self, written: Written) -> None:
        if self.beside is not None:
            self.beside.finish()
        self._took(written)
        self.on_change()

    def _took(self, written: Written) -> None:
        count, error, seconds = written
        if count:
            self._last = self._linked[count - 1]
            del self._linked[:count]
            self.written_count += count
        self.errno = None if error is None else error.errno
        if error is None:
            self.last_error = None
            self._tell_gap()
        else:
            reason = error.strerror or type(error).__name__
            self.last_error = f"The event journal cannot be written: {reason}"
        self._judge(seconds)
        self._bytes = sum(map(len, self._linked)) + sum(map(len, self._pending))
        if error is None and self._bytes:
            self.flush()

    def _judge(self, seconds: float) -> None:
        """Whether the disk is slow, by how long the last write took."""
        if seconds >= SLOW_SECONDS:
            self.slow, self._quick = self.away is not None, 0
        elif self.slow:
            self._quick += 1
            self.slow = self._quick < QUICK_WRITES
        if self.beside is not None:
            self.beside.deferred = self.slow

    def _tell_gap(self) -> None:
        """Behind all that there was room for: it is what came next that was lost."""
        gap, self._gap = self._gap, None
        if gap is not None:
            self.put([self._gap_line(gap)])


def _of_one_month(lines: list[bytes]) -> tuple[bytes, list[bytes]]:
    """The first lines, as many as are of one month, and that: they open with a timestamp."""
    month = lines[0][_MONTH]
    if lines[-1][_MONTH] == month:
        return month, lines
    return month, list(takewhile(lambda line: line[_MONTH] == month, lines))
