"""Hash chain of the journal.

Each record ends with its writer, its number, and a hash over the previous hash and its own bytes.
Whoever changes, removes or inserts a record makes all later hashes wrong. Each process is a writer
with a chain of its own, so that several can share a file without locking.
"""

import re
from hashlib import sha256
from typing import Final, NamedTuple

WRITER_BYTES: Final = 4
"""Random bytes in the id of a writer. An id that is drawn twice begins a new chain, which is no
fault."""

HASH_DIGITS: Final = 32
"""128 bits: changing a record unseen takes another record with the same hash."""

INITIAL_HASH: Final = b"0" * HASH_DIGITS
"""The hash before the first record of a chain."""

_LINK_PATTERN: Final = re.compile(
    rb',"writer":"([0-9a-f]{8})","seq":([1-9][0-9]{0,17}),"hash":"([0-9a-f]{%d})"\}' % HASH_DIGITS
)
_HASH_MEMBER_BYTES: Final = len(b',"hash":""}') + HASH_DIGITS


class Link(NamedTuple):
    """The place of a record in a chain."""

    writer: str
    seq: int
    """From 1."""
    hash: bytes

    def __str__(self) -> str:
        """As people keep it, and `anyport verify --head` takes it."""
        return f"{self.writer}:{self.seq}:{self.hash.decode()}"


class Chain:
    """Links the records of one writer, in the order in which they are written."""

    def __init__(self, writer: str) -> None:
        self._writer_member = b',"writer":"%b","seq":' % writer.encode()
        self._seq = 0
        self._last_hash = INITIAL_HASH

    def link(self, lines: list[bytes]) -> list[bytes]:
        """Append their links to records, each a line of JSON with its end."""
        member, seq, last_hash = self._writer_member, self._seq, self._last_hash
        linked = []
        for line in lines:
            seq += 1
            body = b"%b%b%d" % (line[:-2], member, seq)
            last_hash = sha256(last_hash + body).hexdigest()[:HASH_DIGITS].encode()
            linked.append(b'%b,"hash":"%b"}\n' % (body, last_hash))
        self._seq, self._last_hash = seq, last_hash
        return linked


def parse_link(line: bytes) -> Link | None:
    """The link at the end of a record, given without its line end; None if it has none."""
    found = _LINK_PATTERN.fullmatch(line, max(line.rfind(b',"writer":"'), 0))
    return found and Link(found[1].decode(), int(found[2]), found[3])


def is_linked_to(line: bytes, link: Link, previous_hash: bytes) -> bool:
    """Whether a record has the hash of its link, after a record with `previous_hash`."""
    digest = sha256(previous_hash + line[:-_HASH_MEMBER_BYTES]).hexdigest()
    return digest[:HASH_DIGITS].encode() == link.hash


def strip_link(line: bytes) -> bytes:
    """A record, given without its line end, as it was before it was linked."""
    at = line.rfind(b',"writer":"')
    return line[:at] + b"}" if at > 0 and _LINK_PATTERN.fullmatch(line, at) else line
