"""Streamable HTTP in the era of the envelope: every rung of the ladder, streams, hanging up."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.demo import schema
from tests.demo.driver import EVERYTHING, KEY, MODERN, Json
from tests.demo.http.driver import (
    ACCEPT,
    INITIALIZE,
    HttpDemo,
    Response,
    Session,
    legacy,
    modern,
    post_of,
)

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


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("server/discover", None),
        ("tools/list", None),
        ("tools/call", ECHO),
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ann"}}),
        ("resources/read", {"uri": "demo://greeting"}),
    ],
)
def test_a_request_that_says_the_same_twice_is_answered(
    demo: HttpDemo, method: str, params: Json | None
) -> None:
    response = demo.ask_modern(method, params)

    assert (response.status, response.kind) == (200, "application/json")
    assert response.headers["Mcp-Session-Id"] is None
    schema.check_result(MODERN, method, response.message()["result"])


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
def test_the_envelope_comes_first(demo: HttpDemo, missing: str) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "wrong"}
    response = demo.ask_modern("no/such", headers=headers, **{missing: None})

    refused(response, 400, -32602)


@pytest.mark.parametrize(
    "headers",
    [
        {"MCP-Protocol-Version": None},
        {"MCP-Protocol-Version": "2025-11-25"},
        {"Mcp-Method": None},
        {"Mcp-Method": "Tools/Call"},
        {"Mcp-Name": None},
        {"Mcp-Name": "add"},
        {"Mcp-Name": "=?base64?!?="},
        {"Mcp-Name": "=?base64?ZWNobx==?="},
    ],
)
def test_then_the_headers_must_agree(demo: HttpDemo, headers: Json) -> None:
    refused(demo.ask_modern("tools/call", ECHO, headers), 400, -32020)


def test_headers_disagree_before_a_version_is_unknown(demo: HttpDemo) -> None:
    headers = {"MCP-Protocol-Version": MODERN}
    response = demo.ask_modern("tools/list", headers=headers, protocolVersion="2099-01-01")

    refused(response, 400, -32020)


def test_a_header_that_is_there_twice_is_none(demo: HttpDemo) -> None:
    for fields in (
        ["Mcp-Method: tools/list"],
        ["Mcp-Method: tools/list", "mcp-method: tools/list"],
    ):
        request = post_of(modern("tools/list"), f"MCP-Protocol-Version: {MODERN}", *fields)
        answer = demo.raw(request)

        assert answer.startswith(b"HTTP/1.1 200 " if len(fields) == 1 else b"HTTP/1.1 400 ")
        assert (b"-32020" in answer) is (len(fields) == 2)


def test_then_the_version_must_be_known(demo: HttpDemo) -> None:
    response = demo.ask_modern("no/such", protocolVersion="2099-01-01")

    error = refused(response, 400, -32022)
    assert error["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


@pytest.mark.parametrize(
    "method",
    ["no/such", "initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/result"],
)
def test_then_the_method_must_be_known(demo: HttpDemo, method: str) -> None:
    refused(demo.ask_modern(method), 404, -32601)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Mcp-Param-Region": "eu"},
        {**BOTH, "Mcp-Param-Region": "us"},
        {**BOTH, "Mcp-Param-Shard": "43"},
        {**BOTH, "Mcp-Param-Shard": "many"},
    ],
)
def test_then_the_arguments_must_agree(demo: HttpDemo, headers: Json) -> None:
    refused(demo.ask_modern("tools/call", REGION, headers), 400, -32020)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu", "shard": 42}, BOTH),
        ({"region": "eu", "shard": 42}, {"mcp-param-region": "eu", "MCP-PARAM-SHARD": "42.0"}),
        ({"region": "eu"}, {"Mcp-Param-Region": "eu", "Mcp-Param-Else": "passes"}),
        ({"region": "Zürich "}, {"Mcp-Param-Region": wrapped("Zürich ")}),
    ],
)
def test_arguments_that_agree_reach_the_tool(
    demo: HttpDemo, arguments: Json, headers: Json
) -> None:
    answer = demo.ask_modern("tools/call", {"name": "regional", "arguments": arguments}, headers)

    assert arguments["region"] in answer.message()["result"]["content"][0]["text"]


def test_an_argument_that_is_not_there_has_no_header(demo: HttpDemo) -> None:
    params = {"name": "regional", "arguments": {"region": "eu", "shard": None}}

    refused(demo.ask_modern("tools/call", params, BOTH), 400, -32020)


def test_a_name_is_unwrapped_before_it_is_compared(demo: HttpDemo) -> None:
    params = {"uri": "demo://ümlaut"}

    refused(
        demo.ask_modern("resources/read", params, {"Mcp-Name": wrapped(params["uri"])}), 400, -32602
    )
    sentinel = wrapped("echo")
    refused(demo.ask_modern("tools/call", {"name": sentinel}), 400, -32020)


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


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"[]", -32600), (b"{", -32700), (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600)],
)
def test_what_is_no_request_is_refused(demo: HttpDemo, body: bytes, code: int) -> None:
    response = demo.post(body, {"MCP-Protocol-Version": MODERN})

    assert (response.status, response.message()["error"]["code"]) == (400, code)


def test_a_request_without_an_envelope_is_judged_by_its_header(demo: HttpDemo) -> None:
    response = demo.post(legacy(1, "tools/list"), {"MCP-Protocol-Version": MODERN})

    assert (response.status, response.message()["error"]["code"]) == (400, -32602)


def test_a_notification_is_accepted_and_dropped(demo: HttpDemo) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "m"}}
    response = demo.post(body, {"MCP-Protocol-Version": MODERN})

    assert (response.status, response.text()) == (202, "")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_there_is_nothing_but_post(demo: HttpDemo, method: str) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Accept": ACCEPT}

    response = demo.send(method, "/mcp", headers=headers)

    assert (response.status, response.headers["Allow"]) == (405, "POST")


def test_a_session_id_means_nothing(demo: HttpDemo) -> None:
    headers = {"Mcp-Session-Id": Session(demo).headers["Mcp-Session-Id"]}
    for named in (headers, {"Mcp-Session-Id": "nonsense", "Last-Event-ID": "1.1"}):
        response = demo.ask_modern("tools/list", headers=named)
        assert (response.status, response.headers["Mcp-Session-Id"]) == (200, None)


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


def test_a_client_that_hangs_up_before_any_answer_has_cancelled() -> None:
    with HttpDemo() as demo, demo.open() as connection:
        fields = (f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: slow")
        connection.sendall(post_of(modern("tools/call", SLOW), *fields))
        demo.ask_modern("tools/list").close()

        connection.close()

        demo.wait_stderr("slow: cancelled")


def test_two_clients_may_use_one_id(demo: HttpDemo) -> None:
    waiting = demo.ask_modern("tools/call", SLOW, logLevel="debug")

    assert demo.ask_modern("tools/list").status == 200
    assert waiting.status == 200
    waiting.close()
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


def test_a_modern_server_names_its_revisions_to_those_who_shake_hands() -> None:
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
