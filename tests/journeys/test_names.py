"""Public names: prefixes, separators, rules, aliases, and names that no model would accept."""

import re
from itertools import product
from pathlib import Path

import pytest

from tests.harness import Message, read_events
from tests.journeys.scripts import (
    Scripted,
    eventually,
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

FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")


def two_servers(path: Path) -> dict[str, list[str]]:
    """Both have `search`; only the first has `create_issue`, only the second `send`."""
    offered = {"github": ("create_issue", "search"), "mail": ("search", "send")}
    return {
        slug: Scripted(
            path, tools(*natives), rule("tools/call", result(text(slug))), name=slug
        ).command
        for slug, natives in offered.items()
    }


def profile(**settings: object) -> dict[str, Message]:
    servers = ["github", "mail"]
    return {"default": {"servers": servers, "gatewayTools": False, **settings}}


@pytest.mark.parametrize(
    "separator", ["__", ":", *(pytest.param(s, marks=pytest.mark.slow) for s in ("/", ".", "-"))]
)
def test_every_separator_stands_between_server_and_tool(tmp_path: Path, separator: str) -> None:
    profiles = profile(separator=separator)
    with gateway(tmp_path, two_servers(tmp_path), profiles=profiles) as client:
        assert names(client) == [
            f"github{separator}create_issue",
            f"github{separator}search",
            f"mail{separator}search",
            f"mail{separator}send",
        ]
        assert said(client.call(f"github{separator}search")) == "github"
        assert said(client.call(f"mail{separator}search")) == "mail"


def test_on_conflict_only_the_later_server_is_prefixed(tmp_path: Path) -> None:
    profiles = profile(prefix="on-conflict")
    with gateway(tmp_path, two_servers(tmp_path), profiles=profiles) as client:
        assert names(client) == ["create_issue", "search", "mail__search", "send"]
        assert said(client.call("search")) == "github"
        assert said(client.call("mail__search")) == "mail"
        assert said(client.call("send")) == "mail"


def test_without_prefixes_names_are_the_servers_own_while_they_are_unique(tmp_path: Path) -> None:
    servers = {
        slug: Scripted(
            tmp_path, tools(tool), rule("tools/call", result(text(slug))), name=slug
        ).command
        for slug, tool in (("github", "create_issue"), ("mail", "send.now"))
    }
    profiles = profile(prefix="never")
    with gateway(tmp_path, servers, profiles=profiles) as client:
        assert names(client) == ["create_issue", "send.now"]
        assert said(client.call("send.now")) == "mail"


def test_a_native_name_is_accepted_only_where_names_may_have_no_prefix(tmp_path: Path) -> None:
    servers = {
        slug: Scripted(
            tmp_path, tools(*natives), rule("tools/call", result(text(slug))), name=slug
        ).command
        for slug, natives in (("github", ("x.y", "sha.red")), ("mail", ("sha.red",)))
    }
    with gateway(tmp_path, servers, profiles=profile(prefix="on-conflict")) as client:
        assert said(client.call("x.y")) == "github"
        assert client.call("sha.red")["error"]["message"] == "Unknown tool: sha.red"
    with gateway(tmp_path, servers, profiles=profile()) as client:
        assert client.call("x.y")["error"]["message"] == "Unknown tool: x.y"


ABSENCES: dict[str, tuple[list[Message], Message]] = {
    "starting": ([rule("initialize", until="never")], {}),
    "down": ([rule("initialize", exit=1)], {}),
    "dropped": ([tools("other")], {}),
    "denied": ([tools("echo")], {"tools": {"deny": ["a/echo"]}}),
}


@pytest.mark.parametrize(
    ("absence", "prefix"),
    [
        *product(ABSENCES, ["always", "on-conflict", "never"]),
        ("not configured", "always"),
    ],
)
def test_no_server_catches_a_call_that_names_another(
    tmp_path: Path, absence: str, prefix: str
) -> None:
    rules, settings = ABSENCES.get(absence, (None, {}))
    catcher = Scripted(
        tmp_path,
        tools("a__echo", "echo"),
        rule("tools/call", result(text("caught"))),
        name="b",
    )
    servers = {"b": catcher.command}
    if rules is not None:
        servers["a"] = Scripted(tmp_path, *rules, name="a").command
    profiles = {"default": {"servers": [*servers], "prefix": prefix, **settings}}
    brief = {"listSeconds": 1}
    with gateway(tmp_path, servers, profiles=profiles, gateway=brief) as client:
        own = "b__a__echo"
        eventually(lambda: own in names(client), f"{own} is listed")
        for name in ("a__echo", "A__echo"):
            call = client.start("tools/call", {"name": name})
            assert said(client.call(own)) == "caught"
            client.notify("notifications/cancelled", {"requestId": call})
    assert len(catcher.heard("tools/call")) == 2


@pytest.mark.parametrize("prefix", ["on-conflict", "never"])
def test_a_name_never_changes_its_server_while_the_gateway_runs(
    tmp_path: Path, prefix: str
) -> None:
    changed = note("notifications/tools/list_changed")
    here, gone = (["echo", "b_turn"], ["b_turn"])
    later = Scripted(
        tmp_path,
        tools("a_turn") | {"once": True},
        tools("a_turn", "echo"),
        rule("tools/call", changed, result(text("a")), where={"name": "a_turn"}),
        rule("tools/call", result(text("a"))),
        name="a",
    )
    first = Scripted(
        tmp_path,
        tools(*here) | {"once": True, "run": 1},
        tools(*gone) | {"run": 1},
        tools(*here),
        rule("tools/call", changed, result(text("b")), where={"name": "b_turn"}, run=1, once=True),
        rule("tools/call", where={"name": "b_turn"}, run=1, exit=1),
        rule("tools/call", result(text("b"))),
        name="b",
    )
    servers = {"a": later.command, "b": first.command}
    profiles = {"default": {"servers": ["a", "b"], "prefix": prefix, "gatewayTools": False}}
    with gateway(tmp_path, servers, profiles=profiles) as client:
        assert names(client) == ["a_turn", "echo", "b_turn"]
        assert said(client.call("echo")) == "b"

        client.call("a_turn")
        expected = ["a_turn", "a__echo", "echo", "b_turn"]
        eventually(lambda: names(client) == expected, "the later one has the longer name")
        assert [said(client.call(name)) for name in ("echo", "a__echo")] == ["b", "a"]

        client.call("b_turn")
        expected.remove("echo")
        eventually(lambda: names(client) == expected, "its first owner has dropped it")
        assert client.call("echo")["error"]["message"] == "Unknown tool: echo"
        assert said(client.call("a__echo")) == "a"

        client.call("b_turn")
        eventually(lambda: "echo" in names(client), "its first owner has started again")
        assert [said(client.call(name)) for name in ("echo", "a__echo")] == ["b", "a"]
    [event] = [
        event
        for event in read_events(tmp_path / "state")
        if event["event_type"] == "gateway.name_conflict"
    ]
    assert event["metadata"] == {
        "profile": "default",
        "server": "a",
        "list": "tools",
        "count": 1,
        "names": ["echo"],
        "owners": ["b"],
        "public_names": ["a__echo"],
    }


@pytest.mark.parametrize("prefix", ["on-conflict", "never"])
def test_the_first_server_has_a_name_however_long_it_takes_to_start(
    tmp_path: Path, prefix: str
) -> None:
    go = tmp_path / "go"
    slow = Scripted(
        tmp_path,
        tools("echo") | {"until": str(go)},
        rule("tools/call", result(text("slow"))),
        name="slow",
    )
    quick = Scripted(tmp_path, tools("echo"), rule("tools/call", result(text("quick"))), name="q")
    profiles = {"default": {"servers": ["slow", "quick"], "prefix": prefix}}
    servers = {"slow": slow.command, "quick": quick.command}
    with gateway(tmp_path, servers, profiles=profiles) as client:
        call = client.start("tools/call", {"name": "echo"})

        def told() -> bool:
            quick = status(client)["backends"]["quick"]
            return quick["status"] == "running" and "warnings" not in quick

        eventually(told, "the gateway knows what the quick one has")
        go.touch()
        assert said(client.answer(call)) == "slow"
        assert said(client.call("quick__echo")) == "quick"


@pytest.mark.parametrize(
    ("rules", "seen"),
    [
        ({"allow": ["search"]}, ["github__search", "mail__search"]),
        ({"allow": ["*"], "deny": ["mail/s*"]}, ["github__create_issue", "github__search"]),
        ({"allow": ["github/*"], "deny": ["search"]}, ["github__create_issue"]),
    ],
    ids=["allow", "deny", "both"],
)
def test_rules_decide_what_is_seen_and_what_can_be_called(
    tmp_path: Path, rules: Message, seen: list[str]
) -> None:
    every = ["github__create_issue", "github__search", "mail__search", "mail__send"]
    with gateway(tmp_path, two_servers(tmp_path), profiles=profile(tools=rules)) as client:
        assert names(client) == seen
        for name in every:
            assert ("result" in client.call(name)) is (name in seen)


def test_a_hidden_tool_cannot_be_called_by_its_native_name(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("open", "shut"), rule("tools/call", result(text("ran"))))
    for settings in ({"prefix": "on-conflict"}, {"prefix": "never"}):
        profiles = {
            "default": {"servers": ["only"], "tools": {"deny": ["shut"]}, **settings},
        }
        with gateway(tmp_path, {"only": server.command}, profiles=profiles) as client:
            assert said(client.call("open")) == "ran"
            assert client.call("shut")["error"]["message"] == "Unknown tool: shut"
    assert {call["params"]["name"] for call in server.heard("tools/call")} == {"open"}


AWKWARD = (
    "plain",
    "with.dots/and:more",
    "with_dots_and_more",
    "naïve",
    "日本語",
    "UPPER",
    "upper",
    "x" * 200,
    "x" * 201,
    "a b",
    "a__b",
    "__a",
    "",
)


@pytest.mark.parametrize("separator", ["__", "-"])
def test_public_names_fit_every_model_and_lead_back(tmp_path: Path, separator: str) -> None:
    replies = [
        rule("tools/call", result(text(f"native {number}")), where={"name": native})
        for number, native in enumerate(AWKWARD)
    ]
    server = Scripted(tmp_path, tools(*AWKWARD), *replies)
    settings = {"default": {"servers": ["odd"], "separator": separator, "gatewayTools": False}}
    with gateway(tmp_path, {"odd": server.command}, profiles=settings) as client:
        public = names(client)
        assert len(public) == len(AWKWARD)
        assert all(FITS.fullmatch(name) for name in public)
        assert len({name.casefold() for name in public}) == len(public)
        answers = [said(client.call(name)) for name in public]
    assert answers == [f"native {number}" for number in range(len(AWKWARD))]


@pytest.mark.slow
def test_names_do_not_depend_on_restarts_order_or_neighbours(tmp_path: Path) -> None:
    def listed(path: Path, order: tuple[str, ...], natives: tuple[str, ...]) -> set[str]:
        servers = {slug: Scripted(path, tools(*natives), name=slug).command for slug in order}
        profiles = {"default": {"servers": list(order), "gatewayTools": False}}
        with gateway(path, servers, profiles=profiles) as client:
            return {name for name in names(client) if name.startswith("odd__")}

    first = listed(tmp_path / "1", ("odd", "more"), AWKWARD)
    assert listed(tmp_path / "2", ("more", "odd"), AWKWARD) == first
    assert listed(tmp_path / "3", ("odd",), AWKWARD[::-1]) == first


def test_names_that_look_alike_are_told_apart(tmp_path: Path) -> None:
    # `a` + `_b`, `a` + `b` and a tool that is itself called `a__b`.
    servers = {
        slug: Scripted(
            tmp_path,
            tools(*natives),
            *[
                rule("tools/call", result(text(f"{slug} {native}")), where={"name": native})
                for native in natives
            ],
            name=slug,
        ).command
        for slug, natives in (("a", ("_b", "b")), ("b", ("a__b", "b")))
    }
    profiles = {"default": {"servers": ["a", "b"], "gatewayTools": False}}
    with gateway(tmp_path, servers, profiles=profiles) as client:
        public = names(client)
        assert public == ["a___b", "a__b", "b__a__b", "b__b"]
        answers = [said(client.call(name)) for name in public]
    assert answers == ["a _b", "a b", "b a__b", "b b"]


def test_a_server_cannot_take_the_names_of_the_gateways_own_tools(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path, tools("gateway_status", "x"), rule("tools/call", result(text("impostor")))
    )
    profiles = {"default": {"servers": ["only"], "prefix": "never"}}
    with gateway(tmp_path, {"only": server.command}, profiles=profiles) as client:
        assert names(client) == ["gateway_status", "get_events", "only__gateway_status", "x"]
        assert said(client.call("gateway_status")).startswith('{"gateway"')
        assert said(client.call("only__gateway_status")) == "impostor"


def test_a_name_that_is_no_slug_becomes_one(tmp_path: Path) -> None:
    servers = {
        name: Scripted(tmp_path, tools(*natives), name=name).command
        for name, natives in (("serverA", ("tool_1", "tool_2")), ("serverB", ("tool_3",)))
    }
    with gateway(tmp_path, servers) as client:
        assert names(client)[2:] == ["servera__tool_1", "servera__tool_2", "serverb__tool_3"]
