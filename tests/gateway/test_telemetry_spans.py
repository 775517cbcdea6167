"""One exchange of the journal, as the spans of OpenTelemetry that it makes."""

import json
from typing import Any

import pytest

from anyport.gateway.telemetry_spans import Span, outer_id, spans_of
from tests.record.recorded import SPAN, exchange, frame
from tests.record.story import ONE

PARENT = "b7ad6b7169203331"
END_NS = 1_785_240_000_250_000_000
MS = 1_000_000


def told(event: dict[str, Any], share: float = 1.0) -> tuple[Span, ...]:
    return spans_of(json.dumps(event).encode(), share)


def both(**changes: Any) -> tuple[Span, Span]:
    served, asked = told(exchange(**changes))
    assert (served.serves, asked.serves) == (True, False)
    return served, asked


def test_a_call_is_a_servers_span_and_a_clients_span_inside_it() -> None:
    served, asked = both(parent_span_id=PARENT)

    assert {served.trace_id, asked.trace_id} == {int(ONE, 16)}
    # The server was told the record's own id as its parent's.
    assert asked.span_id == int(SPAN, 16)
    assert asked.parent_id == served.span_id == outer_id(asked.span_id)
    assert served.parent_id == int(PARENT, 16)
    assert (served.parent_is_remote, asked.parent_is_remote) == (True, False)


def test_a_trace_that_begins_here_has_no_parent() -> None:
    served, _ = both()
    assert served.parent_id is None


def test_the_wait_for_the_server_lies_within_the_wait_of_the_client() -> None:
    served, asked = both()

    assert served.end_ns == END_NS
    assert served.end_ns - served.start_ns == 231_500_000
    assert asked.start_ns - served.start_ns == round(2.5 * MS)
    assert asked.end_ns - asked.start_ns == 200 * MS


def test_a_wait_that_was_noted_longer_than_the_whole_is_cut() -> None:
    served, asked = both(queue_ms=1000.0, server_ms=1000.0)
    assert served.start_ns <= asked.start_ns <= asked.end_ns <= served.end_ns


def test_the_attributes_are_those_of_the_conventions() -> None:
    served, asked = both()

    assert served.name == "tools/call github__create_issue"
    assert served.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "github__create_issue",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2025-06-18",
        "mcp.session.id": "s1",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "anyport.profile": "dev",
        "anyport.server": "github",
        "anyport.client": "cursor-vscode 1.0.0",
        "anyport.principal": "alice",
        "anyport.queue_ms": 2.5,
    }
    assert asked.name == "tools/call create_issue"
    assert asked.attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "create_issue",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": "2026-07-28",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "anyport.server": "github",
    }
    assert served.error is asked.error is None


def test_a_pipe_is_called_one() -> None:
    _, asked = both(server_transport="stdio")
    assert asked.attributes["network.transport"] == "pipe"
    assert "network.protocol.name" not in asked.attributes


@pytest.mark.parametrize(
    ("status", "code", "outcome", "kind"),
    [
        ("failure", None, "tool_error", "tool_error"),
        ("failure", -32602, "server_error", "-32602"),
        ("timeout", -32001, "timeout", "timeout"),
        ("cancelled", None, "cancelled", "cancelled"),
    ],
)
def test_a_failure_is_told_on_both_spans(
    status: str, code: int | None, outcome: str, kind: str
) -> None:
    event = {"status": status, "error_code": code, "error_message": "No"}
    for span in both(outcome=outcome, event=event):
        assert span.attributes["error.type"] == kind
        told = span.attributes.get("rpc.response.status_code")
        assert told == (None if code is None else str(code))
        assert span.error == "No"


def test_a_resource_is_an_attribute_and_not_part_of_a_name() -> None:
    served, asked = both(
        event={"event_type": "gateway.resource_read"},
        method="resources/read",
        tool=None,
        public_name=None,
        uri="file:///a",
    )
    for span in (served, asked):
        assert span.name == "resources/read"
        assert span.attributes["mcp.resource.uri"] == "file:///a"
        assert "gen_ai.operation.name" not in span.attributes


def test_a_prompt_is_part_of_a_name() -> None:
    _, asked = both(
        event={"event_type": "gateway.prompt_get"}, method="prompts/get", tool=None, prompt="greet"
    )
    assert asked.name == "prompts/get greet"
    assert asked.attributes["gen_ai.prompt.name"] == "greet"


def test_what_the_gateway_answers_itself_is_one_span_under_the_id_of_the_record() -> None:
    [span] = told(
        exchange(
            event={"event_type": "gateway.exchange"},
            method="tools/list",
            tool=None,
            public_name=None,
            server=None,
            server_ms=None,
        )
    )
    assert span.serves
    assert span.span_id == int(SPAN, 16)
    assert span.name == "tools/list"


def test_what_the_gateway_asks_for_itself_is_a_clients_span_alone() -> None:
    [span] = told(
        exchange(
            event={"event_type": "gateway.exchange"},
            method="initialize",
            profile=None,
            tool=None,
            public_name=None,
        )
    )
    assert not span.serves
    assert span.parent_id is None


@pytest.mark.parametrize("why", [{"server_ms": None, "sent_bytes": None}, {"cached": True}])
def test_a_server_that_was_not_asked_has_no_span(why: dict[str, Any]) -> None:
    [span] = told(exchange(**why))
    assert span.serves
    assert span.attributes["anyport.server"] == "github"


def test_a_name_that_nobody_has_does_not_become_one_of_a_span() -> None:
    [span] = told(
        exchange(
            tool="made up",
            public_name=None,
            server=None,
            server_ms=None,
            event={"status": "failure", "error_code": -32602},
        )
    )
    assert span.name == "tools/call"
    assert span.attributes["gen_ai.tool.name"] == "made up"


def test_without_capture_the_whole_time_is_the_servers() -> None:
    little = {"method", "queue_ms", "server_ms", "client_revision", "server_revision"}
    served, asked = both(**dict.fromkeys(little))
    assert served.name == "tools/call github__create_issue"
    assert (asked.start_ns, asked.end_ns) == (served.start_ns, served.end_ns)


def test_a_trace_is_told_as_a_whole_or_not_at_all() -> None:
    kept = f"{'f' * 16}{'0' * 15}1"
    left = f"{'0' * 16}{'f' * 16}"
    assert len(told(exchange(event={"trace_id": kept}), 0.5)) == 2
    assert told(exchange(event={"trace_id": left}), 0.5) == ()
    assert told(exchange(), 0.0) == ()


def test_a_clients_trace_is_told_whatever_the_share_unless_the_client_does_not_want_it() -> None:
    assert len(told(exchange(parent_span_id=PARENT), 0.0)) == 2
    assert told(exchange(parent_span_id=PARENT, sampled=False), 1.0) == ()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b'{"event_type":"gateway.tool_call","status":"success"}',
        json.dumps(exchange(event={"status": "pending"})).encode(),
        json.dumps(exchange(event={"trace_id": "nonsense"})).encode(),
        json.dumps(exchange(event={"timestamp": "yesterday"})).encode(),
        json.dumps(exchange(event={"metadata": 7})).encode(),
        json.dumps(exchange(span_id="x")).encode(),
        json.dumps(exchange(span_id=None)).encode(),
        json.dumps(exchange(parent_span_id=7)).encode(),
        json.dumps(frame()).encode(),
        b'{"event_type":"gateway.started","status":"success","metadata":{}}',
    ],
)
def test_what_is_no_exchange_that_has_ended_makes_no_spans(line: bytes) -> None:
    assert spans_of(line, 1.0) == ()


@pytest.mark.parametrize("id", [1, 1 << 63, (1 << 64) - 1])
def test_the_id_of_the_outer_span_is_another_and_never_none(id: int) -> None:
    assert 0 < outer_id(id) < 1 << 64
    assert outer_id(id) != id
