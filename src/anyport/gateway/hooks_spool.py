"""What a hook has accepted and not yet posted, on disk: a restart, or a kill, does not lose it.

Events lie in segments, as the journal has them, one a line; the first line of a segment says up
to where it is done. A segment belongs to the process that holds its lock; what nobody holds was
left by one that ended, and whoever comes next takes it over. Nothing here knows what a hook does,
and a disk that cannot be written costs only the safety.
"""

import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from anyport.record.segments import make_private_directory

SEGMENT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Then a new one is begun: the old one goes when all of it is done."""

KEPT_SECONDS_MAX: Final = 7 * 24 * 3600.0
"""What nobody wanted to have for a week is nobody's: its hook is gone, or its receiver."""

SUFFIX: Final = ".jsonl"

_HEADER_BYTES: Final = 21
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC


class Segment:
    """One file, held by us."""

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.fd = fd
        self.size = size
        self.left = 0
        """Events in it that are not done."""

    def done(self, end: int) -> None:
        """All before this place is done."""
        self.left -= 1
        os.pwrite(self.fd, _header(end), 0)

    def drop(self) -> None:
        """Nothing in it is needed any more."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        os.close(self.fd)


class Slot:
    """Where an event lies, and where it ends."""

    __slots__ = ("end", "segment")

    def __init__(self, segment: Segment, end: int) -> None:
        self.segment = segment
        self.end = end


class Spool:
    """The segments of one hook. Events are done in the order in which they were kept."""

    def __init__(self, directory: Path, name: str) -> None:
        self.last_error: str | None = None
        """Why nothing can be kept now."""
        self._directory = directory
        self._name = name
        """Of this process: two that share the directory never share a file. Names are in order."""
        self._count = 0
        self._segments: deque[Segment] = deque()
        self._current: Segment | None = None

    def keep(self, lines: list[bytes]) -> list[Slot | None]:
        """Put events on the disk with one write; None for each if that cannot be."""
        try:
            segment = self._writable()
            block = b"".join(line + b"\n" for line in lines)
            written = os.pwrite(segment.fd, block, segment.size)
            if written != len(block):
                os.ftruncate(segment.fd, segment.size)
                raise OSError(0, "the disk is full")
        except OSError as error:
            self.last_error = f"the spool cannot be written: {error.strerror or error}"
            return [None] * len(lines)
        self.last_error = None
        slots: list[Slot | None] = []
        for line in lines:
            segment.size += len(line) + 1
            segment.left += 1
            slots.append(Slot(segment, segment.size))
        return slots

    def done(self, slot: Slot) -> None:
        """An event has come to its end, whatever that was."""
        segment = slot.segment
        with contextlib.suppress(OSError):
            segment.done(slot.end)
            if segment.left:
                return
            if segment is not self._current:
                self._segments.remove(segment)
                segment.drop()
            else:
                os.ftruncate(segment.fd, 0)
                os.pwrite(segment.fd, _header(_HEADER_BYTES), 0)
                segment.size = _HEADER_BYTES

    def adopt(self, now: float, bytes_max: int) -> list[tuple[Slot, bytes]]:
        """Take over what processes that ended have left, as far as there is room for it."""
        taken: list[tuple[Slot, bytes]] = []
        for path in self._others():
            segment = None
            with contextlib.suppress(OSError):
                segment = _seized(path)
            if segment is None:
                continue
            if os.fstat(segment.fd).st_mtime < now - KEPT_SECONDS_MAX:
                segment.drop()
                continue
            found = _read(segment)
            bytes_max -= sum(len(line) for _, line in found)
            if bytes_max < 0:
                os.close(segment.fd)  # For the next one, or for our next start.
                break
            if found:
                self._segments.append(segment)
                taken += found
            else:
                segment.drop()
        return taken

    def close(self) -> None:
        """Let go of everything; what is not done stays for whoever comes next."""
        for segment in self._segments:
            if segment.left:
                os.close(segment.fd)
            else:
                segment.drop()
        self._segments.clear()
        self._current = None

    def _writable(self) -> Segment:
        current = self._current
        if current is not None and current.size < SEGMENT_BYTES_MAX:
            return current
        make_private_directory(self._directory)
        self._count += 1
        path = self._directory / f"{self._name}-{self._count:04d}{SUFFIX}"
        # Locked before others can see it under a name that they look for.
        early = path.with_suffix(".new")
        fd = os.open(early, _FLAGS | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(fd, _header(_HEADER_BYTES), 0)
            os.rename(early, path)
        except OSError:
            os.close(fd)
            raise
        if current is not None and not current.left:
            self._segments.remove(current)
            current.drop()
        self._current = Segment(path, fd, _HEADER_BYTES)
        self._segments.append(self._current)
        return self._current

    def _others(self) -> list[Path]:
        ours = {segment.path for segment in self._segments}
        return sorted(path for path in self._directory.glob(f"*{SUFFIX}") if path not in ours)


def clear_old(root: Path, now: float) -> None:
    """Remove what hooks that nobody has any more have left in any spool."""
    for path in [*root.glob(f"*/*{SUFFIX}"), *root.glob("*/*.new")]:
        with contextlib.suppress(OSError):
            segment = _seized(path) if _modified(path) < now - KEPT_SECONDS_MAX else None
            if segment is not None:
                segment.drop()
    for folder in root.glob("*/"):
        with contextlib.suppress(OSError):
            folder.rmdir()  # Only if it is empty.


def _seized(path: Path) -> Segment | None:
    """The segment, if nobody else has it."""
    fd = os.open(path, _FLAGS | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.fstat(fd)
        if held.st_nlink:  # Else its owner was done with it just now.
            return Segment(path, fd, held.st_size)
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _read(segment: Segment) -> list[tuple[Slot, bytes]]:
    """The events that are not done; a torn last line is none."""
    raw = os.pread(segment.fd, segment.size, 0)
    first = raw[: _HEADER_BYTES - 1]
    at = max(int(first), _HEADER_BYTES) if first.isdigit() else _HEADER_BYTES
    return list(_events(segment, raw, at))


def _events(segment: Segment, raw: bytes, at: int) -> Iterator[tuple[Slot, bytes]]:
    while (end := raw.find(b"\n", at)) >= 0:
        segment.left += 1
        yield Slot(segment, end + 1), raw[at:end]
        at = end + 1


def _header(end: int) -> bytes:
    return b"%020d\n" % end


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
