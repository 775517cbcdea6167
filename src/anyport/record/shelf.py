"""Payload files, opened for many questions: where each exchange stands is read once for each file.

Who asks for one exchange alone needs none of this. Knows nothing of what was said.
"""

import mmap
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from anyport.record.payloads import payload_path

PAYLOAD_FILES_OPEN_MAX: Final = 4
"""At once. Events come in the order of time, and so do the files that they name."""

_BEGINNING: Final = b'{"span_id":"'
_SPAN_CHARS: Final = 16


class Shelf:
    """The files of payloads below a state directory."""

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

    def line(self, file: str, span_id: str) -> bytes:
        """What was said in an exchange, as it stands in a file; nothing where that is gone."""
        if file not in self._files:
            if len(self._files) >= PAYLOAD_FILES_OPEN_MAX:
                self.close()
            self._files[file] = _opened(payload_path(self._state_dir, file))
        found = self._files[file]
        return b"" if found is None else found.line(span_id)

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            if file is not None:
                file.close()
        self._files.clear()


class _PayloadFile:
    """A file of payloads, and where in it each exchange stands."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._starts: dict[bytes, int] = {}
        at = content.find(_BEGINNING)
        while at >= 0:
            if at == 0 or content[at - 1 : at] == b"\n":
                span_id = at + len(_BEGINNING)
                self._starts[content[span_id : span_id + _SPAN_CHARS]] = at
            at = content.find(b"\n" + _BEGINNING, at) + 1 or -1

    def line(self, span_id: str) -> bytes:
        start = self._starts.get(span_id.encode())
        if start is None:
            return b""
        end = self._content.find(b"\n", start)
        return self._content[start : end if end >= 0 else start]

    def close(self) -> None:
        self._content.close()


def _opened(path: Path | None) -> _PayloadFile | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            return _PayloadFile(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # Erased, or empty.
        return None
