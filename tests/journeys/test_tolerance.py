"""What clients and servers in the wild write that no revision has: taken, and passed on."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import LineClient, Message
from tests.journeys.scripting import Scripted, gateway, note, question, result, rule, text, tools

PROGRESS: Final = "notifications/progress"
CALL: Final[Message] = {"name": "only__work", "arguments": {}}
STEP: Final = '{"type":"step","label":"Fetching...","percentage":50}'


@pytest.mark.parametrize("modern", [True, False])
def test_progress_that_is_no_number_comes_through_every_time(tmp_path: Path, modern: bool) -> None:
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
            values = [2, json.loads(STEP), json.loads(STEP), 3]
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


def _report(progress: Any) -> str:
    return note(PROGRESS, f'{{"progressToken":$token,"progress":{progress}}}')


def _shake_hands_barely(client: LineClient) -> None:
    hello = {"protocolVersion": "2024-11-05", "capabilities": {"sampling": {}}, "more": 1}
    client.request("initialize", hello)
    client.notify("initialized")
