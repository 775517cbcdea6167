"""Every real client over HTTP, in front of one gateway with real servers on all three transports.

The same journeys as in `test_clients.py`, where the client starts the gateway itself. Here it
runs before they come and after they have left, and so do the servers: five that it started, and
five that listen on ports of their own. `make test` sends each client on one journey at least, and
clients of both eras and both transports on each; `make test-all` sends every client on every one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.running import running
from tests.harness import write_config
from tests.real import rig
from tests.real.conftest import LIST_SECONDS, chosen, make_folder, make_repository

pytestmark = pytest.mark.real

LEGACY = tuple(
    (name, transport)
    for name in ("py1", "py2-legacy", "fm-legacy", "ts1", "ts2-legacy")
    for transport in ("http", "sse")
)
MODERN = (("py2", "http"), ("fm", "http"), ("ts2", "http"))
CLIENTS = LEGACY + MODERN

PIPED = ("time", "git", "filesystem", "memory", "everything")
POSTED = ("everything-http", "classic-http", "modern-http")
STREAMED = ("everything-sse", "classic-sse")
EVERYTHINGS = ("everything", "everything-http", "everything-sse")
CLASSICS = ("classic-http", "classic-sse")

GRAPH = "memory://knowledge-graph"
NOTE = "note://counter"
READ = [
    *(f"{slug}+demo://resource/dynamic/text/1" for slug in EVERYTHINGS),
    *(f"{slug}+note://greeting" for slug in CLASSICS),
    GRAPH,
]
ADA = {"name": "Ada", "entityType": "person", "observations": ["counts"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The gateway that all of them come to."""

    url: str
    """Of its only profile."""
    folder: Path
    repository: Path

    def visit(self, client: tuple[str, str], steps: Sequence[rig.Step]) -> list[rig.Observation]:
        """What a client sees here that takes these steps."""
        name, transport = client
        return rig.client(name, steps, self.target(transport))

    def target(self, transport: str) -> list[str]:
        """Where a client goes that speaks Streamable HTTP, or HTTP+SSE."""
        return [f"{self.url}/sse" if transport == "sse" else self.url]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    place = tmp_path_factory.mktemp("house")
    folder = make_folder(place / "folder")
    repository = make_repository(place / "repository")
    places = {"git": repository, "filesystem": folder, "memory": place / "graph.jsonl"}
    with rig.listening(*POSTED, *STREAMED) as urls:
        servers = {name: rig.server(name, places.get(name)) for name in PIPED} | {
            name: {"url": url} for name, url in urls.items()
        }
        config = write_config(place, servers, gateway={"listSeconds": LIST_SECONDS})
        with running("--config", str(config), "--state-dir", str(place / "state")) as gateway:
            yield House(url=f"{gateway.url}/mcp/default", folder=folder, repository=repository)


TO_USE = (("py1", "http"), ("fm-legacy", "sse"), ("ts2-legacy", "sse"), ("py2", "http"))
TO_CANCEL = (("py2-legacy", "http"), ("fm-legacy", "http"), ("ts1", "sse"), ("ts2", "http"))
TO_BE_TOLD = (("py1", "sse"), ("ts2-legacy", "http"), ("fm", "http"))
TO_BE_ASKED = (("py2-legacy", "sse"), ("ts1", "http"))


@pytest.mark.parametrize("client", chosen(CLIENTS, *TO_USE), ids="-".join)
def test_a_client_sees_and_uses_every_server(client: tuple[str, str], house: House) -> None:
    calls, others = _calls(house), _others()
    seen = house.visit(client, [*calls, *others])

    [connected] = rig.of(seen, "connected")
    assert connected["protocolVersion"] == ("2026-07-28" if client in MODERN else "2025-11-25")
    assert connected["serverInfo"]["name"] == "anyport"
    _check_calls([o for o in seen if o["step"] < len(calls)])
    _check_others([o for o in seen if o["step"] >= len(calls)])
    errors = rig.of(seen, "error")
    # The TypeScript SDK 2.x tells its user the newer code in both eras.
    newer = client in MODERN or client[0] == "ts2-legacy"
    assert [error["code"] for error in errors] == [-32602, -32602 if newer else -32002]
    assert not rig.of(seen, "fault")
    assert seen[-1]["saw"] == "closed"


def _calls(house: House) -> list[rig.Step]:
    return [
        {"do": "list", "what": "tools"},
        _call("time__get_current_time", timezone="UTC"),
        _call("git__git_log", repo_path=str(house.repository)),
        _call("filesystem__read_text_file", path=str(house.folder / "hello.txt")),
        _call("memory__create_entities", entities=[ADA]),
        *(_call(f"{slug}__echo", message=slug) for slug in EVERYTHINGS),
        *(_call(f"{slug}__add", a=3, b=4) for slug in (*CLASSICS, "modern-http")),
        _call("everything-http__get-structured-content", location="Chicago"),
        _call("gateway_status"),
        _call("nobody__nothing"),
    ]


def _check_calls(seen: list[rig.Observation]) -> None:
    tools = _names(rig.of(seen, "listed")[0])
    slugs = {tool.partition("__")[0] for tool in tools if "__" in tool}
    assert slugs == {*PIPED, *POSTED, *STREAMED}
    results = rig.of(seen, "result")
    time, log, read, _, *echoes, _, status = map(rig.text, results)
    assert json.loads(time)["timezone"] == "UTC"
    assert "First" in log
    assert read == "hello\n"
    assert echoes == [*(f"Echo: {slug}" for slug in EVERYTHINGS), "7", "7", "7"]
    assert results[-2]["result"]["structuredContent"]["conditions"]
    transports = {slug: one["transport"] for slug, one in json.loads(status)["backends"].items()}
    assert transports == {
        **dict.fromkeys(PIPED, "stdio"),
        **dict.fromkeys(POSTED, "streamable-http"),
        **dict.fromkeys(STREAMED, "sse"),
    }


def _others() -> list[rig.Step]:
    return [
        {"do": "list", "what": "resources"},
        {"do": "list", "what": "templates"},
        {"do": "list", "what": "prompts"},
        *({"do": "read", "uri": uri} for uri in READ),
        *(_prompt(f"{slug}__args-prompt", city="Bonn") for slug in EVERYTHINGS),
        *(_prompt(f"{slug}__greet", name="Ada") for slug in (*CLASSICS, "modern-http")),
        *(_complete(f"{slug}__completable-prompt", "department", "E") for slug in EVERYTHINGS),
        *(_complete(f"{slug}__greet", "name", "A") for slug in CLASSICS),
        {"do": "read", "uri": "nobody://nothing"},
    ]


def _check_others(seen: list[rig.Observation]) -> None:
    resources, templates, prompts = (_names(listed) for listed in rig.of(seen, "listed"))
    # Two servers that have the same resource have it under a name of their own.
    assert {GRAPH, NOTE, *(f"{slug}+note://greeting" for slug in CLASSICS)} <= resources
    dynamic = "demo://resource/dynamic/text/{resourceId}"
    assert {f"{slug}+{dynamic}" for slug in EVERYTHINGS} <= templates
    assert {"everything-sse__args-prompt", "classic-http__greet", "modern-http__greet"} <= prompts
    results = [result["result"] for result in rig.of(seen, "result")]
    assert [result["contents"][0]["uri"] for result in results[:6]] == READ
    assert [result["contents"][0]["text"] for result in results[3:5]] == ["hello", "hello"]
    texts = [result["messages"][0]["content"]["text"] for result in results[6:12]]
    assert ["Bonn" in text for text in texts[:3]] == [True] * 3
    assert texts[3:] == ["Greet Ada."] * 3
    completions = [result["completion"]["values"] for result in results[12:]]
    assert completions == [["Engineering"]] * 3 + [["Ada", "Alan"]] * 2


@pytest.mark.parametrize("client", chosen(CLIENTS, *TO_CANCEL), ids="-".join)
def test_a_client_sees_progress_and_cancels(client: tuple[str, str], house: House) -> None:
    steps: list[rig.Step] = []
    for slug in EVERYTHINGS:
        slow = f"{slug}__trigger-long-running-operation"
        steps += [
            _call(slow, duration=0.6, steps=3) | {"progress": True},
            _call(slow, duration=30, steps=300) | {"cancel": True},
            _call(f"{slug}__echo", message="still here"),
        ]
    for slug in (*CLASSICS, "modern-http"):
        steps += [
            _call(f"{slug}__count", to=3) | {"progress": True},
            _call(f"{slug}__hang") | {"cancel": True},
            _call(f"{slug}__how_it_ended"),
        ]
    seen = house.visit(client, steps)

    for step in range(0, len(steps), 3):
        progress = [(p["progress"], p["total"]) for p in rig.of(seen, "progress", step)]
        rig.check_progress(client[0], progress, total=3)
        assert rig.of(seen, "result", step)
        assert len(rig.of(seen, "progress", step + 1)) == 1
        assert rig.of(seen, "cancelled", step + 1)
        assert not rig.of(seen, "result", step + 1)
    answers = [rig.text(result) for result in rig.of(seen, "result")][1::2]
    assert answers == ["Echo: still here"] * 3 + ["cancelled"] * 3


@pytest.mark.parametrize("client", chosen(CLIENTS, *TO_BE_TOLD), ids="-".join)
def test_a_client_is_told_of_changes_and_logs(client: tuple[str, str], house: House) -> None:
    # The house is shared: what an earlier client has changed may be announced late, too.
    changed = "notifications/tools/list_changed"
    tool = f"added-for-{'-'.join(client)}"
    steps: list[rig.Step] = [
        {"do": "list", "what": "tools"},
        {"do": "listen"},
        {"do": "subscribe", "uri": GRAPH},
        {"do": "subscribe", "uri": NOTE},
        _call("memory__create_entities", entities=[ADA | {"name": "-".join(client)}]),
        {"do": "wait", "method": "notifications/resources/updated", "uri": GRAPH},
        _call("modern-http__change", tool=tool),
        {"do": "wait", "method": "notifications/resources/updated", "uri": NOTE},
        {"do": "wait", "method": changed, "tool": f"modern-http__{tool}"},
        {"do": "log_level", "level": "info"},
        _call("modern-http__shout"),
        {"do": "wait", "method": "notifications/message"},
    ]
    for slug in CLASSICS:
        steps += [
            _call(f"{slug}__change", tool=tool),
            {"do": "wait", "method": changed, "tool": f"{slug}__{tool}"},
            _call(f"{slug}__shout"),
        ]
    seen = house.visit(client, steps)

    assert not rig.of(seen, "missed")
    assert not rig.of(seen, "error")
    before, *_, after = [_names(listed) for listed in rig.of(seen, "listed")]
    added = {f"{slug}__{tool}" for slug in ("modern-http", *CLASSICS)}
    assert after >= added
    assert not before & added
    logged = [
        (note["params"]["logger"], note["params"]["level"])
        for note in rig.of(seen, "notified")
        if note["method"] == "notifications/message" and "canned" in str(note["params"]["data"])
    ]
    # FastMCP's client asks for every level in the modern era, whatever its user wants.
    levels = (["debug"] if client[0] == "fm" else []) + ["info", "error"]
    assert logged[: len(levels)] == [("modern-http", level) for level in levels]
    assert logged[len(levels) :] == [
        (slug, level) for slug in CLASSICS for level in ("info", "error")
    ]


@pytest.mark.parametrize("client", chosen(LEGACY, *TO_BE_ASKED), ids="-".join)
def test_a_legacy_client_is_asked_by_servers_of_both_eras(
    client: tuple[str, str], house: House
) -> None:
    steps: list[rig.Step] = []
    for slug in EVERYTHINGS:
        steps += [
            _call(f"{slug}__trigger-sampling-request", prompt="Hello"),
            _call(f"{slug}__trigger-elicitation-request"),
            _call(f"{slug}__trigger-url-elicitation", url="http://[::1]/"),
            _call(f"{slug}__get-roots-list"),
        ]
    for slug in CLASSICS:
        steps += [_call(f"{slug}__{tool}") for tool in ("think", "ask", "visit", "look")]
    steps += [_call(f"modern-http__{tool}") for tool in ("think", "ask", "look")]
    seen = house.visit(client, steps)

    assert not rig.of(seen, "error")
    answers = [rig.text(result) for result in rig.of(seen, "result")]
    for at in (0, 4, 8):
        assert "canned sample" in answers[at]
        assert "Name: canned" in answers[at + 1]
        assert "completed the URL elicitation" in answers[at + 2]
        assert "file:///tmp/canned" in answers[at + 3]
    sample, form, root = "canned sample", "canned, 1, True", "file:///tmp/canned"
    assert answers[12:] == [sample, form, "accept", root] * 2 + [sample, form, root]
    asked = [_asked(seen, step) for step in range(len(steps))]
    sampled, elicited, rooted = {"sampling/createMessage"}, {"elicitation/create"}, {"roots/list"}
    for at in (0, 4, 8):
        # The roots `everything` may know since it was met.
        assert asked[at : at + 3] == [sampled, elicited, elicited]
    assert asked[12:20] == [sampled, elicited, elicited, rooted] * 2
    assert asked[20:] == [sampled, elicited, rooted]


@pytest.mark.parametrize("client", chosen(MODERN, ("fm", "http"), ("ts2", "http")), ids="-".join)
def test_a_modern_client_is_asked_by_servers_of_both_eras(
    client: tuple[str, str], house: House
) -> None:
    steps: list[rig.Step] = [
        {"do": "list", "what": "tools"},
        *(_call(f"modern-http__{tool}") for tool in ("think", "ask", "look")),
        *(_call(f"{slug}__{tool}") for slug in CLASSICS for tool in ("think", "ask", "look")),
        _call("everything-http__echo", message="still here"),
    ]
    seen = house.visit(client, steps)

    answers = [rig.text(result) for result in rig.of(seen, "result")]
    assert answers[:-1] == ["canned sample", "canned, 1, True", "file:///tmp/canned"] * 3
    assert answers[-1] == "Echo: still here"
    asked = [_asked(seen, step) for step in range(1, 10)]
    assert asked == [{"sampling/createMessage"}, {"elicitation/create"}, {"roots/list"}] * 3


@pytest.mark.parametrize("transport", chosen(("http", "sse"), "sse"))
def test_the_inspector_lists(transport: str, house: House) -> None:
    target = house.target(transport)
    listed = _output_of(rig.inspector(target, "tools/list", era="legacy"))

    for slug in (*PIPED, *POSTED, *STREAMED):
        assert f'"{slug}__' in listed


@pytest.mark.parametrize("era", chosen(("legacy", "auto", "modern"), "auto"))
def test_the_inspector_calls(era: str, house: House) -> None:
    arguments = {"a": 1, "b": 2}
    target, tool = house.target("http"), "classic-sse__add"
    command = rig.inspector(target, "tools/call", tool=tool, arguments=arguments, era=era)

    assert '"3"' in _output_of(command)


def _call(tool: str, /, **arguments: object) -> dict[str, object]:
    return {"do": "call", "name": tool, "arguments": arguments}


def _prompt(prompt: str, /, **arguments: str) -> rig.Step:
    return {"do": "prompt", "name": prompt, "arguments": arguments}


def _complete(prompt: str, argument: str, value: str) -> rig.Step:
    ref = {"type": "ref/prompt", "name": prompt}
    return {"do": "complete", "ref": ref, "argument": {"name": argument, "value": value}}


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
