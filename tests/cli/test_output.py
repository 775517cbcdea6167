"""Text and JSON for people to read."""

import io
import json
import re
import sys
from pathlib import Path

import msgspec
import pytest

from anyport import cli
from anyport.cli.output import (
    HIGHLIGHTED_CHARS_MAX,
    Columns,
    StyledOutput,
    bar_widths,
    clean,
    format_ms,
    out,
    out_json,
    out_raw,
    table,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_nothing_is_coloured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = StyledOutput()
    output.print_line("a ", ("b", "bold red"), "  ")
    output.print_json(b'{"big":12345678901234567890.10,"a":[]}')

    assert capsys.readouterr().out == (
        'a b\n    {\n      "big": 12345678901234567890.10,\n      "a": []\n    }\n'
    )


def test_on_a_terminal_styles_and_json_are_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    output = StyledOutput()
    output.print_line(("b", "red"))
    output.print_json(b'{"a":1}')

    assert "\x1b[31mb" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[") > 4


def test_a_styled_line_honours_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    StyledOutput().print_line(("b", "red"))
    assert "31m" not in terminal.getvalue()


@pytest.mark.parametrize("on_terminal", [True, False])
def test_what_others_wrote_cannot_command_a_terminal(
    monkeypatch: pytest.MonkeyPatch, on_terminal: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", written := Terminal() if on_terminal else io.StringIO())
    output = StyledOutput()
    output.print_line("\x1b[2Jgone", ("\x9b31mred", ""), "[bold]as it is[/bold]")
    output.print_json('{"a":"\x9b31m\u202e"}'.encode())

    text = re.sub(r"\x1b\[[01]m", "", written.getvalue())  # Bold, which is ours.
    assert "[2J" not in text
    assert not {"\x9b", "\u202e", "\x1b"} & set(text)
    assert "[bold]as it is[/bold]" in text


def test_a_very_large_document_is_shown_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    StyledOutput().print_json(b'{"a":"%b"}' % (b"x" * HIGHLIGHTED_CHARS_MAX))
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
    assert bar_widths(parts, 10) == expected


def test_a_table_is_aligned_and_has_no_colour_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    table(("NAME", "STATE"), [("long name", "failure"), ("x", ""), ("y", "a\x1b[31m\nb")])

    assert capsys.readouterr().out == ("NAME       STATE\nlong name  failure\nx\ny          a↵b\n")


def test_on_a_terminal_a_table_fits_its_width_and_has_colour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    table(("NAME", "STATE", "WORDS"), [("x", "failure", "[bold]many words " * 5)])

    shown = terminal.getvalue()
    assert "\x1b[31mfailure" in shown
    assert "[bold]many" in shown
    assert len(shown.splitlines()) > 2


def test_a_table_honours_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    table(("STATE",), [("failure",)])

    assert "\x1b[31m" not in terminal.getvalue()


def test_a_wide_cell_moves_the_rest_of_its_own_row_only() -> None:
    columns = Columns(("A", "B"), ("aa", "b"))
    assert columns.line(("A", "B")) == "A   B"
    assert columns.line(("aaaa", "b")) == "aaaa  b"
    assert columns.line(("a", "b")) == "a   b"


def test_json_keeps_every_digit_and_no_dangerous_character(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out_json('{"n":12345678901234567890.10,"t":"\u2028\x9b"}'.encode())
    assert capsys.readouterr().out == (
        '{\n  "n": 12345678901234567890.10,\n  "t": "\\u2028\\u009b"\n}\n'
    )


def test_json_can_be_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    out_json({"a": [1, 2]}, indent=0)
    assert capsys.readouterr().out == '{"a":[1,2]}\n'


def test_lines_stay_lines_and_nothing_else_gets_through() -> None:
    assert clean("a\r\nb\x1b[2J\n\tc") == "a\nb\n\tc"


@pytest.mark.parametrize(
    ("duration", "told"), [(None, ""), (0.04, "0.0 ms"), (12.34, "12.3 ms"), (1500, "1.50 s")]
)
def test_durations_are_short(duration: float | None, told: str) -> None:
    assert format_ms(duration) == told


HIDING = "a\x1b]0;title\x07b\u202ec\u200bd\U000e0041e\x9bf\r\ng"
"""A title, a turn of the line, and characters that nobody sees."""


def test_nothing_that_is_written_can_confuse_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out(HIDING)
    table((HIDING,), [(HIDING,)])
    StyledOutput().print_line(HIDING, (HIDING, "bold"))
    out_json({HIDING: HIDING})
    out_raw(msgspec.json.encode(HIDING))

    shown = capsys.readouterr()
    for character in "\x1b\x07\u202e\u200b\U000e0041\x9b\r":
        assert character not in shown.out


def test_json_is_written_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"flag": "\ufe0f alone", "text": HIDING}
    out_json(said)
    assert json.loads(capsys.readouterr().out) == said


def test_whatever_a_command_writes_goes_through_what_makes_it_safe() -> None:
    direct = re.compile(r"sys\.stdout\.(?:write|buffer)|click\.echo\(|^ *print\(", re.MULTILINE)
    found = {
        path.name
        for path in Path(cli.__file__).parent.rglob("*.py")
        if direct.search(path.read_text())
    }
    # Help, the command of the demonstration, and a file of an export, which is JSON.
    assert found == {"output.py", "main.py", "demo_server.py", "export.py"}
