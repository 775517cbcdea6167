"""`anyport traffic`."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC
from typing import Any

import pytest

from anyport.cli.commands.traffic import (
    SAMPLE_ROW,
    TITLES,
    TrafficPrinter,
    brief_cells,
    brief_sample_row,
    describe_direction,
    ended_at_text,
    is_outgoing,
    row_cells,
    shorten_direction,
)
from anyport.record.traffic import Row, row_of
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
    assert "only what has ended" in ran.err
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
    lines = TrafficPrinter(as_json=False)
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


def row(event: dict[str, Any]) -> Row:
    made = row_of(event)
    assert made is not None
    return made


def shown(event: dict[str, Any]) -> dict[str, str]:
    return dict(zip(TITLES, row_cells(row(event), UTC), strict=True))


def test_an_exchange_is_one_line() -> None:
    assert shown(exchange()) == {
        "TIME": "07-28 12:00:00.250",
        "CLIENT → SERVER": "cursor-vscode → github",
        "METHOD": "tools/call",
        "TARGET": "create_issue",
        "OUTCOME": "ok",
        "TOOK": "231.5 ms",
        "OF WHICH": "g 29.0 q 2.5 s 200.0",
        "SIZES": "61 B → 118 B",
        "ID": "00f067aa",
        "MESSAGE": "",
    }


@pytest.mark.parametrize("outcome", ["tool_error", "server_error", "gateway_error"])
def test_whose_error_it_was_can_be_told(outcome: str) -> None:
    failed = {"status": "failure", "error_code": -32602, "error_message": "no"}
    told = shown(exchange(outcome=outcome, event=failed))
    assert (told["OUTCOME"], told["MESSAGE"]) == (outcome, "no (error -32602)")


def test_a_result_that_is_an_error_has_no_code() -> None:
    failed = {"status": "failure", "error_message": "the tool reported an error"}
    told = shown(exchange(outcome="tool_error", event=failed))
    assert told["MESSAGE"] == "the tool reported an error"


def test_without_capture_what_is_known_is_shown() -> None:
    event = exchange(event={"status": "failure", "error_code": -32000, "error_message": "gone"})
    event["metadata"] = {"span_id": "ab", "server": "s", "tool": "t", "params_bytes": 5}
    told = shown(event)

    assert (told["OUTCOME"], told["OF WHICH"], told["SIZES"]) == ("failure", "", "5 B → ?")
    assert told["CLIENT → SERVER"] == "gateway → s"


def test_a_frame_tells_its_kind_and_size() -> None:
    told = shown(frame())
    assert told["CLIENT → SERVER"] == "github → gateway"
    assert (told["OUTCOME"], told["SIZES"]) == ("server-notification", "2 B")
    assert (told["TOOK"], told["OF WHICH"]) == ("", "")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (exchange(client=None), "- → github"),
        (exchange(server=None), "cursor-vscode → gateway"),
        (exchange(profile=None, client=None), "gateway → github"),
        (frame(side="client", client="cursor 1", kind="client-notification"), "cursor → gateway"),
        (frame(side="client", client="cursor 1"), "gateway → cursor"),
        (frame(kind="client-notification"), "gateway → github"),
        (frame(kind="not-json-rpc", server="x"), "x → gateway"),
        (frame(kind="not-json-rpc", side="client", server=None), "- → gateway"),
    ],
)
def test_who_spoke_to_whom(event: dict[str, Any], expected: str) -> None:
    assert describe_direction(row(event)) == expected


@pytest.mark.parametrize(
    ("side", "kind", "outgoing"),
    [
        ("client", "request", False),
        ("client", "response", True),
        ("client", "server-request", True),
        ("client", "client-response", False),
        ("server", "request", True),
        ("server", "response", False),
        ("server", "server-request", False),
        ("server", "client-response", True),
        ("server", "stderr", False),
    ],
)
def test_which_way_a_frame_went(side: str, kind: str, outgoing: bool) -> None:
    assert is_outgoing(side, kind) is outgoing


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [("2026-07-28T12:00:00", "2026-07-28 12:00:00.000"), ("soon", "soon")],
)
def test_times_of_other_writers_are_shown_as_far_as_they_are_understood(
    timestamp: str, expected: str
) -> None:
    assert ended_at_text(row(exchange(event={"timestamp": timestamp})), UTC) == expected


def test_nothing_in_a_row_can_confuse_a_terminal() -> None:
    told = shown(exchange(tool="\x1b[31mred", client="a\x07b", event={"error_message": "x\ny"}))
    assert all(cell.isprintable() for cell in told.values())


def test_there_is_room_for_a_typical_row() -> None:
    assert len(SAMPLE_ROW) == len(TITLES) - 1


def test_a_narrow_terminal_is_shown_what_matters_most() -> None:
    assert brief_cells(row_cells(row(exchange()), UTC)) == (
        *("12:00:00", "cursor-vscode → github", "tools/call create_issue"),
        *("ok", "231.5 ms", "00f067aa", ""),
    )


@pytest.mark.parametrize("width", [70, 80, 120])
def test_brief_rows_are_as_wide_as_the_terminal(width: int) -> None:
    assert len("  ".join(brief_sample_row(width))) == width


def test_ends_of_lines_and_tabs_in_a_message_stay_readable() -> None:
    failed = {"status": "failure", "error_message": "one\ntwo\tthree"}
    assert shown(exchange(event=failed))["MESSAGE"] == "one↵two three"


@pytest.mark.parametrize(
    ("way", "chars_max", "told"),
    [
        ("cursor-vscode → github", 22, "cursor-vscode → github"),
        ("cursor-vscode → github", 15, "curso… → github"),
        ("cursor-vscode → github", 12, "cur… → gith…"),
        ("gateway → a-very-long-server", 19, "gateway → a-very-l…"),
    ],
)
def test_who_asked_whom_is_told_in_few_characters(way: str, chars_max: int, told: str) -> None:
    assert shorten_direction(way, chars_max) == told
