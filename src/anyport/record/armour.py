"""Hides a private key that is told line by line, where no single line tells what it is.

Remembers only whether a key has begun. What else may be secret in a line is not known here.
"""

from typing import Final

KEY_LINES_MAX: Final = 400
"""No key is longer; a beginning that never ends must not hide everything after it."""

_MARK: Final = "[redacted]"


class Armour:
    """Reads the lines of one stream, in order."""

    def __init__(self) -> None:
        self._left = 0
        """Lines that may still belong to a key."""

    @property
    def is_open(self) -> bool:
        """Whether the next line belongs to a key."""
        return self._left > 0

    def __call__(self, line: str) -> str:
        """The line, or a mark in place of it."""
        if "-----" in line:
            begun = line.rpartition("-----BEGIN ")[2]
            if "PRIVATE KEY" in begun and "-----END " not in begun:
                self._left = KEY_LINES_MAX
                return line
        if not self._left:
            return line
        self._left = 0 if "-----END " in line else self._left - 1
        return _MARK
