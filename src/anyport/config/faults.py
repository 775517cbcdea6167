"""What is wrong with a configuration, in a form that leads a person to the line.

A fault never quotes a value that could be a secret: it names keys, places and rules. It knows
nothing of syntaxes and files beyond their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FAULTS_MAX: Final = 100
"""More than anybody reads at once; a file of half a million wrong keys must not take minutes."""

SHOWN_CHARS_MAX: Final = 64
"""A key is quoted in a message up to here; the longest real ones have half of it."""

NEARNESS_MIN: Final = 0.6
"""difflib's own measure of "close"; below it suggestions are more odd than helpful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong, and where."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    excerpt: str = ""
    """Lines that show where in a longer text it is: the text, and a caret below."""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        below = "".join(f"\n    {line}" for line in self.excerpt.splitlines())
        return f"{self.file}:{self.line}:{self.column}: {self.message}{hint}{below}"


class ConfigError(Exception):
    """The configuration cannot be used; `faults` has every reason there is."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class Faults:
    """Collects faults so that one run shows all of them, and what is merely unwise."""

    __slots__ = ("_found", "_warnings")

    def __init__(self) -> None:
        self._found: list[Fault] = []
        self._warnings: list[Fault] = []

    def add(self, fault: Fault) -> None:
        if not self.full:
            self._found.append(fault)

    def warn(self, warning: Fault) -> None:
        """Note what can be used as it is, but should not stay so."""
        if len(self._warnings) < FAULTS_MAX:
            self._warnings.append(warning)

    @property
    def warnings(self) -> tuple[Fault, ...]:
        return tuple(self._warnings)

    @property
    def full(self) -> bool:
        return len(self._found) >= FAULTS_MAX

    def raise_any(self) -> None:
        """Raises:
        ConfigError: Something was found. In the order of files and lines.
        """
        if self._found:
            files = list(dict.fromkeys(fault.file for fault in self._found))
            found = dict.fromkeys(self._found)
            raise ConfigError(
                sorted(found, key=lambda fault: (files.index(fault.file), fault.line, fault.column))
            )


def nearest(word: str, valid: Iterable[str], *, at_least: float = NEARNESS_MIN) -> str | None:
    """The valid key that was probably meant: case, `_` and `-` do not count."""
    # Late: only a slip needs it, and a client waits for `anyport stdio`.
    from difflib import get_close_matches  # noqa: PLC0415

    plain = {_plain(key): key for key in valid}
    close = get_close_matches(_plain(word[:SHOWN_CHARS_MAX]), plain, n=1, cutoff=at_least)
    return plain[close[0]] if close else None


def suggestion(word: str, valid: Iterable[str]) -> str:
    """A hint for a word that is not among the valid ones."""
    keys = list(valid)
    near = nearest(word, keys)
    return f"did you mean {near}?" if near else f"valid here: {', '.join(keys)}"


def shown(name: str) -> str:
    """A name from a file, fit to stand in one line of text."""
    cut = name if len(name) <= SHOWN_CHARS_MAX else name[:SHOWN_CHARS_MAX] + "…"
    return repr(cut)


def _plain(key: str) -> str:
    return re.sub(r"[_-]", "", key).lower()
