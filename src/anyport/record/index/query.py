"""Queries on the index: splits a filter by what can answer each term, and finds rows, newest first.

The search goes from the newest stretch to the oldest, skips those that cannot match, and stops when
the caller has enough.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, nextafter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from anyport.record.filter.ast import (
    Filter,
    FilterTerm,
    Moment,
    NumberComparison,
    Range,
    Text,
    Value,
)
from anyport.record.filter.match import compile_filter
from anyport.record.index.database import Database
from anyport.record.index.indexer import (
    PREFIX_DIGITS_MIN,
    SESSION_FIELD,
    SPAN_FIELD,
    STRETCH_BITS,
    TRACE_FIELD,
    IdField,
    find_ids,
    session_digits,
)

TRAFFIC_TYPES: Final = ("gateway.exchange", "gateway.frame")
"""Types that outnumber all others, and that few queries want."""

EXPLICIT_KEYS: Final = frozenset({"type", "kind", "side", "method", "trace", "id"})
"""A filter with one of these keys says what it wants: nothing is left out then."""

_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {"dur": "took", "queue": "queue", "wait": "wait", "size": "size"}
)
_ID_FIELDS: Final[Mapping[str, IdField]] = MappingProxyType(
    {"trace": TRACE_FIELD, "id": SPAN_FIELD, "session": SESSION_FIELD}
)

Position: TypeAlias = tuple[float, int]
"""Position of an event in order of time: its time, and its place in the journal."""

NEWEST_POSITION: Final[Position] = (inf, 0)
"""After all events."""

_SELECT_ROWS: Final = "SELECT at, place, length, sort, took FROM events WHERE at BETWEEN ? AND ?"
_ORDER_BY_TIME: Final = (
    # Nearly always true, so it comes after the conditions that rarely are.
    " AND place BETWEEN ? AND ? AND (at, place) < (?, ?) ORDER BY at DESC, place DESC LIMIT ?"
)
_SORT_CONDITION: Final = "sort IN (SELECT value FROM json_each(?))"
_NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTerm:
    """A term about ids."""

    term: FilterTerm
    field: IdField
    prefixes: tuple[str, ...]
    """Digits with which a matching id begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSelection:
    """A filter, split by what answers each term; all of these must hold.

    Labels are compared once per sort, measurements in SQL, ids in packed blocks, and what remains
    on the lines themselves. No text of a filter becomes SQL: only numbers do, and they are bound.
    """

    since: float
    until: float
    """Not included."""
    by_sort: Filter
    """Terms about labels."""
    where: str
    """SQL conditions on measurements, each preceded by ` AND `."""
    values: tuple[float, ...]
    duration_min: float
    """Stretches whose longest duration is below this are skipped."""
    id_terms: tuple[IdTerm, ...]
    line_terms: Filter
    """Terms that only the line can answer."""


def select_events(filter: Filter) -> IndexSelection:
    """Split a filter."""
    since, until = float("-inf"), float("inf")
    by_sort, line_terms, id_terms, measured = [], [], [], []
    for term in filter.terms:
        if term.key in ("since", "until"):
            moment = _moment_seconds(term)
            # `-since:` is the same as `until:`.
            if (term.key == "since") is not term.negated:
                since = max(since, moment)
            else:
                until = min(until, moment)
        elif term.key in _COLUMNS:
            measured.append(term)
        elif term.key in _ID_FIELDS:
            found = _parse_id_term(term)
            if found is None:
                line_terms.append(term)
            else:
                id_terms.append(found)
        elif term.key == "text":
            line_terms.append(term)
        else:
            by_sort.append(term)
    return IndexSelection(
        since=since,
        until=until,
        by_sort=Filter(terms=tuple(by_sort)),
        where="".join(f" AND {_condition(term)}" for term in measured),
        values=tuple(number for term in measured for number in _numbers(term)),
        duration_min=max(
            (_smallest_number(term) for term in measured if term.key == "dur"), default=0.0
        ),
        id_terms=tuple(id_terms),
        line_terms=Filter(terms=tuple(line_terms)),
    )


def without_traffic(filter: Filter) -> Filter:
    """The filter without frames and minor requests, unless it asks for them."""
    if any(term.key in EXPLICIT_KEYS and not term.negated for term in filter.terms):
        return filter
    exclusion = FilterTerm(
        key="type", negated=True, values=tuple(Text(traffic) for traffic in TRAFFIC_TYPES)
    )
    return Filter(terms=(*filter.terms, exclusion))


class IndexedRow(NamedTuple):
    """A row of the index. Rows sort by time."""

    at: float
    place: int
    length: int
    sort: int
    took: float | None

    @property
    def position(self) -> Position:
        return self.at, self.place


class Stretch(NamedTuple):
    """A block of 2 MiB of a file."""

    number: int
    first_at: float
    last_at: float

    @property
    def places(self) -> tuple[int, int]:
        """The first and last possible place."""
        return self.number << STRETCH_BITS, (self.number + 1 << STRETCH_BITS) - 1


class RowFinder:
    """Finds the rows of a selection, within one transaction."""

    def __init__(
        self, database: Database, selection: IndexSelection, before: Position | None = None
    ) -> None:
        self._database = database
        self._selection = selection
        self._before = before or NEWEST_POSITION
        sorts = self._matching_sorts()
        self._sorts = None if sorts is None else msgspec.json.encode(sorts).decode()
        """As a JSON array for SQL; None if every sort matches."""

    def newest_first(self, limit: int | None = None) -> Iterator[IndexedRow]:
        """The rows, newest first; no more than `limit` of each stretch."""
        pending: list[IndexedRow] = []
        for stretch in self._overlapping_stretches():
            # Stretches overlap where several files were written at once: hold back rows that a
            # later stretch may precede.
            ready_count = sum(row.at > stretch.last_at for row in pending)
            yield from pending[:ready_count]
            pending = sorted([*pending[ready_count:], *self.rows(stretch, limit)], reverse=True)
        yield from pending

    def all(self) -> Iterator[IndexedRow]:
        """The rows in any order."""
        for stretch in self._overlapping_stretches():
            yield from self.rows(stretch)

    def rows(self, stretch: Stretch, limit: int | None = None) -> Iterator[IndexedRow]:
        """The rows of one stretch."""
        condition = self._stretch_condition(stretch)
        if condition is None:
            return iter(())
        where, values = condition
        selection = self._selection
        found = self._database.each(
            _SELECT_ROWS + selection.where + where + _ORDER_BY_TIME,
            (
                max(stretch.first_at, selection.since),
                min(stretch.last_at, nextafter(selection.until, -inf)),
                *selection.values,
                *values,
                *stretch.places,
                *self._before,
                _NO_LIMIT if limit is None else limit,
            ),
        )
        return map(IndexedRow._make, found)

    def _stretch_condition(self, stretch: Stretch) -> tuple[str, list[str]] | None:
        """SQL conditions for sorts and ids in a stretch; None if nothing in it can match."""
        where, values = "", []
        if self._sorts is not None:
            where, values = f" AND {_SORT_CONDITION}", [self._sorts]
        for id_term in self._selection.id_terms:
            places = self._places_of_ids(stretch, id_term)
            if not places and not id_term.term.negated:
                return None
            negation = "NOT " if id_term.term.negated else ""
            where += f" AND place {negation}IN (SELECT value FROM json_each(?))"
            values.append(msgspec.json.encode(places).decode())
        return where, values

    def _overlapping_stretches(self) -> Iterator[Stretch]:
        statement = (
            "SELECT number, first_at, last_at FROM stretches"
            " WHERE last_at >= ? AND first_at < ? AND first_at <= ?"
        )
        values: list[Any] = [self._selection.since, self._selection.until, self._before[0]]
        if self._selection.duration_min > 0:
            statement += " AND longest >= ?"
            values.append(self._selection.duration_min)
        if self._sorts is not None:
            statement += f" AND number IN (SELECT stretch FROM spread WHERE {_SORT_CONDITION})"
            values.append(self._sorts)
        rows = self._database.rows(f"{statement} ORDER BY last_at DESC", values)
        return map(Stretch._make, rows)

    def _matching_sorts(self) -> list[int] | None:
        wanted = self._selection.by_sort
        if not wanted.terms:
            return None
        matches = compile_filter(wanted)
        sorts = self._database.rows(
            "SELECT number, about FROM sorts WHERE number IN (SELECT sort FROM spread WHERE stretch"
            " IN (SELECT number FROM stretches WHERE last_at >= ? AND first_at < ?))",
            (self._selection.since, self._selection.until),
        )
        found = [number for number, about in sorts if matches(msgspec.json.decode(about))]
        return None if len(found) == len(sorts) else found

    def _places_of_ids(self, stretch: Stretch, id_term: IdTerm) -> list[int]:
        """The places in a stretch where the ids of a term are, ignoring its negation."""
        ((raw, block),) = self._database.rows(
            "SELECT places, marks FROM stretches WHERE number = ?", (stretch.number,)
        )
        places = array("Q")
        places.frombytes(raw)
        found = {
            places[number]
            for beginning in id_term.prefixes
            for number in find_ids(block, id_term.field, beginning)
        }
        matches = compile_filter(Filter(terms=(replace(id_term.term, negated=False),)))
        for place, trace_id, span_id in self._database.rows(
            "SELECT place, trace_id, span_id FROM odd WHERE place BETWEEN ? AND ?", stretch.places
        ):
            if matches({"trace_id": trace_id, "metadata": {"span_id": span_id}}):
                found.add(place)
        return list(found)


def _moment_seconds(term: FilterTerm) -> float:
    (moment,) = term.values
    assert isinstance(moment, Moment)
    return moment.at


def _parse_id_term(term: FilterTerm) -> IdTerm | None:
    """The term as id prefixes; None if it has a glob or too short a prefix."""
    prefixes = []
    for value in term.values:
        if not isinstance(value, Text):
            return None
        digits = session_digits(value.text) if term.key == "session" else value.text
        if len(digits) < PREFIX_DIGITS_MIN:
            return None
        prefixes.append(digits)
    return IdTerm(term=term, field=_ID_FIELDS[term.key], prefixes=tuple(prefixes))


def _condition(term: FilterTerm) -> str:
    column = _COLUMNS[term.key]
    alternatives = " OR ".join(
        f"{column} {value.op} ?"
        if isinstance(value, NumberComparison)
        else f"{column} BETWEEN ? AND ?"
        for value in term.values
    )
    # A comparison with NULL, where nothing was measured, is neither true nor false.
    return f"NOT coalesce({alternatives}, 0)" if term.negated else f"({alternatives})"


def _smallest_number(term: FilterTerm) -> float:
    """The smallest number that a term accepts; below zero if there may be none."""
    if term.negated:
        return -1.0
    return min(
        -1.0 if isinstance(value, NumberComparison) and value.op in ("<", "<=") else number
        for value in term.values
        for number in _numbers_of(value)
    )


def _numbers(term: FilterTerm) -> Iterator[float]:
    for value in term.values:
        yield from _numbers_of(value)


def _numbers_of(value: Value) -> Iterator[float]:
    if isinstance(value, NumberComparison):
        yield value.number
    elif isinstance(value, Range):
        yield from (value.low, value.high)
