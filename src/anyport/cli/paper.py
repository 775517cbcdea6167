"""Text and JSON on stdout for people to read: in colour on a terminal, plain anywhere else."""

import sys
from typing import TYPE_CHECKING, Final

import msgspec

from anyport.cli.render import out
from anyport.record.text import escape_line, printable

if TYPE_CHECKING:
    from rich.console import Console

INDENT: Final = "    "

HIGHLIGHTED_CHARS_MAX: Final = 64 * 1024
"""Colours in more JSON than this take longer than people wait, and nobody reads it to its end."""

LINE_CHARS_MAX: Final = 2000
"""Of one line of a long document: a text in it may be a whole file."""

HOW_TO_SEE_ALL: Final = "--full shows all, --json as it is"


class Paper:
    """Where something is written, a line at a time."""

    def __init__(self) -> None:
        self._console = _console() if sys.stdout.isatty() else None

    def line(self, *pieces: str | tuple[str, str]) -> None:
        """One line, of texts and of texts with a style."""
        parts = [piece if isinstance(piece, tuple) else (piece, "") for piece in pieces]
        if self._console is None:
            out("".join(printable(text) for text, _ in parts).rstrip())
            return
        # Late, as for every terminal: it costs more than the rest of a command.
        from rich.text import Text  # noqa: PLC0415

        whole = Text()
        for text, style in parts:
            whole.append(printable(text), style)
        self._console.print(whole, soft_wrap=True)

    def json(self, raw: bytes, lines_max: int | None = None) -> None:
        """A JSON document, indented; every digit and every member as it was.

        Of a long one the beginning, and how much more there is, where a limit is given.
        """
        lines = escape_line(msgspec.json.format(raw, indent=2)).decode().split("\n")
        if lines_max is None:
            self._json(lines)
            return
        self._json([_beginning(line) for line in lines[:lines_max]])
        more = len(lines) - lines_max
        if more > 0:
            self.line(f"{INDENT}… {more} more lines; {HOW_TO_SEE_ALL}")

    def _json(self, lines: list[str]) -> None:
        text = "\n".join(f"{INDENT}{line}" for line in lines)
        if self._console is None or len(text) > HIGHLIGHTED_CHARS_MAX:
            out(text)
            return
        from rich.highlighter import JSONHighlighter  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        whole = Text(text)
        JSONHighlighter().highlight(whole)
        self._console.print(whole, soft_wrap=True)


def _beginning(line: str) -> str:
    more = len(line) - LINE_CHARS_MAX
    if more <= 0:
        return line
    return f"{line[:LINE_CHARS_MAX]}… {more} more characters; {HOW_TO_SEE_ALL}"


def bar(parts: tuple[float, ...], width: int) -> tuple[int, ...]:
    """How many characters of a bar each part gets: its share, and at least one if it is any."""
    total = sum(parts)
    if total <= 0:
        return (0,) * len(parts)
    shares = [max(1, round(part / total * width)) if part > 0 else 0 for part in parts]
    while sum(shares) > width and max(shares) > 1:
        shares[shares.index(max(shares))] -= 1
    while sum(shares) < width:
        shares[shares.index(max(shares))] += 1
    return tuple(shares)


def _console() -> "Console":
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stdout, highlight=False)
