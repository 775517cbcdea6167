"""The traffic in the index: which events are rows, and which of them an id means.

Knows what the index is asked, not how it answers.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from anyport.record.filter import parse_filter
from anyport.record.filter_tree import Filter, Term, Text
from anyport.record.row import Row, decode_row

ROWS: Final = parse_filter("kind:* -status:pending", 0.0)
"""What is an exchange or a frame, and has ended."""

TRACE_ROWS_MAX: Final = 1000
"""Of one trace; a client may put a year into one."""

SEVERAL_MAX: Final = 5
"""Ids that are named to one who gave too few digits."""

_ID: Final = re.compile(r"[0-9a-f]{1,32}")

Ask: TypeAlias = Callable[[Filter, int], list[bytes]]
"""The newest events that match, so many at most, oldest first."""


class NoSuchId(Exception):
    """Nothing has this id, or too much has; the text is for the one who asked."""


def rows_of(filter: Filter) -> Filter:
    """The same filter, of the traffic alone."""
    return Filter(terms=(*ROWS.terms, *filter.terms))


def read_id(asked: str) -> str:
    """An id, or its first digits, as it is recorded.

    Raises:
        NoSuchId: it can be none.
    """
    digits = asked.strip().lower().replace("-", "")
    if not _ID.fullmatch(digits):
        raise NoSuchId("An id has only the digits 0-9 and a-f, as 'anyport traffic' shows them")
    return digits


def find(ask: Ask, asked: str) -> list[tuple[Row, bytes]]:
    """What an id means, with the events: one exchange or frame, or all of a trace, oldest first.

    The first digits will do where no other id begins with them.

    Raises:
        NoSuchId: it means nothing, or several things.
    """
    digits = read_id(asked)
    own = _found(ask, "id", digits, SEVERAL_MAX + 1)
    _refuse_several(digits, {row.id or "" for row, _ in own})
    if own:
        return own
    traced = _found(ask, "trace", digits, TRACE_ROWS_MAX)
    _refuse_several(digits, {row.trace_id for row, _ in traced})
    if not traced:
        raise NoSuchId(f"Nothing that is recorded has the id {digits}, and no trace begins with it")
    return traced


def _found(ask: Ask, key: str, digits: str, limit: int) -> list[tuple[Row, bytes]]:
    lines = ask(rows_of(Filter(terms=(Term(key=key, values=(Text(digits),)),))), limit)
    return [(row, line) for line in lines if (row := decode_row(line)) is not None]


def _refuse_several(digits: str, ids: set[str]) -> None:
    if len(ids) > 1:
        named = ", ".join(sorted(ids)[:SEVERAL_MAX])
        raise NoSuchId(f"Several begin with {digits}: {named}. Give more digits")
