"""TOML: values from the standard parser, and positions from a scan of our own.

The standard parser reports no positions, so a lenient scan finds them. If the scan fails, the text
is invalid, and the standard parser says why. The scan comes first because it also protects that
parser from nesting that would take minutes or overflow its stack.
"""

from __future__ import annotations

import ast
import re
import tomllib
from typing import Any, Final, NoReturn

from anyport.config.positions import (
    DEPTH_MAX,
    KeyPath,
    LineIndex,
    ParsedText,
    Position,
    UnreadableText,
)

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
_DUPLICATE: Final = re.compile(
    r"Cannot (overwrite a value|declare .* twice)|Duplicate inline table key"
)
_DECLARED: Final = re.compile(r"Cannot declare (\(.*\)) twice")
_ERROR_POSITION: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def parse(text: str) -> ParsedText:
    """Parse a text into values and their positions.

    Raises:
        UnreadableText: The text is not TOML; has the position of the error.
    """
    text = text.removeprefix("\ufeff")
    scanner = _PositionScanner(text)
    scanner.scan()
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise UnreadableText(1, 1, "values are nested too deep") from None
    except ValueError as error:
        raise _translate_error(error, text, scanner) from None
    return ParsedText(value=value, keys=scanner.keys, values=scanner.values)


def _translate_error(error: ValueError, text: str, scanner: _PositionScanner) -> UnreadableText:
    message = str(error)
    position_match = _ERROR_POSITION.search(message)
    if not position_match:
        return UnreadableText(1, 1, f"this is not TOML: {message}")
    position = LineIndex(text).position(len(text))
    if position_match[1]:
        position = int(position_match[1]), int(position_match[2])
    reason = message[: position_match.start()]
    plain = f"{reason[:1].lower()}{reason[1:]}"
    hint = ""
    if _UNCLOSED.match(reason):
        # A multi-line string may have swallowed keys, so the message names no key.
        key = "" if _MANY_LINES.search(text) else scanner.key_before(position)
        plain = f"the string of {key} is not closed" if key else "a string is not closed"
        hint = "add the quote at its end"
    elif _DUPLICATE.match(reason):
        plain, hint = scanner.explain_duplicate(reason, position)
    elif reason == "Invalid value":
        hint = "text needs quotes, and true and false are lower case"
    return UnreadableText(*position, f"this is not TOML: {plain}", hint)


class _ScanError(Exception):
    """The text is not TOML from here on."""


class _PositionScanner:
    def __init__(self, text: str) -> None:
        self.keys: dict[KeyPath, Position] = {}
        self.values: dict[KeyPath, Position] = {}
        self._text = text
        self._offset = 0
        self._lines = LineIndex(text)
        self._array_sizes: dict[KeyPath, int] = {}

    def scan(self) -> None:
        table: KeyPath = ()
        try:
            while self._skip(_BLANK) < len(self._text):
                if self._text.startswith("[", self._offset):
                    table = self._scan_header()
                else:
                    self._scan_pair(table)
        except _ScanError:
            return

    def key_before(self, position: Position) -> str:
        """The last key whose value begins before a position."""
        return _dotted(self._path_before(position))

    def explain_duplicate(self, reason: str, position: Position) -> tuple[str, str]:
        """Message and hint for a key that occurs twice."""
        declared = _DECLARED.match(reason)
        path: KeyPath = ast.literal_eval(declared[1]) if declared else self._path_before(position)
        first = self.keys.get(path, position)[0]
        if first != position[0]:
            return f"{_dotted(path)} is given twice", f"first in line {first}; keep one of them"
        if reason.startswith("Cannot overwrite"):
            return f"{_dotted(path)} overwrites another value", "keep one of them"
        return f"{_dotted(path)} is given twice", "keep one of them"

    def _path_before(self, position: Position) -> KeyPath:
        before = [(at, path) for path, at in self.values.items() if at <= position]
        return max(before, key=lambda found: found[0], default=((0, 0), ()))[1]

    def _scan_header(self) -> KeyPath:
        array = self._text.startswith("[[", self._offset)
        self._offset += 2 if array else 1
        path: KeyPath = ()
        parts = self._scan_key()
        for part, offset in parts:
            path = (*path, part)
            self._add_key(path, offset)
            opens_element = array and offset == parts[-1][1]
            if opens_element:
                self._array_sizes[path] = self._array_sizes.get(path, 0) + 1
            # Keys below an array of tables belong to its latest table.
            if path in self._array_sizes:
                path = (*path, self._array_sizes[path] - 1)
        self.values.setdefault(path, self._lines.position(parts[-1][1]))
        self._expect("]]" if array else "]")
        return path

    def _scan_pair(self, table: KeyPath) -> None:
        path = table
        for part, offset in self._scan_key():
            path = (*path, part)
            self._add_key(path, offset)
        self._skip(_SPACE)
        self._expect("=")
        self._skip(_SPACE)
        self._scan_value(path)

    def _scan_key(self) -> list[tuple[str, int]]:
        """The parts of a dotted key, each with its offset."""
        parts: list[tuple[str, int]] = []
        while True:
            self._skip(_SPACE)
            offset = self._offset
            parts.append((self._scan_key_part(), offset))
            if len(parts) > DEPTH_MAX:
                self._refuse_depth()
            self._skip(_SPACE)
            if not self._text.startswith(".", self._offset):
                return parts
            self._offset += 1

    def _scan_key_part(self) -> str:
        bare = _BARE_KEY.match(self._text, self._offset)
        found = bare or _STRING.match(self._text, self._offset)
        if not found:
            raise _ScanError
        self._offset = found.end()
        return found[0] if bare else _unquoted(found[0])

    def _scan_value(self, path: KeyPath) -> None:
        if len(path) > DEPTH_MAX:
            self._refuse_depth()
        self.values[path] = self._lines.position(self._offset)
        if self._text.startswith("[", self._offset):
            self._scan_array(path)
        elif self._text.startswith("{", self._offset):
            self._scan_inline_table(path)
        else:
            found = _STRING.match(self._text, self._offset) or _SCALAR.match(
                self._text, self._offset
            )
            if not found:
                raise _ScanError
            self._offset = found.end()

    def _scan_array(self, path: KeyPath) -> None:
        self._offset += 1
        index = 0
        while not self._skip_close("]"):
            self._scan_value((*path, index))
            index += 1
            self._skip_comma()

    def _scan_inline_table(self, path: KeyPath) -> None:
        self._offset += 1
        while not self._skip_close("}"):
            self._scan_pair(path)
            self._skip_comma()

    def _skip_close(self, close: str) -> bool:
        self._skip(_BLANK)
        if self._text.startswith(close, self._offset):
            self._offset += 1
            return True
        return False

    def _skip_comma(self) -> None:
        self._skip(_BLANK)
        if self._text.startswith(",", self._offset):
            self._offset += 1
        elif not self._text.startswith(("]", "}"), self._offset):
            raise _ScanError

    def _add_key(self, path: KeyPath, offset: int) -> None:
        self.keys.setdefault(path, self._lines.position(offset))

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._offset)
        if found:
            self._offset = found.end()
        return self._offset

    def _expect(self, mark: str) -> None:
        if not self._text.startswith(mark, self._offset):
            raise _ScanError
        self._offset += len(mark)

    def _refuse_depth(self) -> NoReturn:
        line, column = self._lines.position(self._offset)
        raise UnreadableText(line, column, f"values are nested deeper than {DEPTH_MAX} levels")


def _dotted(path: KeyPath) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _unquoted(quoted: str) -> str:
    """The text of a quoted key; the standard parser decodes the escapes."""
    try:
        only: dict[str, Any] = tomllib.loads(f"{quoted} = 0")
    except ValueError:
        raise _ScanError from None
    return next(iter(only))
