"""`python -m anyport.demo`."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("options", "code"), [(["--help"], 0), (["--nonsense"], 2), (["--revision", "1999-01-01"], 2)]
)
def test_the_exit_code_tells_whether_the_command_line_was_right(
    options: list[str], code: int
) -> None:
    command = [sys.executable, "-m", "anyport.demo", *options]

    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    assert ended.returncode == code
    assert b"usage: anyport demo-server" in ended.stdout + ended.stderr
