"""Compares two answers: the recorded or expected one, and the actual one.

Differences that any two runs have are ignored, and reported as ignored: ids, times, opaque names
that servers generate, and stamps of the gateway.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from anyport.protocol import meta
from anyport.record.redact.redactor import MARK, WITHHELD

DIFFERENCES_MAX: Final = 100
"""Of one answer; more are not worth reading."""

IGNORED_META_KEYS: Final = frozenset(
    {*meta.HOP_KEYS, meta.PROGRESS_TOKEN, meta.TRACEPARENT, meta.TRACESTATE, meta.BAGGAGE}
)
"""Members of `_meta` about the transport of a message."""

OPAQUE_KEYS: Final = frozenset({"nextCursor", "requestState", "taskId", "elicitationId"})
"""Names that a server generates and that only it understands."""

TTL_KEYS: Final = frozenset({"ttlMs"})
"""Remaining lifetimes."""

_DAYS: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTHS: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_VOLATILE_TEXT: Final = re.compile(
    # 2026-07-28T12:00:00.250+00:00, also with a space instead of the T, or shorter.
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    # Tue, 28 Jul 2026; Tue Jul 28 2026; Tue Jul 28.
    rf"|\b{_DAYS},? (?:\d{{1,2}} {_MONTHS}|{_MONTHS} \d{{1,2}})(?:,? \d{{4}})?\b"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?\b"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
)
"""Times, and ids that are unique. Every part is bounded, because texts come from strangers."""
_VOLATILE_MARK: Final = "\N{REPLACEMENT CHARACTER}"
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][\w$-]*")


class _AbsentValue(Enum):
    ABSENT = "absent"


ABSENT: Final = _AbsentValue.ABSENT
"""Stands for a value that is not there."""


class CompareMode(Enum):
    """How strict a comparison is."""

    RECORDED = "recorded"
    """Ignores what differs between any two runs."""
    EXACT = "exact"
    """Every value counts."""
    SUBSET = "subset"
    """Every expected value counts; an object may have more members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """A place where two answers differ."""

    path: str
    expected: Any
    """ABSENT where something unexpected came."""
    actual: Any
    """ABSENT where nothing came."""


@dataclass(slots=True)
class ComparisonResult:
    """Differences, and what was ignored."""

    differences: list[ValueDifference] = field(default_factory=list)
    ignored_paths: list[str] = field(default_factory=list)
    """Where something differs as it does between any two runs."""
    renamed_values: dict[str, str] = field(default_factory=dict)
    """Opaque names of the recorded run, and what the server calls the same things now."""

    @property
    def is_equal(self) -> bool:
        return not self.differences


def compare(expected: Any, actual: Any, mode: CompareMode, where: str = "") -> ComparisonResult:
    result = ComparisonResult()
    for difference in _find_differences(
        where, strip_hop_meta(expected), strip_hop_meta(actual), mode, result
    ):
        if len(result.differences) == DIFFERENCES_MAX:
            break
        result.differences.append(difference)
    return result


def strip_hop_meta(answer: Any) -> Any:
    """An answer, or the result in it, without the `_meta` of the hops on the way."""
    if not isinstance(answer, dict):
        return answer
    stripped = {
        key: strip_hop_meta(value) if key == "result" else value for key, value in answer.items()
    }
    hop_meta = stripped.get("_meta")
    if isinstance(hop_meta, dict):
        kept = {key: value for key, value in hop_meta.items() if key not in IGNORED_META_KEYS}
        if kept:
            stripped["_meta"] = kept
        else:
            del stripped["_meta"]
    return stripped


def _find_differences(
    path: str, expected: Any, actual: Any, mode: CompareMode, result: ComparisonResult
) -> Iterator[ValueDifference]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        yield from _find_object_differences(path, expected, actual, mode, result)
    elif isinstance(expected, list) and isinstance(actual, list):
        for index in range(max(len(expected), len(actual))):
            yield from _find_differences(
                f"{path}[{index}]",
                _item_or_absent(expected, index),
                _item_or_absent(actual, index),
                mode,
                result,
            )
    elif not _is_equal(expected, actual):
        if mode is CompareMode.RECORDED and _is_volatile(path, expected, actual):
            result.ignored_paths.append(path)
            if _last_key(path) in OPAQUE_KEYS:
                result.renamed_values[expected] = actual
        else:
            yield ValueDifference(path=path, expected=expected, actual=actual)


def _find_object_differences(
    path: str,
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    mode: CompareMode,
    result: ComparisonResult,
) -> Iterator[ValueDifference]:
    for key, value in expected.items():
        yield from _find_differences(
            _member_path(path, key), value, actual.get(key, ABSENT), mode, result
        )
    if mode is not CompareMode.SUBSET:
        for key, value in actual.items():
            if key not in expected:
                yield ValueDifference(path=_member_path(path, key), expected=ABSENT, actual=value)


def _is_equal(expected: Any, actual: Any) -> bool:
    # True equals 1 in Python, and not in JSON.
    return isinstance(expected, bool) == isinstance(actual, bool) and bool(expected == actual)


def _is_volatile(path: str, expected: Any, actual: Any) -> bool:
    """Whether any two runs differ here."""
    if _last_key(path) in TTL_KEYS:
        return _is_number(expected) and _is_number(actual)
    if expected == WITHHELD:
        return True
    if not isinstance(expected, str) or not isinstance(actual, str):
        return False
    if _last_key(path) in OPAQUE_KEYS or _mask_volatile(expected) == _mask_volatile(actual):
        return True
    return MARK in expected and _matches_pieces(expected.split(MARK), actual)


def _mask_volatile(text: str) -> str:
    return _VOLATILE_TEXT.sub(_VOLATILE_MARK, text)


def _matches_pieces(pieces: list[str], text: str) -> bool:
    """Whether a text consists of these pieces in order, with anything in between."""
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


def _item_or_absent(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT


def _member_path(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _last_key(path: str) -> str:
    return path.rpartition(".")[2]
