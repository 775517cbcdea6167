"""`anyport events`."""

import json
import os
import signal
import subprocess
import sys

import pytest

from anyport.cli.commands.events import EventQuery
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS
from tests.record.story import TWO, Story


@pytest.fixture
def story(stage: Stage) -> Story:
    story = Story(stage.state)
    story.call(1, server="a", duration_ms=1.5)
    story.call(2, server="b", status="failure", error_message="no", trace_id=TWO)
    story.clock.seconds += 3600
    story.call(3, server="a", type="gateway.backend_failed", status="failure")
    return story


def test_the_newest_events_are_a_table_oldest_first(stage: Stage, story: Story) -> None:
    ran = stage.run("events")

    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[0] == ["TIME", "TYPE", "STATUS", "SERVER", "SUBJECT", "TOOK", "TRACE", "MESSAGE"]
    assert rows[1][2:] == ["tool_call", "success", "a", "t", "1.5", "ms", "11111111"]
    assert rows[2][2:] == ["tool_call", "failure", "b", "t", "22222222", "no"]
    assert rows[3][2:5] == ["backend_failed", "failure", "a"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [1, 2, 3]),
        (["--type", "tool_call"], [1, 2]),
        (["--type", "gateway.backend_failed"], [3]),
        (["--status", "failure", "--server", "b"], [2]),
        (["--since", "2026-07-28T12:30:00Z"], [3]),
        (["--trace", "22222222-2222-2222-2222-222222222222"], [2]),
        (["--trace", "2222"], [2]),
        (["--limit", "2"], [2, 3]),
        (["-n", "2"], [2, 3]),
        (["--server", "none"], []),
        (["status:error"], [2, 3]),
        (["status:error", "-type:tool_call"], [3]),
        (["--server", "a", "tool:*"], [1, 3]),
        (["no"], [2]),
        (["dur:>1ms"], [1]),
    ],
)
def test_json_is_the_lines_of_the_journal_that_are_wanted(
    stage: Stage, story: Story, options: list[str], expected: list[int]
) -> None:
    ran = stage.run("events", "--json", *options)

    assert ran.code == 0
    assert [json.loads(line)["metadata"]["n"] for line in ran.out.splitlines()] == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--type", "tol_call"], "there is no event type 'tol_call': did you mean tool_call?"),
        (["--status", "bad"], "there is no status 'bad'"),
        (["--since", "soon"], "--since: Not a time: 'soon'"),
        (["--limit", "0"], "--limit"),
        (["server:a", "sttus:error"], "sttus:error\n         ^^^^^\n"),
    ],
)
def test_a_wish_that_makes_no_sense_is_wrong_usage(
    stage: Stage, story: Story, options: list[str], told: str
) -> None:
    ran = stage.run("events", *options)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_when_nothing_matches_that_is_said_and_is_no_failure(
    stage: Stage, story: Story, as_json: list[str]
) -> None:
    ran = stage.run("events", "--trace", "abcd", *as_json)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "anyport: no event matches\n"


def test_where_nothing_was_recorded_that_is_said(stage: Stage) -> None:
    ran = stage.run("events")
    assert (ran.code, ran.out) == (1, "")
    assert f"nothing has been recorded yet in {stage.state}" in ran.err


@pytest.mark.parametrize("recorded", [True, False])
def test_following_goes_on_with_what_other_processes_write(stage: Stage, recorded: bool) -> None:
    story = Story(stage.state)
    if recorded:
        story.call(1)
        story.call(2, server="other")
    command = [sys.executable, "-m", "anyport", "events", "-f", "--json", "--server", "s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        seen = []
        if recorded:
            seen.append(process.stdout.readline())
        story.call(3, server="other")
        story.call(4)
        seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(WAIT_SECONDS) == 130

    shown = [json.loads(line)["metadata"]["n"] for line in seen]
    assert shown == ([1, 4] if recorded else [4])


def test_whoever_follows_sees_rows_below_their_titles(stage: Stage, story: Story) -> None:
    command = [sys.executable, "-m", "anyport", "events", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        head, *rows = [process.stdout.readline().decode() for _ in range(4)]
        story.call(4, server="c", tool="late", duration_ms=2.5)
        rows.append(process.stdout.readline().decode())
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130

    types = [row[head.index("TYPE") :].split()[0] for row in rows]
    assert types == ["tool_call", "tool_call", "backend_failed", "tool_call"]
    assert rows[1][head.index("MESSAGE") :] == "no\n"
    assert rows[3][head.index("SUBJECT") :].startswith("late ")
    assert rows[3][head.index("TOOK") :].startswith("2.5 ms ")


def test_a_wish_knows_its_events() -> None:
    assert EventQuery(event_type="tool_call").validated().event_type == "gateway.tool_call"
