"""The state directory: whether it can be used, is private, and is as it should be. Only read."""

import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from anyport.cli.doctoring import chain
from anyport.cli.doctoring.chain import End
from anyport.cli.doctoring.finding import (
    Finding,
    Section,
    good,
    hint,
    problem,
    size,
    some,
    warning,
)
from anyport.cli.render import counted
from anyport.config.schema import RecordConfig
from anyport.record.database import SCHEMA
from anyport.record.index import FILE as INDEX_FILE
from anyport.record.payloads import FOLDER as PAYLOADS
from anyport.record.segments import segments

NAME: Final = "state"

FREE_BYTES_MIN: Final = 256 * 1024 * 1024
"""Four files of the journal; with less it is full sooner than somebody looks."""

CLOCK_SECONDS_MAX: Final = 60.0
"""A newest event that is further ahead was noted by another clock."""

CHECKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""An index up to here is checked page by page; a larger one is only opened."""

LEFT_SECONDS_MIN: Final = 3600.0
"""A file that is being made is younger."""

PATHS_MAX: Final = 100_000
"""Files that are looked at; a larger directory is not one of ours."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OF_PROCESS: Final = re.compile(r"\.(\d+)\.tmp$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What was found there."""

    directory: Path
    exists: bool
    fault: str | None = None
    """Why it cannot be used at all."""
    mend: str = ""
    open_to_others: tuple[Path, ...] = ()
    free_bytes: int = 0
    journal_bytes: int = 0
    payload_bytes: int = 0
    end: End = field(default_factory=End)
    index_fault: str | None = None
    leftovers: tuple[Path, ...] = ()


def look(directory: Path, now: float) -> Condition:
    """Look at a state directory, or at where it would be made."""
    fault, mend = _why_unusable(directory)
    if fault is not None or not directory.is_dir():
        free = 0 if fault is not None else _free_bytes(directory)
        return Condition(
            directory=directory, exists=directory.exists(), fault=fault, mend=mend, free_bytes=free
        )
    paths = list(_paths(directory))
    try:
        end = chain.look(directory)
    except OSError as error:
        end = End(fault=f"it cannot be read: {error.strerror or type(error).__name__}")
    return Condition(
        directory=directory,
        exists=True,
        open_to_others=tuple(path for path in (directory, *paths) if _mode(path) & _OTHERS),
        free_bytes=_free_bytes(directory),
        journal_bytes=sum(map(_size, segments(directory / "events"))),
        payload_bytes=sum(map(_size, (directory / PAYLOADS).glob("*/*.jsonl"))),
        end=end,
        index_fault=_index_fault(directory / INDEX_FILE),
        leftovers=tuple(path for path in paths if _is_left_over(path, now)),
    )


def judge(condition: Condition, record: RecordConfig, now: float) -> Section:
    """What is to be said of it."""
    directory = condition.directory
    if condition.fault is not None:
        finding = problem(
            code="unusable",
            what=condition.fault,
            why="nothing can be recorded, and nothing is remembered",
            mend=condition.mend,
        )
        return Section(name=NAME, summary=f"{directory}: cannot be used", findings=(finding,))
    if not condition.exists:
        what = f"{directory} will be made by the first gateway"
        findings = (good(code="directory", what=what), *_judge_room(condition))
        return Section(name=NAME, summary=f"{directory}: not made yet", findings=findings)
    journal = f"a journal of {size(condition.journal_bytes)}"
    return Section(
        name=NAME,
        summary=f"{directory}: {journal}, {size(condition.free_bytes)} free",
        findings=(
            good(code="directory", what=f"{directory} can be written"),
            *_judge_rights(condition),
            *_judge_room(condition),
            *_judge_sizes(condition, record),
            *_judge_journal(condition, now),
            *_judge_index(condition),
            *_judge_leftovers(condition),
        ),
    )


def _judge_rights(condition: Condition) -> Iterator[Finding]:
    if not condition.open_to_others:
        yield good(code="private", what="it is private to you")
        return
    names = (str(path) for path in condition.open_to_others)
    yield warning(
        code="private",
        what=f"others on this machine may look into {some(names, 2)}",
        why="keys and what was said lie there",
        mend=f"chmod -R go= {condition.directory}",
    )


def _judge_room(condition: Condition) -> Iterator[Finding]:
    what = f"{size(condition.free_bytes)} are free on its disk"
    if condition.free_bytes >= FREE_BYTES_MIN:
        yield good(code="disk", what=what)
        return
    yield warning(
        code="disk",
        what=what,
        why="when it is full, nothing more is recorded",
        mend="free some, lower record.keepBytes, or name another directory with --state-dir",
    )


def _judge_sizes(condition: Condition, record: RecordConfig) -> Iterator[Finding]:
    for name, key, there, kept in (
        ("journal", "keepBytes", condition.journal_bytes, record.keep_bytes),
        ("payloads", "payloadBytes", condition.payload_bytes, record.payload_bytes),
    ):
        what = f"{name}: {size(there)} of {size(kept)} that are kept"
        if there <= kept * 1.25:
            yield good(code="kept", what=what)
        else:
            yield hint(
                code="kept",
                what=what,
                why="what is too much is removed while a gateway runs, and none did",
                mend=f"run 'anyport serve' for a minute, or raise record.{key}",
            )


def _judge_journal(condition: Condition, now: float) -> Iterator[Finding]:
    end = condition.end
    if end.fault is not None:
        yield problem(
            code="journal",
            what=f"the end of the journal is not as it was written: {end.fault}",
            why="somebody changed it, or the disk did",
            mend="anyport verify",
        )
    elif end.records:
        signed = "nothing is signed yet"
        if end.head is not None:
            place = "fits" if end.head_seen else "lies further back; 'anyport verify' reads all"
            signed = f"the last signed head, {end.head}, {place}"
        yield good(code="journal", what=f"the last {counted(end.records, 'record')} fit; {signed}")
    if end.newest is not None:
        ahead = end.newest.timestamp() - now
        if ahead > CLOCK_SECONDS_MAX:
            there = datetime.fromtimestamp(now, UTC).isoformat(" ", "seconds")
            yield warning(
                code="clock",
                what=f"the newest event is {ahead:,.0f} s ahead of this machine's clock ({there})",
                why="events of two clocks are in no order",
                mend="set the clock: timedatectl set-ntp true",
            )


def _judge_index(condition: Condition) -> Iterator[Finding]:
    if condition.index_fault is None:
        yield good(code="index", what="the index is good, or will be made when it is needed")
        return
    path = condition.directory / INDEX_FILE
    yield warning(
        code="index",
        what=f"the index cannot be used: {condition.index_fault}",
        why="the next question takes longer: it is built again from the journal",
        mend=f"anyport events, or delete {path} while no gateway runs",
    )


def _judge_leftovers(condition: Condition) -> Iterator[Finding]:
    if condition.leftovers:
        names = " ".join(map(str, condition.leftovers))
        yield hint(
            code="leftovers",
            what=f"{counted(len(condition.leftovers), 'file')} of processes that ended: "
            + some(path.name for path in condition.leftovers),
            why="they only take room",
            mend=f"rm {names}",
        )


def _why_unusable(directory: Path) -> tuple[str | None, str]:
    """Why nothing can be written there, and what helps."""
    if directory.exists() and not directory.is_dir():
        return f"{directory} is no directory", f"mv {directory} {directory}.old"
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    if os.access(place, os.W_OK | os.X_OK):
        return None, ""
    if place == directory:
        return f"{directory} cannot be written", f"chmod u+rwx {directory}"
    return f"{directory} cannot be made in {place}", "name another with --state-dir"


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
        found = path.lstat().st_mode
    except OSError:  # It is gone.
        return 0
    return 0 if stat.S_ISLNK(found) else stat.S_IMODE(found)


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
    """What is wrong with the index; looked at without making so much as a side file."""
    if not path.is_file() or not _size(path):
        return None
    # Without a log beside it nobody writes, and SQLite need not make one.
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)) as database:
            (schema,) = database.execute("PRAGMA user_version").fetchone()
            if schema not in (0, SCHEMA):
                return f"it is of another version ({schema}, not {SCHEMA})"
            if _size(path) > CHECKED_BYTES_MAX:
                return None
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None if verdict == "ok" else str(verdict).splitlines()[0]


def _is_left_over(path: Path, now: float) -> bool:
    if path.name == f"{INDEX_FILE}.unusable":
        return True
    if path.suffix != ".tmp":
        return False
    found = _OF_PROCESS.search(path.name)
    if found is not None:
        return not _lives(int(found[1]))
    try:
        return now - path.stat().st_mtime > LEFT_SECONDS_MIN
    except OSError:
        return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # It is somebody else's.
        return True
    return True
