"""A filter, taken apart by who decides each of its terms.

The sorts of events decide what tells one kind of event from another; SQL decides what is measured;
blocks of ids decide traces, ids and sessions; what is left is decided by the matcher on the lines
themselves. No text of a filter ever becomes SQL: only numbers do, and they are bound.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from anyport.record.filter_tree import Comparison, Filter, Moment, Range, Term, Text, Value
from anyport.record.marks import (
    PREFIX_DIGITS_MIN,
    SESSION,
    SPAN,
    TRACE,
    Field,
    session_digits,
)

TRAFFIC_TYPES: Final = ("gateway.exchange", "gateway.frame")
"""Far more numerous than all others, and seldom what one wants who asks what happened."""

NAMING: Final = frozenset({"type", "kind", "side", "method", "trace", "id"})
"""Who asks by one of these says what is wanted; then nothing is left out."""

_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {"dur": "took", "queue": "queue", "wait": "wait", "size": "size"}
)
_FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {"trace": TRACE, "id": SPAN, "session": SESSION}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A term about ids."""

    term: Term
    field: Field
    beginnings: tuple[str, ...]
    """Digits with which one of the ids begins that are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which events are wanted; all of these must hold."""

    since: float
    until: float
    """Not included."""
    sorted: Filter
    """Decided by the sort of an event."""
    where: str
    """Conditions of SQL on the columns of a row, each with ` AND ` before it."""
    values: tuple[float, ...]
    longest: float
    """No event is wanted that took less than this, if that is more than nothing."""
    marked: tuple[Marked, ...]
    rest: Filter
    """Decided by the event itself."""


def select(filter: Filter) -> Selection:
    """Who decides what of a filter."""
    since, until = float("-inf"), float("inf")
    by_sort, rest, marked, measured = [], [], [], []
    for term in filter.terms:
        if term.key in ("since", "until"):
            moment = _moment(term)
            # Not before a moment is the same as not until it.
            if (term.key == "since") is not term.negated:
                since = max(since, moment)
            else:
                until = min(until, moment)
        elif term.key in _COLUMNS:
            measured.append(term)
        elif term.key in _FIELDS:
            found = _marked(term)
            if found is None:
                rest.append(term)
            else:
                marked.append(found)
        elif term.key == "text":
            rest.append(term)
        else:
            by_sort.append(term)
    return Selection(
        since=since,
        until=until,
        sorted=Filter(terms=tuple(by_sort)),
        where="".join(f" AND {_condition(term)}" for term in measured),
        values=tuple(number for term in measured for number in _numbers(term)),
        longest=max((_least(term) for term in measured if term.key == "dur"), default=0.0),
        marked=tuple(marked),
        rest=Filter(terms=tuple(rest)),
    )


def happenings(filter: Filter) -> Filter:
    """The same, of what happened: without frames and lesser requests, unless it asks for them."""
    if any(term.key in NAMING and not term.negated for term in filter.terms):
        return filter
    left_out = Term(
        key="type", negated=True, values=tuple(Text(traffic) for traffic in TRAFFIC_TYPES)
    )
    return Filter(terms=(*filter.terms, left_out))


def _moment(term: Term) -> float:
    (moment,) = term.values
    assert isinstance(moment, Moment)
    return moment.at


def _marked(term: Term) -> Marked | None:
    """The term by its digits; None if they cannot tell."""
    beginnings = []
    for value in term.values:
        if not isinstance(value, Text):
            return None
        digits = session_digits(value.text) if term.key == "session" else value.text
        if len(digits) < PREFIX_DIGITS_MIN:
            return None
        beginnings.append(digits)
    return Marked(term=term, field=_FIELDS[term.key], beginnings=tuple(beginnings))


def _condition(term: Term) -> str:
    column = _COLUMNS[term.key]
    alternatives = " OR ".join(
        f"{column} {value.op} ?" if isinstance(value, Comparison) else f"{column} BETWEEN ? AND ?"
        for value in term.values
    )
    # Where nothing was measured a comparison is neither true nor false.
    return f"NOT coalesce({alternatives}, 0)" if term.negated else f"({alternatives})"


def _least(term: Term) -> float:
    """The smallest number that a term lets pass; below zero if that may be none at all."""
    if term.negated:
        return -1.0
    return min(
        -1.0 if isinstance(value, Comparison) and value.op in ("<", "<=") else number
        for value in term.values
        for number in _numbers_of(value)
    )


def _numbers(term: Term) -> Iterator[float]:
    for value in term.values:
        yield from _numbers_of(value)


def _numbers_of(value: Value) -> Iterator[float]:
    if isinstance(value, Comparison):
        yield value.number
    elif isinstance(value, Range):
        yield from (value.low, value.high)
