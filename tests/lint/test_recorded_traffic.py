"""Legs from the record."""

from typing import Any

import msgspec

from anyport.lint.engine import check_legs
from anyport.lint.model import ABSENT, Depth, Leg
from anyport.lint.recorded_traffic import legs_of
from anyport.protocol import meta
from anyport.protocol.errors import add_server_context
from anyport.record.traffic import Detail, decode_captured, row_of
from tests.record.recorded import exchange, frame, payload_line


def detail(event: dict[str, Any], payload: bytes | None = None) -> Detail:
    row = row_of(event)
    captured = None if payload is None else decode_captured(payload)
    assert row is not None
    return Detail(row=row, frames=() if captured is None else captured.frames)


def broken(*legs: Leg) -> set[str]:
    return {finding.rule.id for finding in check_legs(legs).findings}


def test_an_exchange_has_two_sides_each_in_its_revision() -> None:
    client, server = legs_of(detail(exchange(), payload_line()))

    assert (client.side, client.legacy, client.depth) == ("client", True, Depth.FULL)
    assert (server.side, server.modern, server.server) == ("server", True, "github")
    assert client.params == server.params
    assert client.result["content"][0]["text"] == "made hello"
    assert [leg.method for leg in server.between] == ["notifications/progress"]


def test_what_was_outlined_is_judged_by_its_outline() -> None:
    shape = '{"content":{},"isError":s}'
    client, server = legs_of(detail(exchange(result_shape=shape)))

    assert server.depth is Depth.SHAPE
    assert broken(server) >= {"tool-content", "is-error-boolean", "result-type"}
    # The client got something else, of which nothing was recorded.
    assert "tool-content" not in broken(client)
    assert "tool-content" in {each.rule.id for each in check_legs([client]).unchecked}


def test_an_answer_that_passed_as_it_was_has_one_outline_for_both() -> None:
    client, server = legs_of(detail(exchange(answer_bytes=118)))
    assert client.answer is not None
    assert server.answer is not None
    assert client.answer.shape == server.answer.shape


def test_nothing_captured_is_still_noted() -> None:
    event = exchange(params_shape=None, result_shape=None)
    assert {leg.depth for leg in legs_of(detail(event))} == {Depth.NOTED}


def test_an_error_of_a_server_is_seen_on_both_sides() -> None:
    failed = {"status": "failure", "error_code": -32100, "error_message": "No"}
    event = exchange(outcome="server_error", event=failed)

    assert [leg.error_code for leg in legs_of(detail(event))] == [-32100, -32100]
    assert all("error-code-reserved" in broken(leg) for leg in legs_of(detail(event)))


def test_an_error_of_the_gateway_is_seen_by_the_client_alone() -> None:
    failed = {"status": "failure", "error_code": -32000, "error_message": "No"}
    client, server = legs_of(detail(exchange(outcome="gateway_error", event=failed)))
    assert (client.error_code, server.error_code) == (-32000, None)


def test_what_had_no_answer_has_none() -> None:
    event = exchange(outcome="timeout", event={"status": "timeout"})
    assert [leg.answer for leg in legs_of(detail(event))] == [None, None]


def test_an_answer_that_was_too_large_to_keep_counts_as_outlined() -> None:
    captured = msgspec.json.decode(payload_line())
    for each in captured["frames"]:
        if each["kind"] == "response":
            each.pop("payload", None)
            each.pop("same", None)
    client, server = legs_of(detail(exchange(), msgspec.json.encode(captured)))

    assert {client.depth, server.depth} == {Depth.SHAPE}
    assert "content-block" not in broken(client, server)


def test_a_lone_frame_is_a_leg_of_its_own() -> None:
    [leg] = legs_of(detail(frame()))
    assert (leg.side, leg.depth, leg.request) == ("server", Depth.SHAPE, None)
    assert leg.between[0].payload is ABSENT

    [leg] = legs_of(detail(frame(kind="not-json-rpc", method=None, reason="Parse error")))
    assert broken(leg) == {"not-json-rpc"}


def test_a_line_on_stderr_is_none() -> None:
    event = frame() | {"event_type": "gateway.stderr", "metadata": {"server": "a", "line": "x"}}
    assert legs_of(detail(event)) == []


def test_what_the_gateway_asks_for_itself_has_one_side() -> None:
    event = exchange(profile=None, event={"event_type": "gateway.exchange"})
    assert [leg.side for leg in legs_of(detail(event))] == ["server"]


def test_a_message_may_say_its_revision_itself() -> None:
    captured = msgspec.json.decode(payload_line())
    captured["frames"][0]["payload"]["_meta"] = {meta.PROTOCOL_VERSION: "2026-07-28"}
    event = exchange(client_revision=None, server_revision=None)

    assert {leg.modern for leg in legs_of(detail(event, msgspec.json.encode(captured)))} == {True}
    assert {leg.revision for leg in legs_of(detail(event))} == {None}


def test_a_handshake_with_a_server_that_needs_none_is_of_the_revision_that_it_agrees_on() -> None:
    event = exchange(profile=None, method="initialize", tool=None)
    [leg] = legs_of(detail(event | {"event_type": "gateway.exchange"}))
    assert leg.revision is None


def test_a_client_s_answer_outside_of_an_exchange_is_no_stray() -> None:
    [leg] = legs_of(detail(frame(kind="client-response", method="roots/list")))
    assert broken(leg) == set()


UNASKED = "nobody had asked for it"


def test_what_nobody_had_asked_for_is_a_stray() -> None:
    stray = frame(kind="response", method=None, reason=UNASKED)
    assert broken(*legs_of(detail(stray))) == {"stray-answer"}

    kept = {"kind": "response", "side": "server", "ms": 0.0, "payload": {"content": []}}
    line = msgspec.json.encode({"span_id": "00000000000000aa", "frames": [kept]})
    assert broken(*legs_of(detail(stray, line))) == {"stray-answer"}


def test_progress_that_nobody_had_asked_for_has_no_token_of_ours() -> None:
    progress = {"method": "notifications/progress", "shape": '{"progressToken":n,"progress":n}'}

    assert broken(*legs_of(detail(frame(**progress, reason=UNASKED)))) == {"progress-token"}
    of_client = frame(**progress, kind="client-notification", side="client")
    assert broken(*legs_of(detail(of_client))) == set()


TRACE = "Traceback (most recent call last)"


def failing(error: dict[str, Any]) -> list[tuple[str, str]]:
    """What is found, and on which side, where a server's error is passed on as the gateway does."""
    captured = msgspec.json.decode(payload_line())
    server, client = (each for each in captured["frames"] if each["kind"] == "response")
    for each in (server, client):
        each.pop("payload", None)
        each.pop("same", None)
    server["error"] = error
    client["error"] = msgspec.json.decode(add_server_context(msgspec.json.encode(error), "github"))
    told = {"status": "failure", "error_code": error["code"], "error_message": error["message"]}
    event = exchange(outcome="server_error", event=told)
    legs = legs_of(detail(event, msgspec.json.encode(captured)))
    found = check_legs(legs).findings
    return [
        (each.rule.id, each.fault.leg.side) for each in found if each.rule.id.startswith("stack")
    ]


def test_a_trace_is_told_once_with_the_server_that_sent_it() -> None:
    assert failing({"code": 1, "message": TRACE}) == [("stack-trace", "server")]
    for told in (TRACE, {"trace": TRACE}):
        error = {"code": 1, "message": "No", "data": told}
        assert failing(error) == [("stack-trace-inside", "server")]
