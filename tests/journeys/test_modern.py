"""Modern clients: each request stands alone, whatever stands behind the gateway.

Every test is a statement that gateways have been seen to get wrong.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, MODERN_META, LineClient, Message
from tests.journeys.scripts import (
    Scripted,
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

META = "io.modelcontextprotocol/"
LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
ASKS_ALL: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineClient]:
    """A modern and a legacy server behind one gateway."""
    servers = {"new": [*DEMO, "--modern-only"], "old": [*DEMO, "--legacy-only"]}
    with gateway(tmp_path_factory.mktemp("modern"), servers) as opened:
        yield opened


def without(key: str) -> Message:
    return {name: value for name, value in MODERN_META.items() if name != META + key}


def test_a_client_need_not_say_who_it_is(client: LineClient) -> None:
    answer = client.request("tools/list", {"_meta": without("clientInfo")})
    assert answer["result"]["tools"]


@pytest.mark.parametrize("id", ["a", 7])
def test_a_client_must_say_what_it_can_do(client: LineClient, id: Any) -> None:
    answer = client.request("tools/list", {"_meta": without("clientCapabilities")}, id=id)
    assert answer["id"] == id
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "tasks/result"]
)
def test_methods_of_the_handshake_era_do_not_exist(client: LineClient, method: str) -> None:
    error = client.modern(method, {"level": "info", "uri": "demo://counter"})["error"]
    assert (error["code"], error["message"]) == (-32601, f"Method not found: {method}")


@pytest.mark.parametrize("version", ["2027-01-01", "2025-11-25", "junk"])
def test_an_unknown_revision_is_told_which_are_supported(client: LineClient, version: str) -> None:
    error = client.modern("tools/list", None, **{f"{META}protocolVersion": version})["error"]
    assert error["code"] == -32022
    assert error["data"]["requested"] == version
    discovered = client.modern("server/discover")["result"]["supportedVersions"]
    assert error["data"]["supported"]
    assert set(error["data"]["supported"]) <= set(discovered)


def test_discovery_does_not_wait_for_servers_that_are_still_starting(tmp_path: Path) -> None:
    silent = Scripted(tmp_path, rule("server/discover"))
    with gateway(tmp_path, {"silent": silent.command}) as opened:
        assert opened.modern("server/discover")["result"]["capabilities"]["tools"]
        assert status(opened)["backends"]["silent"]["status"] == "starting"


@pytest.mark.parametrize("method", [*LISTS, "server/discover"])
def test_every_list_says_how_long_it_keeps(client: LineClient, method: str) -> None:
    answer = client.modern(method)["result"]
    assert answer["resultType"] == "complete"
    assert answer["ttlMs"] >= 0
    assert answer["cacheScope"] in ("public", "private")


@pytest.mark.parametrize("server", ["new", "old"])
def test_every_resource_says_how_long_it_keeps(client: LineClient, server: str) -> None:
    answer = client.modern("resources/read", {"uri": f"{server}+demo://greeting"})["result"]
    assert answer["contents"][0]["text"].startswith("Hello")
    assert answer["ttlMs"] >= 0
    assert answer["cacheScope"] in ("public", "private")


def test_all_pages_of_a_list_share_one_scope(tmp_path: Path) -> None:
    with gateway(tmp_path, {"demo": [*DEMO, "--tools", "2100"]}) as opened:
        first = opened.modern("tools/list")["result"]
        second = opened.modern("tools/list", {"cursor": first["nextCursor"]})["result"]
    assert first["cacheScope"] == second["cacheScope"]
    assert len(first["tools"]) + len(second["tools"]) > 2100


def test_two_gateways_list_the_same_in_the_same_order(tmp_path: Path) -> None:
    lists = []
    for run, late in (("one", "a"), ("two", "b")):
        path = tmp_path / run
        # The servers answer in a different order in each run.
        servers = {
            name: Scripted(
                path,
                {**tools("z", "a", "m"), "sleep": 0.3 if name == late else 0},
                name=name,
            ).command
            for name in ("b", "a")
        }
        with gateway(path, servers) as opened:
            lists.append(opened.modern("tools/list")["result"]["tools"])
    assert lists[0] == lists[1]
    assert [tool["name"] for tool in lists[0]][2:] == [
        "b__z", "b__a", "b__m", "a__z", "a__a", "a__m",
    ]  # fmt: skip


def log_line(words: str) -> str:
    return note("notifications/message", {"level": "debug", "data": words})


def test_logs_reach_only_a_request_that_asked_for_its_level(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path, tools("work"), rule("tools/call", log_line("noise"), result(text("ok")))
    )
    with gateway(tmp_path, {"old": server.command}) as opened:
        quiet = opened.modern("tools/call", {"name": "old__work"})
        graver = opened.modern("tools/call", {"name": "old__work"}, **{f"{META}logLevel": "info"})
        assert said(quiet) == said(graver) == "ok"
        assert not [m for m in opened.seen if m.get("method") == "notifications/message"]
        opened.modern("tools/call", {"name": "old__work"}, **{f"{META}logLevel": "debug"})
        assert opened.wait_method("notifications/message")["params"]["data"] == "noise"


@pytest.mark.parametrize("id", ["stream", 41])
def test_a_stream_begins_with_what_it_will_tell(tmp_path: Path, id: Any) -> None:
    wishes = {
        "toolsListChanged": True,
        "resourceSubscriptions": ["demo://counter", "nobody://has/this"],
        "somethingElse": True,
    }
    with gateway(tmp_path, {"a": DEMO, "b": Scripted(tmp_path, tools("x")).command}) as opened:
        opened.modern("tools/list")
        params = {"notifications": wishes, "_meta": MODERN_META}
        opened.start("subscriptions/listen", params, id=id)
        first = opened.next()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["demo://counter"],
        }
        opened.modern("tools/call", {"name": "a__touch"})
        opened.modern("tools/call", {"name": "a__grow"})
        told = [
            first,
            opened.wait_method("notifications/resources/updated"),
            opened.wait_method("notifications/tools/list_changed"),
        ]
    for message in told:
        tag = message["params"]["_meta"][f"{META}subscriptionId"]
        assert (tag, type(tag)) == (id, type(id))


def test_a_change_of_tools_is_not_told_to_those_who_listen_for_prompts(tmp_path: Path) -> None:
    def listen(opened: LineClient, id: str, flag: str) -> None:
        params = {"notifications": {flag: True}, "_meta": MODERN_META}
        opened.start("subscriptions/listen", params, id=id)

    with gateway(tmp_path) as opened:
        opened.modern("tools/list")
        listen(opened, "prompts", "promptsListChanged")
        listen(opened, "tools", "toolsListChanged")
        opened.modern("tools/call", {"name": "demo__grow"})
        opened.wait_method("notifications/tools/list_changed")
        assert opened.finish() == 0
        changes = [m for m in opened.seen if m.get("method", "").endswith("list_changed")]
    assert [m["params"]["_meta"][f"{META}subscriptionId"] for m in changes] == ["tools"]


@pytest.mark.parametrize("server", ["new", "old"])
@pytest.mark.parametrize("tool", ["elicit", "sample", "roots"])
def test_a_modern_client_is_never_sent_a_request(
    client: LineClient, server: str, tool: str
) -> None:
    arguments = {"prompt": "hello"} if tool == "sample" else {}
    params = {"name": f"{server}__{tool}", "arguments": arguments}
    answer = client.modern("tools/call", params, **{f"{META}clientCapabilities": ASKS_ALL})
    assert "result" in answer or "error" in answer
    assert not [m for m in client.seen if "method" in m and "id" in m]


def test_a_legacy_server_may_ask_during_a_modern_call(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        tools("ask"),
        rule("tools/call", question("q", "elicitation/create", {"message": "?"}), keep="call"),
        rule("answer", result(text("went on")).replace("$id", "$call")),
    )
    with gateway(tmp_path, {"old": server.command}) as opened:
        asks = {f"{META}clientCapabilities": ASKS_ALL}
        asked = opened.modern("tools/call", {"name": "old__ask"}, **asks)["result"]
        assert asked["resultType"] == "input_required"
        ((key, put),) = asked["inputRequests"].items()
        params = {"message": "?", "mode": "form"}
        assert put == {"method": "elicitation/create", "params": params}
        responses = {key: {"action": "decline"}}
        back = {"inputResponses": responses, "requestState": asked["requestState"]}
        assert said(opened.modern("tools/call", {"name": "old__ask", **back}, **asks)) == "went on"
        assert not [m for m in opened.seen if "method" in m and "id" in m]
    (answer,) = server.answers()
    assert (answer["id"], answer["result"]) == ("q", {"action": "decline"})


def modern_server(path: Path, *rules: Message) -> Scripted:
    """A scripted server that speaks the newest revision."""
    discovered = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
    }
    return Scripted(path, rule("server/discover", result(discovered)), *rules)


@pytest.mark.parametrize(
    "declared", [{}, {"elicitation": {"form": {}}}, {"sampling": {}, "vendor": {"x": 1}}]
)
def test_a_modern_server_is_told_what_this_request_declared(
    tmp_path: Path, declared: Message
) -> None:
    done = rule("tools/call", result({"resultType": "complete", **text("ok")}))
    server = modern_server(tmp_path, tools("work"), done)
    with gateway(tmp_path, {"new": server.command}) as opened:
        key = f"{META}clientCapabilities"
        opened.modern("tools/call", {"name": "new__work"}, **{key: ASKS_ALL})
        opened.modern("tools/call", {"name": "new__work"}, **{key: declared})
    first, second = server.heard("tools/call")
    assert first["params"]["_meta"][key] == ASKS_ALL
    assert second["params"]["_meta"][key] == declared


def test_an_extension_the_gateway_does_not_carry_is_not_declared(tmp_path: Path) -> None:
    done = rule("tools/call", result({"resultType": "complete", **text("ok")}))
    server = modern_server(tmp_path, tools("work"), done)
    with gateway(tmp_path, {"new": server.command}) as opened:
        declared: Message = {"roots": {}, "extensions": {"vendor/thing": {}}}
        key = f"{META}clientCapabilities"
        opened.modern("tools/call", {"name": "new__work"}, **{key: declared})
    (call,) = server.heard("tools/call")
    assert call["params"]["_meta"][key] == {"roots": {}}


def test_modern_requests_in_an_array_are_refused(tmp_path: Path) -> None:
    with gateway(tmp_path, {"idle": Scripted(tmp_path, tools("x")).command}) as opened:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        opened.send([{**request, "params": {"_meta": MODERN_META}}])
        answer: Any = opened.next()
    answers = answer if isinstance(answer, list) else [answer]
    assert [one["error"]["code"] for one in answers] == [-32600]


def test_an_answer_to_nothing_is_not_answered(tmp_path: Path) -> None:
    with gateway(tmp_path, {"idle": Scripted(tmp_path, tools("x")).command}) as opened:
        opened.send({"jsonrpc": "2.0", "id": 1, "result": {}})
        opened.send({"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}})
        opened.modern("server/discover")
        assert opened.finish() == 0
        assert len(opened.seen) == 1


def test_a_server_that_is_down_is_a_tool_result_the_model_can_read(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("work"), rule("tools/call", exit=3))
    with gateway(tmp_path, {"frail": server.command}) as opened:
        answer = opened.modern("tools/call", {"name": "frail__work"})
    assert answer["result"]["isError"] is True
    assert answer["result"]["resultType"] == "complete"
    assert "frail" in said(answer)


def test_both_eras_may_share_one_pipe(client: LineClient) -> None:
    # The shared client of this file has made modern requests all along.
    client.initialize("2025-06-18")
    assert "resultType" not in client.request("tools/list")["result"]
    assert client.modern("tools/list")["result"]["resultType"] == "complete"
    assert client.request("ping")["result"] == {}
    assert client.modern("ping")["error"]["code"] == -32601
    legacy, modern = names(client), client.modern("tools/list")["result"]["tools"]
    assert legacy == [tool["name"] for tool in modern]


@pytest.mark.parametrize("server", ["new", "old"])
def test_a_legacy_client_never_sees_the_words_of_the_newer_era(tmp_path: Path, server: str) -> None:
    option = {"new": "--modern-only", "old": "--legacy-only"}[server]
    with gateway(tmp_path, {"demo": [*DEMO, option]}) as opened:
        opened.initialize("2025-11-25", ASKS_ALL)
        for method in LISTS:
            opened.request(method)
        opened.call("demo__echo", {"text": "hi"})
        opened.request("resources/read", {"uri": "demo://greeting"})
        opened.request("prompts/get", {"name": "demo__greet", "arguments": {"name": "you"}})
        opened.request("resources/subscribe", {"uri": "demo://counter"})
        opened.call("demo__touch")
        opened.wait_method("notifications/resources/updated")
        words = (b"resultType", b"ttlMs", b"cacheScope", b"input_required", META.encode())
        assert not [line for line in opened.lines if any(word in line for word in words)]


def test_progress_and_cancellation_of_a_modern_request(tmp_path: Path) -> None:
    progress = note("notifications/progress", '{"progressToken":$token,"progress":1}')
    server = Scripted(tmp_path, tools("work"), rule("tools/call", progress))
    with gateway(tmp_path, {"old": server.command}) as opened:
        meta = {**MODERN_META, "progressToken": "mine"}
        id = opened.start("tools/call", {"name": "old__work", "_meta": meta})
        told = opened.wait_method("notifications/progress")
        assert told["params"] == {"progressToken": "mine", "progress": 1}
        opened.notify("notifications/cancelled", {"requestId": id})
        heard = server.wait_heard("notifications/cancelled")
    (call,) = server.heard("tools/call")
    assert heard["params"]["requestId"] == call["id"]
    assert META not in json.dumps(call["params"])
