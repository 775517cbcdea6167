"""Brewing without tasks."""

import json

import pytest

from tests.peers.driver import EVERYTHING, LEGACY, REVISIONS, Demo, Json

ANSWER = {"action": "accept", "content": {"sugar": True}}


def brew(**arguments: object) -> Json:
    return {"name": "brew", "arguments": arguments}


@pytest.mark.parametrize("revision", REVISIONS[2:])
def test_those_who_want_no_task_get_the_result(revision: str) -> None:
    with Demo("--tasks") as demo:
        ask = demo.speak(revision)

        done = ask("tools/call", brew(cups=2))["result"]
        assert done["content"] == [{"type": "text", "text": "2 of 2 cups"}]
        assert ask("tools/call", brew(fail=True))["result"]["isError"] is True
        broken = ask("tools/call", brew(broken=True))["error"]
        assert (broken["code"], broken["data"]) == (4002, {"cups": 1})
        bad = ask("tools/call", brew(cups=0))
        assert "error" in bad or bad["result"]["isError"]


@pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[2]])
def test_older_revisions_never_hear_of_tasks(revision: str) -> None:
    with Demo("--tasks") as demo:
        declared = demo.handshake(revision)["capabilities"]

        assert "tasks" not in declared and "extensions" not in declared
        tools = {tool["name"]: tool for tool in demo.ask("tools/list")["result"]["tools"]}
        assert tools.keys() >= {"brew", "brew_only"}
        assert "execution" not in tools["brew"]
        for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/update"):
            assert demo.ask(method, {"taskId": "t"})["error"]["code"] == -32601
        wanted = {"name": "brew_only", "task": {"ttl": 1}}
        assert "content" in demo.ask("tools/call", wanted)["result"]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_after_a_handshake_the_question_is_a_request(revision: str) -> None:
    with Demo("--tasks") as demo:
        demo.handshake(revision, EVERYTHING)
        call = demo.request("tools/call", brew(ask=True))
        question = demo.wait_for_method("elicitation/create")

        demo.send({"jsonrpc": "2.0", "id": question["id"], "result": ANSWER})

        assert json.loads(demo.answer_to(call)["result"]["content"][1]["text"]) == ANSWER


def test_in_the_newest_revision_the_question_is_an_answer() -> None:
    with Demo("--tasks") as demo:
        asked = demo.ask_modern("tools/call", brew(ask=True), EVERYTHING)["result"]
        assert list(asked["inputRequests"]) == ["sugar"]

        retry = {
            **brew(ask=True),
            "requestState": asked["requestState"],
            "inputResponses": {"sugar": ANSWER},
        }
        told = demo.ask_modern("tools/call", retry, EVERYTHING)["result"]["content"][1]["text"]

        assert json.loads(told) == ANSWER


def test_a_question_to_a_client_that_cannot_be_asked_fails() -> None:
    with Demo("--tasks") as demo:
        demo.handshake("2024-11-05", EVERYTHING)
        assert "no elicitation" in demo.call("brew", ask=True)["content"][0]["text"]
        error = demo.ask_modern("tools/call", brew(ask=True))["error"]
        assert error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    with Demo("--tasks") as demo:
        demo.handshake("2025-11-25", EVERYTHING)
        call = demo.request("tools/call", brew(ask=True))
        question = demo.wait_for_method("elicitation/create")
        refusal = {"code": -1, "message": "not now"}
        demo.send({"jsonrpc": "2.0", "id": question["id"], "error": refusal})
        assert "not now" in demo.answer_to(call)["result"]["content"][0]["text"]
