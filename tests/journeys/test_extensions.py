"""MCP Apps and Skills through the gateway: any client, any server, and nothing that is unknown."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import DEMO, LineClient, Message
from tests.journeys.clients import META, MODERN, Client, ModernClient, SessionClient, names
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer, modern
from tests.journeys.scripts import (
    EVERYTHING,
    Scripted,
    failure,
    gateway,
    note,
    question,
    result,
    rule,
    said,
    text,
)
from tests.peers.http_driver import HttpDemo

APPS: Final = "io.modelcontextprotocol/ui"
SKILLS: Final = "io.modelcontextprotocol/skills"
UNKNOWN: Final = "com.example/unheard-of"
UI: Final[Message] = {"mimeTypes": ["text/html;profile=mcp-app"]}
DICE: Final = "ui://demo/dice"
TEA: Final = "skill://demo/tea"
OFFERING: Final = ("new", "old", "web")

CLIENTS: Final[dict[str, Callable[[HttpGateway], Client]]] = {
    "2024-11-05": lambda site: SessionClient(site, "2024-11-05"),
    "2025-11-25": lambda site: SessionClient(site, "2025-11-25"),
    MODERN: ModernClient,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """Servers of both eras that have both extensions, and one that has none."""
    both = ("--apps", "--skills")
    with HttpDemo("--modern-only", *both) as web:
        servers: Message = {
            "new": [*DEMO, "--modern-only", *both],
            "old": [*DEMO, "--legacy-only", *both],
            "web": {"url": f"http://127.0.0.1:{web.port}/mcp"},
            "plain": DEMO,
        }
        with serving(tmp_path_factory.mktemp("extensions"), servers) as site:
            names(ModernClient(site))
            yield site


@pytest.fixture(params=CLIENTS)
def client(site: HttpGateway, request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param](site)


def declared(client: Client) -> Message:
    """What the gateway says of extensions."""
    told = (
        client.request("server/discover")["result"]
        if isinstance(client, ModernClient)
        else client.opened
    )
    extensions: Message = told["capabilities"].get("extensions", {})
    return extensions


def read(client: Client, uri: str) -> Message:
    (contents,) = client.request("resources/read", {"uri": uri})["result"]["contents"]
    assert contents["uri"] == uri
    whole: Message = contents
    return whole


def skills(client: Client) -> list[Message]:
    listed: list[Message] = client.request("skills/list")["result"]["skills"]
    return listed


def test_what_servers_offer_is_advertised_in_both_eras(client: Client) -> None:
    assert declared(client) == {APPS: {}, SKILLS: {"directoryRead": True}}


def test_the_skills_of_all_servers_are_one_list(client: Client) -> None:
    listed = skills(client)

    assert [skill["uri"] for skill in listed] == [f"{slug}+{TEA}/SKILL.md" for slug in OFFERING]
    assert {skill["frontmatter"]["name"] for skill in listed} == {"tea"}
    for skill in listed:
        assert client.request("skills/get", {"uri": skill["uri"]})["result"]["skill"] == skill


def test_the_files_of_a_skill_are_what_its_entry_says_and_refer_to_each_other(
    client: Client,
) -> None:
    for skill in skills(client):
        contents = [read(client, file["uri"])["text"].encode() for file in skill["resources"]]
        for file, raw in zip(skill["resources"], contents, strict=True):
            assert file["size"] == len(raw)
            assert file["digest"] == f"sha256:{hashlib.sha256(raw).hexdigest()}"
        assert b"(references/leaves.md)" in contents[0]
        root = skill["uri"].removesuffix("/SKILL.md")
        assert read(client, f"{root}/references/leaves.md")["text"].encode() == contents[1]


def test_the_directories_of_a_skill_can_be_walked(client: Client) -> None:
    for slug in OFFERING:
        found: list[str] = []
        pending = [f"{slug}+{TEA}"]
        while pending:
            answer = client.request("resources/directory/read", {"uri": pending.pop()})
            for child in answer["result"]["resources"]:
                directory = child["mimeType"] == "inode/directory"
                (pending if directory else found).append(child["uri"])
        assert found == [f"{slug}+{TEA}/SKILL.md", f"{slug}+{TEA}/references/leaves.md"]


def test_what_is_no_skill_and_no_directory_is_refused(client: Client) -> None:
    for method, uri in (
        ("skills/get", f"new+{TEA}"),
        ("skills/get", "skill://nowhere/SKILL.md"),
        ("skills/get", "plain+demo://greeting"),
        ("resources/directory/read", f"old+{TEA}/SKILL.md"),
        ("resources/directory/read", "skill://nowhere"),
    ):
        assert client.request(method, {"uri": uri})["error"]["code"] == -32602, (method, uri)


def test_a_modern_client_is_told_how_long_a_skill_keeps(site: HttpGateway) -> None:
    client = ModernClient(site)
    for method, params in (("skills/list", {}), ("skills/get", {"uri": f"old+{TEA}/SKILL.md"})):
        answer = client.request(method, params)["result"]
        assert answer["resultType"] == "complete"
        assert {"ttlMs", "cacheScope"} <= answer.keys()
    kept = client.request("skills/get", {"uri": f"new+{TEA}/SKILL.md"})["result"]
    assert (kept["ttlMs"], kept["cacheScope"]) == (3_600_000, "public")
    older = SessionClient(site).request("skills/get", {"uri": f"new+{TEA}/SKILL.md"})["result"]
    assert not {"ttlMs", "cacheScope", "resultType"} & older.keys()


def test_each_tool_names_the_view_that_its_own_server_has(client: Client) -> None:
    tools = {tool["name"]: tool for tool in client.request("tools/list")["result"]["tools"]}
    listed = {each["uri"]: each for each in client.request("resources/list")["result"]["resources"]}

    for slug in OFFERING:
        about = tools[f"{slug}__dice"]["_meta"]
        view = f"ui://{slug}/demo/dice"
        assert about == {"ui": {"resourceUri": view}, "ui/resourceUri": view}
        assert tools[f"{slug}__dice_again"]["_meta"]["ui"]["visibility"] == ["app"]
        assert listed[view]["_meta"] == {"ui": {"prefersBorder": True}}
        page = read(client, view)
        assert page["mimeType"] == "text/html;profile=mcp-app"
        assert page["_meta"] == {"ui": {"csp": {"connectDomains": []}, "prefersBorder": True}}
        assert said(client.call(f"{slug}__dice_again", {"faces": 8})).startswith("A 8")


def test_a_view_calls_its_tools_by_the_names_that_its_author_knew(tmp_path: Path) -> None:
    servers = {"app": [*DEMO, "--apps"], "plain": DEMO}
    profiles = {"default": {"servers": [*servers], "prefix": "on-conflict"}}
    with gateway(tmp_path, servers, profiles=profiles) as client:
        tools = client.modern("tools/list")["result"]["tools"]
        (view,) = {tool["_meta"]["ui"]["resourceUri"] for tool in tools if "dice" in tool["name"]}
        assert view == DICE
        answer = client.modern("resources/read", {"uri": view})["result"]
        assert 'name: "dice_again"' in answer["contents"][0]["text"]
        assert said(client.modern("tools/call", {"name": "dice_again"})) == "A 6, the best of 6."


# A view that no server lists, which is how many have it.

HIDDEN: Final = "ui://weather/map"


def with_hidden_view(path: Path, name: str) -> Scripted:
    tool = {
        "name": "map",
        "inputSchema": {"type": "object"},
        "_meta": {"ui": {"resourceUri": HIDDEN}},
    }
    page = {"contents": [{"uri": HIDDEN, "mimeType": "text/html;profile=mcp-app", "text": name}]}
    return Scripted(
        path,
        rule("tools/list", result({"tools": [tool]})),
        rule("resources/list", result({"resources": []})),
        rule("resources/read", result(page), where={"uri": HIDDEN}),
        rule("tools/call", result(text(name))),
        name=name,
    )


def views(client: LineClient) -> list[str]:
    tools = client.request("tools/list")["result"]["tools"]
    return [tool["_meta"]["ui"]["resourceUri"] for tool in tools if "ui" in tool.get("_meta", {})]


def test_a_view_that_is_not_listed_is_read_from_the_server_whose_tool_names_it(
    tmp_path: Path,
) -> None:
    server = with_hidden_view(tmp_path, "one")
    with gateway(tmp_path, {"one": server.command, "plain": DEMO}) as client:
        assert client.initialize()["capabilities"].get("extensions") is None
        assert views(client) == [HIDDEN]
        (page,) = client.request("resources/read", {"uri": HIDDEN})["result"]["contents"]
        assert (page["uri"], page["text"]) == (HIDDEN, "one")
        # Its server never declared apps: a tool with a view says enough.
        assert client.initialize()["capabilities"]["extensions"] == {APPS: {}}


def test_two_servers_with_one_view_that_neither_lists_are_told_apart(tmp_path: Path) -> None:
    servers = {name: with_hidden_view(tmp_path, name).command for name in ("one", "two")}
    with gateway(tmp_path, servers) as client:
        client.initialize()
        assert views(client) == ["ui://one/weather/map", "ui://two/weather/map"]
        for name, view in zip(("one", "two"), views(client), strict=True):
            (page,) = client.request("resources/read", {"uri": view})["result"]["contents"]
            assert (page["uri"], page["text"]) == (view, name)
        assert client.request("resources/read", {"uri": HIDDEN})["error"]["code"] == -32002


# What is not known is not passed on.

DECLARED: Final[Message] = {APPS: UI, SKILLS: {}, UNKNOWN: {"x": 1}}
DECLARING: Final[Message] = {"extensions": DECLARED}


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_extension_that_is_not_known_is_declared_to_nobody(
    tmp_path: Path, revision: str
) -> None:
    offered = {**EVERYTHING, "extensions": {UNKNOWN: {}, SKILLS: {"x": 1}}}
    old = Scripted(
        tmp_path,
        rule("tools/call", result(text("done"))),
        rule("tools/list", result({"tools": [{"name": "go", "inputSchema": {"type": "object"}}]})),
        capabilities=offered,
    )
    heard: list[Message] = []

    def answer(request: ReceivedRequest, back: Reply) -> None:
        if request.method == "tools/call":
            heard.append(request.message["params"]["_meta"][f"{META}clientCapabilities"])
        back.result(request, {"resultType": "complete", **text("done"), "skills": []})

    capabilities: Message = {"tools": {}, "extensions": {UNKNOWN: {}}}
    with (
        ScriptedHttpServer(modern(answer, "go", capabilities=capabilities)) as web,
        gateway(tmp_path, {"old": old.command, "new": {"url": web.url}}) as client,
    ):
        ask, told = speaking(client, revision)
        assert said(ask("tools/call", {"name": "new__go"})) == "done"
        assert said(ask("tools/call", {"name": "old__go"})) == "done"
        assert told() == {SKILLS: {"x": 1}}

    # A modern server is told of what it offers, and of apps; here it offers nothing known.
    assert heard == [{"elicitation": {}, "extensions": {APPS: UI}}]
    shaken = [message["params"]["capabilities"] for message in old.heard("initialize")]
    assert {"elicitation": {}, "extensions": {APPS: UI, SKILLS: {}}} in shaken
    assert all(UNKNOWN not in json.dumps(capabilities) for capabilities in shaken)


def speaking(
    client: LineClient, revision: str
) -> tuple[Callable[[str, Message], Message], Callable[[], Any]]:
    """How to ask in a revision, declaring extensions; and what the gateway declares by then."""
    capabilities = {"elicitation": {}, "extensions": DECLARED}
    if revision == MODERN:
        meta = {f"{META}clientCapabilities": capabilities}
        return (
            lambda method, params: client.modern(method, params, **meta),
            lambda: client.modern("server/discover")["result"]["capabilities"]["extensions"],
        )
    client.initialize(revision, capabilities)
    return client.request, lambda: client.initialize(revision)["capabilities"]["extensions"]


# Those that nobody here knows.


@pytest.mark.parametrize("era", ["old", "new"])
@pytest.mark.parametrize("client", ["2025-11-25", MODERN])
def test_one_that_client_and_the_one_server_declare_passes_between_them(
    tmp_path: Path, era: str, client: str
) -> None:
    discovered = {"supportedVersions": [MODERN], "capabilities": {"extensions": {UNKNOWN: {}}}}
    refusal = failure({"code": -32601, "message": "Method not found"})
    rules = rule("server/discover", result(discovered)), rule("initialize", refusal)
    server = Scripted(
        tmp_path,
        rule("example/do", note("example/told", {"n": 1}), result({"done": True})),
        *(rules if era == "new" else ()),
        capabilities={"tools": {}, "extensions": {UNKNOWN: {"s": 1}}},
    )
    with gateway(tmp_path, {"one": server.command}) as opened:
        ask, told = speaking(opened, client)
        assert ask("example/do", {"what": 1})["result"]["done"] is True
        assert opened.wait_method("example/told")["params"] == {"n": 1}
        opened.notify("example/heard", {"_meta": {f"{META}clientCapabilities": DECLARING}})
        server.wait_heard("example/heard")
        assert UNKNOWN in told()
    (asked,) = server.heard("example/do")
    shaken = [hello["params"]["capabilities"] for hello in server.heard("initialize")]
    if era == "new":
        declared = [asked["params"]["_meta"][f"{META}clientCapabilities"]]
    else:
        declared = [each for each in shaken if "extensions" in each]
    if (era, client) != ("old", MODERN):
        assert declared[0]["extensions"][UNKNOWN] == {"x": 1}


def test_what_it_makes_of_a_result_passes_and_what_it_asks(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        rule("example/ask", question("q", "example/who", {"n": 1}), keep="call"),
        rule("answer", '{"jsonrpc":"2.0","id":$call,"result":{"resultType":"receipt"}}'),
        capabilities={"tools": {}, "extensions": {UNKNOWN: {}}},
    )
    with gateway(tmp_path, {"one": server.command}) as opened:
        opened.initialize(capabilities=DECLARING)
        call = opened.start("example/ask")
        asked = opened.wait_method("example/who")
        assert asked["params"] == {"n": 1}
        opened.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"me": True}})
        assert "result" in opened.answer(call)
    assert server.answers()[-1]["result"] == {"me": True}


@pytest.mark.parametrize(
    ("servers", "profile", "capabilities"),
    [
        (("one",), {}, {}),
        (("one",), {"tools": {"deny": ["one/danger"]}}, DECLARING),
        (("one", "two"), {}, DECLARING),
    ],
    ids=["not declared", "rules for tools", "several servers"],
)
def test_elsewhere_its_methods_do_not_exist(
    tmp_path: Path, servers: tuple[str, ...], profile: Message, capabilities: Message
) -> None:
    offered: Message = {"tools": {}, "extensions": {UNKNOWN: {}}}
    scripts = {
        name: Scripted(tmp_path, rule("example/do", result({})), capabilities=offered, name=name)
        for name in servers
    }
    commands = {name: script.command for name, script in scripts.items()}
    profiles = {"default": {"servers": list(servers), **profile}}
    with gateway(tmp_path, commands, profiles=profiles) as opened:
        opened.initialize(capabilities=capabilities)
        opened.request("tools/list")
        error = opened.request("example/do")["error"]
        assert (error["code"], error["message"]) == (-32601, "Method not found: example/do")
    assert not [line for script in scripts.values() for line in script.lines if b"example" in line]


@pytest.mark.parametrize("method", ["skills/list", "skills/get", "resources/directory/read"])
def test_where_no_server_has_skills_their_methods_do_not_exist(tmp_path: Path, method: str) -> None:
    with serving(tmp_path, {"plain": DEMO}) as site:
        for client in (ModernClient(site), SessionClient(site)):
            assert declared(client) == {}
            answer = client.start(method, {"uri": f"{TEA}/SKILL.md"})
            assert answer.status == (404 if isinstance(client, ModernClient) else 200)
            error = answer.ending()["error"]
            assert (error["code"], error["message"]) == (-32601, f"Method not found: {method}")


# What was offered is remembered.


def test_what_a_server_offered_is_advertised_before_it_runs_again(tmp_path: Path) -> None:
    with gateway(tmp_path, {"tea": [*DEMO, "--skills"]}) as client:
        assert client.modern("skills/list")["result"]["skills"]
        assert client.finish() == 0
    # The same server, as far as a gateway can tell.
    with gateway(tmp_path, {"tea": [*DEMO, "--skills"]}) as client:
        opened = client.initialize()
        assert opened["capabilities"]["extensions"] == {SKILLS: {"directoryRead": True}}


def test_a_setting_is_advertised_if_it_holds_for_all_and_is_kept_to_where_it_does_not(
    tmp_path: Path,
) -> None:
    entry = {"uri": "skill://coffee/SKILL.md", "frontmatter": {}, "resources": "dynamic"}
    unlisted = {**entry, "uri": "skill://cocoa/SKILL.md"}
    server = Scripted(
        tmp_path,
        rule("skills/list", result({"skills": [entry]})),
        rule("skills/get", result({"skill": unlisted}), where={"uri": unlisted["uri"]}),
        capabilities={**EVERYTHING, "extensions": {SKILLS: {}}},
    )
    with gateway(tmp_path, {"coffee": server.command, "tea": [*DEMO, "--skills"]}) as client:
        listed = client.modern("skills/list")["result"]["skills"]
        assert [skill["uri"] for skill in listed] == [entry["uri"], f"{TEA}/SKILL.md"]
        told = client.modern("server/discover")["result"]["capabilities"]["extensions"]
        assert told == {SKILLS: {}}

        refused = client.modern("resources/directory/read", {"uri": "skill://coffee"})
        assert refused["error"]["code"] == -32601
        assert client.modern("resources/directory/read", {"uri": TEA})["result"]["resources"]
    assert server.heard("resources/directory/read") == []

    # Alone, it is asked for what it does not list, too.
    with gateway(tmp_path / "alone", {"coffee": server.command, "plain": DEMO}) as client:
        answer = client.modern("skills/get", {"uri": unlisted["uri"]})
        assert answer["result"]["skill"] == unlisted
