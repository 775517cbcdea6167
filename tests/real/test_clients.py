"""Every real client in front of one gateway, and every real server behind it, all at once.

The same journeys as in `test_rig.py`, where nothing stands between the two; the names of tools
and prompts carry their server here. `make test` sends each client on one journey at least, and
clients of both eras on each; `make test-all` sends every client on every journey.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.harness import Message
from tests.real import rig
from tests.real.conftest import chosen

pytestmark = pytest.mark.real

LEGACY = ("py1", "py2-legacy", "ts1", "ts2-legacy")
MODERN = ("py2", "ts2")
CLIENTS = LEGACY + MODERN
SERVERS = ("time", "git", "fetch", "everything", "filesystem", "memory", "old", "modern")
GRAPH = "memory://knowledge-graph"
NOTE = "note://counter"
TEXT = "demo://resource/dynamic/text/1"
ADA = {"name": "Ada", "entityType": "person", "observations": ["counts"]}


@pytest.mark.parametrize("name", chosen(CLIENTS, "ts1", "py2"))
def test_a_client_calls_a_tool_of_every_server(
    name: str, target: list[str], repository: Path, folder: Path, page: str
) -> None:
    steps: list[rig.Step] = [
        {"do": "list", "what": "tools"},
        _call("time__get_current_time", timezone="UTC"),
        _call("git__git_log", repo_path=str(repository)),
        _call("fetch__fetch", url=page),
        _call("everything__echo", message="hi"),
        _call("filesystem__read_text_file", path=str(folder / "hello.txt")),
        _call("memory__create_entities", entities=[ADA]),
        _call("old__add", a=1, b=2),
        _call("modern__add", a=3, b=4),
        _call("everything__get-structured-content", location="Chicago"),
        _call("gateway_status"),
        _call("nobody__nothing"),
    ]
    seen = rig.client(name, steps, target)

    [connected] = rig.of(seen, "connected")
    assert connected["protocolVersion"] == ("2026-07-28" if name in MODERN else "2025-11-25")
    assert connected["serverInfo"]["name"] == "anyport"
    tools = _names(rig.of(seen, "listed")[0])
    assert {tool.partition("__")[0] for tool in tools} == {*SERVERS, "gateway_status", "get_events"}
    assert "everything__trigger-sampling-request" in tools
    [error] = rig.of(seen, "error")
    assert (error["code"], error["message"]) == (-32602, "Unknown tool: nobody__nothing")
    results = rig.of(seen, "result")
    time, log, fetched, echo, read, graph, old, modern, _, status = map(rig.text, results)
    assert json.loads(time)["timezone"] == "UTC"
    assert "First" in log
    assert "A page of this machine." in fetched
    assert (echo, read, old, modern) == ("Echo: hi", "hello\n", "3", "7")
    assert json.loads(graph)[0]["name"] == "Ada"
    assert results[8]["result"]["structuredContent"]["conditions"]
    backends = json.loads(status)["backends"]
    assert [backends[slug]["status"] for slug in SERVERS] == ["running"] * len(SERVERS)
    assert seen[-1]["saw"] == "closed"


@pytest.mark.parametrize("name", chosen(CLIENTS, "py2-legacy", "ts2"))
def test_a_client_reads_prompts_and_completes(name: str, target: list[str]) -> None:
    steps: list[rig.Step] = [
        {"do": "list", "what": "resources"},
        {"do": "list", "what": "templates"},
        {"do": "list", "what": "prompts"},
        {"do": "read", "uri": TEXT},
        {"do": "read", "uri": GRAPH},
        {"do": "read", "uri": "note://greeting"},
        {"do": "read", "uri": NOTE},
        {"do": "prompt", "name": "everything__args-prompt", "arguments": {"city": "Bonn"}},
        {"do": "prompt", "name": "old__greet", "arguments": {"name": "Ada"}},
        {"do": "prompt", "name": "modern__greet", "arguments": {"name": "Ada"}},
        {
            "do": "complete",
            "ref": {"type": "ref/prompt", "name": "everything__completable-prompt"},
            "argument": {"name": "department", "value": "E"},
        },
        {"do": "read", "uri": "nobody://nothing"},
    ]
    seen = rig.client(name, steps, target)

    resources, templates, prompts = (_names(listed) for listed in rig.of(seen, "listed"))
    assert {GRAPH, NOTE, "note://greeting"} <= resources
    assert "demo://resource/dynamic/text/{resourceId}" in templates
    assert {"fetch__fetch", "everything__args-prompt", "old__greet", "modern__greet"} <= prompts
    results = [result["result"] for result in rig.of(seen, "result")]
    reads = [result["contents"][0] for result in results[:4]]
    assert [read["uri"] for read in reads] == [TEXT, GRAPH, "note://greeting", NOTE]
    assert [read["text"] for read in reads[2:]] == ["hello", "0"]
    texts = [result["messages"][0]["content"]["text"] for result in results[4:7]]
    assert "Bonn" in texts[0]
    assert texts[1:] == ["Greet Ada.", "Greet Ada."]
    assert results[7]["completion"]["values"] == ["Engineering"]
    [error] = rig.of(seen, "error")
    # The TypeScript SDK 2.x tells its user the newer code in both eras.
    assert error["code"] == (-32602 if name in (*MODERN, "ts2-legacy") else -32002)


@pytest.fixture
def few(everyone: dict[str, Message | list[str]]) -> None:
    """Only the servers that do more than answer; the others need not be started."""
    for slug in ("time", "git", "fetch", "filesystem"):
        del everyone[slug]


@pytest.mark.parametrize("name", chosen(CLIENTS, "py1", "ts2"))
@pytest.mark.usefixtures("few")
def test_a_client_sees_progress_and_cancels(name: str, target: list[str]) -> None:
    slow = {"do": "call", "name": "everything__trigger-long-running-operation"}
    steps: list[rig.Step] = [
        slow | {"arguments": {"duration": 0.6, "steps": 3}, "progress": True},
        slow | {"arguments": {"duration": 30, "steps": 300}, "cancel": True},
        _call("everything__echo", message="still here"),
        _call("old__count", to=3) | {"progress": True},
        _call("modern__count", to=3) | {"progress": True},
        _call("modern__hang") | {"cancel": True},
        _call("modern__how_it_ended"),
    ]
    seen = rig.client(name, steps, target)

    for step in (0, 3, 4):
        # What has no total is a client's own: it tells that it answers a question on the way.
        told = [p for p in rig.of(seen, "progress", step) if "total" in p]
        rig.check_progress(name, [(p["progress"], p["total"]) for p in told], total=3)
        assert rig.of(seen, "result", step)
    for step in (1, 5):
        assert len(rig.of(seen, "progress", step)) == 1
        assert rig.of(seen, "cancelled", step)
        assert not rig.of(seen, "result", step)
    assert rig.text(rig.of(seen, "result", step=2)[0]) == "Echo: still here"
    assert rig.text(rig.of(seen, "result", step=6)[0]) == "cancelled"


@pytest.fixture
def announcing(everyone: dict[str, Message | list[str]]) -> None:
    """The server of both eras announces changes in the newer one only, as its SDK does."""
    command, *args = rig.server("modern_python")
    everyone["modern"] = {"command": command, "args": args, "protocol": "modern"}


@pytest.mark.parametrize("name", chosen(CLIENTS, "ts2-legacy", "py2"))
@pytest.mark.usefixtures("few", "announcing")
def test_a_client_is_told_of_changes_and_logs(name: str, target: list[str]) -> None:
    steps: list[rig.Step] = [
        {"do": "list", "what": "tools"},
        {"do": "listen"},
        {"do": "subscribe", "uri": GRAPH},
        {"do": "subscribe", "uri": NOTE},
        _call("memory__create_entities", entities=[ADA]),
        {"do": "wait", "method": "notifications/resources/updated", "uri": GRAPH},
        _call("modern__change"),
        {"do": "wait", "method": "notifications/resources/updated", "uri": NOTE},
        {"do": "wait", "method": "notifications/tools/list_changed"},
        {"do": "list", "what": "tools"},
        _call("modern__add_1", a=5, b=6),
        {"do": "log_level", "level": "info"},
        _call("modern__shout"),
        {"do": "wait", "method": "notifications/message"},
    ]
    seen = rig.client(name, steps, target)

    assert not rig.of(seen, "missed")
    assert not rig.of(seen, "error")
    before, after = (_names(listed) for listed in rig.of(seen, "listed"))
    assert after - before == {"modern__add_1"}
    assert rig.text(rig.of(seen, "result", step=10)[0]) == "11"
    logged = [
        note["params"]
        for note in rig.of(seen, "notified")
        if note["method"] == "notifications/message" and "canned" in str(note["params"]["data"])
    ]
    assert [(note["level"], note["data"]) for note in logged] == [
        ("info", "canned info"),
        ("error", "canned error"),
    ]
    assert {note["logger"] for note in logged} == {"modern"}


@pytest.mark.parametrize("name", chosen(LEGACY, "py1", "ts1"))
@pytest.mark.usefixtures("few")
def test_a_legacy_client_is_asked_by_servers_of_both_eras(name: str, target: list[str]) -> None:
    steps: list[rig.Step] = [
        _call("everything__trigger-sampling-request", prompt="Hello"),
        _call("everything__trigger-elicitation-request"),
        _call("everything__trigger-url-elicitation", url="http://[::1]/"),
        _call("everything__get-roots-list"),
        _call("modern__think"),
        _call("modern__ask"),
        _call("modern__look"),
        {"do": "log_level", "level": "debug"},
        _call("everything__toggle-simulated-logging"),
        {"do": "wait", "method": "notifications/message"},
    ]
    seen = rig.client(name, steps, target)

    answers = [rig.text(result) for step in range(7) for result in rig.of(seen, "result", step)]
    assert "canned sample" in answers[0]
    assert "Name: canned" in answers[1]
    assert "completed the URL elicitation" in answers[2]
    assert "file:///tmp/canned" in answers[3]
    assert answers[4:] == ["canned sample", "canned, 1, True", "file:///tmp/canned"]
    asked = [_asked(seen, step) for step in (0, 1, 2, 4, 5, 6)]
    form, sample = "elicitation/create", "sampling/createMessage"
    assert asked == [{sample}, {form}, {form}, {sample}, {form}, {"roots/list"}]
    assert rig.of(seen, "waited")


@pytest.mark.parametrize("name", chosen(MODERN, "py2"))
@pytest.mark.usefixtures("few")
def test_a_modern_client_is_asked_by_servers_of_both_eras(name: str, target: list[str]) -> None:
    steps: list[rig.Step] = [
        _call("modern__think"),
        _call("modern__ask"),
        _call("modern__look"),
        _call("everything__trigger-sampling-request", prompt="Hello"),
        _call("everything__echo", message="still here"),
    ]
    seen = rig.client(name, steps, target)

    answers = [rig.text(result) for result in rig.of(seen, "result")]
    assert answers[:3] == ["canned sample", "canned, 1, True", "file:///tmp/canned"]
    assert "canned sample" in answers[3]
    assert answers[4] == "Echo: still here"
    asked = [_asked(seen, step) for step in range(4)]
    sample = "sampling/createMessage"
    assert asked == [{sample}, {"elicitation/create"}, {"roots/list"}, {sample}]


def test_the_inspector_lists(target: list[str]) -> None:
    listed = _output_of(rig.inspector(target, "tools/list"))

    for server in SERVERS:
        assert f'"{server}__' in listed


@pytest.mark.parametrize("era", chosen(("legacy", "modern"), "modern"))
@pytest.mark.usefixtures("few")
def test_the_inspector_calls(era: str, target: list[str]) -> None:
    arguments = {"a": 1, "b": 2}
    command = rig.inspector(target, "tools/call", tool="old__add", arguments=arguments, era=era)

    assert '"3"' in _output_of(command)


def _call(name: str, **arguments: object) -> dict[str, object]:
    return {"do": "call", "name": name, "arguments": arguments}


def _names(listed: rig.Observation) -> set[str]:
    identity = {"resources": "uri", "templates": "uriTemplate"}.get(listed["what"], "name")
    return {item[identity] for item in listed["items"]}


def _asked(seen: list[rig.Observation], step: int) -> set[str]:
    """What was asked during a step, but for what servers ask when they have just started."""
    methods = {asked["method"] for asked in rig.of(seen, "asked", step)}
    return methods if len(methods) == 1 else methods - {"roots/list"}


def _output_of(command: list[str]) -> str:
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=rig.RUN_SECONDS_MAX, check=False
    )
    assert run.returncode == 0, run.stderr
    json.loads(run.stdout)
    return run.stdout
