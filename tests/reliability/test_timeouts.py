"""Every timeout by itself, on a running gateway: the error, the event and the metric have its name.

What only a connection of a client can run into (`head`, `body`, `idle`) is played on a wound clock,
in `tests/ingress/http/test_connection_patience.py`; so is `answer`, in `tests/gateway`.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from anyport.protocol.errors import Timeout
from anyport.upstream.stdio.process import GRACE_SECONDS_MAX, TERMINATE_SECONDS_MAX
from tests.harness import LEGACY_DEMO, Message, read_events
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    Script,
    ScriptedHttpServer,
    legacy,
    modern,
)
from tests.reliability.conftest import Serve
from tests.rig.http_probe import HttpProbe
from tests.rig.in_process import InProcessGateway, in_process_gateway, run_bounded
from tests.rig.invalid_replies import fine, nothing_else
from tests.rig.probe import eventually, text_of
from tests.rig.raw_http_client import RawConnection, RawHttpClient, head, post, tool_call
from tests.rig.raw_http_client import modern as modern_post
from tests.rig.scale import scaled
from tests.rig.toxic_proxy import unreachable

pytestmark = pytest.mark.slow

SECONDS: Final = 0.4
"""What is configured where something is to be over soon."""
REPORTING_SECONDS: Final = 2.0
"""The time of a call that reports ten times a second."""
CAP_SECONDS: Final = 4.0
"""That a call may take in all; a server that has to be started first takes a part of it."""
LATE_SECONDS_MAX: Final = scaled(20.0, full=1.0)
"""Everything is over within its time and this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """A call whose time was over."""

    message: str
    data: Message
    seconds: float


def call(visitor: RawHttpClient, tool: str, **arguments: Any) -> Over:
    """Make a call that fails."""
    began = time.monotonic()
    answer = visitor.call(tool, **arguments)
    took = time.monotonic() - began
    error = answer["error"]
    assert error["code"] == -32000, error
    return Over(message=error["message"], data=error.get("data", {}), seconds=took)


def counts(page: bytes) -> dict[str, int]:
    """How often each timeout is counted on the page of metrics."""
    found = {}
    for line in page.decode().splitlines():
        if line.startswith("anyport_timeouts_total{"):
            label, _, number = line.rpartition(" ")
            found[label.split('"')[1]] = int(float(number))
    assert set(found) == {timeout.value for timeout in Timeout}
    return found


def noted(state: Path, type: str = "gateway.tool_call") -> list[Message]:
    """The events of this type that tell of a timeout."""
    return [
        event
        for event in read_events(state)
        if event["event_type"] == type and event["status"] == "timeout"
    ]


def check(there: HttpProbe, over: Over, timeout: Timeout, *, server: str = "far") -> None:
    """See that everybody was told the same."""
    assert over.data == {"server": server, "timeout": timeout.value}
    event = noted(there.state)[-1]
    assert event["metadata"]["timeout"] == timeout.value
    assert event["metadata"]["server"] == server
    assert (event["error_code"], event["error_message"]) == (-32000, over.message)
    assert counts(there.page("/metrics"))[timeout.value] >= 1


def silent(heard: ReceivedRequest, back: Reply) -> None:
    """Take a call, and say nothing."""
    back.wait_gone()


def stuck(heard: ReceivedRequest, back: Reply) -> None:
    """Begin a stream, and say nothing on it."""
    back.stream()
    back.wait_gone()


def half(heard: ReceivedRequest, back: Reply) -> None:
    """Send a part of an answer."""
    back.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
    back.wait_gone()


def behind(call: Script, era: Callable[..., Script] = legacy) -> ScriptedHttpServer:
    """A server with the tools `fine`, which works, and `bad`, which does not."""
    return ScriptedHttpServer(era(fine(call), "fine", "bad"))


# Calls.


def test_a_call_that_waits_for_its_turn(serve: Serve) -> None:
    with (
        serve({"far": {**demo(), "callsMax": 1, "queueSeconds": SECONDS}}) as there,
        closing(RawHttpClient(there.port)) as first,
        closing(RawHttpClient(there.port)) as second,
    ):
        taken = tool_call("far__slow", {"seconds": 60}, "taken")
        busy = threading.Thread(target=first.send, args=(taken,))
        busy.start()
        eventually(lambda: there.status()["backends"]["far"]["status"] == "running", "it runs")
        eventually(lambda: waits(there), "the place is taken")

        over = call(second, "far__slow", seconds=1)

        assert over.message == (
            f"Server 'far' is busy: no place became free for this call within {SECONDS:g}s"
        )
        assert SECONDS <= over.seconds <= SECONDS + LATE_SECONDS_MAX
        check(there, over, Timeout.QUEUE)
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "taken"}}
        first.tell({"jsonrpc": "2.0", **cancel})
        busy.join()
        there.calls_owed += 2


def waits(there: HttpProbe) -> bool:
    """Whether a call has been going on for a while."""
    return any(
        event["status"] == "pending" and event["metadata"]["server"] == "far"
        for event in read_events(there.state)
        if event["event_type"] == "gateway.tool_call"
    )


def demo() -> dict[str, Any]:
    return {"command": LEGACY_DEMO[0], "args": LEGACY_DEMO[1:]}


def test_a_call_that_gets_no_answer(serve: Serve) -> None:
    with (
        behind(silent) as web,
        serve({"far": {"url": web.url, "timeout": SECONDS}}) as there,
        closing(RawHttpClient(there.port)) as visitor,
    ):
        over = call(visitor, "far__bad")

        assert over.message == f"Tool execution timeout ({SECONDS:g}s)"
        assert SECONDS <= over.seconds <= SECONDS + LATE_SECONDS_MAX
        check(there, over, Timeout.TOTAL)
        cancelled = web.wait_of("notifications/cancelled").message["params"]
        assert cancelled["requestId"] == web.wait_of("tools/call").id
        there.calls_owed += 1


def test_a_modern_client_reads_it_in_a_result(serve: Serve) -> None:
    with (
        behind(silent, modern) as web,
        serve({"far": {"url": web.url, "timeout": 0.2}}) as there,
        RawConnection(there.port) as wire,
    ):
        result = wire.ask(modern_post(tool_call("far__bad"))).message["result"]

        assert result["isError"] is True
        assert result["content"][0]["text"] == "Tool execution timeout (0.2s)"
        assert noted(there.state)[-1]["metadata"]["timeout"] == "total"
        there.calls_owed += 1


def test_a_call_that_reports_progress_survives_its_time_and_ends_at_the_cap(serve: Serve) -> None:
    with (
        serve(
            {"far": {**demo(), "timeout": REPORTING_SECONDS, "timeoutMax": CAP_SECONDS}}
        ) as there,
        closing(RawHttpClient(there.port)) as visitor,
    ):
        began = time.monotonic()
        slow = tool_call("far__slow", {"seconds": 60, "steps": 600}, progressToken="p")
        *progress, answer = visitor.send(slow).messages
        took = time.monotonic() - began

        assert len(progress) >= 5
        assert CAP_SECONDS <= took <= CAP_SECONDS + LATE_SECONDS_MAX
        error = answer["error"]
        words = f"Tool execution timeout ({CAP_SECONDS:g}s in all, the timeoutMax of server 'far')"
        assert error["message"] == words
        check(there, Over(message=words, data=error["data"], seconds=took), Timeout.CAP)
        there.calls_owed += 1


def test_a_person_may_take_longer_than_the_call(serve: Serve) -> None:
    with (
        serve(
            {"far": {**demo(), "timeout": REPORTING_SECONDS, "timeoutMax": CAP_SECONDS}}
        ) as there,
        closing(RawHttpClient(there.port, elicitation={})) as visitor,
    ):
        visitor.wire.send(post(tool_call("far__elicit"), visitor.fields))
        assert visitor.wire.head()[1] == 200
        events = visitor.wire.events()
        asked = next(each for each in events if each.get("method") == "elicitation/create")
        since = time.monotonic()
        eventually(lambda: time.monotonic() - since > CAP_SECONDS, "the person thinks")
        content = {"name": "Ada"}
        answer = {"action": "accept", "content": content}
        visitor.tell({"jsonrpc": "2.0", "id": asked["id"], "result": answer})

        *_, told = events

        assert "Ada" in text_of(told)
        assert noted(there.state) == []
        with RawConnection(there.port) as wire:
            assert wire.ask(head("DELETE", "/mcp", visitor.fields)).status == 200
        there.calls_owed += 1


# The way to a server.


def test_a_server_that_is_not_reached(serve: Serve) -> None:
    with unreachable() as port:
        far = {"url": f"http://127.0.0.1:{port}/mcp", "connectSeconds": SECONDS}
        with (
            serve({"far": far}, gateway={"listSeconds": 30}) as there,
            closing(RawHttpClient(there.port)) as visitor,
        ):
            over = call(visitor, "far__fine")

            assert over.message == (
                f"Server 'far' is not running: no connection within {SECONDS:g} s"
            )
            check(there, over, Timeout.CONNECT)
            failed = noted(there.state, "gateway.backend_failed")[-1]
            assert failed["metadata"]["timeout"] == "connect"
            there.calls_owed += 1


def test_a_server_that_does_not_get_ready(serve: Serve) -> None:
    with (
        ScriptedHttpServer(silent) as web,
        serve({"far": {"url": web.url}}) as there,
        closing(RawHttpClient(there.port)) as visitor,
    ):
        over = call(visitor, "far__fine")

        words = "it did not answer the handshake within 10 s"
        assert over.message == f"Server 'far' is not running: {words}"
        check(there, over, Timeout.HANDSHAKE)
        failed = noted(there.state, "gateway.backend_failed")[-1]
        assert failed["metadata"]["timeout"] == "handshake"
        assert failed["error_message"] == words
        there.calls_owed += 1


def test_a_reply_that_does_not_begin(serve: Serve) -> None:
    with (
        behind(silent) as web,
        serve({"far": {"url": web.url, "firstByteSeconds": SECONDS}}) as at,
        closing(RawHttpClient(at.port)) as visitor,
    ):
        over = call(visitor, "far__bad")

        words = f"no reply began within {SECONDS:g} s (firstByteSeconds)"
        assert over.message == f"Server 'far' failed to answer: {words}"
        assert SECONDS <= over.seconds <= SECONDS + LATE_SECONDS_MAX
        check(at, over, Timeout.FIRST_BYTE)
        assert web.wait_of("notifications/cancelled").message["params"]["reason"] == words
        assert text_of(visitor.call("far__fine", text="next")) == "next"
        at.calls_owed += 2


@pytest.mark.parametrize("begun", [stuck, half])
def test_a_reply_on_which_nothing_more_comes(serve: Serve, begun: Script) -> None:
    with (
        behind(begun, modern) as web,
        serve({"far": {"url": web.url, "streamIdleSeconds": SECONDS}}) as there,
        closing(RawHttpClient(there.port)) as visitor,
    ):
        over = call(visitor, "far__bad")

        words = f"it sent nothing for {SECONDS:g} s (streamIdleSeconds)"
        assert over.message == f"Server 'far' failed to answer: {words}"
        assert SECONDS <= over.seconds <= SECONDS + LATE_SECONDS_MAX
        check(there, over, Timeout.STREAM_IDLE)
        there.calls_owed += 1


def test_streams_beside_the_calls_are_opened_again_and_nobody_notices(serve: Serve) -> None:
    standing: list[ReceivedRequest] = []

    def stands(heard: ReceivedRequest, back: Reply) -> None:
        standing.append(heard)
        stuck(heard, back)

    changes = {"tools": {"listChanged": True}}
    with (
        ScriptedHttpServer(legacy(fine(nothing_else), "fine", stands=stands)) as old,
        ScriptedHttpServer(modern(fine(nothing_else), "fine", capabilities=changes)) as new,
        serve(
            {
                "old": {"url": old.url, "streamIdleSeconds": 0.2},
                "new": {"url": new.url, "streamIdleSeconds": 0.2},
            }
        ) as there,
        closing(RawHttpClient(there.port)) as visitor,
    ):
        eventually(lambda: len(standing) >= 3, "the stream is opened again")
        new.wait_of("subscriptions/listen", 3)

        for slug in ("old", "new"):
            assert text_of(visitor.call(f"{slug}__fine", text=slug)) == slug
            assert there.status()["backends"][slug]["restarts"] == 0
        assert noted(there.state) == []
        assert counts(there.page("/metrics"))["stream-idle"] >= 4
        there.calls_owed += 2


# Connections, and the end.


def test_a_connection_that_is_old_enough_is_closed_with_an_answer(tmp_path: Path) -> None:
    async def scene() -> None:
        async with in_process_gateway(tmp_path, {"far": demo()}) as at:
            visitor = await asyncio.to_thread(RawHttpClient, at.port)
            for inlet in at.ingress.connections:
                inlet.retire_at = 0.0

            reply = await asyncio.to_thread(visitor.send, tool_call("far__echo", {"text": "last"}))

            assert reply.get("connection") == "close"
            assert text_of(reply.message) == "last"
            await asyncio.to_thread(visitor.wire.wait_closed)
            assert of(at, Timeout.AGE) == 1
            visitor.close()

    run_bounded(scene)


def of(at: InProcessGateway, timeout: Timeout) -> int:
    return at.gateway.metrics.timeouts[timeout]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_is_still_open_when_the_gateway_cannot_wait_any_longer(
    tmp_path: Path, era: str
) -> None:
    words = "The gateway is stopping, and server 'far' has not answered in time"

    async def scene() -> None:
        async with in_process_gateway(tmp_path, {"far": demo()}) as at:
            visitor = await asyncio.to_thread(RawHttpClient, at.port)
            slow = tool_call("far__slow", {"seconds": 60})
            raw = modern_post(slow) if era == "modern" else post(slow, visitor.fields)
            asked = asyncio.get_running_loop().run_in_executor(None, visitor.wire.ask, raw)
            while not at.works_on('"seconds"'):
                await asyncio.sleep(0.01)

            await at.ingress.drain(0.1, 0.2)

            message = (await asked).message
            if era == "modern":
                assert message["result"]["isError"] is True
                assert message["result"]["content"][0]["text"] == words
            else:
                assert message["error"]["message"] == words
                assert message["error"]["data"] == {"server": "far", "timeout": "drain"}
            assert of(at, Timeout.DRAIN) == 1
            assert noted(tmp_path / "state")[-1]["metadata"]["timeout"] == "drain"
            visitor.close()

    run_bounded(scene)


STUBBORN: Final = """trap '' TERM; "$@"; sleep 600"""
"""Runs a server, and does not end with it."""


def test_a_server_that_does_not_end_is_killed(serve: Serve) -> None:
    far = {"command": "sh", "args": ["-c", STUBBORN, "sh", *LEGACY_DEMO], "idleSeconds": 0.2}
    with serve({"far": far}) as there:
        eventually(lambda: counts(there.page("/metrics"))["kill"] == 1, "it is killed")

        (event,) = noted(there.state, "gateway.backend_stopped")
        assert event["metadata"] == {"server": "far", "timeout": "kill"}
        seconds = GRACE_SECONDS_MAX + TERMINATE_SECONDS_MAX
        assert f"within {seconds:g} s" in event["error_message"]
