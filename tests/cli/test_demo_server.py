"""`anyport demo-server`."""

import subprocess
import sys

from tests.cli.stage import Stage

COMMAND = [sys.executable, "-m", "anyport", "demo-server"]


def test_it_is_the_demo_server(stage: Stage) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    ended = subprocess.run(COMMAND, input=request, capture_output=True, check=True)
    assert ended.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


def test_its_help_begins_with_an_example(stage: Stage) -> None:
    ran = stage.run("demo-server", "--help")
    assert ran.code == 0
    assert ran.out.startswith("Example: anyport demo-server --page-size 5\n\nusage: anyport demo")


def test_its_exit_code_is_ours(stage: Stage) -> None:
    assert stage.run("demo-server", "--nonsense").code == 2
