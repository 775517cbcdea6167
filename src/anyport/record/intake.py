"""How the index keeps up with the journal: which files there are, and what was added to each.

A file is known by its inode and its first bytes, whatever it is called: one that gets a number
keeps its rows, one that takes the place of another does not get its rows. Files are only read.
"""

import os
from array import array
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from anyport.record.database import Database
from anyport.record.event import EVENT_BYTES_MAX
from anyport.record.reading import ROW_COLUMNS, Batch, Reader
from anyport.record.segments import segments

STRETCH_BITS: Final = 21
"""A stretch is 2 MiB of a file: some thousand events, indexed in one transaction, so that several
processes take turns quickly."""

PLACE_BITS: Final = 40
"""A place is the number of a file and, in so many bits, where in it a line begins."""

LINE_BYTES_MAX: Final = 2 * EVENT_BYTES_MAX
"""No line of ours is so long."""

HEAD_BYTES: Final = 96
"""Of a file: enough to tell the time and the trace of its first event."""

INSERTED_ROWS: Final = 64
"""With one statement: its cost is that of starting it."""

_INODE_MASK: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A file as the index knows it."""

    number: int
    path: str
    """Below the directory of the events."""
    inode: int
    head: bytes
    indexed: int
    """Its first bytes, up to here."""


class Found:
    """A file that is there, open."""

    def __init__(self, path: Path, fd: int) -> None:
        self.name = f"{path.parent.name}/{path.name}"
        self.fd = fd
        state = os.fstat(fd)
        self.inode = state.st_ino & _INODE_MASK
        self.size = state.st_size

    @cached_property
    def head(self) -> bytes:
        return os.pread(self.fd, HEAD_BYTES, 0)

    def is_same(self, known: Known) -> bool:
        """Whether this is that file, grown since or not."""
        return (
            self.inode == known.inode
            and self.size >= known.indexed
            and self.head.startswith(known.head)
        )


class Intake:
    """Takes in what is appended to the journal."""

    def __init__(self, database: Database, events_dir: Path) -> None:
        self._database = database
        self._events_dir = events_dir
        self._reader = Reader(self._find_sort)
        self._state = (0, 0)

    def pieces(self, bytes_max: int = 1 << STRETCH_BITS) -> Generator[None]:
        """Take in all that is new, so much of it with each step."""
        paths = segments(self._events_dir)
        self._forget_missing(paths)
        for path in paths:
            with suppress(OSError):  # It may be deleted while we look, or be another user's.
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    while self._take(path, fd, bytes_max):
                        yield
                finally:
                    os.close(fd)

    def forget_all(self) -> None:
        """Empty the index."""
        with self._database.writing():
            for table in ("files", "stretches", "sorts", "spread", "events", "odd"):
                self._database.run(f"DELETE FROM {table}")
        self._reader.forget()

    def known(self) -> dict[int, Known]:
        """The files, by their numbers."""
        return {file.number: file for file in self._known()}

    def _known(self) -> list[Known]:
        statement = "SELECT number, path, inode, head, indexed FROM files"
        return [
            Known(number=number, path=path, inode=inode, head=head, indexed=indexed)
            for number, path, inode, head, indexed in self._database.rows(statement)
        ]

    def _forget_missing(self, paths: list[Path]) -> None:
        known = self._known()
        there: set[int] = set()
        for path in paths if known else ():
            with suppress(OSError):
                there.add(path.stat().st_ino & _INODE_MASK)
        if any(file.inode not in there for file in known):
            with self._database.writing():
                for file in self._known():
                    if file.inode not in there:
                        self._forget(file)

    def _take(self, path: Path, fd: int, bytes_max: int) -> bool:
        """Index the next lines of a file; says whether there may be more."""
        found = Found(path, fd)
        same = next((file for file in self._known() if found.is_same(file)), None)
        if same is not None and (same.indexed, same.path) == (found.size, found.name):
            return False
        with self._database.writing():
            # Looked at again: another process may have been at the same file.
            if self._state != (state := self._database.state):
                self._state = state
                self._reader.forget()
            found = Found(path, fd)
            file = self._claimed(found)
            start = file.indexed
            lines = _whole_lines(found, start, bytes_max)
            batch = self._reader.read(lines, file.number << PLACE_BITS | start)
            self._keep(batch)
            self._database.run(
                "UPDATE files SET path = ?, head = ?, indexed = ?, broken = broken + ?"
                " WHERE number = ?",
                (found.name, found.head, start + len(lines), batch.broken, file.number),
            )
        return bool(lines)

    def _claimed(self, found: Found) -> Known:
        """The file in the index; one that only looks like it is forgotten."""
        for file in self._known():
            if found.is_same(file):
                return file
            if found.inode == file.inode:  # Another one since, or cut short.
                self._forget(file)
        number = self._database.run(
            "INSERT INTO files (path, inode, head, indexed, broken) VALUES (?, ?, ?, 0, 0)",
            (found.name, found.inode, found.head),
        )
        return Known(number=number, path=found.name, inode=found.inode, head=b"", indexed=0)

    def _forget(self, file: Known) -> None:
        shift = PLACE_BITS - STRETCH_BITS
        stretches = file.number << shift, (file.number + 1 << shift) - 1
        places = file.number << PLACE_BITS, (file.number + 1 << PLACE_BITS) - 1
        run = self._database.run
        ((first, last),) = self._database.rows(
            "SELECT min(first_at), max(last_at) FROM stretches WHERE number BETWEEN ? AND ?",
            stretches,
        )
        run(
            "DELETE FROM events WHERE at BETWEEN ? AND ? AND place BETWEEN ? AND ?",
            (first, last, *places),
        )
        run("DELETE FROM stretches WHERE number BETWEEN ? AND ?", stretches)
        run("DELETE FROM spread WHERE stretch BETWEEN ? AND ?", stretches)
        run("DELETE FROM odd WHERE place BETWEEN ? AND ?", places)
        run("DELETE FROM files WHERE number = ?", (file.number,))
        run("DELETE FROM sorts WHERE number NOT IN (SELECT sort FROM spread)")
        self._reader.forget()

    def _keep(self, batch: Batch) -> None:
        rows = batch.rows
        if not rows:
            return
        width = len(ROW_COLUMNS)
        step = INSERTED_ROWS * width
        for at in range(0, len(rows), step):
            values = rows[at : at + step]
            count = len(values) // width
            self._database.run(_INSERT + ", ".join([_ONE_ROW] * count), values)
        places, moments = array("Q", batch.column("place")), batch.column("at")
        stretch = places[0] >> STRETCH_BITS
        took, earlier, marks = batch.column("took"), b"", b""
        for known in self._database.rows(
            "SELECT first_at, last_at, longest, places, marks FROM stretches WHERE number = ?",
            (stretch,),
        ):
            first, last, longest, earlier, marks = known
            moments += (first, last)
            took.append(longest)
        longest = max((each for each in took if each is not None), default=None)
        self._database.run(
            "REPLACE INTO stretches VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(stretch, min(moments), max(moments), longest),
                *(earlier + places.tobytes(), marks + batch.block),
            ),
        )
        sorts = [(stretch, sort) for sort in set(batch.column("sort"))]
        self._database.run_each("INSERT OR IGNORE INTO spread VALUES (?, ?)", sorts)
        self._database.run_each("INSERT INTO odd VALUES (?, ?, ?)", batch.odd)

    def _find_sort(self, about: bytes) -> int:
        for (number,) in self._database.rows("SELECT number FROM sorts WHERE about = ?", (about,)):
            return int(number)
        return self._database.run("INSERT INTO sorts (about) VALUES (?)", (about,))


_INSERT: Final = f"INSERT INTO events ({', '.join(ROW_COLUMNS)}) VALUES "
_ONE_ROW: Final = f"({', '.join('?' * len(ROW_COLUMNS))})"


def _whole_lines(file: Found, start: int, bytes_max: int) -> bytes:
    """The next lines of a file that begin in the same stretch, all with their ends."""
    end = (start >> STRETCH_BITS) + 1 << STRETCH_BITS
    wanted = min(end - start, bytes_max)
    # No more than there was: what never ends, such as a device, has no size.
    chunk = os.pread(file.fd, min(wanted + LINE_BYTES_MAX, file.size - start), start)
    whole = chunk.find(b"\n", wanted - 1) + 1 or chunk.rfind(b"\n") + 1
    if not whole and len(chunk) > LINE_BYTES_MAX:
        whole = len(chunk)
    return chunk[:whole]
