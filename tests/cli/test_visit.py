"""Commands that ask a gateway which runs elsewhere."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cli.played_http import Asked, Reply, answer, played
from tests.cli.running import Running, running
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS


def test_its_tools_are_listed_with_their_servers(stage: Stage, there: Running) -> None:
    ran = stage.run("tools", "--url", there.url)

    assert ran.code == 0
    rows = [line.split()[:2] for line in ran.out.splitlines()]
    assert ["tiny__add", "tiny"] in rows
    assert ["gateway_status", "(gateway)"] in rows
    assert "server 'gone' is not running: " in ran.err
    assert not stage.state.exists(), "no gateway was started here"


def test_the_tools_of_one_server_can_be_picked(stage: Stage, there: Running) -> None:
    names = [
        tool["name"]
        for tool in stage.run("tools", "--server", "tiny", "--json", "--url", there.url).json
    ]
    assert names
    assert all(name.startswith("tiny__") for name in names)

    ran = stage.run("tools", "--server", "zzz", "--url", there.url)
    assert ran.code == 2
    assert "there are: tiny, gone, off" in ran.err


def test_a_tool_is_explained_by_either_of_its_names(stage: Stage, there: Running) -> None:
    for name in ("tiny__add", "add"):
        ran = stage.run("tools", name, "--url", there.url)
        assert ran.out.startswith("tiny__add, of server 'tiny'\n")


def test_a_profile_is_chosen_by_the_option_or_by_the_url(stage: Stage, there: Running) -> None:
    for argv in (["--url", there.url, "--profile", "dev"], ["--url", f"{there.url}/mcp/dev"]):
        names = [tool["name"] for tool in stage.run("tools", "--json", *argv).json]
        assert "gateway_status" not in names
        assert "tiny__add" in names

    ran = stage.run("tools", "--url", there.url, "--profile", "zzz")
    assert ran.code == 1
    assert "there is no profile 'zzz'" in ran.err
    assert "the profiles are: default, dev" in ran.err


def test_a_tool_is_called_with_arguments_read_by_its_schema(stage: Stage, there: Running) -> None:
    ran = stage.run("call", "add", "a=1.5", "b=2", "--json", "--url", there.url)
    assert (ran.code, ran.json["structuredContent"]) == (0, {"sum": 3.5})

    ran = stage.run("call", "tiny__add", "a=1", "b=x", "--url", there.url)
    assert (ran.code, ran.out) == (2, "")
    assert "b must be an integer" in ran.err


def test_failures_are_told_as_they_are_at_home(stage: Stage, there: Running) -> None:
    ran = stage.run("call", "tiny__error", "--url", there.url)
    assert ran.code == 1
    assert "tiny__error failed: Not today (error -7)" in ran.err
    assert "It did not work." in stage.run("call", "tiny__fail", "--url", there.url).err
    ran = stage.run("call", "tiny__pictur", "--url", there.url)
    assert "did you mean tiny__picture" in ran.err
    ran = stage.run("call", "off__x", "--url", there.url)
    assert "server 'off' is disabled" in ran.err


def test_progress_and_log_messages_come_along(stage: Stage, there: Running) -> None:
    ran = stage.run("call", "tiny__steps", "--verbose", "--url", there.url)

    assert (ran.code, ran.out) == (0, "there\n")
    assert "50 %  going" in ran.err
    assert "info: half way" in ran.err


def test_an_interrupt_cancels_the_call_at_the_server(stage: Stage, there: Running) -> None:
    command = [sys.executable, "-m", "anyport", "call", "hang", "-v", "--url", there.url]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        assert process.stderr is not None
        while process.stderr.readline() != b"1  hanging\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130

    events = there.get("/api/v1/events?event_type=gateway.tool_call&status=cancelled")[1]["events"]
    assert events[-1]["metadata"]["tool"] == "hang"


def test_its_servers_are_shown_as_they_are(stage: Stage, there: Running) -> None:
    stage.run("tools", "--url", there.url)  # Whoever asks first wakes them.

    ran = stage.run("status", "--url", there.url)
    assert ran.code == 1, "one of them does not run"
    states = {line.split()[0]: line.split()[1] for line in ran.out.splitlines()}
    assert (states["tiny"], states["gone"], states["off"]) == ("running", "failed", "disabled")

    report = stage.run("status", "--json", "--url", there.url, "--profile", "dev").json
    assert report["gateway"]["config"] == {
        "profile": "dev", "prefix": "always", "separator": "__", "errors": "context",
    }  # fmt: skip
    assert list(report["backends"]) == ["tiny"]
    assert report["capabilities"]["tools"] == report["backends"]["tiny"]["tool_count"]


@pytest.mark.slow
def test_following_asks_again_and_again(stage: Stage, there: Running) -> None:
    command = [sys.executable, "-m", "anyport", "status", "-f", "--json", "--url", there.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        for _ in range(2):
            assert "tiny" in json.loads(process.stdout.readline())["backends"]
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130


def test_a_token_opens_the_door(stage: Stage) -> None:
    config = stage.configure()
    gateway = {"gateway": {"tokens": {"me": "${env:MINE}"}}}
    config.write_text(json.dumps(json.loads(config.read_text()) | gateway))

    with running(MINE="a-token-of-mine-1234") as guarded:
        ran = stage.run("call", "tiny__say", "text=x", "--url", guarded.url)
        assert ran.code == 1
        assert "wants a token (HTTP 401): give it with --token or ANYPORT_TOKEN" in ran.err
        wrong = ["--url", guarded.url, "--token", "another-token-5678"]
        ran = stage.run("call", "tiny__say", "text=x", *wrong)
        assert "does not accept this token" in ran.err
        assert "another-token" not in ran.err
        right = ["--url", guarded.url, "--token", "a-token-of-mine-1234"]
        assert stage.run("call", "tiny__say", "text=x", *right).out == "x\n"
        for command in ("events", "stats"):
            assert stage.run(command, *right).code == 0


def test_any_other_mcp_server_can_be_visited_but_tells_less(stage: Stage) -> None:
    def play(asked: Asked) -> Reply:
        if asked.verb != "POST":
            return Reply(status=404, media="text/plain")
        if "id" not in asked.body:
            return Reply(status=202)
        answers = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}},
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        return answer(asked, answers[asked.body["method"]])

    with played(play) as server:
        url = f"{server.url}/some/path"
        assert stage.run("tools", "--url", url).out.splitlines()[1].split()[0] == "t"
        assert stage.run("call", "t", "--url", url).out == "done\n"
        ran = stage.run("status", "--url", url)
    assert ran.code == 1
    assert "there is no MCP server at" in ran.err


@pytest.mark.parametrize("command", [["tools"], ["call", "x"], ["status"], ["events"], ["stats"]])
def test_where_nobody_answers_every_command_says_so(stage: Stage, command: list[str]) -> None:
    ran = stage.run(*command, "--url", "http://127.0.0.1:9")
    assert ran.code == 1
    assert "nothing answers at http://127.0.0.1:9: " in ran.err
    assert "'anyport serve' starts one" in ran.err
