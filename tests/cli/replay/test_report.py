"""What came of a replay, for people and for programs."""

from typing import Any

import pytest

from anyport.cli.replay.cases import ReplayCase
from anyport.cli.replay.report import DIFFERENCES_SHOWN_MAX, document, show
from anyport.cli.replay.runner import CaseOutcome, ReplayVerdict
from anyport.record.compare import CompareMode, compare


def outcome(expected: Any, actual: Any, **more: Any) -> CaseOutcome:
    comparison = compare(expected, actual, CompareMode.RECORDED)
    verdict = ReplayVerdict.SAME if comparison.is_equal else ReplayVerdict.DIFFERENT
    case = ReplayCase(name="a1", method="tools/call", params=b'{"name":"add"}')
    made: dict[str, Any] = {"verdict": verdict, "comparison": comparison, "took_ms": 1.5}
    return CaseOutcome(case=case, **{**made, **more})


def shown(capsys: pytest.CaptureFixture[str], *outcomes: CaseOutcome) -> str:
    show(outcomes, lambda text: text.replace("hunter2", "***"))
    return capsys.readouterr().out


def test_a_difference_has_its_place_and_both_values(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, outcome({"result": {"x": 1}}, {"result": {"x": 2, "y": None}}))

    assert "a1    tools/call  add     different  1.5 ms  2 places differ" in told
    assert "\n  result.x\n    - 1\n    + 2\n" in told
    assert "\n  result.y\n    - nothing\n    + null\n" in told


def test_texts_of_many_lines_are_shown_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, outcome("a\nb\nc\nd", "a\nb\nx\nd"))
    assert "    -c\n    +x\n" in told


def test_what_was_passed_over_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, outcome("2026-07-28T12:00:00Z", "2026-07-29T12:00:00Z"))
    assert "except for ids and times" in told


def test_secrets_and_terminal_sequences_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    different = outcome({"x": "a"}, {"x": "hunter2 \x1b[31m"})

    assert "hunter2" not in shown(capsys, different)
    assert "\x1b[31m" not in shown(capsys, different)
    told = document([different], lambda text: text.replace("hunter2", "***"))
    assert "hunter2" not in str(told)


def test_of_many_differences_some_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, outcome(list(range(30)), list(range(1, 31))))

    assert told.count("\n    + ") == DIFFERENCES_SHOWN_MAX
    assert "and 20 more; use --json for all" in told


def test_programs_get_counts_and_cases() -> None:
    told = document([outcome({"x": 1}, {"x": 2}), outcome(1, 1, reason="")], str)

    assert told["counts"]["same"] == 1
    assert told["counts"]["different"] == 1
    assert told["cases"][0] == {
        "case": "a1",
        "method": "tools/call",
        "target": "add",
        "result": "different",
        "took_ms": 1.5,
        "differences": [{"path": "x", "expected": 1, "actual": 2}],
    }
