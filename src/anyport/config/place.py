"""What both syntaxes give: plain values, and the place of every key and value.

Lines and columns count from one, columns in characters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""The way from the root of a file to a value: keys of tables, indexes of arrays."""

Place: TypeAlias = tuple[int, int]
"""Line and column."""

DEPTH_MAX: Final = 64
"""The deepest thing a configuration says has five levels; client files have some ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A text as values, with the place of every key and every value."""

    value: Any
    keys: Mapping[KeyPath, Place]
    values: Mapping[KeyPath, Place]


class Unreadable(Exception):
    """The text is not what its syntax demands."""

    def __init__(self, line: int, column: int, message: str, hint: str = "") -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.line = line
        self.column = column
        self.message = message
        self.hint = hint


class Lines:
    """Turns offsets in a text into places."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def place(self, offset: int) -> Place:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
