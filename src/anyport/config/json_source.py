"""JSON with comments and trailing commas, with the position of every value.

Plain JSON gives the same values as the standard parser, except that duplicate keys and half a
surrogate pair are errors.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from anyport.config.positions import (
    DEPTH_MAX,
    KeyPath,
    LineIndex,
    ParsedText,
    Position,
    UnreadableText,
)

DIGITS_MAX: Final = 1000
"""Longer numbers are always mistakes, and Python does not read more than 4,300 digits."""

_BLANK: Final = re.compile(r"(?:[ \t\n\r]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_LITERAL: Final = re.compile(r"[A-Za-z_]+")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_LITERALS: Final = {"true": True, "false": False, "null": None}


def parse(text: str) -> ParsedText:
    """Parse a text into values and their positions.

    Raises:
        UnreadableText: The text is not JSON; has the position of the error.
    """
    reader = _JsonParser(text.removeprefix("\ufeff"))
    value = reader.parse()
    return ParsedText(value=value, keys=reader.keys, values=reader.values)


class _JsonParser:
    def __init__(self, text: str) -> None:
        self.keys: dict[KeyPath, Position] = {}
        self.values: dict[KeyPath, Position] = {}
        self._text = text
        self._offset = 0
        self._lines = LineIndex(text)

    def parse(self) -> Any:
        self._skip_blank()
        if self._offset == len(self._text):
            self._fail("the file is empty", "write at least {}")
        value = self._value(())
        self._skip_blank()
        if self._offset < len(self._text):
            self._fail("there is something after the end of the JSON value")
        return value

    def _value(self, path: KeyPath) -> Any:
        if len(path) > DEPTH_MAX:
            self._fail(f"values are nested deeper than {DEPTH_MAX} levels")
        self.values[path] = self._lines.position(self._offset)
        match self._peek():
            case "{":
                return self._object(path)
            case "[":
                return self._array(path)
            case '"':
                return self._string()
            case _:
                return self._scalar()

    def _object(self, path: KeyPath) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._offset += 1
        while self._next_member("}"):
            if self._peek() != '"':
                self._fail("a key must be in double quotes")
            start = self._offset
            key = self._string()
            if key in members:
                self._fail("this key is given twice in one object", "remove one", at=start)
            self.keys[(*path, key)] = self._lines.position(start)
            self._skip_blank()
            if self._peek() != ":":
                self._fail("there must be a ':' after a key")
            self._offset += 1
            self._skip_blank()
            members[key] = self._value((*path, key))
            self._end_member("}")
        self._offset += 1
        return members

    def _array(self, path: KeyPath) -> list[Any]:
        elements: list[Any] = []
        self._offset += 1
        while self._next_member("]"):
            elements.append(self._value((*path, len(elements))))
            self._end_member("]")
        self._offset += 1
        return elements

    def _next_member(self, close: str) -> bool:
        self._skip_blank()
        return self._peek() != close

    def _end_member(self, close: str) -> None:
        """Skip a comma, which may also follow the last member."""
        self._skip_blank()
        if self._peek() == ",":
            self._offset += 1
        elif self._peek() != close:
            self._fail(f"there must be a ',' or a '{close}' after a value")

    def _string(self) -> str:
        found = _STRING.match(self._text, self._offset)
        if not found:
            self._fail("this string does not end on its line", "a '\"' is missing")
        try:
            value: str = json.loads(found[0])
        except ValueError:
            self._fail("this string has an escape that JSON does not know", "write \\\\ for \\")
        if _SURROGATE.search(value):
            self._fail("this string has one half of a surrogate pair")
        self._offset = found.end()
        return value

    def _scalar(self) -> bool | int | float | None:
        word = _LITERAL.match(self._text, self._offset)
        if word:
            if word[0] not in _LITERALS:
                self._fail("this is not a JSON value", "put strings in double quotes")
            self._offset = word.end()
            return _LITERALS[word[0]]
        number = _NUMBER.match(self._text, self._offset)
        if not number:
            self._fail("there must be a value here")
        if number.end() - number.start() > DIGITS_MAX:
            self._fail(f"this number has more than {DIGITS_MAX} digits")
        self._offset = number.end()
        whole = number[1] is None and number[2] is None
        return int(number[0]) if whole else float(number[0])

    def _skip_blank(self) -> None:
        blank = _BLANK.match(self._text, self._offset)
        if blank:
            self._offset = blank.end()
        if self._text.startswith("/*", self._offset):
            self._fail("this comment does not end", "a '*/' is missing")

    def _peek(self) -> str:
        if self._offset >= len(self._text):
            self._fail("the text ends too early", "a closing bracket is missing")
        return self._text[self._offset]

    def _fail(self, message: str, hint: str = "", *, at: int | None = None) -> NoReturn:
        line, column = self._lines.position(self._offset if at is None else at)
        raise UnreadableText(line, column, message, hint)
