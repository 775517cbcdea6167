"""Starts servers as the gateway does, side by side, and writes down what becomes of each.

A gateway of its own does that, with a state directory of its own that is gone afterwards: what
another gateway keeps is not touched, and nothing is known from earlier runs. What the facts mean
is judged elsewhere.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from anyport.cli.ending import say
from anyport.cli.occasion import PATIENCE_SECONDS, POLL_SECONDS, settled
from anyport.config.schema import Config, ProfileConfig, ServerConfig, TelemetryConfig
from anyport.gateway.runtime import Gateway
from anyport.gateway.serving import start_servers
from anyport.protocol.method import Kind
from anyport.protocol.revision import Revision
from anyport.record.text import cut, printable
from anyport.routing.catalog import Entry
from anyport.routing.offers import Listing
from anyport.upstream.local import Local
from anyport.upstream.server import Server
from anyport.upstream.tender import State

EXAMINED_SECONDS_MAX: Final = 30.0
"""A server that a launcher must fetch first takes about as long."""

STDERR_LINES_MAX: Final = 5
"""Of its last words: the end of a stack trace says what happened."""

NOISE_CHARS_MAX: Final = 120
"""Of what stands on stdout and does not belong there."""

Condition: TypeAlias = Literal["running", "silent", "starting", "failed"]
"""`silent` runs, and does not tell what it offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What became of one server."""

    slug: str
    condition: Condition
    reason: str | None = None
    """Why it does not run."""
    stderr: tuple[str, ...] = ()
    transport: str = "stdio"
    revision: Revision | None = None
    started_seconds: float | None = None
    """Until it was ready."""
    listed_seconds: float | None = None
    """Until it had told all that it offers, from the same beginning."""
    listings: Mapping[Kind, Listing] = field(default_factory=dict)
    noise_count: int = 0
    noise: str = ""
    """The first line that does not belong on stdout."""
    warnings: tuple[str, ...] = ()

    def count(self, kind: Kind) -> int:
        """How much it offers of a kind."""
        listing = self.listings.get(kind)
        return 0 if listing is None else len(listing.offers)

    @property
    def tool_bytes(self) -> int:
        """What its tools take of a client's context."""
        listing = self.listings.get(Kind.TOOLS)
        return 0 if listing is None else sum(len(offer.raw) for offer in listing.offers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All servers, and what clients would see of their tools."""

    servers: Mapping[str, Examined] = field(default_factory=dict)
    tools: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    """By profile."""


async def examine(
    config: Config,
    slugs: Collection[str],
    *,
    seconds_max: float = EXAMINED_SECONDS_MAX,
    clock: Callable[[], float] = time.monotonic,
) -> Examination:
    """Start these servers, wait until each has told what it offers or failed, and stop them."""
    wanted = alone(config, slugs)
    if not wanted.servers:
        return Examination()
    with TemporaryDirectory(prefix="anyport-doctor-") as folder:
        async with Gateway(wanted, Path(folder), sole=True) as gateway:
            start_servers(gateway)
            times = await _watch(gateway.servers, seconds_max, clock)
            return Examination(
                servers={
                    slug: _examined(server, times[slug]) for slug, server in gateway.servers.items()
                },
                tools={
                    slug: profile.catalog.entries(Kind.TOOLS)
                    for slug, profile in gateway.profiles.items()
                },
            )


def alone(config: Config, slugs: Collection[str]) -> Config:
    """The configuration with these servers only, all started now, and nobody told of anything."""
    servers = {slug: _awake(config.servers[slug]) for slug in config.servers if slug in slugs}
    profiles = {
        slug: _of_some(profile, slugs)
        for slug, profile in config.profiles.items()
        if any(server in slugs for server in profile.servers)
    }
    return replace(
        config,
        servers=MappingProxyType(servers),
        profiles=MappingProxyType(profiles),
        hooks=(),
        telemetry=TelemetryConfig(),
        # An anchor is a file outside of the state directory.
        record=replace(config.record, capture="off", anchor=None),
    )


def _awake(server: ServerConfig) -> ServerConfig:
    return replace(server, start="eager", idle_seconds=0.0, capture="off")


def _of_some(profile: ProfileConfig, slugs: Collection[str]) -> ProfileConfig:
    servers = tuple(slug for slug in profile.servers if slug in slugs)
    return replace(profile, servers=servers, capture="off")


@dataclass(slots=True)
class _Times:
    started: float | None = None
    listed: float | None = None


async def _watch(
    servers: Mapping[str, Server], seconds_max: float, clock: Callable[[], float]
) -> dict[str, _Times]:
    """Wait until all have settled; when each was ready, and when it had listed everything."""
    began = clock()
    told = False
    times = {slug: _Times() for slug in servers}
    while True:
        waited = clock() - began
        for slug, server in servers.items():
            mark = times[slug]
            if mark.started is None and server.state is State.READY:
                mark.started = waited
            if mark.listed is None and server.listed:
                mark.listed = waited
        waiting = [slug for slug, server in servers.items() if not _is_decided(server)]
        if not waiting or waited > seconds_max:
            return times
        if waited > PATIENCE_SECONDS and not told:
            told = True
            say(f"waiting for {', '.join(waiting)}, {seconds_max:g} s at most")
        await asyncio.sleep(POLL_SECONDS)


def _examined(server: Server, times: _Times) -> Examined:
    line = None if server.main is None else server.main.line
    warnings = [server.warning, *(listing.warning for listing in server.listings.values())]
    return Examined(
        slug=server.slug,
        condition=_condition(server),
        reason=server.reason or server.last_error,
        stderr=_last_words(server),
        transport=server.transport,
        revision=None if server.peer is None else server.peer.revision,
        started_seconds=times.started,
        listed_seconds=times.listed,
        listings=dict(server.listings),
        noise_count=0 if line is None else line.noise_count,
        noise="" if line is None else _noise(line.first_noise),
        warnings=tuple(warning for warning in warnings if warning is not None),
    )


def _is_decided(server: Server) -> bool:
    """Whether waiting longer is pointless. One that failed is tried again and again."""
    return settled(server) or (server.state is not State.READY and server.last_error is not None)


def _condition(server: Server) -> Condition:
    if server.state is State.READY:
        return "running" if server.listed else "silent"
    undecided = server.state is State.STARTING and server.last_error is None
    return "starting" if undecided else "failed"


def _last_words(server: Server) -> tuple[str, ...]:
    road = None if server.main is None else server.main.road
    if not isinstance(road, Local):
        return ()
    # A server that dies of the first question is started once more, and says the same again.
    return tuple(dict.fromkeys(road.stderr.lines()))[-STDERR_LINES_MAX:]


def _noise(raw: bytes) -> str:
    return cut(printable(raw.decode("utf-8", "replace")), NOISE_CHARS_MAX)
