"""A gateway that is asked to stop while everybody is using it: nobody is let down."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cli.running import running
from tests.harness import DEMO, WAIT_SECONDS, Message, read_events, write_config
from tests.rig.probe import check_journal, descendants, eventually, text_of
from tests.rig.raw_http_client import (
    Hangup,
    RawConnection,
    RawHttpClient,
    modern,
    post,
    request,
    tool_call,
)
from tests.rig.scale import scaled

pytestmark = pytest.mark.slow

SLOW_CALLS: Final = 3  # Of each sort.
SLOW_SECONDS: Final = scaled(4.0, full=10.0)
BUSY_CLIENTS: Final = 4
SUBSCRIPTIONS: Final = scaled(10, full=50)
STREAMS: Final = 5
UNAVAILABLE: Final = 503


class Busy:
    """A client that makes one call after another until it is turned away."""

    def __init__(self, port: int, number: int) -> None:
        self.answered = 0
        self.refusal: Message | None = None
        self.hung_up = False
        self.fault: str | None = None
        self._visitor = RawHttpClient(port)
        self._number = number
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(WAIT_SECONDS)
        self._visitor.close()

    def _work(self) -> None:
        visitor = self._visitor
        try:
            while True:
                nonce = f"{self._number}-{self.answered}"
                reply = visitor.send(tool_call("pipe__echo", {"text": nonce}, next(visitor.ids)))
                if reply.status == UNAVAILABLE:
                    assert int(reply.get("retry-after") or "") > 0
                    self.refusal = reply.message
                    return
                assert text_of(reply.message) == nonce
                self.answered += 1
        except (Hangup, ConnectionError):
            self.hung_up = True
        except AssertionError as error:
            self.fault = f"{error}"


class Slow:
    """A call that takes its time; it is under way once this is made."""

    def __init__(self, port: int, tool: str, *, enveloped: bool) -> None:
        call = tool_call(tool, {"seconds": SLOW_SECONDS, "steps": 10}, progressToken="p")
        if enveloped:
            self.wire = RawConnection(port)
            self.wire.send(modern(call))
        else:
            visitor = RawHttpClient(port)
            self.wire = visitor.wire
            self.wire.send(post(call, visitor.fields))
        assert self.wire.head()[1] == 200
        self.events = self.wire.events()
        # Which of the two comes first is for its server to say.
        assert next(self.events)["method"] in ("notifications/progress", "notifications/message")

    def ending(self) -> Message:
        *_, last = self.events
        self.wire.close()
        return last


def subscription(port: int) -> RawConnection:
    """A stream of changes, which has begun."""
    wire = RawConnection(port)
    wire.send(
        modern(request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    )
    assert wire.head()[1] == 200
    begun = next(wire.events())
    assert begun["method"] == "notifications/subscriptions/acknowledged"
    return wire


@contextmanager
def demo_over_http() -> Iterator[str]:
    """A server of its own, and its URL."""
    with subprocess.Popen([*DEMO, "--http", "0"], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().decode().split()[-1]
        finally:
            process.kill()


def test_a_gateway_that_is_asked_to_stop_lets_nobody_down(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with demo_over_http() as url, ExitStack() as stack:
        config = write_config(tmp_path, {"pipe": DEMO, "web": {"url": url}})
        there = stack.enter_context(running("--config", str(config), "--state-dir", str(state)))
        port = int(there.url.rsplit(":", 1)[1].split("/")[0])
        subscriptions = [subscription(port) for _ in range(SUBSCRIPTIONS)]
        visitors = [RawHttpClient(port) for _ in range(STREAMS)]
        streams = [visitor.open_stream() for visitor in visitors]
        for wire in (*subscriptions, *streams, *(visitor.wire for visitor in visitors)):
            stack.callback(wire.close)
        busy = [Busy(port, number) for number in range(BUSY_CLIENTS)]
        eventually(lambda: all(each.answered > 3 for each in busy), "all are at work")
        children = descendants(there.process.pid)
        assert children
        # Last of all: they are to be open when the gateway is asked to stop.
        slow = [
            Slow(port, f"{server}__slow", enveloped=enveloped)
            for server in ("pipe", "web")
            for enveloped in (True, False)
            for _ in range(SLOW_CALLS)
        ]

        there.process.send_signal(signal.SIGTERM)
        there.wait_draining()

        # Others still wait for their answers: whoever comes now learns to go elsewhere.
        turned_away = visitors[0].send(tool_call("pipe__echo", {"text": "now?"}))
        assert turned_away.status == UNAVAILABLE
        for each in slow:
            assert text_of(each.ending()) == "Done after 10 steps."
        for wire in subscriptions:
            *_, last = wire.events()
            assert last["result"]["resultType"] == "complete"
        for wire in streams:
            assert list(wire.events()) == []  # It ends in good order.
        for client in busy:
            client.join()
            assert (client.fault, client.hung_up) == (None, False)
            assert client.refusal is not None
        code, said = there.end()
        assert code == 0, said
        assert "Traceback" not in said
        eventually(lambda: not alive(children), "no children")
    check_journal(state)
    succeeded = [
        event
        for event in read_events(state)
        if event["event_type"] == "gateway.tool_call" and event["status"] == "success"
    ]
    assert len(succeeded) == len(slow) + sum(each.answered for each in busy)


def alive(pids: list[int]) -> set[int]:
    """Those of these processes that still run."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}
