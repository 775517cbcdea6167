"""The chain that ties each record to the one before it.

A record ends with who wrote it, its number there, and a hash over the hash before it and its own
bytes: nobody can change, remove or insert one without making all that follow wrong. Each process
is a writer with a chain of its own, so several can share a file without waiting for each other.

How a record is linked stands here, and how that is read again; nothing of files.
"""

import re
from hashlib import sha256
from typing import Final, NamedTuple

WRITER_BYTES: Final = 4
"""Of chance, in the name of a writer. A name that comes again begins a new chain, no fault."""

HASH_DIGITS: Final = 32
"""Of a hash: 128 bits. To change a record without a trace, one would have to find another with
the same hash."""

START: Final = b"0" * HASH_DIGITS
"""What the first record of a chain follows."""

_TAIL: Final = re.compile(
    rb',"writer":"([0-9a-f]{8})","seq":([1-9][0-9]{0,17}),"hash":"([0-9a-f]{%d})"\}' % HASH_DIGITS
)
_HASH_MEMBER: Final = len(b',"hash":""}') + HASH_DIGITS


class Link(NamedTuple):
    """The place of a record in a chain."""

    writer: str
    seq: int
    """From 1."""
    hash: bytes

    def __str__(self) -> str:
        """As people keep it, and `anyport verify` takes it."""
        return f"{self.writer}:{self.seq}:{self.hash.decode()}"


class Chain:
    """Links the records of one writer, in the order in which they will be written."""

    def __init__(self, writer: str) -> None:
        self._member = b',"writer":"%b","seq":' % writer.encode()
        self._seq = 0
        self._hash = START

    def link(self, lines: list[bytes]) -> list[bytes]:
        """The same records, each an object in a line with its end, with their places."""
        member, seq, last = self._member, self._seq, self._hash
        linked = []
        for line in lines:
            seq += 1
            body = b"%b%b%d" % (line[:-2], member, seq)
            last = sha256(last + body).hexdigest()[:HASH_DIGITS].encode()
            linked.append(b'%b,"hash":"%b"}\n' % (body, last))
        self._seq, self._hash = seq, last
        return linked


def link_of(line: bytes) -> Link | None:
    """The place that a record, without its line end, claims; None where it claims none."""
    found = _TAIL.fullmatch(line, max(line.rfind(b',"writer":"'), 0))
    return found and Link(found[1].decode(), int(found[2]), found[3])


def follows(line: bytes, claimed: Link, last: bytes) -> bool:
    """Whether a record is the one that was linked to the one with the hash `last`."""
    digest = sha256(last + line[:-_HASH_MEMBER]).hexdigest()
    return digest[:HASH_DIGITS].encode() == claimed.hash


def without_link(line: bytes) -> bytes:
    """A record, without its line end, as it was before it was linked."""
    at = line.rfind(b',"writer":"')
    return line[:at] + b"}" if at > 0 and _TAIL.fullmatch(line, at) else line
