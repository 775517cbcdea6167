"""Findings and sections."""

import pytest

from anyport.cli.doctor.findings import (
    Level,
    Section,
    document,
    format_binary_bytes,
    good,
    has_problems,
    hint,
    join_some,
    problem,
    show,
    skipped_section,
    warning,
    worst_level,
)
from anyport.cli.output import pluralize


def test_a_section_is_as_bad_as_its_worst_finding() -> None:
    findings = (good(code="a", what="a"), warning(code="b", what="b"), hint(code="c", what="c"))

    assert Section(name="x", summary="", findings=findings).level is Level.WARNING
    assert Section(name="x", summary="").level is Level.OK
    assert worst_level([Level.PROBLEM, Level.OK]) is Level.PROBLEM


def test_an_area_that_was_not_looked_at_is_not_called_good() -> None:
    assert skipped_section("servers").level is Level.HINT


def test_every_text_that_can_quote_something_is_redacted() -> None:
    finding = problem(code="x", what="a key", fix="the key", lines=("key",), about="key")
    section = Section(name="n", summary="key", findings=(finding,))

    shown = section.redacted(lambda text: text.replace("key", "***"))

    assert shown.summary == "***"
    (only,) = shown.findings
    assert (only.what, only.fix, only.lines) == ("a ***", "the ***", ("***",))
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
    assert format_binary_bytes(count) == text


def test_one_thing_is_not_several() -> None:
    assert (pluralize(1, "tool"), pluralize(1200, "tool")) == ("1 tool", "1,200 tools")


def test_of_many_names_a_few_are_told_and_none_is_endless() -> None:
    assert join_some(["a", "b"]) == "a, b"
    assert join_some("abcde") == "a, b, c and 2 more"
    assert len(join_some(["x" * 500])) == 100


BAD = problem(
    code="no-start", what="it ends\n", why="it matters", fix="do this", about="files", lines=("x",)
)
SECTIONS = (
    Section(name="runtime", summary="fine", findings=(good(code="python", what="Python"),)),
    Section(name="servers", summary="0 of 1", findings=(BAD, hint(code="h", what="hm"))),
)


def test_what_is_good_is_one_line_and_what_is_bad_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(SECTIONS, verbose=False)

    assert capsys.readouterr().out.splitlines() == [
        "ok       runtime  fine",
        "problem  servers  0 of 1",
        "  problem  files: it ends↵",
        "           | x",
        "           it matters",
        "           fix: do this",
        "  hint     hm",
        "",
        "1 problem, 1 hint",
    ]


def test_asked_for_more_it_shows_what_is_good_too(capsys: pytest.CaptureFixture[str]) -> None:
    show(SECTIONS[:1], verbose=True)

    assert capsys.readouterr().out.splitlines() == [
        "ok       runtime  fine",
        "  ok       Python",
        "",
        "no problems found",
    ]


def test_programs_get_everything() -> None:
    told = document(SECTIONS, {"files": {"tools": 1}})

    assert (told["schema_version"], told["ok"]) == (1, False)
    assert told["counts"] == {"ok": 1, "hint": 1, "warning": 0, "problem": 1}
    assert [section["level"] for section in told["sections"]] == ["ok", "problem"]
    assert told["sections"][1]["findings"][0] == {
        "level": "problem",
        "code": "no-start",
        "about": "files",
        "what": "it ends\n",
        "why": "it matters",
        "fix": "do this",
        "lines": ["x"],
    }
    assert told["servers"] == {"files": {"tools": 1}}


def test_only_problems_are_problems() -> None:
    wary = Section(name="a", summary="", findings=(warning(code="w", what="w"),))

    assert has_problems(SECTIONS)
    assert not has_problems([wary])
    assert document([wary], {})["ok"]
