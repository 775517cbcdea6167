"""Everything that is done to servers, to the gateway and by bad clients in a long run.

A fault is done and undone by one function. It names the server that it hits, if it hits one;
what callers are told meanwhile is judged elsewhere. Faults of servers are in `FAULTS` together
with those of clients, so that one list has them all.
"""

import asyncio
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tests.harness import Message
from tests.rig.concurrent_clients import HttpLine
from tests.rig.fuzz import frames
from tests.rig.hostile_server import BROKEN_TEXT
from tests.rig.invalid_replies import INVALID_REPLIES
from tests.rig.load_clients import ModernLoadClient, SessionLoadClient, hello
from tests.rig.load_servers import HttpLoadServer, LoadServer, LoadServers, send_signal
from tests.rig.raw_http_client import MEDIA, STREAM, head, modern, post, tool_call
from tests.rig.toxic_proxy import (
    Toxic,
    bandwidth,
    latency,
    limit_data,
    reset_peer,
    slicer,
    slow_close,
    timeout,
)

MIB: Final = 1024 * 1024
FAULT_SECONDS: Final = 2.5
"""How long what has no end of its own goes on."""
UNFIT: Final = ("bomb", "without_end", "too_often", "much_later")
"""Replies of hundreds of megabytes, or that want to be left alone for ages: they have own tests."""


class FaultTarget(Protocol):
    """What faults are done to."""

    port: int
    pid: int
    draw: random.Random
    fleet: LoadServers

    async def backend(self, slug: str) -> Message:
        """What the gateway says of a server."""

    def add_violation(self, words: str) -> None:
        """Something happened that must not."""

    async def reload(self, *, broken: bool) -> None:
        """Change the configuration, and have it read."""


Act = Callable[[FaultTarget, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something bad, and to whom it can be done."""

    name: str
    act: Act
    traits: frozenset[str] | None = None
    """Of the servers that it can hit; None if it hits none."""


# On pipes: the processes are the gateway's children.


async def kill_child(target: FaultTarget, server: LoadServer) -> None:
    send_signal((await target.backend(server.slug))["pid"], signal.SIGKILL)


async def stop_child(target: FaultTarget, server: LoadServer) -> None:
    pid = (await target.backend(server.slug))["pid"]
    if send_signal(pid, signal.SIGSTOP):
        await asyncio.sleep(FAULT_SECONDS)
        send_signal(pid, signal.SIGCONT)


async def ask(
    target: FaultTarget, server: LoadServer, tool: str, **arguments: Any
) -> Message | None:
    """Have a server do something; its answer, if it still gave one."""
    caller = ModernLoadClient(target.port, target.add_violation)
    try:
        return await caller.call(f"{server.slug}__{tool}", arguments)
    finally:
        caller.rest()


def asking(tool: str, **arguments: Any) -> Act:
    """The fault that is one call of a tool."""

    async def act(target: FaultTarget, server: LoadServer) -> None:
        await ask(target, server, tool, **arguments)

    return act


async def break_text(target: FaultTarget, server: LoadServer) -> None:
    """Lines that are no UTF-8, and banners, between the answers to several calls."""
    async with asyncio.TaskGroup() as group:
        held = [group.create_task(ask(target, server, "hold", text=f"held-{n}")) for n in range(5)]
        while not all(task.done() for task in held):
            broken = target.draw.choice(list(BROKEN_TEXT))
            await ask(target, server, "release", broken=broken, banners=20)


async def go_deaf(target: FaultTarget, server: LoadServer) -> None:
    pid = (await target.backend(server.slug))["pid"]
    await ask(target, server, "deaf")
    await asyncio.sleep(FAULT_SECONDS)
    send_signal(pid, signal.SIGKILL)


# Over HTTP: the processes are ours, and so is the link to them.


async def kill_web(target: FaultTarget, server: HttpLoadServer) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(target.draw.uniform(0, FAULT_SECONDS))
    await asyncio.to_thread(server.start)


async def crash_web(target: FaultTarget, server: HttpLoadServer) -> None:
    await ask(target, server, "crash")
    await asyncio.to_thread(server.start)


async def stop_web(target: FaultTarget, server: HttpLoadServer) -> None:
    server.stop()
    await asyncio.sleep(FAULT_SECONDS)
    server.go_on()


async def take_down(target: FaultTarget, server: HttpLoadServer) -> None:
    server.link.down()
    await asyncio.sleep(FAULT_SECONDS)
    server.link.up()


def poisoning(poison: Toxic) -> Act:
    """The fault of a link that is poisoned for a time."""

    async def act(target: FaultTarget, server: HttpLoadServer) -> None:
        server.poison(poison)
        await asyncio.sleep(FAULT_SECONDS)
        server.cure()

    return act


async def answer_wildly(target: FaultTarget, server: LoadServer) -> None:
    """Replies that no server should give."""
    fit = [name for name in INVALID_REPLIES if not any(word in name for word in UNFIT)]
    for name in target.draw.sample(fit, 3):
        await ask(target, server, name)


async def turn_away(target: FaultTarget, server: LoadServer) -> None:
    """It has too much to do, and says when to come again."""
    for status in (429, 503):
        await ask(target, server, "busy", status=status, seconds=1)


# Clients.


async def hang_up(target: FaultTarget, _: None) -> None:
    """Clients that go in the middle of a call."""
    lines = [await HttpLine.open(target.port) for _ in range(10)]
    for line in lines:
        line.write(modern(tool_call("steady__slow", {"seconds": FAULT_SECONDS, "steps": 2})))
    await asyncio.sleep(target.draw.uniform(0, 1))
    for line in lines:
        line.close()


async def cancel(target: FaultTarget, _: None) -> None:
    """A client that gives its calls up, and says so."""
    client = SessionLoadClient(target.port, target.add_violation)
    async with asyncio.TaskGroup() as group:
        await client.open(group)
        arguments = {"seconds": FAULT_SECONDS, "steps": 2}
        calls = [group.create_task(client.call("steady__slow", arguments)) for _ in range(10)]
        await asyncio.sleep(target.draw.uniform(0, 1))
        for number in range(1, 11):
            await client.tell("notifications/cancelled", requestId=number, reason="not needed")
        for call in calls:
            answer = await call
            if "result" not in answer and answer["error"]["code"] != -32800:
                target.add_violation(f"a call that was given up ended with {answer}")
        await client.close()
    client.rest()


async def read_slowly(target: FaultTarget, server: LoadServer) -> None:
    """Clients that ask for a lot and do not read it."""
    call = tool_call(f"{server.slug}__chatter", {"count": 200, "size": 10_000}, progressToken=1)
    lines = [await HttpLine.open(target.port) for _ in range(3)]
    for line in lines:
        line.write(modern(call))
    await asyncio.sleep(FAULT_SECONDS)
    for line in lines:
        line.close()


async def send_slowly(target: FaultTarget, _: None) -> None:
    """Requests that come a byte at a time."""
    lines = [await HttpLine.open(target.port) for _ in range(50)]
    for byte in b"POST /mcp HTTP/1.1\r\nHost: a":
        for line in lines:
            line.write(bytes([byte]))
        await asyncio.sleep(FAULT_SECONDS / 25)
    for line in lines:
        line.close()


async def send_nonsense(target: FaultTarget, _: None) -> None:
    """Frames that are no frames."""
    line = await HttpLine.open(target.port)
    for frame in frames(target.draw.randrange(1 << 30), 100):
        status, fields = await line.ask(post(frame))
        await line.body(fields)
        if status >= 500:
            target.add_violation(f"{status} for {frame!r}")
        if fields.get("connection") == "close":
            line.close()
            line = await HttpLine.open(target.port)
    line.close()


async def send_too_much(target: FaultTarget, _: None) -> None:
    """Bodies that are too large, with and without saying so before."""
    declared = await HttpLine.open(target.port)
    status, _fields = await declared.ask(post(b"", {"Content-Length": str(64 * MIB)}))
    if status != 413:
        target.add_violation(f"{status} for a body that said it was too large")
    declared.close()
    endless = await HttpLine.open(target.port)
    endless.write(head("POST", "/mcp", {**MEDIA, "Transfer-Encoding": "chunked"}))
    with suppress(ConnectionError):
        for _turn in range(8):
            endless.write(b"%x\r\n%b\r\n" % (MIB, b"x" * MIB))
            await asyncio.sleep(0)
    endless.close()


async def flood_with_sessions(target: FaultTarget, _: None) -> None:
    """Sessions that nobody ends."""
    line = await HttpLine.open(target.port)
    for _turn in range(100):
        status, fields = await line.ask(post(hello("2025-06-18")))
        await line.body(fields)
        if status not in (200, 429, 503):
            target.add_violation(f"{status} for a session")
    line.close()


async def flood_with_connections(target: FaultTarget, _: None) -> None:
    """Connections on which nothing is said, and streams that are left."""
    lines = [await HttpLine.open(target.port) for _ in range(300)]
    for line in lines[:50]:
        await line.ask(head("GET", "/mcp", {"Accept": STREAM}))
    await asyncio.sleep(FAULT_SECONDS)
    for line in lines:
        line.close()


# The gateway and what is around it.


async def reload(target: FaultTarget, _: None) -> None:
    """Another configuration: a server comes, changes or goes, and its name may lead nowhere."""
    await target.reload(broken=False)


async def reload_badly(target: FaultTarget, _: None) -> None:
    """A configuration that cannot be used, and then one that can."""
    await target.reload(broken=True)
    await target.reload(broken=False)


async def fill_the_disk(target: FaultTarget, _: None) -> None:
    """Nothing can be written to any file that has anything in it."""
    before = resource.prlimit(target.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(target.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    await asyncio.sleep(FAULT_SECONDS)
    resource.prlimit(target.pid, resource.RLIMIT_FSIZE, before)


def _hits(name: str, act: Act, *traits: str) -> Fault:
    return Fault(name=name, act=act, traits=frozenset(traits))


def _hits_nobody(name: str, act: Act) -> Fault:
    return Fault(name=name, act=act)


FAULTS: Final[tuple[Fault, ...]] = (
    _hits("server killed", kill_child, "pipe"),
    _hits("server stopped", stop_child, "pipe"),
    _hits("server exits in a call", asking("exit", code=3), "pipe", "demo"),
    _hits("server crashes in a call", asking("crash", code=7), "pipe", "hostile"),
    _hits("server does not read", go_deaf, "pipe", "hostile"),
    _hits("bad UTF-8 and banners", break_text, "pipe", "hostile"),
    _hits("line without end", asking("endless", size=20 * MIB), "pipe", "hostile"),
    _hits("answer of 8 MiB", asking("big", size=8 * MIB), "pipe", "hostile"),
    _hits("flood on stderr", asking("flood", size=8 * MIB, newlines=True), "pipe", "hostile"),
    _hits("stray answers", asking("stray", count=500), "hostile"),
    _hits(
        "storm of list changes",
        asking("storm", count=1000, per_second=500),
        "pipe",
        "hostile",
    ),
    _hits("flood of progress", asking("chatter", count=500, size=1000), "hostile"),
    _hits("spoilt answer", asking("spoil", frame='{"id":@,"result":7}'), "pipe", "hostile"),
    _hits("web server killed", kill_web, "web"),
    _hits("web server stopped", stop_web, "web"),
    _hits("link down", take_down, "web"),
    _hits("latency", poisoning(latency(0.3)), "web"),
    _hits("bandwidth", poisoning(bandwidth(1000)), "web"),
    _hits("slow close", poisoning(slow_close(1)), "web"),
    _hits("silence", poisoning(timeout()), "web"),
    _hits("silence, then closed", poisoning(timeout(1)), "web"),
    _hits("resets", poisoning(reset_peer(50)), "web"),
    _hits("slices", poisoning(slicer(3)), "web"),
    _hits("cuts", poisoning(limit_data(150)), "web"),
    _hits("wild replies", answer_wildly, "web", "hostile"),
    _hits("429 and 503", turn_away, "web", "hostile"),
    _hits("sessions forgotten", asking("forget"), "web", "hostile", "legacy"),
    _hits("web server crashes in a call", crash_web, "web", "hostile"),
    _hits("slow readers", read_slowly, "hostile"),
    _hits_nobody("clients hang up", hang_up),
    _hits_nobody("clients cancel", cancel),
    _hits_nobody("slow senders", send_slowly),
    _hits_nobody("malformed frames", send_nonsense),
    _hits_nobody("oversize bodies", send_too_much),
    _hits_nobody("flood of sessions", flood_with_sessions),
    _hits_nobody("flood of connections", flood_with_connections),
    _hits_nobody("configuration reloaded", reload),
    _hits_nobody("bad configuration", reload_badly),
    _hits_nobody("disk full", fill_the_disk),
)
