"""`anyport trace`."""

import json

import pytest

from tests.cli.stage import Stage
from tests.record.story import ONE, TWO, Story


@pytest.fixture
def story(stage: Stage) -> Story:
    story = Story(stage.state)
    story.call(1, status="pending")
    story.call(9, trace_id=TWO)
    story.clock.seconds += 1.25
    story.call(2, status="timeout", duration_ms=1250.0, error_message="too slow")
    return story


@pytest.mark.parametrize("spelt", [ONE, "11111111-1111-1111-1111-111111111111", "1111"])
def test_the_timeline_has_offsets_and_a_total(stage: Stage, story: Story, spelt: str) -> None:
    ran = stage.run("trace", spelt)

    assert ran.code == 0
    head, titles, first, second, total = ran.out.splitlines()
    assert head.startswith(f"trace {ONE}, 2026-07-2")
    assert titles.split()[0] == "AT"
    assert first.split() == ["+0.0", "ms", "tool_call", "pending", "s", "t"]
    assert second.split()[:5] == ["+1.25", "s", "tool_call", "timeout", "s"]
    assert second.endswith("too slow")
    assert total == "2 events in 1.25 s"


def test_a_call_that_is_noted_when_it_ends_counts_from_its_beginning(stage: Stage) -> None:
    Story(stage.state).call(1, duration_ms=5.1)

    *_, only, total = stage.run("trace", ONE).out.splitlines()
    assert only.split()[:2] == ["+5.1", "ms"]
    assert total == "1 event in 5.1 ms"


def test_the_beginning_is_that_of_what_began_first(stage: Stage) -> None:
    story = Story(stage.state)
    story.call(1, duration_ms=10.0)
    story.clock.seconds += 0.5
    story.call(2, duration_ms=1000.0)
    story.call(3, duration_ms=1e300)

    *_, first, _, _, total = stage.run("trace", ONE).out.splitlines()
    assert first.split()[:2] == ["+500.0", "ms"]
    assert total == "3 events in 1.00 s"


def test_json_is_the_lines_of_the_journal(stage: Stage, story: Story) -> None:
    ran = stage.run("trace", ONE, "--json")
    assert [json.loads(line)["metadata"]["n"] for line in ran.out.splitlines()] == [1, 2]


def test_a_trace_that_is_not_there_is_a_failure(stage: Stage, story: Story) -> None:
    ran = stage.run("trace", "abcd")
    assert (ran.code, ran.out) == (1, "")
    assert "no event has the trace id abcd" in ran.err


def test_a_beginning_that_several_have_is_a_failure_with_their_names(
    stage: Stage, story: Story
) -> None:
    other = "1" * 31 + "2"
    story.call(3, trace_id=other)

    ran = stage.run("trace", "11")

    assert ran.code == 1
    assert f"several traces begin with 11: {ONE}, {other}" in ran.err
