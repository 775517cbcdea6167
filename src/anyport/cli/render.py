"""Text, tables and JSON on stdout. Knows terminals; does not know what it shows."""

import shutil
import sys
from collections.abc import Container, Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import msgspec

from anyport.record.text import cut, escape_line, printable

Row: TypeAlias = Sequence[str]

GAP: Final = "  "
"""Between columns."""

STYLES: Final = {
    "bad": "red",
    "cancelled": "yellow",
    "failed": "red",
    "failure": "red",
    "good": "green",
    "gateway_error": "red",
    "ok": "green",
    "pending": "cyan",
    "running": "green",
    "server_error": "red",
    "starting": "yellow",
    "success": "green",
    "timeout": "red",
    "tool_error": "magenta",
}
"""Words that a table on a terminal shows in colour, wherever they stand alone in a cell."""


def out(text: str) -> None:
    """One line of what was asked for."""
    sys.stdout.write(f"{text}\n")


def flush() -> None:
    """Let readers see what there is so far."""
    sys.stdout.flush()


def clean(text: str) -> str:
    """Text of a server, line by line without what could confuse a terminal."""
    return "\n".join(printable(line.removesuffix("\r")) for line in text.split("\n"))


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def cell(text: str) -> str:
    """Text as a cell of a table: one line, as wide as it has characters."""
    return printable(text).replace("\t", " ")


def out_json(document: bytes | Any, *, indent: int = 2) -> None:
    """A JSON document; raw bytes keep every digit and every member. No indent makes one line."""
    raw = document if isinstance(document, bytes) else msgspec.json.encode(document)
    shaped = msgspec.json.format(raw, indent=indent if indent else -1)
    out(escape_line(shaped).decode())


def table(titles: Row, rows: Iterable[Row], *, whole: Container[str] = ()) -> None:
    """Aligned columns; on a terminal folded to its width, and coloured unless NO_COLOR is set.

    What stands under the titles in `whole` is never folded.
    """
    cells = [[cell(text) for text in row] for row in rows]
    if sys.stdout.isatty():
        _table_on_terminal(titles, cells, whole)
        return
    columns = Columns(titles, *cells)
    for row in [titles, *cells]:
        out(columns.line(row))


def terminal_width() -> int | None:
    """How many columns there are; None where nobody looks, and lines may be of any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class Columns:
    """Widths that are the same for every row: those of the rows known at the beginning."""

    def __init__(self, *rows: Row) -> None:
        columns = zip_longest(*rows, fillvalue="")
        self._widths = [max(map(len, column)) for column in columns]

    @property
    def width(self) -> int:
        """How long a line of them is."""
        return sum(self._widths) + len(GAP) * (len(self._widths) - 1)

    def line(self, row: Row) -> str:
        """The row as one line; a cell that is too wide moves the rest of its own row only."""
        return GAP.join(self.padded(row)).rstrip()

    def padded(self, row: Row) -> list[str]:
        """The cells of a row, each as wide as its column."""
        return [text.ljust(width) for text, width in zip(row, self._widths, strict=False)]

    def cut(self, row: Row) -> list[str]:
        """The cells of a row, none wider than its column."""
        return [cut(text, width) for text, width in zip(row, self._widths, strict=False)]


def milliseconds(duration: float | None) -> str:
    """How long something took, short."""
    if duration is None:
        return ""
    return f"{duration:.1f} ms" if duration < 1000 else f"{duration / 1000:.2f} s"


def _table_on_terminal(titles: Row, rows: list[list[str]], whole: Container[str]) -> None:
    # Late: this costs more than the rest of a command, and is for eyes only.
    from rich.console import Console  # noqa: PLC0415

    from anyport.cli.grid import out_grid  # noqa: PLC0415

    console = Console(file=sys.stdout, highlight=False)
    out_grid(console, titles, rows, whole=whole, styles=STYLES)
