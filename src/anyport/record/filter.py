"""The filter language: text in, a frozen tree out, or a fault with a caret under it.

The parser knows what each key takes and nothing of events: they are compared with a filter in
`matching.py`, or asked for in SQL.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from anyport.config.faults import nearest
from anyport.record.filter_keys import KEYS, TYPE_PREFIX, WORDS_FOR, Key, ValueKind
from anyport.record.filter_tree import (
    Comparison,
    Filter,
    Glob,
    Moment,
    Operator,
    Range,
    Term,
    Text,
    Value,
)
from anyport.record.since import parse_since

__all__ = [
    "KEYS",
    "BadFilter",
    "Comparison",
    "Filter",
    "Glob",
    "Key",
    "Moment",
    "Range",
    "Term",
    "Text",
    "Value",
    "parse_filter",
]

FILTER_CHARS_MAX: Final = 4096
"""One filter. People write a line; a list of ids pasted into one still fits."""

TERMS_MAX: Final = 32
"""In one filter: more than there are keys to ask for."""

VALUES_MAX: Final = 64
"""In one term: each is compared with every event."""

NUMBER_MAX: Final = 2**53
"""Beyond this neither JSON nor a database can be trusted to tell two numbers apart."""

SHOWN_CHARS_MAX: Final = 100
"""Of a filter, around its fault: what fits in a line of a terminal."""


class BadFilter(ValueError):
    """The text is no filter. Its words are for the one who wrote it."""

    def __init__(
        self, message: str, *, text: str, at: int, length: int, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.at = at
        """Where in the text the fault begins, and how long it is."""
        self.length = max(1, length)
        self.hint = hint
        """The valid key or value that was probably meant."""

    def __str__(self) -> str:
        """The message, the filter, and carets under the fault."""
        start = max(0, self.at - SHOWN_CHARS_MAX // 2)
        end = start + SHOWN_CHARS_MAX
        before, fault = self.text[start : self.at], self.text[self.at : self.at + self.length]
        line = ("…" if start else "") + self.text[start:end]
        line += "…" if end < len(self.text) else ""
        carets = max(1, _columns(fault[: end - self.at]))
        margin = (1 if start else 0) + _columns(before)
        return f"{self.message}\n{_visible(line)}\n{' ' * margin}{'^' * carets}"


def parse_filter(text: str, now: float) -> Filter:
    """The filter that the text says; `now` is what spans such as `since:10m` count from.

    Raises:
        BadFilter: the text is none.
    """
    if len(text) > FILTER_CHARS_MAX:
        message = f"A filter has at most {FILTER_CHARS_MAX} characters, this one {len(text)}"
        rest = len(text) - FILTER_CHARS_MAX
        raise BadFilter(message, text=text, at=FILTER_CHARS_MAX, length=rest)
    if odd := _UNUSABLE.search(text):
        message = "A character that cannot be looked for"
        raise BadFilter(message, text=text, at=odd.start(), length=1)
    return Filter(terms=tuple(_Parser(text, now).terms()))


# All of these are linear: each character is looked at once.
_UNUSABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_SPACE: Final = re.compile(r"\s*")
_KEY: Final = re.compile(r"((?:[^\W\d]|[\u0300-\u036f])*):")
"""Letters of any script: a time of day is no key, and a key with an accent is a slip."""
_BARE: Final = re.compile(r'[^\s,"]+')
_NUMBER: Final = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z]*)")
_CONNECTIVES: Final = frozenset({"AND", "OR", "NOT", "&&", "||"})
_NO_CONNECTIVES: Final = (
    "All terms must match, with nothing written between them. Alternatives are written"
    " server:a,b and what is not wanted -server:a; a word to be looked for, in quotes"
)

_UNITS: Final[Mapping[ValueKind, Mapping[str, float]]] = MappingProxyType(
    {
        "duration": {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000},
        "bytes": {
            "": 1,
            "b": 1,
            "kb": 1000,
            "mb": 1000**2,
            "gb": 1000**3,
            "kib": 1024,
            "mib": 1024**2,
            "gib": 1024**3,
        },
        "code": {"": 1},
    }
)
_OPERATORS: Final[tuple[Operator, ...]] = ("<=", ">=", "<", ">", "=")
_EXAMPLES: Final[Mapping[ValueKind, str]] = MappingProxyType(
    {
        "duration": "250, >1s or 100ms..2s",
        "bytes": "512, >10kb or 1kb..1mb",
        "code": "-32602, <-32000 or -32099..-32000",
    }
)
_UUID_DASHES: Final = (8, 13, 18, 23)
_LATEST: Final = 253_402_300_799.0
"""The last second of the year 9999: no later one can be written."""


@dataclass(frozen=True, slots=True)
class _Word:
    """A value as it stands in the filter."""

    text: str
    at: int
    end: int
    quoted: bool = False


class _Parser:
    """Reads a filter from left to right, once."""

    def __init__(self, text: str, now: float) -> None:
        self._text = text
        self._now = now
        self._at = 0
        self._unitless: _Word | None = None
        """The number without a unit that the term before ends with."""
        self._units: Mapping[str, float] = {}
        """Those that it might have had."""

    def terms(self) -> Iterator[Term]:
        count = 0
        while self._skip_space():
            count += 1
            if count > TERMS_MAX:
                raise self._fault(f"A filter has at most {TERMS_MAX} terms", self._at)
            yield self._term()

    def _skip_space(self) -> bool:
        """Go on to what is not space; says whether there is something."""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._at < len(self._text)

    def _term(self) -> Term:
        start = self._at
        negated = self._text[start] == "-"
        self._at += negated
        key = self._key()
        number, self._unitless = self._unitless, None
        values: dict[Value, None] = {}
        while True:
            word = self._word(start)
            if key is None and not word.quoted:
                self._judge_text(word, number)
            values |= dict.fromkeys(self._values(key or "text", word))
            if len(values) > VALUES_MAX:
                raise self._fault(f"A term has at most {VALUES_MAX} values", word.at, word.end)
            if not self._text.startswith(",", self._at):
                return Term(key=key or "text", negated=negated, values=tuple(values))
            self._at += 1

    def _judge_text(self, word: _Word, number: _Word | None) -> None:
        """Refuse what was hardly meant to be looked for, after the number before it, if any."""
        if word.text in _CONNECTIVES:
            raise self._fault(_NO_CONNECTIVES, word.at, word.end)
        if number is not None and word.text.lower() in self._units:
            whole = f"{number.text}{word.text}"
            message = f"Between a number and its unit is no space: {whole}. A word is put in quotes"
            raise self._fault(message, number.at, word.end, whole)

    def _key(self) -> str | None:
        """The key of the term that begins here; None where it is only text."""
        found = _KEY.match(self._text, self._at)
        if found is None:
            return None
        key = found[1].lower()
        if key not in KEYS:
            near = nearest(key, KEYS) or next(filter(key.startswith, KEYS), None)
            advice = f"Did you mean {near}?" if near else f"There are {', '.join(KEYS)}"
            message = f"Unknown key. {advice} (A text with a colon is written in quotes)"
            raise self._fault(message, self._at, found.end(1), near)
        self._at = found.end()
        return key

    def _word(self, start: int) -> _Word:
        """The next value of the term that began at `start`."""
        if self._text.startswith('"', self._at):
            word = self._quoted()
        elif found := _BARE.match(self._text, self._at):
            word = _Word(found[0], self._at, found.end())
        else:
            is_hole = "," in self._text[max(0, self._at - 1) : self._at + 1]
            raise self._fault("A value is missing", self._at if is_hole else start, self._at)
        self._at = word.end
        after = self._text[word.end : word.end + 1]
        if not word.text:
            raise self._fault("A value is empty", word.at, word.end)
        if after and after != "," and not after.isspace():
            message = (
                'After the closing quote a space is missing; a quote in a text is written \\"'
                if word.quoted
                else "A quote within a value. Put the whole value in quotes"
            )
            raise self._fault(message, word.end)
        return word

    def _quoted(self) -> _Word:
        text, start = self._text, self._at
        letters: list[str] = []
        at = start + 1
        while (letter := text[at : at + 1]) != '"':
            if not letter:
                raise self._fault("The closing quote is missing", start, len(text))
            if letter == "\\":
                at += 1
                letter = text[at : at + 1]
                if letter not in ('"', "\\"):
                    message = r"In quotes a backslash is written \\ and a quote \" "
                    raise self._fault(message.strip(), at - 1, at + 1)
            letters.append(letter)
            at += 1
        return _Word("".join(letters), start, at + 1, quoted=True)

    def _values(self, key: str, word: _Word) -> tuple[Value, ...]:
        kind = KEYS[key].kind
        if kind == "moment":
            return (self._moment(key, word),)
        if kind == "text":
            return (Text(word.text),)
        if kind in ("duration", "bytes") or (kind == "code" and word.text[0] in "-+.<>=0123456789"):
            return (self._numbers(kind, word),)
        glob = not word.quoted and ("*" in word.text or "?" in word.text)
        if kind == "word":
            return self._words(key, word, glob)
        text = _plain_id(word.text) if key in ("trace", "id") else word.text
        return (Glob(text) if glob else Text(text),)

    def _words(self, key: str, word: _Word, glob: bool) -> tuple[Value, ...]:
        text = word.text.lower()
        if key == "type" and not text.startswith((TYPE_PREFIX, "*")):
            text = TYPE_PREFIX + text
        if glob:
            return (Glob(text),)
        if others := WORDS_FOR.get(key, {}).get(text):
            return tuple(Text(other) for other in others)
        if text in KEYS[key].words:
            return (Text(text),)
        valid = [*KEYS[key].words, *WORDS_FOR.get(key, ())]
        near = nearest(text, valid)
        advice = f"Did you mean {near}?" if near else f"There are {', '.join(valid)}"
        raise self._fault(f"{key}: has no such value. {advice}", word.at, word.end, near)

    def _moment(self, key: str, word: _Word) -> Moment:
        if self._text.startswith(",", word.end):
            raise self._fault(f"{key}: takes one time", word.at, word.end + 1)
        try:
            at = parse_since(word.text, self._now)
        except ValueError as error:
            raise self._fault(str(error), word.at, word.end) from None
        return Moment(round(min(max(at, 0.0), _LATEST), 6))

    def _numbers(self, kind: ValueKind, word: _Word) -> Comparison | Range:
        text = word.text
        if text[-1].isdigit():
            self._unitless, self._units = word, _UNITS[kind]
        low, dots, high = text.partition("..")
        if dots:
            first, last = self._number(kind, low, word), self._number(kind, high, word)
            if first > last:
                raise self._fault("A range goes from the smaller to the larger", word.at, word.end)
            return Range(first, last)
        for operator in _OPERATORS:
            if text.startswith(operator):
                return Comparison(operator, self._number(kind, text[len(operator) :], word))
        return Comparison("=", self._number(kind, text, word))

    def _number(self, kind: ValueKind, text: str, word: _Word) -> float:
        found = _NUMBER.fullmatch(text)
        units = _UNITS[kind]
        if found is None or ("." in text if kind == "code" else text.startswith("-")):
            message = f"Not a number. Write it like {_EXAMPLES[kind]}"
            raise self._fault(message, word.at, word.end)
        if (unit := found[2].lower()) not in units:
            near = nearest(unit, filter(None, units))
            there = ", ".join(filter(None, units)) or "no units here"
            raise self._fault(f"Unknown unit. There are {there}", word.at, word.end, near)
        number = float(found[1]) * units[unit]
        if abs(number) > NUMBER_MAX:
            raise self._fault("The number is too large", word.at, word.end)
        return int(number) if number.is_integer() else number

    def _fault(
        self, message: str, at: int, end: int | None = None, hint: str | None = None
    ) -> BadFilter:
        length = 1 if end is None else end - at
        return BadFilter(message, text=self._text, at=at, length=length, hint=hint)


def _plain_id(text: str) -> str:
    """An id, or the beginning of one, without the dashes and capitals of a UUID."""
    text = text.lower()
    dashed = all(at in _UUID_DASHES for at, letter in enumerate(text) if letter == "-")
    return text.replace("-", "") if dashed else text


def _visible(text: str) -> str:
    """One line, with as many characters as before."""
    return "".join(
        letter if letter.isprintable() else " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def _columns(text: str) -> int:
    """How wide a text is in a terminal."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)
