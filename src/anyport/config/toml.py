"""TOML: the standard parser's values, and the places it does not give.

The places come from a second, forgiving walk over the text. It judges nothing: where it loses
its way the text is wrong, and the standard parser says how. It goes first, because it also
guards that parser against nesting that would cost it minutes or its stack.
"""

from __future__ import annotations

import ast
import re
import tomllib
from typing import Any, Final, NoReturn

from anyport.config.place import DEPTH_MAX, KeyPath, Lines, Parsed, Place, Unreadable

_BLANK: Final = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR: Final = re.compile(r"[^,\]}\n#]+")
_MANY_LINES: Final = re.compile(r"\"{3}|'{3}")
_UNCLOSED: Final = re.compile(r"Unterminated string|Illegal character '\\n'|Expected \"'\"")
_TWICE: Final = re.compile(
    r"Cannot (overwrite a value|declare .* twice)|Duplicate inline table key"
)
_DECLARED: Final = re.compile(r"Cannot declare (\(.*\)) twice")
_TOLD_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def parse(text: str) -> Parsed:
    """The values of a text and their places.

    Raises:
        Unreadable: The text is not TOML, with the place where it stops being it.
    """
    text = text.removeprefix("\ufeff")
    walk = _Walk(text)
    walk.document()
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise Unreadable(1, 1, "values are nested too deep") from None
    except ValueError as error:
        raise _translated(error, text, walk) from None
    return Parsed(value=value, keys=walk.keys, values=walk.values)


def _translated(error: ValueError, text: str, walk: _Walk) -> Unreadable:
    message = str(error)
    told = _TOLD_PLACE.search(message)
    if not told:
        return Unreadable(1, 1, f"this is not TOML: {message}")
    place = Lines(text).place(len(text))
    if told[1]:
        place = int(told[1]), int(told[2])
    reason = message[: told.start()]
    plain = f"{reason[:1].lower()}{reason[1:]}"
    hint = ""
    if _UNCLOSED.match(reason):
        # Only a string of several lines can have swallowed keys: then none is blamed.
        key = "" if _MANY_LINES.search(text) else walk.name_before(place)
        plain = f"the string of {key} is not closed" if key else "a string is not closed"
        hint = "add the quote at its end"
    elif _TWICE.match(reason):
        plain, hint = walk.explain_twice(reason, place)
    elif reason == "Invalid value":
        hint = "text needs quotes, and true and false are written small"
    return Unreadable(*place, f"this is not TOML: {plain}", hint)


class _Lost(Exception):
    """The text is not TOML from here on."""


class _Walk:
    def __init__(self, text: str) -> None:
        self.keys: dict[KeyPath, Place] = {}
        self.values: dict[KeyPath, Place] = {}
        self._text = text
        self._at = 0
        self._lines = Lines(text)
        self._array_sizes: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        try:
            while self._skip(_BLANK) < len(self._text):
                if self._text.startswith("[", self._at):
                    table = self._header()
                else:
                    self._pair(table)
        except _Lost:
            return

    def name_before(self, place: Place) -> str:
        """The key whose value begins last before a place."""
        return _dotted(self._path_before(place))

    def explain_twice(self, reason: str, place: Place) -> tuple[str, str]:
        """What is given twice, and where it was given first."""
        declared = _DECLARED.match(reason)
        path: KeyPath = ast.literal_eval(declared[1]) if declared else self._path_before(place)
        first = self.keys.get(path, place)[0]
        if first != place[0]:
            return f"{_dotted(path)} is given twice", f"first in line {first}; keep one of them"
        if reason.startswith("Cannot overwrite"):
            return f"{_dotted(path)} overwrites another value", "keep one of them"
        return f"{_dotted(path)} is given twice", "keep one of them"

    def _path_before(self, place: Place) -> KeyPath:
        before = [(at, path) for path, at in self.values.items() if at <= place]
        return max(before, key=lambda found: found[0], default=((0, 0), ()))[1]

    def _header(self) -> KeyPath:
        array = self._text.startswith("[[", self._at)
        self._at += 2 if array else 1
        path: KeyPath = ()
        parts = self._key()
        for part, offset in parts:
            path = (*path, part)
            self._note_key(path, offset)
            opens_element = array and offset == parts[-1][1]
            if opens_element:
                self._array_sizes[path] = self._array_sizes.get(path, 0) + 1
            # Keys below an array of tables belong to its latest table.
            if path in self._array_sizes:
                path = (*path, self._array_sizes[path] - 1)
        self.values.setdefault(path, self._lines.place(parts[-1][1]))
        self._expect("]]" if array else "]")
        return path

    def _pair(self, table: KeyPath) -> None:
        path = table
        for part, offset in self._key():
            path = (*path, part)
            self._note_key(path, offset)
        self._skip(_SPACE)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> list[tuple[str, int]]:
        """The parts of a dotted key, each with its offset."""
        parts: list[tuple[str, int]] = []
        while True:
            self._skip(_SPACE)
            offset = self._at
            parts.append((self._key_part(), offset))
            if len(parts) > DEPTH_MAX:
                self._refuse_depth()
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _key_part(self) -> str:
        bare = _BARE_KEY.match(self._text, self._at)
        found = bare or _STRING.match(self._text, self._at)
        if not found:
            raise _Lost
        self._at = found.end()
        return found[0] if bare else _unquoted(found[0])

    def _value(self, path: KeyPath) -> None:
        if len(path) > DEPTH_MAX:
            self._refuse_depth()
        self.values[path] = self._lines.place(self._at)
        if self._text.startswith("[", self._at):
            self._array(path)
        elif self._text.startswith("{", self._at):
            self._inline_table(path)
        else:
            found = _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at)
            if not found:
                raise _Lost
            self._at = found.end()

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        index = 0
        while not self._closed("]"):
            self._value((*path, index))
            index += 1
            self._comma()

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while not self._closed("}"):
            self._pair(path)
            self._comma()

    def _closed(self, close: str) -> bool:
        self._skip(_BLANK)
        if self._text.startswith(close, self._at):
            self._at += 1
            return True
        return False

    def _comma(self) -> None:
        self._skip(_BLANK)
        if self._text.startswith(",", self._at):
            self._at += 1
        elif not self._text.startswith(("]", "}"), self._at):
            raise _Lost

    def _note_key(self, path: KeyPath, offset: int) -> None:
        self.keys.setdefault(path, self._lines.place(offset))

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return self._at

    def _expect(self, mark: str) -> None:
        if not self._text.startswith(mark, self._at):
            raise _Lost
        self._at += len(mark)

    def _refuse_depth(self) -> NoReturn:
        line, column = self._lines.place(self._at)
        raise Unreadable(line, column, f"values are nested deeper than {DEPTH_MAX} levels")


def _dotted(path: KeyPath) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _unquoted(quoted: str) -> str:
    """A quoted key's text, read by the parser that knows the escapes."""
    try:
        only: dict[str, Any] = tomllib.loads(f"{quoted} = 0")
    except ValueError:
        raise _Lost from None
    return next(iter(only))
