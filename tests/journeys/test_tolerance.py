"""What clients and servers in the wild write that no revision has: taken, and passed on."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import LineClient, Message
from tests.journeys.scripts import Scripted, gateway, note, question, result, rule, text, tools

PROGRESS: Final = "notifications/progress"
CALL: Final[Message] = {"name": "only__work", "arguments": {}}
STEP: Final = '{"type":"step","label":"Fetching...","percentage":50}'


@pytest.mark.parametrize("modern", [True, False])
def test_progress_comes_through_whatever_its_number_says(tmp_path: Path, modern: bool) -> None:
    server = Scripted(
        tmp_path,
        tools("work"),
        rule("tools/call", *map(_report, (2, STEP, STEP, 1, 3)), result(text("ok"))),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        for _ in range(2):
            client.seen.clear()
            if modern:
                client.modern("tools/call", CALL, progressToken=7)
            else:
                client.initialize()
                client.call("only__work", progressToken=7)
            reports = [told["params"] for told in client.seen if told.get("method") == PROGRESS]
            values = [2, json.loads(STEP), json.loads(STEP), 1, 3]
            assert reports == [{"progressToken": 7, "progress": value} for value in values]


def test_a_bare_confirmation_extra_members_and_odd_progress_of_a_client(tmp_path: Path) -> None:
    asking = {"messages": [], "maxTokens": 1, "_meta": {"progressToken": "mine"}}
    server = Scripted(
        tmp_path,
        tools("work"),
        rule("tools/call", question("s", "sampling/createMessage", asking), keep="call"),
        rule("answer", '{"vendor":1,"jsonrpc":"2.0","id":$call,"result":{"content":[],"more":1}}'),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        _shake_hands_barely(client)
        call = client.start("tools/call", CALL)
        asked = client.wait_method("sampling/createMessage")
        token = asked["params"]["_meta"]["progressToken"]
        params = f'{{"progressToken":{json.dumps(token)},"progress":{STEP}}}'
        client.send(f"{note(PROGRESS, params)}\n".encode())
        answered = {"jsonrpc": "2.0", "id": asked["id"], "result": {"extra": 1}, "vendor": 1}
        client.send(answered)
        assert client.answer(call)["result"] == {"content": [], "more": 1}
    (progress,) = server.heard(PROGRESS)
    assert progress["params"] == {"progressToken": "mine", "progress": json.loads(STEP)}
    assert server.answers()[-1]["result"] == {"extra": 1}


def test_templates_that_no_capability_tells_of_are_shown_and_asked_for_once(
    tmp_path: Path,
) -> None:
    """The official SDKs declare `resources` only where there is a list of them."""
    listed = {"resourceTemplates": [{"name": "t", "uriTemplate": "x:{y}"}]}
    read = {"contents": [{"uri": "x:1", "text": "one"}]}
    server = Scripted(
        tmp_path,
        tools("work"),
        rule("resources/templates/list", result(listed)),
        rule("resources/read", result(read)),
        capabilities={"tools": {}},
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        for _ in range(3):
            found = client.request("resources/templates/list")["result"]["resourceTemplates"]
            assert [template["uriTemplate"] for template in found] == ["x:{y}"]
            assert client.request("resources/list")["result"]["resources"] == []
        assert client.request("resources/read", {"uri": "x:1"})["result"] == read
        asked = client.modern("resources/templates/list")["result"]["resourceTemplates"]
        assert [template["uriTemplate"] for template in asked] == ["x:{y}"]
    assert len(server.heard("resources/templates/list")) == 1
    assert server.heard("resources/list") == []


def _report(progress: Any) -> str:
    return note(PROGRESS, f'{{"progressToken":$token,"progress":{progress}}}')


def _shake_hands_barely(client: LineClient) -> None:
    hello = {"protocolVersion": "2024-11-05", "capabilities": {"sampling": {}}, "more": 1}
    client.request("initialize", hello)
    client.notify("initialized")


@pytest.mark.parametrize("modern", [True, False])
def test_no_client_that_ignores_case_reads_something_else_than_the_gateway(
    tmp_path: Path, modern: bool
) -> None:
    report = '{"ProgressToken":9,"progressToken":$token,"progress":1}'
    said = '{"content":[],"IsError":true,"ResultType":"input_required","_meta":{"TraceParent":"x"}}'
    server = Scripted(
        tmp_path, tools("work"), rule("tools/call", note(PROGRESS, report), result(said))
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        if modern:
            answer = client.modern("tools/call", CALL, progressToken=7)
        else:
            client.initialize()
            answer = client.call("only__work", progressToken=7)
        (told,) = [told["params"] for told in client.seen if told.get("method") == PROGRESS]

    assert told == {"progressToken": 7, "progress": 1}
    assert {name.lower() for name in answer["result"]} <= {"content", "resulttype", "_meta"}
    assert answer["result"].get("resultType", "complete") == "complete"
    assert "TraceParent" not in answer["result"].get("_meta", {})
