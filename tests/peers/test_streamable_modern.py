"""Streamable HTTP with modern requests: validation, streams, cancellation."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests import schema
from tests.peers.driver import EVERYTHING, KEY, MODERN, Json
from tests.peers.http_driver import ACCEPT, INITIALIZE, HttpDemo, Response, legacy

ECHO: Json = {"name": "echo", "arguments": {"text": "hi"}}
REGION: Json = {"name": "regional", "arguments": {"region": "eu", "shard": 42}}
SLOW: Json = {"name": "slow", "arguments": {"seconds": 3600, "steps": 1}}
BOTH: Json = {"Mcp-Param-Region": "eu", "Mcp-Param-Shard": "42"}


@pytest.fixture(scope="module")
def demo() -> Iterator[HttpDemo]:
    with HttpDemo() as demo:
        yield demo
        assert "fault" not in demo.stderr()


def wrapped(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def test_a_request_with_repeated_fields_of_one_value_is_answered(demo: HttpDemo) -> None:
    for method, params in [
        ("server/discover", None),
        ("tools/list", None),
        ("tools/call", ECHO),
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}),
        ("resources/read", {"uri": "demo://greeting"}),
    ]:
        response = demo.ask_modern(method, params)

        assert (response.status, response.kind) == (200, "application/json")
        assert response.headers["Mcp-Session-Id"] is None
        schema.check_result(MODERN, method, response.message()["result"])


def test_the_envelope_comes_first(demo: HttpDemo) -> None:
    for missing in ["protocolVersion", "clientCapabilities"]:
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "wrong"}
        response = demo.ask_modern("no/such", headers=headers, **{missing: None})

        refused(response, 400, -32602)


def test_then_the_headers_must_agree(demo: HttpDemo) -> None:
    cases: list[Json] = [
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"Mcp-Method": None},
        {"Mcp-Method": "Tools/Call"},
        {"Mcp-Name": None},
        {"Mcp-Name": "add"},
        {"Mcp-Name": "=?base64?!?="},
        {"Mcp-Name": "=?base64?ZWNobx==?="},
    ]
    for headers in cases:
        refused(demo.ask_modern("tools/call", ECHO, headers), 400, -32020)


def test_then_the_version_must_be_known(demo: HttpDemo) -> None:
    response = demo.ask_modern("no/such", protocolVersion="2099-01-01")

    error = refused(response, 400, -32022)
    assert error["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


def test_then_the_method_must_be_known(demo: HttpDemo) -> None:
    for method in [
        "no/such",
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "tasks/result",
    ]:
        refused(demo.ask_modern(method), 404, -32601)


def test_then_the_arguments_must_agree(demo: HttpDemo) -> None:
    for headers in [
        {},
        {"Mcp-Param-Region": "eu"},
        {**BOTH, "Mcp-Param-Region": "us"},
        {**BOTH, "Mcp-Param-Shard": "43"},
        {**BOTH, "Mcp-Param-Shard": "many"},
    ]:
        refused(demo.ask_modern("tools/call", REGION, headers), 400, -32020)


def test_arguments_that_agree_reach_the_tool(demo: HttpDemo) -> None:
    cases: list[tuple[Json, Json]] = [
        ({"region": "eu", "shard": 42}, BOTH),
        ({"region": "eu", "shard": 42}, {"mcp-param-region": "eu", "MCP-PARAM-SHARD": "42.0"}),
        ({"region": "eu"}, {"Mcp-Param-Region": "eu", "Mcp-Param-Else": "passes"}),
        ({"region": "Zürich "}, {"Mcp-Param-Region": wrapped("Zürich ")}),
    ]
    for arguments, headers in cases:
        answer = demo.ask_modern(
            "tools/call", {"name": "regional", "arguments": arguments}, headers
        )

        assert arguments["region"] in answer.message()["result"]["content"][0]["text"]


def test_a_question_that_the_client_cannot_be_asked_is_a_bad_request(demo: HttpDemo) -> None:
    error = refused(demo.ask_modern("tools/call", {"name": "roots"}), 400, -32021)

    assert error["data"] == {"requiredCapabilities": {"roots": {}}}


def test_a_question_is_an_answer_in_json(demo: HttpDemo) -> None:
    response = demo.ask_modern("tools/call", {"name": "roots"}, clientCapabilities=EVERYTHING)

    assert (response.status, response.kind) == (200, "application/json")
    assert response.message()["result"]["resultType"] == "input_required"


def test_errors_of_tools_are_answers(demo: HttpDemo) -> None:
    response = demo.ask_modern("tools/call", {"name": "error"})

    assert (response.status, response.message()["error"]["code"]) == (200, 4001)


def test_there_is_nothing_but_post(demo: HttpDemo) -> None:
    for method in ["GET", "DELETE"]:
        headers = {"MCP-Protocol-Version": MODERN, "Accept": ACCEPT}

        response = demo.send(method, "/mcp", headers=headers)

        assert (response.status, response.headers["Allow"]) == (405, "POST")


def test_progress_and_logs_make_a_stream(demo: HttpDemo) -> None:
    slow = {"name": "slow", "arguments": {"seconds": 0.01, "steps": 2}}

    assert demo.ask_modern("tools/call", slow).kind == "application/json"
    response = demo.ask_modern("tools/call", slow, progressToken=7, logLevel="info")

    assert (response.kind, response.headers["X-Accel-Buffering"]) == ("text/event-stream", "no")
    events = response.events()
    assert [event.id for event in events] == [None] * 5
    assert [event.message.get("method") for event in events] == [
        "notifications/message",
        "notifications/progress",
        "notifications/progress",
        "notifications/message",
        None,
    ]


def test_a_client_that_hangs_up_on_a_stream_has_cancelled() -> None:
    with HttpDemo() as demo:
        call = demo.ask_modern("tools/call", SLOW, logLevel="debug")
        assert call.event() is not None

        call.close()

        demo.wait_stderr("slow: cancelled")


def test_subscriptions_are_acknowledged_told_and_closed() -> None:
    with HttpDemo() as demo:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["demo://counter"]}
        streams = [
            demo.ask_modern("subscriptions/listen", {"notifications": each})
            for each in (wanted, {"promptsListChanged": True})
        ]
        acknowledged = [stream.event() for stream in streams]
        for tool in ("grow", "touch"):
            demo.ask_modern("tools/call", {"name": tool}).close()
        demo.terminate()

        first, second = (
            [event.message for event in [head, *stream.events()] if event is not None]
            for head, stream in zip(acknowledged, streams, strict=True)
        )
        assert demo.exit_code() == 0
        assert [message.get("method") for message in first] == [
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
            "notifications/resources/updated",
            None,
        ]
        assert [message.get("method") for message in second] == [
            "notifications/subscriptions/acknowledged",
            None,
        ]
        for message in (*first, *second):
            body = message.get("params") or message["result"]
            assert body["_meta"][f"{KEY}subscriptionId"] == "m"
        schema.check_result(MODERN, "subscriptions/listen", first[-1]["result"])


def test_initialize_at_a_modern_server_is_answered_with_its_revisions() -> None:
    with HttpDemo("--modern-only") as demo:
        error = refused(demo.post(legacy("m", "initialize", INITIALIZE)), 400, -32022)

        assert error["data"] == {"supported": [MODERN], "requested": "2025-11-25"}
        refused_get = demo.send("GET", "/mcp", headers={"Accept": "text/event-stream"})
        assert (refused_get.status, refused_get.headers["Allow"]) == (405, "POST")
        assert demo.send("GET", "/sse").status == 404


def test_a_legacy_server_knows_no_envelopes() -> None:
    with HttpDemo("--legacy-only") as demo:
        response = demo.ask_modern("server/discover")

        assert (response.status, response.message()["error"]["code"]) == (400, -32600)


def refused(response: Response, status: int, code: int) -> Any:
    """The error, if it is the right one, told to the one who asked."""
    message = response.message()
    assert (response.status, message["error"]["code"]) == (status, code), message
    assert message["id"] == "m"
    schema.check_error(MODERN, message)
    return message["error"]
