"""JSON as people write it: with comments and trailing commas, and with a place for every value.

On text that is plain JSON the values are those of the standard parser, but for two kinds of
text that cannot be meant: a key given twice, and half a surrogate pair, are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from anyport.config.place import DEPTH_MAX, KeyPath, Lines, Parsed, Place, Unreadable

DIGITS_MAX: Final = 1000
"""Longer numbers are never meant, and Python refuses to read them beyond 4,300 digits."""

_BLANK: Final = re.compile(r"(?:[ \t\n\r]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z_]+")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}


def parse(text: str) -> Parsed:
    """The values of a text and their places.

    Raises:
        Unreadable: The text is not JSON, with the place where it stops being it.
    """
    reader = _Reader(text.removeprefix("\ufeff"))
    value = reader.document()
    return Parsed(value=value, keys=reader.keys, values=reader.values)


class _Reader:
    def __init__(self, text: str) -> None:
        self.keys: dict[KeyPath, Place] = {}
        self.values: dict[KeyPath, Place] = {}
        self._text = text
        self._at = 0
        self._lines = Lines(text)

    def document(self) -> Any:
        self._skip()
        if self._at == len(self._text):
            self._refuse("the file is empty", "write at least {}")
        value = self._value(())
        self._skip()
        if self._at < len(self._text):
            self._refuse("there is something after the end of the JSON value")
        return value

    def _value(self, path: KeyPath) -> Any:
        if len(path) > DEPTH_MAX:
            self._refuse(f"values are nested deeper than {DEPTH_MAX} levels")
        self.values[path] = self._lines.place(self._at)
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
        self._at += 1
        while self._next_member("}"):
            if self._peek() != '"':
                self._refuse("a key must stand in double quotes")
            start = self._at
            key = self._string()
            if key in members:
                self._refuse("this key is given twice in one object", "remove one", at=start)
            self.keys[(*path, key)] = self._lines.place(start)
            self._skip()
            if self._peek() != ":":
                self._refuse("there must be a ':' after a key")
            self._at += 1
            self._skip()
            members[key] = self._value((*path, key))
            self._end_member("}")
        self._at += 1
        return members

    def _array(self, path: KeyPath) -> list[Any]:
        elements: list[Any] = []
        self._at += 1
        while self._next_member("]"):
            elements.append(self._value((*path, len(elements))))
            self._end_member("]")
        self._at += 1
        return elements

    def _next_member(self, close: str) -> bool:
        self._skip()
        return self._peek() != close

    def _end_member(self, close: str) -> None:
        """After a member stands a comma (the last one may have one too) or the end."""
        self._skip()
        if self._peek() == ",":
            self._at += 1
        elif self._peek() != close:
            self._refuse(f"there must be a ',' or a '{close}' after a value")

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if not found:
            self._refuse("this string does not end on its line", "a '\"' is missing")
        try:
            value: str = json.loads(found[0])
        except ValueError:
            self._refuse("this string has an escape that JSON does not know", "write \\\\ for \\")
        if _SURROGATE.search(value):
            self._refuse("this string has one half of a surrogate pair")
        self._at = found.end()
        return value

    def _scalar(self) -> bool | int | float | None:
        word = _WORD.match(self._text, self._at)
        if word:
            if word[0] not in _WORDS:
                self._refuse("this is not a JSON value", "strings stand in double quotes")
            self._at = word.end()
            return _WORDS[word[0]]
        number = _NUMBER.match(self._text, self._at)
        if not number:
            self._refuse("there must be a value here")
        if number.end() - number.start() > DIGITS_MAX:
            self._refuse(f"this number has more than {DIGITS_MAX} digits")
        self._at = number.end()
        whole = number[1] is None and number[2] is None
        return int(number[0]) if whole else float(number[0])

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        if blank:
            self._at = blank.end()
        if self._text.startswith("/*", self._at):
            self._refuse("this comment does not end", "a '*/' is missing")

    def _peek(self) -> str:
        if self._at >= len(self._text):
            self._refuse("the text ends too early", "a closing bracket is missing")
        return self._text[self._at]

    def _refuse(self, message: str, hint: str = "", *, at: int | None = None) -> NoReturn:
        line, column = self._lines.place(self._at if at is None else at)
        raise Unreadable(line, column, message, hint)
