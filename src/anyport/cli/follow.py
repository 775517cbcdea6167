"""New lines of the journal, whichever process writes them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from anyport.record.chain import without_link
from anyport.record.segments import segments

CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Read at once from a file; the rest comes with the next look."""


class Tail:
    """The end of every file of the journal; one that begins later is read from its beginning."""

    def __init__(self, state_dir: Path) -> None:
        self._events_dir = state_dir / "events"
        self._read = {inode: size for _, inode, size in self._files()}
        """How far each file was read. A file that gets a number keeps its inode."""

    def new_lines(self) -> Iterator[bytes]:
        """The whole lines that were appended since the last look, without their places in the
        chain.
        """
        files = list(self._files())
        self._read = {inode: self._read.get(inode, 0) for _, inode, _ in files}
        for path, inode, size in files:
            start = self._read[inode]
            if start > size:  # It was cut short.
                start = 0
            if start == size:
                continue
            with suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(start)
                chunk = file.read(CHUNK_BYTES_MAX)
                whole = chunk.rfind(b"\n") + 1
                self._read[inode] = start + whole
                yield from map(without_link, chunk[:whole].splitlines())

    def _files(self) -> Iterator[tuple[Path, int, int]]:
        for path in segments(self._events_dir):
            with suppress(FileNotFoundError):
                state = path.stat()
                yield path, state.st_ino, state.st_size
