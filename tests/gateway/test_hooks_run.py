"""Running a command: what it gets, how it ends, and that nothing of it stays."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from anyport.config.schema import HookConfig
from anyport.gateway import hooks_run
from anyport.gateway.hooks_action import Done, GivenUp, Occasion, Outcome
from anyport.gateway.hooks_run import VARIABLE_CHARS_MAX, Run, variables
from anyport.upstream.process import Warden

EVENT: dict[str, Any] = {
    "timestamp": "2026-07-28T12:00:00.000000+00:00",
    "trace_id": "a" * 32,
    "event_type": "gateway.tool_call",
    "status": "failure",
    "metadata": {"server": "github", "profile": "dev", "tool": "create\0issue"},
    "error_message": "m" * 5000,
}


def occasion(event: dict[str, Any] = EVENT) -> Occasion:
    return Occasion(json.dumps(event).encode(), "key", "b" * 16)


def run(*argv: str, event: dict[str, Any] = EVENT) -> Outcome:
    async def whole() -> Outcome:
        warden = Warden()
        action = Run(
            HookConfig(name="h", on="x", run=argv),
            warden,
            lambda text: text.replace("s3cret", "***"),
        )
        try:
            async with asyncio.timeout(30):
                return await action.act(occasion(event))
        finally:
            action.close()
            await warden.close()

    return asyncio.run(whole())


def python(code: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code, *args)


def test_the_event_comes_on_stdin_and_in_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYPORT_SECRET", "not for it")
    file = tmp_path / "found"
    code = (
        "import json, os, sys\n"
        "found = {'event': json.loads(sys.stdin.read()), 'environ': dict(os.environ)}\n"
        "open(sys.argv[1], 'w').write(json.dumps(found))\n"
    )

    assert run(*python(code, str(file))) == Done()

    found = json.loads(file.read_text())
    assert found["event"] == EVENT
    assert found["environ"]["ANYPORT_HOOK"] == "h"
    assert found["environ"]["ANYPORT_EVENT_SERVER"] == "github"
    assert found["environ"]["ANYPORT_EVENT_TARGET"] == "createissue"
    assert found["environ"]["TRACEPARENT"] == f"00-{'a' * 32}-{'b' * 16}-01"
    assert "ANYPORT_SECRET" not in found["environ"]


def test_variables_are_short_and_only_of_what_there_is() -> None:
    found = variables("h", occasion())
    assert found["ANYPORT_EVENT_ERROR"] == "m" * VARIABLE_CHARS_MAX
    assert found["ANYPORT_EVENT_TYPE"] == "gateway.tool_call"

    bare = variables("h", occasion({"trace_id": "", "event_type": "gateway.started"}))
    assert "ANYPORT_EVENT_SERVER" not in bare
    assert "ANYPORT_EVENT_ERROR" not in bare


def test_words_of_the_command_are_no_business_of_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "found"
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"

    assert run(*python(code, str(file), "$HOME; `x` {{ status }}")) == Done()

    assert file.read_text() == "$HOME; `x` {{ status }}"


def test_a_command_that_does_not_read_is_no_fault_of_it() -> None:
    assert run(*python("pass"), event=EVENT | {"source": "x" * 30_000}) == Done()


def test_a_command_that_fails_says_so_without_secrets() -> None:
    told = run(*python("import sys; sys.stderr.write('one\\nno s3cret\\n'); sys.exit(3)"))

    assert told == GivenUp(words="exit code 3; on stderr: no ***")


def test_a_command_that_is_not_there_is_told() -> None:
    told = run("no-such-command-anywhere")

    assert isinstance(told, GivenUp)
    assert told.words.startswith("it cannot be started: ")


def test_a_talkative_command_does_not_block() -> None:
    code = "import sys; print('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"

    assert run(*python(code)) == Done()


def test_a_command_that_takes_too_long_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks_run, "RUN_SECONDS_MAX", 0.5)
    file = tmp_path / "pids"
    code = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "with open(sys.argv[1], 'a') as file: file.write(f'{os.getpid()}\\n')\n"
        "time.sleep(600)\n"
    )

    told = run(*python(code, str(file)))

    assert told == GivenUp(words="it was killed: it ran for more than 0.5 s")
    pids = [int(line) for line in file.read_text().split()]
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
