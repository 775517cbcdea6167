"""Which characters are dangerous to whoever reads a record, and what becomes of them.

Two readers are protected: a program that reads the journal line by line, and a person who
looks at text in a terminal. This file knows nothing of events or of where text comes from.
"""

import re
from typing import Final

ELLIPSIS: Final = "…"

_UNSAFE_IN_JSON: Final = re.compile(
    rb"\x7f"  # delete
    rb"|\xc2[\x80-\x9f]"  # C1: next line, and the one-character form of ESC [
    rb"|\xd8\x9c|\xe2\x80[\x8e\x8f]"  # marks of writing direction
    rb"|\xe2\x80[\xa8-\xae]"  # line and paragraph separator, embedded directions
    rb"|\xe2\x81[\xa6-\xa9]"  # isolated directions
)
"""Characters that JSON allows unescaped, as UTF-8, though readers may break a line at them or
show them as something else."""

_ANSI: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\^_]"
)
"""Terminal sequences: CSI (colours, cursor), OSC (titles, links), and the short ones."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
LINE_END_SIGN: Final = "↵"

_CONTROL: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_line(line: bytes) -> bytes:
    r"""A line of JSON with every dangerous character written as `\uXXXX`.

    The encoder has already escaped what JSON demands, so what is found here stands in a string.
    """
    if line.isascii() and 0x7F not in line:
        return line
    return _UNSAFE_IN_JSON.sub(_escape, line)


def printable(text: str) -> str:
    """The text as one line for a person: no terminal sequences, no control characters but tab.

    Ends of lines are shown as a sign.
    """
    if text.isascii() and text.isprintable():
        return text
    one_line = _LINE_END.sub(LINE_END_SIGN, _ANSI.sub("", text))
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", one_line)


def cut(text: str, chars_max: int) -> str:
    """The text, or its beginning with an ellipsis; always encodable as UTF-8."""
    if len(text) > chars_max:
        text = text[: chars_max - 1] + ELLIPSIS
    # A lone surrogate is a half character that JSON may carry and UTF-8 may not.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())
