"""Gateways that take over from one another: their clients do not notice."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from anyport.ingress.http.handover import Predecessor
from anyport.record.journal.segments import segments
from tests.harness import WAIT_SECONDS, Message
from tests.rig.probe import check_journal, descendants, eventually, text_of
from tests.rig.raw_http_client import RawConnection, head, modern, post, request, tool_call
from tests.rig.scale import measured, scaled
from tests.rig.takeovers import (
    ASK,
    LEGACY,
    BusyClient,
    Takeovers,
    activated,
    ask_again,
    fresh,
    takeovers,
    updated,
)

pytestmark = pytest.mark.slow

RESTARTS: Final = scaled(5, full=20)
CALLS: Final = scaled(60, full=5000)
"""Between two restarts, of all clients together."""
CLIENTS: Final = scaled(2, full=8)
"""Of each kind."""
PAUSE_SECONDS: Final = scaled(0.05, full=0.04)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Takeovers]:
    """A gateway before one server that has sessions, and those that follow it."""
    with takeovers(tmp_path, {"s": LEGACY}) as running:
        yield running


def test_no_call_fails_while_gateways_take_over_from_one_another(demo: Takeovers) -> None:
    sorts = [(short, legacy) for short in (False, True) for legacy in (False, True)]
    busy = [
        BusyClient(demo.port, number, fresh=short, legacy=legacy, pause=PAUSE_SECONDS)
        for number, (short, legacy) in enumerate(sorts * CLIENTS)
    ]
    before = []
    for _ in range(RESTARTS):
        wait_for_calls(busy)
        before.append(demo.upgrade())
    wait_for_calls(busy)
    for each in busy:
        each.stop()

    assert [fault for each in busy for fault in each.faults] == []
    for runner in before:
        code, said = runner.end()
        assert code == 0, said
        assert "Traceback" not in said and "internal error" not in said, said
    answered = sum(each.answered for each in busy)
    good, successors = 0, []
    for event in noted(demo.state):
        if event["event_type"] == "gateway.handed_over":
            successors.append(event["metadata"]["successor"])
        good += event["event_type"] == "gateway.tool_call" and event["status"] == "success"
    assert successors == [runner.pid for runner in demo.runners[1:]]
    assert good == answered
    measured(calls=answered, restarts=RESTARTS, slowest=max(each.slowest for each in busy))
    assert not any(descendants(runner.pid) for runner in before)


def test_a_call_that_is_open_is_finished_where_it_began(demo: Takeovers) -> None:
    slow = tool_call("s__slow", {"seconds": 2, "steps": 4}, progressToken="p")
    wire, visitor = demo.wire(), demo.visitor()
    wire.send(modern(slow))
    visitor.wire.send(post(slow, visitor.fields))
    streams = []
    for each in (wire, visitor.wire):
        assert each.head()[1] == 200
        streams.append(each.events())
        next(streams[-1])

    before = demo.upgrade()

    for stream in streams:
        *_, last = stream
        assert text_of(last) == "Done after 4 steps."
    wire.close()
    visitor.close()
    assert before.end()[0] == 0
    assert check_journal(demo.state) == 2


def test_subscriptions_and_streams_get_their_endings_at_once(demo: Takeovers) -> None:
    wire = demo.wire()
    wish = {"notifications": {"toolsListChanged": True}}
    wire.send(modern(request("subscriptions/listen", wish)))
    assert wire.head()[1] == 200
    told = wire.events()
    assert next(told)["method"] == "notifications/subscriptions/acknowledged"
    visitor = demo.visitor()
    stream = demo.keep(visitor.open_stream())

    demo.upgrade()

    *_, last = told
    assert last["result"]["resultType"] == "complete"
    assert list(stream.events()) == []
    again = demo.keep(visitor.open_stream())
    assert next(again.events())["method"] == "notifications/tools/list_changed"


def test_a_request_on_a_connection_that_was_idle_is_answered_and_the_last_on_it(
    demo: Takeovers,
) -> None:
    wire = demo.wire()
    first = wire.ask(modern(tool_call("s__echo", {"text": "1"})))
    demo.upgrade()
    last = wire.ask(modern(tool_call("s__echo", {"text": "2"})))

    assert (first.get("connection"), last.get("connection")) == (None, "close")
    assert text_of(last.message) == "2"
    assert wire.wait_closed() == b""


def test_an_answer_to_a_question_of_the_gateway_before_finds_its_way(demo: Takeovers) -> None:
    visitor = demo.visitor(**ASK)
    visitor.wire.send(post(tool_call("s__elicit", id="call"), visitor.fields))
    assert visitor.wire.head()[1] == 200
    said = visitor.wire.events()
    question = next(message for message in said if message.get("method") == "elicitation/create")

    before = demo.upgrade()
    answer = {"action": "accept", "content": {"name": "Ada"}}
    visitor.tell({"jsonrpc": "2.0", "id": question["id"], "result": answer})

    last = next(message for message in said if message.get("id") == "call")
    assert "Ada" in text_of(last)
    visitor.close()
    assert before.end()[0] == 0


def test_a_call_of_the_gateway_before_can_be_cancelled(demo: Takeovers) -> None:
    visitor = demo.visitor()
    call = tool_call("s__slow", {"seconds": 30, "steps": 100}, "call", progressToken="p")
    visitor.wire.send(post(call, visitor.fields))
    assert visitor.wire.head()[1] == 200
    said = visitor.wire.events()
    next(said)

    before = demo.upgrade()
    cancel = {"method": "notifications/cancelled", "params": {"requestId": "call"}}
    visitor.tell({"jsonrpc": "2.0", **cancel})

    last = next(message for message in said if message.get("id") == "call")
    assert last["error"]["code"] == -32800
    visitor.close()
    assert before.end()[0] == 0


def test_what_a_session_wishes_on_an_old_connection_the_new_gateway_knows(demo: Takeovers) -> None:
    visitor = demo.visitor()
    demo.upgrade()
    stream = demo.keep(visitor.open_stream())  # It goes on in the new one from here.
    told = stream.events()

    subscribed = visitor.send(request("resources/subscribe", {"uri": "demo://counter"}))
    assert (subscribed.get("connection"), subscribed.message["result"]) == ("close", {})
    fresh(visitor).call("s__touch")

    assert updated(told)["params"]["uri"] == "demo://counter"
    ended = fresh(visitor)
    assert ended.wire.ask(head("DELETE", "/mcp", ended.fields)).status == 200
    assert ask_again(ended).status == 404


def test_a_successor_that_dies_before_it_accepts_changes_nothing(demo: Takeovers) -> None:
    path = demo.state / f"serve-{demo.port}.sock"
    found = Predecessor.find(path)
    assert found is not None and found.pid == demo.now.pid
    (taken,) = found.take_sockets()
    taken.close()
    found.close()

    visitor = demo.visitor()
    assert text_of(visitor.call("s__echo", text="still")) == "still"
    visitor.close()
    before = demo.upgrade()
    assert before.end()[0] == 0


def test_with_nobody_there_the_one_that_would_take_over_just_starts(demo: Takeovers) -> None:
    demo.now.process.send_signal(signal.SIGTERM)
    code, _ = demo.now.end()
    assert code == 0

    demo.upgrade()

    assert text_of(demo.visitor().call("s__echo", text="here")) == "here"


def test_an_address_that_systemd_keeps_is_open_while_nobody_serves_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as kept:
        port = kept.getsockname()[1]
        first = activated(kept, "--state-dir", str(tmp_path))
        busy = RawConnection(port)
        busy.send(modern(tool_call("demo__slow", {"seconds": 2, "steps": 4}, progressToken="p")))
        assert busy.head()[1] == 200
        first.send_signal(signal.SIGTERM)
        *_, last = busy.events()
        assert text_of(last) == "Done after 4 steps."
        busy.close()
        assert first.wait(WAIT_SECONDS) == 0

        with RawConnection(port) as early:
            early.send(modern(tool_call("demo__echo", {"text": "early"})))
            second = activated(kept, "--state-dir", str(tmp_path))
            assert text_of(early.reply().message) == "early"
        second.send_signal(signal.SIGTERM)
        assert second.wait(WAIT_SECONDS) == 0


def noted(state: Path) -> Iterator[Message]:
    """Every event, however many files they fill."""
    for path in segments(state / "events"):
        with path.open("rb") as lines:
            # Who begins to write while another does may see half a line, and close it.
            yield from (json.loads(line) for line in lines if line.strip())


def wait_for_calls(busy: list[BusyClient]) -> None:
    """Until so many more have been answered."""
    goal = sum(each.answered for each in busy) + CALLS
    eventually(lambda: sum(each.answered for each in busy) >= goal, "calls")
