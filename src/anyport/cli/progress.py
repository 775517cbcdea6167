"""How far a call is, told on stderr: one line that changes, or plain lines, or nothing."""

import sys
from collections.abc import Callable
from typing import Any, Final

from anyport.record.text import cut, printable

LINE_CHARS_MAX: Final = 79
"""A line that wraps could not be overwritten; every terminal has so many columns."""

_ERASE_LINE: Final = "\r\x1b[K"


class ProgressLine:
    """Shows one call's progress."""

    def __init__(self, write: Callable[[str], object], *, terminal: bool, verbose: bool) -> None:
        self._write = write
        self._overwrites = terminal and not verbose
        self._verbose = verbose
        self._shown = False

    @classmethod
    def on_stderr(cls, *, verbose: bool) -> "ProgressLine":
        """The usual place."""
        return cls(_write, terminal=sys.stderr.isatty(), verbose=verbose)

    def tell(self, params: dict[str, Any]) -> None:
        """Take the parameters of one `notifications/progress`."""
        if self._overwrites:
            self._shown = True
            self._write(f"{_ERASE_LINE}{cut(words(params), LINE_CHARS_MAX)}")
        elif self._verbose:
            self._write(f"{words(params)}\n")

    def clear(self) -> None:
        """Leave the line as if nothing had been there."""
        if self._shown:
            self._shown = False
            self._write(_ERASE_LINE)


def words(params: dict[str, Any]) -> str:
    """Progress for people: a share where the whole is known, and the server's message."""
    done, total, message = params.get("progress"), params.get("total"), params.get("message")
    share = "working"
    if isinstance(done, int | float):
        share = f"{done:g}"
        if isinstance(total, int | float) and total > 0:
            share = f"{min(100, max(0, round(100 * done / total)))} %"
    return share if not message else f"{share}  {printable(str(message))}"


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
