"""What is signed about the journal, as lines: heads, tombstones, and a summary of many of them.

A *head* says up to where a chain went. A chain that ends before its head was cut, one that goes
another way was rewritten. A *tombstone* says what was in a file that retention removed. Statements
are numbered and each names the hash of the one before it, so none can be taken out unseen.

How they are worded, signed and read stands here; where they are kept does not.
"""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from anyport.record.chain import HASH_DIGITS, START, Link

_SIGNATURE: Final = re.compile(rb',"signature":"([0-9a-f]{128})"\}')


class Mark(msgspec.Struct, frozen=True):
    """One record of a chain."""

    writer: str
    seq: int
    hash: str


class Span(msgspec.Struct, frozen=True):
    """Records of one chain that are gone, the last of them with its hash."""

    writer: str
    first: int
    last: int
    hash: str
    count: int


class Base(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What all statements have."""

    number: int
    """From 1, in the order of the file."""
    previous: str
    """The hash of the statement before it."""
    time: str
    key: str
    """The public key that the signature is to be checked with."""
    anchored: bool = False
    """Whether it, or one before it that it sums up, went to an anchor, too."""


class Head(Base, frozen=True, kw_only=True, tag="head", omit_defaults=True):
    """The journal has this record, and those before it in its chain."""

    writer: str
    seq: int
    hash: str


class Tombstone(Base, frozen=True, kw_only=True, tag="tombstone", omit_defaults=True):
    """A file of the journal was removed."""

    file: str
    bytes: int
    until: str
    """When the last record in it was noted."""
    spans: tuple[Span, ...]
    fault: str | None = None
    """What was wrong with it already."""


class Summary(Base, frozen=True, kw_only=True, tag="summary", omit_defaults=True):
    """What the statements before it said, as far as it still matters."""

    heads: tuple[Mark, ...]
    spans: tuple[Span, ...]
    removed: int
    """Records, in all."""
    until: str
    faults: tuple[str, ...] = ()


Statement: TypeAlias = Head | Tombstone | Summary

_decoder: Final[msgspec.json.Decoder[Statement]] = msgspec.json.Decoder(Statement)


class BadStatement(Exception):
    """A line is no statement that can be trusted; the text says why."""


def sealed(statement: Statement, signature: bytes) -> bytes:
    """A statement as a line, with its signature."""
    return b'%b,"signature":"%b"}\n' % (text_of(statement), signature.hex().encode())


def text_of(statement: Statement) -> bytes:
    """What of a statement is signed: all but the signature, and the end."""
    return msgspec.json.encode(statement)[:-1]


def hash_of(line: bytes) -> str:
    """What the next statement calls this one, given without its line end."""
    return sha256(line).hexdigest()[:HASH_DIGITS]


def last_of(raw: bytes) -> tuple[int, str]:
    """The number and the hash of the last statement in a file."""
    for line in reversed(raw.split(b"\n")[:-1]):
        with suppress(msgspec.DecodeError, RecursionError):
            return _decoder.decode(line).number, hash_of(line)
    return 0, START.decode()


def read_statements(
    raw: bytes, trusted: Collection[str], *, all_of_them: bool = True
) -> tuple["Known", str | None]:
    """What the statements of a file say, and what is wrong with the first that is not good.

    Where not `all_of_them` need be there, as in an anchor, none is missed.
    """
    known = Known()
    number, previous = 0, START.decode()
    # What a crash left of a line is skipped: what should have been there is missing in the
    # numbers only if it was ever whole.
    for at, line in enumerate(raw.split(b"\n")[:-1], 1):
        if not _is_statement(line):
            continue
        try:
            statement = read_statement(line, trusted)
        except BadStatement as error:
            return known, f"line {at}: {error}"
        may_begin = not all_of_them or (number == 0 and isinstance(statement, Summary))
        if not may_begin and (statement.number, statement.previous) != (number + 1, previous):
            return known, f"line {at}: it does not follow the statement before it: one is missing"
        known.take(statement)
        number, previous = statement.number, hash_of(line)
    return known, None


def read_statement(line: bytes, trusted: Collection[str]) -> Statement:
    """The statement in a line, without its end.

    Raises:
        BadStatement: it is none, or none of somebody who is trusted.
    """
    # Late: few read statements, and it is heavy.
    from anyport.record.ed25519 import is_signed  # noqa: PLC0415

    signed = _SIGNATURE.fullmatch(line, max(line.rfind(b',"signature":"'), 0))
    try:
        statement = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise BadStatement("this is no signed statement") from None
    if signed is None:
        raise BadStatement("it has no signature")
    if statement.key not in trusted:
        raise BadStatement("it is signed with a key that is not this journal's")
    key, text = bytes.fromhex(statement.key), line[: signed.start()]
    if not is_signed(key, text, bytes.fromhex(signed[1].decode())):
        raise BadStatement("its signature is wrong: it was changed, or made by somebody else")
    return statement


class Known:
    """What statements say of the journal, taken together."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, int], str] = {}
        """Records that were signed: the hash by writer and number."""
        self.heads: dict[str, Mark] = {}
        """The last one of each writer."""
        self.spans: dict[str, Span] = {}
        """The last that was removed of each writer."""
        self.ends: dict[tuple[str, int], str] = {}
        """Where removed parts end: the hash of the last record, by writer and number."""
        self.statements = 0
        self.anchored = False
        """Whether an anchor has some of them, too."""
        self.last_head: Head | None = None
        self.removed = 0
        self.until = ""
        self.faults: list[str] = []

    def take(self, statement: Statement) -> None:
        """Add what one statement says."""
        self.statements += 1
        self.anchored = self.anchored or statement.anchored
        match statement:
            case Head():
                self._mark(Mark(statement.writer, statement.seq, statement.hash))
                self.last_head = statement
            case Tombstone():
                self._bury(statement.spans, statement.until)
                self.removed += sum(span.count for span in statement.spans)
                if statement.fault is not None:
                    self.faults.append(f"{statement.file}, removed since: {statement.fault}")
            case Summary():
                for mark in statement.heads:
                    self._mark(mark)
                self._bury(statement.spans, statement.until)
                self.removed += statement.removed
                self.faults += statement.faults

    def is_removed(self, link: Link) -> bool:
        """Whether retention took a record."""
        span = self.spans.get(link.writer)
        return span is not None and link.seq <= span.last

    def of_writers(self, writers: Collection[str]) -> tuple[tuple[Mark, ...], tuple[Span, ...]]:
        """What still matters where only these have records."""
        heads = (mark for writer, mark in self.heads.items() if writer in writers)
        return tuple(heads), tuple(s for writer, s in self.spans.items() if writer in writers)

    def _mark(self, mark: Mark) -> None:
        self.marks[mark.writer, mark.seq] = mark.hash
        self.heads[mark.writer] = mark

    def _bury(self, spans: Iterable[Span], until: str) -> None:
        for span in spans:
            self.spans[span.writer] = span
            self.ends[span.writer, span.last] = span.hash
        self.until = max(self.until, until)


def _is_statement(line: bytes) -> bool:
    try:
        _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
