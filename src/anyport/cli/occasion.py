"""A gateway started for one command, with a client of its own, and the wait for its servers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from anyport.cli.caller import Ask, Caller, Tell
from anyport.cli.ending import say
from anyport.cli.inside import inside
from anyport.cli.lookup import explain_missing, meant
from anyport.cli.setup import Setup
from anyport.gateway.profile import Profile
from anyport.gateway.runtime import Gateway
from anyport.protocol.method import Kind
from anyport.routing.catalog import Entry
from anyport.upstream.server import Server
from anyport.upstream.tender import State

SETTLE_SECONDS_MAX: Final = 30.0
"""A server that a launcher must fetch first takes about as long; longer is rarely worth it."""

PATIENCE_SECONDS: Final = 2.0
"""From here on a person wants to know what the wait is for."""

POLL_SECONDS: Final = 0.02
"""Between two looks at the servers; nobody feels so little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """A running gateway and a client in front of it."""

    gateway: Gateway
    profile: Profile
    caller: Caller
    knows_servers: ClassVar[bool] = True

    async def settle(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Wait until every server has told what it offers or failed, or until it is `enough`."""
        began = time.monotonic()
        told = False
        while not enough():
            waiting = [slug for slug, server in self.profile.servers.items() if not settled(server)]
            waited = time.monotonic() - began
            if not waiting or waited > SETTLE_SECONDS_MAX:
                return
            if waited > PATIENCE_SECONDS and not told:
                told = True
                say(f"waiting for {', '.join(waiting)}")
            await asyncio.sleep(POLL_SECONDS)

    async def find(self, name: str) -> Entry | None:
        """The tool of that name; waits no longer than its own server needs."""

        def found() -> bool:
            entries = self.profile.catalog.entries(Kind.TOOLS)
            entry = next((entry for entry in entries if entry.public == name), None)
            # A list from an earlier run may be old, and with it what the arguments are.
            return entry is not None and (
                not entry.slug or settled(self.gateway.servers[entry.slug])
            )

        await self.settle(found)
        return self.profile.catalog.named(Kind.TOOLS, name)

    def explain_missing(self, name: str) -> str:
        """Why no tool has this name, and which one may be meant."""
        servers = self.profile.servers.items()
        disabled = [slug for slug, server in servers if server.config.disabled]
        separator = self.profile.config.separator
        return explain_missing(name, self.entries, disabled=disabled, separator=separator)

    @property
    def entries(self) -> Sequence[Entry]:
        """The tools that are known so far."""
        return self.profile.catalog.entries(Kind.TOOLS)

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers of the profile."""
        return tuple(self.profile.servers)

    @property
    def takes_any_name(self) -> bool:
        """Whether tools can be called that are not listed."""
        return self.profile.transparent

    async def report(self) -> dict[str, Any]:
        """What `gateway_status` says."""
        return self.gateway.status(self.profile)

    def tell_troubles(self, name: str | None = None) -> None:
        """Say on stderr which servers are missing, and why; for a named tool, only its own."""
        separator = self.profile.config.separator
        for slug, server in self.profile.servers.items():
            trouble = describe_trouble(server)
            if trouble is not None and (name is None or meant(name, slug, separator)):
                say(f"server '{slug}' {trouble}")


@asynccontextmanager
async def occasion(
    setup: Setup,
    *,
    ask: Ask | None = None,
    on_log: Tell | None = None,
    log_level: str | None = None,
) -> AsyncIterator[Occasion]:
    """A gateway for the time of a block; its servers are starting when the block begins."""
    # Whoever runs the command sees what happens: nobody else needs to be told.
    config = replace(setup.config, hooks=())
    async with Gateway(config, setup.state_dir, sole=True) as gateway:
        connect = inside(gateway, setup.profile)
        caller = Caller(connect, ask=ask, on_log=on_log, log_level=log_level)
        await caller.open()
        try:
            yield Occasion(gateway=gateway, profile=gateway.profiles[setup.profile], caller=caller)
        finally:
            await caller.close()
    trouble = gateway.journal.last_error
    if trouble is not None:
        say(f"warning: this could not be recorded in {setup.state_dir}: {trouble}")


def settled(server: Server) -> bool:
    """Whether waiting longer for this server is pointless."""
    if server.listed or server.obstacle is not None:
        return True
    return server.state in (State.BROKEN, State.IDLE, State.STOPPED)


def describe_trouble(server: Server) -> str | None:
    """Why a server's tools are missing or old; None for one that runs, rests or is switched off."""
    if server.config.disabled or server.state is State.IDLE:
        return None
    if server.state is State.STARTING:
        return f"has not started in {SETTLE_SECONDS_MAX:g} s"
    if server.state is not State.READY:
        return f"is not running: {server.reason or 'no reason is known'}"
    return None if server.listed else f"has not listed its tools in {SETTLE_SECONDS_MAX:g} s"
