"""Servers that rest, in a configuration and seen from outside.

That something does not happen is shown beside something that does: a second server, which may be
idle for longer, is stopped; by then the first one would have been stopped, too.
"""

from pathlib import Path
from typing import Any, Final

from tests.harness import Message, read_events
from tests.journeys.clients import ModernClient, SessionClient, status
from tests.journeys.scripts import Scripted, eventually, result, rule, said, text, tools

IDLE_SECONDS: Final = 0.4
LONGER_SECONDS: Final = 3 * IDLE_SECONDS
ELICITATION: Final[Message] = {"elicitation": {"form": {}}}
FORM_ANSWER: Final[Message] = {"action": "accept", "content": {"name": "Ada"}}


def lazily(command: list[str], **rest: Any) -> Message:
    """The entry of a server that is started on first use."""
    return {"command": command[0], "args": command[1:], "start": "first-use", **rest}


def resting(command: list[str], **rest: Any) -> Message:
    """The entry of a server that is stopped when nobody uses it."""
    settings = {"idleSeconds": IDLE_SECONDS, **rest}
    return {"command": command[0], "args": command[1:], **settings}


def clock(tmp_path: Path) -> Message:
    """A server that may be idle for longer than others."""
    ticking = Scripted(
        tmp_path / "clock",
        tools("tick"),
        rule("tools/call", result(text("tick"))),
        capabilities={"tools": {}},
    )
    return resting(ticking.command, idleSeconds=LONGER_SECONDS)


def outlast(client: SessionClient | ModernClient) -> None:
    """Until `clock` was used and stopped again: more time than any other server may be idle."""
    said(client.call("clock__tick"))
    wait_for(client, "clock", "idle")


def backend(client: SessionClient | ModernClient, slug: str) -> Message:
    """How a server is doing."""
    found: Message = status(client)["backends"][slug]
    return found


def wait_for(client: SessionClient | ModernClient, slug: str, word: str) -> None:
    """Until a server has this status."""
    eventually(lambda: backend(client, slug)["status"] == word, f"{slug} is {word}")


def events(state: Path, kind: str, server: str) -> list[Message]:
    """What the journal has of one kind about one server."""
    return [
        event
        for event in read_events(state)
        if event["event_type"] == kind and event["metadata"].get("server") == server
    ]
