"""The demo server over stdio. The driver checks every message against the official schemas."""

import json
from typing import Any

import pytest

from tests.demo.commands import DEMO_SERVER, EVERY_METHOD
from tests.peers.driver import EVERYTHING, KEY, LEGACY, MODERN, REVISIONS, Demo, Json

FORM: Json = {"elicitation": {"form": {}}}
ADA = {"action": "accept", "content": {"name": "Ada"}}


def demo(*options: str) -> Demo:
    return Demo(*options, command=DEMO_SERVER)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_method_answers_as_the_schema_demands(revision: str) -> None:
    with demo() as server:
        ask = server.speak(revision)
        for method, params in EVERY_METHOD:
            assert "result" in ask(method, params), method
        tools = {tool["name"]: tool for tool in ask("tools/list")["result"]["tools"]}
        assert set(tools) == {"echo", "add", "slow", "image", "elicit"}
        added = ask("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})["result"]
        assert added["content"][0]["text"] == "5"
        structured = revision >= "2025-06-18"
        assert added.get("structuredContent") == ({"sum": 5} if structured else None)
        assert ("outputSchema" in tools["add"]) is ("title" in tools["add"]) is structured
        assert server.finish() == 0


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_is_wrong_is_refused_in_the_manner_of_the_revision(revision: str) -> None:
    with demo() as server:
        ask = server.speak(revision)

        def code(method: str, **params: Any) -> int:
            return int(ask(method, params)["error"]["code"])

        assert code("no/such") == -32601
        assert code("tools/call") == code("tools/call", name="none") == -32602
        assert code("tools/call", name="echo", arguments=[]) == -32602
        assert code("tools/list", cursor="x") == code("prompts/get", name="none") == -32602
        assert code("prompts/get", name="greet") == -32602
        assert code("resources/read", uri="demo://no") == (-32602 if revision == MODERN else -32002)
        for arguments in ({}, {"text": 1}):
            answer = ask("tools/call", {"name": "echo", "arguments": arguments})
            if revision >= "2025-11-25":
                assert answer["result"]["isError"] is True
            else:
                assert answer["error"]["code"] == -32602
        large = {"name": "add", "arguments": {"a": 1e308, "b": 1e308}}
        assert ask("tools/call", large)["result"]["isError"] is True


@pytest.mark.parametrize("revision", REVISIONS)
def test_slow_reports_progress_to_those_who_ask(revision: str) -> None:
    with demo() as server:
        ask = server.speak(revision)
        params = {"name": "slow", "arguments": {"seconds": 0, "steps": 2}}
        ask("tools/call", params)
        assert server.seen == []
        ask("tools/call", {**params, "_meta": {"progressToken": "t"}})

        reports = [message["params"] for message in server.seen]
        assert [(report["progressToken"], report["progress"]) for report in reports] == [
            ("t", 1),
            ("t", 2),
        ]
        assert ("message" in reports[0]) is (revision != "2024-11-05")


@pytest.mark.parametrize("revision", LEGACY)
def test_in_a_session_the_user_is_asked_with_a_request(revision: str) -> None:
    with demo() as server:
        server.handshake(revision, EVERYTHING)
        call = server.request("tools/call", {"name": "elicit"})
        if revision < "2025-06-18":
            assert server.answer_to(call)["result"]["isError"] is True
            return
        question = server.wait_for_method("elicitation/create")
        server.ask("ping")  # Calls run concurrently.
        server.send({"jsonrpc": "2.0", "id": question["id"], "result": ADA})

        assert json.loads(server.answer_to(call)["result"]["content"][0]["text"]) == ADA


@pytest.mark.parametrize(
    "answer", [{"error": {"code": -1, "message": "no"}}, {"result": []}, {"result": {}}]
)
def test_an_answer_of_no_use_is_a_failure_of_the_tool(answer: dict[str, Any]) -> None:
    with demo() as server:
        server.handshake(capabilities=FORM)
        call = server.request("tools/call", {"name": "elicit"})
        question = server.wait_for_method("elicitation/create")
        server.send({"jsonrpc": "2.0", "id": 99, "result": ADA})  # An answer to no question.
        server.send({"jsonrpc": "2.0", "id": question["id"], **answer})

        assert server.answer_to(call)["result"]["isError"] is True


def test_without_a_session_the_user_is_asked_with_a_result() -> None:
    with demo() as server:
        params: dict[str, Any] = {"name": "elicit"}
        asked = server.ask_modern("tools/call", params, FORM)["result"]
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert question["method"] == "elicitation/create"

        params["inputResponses"] = {key: ADA}
        done = server.ask_modern("tools/call", params, FORM)["result"]

        assert json.loads(done["content"][0]["text"]) == ADA


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
def test_a_client_without_forms_is_not_asked(capabilities: dict[str, Any]) -> None:
    with demo() as server:
        error = server.ask_modern("tools/call", {"name": "elicit"}, capabilities)["error"]
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": FORM}

        server.handshake(capabilities=capabilities)
        assert server.call("elicit")["isError"] is True


@pytest.mark.parametrize("asked", [*LEGACY, MODERN, "1999-12-31"])
def test_a_session_begins_with_initialize(asked: str) -> None:
    with demo() as server:
        server.revision = asked if asked in LEGACY else LEGACY[-1]
        client = {"name": "test", "version": "0"}
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": client}
        assert server.ask("tools/list")["error"]["code"] == -32600
        assert server.ask("initialize", {})["error"]["code"] == -32602

        result = server.ask("initialize", params)["result"]

        assert result["protocolVersion"] == server.revision
        assert server.ask("ping")["result"] == {}
        assert server.ask("initialize", params)["error"]["code"] == -32600


def test_a_modern_request_needs_its_envelope() -> None:
    with demo() as server:
        discovered = server.ask_modern("server/discover")["result"]
        assert discovered["supportedVersions"] == [MODERN]
        version, capabilities = f"{KEY}protocolVersion", f"{KEY}clientCapabilities"
        for meta, code in (
            ({version: MODERN}, -32602),
            ({version: 1, capabilities: {}}, -32602),
            ({version: "2099-01-01", capabilities: {}}, -32022),
        ):
            error = server.ask("server/discover", {"_meta": meta})["error"]
            assert error["code"] == code
        assert error["data"] == {"supported": [MODERN], "requested": "2099-01-01"}
        for method in ("ping", "resources/subscribe"):
            assert server.ask_modern(method)["error"]["code"] == -32601


@pytest.mark.parametrize("modern", [False, True])
def test_a_cancelled_call_gets_no_answer(modern: bool) -> None:
    with demo() as server:
        server.handshake()
        send = server.request_modern if modern else server.request
        params = {"name": "slow", "arguments": {"seconds": 3600, "steps": 1}}
        call = send("tools/call", params)
        server.send({"jsonrpc": "2.0", "id": call, "method": "ping"})
        assert server.answer_to(call)["error"]["code"] == -32600, "the id is in use"

        server.notify("notifications/cancelled", {"requestId": call})

        assert server.finish() == 0
        assert server.seen == []


def test_calls_in_flight_are_finished_at_the_end_of_input_and_questions_given_up() -> None:
    with demo() as server:
        server.handshake(capabilities=FORM)
        slow = server.request("tools/call", {"name": "slow", "arguments": {"seconds": 0.01}})
        asking = server.request("tools/call", {"name": "elicit"})
        server.wait_for_method("elicitation/create")

        assert server.finish() == 0

        assert "isError" not in server.answer_to(slow)["result"]
        assert server.answer_to(asking)["result"]["isError"] is True


@pytest.mark.parametrize("revision", LEGACY)
def test_only_one_revision_has_batches(revision: str) -> None:
    with demo() as server:
        server.handshake(revision)
        batch: list[Any] = [
            {"jsonrpc": "2.0", "id": "a", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "b", "method": "no/such"},
            7,
        ]
        server.send(batch)
        answers = json.loads(server.receive_line() or b"")

        if revision != "2025-03-26":
            assert answers["error"]["code"] == -32600
            assert ("id" in answers) is (revision != "2025-11-25")
            return
        codes = {each["id"]: each.get("error", {}).get("code") for each in answers}
        assert codes == {"a": None, "b": -32601, None: -32600}


@pytest.mark.parametrize(
    ("line", "code"), [(b"{", -32700), (b"\xff", -32700), (b"1", -32600), (b"{}", -32600)]
)
def test_what_is_no_message_is_refused(line: bytes, code: int) -> None:
    with demo() as server:
        server.send_bytes(line + b"\n\n")
        assert server.receive()["error"]["code"] == code
        assert server.finish() == 0
