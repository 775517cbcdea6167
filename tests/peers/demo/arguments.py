"""Checks a tool's arguments against its input schema, and fills in defaults.

Only the keywords that the tools here use are supported: type, enum, minimum, maximum, default,
required. Other arguments are ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.peers.demo.revisions import Json


class BadArguments(Exception):
    """The arguments do not fit the schema; the message names the first that does not."""


def fill(schema: Json, arguments: Json) -> Json:
    """The arguments that the tool will see.

    Raises:
        BadArguments: one is missing, of the wrong type, or out of range.
    """
    filled: Json = {}
    for name, rule in schema["properties"].items():
        if name in arguments:
            filled[name] = _check(name, rule, arguments[name])
        elif name in schema.get("required", ()):
            raise BadArguments(f"The argument '{name}' is missing")
        elif "default" in rule:
            filled[name] = rule["default"]
    return filled


def _check(name: str, rule: Json, value: Any) -> Any:
    kind = rule.get("type")
    if kind is not None and not _FITS[kind](value):
        raise BadArguments(f"The argument '{name}' must be of type {kind}")
    if "enum" in rule and value not in rule["enum"]:
        raise BadArguments(f"The argument '{name}' must be one of {', '.join(rule['enum'])}")
    if "minimum" in rule and value < rule["minimum"]:
        raise BadArguments(f"The argument '{name}' must be at least {rule['minimum']}")
    if "maximum" in rule and value > rule["maximum"]:
        raise BadArguments(f"The argument '{name}' must be at most {rule['maximum']}")
    return int(value) if kind == "integer" else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    """JSON Schema counts 1.0 among the integers."""
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
}
