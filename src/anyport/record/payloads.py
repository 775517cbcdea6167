"""Payloads beside the journal: what was said, for those who have it recorded.

One line for each exchange, in files of an hour or some megabytes, of one process each. The journal
knows them by their hashes alone, so that a file, or one line of it, can go and the journal stays
whole. What comes here has been redacted. Like the journal, it is written before the answer goes
out, and never stops the gateway.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from anyport.record.event import timestamp
from anyport.record.segments import make_private_directory
from anyport.record.tail import NoRoom, Tail

FOLDER: Final = "payloads"
SUFFIX: Final = ".jsonl"

FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Then another file is begun: what is too old or too much goes file by file."""

PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""What is kept in memory while the file cannot be written; what comes then is lost, and counted."""

LINE_BYTES_MAX: Final = 8 * 1024 * 1024
"""One exchange; of a larger one the shape must do."""

HOUR_SECONDS: Final = 3600.0
CHECK_SECONDS: Final = 1.0
"""How often it is looked whether the file is still there."""


class Payloads:
    """Writes the payloads of this process."""

    def __init__(self, state_dir: Path, writer: str, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._clock = clock
        self._pending: list[bytes] = []
        """Lines for the file that is written now."""
        self._earlier: list[tuple[str, list[bytes]]] = []
        """Those that could not be written before, each with the name of the file they go to."""
        self._apart: list[tuple[str, list[bytes]]] = []
        """Those that are being written."""
        self._pending_bytes = 0
        """Of all of them."""
        self._file = _File(state_dir / FOLDER, clock)
        self._since = float("inf")
        """When the hour of the file began."""
        self._number = 0
        self._size = 0
        self.deferred = False
        """Whether what is added waits for the journal to have it written along with its own."""
        self.name = ""
        """Of the file that is written now, as the journal tells it."""
        self.lost_count = 0
        """Lines that never reached a file, in all."""
        self.last_error: str | None = None
        """Why they cannot be written now, as a sentence."""

    def place(self) -> str:
        """The file that the next line goes to."""
        now = self._clock()
        this_hour = self._since <= now < self._since + HOUR_SECONDS
        if this_hour and self._size <= FILE_BYTES_MAX:
            return self.name
        self.flush()
        self._put_off()
        self._size = 0
        self._number = self._number + 1 if this_hour else 0
        self._since = now // HOUR_SECONDS * HOUR_SECONDS
        moment = timestamp(self._since)
        self.name = f"{moment[:10]}/{moment[11:13]}-{self._writer}-{self._number}"
        return self.name

    def add(self, line: bytes) -> bool:
        """Remember a line until the next `flush`; False if there is no room for it."""
        if len(line) > LINE_BYTES_MAX or self._pending_bytes > PENDING_BYTES_MAX:
            self.lost_count += 1
            return False
        self._pending.append(line + b"\n")
        self._pending_bytes += len(line)
        self._size += len(line) + 1
        return True

    def flush(self) -> None:
        """Write what was added; what cannot be written now is tried again the next time."""
        if (self._pending or self._earlier) and not self.deferred:
            self.begin()
            self.work()
            self.finish()

    def begin(self) -> None:
        """Set apart what was added."""
        self._put_off()
        self._apart, self._earlier = self._earlier, []

    def work(self) -> None:
        """Write what was set apart; may be called in a thread."""
        while self._apart:
            name, lines = self._apart[0]
            try:
                del lines[: self._file.append(name, lines)]
            except OSError as error:
                reason = error.strerror or type(error).__name__
                self.last_error = f"Payloads cannot be written: {reason}"
                return
            if not lines:
                del self._apart[0]
        self.last_error = None

    def finish(self) -> None:
        """What could not be written comes before what was added since."""
        self._earlier = self._apart + self._earlier
        self._apart = []
        waiting = sum(len(line) for _, lines in self._earlier for line in lines)
        self._pending_bytes = waiting + sum(map(len, self._pending))

    def _put_off(self) -> None:
        if self._pending:
            self._earlier.append((self.name, self._pending))
            self._pending = []

    def close(self) -> None:
        """Write what can be written, and let go of the file."""
        self.flush()
        self._put_off()
        self.lost_count += sum(len(lines) for _, lines in self._earlier + self._apart)
        self._earlier.clear()
        if not self.deferred:  # Else it is in the hands of a thread that does not come back.
            self._file.close()


class _File:
    """The file that is written now."""

    def __init__(self, directory: Path, clock: Callable[[], float]) -> None:
        self._directory = directory
        self._clock = clock
        self._name = ""
        self._fd = -1
        self._tail = Tail()
        self._checked_at = 0.0

    def append(self, name: str, lines: list[bytes]) -> int:
        """Write lines to the file of this name; how many are in it as a whole.

        Raises:
            OSError: none of them is.
        """
        try:
            self._go_to(name)
            return self._tail.write(self._fd, lines)
        except NoRoom:
            raise
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):  # A disk that fails may say so here, too.
                os.close(fd)

    def _go_to(self, name: str) -> None:
        if self._fd >= 0 and abs(self._clock() - self._checked_at) >= CHECK_SECONDS:
            self._checked_at = self._clock()
            if not os.fstat(self._fd).st_nlink:  # What is too old, or too much, goes.
                self.close()
        if self._fd < 0 or name != self._name:
            self.close()
            path = self._directory / (name + SUFFIX)
            make_private_directory(path.parent)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._tail.torn = self._tail.torn and name == self._name
            self._name = name


def payload_path(state_dir: Path, file: str) -> Path | None:
    """Where a file lies that the journal names; None for a name that is none of ours."""
    day, _, name = file.partition("/")
    plain = day.replace("-", "") + name.replace("-", "")
    if not plain.isascii() or not plain.isalnum():
        return None
    return state_dir / FOLDER / day / (name + SUFFIX)


def payload_files(state_dir: Path) -> Iterator[Path]:
    """Every file, oldest first."""
    yield from sorted((state_dir / FOLDER).glob(f"*/*{SUFFIX}"))
