"""Erases recorded payloads for good; the journal, which only has their hashes, stays as it is.

A line is overwritten in place: a gateway may go on appending to the same file, and no freed disk
block keeps the text. A file that is empty then is removed, once its hour is over and nobody appends
to it.
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

from anyport.record.event import format_timestamp
from anyport.record.filter.ast import Filter
from anyport.record.journal.payloads import payload_files
from anyport.record.journal.reader import TextSearch, read_matching_events
from anyport.record.traffic import decode_captured

ShouldErase: TypeAlias = Callable[[str, bytes], bool]
"""Whether to erase a line of a file. The file is named as in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureTotals:
    """What was erased."""

    exchanges: int = 0
    bytes: int = 0
    files: int = 0
    """Files that were removed."""

    def plus(self, other: Self) -> "ErasureTotals":
        return ErasureTotals(
            exchanges=self.exchanges + other.exchanges,
            bytes=self.bytes + other.bytes,
            files=self.files + other.files,
        )


def erase_payloads(state_dir: Path, should_erase: ShouldErase, now: float) -> ErasureTotals:
    """Erase the lines that match; they are gone from the disk when this returns.

    Raises:
        OSError: a file cannot be changed; lines that were erased before stay erased.
    """
    now_text = format_timestamp(now)
    this_hour = f"{now_text[:10]}/{now_text[11:13]}"
    total = ErasureTotals()
    for path in payload_files(state_dir):
        with suppress(FileNotFoundError):  # Retention was faster.
            erased, is_emptied = _erase_lines(path, should_erase)
            total = total.plus(erased)
            if is_emptied and _journal_name(path) < this_hour:
                path.unlink()
                total = total.plus(ErasureTotals(files=1))
                with suppress(OSError):  # The folder has other files.
                    path.parent.rmdir()
    return total


def measure_erasure(state_dir: Path, should_erase: ShouldErase) -> ErasureTotals:
    """What `erase_payloads` would erase; nothing is changed."""
    total = ErasureTotals()
    for path in payload_files(state_dir):
        with suppress(FileNotFoundError), path.open("rb") as file:
            for line in file:
                if line.strip() and should_erase(_journal_name(path), line.rstrip(b"\n")):
                    total = total.plus(ErasureTotals(exchanges=1, bytes=len(line)))
    return total


def _erase_lines(path: Path, should_erase: ShouldErase) -> tuple[ErasureTotals, bool]:
    """What was erased in a file, and whether the file is empty now."""
    name, erased, is_emptied = _journal_name(path), ErasureTotals(), True
    with path.open("r+b") as file:
        if not os.fstat(file.fileno()).st_size:
            return erased, is_emptied
        with mmap.mmap(file.fileno(), 0) as mapped:
            for start, end in _line_spans(mapped):
                line = mapped[start:end]
                if should_erase(name, line):
                    mapped[start:end] = b" " * len(line)
                    erased = erased.plus(ErasureTotals(exchanges=1, bytes=len(line) + 1))
                else:
                    is_emptied = False
            if erased.exchanges:
                mapped.flush()
        if erased.exchanges:
            os.fsync(file.fileno())
    return erased, is_emptied


def _line_spans(mapped: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Start and end of each line that is not erased yet."""
    start = 0
    while start < len(mapped):
        end = mapped.find(b"\n", start)
        end = len(mapped) if end < 0 else end
        if mapped[start:end].strip():
            yield start, end
        start = end + 1


def _journal_name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@contextmanager
def match_payload_lines(state_dir: Path, filter: Filter) -> Iterator[ShouldErase]:
    """Which lines belong to exchanges that a filter matches, by their events in the journal.

    `text:` also searches the payloads.
    """
    if not filter.terms:
        yield lambda file, line: True
        return
    with closing(TextSearch(state_dir, filter)) as search:
        yield _PayloadLineMatcher(state_dir, filter, search).should_erase


_SPAN_ID_PATTERN: Final = re.compile(rb'\{"span_id":"([0-9a-f]+)"')
_PAYLOAD_KEYS: Final = frozenset({"id", "principal", "since", "until", "text"})
"""Keys that a payload line can answer by itself. After a kill, a payload may be on the disk without
its event; a filter with no other keys still matches it."""


class _PayloadLineMatcher:
    """Matches payload lines by the span ids of the events that match."""

    def __init__(self, state_dir: Path, filter: Filter, search: TextSearch) -> None:
        self._can_match_alone = all(term.key in _PAYLOAD_KEYS for term in filter.terms)
        self._search = search
        self._span_ids: dict[str, set[bytes]] = {}
        """Span ids by file."""
        for _, event in read_matching_events(state_dir, filter):
            self._add_event(event)

    def should_erase(self, file: str, line: bytes) -> bool:
        ids = _SPAN_ID_PATTERN.findall(line)
        captured = decode_captured(line)
        if captured is not None:
            ids = ids[:1]  # Further ids come from the payloads themselves.
        if not self._span_ids.get(file, set()).isdisjoint(ids):
            return True
        if captured is None or not self._can_match_alone:
            return False
        event_metadata = {
            "span_id": captured.span_id,
            "principal": captured.principal,
            "payload_file": file,
        }
        event = {"timestamp": captured.timestamp, "metadata": event_metadata}
        return self._search.matches(msgspec.json.encode(event))

    def _add_event(self, event: Mapping[str, Any]) -> None:
        event_metadata = event.get("metadata")
        event_metadata = event_metadata if isinstance(event_metadata, dict) else {}
        file, span_id = event_metadata.get("payload_file"), event_metadata.get("span_id")
        if isinstance(file, str) and isinstance(span_id, str):
            self._span_ids.setdefault(file, set()).add(span_id.encode())
