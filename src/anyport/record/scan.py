"""The journal, read from end to end: every line as it was written, its place in the chain included.

For those who want all of it in its order, a line at a time: an export, an erasure. Questions that
want a few events are for the index.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from os import fstat
from pathlib import Path
from typing import Any

import msgspec

from anyport.record.event import timestamp
from anyport.record.filter_tree import Filter, Moment
from anyport.record.matching import matcher
from anyport.record.searching import Search
from anyport.record.segments import segments

_MONTH_CHARS = len("2026-07")


def scan(state_dir: Path, since: float | None = None) -> Iterator[bytes]:
    """Every line, without its end, oldest file first; from the month of a moment on, if one is
    given.

    What is written meanwhile may or may not be among them.
    """
    # An event never lies in the folder of a month before its own.
    earliest = "" if since is None else timestamp(since)[:_MONTH_CHARS]
    read: set[int] = set()
    while True:
        # A file that gets its number while we read is found under its new name the next time.
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


def scan_events(state_dir: Path, filter: Filter) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Every event that matches, raw and decoded; what is no event is passed over.

    As in the index, `text:` also looks at what was said.
    """
    plain = Filter(terms=tuple(term for term in filter.terms if term.key != "text"))
    matches = matcher(plain)
    with closing(Search(state_dir, filter)) as search:
        fits = search.fits if plain != filter else None
        for line in scan(state_dir, _since(filter)):
            try:
                event = msgspec.json.decode(line, type=dict[str, Any])
            except (ValueError, RecursionError):
                continue
            if matches(event) and (fits is None or fits(line)):
                yield line, event


def _since(filter: Filter) -> float | None:
    """The latest moment before which nothing matches."""
    moments = [
        value.at
        for term in filter.terms
        if term.key == "since" and not term.negated
        for value in term.values
        if isinstance(value, Moment)
    ]
    return max(moments, default=None)
