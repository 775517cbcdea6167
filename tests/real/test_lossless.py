"""One session with a real server, once directly and once through the gateway: no difference.

Results, errors, notifications and questions are compared as the bytes they came in, never as
parsed values. What may differ is the handshake, the ids, and when it is said that a list has
changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness import LineClient, Message, gateway, transparent
from tests.journeys.verbatim_server import items, members
from tests.real import rig
from tests.real.conftest import LIST_SECONDS
from tests.real.session_steps import (
    ANSWERS,
    CAPABILITIES,
    EVERYTHING,
    REFUSED,
    Said,
    Step,
    call,
    lists_of,
)

pytestmark = pytest.mark.real


def test_nothing_is_lost_of_everything(tmp_path: Path) -> None:
    server = rig.server("everything")
    first = ["roots/list", "notifications/message"]
    _assert_lossless(tmp_path, server, server, EVERYTHING, first=first)


def test_nothing_is_lost_of_filesystem(tmp_path: Path, folder: Path) -> None:
    odd = folder / "\u00f6dd \U0001f30d.txt"
    steps: list[Step] = [
        call("write_file", path=str(odd), content='tabs\tand "quotes" \u2028\n'),
        call("read_text_file", path=str(odd)),
        call("read_text_file", path=str(odd), head="one"),
        call("read_text_file", path=str(folder / "nothing.txt")),
        call("read_text_file", path="/etc/hostname"),
        call("list_directory", path=str(folder)),
        call("directory_tree", path=str(folder)),
        call("search_files", path=str(folder), pattern="**/*.txt"),
        call("list_allowed_directories"),
    ]
    server = rig.server("filesystem", folder)
    _assert_lossless(tmp_path, server, server, steps, first=["roots/list"])


def test_nothing_is_lost_of_memory(tmp_path: Path) -> None:
    graph = "memory://knowledge-graph"
    ada = {"name": "Ada", "entityType": "person", "observations": ["counts", "\u0000\ud83c\udf0d"]}
    steps: list[Step] = [
        ("resources/subscribe", {"uri": graph}),
        call("create_entities", entities=[ada]),
        call("add_observations", observations=[{"entityName": "nobody", "contents": ["x"]}]),
        call("create_entities", entities="none"),
        call("read_graph"),
        call("search_nodes", query="Ada"),
        ("resources/read", {"uri": graph}),
        ("resources/read", {"uri": graph + "/nothing"}),
    ]
    direct = rig.server("memory", tmp_path / "direct.jsonl")
    behind = rig.server("memory", tmp_path / "behind.jsonl")
    _assert_lossless(tmp_path, direct, behind, steps)


def test_nothing_is_lost_of_time(tmp_path: Path) -> None:
    zones = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
    steps: list[Step] = [
        call("convert_time", **zones, time="12:00"),
        call("convert_time", **zones, time="noon"),
        call("get_current_time", timezone="Nowhere/None"),  # The others tell the second, too.
        call("get_current_time"),
    ]
    server = rig.one_day_time()
    _assert_lossless(tmp_path, server, server, steps)


def test_nothing_is_lost_of_git(tmp_path: Path, repository: Path) -> None:
    here = str(repository)
    steps: list[Step] = [
        call("git_status", repo_path=here),
        call("git_log", repo_path=here, max_count=1),
        call("git_show", repo_path=here, revision="HEAD"),
        call("git_show", repo_path=here, revision="no-such-revision"),
        call("git_log", repo_path=here, max_count="many"),
        call("git_status", repo_path="/nowhere"),
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
        script = [*lists_of(declared), *steps, *REFUSED]
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
