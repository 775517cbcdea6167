"""Reads the whole journal, for exports and erasures, and searches it for texts."""

from collections.abc import Iterator
from contextlib import closing, suppress
from os import fstat
from pathlib import Path
from typing import Any

import msgspec

from anyport.record.event import format_timestamp
from anyport.record.filter.ast import Filter, FilterTerm, Moment, Text
from anyport.record.filter.match import Matcher, compile_filter
from anyport.record.journal.payloads import PayloadReader
from anyport.record.journal.segments import segments

_MONTH_CHARS = len("2026-07")


def read_lines_since(state_dir: Path, since: float | None = None) -> Iterator[bytes]:
    """Every line, without its end, oldest file first, starting with the month of `since`.

    Lines that are written meanwhile may or may not be included.
    """
    # An event is never in the folder of an earlier month.
    earliest = "" if since is None else format_timestamp(since)[:_MONTH_CHARS]
    read: set[int] = set()
    while True:
        # A file that is rotated meanwhile is found under its new name in the next round.
        paths = [path for path in segments(state_dir / "events") if path.parent.name >= earliest]
        before = len(read)
        for path in paths:
            with suppress(FileNotFoundError), path.open("rb") as file:
                inode = fstat(file.fileno()).st_ino
                if inode not in read:
                    read.add(inode)
                    yield from (line[:-1] for line in file if line.endswith(b"\n"))
        if len(read) == before:
            return


def read_matching_events(state_dir: Path, filter: Filter) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Every event that matches, raw and decoded; other lines are skipped.

    As in the index, `text:` also searches the payloads.
    """
    plain = Filter(terms=tuple(term for term in filter.terms if term.key != "text"))
    matches = compile_filter(plain)
    with closing(TextSearch(state_dir, filter)) as search:
        fits = search.matches if plain != filter else None
        for line in read_lines_since(state_dir, _earliest_moment(filter)):
            try:
                event = msgspec.json.decode(line, type=dict[str, Any])
            except (ValueError, RecursionError):
                continue
            if matches(event) and (fits is None or fits(line)):
                yield line, event


def _earliest_moment(filter: Filter) -> float | None:
    """The latest time before which no event matches."""
    moments = [
        value.at
        for term in filter.terms
        if term.key == "since" and not term.negated
        for value in term.values
        if isinstance(value, Moment)
    ]
    return max(moments, default=None)


class TextSearch:
    """Matches lines of the journal against a filter. `text:` also searches payload files."""

    def __init__(self, state_dir: Path, filter: Filter) -> None:
        plain = tuple(term for term in filter.terms if term.key != "text")
        self._matches = compile_filter(Filter(terms=plain))
        self._texts = [_TextTerm(term) for term in filter.terms if term.key == "text"]
        self._payload_reader = PayloadReader(state_dir)
        self.bytes_read = 0
        """From payload files."""

    def close(self) -> None:
        """Close the payload files."""
        self._payload_reader.close()

    def matches(self, line: bytes) -> bool:
        event = msgspec.json.decode(line)
        if not self._matches(event):
            return False
        payload_text: str | None = None
        for text in self._texts:
            found = text.matches(event)
            if not found:
                payload_text = self._payload_text(event) if payload_text is None else payload_text
                found = any(part in payload_text for part in text.parts)
            if found is text.negated:
                return False
        return True

    def _payload_text(self, event: dict[str, Any]) -> str:
        """All texts of an event's payloads, case-folded."""
        metadata = event.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        name, span_id = metadata.get("payload_file"), metadata.get("span_id")
        if not isinstance(name, str) or not isinstance(span_id, str):
            return ""
        line = self._payload_reader.read_line(name, span_id)
        self.bytes_read += len(line)
        return "\0".join(_payload_texts(line)).casefold()


class _TextTerm:
    """One `text:` term."""

    def __init__(self, term: FilterTerm) -> None:
        self.negated = term.negated
        self.matches: Matcher = compile_filter(
            Filter(terms=(FilterTerm(key="text", values=term.values),))
        )
        self.parts = [value.text.casefold() for value in term.values if isinstance(value, Text)]


def _payload_texts(line: bytes) -> Iterator[str]:
    """Every text of the payloads in a line of a payload file."""
    frames: Any = None
    with suppress(ValueError, RecursionError):
        frames = msgspec.json.decode(line).get("frames") if line else None
    pending = [
        frame[member]
        for frame in (frames if isinstance(frames, list) else ())
        if isinstance(frame, dict)
        for member in ("payload", "error")
        if member in frame
    ]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
