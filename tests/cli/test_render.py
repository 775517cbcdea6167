"""Tables and JSON on stdout."""

import io
import sys

import pytest

from anyport.cli.render import Columns, clean, milliseconds, out_json, table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert milliseconds(duration) == told
