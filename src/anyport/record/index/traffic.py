"""Finds rows of the traffic in the index, by filter and by id."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from anyport.record.filter.ast import Filter, FilterTerm, Text
from anyport.record.filter.parser import parse_filter
from anyport.record.traffic import Row, decode_row

TRAFFIC_FILTER: Final = parse_filter("kind:* -status:pending", 0.0)
"""Exchanges and frames that have ended."""

TRACE_ROWS_MAX: Final = 1000
"""Rows of one trace; a client may put a year into one."""

AMBIGUOUS_IDS_MAX: Final = 5
"""Ids that are listed when a prefix is ambiguous."""

_ID: Final = re.compile(r"[0-9a-f]{1,32}")

QueryIndex: TypeAlias = Callable[[Filter, int], list[bytes]]
"""The newest events that match, at most this many, oldest first."""


class NoSuchId(Exception):
    """Nothing has this id, or several do; the text is for the user."""


def limit_to_traffic(filter: Filter) -> Filter:
    """Restrict a filter to the traffic."""
    return Filter(terms=(*TRAFFIC_FILTER.terms, *filter.terms))


def parse_id(id_text: str) -> str:
    """The stored form of an id, or of its prefix.

    Raises:
        NoSuchId: the text cannot be an id.
    """
    digits = id_text.strip().lower().replace("-", "")
    if not _ID.fullmatch(digits):
        raise NoSuchId("An id has only the digits 0-9 and a-f, as 'anyport traffic' shows them")
    return digits


def find_by_id(query_index: QueryIndex, id_text: str) -> list[tuple[Row, bytes]]:
    """Find an exchange or frame, or all rows of a trace, oldest first, with their events.

    A prefix is enough if it is unique.

    Raises:
        NoSuchId: nothing, or several things, have this id.
    """
    digits = parse_id(id_text)
    matching = _query_rows(query_index, "id", digits, AMBIGUOUS_IDS_MAX + 1)
    _refuse_ambiguous(digits, {row.id or "" for row, _ in matching})
    if matching:
        return matching
    in_trace = _query_rows(query_index, "trace", digits, TRACE_ROWS_MAX)
    _refuse_ambiguous(digits, {row.trace_id for row, _ in in_trace})
    if not in_trace:
        raise NoSuchId(f"Nothing in the record has the id {digits}, and no trace begins with it")
    return in_trace


def _query_rows(
    query_index: QueryIndex, key: str, digits: str, limit: int
) -> list[tuple[Row, bytes]]:
    lines = query_index(
        limit_to_traffic(Filter(terms=(FilterTerm(key=key, values=(Text(digits),)),))), limit
    )
    return [(row, line) for line in lines if (row := decode_row(line)) is not None]


def _refuse_ambiguous(digits: str, ids: set[str]) -> None:
    if len(ids) > 1:
        named = ", ".join(sorted(ids)[:AMBIGUOUS_IDS_MAX])
        raise NoSuchId(f"Several ids begin with {digits}: {named}. Give more digits")
