"""How long the record is kept: what is too old or too much goes, a whole file at a time.

Of a file of the journal that goes, a signed tombstone says what was in it, so that what is left
can still be verified. Payloads go without one: the journal does not depend on them. All of this
may take a while: call it in a thread.
"""

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Final

from anyport.record.heads import FILE as HEADS_FILE
from anyport.record.heads import Heads, trusted_keys
from anyport.record.segments import (
    FILE_NAME,
    SEGMENT_BYTES_MAX,
    Moved,
    segments,
    snapshot,
    turn_over,
)
from anyport.record.statements import Known, read_statements
from anyport.record.walk import CHUNK_BYTES, Walk, claimed_spans, lines_of

DAY_SECONDS: Final = 86400

QUIET_SECONDS: Final = 5.0
"""A file that was written to later stays: another process may not have let go of it yet."""

SHARE: Final = 8
"""The active file is turned over when it holds this part of what is kept, in time or in bytes:
so not much more is kept than was asked for."""

REST_SECONDS: Final = 0.0005
"""Between two reads of a file that goes: it takes some seconds, and no call waits for it."""

_TIMESTAMP: Final = re.compile(rb'\{"timestamp":"([0-9T:.+Z-]+)"')
_HOUR: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})/([0-9]{2})-")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How much is kept of one kind of files."""

    days: float
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One file that is there."""

    path: Path
    bytes: int
    at: float
    """When the last of what is in it happened."""
    touched: float
    """When it was last written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What went."""

    segments: int = 0
    bytes: int = 0
    until: str = ""
    """When the last event in it was noted."""
    payload_files: int = 0
    payload_bytes: int = 0


def plan(files: Sequence[Kept], keeping: Keeping, now: float) -> list[Kept]:
    """Which of some files, the oldest first, have to go: the first ones, never one between."""
    total = sum(file.bytes for file in files)
    going = []
    for file in files:
        old = now - file.at > keeping.days * DAY_SECONDS
        # Also where the clock was set back and the file is of tomorrow.
        busy = abs(now - file.touched) < QUIET_SECONDS
        if busy or not (old or total > keeping.bytes):
            break
        going.append(file)
        total -= file.bytes
    return going


class Retention:
    """Keeps the record of a state directory within its bounds."""

    def __init__(
        self,
        state_dir: Path,
        *,
        journal: Keeping,
        payloads: Keeping,
        heads: Heads,
        clock: Callable[[], float],
    ) -> None:
        self._state_dir = state_dir
        self._events_dir = state_dir / "events"
        self._journal = journal
        self._payloads = payloads
        self._heads = heads
        self._clock = clock
        self._by_age = True

    def enforce(self, *, by_age: bool = True) -> Pruned:
        """Remove what has to go; nothing where another process is at it.

        Where the clock is not to be trusted, only what is too much goes.

        Raises:
            DamagedKeys: there is no key to sign for what goes; it stays.
            OSError: a file cannot be removed, or not be signed for.
        """
        if not self._events_dir.is_dir():
            return Pruned()
        with _alone(self._events_dir) as alone:
            if not alone:
                return Pruned()
            self._by_age = by_age
            payloads = self._prune_payloads()
            with suppress(FileNotFoundError):  # Somebody else just did.
                self._turn_over()
            pruned = self._prune_journal()
            with suppress(Moved):  # Another time.
                self._heads.summarise(self._live_writers)
            return Pruned(
                segments=len(pruned),
                bytes=sum(file.bytes for file, _ in pruned),
                until=pruned[-1][1] if pruned else "",
                payload_files=len(payloads),
                payload_bytes=sum(file.bytes for file in payloads),
            )

    def _turn_over(self) -> None:
        for active in segments(self._events_dir)[-1:]:
            if active.name != FILE_NAME:
                return
            state = active.stat()
            with active.open("rb") as file:
                first = _noted(file.readline(CHUNK_BYTES))
            age_max = self._journal.days * DAY_SECONDS / SHARE
            bytes_max = min(SEGMENT_BYTES_MAX, self._journal.bytes // SHARE)
            if state.st_size > bytes_max or (first and self._clock() - first > age_max):
                turn_over(active, state)

    def _prune_journal(self) -> list[tuple[Kept, str]]:
        paths = segments(self._events_dir)
        if paths and paths[-1].name == FILE_NAME:  # Some process has it open.
            paths.pop()
        files = [_kept(path) for path in paths]
        return [(file, self._bury(file)) for file in self._plan(files, self._journal)]

    def _plan(self, files: Sequence[Kept], keeping: Keeping) -> list[Kept]:
        asked = keeping if self._by_age else Keeping(days=inf, bytes=keeping.bytes)
        return plan(files, asked, self._clock())

    def _bury(self, file: Kept) -> str:
        """Sign for what is in a file and remove it; when its last event was noted."""
        walk = Walk(self._known())
        name = os.fspath(file.path.relative_to(self._state_dir))
        with file.path.open("rb", buffering=0) as opened:
            walk.read(name, lines_of(opened, file.bytes, rest_seconds=REST_SECONDS))
            walk.finish()
            spans, fault = walk.spans(), walk.fault
            if fault is not None:  # What follows it shall be judged by itself.
                opened.seek(0)
                lines = lines_of(opened, file.bytes, rest_seconds=REST_SECONDS)
                spans = claimed_spans(lines)
        until = walk.until.decode(errors="replace")
        said = (name, file.bytes, until, spans, None if fault is None else fault.text)
        try:
            self._heads.bury(*said)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            # It goes to make room, also for the words on its grave.
            file.path.unlink()
            self._heads.bury(*said)
        file.path.unlink(missing_ok=True)
        with suppress(OSError):  # Others of that month are there yet.
            file.path.parent.rmdir()
        return until

    def _known(self) -> Known:
        try:
            raw = (self._state_dir / HEADS_FILE).read_bytes()
            return read_statements(raw, trusted_keys(self._state_dir))[0]
        except FileNotFoundError:  # Nothing was signed yet.
            return Known()

    def _live_writers(self) -> set[str]:
        """Who has records in the files that are left."""
        found: set[str] = set()
        for piece in snapshot(self._events_dir):
            with piece.open() as file:
                lines = lines_of(file, piece.size, rest_seconds=REST_SECONDS)
                found.update(span.writer for span in claimed_spans(lines))
        return found

    def _prune_payloads(self) -> list[Kept]:
        folder = self._state_dir / "payloads"
        files = [_kept(path) for path in sorted(folder.glob("*/*.jsonl"))]
        going = self._plan(files, self._payloads)
        for file in going:
            file.path.unlink(missing_ok=True)
            with suppress(OSError):
                file.path.parent.rmdir()
        return going


@contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """Whether no other process is at the same."""
    lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(lock)


def _kept(path: Path) -> Kept:
    state = path.stat()
    # Erasing a part of a payload file does not make the rest of it younger.
    named = _HOUR.match(f"{path.parent.name}/{path.name}")
    at = None if named is None else _seconds(f"{named[1]}T{named[2]}:59:59")
    return Kept(path=path, bytes=state.st_size, at=at or state.st_mtime, touched=state.st_mtime)


def _noted(line: bytes) -> float | None:
    """When the event in a line was noted."""
    found = _TIMESTAMP.match(line)
    return None if found is None else _seconds(found[1].decode())


def _seconds(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
