"""More is asked than can be done: what was taken on is done, and the rest is told to come back."""

import asyncio
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tests.harness import DEMO, LEGACY_DEMO, Message
from tests.journeys.http_gateway import serving
from tests.reliability.conftest import Serve, Watch
from tests.rig.concurrent_clients import HttpLine
from tests.rig.http_probe import HttpProbe
from tests.rig.probe import eventually, memory, peak, text_of
from tests.rig.raw_http_client import (
    STREAM,
    Fields,
    RawConnection,
    RawHttpClient,
    Reply,
    hello,
    in_events,
    modern,
    post,
    tool_call,
)
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import GatedServer

pytestmark = pytest.mark.slow

MIB: Final = 1 << 20
PLACES: Final = 16
"""Calls that the busy server works on."""
WORK_SECONDS: Final = 0.25
LOAD_SECONDS: Final = scaled(2.0, full=300.0)
YARDSTICK_SECONDS: Final = scaled(2.0, full=60.0)
"""For what it is compared with."""
EXCESS: Final = 5
TAKEN: Final = 2 * PLACES
"""Calls that are worked on, and as many again that wait."""
HOG_CALLS: Final = 500
POLITE_CLIENTS: Final = 20
HOG: Final = "hog"
"""Whose calls the hog's are."""
POLITE_CALLS: Final = 3
"""Of each, all at once: that many rounds, in each of which everybody has one turn."""
GOODPUT_MIN: Final = scaled(0.4, full=0.9)
"""Of the peak. What collapses under load falls to nearly nothing."""
SLOWER_MAX: Final = 3.0
POLITE_SLOWER_MAX: Final = 2.0
QUANTILE: Final = scaled(0.5, full=0.99)
"""Which of all calls counts, from the fastest on. On every commit others use the machine, too, and
what would be wrong here takes many times as long, not a part more."""
REFUSAL_SECONDS_MAX: Final = scaled(1.0, full=0.05)
ANSWERS: Final = scaled(12, full=50)
ANSWER_BYTES: Final = 15 * MIB
PRESSING_BYTES: Final = 4 * MIB
"""Of an answer, where memory is short: not so much that one alone needs all the rest."""
BUDGET_BYTES: Final = scaled(48 * MIB, full=256 * MIB)

RING: Final = """
import json, sys
def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    asked = json.loads(line)
    id, method = asked.get("id"), asked.get("method")
    if method == "initialize":
        version = asked["params"]["protocolVersion"]
        told = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {}}
        say(id=id, result={**told, "serverInfo": {"name": "ring", "version": "1"}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "echo")]
        say(id=id, result={"tools": tools})
    elif method == "tools/call":
        say(id=id, result={"content": [{"type": "text", "text": "here"}]})
        number = 0
        while asked["params"]["name"] == "ask":
            number += 1
            say(id="%d" % number + "x" * 16384, method="ping")
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "no"})
"""
"""A server that, once told so, asks and asks, and never reads what it is answered."""

BUSY: Final = {"command": DEMO[0], "args": DEMO[1:], "callsMax": PLACES}
WORK: Final = {"seconds": WORK_SECONDS, "steps": 1}


@dataclass(frozen=True, slots=True)
class Tale:
    """What became of one call."""

    seconds: float
    status: int
    fields: dict[str, str]
    message: Message

    @property
    def good(self) -> bool:
        return "result" in self.message and not self.message["result"].get("isError")


async def told(line: HttpLine, raw: bytes) -> Tale:
    """Make a call, and wait for what becomes of it."""
    began = time.monotonic()
    status, fields = await line.ask(raw)
    body = await line.body(fields)
    whole = fields["content-type"] != STREAM
    message = json.loads(body) if whole else [*in_events(body.splitlines())][-1]
    return Tale(time.monotonic() - began, status, fields, message)


async def crowd(port: int, raws: Sequence[bytes], seconds: float, every: float = 0.0) -> list[Tale]:
    """A connection for each request, on which it is made again and again.

    At most once in `every` seconds; then not all at the same time.
    """
    tales: list[Tale] = []
    over = time.monotonic() + seconds

    async def client(at: float, raw: bytes) -> None:
        line = await HttpLine.open(port)
        with closing(line):
            await asyncio.sleep(every * at)
            while time.monotonic() < over:
                tale = await told(line, raw)
                tales.append(tale)
                await asyncio.sleep(max(0.0, every - tale.seconds))
        await asyncio.sleep(0)  # Its socket is closed in the next turn of the loop.

    async with asyncio.TaskGroup() as group:
        for number, raw in enumerate(raws):
            group.create_task(client(number / len(raws), raw))
    return tales


def load(port: int, raws: Sequence[bytes], seconds: float, every: float = 0.0) -> list[Tale]:
    return asyncio.run(crowd(port, raws, seconds, every))


def slowest(tales: Sequence[Tale]) -> float:
    """How long a call took that took longer than most, see `QUANTILE`."""
    ordered = sorted(tale.seconds for tale in tales)
    return ordered[int(len(ordered) * QUANTILE)]


def session(port: int) -> Fields:
    """What the requests of a new session bear."""
    with RawConnection(port) as wire:
        return {"Mcp-Session-Id": wire.ask(post(hello())).get("mcp-session-id") or ""}


def works(port: int, raw: bytes) -> bool:
    """Whether a call is answered well; on a busy machine there may be none in so short a time."""
    return any(each.good for each in load(port, [raw], 0.01))


class Calls:
    """Calls that are all made at once, each on a connection of its own; a block of them."""

    def __init__(self, port: int, raws: Sequence[bytes]) -> None:
        self.tales: list[Tale] = []
        """Of those that were answered so far."""
        self._port = port
        self._raws = raws
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> "Calls":
        await self._group.__aenter__()
        for raw in self._raws:
            self._group.create_task(self._call(raw))
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._group.__aexit__(*error)

    async def _call(self, raw: bytes) -> None:
        line = await HttpLine.open(self._port)
        with closing(line):
            self.tales.append(await told(line, raw))


def waiting(there: HttpProbe) -> int:
    """How many calls wait for a place at the busy server."""
    page = there.page("/metrics").decode()
    found = re.search(r'^anyport_server_waiting_calls{server="busy"} (.+)$', page, re.M)
    return int(float(found[1])) if found else 0


@pytest.mark.parametrize("limit", ["server", "client"])
def test_five_times_too_much_is_refused_at_once_and_the_rest_is_done_as_ever(
    serve: Serve, tmp_path: Path, limit: str
) -> None:
    """At once: who is refused knows it before anybody else is answered."""
    server = GatedServer(tmp_path)
    busy: Message = {**server.entry, "callsMax": PLACES}
    if limit == "server":
        busy["queueMax"] = PLACES
    gateway: Message = {"tokens": {"crowd": "crowd-token"}}
    if limit == "client":
        gateway["clientCallsMax"] = TAKEN
    call = tool_call("busy__work", {"whose": "crowd"})
    raw = modern(call, {"Authorization": "Bearer crowd-token"})
    with serve({"busy": busy}, tokens=True, gateway=gateway) as there:
        server.open_gate()
        eventually(lambda: works(there.port, raw), "the server works")
        server.close_gate()

        async def scene() -> list[Tale]:
            async with Calls(there.port, [raw] * EXCESS * TAKEN) as calls:
                excess = (EXCESS - 1) * TAKEN
                await asyncio.to_thread(
                    eventually, lambda: len(calls.tales) >= excess, "the excess is refused"
                )
                assert not any(tale.good for tale in calls.tales)
                server.open_gate()
            return calls.tales

        tales = asyncio.run(scene())

        assert sum(tale.good for tale in tales) == len(server.begun) == TAKEN
        refused = [tale for tale in tales if not tale.good]
        for tale in refused:
            assert 1 <= int(tale.fields["retry-after"]) <= 5
            assert tale.status == (200 if limit == "server" else 429)
        eventually(lambda: works(there.port, raw), "there is room again")
        why = "server" if limit == "server" else "client-calls"
        counted = f'anyport_refused_total{{why="{why}"}} {float(len(refused))}'
        assert counted.encode() in there.page("/metrics")
        there.calls_owed += len(tales)


@pytest.mark.exhaustive
@pytest.mark.parametrize("limit", ["server", "client"])
def test_five_times_too_much_takes_nothing_from_what_is_done(serve: Serve, limit: str) -> None:
    """A measurement: it needs a machine that does nothing else meanwhile."""
    busy: Message = {**BUSY, **({"queueMax": PLACES} if limit == "server" else {})}
    gateway: Message = {"tokens": {"crowd": "crowd-token"}}
    if limit == "client":
        gateway["clientCallsMax"] = TAKEN
    raw = modern(tool_call("busy__slow", WORK), {"Authorization": "Bearer crowd-token"})
    with serve({"busy": busy}, tokens=True, gateway=gateway) as there:
        eventually(lambda: works(there.port, raw), "the server works")
        alone = load(there.port, [raw], YARDSTICK_SECONDS)
        peak = load(there.port, [raw] * PLACES, YARDSTICK_SECONDS)

        crowded = [raw] * EXCESS * TAKEN
        tales = load(there.port, crowded, LOAD_SECONDS, 2 * WORK_SECONDS)

        good = [tale for tale in tales if tale.good]
        refused = [tale for tale in tales if not tale.good]
        assert len(refused) > len(good)
        goodput = len(good) / len(peak) * YARDSTICK_SECONDS / LOAD_SECONDS
        assert goodput >= GOODPUT_MIN
        assert slowest(refused) <= REFUSAL_SECONDS_MAX
        assert slowest(good) <= SLOWER_MAX * slowest(alone)
        measured(
            goodput=round(goodput, 3),
            refusal_ms=round(1000 * slowest(refused), 1),
            accepted_times_unloaded=round(slowest(good) / slowest(alone), 2),
        )
        there.calls_owed += len(tales) + len(peak) + len(alone)


Requests = Callable[[int, str, Sequence[Message]], list[bytes]]
"""Of a client, by its number: calls of a tool with these arguments, each with an id of its own."""


@contextmanager
def telling_apart(serve: Serve, kind: str, busy: Message) -> Iterator[tuple[HttpProbe, Requests]]:
    """A gateway that knows its clients by their tokens or by their sessions."""
    tokens = {f"client{number}": f"token-{number}" for number in range(POLITE_CLIENTS + 1)}
    extra: Message = {"tokens": True, "gateway": {"tokens": tokens}} if kind == "tokens" else {}
    with serve({"busy": busy}, **extra) as there:

        def requests(number: int, tool: str, work: Sequence[Message]) -> list[bytes]:
            calls = [tool_call(f"busy__{tool}", asked, id) for id, asked in enumerate(work)]
            if kind == "tokens":
                fields = {"Authorization": f"Bearer token-{number}"}
                return [modern(call, fields) for call in calls]
            fields = session(there.port)
            return [post(call, fields) for call in calls]

        yield there, requests


@pytest.mark.parametrize("kind", ["tokens", "sessions"])
def test_one_who_asks_for_everything_at_once_does_not_delay_the_polite(
    serve: Serve, tmp_path: Path, kind: str
) -> None:
    """Judged by the order in which the server is given calls that all waited before it was."""
    server = GatedServer(tmp_path)
    with telling_apart(serve, kind, {**server.entry, "callsMax": PLACES}) as (there, requests):
        hog = requests(0, "work", [{"whose": HOG}] * HOG_CALLS)
        polite = [
            raw
            for number in range(1, POLITE_CLIENTS + 1)
            for raw in requests(number, "work", [{"whose": f"polite {number}"}] * POLITE_CALLS)
        ]
        server.open_gate()
        eventually(lambda: works(there.port, hog[0]), "the server works")
        server.close_gate()

        async def wait_for(count: int) -> None:
            await asyncio.to_thread(eventually, lambda: waiting(there) == count, f"{count} wait")

        async def scene() -> list[Tale]:
            async with Calls(there.port, hog) as greedy:
                await wait_for(HOG_CALLS - PLACES)
                async with Calls(there.port, polite) as modest:
                    await wait_for(HOG_CALLS - PLACES + len(polite))
                    server.open_gate()
            return [*greedy.tales, *modest.tales]

        tales = asyncio.run(scene())

        assert all(tale.good for tale in tales)
        assert len(server.begun) == len(tales) == HOG_CALLS + len(polite)
        waited = server.begun[PLACES:]
        last = max(at for at, whose in enumerate(waited) if whose != HOG)
        # In each round everybody has one turn; one round may have begun before the polite came.
        ahead = waited[:last].count(HOG)
        assert ahead <= POLITE_CALLS + 1
        measured(hog_calls=HOG_CALLS, polite_calls=len(polite), hog_calls_ahead=ahead)
        there.calls_owed += len(tales)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["tokens", "sessions"])
def test_the_polite_wait_no_longer_beside_one_who_asks_for_everything_at_once(
    serve: Serve, kind: str
) -> None:
    """A measurement: it needs a machine that does nothing else meanwhile."""
    every = 2 * POLITE_CLIENTS * WORK_SECONDS / PLACES
    busy = {**BUSY, "args": LEGACY_DEMO[1:]}
    with telling_apart(serve, kind, busy) as (there, requests):
        # Not all equally long, or all places would become free at the same moment.
        greed = [
            {**WORK, "seconds": WORK_SECONDS * (0.5 + n / HOG_CALLS)} for n in range(HOG_CALLS)
        ]
        hog = requests(0, "slow", greed)
        polite = [requests(number, "slow", [WORK])[0] for number in range(1, POLITE_CLIENTS + 1)]
        eventually(lambda: works(there.port, hog[0]), "the server works")
        alone = load(there.port, polite, YARDSTICK_SECONDS, every)

        async def together() -> tuple[list[Tale], list[Tale]]:
            async with asyncio.TaskGroup() as group:
                greedy = group.create_task(crowd(there.port, hog, 2 * YARDSTICK_SECONDS))
                await asyncio.to_thread(
                    eventually, lambda: waiting(there) > HOG_CALLS / 2, "the hog's calls wait"
                )
                modest = await crowd(there.port, polite, YARDSTICK_SECONDS, every)
            return greedy.result(), modest

        greedy, modest = asyncio.run(together())

        assert all(tale.good for tale in (*alone, *modest, *greedy))
        assert slowest(greedy) > 5 * slowest(modest), "there was nothing to be polite about"
        assert slowest(modest) <= POLITE_SLOWER_MAX * slowest(alone)
        measured(polite_times_alone=round(slowest(modest) / slowest(alone), 2), hog_calls=HOG_CALLS)
        there.calls_owed += len(alone) + len(modest) + len(greedy)


def test_a_gateway_that_is_full_says_so_and_answers_what_needs_no_server(tmp_path: Path) -> None:
    gateway = {"listSeconds": 60, "callsMax": 1}
    with serving(tmp_path, {"busy": DEMO}, gateway=gateway) as site:
        port = urlsplit(site.there.url).port or 0
        with (
            closing(RawHttpClient(port)) as visitor,
            closing(RawHttpClient(port)) as other,
            RawConnection(port) as wire,
        ):
            text_of(visitor.call("busy__echo", text="first"))
            wire.send(post(tool_call("busy__slow", {"seconds": 30, "steps": 1}), visitor.fields))
            page = partial(site.send, "GET", path="/metrics")
            eventually(lambda: under_way(page().text()) == 1, "the call is under way")
            message = tool_call("busy__echo", {"text": "x"}, 7)
            for raw, code in ((post(message, other.fields), -32000), (modern(message), -32603)):
                with RawConnection(port) as fresh:
                    refusal = fresh.ask(raw)
                assert refusal.status == 503, refusal
                seconds = int(refusal.get("retry-after") or 0)
                assert 1 <= seconds <= 5
                error = refusal.message["error"]
                assert error["code"] == code
                assert error["data"] == {"retryAfterSeconds": seconds}
                assert error["message"].endswith(f"try again in {seconds} s")
            status = json.loads(text_of(other.call("gateway_status")))
            assert status["backends"]["busy"]["status"] == "running"


def under_way(page: str) -> float:
    """Calls that a server works on."""
    lines = [line for line in page.splitlines() if line.startswith("anyport_open_exchanges ")]
    return float(lines[0].rsplit(" ", 1)[1])


def unread(port: int, stack: ExitStack, count: int, size: int) -> list[RawConnection]:
    """Clients that ask for a large answer each, and do not read it."""
    raw = modern(tool_call("big__big", {"bytes": size}))
    wires = [stack.enter_context(RawConnection(port, receive_bytes=4096)) for _ in range(count)]
    for wire in wires:
        wire.send(raw)
    # A process does one thing after another: when it echoes to a client of the same era, it has
    # answered all the rest.
    with RawConnection(port) as wire:
        text_of(wire.ask(modern(tool_call("big__echo", {"text": "done"}))).message)
    return wires


def test_large_answers_that_nobody_reads_are_kept_within_the_budget(serve: Serve) -> None:
    # Of one era, as its callers: the process that is there from the start serves all.
    big = {"command": DEMO[0], "args": [*DEMO[1:], "--modern-only"]}
    with serve({"big": big}, gateway={"bytesMax": BUDGET_BYTES}) as there, ExitStack() as stack:
        there.growth_bytes_max = 32 * MIB
        with closing(RawHttpClient(there.port)) as visitor:
            text_of(visitor.call("big__echo", text="warm"))
        with there.peak(3 * BUDGET_BYTES):
            wires = unread(there.port, stack, ANSWERS, ANSWER_BYTES)
            replies: list[Reply] = [wire.reply() for wire in wires]

        kept = [reply for reply in replies if reply.status == 200]
        excess = [reply for reply in replies if reply.status == 503]
        assert len(kept) + len(excess) == ANSWERS
        assert len(kept) >= BUDGET_BYTES // (2 * ANSWER_BYTES)
        assert excess
        for reply in kept:
            assert len(text_of(reply.message)) == ANSWER_BYTES
        for reply in excess:
            message = reply.message["error"]["message"]
            assert "the call was carried out" in message
            assert reply.get("retry-after") is None
        measured(
            answers=ANSWERS, kept=len(kept), excess=len(excess), budget_mib=BUDGET_BYTES // MIB
        )
        assert b"anyport_held_bytes 0.0" in there.page("/metrics")
        there.calls_owed += ANSWERS + 2


def test_a_gateway_that_runs_short_of_memory_takes_on_nothing_until_it_has_some(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, {"big": DEMO, "small": DEMO}) as site, ExitStack() as stack:
        port, pid = urlsplit(site.there.url).port or 0, site.there.process.pid
        visitor = stack.enter_context(closing(RawHttpClient(port)))
        for name in ("big", "small"):
            text_of(visitor.call(f"{name}__echo", text="warm"))
        space = memory(pid, "VmSize")
        limit = int(space / 0.4)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
        with peak(pid, limit), ExitStack() as unwilling:
            unread(port, unwilling, int(0.5 * limit / PRESSING_BYTES), PRESSING_BYTES)

            def refused() -> bool:
                reply = visitor.send(tool_call("small__slow", {"seconds": 0.3, "steps": 1}))
                if reply.status == 503:
                    assert "short of memory" in reply.message["error"]["message"]
                    assert 1 <= int(reply.get("retry-after") or 0) <= 5
                return reply.status == 503

            eventually(refused, "calls are refused")
            measured(refused_at=round(memory(pid, "VmSize") / limit, 3))

        def served() -> bool:
            return "result" in visitor.call("small__echo", text="again")

        eventually(served, "there is memory again")


def test_an_answer_for_which_there_is_no_memory_costs_its_own_call_alone(tmp_path: Path) -> None:
    huge = 40 * MIB
    big = {"command": DEMO[0], "args": DEMO[1:], "maxMessageBytes": 2 * huge}
    with serving(tmp_path, {"big": big, "small": DEMO}) as site, ExitStack() as stack:
        port, pid = urlsplit(site.there.url).port or 0, site.there.process.pid
        visitor = stack.enter_context(closing(RawHttpClient(port)))
        for name in ("big", "small"):
            text_of(visitor.call(f"{name}__echo", text="warm"))
        limit = memory(pid, "VmSize") + int(1.9 * huge)
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))

        def told(name: str, **arguments: Any) -> str:
            """What comes of a call, once there is memory to make it."""
            answer: list[str] = []

            def taken() -> bool:
                answer[:] = [json.dumps(visitor.call(name, **arguments))]
                return "short of memory" not in answer[0]

            eventually(taken, "there is memory for a call")
            return answer[0]

        for _ in range(3):
            assert "the call was carried out" in told("big__big", bytes=huge)
            assert '"well"' in told("small__echo", text="well")
            assert '"well"' in told("big__echo", text="well")


def test_a_server_that_floods_and_does_not_read_blocks_nothing_and_is_started_anew(
    watch: Watch,
) -> None:
    with watch({"bad": [sys.executable, "-c", RING]}) as probe:
        client = probe.client
        # What waits for the server, and as much again for a moment while it is put together.
        with probe.peak(160 * MIB):
            assert text_of(client.call("bad__ask")) == "here"
            eventually(lambda: probe.backend()["restarts"] == 1, "it is given up")
        assert "has not read" in probe.backend()["last_error"]
        eventually(lambda: "result" in client.call("bad__echo"), "it works again")
