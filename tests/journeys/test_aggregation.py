"""Many servers behind one endpoint: lists, URIs, completion, logs, subscriptions, pages."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEMO, LineClient, Message, transparent
from tests.journeys.scripts import (
    Scripted,
    eventually,
    failure,
    gateway,
    names,
    note,
    result,
    rule,
    said,
    status,
    text,
    tools,
)

SLUGS = ("zeta", "alpha", "mid")
"""Not in the order of the alphabet: the order of the configuration counts."""


def offering(path: Path, slug: str) -> Scripted:
    """A server with two of everything, under names that no other server has."""

    def two(member: str, pattern: str) -> list[Message]:
        return [{member: pattern.format(slug, n), "name": f"{slug}-{n}"} for n in (2, 1)]

    prompts = [{"name": f"{slug}_prompt_{n}"} for n in (2, 1)]
    templates = two("uriTemplate", "{}://{}/{{id}}")
    return Scripted(
        path,
        tools(f"{slug}_2", f"{slug}_1"),
        rule("resources/list", result({"resources": two("uri", "{}://{}")})),
        rule("resources/templates/list", result({"resourceTemplates": templates})),
        rule("prompts/list", result({"prompts": prompts})),
        rule("resources/read", result({"contents": [{"uri": "x:y", "text": slug}]})),
        rule("prompts/get", result({"messages": [], "description": slug})),
        rule("tools/call", result(text(slug))),
        name=slug,
    )


def test_everything_is_merged_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    servers = {slug: offering(tmp_path, slug).command for slug in SLUGS}
    with gateway(tmp_path, servers) as client:
        pairs = [(slug, n) for slug in SLUGS for n in (2, 1)]
        assert names(client)[2:] == [f"{slug}__{slug}_{n}" for slug, n in pairs]
        assert names(client, "resources") == [f"{slug}://{n}" for slug, n in pairs]
        templates = [f"{slug}://{n}/{{id}}" for slug, n in pairs]
        assert names(client, "resourceTemplates") == templates
        assert names(client, "prompts") == [f"{slug}__{slug}_prompt_{n}" for slug, n in pairs]
        for slug in SLUGS:
            assert said(client.call(f"{slug}__{slug}_1")) == slug
            for uri in (f"{slug}://1", f"{slug}://2/anything"):
                read = client.request("resources/read", {"uri": uri})
                assert read["result"]["contents"][0]["text"] == slug
            got = client.request("prompts/get", {"name": f"{slug}__{slug}_prompt_2"})
            assert got["result"]["description"] == slug


def test_one_bad_server_spoils_nobody(tmp_path: Path) -> None:
    bad = Scripted(tmp_path, rule("tools/list", failure({"code": 1, "message": "no"})), name="bad")
    servers: dict[str, Any] = {
        "missing": ["/nonexistent/program"],
        "bad": bad.command,
        "junk": Scripted(tmp_path, rule("tools/list", result([1, 2])), name="junk").command,
        "good": offering(tmp_path, "good").command,
    }
    with gateway(tmp_path, servers) as client:
        assert names(client)[2:] == ["good__good_2", "good__good_1"]
        assert said(client.call("good__good_1")) == "good"
        reports = json.loads(said(client.call("gateway_status")))["backends"]
    assert list(reports) == list(servers)
    assert reports["missing"]["status"] == "failed"
    assert reports["missing"]["last_error"]


# Resources that two servers claim

SHARED = "note://today"


def claiming(path: Path, slug: str) -> Scripted:
    """Offers the shared URI and links to it from every kind of result."""
    link = {"type": "resource_link", "uri": SHARED, "name": "today"}
    embedded = {"type": "resource", "resource": {"uri": SHARED, "text": slug}}
    own = {"type": "resource_link", "uri": f"{slug}://own", "name": "own"}
    message = {"role": "user", "content": embedded}
    completion = {"completion": {"values": [slug]}}
    return Scripted(
        path,
        tools("link"),
        rule("prompts/list", result({"prompts": [{"name": "p"}]})),
        rule("resources/list", result({"resources": [{"uri": SHARED, "name": "today"}]})),
        rule(
            "resources/templates/list",
            result({"resourceTemplates": [{"uriTemplate": "note://{day}", "name": "day"}]}),
        ),
        rule("resources/read", result({"contents": [{"uri": SHARED, "text": slug}]})),
        rule(
            "resources/subscribe",
            result({}),
            note("notifications/resources/updated", {"uri": SHARED}),
        ),
        rule("tools/call", result({"content": [link, embedded, own]})),
        rule("prompts/get", result({"messages": [message]})),
        rule("completion/complete", result(completion)),
        name=slug,
    )


@pytest.fixture
def rivals(tmp_path: Path) -> dict[str, Scripted]:
    return {slug: claiming(tmp_path, slug) for slug in ("one", "two")}


def commands(servers: dict[str, Scripted]) -> dict[str, list[str]]:
    return {slug: server.command for slug, server in servers.items()}


def test_contested_uris_carry_their_server_and_are_readable(
    tmp_path: Path, rivals: dict[str, Scripted]
) -> None:
    with gateway(tmp_path, commands(rivals)) as client:
        assert names(client, "resources") == [f"one+{SHARED}", f"two+{SHARED}"]
        assert names(client, "resourceTemplates") == ["one+note://{day}", "two+note://{day}"]
        for slug, server in rivals.items():
            (content,) = client.request("resources/read", {"uri": f"{slug}+{SHARED}"})["result"][
                "contents"
            ]
            assert content == {"uri": f"{slug}+{SHARED}", "text": slug}
            client.request("resources/read", {"uri": f"{slug}+note://tomorrow"})
            asked = [read["params"]["uri"] for read in server.heard("resources/read")]
            assert asked == [SHARED, "note://tomorrow"]


def test_contested_uris_are_rewritten_wherever_results_name_them(
    tmp_path: Path, rivals: dict[str, Scripted]
) -> None:
    with gateway(tmp_path, commands(rivals)) as client:
        link, embedded, own = client.call("two__link")["result"]["content"]
        assert link["uri"] == f"two+{SHARED}"
        assert embedded["resource"]["uri"] == f"two+{SHARED}"
        assert own["uri"] == "two://own"
        got = client.request("prompts/get", {"name": "two__p"})["result"]
        assert got["messages"][0]["content"]["resource"]["uri"] == f"two+{SHARED}"


def test_updates_of_contested_uris_name_the_right_one(
    tmp_path: Path, rivals: dict[str, Scripted]
) -> None:
    with gateway(tmp_path, commands(rivals)) as client:
        client.initialize()
        client.request("resources/subscribe", {"uri": f"two+{SHARED}"})
        told = client.wait_method("notifications/resources/updated")
        assert told["params"] == {"uri": f"two+{SHARED}"}
    assert rivals["two"].heard("resources/subscribe")[0]["params"] == {"uri": SHARED}
    assert not rivals["one"].heard("resources/subscribe")


def test_completion_finds_the_server_by_prompt_and_by_template(
    tmp_path: Path, rivals: dict[str, Scripted]
) -> None:
    with gateway(tmp_path, commands(rivals)) as client:
        for ref, native in (
            ({"type": "ref/prompt", "name": "two__p"}, {"type": "ref/prompt", "name": "p"}),
            (
                {"type": "ref/resource", "uri": "two+note://{day}"},
                {"type": "ref/resource", "uri": "note://{day}"},
            ),
        ):
            params = {"ref": ref, "argument": {"name": "day", "value": "t"}}
            answer = client.request("completion/complete", params)
            assert answer["result"]["completion"]["values"] == ["two"]
            assert rivals["two"].heard("completion/complete")[-1]["params"]["ref"] == native
        unknown = {"ref": {"type": "ref/prompt", "name": "nobody"}, "argument": {}}
        assert client.request("completion/complete", unknown)["error"]["code"] == -32602


def test_a_resource_nobody_has_is_not_found(tmp_path: Path, rivals: dict[str, Scripted]) -> None:
    with gateway(tmp_path, commands(rivals)) as client:
        client.initialize("2025-06-18")
        error = client.request("resources/read", {"uri": "nobody://has/it"})["error"]
        assert (error["code"], error["data"]) == (-32002, {"uri": "nobody://has/it"})
        modern = client.modern("resources/read", {"uri": "nobody://has/it"})["error"]
        assert modern["code"] == -32602


# Identity


def test_instructions_of_all_servers_are_merged(tmp_path: Path) -> None:
    servers = {
        slug: [*DEMO, "--instructions", f"How to use {slug}."] for slug in ("second", "first")
    }
    with gateway(tmp_path, servers) as client:
        client.request("tools/list")  # The servers have introduced themselves.
        merged = client.initialize()["instructions"]
        assert merged == client.modern("server/discover")["result"]["instructions"]
    second, first = merged.index("## second\nHow to use second."), merged.index("## first")
    assert second < first
    assert "server__name" in merged


def test_a_transparent_profile_shows_the_servers_own_instructions(tmp_path: Path) -> None:
    servers = {"demo": [*DEMO, "--instructions", "Just this."]}
    with gateway(tmp_path, servers, profiles=transparent("demo")) as client:
        client.request("tools/list")
        assert client.initialize()["instructions"] == "Just this."


# Pages


def every_page(client: LineClient, method: str) -> list[list[Message]]:
    pages, cursor = [], None
    while True:
        answer = client.request(method, {} if cursor is None else {"cursor": cursor})["result"]
        pages.append(answer["tools"])
        cursor = answer.get("nextCursor")
        if cursor is None:
            return pages


def test_more_tools_than_a_page_holds_come_in_pages_of_our_own(tmp_path: Path) -> None:
    servers = {"big": [*DEMO, "--tools", "2500", "--page-size", "700"], "small": DEMO}
    with gateway(tmp_path, servers) as client:
        pages = every_page(client, "tools/list")
        listed = [tool["name"] for page in pages for tool in page]
        assert len(pages[0]) == 2000
        assert len(listed) == len(set(listed)) > 2500
        assert listed[-1].startswith("small__")
        assert said(client.call("big__tool_2499")) == "tool_2499"
        for cursor in ("", "made up", 5, pages[0][0]["name"]):
            error = client.request("tools/list", {"cursor": cursor})["error"]
            assert error["code"] == -32602


def test_a_cursor_is_good_for_its_own_list_only(tmp_path: Path) -> None:
    with gateway(tmp_path, {"big": [*DEMO, "--tools", "2100"]}) as client:
        cursor = client.request("tools/list")["result"]["nextCursor"]
        error = client.request("prompts/list", {"cursor": cursor})["error"]
        assert error["code"] == -32602
        client.initialize()
        client.request("tools/list")
        client.call("big__grow")
        client.wait_method("notifications/tools/list_changed")
        # The list it was made from is no longer the list.
        assert client.request("tools/list", {"cursor": cursor})["error"]["code"] == -32602


# Changes


def test_a_changed_list_is_told_and_shown(tmp_path: Path) -> None:
    with gateway(tmp_path, {"one": DEMO, "two": [*DEMO, "--legacy-only"]}) as client:
        client.initialize()
        before = names(client)
        for slug in ("one", "two"):
            client.seen.clear()
            client.call(f"{slug}__grow")
            client.wait_method("notifications/tools/list_changed")
            assert f"{slug}__grown_1" in names(client)
        assert len(names(client)) == len(before) + 2


def test_a_change_that_nobody_can_see_is_not_told(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        {**tools("x"), "once": True},
        tools("x", "hidden"),
        rule("tools/call", note("notifications/tools/list_changed"), result(text("ok"))),
    )
    profiles = {"default": {"servers": ["only"], "tools": {"deny": ["hidden"]}}}
    with gateway(tmp_path, {"only": server.command}, profiles=profiles) as client:
        client.initialize()
        assert names(client)[2:] == ["only__x"]
        client.call("only__x")
        server.wait_heard("tools/list", 2)
        assert names(client)[2:] == ["only__x"]
        assert client.finish() == 0
        assert not [m for m in client.seen if "list_changed" in m.get("method", "")]


def test_a_client_that_has_not_looked_is_not_told_of_changes(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path,
        {**tools("x"), "once": True},
        tools("x", "y"),
        rule("tools/call", note("notifications/tools/list_changed"), result(text("ok"))),
    )
    with gateway(tmp_path, {"only": server.command}) as client:
        client.initialize()
        client.call("only__x")
        server.wait_heard("tools/list", 2)
        eventually(lambda: said(client.call("gateway_status")).find('"tools":4') > 0, "two tools")
        assert client.finish() == 0
        assert not [m for m in client.seen if "list_changed" in m.get("method", "")]


def test_a_program_that_is_no_mcp_server_shows_itself_in_the_status(tmp_path: Path) -> None:
    program = ["sh", "-c", "echo Welcome to the wrong program; cat >/dev/null"]
    with gateway(tmp_path, {"wrong": program}, gateway={"listSeconds": 0}) as client:
        client.initialize()

        def warnings() -> list[str]:
            found: list[str] = status(client)["backends"]["wrong"].get("warnings", [])
            return found

        eventually(lambda: warnings() != [], "a warning")
        assert warnings() == [
            "it wrote 1 lines that are not MCP, the first: Welcome to the wrong program"
        ]
