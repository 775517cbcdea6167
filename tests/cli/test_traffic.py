"""`anyport traffic`."""

import io
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from anyport.cli.rows import TITLES
from anyport.cli.traffic import Lines
from anyport.record.row import row_of
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS
from tests.record.recorded import exchange, frame, write_events

FAILED = {"status": "failure", "error_code": -32602, "error_message": "no"}


@pytest.fixture
def story(stage: Stage) -> Stage:
    write_events(
        stage.state,
        exchange(event={"event_type": "gateway.started"}),
        exchange(span_id="1" * 16, event={"status": "pending"}),
        exchange(span_id="1" * 16),
        exchange(span_id="2" * 16, server="docs", outcome="server_error", event=FAILED),
        frame(span_id="3" * 16),
    )
    return stage


def ids(out: str) -> list[str]:
    return [json.loads(line)["id"][0] for line in out.splitlines()]


def test_traffic_is_a_table_oldest_first(story: Stage) -> None:
    ran = story.run("traffic")

    assert ran.code == 0
    head, *rows = ran.out.splitlines()
    assert [head.index(title) for title in TITLES] == sorted(map(head.index, TITLES))
    assert [row[head.index("OUTCOME") :].split()[0] for row in rows] == [
        *("ok", "server_error", "server-notification"),
    ]
    assert "docs" in rows[1]
    assert rows[1].endswith("no (error -32602)")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["1", "2", "3"]),
        (["server:docs"], ["2"]),
        (["-server:docs"], ["1", "3"]),
        (["kind:exchange", "status:ok"], ["1"]),
        (["kind:exchange status:ok"], ["1"]),
        (["-n", "2"], ["2", "3"]),
        (["code:<-32000"], ["2"]),
        (["server:nobody"], []),
    ],
)
def test_json_is_a_line_for_each_row_that_matches(
    story: Stage, words: list[str], expected: list[str]
) -> None:
    ran = story.run("traffic", "--json", *words)
    assert ran.code == 0
    assert ids(ran.out) == expected
    assert ("no traffic matches" in ran.err) is (expected == [])


def test_a_fault_in_a_filter_is_marked(story: Stage) -> None:
    ran = story.run("traffic", "since:1h", "sever:docs")

    assert (ran.code, ran.out) == (2, "")
    message, text, carets = ran.err.splitlines()
    assert message.startswith("anyport: ")
    assert "Did you mean server?" in message
    assert text == "since:1h sever:docs"
    assert carets.strip("^") == " " * text.index("sever")


def test_where_nothing_was_recorded_that_is_said(stage: Stage) -> None:
    ran = stage.run("traffic")
    assert (ran.code, ran.out) == (1, "")
    assert f"nothing has been recorded yet in {stage.state}" in ran.err


@pytest.mark.parametrize("recorded", [True, False])
def test_following_goes_on_with_what_other_processes_write(stage: Stage, recorded: bool) -> None:
    if recorded:
        write_events(stage.state, exchange(span_id="1" * 16))
        write_events(stage.state, exchange(span_id="2" * 16, server="docs"))
    command = [sys.executable, "-m", "anyport", "traffic", "-f", "--json", "server:github"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline()] if recorded else []
        if not recorded:
            # Nothing is shown that tells when it has begun to look: rows come until one is seen.
            write_events(stage.state, exchange(span_id="1" * 16))
            seen.append(process.stdout.readline())
        write_events(stage.state, exchange(span_id="3" * 16, server="docs"))
        write_events(stage.state, exchange(span_id="4" * 16))
        seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""
        assert process.wait(WAIT_SECONDS) == 130

    assert ids(b"".join(seen).decode()) == ["1", "4"]


def test_whoever_follows_sees_rows_below_their_titles(story: Stage) -> None:
    command = [sys.executable, "-m", "anyport", "traffic", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        head, *rows = [process.stdout.readline().decode() for _ in range(4)]
        write_events(story.state, exchange(span_id="4" * 16, tool="late", outcome="tool_error"))
        rows.append(process.stdout.readline().decode())
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130

    assert rows[3][head.index("TARGET") :].startswith("late ")
    assert rows[3][head.index("OUTCOME") :].startswith("tool_error ")
    assert rows[3][head.index(" ID ") :].strip() == "44444444"


def test_what_has_only_begun_is_no_row_and_that_is_said(story: Stage) -> None:
    ran = story.run("traffic", "status:pending")
    assert (ran.code, ran.out) == (0, "")
    assert "rows only for what has ended" in ran.err
    assert "anyport events status:pending" in ran.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue()).splitlines()


def terminal_of(monkeypatch: pytest.MonkeyPatch, width: int) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    return terminal


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_table_fits_the_terminal(
    story: Stage, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal = terminal_of(monkeypatch, width)
    assert story.run("traffic").code == 0

    head, *rows = terminal.lines
    assert max(map(len, [head, *rows])) <= width
    assert ("SIZES" in head) is (width == 200)
    for title in ("TIME", "CLIENT →", "METHOD", "TARGET", "OUTCOME", "TOOK", "ID"):
        assert title in head
    text = " ".join(" ".join(rows).split())
    for cell in ("231.5 ms", "11111111", "server_error", "no (error -32602)"):
        assert cell in text


@pytest.mark.parametrize("width", [70, 80, 100])
def test_lines_of_one_who_follows_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal = terminal_of(monkeypatch, width)
    lines = Lines(as_json=False)
    events = [
        exchange(tool="a_tool_with_a_name_that_is_longer_than_a_column"),
        exchange(outcome="server_error", event={**FAILED, "error_message": "no " * 99}),
        frame(),
    ]
    lines.append([row for event in events if (row := row_of(event)) is not None])

    head, first, second, message, third = terminal.lines
    assert max(map(len, terminal.lines)) <= width
    assert head.endswith("ID")
    assert {first[-8:], second[-8:], third[-8:]} == {"00f067aa", "00000000"}
    assert message.startswith("    no no")
