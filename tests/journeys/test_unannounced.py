"""What changes in a server that does not tell: when clients see it, and what they can use of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Message
from tests.journeys.clients import META, MODERN, ModernClient, SessionClient, names
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer, tool
from tests.journeys.scripts import eventually, gateway, said, text

CHANGED = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"


class Changing(ScriptedHttpServer):
    """A server over HTTP without sessions, whose offers are what the test says."""

    def __init__(self, *tools: str, era: str = "legacy", promises: bool = False) -> None:
        super().__init__(self._answer)
        self.tools, self.prompts = [*tools], ["p"]
        self.resources, self.templates = ["x://1"], ["y://{id}"]
        self.era, self.promises = era, promises

    def __enter__(self) -> "Changing":
        super().__enter__()
        return self

    @property
    def entry(self) -> Message:
        return {"url": self.url}

    def _answer(self, heard: ReceivedRequest, back: Reply) -> None:
        if heard.verb != "POST":
            back.whole(405)
        elif heard.method in ("server/discover", "subscriptions/listen") and self.era == "legacy":
            back.error(heard, -32601, "Method not found")
        elif heard.method == "subscriptions/listen":
            back.stream()
            about = {f"{META}subscriptionId": heard.id}
            told = {"notifications": heard.message["params"]["notifications"], "_meta": about}
            back.event({"method": "notifications/subscriptions/acknowledged", "params": told})
            back.wait_gone()
        elif heard.id is None:
            back.whole(202)
        else:
            self._say(heard, back, heard.message.get("params", {}))

    def _say(self, heard: ReceivedRequest, back: Reply, params: Message) -> None:
        flag = {"listChanged": True} if self.promises else {}
        declared = {"tools": flag, "prompts": flag, "resources": flag}
        uri = params.get("uri", "")
        answers: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": declared,
                "serverInfo": {"name": "changing", "version": "1"},
            },
            "server/discover": {"supportedVersions": [MODERN], "capabilities": declared},
            "tools/list": {"tools": [tool(name) for name in self.tools]},
            "prompts/list": {"prompts": [{"name": name} for name in self.prompts]},
            "resources/list": {"resources": [{"uri": uri, "name": "n"} for uri in self.resources]},
            "resources/templates/list": {
                "resourceTemplates": [{"uriTemplate": uri, "name": "n"} for uri in self.templates]
            },
            "tools/call": text("called") if params.get("name") in self.tools else None,
            "prompts/get": {"messages": []} if params.get("name") in self.prompts else None,
            "resources/read": {"contents": [{"uri": uri, "text": "read"}]},
        }
        answer = answers[heard.method or ""]
        if answer is None:
            back.error(heard, -32602, f"Unknown tool: {params['name']}")
        elif self.era == "modern":
            hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            back.result(heard, {**hints, **answer})
        else:
            back.result(heard, answer)


def prompts(client: SessionClient) -> list[str]:
    return [prompt["name"] for prompt in client.request("prompts/list")["result"]["prompts"]]


@contextmanager
def changing(path: Path, **how: Any) -> Iterator[tuple[Changing, HttpGateway]]:
    """A gateway with such a server, and with another that has offers as well."""
    with (
        Changing("a", **how) as web,
        Changing("other") as other,
        serving(path, {"web": web.entry, "other": other.entry}) as site,
    ):
        names(ModernClient(site))
        yield web, site


@pytest.fixture(params=["legacy", "modern"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Changing, HttpGateway]]:
    with changing(tmp_path, era=request.param, promises=True) as pair:
        yield pair


@pytest.mark.parametrize("client", [SessionClient, ModernClient])
def test_a_tool_that_was_added_without_a_word_can_be_called_at_once(
    both: tuple[Changing, HttpGateway], client: type[SessionClient] | type[ModernClient]
) -> None:
    web, site = both
    web.tools.append("b")

    assert said(client(site).call("web__b")) == "called"
    assert names(client(site))[-3:] == ["web__a", "web__b", "other__other"]


def test_so_can_prompts_resources_and_what_templates_describe(
    both: tuple[Changing, HttpGateway],
) -> None:
    web, site = both
    client = SessionClient(site)
    web.prompts.append("q")
    web.resources.append("x://2")
    web.templates.append("z://{id}")

    assert client.request("prompts/get", {"name": "web__q"})["result"] == {"messages": []}
    for uri in ("x://2", "z://7", "web+x://1"):
        contents = client.request("resources/read", {"uri": uri})["result"]["contents"]
        assert (contents[0]["uri"], contents[0]["text"]) == (uri, "read")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_unknown_names_are_refused_after_a_look_or_two_however_many_there_are(
    tmp_path: Path, era: str
) -> None:
    with Changing("a", era=era) as web, gateway(tmp_path, {"web": web.entry}) as client:
        client.initialize()
        client.request("tools/list")
        before = len(web.of("tools/list"))
        calls = [
            {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": f"web__no{n}"}}
            for n in range(1000, 1060)
        ]
        client.send(b"".join(json.dumps(call).encode() + b"\n" for call in calls))

        errors = [client.answer(call["id"])["error"] for call in calls]

        assert {error["code"] for error in errors} == {-32602}
        assert [error["message"] for error in errors] == [
            f"Unknown tool: web__no{call['id']}" for call in calls
        ]
        assert 1 <= len(web.of("tools/list")) - before < len(calls) / 4


def test_a_bare_name_is_not_asked_for_where_names_have_their_server(tmp_path: Path) -> None:
    with changing(tmp_path) as (web, site):
        client = SessionClient(site)
        web.tools.append("b")
        before = len(web.heard)

        assert client.call("b")["error"]["message"] == "Unknown tool: b"
        assert len(web.heard) == before


def test_a_bare_name_finds_its_server_where_names_are_the_servers_own(tmp_path: Path) -> None:
    with (
        Changing("a") as web,
        Changing("o") as other,
        serving(
            tmp_path,
            {"web": web.entry, "other": other.entry},
            profiles={"bare": {"servers": ["web", "other"], "prefix": "never"}},
        ) as site,
    ):
        client = SessionClient(site.at("/mcp/bare"))
        names(client)
        web.tools.append("b")

        assert said(client.call("b")) == "called"


def test_a_tool_that_its_server_does_not_know_any_more_leaves_the_list(
    both: tuple[Changing, HttpGateway],
) -> None:
    web, site = both
    client = SessionClient(site)
    assert names(client)[-2:] == ["web__a", "other__other"]
    stream = client.listen()
    web.tools[:] = ["b"]

    error = client.call("web__a")["error"]
    assert (error["code"], error["message"]) == (-32602, "Unknown tool: a")
    stream.wait_method(CHANGED)

    # The first word may be of the server's list. That of the session's connection is read after
    # it, and told of as well.
    while names(client)[-2:] != ["web__b", "other__other"]:
        stream.wait_method(CHANGED)
    stream.close()


@pytest.mark.slow
@pytest.mark.parametrize("promises", [False, True], ids=["unpromised", "promised"])
def test_a_server_without_sessions_that_is_replaced_shows_its_new_lists(
    tmp_path: Path, promises: bool
) -> None:
    """It may promise to tell: there is no stream on which it could."""
    with changing(tmp_path, promises=promises) as (web, site):
        client = SessionClient(site)
        names(client), prompts(client)
        stream = client.listen()
        web.tools[:], web.prompts[:] = ["b"], ["q"]

        eventually(lambda: names(client)[-2] == "web__b", "the new list of tools")
        eventually(lambda: prompts(client)[0] == "web__q", "the new list of prompts")
        stream.wait_methods(CHANGED, PROMPTS)
        stream.close()


@pytest.mark.slow
def test_a_new_session_causes_a_look_at_a_server_that_tells_nothing_though_it_could(
    tmp_path: Path,
) -> None:
    """It keeps a stream open on which it says nothing, whatever it has promised."""
    web = Changing("a", promises=True)
    script = web.script

    def standing(heard: ReceivedRequest, back: Reply) -> None:
        if heard.verb == "GET":
            back.stream()
            back.wait_gone()
        else:
            script(heard, back)

    web.script = standing
    with web, serving(tmp_path, {"web": web.entry}) as site:
        first = SessionClient(site)
        eventually(lambda: any(heard.verb == "GET" for heard in web.heard), "the stream")
        assert names(first)[-1] == "web__a"
        web.tools[:] = ["b"]

        eventually(lambda: names(SessionClient(site))[-1] == "web__b", "what a newcomer finds")


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_session_that_asks_once_right_after_others_hears_of_what_it_was_not_shown(
    tmp_path: Path, era: str
) -> None:
    with changing(tmp_path, era=era) as (web, site):
        client = SessionClient(site)
        stream = client.listen()
        web.tools[:] = ["b"]

        while names(client)[-2] != "web__b":
            stream.wait_method(CHANGED)
        stream.close()


def test_a_modern_server_that_acknowledged_to_tell_has_its_word_about_time(tmp_path: Path) -> None:
    with changing(tmp_path, era="modern", promises=True) as (web, site):
        client = ModernClient(site)
        web.wait_of("subscriptions/listen")
        web.tools[:] = ["b"]

        eventually(lambda: names(client)[-2] == "web__b", "the new list")
