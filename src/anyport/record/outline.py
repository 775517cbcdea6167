"""What a payload looks like without what it says: keys, types and a keyed hash.

`{"name":s,"arguments":{"path":s,"depth":n}}`: `s` a string, `n` a number, `b` a boolean, `z` null;
`{"type":s} x3` in a list is three alike in a row, `...` what was left out, `?` no JSON at all.
Two outlines are made for every call, so what was said of an object is remembered by its keys
and the types of its values. This file knows nothing of MCP: any bytes may come, and none raise.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b, sha256
from itertools import groupby, islice
from typing import Any, Final, TypeAlias

import msgspec

from anyport.record.text import cut, escape_line

DECODED_BYTES_MAX: Final = 4 * 1024
"""Of a larger payload only the top levels are looked at."""

PART_BYTES_MAX: Final = 2048
"""Of a large payload, what is no larger than this is looked at whole."""

LEVELS_MAX: Final = 3
"""Levels of a large payload that are looked at: down to the members of an item of content."""

SCANNED_BYTES_MAX: Final = 16 * 1024
"""Of a payload larger than this only the first byte is looked at: outlines must cost little in
comparison with the call."""

DIGESTED_BYTES_MAX: Final = 16 * 1024
"""Of a larger payload the size, the first half of this and the last are digested."""

DEPTH_MAX: Final = 6
"""Levels that are shown."""

MEMBERS_MAX: Final = 32
"""Members of one object that are shown."""

ITEMS_MAX: Final = 64
"""Items of one list that are looked at."""

KEY_CHARS_MAX: Final = 64
"""A key is shown up to here."""

KEY_CHARS_READ_MAX: Final = 1024
"""A longer key is not shown at all: it is no name, and cutting before redacting would leak."""

OUTLINE_CHARS_MAX: Final = 2048
"""An outline is cut here."""

REMEMBERED_MAX: Final = 2048
"""Objects of different keys and types that are remembered; then all are forgotten at once."""

REMEMBERED_KEY_CHARS_MAX: Final = 1024
"""An object with more text in its keys is not remembered."""

_BLOCK_BYTES: Final = 128
"""Of BLAKE2b."""
_decode: Final = msgspec.json.Decoder().decode
_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


_Plan: TypeAlias = tuple[bytes, tuple[tuple[str, bytes], ...]]
"""How an object is outlined: what comes first, then each key whose value has an outline of its
own, with what comes after that."""


def outline(raw: bytes) -> str:
    """The outline of one payload, as text."""
    text: str = _decode(b'"%b"' % Outlines(str).of(raw))
    return text


class Outlines:
    """Makes outlines, and remembers what it can."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._remembered: dict[tuple[object, ...], _Plan] = {}

    def of(self, raw: bytes) -> bytes:
        """The outline, escaped so that it can stand inside a JSON string."""
        try:
            value = _decode(raw) if len(raw) <= DECODED_BYTES_MAX else _large(raw)
        except (ValueError, RecursionError):
            return b"?"
        shape = self._object(value, 1) if type(value) is dict else self._any(value, 1)
        return shape if len(shape) <= OUTLINE_CHARS_MAX else _shortened(shape)

    def _object(self, members: dict[str, Any], depth: int) -> bytes:
        kind = (*members, *map(type, members.values()))
        try:
            shape, nested = self._remembered[kind]
        except KeyError:
            shape, nested = self._planned(members, kind)
        if nested:
            if depth == DEPTH_MAX:
                return b"{...}"
            for key, after in nested:
                shape += self._any(members[key], depth + 1) + after
        return shape

    def _any(self, value: Any, depth: int) -> bytes:
        sort = type(value)
        if sort is dict:
            return self._object(value, depth)
        if sort is not list:
            return _LETTERS[sort]
        if len(value) == 1 and type(value[0]) is dict:  # The usual result of a tool.
            return b"[" + self._object(value[0], depth) + b"]"
        if depth >= DEPTH_MAX and value:
            return b"[...]"
        shapes = [self._any(item, depth + 1) for item in value[:ITEMS_MAX]]
        return _list_of(shapes, len(value) - ITEMS_MAX)

    def _planned(self, members: dict[str, Any], kind: tuple[object, ...]) -> _Plan:
        pieces = [b"{"]
        nested = []
        comma = b""
        for key, value in islice(members.items(), MEMBERS_MAX):
            pieces[-1] += comma + self._key(key) + b":" + _LETTERS.get(type(value), b"")
            if type(value) not in _LETTERS:
                nested.append(key)
                pieces.append(b"")
            comma = b","
        more = len(members) - MEMBERS_MAX
        pieces[-1] += b",... x%d}" % more if more > 0 else b"}"
        plan = pieces[0], tuple(zip(nested, pieces[1:], strict=True))
        if more <= 0 and sum(map(len, members)) <= REMEMBERED_KEY_CHARS_MAX:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[kind] = plan
        return plan

    def _key(self, key: str) -> bytes:
        """The key in quotes, escaped once as part of the outline and once for where that goes."""
        shown = cut(self._redact(key), KEY_CHARS_MAX) if len(key) <= KEY_CHARS_READ_MAX else "..."
        quoted = escape_line(msgspec.json.encode(shown))
        return msgspec.json.encode(quoted.decode())[1:-1]


class Digests:
    """Tells equal payloads from different ones, to nobody who does not have the key."""

    def __init__(self, key: bytes) -> None:
        # The key fills a block of its own and is digested once, not with every payload.
        self._keyed = blake2b(sha256(key).digest().ljust(_BLOCK_BYTES, b"\0"), digest_size=8)
        self._keyed.update(b"\0")

    def of(self, raw: bytes) -> bytes:
        """Sixteen hexadecimal digits, equal for equal bytes."""
        digest = self._keyed.copy()
        if len(raw) > DIGESTED_BYTES_MAX:
            half = DIGESTED_BYTES_MAX // 2
            raw = b"%d %b%b" % (len(raw), raw[:half], raw[-half:])
        digest.update(raw)
        return digest.hexdigest().encode()


class _Object:
    """Stands for an object that was not looked into."""


class _List:
    """Stands for a list that was not looked into."""


_LETTERS: Final[dict[type, bytes]] = {
    str: b"s",
    int: b"n",
    float: b"n",
    bool: b"b",
    type(None): b"z",
    _Object: b"{...}",
    _List: b"[...]",
}
_STAND_INS: Final[dict[bytes, object]] = {
    b"{": _Object(),
    b"[": _List(),
    b'"': "",
    **{b"%d" % digit: digit for digit in range(10)},
    b"-": 0,
}
"""By the first byte; nothing else is ever large."""


def _large(raw: bytes) -> Any:
    return _abridged(raw, LEVELS_MAX if len(raw) <= SCANNED_BYTES_MAX else 0)


def _abridged(raw: bytes | msgspec.Raw, levels: int) -> Any:
    """A large payload decoded as far as it is small; what has its type stands for the rest."""
    if memoryview(raw).nbytes <= PART_BYTES_MAX:
        return _decode(raw)
    value = _STAND_INS.get(bytes(memoryview(raw)[:PART_BYTES_MAX]).lstrip()[:1])
    if value is None:
        raise ValueError("no JSON")
    if levels and type(value) is _Object:
        members = _decode_object(raw)
        shown = {key: _abridged(members[key], levels - 1) for key in islice(members, MEMBERS_MAX)}
        return dict.fromkeys(members) | shown
    if levels and type(value) is _List:
        items = _decode_list(raw)
        return [_abridged(item, levels - 1) for item in items[:ITEMS_MAX]] + items[ITEMS_MAX:]
    return value


def _list_of(shapes: Sequence[bytes], more: int) -> bytes:
    parts = []
    for shape, alike in groupby(shapes):
        count = sum(1 for _ in alike)
        parts.append(shape if count == 1 else b"%b x%d" % (shape, count))
    if more > 0:
        parts.append(b"... x%d" % more)
    return b"[%b]" % b",".join(parts)


def _shortened(shape: bytes) -> bytes:
    text: str = _decode(b'"%b"' % shape)
    return msgspec.json.encode(text[: OUTLINE_CHARS_MAX - 3] + "...")[1:-1]
