"""What is compared with what: the table of a run.

A row is one target in one era. `base` is the row of the same comparison that stands for the plain
reverse proxy, or for the direct way; `rival` is the row that a peer is held against.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeAlias

from bench.client import Call, Era
from bench.fleet import Fleet, Served

Serve: TypeAlias = Callable[[Fleet], Served]
"""Starts the target of a row, and what it needs."""

FOX: Final = "quick brown fox"
ECHO: Final = Call(tool="echo", expect=FOX)
BIG: Final = Call(tool="big", expect="Ada Lovelace")
TEN_EVENTS: Final = Call(tool="sse10", expect=FOX, events=10, progress=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    serve: Serve
    era: Era
    base: str | None = None
    rival: str | None = None
    children: bool = False
    """Its server is a child process, and is part of its cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    name: str
    title: str
    about: str
    rows: tuple[Row, ...]
    call: Call | None = ECHO
    """None: the whole list of tools is asked for instead."""
    connections: tuple[int, ...] = (64,)
    stretch: int = 1
    """How many times longer than usual, for a target that answers few requests in a second."""
    by: Literal["cpu", "rps"] = "cpu"
    """Which figure is set in relation to that of the base."""
    load_beside_target: bool = False
    """The load runs on the core of the target, so that a busy server has one for itself."""


ERAS: Final[tuple[Era, ...]] = ("legacy", "modern")
CAPTURES: Final = ("off", "shape", "full")
"""How much is recorded of a call."""
BRIDGES: Final[tuple[tuple[Era, Era, str, Serve], ...]] = (
    ("modern", "legacy", "HTTP", Fleet.anyport_legacy),
    ("modern", "legacy", "stdio", Fleet.anyport_legacy_stdio),
    ("legacy", "modern", "HTTP", Fleet.anyport_modern),
    ("legacy", "modern", "stdio", Fleet.anyport_modern_stdio),
)
"""What a client speaks, what its server speaks, and over what."""


def _pairs(base: str, serve_base: Serve, name: str, serve: Serve) -> tuple[Row, ...]:
    """A target and its base, in both eras."""
    return tuple(
        row
        for era in ERAS
        for row in (
            Row(name=f"{base}, {era}", serve=serve_base, era=era),
            Row(name=f"{name}, {era}", serve=serve, era=era, base=f"{base}, {era}"),
        )
    )


COMPARISONS: Final = (
    Comparison(
        name="call",
        title="A small result",
        about="`tools/call` with a result of 200 bytes; an HTTP server behind. "
        "The direct row is what the server itself costs, on one core with the load.",
        connections=(64, 1),
        rows=(
            Row(name="direct", serve=Fleet.stub, era="legacy"),
            *_pairs("nginx", Fleet.nginx, "Anyport", Fleet.anyport),
            Row(
                name="Anyport, legacy, legacy server",
                serve=Fleet.anyport_legacy,
                era="legacy",
                base="nginx, legacy",
            ),
        ),
    ),
    Comparison(
        name="stdio",
        title="A stdio server behind",
        about="The same call with a server on pipes. Its process is part of the cost, as it is "
        "part of the tree; nginx has the HTTP server behind it.",
        rows=tuple(
            replace(row, children=row.base is not None)
            for row in _pairs("nginx", Fleet.nginx, "Anyport, stdio", Fleet.anyport_stdio)
        ),
    ),
    Comparison(
        name="bridge",
        title="Between the eras",
        about="The small result where client and server speak different eras, which nobody but "
        "Anyport brings together: nginx has a server of the client's own era behind it.",
        rows=(
            *(Row(name=f"nginx, {era}", serve=Fleet.nginx, era=era) for era in ERAS),
            *(
                Row(
                    name=f"Anyport, {era}, {other} {server} server",
                    serve=serve,
                    era=era,
                    base=f"nginx, {era}",
                    children=server == "stdio",
                )
                for era, other, server, serve in BRIDGES
            ),
        ),
    ),
    Comparison(
        name="capture",
        title="What recording costs",
        about="The small result, with nothing recorded of it but that it was called, with its "
        "shape (the default), and with everything that was said.",
        rows=tuple(
            Row(
                name=f"{level}, {server} server, {era}",
                serve=partial(Fleet.anyport_capturing, level=level, server=server),
                era=era,
                children=server == "stdio",
                base=None if level == "off" else f"off, {server} server, {era}",
            )
            for server in ("HTTP", "stdio")
            for era in ERAS
            for level in CAPTURES
        ),
    ),
    Comparison(
        name="big",
        title="A result of 100 kB",
        about="One text of 100 kB in one JSON answer.",
        call=BIG,
        rows=_pairs("nginx", Fleet.nginx, "Anyport", Fleet.anyport),
    ),
    Comparison(
        name="sse",
        title="Ten events",
        about="Nine notifications of progress and the result, as an event stream.",
        call=TEN_EVENTS,
        rows=_pairs("nginx", Fleet.nginx, "Anyport", Fleet.anyport),
    ),
    Comparison(
        name="peers",
        title="Peers",
        about="The small result again. mcp-proxy fronts one stdio server; FastMCP's proxy uses "
        "one connected client for all calls. Logs are switched off for both.",
        rows=(
            Row(name="nginx", serve=Fleet.nginx, era="legacy"),
            Row(name="Anyport", serve=Fleet.anyport, era="legacy", base="nginx"),
            Row(
                name="Anyport, stdio",
                serve=Fleet.anyport_stdio,
                era="legacy",
                base="nginx",
                children=True,
            ),
            Row(
                name="mcp-proxy, stdio",
                serve=Fleet.mcp_proxy,
                era="legacy",
                base="nginx",
                rival="Anyport, stdio",
                children=True,
            ),
            Row(
                name="FastMCP, shared session",
                serve=Fleet.fastmcp_shared,
                era="legacy",
                base="nginx",
                rival="Anyport",
            ),
        ),
    ),
    Comparison(
        name="peer-default",
        title="A peer as it comes",
        about="FastMCP's proxy as its documentation shows it: a session of its own for each call. "
        "16 connections, and longer runs, because it answers few calls in a second.",
        connections=(16,),
        stretch=3,
        rows=(
            Row(name="nginx", serve=Fleet.nginx, era="legacy"),
            Row(name="Anyport", serve=Fleet.anyport, era="legacy", base="nginx"),
            Row(
                name="FastMCP, default",
                serve=Fleet.fastmcp_default,
                era="legacy",
                base="nginx",
                rival="Anyport",
            ),
        ),
    ),
    Comparison(
        name="real",
        title="A real server behind",
        about="A server on the official Python SDK, which has a core for itself. What counts is "
        "the throughput through Anyport against the direct way. It can be higher than that: "
        "whatever a client speaks, Anyport speaks the modern revision to the server, which costs "
        "the server less.",
        connections=(16, 64),
        load_beside_target=True,
        by="rps",
        rows=_pairs("direct", Fleet.sdk_server, "Anyport", Fleet.anyport_sdk),
    ),
    Comparison(
        name="list",
        title="A list of 1,000 tools",
        about="`tools/list` without a filter. Anyport merges 20 servers of 50 tools each and "
        "answers from its cache; nginx passes on one server's list of the same length.",
        call=None,
        rows=_pairs("nginx", Fleet.long_nginx, "Anyport", Fleet.anyport_listed),
    ),
    Comparison(
        name="many",
        title="200 servers",
        about="The small result of one server, with 200 servers configured and with one.",
        rows=(
            Row(name="1 server", serve=Fleet.anyport, era="legacy"),
            Row(name="200 servers", serve=Fleet.anyport_many, era="legacy", base="1 server"),
        ),
    ),
)
