"""The rig itself: every real client talks to real servers directly, with nothing between them.

What is seen to work here must work through the gateway too. It changes with what is installed, not
with the gateway: `make test-all` runs it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.real import rig

pytestmark = [pytest.mark.real, pytest.mark.exhaustive]

SDKS = ("py1", "py2", "fm", "ts1", "ts2")
MODERN = ("py2", "py2-modern", "fm-modern", "ts2", "ts2-modern")
LEGACY = ("py1", "py2-legacy", "ts1", "ts2-legacy")
TEXT = "demo://resource/dynamic/text/1"


def check_progress(name: str, reports: Sequence[rig.Observation]) -> None:
    """The TypeScript SDKs drop the last reports if they read them together with the answer."""
    told = [report["progress"] for report in reports]
    whole = [1, 2]
    assert told == (whole[: len(told)] if name.startswith("ts") else whole)


@pytest.mark.parametrize("name", SDKS)
def test_a_client_lists_calls_reads_and_completes(name: str) -> None:
    steps: list[rig.Step] = [
        {"do": "list", "what": "tools"},
        {"do": "list", "what": "resources"},
        {"do": "list", "what": "templates"},
        {"do": "list", "what": "prompts"},
        {"do": "call", "name": "echo", "arguments": {"message": "hi"}},
        {"do": "call", "name": "get-structured-content", "arguments": {"location": "Chicago"}},
        {"do": "read", "uri": TEXT},
        {"do": "prompt", "name": "args-prompt", "arguments": {"city": "Bonn"}},
        {
            "do": "complete",
            "ref": {"type": "ref/prompt", "name": "completable-prompt"},
            "argument": {"name": "department", "value": "E"},
        },
        {"do": "read", "uri": "demo://nothing"},
    ]
    seen = rig.client(name, steps, rig.server("everything"))

    [connected] = rig.of(seen, "connected")
    assert connected["protocolVersion"] == "2025-11-25"
    assert connected["serverInfo"]["name"] == "mcp-servers/everything"
    assert connected["capabilities"]["resources"]["subscribe"] is True
    assert connected["instructions"]
    tools, resources, templates, prompts = rig.of(seen, "listed")
    assert {"echo", "trigger-sampling-request"} <= {tool["name"] for tool in tools["items"]}
    assert resources["items"]
    assert len(templates["items"]) == 2
    assert "args-prompt" in {prompt["name"] for prompt in prompts["items"]}
    echo, structured, read, prompt, completion = rig.of(seen, "result")
    assert rig.text(echo) == "Echo: hi"
    assert structured["result"]["structuredContent"]["conditions"]
    assert read["result"]["contents"][0]["uri"] == TEXT
    assert "Bonn" in prompt["result"]["messages"][0]["content"]["text"]
    assert completion["result"]["completion"]["values"] == ["Engineering"]
    [error] = rig.of(seen, "error")
    assert error["code"] == -32602
    assert seen[-1]["saw"] == "closed"


@pytest.mark.parametrize("name", SDKS)
def test_a_client_answers_what_a_server_asks(name: str) -> None:
    steps: list[rig.Step] = [
        {"do": "call", "name": "trigger-sampling-request", "arguments": {"prompt": "Hello"}},
        {"do": "call", "name": "trigger-elicitation-request"},
        {"do": "call", "name": "trigger-url-elicitation", "arguments": {"url": "http://[::1]/"}},
        {"do": "call", "name": "get-roots-list"},
    ]
    seen = rig.client(name, steps, rig.server("everything"))

    sample, form, address, roots = (rig.text(result) for result in rig.of(seen, "result"))
    assert "canned sample" in sample
    assert "Name: canned" in form
    assert "completed the URL elicitation" in address
    assert "file:///tmp/canned" in roots
    assert {asked["method"] for asked in rig.of(seen, "asked")} == {
        "sampling/createMessage",
        "elicitation/create",
        "roots/list",
    }


@pytest.mark.parametrize("name", SDKS)
def test_a_client_sees_progress_and_cancels(name: str) -> None:
    slow = {"do": "call", "name": "trigger-long-running-operation"}
    steps: list[rig.Step] = [
        slow | {"arguments": {"duration": 0.6, "steps": 3}, "progress": True},
        slow | {"arguments": {"duration": 30, "steps": 300}, "cancel": True},
        {"do": "call", "name": "echo", "arguments": {"message": "still here"}},
    ]
    seen = rig.client(name, steps, rig.server("everything"))

    # The last one comes with the answer; the TypeScript SDKs lose it.
    progress = [(p["progress"], p["total"]) for p in rig.of(seen, "progress", step=0)]
    assert progress[:2] == [(1, 3), (2, 3)]
    assert rig.of(seen, "result", step=0)
    assert len(rig.of(seen, "progress", step=1)) == 1
    assert rig.of(seen, "cancelled", step=1)
    assert not rig.of(seen, "result", step=1)
    assert rig.text(rig.of(seen, "result", step=2)[0]) == "Echo: still here"


@pytest.mark.parametrize("name", SDKS)
def test_a_client_is_told_of_changes_and_logs(name: str) -> None:
    steps: list[rig.Step] = [
        {"do": "wait", "method": "notifications/tools/list_changed"},
        {"do": "subscribe", "uri": TEXT},
        {"do": "call", "name": "toggle-subscriber-updates"},
        {"do": "wait", "method": "notifications/resources/updated", "uri": TEXT},
        {"do": "log_level", "level": "debug"},
        {"do": "call", "name": "toggle-simulated-logging"},
        {"do": "wait", "method": "notifications/message"},
    ]
    seen = rig.client(name, steps, rig.server("everything"))

    assert len(rig.of(seen, "waited")) == 3
    assert not rig.of(seen, "missed")


@pytest.mark.parametrize("name", MODERN)
def test_a_modern_client_and_a_modern_server_do_all_of_it_their_way(name: str) -> None:
    steps: list[rig.Step] = [
        {"do": "listen"},
        {"do": "subscribe", "uri": "note://counter"},
        {"do": "call", "name": "ask"},
        {"do": "call", "name": "think"},
        {"do": "call", "name": "look"},
        {"do": "call", "name": "count", "arguments": {"to": 2}, "progress": True},
        {"do": "call", "name": "hang", "cancel": True},
        {"do": "call", "name": "how_it_ended"},
        {"do": "log_level", "level": "info"},
        {"do": "call", "name": "shout"},
        {"do": "wait", "method": "notifications/message"},
        {"do": "call", "name": "change"},
        {"do": "wait", "method": "notifications/tools/list_changed"},
        {"do": "wait", "method": "notifications/resources/updated", "uri": "note://counter"},
        {"do": "list", "what": "tools"},
        {"do": "read", "uri": "note://counter"},
    ]
    seen = rig.client(name, steps, rig.server("modern_python"))

    assert seen[0]["protocolVersion"] == "2026-07-28"
    answers = [rig.text(rig.of(seen, "result", step)[0]) for step in (2, 3, 4, 5, 7)]
    assert answers == [
        "canned, 1, True",
        "canned sample",
        "file:///tmp/canned",
        "counted to 2",
        "cancelled",
    ]
    check_progress(name, rig.of(seen, "progress", step=5))
    logged = [n for n in rig.of(seen, "notified") if n["method"] == "notifications/message"]
    # FastMCP's client asks for every level, whatever its user wants.
    wanted = ["debug", "info", "error"] if name == "fm-modern" else ["info", "error"]
    assert [n["params"]["level"] for n in logged] == wanted
    assert not rig.of(seen, "missed")
    assert "add_1" in {tool["name"] for tool in rig.of(seen, "listed")[0]["items"]}
    assert rig.of(seen, "result", step=15)[0]["result"]["contents"][0]["text"] == "1"


@pytest.mark.parametrize("name", LEGACY)
def test_a_legacy_client_is_asked_with_requests_by_a_server_of_both_eras(name: str) -> None:
    steps: list[rig.Step] = [{"do": "call", "name": tool} for tool in ("ask", "think", "look")]
    seen = rig.client(name, steps, rig.server("modern_python"))

    assert seen[0]["protocolVersion"] == "2025-11-25"
    assert [rig.text(result) for result in rig.of(seen, "result")] == [
        "canned, 1, True",
        "canned sample",
        "file:///tmp/canned",
    ]


@pytest.mark.parametrize("name", LEGACY)
def test_an_old_server_serves_those_who_shake_hands(name: str) -> None:
    steps: list[rig.Step] = [
        {"do": "list", "what": "tools"},
        {"do": "call", "name": "add", "arguments": {"a": 1, "b": 2}},
        {"do": "call", "name": "count", "arguments": {"to": 2}, "progress": True},
        {"do": "read", "uri": "note://greeting"},
    ]
    seen = rig.client(name, steps, rig.server("old_python"))

    assert seen[0]["protocolVersion"] == "2024-11-05"
    assert [tool["name"] for tool in rig.of(seen, "listed")[0]["items"]] == ["add", "count"]
    assert rig.text(rig.of(seen, "result", step=1)[0]) == "3"
    check_progress(name, rig.of(seen, "progress"))
    assert rig.of(seen, "result", step=3)[0]["result"]["contents"][0]["text"] == "hello"


@pytest.mark.slow
def test_an_old_server_is_lost_to_a_client_that_first_asks_for_the_era() -> None:
    with pytest.raises(AssertionError, match="Connection closed"):
        rig.client("py2", [], rig.server("old_python"))


@pytest.mark.parametrize("sdk", ["py1-6", "py1-9"])
def test_an_old_server_does_not_survive_a_cancellation(sdk: str, tmp_path: Path) -> None:
    mark = {"mark": str(tmp_path / "mark")}
    steps: list[rig.Step] = [
        {"do": "call", "name": "hang", "arguments": mark, "cancel": True},
        {"do": "call", "name": "add", "arguments": {"a": 1, "b": 2}},
    ]
    seen = rig.client("ts1", steps, rig.server(f"{sdk}-stdio"))

    assert rig.of(seen, "cancelled")
    assert [error["message"] for error in rig.of(seen, "error", step=1)] == ["Connection closed"]


@pytest.mark.parametrize(
    ("name", "sdk", "subscribes"),
    [
        ("fm-modern", "fm", False),
        ("fm-legacy", "fm", False),
        ("py2-modern", "py2", True),
        ("py2-legacy", "py2", False),
    ],
)
def test_not_every_server_lets_its_clients_subscribe(name: str, sdk: str, subscribes: bool) -> None:
    steps: list[rig.Step] = [{"do": "subscribe", "uri": f"note://{sdk}-stdio/counter"}]
    seen = rig.client(name, steps, rig.server(f"{sdk}-stdio"))

    assert [error["code"] for error in rig.of(seen, "error")] == ([] if subscribes else [-32601])


@pytest.mark.parametrize("name", ["py1", "py2"])
def test_the_time_server_tells_the_time_in_both_eras(name: str) -> None:
    steps: list[rig.Step] = [
        {"do": "call", "name": "get_current_time", "arguments": {"timezone": "UTC"}}
    ]
    seen = rig.client(name, steps, rig.server("time"))

    assert json.loads(rig.text(rig.of(seen, "result")[0]))["timezone"] == "UTC"


def test_the_git_server_knows_its_repository(repository: Path) -> None:
    steps: list[rig.Step] = [
        {"do": "call", "name": "git_log", "arguments": {"repo_path": str(repository)}}
    ]
    seen = rig.client("py2", steps, rig.server("git", repository))

    assert "First" in rig.text(rig.of(seen, "result")[0])


def test_the_fetch_server_fetches_a_page_of_this_machine(page: str) -> None:
    steps: list[rig.Step] = [
        {"do": "call", "name": "fetch", "arguments": {"url": page}},
        {"do": "prompt", "name": "fetch", "arguments": {"url": page}},
    ]
    seen = rig.client("ts2", steps, rig.server("fetch"))

    call, prompt = rig.of(seen, "result")
    assert "A page of this machine." in rig.text(call)
    assert "A page of this machine." in json.dumps(prompt)


def test_the_filesystem_server_reads_and_writes_in_its_folder(folder: Path) -> None:
    new = str(folder / "new.txt")
    steps: list[rig.Step] = [
        {"do": "call", "name": "read_text_file", "arguments": {"path": str(folder / "hello.txt")}},
        {"do": "call", "name": "write_file", "arguments": {"path": new, "content": "new"}},
        {"do": "call", "name": "read_text_file", "arguments": {"path": "/etc/hostname"}},
    ]
    seen = rig.client("ts1", steps, rig.server("filesystem", folder))

    read, _, outside = rig.of(seen, "result")
    assert rig.text(read) == "hello\n"
    assert Path(new).read_text() == "new"
    assert outside["result"]["isError"] is True


def test_the_memory_server_says_when_its_graph_has_changed(tmp_path: Path) -> None:
    graph = "memory://knowledge-graph"
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    steps: list[rig.Step] = [
        {"do": "subscribe", "uri": graph},
        {"do": "call", "name": "create_entities", "arguments": {"entities": [entity]}},
        {"do": "wait", "method": "notifications/resources/updated", "uri": graph},
        {"do": "read", "uri": graph},
    ]
    seen = rig.client("py1", steps, rig.server("memory", tmp_path / "graph.jsonl"))

    assert rig.of(seen, "waited")
    assert "Ada" in json.dumps(rig.of(seen, "result", step=3))


@pytest.mark.parametrize(
    ("era", "server", "tool", "arguments", "answer"),
    [
        ("legacy", "everything", "echo", {"message": "hi"}, "Echo: hi"),
        ("auto", "modern_python", "add", {"a": 1, "b": 2}, "3"),
        ("modern", "modern_python", "add", {"a": 1, "b": 2}, "3"),
    ],
)
def test_the_inspector_lists_and_calls(
    era: str, server: str, tool: str, arguments: dict[str, object], answer: str
) -> None:
    target = rig.server(server)
    listed = _output_of(rig.inspector(target, "tools/list", era=era))
    called = _output_of(
        rig.inspector(target, "tools/call", tool=tool, arguments=arguments, era=era)
    )

    assert tool in json.dumps(listed)
    assert answer in json.dumps(called)


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with rig.listening("everything-http", "classic-sse") as urls:
        yield urls


@pytest.mark.parametrize(
    ("server", "sampling", "asking"),
    [
        ("everything-http", "trigger-sampling-request", "trigger-elicitation-request"),
        ("classic-sse", "think", "ask"),
    ],
)
@pytest.mark.parametrize("name", ["py1", "py2-legacy", "fm-legacy", "ts1", "ts2-legacy"])
def test_a_client_is_asked_over_http(
    name: str, server: str, sampling: str, asking: str, urls: dict[str, str]
) -> None:
    steps: list[rig.Step] = [
        {"do": "call", "name": sampling, "arguments": {"prompt": "Hello"}},
        {"do": "call", "name": asking},
    ]
    seen = rig.client(name, steps, [urls[server]])

    sample, form = (rig.text(result) for result in rig.of(seen, "result"))
    assert "canned sample" in sample
    assert "canned" in form
    assert seen[-1]["saw"] == "closed"


def _output_of(command: list[str]) -> object:
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=rig.RUN_SECONDS_MAX, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
