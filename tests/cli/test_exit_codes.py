"""How commands run and end."""

import asyncio
import os
import signal

import pytest
import uvloop

from anyport.cli.exit_codes import CommandFailed, WrongUsage, notify_user, run_async, run_guarded
from anyport.config import ConfigError, ConfigFault, UnknownProfile
from tests.harness import WAIT_SECONDS

FAULT = ConfigFault(
    file="a.toml", line=3, column=7, path="x", message="no \x1b[31mgood", hint="fix it"
)


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError([FAULT, FAULT]), 1, "a.toml:3:7: no good (fix it)\n" * 2),
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
    assert run_guarded(lambda: raising(error)) == code
    told = capsys.readouterr()
    assert told.err.removeprefix("anyport: ") == words.removeprefix("anyport: ")
    assert told.out == ""


def test_a_command_that_returns_has_said_its_code_itself() -> None:
    assert run_guarded(lambda: 1) == 1


def test_an_unexpected_error_is_one_line_without_its_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANYPORT_DEBUG", raising=False)

    assert run_guarded(lambda: raising(ZeroDivisionError("hunter2"))) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert "unexpected error: ZeroDivisionError in raising" in line
    assert "ANYPORT_DEBUG=1" in line
    assert "hunter2" not in line


def test_whoever_asks_for_it_is_shown_the_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYPORT_DEBUG", "1")

    assert run_guarded(lambda: raising(ZeroDivisionError("by nothing"))) == 1

    assert "ZeroDivisionError: by nothing" in capsys.readouterr().err


def test_what_is_said_cannot_command_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    notify_user("a\x1b[2Jb\nc")
    assert capsys.readouterr().err == "anyport: ab↵c\n"


def test_the_result_comes_back_from_the_fast_loop() -> None:
    async def work() -> type[object]:
        return type(asyncio.get_running_loop())

    assert run_async(work()) is uvloop.Loop


def test_an_interrupt_lets_the_work_put_things_in_order_first() -> None:
    order: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.Event().wait()
        finally:
            order.append("in order")

    # Whatever a test before this one has left: where it is ignored, nothing would ever come.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_async(work())
    finally:
        signal.signal(signal.SIGINT, before)
    assert order == ["in order"]
