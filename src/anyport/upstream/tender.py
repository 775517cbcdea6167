"""Keeps one connection to one server open: opens it, watches it, opens it again.

It never gives up, and whoever asks while the server is down is told at once why. What carries
the connection, and what is said over it, is not its business.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from anyport.config.schema import ServerConfig
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Connection, Hearer, Peer
from anyport.upstream.handshake import HandshakeFailed, Introduction
from anyport.upstream.local import Local
from anyport.upstream.process import Child
from anyport.upstream.road import Catalogue, Learned, Road, Surroundings, Traveller

WAITERS_MAX: Final = 1024
"""Callers that wait for one server to start; as many as may wait for a place in its queue."""


class State(Enum):
    """How a server is doing."""

    STARTING = "starting"
    READY = "running"
    BROKEN = "failed"
    """Down; it will be tried again."""
    STOPPED = "stopped"


Ready = Callable[[Connection | str], None]
"""Takes the connection, or the reason why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Who is told how a server is doing, and what it says on its own."""

    on_ready: Callable[[Connection], None]
    on_broken: Callable[[str], None]
    on_stderr: Callable[[list[str]], None]
    hearer: Callable[[Callable[[], Connection]], Hearer]
    """Makes the ear for a connection that is about to be opened."""
    catalogue: Catalogue = field(default_factory=Catalogue)


class Tender:
    """One connection and the road it came by."""

    def __init__(
        self,
        config: ServerConfig,
        introduction: Introduction,
        surroundings: Surroundings,
        watcher: Watcher,
        learned: Learned | None = None,
    ) -> None:
        self.state = State.STARTING
        self.reason: str | None = None
        """Why it is not running; the last reason, while it is."""
        self.restarts = 0
        self.connection: Connection | None = None
        self._world = surroundings
        self._watcher = watcher
        self._backoff = Backoff()
        self._waiters: list[Ready] = []
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._ending = ""
        """Why the life that `_ended` tells of was over."""
        traveller = Traveller(
            on_over=self._over,
            on_renewed=watcher.on_ready,
            on_stderr=watcher.on_stderr,
            hearer=watcher.hearer,
            catalogue=watcher.catalogue,
        )
        learned = Learned() if learned is None else learned
        self.road: Road
        if config.url is None:
            self.road = Local(config, introduction, surroundings, traveller, learned)
        else:
            # Only here: a gateway whose servers are all processes starts faster without HTTP.
            from anyport.upstream.remote import Remote  # noqa: PLC0415

            self.road = Remote(config, introduction, surroundings, traveller, learned)

    def when_ready(self, ready: Ready) -> None:
        """Hand over the connection now, when the server has started, or the reason why not."""
        if self.state is State.READY and self.connection is not None:
            ready(self.connection)
        elif self.state is State.STARTING and len(self._waiters) < WAITERS_MAX:
            self._waiters.append(ready)
        else:
            ready(self.reason or "it is starting, and too many calls are waiting for it")

    async def run(self) -> None:
        """Keep the server running until `stop`."""
        while not self._stopping.is_set():
            ready_seconds = await self._live()
            if self._stopping.is_set():
                break
            self.restarts += 1
            delay = self._backoff.delay(ready_seconds, self._world.chance())
            try:
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            except TimeoutError:
                self.state = State.STARTING
        self._rest(State.STOPPED, self._ending)

    async def stop(self, reason: str = "the gateway is stopping") -> None:
        """End the connection for good."""
        self._stopping.set()
        self._ending = reason
        await self.road.stop(reason)

    async def _live(self) -> float | None:
        """One life of the server; how long it was ready, None if it never was."""
        self._ended.clear()
        try:
            connection = await self.road.open()
        except HandshakeFailed as error:
            noise = self.noise
            reason = str(error) if noise is None else f"{error}; {noise}"
            await self._bury(self.road.shown(reason))
            return None
        if connection.over is not None:
            await self._bury(connection.over)
            return None
        since = self._world.clock()
        self.state, self.connection = State.READY, connection
        self._watcher.on_ready(connection)
        self._serve_waiters(connection)
        await self._ended.wait()
        await self._bury(self._ending)
        return self._world.clock() - since

    def _over(self, connection: Connection, reason: str) -> None:
        connection.over = reason
        if connection is self.connection:
            self._ending = reason
            self.connection = None
            self.state, self.reason = State.BROKEN, reason
            self._ended.set()

    async def _bury(self, reason: str) -> None:
        """Say why a life ended, and clear away what is left of it."""
        self._rest(State.BROKEN, reason)
        if not self._stopping.is_set():
            self._watcher.on_broken(reason)
        await self.road.clear()

    def _rest(self, state: State, reason: str) -> None:
        self.state, self.reason = state, reason
        waiters, self._waiters = self._waiters, []
        for ready in waiters:
            ready(reason)

    def _serve_waiters(self, connection: Connection) -> None:
        waiters, self._waiters = self._waiters, []
        for ready in waiters:
            ready(connection)

    @property
    def child(self) -> Child | None:
        """The process behind it, where there is one."""
        return self.road.child

    @property
    def line(self) -> Connection | None:
        """The connection of this life, also while its handshake is under way."""
        return self.road.line

    @property
    def noise(self) -> str | None:
        """What a server that is not ready said in place of an answer."""
        return None if self.state is State.READY else self.road.noise

    @property
    def peer(self) -> Peer | None:
        """What the server said of itself, while it runs."""
        return None if self.connection is None else self.connection.peer
