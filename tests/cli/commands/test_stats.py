"""`anyport stats`."""

import pytest

from tests.cli.stage import Stage
from tests.record.recorded import exchange, write_events
from tests.record.story import Story


@pytest.fixture
def story(stage: Stage) -> Story:
    story = Story(stage.state)
    story.call(1, type="gateway.backend_failed", status="failure")
    for n, status in enumerate(["success", "success", "failure", "timeout", "cancelled"], start=1):
        story.call(n, status="pending")
        story.call(n, status=status, duration_ms=n * 10.0)
    story.clock.seconds += 3600
    story.call(6, server="b", tool="u", duration_ms=2000.0)
    return story


def test_calls_failures_and_durations_are_counted_for_each_tool(stage: Stage, story: Story) -> None:
    ran = stage.run("stats")

    assert ran.code == 0
    titles, first, second = (line.split() for line in ran.out.splitlines())
    assert titles[3:] == ["CALLS", "FAILED", "CANCELLED", "MEAN", "P50", "P95"]
    assert first == ["b", "tool_call", "u", "1", "0", "0", *["2.00", "s"] * 3]
    assert " ".join(second) == "s tool_call t 5 2 1 30.0 ms 30.0 ms 50.0 ms"


def test_a_server_and_a_time_can_be_picked(stage: Stage, story: Story) -> None:
    (stat,) = stage.run("stats", "--server", "s", "--json").json
    assert stat["counts"] == {
        "pending": 5, "success": 2, "failure": 1, "timeout": 1, "cancelled": 1,
    }  # fmt: skip
    assert stat["p95_ms"] == 50.0

    (stat,) = stage.run("stats", "--since", "2026-07-28T12:30:00Z", "--json").json
    assert stat["target"] == "u"


def test_a_time_that_is_none_is_wrong_usage(stage: Stage, story: Story) -> None:
    assert stage.run("stats", "--since", "x").code == 2


def test_other_traffic_is_counted_by_its_method(stage: Stage) -> None:
    of_type = {"event_type": "gateway.exchange"}
    write_events(
        stage.state,
        exchange(method="resources/subscribe", tool=None, uri="x:y", event=of_type),
        exchange(method="tools/list", tool=None, event=of_type),
        exchange(method="tools/list", tool=None, event=of_type),
        exchange(),
    )
    stats = stage.run("stats", "type:exchange", "--json").json
    counted = {stat["target"]: stat["counts"] for stat in stats}
    assert counted == {"resources/subscribe": {"success": 1}, "tools/list": {"success": 2}}
