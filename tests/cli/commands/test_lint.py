"""`anyport lint`."""

import json

import msgspec
import pytest

from anyport.cli.commands import lint
from tests.cli.stage import Stage
from tests.lint.conversations import Conversation, ask, fail, give, hello, reports, tool
from tests.lint.conversations import listed as tools_listed
from tests.record.recorded import exchange, frame, payload_line, write_events, write_payloads

OBJECT = {"progress": {"type": "step", "percentage": 50}}


def written(stage: Stage, conversation: Conversation) -> str:
    file = stage.folder / "said.jsonl"
    file.write_bytes(b"\n".join(msgspec.json.encode(line) for line in conversation))
    return str(file)


def test_a_good_conversation_is_good(stage: Stage) -> None:
    ran = stage.run("lint", written(stage, hello()))

    assert (ran.code, ran.err) == (0, "")
    assert "0 errors, 0 warnings, 0 notes." in ran.out
    assert "could not judge" not in ran.out


def test_a_finding_has_the_rule_the_place_the_frame_and_what_to_do(stage: Stage) -> None:
    ran = stage.run("lint", written(stage, reports(OBJECT)))

    assert ran.code == 1
    first, advice, place, frame, *_ = ran.out.splitlines()
    assert first == "error: progress-number: Progress is a number, and so is its total."
    assert advice.startswith("  Send how far it is as a number")
    wrong = 'params.progress must be a number, not {"type":"step","percentage":50}'
    assert place == f"  line 5  tools/call: {wrong}"
    assert frame.startswith("    server-notification ")
    assert '"percentage":50' in frame


def test_json_has_everything(stage: Stage) -> None:
    ran = stage.run("lint", "--json", written(stage, reports(OBJECT)))

    assert ran.code == 1
    [finding] = ran.json["findings"]
    assert (ran.json["errors"], ran.json["warnings"], ran.json["notes"]) == (1, 0, 0)
    assert (finding["rule"], finding["severity"], finding["id"]) == (
        *("progress-number", "error", "line 5"),
    )
    assert finding["frame"]["frame"]["params"]["progress"] == OBJECT["progress"]
    assert ran.json["cannot_be_judged"] == []


def test_warnings_and_notes_are_no_failure(stage: Stage) -> None:
    ran = stage.run("lint", written(stage, tools_listed(tool("a.b"))))

    assert ran.code == 0
    assert "warning: tool-name:" in ran.out


def test_of_a_rule_that_is_broken_often_some_places_are_shown(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lint, "SHOWN_MAX", 2)
    ran = stage.run("lint", written(stage, [fail(1, id=number) for number in range(5)]))

    assert ran.out.count("nothing that was asked has its id") == 2
    assert "  and 3 more; use --json for all" in ran.out


def test_what_was_not_recorded_is_said_to_be_unjudged(stage: Stage) -> None:
    write_events(stage.state, exchange())
    ran = stage.run("lint", "server:github")

    assert ran.code == 1
    assert "error: result-type: Every result has a resultType." in ran.out
    assert "which needs capture = 'full':" in ran.out
    assert "content-block (2)" in ran.out
    unjudged = stage.run("lint", "--json").json["cannot_be_judged"]
    assert {"rule": "content-block", "needs": "capture = 'full'", "sides": 2} in unjudged


def test_what_was_recorded_in_full_is_judged_in_full(stage: Stage) -> None:
    write_events(stage.state, exchange())
    write_payloads(stage.state, payload_line())
    ran = stage.run("lint")

    assert "capture = 'full'" not in ran.out
    assert (
        "00f067aa0ba902b7  tools/call, with server github: result.resultType is missing" in ran.out
    )


def test_an_export_is_judged_like_the_record(stage: Stage) -> None:
    write_events(stage.state, exchange())
    write_payloads(stage.state, payload_line())
    stage.run("export", "-o", "all.jsonl")

    assert stage.run("lint", "all.jsonl").out == stage.run("lint").out


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_where_nothing_matches_nothing_is_good(stage: Stage, options: tuple[str, ...]) -> None:
    write_events(stage.state, exchange())
    ran = stage.run("lint", "server:nobody", *options)

    assert (ran.code, ran.out) == (1, "")
    assert "no recorded traffic matches" in ran.err


def test_where_nothing_is_recorded_nothing_is_good(stage: Stage) -> None:
    ran = stage.run("lint", "--state-dir", "nowhere")
    assert (ran.code, ran.out) == (1, "")
    assert "nothing has been recorded yet in nowhere" in ran.err

    (stage.folder / "empty.jsonl").touch()
    ran = stage.run("lint", "empty.jsonl")
    assert (ran.code, ran.out) == (1, "")
    assert "empty.jsonl is empty" in ran.err


@pytest.mark.parametrize("words", [("all.jsonl", "since:1h"), ("since:1h", "all.jsonl")])
def test_a_file_and_a_filter_do_not_go_together(stage: Stage, words: tuple[str, ...]) -> None:
    write_events(stage.state, exchange())
    stage.run("export", "-o", "all.jsonl")
    ran = stage.run("lint", *words)

    assert (ran.code, ran.out) == (2, "")
    assert "'all.jsonl' is a file and cannot be combined" in ran.err


def test_an_http_archive_is_told_by_its_name(stage: Stage) -> None:
    write_events(stage.state, exchange())
    stage.run("export", "--format", "har", "-o", "all.har")
    ran = stage.run("lint", "all.har")

    assert (ran.code, ran.out) == (1, "")
    assert "all.har is a HAR file" in ran.err
    assert "JSON Lines" in ran.err


def test_the_line_that_is_told_is_that_of_the_answer(stage: Stage) -> None:
    ran = stage.run("lint", written(stage, [ask("tools/call", {"name": "a"}), give({})]))
    assert "  line 2  tools/call: " in ran.out
    assert "  line 1  " not in ran.out


def test_an_answer_that_nobody_had_asked_for_is_found_in_the_record(stage: Stage) -> None:
    write_events(stage.state, frame(kind="response", method=None, reason="nobody had asked for it"))
    ran = stage.run("lint")

    assert ran.code == 1
    assert "error: stray-answer:" in ran.out
    assert "00000000000000aa  a message outside an exchange, with server github: nothing" in ran.out


def test_a_file_that_is_not_there_is_not_taken_for_a_filter(stage: Stage) -> None:
    ran = stage.run("lint", "said.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert "file not found: said.jsonl" in ran.err


def test_a_filter_that_is_none_is_wrong_usage(stage: Stage) -> None:
    write_events(stage.state, exchange())
    ran = stage.run("lint", "severity:error")

    assert ran.code == 2
    assert "^^^" in ran.err


def test_only_the_newest_rows_are_judged(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint, "ROWS_MAX", 2)
    write_events(stage.state, *(exchange(span_id=f"{number:016x}") for number in range(3)))
    ran = stage.run("lint", "--json")

    assert "only the newest 2 of 3 rows are checked" in ran.err
    assert ran.json["sides"] == 4


def test_text_of_a_server_cannot_command_the_terminal(stage: Stage) -> None:
    file = stage.folder / "noise.log"
    file.write_text(json.dumps("x") + "\n\x1b]0;title\x07Listening\n")
    assert "\x1b" not in stage.run("lint", str(file)).out
