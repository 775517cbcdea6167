"""What came of a replay: a table, and where answers differ."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from typing import Any, Final

import msgspec

from anyport.cli.ending import say
from anyport.cli.render import milliseconds, out, table
from anyport.cli.replaying.playing import Outcome, Verdict
from anyport.record.compare import ABSENT, Difference
from anyport.record.text import cut, printable

TITLES: Final = ("CASE", "METHOD", "TARGET", "RESULT", "TOOK", "REASON")
WHOLE: Final = ("CASE", "RESULT", "TOOK")

VALUE_CHARS_MAX: Final = 300
"""Of a value that is shown."""
DIFF_LINES_MAX: Final = 40
"""Of two texts of many lines."""
DIFFERENCES_SHOWN_MAX: Final = 10
"""Of one answer; programs get more."""

Redact = Callable[[str], str]


def show(outcomes: Sequence[Outcome], redact: Redact) -> None:
    """Print what came of every case, then how answers differ, then how it went in all."""
    table(TITLES, [_row(outcome, redact) for outcome in outcomes], whole=WHOLE)
    for outcome in outcomes:
        if outcome.comparison.differences:
            _show_differences(outcome, redact)
    counts = Counter(outcome.verdict for outcome in outcomes)
    say(", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict]))


def document(outcomes: Sequence[Outcome], redact: Redact) -> dict[str, Any]:
    """The same for programs."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return {
        "counts": {verdict.value: counts[verdict] for verdict in Verdict},
        "cases": [_case(outcome, redact) for outcome in outcomes],
    }


def _case(outcome: Outcome, redact: Redact) -> dict[str, Any]:
    case, comparison = outcome.case, outcome.comparison
    told: dict[str, Any] = {
        "case": case.name,
        "method": case.method,
        "target": case.subject,
        "result": outcome.verdict.value,
        "reason": redact(outcome.reason),
        "took_ms": None if outcome.took_ms is None else round(outcome.took_ms, 3),
        "passed_over": comparison.passed_over,
        "differences": [
            {"path": each.path, **_sides(each, redact)} for each in comparison.differences
        ],
    }
    return {key: value for key, value in told.items() if value not in (None, "", [])}


def _sides(difference: Difference, redact: Redact) -> dict[str, Any]:
    """Both values; one that is absent is left out."""
    sides = {"expected": difference.expected, "actual": difference.actual}
    return {
        name: msgspec.json.decode(redact(msgspec.json.encode(value).decode()))
        for name, value in sides.items()
        if value is not ABSENT
    }


def _row(outcome: Outcome, redact: Redact) -> tuple[str, ...]:
    case = outcome.case
    reason = outcome.reason
    count = len(outcome.comparison.differences)
    if count:
        places = "1 place differs" if count == 1 else f"{count} places differ"
        reason = f"{places}; {reason}" if reason else places
    elif outcome.comparison.passed_over and outcome.verdict is Verdict.SAME:
        reason = "but for ids and times"
    return (
        case.name,
        case.method,
        case.subject,
        outcome.verdict.value,
        milliseconds(outcome.took_ms),
        redact(reason),
    )


def _show_differences(outcome: Outcome, redact: Redact) -> None:
    case = outcome.case
    out("")
    out(printable(" ".join(part for part in (case.name, case.method, case.subject) if part)))
    differences = outcome.comparison.differences
    for difference in differences[:DIFFERENCES_SHOWN_MAX]:
        out(printable(f"  {difference.path}"))
        for line in _lines(difference):
            out(f"    {cut(printable(redact(line)), VALUE_CHARS_MAX)}")
    if len(differences) > DIFFERENCES_SHOWN_MAX:
        out(f"  and {len(differences) - DIFFERENCES_SHOWN_MAX} more; --json has them")


def _lines(difference: Difference) -> Iterator[str]:
    expected, actual = difference.expected, difference.actual
    if isinstance(expected, str) and isinstance(actual, str) and "\n" in expected + actual:
        lines = list(unified_diff(expected.splitlines(), actual.splitlines(), n=1, lineterm=""))
        yield from lines[2:DIFF_LINES_MAX]
        if len(lines) > DIFF_LINES_MAX:
            yield f"and {len(lines) - DIFF_LINES_MAX} lines more"
        return
    yield f"- {_value(expected)}"
    yield f"+ {_value(actual)}"


def _value(value: Any) -> str:
    return "nothing" if value is ABSENT else msgspec.json.encode(value).decode()
