"""Text, tables and JSON on stdout: coloured and fitted to a terminal, plain otherwise."""

import json
import shutil
import sys
from collections.abc import Container, Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from anyport.record.redact.escape import cut, escape_line, make_printable

if TYPE_CHECKING:
    from rich.console import Console


TableRow: TypeAlias = Sequence[str]

COLUMN_GAP: Final = "  "

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
"""Colours of table cells with exactly this text."""


def out(text: str) -> None:
    """Print text to stdout, with control characters escaped."""
    sys.stdout.write(f"{clean(text)}\n")


def flush() -> None:
    sys.stdout.flush()


def clean(text: str) -> str:
    """Escape control characters, but keep line breaks."""
    return "\n".join(make_printable(line.removesuffix("\r")) for line in text.split("\n"))


def pluralize(count: int, one: str, several: str = "") -> str:
    """A count with its noun, such as `2 servers`."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def cell(text: str) -> str:
    """Text as one line of a table cell."""
    return make_printable(text).replace("\t", " ")


def out_json(document: bytes | Any, *, indent: int = 2) -> None:
    """Print JSON; raw bytes keep their numbers and key order. Indent 0 means one line."""
    raw = document if isinstance(document, bytes) else _encode(document)
    out_raw(msgspec.json.format(raw, indent=indent if indent else -1))


def out_raw(document: bytes) -> None:
    """Print a line of JSON, with control characters escaped."""
    sys.stdout.write(f"{escape_line(document).decode()}\n")


def _encode(document: Any) -> bytes:
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        # A string with lone surrogates, such as a file name that is not UTF-8.
        text = json.dumps(msgspec.to_builtins(document), ensure_ascii=False)
        return text.encode("utf-8", "replace")


def table(titles: TableRow, rows: Iterable[TableRow], *, no_wrap: Container[str] = ()) -> None:
    """Print a table; on a terminal fitted to its width, and coloured unless NO_COLOR is set.

    Cells below the titles in `no_wrap` are never wrapped.
    """
    cells = [[cell(text) for text in row] for row in rows]
    if sys.stdout.isatty():
        _table_on_terminal(titles, cells, no_wrap)
        return
    columns = Columns(titles, *cells)
    for row in [titles, *cells]:
        out(columns.line(row))


def terminal_width() -> int | None:
    """The columns of the terminal; None if stdout is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class Columns:
    """Column widths of a table whose later rows are not known yet."""

    def __init__(self, *rows: TableRow) -> None:
        columns = zip_longest(*rows, fillvalue="")
        self._widths = [max(map(len, column)) for column in columns]

    @property
    def width(self) -> int:
        return sum(self._widths) + len(COLUMN_GAP) * (len(self._widths) - 1)

    def line(self, row: TableRow) -> str:
        """The row as one line; a cell that is too wide shifts only the rest of its row."""
        return COLUMN_GAP.join(self.padded(row)).rstrip()

    def padded(self, row: TableRow) -> list[str]:
        """The cells, padded to the widths of their columns."""
        return [text.ljust(width) for text, width in zip(row, self._widths, strict=False)]

    def cut(self, row: TableRow) -> list[str]:
        """The cells, cut to the widths of their columns."""
        return [cut(text, width) for text, width in zip(row, self._widths, strict=False)]


def format_ms(duration: float | None) -> str:
    """A duration, such as `12.3 ms` or `1.25 s`."""
    if duration is None:
        return ""
    return f"{duration:.1f} ms" if duration < 1000 else f"{duration / 1000:.2f} s"


def _table_on_terminal(titles: TableRow, rows: list[list[str]], no_wrap: Container[str]) -> None:
    # Imported here: importing rich takes longer than the rest of most commands.
    from rich.console import Console  # noqa: PLC0415

    from anyport.cli.tables import out_grid  # noqa: PLC0415

    console = Console(file=sys.stdout, highlight=False)
    out_grid(console, titles, rows, no_wrap=no_wrap, styles=STYLES)


JSON_INDENT: Final = "    "

HIGHLIGHTED_CHARS_MAX: Final = 64 * 1024
"""Longer JSON is not highlighted: that would take seconds."""

LINE_CHARS_MAX: Final = 2000
"""Of one line of a document that is shortened: a string may hold a whole file."""

HOW_TO_SEE_ALL: Final = "use --full for all, --json for the original"


class StyledOutput:
    """Prints styled lines and JSON to stdout."""

    def __init__(self) -> None:
        self._console = _make_console() if sys.stdout.isatty() else None

    def print_line(self, *pieces: str | tuple[str, str]) -> None:
        """Print one line, made of texts and of texts with a style."""
        parts = [piece if isinstance(piece, tuple) else (piece, "") for piece in pieces]
        if self._console is None:
            out("".join(make_printable(text) for text, _ in parts).rstrip())
            return
        # Imported here: see `_table_on_terminal`.
        from rich.text import Text  # noqa: PLC0415

        whole = Text()
        for text, style in parts:
            whole.append(make_printable(text), style)
        self._console.print(whole, soft_wrap=True)

    def print_json(self, raw: bytes, lines_max: int | None = None) -> None:
        """Print a JSON document, indented, with its numbers and key order.

        With `lines_max`, a longer document is cut, and the number of missing lines is printed.
        """
        lines = escape_line(msgspec.json.format(raw, indent=2)).decode().split("\n")
        if lines_max is None:
            self._print_json_lines(lines)
            return
        self._print_json_lines([_truncate_line(line) for line in lines[:lines_max]])
        more = len(lines) - lines_max
        if more > 0:
            self.print_line(f"{JSON_INDENT}… {more} more lines; {HOW_TO_SEE_ALL}")

    def _print_json_lines(self, lines: list[str]) -> None:
        text = "\n".join(f"{JSON_INDENT}{line}" for line in lines)
        if self._console is None or len(text) > HIGHLIGHTED_CHARS_MAX:
            out(text)
            return
        from rich.highlighter import JSONHighlighter  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        whole = Text(text)
        JSONHighlighter().highlight(whole)
        self._console.print(whole, soft_wrap=True)


def _truncate_line(line: str) -> str:
    more = len(line) - LINE_CHARS_MAX
    if more <= 0:
        return line
    return f"{line[:LINE_CHARS_MAX]}… {more} more characters; {HOW_TO_SEE_ALL}"


def bar_widths(parts: tuple[float, ...], width: int) -> tuple[int, ...]:
    """The characters of a bar for each part: in proportion, and at least one if above 0."""
    total = sum(parts)
    if total <= 0:
        return (0,) * len(parts)
    shares = [max(1, round(part / total * width)) if part > 0 else 0 for part in parts]
    while sum(shares) > width and max(shares) > 1:
        shares[shares.index(max(shares))] -= 1
    while sum(shares) < width:
        shares[shares.index(max(shares))] += 1
    return tuple(shares)


def _make_console() -> "Console":
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stdout, highlight=False)
