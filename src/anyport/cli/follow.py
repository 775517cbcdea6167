"""New lines of the journal, whichever process writes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from anyport.record.journal import FILE_NAME

CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Read at once from a file; the rest comes with the next look."""


class Tail:
    """The end of every month's file; a month that begins later is read from its beginning."""

    def __init__(self, state_dir: Path) -> None:
        self._events_dir = state_dir / "events"
        self._read: dict[Path, int] = {path: _size(path) for path in self._files()}

    def new_lines(self) -> Iterator[bytes]:
        """The whole lines that were appended since the last look."""
        for path in self._files():
            start = self._read.get(path, 0)
            grown = _size(path) - start
            if grown < 0:  # Another file has taken its place.
                start, grown = 0, _size(path)
            if not grown:
                continue
            with path.open("rb") as file:
                file.seek(start)
                chunk = file.read(CHUNK_BYTES_MAX)
            whole = chunk.rfind(b"\n") + 1
            self._read[path] = start + whole
            yield from chunk[:whole].splitlines()

    def _files(self) -> list[Path]:
        return sorted(self._events_dir.glob(f"*/{FILE_NAME}"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
