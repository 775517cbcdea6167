"""The ids of a run of events, side by side in one block of bytes, and how to find one there.

Ids are drawn by chance: a sorted index of them would be written to at a place of its own for every
event. A block is only ever added to, and going through a million ids takes some hundredths of a
second. Knows neither events nor the database.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

DIGITS: Final = 64
"""Hexadecimal ones, for one event: 32 of its trace, 16 of its span, 16 for its session."""

SIZE: Final = DIGITS // 2
NO_ID: Final = "0" * 16

PREFIX_DIGITS_MIN: Final = 4
"""A shorter beginning is that of too many ids to look for them one by one."""

_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Field:
    """One of the ids of an event: which bytes it has."""

    start: int
    size: int


TRACE: Final = Field(0, 16)
SPAN: Final = Field(16, 8)
SESSION: Final = Field(24, 8)


def session_digits(session: str) -> str:
    """What stands for a session. Its name may be of any length; this tells it from others."""
    return blake2b(session.encode(errors="surrogatepass"), digest_size=SESSION.size).hexdigest()


def is_plain(text: str, field: Field) -> bool:
    """Whether an id can stand in a block as it is."""
    return len(text) == field.size * 2 and _HEX.issuperset(text)


def numbers(block: bytes, field: Field, beginning: str) -> Iterator[int]:
    """Which events of a block, counted from 0, have an id that begins with these digits."""
    if len(beginning) > field.size * 2 or not _HEX.issuperset(beginning):
        return
    whole = bytes.fromhex(beginning[: len(beginning) & ~1])
    absent = bytes(field.size)
    at = block.find(whole)
    while at >= 0:
        number, offset = divmod(at, SIZE)
        if offset == field.start:
            found = block[at : at + field.size]
            if found != absent and found.hex().startswith(beginning):
                yield number
        at = block.find(whole, at + 1)
