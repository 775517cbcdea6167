"""One session with a real server, once directly and once through the gateway: no difference.

Results, errors, notifications and questions are compared as the bytes they came in, never as
parsed values. What may differ is the handshake, the ids, and when it is said that a list has
changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.harness import LineClient, Message, gateway, transparent
from tests.journeys.verbatim_server import items, members
from tests.real import rig
from tests.real.conftest import LIST_SECONDS

pytestmark = pytest.mark.real

Step: TypeAlias = tuple[str, dict[str, Any]]
Said: TypeAlias = tuple[str, str]
"""What it was (an answer, or the method of something the server said on its own), and the raw
result, error or params."""

CAPABILITIES: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
ANSWERS = {
    "roots/list": {"roots": [{"uri": "file:///tmp/canned"}]},
    "sampling/createMessage": {
        "role": "assistant",
        "model": "canned",
        "content": {"type": "text", "text": "canned"},
    },
    "elicitation/create": {"action": "decline"},
}
LISTS = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resources/templates": "resources/templates/list",
    "prompts": "prompts/list",
}
REFUSED: list[Step] = [
    ("tools/call", {"name": "no_such_tool", "arguments": {}}),
    ("resources/read", {"uri": "nobody://nothing"}),
    ("prompts/get", {"name": "no_such_prompt"}),
    ("resources/subscribe", {"uri": "nobody://nothing"}),
]
"""What a server refuses in its own words, whichever server it is."""


def test_nothing_is_lost_of_everything(tmp_path: Path) -> None:
    document = "demo://resource/static/document/features.md"
    steps: list[Step] = [
        _call("echo", message="h\u00e9llo \U0001f30d"),
        _call("echo", message=12),
        _call("get-sum", a=1e100, b=-0.0),
        _call("get-tiny-image"),
        _call("get-structured-content", location="Chicago"),
        _call("get-annotated-message", messageType="error", includeImage=True),
        _call("get-resource-reference", resourceType="Text", resourceId=0),
        _call("get-resource-links", count=3),
        _call("trigger-sampling-request", prompt="Hello", maxTokens=7),
        _call("trigger-elicitation-request"),
        _call("trigger-url-elicitation", url="http://[::1]/", elicitationId="one"),
        _call("get-roots-list"),
        ("tools/call", _slow()),
        ("resources/read", {"uri": document}),
        ("resources/read", {"uri": "demo://resource/dynamic/text/none"}),
        ("resources/subscribe", {"uri": document}),
        _call("toggle-subscriber-updates"),
        ("resources/unsubscribe", {"uri": document}),
        ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Bonn"}}),
        ("prompts/get", {"name": "args-prompt", "arguments": {}}),
        ("completion/complete", _completion("completable-prompt", "department", "E")),
        ("completion/complete", _completion("no-such-prompt", "department", "E")),
        ("logging/setLevel", {"level": "error"}),
    ]
    server = rig.server("everything")
    first = ["roots/list", "notifications/message"]
    _assert_lossless(tmp_path, server, server, steps, first=first)


def test_nothing_is_lost_of_filesystem(tmp_path: Path, folder: Path) -> None:
    odd = folder / "\u00f6dd \U0001f30d.txt"
    steps: list[Step] = [
        _call("write_file", path=str(odd), content='tabs\tand "quotes" \u2028\n'),
        _call("read_text_file", path=str(odd)),
        _call("read_text_file", path=str(odd), head="one"),
        _call("read_text_file", path=str(folder / "nothing.txt")),
        _call("read_text_file", path="/etc/hostname"),
        _call("list_directory", path=str(folder)),
        _call("directory_tree", path=str(folder)),
        _call("search_files", path=str(folder), pattern="**/*.txt"),
        _call("list_allowed_directories"),
    ]
    server = rig.server("filesystem", folder)
    _assert_lossless(tmp_path, server, server, steps, first=["roots/list"])


def test_nothing_is_lost_of_memory(tmp_path: Path) -> None:
    graph = "memory://knowledge-graph"
    ada = {"name": "Ada", "entityType": "person", "observations": ["counts", "\u0000\ud83c\udf0d"]}
    steps: list[Step] = [
        ("resources/subscribe", {"uri": graph}),
        _call("create_entities", entities=[ada]),
        _call("add_observations", observations=[{"entityName": "nobody", "contents": ["x"]}]),
        _call("create_entities", entities="none"),
        _call("read_graph"),
        _call("search_nodes", query="Ada"),
        ("resources/read", {"uri": graph}),
        ("resources/read", {"uri": graph + "/nothing"}),
    ]
    direct = rig.server("memory", tmp_path / "direct.jsonl")
    behind = rig.server("memory", tmp_path / "behind.jsonl")
    _assert_lossless(tmp_path, direct, behind, steps)


def test_nothing_is_lost_of_time(tmp_path: Path) -> None:
    zones = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
    steps: list[Step] = [
        _call("convert_time", **zones, time="12:00"),
        _call("convert_time", **zones, time="noon"),
        _call("get_current_time", timezone="Nowhere/None"),
        _call("get_current_time"),
    ]
    server = rig.server("time")
    _assert_lossless(tmp_path, server, server, steps)


def test_nothing_is_lost_of_git(tmp_path: Path, repository: Path) -> None:
    here = str(repository)
    steps: list[Step] = [
        _call("git_status", repo_path=here),
        _call("git_log", repo_path=here, max_count=1),
        _call("git_show", repo_path=here, revision="HEAD"),
        _call("git_show", repo_path=here, revision="no-such-revision"),
        _call("git_log", repo_path=here, max_count="many"),
        _call("git_status", repo_path="/nowhere"),
    ]
    server = rig.server("git", repository)
    _assert_lossless(tmp_path, server, server, steps)


def _assert_lossless(
    tmp_path: Path,
    direct: list[str],
    behind: list[str],
    steps: Sequence[Step],
    *,
    first: Sequence[str] = (),
) -> None:
    """Hold the same session twice and compare all that was said.

    `first` is what the server says before anybody asks it anything.
    """
    alone = LineClient(direct)
    try:
        declared = alone.initialize(capabilities=CAPABILITIES)["capabilities"]
        # Of what a server does not have, the gateway has an empty list.
        lists: list[Step] = [(LISTS[kind], {}) for kind in LISTS if kind.split("/")[0] in declared]
        script = [*lists, *steps, *REFUSED]
        expected = _session(alone, script, first)
    finally:
        alone.kill()
    entry = {"command": behind[0], "args": behind[1:], "protocol": "legacy"}
    settings = {"gateway": {"listSeconds": LIST_SECONDS}, "profiles": transparent("server")}
    with gateway(tmp_path, {"server": entry}, **settings) as client:
        client.initialize(capabilities=CAPABILITIES)
        found = _session(client, script, first)

    for said, wanted in zip(found, expected, strict=True):
        assert said == wanted
    assert items(members(dict(found)["tools/list"])["tools"])


def _session(client: LineClient, script: Sequence[Step], first: Sequence[str]) -> list[Said]:
    """All that a server said after the handshake, in its order."""
    said: list[Said] = []
    while [method for method, _ in said] != [*first]:
        said += _heard(client, client.next())
    for number, (method, params) in enumerate(script, start=1):
        id = f"step {number}"
        client.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        while (message := client.next()).get("id") != id:
            said += _heard(client, message)
        answer = members(client.lines[-1].decode())
        said.append((method, answer.get("result") or f"error {answer['error']}"))
    return said


def _heard(client: LineClient, message: Message) -> list[Said]:
    """What a server said on its own, if it is to be compared; a question is answered."""
    method = message["method"]
    if "id" in message:
        client.send({"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[method]})
    if method.endswith("/list_changed"):
        return []
    return [(method, members(client.lines[-1].decode()).get("params", ""))]


def _call(name: str, **arguments: Any) -> Step:
    return "tools/call", {"name": name, "arguments": arguments}


def _slow() -> dict[str, Any]:
    arguments = {"duration": 0.2, "steps": 2}
    meta = {"progressToken": "a token", "vendor/own": [1.0]}
    return {"name": "trigger-long-running-operation", "arguments": arguments, "_meta": meta}


def _completion(prompt: str, argument: str, value: str) -> dict[str, Any]:
    reference = {"type": "ref/prompt", "name": prompt}
    return {"ref": reference, "argument": {"name": argument, "value": value}}
