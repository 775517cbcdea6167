"""Rows with what was said."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from anyport.record.traffic import (
    FrameSummary,
    Row,
    RowError,
    decode_captured,
    decode_row,
    expand_frames,
    row_of,
)
from tests.record.recorded import (
    MOMENT,
    SPAN,
    detail_of,
    exchange,
    frame,
    payload_line,
    write_payloads,
)
from tests.record.story import ONE


def test_what_was_said_is_found_beside_the_row(tmp_path: Path) -> None:
    write_payloads(tmp_path, payload_line("0" * 16), payload_line())
    detail = detail_of(tmp_path, exchange())

    assert detail.row.id == SPAN
    assert detail.event == Raw(json.dumps(exchange()).encode())
    assert [(each.side, each.kind) for each in detail.frames] == [
        ("client", "request"),
        ("server", "request"),
        ("server", "server-notification"),
        ("server", "response"),
        ("client", "response"),
    ]


def test_a_row_stands_alone_where_nothing_is_kept(tmp_path: Path) -> None:
    assert detail_of(tmp_path, exchange()).frames == ()

    write_payloads(tmp_path, b" " * 40, payload_line("0" * 16))
    assert detail_of(tmp_path, exchange()).frames == ()


def test_a_payload_that_is_the_same_on_the_other_side_is_filled_in() -> None:
    captured = decode_captured(payload_line())
    assert captured is not None
    assert captured.frames[1].payload is UNSET

    whole = expand_frames(captured.frames)
    assert whole[1].payload == whole[0].payload
    assert whole[4].payload == whole[3].payload
    assert whole[1].side == "server"


def test_a_frame_that_is_the_same_as_none_stays_as_it_is() -> None:
    captured = decode_captured(payload_line())
    assert captured is not None
    [alone] = expand_frames(captured.frames[1:2])
    assert alone.payload is UNSET


@pytest.mark.parametrize("line", [b"", b"   ", b'{"span_id":7}', b'{"span_id":"x","frames":['])
def test_a_line_that_is_erased_or_torn_holds_nothing(line: bytes) -> None:
    assert decode_captured(line) is None


# Rows


def row(event: dict[str, Any]) -> Row:
    made = row_of(event)
    assert made is not None
    return made


def test_a_call_has_both_its_sides_with_their_eras() -> None:
    made = row(exchange())

    assert (made.id, made.trace_id, made.timestamp) == (SPAN, ONE, MOMENT)
    assert (made.kind, made.method, made.target) == ("exchange", "tools/call", "create_issue")
    assert (made.profile, made.server, made.public_name) == (
        *("dev", "github", "github__create_issue"),
    )
    assert msgspec.to_builtins(made.client) == {
        "name": "cursor-vscode 1.0.0",
        "revision": "2025-06-18",
        "era": "legacy",
        "transport": "streamable-http",
        "session": "s1",
        "principal": "alice",
    }
    assert msgspec.to_builtins(made.upstream) == {
        "server": "github",
        "revision": "2026-07-28",
        "era": "modern",
        "transport": "streamable-http",
    }


def test_the_time_is_split_and_the_rest_is_the_gateways_own() -> None:
    assert msgspec.to_builtins(row(exchange()).timings) == {
        "total_ms": 231.5,
        "gateway_ms": 29.0,
        "queue_ms": 2.5,
        "server_ms": 200.0,
    }


def test_a_time_that_nobody_can_have_is_none() -> None:
    assert row(exchange(event={"duration_ms": -1.0})).timings.total_ms is None


def test_what_no_server_was_asked_for_is_all_the_gateways_own() -> None:
    timings = row(exchange(queue_ms=None, server_ms=None)).timings
    assert (timings.gateway_ms, timings.server_ms) == (231.5, None)


def test_parts_longer_than_the_whole_leave_the_gateway_nothing() -> None:
    assert row(exchange(server_ms=400.0)).timings.gateway_ms == 0.0


def test_sizes_shapes_hashes_and_frames_are_told() -> None:
    made = row(exchange(frames_more=3))

    sizes = made.sizes
    assert (sizes.params_bytes, sizes.sent_bytes) == (61, 75)
    assert (sizes.answer_bytes, sizes.result_bytes) == (120, 118)
    assert made.shapes.params == '{"name":s,"arguments":{"title":s}}'
    assert made.hashes.result == "fedcba9876543210"
    [between] = made.frames
    assert between == FrameSummary(
        ms=12.345, kind="server-notification", method="notifications/progress", bytes=118
    )
    assert made.frames_more == 3


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("1.0 client-response - 5", None),
        ("1.0 client-response a b c 5", "a b c"),
    ],
)
def test_the_method_of_a_frame_may_be_absent_or_odd(text: str, method: str | None) -> None:
    [between] = row(exchange(frames=[text])).frames
    assert (between.method, between.bytes) == (method, 5)


@pytest.mark.parametrize(
    ("metadata", "event", "outcome"),
    [
        ({}, {}, "ok"),
        ({"outcome": "tool_error"}, {"status": "failure"}, "tool_error"),
        ({"outcome": "server_error"}, {"status": "failure", "error_code": -32602}, "server_error"),
        ({}, {"status": "cancelled"}, "cancelled"),
        ({}, {"status": "timeout", "error_code": -32000}, "timeout"),
        ({}, {"status": "failure", "error_message": "the tool reported an error"}, "tool_error"),
        ({}, {"status": "failure", "error_code": -32602, "error_message": "no"}, None),
    ],
)
def test_an_outcome_is_told_or_as_far_as_it_is_known(
    metadata: dict[str, Any], event: dict[str, Any], outcome: str | None
) -> None:
    assert row(exchange(**metadata, event=event)).outcome == outcome


def test_an_error_has_its_code_and_its_message() -> None:
    made = row(exchange(event={"status": "failure", "error_code": -32602, "error_message": "no"}))
    assert made.error == RowError(code=-32602, message="no")
    assert row(exchange()).error is None


def test_a_call_without_capture_is_a_row_with_less() -> None:
    event = exchange()
    event["metadata"] = {"span_id": SPAN, "server": "s", "uri": "doc:1", "result_bytes": 7}
    event["event_type"] = "gateway.resource_read"
    made = row(event)

    assert (made.method, made.target) == ("resources/read", "doc:1")
    assert (made.timings.total_ms, made.timings.gateway_ms) == (231.5, None)
    assert msgspec.to_builtins(made.upstream) == {"server": "s"}


def test_a_frame_tells_what_it_is_and_in_whose_conversation() -> None:
    made = row(frame())

    assert (made.kind, made.side) == ("server-notification", "server")
    assert made.method == "notifications/tools/list_changed"
    assert (made.sizes.frame_bytes, made.shapes.frame) == (2, "{}")
    assert made.hashes.frame == "aaaaaaaaaaaaaaaa"
    assert made.outcome is None


def test_what_is_no_json_rpc_says_why() -> None:
    made = row(frame(kind="not-json-rpc", method=None, reason="not JSON"))
    assert (made.kind, made.method, made.text) == ("not-json-rpc", None, "not JSON")


def test_a_line_of_standard_error_is_a_row() -> None:
    event = frame()
    event["event_type"] = "gateway.stderr"
    event["metadata"] = {"server": "s", "line": "oops", "method": "notifications/stderr"}
    made = row(event)

    assert (made.kind, made.side, made.text) == ("stderr", "server", "oops")
    assert (made.id, made.method) == (None, None)


@pytest.mark.parametrize(
    "event",
    [
        exchange(event={"status": "pending"}),
        exchange(event={"event_type": "gateway.started"}),
        exchange(event={"event_type": "other.thing"}),
        exchange(event={"event_type": ["gateway.tool_call"]}),
        exchange(event={"status": 7}),
        frame(kind=None),
        {},
    ],
)
def test_what_is_no_traffic_makes_no_row(event: dict[str, Any]) -> None:
    assert row_of(event) is None


def test_members_of_the_wrong_type_count_as_absent() -> None:
    odd = {key: {"odd": 1} for key in exchange()["metadata"]} | {"cached": 1, "frames": [7, "x"]}
    event = exchange(**odd, event={"duration_ms": "long", "error_code": True, "error_message": 7})
    made = row(event)

    told = {name: value for name, value in msgspec.to_builtins(made).items() if value != {}}
    assert told.keys() == {"timestamp", "trace_id", "kind", "method", "outcome", "status"}


@pytest.mark.parametrize("metadata", [None, [], "x"])
def test_metadata_of_the_wrong_type_is_none(metadata: object) -> None:
    assert row(exchange(event={"metadata": metadata})).id is None


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_event_makes_no_row(line: bytes) -> None:
    assert decode_row(line) is None


def test_a_row_written_and_read_again_is_the_same() -> None:
    made = decode_row(json.dumps(exchange()).encode())
    assert made is not None
    assert msgspec.json.decode(msgspec.json.encode(made), type=Row) == made
