"""HTTP headers that repeat parts of a modern request: `Mcp-Name`, `Mcp-Param-*`, and `x-mcp-header`
annotations in tool schemas."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from anyport.protocol.extensions import EXTENSIONS
from anyport.wire import raw_json

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
"""Methods that need an `Mcp-Name`, and the member of params that it repeats."""

Path = tuple[str, ...]
Annotations = Mapping[str, Path]
"""Header name without prefix, as the schema spells it, and the path to its argument."""

NO_ANNOTATIONS: Final[Annotations] = MappingProxyType({})

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?")
_BASE64_MARKS: Final = ("=?base64?", "?=")

_SCHEMA_KEYWORDS: Final = frozenset(
    (
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
"""JSON Schema keywords that hold a schema."""
_SCHEMA_LIST_KEYWORDS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_SCHEMA_MAP_KEYWORDS: Final = frozenset(
    ("patternProperties", "dependentSchemas", "$defs", "definitions")
)


def encode_value(text: str) -> str:
    """Encode any text as a field value: plain if HTTP allows, else base64."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not (text.startswith(_BASE64_MARKS[0]) and text.endswith(_BASE64_MARKS[1])):
        return text
    return base64.b64encode(text.encode()).decode("ascii").join(_BASE64_MARKS)


def decode_value(raw: str) -> str | None:
    """Decode a field value; None if its base64 is not canonical."""
    opened, closed = _BASE64_MARKS
    if len(raw) < len(opened + closed) or not (raw.startswith(opened) and raw.endswith(closed)):
        return raw
    wrapped = raw[len(opened) : -len(closed)]
    try:
        decoded = base64.b64decode(wrapped, validate=True)
        text = decoded.decode()
    except (binascii.Error, ValueError):
        return None
    # Two spellings of one value would let two readers see two values.
    return text if base64.b64encode(decoded).decode("ascii") == wrapped else None


def read_annotations(input_schema: bytes) -> Annotations | str:
    """The header annotations in a tool's input schema, or why they are invalid."""
    if ANNOTATION.encode() not in input_schema and rb"\u" not in input_schema:
        return NO_ANNOTATIONS
    try:
        schema = msgspec.json.decode(input_schema)
    except (msgspec.DecodeError, RecursionError):
        return NO_ANNOTATIONS
    paths: dict[str, Path] = {}
    names_seen: set[str] = set()
    for path, node in _iter_schemas(schema):
        if ANNOTATION not in node:
            continue
        name = node[ANNOTATION]
        fault = _find_annotation_fault(path, name, node.get("type"))
        if fault is None and name.lower() in names_seen:
            fault = f"{name!r} is used twice"
        if fault is not None or path is None:
            return f"{ANNOTATION}: {fault}"
        names_seen.add(name.lower())
        paths[name] = path
    return paths


def encode_param_fields(annotated: Annotations, arguments: bytes) -> list[tuple[str, str]]:
    """The `Mcp-Param-*` fields for these arguments."""
    if not annotated:
        return []
    fields: list[tuple[str, str]] = []
    for name, path in annotated.items():
        value = _as_text(_argument_at(arguments, path))
        if value is not None:
            fields.append((PARAM_PREFIX + name, encode_value(value)))
    return fields


def find_disagreement(
    annotated: Annotations, arguments: bytes, sent: Mapping[str, str]
) -> str | None:
    """How `Mcp-Param-*` fields contradict the arguments; None if they agree.

    `sent` is keyed by lower-case field names. Fields that the tool does not define are ignored.
    """
    for name, path in annotated.items():
        field = PARAM_PREFIX + name
        raw = sent.get(field.lower())
        argument = _argument_at(arguments, path)
        expected = _as_text(argument)
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


def _iter_schemas(root: Any) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Yield every subschema with its path of property names.

    The path is None below any keyword other than `properties`: its place in the arguments is not
    known from the schema. References are not followed.
    """
    pending: list[tuple[Path | None, Any]] = [((), root)]
    while pending:
        path, node = pending.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, child in node.items():
            if keyword == "properties" and isinstance(child, dict):
                pending += (
                    (None if path is None else (*path, name), schema)
                    for name, schema in child.items()
                )
            elif keyword in _SCHEMA_LIST_KEYWORDS and isinstance(child, list):
                pending += ((None, schema) for schema in child)
            elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(child, dict):
                pending += ((None, schema) for schema in child.values())
            elif keyword in _SCHEMA_KEYWORDS:
                pending.append((None, child))


def _find_annotation_fault(path: Path | None, name: Any, kind: Any) -> str | None:
    if not path:
        return "it is only allowed on a property that `properties` alone lead to"
    where = ".".join(path)
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        return f"the one of {where!r} is not a header name"
    if kind not in ("string", "integer", "boolean"):
        return f"{where!r} must be a string, an integer or a boolean"
    return None


def _argument_at(arguments: bytes, path: Path) -> bytes:
    """The raw argument at a path; empty if there is none."""
    raw = arguments
    for name in path:
        if raw[:1] != b"{":
            return b""
        value = raw_json.members(raw).get(name)
        if value is None:
            return b""
        raw = bytes(value)
    return raw


def _as_text(raw: bytes) -> str | None:
    """An argument as text; None for null, arrays and objects."""
    if raw[:1] == b'"':
        return raw_json.decode_string(msgspec.Raw(raw))
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
    """Whether two texts are the same number, such as 42 and 42.0."""
    if argument[:1] == b'"' or not (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(expected)):
        return False
    if text.lstrip("-").isdigit() and expected.lstrip("-").isdigit():
        return int(text) == int(expected)
    return float(text) == float(expected)
