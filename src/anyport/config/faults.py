"""Faults of a configuration: message, hint, file and line.

A fault never quotes a value that could be a secret; it names keys, positions and rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FAULTS_MAX: Final = 100
"""More than a person reads at once; a file of half a million wrong keys must not take minutes."""

SHOWN_CHARS_MAX: Final = 64
"""Longer keys are cut in messages; the longest real ones have half of it."""

SIMILARITY_MIN: Final = 0.6
"""The default cutoff of difflib; below it, suggestions do not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFault:
    """One problem and its position."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    excerpt: str = ""
    """The position within a longer text: the text, and a caret below it."""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        below = "".join(f"\n    {line}" for line in self.excerpt.splitlines())
        return f"{self.file}:{self.line}:{self.column}: {self.message}{hint}{below}"


class ConfigError(Exception):
    """The configuration cannot be used; `faults` has all reasons."""

    def __init__(self, faults: Iterable[ConfigFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class ConfigFaults:
    """Collects faults and warnings, so that one run shows all of them."""

    __slots__ = ("_faults", "_warnings")

    def __init__(self) -> None:
        self._faults: list[ConfigFault] = []
        self._warnings: list[ConfigFault] = []

    def add(self, fault: ConfigFault) -> None:
        if not self.is_full:
            self._faults.append(fault)

    def warn(self, warning: ConfigFault) -> None:
        """Add a problem that does not prevent a start."""
        if len(self._warnings) < FAULTS_MAX:
            self._warnings.append(warning)

    @property
    def warnings(self) -> tuple[ConfigFault, ...]:
        return tuple(self._warnings)

    @property
    def is_full(self) -> bool:
        return len(self._faults) >= FAULTS_MAX

    def raise_any(self) -> None:
        """Raises:
        ConfigError: There are faults; it has them in the order of files and lines.
        """
        if self._faults:
            files = list(dict.fromkeys(fault.file for fault in self._faults))
            found = dict.fromkeys(self._faults)
            raise ConfigError(
                sorted(found, key=lambda fault: (files.index(fault.file), fault.line, fault.column))
            )


def find_nearest(
    word: str, valid: Iterable[str], *, at_least: float = SIMILARITY_MIN
) -> str | None:
    """The valid key that is closest, ignoring case, `_` and `-`; None if none is close."""
    # Imported late: only misspellings need it, and `anyport stdio` must start fast.
    from difflib import get_close_matches  # noqa: PLC0415

    normalized = {_normalize_key(key): key for key in valid}
    close = get_close_matches(
        _normalize_key(word[:SHOWN_CHARS_MAX]), normalized, n=1, cutoff=at_least
    )
    return normalized[close[0]] if close else None


def suggest(word: str, valid: Iterable[str]) -> str:
    """A hint for an invalid key or value."""
    keys = list(valid)
    near = find_nearest(word, keys)
    return f"did you mean {near}?" if near else f"valid here: {', '.join(keys)}"


def quote_name(name: str) -> str:
    """Quote a name from a file, escaped and cut to fit one line."""
    cut = name if len(name) <= SHOWN_CHARS_MAX else name[:SHOWN_CHARS_MAX] + "…"
    return repr(cut)


def _normalize_key(key: str) -> str:
    return re.sub(r"[_-]", "", key).lower()
