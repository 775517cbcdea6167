"""The report of a replay: a table, and the differences between answers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from typing import Any, Final

import msgspec

from anyport.cli.exit_codes import notify_user
from anyport.cli.output import format_ms, out, table
from anyport.cli.replay.runner import CaseOutcome, ReplayVerdict
from anyport.record.compare import ABSENT, ValueDifference
from anyport.record.redact.escape import cut, make_printable

TITLES: Final = ("CASE", "METHOD", "TARGET", "RESULT", "TOOK", "REASON")
NO_WRAP: Final = ("CASE", "RESULT", "TOOK")

VALUE_CHARS_MAX: Final = 300
"""Of a value in a difference."""
DIFF_LINES_MAX: Final = 40
"""Of the diff of two texts."""
DIFFERENCES_SHOWN_MAX: Final = 10
"""Of one answer; `--json` has all."""

Redact = Callable[[str], str]


def show(outcomes: Sequence[CaseOutcome], redact: Redact) -> None:
    """Print a table of all cases, then the differences, then the totals."""
    table(TITLES, [_row(outcome, redact) for outcome in outcomes], no_wrap=NO_WRAP)
    for outcome in outcomes:
        if outcome.comparison.differences:
            _show_differences(outcome, redact)
    counts = Counter(outcome.verdict for outcome in outcomes)
    notify_user(
        ", ".join(
            f"{counts[verdict]} {verdict.value}" for verdict in ReplayVerdict if counts[verdict]
        )
    )


def document(outcomes: Sequence[CaseOutcome], redact: Redact) -> dict[str, Any]:
    """The document for `--json`."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return {
        "counts": {verdict.value: counts[verdict] for verdict in ReplayVerdict},
        "cases": [_case_document(outcome, redact) for outcome in outcomes],
    }


def _case_document(outcome: CaseOutcome, redact: Redact) -> dict[str, Any]:
    case, comparison = outcome.case, outcome.comparison
    document: dict[str, Any] = {
        "case": case.name,
        "method": case.method,
        "target": case.subject,
        "result": outcome.verdict.value,
        "reason": redact(outcome.reason),
        "took_ms": None if outcome.took_ms is None else round(outcome.took_ms, 3),
        "passed_over": comparison.ignored_paths,
        "differences": [
            {"path": each.path, **_sides(each, redact)} for each in comparison.differences
        ],
    }
    return {key: value for key, value in document.items() if value not in (None, "", [])}


def _sides(difference: ValueDifference, redact: Redact) -> dict[str, Any]:
    """Expected and actual value, without an absent one."""
    sides = {"expected": difference.expected, "actual": difference.actual}
    return {
        name: msgspec.json.decode(redact(msgspec.json.encode(value).decode()))
        for name, value in sides.items()
        if value is not ABSENT
    }


def _row(outcome: CaseOutcome, redact: Redact) -> tuple[str, ...]:
    case = outcome.case
    reason = outcome.reason
    count = len(outcome.comparison.differences)
    if count:
        places = "1 place differs" if count == 1 else f"{count} places differ"
        reason = f"{places}; {reason}" if reason else places
    elif outcome.comparison.ignored_paths and outcome.verdict is ReplayVerdict.SAME:
        reason = "except for ids and times"
    return (
        case.name,
        case.method,
        case.subject,
        outcome.verdict.value,
        format_ms(outcome.took_ms),
        redact(reason),
    )


def _show_differences(outcome: CaseOutcome, redact: Redact) -> None:
    case = outcome.case
    out("")
    out(make_printable(" ".join(part for part in (case.name, case.method, case.subject) if part)))
    differences = outcome.comparison.differences
    for difference in differences[:DIFFERENCES_SHOWN_MAX]:
        out(make_printable(f"  {difference.path}"))
        for line in _lines(difference):
            out(f"    {cut(make_printable(redact(line)), VALUE_CHARS_MAX)}")
    if len(differences) > DIFFERENCES_SHOWN_MAX:
        out(f"  and {len(differences) - DIFFERENCES_SHOWN_MAX} more; use --json for all")


def _lines(difference: ValueDifference) -> Iterator[str]:
    expected, actual = difference.expected, difference.actual
    if isinstance(expected, str) and isinstance(actual, str) and "\n" in expected + actual:
        lines = list(unified_diff(expected.splitlines(), actual.splitlines(), n=1, lineterm=""))
        yield from lines[2:DIFF_LINES_MAX]
        if len(lines) > DIFF_LINES_MAX:
            yield f"and {len(lines) - DIFF_LINES_MAX} more lines"
        return
    yield f"- {_value(expected)}"
    yield f"+ {_value(actual)}"


def _value(value: Any) -> str:
    return "nothing" if value is ABSENT else msgspec.json.encode(value).decode()
