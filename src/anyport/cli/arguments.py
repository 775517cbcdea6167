"""From words on a command line to the arguments of a tool, guided by its schema.

Judges only what it must to choose a type; whether the arguments are right is the server's word.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]
ReadFile: TypeAlias = Callable[[str], str]
"""Gives the text of a file.

Raises:
    OSError: it cannot be read.
"""


class BadArgument(ValueError):
    """A word that cannot become an argument; the text is for the one who wrote it."""


def read_arguments(
    words: Sequence[str], document: str | None, schema: Schema, read_file: ReadFile
) -> dict[str, Any]:
    """The arguments in `document` (JSON), and over them `key=value` and `key:=json`.

    Raises:
        BadArgument: one of them cannot be read.
    """
    arguments: dict[str, Any] = {}
    if document is not None:
        arguments = _decoded("--args", document)
        if not isinstance(arguments, dict):
            raise BadArgument("--args must be a JSON object, such as '{\"a\": 1}'")
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in ("", ":"):
            raise BadArgument(f"{word!r} is not key=value{_for_example(schema)}")
        forced = key.endswith(":")
        key = key.removesuffix(":")
        if text.startswith("@"):
            text = _read(key, text[1:], read_file)
        arguments[key] = _decoded(key, text) if forced else coerce(key, text, schema)
    return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument that a tool takes."""

    name: str
    types: tuple[str, ...]
    required: bool
    schema: Schema

    @property
    def example(self) -> str:
        """The word that gives it a value, fit for a shell."""
        choices = [self.schema.get("default"), *_listed(self.schema.get("enum"))]
        value = next((choice for choice in choices if choice is not None), None)
        if value is None:
            return shlex.quote(f"{self.name}={_EXAMPLES.get(next(iter(self.types), ''), 'text')}")
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return shlex.quote(f"{self.name}={text}")


def parameters(schema: Schema) -> list[Parameter]:
    """The arguments that a tool takes, in the order of its schema."""
    found = schema.get("properties")
    required = _listed(schema.get("required"))
    return [
        Parameter(
            name=name,
            types=tuple(dict.fromkeys(_types(each, schema, set()))),
            required=name in required,
            schema=each if isinstance(each, dict) else {},
        )
        for name, each in (found.items() if isinstance(found, dict) else ())
    ]


def example_words(schema: Schema) -> list[str]:
    """Words to call a tool with: what it requires, or else the first that it takes."""
    known = parameters(schema)
    chosen = [each for each in known if each.required] or known[:1]
    return [each.example for each in chosen]


def coerce(key: str, text: str, schema: Schema) -> Any:
    """The text as the type that the schema has for the key; as a string where it has none.

    Raises:
        BadArgument: the text does not fit the type.
    """
    properties = schema.get("properties")
    found = properties.get(key) if isinstance(properties, dict) else None
    types = list(dict.fromkeys(_types(found, schema, set())))
    for wanted in types:
        read = _READERS.get(wanted)
        # What may be a string is not taken for null: somebody may be called that.
        if read is not None and not (wanted == "null" and "string" in types):
            try:
                return read(text)
            except (ValueError, msgspec.DecodeError):
                continue
    if not types or "string" in types or not set(types) & _READERS.keys():
        return text
    wanted = " or ".join(_NAMES[name] for name in types if name in _NAMES)
    raise BadArgument(f"{key} must be {wanted}, not {text[:40]!r}")


def _types(found: Any, root: Schema, followed: set[str]) -> Iterator[str]:
    """The types it may have. A reference is followed once: a schema may refer to itself."""
    if not isinstance(found, dict):
        return
    named = found.get("type")
    yield from [named] if isinstance(named, str) else named if isinstance(named, list) else []
    for choice in ("anyOf", "oneOf"):
        for branch in found.get(choice) or ():
            yield from _types(branch, root, followed)
    reference = found.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        followed.add(reference)
        yield from _types(_referred(reference, root), root, followed)


def _referred(reference: str, root: Schema) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _for_example(schema: Schema) -> str:
    words = " ".join(example_words(schema))
    return f"; for example: {words}" if words else "; the tool takes no arguments"


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _read(key: str, name: str, read_file: ReadFile) -> str:
    try:
        return read_file(name)
    except OSError as error:
        raise BadArgument(f"{key}: cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadArgument(f"{key}: {name} is not UTF-8 text") from None


def _decoded(key: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadArgument(f"{key} is not valid JSON: {error}") from None


def _of_type(*types: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = msgspec.json.decode(text.strip())
        if type(value) not in types:
            raise ValueError(text)
        return value

    return read


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "integer": _of_type(int),
    "number": _of_type(int, float),
    "boolean": lambda text: _of_type(bool)(text.lower()),
    "array": _of_type(list),
    "object": _of_type(dict),
    "null": _of_type(type(None)),
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
