"""What a gateway takes before and between calls: memory, idle streams, the start."""

import resource
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from bench.client import Endpoint
from bench.comparisons import Serve
from bench.fleet import LISTED_SERVERS, LISTED_TOOLS, Fleet
from bench.measure import FAULTS, Effort, one_line, say
from bench.prepare import HOME

Streams = Literal["one session each", "all of one session", "modern listen"]

STREAM_SECONDS_MAX: Final = 20
IDLE_SECONDS: Final = 3
SPARE_FILES: Final = 500
"""Beside the streams: connections to servers, the journal, what the interpreter has open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """From nothing to the answer of the first full `tools/list`."""

    name: str
    cpu_seconds: float
    """Of the first process."""
    tree_cpu_seconds: float
    wall_seconds: float
    rss_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Streams that are open and on which nothing happens."""

    name: Streams
    opened: int
    alive: int
    """Still open after a while."""
    kilobytes_each: float
    open_cpu_us: float
    idle_cpu_ms: float
    """For all of them, in three seconds."""
    refusal: str | None
    """What the gateway said when it would open no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    starts: tuple[Start, ...]
    idle: tuple[Idle, ...]
    faults: tuple[str, ...]


STARTED: Final[tuple[tuple[str, Serve, Serve | None, int], ...]] = (
    ("Anyport, 1 server", Fleet.anyport, Fleet.stub, 5),
    ("Anyport, 1 stdio server", Fleet.anyport_stdio, None, 5),
    (
        "Anyport, 20 servers, 1,000 tools",
        Fleet.anyport_listed,
        Fleet.listed_stub,
        LISTED_SERVERS * LISTED_TOOLS,
    ),
    ("mcp-proxy, 1 stdio server", Fleet.mcp_proxy, None, 5),
    ("FastMCP, 1 server", Fleet.fastmcp_shared, Fleet.stub, 5),
)
"""Name, what is started, what must run before it does, and how many tools make the list full."""


def footprint(effort: Effort) -> Footprint:
    starts, idle, faults = [], [], []
    for name, serve, before, tools in STARTED:
        try:
            starts.append(_started(name, serve, before, tools, effort.starts))
        except FAULTS as error:
            faults.append(f"{name}: {one_line(error)}")
            say(f"  {faults[-1]}")
        else:
            say(f"  {starts[-1]}")
    for kind, opener in OPENERS.items():
        try:
            idle.append(_idle(kind, opener, effort.streams))
        except FAULTS as error:
            faults.append(f"idle streams, {kind}: {one_line(error)}")
            say(f"  {faults[-1]}")
        else:
            say(f"  {idle[-1]}")
    return Footprint(starts=tuple(starts), idle=tuple(idle), faults=tuple(faults))


def _started(name: str, serve: Serve, before: Serve | None, tools: int, times: int) -> Start:
    """The median of a few starts, each of them from an empty state directory."""
    every = [_start_once(name, serve, before, tools) for _ in range(times)]
    return Start(
        name=name,
        **{
            field: median(getattr(one, field) for one in every)
            for field in ("cpu_seconds", "tree_cpu_seconds", "wall_seconds", "rss_mb")
        },
    )


def _start_once(name: str, serve: Serve, before: Serve | None, tools: int) -> Start:
    with Fleet(HOME / "run" / "start") as fleet:
        if before is not None:
            before(fleet)
        began = time.monotonic()
        served = serve(fleet)
        endpoint = Endpoint(served.url, "legacy", sessions=1)
        endpoint.open()
        while len(endpoint.list_tools()[0]) < tools:
            if time.monotonic() - began > STREAM_SECONDS_MAX:
                raise TimeoutError(f"never listed {tools} tools")
        wall, usage = time.monotonic() - began, served.process.usage()
        served.process.settle()
        return Start(
            name=name,
            cpu_seconds=usage.own,
            tree_cpu_seconds=usage.tree,
            wall_seconds=wall,
            rss_mb=served.process.rss_megabytes(),
        )


def _get(endpoint: Endpoint, session: str | None) -> bytes:
    lines = [
        f"GET {endpoint.path} HTTP/1.1",
        f"Host: {endpoint.host}:{endpoint.port}",
        "Accept: text/event-stream",
        f"MCP-Protocol-Version: {endpoint.revision}",
        f"Mcp-Session-Id: {session}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _of_a_new_session(endpoint: Endpoint, number: int) -> bytes:
    with closing(endpoint.connect()) as connection:
        return _get(endpoint, endpoint.open_session(connection))


def _of_the_first_session(endpoint: Endpoint, number: int) -> bytes:
    return _get(endpoint, endpoint.sessions[0])


def _listen(endpoint: Endpoint, number: int) -> bytes:
    method, params = "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
    body = endpoint.body(method, params, number)
    lines = [
        f"POST {endpoint.path} HTTP/1.1",
        f"Host: {endpoint.host}:{endpoint.port}",
        *(f"{name}: {value}" for name, value in endpoint.headers(method, params, None).items()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


OPENERS: Final[dict[Streams, Callable[[Endpoint, int], bytes]]] = {
    "one session each": _of_a_new_session,
    "all of one session": _of_the_first_session,
    "modern listen": _listen,
}
"""How the request for one more stream is made."""


def _idle(kind: Streams, opener: Callable[[Endpoint, int], bytes], wanted: int) -> Idle:
    allow_open_files(wanted + SPARE_FILES)
    streams: list[socket.socket] = []
    with Fleet(HOME / "run" / "idle") as fleet:
        served = fleet.anyport()
        endpoint = Endpoint(served.url, "modern" if kind == "modern listen" else "legacy", 1)
        endpoint.open()
        endpoint.find_tool("echo")
        served.process.settle()
        rss, before = served.process.rss_megabytes(), served.process.usage()
        refusal = None
        while len(streams) < wanted and refusal is None:
            stream, first = _open(endpoint, opener(endpoint, len(streams) + 1))
            streams.append(stream)
            if not first.startswith(b"HTTP/1.1 200"):
                refusal = first.partition(b"\r\n")[0].decode("latin-1")
                streams.pop().close()
        served.process.settle()
        opened, grown = served.process.usage(), served.process.rss_megabytes() - rss
        time.sleep(IDLE_SECONDS)
        rested = served.process.usage()
        number, alive = len(streams), sum(map(_is_open, streams))
        for stream in streams:
            stream.close()
    return Idle(
        name=kind,
        opened=number,
        alive=alive,
        kilobytes_each=grown * 1024 / max(1, number),
        open_cpu_us=(opened.own - before.own) * 1e6 / max(1, number),
        idle_cpu_ms=(rested.own - opened.own) * 1000,
        refusal=refusal,
    )


def _open(endpoint: Endpoint, request: bytes) -> tuple[socket.socket, bytes]:
    """A connection with a stream on it, and what came first."""
    stream = socket.create_connection((endpoint.host, endpoint.port), STREAM_SECONDS_MAX)
    stream.sendall(request)
    return stream, stream.recv(4096)


def _is_open(stream: socket.socket) -> bool:
    stream.setblocking(False)
    try:
        return stream.recv(65536) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def allow_open_files(number: int) -> None:
    """For this process and for those it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        allowed = number if hard == resource.RLIM_INFINITY else min(hard, number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
