"""Every tool in every revision, and the lists they stand in."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from anyport.demo.calls import Tool, World
from anyport.demo.options import Options
from anyport.demo.tools import TOOLS, start_tools
from tests.demo.driver import EVERYTHING, LEGACY, MODERN, REVISIONS, Demo, Json
from tests.demo.fakes import new_tasks

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


def test_echo_gives_the_text_back(speaking: Speaking) -> None:
    assert speaking.text("echo", text="Grüße, 世界 🌍\n") == "Grüße, 世界 🌍\n"


def test_a_region_is_told_with_its_shard_or_without(speaking: Speaking) -> None:
    assert speaking.text("regional", region="eu") == "Region eu, shard any."
    assert speaking.text("regional", region="eu", shard=3) == "Region eu, shard 3."


def test_add_answers_in_words_and_where_it_may_as_a_value(speaking: Speaking) -> None:
    result = speaking.call("add", a=2, b=3)

    assert text_of(result) == "5"
    structured = {"sum": 5} if speaking.revision in STRUCTURED else None
    assert result.get("structuredContent") == structured


def test_a_sum_that_json_cannot_hold_is_a_failure(speaking: Speaking) -> None:
    assert speaking.call("add", a=1e308, b=1e308)["isError"] is True


def test_fail_is_a_result_that_says_so(speaking: Speaking) -> None:
    result = speaking.call("fail", message="no luck")

    assert (text_of(result), result["isError"]) == ("no luck", True)


@pytest.mark.parametrize("more", [{}, {"data": None}, {"data": {"why": [1, 2]}}])
def test_error_answers_with_exactly_that_error(speaking: Speaking, more: Json) -> None:
    answer = speaking.answer("error", code=-7, message="bang", **more)

    assert answer["error"] == {"code": -7, "message": "bang", **more}


def test_image_is_a_picture(speaking: Speaking) -> None:
    (block,) = speaking.call("image")["content"]

    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(block["data"]).startswith(b"\x89PNG")


def test_audio_is_a_sound_or_an_embedded_file(speaking: Speaking) -> None:
    (block,) = speaking.call("audio")["content"]

    if speaking.revision == "2024-11-05":
        assert block["type"] == "resource"
        assert base64.b64decode(block["resource"]["blob"]).startswith(b"RIFF")
    else:
        assert (block["type"], block["mimeType"]) == ("audio", "audio/wav")
        assert base64.b64decode(block["data"]).startswith(b"RIFF")


def test_everything_content_has_a_link_where_links_exist(speaking: Speaking) -> None:
    kinds = [block["type"] for block in speaking.call("everything_content")["content"]]

    link = ["resource_link"] if speaking.revision in STRUCTURED else []
    assert kinds == ["text", "image", *link, "resource"]


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_big_has_that_many_bytes(speaking: Speaking, size: int) -> None:
    assert len(speaking.text("big", bytes=size).encode()) == size


def test_touch_changes_the_counter_and_the_items(speaking: Speaking) -> None:
    assert "demo://counter is now at version" in speaking.text("touch")
    assert speaking.text("touch", uri="demo://items/banana").endswith("version 1.")


@pytest.mark.parametrize("uri", ["demo://greeting", "demo://items/rock", "nonsense"])
def test_what_cannot_change_cannot_be_touched(speaking: Speaking, uri: str) -> None:
    assert speaking.call("touch", uri=uri)["isError"] is True


def test_grow_adds_a_tool_that_works_and_shrink_removes_it(speaking: Speaking) -> None:
    assert speaking.text("grow") == "Added grown_1."
    assert speaking.text("grown_1") == "grown_1"
    assert speaking.ask("tools/list")["result"]["tools"][-1]["name"] == "grown_1"

    assert speaking.text("shrink") == "Removed grown_1."
    assert speaking.answer("grown_1")["error"]["message"] == "Unknown tool: grown_1"
    assert speaking.call("shrink")["isError"] is True


def test_env_tells_a_variable_or_null(speaking: Speaking) -> None:
    there = speaking.call("env", name="ANYPORT_DEMO_TEST")
    absent = speaking.call("env", name="ANYPORT_DEMO_NONE")

    assert (text_of(there), text_of(absent)) == ("here", "null")
    if speaking.revision in STRUCTURED:
        assert there["structuredContent"] == {"value": "here"}
        assert absent["structuredContent"] == {"value": None}


def test_stderr_writes_a_line(speaking: Speaking) -> None:
    speaking.call("stderr", text=f"said in {speaking.revision}")

    assert f"said in {speaking.revision}\n" in speaking.demo.stderr()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("echo", {}), ("echo", {"text": 1}), ("big", {"bytes": -1}), ("log", {"level": "loud"})],
)
def test_wrong_arguments_are_told_in_the_manner_of_the_revision(
    speaking: Speaking, tool: str, arguments: Json
) -> None:
    answer = speaking.answer(tool, **arguments)

    if speaking.revision in REVISIONS[3:]:
        assert answer["result"]["isError"] is True
    else:
        assert answer["error"]["code"] == -32602


def test_an_unknown_tool_is_an_error_in_every_revision(speaking: Speaking) -> None:
    assert speaking.answer("nothing")["error"] == {
        "code": -32602,
        "message": "Unknown tool: nothing",
    }


@pytest.mark.parametrize("params", [{}, {"name": 1}, {"name": "echo", "arguments": []}])
def test_a_call_without_shape_is_refused(speaking: Speaking, params: Json) -> None:
    assert speaking.ask("tools/call", params)["error"]["code"] == -32602


@pytest.mark.parametrize("tool", ["elicit", "sample", "roots"])
def test_a_client_that_cannot_be_asked_is_told_so(speaking: Speaking, tool: str) -> None:
    arguments = {"prompt": "?"} if tool == "sample" else {}

    answer = speaking.answer(tool, **arguments)

    if speaking.revision == MODERN:
        capability = {"elicit": {"elicitation": {"form": {}}}, "sample": {"sampling": {}}}
        required = capability.get(tool, {"roots": {}})
        assert answer["error"]["code"] == -32021
        assert answer["error"]["data"] == {"requiredCapabilities": required}
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


@pytest.mark.parametrize("revision", REVISIONS)
def test_consult_tells_of_a_text_before_and_after_it_has_asked(revision: str) -> None:
    sampled = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
    answers = {
        "user": ("elicitation/create", {"action": "accept", "content": {"answer": "yes"}}),
        "model": ("sampling/createMessage", sampled),
        "roots": ("roots/list", {"roots": [{"uri": "file:///tmp"}]}),
        "nobody": ("", {}),
    }
    meta: Json = {"progressToken": 1, f"{'io.modelcontextprotocol/'}logLevel": "info"}
    for whom, (method, answer) in answers.items():
        with Demo() as demo:
            ask = demo.speak(revision, EVERYTHING)
            params = {"name": "consult", "arguments": {"text": "tea?", "whom": whom}, "_meta": meta}
            if whom == "user" and revision in LEGACY[:2]:
                assert ask("tools/call", params)["result"]["isError"] is True
                continue
            if revision == MODERN and method:
                asked = ask("tools/call", params)["result"]
                ((key, question),) = asked["inputRequests"].items()
                back = {"inputResponses": {key: answer}, "requestState": asked["requestState"]}
                demo.seen.clear()
                result = ask("tools/call", {**params, **back})["result"]
            elif method:
                call = demo.request("tools/call", params)
                question = demo.wait_for_method(method)
                demo.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
                result = demo.answer_to(call)["result"]
            else:
                question, result = {}, ask("tools/call", params)["result"]

            assert json.loads(text_of(result)) == {"about": "tea?", "answer": answer}
            assert whom in ("roots", "nobody") or "tea?" in json.dumps(question)
            logs = [m["params"]["data"] for m in demo.seen if m["method"].endswith("/message")]
            assert logs == ["before: tea?", "after: tea?"]
            assert len(demo.seen) == 4, "and the same as progress"


def test_filler_tools_are_numbered() -> None:
    tools = start_tools(2)

    assert list(tools)[-2:] == ["tool_0000", "tool_0001"]
    assert set(tools) - {"tool_0000", "tool_0001"} == set(TOOLS) == NAMES


def test_the_tools_that_can_become_tasks_are_there_when_asked_for() -> None:
    assert set(start_tools(0, tasks=True)) - NAMES == {"brew", "brew_only"}


def test_a_grown_tool_stays_in_its_own_world() -> None:
    first = World(Options(), start_tools(0), new_tasks)
    second = World(Options(), start_tools(0), new_tasks)

    first.tools["grown_1"] = Tool(descriptor={}, run=lambda _call, _given: {})

    assert "grown_1" not in second.tools
