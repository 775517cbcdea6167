"""Follows the chains through the lines of the journal, until something is wrong.

It knows lines and what was signed about them. Where the lines come from, and what is done about
a fault, is the business of others.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from io import FileIO
from typing import Final, Literal, TypeAlias

import msgspec

from anyport.record.chain import START, Link, follows, link_of
from anyport.record.statements import Known, Span

CHUNK_BYTES: Final = 64 * 1024
"""Read at once: what a reader beside a loop does without a rest."""

LINE_BYTES_MAX: Final = 1024 * 1024
"""Far more than any record has; what is longer is none, and is not kept in memory."""

_BEGINNING: Final = b'{"timestamp":"'
_MOMENT: Final = slice(len(_BEGINNING), len(_BEGINNING) + len("2026-07-28T12:00:00.000000+00:00"))

FaultKind: TypeAlias = Literal[
    "edited",
    "rewritten",
    "missing",
    "inserted",
    "out of order",
    "cut",
    "chain missing",
    "restored",
    "pruned",
    "heads",
]
"""What can be wrong; docs/tamper-evidence.md explains each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The first thing that is wrong."""

    kind: FaultKind
    text: str
    """A sentence for people, without the place."""
    file: str | None = None
    line: int | None = None
    writer: str | None = None
    seq: int | None = None
    """The number of the first bad record in its chain."""

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return self.text if self.file is None else f"{self.file}{line}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What was good, up to one line."""

    records: int
    writers: int
    files: int
    until: bytes
    newest: Link | None


class Walk:
    """What is known after the lines that were read so far."""

    def __init__(self, known: Known) -> None:
        self.links: dict[str, Link] = {}
        """The last good record of each writer."""
        self.unmet = dict(known.marks)
        """What was signed and not seen yet: the hash by writer and number."""
        self.first_lines: dict[str, bytes] = {}
        """The first record of each writer that was seen."""
        self.last_lines: dict[str, bytes] = {}
        self.records = 0
        self.files = 0
        self.parts = 0
        """Lines that are no records, such as what a crash left of one."""
        self.unlinked = 0
        """Records from before there was a chain."""
        self.newest: Link | None = None
        """The last record that was read."""
        self.since = b""
        self.until = b""
        self.fault: Fault | None = None
        self._known = known
        self._firsts: dict[str, Link] = {}
        """The first record of each writer that was seen."""
        self._counts: dict[str, int] = {}
        self._stranger: Fault | None = None
        """A line without a place; whether one lost it or never had one is seen later."""
        self._before_stranger: Tally | None = None
        self._sought: tuple[str, int] | None = None
        """The record that is missing, in case it comes later."""
        self._file = ""
        self._line = 0

    @property
    def done(self) -> bool:
        """Whether no further line can change what is known."""
        return self.fault is not None and self._sought is None

    def read(self, file: str, lines: Iterable[bytes]) -> None:
        """Follow the chains through one more file, given line by line."""
        self._file = file
        self.files += self.fault is None
        for number, line in enumerate(lines, 1):
            self._line = number
            if self.fault is None:
                self.fault = self._judged(line)
            else:
                self._look_for_missing(line)
            if self.done:
                return

    def finish(self) -> None:
        """There are no more lines."""
        self.fault = self.fault or self._stranger

    def tally(self) -> Tally:
        """What is good: all of it, or what stands before the fault."""
        # Where there is a stranger, it is the fault, or the place of it.
        return self._before_stranger or Tally(
            records=self.records,
            writers=len(self.links),
            files=self.files,
            until=self.until,
            newest=self.newest,
        )

    def spans(self) -> list[Span]:
        """What was read, by writer."""
        return [_span(link, self._counts[writer]) for writer, link in self.links.items()]

    def unsigned_count(self) -> int:
        """Records that came after the last signed head of their writer."""
        heads = self._known.heads
        signed = {writer: heads[writer].seq if writer in heads else 0 for writer in self.links}
        return sum(
            max(0, min(self._counts[writer], link.seq - signed[writer]))
            for writer, link in self.links.items()
        )

    def _judged(self, line: bytes) -> Fault | None:
        link = link_of(line)
        if link is None:
            self._take_odd(line)
            return None
        previous = self._previous(link)
        if previous is None:
            return self._misplaced(link)
        if not follows(line, link, previous):
            # A process killed while it wrote leaves a part of a line, and the record of another
            # may follow on it. Within a record the quotes of this text would be escaped.
            at = line.rfind(_BEGINNING)
            if at <= 0 or not follows(line[at:], link, previous):
                return self._edited(link)
            self.parts += 1
            line = line[at:]
        signed = self.unmet.pop((link.writer, link.seq), None) if self.unmet else None
        if signed is not None and signed.encode() != link.hash:
            return self._rewritten(link)
        self._take(line, link)
        return None

    def _previous(self, link: Link) -> bytes | None:
        """The hash that a record must follow; None if it cannot stand here."""
        last = self.links.get(link.writer)
        if last is not None and link.seq == last.seq + 1:
            return last.hash
        if link.seq == 1:
            # Another process may have drawn the same name; but no record comes twice.
            return None if self._firsts.get(link.writer) == link else START
        end = self._known.ends.get((link.writer, link.seq - 1)) if last is None else None
        return None if end is None else end.encode()

    def _take(self, line: bytes, link: Link) -> None:
        if link.seq == 1 or link.writer not in self.links:
            self._firsts[link.writer] = link
            self._counts[link.writer] = 0
            self.first_lines[link.writer] = line
        self.last_lines[link.writer] = line
        self.links[link.writer] = link
        self._counts[link.writer] += 1
        self.records += 1
        self.newest = link
        self.since = self.since or line[_MOMENT]
        self.until = line[_MOMENT]

    def _take_odd(self, line: bytes) -> None:
        """A line without a place in a chain."""
        if not line.strip():
            return
        if not _holds_record(line):
            self.parts += 1
        elif not self.links and not self._known.removed:
            self.unlinked += 1
        elif self._stranger is None:
            self._before_stranger = self.tally()
            self._stranger = self._fault(
                "inserted", "this line has no place in any chain: Anyport did not write it"
            )

    def _misplaced(self, link: Link) -> Fault:
        expected = self.expected(link.writer)
        count = link.seq - expected
        if self._stranger is not None:
            if count != 1:
                return self._stranger
            text = f"record {expected} of writer {link.writer} was changed: its place is gone"
            return replace(
                self._stranger, kind="edited", text=text, writer=link.writer, seq=expected
            )
        if count <= 0:
            text = f"record {link.seq} of writer {link.writer} was there before, or was put here"
            return self._fault("inserted", text, link.writer, link.seq)
        self._sought = (link.writer, expected)
        which = f"record {expected}" if count == 1 else f"records {expected} to {link.seq - 1}"
        are = "is" if count == 1 else "are"
        text = f"{which} of writer {link.writer} {are} missing before this one"
        return self._fault("missing", text, link.writer, expected)

    def expected(self, writer: str) -> int:
        """The number of the next record of a writer."""
        if writer in self.links:
            return self.links[writer].seq + 1
        span = self._known.spans.get(writer)
        return 1 if span is None else span.last + 1

    def _edited(self, link: Link) -> Fault:
        text = f"record {link.seq} of writer {link.writer} was changed, or the one before it was"
        return self._stranger or self._fault("edited", text, link.writer, link.seq)

    def _rewritten(self, link: Link) -> Fault:
        text = (
            f"record {link.seq} of writer {link.writer} is not the one that was signed: "
            "it, or one before it, was replaced and the chain made anew"
        )
        return self._stranger or self._fault("rewritten", text, link.writer, link.seq)

    def _look_for_missing(self, line: bytes) -> None:
        link = link_of(line)
        if self.fault is not None and link is not None and link[:2] == self._sought:
            text = f"record {link.seq} of writer {link.writer} stands further down"
            place = f"{self._file}, line {self._line}"
            self.fault = replace(self.fault, kind="out of order", text=f"{text}: {place}")
            self._sought = None

    def _fault(
        self, kind: FaultKind, text: str, writer: str | None = None, seq: int | None = None
    ) -> Fault:
        return Fault(kind=kind, text=text, file=self._file, line=self._line, writer=writer, seq=seq)


def claimed_spans(lines: Iterable[bytes]) -> list[Span]:
    """What some lines say that they hold, be it true or not."""
    last: dict[str, Link] = {}
    counts: dict[str, int] = {}
    for line in lines:
        link = link_of(line)
        if link is not None:
            last[link.writer] = link
            counts[link.writer] = counts.get(link.writer, 0) + 1
    return [_span(link, counts[writer]) for writer, link in last.items()]


def lines_of(
    file: FileIO, size: int = sys.maxsize, *, rest_seconds: float = 0.0
) -> Iterator[bytes]:
    """The lines in the first bytes of a file, without their ends.

    Who reads beside a loop rests a little in between, or the loop would wait for its turn.
    """
    rest = b""
    while size > 0 and (chunk := file.read(min(size, CHUNK_BYTES))):
        size -= len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:LINE_BYTES_MAX]
        yield from lines
        if rest_seconds:
            time.sleep(rest_seconds)
    if rest:
        yield rest


def _span(last: Link, count: int) -> Span:
    return Span(last.writer, last.seq - count + 1, last.seq, last.hash.decode(), count)


def _holds_record(line: bytes) -> bool:
    """Whether somebody who reads the journal would take a line for a record."""
    return _is_json(line) or ((at := line.rfind(_BEGINNING)) > 0 and _is_json(line[at:]))


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True
