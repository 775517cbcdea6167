"""What a legacy server asks of a client without a session: the client comes back with answers."""

import json

import pytest

from tests.harness import Message
from tests.journeys.clients import META, ModernClient
from tests.journeys.http_gateway import HttpGateway
from tests.journeys.scripts import said

ABLE: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
OLD = ("stdio-old", "http-old", "older")
SAMPLED: Message = {
    "role": "assistant",
    "content": {"type": "text", "text": "forty-two"},
    "model": "m",
    "stopReason": "endTurn",
}


def able(site: HttpGateway, capabilities: Message = ABLE) -> ModernClient:
    return ModernClient(site, **{META + "clientCapabilities": capabilities})


def call(client: ModernClient, name: str, arguments: Message, **more: object) -> Message:
    params = {"name": name, "arguments": arguments, **more}
    return client.request("tools/call", params)


@pytest.mark.parametrize("server", OLD)
@pytest.mark.parametrize(
    ("tool", "arguments", "method", "answer"),
    [
        ("sample", {"prompt": "why?"}, "sampling/createMessage", SAMPLED),
        ("elicit", {}, "elicitation/create", {"action": "accept", "content": {"name": "Ada"}}),
        ("elicit", {}, "elicitation/create", {"action": "decline"}),
        ("roots", {}, "roots/list", {"roots": [{"uri": "file:///a"}]}),
    ],
)
def test_a_client_without_a_session_is_asked_and_comes_back_with_the_answer(
    site: HttpGateway, server: str, tool: str, arguments: Message, method: str, answer: Message
) -> None:
    client, name = able(site), f"{server}__{tool}"

    asked = call(client, name, arguments)["result"]
    assert asked["resultType"] == "input_required"
    ((key, question),) = asked["inputRequests"].items()
    assert question["method"] == method
    state = asked["requestState"]
    ending = call(client, name, arguments, inputResponses={key: answer}, requestState=state)

    assert ending["result"]["resultType"] == "complete"
    assert json.loads(said(ending)) == answer


@pytest.mark.parametrize("server", OLD)
def test_a_client_that_cannot_be_asked_is_not(site: HttpGateway, server: str) -> None:
    answer = call(ModernClient(site), f"{server}__elicit", {})

    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["isError"] is True


def test_a_state_is_good_once_and_for_the_same_call_only(site: HttpGateway) -> None:
    client = able(site)
    asked = call(client, "stdio-old__elicit", {})["result"]
    ((key, _),) = asked["inputRequests"].items()
    back = {"inputResponses": {key: {"action": "decline"}}, "requestState": asked["requestState"]}

    other = call(client, "stdio-old__elicit", {"x": 1}, **back)["error"]
    forged = {**back, "requestState": asked["requestState"][:-2] + "AA"}
    tampered = call(client, "stdio-old__elicit", {}, **forged)["error"]
    good = call(client, "stdio-old__elicit", {}, **back)
    again = call(client, "stdio-old__elicit", {}, **back)["error"]

    assert [error["code"] for error in (other, tampered, again)] == [-32602] * 3
    assert all("requestState" in error["message"] for error in (other, tampered, again))
    assert json.loads(said(good)) == {"action": "decline"}


def test_an_answer_that_does_not_fit_is_asked_for_again(site: HttpGateway) -> None:
    client = able(site)
    asked = call(client, "http-old__elicit", {})["result"]
    ((key, _),) = asked["inputRequests"].items()

    wrong = {key: {"action": "accept", "content": {"name": 5}}}
    state = asked["requestState"]
    again = call(client, "http-old__elicit", {}, inputResponses=wrong, requestState=state)["result"]
    assert again["resultType"] == "input_required"
    assert list(again["inputRequests"]) == [key]
    assert again["requestState"] != state
    right = {key: {"action": "accept", "content": {"name": "Ada"}}}
    state = again["requestState"]
    good = call(client, "http-old__elicit", {}, inputResponses=right, requestState=state)

    assert json.loads(said(good))["content"] == {"name": "Ada"}


def test_calls_side_by_side_are_asked_each_for_itself(site: HttpGateway) -> None:
    client = able(site)
    states = [call(client, "stdio-old__elicit", {"n": n})["result"] for n in range(3)]

    for n, asked in reversed(list(enumerate(states))):
        ((key, _),) = asked["inputRequests"].items()
        answer = {"action": "accept", "content": {"name": f"n{n}"}}
        back = {"inputResponses": {key: answer}, "requestState": asked["requestState"]}
        good = call(client, "stdio-old__elicit", {"n": n}, **back)
        assert json.loads(said(good)) == answer
