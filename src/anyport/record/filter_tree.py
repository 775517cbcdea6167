"""A filter as a tree: terms that must all match, each with values of which one must.

Frozen and hashable, so that it can be prepared once, compared and put into a cache. The tree
knows neither how it was written nor what it is asked of.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from anyport.record.event import timestamp

Operator: TypeAlias = Literal["<", "<=", ">", ">=", "="]


@dataclass(frozen=True, slots=True)
class Glob:
    """The whole text, `*` standing for any characters and `?` for any one."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Text:
    """The text itself; `Key.kind` says whether that is the whole, the beginning or a part."""

    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A number in the key's unit: milliseconds, bytes, or a code."""

    op: Operator
    number: float


@dataclass(frozen=True, slots=True)
class Range:
    """From one number to another, both included."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since 1970, in whole microseconds. `since` includes it, `until` does not."""

    at: float


Value: TypeAlias = Glob | Text | Comparison | Range | Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One condition. An event that lacks what the key asks for matches only when negated."""

    key: str
    negated: bool = False
    values: tuple[Value, ...]
    """At least one; any of them may match."""

    def __str__(self) -> str:
        values = ",".join(_written(value) for value in self.values)
        return f"{'-' if self.negated else ''}{self.key}:{values}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions that must all hold; without any, everything matches."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        """The filter in full: every key named, every moment and number absolute."""
        return " ".join(str(term) for term in self.terms)


_PLAIN: Final = re.compile(r"[\w./:@+#%=&~-]+")
"""Needs no quotes, whatever the key."""


def _written(value: Value) -> str:
    match value:
        case Glob(pattern):
            return pattern
        case Text(text):
            if _PLAIN.fullmatch(text):
                return text
            escaped = text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case Comparison(op, number):
            return f"{'' if op == '=' else op}{_decimal(number)}"
        case Range(low, high):
            return f"{_decimal(low)}..{_decimal(high)}"
        case Moment(at):
            return timestamp(at)


def _decimal(number: float) -> str:
    return f"{Decimal(repr(number)):f}"
