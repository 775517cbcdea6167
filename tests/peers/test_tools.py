"""Every tool in every revision, and the lists of tools."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.driver import EVERYTHING, LEGACY, MODERN, REVISIONS, Demo, Json

NAMES = {
    *("echo", "add", "fail", "error", "slow", "image", "audio", "everything_content"),
    *("elicit", "sample", "roots", "log", "big", "touch", "grow", "shrink", "env", "exit"),
    *("stderr", "regional", "consult"),
}
STRUCTURED = REVISIONS[2:]


class Speaking:
    """A running server and the revision in which it is spoken to."""

    def __init__(self, demo: Demo, revision: str, capabilities: Json) -> None:
        self.demo = demo
        self.revision = revision
        self.ask = demo.speak(revision, capabilities)

    def answer(self, tool: str, **arguments: Any) -> Json:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, **arguments: Any) -> Json:
        result: Json = self.answer(tool, **arguments)["result"]
        return result

    def text(self, tool: str, **arguments: Any) -> str:
        return text_of(self.call(tool, **arguments))


def text_of(result: Json) -> str:
    (block,) = result["content"]
    assert block["type"] == "text"
    text: str = block["text"]
    return text


@pytest.fixture(scope="module", params=REVISIONS)
def speaking(request: pytest.FixtureRequest) -> Iterator[Speaking]:
    with Demo(env={"ANYPORT_DEMO_TEST": "here"}) as demo:
        yield Speaking(demo, request.param, {})


def test_all_tools_are_there_and_described_as_the_revision_allows(speaking: Speaking) -> None:
    tools = {tool["name"]: tool for tool in speaking.ask("tools/list")["result"]["tools"]}

    assert set(tools) == NAMES
    echo, add, image = tools["echo"], tools["add"], tools["image"]
    assert ("annotations" in echo) is (speaking.revision != "2024-11-05")
    assert ("title" in echo) is ("_meta" in echo) is (speaking.revision in STRUCTURED)
    assert ("outputSchema" in add) is (speaking.revision in STRUCTURED)
    assert ("icons" in image) is (speaking.revision in REVISIONS[3:])


def test_every_tool_answers_in_words(speaking: Speaking) -> None:
    assert speaking.text("echo", text="Grüße, 世界 🌍\n") == "Grüße, 世界 🌍\n"
    assert speaking.text("regional", region="eu") == "Region eu, shard any."
    assert speaking.text("regional", region="eu", shard=3) == "Region eu, shard 3."
    assert speaking.text("env", name="ANYPORT_DEMO_TEST") == "here"
    assert "demo://counter is now at version" in speaking.text("touch")
    for size in (0, 1, 100_000):
        assert len(speaking.text("big", bytes=size).encode()) == size
    speaking.call("stderr", text=f"said in {speaking.revision}")
    assert f"said in {speaking.revision}\n" in speaking.demo.stderr()
    failed = speaking.call("fail", message="no luck")
    assert (text_of(failed), failed["isError"]) == ("no luck", True)
    for more in ({}, {"data": None}, {"data": {"why": [1, 2]}}):
        answer = speaking.answer("error", code=-7, message="bang", **more)
        assert answer["error"] == {"code": -7, "message": "bang", **more}


def test_where_it_may_it_answers_as_a_value_too(speaking: Speaking) -> None:
    structured = speaking.revision in STRUCTURED
    result = speaking.call("add", a=2, b=3)
    absent = speaking.call("env", name="ANYPORT_DEMO_NONE")

    assert (text_of(result), text_of(absent)) == ("5", "null")
    assert result.get("structuredContent") == ({"sum": 5} if structured else None)
    assert absent.get("structuredContent") == ({"value": None} if structured else None)
    assert speaking.call("add", a=1e308, b=1e308)["isError"] is True


def test_content_is_of_the_kinds_that_the_revision_has(speaking: Speaking) -> None:
    (image,) = speaking.call("image")["content"]
    (audio,) = speaking.call("audio")["content"]
    kinds = [block["type"] for block in speaking.call("everything_content")["content"]]

    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    embedded = speaking.revision == "2024-11-05"
    sound = audio["resource"]["blob"] if embedded else audio["data"]
    assert audio["type"] == ("resource" if embedded else "audio")
    assert base64.b64decode(sound).startswith(b"RIFF")
    link = ["resource_link"] if speaking.revision in STRUCTURED else []
    assert kinds == ["text", "image", *link, "resource"]


def test_grow_adds_a_tool_that_works_and_shrink_removes_it(speaking: Speaking) -> None:
    assert speaking.text("grow") == "Added grown_1."
    assert speaking.text("grown_1") == "grown_1"
    assert speaking.ask("tools/list")["result"]["tools"][-1]["name"] == "grown_1"

    assert speaking.text("shrink") == "Removed grown_1."
    assert speaking.answer("grown_1")["error"]["message"] == "Unknown tool: grown_1"
    assert speaking.call("shrink")["isError"] is True


def test_a_bad_call_is_refused_in_the_manner_of_the_revision(speaking: Speaking) -> None:
    for tool, arguments in (("echo", {}), ("echo", {"text": 1}), ("big", {"bytes": -1})):
        answer = speaking.answer(tool, **arguments)
        if speaking.revision in REVISIONS[3:]:
            assert answer["result"]["isError"] is True
        else:
            assert answer["error"]["code"] == -32602
    error = {"code": -32602, "message": "Unknown tool: nothing"}
    assert speaking.answer("nothing")["error"] == error
    for params in ({}, {"name": 1}, {"name": "echo", "arguments": []}):
        assert speaking.ask("tools/call", params)["error"]["code"] == -32602


def test_a_client_that_cannot_be_asked_gets_an_error(speaking: Speaking) -> None:
    for tool, arguments, capability in (
        ("elicit", {}, {"elicitation": {"form": {}}}),
        ("sample", {"prompt": "?"}, {"sampling": {}}),
        ("roots", {}, {"roots": {}}),
    ):
        answer = speaking.answer(tool, **arguments)
        if speaking.revision == MODERN:
            assert answer["error"]["code"] == -32021
            assert answer["error"]["data"] == {"requiredCapabilities": capability}
        else:
            assert answer["result"]["isError"] is True


@pytest.mark.parametrize("revision", REVISIONS)
def test_slow_reports_progress_and_logs_and_exit_says_nothing(revision: str) -> None:
    with Demo() as demo:
        ask = demo.speak(revision, EVERYTHING)
        meta: Json = {"progressToken": "token", f"{'io.modelcontextprotocol/'}logLevel": "info"}
        params = {"name": "slow", "arguments": {"seconds": 0, "steps": 3}, "_meta": meta}

        assert text_of(ask("tools/call", params)["result"]) == "Done after 3 steps."

        methods = [message["method"].removeprefix("notifications/") for message in demo.seen]
        assert methods == ["message", *["progress"] * 3, "message"]
        reports = [message["params"] for message in demo.seen[1:-1]]
        assert [report["progress"] for report in reports] == [1, 2, 3]
        assert {report["progressToken"] for report in reports} == {"token"}
        assert ("message" in reports[0]) is (revision != "2024-11-05")

        params = {"name": "exit", "arguments": {"code": 7}}
        send = demo.request_modern if revision == MODERN else demo.request
        send("tools/call", params)
        assert demo.receive_line() is None
        assert demo.exit_code() == 7
        assert "exiting with code 7" in demo.stderr()


@pytest.mark.parametrize("revision", LEGACY)
def test_the_asking_tools_ask_what_the_revision_can_ask(revision: str) -> None:
    questions = {
        "elicit": ("elicitation/create", {"action": "accept", "content": {"name": "Ann"}}),
        "sample": (
            "sampling/createMessage",
            {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"},
        ),
        "roots": ("roots/list", {"roots": [{"uri": "file:///tmp", "name": "tmp"}]}),
    }
    with Demo() as demo:
        demo.handshake(revision, EVERYTHING)
        for tool, (method, answer) in questions.items():
            arguments = {"prompt": "?"} if tool == "sample" else {}
            if tool == "elicit" and revision in LEGACY[:2]:
                assert demo.call(tool)["isError"] is True
                continue
            call = demo.request("tools/call", {"name": tool, "arguments": arguments})
            question = demo.wait_for_method(method)
            assert demo.call("echo", text="meanwhile")  # The server is not held up.

            demo.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})

            assert json.loads(text_of(demo.answer_to(call)["result"])) == answer
