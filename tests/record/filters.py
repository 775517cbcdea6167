"""What the tests of filters share: filters and events drawn at random, from few enough words that
they often meet."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from anyport.record.event import format_timestamp
from anyport.record.filter.ast import Operator
from anyport.record.filter.parser import (
    KEYS,
    Filter,
    FilterTerm,
    Glob,
    Moment,
    NumberComparison,
    Range,
    Text,
    Value,
)

NOON = 1_785_240_000.25  # 2026-07-28T12:00:00.25Z
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TIMESTAMPS = (
    "2026-07-28T11:59:59.999999+00:00",
    "2026-07-28T12:00:00.250000+00:00",
    "2026-07-28T14:00:00.250000+02:00",
    "2026-07-28 12:00:00.100000+00:00",
    "2026-07-28T12:00:00Z",
    "2026-07-28T12:00:01",
)

WORDS = ("a", "ab", "b", "Ab", "a b", "b*", "ä", "tools/call", "2025-06-18", "2026-07-28", "4bf9")
NUMBERS = (-32602, -1, 0, 0.001, 1, 1.5, 1000, 2**31)
OPERATORS: tuple[Operator, ...] = ("<", "<=", ">", ">=", "=")

names = st.sampled_from(WORDS).map(Text)
globs = st.text(alphabet="ab?*4ä", min_size=1, max_size=6).filter(
    lambda pattern: "*" in pattern or "?" in pattern
)
numbers: st.SearchStrategy[float] = st.sampled_from(NUMBERS)


def _comparisons(fit: st.SearchStrategy[float]) -> st.SearchStrategy[Value]:
    ranges = st.tuples(fit, fit).map(lambda ends: Range(min(ends), max(ends)))
    return st.builds(NumberComparison, st.sampled_from(OPERATORS), fit) | ranges


def values_of(key: str) -> st.SearchStrategy[Value]:
    kind = KEYS[key].kind
    if kind == "moment":
        return st.sampled_from((NOON - 0.5, NOON, NOON + 0.5)).map(Moment)
    if kind == "text":
        return names
    if kind == "word":
        return st.sampled_from(KEYS[key].words).map(Text) | globs.map(_starred)
    if kind in ("duration", "bytes"):
        return _comparisons(numbers.filter(lambda number: number >= 0))
    if kind == "code":
        whole = numbers.filter(lambda number: number == int(number))
        return _comparisons(whole) | st.sampled_from(("a", "ab", "ä")).map(Text)
    if key in ("trace", "id"):
        return st.sampled_from(("4", TRACE[:9], TRACE)).map(Text) | globs.map(Glob)
    return names | globs.map(Glob)


def _starred(pattern: str) -> Value:
    return Glob("*" + pattern)  # So that no prefix is added to a type.


@st.composite
def terms(draw: st.DrawFn) -> FilterTerm:
    key = draw(st.sampled_from(tuple(KEYS)))
    most = 1 if KEYS[key].kind == "moment" else 3
    values = draw(st.lists(values_of(key), min_size=1, max_size=most, unique=True))
    return FilterTerm(key=key, negated=draw(st.booleans()), values=tuple(values))


filters = st.lists(terms(), max_size=3).map(lambda found: Filter(terms=tuple(found)))

strange = st.sampled_from((None, True, 1, 1.5, "a", ["a"], [1], {"a": "b"}))


@st.composite
def events_for(draw: st.DrawFn, filter: Filter) -> dict[str, Any]:
    """An event in which the filter finds something to look at, right or wrong, or nothing."""
    wanted = {"event_type", "status", "error_code", "error_message", "metadata.public_name"}
    wanted |= {where for term in filter.terms for where in KEYS[term.key].where} - {"metadata"}
    event: dict[str, Any] = {"metadata": {}}
    for where in sorted(wanted):
        if draw(st.integers(0, 3)):
            into = event["metadata"] if where.startswith("metadata.") else event
            into[where.removeprefix("metadata.")] = draw(_members(where, filter))
    if not draw(st.integers(0, 9)):
        event["metadata"] = draw(strange)
    return event


cases = filters.flatmap(lambda filter: st.tuples(st.just(filter), events_for(filter)))
"""A filter, and an event that it may be about."""


def _members(where: str, filter: Filter) -> st.SearchStrategy[Any]:
    """What may stand there, what the filter asks for, and what should not stand there."""
    fit: tuple[Any, ...] = WORDS
    if where == "timestamp":
        fit = TIMESTAMPS
    elif where == "trace_id":
        uuid = f"{TRACE[:8]}-{TRACE[8:12]}-{TRACE[12:16]}-{TRACE[16:20]}-{TRACE[20:]}"
        fit = (TRACE, TRACE.upper(), uuid, "4a", "-")
    elif where.endswith(("_ms", "bytes")):
        fit = NUMBERS
    elif where == "event_type":
        fit = KEYS["type"].words
    elif where in ("status", "error_code"):
        fit = (*KEYS["status"].words, *NUMBERS)
    asked = [
        part for term in filter.terms if where in KEYS[term.key].where for part in _parts(term)
    ]
    return st.one_of(st.sampled_from(fit), st.sampled_from(asked or fit), strange)


def _parts(term: FilterTerm) -> Iterator[str | float]:
    for value in term.values:
        match value:
            case Text(text) | Glob(text):
                yield from (text, text.upper(), f"{text}b")
            case NumberComparison(_, number):
                yield number
            case Range(low, high):
                yield from (low, high)
            case Moment(at):
                yield format_timestamp(at)
