"""The result of both parsers: plain values, and the position of every key and value.

Lines and columns start at one; columns count characters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path from the root of a file to a value: keys of tables, indexes of arrays."""

Position: TypeAlias = tuple[int, int]
"""Line and column."""

DEPTH_MAX: Final = 64
"""A configuration has at most five levels; files of clients have about ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedText:
    """The values of a text, with the position of every key and value."""

    value: Any
    keys: Mapping[KeyPath, Position]
    values: Mapping[KeyPath, Position]


class UnreadableText(Exception):
    """The text is not valid in its syntax."""

    def __init__(self, line: int, column: int, message: str, hint: str = "") -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        self.column = column
        self.message = message
        self.hint = hint


class LineIndex:
    """Converts offsets in a text to lines and columns."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def position(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
