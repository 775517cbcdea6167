"""Payload files beside the journal: the redacted payloads of captured exchanges.

One line per exchange, in files of one hour and one process. The journal only has hashes of the
payloads, so that a file, or a line of it, can be removed without breaking the chain. Like the
journal, payloads are written before the answer goes out, and a failure never stops the gateway.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from anyport.record.event import format_timestamp
from anyport.record.journal.fsync import sync_file, sync_parent_folders
from anyport.record.journal.segments import DiskFull, LineAppender, make_private_directory

PAYLOADS_FOLDER: Final = "payloads"
PAYLOADS_SUFFIX: Final = ".jsonl"

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger file is closed; retention removes whole files."""

PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Kept in memory while the file cannot be written; further lines are dropped and counted."""

LINE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one exchange; of a larger one only the shape is recorded."""

HOUR_SECONDS: Final = 3600.0

CHECK_SECONDS: Final = 1.0
"""How often to check whether the file was removed."""

PAYLOAD_FILES_OPEN_MAX: Final = 4
"""Events are read in order of time, and so are the files that they name."""

_LINE_START: Final = b'{"span_id":"'
_SPAN_CHARS: Final = 16


class PayloadWriter:
    """Writes the payload files of one process."""

    def __init__(self, state_dir: Path, writer: str, now: Callable[[], float]) -> None:
        self._writer = writer
        self._now = now
        self._pending: list[bytes] = []
        """Lines for the current file."""
        self._unwritten: list[tuple[str, list[bytes]]] = []
        """Lines to write, by file name: those of earlier files, and those of a failed write."""
        self._writing: list[tuple[str, list[bytes]]] = []
        """Lines of the write under way."""
        self._pending_bytes = 0
        """Of all three."""
        self._file = _OutputFile(state_dir / PAYLOADS_FOLDER, now)
        self._hour_started_at = float("inf")
        """When the hour of the current file began."""
        self._number = 0
        self._size = 0
        self.is_deferred = False
        """Whether the journal writes these lines along with its own, in its worker thread."""
        self.syncs = False
        """Whether each write is synced to disk."""
        self.name = ""
        """Of the current file, as events refer to it."""
        self.lost_count = 0
        """Lines that never reached a file."""
        self.last_error: str | None = None
        """Why lines cannot be written, as a sentence."""

    def next_file_name(self) -> str:
        """The file that the next line goes to; begins a new one when due."""
        now = self._now()
        this_hour = self._hour_started_at <= now < self._hour_started_at + HOUR_SECONDS
        if this_hour and self._size <= FILE_BYTES_MAX:
            return self.name
        self.flush()
        self._queue_pending()
        self._size = 0
        self._number = self._number + 1 if this_hour else 0
        self._hour_started_at = now // HOUR_SECONDS * HOUR_SECONDS
        moment = format_timestamp(self._hour_started_at)
        self.name = f"{moment[:10]}/{moment[11:13]}-{self._writer}-{self._number}"
        return self.name

    def accepts_bytes(self, size: int) -> bool:
        """Whether an exchange of this size can be stored; if not, it is counted as lost.

        Asked before the payloads are redacted, which would be wasted.
        """
        if size > LINE_BYTES_MAX:
            self.lost_count += 1
            return False
        return True

    def add(self, line: bytes) -> bool:
        """Queue a line for the next `flush`; False if there is no room for it."""
        if len(line) > LINE_BYTES_MAX or self._pending_bytes > PENDING_BYTES_MAX:
            self.lost_count += 1
            return False
        self._pending.append(line + b"\n")
        self._pending_bytes += len(line)
        self._size += len(line) + 1
        return True

    def flush(self) -> None:
        """Write the queue, unless the journal does; what fails is tried again the next time."""
        if (self._pending or self._unwritten) and not self.is_deferred:
            self.prepare_write()
            self.write_prepared()
            self.finish_write()

    def prepare_write(self) -> None:
        """First step, on the loop: hand the queue over to the write."""
        self._queue_pending()
        self._writing, self._unwritten = self._unwritten, []

    def write_prepared(self) -> None:
        """Second step, perhaps in a thread: write."""
        while self._writing:
            name, lines = self._writing[0]
            try:
                del lines[: self._file.append(name, lines)]
                if self.syncs:
                    self._file.sync()
            except OSError as error:
                reason = error.strerror or type(error).__name__
                self.last_error = f"Payloads cannot be written: {reason}"
                return
            if not lines:
                del self._writing[0]
        self.last_error = None

    def finish_write(self) -> None:
        """Third step, on the loop: put lines that failed back, before those added since."""
        self._unwritten = self._writing + self._unwritten
        self._writing = []
        unwritten_bytes = sum(len(line) for _, lines in self._unwritten for line in lines)
        self._pending_bytes = unwritten_bytes + sum(map(len, self._pending))

    def _queue_pending(self) -> None:
        if self._pending:
            self._unwritten.append((self.name, self._pending))
            self._pending = []

    def close(self) -> None:
        """Write what can be written, and close the file."""
        self.flush()
        self._queue_pending()
        self.lost_count += sum(len(lines) for _, lines in self._unwritten + self._writing)
        self._unwritten.clear()
        if not self.is_deferred:  # Otherwise it belongs to a thread that hangs.
            self._file.close()


class _OutputFile:
    """The current file."""

    def __init__(self, directory: Path, now: Callable[[], float]) -> None:
        self._directory = directory
        self._now = now
        self._name = ""
        self._fd = -1
        self._appender = LineAppender()
        self._checked_at = 0.0
        self._is_directory_synced = False
        """Whether the file's directory entry survives a loss of power."""

    def append(self, name: str, lines: list[bytes]) -> int:
        """Write lines to the file of this name; returns how many are completely in the file.

        Raises:
            OSError: no line is.
        """
        try:
            self._switch_to(name)
            return self._appender.write(self._fd, lines)
        except DiskFull:
            raise
        except OSError:
            self.close()
            raise

    def sync(self) -> None:
        """Sync what was appended to disk.

        Raises:
            OSError: how much of it is on the disk is unknown.
        """
        try:
            sync_file(self._fd)
            if not self._is_directory_synced:
                sync_parent_folders(self._directory / self._name)
            self._is_directory_synced = True
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):  # A failing disk may report it here, too.
                os.close(fd)

    def _switch_to(self, name: str) -> None:
        if self._fd >= 0 and abs(self._now() - self._checked_at) >= CHECK_SECONDS:
            self._checked_at = self._now()
            if not os.fstat(self._fd).st_nlink:  # Retention removed the file.
                self.close()
        if self._fd < 0 or name != self._name:
            self.close()
            path = self._directory / (name + PAYLOADS_SUFFIX)
            make_private_directory(path.parent)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._appender.ends_mid_line = self._appender.ends_mid_line and name == self._name
            self._is_directory_synced = False
            self._name = name


class PayloadReader:
    """Reads payload files by span id.

    A file that was read once stays open with the positions of its lines, for queries that read
    many.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._files: dict[str, _PayloadFile | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def read_line(self, file: str, span_id: str) -> bytes:
        """The payload line of an exchange; empty where it is gone."""
        if file not in self._files:
            if len(self._files) >= PAYLOAD_FILES_OPEN_MAX:
                self.close()
            self._files[file] = _open_payload_file(payload_path(self._state_dir, file))
        found = self._files[file]
        return b"" if found is None else found.read_line(span_id)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            if file is not None:
                file.close()
        self._files.clear()


class _PayloadFile:
    """An open payload file, and where in it the line of each span begins."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._starts: dict[bytes, int] = {}
        at = content.find(_LINE_START)
        while at >= 0:
            if at == 0 or content[at - 1 : at] == b"\n":
                span_id = at + len(_LINE_START)
                self._starts[content[span_id : span_id + _SPAN_CHARS]] = at
            at = content.find(b"\n" + _LINE_START, at) + 1 or -1

    def read_line(self, span_id: str) -> bytes:
        start = self._starts.get(span_id.encode())
        if start is None:
            return b""
        end = self._content.find(b"\n", start)
        return self._content[start : end if end >= 0 else start]

    def close(self) -> None:
        self._content.close()


def _open_payload_file(path: Path | None) -> _PayloadFile | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            return _PayloadFile(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # Removed, or empty.
        return None


def payload_path(state_dir: Path, file: str) -> Path | None:
    """Path of a payload file that an event names; None for a name that no gateway writes."""
    day, _, name = file.partition("/")
    plain = day.replace("-", "") + name.replace("-", "")
    if not plain.isascii() or not plain.isalnum():
        return None
    return state_dir / PAYLOADS_FOLDER / day / (name + PAYLOADS_SUFFIX)


def payload_files(state_dir: Path) -> Iterator[Path]:
    """All payload files, oldest first."""
    yield from sorted((state_dir / PAYLOADS_FOLDER).glob(f"*/*{PAYLOADS_SUFFIX}"))
