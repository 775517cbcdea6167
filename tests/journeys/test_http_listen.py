"""Modern streams: listening for changes, and hanging up, which cancels.

Every test is a statement that gateways have been seen to get wrong.
"""

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, MODERN_META, WAIT_SECONDS, Message, read_events
from tests.journeys.clients import META, MODERN, ModernClient, mirrored, names, request
from tests.journeys.http_gateway import ACCEPT, JSON, HttpAnswer, HttpGateway, serving
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    ScriptedHttpServer,
    legacy,
    modern,
)
from tests.journeys.scripts import Scripted, eventually, note, result, rule, text, tools
from tests.peers.http_driver import HttpDemo

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
TAG = f"{META}subscriptionId"


def tag_of(message: Message) -> Any:
    holder = message["result"] if "result" in message else message["params"]
    return holder["_meta"][TAG]


# Listening


@pytest.mark.parametrize(
    ("server", "id"),
    [("stdio-new", "s"), ("stdio-old", 41), ("http-new", 0), ("http-old", ""), ("older", "41")],
)
def test_a_stream_begins_with_what_it_will_tell_and_bears_its_id(
    site: HttpGateway, server: str, id: Any
) -> None:
    client = ModernClient(site)
    uri = f"{server}+demo://counter"
    wishes = {
        "toolsListChanged": True,
        "promptsListChanged": False,
        "resourceSubscriptions": [uri, "nobody://has/this"],
        "somethingElse": True,
    }
    stream = client.listen(id=id, **wishes)
    assert (stream.status, stream.kind) == (200, "text/event-stream")
    assert "Mcp-Session-Id" not in stream.fields
    first = stream.next()
    assert first["method"] == ACKNOWLEDGED
    honoured = {"toolsListChanged": True, "resourceSubscriptions": [uri]}
    assert first["params"]["notifications"] == honoured
    client.call(f"{server}__touch")
    assert stream.wait_method(UPDATED)["params"]["uri"] == uri
    client.call(f"{server}__grow")
    stream.wait_method(CHANGED)
    stream.close()
    for message in stream.seen:
        assert (tag_of(message), type(tag_of(message))) == (id, type(id))
        assert "id" not in message
    assert {m["method"] for m in stream.seen} == {ACKNOWLEDGED, UPDATED, CHANGED}


def test_events_of_a_modern_stream_have_no_ids(site: HttpGateway) -> None:
    stream = ModernClient(site).listen(toolsListChanged=True)
    event = next(stream.events())
    assert event.id is None
    assert event.retry is None
    stream.close()


def test_a_change_of_tools_is_not_told_to_those_who_listen_for_prompts(tmp_path: Path) -> None:
    with serving(tmp_path, {"demo": DEMO}) as site:
        client = ModernClient(site)
        names(client)
        wishes: Message = {
            "prompts": {"promptsListChanged": True},
            "nothing": {},
            "tools": {"toolsListChanged": True},
            "both": {"toolsListChanged": True, "promptsListChanged": True},
        }
        streams = {id: client.listen(id=id, **wanted) for id, wanted in wishes.items()}
        client.call("demo__grow")
        for id in ("tools", "both"):
            assert tag_of(streams[id].wait_method(CHANGED)) == id
        # Every stream is read to its end: nothing more can come on any of them.
        site.there.process.send_signal(signal.SIGTERM)
        for stream in streams.values():
            stream.rest()
    told = {id: [m["method"] for m in stream.seen[:-1]] for id, stream in streams.items()}
    assert told["prompts"] == told["nothing"] == [ACKNOWLEDGED]
    assert told["tools"] == told["both"] == [ACKNOWLEDGED, CHANGED]


def test_listening_needs_to_say_for_what(site: HttpGateway) -> None:
    answer = ModernClient(site).start("subscriptions/listen", {})
    assert (answer.status, answer.next()["error"]["code"]) == (400, -32602)


def test_listening_ends_with_a_result_when_the_gateway_does(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("x"))
    with serving(tmp_path, {"only": server.command}) as site:
        streams = [ModernClient(site).listen(id=id, toolsListChanged=True) for id in ("a", 7)]
        for stream in streams:
            assert stream.next()["method"] == ACKNOWLEDGED
        site.there.process.send_signal(signal.SIGTERM)
        for id, stream in zip(("a", 7), streams, strict=True):
            (ending,) = stream.rest()
            assert (ending["id"], type(ending["id"])) == (id, type(id))
            assert ending["result"]["resultType"] == "complete"
            assert (tag_of(ending), type(tag_of(ending))) == (id, type(id))
        code, _ = site.there.end()
        assert code == 0


def test_hanging_up_ends_a_subscription_at_the_server(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        tools("x"),
        rule("resources/list", result({"resources": [{"uri": "x:r", "name": "r"}]})),
        rule("resources/subscribe", result({})),
        rule("resources/unsubscribe", result({})),
    )
    with serving(tmp_path, {"only": server.command}) as site:
        names(ModernClient(site))
        streams = [ModernClient(site).listen(resourceSubscriptions=["x:r"]) for _ in range(2)]
        assert server.wait_heard("resources/subscribe")["params"]["uri"] == "x:r"
        streams[0].close()
        names(ModernClient(site))
        assert not server.heard("resources/unsubscribe")
        streams[1].close()
        assert server.wait_heard("resources/unsubscribe")["params"]["uri"] == "x:r"
    assert len(server.heard("resources/subscribe")) == 1


# Hanging up


def begun(site: HttpGateway, tool: str, **meta: Any) -> HttpAnswer:
    """A call with progress, whose response is a stream that has begun."""
    answer = ModernClient(site).start("tools/call", {"name": tool}, progressToken="p", **meta)
    answer.wait_method("notifications/progress")
    return answer


def scripted(path: Path, *, newer: bool) -> Scripted:
    """A server on a pipe that works on a call for ever."""
    progress = note("notifications/progress", '{"progressToken":$token,"progress":1}')
    found = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
    answer = rule("server/discover", result({"resultType": "complete", **found}))
    rules = [tools("work"), rule("tools/call", progress)]
    return Scripted(path, *([answer] if newer else []), *rules)


@pytest.mark.parametrize("newer", [False, True], ids=["legacy", "modern"])
def test_hanging_up_cancels_at_a_server_on_a_pipe(tmp_path: Path, newer: bool) -> None:
    server = scripted(tmp_path, newer=newer)
    with serving(tmp_path, {"only": server.command}) as site:
        names(ModernClient(site))
        kept, cut = begun(site, "only__work"), begun(site, "only__work")
        cut.close()
        cancelled = server.wait_heard("notifications/cancelled")
        first, second = server.heard("tools/call")
        assert cancelled["params"]["requestId"] == second["id"] != first["id"]
        assert len(server.heard("notifications/cancelled")) == 1
        kept.close()
        last = server.wait_heard("notifications/cancelled", 2)
        assert last["params"]["requestId"] == first["id"]
        eventually(lambda: statuses(site).count("cancelled") == 2, "both are in the journal")


def statuses(site: HttpGateway) -> list[str]:
    """How the calls of the journal ended."""
    events = read_events(site.state)
    return [e["status"] for e in events if e["event_type"] == "gateway.tool_call"]


def progress_of(heard: ReceivedRequest) -> Message:
    token = heard.message["params"]["_meta"]["progressToken"]
    return {
        "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1},
    }


def test_hanging_up_is_told_to_a_server_with_a_session(tmp_path: Path) -> None:
    def call(heard: ReceivedRequest, back: Reply) -> None:
        back.stream()
        back.event(progress_of(heard))
        back.wait_gone()

    with (
        ScriptedHttpServer(legacy(call, "work")) as web,
        serving(tmp_path, {"only": {"url": web.url}}) as site,
    ):
        names(ModernClient(site))
        begun(site, "only__work").close()
        cancelled = web.wait_of("notifications/cancelled")
        (sent,) = web.of("tools/call")
        assert cancelled.message["params"]["requestId"] == sent.id
        assert cancelled.fields["mcp-session-id"] == "the-session"


def test_hanging_up_is_passed_on_to_a_modern_server_by_hanging_up(tmp_path: Path) -> None:
    gone: list[str] = []

    def call(heard: ReceivedRequest, back: Reply) -> None:
        back.stream()
        back.event(progress_of(heard))
        back.wait_gone()
        gone.append(heard.message["params"]["name"])

    with (
        ScriptedHttpServer(modern(call, "work")) as web,
        serving(tmp_path, {"only": {"url": web.url}}) as site,
    ):
        names(ModernClient(site))
        begun(site, "only__work").close()
        eventually(lambda: gone == ["work"], "the server sees it")
        assert not web.of("notifications/cancelled")


def test_hanging_up_is_told_to_a_server_over_the_older_transport(tmp_path: Path) -> None:
    with HttpDemo("--legacy-only", "--transport", "sse") as demo:
        servers = {"only": {"url": f"http://127.0.0.1:{demo.port}/sse"}}
        with serving(tmp_path, servers) as site:
            names(ModernClient(site))
            params = {"name": "only__slow", "arguments": {"seconds": 600, "steps": 10_000}}
            answer = ModernClient(site).start("tools/call", params, progressToken="p")
            answer.wait_method("notifications/progress")
            answer.close()
            demo.wait_stderr("slow: cancelled")


def test_hanging_up_before_the_response_has_begun_cancels_too(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("work"), rule("tools/call"))
    with serving(tmp_path, {"only": server.command}) as site:
        names(ModernClient(site))
        message = request("tools/call", {"name": "only__work", "_meta": MODERN_META})
        with socket.create_connection(address(site), timeout=WAIT_SECONDS) as raw:
            raw.sendall(bytes_of(site, message))
            sent = server.wait_heard("tools/call")
        cancelled = server.wait_heard("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]


def test_nothing_is_cancelled_by_an_id_that_somebody_else_may_have_chosen(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    server = Scripted(
        tmp_path, tools("work"), rule("tools/call", result(text("done")), until=str(gate))
    )
    with serving(tmp_path, {"only": server.command}) as site:
        names(ModernClient(site))
        note_of = {"requestId": "x", "_meta": MODERN_META}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": note_of}
        params = {"name": "only__work", "_meta": MODERN_META}
        message = request("tools/call", params, "x")
        # Sent without waiting for the response, which has nothing to begin with.
        with socket.create_connection(address(site), timeout=WAIT_SECONDS) as raw:
            raw.sendall(bytes_of(site, message))
            server.wait_heard("tools/call")
            told = site.post(cancel, ("MCP-Protocol-Version", MODERN))
            assert told.status == 202
            gate.touch()
            assert b'"done"' in raw.recv(65536)
    assert not server.heard("notifications/cancelled")


def address(site: HttpGateway) -> tuple[str, int]:
    host, _, port = site.netloc.rpartition(":")
    return host, int(port)


def bytes_of(site: HttpGateway, message: Message) -> bytes:
    """A modern request as it goes over the wire."""
    body = json.dumps(message).encode()
    fields = [("Host", site.netloc), ("Content-Type", JSON), ("Accept", ACCEPT)]
    fields += [*mirrored(message), ("Content-Length", str(len(body)))]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"POST {site.path} HTTP/1.1\r\n{head}\r\n".encode() + body
