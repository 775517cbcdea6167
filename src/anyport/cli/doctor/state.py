"""Checks the state directory: permissions, space, and the integrity of its files. Only reads."""

import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import msgspec

from anyport.cli.doctor.findings import (
    DoctorFinding,
    Section,
    format_binary_bytes,
    good,
    hint,
    join_some,
    problem,
    warning,
)
from anyport.cli.output import pluralize
from anyport.config.model import RecordConfig
from anyport.record.index.database import SCHEMA
from anyport.record.index.index import INDEX_FILE
from anyport.record.journal.payloads import PAYLOADS_FOLDER as PAYLOADS
from anyport.record.journal.segments import SegmentsChanged, SegmentSnapshot, segments, snapshot
from anyport.record.tamper.chain import Link, is_linked_to, parse_link
from anyport.record.tamper.checkpoints import (
    HEADS_FILE,
    BadStatement,
    Head,
    Statement,
    read_statement,
    trusted_keys,
)
from anyport.record.tamper.keys import DamagedKeys

# A quick check of the last megabytes of the journal; `anyport verify` checks all of it.

TAIL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of the end of the journal: some ten thousand records."""

HEADS_BYTES_MAX: Final = 64 * 1024
"""Of the end of the signed heads, which includes the last one."""


ATTEMPTS_MAX: Final = 3
"""Of reading the files while a gateway rotates them."""


class _Timestamped(msgspec.Struct):
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEnd:
    """The result of the quick check."""

    records: int = 0
    newest: datetime | None = None
    """The time of the newest record."""
    head: str | None = None
    """The last signed head."""
    head_seen: bool = False
    """False if its record is before the part that was read."""
    fault: str | None = None


def check_journal_end(state_dir: Path) -> JournalEnd:
    """Check the end of a journal.

    Raises:
        OSError: a file cannot be read.
    """
    # The head is read first, so that its record must be in the journal by then.
    try:
        head = _last_head(state_dir)
    except (BadStatement, DamagedKeys) as error:
        return JournalEnd(fault=f"the last signed head cannot be trusted: {error}")
    links: dict[str, Link] = {}
    newest: bytes | None = None
    records, head_seen, fault = 0, False, None
    for line in _tail(state_dir / "events"):
        link = parse_link(line)
        if link is None:
            continue
        records += 1
        newest = line
        before = links.get(link.writer)
        links[link.writer] = link
        if before is not None and before.seq + 1 == link.seq:
            if not is_linked_to(line, link, before.hash):
                fault = fault or f"record {link.seq} of writer {link.writer} was changed"
        elif before is not None and link.seq != 1:
            fault = fault or f"records of writer {link.writer} are missing before {link.seq}"
        if head is not None and (link.writer, link.seq) == (head.writer, head.seq):
            head_seen = True
            if link.hash.decode() != head.hash:
                fault = fault or f"record {link.seq} of writer {link.writer} was rewritten"
    return JournalEnd(
        records=records,
        newest=None if newest is None else _timestamp_of(newest),
        head=None if head is None else f"{head.writer}:{head.seq}",
        head_seen=head_seen,
        fault=fault,
    )


def _last_head(state_dir: Path) -> Head | None:
    try:
        lines = _end_of(state_dir / HEADS_FILE, HEADS_BYTES_MAX).split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        if not line.startswith(b"{"):
            continue
        statement: Statement = read_statement(line, trusted_keys(state_dir))
        if isinstance(statement, Head):
            return statement
    return None


def _tail(events_dir: Path) -> list[bytes]:
    """The last whole lines, oldest first.

    Raises:
        OSError: a file cannot be read.
    """
    for _ in range(ATTEMPTS_MAX):
        with suppress(SegmentsChanged):
            return list(_lines(snapshot(events_dir)))
    return []


def _lines(pieces: Sequence[SegmentSnapshot]) -> Iterator[bytes]:
    parts: list[bytes] = []
    left = TAIL_BYTES_MAX
    for piece in reversed(pieces):
        with piece.open() as file:
            part = os.pread(file.fileno(), left, max(0, piece.size - left))
        parts.append(part.partition(b"\n")[2] if piece.size > left else part)
        left -= len(part)
        if left <= 0:
            break
    for part in reversed(parts):
        # The last line may not be complete yet.
        yield from part.split(b"\n")[:-1]


def _end_of(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - bytes_max))
        return file.read(bytes_max)


def _timestamp_of(line: bytes) -> datetime | None:
    try:
        return msgspec.json.decode(line, type=_Timestamped).timestamp
    except (msgspec.DecodeError, RecursionError):
        return None


NAME: Final = "state"

FREE_BYTES_MIN: Final = 256 * 1024 * 1024
"""Four files of the journal."""

CLOCK_SECONDS_MAX: Final = 60.0
"""An event that is further in the future was written with another clock."""

CHECKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""A larger index is only opened, not checked page by page."""

LEFTOVER_SECONDS_MIN: Final = 3600.0
"""A temporary file in use is younger."""

PATHS_MAX: Final = 100_000
"""Files that are checked; a state directory has fewer."""

_OTHERS_MODE: Final = stat.S_IRWXG | stat.S_IRWXO
_PID_SUFFIX: Final = re.compile(r"\.(\d+)\.tmp$")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCondition:
    """Facts about a state directory."""

    directory: Path
    exists: bool
    fault: str | None = None
    """Why it cannot be used."""
    fix: str = ""
    open_to_others: tuple[Path, ...] = ()
    free_bytes: int = 0
    journal_bytes: int = 0
    payload_bytes: int = 0
    end: JournalEnd = field(default_factory=JournalEnd)
    index_fault: str | None = None
    leftovers: tuple[Path, ...] = ()


def inspect_state(directory: Path, now: float) -> StateCondition:
    """Inspect a state directory, or the place where it would be created."""
    fault, fix = _why_unusable(directory)
    if fault is not None or not directory.is_dir():
        free = 0 if fault is not None else _free_bytes(directory)
        return StateCondition(
            directory=directory, exists=directory.exists(), fault=fault, fix=fix, free_bytes=free
        )
    paths = list(_paths(directory))
    try:
        end = check_journal_end(directory)
    except OSError as error:
        end = JournalEnd(fault=f"it cannot be read: {error.strerror or type(error).__name__}")
    return StateCondition(
        directory=directory,
        exists=True,
        open_to_others=tuple(path for path in (directory, *paths) if _mode(path) & _OTHERS_MODE),
        free_bytes=_free_bytes(directory),
        journal_bytes=sum(map(_size, segments(directory / "events"))),
        payload_bytes=sum(map(_size, (directory / PAYLOADS).glob("*/*.jsonl"))),
        end=end,
        index_fault=_index_fault(directory / INDEX_FILE),
        leftovers=tuple(path for path in paths if _is_leftover(path, now)),
    )


def check_state(condition: StateCondition, record: RecordConfig, now: float) -> Section:
    """The findings."""
    directory = condition.directory
    if condition.fault is not None:
        finding = problem(
            code="unusable",
            what=condition.fault,
            why="nothing can be recorded or cached",
            fix=condition.fix,
        )
        return Section(name=NAME, summary=f"{directory}: cannot be used", findings=(finding,))
    if not condition.exists:
        what = f"{directory} will be created by the first gateway"
        findings = (good(code="directory", what=what), *_check_disk_space(condition))
        return Section(name=NAME, summary=f"{directory}: does not exist yet", findings=findings)
    journal = f"a journal of {format_binary_bytes(condition.journal_bytes)}"
    return Section(
        name=NAME,
        summary=f"{directory}: {journal}, {format_binary_bytes(condition.free_bytes)} free",
        findings=(
            good(code="directory", what=f"{directory} is writable"),
            *_check_rights(condition),
            *_check_disk_space(condition),
            *_check_sizes(condition, record),
            *_check_journal(condition, now),
            *_check_index(condition),
            *_check_leftovers(condition),
        ),
    )


def _check_rights(condition: StateCondition) -> Iterator[DoctorFinding]:
    if not condition.open_to_others:
        yield good(code="private", what="it is private to you")
        return
    names = (str(path) for path in condition.open_to_others)
    yield warning(
        code="private",
        what=f"other users can read {join_some(names, 2)}",
        why="it contains keys and payloads",
        fix=f"chmod -R go= {condition.directory}",
    )


def _check_disk_space(condition: StateCondition) -> Iterator[DoctorFinding]:
    what = f"{format_binary_bytes(condition.free_bytes)} are free on its disk"
    if condition.free_bytes >= FREE_BYTES_MIN:
        yield good(code="disk", what=what)
        return
    yield warning(
        code="disk",
        what=what,
        why="when the disk is full, nothing more is recorded",
        fix="free space, lower record.keepBytes, or choose another directory with --state-dir",
    )


def _check_sizes(condition: StateCondition, record: RecordConfig) -> Iterator[DoctorFinding]:
    for name, key, used_bytes, limit_bytes in (
        ("journal", "keepBytes", condition.journal_bytes, record.keep_bytes),
        ("payloads", "payloadBytes", condition.payload_bytes, record.payload_bytes),
    ):
        used, limit = format_binary_bytes(used_bytes), format_binary_bytes(limit_bytes)
        what = f"{name}: {used} of at most {limit}"
        if used_bytes <= limit_bytes * 1.25:
            yield good(code="kept", what=what)
        else:
            yield hint(
                code="kept",
                what=what,
                why="old records are only removed while a gateway runs",
                fix=f"run 'anyport serve' for a minute, or raise record.{key}",
            )


def _check_journal(condition: StateCondition, now: float) -> Iterator[DoctorFinding]:
    end = condition.end
    if end.fault is not None:
        yield problem(
            code="journal",
            what=f"the end of the journal was changed: {end.fault}",
            why="a program or the disk changed it",
            fix="anyport verify",
        )
    elif end.records:
        signed = "nothing is signed yet"
        if end.head is not None:
            place = "is valid" if end.head_seen else "is older; 'anyport verify' checks it"
            signed = f"the last signed head, {end.head}, {place}"
        yield good(
            code="journal", what=f"the last {pluralize(end.records, 'record')} are valid; {signed}"
        )
    if end.newest is not None:
        ahead = end.newest.timestamp() - now
        if ahead > CLOCK_SECONDS_MAX:
            local_time = datetime.fromtimestamp(now, UTC).isoformat(" ", "seconds")
            yield warning(
                code="clock",
                what=f"the newest event is {ahead:,.0f} s ahead of this machine's clock "
                f"({local_time})",
                why="events of two clocks cannot be ordered",
                fix="set the clock: timedatectl set-ntp true",
            )


def _check_index(condition: StateCondition) -> Iterator[DoctorFinding]:
    if condition.index_fault is None:
        yield good(code="index", what="the index is valid, or will be created when needed")
        return
    path = condition.directory / INDEX_FILE
    yield warning(
        code="index",
        what=f"the index cannot be used: {condition.index_fault}",
        why="the next query takes longer, because it is built again from the journal",
        fix=f"anyport events, or delete {path} while no gateway runs",
    )


def _check_leftovers(condition: StateCondition) -> Iterator[DoctorFinding]:
    if condition.leftovers:
        names = " ".join(map(str, condition.leftovers))
        yield hint(
            code="leftovers",
            what=f"{pluralize(len(condition.leftovers), 'file')} of processes that have ended: "
            + join_some(path.name for path in condition.leftovers),
            why="they only take space",
            fix=f"rm {names}",
        )


def _why_unusable(directory: Path) -> tuple[str | None, str]:
    """Why the directory cannot be written, and the fix."""
    if directory.exists() and not directory.is_dir():
        return f"{directory} is not a directory", f"mv {directory} {directory}.old"
    parent = directory
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    if os.access(parent, os.W_OK | os.X_OK):
        return None, ""
    if parent == directory:
        return f"{directory} is not writable", f"chmod u+rwx {directory}"
    return f"{directory} cannot be created in {parent}", "choose another with --state-dir"


def _paths(directory: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            count += 1
            if count > PATHS_MAX:
                return
            yield Path(folder, name)


def _mode(path: Path) -> int:
    try:
        mode = path.lstat().st_mode
    except OSError:  # It is gone.
        return 0
    return 0 if stat.S_ISLNK(mode) else stat.S_IMODE(mode)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _free_bytes(directory: Path) -> int:
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    return shutil.disk_usage(directory).free


def _index_fault(path: Path) -> str | None:
    """Why the index cannot be used; checked without creating files beside it."""
    if not path.is_file() or not _size(path):
        return None
    # Without a WAL no process writes, and `immutable` keeps SQLite from creating one.
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)) as database:
            (schema,) = database.execute("PRAGMA user_version").fetchone()
            if schema not in (0, SCHEMA):
                return f"it has another schema version ({schema}, not {SCHEMA})"
            if _size(path) > CHECKED_BYTES_MAX:
                return None
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None if verdict == "ok" else str(verdict).splitlines()[0]


def _is_leftover(path: Path, now: float) -> bool:
    if path.name == f"{INDEX_FILE}.unusable":
        return True
    if path.suffix != ".tmp":
        return False
    match = _PID_SUFFIX.search(path.name)
    if match is not None:
        return not _is_process_alive(int(match[1]))
    try:
        return now - path.stat().st_mtime > LEFTOVER_SECONDS_MIN
    except OSError:
        return False


def _is_process_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # It belongs to another user.
        return True
    return True
