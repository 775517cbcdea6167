"""`anyport export`."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stage import Stage
from tests.record.recorded import SPAN, exchange, frame, payload_line, write_events, write_payloads


@pytest.fixture
def story(stage: Stage) -> Stage:
    write_events(stage.state, exchange(), exchange(event={"status": "pending"}), month="2026-06")
    write_events(stage.state, exchange(span_id="2" * 16, server="docs", payload_file=None), frame())
    write_payloads(stage.state, payload_line())
    return stage


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_row_is_a_line_with_its_event_and_what_was_said(story: Stage) -> None:
    ran = story.run("export")
    first, second, third = lines(ran.out)

    assert (ran.code, ran.err) == (0, "")
    assert first["row"]["id"] == SPAN
    assert first["event"]["metadata"]["span_id"] == SPAN
    assert [each["kind"] for each in first["frames"]].count("request") == 2
    assert (second["row"]["server"], "frames" in second) == ("docs", False)
    assert third["row"]["kind"] == "server-notification"


def test_an_event_is_written_exactly_as_the_journal_has_it(story: Stage) -> None:
    [line] = story.run("export", "server:docs").out.splitlines()

    journal = (story.state / "events" / "2026-07" / "events.jsonl").read_text()
    [raw] = [each for each in journal.splitlines() if '"docs"' in each]
    assert raw in line
    assert '"seq":1,"hash":"' in raw


@pytest.mark.parametrize(
    ("words", "count"), [(["server:docs"], 1), (["-server:docs"], 2), (["text:hello"], 1)]
)
def test_only_what_matches_is_written(story: Stage, words: list[str], count: int) -> None:
    assert len(lines(story.run("export", *words).out)) == count


def test_har_has_the_legs_that_were_http(story: Stage) -> None:
    ran = story.run("export", "--format", "har")

    log = json.loads(ran.out)["log"]
    assert log["version"] == "1.2"
    assert [entry["_anyport"]["leg"] for entry in log["entries"]] == [*("client", "server")] * 2


def test_a_file_is_for_the_user_alone(story: Stage) -> None:
    ran = story.run("export", "-o", "out.jsonl")

    path = Path(story.folder, "out.jsonl")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "anyport: 3 rows written to out.jsonl\n"
    assert len(lines(path.read_text())) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_nothing_is_written_where_nothing_matches_and_that_is_said(story: Stage) -> None:
    ran = story.run("export", "server:nobody")
    assert (ran.code, ran.out, ran.err) == (0, "", "anyport: 0 rows match\n")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--format", "pcap"], "pcap"),
        (["dur:long"], "Not a number"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(story: Stage, argv: list[str], told: str) -> None:
    ran = story.run("export", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_a_file_that_cannot_be_written_is_a_failure(story: Stage) -> None:
    ran = story.run("export", "-o", "no/such/folder")
    assert ran.code == 1
    assert "no/such/folder: No such file or directory" in ran.err


def test_of_har_the_entries_are_counted_and_what_was_no_http(story: Stage) -> None:
    ran = story.run("export", "--format", "har", "-o", "out.har")

    assert ran.err.splitlines() == [
        "anyport: 4 entries written to out.har",
        "anyport: 1 row left out, which did not travel over HTTP; use --format jsonl for all",
    ]
    entries = json.loads(Path(story.folder, "out.har").read_text())["log"]["entries"]
    assert len(entries) == 4
    for content in (entry["response"]["content"] for entry in entries):
        assert content["size"] == len(content.get("text", "x" * content["size"]))
    assert any("text" in entry["response"]["content"] for entry in entries)
