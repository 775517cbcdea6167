"""`anyport show`."""

import json
from pathlib import Path
from typing import Any

import pytest

from anyport.cli.commands.show import out_detail
from anyport.cli.output import StyledOutput
from tests.cli.stage import Stage
from tests.record.recorded import (
    SPAN,
    detail_of,
    exchange,
    frame,
    payload_line,
    write_events,
    write_payloads,
)
from tests.record.story import ONE, TWO


def shown(capsys: pytest.CaptureFixture[str], state: Path, event: dict[str, Any]) -> str:
    capsys.readouterr()
    out_detail(StyledOutput(), detail_of(state, event))
    return capsys.readouterr().out


def test_an_exchange_shows_both_its_sides_and_whose_time_it_took(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_payloads(tmp_path, payload_line())
    lines = shown(capsys, tmp_path, exchange()).splitlines()

    assert lines[0] == "tools/call github__create_issue  ok"
    assert lines[1] == f"  id     {SPAN}  trace {ONE}"
    assert lines[3] == (
        "  client cursor-vscode 1.0.0 · 2025-06-18 (legacy) · streamable-http"
        " · principal alice · session s1 · profile dev"
    )
    assert lines[4] == (
        "  server github · 2026-07-28 (modern) · streamable-http · native name create_issue"
    )
    assert lines[5] == f"  took   231.5 ms  {'█' * 6}▒{'░' * 43}"
    assert lines[6] == "         █ gateway 29.0 ms   ▒ queue 2.5 ms   ░ server 200.0 ms"
    assert lines[7] == "  sizes  params 61 B · sent on 75 B · answered 120 B · result 118 B"
    assert lines[8] == "  hashes params 0123456789abcdef · result fedcba9876543210"


def test_what_was_said_comes_in_the_order_of_time(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_payloads(tmp_path, payload_line())
    told = shown(capsys, tmp_path, exchange())

    steps = [" ".join(line.split()) for line in told.splitlines() if line.startswith("  +")]
    assert steps == [
        "+0.0 ms client → gateway request tools/call",
        "+3.0 ms gateway → server request tools/call",
        "+12.3 ms server → gateway server-notification notifications/progress",
        "+203.0 ms server → gateway response",
        "+231.5 ms gateway → client response",
    ]
    assert told.count("same as on the other side") == 2
    assert '      "name": "create_issue",\n' in told


def test_where_values_were_not_kept_shapes_are_shown_and_how_to_keep_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = shown(capsys, tmp_path, exchange(payload_file=None, frames_more=2))

    assert '    arguments {"name":s,"arguments":{"title":s}}\n' in told
    *_, server, shape, client, size, advice = told.splitlines()
    assert server.split() == ["server", "→", "gateway", "response"]
    assert shape == '    {"content":[{"type":s,"text":s}]}'
    assert client.split() == ["+231.5", "ms", "gateway", "→", "client", "response"]
    assert size == "    118 B"
    assert "only shapes were recorded" in advice
    assert "server-notification notifications/progress" in told
    assert "and 2 more messages" in told
    assert 'capture = "full"' in told


def test_what_the_gateway_answered_itself_has_its_shape_at_the_client(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = exchange(
        payload_file=None, answer_bytes=None, frames=None, method="ping", result_shape="{}"
    )
    *_, client, shape, _ = shown(capsys, tmp_path, own).splitlines()
    assert "gateway → client" in client
    assert shape == "    {}"


def test_what_the_gateway_asked_itself_was_answered_by_the_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = exchange(payload_file=None, answer_bytes=None, profile=None, method="tools/list")
    told = shown(capsys, tmp_path, own)
    assert "gateway → server  request tools/list\n    {" in told
    assert "server → gateway  response\n    {" in told
    assert "arguments {" not in told


def test_where_values_are_gone_that_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = shown(capsys, tmp_path, exchange())
    assert "it was erased, or removed by retention" in told
    assert "capture" not in told


def test_an_error_is_told_below_the_title(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = payload_line().replace(
        b'"payload":{"content":[{"type":"text","text":"made hello"}]}', b'"error":{"code":-1}'
    )
    write_payloads(tmp_path, line)
    failed = {"status": "failure", "error_code": -32602, "error_message": "no"}
    told = shown(capsys, tmp_path, exchange(outcome="server_error", event=failed))

    assert told.splitlines()[0].endswith("  server_error")
    assert told.splitlines()[1] == "  no (error -32602)"
    assert '      "code": -1\n' in told


def test_an_exchange_without_capture_shows_what_there_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    event = exchange()
    event["metadata"] = {"span_id": SPAN, "server": "s", "tool": "t", "cached": True}
    told = shown(capsys, tmp_path, event)

    assert "  took   231.5 ms\n" in told
    assert "  server s · answered from the cache\n" in told
    assert "client" not in told
    assert "no payload was recorded" in told
    assert "shapes" not in told


def test_a_frame_shows_in_whose_conversation_it_was(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = shown(capsys, tmp_path, frame())
    assert told.startswith("notifications/tools/list_changed  server-notification\n")
    assert "in the session with the server" in told
    assert "  hashes frame aaaaaaaaaaaaaaaa\n    {}\n" in told


def test_a_frame_of_which_nothing_was_kept_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_payloads(tmp_path, payload_line().replace(b',"payload":{"progress":1}', b""))
    assert "    not recorded" in shown(capsys, tmp_path, exchange())


def test_of_a_long_payload_the_beginning_is_shown_unless_all_of_it_is_wanted(
    stage: Stage,
) -> None:
    write_events(stage.state, exchange())
    items = b"[" + b",".join(b"%d" % number for number in range(1000)) + b"]"
    long = b'"payload":{"items":%b,"text":"%b"}' % (items, b"x" * 5000)
    write_payloads(stage.state, payload_line().replace(b'"payload":{"progress":1}', long))

    some, everything = stage.run("show", SPAN), stage.run("show", SPAN, "--full")
    assert "    … 805 more lines; use --full for all" in some.out
    assert "\n        999\n" not in some.out
    assert "\n        999\n" in everything.out
    assert "x" * 5000 in everything.out
    assert "more lines" not in everything.out


def test_of_a_long_text_the_beginning_is_shown(stage: Stage) -> None:
    write_events(stage.state, exchange())
    write_payloads(stage.state, payload_line(secret="x" * 5000))
    ran = stage.run("show", SPAN)
    assert "x" * 1000 in ran.out
    assert "x" * 2500 not in ran.out
    assert " more characters; use --full for all" in ran.out


@pytest.fixture
def story(stage: Stage) -> Stage:
    write_events(
        stage.state,
        exchange(event={"status": "pending"}),
        exchange(),
        exchange(span_id="00f0" + "b" * 12, event={"trace_id": TWO}),
        frame(),
    )
    write_payloads(stage.state, payload_line())
    return stage


@pytest.mark.parametrize("asked", [SPAN, SPAN[:5], f" {SPAN.upper()} "])
def test_an_exchange_is_found_by_its_first_digits(story: Stage, asked: str) -> None:
    ran = story.run("show", asked)
    assert (ran.code, ran.err) == (0, "")
    assert f"id     {SPAN}" in ran.out
    assert ran.out.count("  id     ") == 1


def test_the_id_of_a_trace_shows_all_of_it(story: Stage) -> None:
    ran = story.run("show", ONE[:9])
    assert (ran.code, ran.out.count("  id     ")) == (0, 2)


def test_json_is_a_line_for_each_with_all_that_is_kept(story: Stage) -> None:
    ran = story.run("show", SPAN, "--json")
    [line] = ran.out.splitlines()
    told = json.loads(line)

    assert told["row"]["id"] == SPAN
    assert "seq" not in told["event"]
    assert len(told["frames"]) == 5


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("00f0", f"Several ids begin with 00f0: {SPAN}, 00f0{'b' * 12}. Give more digits"),
        ("abcd", "Nothing in the record has the id abcd"),
        ("issue", "An id has only the digits 0-9 and a-f"),
    ],
)
def test_an_id_that_means_nothing_or_too_much_is_explained(
    story: Stage, asked: str, told: str
) -> None:
    ran = story.run("show", asked)
    assert (ran.code, ran.out) == (1, "")
    assert told in ran.err
