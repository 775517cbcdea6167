"""A person at a terminal."""

import asyncio
import io
import os
import pty
import subprocess
import sys
import threading

import pytest

from anyport.cli.terminal import read_line, someone_is_there
from tests.cli.running import Running
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS


class Typed(io.StringIO):
    """A standard input that is a pipe, and says that it is a terminal."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return True


def test_lines_are_read_one_by_one_until_the_input_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdin", Typed(reading))

    async def converse() -> list[str | None]:
        os.write(writing, b" Ada \n")
        first = await read_line("Name\x1b[2J: ")
        os.close(writing)
        return [first, await read_line("More: ")]

    assert asyncio.run(converse()) == ["Ada", None]
    os.close(reading)
    assert capsys.readouterr().err == "Name: More: \n"


def test_somebody_is_there_only_if_both_ends_are_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", Typed(0))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not someone_is_there()
    monkeypatch.setattr(sys, "stderr", Typed(2))
    assert someone_is_there()
    monkeypatch.setattr(sys, "stdin", None)
    assert not someone_is_there()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_person_answers_what_a_server_asks(stage: Stage, there: Running, elsewhere: bool) -> None:
    stage.configure()
    terminal, its_end = pty.openpty()
    command = [sys.executable, "-m", "anyport", "call", "tiny__ask"]
    command += ["--url", there.url] if elsewhere else []
    with subprocess.Popen(
        command, stdin=its_end, stderr=its_end, stdout=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        os.close(its_end)
        watchdog = threading.Timer(WAIT_SECONDS, process.kill)
        watchdog.start()
        for prompt, line in (
            ("ancel: ", "y"),
            ("name (", "Ada"),
            ("age (", "many"),
            ("age (", "36"),
        ):
            seen = ""
            while prompt not in seen or not seen.endswith(": "):
                seen += os.read(terminal, 4096).decode()
            os.write(terminal, line.encode() + b"\n")
        assert process.stdout is not None
        answer = process.stdout.read()
        code = process.wait(WAIT_SECONDS)
        watchdog.cancel()
    os.close(terminal)

    assert code == 0
    assert b'"content": {"name": "Ada", "age": 36}' in answer
