"""Raw JSON objects: find and replace members without decoding the rest.

A payload is never decoded and encoded again. Only the bytes that must change are replaced, so
unknown members, number literals, key order and whitespace survive.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Raw

Span = tuple[int, int]
"""Where the value of a member is: its first byte, and the byte after its last."""

MEMBERS_MAX: Final = 1024
"""Members of a message, of its params and of their `_meta`: none in use has fifty, and each is
looked at more than once."""
MEMBERS_WALKED_MAX: Final = 64
"""Larger objects are not walked member by member: only the members that change are looked at."""
CHANGES_PLACED_MAX: Final = 16
"""With more changes than this, a large object is encoded again: finding each place is linear."""
FOLDED_NAME_SETS_MAX: Final = 64
"""Sets of known names; the code has a dozen."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_TEXT: Final = msgspec.json.Decoder(str)
_count_members: Final = json.JSONDecoder(
    object_pairs_hook=len, parse_int=len, parse_float=len, strict=False
).decode
"""Counts the members of an object, duplicates included."""
_NAME: Final = re.compile(
    rb'[ \t\r\n]*("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL
)
_SEPARATOR: Final = re.compile(rb"[ \t\r\n]*([,}])")


class AmbiguousObject(ValueError):
    """The object has a duplicate member, or more members than can be looked at.

    Parsers disagree on which of two duplicates counts. A gateway that judges one and forwards both
    could be talked past its own rules.
    """


def members(raw: bytes | Raw) -> dict[str, Raw]:
    """The members of an object, values raw. The last duplicate wins.

    Raises:
        msgspec.DecodeError: not a JSON object.
    """
    return _OBJECT.decode(raw)


def unique_members(raw: bytes) -> dict[str, Raw]:
    """The members of an object, values raw, each name once.

    Raises:
        msgspec.DecodeError: not a JSON object.
        AmbiguousObject: a duplicate member, or too many members.
    """
    values = _OBJECT.decode(raw)
    if len(values) > MEMBERS_MAX:
        raise AmbiguousObject(f"more than {MEMBERS_MAX} members")
    if not _is_compact(raw, values):
        _reject_duplicates(raw, values)
    return values


def spans(raw: bytes) -> dict[str, Span]:
    """Where the value of each member is in `raw`.

    Raises:
        msgspec.DecodeError: not a JSON object.
        AmbiguousObject: a duplicate member.
    """
    return _spans(raw, _OBJECT.decode(raw))


def _spans(raw: bytes, values: Mapping[str, Raw]) -> dict[str, Span]:
    if not _is_compact(raw, values):
        return _walk_spans(raw, values)
    value_spans: dict[str, Span] = {}
    end = 0
    for name, value in values.items():
        start = end + len(name) + 4
        end = start + len(value)
        value_spans[name] = (start, end)
    return value_spans


def find_lookalike(names: Iterable[str], known: frozenset[str]) -> str | None:
    """The first name that is not known but that some parser takes for a known one.

    Some SDK parsers ignore case or end a name at a NUL. What they read as `method` must not pass
    the gateway as an unknown member.
    """
    return next(iter(_find_lookalikes(names, known)), None)


def remove_lookalikes(raw: bytes, known: frozenset[str], members_max: int = MEMBERS_MAX) -> bytes:
    """Remove the members that some parser takes for one of the known ones.

    Returns the very same object if there are none; otherwise the last duplicate wins.

    Raises:
        msgspec.DecodeError: not a JSON object.
        AmbiguousObject: too many members.
    """
    values = members(raw)
    if len(values) > members_max:
        raise AmbiguousObject(f"more than {members_max} members")
    if values.keys() <= known:
        return raw
    lookalikes = frozenset(_find_lookalikes(values, known))
    return (
        encode_object(item for item in values.items() if item[0] not in lookalikes)
        if lookalikes
        else raw
    )


def _find_lookalikes(names: Iterable[str], known: frozenset[str]) -> list[str]:
    unknown, folded = [name for name in names if name not in known], _fold_names(known)
    if folded.isdisjoint(map(str.casefold, unknown)) and "\0" not in "".join(unknown):
        return []
    return [name for name in unknown if _fold_name(name) in folded]


def edit(raw: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """Set members (bytes) or remove them (None).

    Every other value keeps its bytes and its place; new members come last. Whitespace between
    members survives too, unless a member is removed or the object is large.
    """
    values = _OBJECT.decode(raw)
    if len(values) > MEMBERS_WALKED_MAX:
        return _edit_many(raw, values, changes)
    value_spans = _spans(raw, values)
    added = [
        (name, value)
        for name, value in changes.items()
        if value is not None and name not in value_spans
    ]
    if any(value is None and name in value_spans for name, value in changes.items()):
        kept = [
            (name, changes.get(name, raw[start:end])) for name, (start, end) in value_spans.items()
        ]
        return encode_object([(name, value) for name, value in kept if value is not None] + added)
    pieces: list[bytes] = []
    at = 0
    for name, (start, end) in value_spans.items():
        value = changes.get(name)
        if value is not None:
            pieces += (raw[at:start], value)
            at = end
    if added:
        close = raw.rindex(b"}")
        pieces += (raw[at:close], b"," if value_spans else b"", encode_object(added)[1:-1])
        at = close
    pieces.append(raw[at:])
    return b"".join(pieces)


def _edit_many(raw: bytes, values: dict[str, Raw], changes: Mapping[str, bytes | None]) -> bytes:
    """`edit` for an object of many members: only those that change cost time."""
    if not _is_compact(raw, values):
        _reject_duplicates(raw, values)
        raw = encode_object(values.items())
    # Names with escapes take more bytes than characters.
    if len(changes) > CHANGES_PLACED_MAX or not _is_compact(raw, values):
        kept = {name: changes.get(name, bytes(value)) for name, value in values.items()}
        kept.update(changes)
        return encode_object([(name, value) for name, value in kept.items() if value is not None])
    names, sizes = [*values], [*map(len, values.values())]
    pieces: list[bytes] = []
    at = 1
    source = raw[:-1] + b","  # So that every member ends with a comma.
    for index in sorted(names.index(name) for name in changes if name in values):
        name = names[index]
        start = 1 + sum(map(len, names[:index])) + sum(sizes[:index]) + 4 * index
        value = changes[name]
        pieces += (
            source[at:start],
            b"" if value is None else b"%b:%b," % (encode_string(name), value),
        )
        at = start + len(name) + 4 + sizes[index]
    pieces.append(source[at:])
    pieces += [
        b"%b:%b," % (encode_string(name), value)
        for name, value in changes.items()
        if value is not None and name not in values
    ]
    return b"{%b}" % b"".join(pieces)[:-1]


def replace_member(raw: bytes, name: str, current: Raw | bytes, value: bytes | None) -> bytes:
    """Set or remove one member whose value is known, in an object without duplicates.

    Members that change are nearly always first or last and found without parsing: a quoted name
    between a comma and a colon can only be a member's.
    """
    current_bytes = bytes(current)
    opening = b'{"%b":%b' % (name.encode(), current_bytes)
    if raw.startswith(opening) and value is not None:
        return b'{"%b":%b%b' % (name.encode(), value, raw[len(opening) :])
    closing = b',"%b":%b}' % (name.encode(), current_bytes)
    if raw.endswith(closing):
        if value is None:
            return raw[: -len(closing)] + b"}"
        return b'%b,"%b":%b}' % (raw[: -len(closing)], name.encode(), value)
    return edit(raw, {name: value})


def append(raw: bytes, named: Mapping[str, bytes]) -> bytes:
    """Append members that the object is known not to have."""
    if raw[:2] != b'{"':
        return edit(raw, named)  # Empty, or with leading whitespace: it has to be parsed.
    return b"%b,%b" % (raw[:-1], encode_object(named.items())[1:])


def encode_object(named: Iterable[tuple[str, bytes | Raw]]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (encode_string(name), value) for name, value in named)


def encode_string(value: str) -> bytes:
    return msgspec.json.encode(value)


def decode_string(raw: Raw | None) -> str | None:
    """The text of a JSON string; None for any other value."""
    if raw is None or bytes(raw)[:1] != b'"':
        return None
    return _TEXT.decode(raw)


@lru_cache(FOLDED_NAME_SETS_MAX)
def _fold_names(names: frozenset[str]) -> frozenset[str]:
    return frozenset(map(_fold_name, names))


def _fold_name(name: str) -> str:
    return name.partition("\0")[0].casefold()


def _is_compact(raw: bytes, values: Mapping[str, Raw]) -> bool:
    """Whether the source is compact: exactly these members and no whitespace.

    Every member takes its name, its value, two quotes, a colon and a comma or brace. Whitespace,
    escapes in names and duplicates that the decoder dropped only make the source longer, so the
    length alone decides.
    """
    least = sum(map(len, values)) + sum(map(len, values.values())) + 4 * len(values) + 1
    return len(raw) == least


def _reject_duplicates(raw: bytes, values: Mapping[str, Raw]) -> None:
    """Check that an object which is not compact has no duplicates."""
    if len(values) <= MEMBERS_WALKED_MAX:
        _walk_spans(raw, values)
    elif _count_members(raw.decode()) != len(values):
        raise AmbiguousObject("a member is repeated")


def _walk_spans(raw: bytes, values: Mapping[str, Raw]) -> dict[str, Span]:
    """The spans of an object which is not compact.

    For duplicates the decoder keeps the first place and the last value. So each member must be in
    the source with the name and the value that the decoder reports: no JSON value is a prefix of
    another, except numbers, and a separator must follow.
    """
    value_spans: dict[str, Span] = {}
    at, after = raw.index(b"{") + 1, b"}"
    for name, value in values.items():
        token = _NAME.match(raw, at)
        if token is None or not _is_spelling_of(token[1], name):
            raise AmbiguousObject(f"a member is repeated before {name!r}")
        start = token.end()
        end = start + len(value)
        following = _SEPARATOR.match(raw, end)
        if following is None or not raw.startswith(bytes(value), start):
            raise AmbiguousObject(f"the member {name!r} is repeated")
        value_spans[name] = (start, end)
        at, after = following.end(), following[1]
    if after != b"}":
        raise AmbiguousObject("a member is repeated")
    return value_spans


def _is_spelling_of(quoted: bytes, name: str) -> bool:
    return quoted[1:-1] == name.encode() or _TEXT.decode(quoted) == name
