"""Parser of the filter language: text to syntax tree, or an error with carets under its place."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from anyport.config.faults import find_nearest
from anyport.record.filter.ast import (
    Filter,
    FilterTerm,
    Glob,
    Moment,
    NumberComparison,
    Operator,
    Range,
    Text,
    Value,
)
from anyport.record.filter.keys import KEYS, TYPE_PREFIX, VALUE_ALIASES, FilterKey, ValueKind
from anyport.record.filter.since import parse_since

__all__ = [
    "KEYS",
    "BadFilter",
    "Filter",
    "FilterKey",
    "FilterTerm",
    "Glob",
    "Moment",
    "NumberComparison",
    "Range",
    "Text",
    "Value",
    "parse_filter",
]

FILTER_CHARS_MAX: Final = 4096
"""Characters of a filter. People write a line; a pasted list of ids still fits."""

TERMS_MAX: Final = 32
"""Terms of a filter: more than there are keys."""

VALUES_MAX: Final = 64
"""Values of a term: each is compared with every event."""

NUMBER_MAX: Final = 2**53
"""JSON and SQLite keep integers exact up to this."""

SHOWN_CHARS_MAX: Final = 100
"""Characters of a filter shown around an error: a line of a terminal."""


class BadFilter(ValueError):
    """The text is not a filter; the message is for its author."""

    def __init__(
        self, message: str, *, text: str, at: int, length: int, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.at = at
        """Where in the text the error is, and how long."""
        self.length = max(1, length)
        self.hint = hint
        """The valid key or value that was probably meant."""

    def __str__(self) -> str:
        """The message, the filter, and carets under the error."""
        start = max(0, self.at - SHOWN_CHARS_MAX // 2)
        end = start + SHOWN_CHARS_MAX
        before, fault = self.text[start : self.at], self.text[self.at : self.at + self.length]
        line = ("…" if start else "") + self.text[start:end]
        line += "…" if end < len(self.text) else ""
        carets = max(1, _display_width(fault[: end - self.at]))
        margin = (1 if start else 0) + _display_width(before)
        return f"{self.message}\n{_replace_unprintable(line)}\n{' ' * margin}{'^' * carets}"


def parse_filter(text: str, now: float) -> Filter:
    """Parse a filter. Spans such as `since:10m` count back from `now`.

    Raises:
        BadFilter: the text is not a filter.
    """
    if len(text) > FILTER_CHARS_MAX:
        message = f"A filter has at most {FILTER_CHARS_MAX} characters, this one {len(text)}"
        rest = len(text) - FILTER_CHARS_MAX
        raise BadFilter(message, text=text, at=FILTER_CHARS_MAX, length=rest)
    if unusable := _UNUSABLE.search(text):
        message = "A character that cannot be searched for"
        raise BadFilter(message, text=text, at=unusable.start(), length=1)
    return Filter(terms=tuple(_Parser(text, now).terms()))


# These are all linear: no character is visited twice.
_UNUSABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_SPACE: Final = re.compile(r"\s*")
_KEY: Final = re.compile(r"((?:[^\W\d]|[\u0300-\u036f])*):")
"""Letters of any script: so a key with an accent is reported, and a time of day is not a key."""
_UNQUOTED: Final = re.compile(r'[^\s,"]+')
_NUMBER: Final = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z]*)")
_BOOLEAN_OPERATORS: Final = frozenset({"AND", "OR", "NOT", "&&", "||"})
_NO_BOOLEAN_OPERATORS: Final = (
    "All terms must match; write no operator between them. Write server:a,b for"
    " alternatives, -server:a for what is not wanted, and a search word in quotes"
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
_LATEST_SECONDS: Final = 253_402_300_799.0
"""The last second of the year 9999, the latest that can be formatted."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A value as written in the filter."""

    text: str
    at: int
    end: int
    quoted: bool = False


class _Parser:
    """Reads a filter from left to right, without going back."""

    def __init__(self, text: str, now: float) -> None:
        self._text = text
        self._now = now
        self._at = 0
        self._number_without_unit: _Token | None = None
        """The value that the previous term ended with, if it is a number without a unit."""
        self._number_units: Mapping[str, float] = {}
        """The units that it could have had."""

    def terms(self) -> Iterator[FilterTerm]:
        count = 0
        while self._skip_space():
            count += 1
            if count > TERMS_MAX:
                raise self._error(f"A filter has at most {TERMS_MAX} terms", self._at)
            yield self._term()

    def _skip_space(self) -> bool:
        """Skip white space; returns whether anything is left."""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
        return self._at < len(self._text)

    def _term(self) -> FilterTerm:
        start = self._at
        negated = self._text[start] == "-"
        self._at += negated
        key = self._key()
        number, self._number_without_unit = self._number_without_unit, None
        values: dict[Value, None] = {}
        while True:
            word = self._parse_token(start)
            if key is None and not word.quoted:
                self._check_text(word, number)
            values |= dict.fromkeys(self._values(key or "text", word))
            if len(values) > VALUES_MAX:
                raise self._error(f"A term has at most {VALUES_MAX} values", word.at, word.end)
            if not self._text.startswith(",", self._at):
                return FilterTerm(key=key or "text", negated=negated, values=tuple(values))
            self._at += 1

    def _check_text(self, word: _Token, number: _Token | None) -> None:
        """Reject words that were hardly meant as search texts, such as AND, or a unit after its
        number."""
        if word.text in _BOOLEAN_OPERATORS:
            raise self._error(_NO_BOOLEAN_OPERATORS, word.at, word.end)
        if number is not None and word.text.lower() in self._number_units:
            whole = f"{number.text}{word.text}"
            message = f"Write no space between a number and its unit: {whole}. Quote a search word"
            raise self._error(message, number.at, word.end, whole)

    def _key(self) -> str | None:
        """The key of this term; None if the term is only a text."""
        found = _KEY.match(self._text, self._at)
        if found is None:
            return None
        key = found[1].lower()
        if key not in KEYS:
            suggestion = find_nearest(key, KEYS) or next(filter(key.startswith, KEYS), None)
            advice = (
                f"Did you mean {suggestion}?" if suggestion else f"Valid keys: {', '.join(KEYS)}"
            )
            message = f"Unknown key. {advice} (Quote a text that contains a colon)"
            raise self._error(message, self._at, found.end(1), suggestion)
        self._at = found.end()
        return key

    def _parse_token(self, start: int) -> _Token:
        """The next value of the term that began at `start`."""
        if self._text.startswith('"', self._at):
            word = self._parse_quoted()
        elif found := _UNQUOTED.match(self._text, self._at):
            word = _Token(found[0], self._at, found.end())
        else:
            is_hole = "," in self._text[max(0, self._at - 1) : self._at + 1]
            raise self._error("A value is missing", self._at if is_hole else start, self._at)
        self._at = word.end
        after = self._text[word.end : word.end + 1]
        if not word.text:
            raise self._error("A value is empty", word.at, word.end)
        if after and after != "," and not after.isspace():
            message = (
                'A space must follow the closing quote; a quote inside quotes is written \\"'
                if word.quoted
                else "A quote inside a value. Quote the whole value"
            )
            raise self._error(message, word.end)
        return word

    def _parse_quoted(self) -> _Token:
        text, start = self._text, self._at
        letters: list[str] = []
        at = start + 1
        while (letter := text[at : at + 1]) != '"':
            if not letter:
                raise self._error("The closing quote is missing", start, len(text))
            if letter == "\\":
                at += 1
                letter = text[at : at + 1]
                if letter not in ('"', "\\"):
                    message = r"Inside quotes a backslash is written \\ and a quote \" "
                    raise self._error(message.strip(), at - 1, at + 1)
            letters.append(letter)
            at += 1
        return _Token("".join(letters), start, at + 1, quoted=True)

    def _values(self, key: str, word: _Token) -> tuple[Value, ...]:
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
        text = _normalise_id(word.text) if key in ("trace", "id") else word.text
        return (Glob(text) if glob else Text(text),)

    def _words(self, key: str, word: _Token, glob: bool) -> tuple[Value, ...]:
        text = word.text.lower()
        if key == "type" and not text.startswith((TYPE_PREFIX, "*")):
            text = TYPE_PREFIX + text
        if glob:
            return (Glob(text),)
        if aliases := VALUE_ALIASES.get(key, {}).get(text):
            return tuple(Text(other) for other in aliases)
        if text in KEYS[key].words:
            return (Text(text),)
        valid = [*KEYS[key].words, *VALUE_ALIASES.get(key, ())]
        suggestion = find_nearest(text, valid)
        advice = (
            f"Did you mean {suggestion}?" if suggestion else f"Valid values: {', '.join(valid)}"
        )
        raise self._error(f"{key}: has no such value. {advice}", word.at, word.end, suggestion)

    def _moment(self, key: str, word: _Token) -> Moment:
        if self._text.startswith(",", word.end):
            raise self._error(f"{key}: takes a single time", word.at, word.end + 1)
        try:
            at = parse_since(word.text, self._now)
        except ValueError as error:
            raise self._error(str(error), word.at, word.end) from None
        return Moment(round(min(max(at, 0.0), _LATEST_SECONDS), 6))

    def _numbers(self, kind: ValueKind, word: _Token) -> NumberComparison | Range:
        text = word.text
        if text[-1].isdigit():
            self._number_without_unit, self._number_units = word, _UNITS[kind]
        low, dots, high = text.partition("..")
        if dots:
            first, last = self._number(kind, low, word), self._number(kind, high, word)
            if first > last:
                raise self._error(
                    "A range goes from the smaller number to the larger", word.at, word.end
                )
            return Range(first, last)
        for operator in _OPERATORS:
            if text.startswith(operator):
                return NumberComparison(operator, self._number(kind, text[len(operator) :], word))
        return NumberComparison("=", self._number(kind, text, word))

    def _number(self, kind: ValueKind, text: str, word: _Token) -> float:
        found = _NUMBER.fullmatch(text)
        units = _UNITS[kind]
        if found is None or ("." in text if kind == "code" else text.startswith("-")):
            message = f"Not a number. Write it like {_EXAMPLES[kind]}"
            raise self._error(message, word.at, word.end)
        if (unit := found[2].lower()) not in units:
            suggestion = find_nearest(unit, filter(None, units))
            known_units = ", ".join(filter(None, units)) or "no units here"
            raise self._error(
                f"Unknown unit. Valid units: {known_units}", word.at, word.end, suggestion
            )
        number = float(found[1]) * units[unit]
        if abs(number) > NUMBER_MAX:
            raise self._error("The number is too large", word.at, word.end)
        return int(number) if number.is_integer() else number

    def _error(
        self, message: str, at: int, end: int | None = None, hint: str | None = None
    ) -> BadFilter:
        length = 1 if end is None else end - at
        return BadFilter(message, text=self._text, at=at, length=length, hint=hint)


def _normalise_id(text: str) -> str:
    """An id or its prefix, without the dashes and capitals of a UUID."""
    text = text.lower()
    dashed = all(at in _UUID_DASHES for at, letter in enumerate(text) if letter == "-")
    return text.replace("-", "") if dashed else text


def _replace_unprintable(text: str) -> str:
    """The text as one line with as many characters."""
    return "".join(
        letter if letter.isprintable() else " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )


def _display_width(text: str) -> int:
    """Columns that a text takes in a terminal."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)
