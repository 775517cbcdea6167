"""How commands end."""

import pytest

from anyport.cli.ending import CommandFailed, WrongUsage, guarded, say
from anyport.config import ConfigError, Fault, UnknownProfile

FAULT = Fault(file="a.toml", line=3, column=7, path="x", message="no \x1b[31mgood", hint="mend it")


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError([FAULT, FAULT]), 1, "a.toml:3:7: no good (mend it)\n" * 2),
        (CommandFailed("it is gone"), 1, "anyport: it is gone\n"),
        (WrongUsage("not so"), 2, "anyport: not so\n"),
        (UnknownProfile("x", ("a", "b")), 2, "there is no profile 'x'; the profiles are: a, b\n"),
        (KeyboardInterrupt(), 130, ""),
        (PermissionError(13, "Permission denied", "/f"), 1, "anyport: /f: Permission denied\n"),
    ],
)
def test_every_ending_has_its_code_and_its_words(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(lambda: raising(error)) == code
    told = capsys.readouterr()
    assert told.err.removeprefix("anyport: ") == words.removeprefix("anyport: ")
    assert told.out == ""


def test_a_command_that_returns_has_said_its_code_itself() -> None:
    assert guarded(lambda: 1) == 1


def test_an_unexpected_error_is_one_line_without_its_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANYPORT_DEBUG", raising=False)

    assert guarded(lambda: raising(ZeroDivisionError("hunter2"))) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert "unexpected error: ZeroDivisionError in raising" in line
    assert "ANYPORT_DEBUG=1" in line
    assert "hunter2" not in line


def test_whoever_asks_for_it_is_shown_the_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYPORT_DEBUG", "1")

    assert guarded(lambda: raising(ZeroDivisionError("by nothing"))) == 1

    assert "ZeroDivisionError: by nothing" in capsys.readouterr().err


def test_what_is_said_cannot_command_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2Jb\nc")
    assert capsys.readouterr().err == "anyport: ab↵c\n"
