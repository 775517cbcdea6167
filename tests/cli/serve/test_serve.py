"""`anyport serve`: how it begins, what it refuses, and how it ends."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from anyport.cli.options import ListenOptions
from anyport.cli.serve.serve import explain_listen_error, listen_address
from anyport.config import demo_config
from tests.cli.running import SERVE, Session, is_alive, messages, modern, running, wait_until
from tests.cli.stage import Stage
from tests.harness import DEMO, WAIT_SECONDS, read_events

INT, TERM = signal.SIGINT, signal.SIGTERM

LOADED = """
import sys
from collections.abc import Iterator
from anyport.__main__ import main
assert main(["serve", "--port", sys.argv[1]]) == 1
heavy = {"click", "rich", "sqlite3", "starlette", "prometheus_client"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on, for the time of a test."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


# How it begins.


def test_it_says_where_it_is_once_it_accepts_connections(stage: Stage) -> None:
    stage.configure()
    with running() as there:
        assert there.report["pid"] == there.process.pid
        assert there.report["profiles"] == {
            "default": {"url": f"{there.url}/mcp", "servers": ["tiny"]}
        }
        assert there.get("/readyz") == (200, {"status": "ok"})
        answer = json.loads(Session(there).call("tiny__add", a=1, b=2).read())
        assert answer["result"]["structuredContent"] == {"sum": 3}

        there.process.send_signal(TERM)
        assert there.end() == (0, "")
    last = [event["event_type"] for event in read_events(stage.state)][-2:]
    assert last == ["gateway.backend_stopped", "gateway.stopped"]


def test_its_servers_are_started_before_anybody_asks(stage: Stage) -> None:
    stage.configure()
    with running() as there:
        wait_until(lambda: there.get("/api/v1/servers/tiny")[1]["status"]["status"] == "running")


def test_without_a_configuration_the_demo_is_served_and_people_are_told_how(
    stage: Stage,
) -> None:
    with subprocess.Popen(
        [*SERVE, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        told = []
        for line in process.stderr:
            told.append(line.decode())
            if "Ctrl-C" in told[-1]:
                break
        process.send_signal(INT)
        assert process.stdout.read() == b""
        assert process.wait(WAIT_SECONDS) == 130
    text = "".join(told)
    assert "using the built-in demo server" in text
    assert "is ready at http://127.0.0.1:" in text
    assert "claude mcp add --transport http anyport http://127.0.0.1:" in text
    assert "\x1b" not in text


def test_people_are_told_which_servers_do_not_run(stage: Stage) -> None:
    stage.configure(absent={"command": "./absent"}, ends={"command": "false"})
    with subprocess.Popen([*SERVE, "--port", "0"], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line.decode())
            if "for their status" in told[-1]:
                break
        process.send_signal(TERM)
        assert process.wait(WAIT_SECONDS) == 0
    at = told.index("Press Ctrl-C to stop.\n")
    absent, ends, hint = told[at + 1 :]
    assert absent.startswith("anyport: server 'absent' will not start: the command ")
    assert ends.startswith("anyport: server 'ends' is not running: ")
    assert hint.startswith("anyport: for their status, run 'anyport status --url http://127.0.0.1:")


def test_with_a_profile_only_that_one_is_served(stage: Stage) -> None:
    config = stage.configure()
    both = {"profiles": {"one": {"servers": ["tiny"]}, "two": {"servers": []}}}
    config.write_text(json.dumps(json.loads(config.read_text()) | both))

    with running("--profile", "two") as there:
        assert there.report["profiles"] == {"two": {"url": f"{there.url}/mcp", "servers": []}}
    with running() as there:
        assert list(there.report["profiles"]) == ["one", "two"]
        assert there.report["profiles"]["one"]["url"] == f"{there.url}/mcp/one"
    assert stage.run("serve", "--profile", "three").code == 2


def test_the_command_line_goes_before_the_configuration() -> None:
    config = demo_config()
    assert listen_address(config, ListenOptions()) == ("127.0.0.1", 8640)
    assert listen_address(config, ListenOptions(host="[::1]", port=0)) == ("::1", 0)


def test_nothing_is_loaded_that_only_people_or_the_api_need(stage: Stage, taken: int) -> None:
    stage.configure()
    command = [sys.executable, "-c", LOADED, str(taken)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


# What it refuses.


def test_a_port_that_is_taken_is_named_with_the_way_out(stage: Stage, taken: int) -> None:
    stage.configure()

    ran = stage.run("serve", "--port", str(taken))

    assert (ran.code, ran.out) == (1, "")
    assert f"port {taken} on 127.0.0.1 is in use" in ran.err
    assert "--port 0" in ran.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com"])
def test_an_address_for_others_is_refused_without_tokens(stage: Stage, host: str) -> None:
    stage.configure()

    ran = stage.run("serve", "--host", host, "--port", "0")

    assert (ran.code, ran.out) == (1, "")
    assert "gateway.tokens" in ran.err
    assert not stage.state.exists(), "nothing was started"


def test_with_tokens_it_listens_there_and_lets_nobody_in_without_one(stage: Stage) -> None:
    config = stage.configure()
    gateway = {"gateway": {"tokens": {"me": "${env:MINE}"}}}
    config.write_text(json.dumps(json.loads(config.read_text()) | gateway))

    with running("--host", "0.0.0.0", MINE="a-token-of-mine-1234") as there:
        assert there.get("/readyz")[0] == 401
        port = there.url.rpartition(":")[2]
        assert there.url == f"http://127.0.0.1:{port}"

        there.process.send_signal(TERM)
        code, told = there.end()
        assert code == 0
        assert "gateway.allowedHosts" in told, "others would be turned away"


def test_who_has_named_itself_is_not_told_to(stage: Stage) -> None:
    config = stage.configure()
    gateway = {"gateway": {"tokens": {"me": "${env:MINE}"}, "allowedHosts": ["here.example"]}}
    config.write_text(json.dumps(json.loads(config.read_text()) | gateway))

    with running("--host", "0.0.0.0", MINE="a-token-of-mine-1234") as there:
        there.process.send_signal(TERM)
        assert "allowedHosts" not in there.end()[1]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EADDRINUSE, "in use"), "port 80 on h is in use"),
        (OSError(errno.EACCES, "denied"), "port 80 requires privileges"),
        (OSError(errno.EADDRNOTAVAIL, "gone"), "h is not an address of this machine"),
        (socket.gaierror(-2, "unknown"), "unknown host h"),
        (OSError(errno.ENOMEM, "Out of memory"), "cannot listen on h, port 80: Out of memory"),
    ],
)
def test_why_an_address_cannot_be_had_is_explained(error: OSError, told: str) -> None:
    assert told in explain_listen_error(error, "h", 80)


# How it ends.


def test_what_is_in_flight_is_finished_while_new_work_is_turned_away(stage: Stage) -> None:
    stage.configure()
    with running() as there:
        session = Session(there, elicitation={})
        asking = session.call("tiny__ask")
        heard = messages(asking)
        question = next(each for each in heard if "method" in each)
        answering, newcomer = session.again(there), there.connect()

        there.process.send_signal(TERM)
        there.wait_draining()

        refused = modern(newcomer, "tools/list")
        assert refused.status == 503
        assert int(refused.headers["Retry-After"]) > 0
        answering.tell({"id": question["id"], "result": {"action": "decline"}})
        answer = next(each for each in heard if "result" in each)
        assert answer["result"]["content"] == [{"type": "text", "text": '{"action": "decline"}'}]
        code, _ = there.end()
    assert code == 0
    story = [(event["event_type"], event["status"]) for event in read_events(stage.state)]
    assert ("gateway.tool_call", "success") in story
    assert story[-1] == ("gateway.stopped", "success")


def test_a_subscription_gets_its_last_word_and_does_not_hold_up_the_end(stage: Stage) -> None:
    stage.configure()
    with running() as there:
        wishes = {"toolsListChanged": True}
        stream = modern(there.connect(), "subscriptions/listen", notifications=wishes)
        heard = messages(stream)
        acknowledged = next(heard)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"

        there.process.send_signal(TERM)

        assert [each for each in heard if "result" in each], "the stream ends with its result"
        assert there.end() == (0, "")


def test_an_answer_that_is_on_its_way_arrives_whole(stage: Stage) -> None:
    size = 12_000_000  # More than the system keeps for a client that does not read yet.
    stage.configure(demo={"command": DEMO[0], "args": DEMO[1:]})
    with running() as there:
        answer = Session(there).call("demo__big", bytes=size)

        there.process.send_signal(TERM)
        with pytest.raises(subprocess.TimeoutExpired):
            there.process.wait(0.3)

        (told,) = messages(answer)  # Slow as it may be, and so maybe on a stream.
        assert len(told["result"]["content"][0]["text"]) == size
        assert there.end()[0] == 0


@pytest.mark.parametrize(("number", "code"), [(INT, 130), (TERM, 1)])
def test_a_second_signal_stops_at_once_and_no_server_survives(
    stage: Stage, number: signal.Signals, code: int
) -> None:
    stage.configure()
    with running() as there:
        session = Session(there)
        assert next(messages(session.call("tiny__hang")))["method"] == "notifications/progress"
        pid = there.get("/api/v1/servers/tiny")[1]["status"]["pid"]
        assert is_alive(pid)

        there.process.send_signal(number)
        there.wait_draining()
        there.process.send_signal(number)

        assert there.process.wait(WAIT_SECONDS) == code
        wait_until(lambda: not is_alive(pid))
    started = [each for each in read_events(stage.state) if each["event_type"].endswith(".started")]
    assert started, "what was recorded before is there"


def test_a_state_directory_that_cannot_be_used_is_a_warning(stage: Stage) -> None:
    stage.configure()
    with running("--state-dir", os.devnull) as there:
        Session(there).call("tiny__say", text="x").read()
        there.process.send_signal(TERM)
        code, told = there.end()
    assert code == 0
    assert f"not everything could be recorded in {os.devnull}: " in told
