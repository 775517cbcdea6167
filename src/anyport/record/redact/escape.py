"""Escapes characters that are dangerous in the record.

Two readers are protected: a program that reads the journal line by line, and a person who looks at
text in a terminal.
"""

import re
from typing import Final

ELLIPSIS: Final = "…"

_INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\u200b\u2060-\u206f"  # zero width, invisible operators, directional isolates
    "\u061c\u200e\u200f\u202a-\u202e"  # direction marks and embeddings
    "\ufe00-\ufe0d"  # variation selectors; the two after these are part of many emoji
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags and further selectors, which can encode a whole hidden text
)
"""Default ignorable characters (Unicode, chapter 5.21), for a character class. They hide text from
a person, make two names look the same, or turn the rest of a line around."""

_JOINERS: Final = "\u200c\u200d"
_JOINED: Final = (
    "\u0600-\u0dff\u1000-\u109f\u1780-\u17ff"  # Arabic to Sinhala, Burmese, Khmer
    "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"  # emoji
)
"""Characters between which a joiner changes how text is written: Arabic and Indic letters, as in
RFC 5892 (CONTEXTJ), and emoji. Between other characters a joiner only hides."""

_UNSAFE_IN_JSON: Final = re.compile(f"[\x7f-\x9f\u2028\u2029{_JOINERS}{_INVISIBLE}]")
"""Characters that JSON allows unescaped, though readers may break a line at them, show something
else, or nothing."""

_ANSI: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\^_]"
)
"""Terminal sequences: CSI (colours, cursor), OSC (titles, links), and the short ones."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
LINE_END_SIGN: Final = "↵"

_CONTROL: Final = re.compile(
    f"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufe0e\ufe0f{_JOINERS}{_INVISIBLE}]"
)
_ESCAPED: Final = re.compile(
    rf"[\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_JOINERS}{_INVISIBLE}]"
)
_VISIBLE_JOINER: Final = re.compile(
    f"(?<=[{_JOINED}])[{_JOINERS}](?=[{_JOINED}])|(?<![\ufe0e\ufe0f])[\ufe0e\ufe0f]"
)
"""A joiner or selector with a visible effect."""


def escape_line(line: bytes) -> bytes:
    r"""A line of JSON with every dangerous character written as `\uXXXX`.

    The encoder has escaped what JSON requires, so the characters found here are inside strings.
    """
    if line.isascii() and 0x7F not in line:
        return line
    text = line.decode("utf-8", "surrogateescape")  # Keeps bytes that are not UTF-8.
    return _UNSAFE_IN_JSON.sub(_escape, text).encode("utf-8", "surrogateescape")


def make_printable(text: str) -> str:
    """The text as one line for a person, without terminal sequences and control characters except
    tab.

    Line ends and invisible characters are shown as signs.
    """
    if text.isascii() and text.isprintable():
        return text
    one_line = _LINE_END.sub(LINE_END_SIGN, _ANSI.sub("", text))
    return _CONTROL.sub(_replace, one_line)


def escape_invisible(text: str) -> str:
    r"""The text with `\uXXXX` for everything invisible; different texts stay different."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return _ESCAPED.sub(_escape, text)


def cut(text: str, chars_max: int) -> str:
    """The text, shortened with an ellipsis if necessary; always encodable as UTF-8."""
    if len(text) > chars_max:
        text = text[: chars_max - 1] + ELLIPSIS
    # JSON may contain a lone surrogate, half a character, which UTF-8 cannot encode.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _replace(found: re.Match[str]) -> str:
    is_visible = _VISIBLE_JOINER.match(found.string, found.start())
    return found[0] if is_visible else "\N{REPLACEMENT CHARACTER}"


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


class _Escapes(dict[str, str]):
    """JSON escapes by character, made on demand; two units beyond U+FFFF."""

    def __missing__(self, character: str) -> str:
        units = character.encode("utf-16-be", "surrogatepass").hex()
        self[character] = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
        return self[character]


_ESCAPES: Final = _Escapes({"\\": "\\\\"})
