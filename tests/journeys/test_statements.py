"""Legacy sessions and the servers behind them: statements that gateways have been seen to break."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, Message, read_events, transparent
from tests.journeys.scripts import (
    Scripted,
    eventually,
    gateway,
    names,
    note,
    question,
    result,
    rule,
    said,
    status,
    text,
    tools,
)

PING: Message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LIST: Message = {"jsonrpc": "2.0", "id": "two", "method": "tools/list"}
INITIALIZE: Message = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "initialize",
    "params": {"protocolVersion": "2025-03-26", "capabilities": {}},
}


# Batches


def test_a_batch_is_answered_in_the_revision_that_has_them(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("x"))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize("2025-03-26")
        client.send([PING, LIST, {"jsonrpc": "2.0", "method": "notifications/initialized"}])
        answers: Any = client.next()
        assert {answer["id"] for answer in answers} == {1, "two"}
        (listed,) = [answer for answer in answers if answer["id"] == "two"]
        assert [tool["name"] for tool in listed["result"]["tools"]][2:] == ["only__x"]
        client.send(PING)
        assert client.next() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_batch_is_refused_in_the_revisions_that_have_none(tmp_path: Path) -> None:
    with gateway(tmp_path, {"only": Scripted(tmp_path).command}) as client:
        for revision in ("2024-11-05", "2025-06-18", "2025-11-25"):
            client.initialize(revision)
            client.send([PING, LIST])
            answer = client.next()
            assert isinstance(answer, dict)
            assert answer["error"]["code"] == -32600, revision
            assert client.request("ping")["result"] == {}


def test_a_handshake_in_a_batch_is_refused_and_the_rest_is_answered(tmp_path: Path) -> None:
    with gateway(tmp_path, {"only": Scripted(tmp_path).command}) as client:
        client.send([INITIALIZE, PING])
        answers: Any = client.next()
    by_id = {answer["id"]: answer for answer in answers}
    assert by_id[3]["error"]["code"] == -32600
    assert by_id[1]["result"] == {}


# Results


def test_empty_results_are_exactly_empty(tmp_path: Path) -> None:
    for option in ("--modern-only", "--legacy-only"):
        path = tmp_path / option
        with gateway(path, {"demo": [*DEMO, option]}) as client:
            client.initialize("2025-06-18")
            uri = {"uri": "demo://counter"}
            assert client.request("ping")["result"] == {}
            assert client.request("logging/setLevel", {"level": "error"})["result"] == {}
            assert client.request("resources/subscribe", uri)["result"] == {}
            assert client.request("resources/unsubscribe", uri)["result"] == {}


def test_one_oddly_described_tool_does_not_spoil_the_list(tmp_path: Path) -> None:
    odd = [
        {"name": "typeless", "inputSchema": {}},
        {"name": "bare"},
        {
            "name": "array",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "array", "items": {}},
        },
        "not even an object",
        {"title": "without a name"},
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]
    server = Scripted(
        tmp_path, rule("tools/list", result({"tools": odd})), rule("tools/call", result(text("ok")))
    )
    with gateway(tmp_path, {"odd": server.command}) as client:
        client.initialize("2025-06-18")
        assert names(client)[2:] == ["odd__typeless", "odd__bare", "odd__array", "odd__plain"]
        listed = client.request("tools/list")["result"]["tools"]
        assert all(tool["inputSchema"]["type"] == "object" for tool in listed)
        assert not any("outputSchema" in tool for tool in listed)
        assert said(client.call("odd__typeless")) == "ok"
        (warning,) = status(client)["backends"]["odd"]["warnings"]
        assert "2 of its tools" in warning


def test_older_clients_get_newer_content_in_kinds_they_know(tmp_path: Path) -> None:
    sound = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "a:b", "name": "it"}
    answered = {"content": [sound, link], "structuredContent": [1]}
    server = Scripted(tmp_path, tools("new"), rule("tools/call", result(answered)))
    with gateway(tmp_path, {"only": server.command}) as client:
        for revision, kinds in (
            ("2024-11-05", ["resource", "text"]),
            ("2025-03-26", ["audio", "text"]),
            ("2025-06-18", ["audio", "resource_link"]),
            ("2025-11-25", ["audio", "resource_link"]),
        ):
            client.initialize(revision)
            told = client.call("only__new")["result"]
            assert [block["type"] for block in told["content"]] == [*kinds, "text"], revision
            assert told["content"][-1]["text"] == "[1]"
            assert "structuredContent" not in told


def test_cancelling_a_call_reaches_its_server_under_the_servers_own_id(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("wait"), rule("tools/call"))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        ids = [client.start("tools/call", {"name": "only__wait"}) for _ in range(3)]
        second = server.wait_heard("tools/call", 2)["id"]
        server.wait_heard("tools/call", 3)
        client.notify("notifications/cancelled", {"requestId": ids[1], "reason": "enough"})
        heard = server.wait_heard("notifications/cancelled")
        assert heard["params"] == {"requestId": second, "reason": "enough"}
        client.request("ping")
        assert ids[1] not in [message.get("id") for message in client.seen]
    events = read_events(tmp_path / "state")
    assert [e["status"] for e in events if e["event_type"] == "gateway.tool_call"].count(
        "cancelled"
    ) == 1


def test_cancelling_what_is_not_open_is_ignored(tmp_path: Path) -> None:
    with gateway(tmp_path, {"only": Scripted(tmp_path).command}) as client:
        client.initialize()
        for request_id in ("nobody", 99, None, {"a": 1}):
            client.notify("notifications/cancelled", {"requestId": request_id})
        client.notify("notifications/cancelled")
        assert client.request("ping")["result"] == {}
        assert client.finish() == 0
        assert len(client.seen) == 2


# Finding out what a server speaks


def test_a_server_that_exits_when_probed_is_started_afresh(tmp_path: Path) -> None:
    with gateway(tmp_path, {"frail": [*DEMO, "--legacy-only", "--die-on-discover"]}) as client:
        client.initialize()
        assert said(client.call("frail__echo", {"text": "hi"})) == "hi"
        report = status(client)["backends"]["frail"]
    assert (report["status"], report["era"]) == ("running", "legacy")


@pytest.mark.slow
def test_a_server_that_falls_silent_when_probed_and_dies_of_the_next_line(tmp_path: Path) -> None:
    handshake = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}
    server = Scripted(
        tmp_path,
        rule("server/discover"),
        rule("initialize", run=1, exit=1),
        rule("initialize", result(handshake)),
        tools("x"),
    )
    with gateway(tmp_path, {"brittle": server.command}) as client:
        client.initialize()
        eventually(lambda: server.starts == 2, "a fresh process")
        eventually(lambda: names(client)[2:] == ["brittle__x"], "its tools")
        assert len(server.heard("server/discover")) == 1
        assert status(client)["backends"]["brittle"]["revision"] == "2024-11-05"


def test_a_handshake_answer_that_repeats_the_method_is_an_answer(tmp_path: Path) -> None:
    shaken = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "x"}}
    line = f'{{"jsonrpc":"2.0","id":$id,"method":"initialize","result":{json.dumps(shaken)}}}'
    server = Scripted(tmp_path, rule("initialize", line))
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        eventually(
            lambda: status(client)["backends"]["only"]["revision"] == "2025-03-26", "the handshake"
        )


# Questions that nobody caused


def test_roots_asked_for_right_after_the_handshake_are_brought(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path, rule("notifications/initialized", question("r", "roots/list")), tools("x")
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities={"roots": {"listChanged": True}})
        asked = client.wait_method("roots/list")
        roots = {"roots": [{"uri": "file:///project", "name": "project"}]}
        client.send({"jsonrpc": "2.0", "id": asked["id"], "result": roots})
        eventually(lambda: bool(server.answers()), "the roots")
        assert names(client)[2:] == ["only__x"]
    assert server.answers() == [{"jsonrpc": "2.0", "id": "r", "result": roots}]


def test_a_server_that_waits_for_roots_does_not_stall_the_others(tmp_path: Path) -> None:
    # The client never answers; the other server's tools are listed and called all the same.
    patient = Scripted(
        tmp_path, rule("notifications/initialized", question(1, "roots/list")), name="patient"
    )
    quick = Scripted(tmp_path, tools("x"), rule("tools/call", result(text("ok"))), name="quick")
    servers = {"patient": patient.command, "quick": quick.command}
    with gateway(tmp_path, servers) as client:
        client.initialize(capabilities={"roots": {}})
        client.wait_method("roots/list")
        assert said(client.call("quick__x")) == "ok"
        assert client.finish() == 0


def test_a_server_may_not_ask_what_the_client_never_offered(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path, rule("notifications/initialized", question("r", "roots/list")), tools("x")
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize(capabilities={})
        eventually(lambda: bool(server.answers()), "the refusal")
        assert not [m for m in client.seen if m.get("method") == "roots/list"]
    (answer,) = server.answers()
    assert answer["error"]["code"] == -32601


def test_the_demonstration_server_gets_its_roots(tmp_path: Path) -> None:
    with gateway(tmp_path, {"demo": [*DEMO, "--legacy-only", "--ask-roots"]}) as client:
        client.initialize(capabilities={"roots": {}})
        asked = client.wait_method("roots/list")
        answer = {"roots": [{"uri": "file:///here"}]}
        client.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})

        def told() -> bool:
            lines = [e["metadata"].get("line", "") for e in read_events(tmp_path / "state")]
            return any("file:///here" in line for line in lines)

        eventually(told, "the server wrote the roots to stderr")


# Lists of servers that come and go


def test_an_empty_cursor_is_followed(tmp_path: Path) -> None:
    options = ["--page-size", "4", "--empty-cursor"]
    with gateway(tmp_path, {"demo": [*DEMO, *options], "whole": DEMO}) as client:
        listed = names(client)[2:]
    paged = [name for name in listed if name.startswith("demo__")]
    whole = [name for name in listed if name.startswith("whole__")]
    assert len(paged) > 8
    assert [n.removeprefix("demo__") for n in paged] == [n.removeprefix("whole__") for n in whole]


def test_a_cursor_that_never_ends_is_cut(tmp_path: Path) -> None:
    offers = [{"name": "x", "inputSchema": {"type": "object"}}]
    page = result({"tools": offers, "nextCursor": "again"})
    server = Scripted(tmp_path, rule("tools/list", page))
    with gateway(tmp_path, {"loop": server.command}) as client:
        assert names(client)[2:] == ["loop__x"]
    assert len(server.heard("tools/list")) == 2


def test_an_outage_shortens_no_list_and_a_plain_recovery_changes_none(tmp_path: Path) -> None:
    frail = Scripted(tmp_path, tools("x", "die"), rule("tools/call", exit=1), name="frail")
    solid = Scripted(tmp_path, tools("y"), name="solid")
    with gateway(tmp_path, {"frail": frail.command, "solid": solid.command}) as client:
        client.initialize()
        before = names(client)
        error = client.call("frail__die")["error"]
        assert error["code"] == -32000
        assert "frail" in error["message"]
        assert names(client) == before
        eventually(lambda: frail.starts == 2, "it is started again")
        frail.wait_heard("tools/list", 2)
        eventually(lambda: status(client)["backends"]["frail"]["status"] == "running", "it runs")
        assert names(client) == before
        assert client.finish() == 0
        assert not [m for m in client.seen if "list_changed" in m.get("method", "")]


def test_a_recovery_with_other_tools_is_told_once(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        {**tools("x"), "run": 1},
        tools("x", "y"),
        rule("tools/call", exit=1),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        assert names(client)[2:] == ["only__x"]
        client.call("only__x")
        client.wait_method("notifications/tools/list_changed")
        assert names(client)[2:] == ["only__x", "only__y"]
        assert client.finish() == 0
        changes = [m for m in client.seen if "list_changed" in m.get("method", "")]
    assert len(changes) == 1


def test_the_last_known_list_outlives_the_gateway(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("x"))
    with gateway(tmp_path, {"only": server.command}) as client:
        assert names(client)[2:] == ["only__x"]
        assert client.finish() == 0
    Path(server.command[-2]).unlink()  # Without its script the server cannot start any more.
    with gateway(tmp_path, {"only": server.command}) as client:
        assert names(client)[2:] == ["only__x"]
        report = status(client)["backends"]["only"]
        assert report["list"] == "last known"
        error = client.call("only__x")["error"]
        assert "only" in error["message"]


def test_a_server_slower_than_the_lists_is_told_of_when_it_comes(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = Scripted(tmp_path, {**tools("x"), "until": str(gate)}, name="slow")
    quick = Scripted(tmp_path, tools("y"), name="quick")
    servers = {"slow": slow.command, "quick": quick.command}
    with gateway(tmp_path, servers, gateway={"listSeconds": 0.1}) as client:
        client.initialize()
        eventually(lambda: names(client)[2:] == ["quick__y"], "the quick one is listed alone")
        gate.touch()
        assert client.next()["method"] == "notifications/tools/list_changed"
        assert names(client)[2:] == ["slow__x", "quick__y"]


def test_a_transparent_list_keeps_what_the_server_adds_to_it(tmp_path: Path) -> None:
    listed = '{"vendor": {"a": 1}, "tools": [{"name": "x", "inputSchema": {}, "more": 1.50}]}'
    server = Scripted(tmp_path, rule("tools/list", result(listed)), note_rule())
    profiles = transparent("only")
    with gateway(tmp_path, {"only": server.command}, profiles=profiles) as client:
        assert client.request("tools/list")["result"] == json.loads(listed)
        assert b'{"name": "x", "inputSchema": {}, "more": 1.50}' in client.lines[-1]


def note_rule() -> Message:
    """A server that claims a change at once; the list read again is the same, so nobody is told."""
    return rule("notifications/initialized", note("notifications/tools/list_changed"))
