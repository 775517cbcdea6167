"""`anyport call`."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.stage import Stage
from tests.harness import DEMO, WAIT_SECONDS, read_events


@pytest.fixture
def tiny(stage: Stage) -> Stage:
    stage.configure()
    return stage


def tiny_entry(stage: Stage) -> dict[str, Any]:
    servers = json.loads(stage.configure().read_text())["mcpServers"]
    entry: dict[str, Any] = servers["tiny"]
    return entry


def test_words_become_arguments_and_a_structured_result_is_shown_once(tiny: Stage) -> None:
    ran = tiny.run("call", "tiny__add", "a=2.5", "b=3")

    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {"sum": 5.5}


def test_json_is_the_result_as_it_came(tiny: Stage) -> None:
    ran = tiny.run("call", "add", "--args", '{"a": 1}', "b:=2", "--json")

    assert ran.json["structuredContent"] == {"sum": 3}
    assert ran.json["content"] == [{"type": "text", "text": '{"sum": 3}'}]


def test_text_of_a_server_cannot_command_the_terminal(tiny: Stage) -> None:
    ran = tiny.run("call", "tiny__say", "text=one\n\x1b]0;title\x07two\x9b31m")

    assert ran.out == "one\ntwo\N{REPLACEMENT CHARACTER}31m\n"


def test_an_unknown_tool_is_answered_with_those_of_similar_names(tiny: Stage) -> None:
    ran = tiny.run("call", "tiny_ad")

    assert (ran.code, ran.out) == (1, "")
    assert "there is no tool 'tiny_ad'; did you mean tiny__add" in ran.err


def test_a_name_that_two_servers_have_is_answered_with_both(stage: Stage) -> None:
    stage.configure(other=tiny_entry(stage))

    ran = stage.run("call", "add", "a=1", "b=2")

    assert (ran.code, ran.out) == (1, "")
    assert "two servers have 'add': tiny__add, other__add" in ran.err


def test_a_tool_of_a_disabled_server_is_not_merely_unknown(stage: Stage) -> None:
    stage.configure(off={"command": "x", "disabled": True})

    ran = stage.run("call", "off__say", "--json")

    assert ran.code == 1
    assert "server 'off' is disabled in the configuration" in ran.err
    assert "server 'off' is disabled" in ran.json["error"]["message"]


def test_an_argument_that_does_not_fit_is_wrong_usage(tiny: Stage) -> None:
    ran = tiny.run("call", "tiny__add", "a=1", "b=x")

    assert (ran.code, ran.out) == (2, "")
    assert "b must be an integer, not 'x'" in ran.err

    ran = tiny.run("call", "tiny__add", "2", "--json")
    assert ran.code == 2
    assert ran.json == {"error": {"message": "'2' is not key=value; for example: a=1"}}


@pytest.mark.parametrize(
    ("tool", "words", "shown"),
    [
        ("tiny__fail", "It did not work.", True),
        ("tiny__error", "tiny__error failed: Not today (error -7)", False),
    ],
)
def test_a_failure_is_told_on_stderr_and_in_the_exit_code(
    tiny: Stage, tool: str, words: str, shown: bool
) -> None:
    ran = tiny.run("call", tool)
    assert (ran.code, ran.out) == (1, "")
    assert words in ran.err

    ran = tiny.run("call", tool, "--json")
    assert ran.code == 1
    answer: dict[str, Any] = ran.json
    assert answer["isError"] is True if shown else answer["error"]["code"] == -7


def test_a_picture_is_described_and_can_be_written_to_a_file(tiny: Stage) -> None:
    ran = tiny.run("call", "picture", "--output", "pixel.png")

    assert (ran.code, ran.out) == (0, "[image/png 8 B]\n")
    assert (tiny.folder / "pixel.png").read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert tiny.run("call", "say", "text=x", "-o", "pixel.png").code == 1


def test_progress_and_log_messages_are_lines_if_asked_for(tiny: Stage) -> None:
    quiet = tiny.run("call", "steps")
    assert (quiet.out, quiet.err) == ("there\n", "")

    verbose = tiny.run("call", "steps", "--verbose")
    assert verbose.out == "there\n"
    assert verbose.err.splitlines() == ["50 %  going", "100 %  going", "info: half way"]


@pytest.mark.parametrize(("option", "level"), [("-v", "info"), ("-vv", "debug"), ("-vvv", "debug")])
def test_a_modern_server_is_told_to_log(stage: Stage, option: str, level: str) -> None:
    stage.configure(demo={"command": DEMO[0], "args": DEMO[1:]})

    ran = stage.run("call", "demo__log", f"level={level}", "text=hello", option)

    assert ran.code == 0
    assert f"{level}: hello" in ran.err


def test_a_state_directory_that_cannot_be_used_is_a_warning(tiny: Stage) -> None:
    for argv in (["call", "say", "text=x"], ["tools"], ["status"]):
        ran = tiny.run(*argv, "--state-dir", os.devnull)
        assert ran.code == 0
        assert f"warning: this could not be recorded in {os.devnull}: " in ran.err


def test_without_a_terminal_a_server_is_told_that_nobody_can_be_asked(tiny: Stage) -> None:
    ran = tiny.run("call", "ask")

    assert ran.out == "null\n"  # The tiny server got an error in place of a result.


def test_an_interrupt_cancels_the_call_at_the_server(tiny: Stage) -> None:
    command = [sys.executable, "-m", "anyport", "call", "hang", "--verbose"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"1  hanging\n"
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        code = process.wait(WAIT_SECONDS)

    assert (code, rest) == (130, b"")
    assert tiny.notes.read_text() == "cancelled\n"
    story = [(event["event_type"], event["status"]) for event in read_events(tiny.state)]
    assert ("gateway.tool_call", "cancelled") in story
    assert story[-1][0] == "gateway.stopped"
