"""The servers of a gateway: made, started, and let go when the configuration no longer has them.

Which client calls which of them is decided elsewhere; so is what becomes of what they say.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from anyport.config.schema import ServerConfig
from anyport.gateway.asides import Asides
from anyport.gateway.cache import ListCache
from anyport.gateway.describe import IDENTITY
from anyport.gateway.reports import Reports
from anyport.protocol.room import Room
from anyport.record.redact import Redactor
from anyport.upstream.call import Answer
from anyport.upstream.environment import child_environment
from anyport.upstream.own import Asked, Record
from anyport.upstream.process import Warden
from anyport.upstream.road import Surroundings
from anyport.upstream.server import Server
from anyport.upstream.setting import Setting

STOP_SECONDS_MAX: Final = 10.0
"""Servers that are asked to stop have all gone by then: two graces and a kill."""

RETIRED_LOOK_SECONDS: Final = 0.25
"""Between two looks whether a server that is no longer in the configuration has finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What servers need of the gateway."""

    spawn: Callable[[Coroutine[Any, Any, None], str], None]
    later: Callable[[float, Callable[[], None]], object]
    redact: Redactor
    asides: Callable[[], Asides]
    at_work: Callable[[Server], bool]
    """Whether anybody still waits for a server."""
    sole: bool
    room: Room = field(default_factory=Room)
    """For large messages."""


class Fleet:
    """All servers, and those on their way out."""

    def __init__(self, means: Means, reports: Reports, cache: ListCache) -> None:
        self.warden = Warden()
        self.servers: dict[str, Server] = {}
        """Those of the configuration, by slug. Always the same mapping."""
        self._means = means
        self._reports = reports
        self._cache = cache
        self._everyone: set[Server] = set()
        """Those that are not used yet, or no longer, too."""
        self._setting = Setting(
            surroundings=self._surroundings,
            spawn=means.spawn,
            later=means.later,
            client_info=IDENTITY,
            clock=time.monotonic,
            sole=means.sole,
        )

    def make(self, configs: Iterable[ServerConfig]) -> dict[str, Server]:
        """Servers that are not in use yet, with what is known of them from earlier."""
        made = {config.slug: Server(config, self._setting, self._reports) for config in configs}
        for server in made.values():
            self._everyone.add(server)
            self._cache.recall(server, time.time())
        return made

    def discard(self, servers: Iterable[Server]) -> None:
        """They were made for nothing."""
        for server in servers:
            self._means.spawn(self._end(server), f"stop {server.slug}")

    def replace(self, servers: Mapping[str, Server]) -> None:
        """Have these from now on; the others finish what they work on, and are stopped."""
        gone = [server for server in self.servers.values() if server not in servers.values()]
        self.servers.clear()
        self.servers.update(servers)
        for server in gone:
            self._means.spawn(self._retire(server), f"retire {server.slug}")

    async def stop(self) -> None:
        """End them all; nobody waits for one that cannot be ended."""
        everyone = tuple(self._everyone)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await asyncio.gather(*(server.stop() for server in everyone))

    async def _retire(self, server: Server) -> None:
        """Calls in flight end under the configuration that they began with."""
        # Each call has its own end, so there is one; whatever outlasts the cap is not waited for.
        over = time.monotonic() + server.config.timeout_seconds_max
        while self._means.at_work(server) and time.monotonic() < over:
            await asyncio.sleep(RETIRED_LOOK_SECONDS)
        await self._end(server)
        self._reports.retired(server)

    async def _end(self, server: Server) -> None:
        await server.stop("it is no longer in the configuration")
        self._everyone.discard(server)

    def _surroundings(self, config: ServerConfig) -> Surroundings:
        return Surroundings(
            warden=self.warden,
            environ=child_environment(os.environ, config.env),
            redact=self._means.redact,
            clock=time.monotonic,
            chance=lambda: int.from_bytes(os.urandom(2)) / 0xFFFF,
            room=self._means.room,
            timed_out=partial(self._reports.timed_out, config.slug),
            record=Record(clock=time.monotonic, noted=partial(self._own, config)),
        )

    def _own(self, config: ServerConfig, asked: Asked, answer: Answer, took: float) -> None:
        server = next((each for each in self._everyone if each.config is config), None)
        if server is not None:
            self._means.asides().own(server, asked, answer, took)
