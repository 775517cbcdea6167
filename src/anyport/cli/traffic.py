"""`anyport traffic`: every exchange between clients and servers, and every frame outside one."""

from collections.abc import Sequence
from typing import Final

import msgspec

from anyport.cli.ending import GOOD, say
from anyport.cli.options import Given
from anyport.cli.paper import INDENT, Paper
from anyport.cli.recorded import Asked, recorded
from anyport.cli.render import GAP, STYLES, Columns, flush, out, table, terminal_width
from anyport.cli.rows import (
    BRIEF,
    BRIEF_WHOLE,
    TITLES,
    TYPICAL,
    WHOLE,
    brief,
    brief_typical,
    cells,
    shortened,
)
from anyport.record.filter_tree import Filter, Text
from anyport.record.row import Row
from anyport.record.text import cut, escape_line

LIMIT_DEFAULT: Final = 50
"""What fits on a screen, or nearly."""

ONLY_ENDED: Final = (
    "there are rows only for what has ended; what has begun is shown by: anyport events"
    " status:pending"
)
_PENDING: Final = Text("pending")


def traffic(given: Given, words: tuple[str, ...], *, limit: int, follow: bool) -> int:
    """Show the newest rows that match, and new ones as they come; the exit code."""
    asked = Asked(words)
    with recorded(given) as source:
        if follow:
            source.follow(asked, limit, Lines(as_json=given.json).append)
        rows = source.newest(asked, limit)
    if not rows:
        say(ONLY_ENDED if _wants_pending(asked.filter) else "no traffic matches")
    if given.json:
        _out_json(rows)
    elif rows:
        _out_table([cells(row) for row in rows])
    return GOOD


def _wants_pending(filter: Filter) -> bool:
    wanted = (term.values for term in filter.terms if term.key == "status" and not term.negated)
    return any(_PENDING in values for values in wanted)


def _out_table(rows: list[tuple[str, ...]]) -> None:
    """All columns, or those that a narrow terminal has room for."""
    width = terminal_width()
    # A message has lines of its own where it needs them.
    if width is None or Columns(*(row[:-1] for row in (TITLES, *rows))).width <= width:
        table(TITLES, rows, whole=WHOLE)
    else:
        table(BRIEF, [brief(row) for row in rows], whole=BRIEF_WHOLE)


class Lines:
    """Rows below their titles, as they come."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._paper = Paper()
        self._columns: Columns | None = None
        width = terminal_width()
        self._width = None if width is None or Columns(TYPICAL).width <= width else width
        """Of a terminal that is too narrow for all columns."""

    def append(self, rows: list[Row]) -> None:
        """Show some more."""
        if self._as_json:
            _out_json(rows)
        elif self._width is None:
            self._append([cells(row) for row in rows])
        else:
            self._append_brief([brief(cells(row)) for row in rows], self._width)
        flush()

    def _append(self, rows: list[tuple[str, ...]]) -> None:
        if self._columns is None:
            self._columns = Columns(TITLES, TYPICAL, *rows)
            self._paper.line((self._columns.line(TITLES), "bold"))
        for row in rows:
            self._line(self._columns, row)

    def _append_brief(self, rows: list[tuple[str, ...]], width: int) -> None:
        if self._columns is None:
            self._columns = Columns(brief_typical(width))
            self._paper.line((self._columns.line(self._columns.cut(BRIEF)), "bold"))
        names = len(brief_typical(width)[1])
        for time, way, *row, told in rows:
            cut_row = self._columns.cut([time, shortened(way, names), *row])
            self._line(self._columns, cut_row)
            if told:
                self._paper.line(f"{INDENT}{cut(told, max(1, width - len(INDENT)))}")

    def _line(self, columns: Columns, row: Sequence[str]) -> None:
        padded = zip(columns.padded(row), row, strict=True)
        pieces = [(f"{cell}{GAP}", STYLES.get(text, "")) for cell, text in padded]
        last, style = pieces.pop()
        self._paper.line(*pieces, (last.rstrip(), style))


def _out_json(rows: list[Row]) -> None:
    for row in rows:
        out(escape_line(msgspec.json.encode(row)).decode())
