"""The journal of a gateway that runs elsewhere."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from anyport.cli import copied
from anyport.cli.options import Given
from anyport.cli.target import read_target
from tests.cli.played_http import Asked, PlayedServer, Reply, played
from tests.cli.running import Running, Session
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS


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
def copy(tmp_path: Path) -> Callable[[str, int], copied.Copied]:
    def make(url: str, events_max: int) -> copied.Copied:
        return copied.Copied(read_target(Given(url=url), {}), {}, events_max, tmp_path)

    return make


def test_pages_are_put_together_in_the_order_of_time(
    copy: Callable[[str, int], copied.Copied], tmp_path: Path
) -> None:
    events = [event(second) for second in range(50, 70)]
    with journal_of(events, page=7) as server:
        source = copy(server.url, 20_000)
        source.refresh()

    assert [json.loads(line) for line in lines(tmp_path)] == events
    assert sorted(path.name for path in (tmp_path / "events").iterdir()) == ["2026-07", "2026-08"]
    assert source.complete


def test_what_is_new_is_added_once(
    copy: Callable[[str, int], copied.Copied], tmp_path: Path
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
    copy: Callable[[str, int], copied.Copied], tmp_path: Path
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

    with journal_of([event(30)] * (copied.COPIED_EVENTS_MAX + 1)) as server:
        ran = stage.run("stats", "--json", "--url", server.url)
    assert ran.json[0]["counts"] == {"success": copied.COPIED_EVENTS_MAX}
    assert "only the newest 20000 events are counted; narrow it with --since" in ran.err


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
