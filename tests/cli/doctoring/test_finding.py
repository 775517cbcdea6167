"""Findings and sections."""

import pytest

from anyport.cli.doctoring.finding import (
    Level,
    Section,
    good,
    hint,
    passed_over,
    problem,
    size,
    some,
    warning,
    worst,
)
from anyport.cli.render import counted


def test_a_section_is_as_bad_as_its_worst_finding() -> None:
    findings = (good(code="a", what="a"), warning(code="b", what="b"), hint(code="c", what="c"))

    assert Section(name="x", summary="", findings=findings).level is Level.WARNING
    assert Section(name="x", summary="").level is Level.OK
    assert worst([Level.PROBLEM, Level.OK]) is Level.PROBLEM


def test_an_area_that_was_not_looked_at_is_not_called_good() -> None:
    assert passed_over("servers").level is Level.HINT


def test_every_text_that_can_quote_something_is_redacted() -> None:
    finding = problem(code="x", what="a key", mend="the key", lines=("key",), about="key")
    section = Section(name="n", summary="key", findings=(finding,))

    shown = section.shown(lambda text: text.replace("key", "***"))

    assert shown.summary == "***"
    (only,) = shown.findings
    assert (only.what, only.mend, only.lines) == ("a ***", "the ***", ("***",))
    assert only.about == "key", "a name of the configuration is no secret"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (6200, "6.1 KiB"),
        (20 << 20, "20 MiB"),
        (3 << 30, "3.0 GiB"),
    ],
)
def test_sizes_are_short(count: int, text: str) -> None:
    assert size(count) == text


def test_one_thing_is_not_several() -> None:
    assert (counted(1, "tool"), counted(1200, "tool")) == ("1 tool", "1,200 tools")


def test_of_many_names_a_few_are_told_and_none_is_endless() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some("abcde") == "a, b, c and 2 more"
    assert len(some(["x" * 500])) == 100
