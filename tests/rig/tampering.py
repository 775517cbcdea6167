"""Sealed texts, changed a little: what an attacker tries with what he was given."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from itertools import cycle
from random import Random


def changes(good: str, other: str, chance: Random, count: int) -> Iterator[str]:
    """A text, changed a little each time."""
    raw, strange = bytearray(decoded(good)), decoded(other)
    ways = cycle((flipped, cut, lengthened, respelled, renamed, mixed))
    while count:
        changed = next(ways)(raw, strange, chance)
        if changed not in (good, other):
            count -= 1
            yield changed


def flipped(raw: bytearray, _: bytes, chance: Random) -> str:
    turned = bytearray(raw)
    for _time in range(chance.choice((1, 1, 1, 2, 8))):
        turned[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    return encoded(turned)


def cut(raw: bytearray, _: bytes, chance: Random) -> str:
    place = chance.randrange(len(raw))
    return encoded(chance.choice((raw[:place], raw[place + 1 :], raw[:place] + raw[place + 1 :])))


def lengthened(raw: bytearray, _: bytes, chance: Random) -> str:
    place = chance.randrange(len(raw) + 1)
    return encoded(raw[:place] + chance.randbytes(chance.randrange(1, 9)) + raw[place:])


def respelled(raw: bytearray, _: bytes, chance: Random) -> str:
    """The same, in a spelling that is not ours, or one character off."""
    text = encoded(raw)
    place = chance.randrange(len(text))
    mark = chance.choice("=+/ \n\t.,Aa0é\0" + text)
    return chance.choice(
        (text[:place] + mark + text[place:], text[:place] + mark + text[place + 1 :])
    )


def renamed(raw: bytearray, strange: bytes, chance: Random) -> str:
    """Under the id of another key: one that is known, or any."""
    return encoded(chance.choice((strange[:2], chance.randbytes(2))) + raw[2:])


def mixed(raw: bytearray, strange: bytes, chance: Random) -> str:
    """The beginning of one and the end of another, which is sealed with another key."""
    place = chance.randrange(1, min(len(raw), len(strange)))
    return encoded(chance.choice((raw[:place] + strange[place:], strange[:place] + raw[place:])))


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encoded(raw: bytes | bytearray) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
