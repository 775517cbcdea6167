"""Payloads, erased for good; the journal knows them by their hashes alone and stays as it is.

A line is overwritten where it stands, so that a gateway may go on appending to the same file and
nothing of the line is left in a block that was merely given back. A file of which nothing remains
is removed, once its hour is over and nobody writes to it any more.
"""

import mmap
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import msgspec

from anyport.record.detail import read_captured
from anyport.record.event import timestamp
from anyport.record.filter_tree import Filter
from anyport.record.payloads import payload_files
from anyport.record.scan import scan_events
from anyport.record.searching import Search

Doomed: TypeAlias = Callable[[str, bytes], bool]
"""Says whether a line of a file is to go. The file is named as the journal names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What an erasure did."""

    exchanges: int = 0
    bytes: int = 0
    files: int = 0
    """Those that were removed."""

    def plus(self, other: Self) -> "Erased":
        return Erased(
            exchanges=self.exchanges + other.exchanges,
            bytes=self.bytes + other.bytes,
            files=self.files + other.files,
        )


def erase_payloads(state_dir: Path, doomed: Doomed, now: float) -> Erased:
    """Erase every line that is to go; it is gone from the disk when this returns.

    Raises:
        OSError: a file cannot be changed; what was done before stays done.
    """
    moment = timestamp(now)
    this_hour = f"{moment[:10]}/{moment[11:13]}"
    total = Erased()
    for path in payload_files(state_dir):
        with suppress(FileNotFoundError):  # Retention was faster.
            gone, is_all = _erase(path, doomed)
            total = total.plus(gone)
            if is_all and _name(path) < this_hour:
                path.unlink()
                total = total.plus(Erased(files=1))
                with suppress(OSError):  # Other files are left.
                    path.parent.rmdir()
    return total


def weigh_payloads(state_dir: Path, doomed: Doomed) -> Erased:
    """What an erasure would take away; nothing is changed."""
    total = Erased()
    for path in payload_files(state_dir):
        with suppress(FileNotFoundError), path.open("rb") as file:
            for line in file:
                if line.strip() and doomed(_name(path), line.rstrip(b"\n")):
                    total = total.plus(Erased(exchanges=1, bytes=len(line)))
    return total


def _erase(path: Path, doomed: Doomed) -> tuple[Erased, bool]:
    """What went of a file, and whether that was all there was."""
    name, gone, is_all = _name(path), Erased(), True
    with path.open("r+b") as file:
        if not os.fstat(file.fileno()).st_size:
            return gone, is_all
        with mmap.mmap(file.fileno(), 0) as held:
            for start, end in _lines(held):
                line = held[start:end]
                if doomed(name, line):
                    held[start:end] = b" " * len(line)
                    gone = gone.plus(Erased(exchanges=1, bytes=len(line) + 1))
                else:
                    is_all = False
            if gone.exchanges:
                held.flush()
        if gone.exchanges:
            os.fsync(file.fileno())
    return gone, is_all


def _lines(held: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where each line begins and ends that was not erased before."""
    start = 0
    while start < len(held):
        end = held.find(b"\n", start)
        end = len(held) if end < 0 else end
        if held[start:end].strip():
            yield start, end
        start = end + 1


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@contextmanager
def doomed_by(state_dir: Path, filter: Filter) -> Iterator[Doomed]:
    """Which lines are of exchanges that a filter matches, by what the journal says of them.

    `text:` also looks at what was said.
    """
    if not filter.terms:
        yield lambda file, line: True
        return
    with closing(Search(state_dir, filter)) as search:
        yield _Judge(state_dir, filter, search).is_doomed


_ID: Final = re.compile(rb'\{"span_id":"([0-9a-f]+)"')
_OWN_KEYS: Final = frozenset({"id", "principal", "since", "until", "text"})
"""What a line says of itself. One that the journal does not know, because the gateway was killed
between the two, can be judged if no more is asked."""


class _Judge:
    """Knows the exchanges that go."""

    def __init__(self, state_dir: Path, filter: Filter, search: Search) -> None:
        self._judges_alone = all(term.key in _OWN_KEYS for term in filter.terms)
        self._search = search
        self._found: dict[str, set[bytes]] = {}
        """For each file, the ids in it."""
        for _, event in scan_events(state_dir, filter):
            self._take(event)

    def is_doomed(self, file: str, line: bytes) -> bool:
        ids = _ID.findall(line)
        captured = read_captured(line)
        if captured is not None:
            ids = ids[:1]  # Others stand in what was said.
        if not self._found.get(file, set()).isdisjoint(ids):
            return True
        if captured is None or not self._judges_alone:
            return False
        about = {
            "span_id": captured.span_id,
            "principal": captured.principal,
            "payload_file": file,
        }
        event = {"timestamp": captured.timestamp, "metadata": about}
        return self._search.fits(msgspec.json.encode(event))

    def _take(self, event: Mapping[str, Any]) -> None:
        about = event.get("metadata")
        about = about if isinstance(about, dict) else {}
        file, span_id = about.get("payload_file"), about.get("span_id")
        if isinstance(file, str) and isinstance(span_id, str):
            self._found.setdefault(file, set()).add(span_id.encode())
