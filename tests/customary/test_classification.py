"""Customary messages are recorded as what they are: who said them to whom, and whether an answer is
owed."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from anyport.record.journal.payloads import payload_files
from anyport.record.traffic import decode_captured, expand_frames, row_of
from tests.customary.examples import Example, read_story, script
from tests.harness import LineClient, Message, read_events, transparent
from tests.journeys.clients import hello
from tests.journeys.http_gateway import Field, HttpGateway, serving
from tests.journeys.scripts import (
    Scripted,
    eventually,
    gateway,
    question,
    result,
    rule,
    text,
    tools,
)

pytestmark = pytest.mark.slow

FRONTS: Final = ("stdio", "http")
STORIES: Final = ("fetch", "everything")


class Said(NamedTuple):
    """One frame of the record."""

    kind: str
    side: str
    method: str
    payload: Any


def recorded(state: Path) -> list[Said]:
    """Everything that was said, as the record classifies it."""
    said = []
    for file in payload_files(state):
        for line in file.read_bytes().splitlines():
            captured = decode_captured(line)
            assert captured is not None
            for frame in expand_frames(captured.frames):
                raw = frame.payload or frame.error or b"null"
                payload = msgspec.json.decode(bytes(raw))
                said.append(Said(frame.kind, frame.side, frame.method or "", payload))
    return said


def kinds(state: Path) -> list[str]:
    """The kind of each row."""
    return [row.kind for event in read_events(state) if (row := row_of(event)) is not None]


Say = Callable[[str], None]
"""Says a message as it is printed, and hears all that comes of it. Questions are answered."""


@contextmanager
def speaking(path: Path, front: str, server: Scripted) -> Iterator[Say]:
    """A client before a gateway that shows one server as it is and records all that is said."""
    servers, profiles = {"scripted": server.command}, transparent("scripted")
    rest: Message = {"profiles": profiles, "record": {"capture": "full"}}
    if front == "stdio":
        with gateway(path, servers, **rest) as client:
            yield partial(say_in_lines, client)
            assert client.finish() == 0
    else:
        with serving(path, servers, **rest) as site:
            yield partial(say_in_posts, site, [])


def say_in_lines(client: LineClient, line: str) -> None:
    client.send(line.encode() + b"\n")
    id = owed(line)
    while id is not None:
        message = client.next()
        if "method" in message and "id" in message:
            client.send({"jsonrpc": "2.0", "id": message["id"], "result": CITY})
        elif message.get("id") == id:
            return


def say_in_posts(site: HttpGateway, fields: list[Field], line: str) -> None:
    answer = site.post(line.encode(), *fields)
    for message in answer.messages():
        if "method" in message and "id" in message:
            site.post({"jsonrpc": "2.0", "id": message["id"], "result": CITY}, *fields).text()
    if "Mcp-Session-Id" in answer.fields:
        fields.append(("Mcp-Session-Id", answer.fields["Mcp-Session-Id"]))


def owed(line: str) -> Any:
    """The id of the answer that a line is owed; None if it is none."""
    message: Message = json.loads(line) if line.startswith("{") else {}
    return message.get("id") if "method" in message else None


def expected(example: Example) -> Iterator[tuple[str, str, Any]]:
    """What the messages of an example are: by who says them, and whether they have an id."""
    says = json.loads(example.says)
    kind = "request" if "id" in says else "client-notification"
    yield kind, says["method"], says.get("params", {} if "id" in says else None)
    for line in example.hears:
        hears = json.loads(line)
        if "id" in hears:
            yield "response", example.method, hears.get("result", hears.get("error"))
        else:
            yield "server-notification", hears["method"], hears.get("params")


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_recorded_as_what_it_is(tmp_path: Path, name: str, front: str) -> None:
    examples = read_story(f"{name}.txt")
    server = Scripted(tmp_path / "server", *script(examples))
    with speaking(tmp_path, front, server) as say:
        for example in examples:
            say(example.says)

    found = [(said.kind, said.method, said.payload) for said in recorded(tmp_path / "state")]
    for example in examples:
        for wanted in expected(example):
            assert wanted in found, example.name
    said = [each for each in recorded(tmp_path / "state") if each.side == "client"]
    asked, answered = (
        [each.method for each in said if each.kind == kind] for kind in ("request", "response")
    )
    assert asked == answered


FORM: Final[Message] = {"message": "Which city?", "requestedSchema": {"type": "object"}}
CITY: Final[Message] = {"action": "accept", "content": {"city": "New York"}}
STDERR: Final = "10:32:01 AM: A stderr message"


@pytest.mark.parametrize("front", FRONTS)
def test_questions_and_what_is_no_message_at_all_have_names_of_their_own(
    tmp_path: Path, front: str
) -> None:
    asking = question("q", "elicitation/create", FORM)
    answer = result(text("rain")).replace("$id", "$call")
    server = Scripted(
        tmp_path / "server",
        tools("get_weather"),
        rule("tools/call", "printed by mistake", asking, keep="call", stderr=STDERR),
        rule("answer", answer, where={"id": "q"}),
    )
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "get_weather"}}
    with speaking(tmp_path, front, server) as say:
        say(json.dumps({**opening, "params": hello("2025-06-18", {"elicitation": {}})}))
        say('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        say(json.dumps(call))
        say("typed by mistake")
        eventually(lambda: "stderr" in kinds(tmp_path / "state"), "its stderr")

    found = recorded(tmp_path / "state")
    for side in ("server", "client"):
        assert Said("server-request", side, "elicitation/create", FORM) in found
        assert Said("client-response", side, "elicitation/create", CITY) in found
        assert [(each.side, each.kind) for each in found].count((side, "not-json-rpc")) == 1
    assert Said("not-json-rpc", "server", "", "printed by mistake") in found
    assert kinds(tmp_path / "state").count("stderr") == 1
