"""Syntax tree of a filter: terms that must all match, each with values of which one must.

Frozen and hashable, so that a filter can be compiled once, compared and cached.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from anyport.record.event import format_timestamp

Operator: TypeAlias = Literal["<", "<=", ">", ">=", "="]


@dataclass(frozen=True, slots=True)
class Glob:
    """Matches the whole text; `*` stands for any characters and `?` for any one."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Text:
    """Matches a text: as a whole, a prefix or a part, depending on `FilterKey.kind`."""

    text: str


@dataclass(frozen=True, slots=True)
class NumberComparison:
    """A comparison in the key's unit: milliseconds, bytes, or a code."""

    op: Operator
    number: float


@dataclass(frozen=True, slots=True)
class Range:
    """A range, both ends included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since 1970, in whole microseconds. `since` includes it, `until` does not."""

    at: float


Value: TypeAlias = Glob | Text | NumberComparison | Range | Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterTerm:
    """One condition. An event without the member matches only a negated term."""

    key: str
    negated: bool = False
    values: tuple[Value, ...]
    """At least one; any of them may match."""

    def __str__(self) -> str:
        values = ",".join(_format_value(value) for value in self.values)
        return f"{'-' if self.negated else ''}{self.key}:{values}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions that must all hold; without any, everything matches."""

    terms: tuple[FilterTerm, ...] = ()

    def __str__(self) -> str:
        """The filter in full, with every key named and every time absolute."""
        return " ".join(str(term) for term in self.terms)


_UNQUOTED_TEXT: Final = re.compile(r"[\w./:@+#%=&~-]+")
"""Texts that need no quotes, whatever the key."""


def _format_value(value: Value) -> str:
    match value:
        case Glob(pattern):
            return pattern
        case Text(text):
            if _UNQUOTED_TEXT.fullmatch(text):
                return text
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case NumberComparison(op, number):
            return f"{'' if op == '=' else op}{_format_number(number)}"
        case Range(low, high):
            return f"{_format_number(low)}..{_format_number(high)}"
        case Moment(at):
            return format_timestamp(at)


def _format_number(number: float) -> str:
    return f"{Decimal(repr(number)):f}"
