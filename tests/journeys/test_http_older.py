"""HTTP+SSE, the transport of the first revision: one stream for everything, an address to post to.

On the profile's own URL and on an address of its own, with any revision that has a handshake.
"""

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.harness import Message
from tests.journeys.clients import KINDS, LEGACY, SessionClient, SseClient, hello, names, request
from tests.journeys.http_gateway import EVENTS, JSON, HttpGateway, serving
from tests.journeys.scripts import Scripted, result, rule, said, text, tools

PATHS = ["/mcp", "/mcp/default", "/mcp/default/sse"]
ABLE: Message = {"sampling": {}, "elicitation": {"form": {}}, "roots": {}}
CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


@pytest.mark.parametrize("path", PATHS)
def test_the_first_event_says_where_to_post(site: HttpGateway, path: str) -> None:
    stream = site.send("GET", None, [("Accept", EVENTS)], path)
    assert (stream.status, stream.kind) == (200, EVENTS)
    assert "Mcp-Session-Id" not in stream.fields
    first = next(stream.events())
    assert (first.name, first.id) == ("endpoint", None)
    # Any client can resolve it, and none is sent to another origin.
    assert urlsplit(first.data).netloc == ""
    assert first.data.startswith("/mcp/default/messages?")
    stream.close()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("revision", LEGACY)
def test_any_revision_with_a_handshake_is_spoken(
    site: HttpGateway, revision: str, path: str
) -> None:
    client = SseClient(site.at(path), revision)
    assert client.opened["protocolVersion"] == revision
    assert client.request("ping")["result"] == {}
    assert said(client.call("stdio-old__echo", {"text": "hi"})) == "hi"


@pytest.mark.parametrize("server", KINDS)
def test_lists_calls_questions_and_notifications_all_come_on_the_stream(
    site: HttpGateway, server: str
) -> None:
    client = SseClient(site, "2025-06-18", ABLE)
    assert f"{server}__echo" in names(client)
    slow = client.call(f"{server}__slow", {"seconds": 0.05, "steps": 2}, progressToken="p")
    assert said(slow) == "Done after 2 steps."
    progress = [m["params"] for m in client.seen if m.get("method") == "notifications/progress"]
    assert [told["progress"] for told in progress] == [1, 2]

    answer = {"action": "accept", "content": {"name": "Ada"}}
    call = client.start("tools/call", {"name": f"{server}__elicit", "arguments": {}})
    client.reply(client.stream.wait_method("elicitation/create"), answer)
    assert json.loads(said(client.answer(call))) == answer

    uri = f"{server}+demo://counter"
    assert client.request("resources/subscribe", {"uri": uri})["result"] == {}
    # Whether the notification or the answer to the call comes first is nobody's promise.
    client.start("tools/call", {"name": f"{server}__touch", "arguments": {}})
    assert client.stream.wait_method(UPDATED)["params"]["uri"] == uri


def test_a_change_of_the_list_is_told(site: HttpGateway) -> None:
    client = SseClient(site)
    before = names(client)
    client.start("tools/call", {"name": "stdio-old__grow", "arguments": {}})
    client.stream.wait_method(CHANGED)
    assert len(names(client)) == len(before) + 1


def test_every_event_is_a_message_and_none_is_empty(site: HttpGateway) -> None:
    stream = site.send("GET", None, [("Accept", EVENTS)])
    events = stream.events()
    address = next(events).data
    for message in (request("initialize", hello("2025-11-25"), 1), request("ping", None, 2)):
        body = json.dumps(message).encode()
        posted = site.send("POST", body, [("Content-Type", JSON)], address)
        assert posted.status == 202
        event = next(events)
        assert event.name == "message"
        assert event.message["id"] == message["id"]
    stream.close()


def test_a_session_ends_with_its_stream_and_its_calls_are_cancelled(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("wait"), rule("tools/call"))
    with serving(tmp_path, {"only": server.command}) as site:
        client, other = SseClient(site), SseClient(site)
        client.start("tools/call", {"name": "only__wait", "arguments": {}})
        sent = server.wait_heard("tools/call")
        client.stream.close()
        cancelled = server.wait_heard("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]
        assert client.post(request("ping")).status == 404
        assert other.request("ping")["result"] == {}


def test_two_clients_with_the_same_ids_get_each_their_own_answers(tmp_path: Path) -> None:
    answers = [
        rule("tools/call", result(text(who)), where={"arguments": {"who": who}})
        for who in ("one", "two")
    ]
    server = Scripted(tmp_path, tools("who"), *answers)
    with serving(tmp_path, {"only": server.command}) as site:
        clients = {who: SseClient(site) for who in ("one", "two")}
        for who, client in clients.items():
            params = {"name": "only__who", "arguments": {"who": who}}
            client.tell(request("tools/call", params, "same"))
        for who, client in clients.items():
            assert said(client.answer("same")) == who


@pytest.mark.parametrize("address", ["", "?session_id=nobody", "?session_id="])
def test_nobody_posts_to_a_session_that_is_not_there(site: HttpGateway, address: str) -> None:
    body = json.dumps(request("ping")).encode()
    path = f"/mcp/default/messages{address}"
    answer = site.send("POST", body, [("Content-Type", JSON)], path)
    assert answer.status == 404


def test_a_session_of_the_newer_transport_is_none_of_this_one(site: HttpGateway) -> None:
    session = SessionClient(site)
    body = json.dumps(request("ping")).encode()
    path = f"/mcp/default/messages?session_id={session.id}"
    assert site.send("POST", body, [("Content-Type", JSON)], path).status == 404
    client = SseClient(site)
    id = client.address.partition("=")[2]
    assert site.post(request("ping"), ("Mcp-Session-Id", id)).status == 404


def test_a_session_belongs_to_its_profile(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("x"))
    profiles = {"one": {"servers": ["only"]}, "two": {"servers": ["only"]}}
    with serving(tmp_path, {"only": server.command}, profiles=profiles) as site:
        client = SseClient(site.at("/mcp/one"))
        assert client.request("ping")["result"] == {}
        client.address = client.address.replace("/one/", "/two/")
        assert client.post(request("ping")).status == 404


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [("POST", "/mcp/default/sse", "GET"), ("GET", "/mcp/default/messages", "POST")],
)
def test_each_address_has_its_own_verb(
    site: HttpGateway, verb: str, path: str, allowed: str
) -> None:
    fields = [("Accept", EVENTS), ("Content-Type", JSON)]
    answer = site.send(verb, b"{}" if verb == "POST" else None, fields, path)
    assert (answer.status, answer.fields["Allow"]) == (405, allowed)


def test_a_batch_is_answered_on_the_stream_in_the_revision_that_has_them(site: HttpGateway) -> None:
    client = SseClient(site, "2025-03-26")
    batch = [request("ping", None, n) for n in range(3)]
    body = json.dumps(batch).encode()
    assert site.send("POST", body, [("Content-Type", JSON)], client.address).status == 202
    event = next(client.stream.events())
    assert sorted(answer["id"] for answer in json.loads(event.data)) == [0, 1, 2]


@pytest.mark.parametrize("body", [b"{", b"7", b'{"jsonrpc":"2.0","id":1}', b"\xff"])
def test_what_is_no_message_is_refused_and_the_session_lives(
    site: HttpGateway, body: bytes
) -> None:
    client = SseClient(site)
    answer = site.send("POST", body, [("Content-Type", JSON)], client.address)
    assert answer.status in (202, 400)
    answer.close()
    assert client.request("ping")["result"] == {}
    errors = [m["error"]["code"] for m in client.seen if "error" in m]
    assert set(errors) <= {-32600, -32700}
