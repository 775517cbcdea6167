"""How much is recorded: nothing more than ever, shapes without a value, or all of it; by server, by
profile, or for everybody."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import LineClient, Message, read_events
from tests.journeys.capture_clients import HttpCaptureClient, RecordReader, StdioCaptureClient
from tests.journeys.capture_pairs import ASKED, configured, receiving_servers
from tests.journeys.clients import MODERN
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import gateway

BEFORE: Final = frozenset({"span_id", "profile", "server", "tool", "public_name", "result_bytes"})
"""What is noted of a good call, whatever is recorded."""
LEVELS: Final = {
    ("default", "plain"): "shape",
    ("default", "plain-new"): "shape",
    ("default", "hidden"): "off",
    ("default", "hidden-new"): "off",
    ("default", "open-new"): "full",
    ("loud", "plain"): "full",
    ("loud", "plain-new"): "full",
    ("loud", "hidden"): "off",
    ("loud", "veiled"): "shape",
    ("quiet", "plain"): "off",
    ("quiet", "open-new"): "full",
    ("quiet", "veiled"): "shape",
}
SERVERS: Final = tuple(sorted({server for _, server in LEVELS}))
OWN: Final[dict[str, Message]] = {
    "hidden": {"capture": "off"},
    "hidden-new": {"capture": "off"},
    "open-new": {"capture": "full"},
    "veiled": {"capture": "shape"},
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    path = tmp_path_factory.mktemp("mixed")
    servers = configured(receiving_servers(path / "servers", *SERVERS), **OWN)
    profiles = {
        "default": {"servers": SERVERS},
        "loud": {"servers": SERVERS, "capture": "full"},
        "quiet": {"servers": SERVERS, "capture": "off"},
    }
    with serving(path, servers, profiles=profiles) as site:
        for profile in profiles:
            client(site, profile).ask("tools/list", {})
        yield site


def client(site: HttpGateway, profile: str, revision: str = MODERN) -> HttpCaptureClient:
    front = HttpCaptureClient(site.at(f"/mcp/{profile}"), revision)
    front.book = RecordReader(site.state)
    if revision != MODERN:
        front.open()
    front.book.turn()
    return front


@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
@pytest.mark.parametrize(("profile", "server"), LEVELS)
def test_the_server_decides_before_the_profile_and_the_profile_before_the_rest(
    mixed: HttpGateway, profile: str, server: str, revision: str
) -> None:
    front, level = client(mixed, profile, revision), LEVELS[profile, server]
    calling = {"name": f"{server}__plain", "arguments": {"word": "quetzal"}}
    for _ in range(3):
        front.ask("tools/call", calling)
    front.ask("tools/call", {**calling, "name": f"{server}__steps"}, progressToken="p")

    rows = [row for row in front.book.rows() if row["event_type"] == "gateway.tool_call"]
    assert len(rows) == 4
    for row in rows:
        about = row["metadata"]
        assert (about["profile"], about["server"]) == (profile, server)
        if level == "off":
            assert about.keys() - {"session"} == BEFORE
            continue
        assert about["params_shape"] == '{"word":s}'
        assert about["client_revision"] == revision
        assert ("payload_file" in about) == (level == "full")
        assert "quetzal" not in json.dumps(row)
        if level == "full":
            assert b"quetzal" in bytes(front.book.payloads(row)[0].payload or b"")


@pytest.mark.parametrize("server", ["hidden", "hidden-new", "veiled"])
def test_of_a_server_that_is_not_to_be_recorded_no_value_is_kept_by_any_way(
    mixed: HttpGateway, server: str
) -> None:
    kept = payloads(mixed.state)
    for front in (client(mixed, "loud"), client(mixed, "loud", "2025-11-25")):
        say_everything(front, server)
        events = front.book.events()
        own = [event for event in events if event["metadata"].get("server") == server]
        assert len(own) >= 6
        if server != "veiled":
            assert not [event for event in own if "params_shape" in event["metadata"]]
    new = payloads(mixed.state).removeprefix(kept)
    assert b"quetzal" not in new
    assert server.encode() + b"__" not in new.replace(b'"method":"tools/list"', b"")


def say_everything(front: HttpCaptureClient, server: str) -> None:
    """Whatever one can say to a server."""
    words: Message = {"bird": "quetzal"}
    for tool in ("plain", "plain", "bad", "broken", "chat"):
        front.ask("tools/call", {"name": f"{server}__{tool}", "arguments": words})
    steps: Message = {"name": f"{server}__steps", "arguments": words}
    front.ask("tools/call", steps, progressToken="quetzal")
    front.ask("prompts/get", {"name": f"{server}__greet", "arguments": words})
    front.ask("resources/read", {"uri": f"x:{server}"})
    ref = {"type": "ref/prompt", "name": f"{server}__greet"}
    value = {"name": "bird", "value": "quetzal"}
    front.ask("completion/complete", {"ref": ref, "argument": value})
    method, _, answer = ASKED["elicit"]
    eliciting: Message = {"name": f"{server}__elicit", "arguments": words}
    talk = front.start("tools/call", eliciting)
    for message in front.heard(talk):
        if message.get("method") == method:
            front.answers(message, answer)
        elif "inputRequests" in message.get("result", {}):
            (key,) = message["result"]["inputRequests"]
            state = message["result"]["requestState"]
            back = {"inputResponses": {key: answer}, "requestState": state}
            for _ in range(2):  # The second comes too late.
                front.ask("tools/call", {**eliciting, **back})


def payloads(state: Path) -> bytes:
    files = sorted((state / "payloads").glob("*/*.jsonl"))
    return b"".join(file.read_bytes() for file in files)


def on_a_pipe(client: LineClient) -> list[Any]:
    """A session of a client on a pipe."""
    client.initialize()
    front = StdioCaptureClient(client, "2025-11-25")
    talks = [front.ask("tools/list", {}), front.ask("ping", {})]
    for server in ("old", "new"):
        for tool in ("plain", "plain", "bad", "steps"):
            params = {"name": f"{server}__{tool}", "arguments": {"word": "quetzal"}}
            talks.append(front.ask("tools/call", params, progressToken="p"))
        talks.append(front.ask("resources/read", {"uri": f"x:{server}"}))
    client.send(b"rubbish\n")
    talks.append(front.ask("ping", {}))
    return talks


def test_off_records_what_was_recorded_before_there_were_levels(tmp_path: Path) -> None:
    servers = configured(receiving_servers(tmp_path / "servers", "old", "new"))
    with gateway(tmp_path, servers, record={"capture": "off"}) as client:
        on_a_pipe(client)
        assert client.finish() == 0

    events = read_events(tmp_path / "state")
    kinds = {event["event_type"].removeprefix("gateway.") for event in events}
    assert kinds == {
        *("started", "stopped", "session_started", "session_ended"),
        *("backend_registered", "backend_started", "backend_stopped"),
        *("tool_call", "resource_read"),
    }
    calls = [event for event in events if event["event_type"] == "gateway.tool_call"]
    assert len(calls) == 8
    assert {name for event in calls for name in event["metadata"]} == BEFORE | {"session"}
    assert not (tmp_path / "state" / "payloads").exists()


def test_shapes_are_recorded_unless_somebody_says_otherwise_and_have_no_value(
    tmp_path: Path,
) -> None:
    servers = configured(receiving_servers(tmp_path / "servers", "old", "new"))
    with gateway(tmp_path, servers) as client:
        talks = on_a_pipe(client)
        assert client.finish() == 0

    book = RecordReader(tmp_path / "state")
    assert len(book.rows()) == len(talks) + 1  # The handshake.
    assert len(book.asides("not-json-rpc")) == 1
    assert all(event["metadata"]["params_shape"] for event in book.rows())
    for file in (tmp_path / "state").rglob("*"):
        assert not file.is_file() or b"quetzal" not in file.read_bytes(), file.name
    assert not (tmp_path / "state" / "payloads").exists()
