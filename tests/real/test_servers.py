"""Every real server behind one gateway, all at once: starting, failing, asking, ending.

Spoken to in raw lines, so that nothing a client library does or mends stands between.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import MODERN_META, LineClient, Message, gateway, read_events
from tests.journeys.scripts import eventually
from tests.real import rig
from tests.real.conftest import LIST_SECONDS

pytestmark = pytest.mark.real

PATIENT = {"listSeconds": LIST_SECONDS}
MODERN = ("modern", "2026-07-28")
LEGACY = ("legacy", "2025-11-25")
ERAS = {  # In front of a modern client, and of a legacy one.
    "time": (MODERN, LEGACY),
    "git": (MODERN, LEGACY),
    "fetch": (MODERN, LEGACY),
    "everything": (LEGACY, LEGACY),
    "filesystem": (LEGACY, LEGACY),
    "memory": (LEGACY, LEGACY),
    "old": (("legacy", "2024-11-05"), ("legacy", "2024-11-05")),
    "modern": (MODERN, LEGACY),
}
Servers = dict[str, Message | list[str]]


@pytest.fixture
def house(tmp_path: Path, everyone: Servers) -> Iterator[LineClient]:
    """A client of a gateway with all of them, which has seen what they offer."""
    with gateway(tmp_path, everyone, gateway=PATIENT) as client:
        client.initialize()
        client.request("tools/list")
        yield client


def test_every_server_is_met_in_the_era_of_a_legacy_client(house: LineClient) -> None:
    backends = _backends(house)

    assert {slug: (one["era"], one["revision"]) for slug, one in backends.items()} == {
        slug: legacy for slug, (_, legacy) in ERAS.items()
    }
    failed = {slug: one for slug, one in backends.items() if one["restarts"] or one["last_error"]}
    assert not failed
    assert {one["noise_lines"] for one in backends.values()} == {0}
    assert min(one["tool_count"] for one in backends.values()) > 0
    # What servers say for other ears, or in answer to the gateway, does not reach the client.
    assert [message["method"] for message in house.seen if "method" in message] == []


def test_every_server_is_met_in_the_newest_era_it_has_by_a_modern_client(
    tmp_path: Path, everyone: Servers
) -> None:
    with gateway(tmp_path, everyone, gateway=PATIENT) as client:
        client.modern("tools/list")
        told = json.loads(_text(client.modern("tools/call", {"name": "gateway_status"})))

    assert {slug: (one["era"], one["revision"]) for slug, one in told["backends"].items()} == {
        slug: modern for slug, (modern, _) in ERAS.items()
    }


def test_the_first_list_does_not_wait_for_the_slowest(tmp_path: Path, everyone: Servers) -> None:
    with gateway(tmp_path, everyone, gateway={"listSeconds": 0.01}) as client:
        client.initialize()
        partial = client.request("tools/list")["result"]["tools"]
        complete = partial
        while _slugs(complete) < {*ERAS}:
            del client.seen[:]
            client.wait_method("notifications/tools/list_changed")
            complete = client.request("tools/list")["result"]["tools"]
    with gateway(tmp_path, everyone, gateway={"listSeconds": 0.01}) as client:
        client.initialize()
        known = client.request("tools/list")["result"]["tools"]

    assert _slugs(partial) < {*ERAS}
    # The next time what they offered is known before they have started.
    assert known == complete


def test_a_server_that_is_killed_spoils_no_other_and_comes_back(house: LineClient) -> None:
    slow = {"duration": 60, "steps": 600}
    call = {"name": "everything__trigger-long-running-operation", "arguments": slow}
    open_call = house.start("tools/call", {**call, "_meta": {"progressToken": "t"}})
    house.wait_method("notifications/progress")
    os.kill(_backends(house)["everything"]["pid"], signal.SIGKILL)

    error = house.answer(open_call)["error"]
    assert error["message"].startswith("Server 'everything' is not running")
    assert error["data"]["server"] == "everything"
    assert _text(house.call("old__add", {"a": 1, "b": 2})) == "3"
    while (answer := house.call("everything__echo", {"message": "back"})).get("error"):
        assert "everything" in answer["error"]["message"]
    assert _text(answer) == "Echo: back"
    assert {slug: one["restarts"] for slug, one in _backends(house).items() if one["restarts"]} == {
        "everything": 1
    }


def test_no_server_outlives_the_gateway(house: LineClient) -> None:
    pids = [one["pid"] for one in _backends(house).values()]

    assert house.finish() == 0
    assert [pid for pid in pids if _is_alive(pid)] == []


def test_a_server_follows_the_roots_of_its_client(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with gateway(tmp_path, {"files": rig.server("filesystem", folder)}, gateway=PATIENT) as client:
        client.initialize(capabilities={"roots": {"listChanged": True}})
        _answer_roots(client, other)
        _wait_text(client, "files__list_allowed_directories", str(other))
        client.notify("notifications/roots/list_changed")
        _answer_roots(client, folder)
        _wait_text(client, "files__list_allowed_directories", str(folder))


def test_roots_are_asked_for_whichever_call_is_open(tmp_path: Path) -> None:
    # Without a folder of its own this server has nothing but the roots of its client.
    servers = {"files": rig.server("filesystem", tmp_path)[:-1]}
    tool = "files__list_allowed_directories"
    with gateway(tmp_path, servers, gateway=PATIENT) as client:
        client.initialize(capabilities={"roots": {}})
        client.request("tools/list")
    with gateway(tmp_path, servers, gateway=PATIENT) as client:
        client.initialize(capabilities={"roots": {}})
        # The name is known from last time, so the call is the first thing the server gets.
        client.call(tool)
        _answer_roots(client, tmp_path)
        _wait_text(client, tool, str(tmp_path))


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
def test_a_server_learns_that_its_call_was_cancelled(tmp_path: Path, protocol: str) -> None:
    with gateway(tmp_path, {"python": _pinned(protocol)}, gateway=PATIENT) as client:
        client.initialize()
        call = {"name": "python__hang", "arguments": {}, "_meta": {"progressToken": 0}}
        hanging = client.start("tools/call", call)
        client.wait_method("notifications/progress")
        client.notify("notifications/cancelled", {"requestId": hanging, "reason": "enough"})

        assert _text(client.call("python__how_it_ended")) == "cancelled"
        assert not [message for message in client.seen if message.get("id") == hanging]


def test_a_server_with_sessions_asks_a_modern_client(tmp_path: Path) -> None:
    able: Message = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    meta = MODERN_META | {"io.modelcontextprotocol/clientCapabilities": able}
    sampled = {"role": "assistant", "content": {"type": "text", "text": "six"}, "model": "m"}
    answers: dict[str, tuple[Message, str]] = {
        "ask": ({"action": "decline"}, "decline"),
        "think": (sampled, "six"),
        "look": ({"roots": [{"uri": "file:///a"}]}, "file:///a"),
    }
    with gateway(tmp_path, {"python": _pinned("legacy")}, gateway=PATIENT) as client:
        for tool, (answer, words) in answers.items():
            name = {"name": f"python__{tool}"}
            asked = client.modern("tools/call", name, **meta)["result"]
            assert asked["resultType"] == "input_required"
            responses = dict.fromkeys(asked["inputRequests"], answer)
            back = {"inputResponses": responses, "requestState": asked["requestState"]}

            assert words in _text(client.modern("tools/call", name | back, **meta))
        added = client.modern("tools/call", {"name": "python__add", "arguments": {"a": 1, "b": 2}})
        assert _text(added) == "3"


LATE = """if mkdir "$0"; then
  read -r first; read -r second; { printf '%s\\n%s\\n' "$first" "$second"; cat; } | "$@"
else exec "$@"; fi"""
"""Starts a server when two messages wait for it; in later lives of it at once."""


@pytest.mark.parametrize("sdk", ["ts2", "py2", "fm"])
def test_a_server_of_both_eras_that_starts_slowly_is_spoken_to_in_the_newer(
    tmp_path: Path, sdk: str
) -> None:
    command = ["sh", "-c", LATE, str(tmp_path / "begun"), *rig.corner(sdk, "slow", "stdio")]
    meta = MODERN_META | {"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}
    with gateway(tmp_path, {"slow": command}, gateway=PATIENT) as client:
        asked = client.modern("tools/call", {"name": "slow__look"}, **meta)["result"]
        assert asked["resultType"] == "input_required"
        responses = {key: {"roots": [{"uri": "file:///a"}]} for key in asked["inputRequests"]}
        back = {"name": "slow__look", "inputResponses": responses}

        answer = client.modern("tools/call", back | {"requestState": asked["requestState"]}, **meta)

        assert _text(answer) == "file:///a"
        told = json.loads(_text(client.modern("tools/call", {"name": "gateway_status"})))
    assert told["backends"]["slow"]["revision"] == "2026-07-28"


def test_servers_speak_the_revision_that_is_asked_of_them(tmp_path: Path) -> None:
    revisions = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    servers = {f"r{name}": _pinned(name) for name in revisions}
    with gateway(tmp_path, servers, gateway=PATIENT) as client:
        client.initialize()
        client.request("tools/list")
        for name in revisions:
            assert _text(client.call(f"r{name}__add", {"a": 1, "b": 2})) == "3"

        backends = _backends(client)
    assert {slug: one["revision"] for slug, one in backends.items()} == {
        f"r{name}": name for name in revisions
    }


def test_two_gateways_share_servers_and_one_state_directory(tmp_path: Path) -> None:
    servers = {"old": rig.server("old_python"), "modern": rig.server("modern_python")}
    with (
        gateway(tmp_path, servers, gateway=PATIENT) as one,
        gateway(tmp_path, servers, gateway=PATIENT) as other,
    ):
        for client in (one, other):
            client.initialize()
        calls = [
            (client, client.start("tools/call", {"name": name, "arguments": {"a": 1, "b": 2}}))
            for _ in range(20)
            for name in ("old__add", "modern__add")
            for client in (one, other)
        ]
        assert {_text(client.answer(call)) for client, call in calls} == {"3"}
        assert [one.finish(), other.finish()] == [0, 0]

    events = read_events(tmp_path / "state")
    ended = [
        event
        for event in events
        if event["event_type"] == "gateway.tool_call" and event["status"] == "success"
    ]
    assert len(ended) == len(calls)
    assert len({event["trace_id"] for event in ended}) == len(calls)


def _pinned(protocol: str) -> Message:
    command, *arguments = rig.server("modern_python")
    return {"command": command, "args": arguments, "protocol": protocol}


def _backends(client: LineClient) -> dict[str, Message]:
    backends: dict[str, Message] = json.loads(_text(client.call("gateway_status")))["backends"]
    return backends


def _text(answer: Message) -> str:
    [block] = answer["result"]["content"]
    text: str = block["text"]
    return text


def _slugs(tools: list[Message]) -> set[str]:
    return {tool["name"].partition("__")[0] for tool in tools if "__" in tool["name"]}


def _answer_roots(client: LineClient, root: Path) -> None:
    asked = client.wait_method("roots/list")
    roots = [{"uri": root.as_uri()}]
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}})
    del client.seen[:]


def _wait_text(client: LineClient, tool: str, wanted: str) -> None:
    """Call until the answer tells what is wanted."""
    eventually(lambda: wanted in _text(client.call(tool)), f"{tool} tells {wanted}")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
