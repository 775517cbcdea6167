"""Whether what a client answered to a question is an answer to it.

A form asks for values of the few plain types that revisions allow. What does not fit is asked for
again; a schema that says something else than these rules is the server's own business.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

Json = Mapping[str, Any]

_ACTIONS: Final = ("accept", "decline", "cancel")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def fits(method: str, params: bytes | None, answer: bytes) -> bool:
    """Whether a raw answer may be given to the server that asked."""
    given = _object(answer)
    if given is None:
        return False
    if method == "roots/list":
        return isinstance(given.get("roots"), list)
    if method != "elicitation/create":
        return True
    if given.get("action") not in _ACTIONS:
        return False
    asked = _object(params or b"{}") or {}
    schema = asked.get("requestedSchema")
    if given["action"] != "accept" or not isinstance(schema, dict):
        return True
    content = given.get("content", {})
    return isinstance(content, dict) and _fill(schema, content)


def _fill(schema: Json, content: Json) -> bool:
    """Whether a form is filled in as it asks."""
    required = schema.get("required")
    if isinstance(required, list) and not all(name in content for name in required):
        return False
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return True
    return all(
        _suits(wanted, content[name])
        for name, wanted in properties.items()
        if name in content and isinstance(wanted, dict)
    )


def _suits(wanted: Json, value: Any) -> bool:
    """Whether a value is of the kind that is wanted."""
    types = _TYPES.get(str(wanted.get("type")))
    if types is not None and not _is(value, types):
        return False
    choices = _choices(wanted)
    if choices is not None:
        return value in choices
    if isinstance(value, str):
        return _within(len(value), wanted, "minLength", "maxLength")
    if isinstance(value, list):
        items = wanted.get("items")
        each = not isinstance(items, dict) or all(_suits(items, item) for item in value)
        return each and _within(len(value), wanted, "minItems", "maxItems")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _within(value, wanted, "minimum", "maximum")
    return True


def _is(value: Any, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    whole = isinstance(value, float) and value.is_integer() and int in types
    return isinstance(value, types) or whole


def _choices(wanted: Json) -> Sequence[Any] | None:
    """What may be chosen from, with titles or without."""
    if isinstance(wanted.get("enum"), list):
        return list(wanted["enum"])
    titled = wanted.get("oneOf", wanted.get("anyOf"))
    if isinstance(titled, list) and all(isinstance(one, dict) and "const" in one for one in titled):
        return [one["const"] for one in titled]
    return None


def _within(size: float, wanted: Json, least: str, most: str) -> bool:
    low, high = wanted.get(least), wanted.get(most)
    if isinstance(low, int | float) and size < low:
        return False
    return not (isinstance(high, int | float) and size > high)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
