"""Servers behind URLs: finding out what they speak, and speaking it to them.

Every test is a statement that gateways have been seen to get wrong.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import MODERN_META, Message, transparent
from tests.journeys.clients import (
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
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    Script,
    ScriptedHttpServer,
    echoing,
    legacy,
    modern,
    saying,
    tool,
)
from tests.journeys.scripts import eventually, said
from tests.peers.http_driver import HttpDemo

CHANGED = "notifications/tools/list_changed"


@contextmanager
def before(
    tmp_path: Path, **scripts: Script
) -> Iterator[tuple[HttpGateway, dict[str, ScriptedHttpServer]]]:
    """A gateway before servers that follow scripts."""
    with ExitStack() as stack:
        webs = {
            name: stack.enter_context(ScriptedHttpServer(script))
            for name, script in scripts.items()
        }
        servers = {name: {"url": web.url} for name, web in webs.items()}
        site = stack.enter_context(serving(tmp_path, servers, gateway={"listSeconds": 0.2}))
        yield site, webs


def backend(site: HttpGateway, name: str) -> Message:
    found: Message = status(ModernClient(site))["backends"][name]
    return found


# Calls that are carried out, and answered as if they were not


@pytest.mark.parametrize(
    ("hints", "times"), [({"destructiveHint": True}, 1), ({"idempotentHint": False}, 1), ({}, 2)]
)
def test_a_tool_that_does_harm_twice_is_called_once_though_its_server_forgets_the_session(
    tmp_path: Path, hints: Message, times: int
) -> None:
    def forgetting(heard: ReceivedRequest, back: Reply) -> None:
        back.whole(404, b"Session not found", "text/plain")

    offered = {**tool("pay"), "annotations": hints}
    with before(tmp_path, shop=legacy(forgetting, offered)) as (site, webs):
        client = SessionClient(site)
        assert names(client)[-1] == "shop__pay"

        assert "session" in client.call("shop__pay")["error"]["message"]
        assert len(webs["shop"].of("tools/call")) == times


# What they speak


class Outage:
    """Answers the first question with something else than an answer, then behaves."""

    def __init__(self, status: int | None) -> None:
        self.status = status
        self.over = False
        self.sound = modern(saying("ok"), "work")

    def __call__(self, heard: ReceivedRequest, back: Reply) -> None:
        if self.over or heard.verb != "POST":
            self.sound(heard, back)
        elif self.status is None:
            raise ConnectionAbortedError
        else:
            back.whole(self.status, b"Something is wrong", "text/plain")


def test_an_outage_says_nothing_about_what_a_server_speaks(tmp_path: Path) -> None:
    outages = {f"s{status}": Outage(status) for status in (401, 403, 408, 429, 500, 502, 503)}
    outages["cut"] = Outage(None)
    with before(tmp_path, **outages) as (site, webs):
        assert (
            len(names(ModernClient(site))) == 2
        )  # Only the gateway's own; the first to ask wakes all.
        for web in webs.values():
            web.wait_of("server/discover")
        report = status(ModernClient(site))["backends"]
        assert all(server["status"] != "running" for server in report.values())
        for outage in outages.values():
            outage.over = True
        client = ModernClient(site)
        for name, web in webs.items():
            eventually(lambda name=name: backend(site, name)["status"] == "running", name)  # type: ignore[misc]
            assert backend(site, name)["era"] == "modern"
            assert said(client.call(f"{name}__work")) == "ok"
            assert not web.of("initialize")


def closing(sound: Script) -> Script:
    """Closes each connection after its answer, and does not say that it will."""

    def script(heard: ReceivedRequest, back: Reply) -> None:
        sound(heard, back)
        raise ConnectionAbortedError

    return script


def test_a_server_that_closes_its_connections_without_saying_so_is_reached(tmp_path: Path) -> None:
    scripts = {
        "older": closing(legacy(saying("ok"), "work")),
        "newer": closing(modern(saying("ok"), "work")),
    }
    with before(tmp_path, **scripts) as (site, webs):
        client = ModernClient(site)
        for name, web in webs.items():
            eventually(lambda name=name: backend(site, name)["status"] == "running", name)  # type: ignore[misc]
            assert backend(site, name)["restarts"] == 0
            for _ in range(20):
                assert said(client.call(f"{name}__work")) == "ok"
            assert len(web.of("tools/call")) == 20


def refusing(code: int, words: str, status: int = 400, **facts: Any) -> Script:
    """A server with sessions that refuses the modern question in this way."""
    sound = legacy(saying("ok"), "work")

    def script(heard: ReceivedRequest, back: Reply) -> None:
        if heard.method == "server/discover":
            error = {"code": code, "message": words, **({"data": facts} if facts else {})}
            back.json({"id": heard.id, "error": error}, status)
        else:
            sound(heard, back)

    return script


def test_a_refusal_that_only_an_older_server_would_give_leads_to_a_handshake(
    tmp_path: Path,
) -> None:
    scripts = {
        "session": refusing(-32600, "Bad Request: Missing session ID"),
        "uninitialized": refusing(-32000, "Bad Request: Server not initialized"),
        "method": refusing(-32601, "Method not found", 404),
        "accepted": refusing(-32601, "Method not found", 200),
        "params": refusing(-32602, "Invalid request parameters", 200),
        "listed": refusing(-32022, "No", supported=["2025-11-25", "2025-06-18"], requested=MODERN),
    }
    with before(tmp_path, **scripts) as (site, webs):
        client = ModernClient(site)
        for name in webs:
            eventually(lambda name=name: backend(site, name)["status"] == "running", name)  # type: ignore[misc]
            assert backend(site, name)["era"] == "legacy"
            assert said(client.call(f"{name}__work")) == "ok"


def test_a_server_that_speaks_only_what_we_do_not_gets_no_handshake(tmp_path: Path) -> None:
    newer = refusing(-32022, "No", supported=["2027-01-01"], requested=MODERN)
    with before(tmp_path, newer=newer) as (site, webs):
        eventually(lambda: "2027-01-01" in str(backend(site, "newer")["last_error"]), "the reason")
        assert backend(site, "newer")["status"] != "running"
        assert not webs["newer"].of("initialize")


def test_a_modern_server_that_stumbles_over_the_version_is_asked_once_more(tmp_path: Path) -> None:
    sound = modern(saying("ok"), "work")
    facts = {"supported": [MODERN], "requested": MODERN}
    stumbled: list[ReceivedRequest] = []

    def script(heard: ReceivedRequest, back: Reply) -> None:
        if heard.method == "server/discover" and not stumbled:
            stumbled.append(heard)
            back.json(
                {"id": heard.id, "error": {"code": -32022, "message": "", "data": facts}}, 400
            )
        else:
            sound(heard, back)

    with before(tmp_path, only=script) as (site, webs):
        eventually(lambda: backend(site, "only")["status"] == "running", "it runs")
        assert backend(site, "only")["era"] == "modern"
        assert not webs["only"].of("initialize")


def test_the_handshake_names_no_version_and_all_that_follows_names_the_one_agreed_on(
    tmp_path: Path,
) -> None:
    sound = legacy(saying("ok"), "work", stands=lambda heard, back: back.whole(405))

    def script(heard: ReceivedRequest, back: Reply) -> None:
        if heard.method == "initialize":
            told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            back.result(heard, told, Mcp_Session_Id="the-session")
        else:
            sound(heard, back)

    with before(tmp_path, only=script) as (site, webs):
        web = webs["only"]
        eventually(lambda: backend(site, "only")["status"] == "running", "it runs")
        assert said(SessionClient(site).call("only__work")) == "ok"
        (asked,) = web.of("server/discover")
        assert asked.fields["mcp-protocol-version"] == MODERN
        assert asked.fields["mcp-method"] == "server/discover"
        (greeting,) = web.of("initialize")
        assert not [name for name, _ in greeting.lines if name.startswith("mcp-")]
        (call,) = web.of("tools/call")
        for later in (*web.of("notifications/initialized"), *web.of("tools/list"), call):
            assert later.fields["mcp-protocol-version"] == "2025-06-18"
            assert later.fields["mcp-session-id"] == "the-session"
            assert "mcp-method" not in later.fields


# What they tell


def with_resource(uri: str, stands: Script | None = None) -> Script:
    """A legacy server that lets whoever asks follow its one resource."""

    def accept(heard: ReceivedRequest, back: Reply) -> None:
        lists = {"resources/list": {"resources": [{"uri": uri, "name": "one"}]}}
        back.result(heard, lists.get(heard.method or "", {}))

    sound = legacy(accept, stands=stands)

    def script(heard: ReceivedRequest, back: Reply) -> None:
        if heard.method == "initialize":
            declared = {"resources": {"subscribe": True}}
            told = {"protocolVersion": "2025-11-25", "capabilities": declared}
            back.result(heard, told, Mcp_Session_Id="the-session")
        else:
            sound(heard, back)

    return script


def open_stream(heard: ReceivedRequest, back: Reply) -> None:
    back.stream()
    back.wait_gone()


def test_a_resource_is_not_followed_where_its_server_has_no_stream_to_tell_on(
    tmp_path: Path,
) -> None:
    scripts = {
        "without": with_resource("a://1"),
        "with": with_resource("b://1", stands=open_stream),
    }
    with before(tmp_path, **scripts) as (site, _):
        for name in scripts:
            eventually(lambda name=name: backend(site, name)["status"] == "running", name)  # type: ignore[misc]
        session = SessionClient(site)
        found = session.request("resources/list")["result"]["resources"]
        without, told = sorted(resource["uri"] for resource in found)

        refused = session.request("resources/subscribe", {"uri": without})["error"]
        assert refused == {
            "code": -32602,
            "message": "Server 'without' has no stream on which to announce changes of this "
            f"resource: {without}",
        }
        assert session.request("resources/subscribe", {"uri": told})["result"] == {}

        listening = ModernClient(site).listen(resourceSubscriptions=[without, told])
        honoured = listening.next()["params"]["notifications"]
        assert honoured == {"resourceSubscriptions": [told]}
        listening.close()


# What they are sent

ANNOTATED = tool(
    "regional",
    {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "shard": {"type": "integer", "x-mcp-header": "Shard"},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
        },
    },
)


def test_a_modern_server_is_sent_its_own_names_and_its_arguments_again(tmp_path: Path) -> None:
    scripts = {"one": modern(echoing, ANNOTATED), "two": modern(echoing, ANNOTATED)}
    with before(tmp_path, **scripts) as (site, webs):
        eventually(lambda: "one__regional" in names(ModernClient(site)), "it is listed")
        arguments = {"region": "zürich", "shard": 7, "flag": True}
        params = {"name": "one__regional", "arguments": arguments, "_meta": MODERN_META}
        message = request("tools/call", params)
        own = [
            ("Mcp-Param-Region", wrapped("zürich")),
            ("Mcp-Param-Shard", "7.0"),
            ("mcp-param-flag", "true"),
            ("Mcp-Param-Unknown", "x y"),
        ]
        answer = site.post(message, *mirrored(message), *own, ("X-Secret", "keep"))
        assert json.loads(said(answer.next())) == arguments
        (call,) = webs["one"].of("tools/call")
        assert call.message["params"]["name"] == "regional"
        sent = {name: v for name, v in call.fields.items() if name.startswith("mcp-")}
        assert sent == {
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": "regional",
            "mcp-param-region": wrapped("zürich"),
            "mcp-param-shard": "7",
            "mcp-param-flag": "true",
            "mcp-param-unknown": "x y",
        }
        assert "x-secret" not in call.fields
        assert not webs["two"].of("tools/call")


def test_a_client_without_such_fields_has_them_made_for_it(tmp_path: Path) -> None:
    with before(tmp_path, one=modern(echoing, ANNOTATED)) as (site, webs):
        eventually(lambda: "one__regional" in names(ModernClient(site)), "it is listed")
        SessionClient(site).call("one__regional", {"region": "eu", "shard": None, "flag": False})
        (call,) = webs["one"].of("tools/call")
        params = {name: v for name, v in call.fields.items() if name.startswith("mcp-param")}
        assert params == {"mcp-param-region": "eu", "mcp-param-flag": "false"}


def annotated(name: str, *annotations: Any) -> Message:
    """A tool with an annotated argument for each of these."""
    properties = {
        f"a{n}": {"type": "string", "x-mcp-header": annotation}
        for n, annotation in enumerate(annotations)
    }
    return tool(name, {"type": "object", "properties": properties})


def test_an_invalid_annotation_costs_one_tool_and_not_the_list(tmp_path: Path) -> None:
    inside = {"type": "array", "items": {"type": "string", "x-mcp-header": "X"}}
    tools = [
        annotated("fine", "Region"),
        annotated("empty", ""),
        annotated("spaced", "a b"),
        annotated("twice", "Region", "region"),
        annotated("seven", 7),
        tool("deep", {"type": "object", "properties": {"a": inside}}),
        tool("number", {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
        "plain",
    ]
    with before(tmp_path, only=modern(echoing, *tools)) as (site, _):
        eventually(lambda: len(names(ModernClient(site))) > 2, "it is listed")
        for client in (ModernClient(site), SessionClient(site)):
            assert names(client)[2:] == ["only__fine", "only__plain"]
        (warning,) = backend(site, "only")["warnings"]
        assert "6 of its tools" in warning
        assert "x-mcp-header" in warning


# What they answer


def of_both_eras(call: Callable[[Any], Script], *cases: Any) -> dict[str, Script]:
    """A server of each era for each of these, which decides what a call gets."""
    eras: dict[str, Callable[[Script, str], Script]] = {"modern": modern, "legacy": legacy}
    return {
        f"{era}-{number}": make(call(case), "work")
        for era, make in eras.items()
        for number, case in enumerate(cases)
    }


def test_an_error_in_a_body_is_told_at_any_status(tmp_path: Path) -> None:
    def failing(status: int) -> Script:
        return lambda heard, back: back.error(heard, 1234, f"the words at {status}", status)

    statuses = (200, 400, 401, 403, 404, 409, 418, 429, 500, 502, 503)
    with before(tmp_path, **of_both_eras(failing, *statuses)) as (site, webs):
        session = SessionClient(site)
        eventually(lambda: len(names(session)) == 2 + len(webs), "all are listed")
        for era in ("modern", "legacy"):
            for number, status in enumerate(statuses):
                error = session.call(f"{era}-{number}__work")["error"]
                assert (error["code"], error["message"]) == (1234, f"the words at {status}"), era


def test_what_is_no_answer_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    replies = [
        (202, b"", ""),
        (204, b"", ""),
        (200, b"", ""),
        (200, b"<html>", "text/html"),
        (500, b"oh no", "text/plain"),
        (302, b"", ""),
        (200, b'{"jsonrpc":"2.0","id":"other","result":{}}', ""),
    ]

    def replying(reply: tuple[int, bytes, str]) -> Script:
        return lambda heard, back: back.whole(*reply)

    with before(tmp_path, **of_both_eras(replying, *replies)) as (site, webs):
        session, client = SessionClient(site), ModernClient(site)
        eventually(lambda: len(names(session)) == 2 + len(webs), "all are listed")
        for name in webs:
            error = session.call(f"{name}__work")["error"]
            assert error["code"] == -32000
            assert name in error["message"]
            told = client.call(f"{name}__work")
            assert told["result"]["isError"] is True
            assert backend(site, name)["status"] == "running"


# Their lists


def test_an_empty_cursor_is_followed(tmp_path: Path) -> None:
    with HttpDemo("--modern-only", "--page-size", "4", "--empty-cursor") as demo:
        servers = {"demo": {"url": f"http://127.0.0.1:{demo.port}/mcp"}}
        with serving(tmp_path, servers, profiles=transparent("demo")) as site:
            assert len(names(ModernClient(site))) > 8


def test_a_server_that_cannot_be_reached_spoils_no_list_and_is_told_of_when_it_comes(
    tmp_path: Path,
) -> None:
    late = Outage(503)
    with before(tmp_path, late=late, there=modern(saying("ok"), "x")) as (site, _):
        session = SessionClient(site)
        alone = session.listen()
        stream = ModernClient(site).listen(toolsListChanged=True)
        stream.next()
        eventually(lambda: names(session)[2:] == ["there__x"], "the other one is listed")
        late.over = True
        alone.wait_method(CHANGED)
        stream.wait_method(CHANGED)
        assert names(session)[2:] == ["late__work", "there__x"]
        assert session.delete().status == 200
        assert [m["method"] for m in [*alone.seen, *alone.rest()]].count(CHANGED) == 1
