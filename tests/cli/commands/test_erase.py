"""`anyport erase`."""

import pytest

from tests.cli.stage import Stage
from tests.record.recorded import SPAN, exchange, payload_line, write_events, write_payloads


@pytest.fixture
def story(stage: Stage) -> Stage:
    write_events(stage.state, exchange(), exchange(span_id="2" * 16, principal="bob"))
    write_payloads(
        stage.state, payload_line(secret="apple"), payload_line("2" * 16, secret="banana")
    )
    return stage


def residue(stage: Stage, word: str) -> int:
    files = (path for path in stage.state.rglob("*") if path.is_file())
    return sum(word.encode() in path.read_bytes() for path in files)


def test_one_persons_payloads_leave_no_residue(story: Stage) -> None:
    story.run("traffic", "text:apple")  # Also what questions leave behind.
    ran = story.run("erase", f"id:{SPAN}", "--yes")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("erased the payloads of 1 exchange or message (")
    assert (residue(story, "apple"), residue(story, "banana")) == (0, 1)
    assert "it was erased" in story.run("show", SPAN).out


def test_without_yes_nothing_is_erased_and_what_would_be_is_told(story: Stage) -> None:
    ran = story.run("erase")

    assert (ran.code, ran.out) == (2, "")
    assert "this would erase the payloads of 2 exchanges and messages" in ran.err
    assert "add --yes" in ran.err
    assert residue(story, "apple") == 1


def test_without_a_filter_everything_goes(story: Stage) -> None:
    ran = story.run("erase", "--yes", "--json")

    assert ran.json["exchanges"] == 2
    assert ran.json["files"] == 1
    assert residue(story, "apple") == residue(story, "banana") == 0


def test_a_filter_that_makes_no_sense_erases_nothing(story: Stage) -> None:
    ran = story.run("erase", "principle:alice", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert "Did you mean principal?" in ran.err
    assert residue(story, "apple") == 1


def test_where_nothing_was_recorded_nothing_goes(stage: Stage) -> None:
    ran = stage.run("erase", "--yes")
    assert (ran.code, ran.out) == (0, "erased the payloads of 0 exchanges and messages (0 B)\n")


def test_what_would_be_erased_is_told_as_json(story: Stage) -> None:
    ran = story.run("erase", f"id:{SPAN}", "--json")

    assert ran.code == 2
    assert (ran.json["erased"], ran.json["exchanges"]) == (False, 1)
    assert residue(story, "apple") == 1
    assert story.run("erase", "--yes", "--json").json["erased"] is True
