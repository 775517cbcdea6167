"""Many clients over HTTP at once: slow ones, greedy ones, more than there is room for."""

import select
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from typing import Any, Final

import pytest

from tests.harness import LEGACY_DEMO, WAIT_SECONDS
from tests.reliability.conftest import Serve
from tests.rig.probe import (
    HOSTILE,
    MIB,
    RSS_GROWTH_BYTES_MAX,
    TICK_SECONDS,
    cpu_ticks,
    footprint,
    memory,
    text_of,
)
from tests.rig.raw_http_client import (
    JSON,
    Hangup,
    RawConnection,
    RawHttpClient,
    head,
    modern,
    post,
    request,
    tool_call,
    wait_for,
)
from tests.rig.scale import FULL, measured, scaled

pytestmark = pytest.mark.slow

SLOW_CLIENTS: Final = scaled(40, full=2_000)  # Of each kind.
DEAF_CLIENTS: Final = scaled(10, full=50)
DEAF_BYTES: Final = scaled(12, full=100) * MIB  # For each.
SAID_SECONDS_MAX: Final = scaled(300.0, full=600.0)
DEAF_GROWTH_BYTES_MAX: Final = 80 * MIB
FILES_MAX: Final = scaled(160, full=256)
CROWD: Final = scaled(400, full=2_000)
HOG_CALLS: Final = 500
POLITE_CLIENTS: Final = scaled(10, full=20)
POLITE_CALLS: Final = 20
LEFT_BYTES_MAX: Final = scaled(RSS_GROWTH_BYTES_MAX, full=32 * MIB)
"""What thousands have left behind is used again by those who come next."""
IDLE_STREAMS: Final = scaled(300, full=5_000)
STREAM_BYTES_MAX: Final = 60 * 1024
KEPT_STREAMS: Final = scaled(20, full=5_000)
KEPT_ROUNDS: Final = scaled(1, full=40)  # In full ten minutes.
PROXY_SECONDS: Final = 60.0


def test_clients_that_send_too_slowly_are_let_go(serve: Serve) -> None:
    """Their request never ends, or never begins; the clock is the machine's own."""
    body = head("POST", "/mcp", {"Content-Type": JSON, "Accept": JSON, "Content-Length": "9999"})
    with serve({}) as there, ExitStack() as stack:
        silent, trickling, late = (
            [stack.enter_context(RawConnection(there.port)) for _ in range(count)]
            for count in (SLOW_CLIENTS, SLOW_CLIENTS, SLOW_CLIENTS // 4)
        )
        for wire in late:
            wire.send(body)
        drops = iter(f"GET /healthz HTTP/1.1\r\nHost: {'a' * 10_000}".encode())
        # A body has more time than a head, and than every commit has.
        waited = {wire.socket.fileno(): wire for wire in (*silent, *trickling)}
        waited |= {wire.socket.fileno(): wire for wire in late if FULL}
        come, began = select.poll(), time.monotonic()
        for fd in waited:
            come.register(fd, select.POLLIN)
        while waited:
            assert time.monotonic() - began < WAIT_SECONDS, f"{len(waited)} are still open"
            drop = bytes([next(drops)])
            for wire in waited.values():
                if wire not in silent:
                    wire.send(drop)
            for fd, _ in come.poll(200):
                come.unregister(fd)
                del waited[fd]
        measured(clients=len(silent + trickling + late), seconds=time.monotonic() - began)
        for wire in trickling:
            assert wire.reply().status == 408
        for wire in silent:
            assert wire.wait_closed() == b""


def stream_of(there_port: int, kind: str) -> RawConnection:
    """A client that asks for far more than it is going to read."""
    wire = RawConnection(there_port, receive_bytes=4096)
    size = 16 * 1024
    call = tool_call("bad__chatter", {"count": DEAF_BYTES // size, "size": size}, progressToken=1)
    if kind == "modern":
        wire.send(modern(call))
    else:
        wire.send(post(call))
    return wire


@pytest.mark.parametrize("kind", ["legacy", "modern"])
def test_clients_that_stop_reading_cost_little_and_nobody_else(serve: Serve, kind: str) -> None:
    command, *args = HOSTILE
    patient = {"command": command, "args": args, "timeout": SAID_SECONDS_MAX}
    with serve({"bad": patient}) as there, ExitStack() as stack:
        with there.peak(DEAF_GROWTH_BYTES_MAX):
            wires = [stack.enter_context(stream_of(there.port, kind)) for _ in range(DEAF_CLIENTS)]
            # The server does one thing after another: when it tells, it has said all the rest.
            with closing(RawHttpClient(there.port)) as visitor:
                visitor.wire.socket.settimeout(SAID_SECONDS_MAX)
                text_of(visitor.call("bad__report"))
            # A stream that nobody reads is ended; the client finds it broken off.
            for wire in wires:
                with pytest.raises((Hangup, ConnectionResetError)):
                    wire.reply()
        there.calls_owed += DEAF_CLIENTS + 1


def test_a_client_that_asks_and_asks_and_never_reads_is_not_served_for_ever(serve: Serve) -> None:
    call = post(tool_call("neighbour__big", {"bytes": MIB}))
    with serve({}) as there, RawConnection(there.port, receive_bytes=4096) as wire:
        wire.socket.setblocking(False)
        with there.peak(32 * MIB), closing(RawHttpClient(there.port)) as visitor:
            for _ in range(100):
                try:
                    wire.socket.send(call)
                except BlockingIOError:
                    break
                text_of(visitor.call("neighbour__echo", text="still there"))


def test_more_clients_than_descriptors_are_turned_away_and_all_is_well_after(
    serve: Serve,
) -> None:
    with serve({}, files_max=FILES_MAX) as there:
        there.evicts = True
        with ExitStack() as stack:
            crowd = [stack.enter_context(RawConnection(there.port)) for _ in range(CROWD)]
            served = refused = cut = 0
            for wire in crowd:
                try:
                    wire.send(post(tool_call("neighbour__echo", {"text": "let me in"})))
                    reply = wire.reply()
                except (Hangup, ConnectionResetError, BrokenPipeError):
                    cut += 1
                    continue
                if reply.status == 200:
                    assert text_of(reply.message) == "let me in"
                    served += 1
                else:
                    assert reply.status == 503, reply
                    refused += 1
            assert served > FILES_MAX // 4
            assert refused + cut > 0
            measured(clients=CROWD, descriptors=FILES_MAX, served=served, turned_away=refused + cut)
            assert there.process.poll() is None
        there.calls_owed += served
        wait_for(lambda: footprint(there.pid).descriptors < FILES_MAX, "room")
        with closing(RawHttpClient(there.port)) as visitor:
            assert text_of(visitor.call("neighbour__echo", text="as before")) == "as before"


def test_a_greedy_client_takes_nothing_from_polite_ones(serve: Serve) -> None:
    """One has hundreds of calls open on the very server that the others use."""
    with serve({"shared": LEGACY_DEMO}) as there, ExitStack() as stack:
        hog = [stack.enter_context(RawConnection(there.port)) for _ in range(HOG_CALLS)]
        for wire in hog:
            wire.send(post(tool_call("shared__slow", {"seconds": 0.5, "steps": 1})))
        failed: list[Any] = []

        def be_polite(number: int) -> None:
            with closing(RawHttpClient(there.port)) as visitor:
                for turn in range(POLITE_CALLS):
                    text = f"{number} {turn}"
                    answer = visitor.call("shared__echo", text=text)
                    if "result" not in answer or answer["result"]["content"][0]["text"] != text:
                        failed.append(answer)

        polite = [
            threading.Thread(target=be_polite, args=(number,)) for number in range(POLITE_CLIENTS)
        ]
        for thread in polite:
            thread.start()
        for thread in polite:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive()
        assert failed == []
        for wire in hog:
            assert text_of(wire.reply().message) == "Done after 1 steps."
        there.calls_owed += HOG_CALLS + POLITE_CLIENTS * POLITE_CALLS


def test_idle_streams_cost_next_to_nothing_and_hear_of_changes(serve: Serve) -> None:
    # Of one era: all sessions share a process, and what one changes there, all see.
    with serve({"shared": LEGACY_DEMO}) as there, ExitStack() as stack:
        there.growth_bytes_max = LEFT_BYTES_MAX
        before = memory(there.pid, "VmRSS")
        visitors = [RawHttpClient(there.port) for _ in range(IDLE_STREAMS)]
        for visitor in visitors:
            stack.callback(visitor.leave)
        for visitor in visitors:
            visitor.send(request("tools/list"))
        streams = [stack.enter_context(visitor.open_stream()) for visitor in visitors]
        each = (memory(there.pid, "VmRSS") - before) / IDLE_STREAMS
        assert each < STREAM_BYTES_MAX, f"{each / 1024:.1f} KiB for each"
        measured(streams=IDLE_STREAMS, bytes_each=each)
        visitors[0].call("shared__grow")
        for stream in streams:
            assert next(stream.events())["method"] == "notifications/tools/list_changed"


def test_a_stream_is_never_silent_for_as_long_as_a_proxy_waits(serve: Serve) -> None:
    """Proxies close what was silent for a minute; something is said four times as often."""
    with serve({}) as there, ExitStack() as stack:
        there.growth_bytes_max = LEFT_BYTES_MAX
        visitors = [RawHttpClient(there.port) for _ in range(KEPT_STREAMS)]
        for visitor in visitors:
            stack.callback(visitor.leave)
        streams = [stack.enter_context(visitor.open_stream()) for visitor in visitors]
        spent, began = cpu_ticks(there.pid), time.monotonic()
        heard = dict.fromkeys((stream.socket.fileno() for stream in streams), began)
        wires = {stream.socket.fileno(): stream for stream in streams}
        longest, rounds, come = 0.0, Counter[int](), select.poll()
        for fd in heard:
            come.register(fd, select.POLLIN)
        while min((rounds[fd] for fd in heard), default=0) < KEPT_ROUNDS:
            for fd, _ in come.poll(200):
                assert wires[fd].socket.recv(65536), "a stream was closed"
                now = time.monotonic()
                longest, heard[fd] = max(longest, now - heard[fd]), now
                rounds[fd] += 1
            assert time.monotonic() - max(heard.values()) < PROXY_SECONDS
        assert longest < PROXY_SECONDS
        seconds = time.monotonic() - began
        share = (cpu_ticks(there.pid) - spent) * TICK_SECONDS / seconds
        measured(streams=KEPT_STREAMS, seconds=seconds, longest_silence=longest, cpu_share=share)
