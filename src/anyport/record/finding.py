"""The rows of the index that a selection wants, newest first.

The index is gone through stretch by stretch, from the newest to the oldest; one that cannot hold
what is wanted is passed over, and whoever has enough stops. Knows nothing of lines.
"""

from array import array
from collections.abc import Iterator
from dataclasses import replace
from math import inf, nextafter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from anyport.record.database import Database
from anyport.record.filter_tree import Filter
from anyport.record.intake import STRETCH_BITS
from anyport.record.marks import numbers
from anyport.record.matching import matcher
from anyport.record.selecting import Marked, Selection

Position: TypeAlias = tuple[float, int]
"""Where an event stands in the order of time: its moment, its place in the journal."""

NEWEST: Final[Position] = (inf, 0)
"""After all events."""

ROWS: Final = "SELECT at, place, length, sort, took FROM events WHERE at BETWEEN ? AND ?"
IN_ORDER: Final = (
    # Nearly always true; so it comes after the conditions that seldom are.
    " AND place BETWEEN ? AND ? AND (at, place) < (?, ?) ORDER BY at DESC, place DESC LIMIT ?"
)

_OF_SORTS: Final = "sort IN (SELECT value FROM json_each(?))"
_ALL_ROWS: Final = -1


class Row(NamedTuple):
    """An event in the index. Rows compare as their events do in time."""

    at: float
    place: int
    length: int
    sort: int
    took: float | None

    @property
    def position(self) -> Position:
        return self.at, self.place


class Stretch(NamedTuple):
    """Some megabytes of a file."""

    number: int
    first_at: float
    last_at: float

    @property
    def places(self) -> tuple[int, int]:
        """The first and the last that there may be."""
        return self.number << STRETCH_BITS, (self.number + 1 << STRETCH_BITS) - 1


class Finder:
    """Finds the rows of one selection; used within one transaction."""

    def __init__(
        self, database: Database, selection: Selection, before: Position | None = None
    ) -> None:
        self._database = database
        self._selection = selection
        self._before = before or NEWEST
        sorts = self._wanted_sorts()
        self._sorts = None if sorts is None else msgspec.json.encode(sorts).decode()
        """As JSON; None if all are wanted."""

    def newest_first(self, limit: int | None = None) -> Iterator[Row]:
        """The rows in the order of time; of no stretch more than the limit."""
        held: list[Row] = []
        for stretch in self._stretches():
            # Stretches overlap where several files are written at once.
            ready = sum(row.at > stretch.last_at for row in held)
            yield from held[:ready]
            held = sorted([*held[ready:], *self.rows(stretch, limit)], reverse=True)
        yield from held

    def all(self) -> Iterator[Row]:
        """The rows in any order."""
        for stretch in self._stretches():
            yield from self.rows(stretch)

    def rows(self, stretch: Stretch, limit: int | None = None) -> Iterator[Row]:
        """The rows of one stretch."""
        chosen = self._chosen(stretch)
        if chosen is None:
            return iter(())
        where, values = chosen
        selection = self._selection
        found = self._database.each(
            ROWS + selection.where + where + IN_ORDER,
            (
                max(stretch.first_at, selection.since),
                min(stretch.last_at, nextafter(selection.until, -inf)),
                *selection.values,
                *values,
                *stretch.places,
                *self._before,
                _ALL_ROWS if limit is None else limit,
            ),
        )
        return map(Row._make, found)

    def _chosen(self, stretch: Stretch) -> tuple[str, list[str]] | None:
        """What sorts and ids say of a stretch, as SQL; None if nothing in it is wanted."""
        where, values = "", []
        if self._sorts is not None:
            where, values = f" AND {_OF_SORTS}", [self._sorts]
        for marked in self._selection.marked:
            places = self._places(stretch, marked)
            if not places and not marked.term.negated:
                return None
            negation = "NOT " if marked.term.negated else ""
            where += f" AND place {negation}IN (SELECT value FROM json_each(?))"
            values.append(msgspec.json.encode(places).decode())
        return where, values

    def _stretches(self) -> Iterator[Stretch]:
        statement = (
            "SELECT number, first_at, last_at FROM stretches"
            " WHERE last_at >= ? AND first_at < ? AND first_at <= ?"
        )
        values: list[Any] = [self._selection.since, self._selection.until, self._before[0]]
        if self._selection.longest > 0:
            statement += " AND longest >= ?"
            values.append(self._selection.longest)
        if self._sorts is not None:
            statement += f" AND number IN (SELECT stretch FROM spread WHERE {_OF_SORTS})"
            values.append(self._sorts)
        rows = self._database.rows(f"{statement} ORDER BY last_at DESC", values)
        return map(Stretch._make, rows)

    def _wanted_sorts(self) -> list[int] | None:
        wanted = self._selection.sorted
        if not wanted.terms:
            return None
        matches = matcher(wanted)
        sorts = self._database.rows(
            "SELECT number, about FROM sorts WHERE number IN (SELECT sort FROM spread WHERE stretch"
            " IN (SELECT number FROM stretches WHERE last_at >= ? AND first_at < ?))",
            (self._selection.since, self._selection.until),
        )
        found = [number for number, about in sorts if matches(msgspec.json.decode(about))]
        return None if len(found) == len(sorts) else found

    def _places(self, stretch: Stretch, marked: Marked) -> list[int]:
        """Where in a stretch the ids of a term are, negated or not."""
        ((raw, block),) = self._database.rows(
            "SELECT places, marks FROM stretches WHERE number = ?", (stretch.number,)
        )
        places = array("Q")
        places.frombytes(raw)
        found = {
            places[number]
            for beginning in marked.beginnings
            for number in numbers(block, marked.field, beginning)
        }
        matches = matcher(Filter(terms=(replace(marked.term, negated=False),)))
        for place, trace_id, span_id in self._database.rows(
            "SELECT place, trace_id, span_id FROM odd WHERE place BETWEEN ? AND ?", stretch.places
        ):
            if matches({"trace_id": trace_id, "metadata": {"span_id": span_id}}):
                found.add(place)
        return list(found)
