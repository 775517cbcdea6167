"""Clients of the handshake era over Streamable HTTP: sessions, their ends, what is said in them.

Every test is a statement that gateways have been seen to get wrong.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Message
from tests.journeys.clients import (
    KINDS,
    LEGACY,
    MODERN,
    ModernClient,
    SessionClient,
    hello,
    request,
)
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import Scripted, eventually, result, rule, said, text, tools

PING: Message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LIST: Message = {"jsonrpc": "2.0", "id": "two", "method": "tools/list"}
INITIALIZE: Message = request("initialize", hello("2025-03-26"), 3)
READY: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ABLE: Message = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


# The handshake


@pytest.mark.parametrize("revision", LEGACY)
def test_the_revision_asked_for_is_spoken(site: HttpGateway, revision: str) -> None:
    assert SessionClient(site, revision).opened["protocolVersion"] == revision


@pytest.mark.parametrize("asked", [MODERN, "junk", "", "2099-01-01"])
def test_a_revision_without_a_handshake_gets_a_counter_offer(site: HttpGateway, asked: str) -> None:
    answer = site.post(request("initialize", hello(asked)))
    assert answer.status == 200
    assert answer.next()["result"]["protocolVersion"] == "2025-11-25"


def test_a_session_has_an_id_that_a_header_can_carry_and_nobody_can_guess(
    site: HttpGateway,
) -> None:
    ids = [SessionClient(site).id for _ in range(3)]
    assert len(set(ids)) == 3
    for id in ids:
        assert len(id) >= 32
        assert all("!" <= char <= "~" for char in id)


def test_a_stale_session_id_does_not_hinder_a_handshake(site: HttpGateway) -> None:
    answer = site.post(request("initialize", hello("2025-06-18")), ("Mcp-Session-Id", "stale"))
    assert answer.status == 200
    assert answer.fields["Mcp-Session-Id"] != "stale"


# The fields of every request after it


@pytest.mark.parametrize("revision", LEGACY)
def test_without_a_version_field_the_sessions_own_is_meant(
    site: HttpGateway, revision: str
) -> None:
    session = SessionClient(site, revision)
    session.fields = [("Mcp-Session-Id", session.id)]
    # Only this revision has batches: the answer tells which one is spoken.
    answer = site.post([PING], *session.fields)
    assert answer.status == (200 if revision == "2025-03-26" else 400)
    assert session.request("ping")["result"] == {}


@pytest.mark.parametrize("version", ["2027-01-01", "junk", "2025-11-2"])
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_an_unsupported_version_is_refused(site: HttpGateway, verb: str, version: str) -> None:
    session = SessionClient(site)
    fields = [("Mcp-Session-Id", session.id), ("MCP-Protocol-Version", version)]
    if verb == "POST":
        answer = site.post(PING, *fields)
        assert answer.next()["id"] == 1
    else:
        answer = site.send(verb, None, [("Accept", "text/event-stream"), *fields])
    assert answer.status == 400
    assert session.request("ping")["result"] == {}


def ended(site: HttpGateway) -> str:
    """The id of a session that is no more."""
    session = SessionClient(site)
    assert session.delete().status == 200
    return str(session.id)


@pytest.mark.parametrize("which", ["dead", "unknown", "tampered"])
@pytest.mark.parametrize("verb", ["POST", "notification", "batch", "GET", "DELETE"])
def test_a_session_that_is_not_there_is_not_found(site: HttpGateway, verb: str, which: str) -> None:
    ids = {"dead": ended(site), "unknown": "nobody", "tampered": SessionClient(site).id[:-2] + "xx"}
    fields = [("Mcp-Session-Id", ids[which])]
    bodies: dict[str, Any] = {"POST": PING, "notification": READY, "batch": [PING]}
    if verb in bodies:
        answer = site.post(bodies[verb], *fields)
    else:
        answer = site.send(verb, None, [("Accept", "text/event-stream"), *fields])
    assert answer.status == 404
    if verb == "POST":
        assert answer.next()["id"] == 1


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_missing_session_is_a_bad_request(site: HttpGateway, version: str) -> None:
    answer = site.post(PING, ("MCP-Protocol-Version", version))
    assert answer.status == 400
    assert answer.next()["id"] == 1


@pytest.mark.parametrize("fields", [[], [("MCP-Protocol-Version", "2025-03-26")]])
def test_a_single_request_needs_no_session_where_the_revision_has_none(
    site: HttpGateway, fields: list[tuple[str, str]]
) -> None:
    listed = site.post(LIST, *fields)
    assert (listed.status, "Mcp-Session-Id" in listed.fields) == (200, False)
    assert "stdio-old__echo" in [t["name"] for t in listed.next()["result"]["tools"]]
    params = {"name": "http-new__echo", "arguments": {"text": "hi"}}
    assert said(site.post(request("tools/call", params), *fields).next()) == "hi"


# Results


def test_empty_results_are_exactly_empty(site: HttpGateway) -> None:
    session = SessionClient(site, "2025-06-18")
    assert session.request("ping")["result"] == {}
    assert session.request("logging/setLevel", {"level": "error"})["result"] == {}
    for server in KINDS:
        uri = {"uri": f"{server}+demo://counter"}
        assert session.request("resources/subscribe", uri)["result"] == {}, server
        assert session.request("resources/unsubscribe", uri)["result"] == {}, server


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
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]
    server = Scripted(tmp_path, rule("tools/list", result({"tools": odd})))
    with serving(tmp_path, {"odd": server.command}) as site:
        for revision in LEGACY:
            listed = SessionClient(site, revision).request("tools/list")["result"]["tools"]
            own = [tool["name"] for tool in listed if tool["name"].startswith("odd__")]
            assert own == ["odd__typeless", "odd__bare", "odd__array", "odd__plain"]
            assert all(tool["inputSchema"]["type"] == "object" for tool in listed)
            assert not any("outputSchema" in tool for tool in listed)


def test_older_clients_get_newer_content_in_kinds_they_know(tmp_path: Path) -> None:
    sound = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    link = {"type": "resource_link", "uri": "a:b", "name": "it"}
    answered = {"content": [sound, link], "structuredContent": [1]}
    server = Scripted(tmp_path, tools("new"), rule("tools/call", result(answered)))
    kinds = [
        ["resource", "text"],
        ["audio", "text"],
        ["audio", "resource_link"],
        ["audio", "resource_link"],
    ]
    with serving(tmp_path, {"only": server.command}) as site:
        for revision, expected in zip(LEGACY, kinds, strict=True):
            told = SessionClient(site, revision).call("only__new")["result"]
            *blocks, value = told["content"]
            assert [block["type"] for block in blocks] == expected, revision
            assert value == {"type": "text", "text": "[1]"}
            assert "structuredContent" not in told
        assert ModernClient(site).call("only__new")["result"]["structuredContent"] == [1]


@pytest.mark.parametrize("server", KINDS)
def test_a_legacy_client_never_sees_the_words_of_the_newer_era(
    site: HttpGateway, server: str
) -> None:
    session = SessionClient(site, capabilities=ABLE)
    told = [
        session.request("tools/list"),
        session.request("resources/list"),
        session.call(f"{server}__echo", {"text": "hi"}),
        session.request("resources/read", {"uri": f"{server}+demo://greeting"}),
        session.request("prompts/get", {"name": f"{server}__greet", "arguments": {"name": "you"}}),
    ]
    words = ("resultType", "ttlMs", "cacheScope", "input_required", "io.modelcontextprotocol/")
    assert not [word for word in words if word in json.dumps([*told, *session.seen])]


# The end


def test_a_session_that_is_ended_stops_its_calls_and_streams(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("wait"), rule("tools/call"))
    with serving(tmp_path, {"only": server.command}) as site:
        session = SessionClient(site)
        alone = session.listen()
        call = session.start("tools/call", {"name": "only__wait"})
        sent = server.wait_heard("tools/call")
        assert session.delete().status == 200
        cancelled = server.wait_heard("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]
        assert alone.rest() == []
        assert not [m for m in call.rest() if "result" in m]
        assert session.delete().status == 404
        assert site.post(PING, *session.fields).status == 404


def test_cancelling_a_call_ends_its_response_and_reaches_its_server(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = Scripted(
        tmp_path,
        tools("wait", "other"),
        rule("tools/call", where={"name": "wait"}),
        rule("tools/call", result(text("done")), until=str(gate)),
    )
    with serving(tmp_path, {"only": server.command}) as site:
        session, stranger = SessionClient(site), SessionClient(site)
        # The same id in two sessions: only the one that is meant is cancelled.
        mine = session.start("tools/call", {"name": "only__wait"}, id="x")
        server.wait_heard("tools/call", 1)
        theirs = stranger.start("tools/call", {"name": "only__other"}, id="x")
        server.wait_heard("tools/call", 2)
        session.notify("notifications/cancelled", {"requestId": "x", "reason": "enough"})
        assert mine.ending()["error"]["code"] == -32800
        gate.touch()
        assert said(theirs.ending()) == "done"
        cancelled = server.wait_heard("notifications/cancelled")
    assert cancelled["params"] == {
        "requestId": server.heard("tools/call")[0]["id"],
        "reason": "enough",
    }
    eventually(lambda: len(server.heard("notifications/cancelled")) == 1, "one cancellation")
