"""`python -m anyport` and the console script."""

import sys

import pytest

from anyport import __main__
from anyport.cli.options import SharedOptions


def test_the_console_script_exits_with_the_code_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["anyport", "nonsense"])
    with pytest.raises(SystemExit) as ended:
        __main__.run()
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


def test_stdio_is_started_without_the_rest_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[SharedOptions] = []

    def stdio(options: SharedOptions) -> int:
        seen.append(options)
        return 0

    monkeypatch.setattr("anyport.cli.commands.stdio.stdio", stdio)
    monkeypatch.setattr("anyport.cli.main.main", lambda argv: 3)

    assert __main__.main(["stdio", "--profile", "dev"]) == 0
    assert seen == [SharedOptions(profile="dev")]


def test_stdio_with_words_it_does_not_know_is_explained_by_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anyport.cli.main.main", lambda argv: 3)
    assert __main__.main(["stdio", "--help"]) == 3
