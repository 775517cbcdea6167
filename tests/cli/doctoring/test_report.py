"""Findings, shown."""

import pytest

from anyport.cli.doctoring.finding import Section, good, hint, problem, warning
from anyport.cli.doctoring.report import document, has_problems, show

BAD = problem(
    code="no-start", what="it ends\n", why="it matters", mend="do this", about="files", lines=("x",)
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
        "           mend: do this",
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
        "all is well",
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
        "mend": "do this",
        "lines": ["x"],
    }
    assert told["servers"] == {"files": {"tools": 1}}


def test_only_problems_are_problems() -> None:
    wary = Section(name="a", summary="", findings=(warning(code="w", what="w"),))

    assert has_problems(SECTIONS)
    assert not has_problems([wary])
    assert document([wary], {})["ok"]
