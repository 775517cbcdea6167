"""Validator for the part of JSON Schema that the official schemas of MCP use.

No library fits recorded traffic: often only the type of a value was recorded, redacted values are
never wrong, and errors of a union should be those of the alternative that was meant. Tests compare
this validator with a complete one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from anyport.record.redact.escape import cut
from anyport.record.redact.redactor import MARK

SHOWN_CHARS_MAX: Final = 80
"""Values are cut to this length in messages."""

Path: TypeAlias = tuple[str | int, ...]
Schema: TypeAlias = Mapping[str, Any]

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}
_NAMES: Final = {
    "array": "an array",
    "boolean": "a boolean",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


@dataclass(frozen=True, slots=True)
class Outlined:
    """A value of which only the type was recorded."""

    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaError:
    """One error of a value against its schema."""

    path: Path
    keyword: str
    expected: str
    """The message: `must be a string, not 5`."""
    value: Any = None


@dataclass(frozen=True, slots=True)
class Validator:
    """Validates values against schemas that share definitions."""

    definitions: Mapping[str, Schema]
    _tags: dict[int, tuple[str, dict[bytes, Schema]] | None] = field(default_factory=dict)

    def errors(self, schema: Schema, value: Any, path: Path = ()) -> Iterator[SchemaError]:
        schema = self.resolve(schema)
        if isinstance(value, str) and MARK in value:
            return
        types = _types(schema)
        if types and not any(_is_a(value, name) for name in types):
            names = " or ".join(_NAMES[name] for name in types)
            yield _error(path, "type", f"must be {names}, not {_shown(value)}", value)
        elif not isinstance(value, Outlined):
            yield from _value_errors(schema, value, path)
            yield from self._nested_errors(schema, value, path)

    def resolve(self, schema: Schema) -> Schema:
        """Follow references to the schema itself."""
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rpartition("/")[2]]
        return schema

    def _nested_errors(self, schema: Schema, value: Any, path: Path) -> Iterator[SchemaError]:
        for part in schema.get("allOf", ()):
            yield from self.errors(part, value, path)
        if "anyOf" in schema:
            yield from self._union_errors(schema["anyOf"], value, path)
        if isinstance(value, dict):
            yield from self._member_errors(schema, value, path)
        elif isinstance(value, list) and "items" in schema:
            for place, item in enumerate(value):
                yield from self.errors(schema["items"], item, (*path, place))

    def _member_errors(
        self, schema: Schema, value: dict[str, Any], path: Path
    ) -> Iterator[SchemaError]:
        for name in schema.get("required", ()):
            if name not in value:
                yield _error((*path, name), "required", "is missing")
        known = schema.get("properties", {})
        others = schema.get("additionalProperties")
        for name, member in value.items():
            if name in known:
                yield from self.errors(known[name], member, (*path, name))
            elif isinstance(others, dict):
                yield from self.errors(others, member, (*path, name))

    def _union_errors(
        self, union: Sequence[Schema], value: Any, path: Path
    ) -> Iterator[SchemaError]:
        tagged = self._tagged(union) if isinstance(value, dict) else None
        if tagged is not None:
            tag, alternatives = tagged
            meant = alternatives.get(_key(value.get(tag)))
            if meant is not None:
                yield from self.errors(meant, value, path)
                return
            if tag in value:
                names = ", ".join(_shown(msgspec.json.decode(key)) for key in alternatives)
                found = _shown(value[tag])
                expected = f"must be one of {names}, not {found}"
                yield _error((*path, tag), "anyOf", expected, value[tag])
                return
        yield from self._nearest_errors(union, value, path)

    def _tagged(self, union: Sequence[Schema]) -> tuple[str, dict[bytes, Schema]] | None:
        """The member whose constant identifies an alternative, and alternatives by constant."""
        if id(union) not in self._tags:
            self._tags[id(union)] = self._find_tag([self.resolve(schema) for schema in union])
        return self._tags[id(union)]

    def _find_tag(self, union: Sequence[Schema]) -> tuple[str, dict[bytes, Schema]] | None:
        for tag in union[0].get("properties", {}):
            members = [schema.get("properties", {}).get(tag, {}) for schema in union]
            constants = [_key(member["const"]) for member in members if "const" in member]
            if len(set(constants)) == len(union):
                return tag, dict(zip(constants, union, strict=True))
        return None

    def _nearest_errors(
        self, union: Sequence[Schema], value: Any, path: Path
    ) -> Iterator[SchemaError]:
        """The errors of the alternative with the fewest, if none is valid."""
        tried = [list(self.errors(schema, value, path)) for schema in union]
        if not all(tried):
            return
        of_type = [errors for errors in tried if errors[0].path != path]
        if not of_type:
            types = (name for schema in union for name in _types(self.resolve(schema)))
            names = " or ".join(dict.fromkeys(_NAMES[name] for name in types))
            yield _error(path, "type", f"must be {names}, not {_shown(value)}", value)
            return
        nearest = min(map(len, of_type))
        ties = [errors for errors in of_type if len(errors) == nearest]
        lacking = [errors[0] for errors in ties if errors[0].keyword == "required"]
        if nearest == 1 and len(lacking) == len(ties) > 1:
            names = " or ".join(str(error.path[-1]) for error in lacking)
            yield _error(path, "anyOf", f"must have {names}", value)
        else:
            yield from ties[0]


def _types(schema: Schema) -> Sequence[str]:
    types: str | list[str] = schema.get("type", [])
    return [types] if isinstance(types, str) else types


def _value_errors(schema: Schema, value: Any, path: Path) -> Iterator[SchemaError]:
    if "const" in schema and value != schema["const"]:
        expected = f"must be {_shown(schema['const'])}, not {_shown(value)}"
        yield _error(path, "const", expected, value)
    if "enum" in schema and value not in schema["enum"]:
        names = ", ".join(map(_shown, schema["enum"]))
        yield _error(path, "enum", f"must be one of {names}, not {_shown(value)}", value)
    if isinstance(value, int | float):
        if value < schema.get("minimum", value):
            expected = f"must be at least {schema['minimum']}, not {value}"
            yield _error(path, "minimum", expected, value)
        if value > schema.get("maximum", value):
            expected = f"must be at most {schema['maximum']}, not {value}"
            yield _error(path, "maximum", expected, value)
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        expected = f"must have at most {schema['maxItems']} items, not {len(value)}"
        yield _error(path, "maxItems", expected, value)


def _is_a(value: Any, name: str) -> bool:
    if isinstance(value, Outlined):
        return value.type == name or (value.type == "number" and name == "integer")
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _error(path: Path, keyword: str, expected: str, value: Any = None) -> SchemaError:
    return SchemaError(path=path, keyword=keyword, expected=expected, value=value)


def _key(value: Any) -> bytes:
    """A hashable key of a JSON value."""
    return msgspec.json.encode(value)


def _shown(value: Any) -> str:
    if isinstance(value, Outlined):
        return _NAMES[value.type]
    return cut(msgspec.json.encode(value).decode(), SHOWN_CHARS_MAX)
