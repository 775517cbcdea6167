"""Raw JSON objects: where their members lie, and surgery on them.

A payload is never decoded and encoded again: unknown members, number text, key order and white
space survive because only the bytes that must change are cut out and replaced. This file knows
JSON objects; it does not know what any member means.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

Span = tuple[int, int]
"""Where a member's value lies: first byte, and the byte after its last."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_NAME: Final = re.compile(
    rb'[ \t\r\n]*("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL
)
_AFTER: Final = re.compile(rb"[ \t\r\n]*([,}])")


class Ambiguous(ValueError):
    """The object names a member twice.

    Parsers disagree on which of two members counts, so a gateway that judged one and forwarded
    both could be talked past its own rules.
    """


def members(raw: bytes | Raw) -> dict[str, Raw]:
    """The object's members, values untouched; of equal names, the last.

    Raises:
        msgspec.DecodeError: not a JSON object.
    """
    return _OBJECT.decode(raw)


def distinct(raw: bytes) -> dict[str, Raw]:
    """The object's members, values untouched, each name once.

    Raises:
        msgspec.DecodeError: not a JSON object.
        Ambiguous: a name stands twice.
    """
    found = _OBJECT.decode(raw)
    if not _compact(raw, found):
        _walk(raw, found)
    return found


def spans(raw: bytes) -> dict[str, Span]:
    """Where each member's value lies in `raw`.

    Raises:
        msgspec.DecodeError: not a JSON object.
        Ambiguous: a name stands twice.
    """
    values = _OBJECT.decode(raw)
    if not _compact(raw, values):
        return _walk(raw, values)
    found: dict[str, Span] = {}
    end = 0
    for name, value in values.items():
        start = end + len(name) + 4
        end = start + len(value)
        found[name] = (start, end)
    return found


def lookalike(names: Iterable[str], known: frozenset[str]) -> str | None:
    """The first name that is none of the known ones but that some parser takes for one.

    Parsers that ignore case, or end a name at a NUL, exist in SDKs; what they read as `method`
    must not pass us as an unknown member.
    """
    for name in names:
        if name not in known and name.partition("\0")[0].casefold() in known:
            return name
    return None


def edit(raw: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """The same object with these members set (bytes) or left out (None).

    Every other value keeps its bytes and its place; new members come last. White space between
    members survives too, unless one is left out.
    """
    found = spans(raw)
    fresh = [
        (name, value) for name, value in changes.items() if value is not None and name not in found
    ]
    if any(value is None and name in found for name, value in changes.items()):
        kept = [(name, changes.get(name, raw[start:end])) for name, (start, end) in found.items()]
        return join([(name, value) for name, value in kept if value is not None] + fresh)
    pieces: list[bytes] = []
    at = 0
    for name, (start, end) in found.items():
        value = changes.get(name)
        if value is not None:
            pieces += (raw[at:start], value)
            at = end
    if fresh:
        close = raw.rindex(b"}")
        pieces += (raw[at:close], b"," if found else b"", join(fresh)[1:-1])
        at = close
    pieces.append(raw[at:])
    return b"".join(pieces)


def put(raw: bytes, name: str, current: Raw | bytes, value: bytes | None) -> bytes:
    """The same object with one of its members, whose value is known, set or left out.

    The object must be known to name each member once. A member that stands first or last, as
    those that change nearly always do, is found without reading the others: a name in quotes
    with a comma before and a colon behind it can only be a member's.
    """
    now = bytes(current)
    opening = b'{"%b":%b' % (name.encode(), now)
    if raw.startswith(opening) and value is not None:
        return b'{"%b":%b%b' % (name.encode(), value, raw[len(opening) :])
    closing = b',"%b":%b}' % (name.encode(), now)
    if raw.endswith(closing):
        if value is None:
            return raw[: -len(closing)] + b"}"
        return b'%b,"%b":%b}' % (raw[: -len(closing)], name.encode(), value)
    return edit(raw, {name: value})


def append(raw: bytes, named: Mapping[str, bytes]) -> bytes:
    """The same object with members at its end that it is known not to have."""
    if raw[:2] != b'{"':
        return edit(raw, named)  # Empty, or with white space in front: it has to be looked at.
    return b"%b,%b" % (raw[:-1], join(named.items())[1:])


def join(named: Iterable[tuple[str, bytes]]) -> bytes:
    """An object made of raw member values."""
    return b"{%b}" % b",".join(b"%b:%b" % (text(name), value) for name, value in named)


def text(value: str) -> bytes:
    """A JSON string."""
    return msgspec.json.encode(value)


def string(raw: Raw | None) -> str | None:
    """The text of a JSON string; None for any other value, and for none."""
    if raw is None or bytes(raw)[:1] != b'"':
        return None
    return _TEXT.decode(raw)


def _compact(raw: bytes, values: Mapping[str, Raw]) -> bool:
    """Whether the source is exactly these members, with nothing between them.

    Every member takes its name, its value, two quotes, a colon and a comma or brace. White space,
    escapes in names and members that the decoder dropped because a later one has the same name
    only make the source longer, so its length alone tells.
    """
    least = sum(map(len, values)) + sum(map(len, values.values())) + 4 * len(values) + 1
    return len(raw) == least


def _walk(raw: bytes, values: Mapping[str, Raw]) -> dict[str, Span]:
    """The spans in a source with white space, escapes or duplicates.

    Of equal names the decoder keeps the first place and the last value. So each member must
    stand in the source with the name and the value that the decoder gave it: no JSON value is
    the beginning of another, save numbers, and what follows must end the member.
    """
    found: dict[str, Span] = {}
    at, after = raw.index(b"{") + 1, b"}"
    for name, value in values.items():
        token = _NAME.match(raw, at)
        if token is None or not _spells(token[1], name):
            raise Ambiguous(f"a member stands twice before {name!r}")
        start = token.end()
        end = start + len(value)
        following = _AFTER.match(raw, end)
        if following is None or not raw.startswith(bytes(value), start):
            raise Ambiguous(f"the member {name!r} stands twice")
        found[name] = (start, end)
        at, after = following.end(), following[1]
    if after != b"}":
        raise Ambiguous("a member stands twice")
    return found


def _spells(quoted: bytes, name: str) -> bool:
    return quoted[1:-1] == name.encode() or _TEXT.decode(quoted) == name
