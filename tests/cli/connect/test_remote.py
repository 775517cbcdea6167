"""Commands that ask a gateway which runs elsewhere."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count

import pytest

from anyport.cli.connect import client
from anyport.cli.connect import remote as module
from tests.cli.recorded_http import Asked, PlayedServer, Reply, answer, played
from tests.cli.running import Running, running
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS


def spoken(asked: Asked) -> Reply:
    """What an MCP server with one tool answers."""
    if asked.verb != "POST" or "id" not in asked.body:
        return Reply(status=202)
    answers = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}},
        "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    return answer(asked, answers[asked.body["method"]])


def starting(looks: int, last_error: str | None = None) -> Callable[[Asked], Reply]:
    """A gateway whose server `slow` runs once it was looked at so often; `quick` runs at once."""
    seen = count(1)

    def play(asked: Asked) -> Reply:
        if asked.verb != "GET":
            return spoken(asked)
        if asked.path == "/api/v1/profiles":
            return Reply(body=b'{"profiles": [{"slug": "default"}]}')
        state = "starting" if next(seen) <= looks else "running"
        servers = {
            "slow": {"status": state, "last_error": last_error},
            "quick": {"status": "running", "last_error": None},
        }
        tools = [{"name": "t", "native_name": "t", "server": "quick"}]
        profile = {"slug": "default", "separator": "__"}
        page = {"profile": profile, "servers": servers, "tools": tools}
        return Reply(body=json.dumps(page).encode())

    return play


def looks_at(server: PlayedServer) -> int:
    return sum(asked.path == "/api/v1/profiles/default" for asked in server.asked)


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)


@pytest.mark.usefixtures("quickly")
def test_servers_that_are_starting_are_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WAIT_NOTICE_SECONDS", -1.0)
    with played(starting(3)) as server:
        ran = stage.run("tools", "--url", server.url)
        assert looks_at(server) == 5, "until it runs, and once more with what it offers"
    assert (ran.code, ran.err) == (0, "anyport: waiting for slow\n")


@pytest.mark.usefixtures("quickly")
def test_the_wait_is_bounded_and_a_server_that_is_starting_is_called_that(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SETTLE_SECONDS_MAX", 0.05)
    with played(starting(1_000_000)) as server:
        ran = stage.run("tools", "--url", server.url)
    assert ran.err == "anyport: server 'slow' has not started in 0.05 s\n"


def test_a_server_that_has_failed_before_is_not_waited_for(stage: Stage) -> None:
    with played(starting(1_000_000, "it exited with code 1")) as server:
        ran = stage.run("tools", "--url", server.url)
    assert ran.err == "anyport: server 'slow' is not running: it exited with code 1\n"


def test_a_call_waits_for_no_server_but_its_own(stage: Stage) -> None:
    with played(starting(1_000_000)) as server:
        assert stage.run("call", "t", "--url", server.url).out == "done\n"
        assert looks_at(server) == 1


@pytest.mark.usefixtures("quickly")
def test_a_tool_may_be_one_of_a_server_that_is_still_starting(stage: Stage) -> None:
    with played(starting(3)) as server:
        ran = stage.run("call", "slow__x", "--url", server.url)
        assert looks_at(server) > 3
    assert ran.err.startswith("anyport: there is no tool 'slow__x'")


def test_status_shows_servers_as_they_are_and_waits_for_none(stage: Stage) -> None:
    state = {"slow": {"status": "starting", "tool_count": 0, "revision": None, "era": None}}
    state["slow"] |= {"restarts": 0, "last_error": None}
    profile = {"slug": "default", "prefix": "always", "separator": "__", "errors": "context"}
    pages = {
        "/api/v1/profiles": {"profiles": [{"slug": "default"}]},
        "/api/v1/profiles/default": {"profile": profile | {"offers": {}}, "servers": state},
        "/api/v1/status": {"gateway": {}},
    }

    def play(asked: Asked) -> Reply:
        if asked.verb == "GET":
            return Reply(body=json.dumps(pages[asked.path]).encode())
        return spoken(asked)

    with played(play) as server:
        ran = stage.run("status", "--url", server.url)
    assert ran.out.splitlines()[1].split() == ["slow", "starting", "0", "0"]


def test_only_the_server_that_a_name_begins_with_is_told_to_be_down(
    stage: Stage, there: Running
) -> None:
    for command in ("call", "tools"):
        for name in ("typo__add", "typo"):
            ran = stage.run(command, name, "--url", there.url)
            assert "there is no tool" in ran.err
            assert "gone" not in ran.err
        ran = stage.run(command, "gone__add", "--url", there.url)
        assert "server 'gone' is not running: " in ran.err


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
    assert "the servers are: tiny, gone, off" in ran.err


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
        assert "requires a token (HTTP 401): pass it with --token or set ANYPORT_TOKEN" in ran.err
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
        return Reply(status=404, media="text/plain") if asked.verb == "GET" else spoken(asked)

    with played(play) as server:
        url = f"{server.url}/some/path"
        listed = stage.run("tools", "--url", url).out.splitlines()
        assert listed == ["NAME  SERVER  DESCRIPTION", "t"], "whose it is, nobody knows"
        assert stage.run("tools", "t", "--url", url).out.startswith(
            "t, of the server at this URL\n"
        )
        assert stage.run("call", "t", "--url", url).out == "done\n"
        for command in ("status", "events", "stats"):
            ran = stage.run(command, "--url", url)
            assert ran.code == 1
            assert "is not an Anyport gateway: it has no /api/v1" in ran.err
            assert f"try 'anyport tools --url {url}'" in ran.err


@pytest.mark.parametrize(
    "page",
    [
        Reply(status=404, body=b'{"detail": "Not Found"}'),
        Reply(status=405, body=b'{"error": {"code": -32000, "message": "Method not allowed."}}'),
        Reply(body=b"<p>Hello", media="text/html"),
        Reply(body=b'{"hello": 1}'),
        Reply(body=[b"data: 1\n\n"], media="text/event-stream"),
    ],
)
def test_whatever_others_answer_in_place_of_our_pages(stage: Stage, page: Reply) -> None:
    with played(lambda asked: page if asked.verb == "GET" else spoken(asked)) as server:
        assert "t" in stage.run("tools", "--url", server.url).out.split()
        for command in ("status", "events"):
            assert "is not an Anyport gateway" in stage.run(command, "--url", server.url).err


@pytest.mark.parametrize("command", [["tools"], ["call", "x"], ["status"], ["events"], ["stats"]])
def test_where_nobody_answers_every_command_says_so(stage: Stage, command: list[str]) -> None:
    ran = stage.run(*command, "--url", "http://127.0.0.1:9")
    assert ran.code == 1
    assert "cannot connect to http://127.0.0.1:9: " in ran.err
    assert "Start one with 'anyport serve'" in ran.err
