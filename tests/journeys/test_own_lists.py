"""What the process of one session has is listed and used in that session, and in no other."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness import Message
from tests.journeys.clients import ModernClient, SessionClient, names
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import eventually, said

ADDING: Final = str(Path(__file__).with_name("changing_lists_server.py"))
ERAS: Final = ("legacy", "both")
SERVERS: Final[Message] = {era: [sys.executable, "-I", "-S", ADDING, era] for era in ERAS}
ABLE: Final[Message] = {"elicitation": {}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    there = serving(tmp_path_factory.mktemp("own"), SERVERS, gateway={"listSeconds": 30})
    with there as site:
        yield site


def added(session: SessionClient, server: str, kind: str, name: str, *, tell: bool = False) -> None:
    answer = session.call(f"{server}__add", {"kind": kind, "name": name, "tell": tell})
    assert said(answer) == "added in the legacy era"


def listed(client: SessionClient | ModernClient, server: str) -> list[str]:
    return [name for name in names(client) if name.startswith(f"{server}__")]


def refusal(session: SessionClient, name: str) -> str:
    words: str = session.call(name)["error"]["message"]
    return words


@pytest.mark.parametrize("server", ERAS)
def test_a_tool_that_a_sessions_process_gets_is_that_sessions_alone(
    site: HttpGateway, server: str
) -> None:
    one, two = SessionClient(site, capabilities=ABLE), SessionClient(site, capabilities=ABLE)
    for session, name in ((one, "of_one"), (two, "of_two")):
        assert listed(session, server) == [f"{server}__add"]
        added(session, server, "tools", name)
        assert said(session.call(f"{server}__{name}")) == f"this is {name}", "at once"

    assert listed(one, server) == [f"{server}__add", f"{server}__of_one"]
    assert listed(two, server) == [f"{server}__add", f"{server}__of_two"]
    for session, name in ((one, "of_two"), (two, "of_one")):
        assert refusal(session, f"{server}__{name}") == f"Unknown tool: {server}__{name}"
    for newcomer in (
        SessionClient(site, capabilities=ABLE),
        SessionClient(site),
        ModernClient(site),
    ):
        assert listed(newcomer, server) == [f"{server}__add"]


@pytest.mark.parametrize("server", ERAS)
def test_that_session_alone_hears_of_it(site: HttpGateway, server: str) -> None:
    one, two = SessionClient(site, capabilities=ABLE), SessionClient(site, capabilities=ABLE)
    streams = [(session, session.listen()) for session in (one, two)]
    for session, _ in streams:
        listed(session, server)
        session.request("prompts/list")
        added(session, server, "prompts", "first")

    added(one, server, "tools", "second", tell=True)

    mine, theirs = (stream for _, stream in streams)
    mine.wait_method("notifications/tools/list_changed")
    assert listed(one, server) == [f"{server}__add", f"{server}__second"]
    added(two, server, "prompts", "second", tell=True)
    theirs.wait_method("notifications/prompts/list_changed")
    told = [message["method"] for message in theirs.seen]
    assert "notifications/tools/list_changed" not in told
    for stream in (mine, theirs):
        stream.close()


@pytest.mark.parametrize("server", ERAS)
def test_so_it_is_with_prompts_resources_and_templates(site: HttpGateway, server: str) -> None:
    one, two = SessionClient(site, capabilities=ABLE), SessionClient(site, capabilities=ABLE)
    uris = (f"{server}:1", f"{server}-all:7")
    added(one, server, "prompts", "p")
    added(one, server, "resources", uris[0])
    added(one, server, "resourceTemplates", f"{server}-all:{{id}}")
    added(two, server, "prompts", "other")

    assert "result" in one.request("prompts/get", {"name": f"{server}__p"})
    assert "error" in two.request("prompts/get", {"name": f"{server}__p"})
    for uri in uris:
        contents = one.request("resources/read", {"uri": uri})["result"]["contents"]
        assert contents == [{"uri": uri, "text": "r"}]
        assert "error" in two.request("resources/read", {"uri": uri})
    mine, theirs = (
        [item["uri"] for item in session.request("resources/list")["result"]["resources"]]
        for session in (one, two)
    )
    assert uris[0] in mine
    assert uris[0] not in theirs


@pytest.mark.parametrize("server", ERAS)
def test_what_a_session_had_ends_with_it(site: HttpGateway, server: str) -> None:
    one = SessionClient(site, capabilities=ABLE)
    added(one, server, "tools", "gone", tell=True)
    eventually(lambda: len(listed(one, server)) == 2, "the tool")
    one.delete()

    two = SessionClient(site, capabilities=ABLE)
    added(two, server, "tools", "other")
    assert refusal(two, f"{server}__gone") == f"Unknown tool: {server}__gone"
