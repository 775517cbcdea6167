"""Events as people see them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from anyport.cli.connect.http import read_target
from anyport.cli.connect.journal import (
    COPIED_EVENTS_MAX,
    JournalTail,
    RemoteJournalCopy,
    decode_event,
    event_cells,
    full_trace_id,
    open_index,
    trace_term,
)
from anyport.cli.exit_codes import CommandFailed
from anyport.cli.options import SharedOptions
from anyport.record.filter.ast import Filter
from anyport.record.index.index import IndexBusy
from tests.cli.recorded_http import Asked, PlayedServer, Reply, played
from tests.cli.running import Running, Session
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS
from tests.record.story import NOON, ONE, Story, numbers

WEST = timezone(timedelta(hours=-5))


def line(timestamp: str = "2026-07-28T12:00:00.250000+00:00") -> bytes:
    event = {
        "timestamp": timestamp,
        "trace_id": ONE,
        "status": "failure",
        "event_type": "gateway.tool_call",
        "metadata": {"server": "s", "tool": "t\x1b[2J"},
        "duration_ms": 1500.0,
        "error_code": -7,
        "error_message": "Not\ntoday",
    }
    return json.dumps(event).encode()


def test_an_event_is_a_row_in_the_time_of_its_reader() -> None:
    event = decode_event(line())
    assert event is not None
    assert event_cells(event, WEST) == (
        "07-28 07:00:00.250",
        "tool_call",
        "failure",
        "s",
        "t",
        "1.50 s",
        "11111111",
        "Not↵today (error -7)",
    )


@pytest.mark.parametrize(
    ("event_type", "metadata", "subject"),
    [
        ("exchange", {"method": "resources/subscribe", "uri": "x:y"}, "resources/subscribe"),
        ("frame", {"method": "notifications/progress"}, "notifications/progress"),
        ("session_started", {"client": "cursor 1.0"}, "cursor 1.0"),
        ("hook_failed", {"hook": "alarm"}, "alarm"),
        ("stderr", {"method": "notifications/stderr"}, ""),
        ("tool_call", {"tool": "echo", "method": "tools/call", "client": "x"}, "echo"),
    ],
)
def test_every_event_is_about_something(
    event_type: str, metadata: dict[str, str], subject: str
) -> None:
    told = json.loads(line()) | {"event_type": f"gateway.{event_type}", "metadata": metadata}
    event = decode_event(json.dumps(told).encode())
    assert event is not None
    assert event.subject == subject


def test_a_time_without_a_zone_is_utc() -> None:
    event = decode_event(line(timestamp="2026-07-28T12:00:00.250000"))
    assert event is not None
    assert event.ended_at.timestamp() == NOON


@pytest.mark.parametrize("broken", [b"", b"{", b'{"timestamp":"x"}', b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_event_is_nothing(broken: bytes) -> None:
    assert decode_event(broken) is None


@pytest.mark.parametrize(
    ("spelt", "found"),
    [
        ("11111111-1111-1111-1111-111111111111", 1),
        ("11111111-1111", 1),
        (" 1111 ", 1),
        ("1", 1),
        ("2" * 32, 0),
    ],
)
def test_a_trace_id_may_be_spelt_with_dashes_and_need_not_be_whole(
    tmp_path: Path, spelt: str, found: int
) -> None:
    Story(tmp_path).call(1)
    with open_index(tmp_path) as index:
        assert len(index.query(Filter(terms=(trace_term(spelt),)))) == found


def test_the_beginning_of_a_trace_id_stands_for_it_however_long_ago_it_was(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.call(0, trace_id="abcd" * 8)
    for n in range(1200):
        story.journal.record("gateway.stderr", "success", trace_id=ONE, metadata={"n": n})
    story.journal.flush()
    with open_index(tmp_path) as index:
        assert full_trace_id(index, "abcdabcd") == "abcd" * 8


def test_the_index_is_up_to_date(tmp_path: Path) -> None:
    Story(tmp_path).call(1)
    with open_index(tmp_path) as index:
        assert len(index.query()) == 1


def test_where_nothing_was_recorded_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="nothing has been recorded"), open_index(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_index_that_another_process_keeps_is_told(tmp_path: Path) -> None:
    Story(tmp_path).call(1)
    with pytest.raises(CommandFailed, match="another process"), open_index(tmp_path):
        raise IndexBusy("database is locked")


def test_only_what_is_new_comes_and_each_line_once(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.call(1)
    tail = JournalTail(tmp_path)

    assert list(tail.new_lines()) == []
    story.call(2)
    story.call(3)
    assert numbers(list(tail.new_lines())) == [2, 3]
    assert list(tail.new_lines()) == []


def test_a_line_comes_when_it_is_whole(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.call(1)
    tail = JournalTail(tmp_path)
    whole = story.file.read_bytes()

    with story.file.open("ab") as file:
        file.write(whole[:20])
        file.flush()
        assert list(tail.new_lines()) == []
        file.write(whole[20:])
    assert numbers(list(tail.new_lines())) == [1]


def test_a_new_month_is_read_from_its_beginning(tmp_path: Path) -> None:
    story = Story(tmp_path)
    tail = JournalTail(tmp_path)
    story.call(1)
    story.clock.seconds += 40 * 86_400
    story.call(2)

    assert numbers(list(tail.new_lines())) == [1, 2]


def test_a_file_that_was_replaced_is_read_anew_and_one_that_is_gone_is_no_matter(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path)
    story.call(1)
    story.call(2)
    tail = JournalTail(tmp_path)
    first = story.file.read_bytes().splitlines(keepends=True)[0]

    story.file.write_bytes(first)
    assert numbers(list(tail.new_lines())) == [1]
    story.file.unlink()
    assert list(tail.new_lines()) == []


def test_a_file_that_gets_a_number_is_read_to_its_end_and_the_next_from_its_beginning(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path)
    story.call(1)
    tail = JournalTail(tmp_path)
    story.call(2)
    story.file.rename(story.file.with_name("events-0001.jsonl"))
    story.clock.seconds += 5  # Then the journal looks where its file is.
    story.call(3)

    assert numbers(list(tail.new_lines())) == [2, 3]
    assert list(tail.new_lines()) == []


def event(second: int, **rest: Any) -> dict[str, Any]:
    return {
        "timestamp": f"2026-07-31T23:59:{second:02}.000000+00:00"
        if second < 60
        else f"2026-08-01T00:00:{second - 60:02}.000000+00:00",
        "trace_id": f"{second:032x}",
        "status": "success",
        "schema_version": "1.0",
        "event_type": "gateway.tool_call",
        "source": "anyport",
        "metadata": {"server": "s", "tool": "t"},
        "duration_ms": 1.0,
        **rest,
    }


@contextmanager
def journal_of(events: list[dict[str, Any]], page: int = 1000) -> Iterator[PlayedServer]:
    """A gateway with these events; its pages are short."""

    def play(asked: Asked) -> Reply:
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        found = [each for each in events if each["timestamp"] >= query.get("since", "")]
        end = int(query.get("cursor", len(found)))
        start = max(0, end - min(page, int(query["limit"])))
        document = {"events": found[start:end], "next_cursor": str(start) if start else None}
        return Reply(body=json.dumps(document).encode())

    with played(play) as server:
        yield server


def lines(folder: Path) -> list[str]:
    files = sorted((folder / "events").glob("*/events.jsonl"))
    return [line for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str, int], RemoteJournalCopy]:
    def make(url: str, events_max: int) -> RemoteJournalCopy:
        return RemoteJournalCopy(read_target(SharedOptions(url=url), {}), {}, events_max, tmp_path)

    return make


def test_pages_are_put_together_in_the_order_of_time(
    copy: Callable[[str, int], RemoteJournalCopy], tmp_path: Path
) -> None:
    events = [event(second) for second in range(50, 70)]
    with journal_of(events, page=7) as server:
        source = copy(server.url, 20_000)
        source.refresh()

    assert [json.loads(line) for line in lines(tmp_path)] == events
    assert sorted(path.name for path in (tmp_path / "events").iterdir()) == ["2026-07", "2026-08"]
    assert source.complete


def test_what_is_new_is_added_once(
    copy: Callable[[str, int], RemoteJournalCopy], tmp_path: Path
) -> None:
    events = [event(1), event(2, source="a")]
    with journal_of(events) as server:
        source = copy(server.url, 1000)
        source.refresh()
        source.refresh()
        assert len(lines(tmp_path)) == 2
        events += [event(2, source="b"), event(3)]
        source.refresh()
        events.append(event(3, source="c"))
        source.refresh()

    assert [json.loads(line) for line in lines(tmp_path)] == events
    assert "since=2026-07-31T23%3A59%3A03" in server.asked[-1].path


def test_a_copy_is_bounded_and_says_so(
    copy: Callable[[str, int], RemoteJournalCopy], tmp_path: Path
) -> None:
    with journal_of([event(second) for second in range(30)]) as server:
        source = copy(server.url, 10)
        source.refresh()

    assert [json.loads(line)["timestamp"][17:19] for line in lines(tmp_path)] == [
        str(second) for second in range(20, 30)
    ]
    assert not source.complete


def test_statistics_that_leave_events_out_say_so(stage: Stage) -> None:
    with journal_of([event(second) for second in range(30)]) as server:
        ran = stage.run("stats", "--json", "--url", server.url)
    assert (ran.json[0]["counts"], ran.err) == ({"success": 30}, "")

    with journal_of([event(30)] * (COPIED_EVENTS_MAX + 1)) as server:
        ran = stage.run("stats", "--json", "--url", server.url)
    assert ran.json[0]["counts"] == {"success": COPIED_EVENTS_MAX}
    assert "only the newest 20000 events are counted; narrow the query with --since" in ran.err


def test_events_elsewhere_are_shown_and_filtered_like_ones_own(
    stage: Stage, there: Running
) -> None:
    stage.run("call", "tiny__say", "text=x", "--url", there.url)

    ran = stage.run("events", "--type", "tool_call", "--server", "tiny", "--url", there.url)
    assert ran.code == 0
    assert "tool_call" in ran.out.splitlines()[-1]
    filters = ["--type", "tool_call", "--limit", "1", "--json"]
    newest = stage.run("events", *filters, "--url", there.url).json
    assert newest["metadata"]["server"] == "tiny"
    for id in (newest["trace_id"], newest["trace_id"][:12]):
        ran = stage.run("events", "--trace", id, "--json", "--url", there.url)
        assert json.loads(ran.out.splitlines()[-1]) == newest
        assert f"trace {newest['trace_id']}" in stage.run("trace", id, "--url", there.url).out
    (stat,) = [
        stat
        for stat in stage.run("stats", "--server", "tiny", "--json", "--url", there.url).json
        if stat["target"] == "say"
    ]
    assert stat["counts"]["success"] >= 1
    assert not stage.state.exists()

    assert stage.run("events", "--since", "x", "--url", there.url).code == 2
    assert "no event matches" in stage.run(
        "events", "--status", "timeout", "--url", there.url
    ).err  # fmt: skip


@pytest.mark.slow
def test_events_elsewhere_can_be_followed(stage: Stage, there: Running) -> None:
    command = [sys.executable, "-m", "anyport", "events", "-f", "--json", "--limit", "1"]
    command += ["--type", "tool_call", "--url", there.url]
    session = Session(there)
    session.call("tiny__say", text="before").read()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        session.call("tiny__say", text="after").read()
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130
    assert first["timestamp"] < second["timestamp"]
    assert second["metadata"]["tool"] == "say"
