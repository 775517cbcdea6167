"""The demo server over Streamable HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import schema
from tests.demo.commands import DEMO_SERVER, EVERY_METHOD
from tests.peers.driver import KEY, LEGACY, MODERN, Json
from tests.peers.http_driver import INITIALIZE, HttpDemo, Session, legacy, modern

FORM: Json = {"elicitation": {"form": {}}}
ADA = {"action": "accept", "content": {"name": "Ada"}}
ECHO: Json = {"name": "echo", "arguments": {"text": "hi"}}
SLOW: Json = {"name": "slow", "arguments": {"seconds": 0, "steps": 2}}


@pytest.fixture(scope="module")
def demo() -> Iterator[HttpDemo]:
    with HttpDemo(command=DEMO_SERVER) as demo:
        yield demo
        assert demo.stderr() == ""


@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_answers_as_the_schema_demands(demo: HttpDemo, revision: str) -> None:
    session = Session(demo, revision)
    for method, params in EVERY_METHOD:
        session.result(method, params)

    assert session.request("no/such").message()["error"]["code"] == -32601
    assert session.delete().status == 204
    assert session.request("ping").status == 404


def test_without_a_session_answers_are_as_the_schema_demands(demo: HttpDemo) -> None:
    for method, params in [("server/discover", {}), *EVERY_METHOD]:
        response = demo.ask_modern(method, params)
        assert (response.status, response.kind) == (200, "application/json")
        assert response.headers["Mcp-Session-Id"] is None
        schema.check_result(MODERN, method, response.message()["result"])


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_progress_makes_a_stream(demo: HttpDemo, revision: str) -> None:
    params = {**SLOW, "_meta": {"progressToken": "t"}}
    if revision == MODERN:
        response = demo.ask_modern("tools/call", SLOW, progressToken="t")
    else:
        response = Session(demo, revision).request("tools/call", params)

    assert response.kind == "text/event-stream"
    first, second, answer = response.messages()
    for message in (first, second):
        schema.check_sent(revision, message)
    schema.check_result(revision, "tools/call", answer["result"])


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_question_comes_on_the_stream_of_its_call(demo: HttpDemo, revision: str) -> None:
    session = Session(demo, revision, FORM)
    call = session.call("elicit")
    question = call.wait_method("elicitation/create")
    schema.check_sent(revision, question)

    assert session.reply(question["id"], ADA).status == 202

    assert json.loads(call.message()["result"]["content"][0]["text"]) == ADA


def test_a_question_without_a_session_is_a_result(demo: HttpDemo) -> None:
    params: Json = {"name": "elicit"}
    asked = demo.ask_modern("tools/call", params, clientCapabilities=FORM).message()["result"]
    schema.check_result(MODERN, "tools/call", asked)
    params["inputResponses"] = dict.fromkeys(asked["inputRequests"], ADA)
    done = demo.ask_modern("tools/call", params, clientCapabilities=FORM).message()["result"]

    assert json.loads(done["content"][0]["text"]) == ADA


def test_errors_have_the_statuses_of_the_specification(demo: HttpDemo) -> None:
    for response, status, code in (
        (demo.ask_modern("no/such"), 404, -32601),
        (demo.ask_modern("tools/call", {"name": "none"}), 400, -32602),
        (demo.ask_modern("tools/call", {"name": "elicit"}), 400, -32021),
        (demo.ask_modern("tools/list", protocolVersion="2099-01-01"), 400, -32022),
        (demo.ask_modern("tools/list", clientCapabilities=None), 400, -32602),
        (demo.ask_modern("tools/call", ECHO, {"Mcp-Name": "add"}), 400, -32020),
        (demo.ask_modern("tools/call", ECHO, {"Mcp-Name": None}), 400, -32020),
        (demo.ask_modern("tools/list", None, {"Mcp-Method": "x"}), 400, -32020),
        (demo.ask_modern("tools/list", None, {"MCP-Protocol-Version": "x"}), 400, -32020),
    ):
        message = response.message()
        assert (response.status, message["error"]["code"]) == (status, code)
        schema.check_error(MODERN, message)
    wrapped = {"Mcp-Name": "=?base64?ZWNobw==?="}
    assert demo.ask_modern("tools/call", ECHO, wrapped).status == 200


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Mcp-Session-Id": None}, 400),
        ({"Mcp-Session-Id": "nonsense"}, 404),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
        ({"MCP-Protocol-Version": "2024-11-05"}, 400),
        ({"MCP-Protocol-Version": None}, 200),
        ({"Accept": "application/json"}, 406),
        ({"Content-Type": "text/plain"}, 415),
        ({"Origin": "https://example.com"}, 403),
        ({"Origin": "http://localhost:6274"}, 200),
    ],
)
def test_a_request_must_fit_its_session(demo: HttpDemo, changed: Json, status: int) -> None:
    headers = {**Session(demo).headers, **changed}
    kinds = {"Content-Type": "application/json", "Accept": "*/*"}
    given = {name: value for name, value in {**kinds, **headers}.items() if value is not None}

    assert demo.send("POST", "/mcp", legacy(1, "ping"), given).status == status


@pytest.mark.parametrize("body", [b"{", b"1", b"{}", b"[]"])
def test_what_is_no_message_is_a_bad_request(demo: HttpDemo, body: bytes) -> None:
    assert demo.post(body).status == 400


def test_there_is_nothing_but_post_and_nothing_elsewhere(demo: HttpDemo) -> None:
    session = Session(demo)
    refused = session.get()
    assert (refused.status, refused.headers["Allow"]) == (405, "POST, DELETE")
    assert demo.send("POST", "/sse", legacy(1, "ping")).status == 404
    bad: list[Any] = [legacy("a", "ping")]
    assert session.post(bad).message()["error"]["code"] == -32600
    batch = Session(demo, "2025-03-26").post([legacy("a", "ping"), legacy("b", "ping")])
    assert [each["id"] for each in batch.message()] == ["a", "b"]


def test_a_handshake_that_fails_begins_no_session(demo: HttpDemo) -> None:
    response = demo.post(legacy(1, "initialize", {}))
    assert response.headers["Mcp-Session-Id"] is None
    assert response.message()["error"]["code"] == -32602
    asked = {"MCP-Protocol-Version": MODERN}
    assert demo.post(legacy(1, "initialize", INITIALIZE), asked).status == 200


def test_a_body_may_come_in_chunks(demo: HttpDemo) -> None:
    body = json.dumps(modern("server/discover")).encode()
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        b"Accept: */*\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    answer = demo.raw(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert f"{KEY}serverInfo".encode() in answer
    assert demo.raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_it_ends_when_it_is_told_to() -> None:
    with HttpDemo(command=DEMO_SERVER) as demo:
        session = Session(demo, capabilities=FORM)
        session.call("elicit").wait_method("elicitation/create")

        demo.terminate()

        assert demo.exit_code() == 0
