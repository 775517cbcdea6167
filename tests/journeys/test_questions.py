"""What servers ask of a legacy client: put to it as real requests, and the answers brought back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import DEMO, LineClient, Message, read_events
from tests.journeys.scripts import (
    Scripted,
    eventually,
    gateway,
    note,
    question,
    result,
    rule,
    said,
    text,
    tools,
)
from tests.rig.small_servers import MINIMAL, python

ABLE: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
SAMPLED: Message = {
    "role": "assistant",
    "content": {"type": "text", "text": "forty-two"},
    "model": "m",
    "stopReason": "endTurn",
}
QUESTIONS = [
    ("sample", {"prompt": "why?"}, "sampling/createMessage", SAMPLED),
    ("elicit", {}, "elicitation/create", {"action": "accept", "content": {"name": "Ada"}}),
    ("elicit", {}, "elicitation/create", {"action": "decline"}),
    ("elicit", {}, "elicitation/create", {"action": "cancel"}),
    ("elicit", {"kind": "url"}, "elicitation/create", {"action": "accept"}),
    ("roots", {}, "roots/list", {"roots": [{"uri": "file:///a"}]}),
]


def reply(client: LineClient, asked: Message, answer: Any) -> None:
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})


def refuse(client: LineClient, asked: Message, code: int, message: str) -> None:
    error = {"code": code, "message": message}
    client.send({"jsonrpc": "2.0", "id": asked["id"], "error": error})


@pytest.fixture(scope="module", params=["--legacy-only", "--modern-only", ""])
def able(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LineClient]:
    """A client that can be asked everything, with a server of either era that does ask."""
    with gateway(
        tmp_path_factory.mktemp("able"), {"demo": [*DEMO, *filter(None, [request.param])]}
    ) as client:
        client.initialize(capabilities=ABLE)
        yield client


@pytest.mark.parametrize(("tool", "arguments", "method", "answer"), QUESTIONS)
def test_a_question_is_put_and_its_answer_brought_back(
    able: LineClient, tool: str, arguments: Message, method: str, answer: Message
) -> None:
    able.seen.clear()
    call = able.start("tools/call", {"name": f"demo__{tool}", "arguments": arguments})
    asked = able.wait_method(method)
    if tool == "elicit":
        assert asked["params"].get("mode", "form") == arguments.get("kind", "form")
    reply(able, asked, answer)
    assert json.loads(said(able.answer(call))) == answer


def test_the_end_of_a_visit_is_told_to_the_client(tmp_path: Path) -> None:
    with gateway(tmp_path, {"demo": [*DEMO, "--legacy-only"]}) as client:
        client.initialize(capabilities=ABLE)
        call = client.start("tools/call", {"name": "demo__elicit", "arguments": {"kind": "url"}})
        asked = client.wait_method("elicitation/create")
        reply(client, asked, {"action": "accept"})
        client.answer(call)
        done = client.wait_method("notifications/elicitation/complete")
    assert done["params"]["elicitationId"] == asked["params"]["elicitationId"]


VISITED: Final = (
    MINIMAL
    + """
def visit(message):
    item = {"mode": "url", "message": "m", "url": "https://example.com/", "elicitationId": "v"}
    answer(message, error={"code": -32042, "message": "m", "data": {"elicitations": [item]}})
    done = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete"}
    print(json.dumps({**done, "params": {"elicitationId": "v"}}), flush=True)

serve(["visit"], visit)
"""
)


# Not "call": such a connection ends with its call, and nobody is left who could tell.
@pytest.mark.parametrize("scope", ["shared", "principal", "session"])
def test_the_end_of_a_visit_is_told_whoever_shares_the_connection(
    tmp_path: Path, scope: str
) -> None:
    command, *args = python(VISITED)
    with gateway(tmp_path, {"s": {"command": command, "args": args, "scope": scope}}) as client:
        client.initialize(capabilities=ABLE)
        assert client.call("s__visit")["error"]["code"] == -32042
        done = client.wait_method("notifications/elicitation/complete")
    assert done["params"] == {"elicitationId": "v"}


def asking(path: Path, *asked: str, name: str = "scripted", **rest: Any) -> Scripted:
    """A server whose one tool asks before it answers; any answer will do."""
    return Scripted(
        path,
        tools("ask"),
        rule("tools/call", *asked, keep="call", **rest),
        rule("answer", result(text(f"{name} is satisfied")).replace("$id", "$call")),
        name=name,
    )


def test_a_question_and_its_answer_keep_their_bytes(tmp_path: Path) -> None:
    params = '{"messages": [], "maxTokens": 1e2, "metadata": {"big": 12345678901234567890}}'
    server = asking(tmp_path, question("own id", "sampling/createMessage", params))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities=ABLE)
        call = client.start("tools/call", {"name": "only__ask"})
        asked = client.wait_method("sampling/createMessage")
        assert params.encode() in client.lines[-1]
        assert asked["id"] != "own id"
        answer = '{"role": "assistant", "x": 1.50}'
        client.send(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": {answer}}}\n'.encode())
        client.answer(call)
    (line,) = [line for line in server.lines if b'"method"' not in line]
    assert answer.encode() in line
    assert json.loads(line)["id"] == "own id"


def test_a_refusal_of_the_client_reaches_the_server_as_it_is(tmp_path: Path) -> None:
    server = asking(tmp_path, question(5, "roots/list"))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities=ABLE)
        call = client.start("tools/call", {"name": "only__ask"})
        refuse(client, client.wait_method("roots/list"), -32042, "not today")
        assert said(client.answer(call)) == "scripted is satisfied"
    (answer,) = server.answers()
    error = {"code": -32042, "message": "not today"}
    assert answer == {"jsonrpc": "2.0", "id": 5, "error": error}


@pytest.mark.parametrize(
    ("capabilities", "method", "params", "code"),
    [
        ({}, "sampling/createMessage", {}, -32601),
        ({"roots": {}}, "elicitation/create", {}, -32601),
        ({"elicitation": {}}, "elicitation/create", {"mode": "url", "url": "x"}, -32602),
        ({"sampling": {}}, "vendor/question", {}, -32601),
    ],
)
def test_what_the_client_never_offered_is_refused_for_it(
    tmp_path: Path, capabilities: Message, method: str, params: Message, code: int
) -> None:
    server = asking(tmp_path, question(1, method, params))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities=capabilities)
        assert said(client.call("only__ask")) == "scripted is satisfied"
        assert not [m for m in client.seen if "method" in m and "id" in m]
    assert server.answers()[0]["error"]["code"] == code


def test_a_server_is_told_what_the_client_of_its_session_can_do(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("x"), rule("tools/call", result(text("ok"))))
    with gateway(tmp_path, {"only": server.command}) as client:
        declared = {**ABLE, "vendor": {"a": [1]}}
        client.initialize(capabilities=declared)
        client.call("only__x")
    (shaken,) = server.heard("initialize")
    assert shaken["params"]["capabilities"] == declared


def test_two_servers_may_ask_at_once_even_under_one_id(tmp_path: Path) -> None:
    servers = {
        name: asking(tmp_path, question(1, "roots/list", {"of": name}), name=name)
        for name in ("one", "two")
    }
    with gateway(tmp_path, {name: s.command for name, s in servers.items()}) as client:
        client.initialize(capabilities=ABLE)
        calls = {n: client.start("tools/call", {"name": f"{n}__ask"}) for n in servers}
        asked = {
            name: client.wait(lambda m, n=name: m.get("params") == {"of": n})  # type: ignore[misc]
            for name in servers
        }
        assert asked["one"]["id"] != asked["two"]["id"]
        for name in ("two", "one"):
            reply(client, asked[name], {"roots": [], "for": name})
            assert said(client.answer(calls[name])) == f"{name} is satisfied"
    for name, server in servers.items():
        assert [answer["result"]["for"] for answer in server.answers()] == [name]


def test_a_question_the_server_takes_back_is_taken_back_from_the_client(tmp_path: Path) -> None:
    withdrawal = note("notifications/cancelled", {"requestId": "q", "reason": "never mind"})
    finished = result(text("done without"))
    server = asking(tmp_path, question("q", "roots/list"), withdrawal, finished)
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities=ABLE)
        assert said(client.call("only__ask")) == "done without"
        asked = client.wait_method("roots/list")
        taken = client.wait_method("notifications/cancelled")
        assert taken["params"] == {"requestId": asked["id"], "reason": "never mind"}
        reply(client, asked, {"roots": []})  # It crossed the withdrawal on the way.
        client.request("ping")
        assert client.finish() == 0
    assert server.answers() == []


def test_a_cancelled_call_takes_its_question_along(tmp_path: Path) -> None:
    with gateway(tmp_path, {"demo": [*DEMO, "--legacy-only"]}) as client:
        client.initialize(capabilities=ABLE)
        call = client.start("tools/call", {"name": "demo__elicit"})
        asked = client.wait_method("elicitation/create")
        client.notify("notifications/cancelled", {"requestId": call})
        taken = client.wait_method("notifications/cancelled")
        assert taken["params"]["requestId"] == asked["id"]
        client.request("ping")
        assert call not in [m.get("id") for m in client.seen]


def test_a_server_that_dies_takes_its_question_back(tmp_path: Path) -> None:
    server = asking(tmp_path, question("q", "roots/list"), exit=1)
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities=ABLE)
        assert client.call("only__ask")["error"]["code"] == -32000
        asked = client.wait_method("roots/list")
        taken = client.wait_method("notifications/cancelled")
        assert taken["params"]["requestId"] == asked["id"]


def test_a_client_that_goes_leaves_no_question_open(tmp_path: Path) -> None:
    server = asking(tmp_path, question("q", "roots/list"))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities=ABLE)
        client.start("tools/call", {"name": "only__ask"}, id="last")
        client.wait_method("roots/list")
        # The end of input: nobody can answer any more, and the call is answered all the same.
        assert client.finish() == 0
        assert said(client.answer("last")) == "scripted is satisfied"
    (answer,) = server.answers()
    assert "disconnected" in answer["error"]["message"]
    endings = [
        event["status"]
        for event in read_events(tmp_path / "state")
        if event["event_type"] == "gateway.tool_call" and event["status"] != "pending"
    ]
    assert endings == ["success"]


def test_progress_of_the_client_on_a_question_reaches_the_server(tmp_path: Path) -> None:
    params = {"messages": [], "maxTokens": 1, "_meta": {"progressToken": "servers own"}}
    server = asking(tmp_path, question("q", "sampling/createMessage", params))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities=ABLE)
        call = client.start("tools/call", {"name": "only__ask"})
        asked = client.wait_method("sampling/createMessage")
        token = asked["params"]["_meta"]["progressToken"]
        assert token != "servers own"
        client.notify("notifications/progress", {"progressToken": token, "progress": 0.5})
        heard = server.wait_heard("notifications/progress")
        assert heard["params"] == {"progressToken": "servers own", "progress": 0.5}
        reply(client, asked, SAMPLED)
        client.answer(call)


def test_a_ping_is_answered_in_both_directions(tmp_path: Path) -> None:
    server = asking(tmp_path, question("p", "ping"))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        assert said(client.call("only__ask")) == "scripted is satisfied"
        assert client.request("ping")["result"] == {}
        assert not [m for m in client.seen if m.get("method") == "ping"]
    assert server.answers() == [{"jsonrpc": "2.0", "id": "p", "result": {}}]


def test_changed_roots_are_told_to_the_servers(tmp_path: Path) -> None:
    servers = {name: Scripted(tmp_path, tools("x"), name=name) for name in ("one", "two")}
    with gateway(tmp_path, {name: s.command for name, s in servers.items()}) as client:
        client.initialize(capabilities={"roots": {"listChanged": True}})
        client.request("tools/list")
        client.notify("notifications/roots/list_changed")
        for server in servers.values():
            server.wait_heard("notifications/roots/list_changed")


def test_questions_wait_for_the_client_to_confirm_the_handshake(tmp_path: Path) -> None:
    early = rule("notifications/initialized", question(1, "roots/list"), question(2, "ping"))
    server = Scripted(tmp_path, early)
    with gateway(tmp_path, {"only": server.command}) as client:
        params = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}}
        client.request("initialize", params)
        # The ping is answered, so the question before it has come as far as it may.
        eventually(lambda: [a["id"] for a in server.answers()] == [2], "the answer to the ping")
        client.modern("server/discover")
        assert not [m for m in client.seen if m.get("method") == "roots/list"]
        client.notify("notifications/initialized")
        reply(client, client.wait_method("roots/list"), {"roots": []})
        eventually(lambda: [a["id"] for a in server.answers()] == [2, 1], "the roots")
