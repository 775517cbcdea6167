"""What clients are told that they can use: what the servers of their profile have, or may have."""

from pathlib import Path

import pytest

from tests.harness import LineClient, Message
from tests.journeys.clients import ModernClient, SessionClient
from tests.journeys.http_gateway import serving
from tests.journeys.scripts import EVERYTHING, Scripted, eventually, gateway, names, tools

ALL = {**EVERYTHING, "completions": {}}
TOOLS = {"tools": {"listChanged": True}}


def discovered(client: LineClient) -> Message:
    told: Message = client.modern("server/discover")["result"]["capabilities"]
    return told


def test_of_a_server_that_was_never_met_everything_is_expected(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("a"), capabilities={"tools": {}})
    with gateway(tmp_path, {"s": server.command}) as client:
        assert client.initialize()["capabilities"] == ALL

        assert names(client)[-1] == "s__a"
        assert discovered(client) == TOOLS


def test_what_is_remembered_of_a_server_is_declared_without_waiting_for_it(tmp_path: Path) -> None:
    server = Scripted(tmp_path, tools("a"), capabilities={"tools": {}, "logging": {}})
    with gateway(tmp_path, {"s": server.command}) as client:
        names(client)

    with gateway(tmp_path, {"s": server.command}) as client:
        assert client.initialize()["capabilities"] == {"logging": {}, **TOOLS}


def test_a_profile_declares_what_its_own_servers_have(tmp_path: Path) -> None:
    with_prompts = Scripted(tmp_path, name="prompts", capabilities={"prompts": {}})
    followed = {"resources": {"subscribe": True}, "completions": {}}
    resources = Scripted(tmp_path, name="resources", capabilities=followed)
    with serving(
        tmp_path,
        {"p": with_prompts.command, "r": resources.command},
        profiles={
            "prompts": {"servers": ["p"], "gatewayTools": False},
            "resources": {"servers": ["r"]},
            "both": {"servers": ["p", "r"], "gatewayTools": False},
        },
    ) as site:
        prompts: Message = {"prompts": {"listChanged": True}}
        resources_: Message = {
            "resources": {"subscribe": True, "listChanged": True},
            "completions": {},
        }
        for name, told in (
            ("prompts", prompts),
            ("resources", {**resources_, **TOOLS}),
            ("both", {**prompts, **resources_}),
        ):
            there = site.at(f"/mcp/{name}")
            ModernClient(there).request("prompts/list")
            assert SessionClient(there).opened["capabilities"] == told
            assert ModernClient(there).request("server/discover")["result"]["capabilities"] == told


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ],
)
def test_a_list_that_was_not_declared_is_empty(tmp_path: Path, method: str, kind: str) -> None:
    server = Scripted(tmp_path, tools("a"), capabilities={"tools": {}})
    with gateway(tmp_path, {"s": server.command}) as client:
        names(client)

    with gateway(tmp_path, {"s": server.command}) as client:
        assert client.initialize()["capabilities"] == TOOLS
        assert client.request(method)["result"] == {kind: []}
        assert client.request("logging/setLevel", {"level": "info"})["result"] == {}


def test_a_capability_that_comes_with_the_next_version_is_declared_when_that_was_met(
    tmp_path: Path,
) -> None:
    server = Scripted(tmp_path, tools("a"), capabilities={"tools": {}})
    with gateway(tmp_path, {"s": server.command}) as client:
        names(client)

    Scripted(tmp_path, tools("a"), capabilities={"tools": {}, "prompts": {}})
    with gateway(tmp_path, {"s": server.command}) as client:
        assert client.initialize()["capabilities"] == TOOLS, "as it was when it was last seen"
        eventually(lambda: "prompts" in discovered(client), "what it has now")
