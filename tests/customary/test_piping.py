"""`cat request.json | anyport stdio`: everything that is piped in is answered before the end."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from tests.harness import WAIT_SECONDS, Message, write_config
from tests.journeys.scripts import LIST_SECONDS, Scripted, result, rule, text, tools

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}\n'
SLOW_SECONDS = 2.0


def run(
    tmp_path: Path,
    servers: Mapping[str, Any],
    *,
    typed: bytes | None = None,
    stdin: IO[bytes] | None = None,
) -> tuple[int, list[Message]]:
    """A gateway fed from one end to the other; its exit code and what it said."""
    config = write_config(tmp_path, servers, gateway={"listSeconds": LIST_SECONDS})
    argv = [
        sys.executable, "-m", "anyport", "stdio",
        "--config", str(config), "--state-dir", str(tmp_path / "state"),
    ]  # fmt: skip
    source: dict[str, Any] = {"input": typed} if stdin is None else {"stdin": stdin}
    done = subprocess.run(argv, capture_output=True, timeout=WAIT_SECONDS, check=False, **source)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def call(id: int, name: str) -> bytes:
    params = {"name": f"ideas__{name}", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    return json.dumps(message).encode() + b"\n"


@pytest.fixture
def server(tmp_path: Path) -> Scripted:
    return Scripted(
        tmp_path,
        tools("quick", "slow"),
        rule("tools/call", result(text("quick")), where={"name": "quick"}),
        rule("tools/call", result(text("slow")), where={"name": "slow"}, sleep=SLOW_SECONDS),
    )


def test_a_piped_request_is_answered(tmp_path: Path, server: Scripted) -> None:
    code, (answer,) = run(tmp_path, {"ideas": server.command}, typed=REQUEST)
    assert code == 0
    names = [tool["name"] for tool in answer["result"]["tools"]]
    assert names[2:] == ["ideas__quick", "ideas__slow"]


def test_a_request_from_a_file_is_answered(tmp_path: Path, server: Scripted) -> None:
    file = tmp_path / "request.json"
    file.write_bytes(REQUEST)
    with file.open("rb") as stdin:
        code, (answer,) = run(tmp_path, {"ideas": server.command}, stdin=stdin)
    assert (code, answer["id"]) == (0, 1)
    assert len(answer["result"]["tools"]) == 4


def test_a_last_line_without_its_end_is_answered(tmp_path: Path, server: Scripted) -> None:
    code, (answer,) = run(tmp_path, {"ideas": server.command}, typed=REQUEST.rstrip(b"\n"))
    assert (code, answer["id"]) == (0, 1)


def test_an_empty_input_is_a_good_end(tmp_path: Path, server: Scripted) -> None:
    assert run(tmp_path, {"ideas": server.command}, typed=b"") == (0, [])


def test_two_piped_requests_are_both_answered(tmp_path: Path, server: Scripted) -> None:
    typed = REQUEST + call(2, "quick")
    code, answers = run(tmp_path, {"ideas": server.command}, typed=typed)
    assert code == 0
    assert {answer["id"] for answer in answers} == {1, 2}
    assert all("result" in answer for answer in answers)


def test_two_hundred_piped_requests_are_all_answered(tmp_path: Path, server: Scripted) -> None:
    typed = b"".join(call(id, "quick") for id in range(200))
    code, answers = run(tmp_path, {"ideas": server.command}, typed=typed)
    assert code == 0
    assert [answer["id"] for answer in answers] == list(range(200))
    assert all("result" in answer for answer in answers)


@pytest.mark.slow
@pytest.mark.parametrize("from_file", [False, True], ids=["pipe", "file"])
def test_a_call_of_two_seconds_is_waited_for(
    tmp_path: Path, server: Scripted, from_file: bool
) -> None:
    typed = REQUEST + call(2, "slow") + b"".join(call(id, "quick") for id in range(3, 203))
    if from_file:
        file = tmp_path / "requests.json"
        file.write_bytes(typed)
        with file.open("rb") as stdin:
            code, answers = run(tmp_path, {"ideas": server.command}, stdin=stdin)
    else:
        code, answers = run(tmp_path, {"ideas": server.command}, typed=typed)
    assert code == 0
    assert sorted(answer["id"] for answer in answers) == list(range(1, 203))
    assert all("result" in answer for answer in answers)


def test_the_children_end_with_the_gateway(tmp_path: Path, server: Scripted) -> None:
    run(tmp_path, {"ideas": server.command}, typed=call(1, "quick"))
    assert server.starts == 1
    started = server.log.read_bytes().split(b"\n")[0].decode()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.rpartition(" ")[2]), 0)
