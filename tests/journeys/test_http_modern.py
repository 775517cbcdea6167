"""Modern clients over HTTP: each request stands alone, whatever stands behind the gateway.

Every test is a statement that gateways have been seen to get wrong.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, MODERN_META, Message
from tests.journeys.clients import (
    KINDS,
    META,
    MODERN,
    ModernClient,
    SessionClient,
    mirrored,
    names,
    request,
    status,
    wrapped,
)
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripted_http_server import ScriptedHttpServer, modern, tool
from tests.journeys.scripts import Scripted, note, result, rule, said, text, tools

CAPABILITIES = f"{META}clientCapabilities"
ABLE: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]


def without(key: str) -> Message:
    return {name: value for name, value in MODERN_META.items() if name != META + key}


def post(site: HttpGateway, message: Message) -> tuple[int, Message]:
    """Status and answer of a modern request whose fields fit it."""
    answer = site.post(message, *mirrored(message))
    return answer.status, answer.next()


# The envelope


def test_a_client_need_not_say_who_it_is(site: HttpGateway) -> None:
    status, answer = post(site, request("tools/list", {"_meta": without("clientInfo")}))
    assert status == 200
    assert answer["result"]["tools"]


@pytest.mark.parametrize("id", ["a", 7, "7"])
def test_a_client_must_say_what_it_can_do(site: HttpGateway, id: Any) -> None:
    message = request("tools/list", {"_meta": without("clientCapabilities")}, id)
    status, answer = post(site, message)
    assert (status, answer["error"]["code"]) == (400, -32602)
    assert (answer["id"], type(answer["id"])) == (id, type(id))


@pytest.mark.parametrize("version", ["2027-01-01", "junk", "2025-11-25"])
def test_a_field_that_differs_is_a_mismatch_even_if_the_version_is_unknown(
    site: HttpGateway, version: str
) -> None:
    meta = {**MODERN_META, f"{META}protocolVersion": version}
    message = request("tools/list", {"_meta": meta})
    fields = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/list")]
    answer = site.post(message, *fields)
    assert (answer.status, answer.next()["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("version", ["2027-01-01", "junk", "2025-11-25"])
def test_an_unknown_revision_is_told_which_are_supported(site: HttpGateway, version: str) -> None:
    meta = {**MODERN_META, f"{META}protocolVersion": version}
    status, answer = post(site, request("tools/list", {"_meta": meta}))
    error = answer["error"]
    assert (status, error["code"]) == (400, -32022)
    assert error["data"]["requested"] == version
    discovered = ModernClient(site).request("server/discover")["result"]["supportedVersions"]
    assert error["data"]["supported"]
    assert set(error["data"]["supported"]) <= set(discovered)


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/result"]
)
def test_methods_of_the_handshake_era_do_not_exist(site: HttpGateway, method: str) -> None:
    params = {"level": "info", "uri": "demo://counter", "_meta": MODERN_META}
    status, answer = post(site, request(method, params))
    assert (status, answer["error"]["code"]) == (404, -32601)


def test_a_name_beyond_ascii_is_decoded_before_it_is_compared(tmp_path: Path) -> None:
    uri = "file:///naïve größe.txt"
    server = Scripted(
        tmp_path,
        rule("resources/list", result({"resources": [{"uri": uri, "name": "n"}]})),
        rule("resources/read", result({"contents": [{"uri": uri, "text": "here"}]})),
    )
    with serving(tmp_path, {"only": server.command}) as site:
        message = request("resources/read", {"uri": uri, "_meta": MODERN_META})
        fields = mirrored(message)
        assert fields[-1] == ("Mcp-Name", wrapped(uri))
        answer = site.post(message, *fields)
        assert answer.next()["result"]["contents"][0]["text"] == "here"
        other = site.post(message, *fields[:-1], ("Mcp-Name", wrapped(uri + "x")))
        assert (other.status, other.next()["error"]["code"]) == (400, -32020)


# Sessions, which there are none of


def test_no_answer_names_a_session_and_an_inbound_name_is_ignored(site: HttpGateway) -> None:
    legacy = SessionClient(site)
    for session_id in (legacy.id, "no-such-session"):
        for method in ("server/discover", "tools/list", "ping"):
            message = request(method, {"_meta": MODERN_META})
            answer = site.post(message, *mirrored(message), ("Mcp-Session-Id", session_id))
            assert answer.status == (404 if method == "ping" else 200)
            assert "Mcp-Session-Id" not in answer.fields
            answer.close()


@pytest.mark.parametrize("verb", ["GET", "DELETE"])
def test_there_is_nothing_but_post(site: HttpGateway, verb: str) -> None:
    legacy = SessionClient(site)
    fields = [("Accept", "text/event-stream"), ("MCP-Protocol-Version", MODERN)]
    for more in ([], [("Mcp-Session-Id", legacy.id)], [("Last-Event-ID", "1-1")]):
        answer = site.send(verb, None, [*fields, *more])
        assert (answer.status, answer.fields["Allow"]) == (405, "POST")
        assert "Mcp-Session-Id" not in answer.fields
        answer.close()
    assert legacy.request("ping")["result"] == {}


def test_a_delete_without_a_session_has_nothing_to_delete(site: HttpGateway) -> None:
    assert site.send("DELETE").status == 405


@pytest.mark.parametrize(
    "body",
    [
        [request("tools/list", {"_meta": MODERN_META}, 1)],
        [],
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
    ],
)
def test_an_array_or_an_answer_is_no_request(site: HttpGateway, body: Any) -> None:
    fields = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/list")]
    answer = site.post(body, *fields)
    assert (answer.status, answer.next()["error"]["code"]) == (400, -32600)


# Discovery and lists


def test_discovery_does_not_wait_for_servers_that_are_still_starting(tmp_path: Path) -> None:
    silent = Scripted(tmp_path, rule("server/discover"))
    with ScriptedHttpServer(lambda heard, back: back.wait_gone()) as mute:
        servers = {"silent": silent.command, "mute": {"url": mute.url}}
        with serving(tmp_path, servers) as site:
            found = ModernClient(site).request("server/discover")["result"]
            assert found["capabilities"]["tools"]
            assert found["supportedVersions"] == [MODERN]
            backends = status(ModernClient(site))["backends"]
    assert {server["status"] for server in backends.values()} == {"starting"}


@pytest.mark.parametrize("method", [*LISTS, "server/discover"])
def test_every_list_says_how_long_it_keeps(site: HttpGateway, method: str) -> None:
    answer = ModernClient(site).request(method)["result"]
    assert answer["resultType"] == "complete"
    assert answer["ttlMs"] >= 0
    assert answer["cacheScope"] in ("public", "private")


@pytest.mark.parametrize("server", KINDS)
def test_every_resource_says_how_long_it_keeps(site: HttpGateway, server: str) -> None:
    uri = {"uri": f"{server}+demo://greeting"}
    answer = ModernClient(site).request("resources/read", uri)["result"]
    assert answer["contents"][0]["text"].startswith("Hello")
    assert answer["ttlMs"] >= 0
    assert answer["cacheScope"] in ("public", "private")


def test_all_pages_of_a_list_share_one_scope(tmp_path: Path) -> None:
    with serving(tmp_path, {"demo": [*DEMO, "--tools", "2100"]}) as site:
        client = ModernClient(site)
        first = client.request("tools/list")["result"]
        second = client.request("tools/list", {"cursor": first["nextCursor"]})["result"]
    assert first["cacheScope"] == second["cacheScope"]
    assert len(first["tools"]) + len(second["tools"]) > 2100


def test_the_same_list_comes_in_the_same_order_on_any_connection(site: HttpGateway) -> None:
    lists = [ModernClient(site, **{f"{META}clientInfo": {"name": str(n)}}) for n in range(3)]
    answers = [client.request("tools/list")["result"]["tools"] for client in lists]
    assert answers[0] == answers[1] == answers[2]
    assert [tool["name"] for tool in answers[0]] == names(SessionClient(site))


# What servers say during a request


def test_logs_reach_only_a_request_that_asked_for_them(tmp_path: Path) -> None:
    loud = note("notifications/message", {"level": "debug", "data": "noise"})
    server = Scripted(
        tmp_path,
        tools("work"),
        rule("logging/setLevel", result({})),
        rule("tools/call", loud, result(text("ok"))),
    )
    with serving(tmp_path, {"old": server.command}) as site:
        # Another client has the server log everything.
        legacy = SessionClient(site)
        names(legacy)
        legacy.request("logging/setLevel", {"level": "debug"})
        server.wait_heard("logging/setLevel")
        client = ModernClient(site)
        quiet = client.start("tools/call", {"name": "old__work"})
        assert quiet.kind == "application/json"
        assert said(quiet.next()) == "ok"
        graver: Message = {f"{META}logLevel": "info"}
        assert said(client.call("old__work", **graver)) == "ok"
        assert client.seen == []
        everything: Message = {f"{META}logLevel": "debug"}
        assert said(client.call("old__work", **everything)) == "ok"
        assert [m["params"]["data"] for m in client.seen] == ["noise"]


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize("asks", ["elicit", "sample", "roots"])
@pytest.mark.parametrize("able", [ABLE, {}], ids=["able", "unable"])
def test_a_modern_client_is_never_sent_a_request(
    site: HttpGateway, server: str, asks: str, able: Message
) -> None:
    client = ModernClient(site, **{CAPABILITIES: able})
    arguments = {"prompt": "hello"} if asks == "sample" else {}
    answer = client.call(f"{server}__{asks}", arguments, progressToken="p")
    assert "result" in answer or "error" in answer
    assert not [m for m in client.seen if "method" in m and "id" in m]


# Input that a server needs


@pytest.mark.parametrize("server", ["stdio-new", "http-new"])
@pytest.mark.parametrize(
    ("asks", "declared", "missing"),
    [
        ({"name": "sample", "arguments": {"prompt": "?"}}, {}, {"sampling": {}}),
        ({"name": "roots"}, {"sampling": {}}, {"roots": {}}),
        ({"name": "elicit", "arguments": {"kind": "url"}}, {"elicitation": {}}, None),
    ],
)
def test_a_missing_capability_is_named_as_an_object(
    site: HttpGateway, server: str, asks: Message, declared: Message, missing: Message | None
) -> None:
    params = {**asks, "name": f"{server}__{asks['name']}"}
    meta = {**MODERN_META, CAPABILITIES: declared}
    status, answer = post(site, request("tools/call", {**params, "_meta": meta}))
    assert (status, answer["error"]["code"]) == (400, -32021)
    required = answer["error"]["data"]["requiredCapabilities"]
    assert required == (missing or {"elicitation": {"url": {}}})


def asking(*methods: str, **params: Any) -> Message:
    """A result that asks for input."""
    asked = {f"k{n}": {"method": method, "params": params} for n, method in enumerate(methods)}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}


def asked_with(capabilities: Message) -> Message:
    meta = {**MODERN_META, CAPABILITIES: capabilities}
    return request("tools/call", {"name": "only__ask", "_meta": meta})


@pytest.mark.parametrize("behind", ["http", "stdio"])
def test_a_server_cannot_ask_for_what_this_request_did_not_declare(
    tmp_path: Path, behind: str
) -> None:
    asks = asking("sampling/createMessage", "roots/list")
    discovered = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
    scripted = Scripted(
        tmp_path,
        rule("server/discover", result({"resultType": "complete", **discovered})),
        tools("ask"),
        rule("tools/call", result(asks)),
    )
    with ScriptedHttpServer(modern(lambda heard, back: back.result(heard, asks), "ask")) as web:
        servers = {"only": {"url": web.url} if behind == "http" else scripted.command}
        with serving(tmp_path, servers) as site:
            declared: list[Message] = [ABLE, {"roots": {}}, {}, ABLE]
            told = [post(site, asked_with(can)) for can in declared]
    assert [status for status, _ in told] == [200, 400, 400, 200]
    for _, answer in (told[0], told[3]):
        assert answer["result"]["resultType"] == "input_required"
        assert answer["result"]["inputRequests"] == asks["inputRequests"]
        assert answer["result"]["requestState"] not in ("", "s"), "it is bound to the caller"
        assert not {"ttlMs", "cacheScope"} & answer["result"].keys()
    errors = [told[n][1]["error"] for n in (1, 2)]
    assert [error["code"] for error in errors] == [-32021, -32021]
    required = [error["data"]["requiredCapabilities"] for error in errors]
    assert required == [{"sampling": {}}, {"sampling": {}, "roots": {}}]


def test_input_is_asked_for_only_where_there_is_room_for_it(tmp_path: Path) -> None:
    asks = asking("roots/list")
    offers: Message = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}

    def script(heard: Any, back: Any) -> None:
        if heard.method == "prompts/list":
            back.result(heard, {"resultType": "complete", "prompts": [{"name": "p"}]})
        elif heard.method == "resources/list":
            listed = [{"uri": "x:r", "name": "r"}]
            back.result(heard, {"resultType": "complete", "resources": listed})
        elif heard.method == "resources/templates/list":
            back.result(heard, {"resultType": "complete", "resourceTemplates": []})
        else:
            back.result(heard, asks)

    with (
        ScriptedHttpServer(modern(script, tool("t"), capabilities=offers)) as web,
        serving(tmp_path, {"only": {"url": web.url}}) as site,
    ):
        client = ModernClient(site, **{CAPABILITIES: ABLE})
        names(client)
        room: list[tuple[str, Message]] = [
            ("tools/call", {"name": "only__t"}),
            ("prompts/get", {"name": "only__p"}),
            ("resources/read", {"uri": "x:r"}),
        ]
        for method, params in room:
            answer = client.request(method, params)["result"]
            assert answer["resultType"] == "input_required"
            assert not {"ttlMs", "cacheScope"} & answer.keys()
        reference = {"type": "ref/prompt", "name": "only__p"}
        wanted = {"ref": reference, "argument": {"name": "a", "value": "b"}}
        refused = client.request("completion/complete", wanted)
        assert "only" in refused["error"]["message"]
        assert "input_required" not in json.dumps(refused)


def test_answers_are_taken_back_to_the_server_with_its_state(site: HttpGateway) -> None:
    for server in ("stdio-new", "http-new"):
        client = ModernClient(site, **{CAPABILITIES: ABLE})
        params = {"name": f"{server}__elicit", "arguments": {}}
        asked = client.request("tools/call", params)["result"]
        (key,) = asked["inputRequests"]
        answer = {"action": "accept", "content": {"name": "Ada"}}
        retry = {
            **params,
            "inputResponses": {key: answer},
            "requestState": asked["requestState"],
        }
        assert json.loads(said(client.request("tools/call", retry))) == answer
        tampered = {**retry, "requestState": asked["requestState"] + "x"}
        assert client.request("tools/call", tampered)["error"]["code"] == -32602
        other = {**retry, "arguments": {"kind": "url"}}
        assert client.request("tools/call", other)["error"]["code"] == -32602
