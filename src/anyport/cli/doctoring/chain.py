"""A quick look at the end of the journal: whether the last signed head is there, and all fits.

Reads some megabytes at most and changes nothing; `anyport verify` reads everything.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec

from anyport.record.chain import Link, follows, link_of
from anyport.record.heads import FILE, trusted_keys
from anyport.record.keys import DamagedKeys
from anyport.record.segments import Moved, Piece, snapshot
from anyport.record.statements import BadStatement, Head, Statement, read_statement

TAIL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of the end of the journal: some ten thousand records, looked at in a moment."""

HEADS_BYTES_MAX: Final = 64 * 1024
"""Of the end of the signed heads: the last of them is in it."""


ATTEMPTS_MAX: Final = 3
"""Files may be turned over while we look; soon there is a moment without."""


class _Noted(msgspec.Struct):
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What was seen of the end of the journal."""

    records: int = 0
    newest: datetime | None = None
    """When the newest of them happened."""
    head: str | None = None
    """The last one that was signed."""
    head_seen: bool = False
    """False where it lies before what was read."""
    fault: str | None = None


def look(state_dir: Path) -> End:
    """Look at the end of a journal.

    Raises:
        OSError: a file cannot be read.
    """
    # First what was signed: so all that was signed must be there.
    try:
        head = _last_head(state_dir)
    except (BadStatement, DamagedKeys) as error:
        return End(fault=f"the last signed head cannot be trusted: {error}")
    links: dict[str, Link] = {}
    newest: bytes | None = None
    records, seen, fault = 0, False, None
    for line in _tail(state_dir / "events"):
        link = link_of(line)
        if link is None:
            continue
        records += 1
        newest = line
        before = links.get(link.writer)
        links[link.writer] = link
        if before is not None and before.seq + 1 == link.seq:
            if not follows(line, link, before.hash):
                fault = fault or f"record {link.seq} of writer {link.writer} was changed"
        elif before is not None and link.seq != 1:
            fault = fault or f"records of writer {link.writer} are missing before {link.seq}"
        if head is not None and (link.writer, link.seq) == (head.writer, head.seq):
            seen = True
            if link.hash.decode() != head.hash:
                fault = fault or f"record {link.seq} of writer {link.writer} was rewritten"
    return End(
        records=records,
        newest=None if newest is None else _moment(newest),
        head=None if head is None else f"{head.writer}:{head.seq}",
        head_seen=seen,
        fault=fault,
    )


def _last_head(state_dir: Path) -> Head | None:
    try:
        lines = _end_of(state_dir / FILE, HEADS_BYTES_MAX).split(b"\n")[:-1]
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        if not line.startswith(b"{"):
            continue
        statement: Statement = read_statement(line, trusted_keys(state_dir))
        if isinstance(statement, Head):
            return statement
    return None


def _tail(events_dir: Path) -> list[bytes]:
    """The last whole lines, oldest first.

    Raises:
        OSError: a file cannot be read.
    """
    for _ in range(ATTEMPTS_MAX):
        with suppress(Moved):
            return list(_lines(snapshot(events_dir)))
    return []


def _lines(pieces: Sequence[Piece]) -> Iterator[bytes]:
    parts: list[bytes] = []
    left = TAIL_BYTES_MAX
    for piece in reversed(pieces):
        with piece.open() as file:
            part = os.pread(file.fileno(), left, max(0, piece.size - left))
        parts.append(part.partition(b"\n")[2] if piece.size > left else part)
        left -= len(part)
        if left <= 0:
            break
    for part in reversed(parts):
        # What is written at this moment may have no end yet.
        yield from part.split(b"\n")[:-1]


def _end_of(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - bytes_max))
        return file.read(bytes_max)


def _moment(line: bytes) -> datetime | None:
    try:
        return msgspec.json.decode(line, type=_Noted).timestamp
    except (msgspec.DecodeError, RecursionError):
        return None
