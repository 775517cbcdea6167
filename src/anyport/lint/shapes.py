"""Types of payloads and of their members, from the payload or its recorded outline."""

import re
from collections.abc import Mapping
from typing import Any, Final

from anyport.lint.model import ABSENT, Frame, NotRecorded

_TYPES: Final = {
    "s": "string",
    "n": "number",
    "b": "boolean",
    "z": "null",
    "{": "object",
    "[": "array",
}
"""JSON types by the letter in an outline."""

_MEMBER: Final = re.compile(r'"((?:[^"\\]|\\.)*)":([snbz{\[])')
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def json_type(value: Any) -> str:
    """The JSON type of a value: `string`, `number`, `object`, ..."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    kinds = {str: "string", int: "number", float: "number", dict: "object", list: "array"}
    return kinds[type(value)]


def payload_type(frame: Frame) -> str:
    """The JSON type of a frame's payload.

    Raises:
        NotRecorded: Neither the payload nor its outline was recorded.
    """
    if frame.payload is not ABSENT:
        return json_type(frame.payload)
    if not frame.shape or frame.shape[0] not in _TYPES:
        raise NotRecorded
    return _TYPES[frame.shape[0]]


def member_types(frame: Frame) -> Mapping[str, str]:
    """The members of a frame's payload, with their JSON types.

    Raises:
        NotRecorded: Some or all members were not recorded.
    """
    if frame.payload is not ABSENT:
        return {key: json_type(value) for key, value in frame.fields.items()}
    return outline_member_types(frame.shape)


def outline_member_types(shape: str | None) -> Mapping[str, str]:
    """The members in an outline, with their JSON types.

    Raises:
        NotRecorded: There is no outline, or it was cut.
    """
    if not shape or shape[0] != "{" or not shape.endswith("}"):
        raise NotRecorded
    found: dict[str, str] = {}
    at = 1
    while at < len(shape) - 1:
        member = _MEMBER.match(shape, at)
        if member is None:  # `...`: the rest was cut.
            raise NotRecorded
        found[member[1]] = _TYPES[member[2]]
        at = _value_end(shape, member.end() - 1)
        if shape[at : at + 1] == ",":
            at += 1
    return found


def _value_end(shape: str, at: int) -> int:
    """The offset after the value that starts at `at`."""
    depth = 0
    while at < len(shape):
        char = shape[at]
        if char == '"':
            text = _STRING.match(shape, at)
            if text is None:
                raise NotRecorded
            at = text.end()
            continue
        depth += (char in "{[") - (char in "]}")
        at += 1
        if depth == 0:
            return at
    raise NotRecorded
