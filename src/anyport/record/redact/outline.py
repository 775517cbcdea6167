"""Outlines of payloads, their keys and types without values, and keyed digests.

In `{"name":s,"arguments":{"path":s,"depth":n}}`, `s` is a string, `n` a number, `b` a boolean, `z`
null. In a list, `{"type":s} x3` means three alike in a row; `...` is left out, and `?` is not JSON.
Every call needs two outlines, so they are cached by keys and types. Any bytes may come; none raise.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b, sha256
from itertools import groupby, islice
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from anyport.record.redact.escape import cut, escape_line

DECODED_BYTES_MAX: Final = 4 * 1024
"""Of a larger payload only the top levels are decoded."""

WHOLE_PART_BYTES_MAX: Final = 2048
"""Parts of a large payload up to this size are decoded completely."""

LEVELS_MAX: Final = 3
"""Levels of a large payload to decode: down to the members of a content item."""

SCANNED_BYTES_MAX: Final = 16 * 1024
"""Of a payload larger than this only the first byte counts: outlines must be cheap in comparison
with the call."""

DIGESTED_BYTES_MAX: Final = 16 * 1024
"""Of a larger payload, the size and half of this from either end are digested."""

DEPTH_MAX: Final = 6
"""Levels shown."""

MEMBERS_MAX: Final = 32
"""Members shown of one object."""

ITEMS_MAX: Final = 64
"""Items read of one list."""

KEY_CHARS_MAX: Final = 64
"""Characters shown of a key."""

KEY_CHARS_READ_MAX: Final = 1024
"""A longer key is not shown at all: it is not a name, and cutting before redacting would leak."""

OUTLINE_CHARS_MAX: Final = 2048
"""Characters of an outline."""

REMEMBERED_MAX: Final = 2048
"""Cached object plans; a full cache is cleared."""

REMEMBERED_KEY_CHARS_MAX: Final = 1024
"""An object with longer keys in total is not cached."""

DECODER_PAYLOAD_BYTES_MAX: Final = 4096
"""The outline of a larger payload is cheap in comparison with the rest of the call."""

DECODER_PARTS_MAX: Final = 64
"""Objects, lists and members of a payload for which a decoder is built."""

DECODERS_MAX: Final = 256
"""Decoders of one gateway: there are many tools, but few shapes of calls."""

_BLOCK_BYTES: Final = 128
"""Block size of BLAKE2b."""

_decode: Final = msgspec.json.Decoder().decode
_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode

_ObjectPlan: TypeAlias = tuple[bytes, tuple[tuple[str, bytes], ...]]
"""Plan for an object: the constant beginning, then each key whose value has an outline of its own,
with the constant text after it."""


class OutlineBuilder:
    """Builds outlines, with a cache of plans."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._plans: dict[tuple[object, ...], _ObjectPlan] = {}

    def outline(self, raw: bytes) -> bytes:
        """The outline, escaped for a JSON string."""
        try:
            value = _decode(raw) if len(raw) <= DECODED_BYTES_MAX else _decode_large(raw)
        except (ValueError, RecursionError):
            return b"?"
        shape = (
            self._outline_object(value, 1) if type(value) is dict else self._outline_value(value, 1)
        )
        return shape if len(shape) <= OUTLINE_CHARS_MAX else _shorten(shape)

    def _outline_object(self, members: dict[str, Any], depth: int) -> bytes:
        kind = (*members, *map(type, members.values()))
        try:
            shape, nested = self._plans[kind]
        except KeyError:
            shape, nested = self._plan_object(members, kind)
        if nested:
            if depth == DEPTH_MAX:
                return b"{...}"
            for key, after in nested:
                shape += self._outline_value(members[key], depth + 1) + after
        return shape

    def _outline_value(self, value: Any, depth: int) -> bytes:
        value_type = type(value)
        if value_type is dict:
            return self._outline_object(value, depth)
        if value_type is not list:
            return _TYPE_LETTERS[value_type]
        if len(value) == 1 and type(value[0]) is dict:  # The usual result of a tool.
            return b"[" + self._outline_object(value[0], depth) + b"]"
        if depth >= DEPTH_MAX and value:
            return b"[...]"
        shapes = [self._outline_value(item, depth + 1) for item in value[:ITEMS_MAX]]
        return _join_items(shapes, len(value) - ITEMS_MAX)

    def _plan_object(self, members: dict[str, Any], kind: tuple[object, ...]) -> _ObjectPlan:
        parts = [b"{"]
        nested = []
        comma = b""
        for key, value in islice(members.items(), MEMBERS_MAX):
            parts[-1] += comma + self._outline_key(key) + b":" + _TYPE_LETTERS.get(type(value), b"")
            if type(value) not in _TYPE_LETTERS:
                nested.append(key)
                parts.append(b"")
            comma = b","
        more = len(members) - MEMBERS_MAX
        parts[-1] += b",... x%d}" % more if more > 0 else b"}"
        plan = parts[0], tuple(zip(nested, parts[1:], strict=True))
        if more <= 0 and sum(map(len, members)) <= REMEMBERED_KEY_CHARS_MAX:
            if len(self._plans) >= REMEMBERED_MAX:
                self._plans.clear()
            self._plans[kind] = plan
        return plan

    def _outline_key(self, key: str) -> bytes:
        """The key in quotes, escaped once for the outline, and once for the string that contains
        it."""
        shown = cut(self._redact(key), KEY_CHARS_MAX) if len(key) <= KEY_CHARS_READ_MAX else "..."
        quoted = escape_line(msgspec.json.encode(shown))
        return msgspec.json.encode(quoted.decode())[1:-1]


class OutlineCache:
    """The outline that payloads of one kind usually have, such as the calls of one tool.

    Whether the next payload has the same outline is decided by a decoder that accepts nothing else,
    which costs a fraction of building the outline. Only the order of keys may differ.
    """

    __slots__ = ("_decode", "_decoders", "_known_outline", "_last_outline")

    def __init__(self, decoders: "OutlineDecoders") -> None:
        self._decoders = decoders
        self._decode = _decode_nothing
        self._known_outline = b""
        self._last_outline = b""
        """Outline of the last payload that differed; one that comes twice gets a decoder."""

    def outline(self, raw: bytes) -> bytes:
        """The outline, escaped for a JSON string."""
        try:
            self._decode(raw)
            return self._known_outline
        except (ValueError, RecursionError):
            outline = self._decoders.outline(raw)
            if outline == self._last_outline and len(raw) <= DECODER_PAYLOAD_BYTES_MAX:
                self._decode, self._known_outline = (
                    self._decoders.decoder_for(outline, raw),
                    outline,
                )
            self._last_outline = outline
            return outline


class OutlineDecoders:
    """Builds decoders that accept the payloads of one outline."""

    def __init__(self, outlines: OutlineBuilder) -> None:
        self.outline = outlines.outline
        self._decoders: dict[bytes, Any] = {}

    def decoder_for(self, outline: bytes, raw: bytes) -> Any:
        """The decoder for an outline; `raw` is a payload that has it."""
        decoder = self._decoders.get(outline)
        if decoder is None:
            decoder = _decode_nothing
            if len(self._decoders) < DECODERS_MAX:
                decoder = self._decoders[outline] = _build_decoder(raw)
        return decoder


class PayloadDigests:
    """Keyed digests of payloads: they are equal for equal payloads, and useless without the key."""

    def __init__(self, key: bytes) -> None:
        # The padded key fills one block, which is digested once and not for every payload.
        self._keyed = blake2b(sha256(key).digest().ljust(_BLOCK_BYTES, b"\0"), digest_size=8)
        self._keyed.update(b"\0")

    def digest(self, raw: bytes) -> bytes:
        """Sixteen hexadecimal digits."""
        digest = self._keyed.copy()
        if len(raw) > DIGESTED_BYTES_MAX:
            half = DIGESTED_BYTES_MAX // 2
            raw = b"%d %b%b" % (len(raw), raw[:half], raw[-half:])
        digest.update(raw)
        return digest.hexdigest().encode()


class _UnreadObject:
    """Stands for an object that was not decoded."""


class _UnreadList:
    """Stands for a list that was not decoded."""


_TYPE_LETTERS: Final[dict[type, bytes]] = {
    str: b"s",
    int: b"n",
    float: b"n",
    bool: b"b",
    type(None): b"z",
    _UnreadObject: b"{...}",
    _UnreadList: b"[...]",
}

_PLACEHOLDERS: Final[dict[bytes, object]] = {
    b"{": _UnreadObject(),
    b"[": _UnreadList(),
    b'"': "",
    **{b"%d" % digit: digit for digit in range(10)},
    b"-": 0,
}
"""By first byte; other values are never large."""


def _decode_large(raw: bytes) -> Any:
    return _decode_partly(raw, LEVELS_MAX if len(raw) <= SCANNED_BYTES_MAX else 0)


def _decode_partly(raw: bytes | msgspec.Raw, levels: int) -> Any:
    """Decode the small parts of a large payload; a placeholder of the right type stands for the
    rest."""
    if memoryview(raw).nbytes <= WHOLE_PART_BYTES_MAX:
        return _decode(raw)
    value = _PLACEHOLDERS.get(bytes(memoryview(raw)[:WHOLE_PART_BYTES_MAX]).lstrip()[:1])
    if value is None:
        raise ValueError("no JSON")
    if levels and type(value) is _UnreadObject:
        members = _decode_object(raw)
        shown = {
            key: _decode_partly(members[key], levels - 1) for key in islice(members, MEMBERS_MAX)
        }
        return dict.fromkeys(members) | shown
    if levels and type(value) is _UnreadList:
        items = _decode_list(raw)
        return [_decode_partly(item, levels - 1) for item in items[:ITEMS_MAX]] + items[ITEMS_MAX:]
    return value


def _join_items(shapes: Sequence[bytes], more: int) -> bytes:
    parts = []
    for shape, alike in groupby(shapes):
        count = sum(1 for _ in alike)
        parts.append(shape if count == 1 else b"%b x%d" % (shape, count))
    if more > 0:
        parts.append(b"... x%d" % more)
    return b"[%b]" % b",".join(parts)


def _shorten(shape: bytes) -> bytes:
    text: str = _decode(b'"%b"' % shape)
    return msgspec.json.encode(text[: OUTLINE_CHARS_MAX - 3] + "...")[1:-1]


def _decode_nothing(raw: bytes) -> None:
    """Initial decoder: accepts nothing."""
    raise ValueError("nothing is known yet")


def _build_decoder(raw: bytes) -> Any:
    try:
        return msgspec.json.Decoder(_PayloadTypeBuilder().build(msgspec.json.decode(raw))).decode
    except (ValueError, RecursionError):
        return _decode_nothing


class _PayloadTypeBuilder:
    """Builds the msgspec type of a payload."""

    def __init__(self) -> None:
        self._part_count = 0

    def build(self, value: Any) -> Any:
        """The type of all values with the outline of this one.

        Raises:
            ValueError: the payload has too many parts.
        """
        self._part_count += 1
        if self._part_count > DECODER_PARTS_MAX:
            raise ValueError("too many parts")
        if isinstance(value, dict):
            fields = [(f"f{place}", self.build(each)) for place, each in enumerate(value.values())]
            names = dict(zip((name for name, _ in fields), value, strict=True))
            return msgspec.defstruct(
                "OutlinedObject", fields, rename=names, forbid_unknown_fields=True, gc=False
            )
        if isinstance(value, list):
            if not value:
                return Annotated[list[None], Meta(max_length=0)]
            return tuple[tuple(self.build(each) for each in value)]  # type: ignore[misc]
        if isinstance(value, bool) or value is None:
            return type(value)
        return str if isinstance(value, str) else int | float
