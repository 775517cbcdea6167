"""Segments: the files of the journal, their order, rotation, and the active file.

`events/YYYY-MM/events.jsonl` is the active file of its month. A large one is rotated: it is renamed
to `events-0001.jsonl`, and a new one begins. So retention can remove old events a file at a time.
Several processes append to the same files.
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

from anyport.record.journal.fsync import sync_file, sync_parent_folders

FILE_NAME: Final = "events.jsonl"

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Size at which a file is rotated, and the least that retention removes."""

DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that do not make a file suspect: it only cannot grow."""

FINGERPRINT_BYTES: Final = 1024
"""Enough to identify a file: it includes the time, trace id and hash of its first record."""

_NAME: Final = re.compile(r"events(?:-([0-9]+))?\.jsonl")
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


def segments(events_dir: Path) -> list[Path]:
    """The files of the journal, in the order in which each process wrote them."""
    found = [path for path in events_dir.glob("*/events*.jsonl") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.parent.name, _number(path) or sys.maxsize))


class SegmentsChanged(Exception):
    """A file was rotated or removed during the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSnapshot:
    """A file of the journal at the size that it had at one moment."""

    path: Path
    size: int
    fingerprint: bytes
    """The beginning of its first record. An inode number would not do: it may be reused."""

    @contextmanager
    def open(self) -> Iterator[FileIO]:
        """Open the file, under whichever name it has by now.

        Raises:
            SegmentsChanged: it was removed.
        """
        for path in (self.path, *segments(self.path.parent.parent)):
            try:
                file = path.open("rb", buffering=0)
            except FileNotFoundError:
                continue
            with file:
                if os.pread(file.fileno(), len(self.fingerprint), 0) == self.fingerprint:
                    yield file
                    return
        raise SegmentsChanged


def snapshot(events_dir: Path) -> list[SegmentSnapshot]:
    """The files at one moment: of each writer, all records up to some record.

    Raises:
        SegmentsChanged: files were rotated or removed meanwhile.
    """
    paths = segments(events_dir)
    # Newest first: a writer that goes on to the next file before that one's size is taken has its
    # last records in the file before, whose size is taken later.
    snapshots = []
    for path in reversed(paths):
        try:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                fingerprint = os.pread(file.fileno(), min(size, FINGERPRINT_BYTES), 0)
        except FileNotFoundError:
            raise SegmentsChanged from None
        snapshots.append(SegmentSnapshot(path=path, size=size, fingerprint=fingerprint))
    if segments(events_dir) != paths:
        raise SegmentsChanged
    return snapshots[::-1]


def rotate_segment(active: Path, expected_stat: os.stat_result) -> None:
    """Rename an active file to its number, unless another process was faster.

    Processes that have it open append to it until their next check.

    Raises:
        OSError: it cannot be renamed.
    """
    # Two processes that rename at once could give two files one number, and lose one of them.
    lock = os.open(active.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(expected_stat, os.stat(active)):
            numbers = map(_number, active.parent.glob("events-*.jsonl"))
            active.rename(active.with_name(f"events-{max(numbers, default=0) + 1:04}.jsonl"))
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        os.close(lock)


class ActiveFile:
    """The open file of the current month, private to the user."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory
        self._month = b""
        self._fd = -1
        self._appender = LineAppender()
        self._is_suspect = False
        """Whether a sync failed on this file: how much of it is on the disk is unknown."""
        self.syncs = False
        """Whether a new file must survive a loss of power."""
        self._is_directory_synced = False
        """Whether its directory entry does."""

    def append(self, month: bytes, lines: list[bytes]) -> int:
        """Write lines with one system call; returns how many are completely in the file.

        Raises:
            OSError: no line is.
        """
        # Never back to a past month when the clock is set back: the files are read in the order of
        # their names, and records must appear in the order of their chain.
        if self._fd < 0 or month > self._month:
            self._open(max(month, self._month))
        elif self.syncs and not self._is_directory_synced:
            self._sync_directories()
        try:
            return self._appender.write(self._fd, lines)
        except DiskFull:
            raise
        except OSError as error:
            self._is_suspect = error.errno not in DISK_FULL_ERRNOS
            raise

    def sync(self) -> None:
        """Sync what was appended to disk.

        Raises:
            OSError: how much of it is on the disk is unknown. Nothing more is appended to this
                file, because a second sync may report success although the data is lost.
        """
        try:
            sync_file(self._fd)
        except OSError:
            self._is_suspect = True
            raise

    def replace_suspect(self) -> None:
        """Begin a new file after a suspect one, even without lines to write.

        Raises:
            OSError: the disk still fails.
        """
        if self._is_suspect:
            self._open(self._month)

    def check_rotation(self) -> None:
        """Rotate a file that has grown large, and close one that was moved or deleted."""
        if self._fd < 0:
            return
        open_stat = os.fstat(self._fd)
        if open_stat.st_size >= SEGMENT_BYTES_MAX:
            with suppress(OSError):  # Then it keeps growing, which is better than losing events.
                rotate_segment(self._path, open_stat)
        # This process, another one or an operator may have renamed or deleted the file by now.
        try:
            path_stat = os.stat(self._path)
        except FileNotFoundError:
            self.close()
            return
        if not os.path.samestat(open_stat, path_stat):
            self.close()

    def mark_suspect(self) -> None:
        """A sync failed elsewhere: the next write begins a new file."""
        self._is_suspect = bool(self._month)
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):  # A failing disk may report it here, too.
                os.close(fd)

    def _open(self, month: bytes) -> None:
        self.close()
        folder = self._directory / month.decode()
        make_private_directory(folder)
        if self._is_suspect:
            self._rotate_suspect()
        self._path = folder / FILE_NAME
        self._fd = os.open(self._path, _OPEN_FLAGS, 0o600)
        self._month = month
        self._appender.ends_mid_line = self._ends_mid_line()
        self._is_directory_synced = False
        if self.syncs:
            self._sync_directories()
        self._is_suspect = False

    def _sync_directories(self) -> None:
        sync_file(self._fd)  # Another process may have begun the file, and not sync it.
        sync_parent_folders(self._path)
        self._is_directory_synced = True

    def _rotate_suspect(self) -> None:
        """Rotate a suspect file, so that nothing is ever appended to it."""
        with suppress(FileNotFoundError):
            path_stat = os.stat(self._path)
            if path_stat.st_size:  # An empty file cannot have lost anything.
                rotate_segment(self._path, path_stat)
                if os.path.samestat(path_stat, os.stat(self._path)):
                    raise BlockingIOError(errno.EAGAIN, "another process is rotating the file")

    def _ends_mid_line(self) -> bool:
        """Whether a crash, of this or another process, left a torn line."""
        size = os.lseek(self._fd, 0, os.SEEK_END)
        if size == 0:
            return False
        os.lseek(self._fd, size - 1, os.SEEK_SET)
        return os.read(self._fd, 1) != b"\n"


class DiskFull(OSError):
    """Not even one line could be written completely."""


class LineAppender:
    """Appends lines to an open file, and repairs torn lines.

    A full disk may take a part of a line. That line is written again as a whole, after a line end;
    readers skip the torn part.
    """

    __slots__ = ("ends_mid_line",)

    def __init__(self) -> None:
        self.ends_mid_line = False
        """Whether the file ends with a torn line; the next write closes it first."""

    def write(self, fd: int, lines: list[bytes]) -> int:
        """Write lines with one system call; returns how many are completely in the file.

        Raises:
            DiskFull: no line is, because the disk is full.
            OSError: no line is.
        """
        line_end = b"\n" if self.ends_mid_line else b""
        block = line_end + b"".join(lines)
        written = os.write(fd, block)
        if written == len(block):
            self.ends_mid_line = False
            return len(lines)
        self.ends_mid_line = (
            self.ends_mid_line if written == 0 else block[written - 1 : written] != b"\n"
        )
        count = block.count(b"\n", len(line_end), written)
        if count == 0:
            raise DiskFull(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return count


def make_private_directory(path: Path) -> None:
    """Make a directory and its missing parents, accessible to the user only."""
    if not path.is_dir():
        make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _number(path: Path) -> int:
    """The number of a rotated file; 0 for the active one."""
    named = _NAME.fullmatch(path.name)
    return int(named[1]) if named and named[1] else 0
