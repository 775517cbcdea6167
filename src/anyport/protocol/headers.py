"""What a modern request repeats in its HTTP header fields, for those who do not read bodies.

The values of `Mcp-Name` and `Mcp-Param-*`, and the `x-mcp-header` annotations that say which
arguments of a tool become fields. Pure: no idea of connections, nor of whose tool it is.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from anyport.protocol.extension import EXTENSIONS
from anyport.wire import members

ANNOTATION: Final = "x-mcp-header"
PARAM_PREFIX: Final = "Mcp-Param-"
NAMED_BY: Final[Mapping[str, str]] = MappingProxyType(
    {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    | {
        method: row.named_by
        for row in EXTENSIONS.values()
        if row.named_by is not None
        for method in row.methods
    }
)
"""The methods that need an `Mcp-Name`, and the member of their params that it repeats."""

Path = tuple[str, ...]
Annotations = Mapping[str, Path]
"""Header name, as the schema spells it without the prefix, to where its argument lies."""

NO_ANNOTATIONS: Final[Annotations] = MappingProxyType({})

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")
_WRAPPED: Final = ("=?base64?", "?=")

_INSIDE: Final = frozenset(
    (
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"),
        *("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
"""Keywords of JSON Schema that hold a schema."""
_INSIDE_LIST: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_INSIDE_MAP: Final = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))


def encode_value(text: str) -> str:
    """A field value that carries any text: as it is where HTTP leaves it alone, else wrapped."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not (text.startswith(_WRAPPED[0]) and text.endswith(_WRAPPED[1])):
        return text
    return base64.b64encode(text.encode()).decode("ascii").join(_WRAPPED)


def decode_value(raw: str) -> str | None:
    """The text in a field value; None if it is wrapped, but not as anyone would wrap it."""
    opened, closed = _WRAPPED
    if len(raw) < len(opened + closed) or not (raw.startswith(opened) and raw.endswith(closed)):
        return raw
    wrapped = raw[len(opened) : -len(closed)]
    try:
        inside = base64.b64decode(wrapped, validate=True)
        text = inside.decode()
    except (binascii.Error, ValueError):
        return None
    # Two spellings of one value would let two readers see two values.
    return text if base64.b64encode(inside).decode("ascii") == wrapped else None


def annotations(input_schema: bytes) -> Annotations | str:
    """Which arguments of a tool become fields; a sentence if an annotation is invalid."""
    if ANNOTATION.encode() not in input_schema and rb"\u" not in input_schema:
        return NO_ANNOTATIONS
    try:
        schema = msgspec.json.decode(input_schema)
    except (msgspec.DecodeError, RecursionError):
        return NO_ANNOTATIONS
    found: dict[str, Path] = {}
    known: set[str] = set()
    for path, part in _positions(schema):
        if ANNOTATION not in part:
            continue
        name = part[ANNOTATION]
        fault = _fault(path, name, part.get("type"))
        if fault is None and name.lower() in known:
            fault = f"{name!r} stands twice"
        if fault is not None or path is None:
            return f"{ANNOTATION}: {fault}"
        known.add(name.lower())
        found[name] = path
    return found


def param_fields(annotated: Annotations, arguments: bytes) -> list[tuple[str, str]]:
    """The fields that repeat these arguments: names with the prefix, values ready to be sent."""
    if not annotated:
        return []
    fields: list[tuple[str, str]] = []
    for name, path in annotated.items():
        value = _shown(_value(arguments, path))
        if value is not None:
            fields.append((PARAM_PREFIX + name, encode_value(value)))
    return fields


def disagreement(annotated: Annotations, arguments: bytes, sent: Mapping[str, str]) -> str | None:
    """How the fields that were sent contradict the arguments; None if they do not.

    `sent` is keyed by the whole field name in lower case. Fields that the tool does not define
    are nobody's business here.
    """
    for name, path in annotated.items():
        field = PARAM_PREFIX + name
        raw = sent.get(field.lower())
        argument = _value(arguments, path)
        expected = _shown(argument)
        where = ".".join(path)
        if raw is None:
            if expected is not None:
                return f"{field} is missing, but the argument {where!r} is there"
            continue
        text = decode_value(raw)
        if text is None:
            return f"{field} is not encoded properly"
        if expected is None:
            return f"{field} is there, but the argument {where!r} is not"
        if text != expected and not _same_number(text, expected, argument):
            return f"{field} is not what the argument {where!r} says"
    return None


def _positions(root: Any) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Every schema within a schema, with its chain of property names.

    None in place of a chain once anything but `properties` has been passed: what an instance has
    there cannot be known from the schema alone. References are not followed.
    """
    pending: list[tuple[Path | None, Any]] = [((), root)]
    while pending:
        path, part = pending.pop()
        if not isinstance(part, dict):
            continue
        yield path, part
        for keyword, inside in part.items():
            if keyword == "properties" and isinstance(inside, dict):
                pending += (
                    (None if path is None else (*path, name), schema)
                    for name, schema in inside.items()
                )
            elif keyword in _INSIDE_LIST and isinstance(inside, list):
                pending += ((None, schema) for schema in inside)
            elif keyword in _INSIDE_MAP and isinstance(inside, dict):
                pending += ((None, schema) for schema in inside.values())
            elif keyword in _INSIDE:
                pending.append((None, inside))


def _fault(path: Path | None, name: Any, kind: Any) -> str | None:
    if not path:
        return "it may only stand on a property that `properties` alone lead to"
    where = ".".join(path)
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        return f"the one of {where!r} is not a header name"
    if kind not in ("string", "integer", "boolean"):
        return f"{where!r} must be a string, an integer or a boolean"
    return None


def _value(arguments: bytes, path: Path) -> bytes:
    """The raw argument at the end of a path; empty if there is none."""
    raw = arguments
    for name in path:
        if raw[:1] != b"{":
            return b""
        found = members.members(raw).get(name)
        if found is None:
            return b""
        raw = bytes(found)
    return raw


def _shown(raw: bytes) -> str | None:
    """An argument as text; None for what has none, null included."""
    if raw[:1] == b'"':
        return members.string(msgspec.Raw(raw))
    if raw in (b"true", b"false"):
        return raw.decode()
    if raw[:1] not in b"-0123456789" or not raw:
        return None
    text = raw.decode()
    if raw.removeprefix(b"-").isdigit() or not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    return str(int(number)) if number.is_integer() else text


def _same_number(text: str, expected: str, argument: bytes) -> bool:
    """Whether two texts mean one number: 42 and 42.0 do."""
    if argument[:1] == b'"' or not (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(expected)):
        return False
    if text.lstrip("-").isdigit() and expected.lstrip("-").isdigit():
        return int(text) == int(expected)
    return float(text) == float(expected)
