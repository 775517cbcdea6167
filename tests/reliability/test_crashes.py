"""Gateways that die: their clients go on with the next one, and nothing is done twice."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness import DEMO, Message, read_events
from tests.rig.probe import descendants, text_of
from tests.rig.raw_http_client import (
    RawConnection,
    RawHttpClient,
    Reply,
    head,
    post,
    request,
    tool_call,
)
from tests.rig.scale import measured, scaled
from tests.rig.takeovers import ASK, LEGACY, Takeovers, ask_again, fresh, takeovers, updated

pytestmark = pytest.mark.slow

STORM: Final = scaled(150, full=2000)
CALLING: Final = 4
"""Of so many that come back one makes a call, and the others look what there is."""
STORM_SECONDS_MAX: Final = scaled(60.0, full=10.0)
NOT_FOUND_SECONDS_MAX: Final = scaled(20.0, full=1.0)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Takeovers]:
    """A gateway before one server that has sessions, and those that follow it."""
    with takeovers(tmp_path, {"s": LEGACY}) as running:
        yield running


def test_a_session_goes_on_after_a_kill_with_all_it_had(demo: Takeovers) -> None:
    visitor = demo.visitor(**ASK)
    visitor.send(request("resources/subscribe", {"uri": "demo://counter"}))
    visitor.send(request("logging/setLevel", {"level": "error"}))

    demo.crash()

    visitor = fresh(visitor)
    stream = demo.keep(visitor.open_stream())
    told = stream.events()
    assert next(told)["method"] == "notifications/tools/list_changed"
    # The subscription delivers.
    fresh(visitor).call("s__touch")
    assert updated(told)["params"]["uri"] == "demo://counter"
    # The level is kept, and the server may ask.
    visitor.wire.send(post(tool_call("s__log", {"level": "info", "text": "quiet"}), visitor.fields))
    assert [message for message in visitor.wire.reply().messages if "method" in message] == []
    assert "Ada" in text_of(asked(visitor))
    resumed = [e for e in read_events(demo.state) if e["event_type"] == "gateway.session_resumed"]
    (started,) = [
        e for e in read_events(demo.state) if e["event_type"] == "gateway.session_started"
    ]
    assert [event["metadata"] for event in resumed] == [started["metadata"]]


def test_a_session_goes_on_after_a_stop_in_good_order(demo: Takeovers) -> None:
    visitor = demo.visitor()
    demo.now.process.send_signal(signal.SIGTERM)
    assert demo.now.end()[0] == 0
    demo.restart()

    assert text_of(fresh(visitor).call("s__echo", text="on")) == "on"


def test_a_session_that_was_ended_stays_so(demo: Takeovers) -> None:
    visitor = demo.visitor()
    assert visitor.wire.ask(head("DELETE", "/mcp", visitor.fields)).status == 200
    demo.crash()

    began = time.monotonic()
    assert ask_again(visitor).status == 404
    assert time.monotonic() - began < NOT_FOUND_SECONDS_MAX


def test_a_session_that_nobody_used_for_long_stays_over(demo: Takeovers) -> None:
    visitor = demo.visitor()
    (kept,) = (demo.state / "sessions").iterdir()
    long_ago = time.time() - 7 * 24 * 3600
    os.utime(kept, (long_ago, long_ago))
    demo.crash()

    assert ask_again(visitor).status == 404
    assert not kept.exists()


def test_who_comes_back_for_an_answer_that_died_is_told_so(demo: Takeovers) -> None:
    visitor = demo.visitor()
    call = tool_call("s__slow", {"seconds": 30, "steps": 100}, "c-1", progressToken="p")
    visitor.wire.send(post(call, visitor.fields))
    assert visitor.wire.head()[1] == 200
    last = last_event_id(visitor.wire)

    demo.crash()

    stream = demo.keep(fresh(visitor).open_stream(**{"Last-Event-ID": last}))
    (lost,) = stream.events()
    assert lost["id"] == "c-1"
    assert lost["error"]["code"] == -32000
    assert "restarted" in lost["error"]["message"]
    calls = [e for e in read_events(demo.state) if e["event_type"] == "gateway.tool_call"]
    assert {event["status"] for event in calls} <= {"pending"}  # It is not done again.


def test_the_stream_of_a_session_that_died_is_begun_anew(demo: Takeovers) -> None:
    visitor = demo.visitor()
    first = demo.keep(visitor.open_stream())
    last = last_event_id(first)
    demo.crash()

    stream = demo.keep(fresh(visitor).open_stream(**{"Last-Event-ID": last}))

    assert next(stream.events())["method"] == "notifications/tools/list_changed"


def test_a_session_of_the_older_transport_is_over_with_its_stream(demo: Takeovers) -> None:
    wire = demo.wire()
    wire.send(head("GET", "/mcp/default/sse", {"Accept": "text/event-stream"}))
    assert wire.head()[1] == 200
    address = next(
        line[6:].decode()
        for piece in wire.pieces()
        for line in piece.split(b"\n")
        if line.startswith(b"data: ")
    )
    demo.crash()

    assert demo.wire().ask(post(request("ping"), path=address)).status == 404


def test_many_clients_that_come_back_at_once_are_all_served(tmp_path: Path) -> None:
    # Of one era: one process serves all, whoever comes.
    servers = {"s": [*DEMO, "--legacy-only"]}
    with takeovers(tmp_path, servers, gateway={"sessionsMax": 2 * STORM}) as running:
        fields = []
        for _ in range(STORM):
            visitor = RawHttpClient(running.port)
            fields.append(visitor.fields)
            visitor.close()
        storm(running.port, fields[:1], [])
        running.crash()
        children = len(descendants(running.now.pid))

        replies: list[Reply] = []
        took = storm(running.port, fields, replies)

        assert len(replies) == STORM
        for number, reply in enumerate(replies):
            if number % CALLING:
                names = [tool["name"] for tool in reply.message["result"]["tools"]]
                assert "s__echo" in names
            else:
                assert text_of(reply.message) == "back"
        assert took < STORM_SECONDS_MAX
        assert len(descendants(running.now.pid)) <= max(children, 3)
        started = [
            e for e in read_events(running.state) if e["event_type"] == "gateway.backend_started"
        ]
        assert len(started) == 2  # One for each gateway.
        measured(clients=STORM, seconds=round(took, 2))


def storm(port: int, fields: list[dict[str, str]], replies: list[Reply]) -> float:
    """All of them at once, each on a connection of its own; the seconds until all are answered."""
    wires = [RawConnection(port) for _ in fields]
    begun = time.monotonic()
    for number, (wire, own) in enumerate(zip(wires, fields, strict=True)):
        call = tool_call("s__echo", {"text": "back"}, number)
        wire.send(post(request("tools/list", id=number) if number % CALLING else call, own))
    replies.extend(wire.reply() for wire in wires)
    took = time.monotonic() - begun
    for wire in wires:
        wire.close()
    return took


def asked(visitor: RawHttpClient) -> Message:
    """The answer of a tool that asks its client something."""
    visitor.wire.send(post(tool_call("s__elicit", id="call"), visitor.fields))
    assert visitor.wire.head()[1] == 200
    for message in visitor.wire.events():
        if message.get("method") == "elicitation/create":
            answer = {"action": "accept", "content": {"name": "Ada"}}
            visitor.tell({"jsonrpc": "2.0", "id": message["id"], "result": answer})
        elif message.get("id") == "call":
            return message
    raise AssertionError("no answer")


def last_event_id(wire: RawConnection) -> str:
    """Of the first event on a stream whose head has been read."""
    for piece in wire.pieces():
        for line in piece.split(b"\n"):
            if line.startswith(b"id: "):
                wire.close()
                return line[4:].decode()
    raise AssertionError("no event")
