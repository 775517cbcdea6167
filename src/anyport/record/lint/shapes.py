"""The members of a payload and their types, from the payload or from its recorded outline.

Knows how outlines are written; the rules that are judged by them do not.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from anyport.record.lint.model import ABSENT, CannotTell, Frame

STRING: Final = "s"
NUMBER: Final = "n"
BOOLEAN: Final = "b"
NULL: Final = "z"
OBJECT: Final = "{"
LIST: Final = "["

_MEMBER: Final = re.compile(r'"((?:[^"\\]|\\.)*)":([snbz{\[])')
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def kind_of(value: Any) -> str:
    """The letter of a value's type."""
    if isinstance(value, bool):
        return BOOLEAN
    for kind, letter in _LETTERS:
        if isinstance(value, kind):
            return letter
    return NULL


_LETTERS: Final = ((str, STRING), ((int, float), NUMBER), (dict, OBJECT), (list, LIST))


def kind_of_payload(frame: Frame) -> str:
    """The letter of what a frame carries.

    Raises:
        CannotTell: neither it nor its outline was recorded.
    """
    if frame.payload is not ABSENT:
        return kind_of(frame.payload)
    if not frame.shape or frame.shape[0] not in "snbz{[":
        raise CannotTell
    return frame.shape[0]


def members_of(frame: Frame) -> Mapping[str, str]:
    """The members of the object that a frame carries, each with the letter of its type.

    Raises:
        CannotTell: they were not recorded, or not all of them.
    """
    if frame.payload is not ABSENT:
        return {key: kind_of(value) for key, value in frame.fields.items()}
    return outlined_members(frame.shape)


def outlined_members(shape: str | None) -> Mapping[str, str]:
    """The same from an outline alone.

    Raises:
        CannotTell: it was cut, or there is none.
    """
    if not shape or shape[0] != OBJECT or not shape.endswith("}"):
        raise CannotTell
    found: dict[str, str] = {}
    at = 1
    while at < len(shape) - 1:
        member = _MEMBER.match(shape, at)
        if member is None:  # `...`: it had more than is shown.
            raise CannotTell
        found[member[1]] = member[2]
        at = _after(shape, member.end() - 1)
        if shape[at : at + 1] == ",":
            at += 1
    return found


def _after(shape: str, at: int) -> int:
    """The place behind the value that begins here."""
    depth = 0
    while at < len(shape):
        char = shape[at]
        if char == '"':
            text = _STRING.match(shape, at)
            if text is None:
                raise CannotTell
            at = text.end()
            continue
        depth += (char in "{[") - (char in "]}")
        at += 1
        if depth == 0:
            return at
    raise CannotTell
