"""Retention: removes old or excess files of the record, always whole files.

A signed tombstone replaces each file of the journal, so that the rest can still be verified.
Payload files need none: the journal does not depend on them. All of this may take long: call it in
a thread.
"""

import errno
import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final

from anyport.clock import Clock
from anyport.record.event import parse_timestamp
from anyport.record.journal.segments import (
    FILE_NAME,
    SEGMENT_BYTES_MAX,
    SegmentsChanged,
    rotate_segment,
    segments,
    snapshot,
)
from anyport.record.tamper.checkpoints import (
    HEADS_FILE,
    CheckpointState,
    CheckpointWriter,
    read_statements,
    trusted_keys,
)
from anyport.record.tamper.verify import CHUNK_BYTES, ChainVerifier, claimed_spans, read_lines

DAY_SECONDS: Final = 86400

QUIET_SECONDS: Final = 5.0
"""A file modified more recently stays: another process may still have it open."""

ACTIVE_FILE_PARTS: Final = 8
"""The active file is rotated when it holds this fraction of what is kept, by time or bytes. So the
record exceeds its limits by no more than that."""

READ_PAUSE_SECONDS: Final = 0.0005
"""Pause between two reads of a file to remove. Reading it takes seconds, and calls must not
wait."""

_TIMESTAMP: Final = re.compile(rb'\{"timestamp":"([0-9T:.+Z-]+)"')
_HOUR: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})/([0-9]{2})-")
_DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """How much is kept of one kind of file."""

    days: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of the record."""

    path: Path
    bytes: int
    last_event_at: float
    """When the last event in it happened."""
    modified_at: float
    """When it was last written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """What retention removed."""

    segments: int = 0
    bytes: int = 0
    until: str = ""
    """When the last removed event was recorded."""
    payload_files: int = 0
    payload_bytes: int = 0


def select_expired(
    files: Sequence[RecordFile], limits: RetentionLimits, now: float
) -> list[RecordFile]:
    """Which files to remove, given oldest first: always the first ones, never one in between."""
    total = sum(file.bytes for file in files)
    expired = []
    for file in files:
        is_old = now - file.last_event_at > limits.days * DAY_SECONDS
        # The absolute difference: a clock that was set back makes files of the future.
        is_busy = abs(now - file.modified_at) < QUIET_SECONDS
        if is_busy or not (is_old or total > limits.bytes):
            break
        expired.append(file)
        total -= file.bytes
    return expired


class Retention:
    """Keeps the record of a state directory within its limits."""

    def __init__(
        self,
        state_dir: Path,
        *,
        journal: RetentionLimits,
        payloads: RetentionLimits,
        checkpoints: CheckpointWriter,
        clock: Clock,
    ) -> None:
        self._state_dir = state_dir
        self._events_dir = state_dir / "events"
        self._journal = journal
        self._payloads = payloads
        self._checkpoints = checkpoints
        self._clock = clock
        self._by_age = True

    def enforce(self, *, by_age: bool = True) -> PruneResult:
        """Remove what exceeds the limits; nothing while another process does the same.

        With `by_age=False`, while the wall clock is not trusted, only excess bytes are removed.

        Raises:
            DamagedKeys: there is no key to sign a tombstone with; the files stay.
            OSError: a file cannot be removed, or its tombstone not be written.
        """
        if not self._events_dir.is_dir():
            return PruneResult()
        with _try_lock(self._events_dir) as is_locked:
            if not is_locked:
                return PruneResult()
            self._by_age = by_age
            payloads = self._prune_payloads()
            with suppress(FileNotFoundError):  # Another process was faster.
                self._rotate_active()
            pruned = self._prune_journal()
            with suppress(SegmentsChanged):  # The next run does it.
                self._checkpoints.summarise(self._live_writers)
            return PruneResult(
                segments=len(pruned),
                bytes=sum(file.bytes for file, _ in pruned),
                until=pruned[-1][1] if pruned else "",
                payload_files=len(payloads),
                payload_bytes=sum(file.bytes for file in payloads),
            )

    def _rotate_active(self) -> None:
        for active in segments(self._events_dir)[-1:]:
            if active.name != FILE_NAME:
                return
            state = active.stat()
            with active.open("rb") as file:
                first = _event_seconds(file.readline(CHUNK_BYTES))
            age_max = self._journal.days * DAY_SECONDS / ACTIVE_FILE_PARTS
            bytes_max = min(SEGMENT_BYTES_MAX, self._journal.bytes // ACTIVE_FILE_PARTS)
            if state.st_size > bytes_max or (first and self._clock.now() - first > age_max):
                rotate_segment(active, state)

    def _prune_journal(self) -> list[tuple[RecordFile, str]]:
        paths = segments(self._events_dir)
        if paths and paths[-1].name == FILE_NAME:  # A process may have it open.
            paths.pop()
        files = [_stat_file(path) for path in paths]
        return [
            (file, self._remove_signed(file)) for file in self._select_expired(files, self._journal)
        ]

    def _select_expired(
        self, files: Sequence[RecordFile], limits: RetentionLimits
    ) -> list[RecordFile]:
        effective_limits = limits if self._by_age else RetentionLimits(days=inf, bytes=limits.bytes)
        return select_expired(files, effective_limits, self._clock.now())

    def _remove_signed(self, file: RecordFile) -> str:
        """Sign a tombstone for a file and remove it. Returns when its last event was recorded."""
        verifier = ChainVerifier(self._read_checkpoints())
        name = os.fspath(file.path.relative_to(self._state_dir))
        with file.path.open("rb", buffering=0) as segment:
            verifier.read(name, read_lines(segment, file.bytes, rest_seconds=READ_PAUSE_SECONDS))
            verifier.finish()
            spans, fault = verifier.spans(), verifier.fault
            if fault is not None:  # The file is damaged: the chain after it is verified on its own.
                segment.seek(0)
                lines = read_lines(segment, file.bytes, rest_seconds=READ_PAUSE_SECONDS)
                spans = claimed_spans(lines)
        until = verifier.until.decode(errors="replace")
        removal = (name, file.bytes, until, spans, None if fault is None else fault.text)
        try:
            self._checkpoints.sign_removal(*removal)
        except OSError as error:
            if error.errno not in _DISK_FULL_ERRNOS:
                raise
            # On a full disk there is no room for the tombstone either: free the file, then sign.
            file.path.unlink()
            self._checkpoints.sign_removal(*removal)
        file.path.unlink(missing_ok=True)
        with suppress(OSError):  # Other files of that month are left.
            file.path.parent.rmdir()
        return until

    def _read_checkpoints(self) -> CheckpointState:
        try:
            raw = (self._state_dir / HEADS_FILE).read_bytes()
            return read_statements(raw, trusted_keys(self._state_dir))[0]
        except FileNotFoundError:  # Nothing is signed yet.
            return CheckpointState()

    def _live_writers(self) -> set[str]:
        """The writers that have records in the remaining files."""
        writers: set[str] = set()
        for segment in snapshot(self._events_dir):
            with segment.open() as file:
                lines = read_lines(file, segment.size, rest_seconds=READ_PAUSE_SECONDS)
                writers.update(span.writer for span in claimed_spans(lines))
        return writers

    def _prune_payloads(self) -> list[RecordFile]:
        folder = self._state_dir / "payloads"
        files = [_stat_file(path) for path in sorted(folder.glob("*/*.jsonl"))]
        expired = self._select_expired(files, self._payloads)
        for file in expired:
            file.path.unlink(missing_ok=True)
            with suppress(OSError):
                file.path.parent.rmdir()
        return expired


@contextmanager
def _try_lock(directory: Path) -> Iterator[bool]:
    """Whether this process got the lock that only one process can hold."""
    lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(lock)


def _stat_file(path: Path) -> RecordFile:
    state = path.stat()
    # The name counts: erasing a part of a payload file changes its modification time.
    hour = _HOUR.match(f"{path.parent.name}/{path.name}")
    at = None if hour is None else parse_timestamp(f"{hour[1]}T{hour[2]}:59:59")
    return RecordFile(
        path=path,
        bytes=state.st_size,
        last_event_at=at or state.st_mtime,
        modified_at=state.st_mtime,
    )


def _event_seconds(line: bytes) -> float | None:
    """When the event in a line was recorded."""
    found = _TIMESTAMP.match(line)
    return None if found is None else parse_timestamp(found[1].decode())
