"""The modern era."""

import json
from collections.abc import Iterator

import pytest

from tests.peers.driver import EVERYTHING, KEY, MODERN, Demo, Json

ANSWERS = {
    "elicit": {"action": "accept", "content": {"name": "Ann"}},
    "sample": {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"},
    "roots": {"roots": [{"uri": "file:///tmp"}]},
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Demo]:
    with Demo() as demo:
        yield demo


@pytest.fixture
def demo(shared: Demo) -> Demo:
    """One server serves all: nothing is remembered from one request to the next."""
    shared.seen.clear()
    return shared


def test_discovery_needs_no_handshake() -> None:
    with Demo("--name", "Bob", "--instructions", "Be kind.") as demo:
        result = demo.ask_modern("server/discover")["result"]

        assert result["supportedVersions"] == [MODERN]
        assert result["instructions"] == "Be kind."
        assert result["_meta"][f"{KEY}serverInfo"]["name"] == "Bob"
        assert demo.ask_modern("tools/list")["result"]["ttlMs"] == 0


def test_the_rest_of_the_envelope_is_looked_at_too(demo: Demo) -> None:
    assert demo.ask_modern("tools/list", logLevel="loud")["error"]["code"] == -32602
    assert demo.ask_modern("tools/list", clientInfo="me")["error"]["code"] == -32602
    assert demo.ask_modern("tools/list", progressToken=[])["error"]["code"] == -32602


def test_initialize_at_a_modern_server_is_answered_with_its_revisions() -> None:
    with Demo("--modern-only") as demo:
        error = demo.ask("initialize", {"protocolVersion": "2025-11-25"})["error"]

        assert error["code"] == -32022
        assert error["data"] == {"supported": [MODERN], "requested": "2025-11-25"}
        assert demo.ask("tools/list")["error"]["code"] == -32602
        assert demo.ask_modern("initialize")["error"]["code"] == -32601


def test_log_messages_follow_the_level_of_the_request(demo: Demo) -> None:
    params = {"name": "log", "arguments": {"level": "warning", "text": "words"}}

    demo.ask_modern("tools/call", params)
    demo.ask_modern("tools/call", params, logLevel="error")
    assert demo.seen == []
    demo.ask_modern("tools/call", params, logLevel="warning")
    assert [message["params"]["data"] for message in demo.seen] == ["words"]


@pytest.mark.parametrize("tool", ANSWERS)
def test_a_question_is_a_result_and_its_answer_another_request(demo: Demo, tool: str) -> None:
    arguments = {"prompt": "?"} if tool == "sample" else {}
    params: Json = {"name": tool, "arguments": arguments}
    asked = demo.ask_modern("tools/call", params, EVERYTHING)["result"]

    assert asked["resultType"] == "input_required"
    assert list(asked["inputRequests"]) == [tool]
    retry = {
        **params,
        "inputResponses": {tool: ANSWERS[tool], "stranger": {}},
        "requestState": asked["requestState"],
    }
    result = demo.ask_modern("tools/call", retry, EVERYTHING)["result"]
    assert result["resultType"] == "complete"
    assert json.loads(result["content"][0]["text"]) == ANSWERS[tool]


def test_an_answer_that_is_missing_is_asked_for_again(demo: Demo) -> None:
    asked = demo.ask_modern("tools/call", {"name": "roots"}, EVERYTHING)["result"]
    retry = {"name": "roots", "requestState": asked["requestState"], "inputResponses": {}}

    again = demo.ask_modern("tools/call", retry, EVERYTHING)["result"]

    assert again["resultType"] == "input_required"


def test_a_state_that_does_not_belong_to_the_request_is_refused(demo: Demo) -> None:
    asked = demo.ask_modern("tools/call", {"name": "roots"}, EVERYTHING)["result"]
    state, answers = asked["requestState"], {"roots": ANSWERS["roots"]}
    tampered = state[:-1] + ("0" if state[-1] != "0" else "1")

    for round_two in (
        {"name": "roots", "requestState": tampered, "inputResponses": answers},
        {"name": "roots", "requestState": 1, "inputResponses": answers},
        {"name": "roots", "inputResponses": answers},
        {"name": "roots", "requestState": state, "inputResponses": []},
        {"name": "elicit", "requestState": state, "inputResponses": answers},
        {"name": "roots", "arguments": {"a": 1}, "requestState": state},
        {"name": "echo", "arguments": {"text": "x"}, "requestState": state},
    ):
        error = demo.ask_modern("tools/call", round_two, EVERYTHING)["error"]
        assert error["code"] == -32602, round_two


def test_capabilities_count_in_every_round_anew(demo: Demo) -> None:
    asked = demo.ask_modern("tools/call", {"name": "roots"}, EVERYTHING)["result"]
    answers = {"roots": ANSWERS["roots"]}
    params = {
        "name": "roots",
        "requestState": asked["requestState"],
        "inputResponses": answers,
    }

    error = demo.ask_modern("tools/call", params, {"sampling": {}})["error"]

    assert error["data"] == {"requiredCapabilities": {"roots": {}}}


def test_a_url_elicitation_needs_a_client_that_supports_urls(demo: Demo) -> None:
    params: Json = {"name": "elicit", "arguments": {"kind": "url"}}
    error = demo.ask_modern("tools/call", params, {"elicitation": {}})["error"]
    asked = demo.ask_modern("tools/call", params, EVERYTHING)["result"]

    assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert asked["inputRequests"]["elicit"]["params"]["mode"] == "url"


def test_a_subscription_is_acknowledged_then_told_then_closed() -> None:
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourceSubscriptions": ["demo://counter", "demo://none"],
    }
    with Demo() as demo:
        stream = demo.request_modern("subscriptions/listen", {"notifications": wanted})
        quiet = demo.request_modern("subscriptions/listen", {"notifications": {}})
        for tool in ("grow", "touch"):
            demo.ask_modern("tools/call", {"name": tool})
        demo.ask_modern("tools/call", {"name": "touch", "arguments": {"uri": "demo://items/apple"}})
        assert demo.finish() == 0

        mine = [m for m in demo.seen if subscription(m) == stream]
        assert [m.get("method") for m in mine] == [
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
            "notifications/resources/updated",
            None,
        ]
        assert mine[0]["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["demo://counter"],
        }
        assert (mine[-1]["id"], mine[-1]["result"]["resultType"]) == (stream, "complete")
        others = [m.get("method") for m in demo.seen if subscription(m) == quiet]
        assert others == ["notifications/subscriptions/acknowledged", None]


def test_a_cancelled_subscription_is_silent() -> None:
    with Demo() as demo:
        wanted = {"notifications": {"toolsListChanged": True}}
        stream = demo.request_modern("subscriptions/listen", wanted)
        demo.wait_for_method("notifications/subscriptions/acknowledged")
        demo.notify("notifications/cancelled", {"requestId": stream})
        demo.ask_modern("server/discover")  # By its answer the cancellation has been seen to.

        demo.ask_modern("tools/call", {"name": "grow"})

        assert demo.finish() == 0
        assert demo.seen == []


def subscription(message: Json) -> str | int | None:
    body: Json = message.get("params") or message.get("result") or {}
    meta = body.get("_meta", {})
    identity: str | int | None = meta.get(f"{KEY}subscriptionId")
    return identity
