"""A table on a terminal: laid out for its width, with nothing cut away.

Columns that must be read whole, such as numbers, keep their width; the others fold. Sentences in
the last column that would become too narrow stand on lines of their own, and where even that is
too wide each row becomes a list. Imported late, because it costs more than the rest of a command
and is for eyes only.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

Row: TypeAlias = Sequence[str]

GAP: Final = "  "
INDENT: Final = 2 * GAP
SENTENCE_CHARS_MIN: Final = 24
"""Three or four words: a narrower column of sentences is a column of words."""
FOLDED_CHARS_MIN: Final = (12, 6)
"""How narrow a column that folds may become; the second when the first is still too wide."""


def out_grid(
    console: Console,
    titles: Row,
    rows: Sequence[Row],
    *,
    whole: Container[str],
    styles: Mapping[str, str],
) -> None:
    """Print the rows below their titles."""
    widths = _widths(titles, rows, console.width, whole)
    folds = titles[-1] not in whole
    below = folds and widths[-1] < min(SENTENCE_CHARS_MIN, _natural(titles, rows)[-1])
    if below:
        widths = _widths(titles[:-1], [row[:-1] for row in rows], console.width, whole)
    heads = [Text(title, style="bold") for title in titles]
    bodies = [[Text(cell, style=styles.get(cell, "")) for cell in row] for row in rows]
    if sum(widths) + len(GAP) * (len(widths) - 1) > console.width:
        _out_lists(console, heads, bodies)
        return
    for texts in [heads, *bodies]:
        for line in _lines(console, texts, widths):
            console.print(line, soft_wrap=True)
        if below and texts[-1]:
            for line in texts[-1].wrap(console, console.width - len(INDENT), overflow="fold"):
                console.print(Text(INDENT) + line, soft_wrap=True)


def _out_lists(console: Console, heads: list[Text], bodies: list[list[Text]]) -> None:
    width = max(head.cell_len for head in heads)
    for body in bodies:
        for head, text in zip(heads, body, strict=True):
            if text:
                padding = " " * (width - head.cell_len) + GAP
                # Assembled: what is added to a text takes on its style.
                console.print(Text.assemble(head, padding, text), soft_wrap=True)
        console.print()


def _lines(console: Console, texts: list[Text], widths: list[int]) -> Iterator[Text]:
    """One row as the lines that its longest cell needs."""
    columns = [
        list(text.wrap(console, width, overflow="fold"))
        for text, width in zip(texts, widths, strict=False)
    ]
    for at in range(max(map(len, columns), default=0)):
        line = Text()
        for column, width in zip(columns, widths, strict=True):
            part = column[at] if at < len(column) else Text()
            part.rstrip()
            line.append_text(part).append(" " * (width - part.cell_len) + GAP)
        line.rstrip()
        yield line


def _widths(titles: Row, rows: Sequence[Row], available: int, whole: Container[str]) -> list[int]:
    """Widths that fit, or the least there are: what must be whole may be too wide."""
    widths = _natural(titles, rows)
    contents = [max((cell_len(row[at]) for row in rows), default=1) for at in range(len(titles))]
    available -= len(GAP) * (len(titles) - 1)
    for floor in FOLDED_CHARS_MIN:
        # A title folds sooner than a number is cut, and later than a sentence folds.
        floors = [
            (width if floor == FOLDED_CHARS_MIN[0] else max(1, content))
            if title in whole
            else floor
            for title, width, content in zip(titles, widths, contents, strict=True)
        ]
        while sum(widths) > available:
            spare = [width - floor for width, floor in zip(widths, floors, strict=True)]
            wide = [at for at, over in enumerate(spare) if over > 0]
            if not wide:
                break
            widest = max(wide, key=lambda at: (titles[at] not in whole, widths[at]))
            widths[widest] -= 1
    return widths


def _natural(titles: Row, rows: Sequence[Row]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
