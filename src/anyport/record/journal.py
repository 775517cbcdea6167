"""The journal: every event as one line, appended to a file for each month.

`note` only remembers; `flush` writes everything noted with one system call. Whoever answers
clients calls `flush` before it lets the answers of the same turn of the loop go: then no kill of
the process can lose an event whose answer was seen. Several processes may share the files.

A journal that cannot be written never stops the gateway. It knows nothing of queries: see the
index for those.
"""

import errno
import os
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

from anyport.record.event import (
    SCHEMA_VERSION,
    Event,
    EventType,
    Metadata,
    MetadataValue,
    Status,
    encode_event,
    timestamp,
)

PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""What is kept in memory while the file cannot be written: some ten thousand events."""

RETRY_SECONDS: Final = 1.0
"""How often a file that failed is tried again, and a good one is checked to be still there."""

REDACTED_CHARS_MAX: Final = 64 * 1024
"""No more of a text is searched for secrets; far less of it is kept."""

REMEMBERED_CHARS_MAX: Final = 128
REMEMBERED_TEXTS_MAX: Final = 2048
"""Names of servers and tools come again with every call; what redaction said is remembered."""

LISTENERS_MAX: Final = 64
"""Each costs a call for each event."""

FILE_NAME: Final = "events.jsonl"

_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)

_OWN_IDS: Final = frozenset({"span_id", "parent_span_id"})
"""Drawn by us or parsed as hexadecimal: they carry no one's text, and are new in every call."""

Listener: TypeAlias = Callable[[bytes], None]
"""Gets one event as a line of JSON. Must be quick; one that raises is not called again."""


class Journal:
    """Appends events to `events/YYYY-MM/events.jsonl` below a directory."""

    def __init__(
        self,
        directory: Path,
        *,
        source: str,
        clock: Callable[[], float],
        redact: Callable[[str], str],
        on_pending: Callable[[], None] | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._redact = redact
        self._on_pending = on_pending
        self._announced = False
        self._listeners: list[Listener] = []
        self._remembered: dict[str, str] = {}
        self._second = -1
        self._second_text = ""
        self._expected: Callable[[], None] | None = None
        """How to get what has happened and was not noted yet."""
        self._files = _MonthFiles(directory / "events")
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._checked_at = float("-inf")
        self._gap: _Gap | None = None
        self.lost_count = 0
        """Events that never reached the file, in all."""
        self.last_error: str | None = None
        """Why the journal cannot be written now, as a sentence; None while it can."""

    def note(  # noqa: PLR0913 - the fields of an event, nearly all by name
        self,
        event_type: EventType,
        status: Status,
        *,
        trace_id: str,
        metadata: Metadata,
        duration_ms: float | None = None,
        error_code: int | str | None = None,
        error_message: str | None = None,
    ) -> None:
        """Remember an event until the next `flush`."""
        line = encode_event(
            Event(
                timestamp=self._now(),
                trace_id=trace_id,
                status=status,
                schema_version=SCHEMA_VERSION,
                event_type=event_type,
                source=self._source,
                metadata=self._redacted(metadata),
                duration_ms=None if duration_ms is None else round(duration_ms, 3),
                error_code=error_code,
                error_message=None if error_message is None else self._shown(error_message),
            )
        )
        self._keep(line, trace_id)

    def _keep(self, line: bytes, trace_id: str) -> None:
        self._settle()
        self._remember(line, trace_id)
        if self._listeners:
            self._tell(line)
        self._announce()

    def _announce(self) -> None:
        if not self._announced and self._on_pending is not None:
            self._announced = True
            self._on_pending()

    def prepare(self, event_type: EventType, metadata: Metadata, last: str) -> bytes:
        """An event that will be noted often: all but when, trace, span, `last`, milliseconds."""
        moment = "0000-00-00T00:00:00"
        sample = encode_event(
            Event(
                timestamp=moment,
                trace_id="",
                status="success",
                schema_version=SCHEMA_VERSION,
                event_type=event_type,
                source=self._source,
                metadata={"span_id": "", **self._redacted(metadata), last: 0},
                duration_ms=0.0,
            )
        )
        line = sample.decode().replace("%", "%%").replace(moment, "%b", 1)
        line = line.replace('"trace_id":""', '"trace_id":"%b"', 1)
        line = line.replace('"span_id":""', '"span_id":"%b"', 1)
        head, _, _ = line.rpartition(f'"{last}":0}}')
        return f'{head}"{last}":%d}},"duration_ms":%.3f}}\n'.encode()

    def moment(self) -> bytes:
        """Now, as events tell it."""
        return self._now().encode()

    def take(self, lines: list[bytes]) -> None:
        """Remember events that were prepared, each with its line end."""
        self._settle()
        if self._listeners or self._pending_bytes >= PENDING_BYTES_MAX:
            for line in lines:
                self._keep(line[:-1], line.partition(b'"trace_id":"')[2][:32].decode())
            return
        self._pending += lines
        self._pending_bytes += sum(map(len, lines))
        self._announce()

    def expect(self, settle: Callable[[], None]) -> None:
        """Have somebody asked for what they have to note before all that is noted after it."""
        if self._listeners:
            settle()
        else:
            self._expected = settle
            self._announce()

    def _settle(self) -> None:
        settle, self._expected = self._expected, None
        if settle is not None:
            settle()

    def flush(self) -> None:
        """Write all that was noted. A failure shows in `last_error`; the next flush tries again."""
        self._announced = False
        self._settle()
        if self._pending and self._is_due():
            self._write()

    def close(self) -> None:
        """Write what can be written, and let go of the file."""
        self._settle()
        if self._pending:
            self._write()
        self.lost_count += len(self._pending)
        self._pending.clear()
        self._files.close()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have a listener told of every event from now on; returns how to stop that.

        Raises:
            ValueError: there are too many already.
        """
        if len(self._listeners) >= LISTENERS_MAX:
            raise ValueError(f"Too many follow the events already: {LISTENERS_MAX} is the limit")
        self._listeners.append(listener)
        return lambda: self._forget(listener)

    def _remember(self, line: bytes, trace_id: str) -> None:
        if self._pending_bytes >= PENDING_BYTES_MAX and self._is_due():
            self._write()
        if self._pending_bytes >= PENDING_BYTES_MAX:
            # The newest are lost, not the oldest: so the file stays in order, and the record
            # of the gap stands where the gap is.
            self.lost_count += 1
            self._gap = self._gap or _Gap(first_lost=self._now(), trace_id=trace_id)
            self._gap.lost += 1
            return
        self._pending.append(line + b"\n")
        self._pending_bytes += len(line)

    def _is_due(self) -> bool:
        return self.last_error is None or self._is_time_to_check(self._clock())

    def _is_time_to_check(self, now: float) -> bool:
        return abs(now - self._checked_at) >= RETRY_SECONDS  # Also when the clock was set back.

    def _write(self) -> None:
        now = self._clock()
        try:
            if self._is_time_to_check(now):
                self._checked_at = now
                self._files.check_place()
            self._write_pending()
            if self._gap is not None:
                self._note_gap(self._gap)
                self._write_pending()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            self.last_error = f"The event journal cannot be written: {reason}"
            self._files.close()
        else:
            self.last_error = None
        self._pending_bytes = sum(map(len, self._pending))

    def _write_pending(self) -> None:
        for month, lines in groupby(tuple(self._pending), key=_month_of):
            waiting = list(lines)
            while waiting:
                written = self._files.append(month, waiting)
                del waiting[:written], self._pending[:written]

    def _note_gap(self, gap: "_Gap") -> None:
        self._gap = None
        line = encode_event(
            Event(
                timestamp=self._now(),
                trace_id=gap.trace_id,
                status="failure",
                schema_version=SCHEMA_VERSION,
                event_type="gateway.journal_gap",
                source=self._source,
                metadata={"lost": gap.lost, "first_lost": gap.first_lost},
                error_message=self.last_error,
            )
        )
        self._pending.append(line + b"\n")

    def _redacted(self, metadata: Metadata) -> Metadata:
        shown: dict[str, MetadataValue] = {}
        for key, value in metadata.items():
            if isinstance(value, str):
                text = self._remembered.get(value)
                if text is None:
                    text = value if key in _OWN_IDS else self._shown(value)
                shown[key] = text
            elif isinstance(value, Sequence):
                shown[key] = [self._shown(item) for item in value]
            else:
                shown[key] = value
        return shown

    def _shown(self, text: str) -> str:
        redacted = self._redact(text[:REDACTED_CHARS_MAX])
        if len(text) <= REMEMBERED_CHARS_MAX:
            if len(self._remembered) >= REMEMBERED_TEXTS_MAX:
                self._remembered.clear()
            self._remembered[text] = redacted
        return redacted

    def _now(self) -> str:
        at = self._clock()
        second = int(at)
        if second != self._second:
            self._begin_second(second)
        return "%s.%06d+00:00" % (self._second_text, (at - second) * 1_000_000)  # noqa: UP031 - faster

    def _begin_second(self, second: int) -> None:
        """Making the date costs more than all the rest of an event, so it is made once."""
        self._second = second
        self._second_text = timestamp(second)[:19]

    def _tell(self, line: bytes) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(line)
            except Exception:  # noqa: BLE001 - a listener's fault must not become the caller's
                self._forget(listener)

    def _forget(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)


class _Gap:
    """Events that were lost since the journal could last be written."""

    __slots__ = ("first_lost", "lost", "trace_id")

    def __init__(self, *, first_lost: str, trace_id: str) -> None:
        self.first_lost = first_lost
        self.trace_id = trace_id
        self.lost = 0


class _MonthFiles:
    """The open file of one month, private to the user."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory
        self._month = b""
        self._fd = -1
        self._torn = False
        """The file ends within a line: the next write closes it first."""

    def append(self, month: bytes, lines: list[bytes]) -> int:
        """Write lines with one system call; returns how many are in the file as a whole.

        Raises:
            OSError: none of them is.
        """
        if self._fd < 0 or month != self._month:
            self._open(month)
        mend = b"\n" if self._torn else b""
        block = mend + b"".join(lines)
        written = os.write(self._fd, block)
        if written == len(block):
            self._torn = False
            return len(lines)
        # A short write, as on a full disk. A line of which only a part was written is written
        # again as a whole; readers skip the part.
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._torn = block[written - 1 : written] != b"\n"
        return block.count(b"\n", len(mend), written)

    def check_place(self) -> None:
        """Let go of a file that somebody moved away or deleted."""
        if self._fd < 0:
            return
        ours = os.fstat(self._fd)
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            self.close()
            return
        if not os.path.samestat(ours, there):
            self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self, month: bytes) -> None:
        self.close()
        folder = self._directory / month.decode()
        make_private_directory(folder)
        self._path = folder / FILE_NAME
        self._fd = os.open(self._path, _OPEN_FLAGS, 0o600)
        self._month = month
        self._torn = self._ends_within_a_line()

    def _ends_within_a_line(self) -> bool:
        """Whether a crash, of this or another process, left a part of a line."""
        size = os.lseek(self._fd, 0, os.SEEK_END)
        if size == 0:
            return False
        os.lseek(self._fd, size - 1, os.SEEK_SET)
        return os.read(self._fd, 1) != b"\n"


def make_private_directory(path: Path) -> None:
    """Make a directory and those above it that are missing, for the user alone."""
    if not path.is_dir():
        make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _month_of(line: bytes) -> bytes:
    """`2026-07`, of a line that opens with its timestamp."""
    return line[14:21]
