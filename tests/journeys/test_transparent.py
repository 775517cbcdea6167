"""A transparent profile: client and server meet as if nothing stood between them."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.running import running
from tests.harness import MODERN_META, LineClient, Message, read_events
from tests.journeys.clients import ModernClient, SessionClient
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer
from tests.journeys.scripted_http_server import modern as web_server
from tests.journeys.scripts import Scripted, failure, gateway, note, question, result, rule, text

PROFILE: Final[Message] = {"default": {"servers": ["only"], "transparent": True}}
CAPABILITIES: Final[Message] = {
    "tools": {"listChanged": True},
    "logging": {},
    "experimental": {"vendor/x": {"on": 1}},
    "extensions": {"com.example/unknown": {"deep": True}},
}
ABOUT: Final[Message] = {
    "protocolVersion": "2025-11-25",
    "capabilities": CAPABILITIES,
    "serverInfo": {"name": "the-server", "version": "7", "title": "Itself"},
    "instructions": "Ask nicely.",
    "vendor": {"kept": 1},
}
CLIENT: Final[Message] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"experimental": {"a": {}}, "extensions": {"com.example/unknown": {"b": 2}}},
    "clientInfo": {"name": "the-client", "version": "3"},
}


def scripted(path: Path, *rules: Message) -> Scripted:
    return Scripted(path, *rules, rule("initialize", result(ABOUT)))


def meet(client: LineClient) -> Any:
    answer = client.request("initialize", CLIENT)
    client.notify("notifications/initialized")
    return answer["result"]


def test_a_client_is_told_who_the_server_is_and_the_server_who_the_client_is(
    tmp_path: Path,
) -> None:
    server = scripted(tmp_path)
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        assert meet(client) == ABOUT
    (hello,) = server.heard("initialize")
    assert hello["params"] == CLIENT
    assert not server.heard("server/discover")


def test_lists_pass_page_by_page_and_nobody_else_asks_for_them(tmp_path: Path) -> None:
    first = {"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": "theirs", "vendor": 1}
    second = {"tools": [{"name": "b"}], "_meta": {"x": 1}}
    server = scripted(
        tmp_path,
        rule("tools/list", result(second), where={"cursor": "theirs"}),
        rule("tools/list", failure({"code": -32602, "message": "No"}), where={"cursor": "odd"}),
        rule("tools/list", result(first)),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        meet(client)
        assert client.request("tools/list")["result"] == first
        assert client.request("tools/list", {"cursor": "theirs"})["result"] == second
        refused = client.request("tools/list", {"cursor": "odd"})["error"]
        assert refused == {"code": -32602, "message": "No"}
    assert len(server.heard("tools/list")) == 3


def test_a_change_of_a_list_is_told_whether_or_not_anything_differs(tmp_path: Path) -> None:
    changed = "notifications/tools/list_changed"
    server = scripted(tmp_path, rule("tools/call", note(changed), result(text("ok"))))
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        meet(client)
        client.call("work")
        client.wait_method(changed)


def test_methods_and_notifications_that_no_revision_has_pass_both_ways(tmp_path: Path) -> None:
    server = scripted(
        tmp_path,
        rule("vendor/do", question("q", "vendor/ask", {"why": 1}), keep="call"),
        rule(
            "answer", note("vendor/told", {"n": 2}), '{"jsonrpc":"2.0","id":$call,"result":{"z":0}}'
        ),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        meet(client)
        asked = client.start("vendor/do", {"what": [1, 2]})
        question_ = client.wait_method("vendor/ask")
        assert question_["params"] == {"why": 1}
        client.send({"jsonrpc": "2.0", "id": question_["id"], "result": {"because": True}})
        assert client.answer(asked)["result"] == {"z": 0}
        assert client.wait_method("vendor/told")["params"] == {"n": 2}
        client.notify("vendor/heard", {"m": 3})
        client.notify("notifications/roots/list_changed")
        assert server.wait_heard("vendor/heard")["params"] == {"m": 3}
        server.wait_heard("notifications/roots/list_changed")
    (heard,) = server.heard("vendor/do")
    assert heard["params"] == {"what": [1, 2]}
    assert server.answers()[-1]["result"] == {"because": True}


def test_what_a_client_does_not_declare_it_refuses_itself(tmp_path: Path) -> None:
    own = {"code": -32600, "message": "not supported here"}
    server = scripted(
        tmp_path,
        rule("tools/call", question("q", "sampling/createMessage", {"messages": []}), keep="call"),
        rule("answer", '{"jsonrpc":"2.0","id":$call,"result":{"content":[]}}'),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        meet(client)
        call = client.start("tools/call", {"name": "work", "arguments": {}})
        asked = client.wait_method("sampling/createMessage")
        client.send({"jsonrpc": "2.0", "id": asked["id"], "error": own})
        client.answer(call)
    assert server.answers()[-1]["error"] == own


def test_the_level_of_logs_is_the_servers_to_keep(tmp_path: Path) -> None:
    log = note("notifications/message", {"level": "debug", "data": "all of it", "logger": "x"})
    server = scripted(
        tmp_path,
        rule("logging/setLevel", failure({"code": -32601, "message": "Never"}), once=True),
        rule("logging/setLevel", result({})),
        rule("tools/call", log, result(text("ok"))),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        meet(client)
        refused = client.request("logging/setLevel", {"level": "error"})["error"]
        assert refused == {"code": -32601, "message": "Never"}
        assert client.request("logging/setLevel", {"level": "error"})["result"] == {}
        client.call("work")
        told = client.wait_method("notifications/message")["params"]
        assert told == {"level": "debug", "data": "all of it", "logger": "x"}
    assert len(server.heard("logging/setLevel")) == 2


def test_a_server_that_does_not_start_ends_the_handshake_with_a_clear_error(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", "raise SystemExit(3)"]
    with gateway(tmp_path, {"only": command}, profiles=PROFILE) as client:
        error = client.request("initialize", CLIENT)["error"]
        assert error["code"] == -32000
        assert error["message"].startswith("Server 'only' is not running: ")
        assert "3" in error["message"]


def test_what_passes_is_recorded_and_the_server_is_started_again(tmp_path: Path) -> None:
    server = scripted(
        tmp_path,
        rule("tools/call", exit=9, run=1),
        rule("tools/call", result(text("again"))),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        meet(client)
        assert "error" in client.call("work")
        client.wait_method("notifications/tools/list_changed")
        assert client.call("work")["result"] == text("again")
        client.finish()
    calls = [e for e in read_events(tmp_path / "state") if e["event_type"] == "gateway.tool_call"]
    assert [e["status"] for e in calls if e["status"] != "pending"] == ["failure", "success"]
    assert [hello["params"]["clientInfo"] for hello in server.heard("initialize")] == [
        CLIENT["clientInfo"],
        CLIENT["clientInfo"],
    ]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-11-25"])
def test_results_are_what_the_list_has_promised_whatever_the_revision(
    tmp_path: Path, revision: str
) -> None:
    tool = {"name": "add", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}}
    link = {"type": "resource_link", "uri": "a://1", "name": "one"}
    outcome = {"content": [link, {"type": "new"}], "structuredContent": [3], "vendor": 1}
    server = scripted(
        tmp_path, rule("tools/list", result({"tools": [tool]})), rule("tools/call", result(outcome))
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        client.initialize(revision)
        assert client.request("tools/list")["result"]["tools"] == [tool]
        for _ in range(2):
            assert client.call("add")["result"] == outcome


def test_what_a_server_does_not_know_is_asked_for_once_and_looked_up_by_nobody(
    tmp_path: Path,
) -> None:
    missing = {"code": -32002, "message": "Resource not found"}
    server = scripted(
        tmp_path, rule("resources/read", failure(missing)), rule("tools/call", failure(missing))
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        meet(client)
        for _ in range(2):
            assert client.request("resources/read", {"uri": "x://none"})["error"] == missing
            assert client.call("none")["error"] == missing
    assert not [line for line in server.lines if b"/list" in line]


# Without a session.

FIRST: Final = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}
STAMP: Final = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


def modern(path: Path, *rules: Message) -> Scripted:
    done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return Scripted(
        path,
        *rules,
        rule("server/discover", result({**FIRST, **done})),
        rule("tools/list", result({"tools": [], **done})),
        rule("tools/call", result({"resultType": "complete", **text("ok")})),
    )


def tagged(method: str, of: str, more: str = "") -> str:
    """A notification that a server sends on a subscription."""
    return note(method, f'{{"_meta":{{"{STAMP}":${of}}}{more}}}')


def test_a_subscription_is_the_servers_to_honour_to_tell_on_and_to_end(tmp_path: Path) -> None:
    wishes = {"toolsListChanged": True, "com.example/x": {"deep": 1}}
    end = '{"jsonrpc":"2.0","id":$listen,"result":{"resultType":"complete","bye":1}}'
    server = modern(
        tmp_path,
        rule(
            "subscriptions/listen",
            tagged(ACKNOWLEDGED, "id", ',"notifications":{"com.example/x":true}'),
            tagged("notifications/vendor/z", "id", ',"q":1'),
            keep="listen",
        ),
        rule("vendor/end", end, result({"resultType": "complete"})),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        client.modern("server/discover")
        asked = client.start(
            "subscriptions/listen", {"notifications": wishes, "_meta": MODERN_META}, id="mine"
        )
        told = [client.wait_method(method) for method in (ACKNOWLEDGED, "notifications/vendor/z")]
        client.modern("vendor/end")
        last = client.answer(asked)["result"]
    assert [each["params"] for each in told] == [
        {"_meta": {STAMP: "mine"}, "notifications": {"com.example/x": True}},
        {"_meta": {STAMP: "mine"}, "q": 1},
    ]
    assert (last["bye"], last["_meta"][STAMP]) == (1, "mine")
    (heard,) = server.heard("subscriptions/listen")
    assert heard["params"]["notifications"] == wishes


def test_one_that_its_client_ends_is_ended_at_the_server(tmp_path: Path) -> None:
    server = modern(
        tmp_path,
        rule("subscriptions/listen", tagged(ACKNOWLEDGED, "id", ',"notifications":{}')),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        params = {"notifications": {}, "_meta": MODERN_META}
        asked = client.start("subscriptions/listen", params)
        client.wait_method(ACKNOWLEDGED)
        client.notify("notifications/cancelled", {"requestId": asked})
        cancelled = server.wait_heard("notifications/cancelled")
    (heard,) = server.heard("subscriptions/listen")
    assert cancelled["params"] == {"requestId": heard["id"]}


def test_one_outlives_a_restart_of_its_server(tmp_path: Path) -> None:
    changed = "notifications/tools/list_changed"
    server = modern(
        tmp_path,
        rule("tools/call", exit=9, run=1),
        rule(
            "subscriptions/listen",
            tagged(ACKNOWLEDGED, "id", ',"notifications":{"toolsListChanged":true}'),
        ),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        params = {"notifications": {"toolsListChanged": True}, "_meta": MODERN_META}
        client.start("subscriptions/listen", params, id=7)
        client.wait_method(ACKNOWLEDGED)
        client.modern("tools/call", {"name": "work", "arguments": {}})
        # Nobody knows what it would have told meanwhile.
        assert client.wait_method(changed)["params"]["_meta"] == {STAMP: 7}
        acknowledged = [m for m in client.seen if m.get("method") == ACKNOWLEDGED]
    assert len(acknowledged) == 1
    assert len(server.heard("subscriptions/listen")) == 2


def test_what_no_revision_has_passes_both_ways_without_a_session_too(tmp_path: Path) -> None:
    server = modern(
        tmp_path,
        rule("tools/call", note("vendor/bare"), result({"resultType": "complete", **text("ok")})),
        rule("vendor/told", note("notifications/vendor/alone", {"n": 2})),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        # The server is started for the first of these, and hears the second all the same.
        client.start("server/discover", {"_meta": MODERN_META})
        client.notify("notifications/vendor/early", {"m": 1, "_meta": MODERN_META})
        client.modern("tools/call", {"name": "work", "arguments": {}})
        assert "params" not in client.wait_method("vendor/bare")
        client.notify("vendor/told")
        assert client.wait_method("notifications/vendor/alone")["params"] == {"n": 2}
    (early,) = server.heard("notifications/vendor/early")
    assert early["params"] == {"m": 1, "_meta": MODERN_META}


def test_over_http_what_is_said_of_a_request_reaches_who_made_it(tmp_path: Path) -> None:
    def answer(heard: ReceivedRequest, back: Reply) -> None:
        if heard.id is None:
            back.whole(202)
            return
        back.stream()
        back.event({"method": "notifications/vendor/x", "params": {"c": 3}})
        back.event({"id": heard.id, "result": {"resultType": "complete", **text("ok")}})
        back.end()

    with (
        ScriptedHttpServer(web_server(answer, "work")) as web,
        serving(tmp_path, {"only": {"url": web.url}}, profiles=PROFILE) as site,
    ):
        new, old = ModernClient(site), SessionClient(site)
        for client in (new, old):
            client.call("work")
            told = [each for each in client.seen if each["method"] == "notifications/vendor/x"]
            assert [each["params"] for each in told] == [{"c": 3}]
        said = {"jsonrpc": "2.0", "method": "vendor/new", "params": {"_meta": MODERN_META}}
        assert site.post(said, ("MCP-Protocol-Version", "2026-07-28")).status == 202
        assert web.wait_of("vendor/new").message == said
        old.notify("vendor/old", {"z": 1})
        assert web.wait_of("vendor/old").message["params"] == {"z": 1}
        # What the newer era has no word for stays on this side.
        old.notify("notifications/roots/list_changed")
        old.notify("vendor/last")
        web.wait_of("vendor/last")
        assert not web.of("notifications/roots/list_changed")


@pytest.mark.parametrize("method", ["tools/list", "vendor/do"])
def test_a_modern_client_of_a_legacy_server_gets_what_its_era_can_say(
    tmp_path: Path, method: str
) -> None:
    server = scripted(
        tmp_path,
        rule("tools/list", result({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]})),
        rule("vendor/do", result({"z": 1})),
    )
    with gateway(tmp_path, {"only": server.command}, profiles=PROFILE) as client:
        about = client.modern("server/discover")["result"]
        assert about["capabilities"] == CAPABILITIES
        assert about["instructions"] == "Ask nicely."
        stamp = about["_meta"]["io.modelcontextprotocol/serverInfo"]
        assert stamp == ABOUT["serverInfo"]
        answer = client.modern(method)["result"]
        assert answer["resultType"] == "complete"
        assert answer["_meta"]["io.modelcontextprotocol/serverInfo"] == ABOUT["serverInfo"]
        assert [each["name"] for each in answer.get("tools", ())] == ["a"] * (method[0] == "t")


def over_stdio(options: list[str]) -> Any:
    client = LineClient([sys.executable, "-m", "anyport", "stdio", *options])
    try:
        return meet(client)
    finally:
        client.kill()


def over_http(options: list[str]) -> Any:
    with running(*options) as there:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
        return HttpGateway(there, Path(options[1])).post(asked).ending()["result"]


@pytest.mark.parametrize("meeting", [over_stdio, over_http])
def test_a_command_line_is_enough(tmp_path: Path, meeting: Callable[[list[str]], Message]) -> None:
    server = scripted(tmp_path)
    options = ["--state-dir", str(tmp_path / "state"), "--transparent", "--", *server.command]

    told = meeting(options)

    assert json.dumps(told) == json.dumps(ABOUT)
    assert CLIENT in [hello["params"] for hello in server.heard("initialize")]


# What stays.


def limited(server: Scripted, **limits: int) -> Message:
    command, *args = server.command
    return {"only": {"command": command, "args": args, **limits}}


def test_an_answer_that_is_too_large_is_refused(tmp_path: Path) -> None:
    server = scripted(
        tmp_path,
        rule("tools/call", result(text("x" * 70_000)), where={"name": "large"}),
        rule("vendor/do", result({"more": "x" * 70_000})),
        rule("tools/call", result(text("ok"))),
    )
    servers = limited(server, maxMessageBytes=65_536)
    with gateway(tmp_path, servers, profiles=PROFILE) as client:
        meet(client)
        for answer in (client.call("large"), client.request("vendor/do")):
            words = answer["error"]["message"]
            assert re.fullmatch(
                r"Server 'only' answered with 70\d\d\d bytes; the limit is 65536", words
            )
        assert client.call("small")["result"] == text("ok")


def test_more_calls_than_a_server_is_given_are_refused(tmp_path: Path) -> None:
    end = '{"jsonrpc":"2.0","id":$call,"result":{"content":[]}}'
    server = scripted(
        tmp_path,
        rule("tools/call", where={"name": "wait"}, keep="call"),
        rule("vendor/end", end),
        rule("tools/call", result(text("ok"))),
    )
    servers = limited(server, callsMax=1, queueMax=0)
    with gateway(tmp_path, servers, profiles=PROFILE) as client:
        meet(client)
        waiting = client.start("tools/call", {"name": "wait", "arguments": {}})
        server.wait_heard("tools/call")

        refused = client.call("work")["error"]
        assert refused["message"] == "Server 'only' is busy: open calls: 1, waiting: 0"

        client.notify("vendor/end")
        assert client.answer(waiting)["result"] == {"content": []}
        assert client.call("work")["result"] == text("ok")
    assert len(server.heard("tools/call")) == 2
