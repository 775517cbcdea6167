"""Text and JSON for people to read."""

import io
import re
import sys

import pytest

from anyport.cli.paper import HIGHLIGHTED_CHARS_MAX, Paper, bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_nothing_is_coloured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    paper = Paper()
    paper.line("a ", ("b", "bold red"), "  ")
    paper.json(b'{"big":12345678901234567890.10,"a":[]}')

    assert capsys.readouterr().out == (
        'a b\n    {\n      "big": 12345678901234567890.10,\n      "a": []\n    }\n'
    )


def test_on_a_terminal_styles_and_json_are_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    paper = Paper()
    paper.line(("b", "red"))
    paper.json(b'{"a":1}')

    assert "\x1b[31mb" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[") > 4


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    Paper().line(("b", "red"))
    assert "31m" not in terminal.getvalue()


@pytest.mark.parametrize("on_terminal", [True, False])
def test_what_others_wrote_cannot_command_a_terminal(
    monkeypatch: pytest.MonkeyPatch, on_terminal: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", written := Terminal() if on_terminal else io.StringIO())
    paper = Paper()
    paper.line("\x1b[2Jgone", ("\x9b31mred", ""), "[bold]as it is[/bold]")
    paper.json('{"a":"\x9b31m\u202e"}'.encode())

    text = re.sub(r"\x1b\[[01]m", "", written.getvalue())  # Bold, which is ours.
    assert "[2J" not in text
    assert not {"\x9b", "\u202e", "\x1b"} & set(text)
    assert "[bold]as it is[/bold]" in text


def test_a_very_large_document_is_shown_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    Paper().json(b'{"a":"%b"}' % (b"x" * HIGHLIGHTED_CHARS_MAX))
    assert "\x1b[" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((1.0, 0.0, 1.0), (5, 0, 5)),
        ((0.0, 0.0, 0.0), (0, 0, 0)),
        ((1000.0, 0.001, 0.001), (8, 1, 1)),
        ((1.0, 1.0, 1.0), (4, 3, 3)),
        ((0.0, 0.0, 7.0), (0, 0, 10)),
    ],
)
def test_a_bar_gives_each_part_its_share_and_none_to_nothing(
    parts: tuple[float, ...], expected: tuple[int, ...]
) -> None:
    assert bar(parts, 10) == expected
