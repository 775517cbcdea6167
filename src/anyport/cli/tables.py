"""Tables that fit a terminal without cutting any text.

rich.table wraps or cuts a table that is too wide, names and numbers too. Here the columns in
`no_wrap` keep their width and the others wrap; a last column of sentences that would get too
narrow moves below its row; and if even that is too wide, each row becomes a list.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

GridRow: TypeAlias = Sequence[str]

GRID_GAP: Final = "  "
SENTENCE_INDENT: Final = 2 * GRID_GAP
SENTENCE_CHARS_MIN: Final = 24
"""Three or four words; below that, sentences move below their row."""
WRAPPED_CHARS_MIN: Final = (12, 6)
"""Least width of a column that wraps; the second if the first does not fit."""


def out_grid(
    console: Console,
    titles: GridRow,
    rows: Sequence[GridRow],
    *,
    no_wrap: Container[str],
    styles: Mapping[str, str],
) -> None:
    """Print the rows below their titles."""
    widths = _widths(titles, rows, console.width, no_wrap)
    wraps = titles[-1] not in no_wrap
    is_below = wraps and widths[-1] < min(SENTENCE_CHARS_MIN, _natural_widths(titles, rows)[-1])
    if is_below:
        widths = _widths(titles[:-1], [row[:-1] for row in rows], console.width, no_wrap)
    heads = [Text(title, style="bold") for title in titles]
    bodies = [[Text(cell, style=styles.get(cell, "")) for cell in row] for row in rows]
    if sum(widths) + len(GRID_GAP) * (len(widths) - 1) > console.width:
        _out_lists(console, heads, bodies)
        return
    for texts in [heads, *bodies]:
        for line in _lines(console, texts, widths):
            console.print(line, soft_wrap=True)
        if is_below and texts[-1]:
            for line in texts[-1].wrap(
                console, console.width - len(SENTENCE_INDENT), overflow="fold"
            ):
                console.print(Text(SENTENCE_INDENT) + line, soft_wrap=True)


def _out_lists(console: Console, heads: list[Text], bodies: list[list[Text]]) -> None:
    width = max(head.cell_len for head in heads)
    for body in bodies:
        for head, text in zip(heads, body, strict=True):
            if text:
                padding = " " * (width - head.cell_len) + GRID_GAP
                # `Text.append` would give the style of the head to the rest.
                console.print(Text.assemble(head, padding, text), soft_wrap=True)
        console.print()


def _lines(console: Console, texts: list[Text], widths: list[int]) -> Iterator[Text]:
    """The lines of one row."""
    columns = [
        list(text.wrap(console, width, overflow="fold"))
        for text, width in zip(texts, widths, strict=False)
    ]
    for at in range(max(map(len, columns), default=0)):
        line = Text()
        for column, width in zip(columns, widths, strict=True):
            part = column[at] if at < len(column) else Text()
            part.rstrip()
            line.append_text(part).append(" " * (width - part.cell_len) + GRID_GAP)
        line.rstrip()
        yield line


def _widths(
    titles: GridRow, rows: Sequence[GridRow], available: int, no_wrap: Container[str]
) -> list[int]:
    """The widths of the columns; their sum may be too large if too much must not wrap."""
    widths = _natural_widths(titles, rows)
    contents = [max((cell_len(row[at]) for row in rows), default=1) for at in range(len(titles))]
    available -= len(GRID_GAP) * (len(titles) - 1)
    for floor in WRAPPED_CHARS_MIN:
        # First sentences wrap, then titles; numbers and names never do.
        floors = [
            (width if floor == WRAPPED_CHARS_MIN[0] else max(1, content))
            if title in no_wrap
            else floor
            for title, width, content in zip(titles, widths, contents, strict=True)
        ]
        while sum(widths) > available:
            spare = [width - floor for width, floor in zip(widths, floors, strict=True)]
            wide = [at for at, over in enumerate(spare) if over > 0]
            if not wide:
                break
            widest = max(wide, key=lambda at: (titles[at] not in no_wrap, widths[at]))
            widths[widest] -= 1
    return widths


def _natural_widths(titles: GridRow, rows: Sequence[GridRow]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
