"""Converts words of a command line to tool arguments by the tool's schema.

Only types are checked here; the server validates the rest.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]
ReadFile: TypeAlias = Callable[[str], str]
"""Returns the text of a file.

Raises:
    OSError: it cannot be read.
"""


class BadArgument(ValueError):
    """A word that cannot be converted; the text says why."""


def read_arguments(
    words: Sequence[str], document: str | None, schema: Schema, read_file: ReadFile
) -> dict[str, Any]:
    """The arguments in `document` (JSON), overridden by `key=value` and `key:=json`.

    Raises:
        BadArgument: one of them cannot be read.
    """
    arguments: dict[str, Any] = {}
    if document is not None:
        arguments = _decode_json("--args", document)
        if not isinstance(arguments, dict):
            raise BadArgument("--args must be a JSON object, such as '{\"a\": 1}'")
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in ("", ":"):
            raise BadArgument(f"{word!r} is not key=value{_example_hint(schema)}")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if text.startswith("@"):
            text = _read_text(key, text[1:], read_file)
        arguments[key] = _decode_json(key, text) if is_json else coerce(key, text, schema)
    return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParameter:
    """A property of a tool's input schema."""

    name: str
    types: tuple[str, ...]
    required: bool
    schema: Schema

    @property
    def example(self) -> str:
        """An example value, as `name=value` quoted for a shell."""
        choices = [self.schema.get("default"), *_as_list(self.schema.get("enum"))]
        value = next((choice for choice in choices if choice is not None), None)
        if value is None:
            return shlex.quote(f"{self.name}={_EXAMPLES.get(next(iter(self.types), ''), 'text')}")
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return shlex.quote(f"{self.name}={text}")


def list_parameters(schema: Schema) -> list[ToolParameter]:
    """The parameters of a tool, in the order of its schema."""
    properties = schema.get("properties")
    required = _as_list(schema.get("required"))
    return [
        ToolParameter(
            name=name,
            types=tuple(dict.fromkeys(_types(each, schema, set()))),
            required=name in required,
            schema=each if isinstance(each, dict) else {},
        )
        for name, each in (properties.items() if isinstance(properties, dict) else ())
    ]


def example_words(schema: Schema) -> list[str]:
    """Example words for the required parameters, or else for the first one."""
    parameters = list_parameters(schema)
    chosen = [each for each in parameters if each.required] or parameters[:1]
    return [each.example for each in chosen]


def coerce(key: str, text: str, schema: Schema) -> Any:
    """Convert text to the type of this property in the schema; a string if it has none.

    Raises:
        BadArgument: the text does not fit the type.
    """
    properties = schema.get("properties")
    property_schema = properties.get(key) if isinstance(properties, dict) else None
    types = list(dict.fromkeys(_types(property_schema, schema, set())))
    for type_name in types:
        read = _READERS.get(type_name)
        # A parameter that may be a string gets the word "null" as a string.
        if read is not None and not (type_name == "null" and "string" in types):
            try:
                return read(text)
            except (ValueError, msgspec.DecodeError):
                continue
    if not types or "string" in types or not set(types) & _READERS.keys():
        return text
    expected = " or ".join(_NAMES[name] for name in types if name in _NAMES)
    raise BadArgument(f"{key} must be {expected}, not {text[:40]!r}")


def _types(schema: Any, root: Schema, followed: set[str]) -> Iterator[str]:
    """The possible types. Each `$ref` is followed once, since a schema may refer to itself."""
    if not isinstance(schema, dict):
        return
    named = schema.get("type")
    yield from [named] if isinstance(named, str) else named if isinstance(named, list) else []
    for choice in ("anyOf", "oneOf"):
        for branch in schema.get(choice) or ():
            yield from _types(branch, root, followed)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        followed.add(reference)
        yield from _types(_resolve_reference(reference, root), root, followed)


def _resolve_reference(reference: str, root: Schema) -> Any:
    schema: Any = root
    for step in reference.removeprefix("#/").split("/"):
        schema = schema.get(step) if isinstance(schema, dict) else None
    return schema


def _example_hint(schema: Schema) -> str:
    words = " ".join(example_words(schema))
    return f"; for example: {words}" if words else "; the tool takes no arguments"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_text(key: str, name: str, read_file: ReadFile) -> str:
    try:
        return read_file(name)
    except OSError as error:
        raise BadArgument(f"{key}: cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadArgument(f"{key}: {name} is not UTF-8 text") from None


def _decode_json(key: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadArgument(f"{key} is not valid JSON: {error}") from None


def _reader_of_type(*types: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = msgspec.json.decode(text.strip())
        if type(value) not in types:
            raise ValueError(text)
        return value

    return read


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "integer": _reader_of_type(int),
    "number": _reader_of_type(int, float),
    "boolean": lambda text: _reader_of_type(bool)(text.lower()),
    "array": _reader_of_type(list),
    "object": _reader_of_type(dict),
    "null": _reader_of_type(type(None)),
}
_EXAMPLES: Final = {
    "integer": "1",
    "number": "1",
    "boolean": "true",
    "array": "[]",
    "object": "{}",
    "null": "null",
}
_NAMES: Final = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
    "null": "null",
}
