"""Two answers compared: the one that was recorded or is expected, and the one that came now.

What can never be the same twice is passed over, and said to be: ids, times, the names of things
that somebody else made up, what the gateway stamps. Knows JSON; not where answers come from.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from anyport.protocol import meta
from anyport.record.redact import MARK

DIFFERENCES_MAX: Final = 100
"""Of one answer: who has so many does not read the rest."""

STAMPS: Final = frozenset(
    {*meta.HOP_KEYS, meta.PROGRESS_TOKEN, meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE}
)
"""Members of `_meta` that say something of the way of a message, not of the message."""

OPAQUE: Final = frozenset({"nextCursor", "requestState", "taskId", "elicitationId"})
"""Names that a server makes up, and that mean something to it alone."""

PASSING: Final = frozenset({"ttlMs"})
"""Numbers that say how long something is still good for."""

_DAYS: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTHS: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_MADE_UP: Final = re.compile(
    # 2026-07-28T12:00:00.250+00:00, with a space in place of the T, with less of it.
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    # Tue, 28 Jul 2026; Tue Jul 28 2026; Tue Jul 28.
    rf"|\b{_DAYS},? (?:\d{{1,2}} {_MONTHS}|{_MONTHS} \d{{1,2}})(?:,? \d{{4}})?\b"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?\b"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
)
"""Times, and ids that nobody gets twice. Every part is bounded: texts come from strangers."""
_SAME: Final = "\N{REPLACEMENT CHARACTER}"
_PLAIN: Final = re.compile(r"[A-Za-z_$][\w$-]*")


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
"""In place of a value that is not there."""


class Mode(Enum):
    """How strict a comparison is."""

    RECORDED = "recorded"
    """What cannot be the same twice is passed over."""
    EXACT = "exact"
    """Every value counts."""
    SUBSET = "subset"
    """Every value that is expected counts; an object may have more members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where two answers differ."""

    path: str
    expected: Any
    """ABSENT where something came that was not expected."""
    actual: Any
    """ABSENT where nothing came."""


@dataclass(slots=True)
class Comparison:
    """What came of it."""

    differences: list[Difference] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Where something differs that can never be the same."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Names that the server made up the last time, and what it calls that now."""

    @property
    def same(self) -> bool:
        return not self.differences


def compare(expected: Any, actual: Any, mode: Mode, where: str = "") -> Comparison:
    """Compare two decoded answers."""
    found = Comparison()
    for difference in _differences(where, bare(expected), bare(actual), mode, found):
        if len(found.differences) == DIFFERENCES_MAX:
            break
        found.differences.append(difference)
    return found


def bare(answer: Any) -> Any:
    """An answer, or the result in it, without the stamps of those who passed it on."""
    if not isinstance(answer, dict):
        return answer
    bared = {key: bare(value) if key == "result" else value for key, value in answer.items()}
    about = bared.get("_meta")
    if isinstance(about, dict):
        kept = {key: value for key, value in about.items() if key not in STAMPS}
        if kept:
            bared["_meta"] = kept
        else:
            del bared["_meta"]
    return bared


def _differences(
    path: str, expected: Any, actual: Any, mode: Mode, found: Comparison
) -> Iterator[Difference]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        yield from _of_objects(path, expected, actual, mode, found)
    elif isinstance(expected, list) and isinstance(actual, list):
        for place in range(max(len(expected), len(actual))):
            yield from _differences(
                f"{path}[{place}]", _item(expected, place), _item(actual, place), mode, found
            )
    elif not _equal(expected, actual):
        if mode is Mode.RECORDED and _cannot_be_same(path, expected, actual):
            found.passed_over.append(path)
            if _last(path) in OPAQUE:
                found.renamed[expected] = actual
        else:
            yield Difference(path=path, expected=expected, actual=actual)


def _of_objects(
    path: str,
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    mode: Mode,
    found: Comparison,
) -> Iterator[Difference]:
    for key, value in expected.items():
        yield from _differences(_member(path, key), value, actual.get(key, ABSENT), mode, found)
    if mode is not Mode.SUBSET:
        for key, value in actual.items():
            if key not in expected:
                yield Difference(path=_member(path, key), expected=ABSENT, actual=value)


def _equal(expected: Any, actual: Any) -> bool:
    # True is 1 to Python, and not to JSON.
    return isinstance(expected, bool) == isinstance(actual, bool) and bool(expected == actual)


def _cannot_be_same(path: str, expected: Any, actual: Any) -> bool:
    """Whether a difference is one that every two answers have."""
    if _last(path) in PASSING:
        return _is_number(expected) and _is_number(actual)
    if not isinstance(expected, str) or not isinstance(actual, str):
        return False
    if _last(path) in OPAQUE or _made_up(expected) == _made_up(actual):
        return True
    return MARK in expected and _fits(expected.split(MARK), actual)


def _made_up(text: str) -> str:
    return _MADE_UP.sub(_SAME, text)


def _fits(pieces: list[str], text: str) -> bool:
    """Whether a text is these pieces in their order, with anything in between."""
    first, *inner, last = pieces
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in inner:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _item(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else ABSENT


def _member(path: str, key: str) -> str:
    if not _PLAIN.fullmatch(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _last(path: str) -> str:
    return path.rpartition(".")[2]
