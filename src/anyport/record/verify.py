"""Whether the journal is as it was written: all of it, or which record is the first that is not.

The files are only read, and a gateway may go on writing meanwhile: what is looked at is what was
there at one moment.
"""

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyport.record.chain import Link
from anyport.record.heads import FILE, KEY_FILE, trusted_keys
from anyport.record.keys import DamagedKeys
from anyport.record.overdue import why_overdue
from anyport.record.segments import Moved, snapshot
from anyport.record.statements import Head, Known, read_statements
from anyport.record.walk import Fault, FaultKind, Walk, lines_of

ATTEMPTS_MAX: Final = 5
"""Files may be turned over and removed while we look; soon there is a moment without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What is known of the journal from elsewhere."""

    anchor: Path | None = None
    """A file with signed heads."""
    head: Link | None = None
    """A record that somebody has seen."""
    key: str | None = None
    """The public key of the signer; else that of the state directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found."""

    records: int
    writers: int
    files: int
    since: str
    until: str
    parts: int
    """Lines that are no records, such as what a crash left of one."""
    unlinked: int
    """Records from before there was a chain."""
    newest: Link | None
    """The last record."""
    head: Head | None
    """The last one that was signed."""
    anchored: int | None
    """Signed lines that the anchor has; None where there is no anchor."""
    unsigned: int
    """Records that came after the last signed head of their writer."""
    removed: int
    """Records that retention took, and signed for."""
    removed_until: str
    keys: tuple[str, ...]
    """The public keys that were trusted."""
    faults: tuple[Fault, ...]
    """The first that is wrong with the journal, and with what was signed about it."""


def verify(state_dir: Path, outside: Outside, *, clock: Callable[[], float] = time.time) -> Report:
    """Read everything, and say what is wrong.

    Raises:
        OSError: a file cannot be read.
        StillChanging: files came and went all the time.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            return _verified(state_dir, outside, clock())
        except Moved:
            continue
    raise StillChanging("files of the journal come and go too fast to be read")


class StillChanging(Exception):
    """There was no moment to look at."""


def _verified(state_dir: Path, outside: Outside, now: float) -> Report:
    # First what was signed, then the journal: so all that was signed must be there. The anchor
    # is told last, and so asked last.
    raw = _content(state_dir / FILE)
    anchored = None if outside.anchor is None else _content(outside.anchor)
    pieces = snapshot(state_dir / "events")
    if _content(state_dir / FILE) != raw:  # Perhaps retention took a file before it was seen.
        raise Moved
    signed = _Signed(state_dir, outside, raw, anchored)
    walk = Walk(signed.known)
    walk.unmet |= signed.elsewhere
    for piece in pieces:
        with piece.open() as file:
            walk.read(os.fspath(piece.path.relative_to(state_dir)), lines_of(file, piece.size))
        if walk.done:
            break
    walk.finish()
    fault = walk.fault or signed.missed(walk)
    signed.look_for_any(walk, now)
    good = walk.tally()
    return Report(
        records=good.records,
        writers=good.writers,
        files=good.files,
        since=walk.since.decode(errors="replace"),
        until=good.until.decode(errors="replace"),
        parts=walk.parts,
        unlinked=walk.unlinked,
        newest=good.newest,
        head=signed.known.last_head,
        anchored=None if outside.anchor is None else signed.anchored.statements,
        unsigned=walk.unsigned_count(),
        removed=signed.known.removed,
        removed_until=signed.known.until,
        keys=tuple(sorted(signed.keys)),
        faults=(*(() if fault is None else (fault,)), *signed.faults),
    )


class _Signed:
    """What was signed about the journal, here and elsewhere."""

    def __init__(
        self, state_dir: Path, outside: Outside, raw: bytes | None, anchored: bytes | None
    ) -> None:
        self.faults: list[Fault] = []
        self.keys = self._trusted(state_dir, outside.key)
        self.known = self._read(raw, FILE, must_be=(state_dir / KEY_FILE).exists())
        self.anchored = Known()
        if outside.anchor is not None:
            # It may be new, and get its first line with the next head.
            must_be = self.known.anchored
            self.anchored = self._read(anchored or None, "the anchor", must_be=must_be)
        self._expected = bool(outside.key or outside.head or self.anchored.statements)
        self.elsewhere = dict(self.anchored.marks)
        """Records that must be there for others than the state directory."""
        if outside.head is not None:
            self.elsewhere[outside.head.writer, outside.head.seq] = outside.head.hash.decode()
        for text in self.known.faults:
            self._add("pruned", text, None)

    def missed(self, walk: Walk) -> Fault | None:
        """A record that was signed, or seen, and is not there."""
        for (writer, seq), digest in walk.unmet.items():
            link = Link(writer, seq, digest.encode())
            if self.known.is_removed(link) or self.anchored.is_removed(link):
                continue
            newest = max(number for name, number in walk.unmet if name == writer)
            next_seq = walk.expected(writer)
            there = f"the journal has {next_seq - 1} of them" if next_seq > 1 else "none is there"
            kind: FaultKind
            if (writer, seq) not in self.known.marks:
                kind, why = "restored", "it was cut, or an older copy was put in its place"
            elif next_seq == 1:
                kind, why = "chain missing", "the whole chain was removed"
            else:
                kind, why = "cut", "the end was cut off"
            text = f"writer {writer} has written {newest} records for sure, and {there}: {why}"
            return Fault(kind=kind, text=text, writer=writer, seq=next_seq)
        return None

    def look_for_any(self, walk: Walk, now: float) -> None:
        """Where nothing at all is signed, see whether something should be."""
        if self.known.statements or any(fault.kind == "heads" for fault in self.faults):
            return
        if self._expected:
            self._add("heads", "signatures are expected, and there is none", FILE)
            return
        why = why_overdue(walk, now)
        if why is not None:
            self._add("heads", f"nothing is signed, though {why}: the heads are gone", FILE)

    def _trusted(self, state_dir: Path, key: str | None) -> Collection[str]:
        if key is not None:
            return {key}
        try:
            return trusted_keys(state_dir)
        except FileNotFoundError:
            return set()
        except DamagedKeys as error:
            self._add("heads", f"the key cannot be trusted: {error}", KEY_FILE)
            return set()

    def _read(self, raw: bytes | None, name: str, *, must_be: bool) -> Known:
        if raw is None:
            if must_be:
                self._add("heads", "the signed heads are gone", name)
            return Known()
        if raw and not self.keys:
            self._add("heads", "there is no key to check it with", name)
            return Known()
        known, fault = read_statements(raw, self.keys, all_of_them=name == FILE)
        if fault is not None:
            self._add("heads", fault, name)
        return known

    def _add(self, kind: FaultKind, text: str, file: str | None) -> None:
        self.faults.append(Fault(kind=kind, text=text, file=file))


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
