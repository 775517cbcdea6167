"""Calls that are made once more: those that did no harm, those that nobody saw, and no others.

The figures in the comments are the goals on a machine of its own; the constants are what a busy
one can prove on every commit.
"""

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.harness import LineClient, Message, read_events
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    ScriptedHttpServer,
    legacy,
    modern,
)
from tests.reliability.conftest import Serve
from tests.rig.in_process import in_process_gateway, run_bounded
from tests.rig.invalid_replies import fine, nothing_else
from tests.rig.probe import eventually
from tests.rig.raw_http_client import RawHttpClient
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import MINIMAL, patient, python, status, tool_names
from tests.rig.toxic_proxy import ToxicProxy

pytestmark = pytest.mark.slow

CALLS_IN_FLIGHT: Final = 1_000
OPEN_CALLS: Final = 128
"""Of those, the ones that the server has got to see."""
REPEATED_MAX: Final = CALLS_IN_FLIGHT // 5
TOLD_SECONDS_MAX: Final = scaled(30.0, full=1.0)
"""From the death of a server until all who waited know. In full: 1 s."""
RESPAWN_SECONDS_MAX: Final = scaled(30.0, full=0.25)
"""From there until it is started again. In full: 250 ms."""

TWO_LIVES: Final = (
    MINIMAL
    + """
life, log = sys.argv[1:3]
second = os.path.exists(life)
open(life, "a").close()

def use(message):
    params = message["params"]
    with open(log, "a") as file:
        file.write(params["name"] + " " + params.get("arguments", {}).get("text", "") + "\\n")
    if second:
        say(message, "second life")

def offer(message, *names):
    answer(message, result={"tools": [
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "put", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
        {"name": "add", "inputSchema": {"type": "object"}},
    ]})

serve([], use)
"""
)
"""A server that answers no call before it has died once; it keeps a list of all it was asked."""


class Victim:
    """A gateway with such a server."""

    def __init__(self, client: LineClient, folder: Path) -> None:
        self.client = client
        self.log = folder / "log"
        self.pid: int = status(client)["backends"]["victim"]["pid"]

    def kill(self) -> float:
        """When it was killed."""
        os.kill(self.pid, signal.SIGKILL)
        return time.monotonic()

    def start(self, tool: str, count: int) -> list[Any]:
        """Calls, all of which are in the gateway, and as many as may be in the server."""
        before = len(self.asked())
        calls = [
            self.client.start(
                "tools/call", {"name": f"victim__{tool}", "arguments": {"text": f"{number}"}}
            )
            for number in range(count)
        ]
        self.client.request("ping")
        eventually(lambda: len(self.asked()) - before >= min(count, OPEN_CALLS), "it was asked")
        return calls

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    argv = python(TWO_LIVES, str(tmp_path / "life"), str(tmp_path / "log"))
    with patient(tmp_path, {"victim": argv}) as client:
        client.initialize()
        assert tool_names(client) == {"victim__look", "victim__put", "victim__add"}
        yield Victim(client, tmp_path)
        assert client.finish() == 0


def ends(client: LineClient, calls: list[Any]) -> Counter[str]:
    """How calls end: with which text, or with an error."""
    answers = [client.answer(call) for call in calls]
    return Counter(
        "error" if "error" in answer else answer["result"]["content"][0]["text"]
        for answer in answers
    )


def moment(event: Message) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()


@pytest.mark.parametrize("tool", ["look", "put"])
def test_calls_that_do_no_harm_survive_the_death_of_their_server(
    tmp_path: Path, victim: Victim, tool: str
) -> None:
    calls = victim.start(tool, CALLS_IN_FLIGHT)

    killed = victim.kill()
    found = ends(victim.client, calls)
    told = time.monotonic() - killed

    assert told <= TOLD_SECONDS_MAX
    assert found["second life"] + found["error"] == CALLS_IN_FLIGHT
    assert 0 < found["second life"] <= REPEATED_MAX + OPEN_CALLS
    answered = [message["id"] for message in victim.client.seen if "id" in message]
    assert len(answered) == len(set(answered))
    events = read_events(tmp_path / "state")
    twice = [event for event in events if event["metadata"].get("attempts") == 2]
    assert len([each for each in twice if each["status"] == "success"]) == found["second life"]
    (failed,) = (e for e in events if e["event_type"] == "gateway.backend_failed")
    started = [e for e in events if e["event_type"] == "gateway.backend_started"][-1]
    assert moment(started) - moment(failed) <= RESPAWN_SECONDS_MAX
    assert "gateway.backend_ejected" not in {event["event_type"] for event in events}
    measured(
        told_seconds=round(told, 3),
        repeated=found["second life"],
        back_seconds=round(moment(started) - moment(failed), 3),
    )


def test_a_call_that_may_have_been_carried_out_is_never_made_twice(victim: Victim) -> None:
    calls = victim.start("add", CALLS_IN_FLIGHT)
    seen = Counter(victim.asked())

    victim.kill()
    found = ends(victim.client, calls)

    assert found["second life"] + found["error"] == CALLS_IN_FLIGHT
    assert found["second life"] > 0, "those that waited in the gateway were brought to the next"
    asked = Counter(victim.asked())
    assert max(asked.values()) == 1
    assert len(asked) == len(seen) + found["second life"]


def test_repeating_can_be_switched_off(tmp_path: Path) -> None:
    argv = python(TWO_LIVES, str(tmp_path / "life"), str(tmp_path / "log"))
    entry = {"command": argv[0], "args": argv[1:], "retry": "never"}
    with patient(tmp_path, {"victim": entry}) as client:
        client.initialize()
        tool_names(client)
        victim = Victim(client, tmp_path)
        calls = victim.start("look", OPEN_CALLS + 10)

        victim.kill()

        assert ends(client, calls) == {"error": OPEN_CALLS + 10}
        assert client.finish() == 0


# Over HTTP.

LOOK: Final = {"name": "look", "inputSchema": {}, "annotations": {"readOnlyHint": True}}


@pytest.mark.parametrize(("name", "attempts"), [("look", 2), ("add", 1)])
def test_a_reply_that_was_cut_off_is_asked_for_again_where_that_does_no_harm(
    serve: Serve, name: str, attempts: int
) -> None:
    failures = iter([True])

    def call(heard: ReceivedRequest, back: Reply) -> None:
        if next(failures, False):
            back.send(b"HTTP/1.1 200 OK\r\nContent-Le")
            raise ConnectionError
        back.result(heard, {"resultType": "complete", "content": [{"type": "text", "text": "ok"}]})

    with (
        ScriptedHttpServer(modern(call, LOOK, "add")) as web,
        serve({"far": {"url": web.url}}) as there,
    ):
        visitor = RawHttpClient(there.port)
        answer = visitor.call(f"far__{name}")
        there.calls_owed += 1
        visitor.close()

        assert ("result" in answer) is (attempts == 2)
        assert len(web.of("tools/call")) == attempts
        metrics = there.page("/metrics").decode().splitlines()
        assert f'anyport_server_retries_total{{server="far"}} {attempts - 1}.0' in metrics


@pytest.mark.parametrize(("name", "attempts"), [("look", 2), ("add", 1)])
def test_a_call_that_got_a_404_is_made_again_where_that_does_no_harm(
    serve: Serve, name: str, attempts: int
) -> None:
    """The session may be gone, or the call was carried out: a bare 404 does not say."""
    failures = iter([True])

    def call(heard: ReceivedRequest, back: Reply) -> None:
        if next(failures, False):
            back.whole(404)
        else:
            back.result(heard, {"content": [{"type": "text", "text": "ok"}]})

    with (
        ScriptedHttpServer(legacy(call, LOOK, "add")) as web,
        serve({"far": {"url": web.url}}) as there,
    ):
        visitor = RawHttpClient(there.port)
        answer = visitor.call(f"far__{name}")
        again = visitor.call(f"far__{name}")
        there.calls_owed += 2
        visitor.close()

        assert ("result" in answer) is (attempts == 2)
        assert "result" in again
        assert len(web.of("tools/call")) == attempts + 1


def test_a_dial_that_fails_once_is_not_even_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent, so any tool may be called again."""
    fails = chain([False], repeat(True))
    armed = threading.Event()
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name != "flaky.test":
            return real(host, *rest, **more)
        if armed.is_set() and not next(fails):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def scene() -> None:
        with ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web:
            link = ToxicProxy(web.url)
            url = f"http://flaky.test:{urlsplit(link.url).port}/mcp"
            async with in_process_gateway(tmp_path, {"far": {"url": url}}) as at:
                visitor = await asyncio.to_thread(RawHttpClient, at.port)
                first = await asyncio.to_thread(visitor.call, "far__fine", text="one")
                assert first["result"]["content"][0]["text"] == "one"
                client = at.gateway.servers["far"].connections()[0][1]._channel.client  # type: ignore[attr-defined]
                for line in list(client.idle):
                    line.cancel(None)
                armed.set()
                second = await asyncio.to_thread(visitor.call, "far__fine", text="two")
                visitor.close()
                assert second["result"]["content"][0]["text"] == "two"
                assert at.gateway.relay.retry_budgets.retried_counts == {"far": 1}
            link.close()

    run_bounded(scene)
    events = read_events(tmp_path / "state")
    calls = [event for event in events if event["event_type"] == "gateway.tool_call"]
    assert [call["metadata"].get("attempts") for call in calls] == [None, 2]
    assert json.dumps(events).count("backend_failed") == 0
