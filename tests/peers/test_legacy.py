"""The legacy era."""

import json
from collections.abc import Iterator

import pytest

from tests.peers.driver import EVERYTHING, LEGACY, MODERN, Demo, Json


@pytest.mark.parametrize("asked", ["2024-11-05", MODERN, "1999-12-31"])
def test_the_client_gets_its_revision_or_the_newest(asked: str) -> None:
    with Demo() as demo:
        demo.revision = asked if asked in LEGACY else LEGACY[-1]
        client = {"name": "test", "version": "0"}
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": client}

        result = demo.ask("initialize", params)["result"]

        assert result["protocolVersion"] == demo.revision
        assert ("completions" in result["capabilities"]) is (asked != "2024-11-05")
        assert demo.ask("ping")["result"] == {}
        assert demo.ask("initialize", params)["error"]["code"] == -32600


def test_before_the_handshake_only_ping_is_answered() -> None:
    with Demo() as demo:
        demo.revision = "2025-11-25"

        assert demo.ask("ping")["result"] == {}
        assert demo.ask("tools/list")["error"]["code"] == -32600
        assert demo.ask("no/such/method")["error"]["code"] == -32601
        assert demo.ask("initialize", {"protocolVersion": 1})["error"]["code"] == -32602
        assert demo.handshake()["serverInfo"]["name"] == "anyport-demo"


def test_a_legacy_server_does_not_know_the_methods_of_the_other_era() -> None:
    with Demo("--legacy-only") as demo:
        demo.revision = "2025-11-25"

        assert demo.ask_modern("server/discover")["error"]["code"] == -32601
        demo.handshake()
        assert demo.ask_modern("server/discover")["error"]["code"] == -32601


def test_log_messages_follow_the_level_of_the_session() -> None:
    with Demo() as demo:
        demo.handshake()

        def heard(level: str) -> bool:
            demo.call("log", level=level, text="words")
            messages, demo.seen = demo.seen, []
            return [m["params"]["data"] for m in messages] == ["words"]

        assert (heard("debug"), heard("info")) == (False, True)
        assert demo.ask("logging/setLevel", {"level": "error"})["result"] == {}
        assert (heard("warning"), heard("error"), heard("alert")) == (False, True, True)
        assert demo.ask("logging/setLevel", {"level": "loud"})["error"]["code"] == -32602


@pytest.mark.parametrize("revision", [LEGACY[0], LEGACY[-1]])
def test_subscribers_and_only_they_learn_of_a_change(revision: str) -> None:
    with Demo() as demo:
        demo.handshake(revision)
        counter = {"uri": "demo://counter"}

        def touched(uri: str = "demo://counter") -> list[str]:
            demo.call("touch", uri=uri)
            messages, demo.seen = demo.seen, []
            return [m["params"]["uri"] for m in messages]

        assert touched() == []
        assert demo.ask("resources/subscribe", counter)["result"] == {}
        assert touched() == ["demo://counter"]
        assert touched("demo://items/cherry") == []
        assert demo.ask("resources/unsubscribe", counter)["result"] == {}
        assert touched() == []
        assert demo.ask("resources/subscribe", {"uri": "demo://no"})["error"]["code"] == -32002

        demo.call("grow")
        assert [m["method"] for m in demo.seen] == ["notifications/tools/list_changed"]


def test_a_url_elicitation_has_an_id_and_its_completion_is_notified() -> None:
    with Demo() as demo:
        demo.handshake("2025-11-25", EVERYTHING)
        call = demo.request("tools/call", {"name": "elicit", "arguments": {"kind": "url"}})
        question = demo.wait_for_method("elicitation/create")

        demo.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})

        done = demo.wait_for_method("notifications/elicitation/complete")
        assert done["params"]["elicitationId"] == question["params"]["elicitationId"]
        text = demo.answer_to(call)["result"]["content"][0]["text"]
        assert json.loads(text) == {"action": "accept"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Demo]:
    with Demo() as demo:
        demo.handshake(capabilities=EVERYTHING)
        yield demo


def test_an_answer_that_is_none_is_reported(shared: Demo) -> None:
    cases: list[tuple[Json, str]] = [
        ({"error": {"code": -1, "message": "User rejected"}}, "code -1: User rejected"),
        ({"error": "no"}, "neither a result nor an error"),
        ({"result": []}, "neither a result nor an error"),
        ({"result": {}}, "no 'content'"),
    ]
    for answer, told in cases:
        call = shared.request("tools/call", {"name": "sample", "arguments": {"prompt": "?"}})
        question = shared.wait_for_method("sampling/createMessage")

        shared.send({"jsonrpc": "2.0", "id": 999, "result": {}})  # Nobody asked this.
        shared.send({"jsonrpc": "2.0", "id": question["id"], **answer})

        result = shared.answer_to(call)["result"]
        assert result["isError"] is True
        assert told in result["content"][0]["text"]


def test_questions_have_different_ids(shared: Demo) -> None:
    calls = [shared.request("tools/call", {"name": "roots"}) for _ in range(3)]
    questions = [shared.wait_for_method("roots/list") for _ in range(3)]

    for number, question in reversed(list(enumerate(questions))):
        result = {"roots": [{"uri": f"file:///{number}"}]}
        shared.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    for number, call in enumerate(calls):
        assert f"file:///{number}" in shared.answer_to(call)["result"]["content"][0]["text"]


def test_a_cancelled_call_withdraws_its_question() -> None:
    with Demo() as demo:
        demo.handshake(capabilities=EVERYTHING)
        call = demo.request("tools/call", {"name": "roots"})
        question = demo.wait_for_method("roots/list")

        demo.notify("notifications/cancelled", {"requestId": call})

        withdrawn = demo.wait_for_method("notifications/cancelled")
        assert withdrawn["params"]["requestId"] == question["id"]
        assert demo.finish() == 0
        assert demo.seen == []


@pytest.mark.parametrize("declared", [True, False])
def test_roots_are_asked_for_after_the_handshake_if_the_client_has_any(declared: bool) -> None:
    with Demo("--ask-roots") as demo:
        demo.handshake(capabilities={"roots": {}} if declared else {})
        if declared:
            question = demo.wait_for_method("roots/list")
            result = {"roots": [{"uri": "file:///here"}]}
            demo.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

        assert demo.finish() == 0
        assert demo.seen == []
        assert ("file:///here" in demo.stderr()) is declared
