"""What servers ask of a client in a session: on one stream, answered by another POST."""

import json

import pytest

from tests.harness import Message
from tests.journeys.clients import KINDS, SessionClient, request
from tests.journeys.http_gateway import JSON, HttpGateway
from tests.journeys.scripts import said

ABLE: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
SAMPLED: Message = {
    "role": "assistant",
    "content": {"type": "text", "text": "forty-two"},
    "model": "m",
    "stopReason": "endTurn",
}


def slow(server: str) -> Message:
    """The params of a call that lasts, and whose progress makes a stream of its response."""
    arguments = {"seconds": 60, "steps": 2000}
    meta = {"progressToken": "slow"}
    return {"name": f"{server}__slow", "arguments": arguments, "_meta": meta}


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize(
    ("tool", "arguments", "method", "answer"),
    [
        ("sample", {"prompt": "why?"}, "sampling/createMessage", SAMPLED),
        ("elicit", {}, "elicitation/create", {"action": "accept", "content": {"name": "Ada"}}),
        ("elicit", {}, "elicitation/create", {"action": "decline"}),
    ],
)
def test_a_question_comes_on_the_stream_of_its_call_and_is_answered_by_another_post(
    site: HttpGateway, server: str, tool: str, arguments: Message, method: str, answer: Message
) -> None:
    session = SessionClient(site, capabilities=ABLE)
    alone = session.listen()
    other = session.start("tools/call", slow("older" if server != "older" else "http-new"))
    call = session.start("tools/call", {"name": f"{server}__{tool}", "arguments": arguments})
    asked = call.wait_method(method)
    session.reply(asked, answer)
    assert json.loads(said(call.ending())) == answer
    assert session.delete().status == 200
    elsewhere = [*alone.rest(), *other.rest()]
    assert not [message for message in elsewhere if message.get("method") == method]


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize("listening", [True, False])
def test_roots_are_asked_for_on_one_stream_and_answered_by_another_post(
    site: HttpGateway, server: str, listening: bool
) -> None:
    """They belong to the session, not to a call: its own stream will do, where it is open."""
    session = SessionClient(site, capabilities=ABLE)
    alone = session.listen() if listening else None
    call = session.start("tools/call", {"name": f"{server}__roots", "arguments": {}})
    # A server of the era without handshakes asks for them in its answer to this very call.
    stream = call if alone is None or server.endswith("new") else alone
    asked = stream.wait_method("roots/list")
    session.reply(asked, {"roots": [{"uri": "file:///a"}]})
    assert json.loads(said(call.ending())) == {"roots": [{"uri": "file:///a"}]}
    assert session.delete().status == 200
    rest = [] if alone is None else alone.rest()
    assert [*call.seen, *rest].count(asked) == (1 if stream is call else 0)


def test_a_question_is_not_put_to_a_client_that_cannot_be_asked(site: HttpGateway) -> None:
    session = SessionClient(site)
    for server in KINDS:
        answer = session.call(f"{server}__roots")
        assert "error" in answer or answer["result"]["isError"] is True
    assert not [m for m in session.seen if "id" in m]


def test_an_answer_to_nothing_is_taken_and_dropped(site: HttpGateway) -> None:
    session = SessionClient(site, capabilities=ABLE)
    session.reply({"id": 99}, {})
    session.reply({"id": "nobody"}, {})
    assert session.request("ping")["result"] == {}


@pytest.mark.parametrize("server", KINDS)
def test_a_server_is_told_at_once_that_a_client_without_streams_cannot_be_asked(
    site: HttpGateway, server: str
) -> None:
    session = SessionClient(site, capabilities=ABLE)
    message = request("tools/call", {"name": f"{server}__elicit", "arguments": {}})
    fields = [("Content-Type", JSON), ("Accept", JSON), *session.fields]

    answer = session.site.send("POST", json.dumps(message).encode(), fields)

    assert answer.status == 200
    assert "result" in answer.ending(), "the tool says what it makes of that"
