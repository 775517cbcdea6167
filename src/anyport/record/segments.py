"""The files of the journal: in which order they were written, and the one that is written now.

`events/YYYY-MM/events.jsonl` is the active file of its month. One that has grown large gets a
number, `events-0001.jsonl`, and a new one is begun; so old events can be removed a file at a
time. Several processes append to the same files. What a line says is not known here.
"""

import errno
import fcntl
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from anyport.record.tail import NoRoom, Tail

FILE_NAME: Final = "events.jsonl"

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""A file that has grown to this gets a number; it is what retention removes at once."""

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that say nothing against a file: it is as good as before, only there is no more of it."""

BEGINNING_BYTES: Final = 1024
"""As much of a file as tells it from all others: a moment, a trace and a hash are in it."""

_NAME: Final = re.compile(r"events(?:-([0-9]+))?\.jsonl")
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


def segments(events_dir: Path) -> list[Path]:
    """The files of the journal, in the order in which each process wrote to them."""
    found = [path for path in events_dir.glob("*/events*.jsonl") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.parent.name, _number(path) or sys.maxsize))


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A file of the journal, as large as it was at one moment."""

    path: Path
    size: int
    beginning: bytes
    """The first record of it, which no other file has; an inode may be given to another."""

    @contextmanager
    def open(self) -> Iterator[FileIO]:
        """The file, whatever it is called by now.

        Raises:
            Moved: it is gone.
        """
        for path in (self.path, *segments(self.path.parent.parent)):
            try:
                file = path.open("rb", buffering=0)
            except FileNotFoundError:
                continue
            with file:
                if os.pread(file.fileno(), len(self.beginning), 0) == self.beginning:
                    yield file
                    return
        raise Moved


class Moved(Exception):
    """A file was turned over or removed while somebody looked."""


def snapshot(events_dir: Path) -> list[Piece]:
    """The files at one moment: of each writer all records up to one of them.

    Raises:
        Moved: there was no such moment.
    """
    paths = segments(events_dir)
    # The newest first: a record whose writer went on to the next file before its size was taken
    # is in the file before, whose size is taken later.
    pieces = []
    for path in reversed(paths):
        try:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                beginning = os.pread(file.fileno(), min(size, BEGINNING_BYTES), 0)
        except FileNotFoundError:
            raise Moved from None
        pieces.append(Piece(path=path, size=size, beginning=beginning))
    if segments(events_dir) != paths:
        raise Moved
    return pieces[::-1]


def turn_over(active: Path, seen: os.stat_result) -> None:
    """Give a file its number, unless somebody else just did.

    Processes that have it open go on with it until they look again.

    Raises:
        OSError: it cannot be renamed.
    """
    # Two that rename at once could give two files one number, and lose one.
    lock = os.open(active.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(seen, os.stat(active)):
            numbers = map(_number, active.parent.glob("events-*.jsonl"))
            active.rename(active.with_name(f"events-{max(numbers, default=0) + 1:04}.jsonl"))
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        os.close(lock)


class ActiveFile:
    """The open file of one month, private to the user."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory
        self._month = b""
        self._fd = -1
        self._tail = Tail()
        self._suspect = False
        """The disk has failed on this file: nobody knows what of it will be there."""

    def append(self, month: bytes, lines: list[bytes]) -> int:
        """Write lines with one system call; returns how many are in the file as a whole.

        Raises:
            OSError: none of them is.
        """
        # Not back to a month that has passed, when the clock is set back: the files are read in
        # the order of their names, and lines must be found in the order of their chain.
        if self._fd < 0 or month > self._month:
            self._open(max(month, self._month))
        try:
            return self._tail.write(self._fd, lines)
        except NoRoom:
            raise
        except OSError as error:
            self._suspect = error.errno not in NO_ROOM
            raise

    def check_place(self) -> None:
        """Let go of a file that has grown large, or that somebody moved away or deleted."""
        if self._fd < 0:
            return
        ours = os.fstat(self._fd)
        if ours.st_size >= SEGMENT_BYTES_MAX:
            with suppress(OSError):  # It goes on growing; that is better than to lose events.
                turn_over(self._path, ours)
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            self.close()
            return
        if not os.path.samestat(ours, there):
            self.close()

    def distrust(self) -> None:
        """The disk did not keep what it had taken: the next line begins another file."""
        self._suspect = bool(self._month)
        self.close()

    def close(self) -> None:
        """Let go of the file; its descriptor is never used again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):  # A disk that fails may say so here, too.
                os.close(fd)

    def _open(self, month: bytes) -> None:
        self.close()
        folder = self._directory / month.decode()
        make_private_directory(folder)
        if self._suspect:
            self._leave_behind()
        self._path = folder / FILE_NAME
        self._fd = os.open(self._path, _OPEN_FLAGS, 0o600)
        self._month = month
        self._tail.torn = self._ends_within_a_line()

    def _leave_behind(self) -> None:
        """Give a file that is not trusted its number, so that nothing is ever added to it."""
        with suppress(FileNotFoundError):
            there = os.stat(self._path)
            if there.st_size:  # An empty one holds nothing that could be wrong.
                turn_over(self._path, there)
                if os.path.samestat(there, os.stat(self._path)):
                    raise BlockingIOError(errno.EAGAIN, "another process turns the file over")
        self._suspect = False

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


def _number(path: Path) -> int:
    """The number of a file; 0 of the active one."""
    named = _NAME.fullmatch(path.name)
    return int(named[1]) if named and named[1] else 0
