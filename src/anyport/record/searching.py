"""What only an event itself can tell: whether a text is in it, or in what was said.

Knows nothing of the index.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from anyport.record.filter_tree import Filter, Term, Text
from anyport.record.matching import Matcher, matcher
from anyport.record.shelf import Shelf


class Search:
    """Decides the terms of a filter on lines of the journal."""

    def __init__(self, state_dir: Path, filter: Filter) -> None:
        plain = tuple(term for term in filter.terms if term.key != "text")
        self._matches = matcher(Filter(terms=plain))
        self._texts = [_Text(term) for term in filter.terms if term.key == "text"]
        self._shelf = Shelf(state_dir)
        self.bytes_read = 0
        """Of payloads."""

    def close(self) -> None:
        """Let go of the files."""
        self._shelf.close()

    def fits(self, line: bytes) -> bool:
        """Whether the event of a line is one that is looked for."""
        event = msgspec.json.decode(line)
        if not self._matches(event):
            return False
        said: str | None = None
        for text in self._texts:
            found = text.matches(event)
            if not found:
                said = self._said(event) if said is None else said
                found = any(part in said for part in text.parts)
            if found is text.negated:
                return False
        return True

    def _said(self, event: dict[str, Any]) -> str:
        """All texts of the payloads of an event, in small letters."""
        metadata = event.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        name, span_id = metadata.get("payload_file"), metadata.get("span_id")
        if not isinstance(name, str) or not isinstance(span_id, str):
            return ""
        line = self._shelf.line(name, span_id)
        self.bytes_read += len(line)
        return "\0".join(_texts_in(line)).casefold()


class _Text:
    """One term about texts."""

    def __init__(self, term: Term) -> None:
        self.negated = term.negated
        self.matches: Matcher = matcher(Filter(terms=(Term(key="text", values=term.values),)))
        self.parts = [value.text.casefold() for value in term.values if isinstance(value, Text)]


def _texts_in(line: bytes) -> Iterator[str]:
    """Every text of the payloads in a line of a payload file."""
    frames: Any = None
    with suppress(ValueError, RecursionError):
        frames = msgspec.json.decode(line).get("frames") if line else None
    waiting = [
        frame[member]
        for frame in (frames if isinstance(frames, list) else ())
        if isinstance(frame, dict)
        for member in ("payload", "error")
        if member in frame
    ]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
