"""Keeps one connection to one server open: opens it, watches it, opens it again.

It never gives up, and whoever asks while the server is down is told at once why. A connection
that nobody needs sleeps until somebody asks for it. What carries the connection, what is said
over it, and who needs it is not its business.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from anyport.config.schema import ServerConfig
from anyport.protocol.timeouts import Timeout
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import HandshakeFailed, Introduction
from anyport.upstream.hearer import Hearer
from anyport.upstream.local import Local
from anyport.upstream.peer import Peer
from anyport.upstream.process import Child
from anyport.upstream.road import Catalogue, Learned, Road, Surroundings, Traveller

UNUSED: Final = "not started yet: it is started on first use"

WAITERS_MAX: Final = 1024
"""Callers that wait for one server to start; as many as may wait for a place in its queue."""


class State(Enum):
    """How a server is doing."""

    STARTING = "starting"
    READY = "running"
    BROKEN = "failed"
    """Down; it will be tried again."""
    IDLE = "idle"
    """Not needed now; it is started when somebody uses it."""
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
    needed: Callable[[], bool] = lambda: True
    """Whether it is to be open although nobody asks for it."""


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
        self.asleep = not watcher.needed()
        """Whether it is opened only when somebody asks for it."""
        self.state = State.IDLE if self.asleep else State.STARTING
        self.reason: str | None = UNUSED if self.asleep else None
        """Why it is not running; the last reason, while it is."""
        self.timeout: Timeout | None = None
        """Which time was over, where that is the reason."""
        self.restarts = 0
        self.connection: Connection | None = None
        self._world = surroundings
        self._watcher = watcher
        self._backoff = Backoff()
        self._waiters: list[Ready] = []
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._roused = asyncio.Event()
        """Set once somebody has asked for it since it was last open."""
        self._rested = False
        """Whether this life was ended because nobody used it."""
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
            return
        self.rouse()
        if self.state is State.STARTING and len(self._waiters) < WAITERS_MAX:
            self._waiters.append(ready)
        elif self.state is State.STARTING:
            ready("it is starting, and too many calls are waiting for it")
        else:
            ready(self.reason or "no reason is known")

    @property
    def coming(self) -> bool:
        """Whether it is worth waiting for: it is starting, or does so when somebody asks."""
        return self.asleep or self.state is State.STARTING

    def rouse(self) -> None:
        """Somebody needs it: it is opened as soon as may be."""
        self._roused.set()
        if self.asleep:
            self.asleep, self.state = False, State.STARTING

    def rest(self, reason: str) -> None:
        """Nobody uses it: end this life, and begin the next when somebody does."""
        if self.state is not State.READY or self.connection is None:
            return
        self.connection.over = reason
        self.connection = None
        self.state, self.reason = State.IDLE, reason
        self.asleep = self._rested = True
        self._roused.clear()
        self._ended.set()

    def renew(self, reason: str) -> None:
        """What is open is of no use any more: end this life, and begin the next."""
        if self.connection is not None:
            self._over(self.connection, reason)

    async def run(self) -> None:
        """Keep the server running, as long as it is needed, until `stop`."""
        while not self._stopping.is_set():
            await self._sleep()
            if self._stopping.is_set():
                break
            self.state = State.STARTING
            ready_seconds = await self._live()
            if self._stopping.is_set() or self._rested:
                continue
            self.restarts += 1
            delay = self._backoff.delay(ready_seconds, self._world.chance())
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
        self._rest(State.STOPPED, self._ending)

    async def stop(self, reason: str = "the gateway is stopping") -> None:
        """End the connection for good."""
        self.retire(reason)
        await self.road.stop(reason)

    def retire(self, reason: str) -> None:
        """Open no other connection; `stop` ends the one there is."""
        self._stopping.set()
        self._roused.set()
        self._ending = reason

    async def _sleep(self) -> None:
        """Wait until somebody needs it. One that failed is left alone as well, as it is."""
        if not self._watcher.needed() and not self._roused.is_set():
            self.asleep = True
            if self.state is State.STARTING:
                self.state, self.reason = State.IDLE, UNUSED
            await self._roused.wait()
        self.asleep = False

    async def _live(self) -> float | None:
        """One life of the server; how long it was ready, None if it never was."""
        self._ended.clear()
        self._rested = False
        try:
            connection = await self.road.open()
        except HandshakeFailed as error:
            noise = self.noise
            reason = str(error) if noise is None else f"{error}; {noise}"
            if error.timeout is Timeout.HANDSHAKE:
                self._world.timed_out(error.timeout)
            await self._bury(self.road.shown(reason), error.timeout)
            return None
        if connection.over is not None:
            await self._bury(connection.over)
            return None
        since = self._world.clock()
        self.state, self.connection = State.READY, connection
        self._roused.clear()
        self._watcher.on_ready(connection)
        self._serve_waiters(connection)
        await self._ended.wait()
        if self._rested:
            self._backoff = Backoff()
            await self.road.rest(self.reason or "")
        else:
            await self._bury(self._ending)
        return self._world.clock() - since

    def _over(self, connection: Connection, reason: str) -> None:
        connection.over = reason
        if connection is self.connection:
            self._ending = reason
            self.connection = None
            self.state, self.reason = State.BROKEN, reason
            self._ended.set()

    async def _bury(self, reason: str, timeout: Timeout | None = None) -> None:
        """Say why a life ended, and clear away what is left of it."""
        self._roused.clear()
        self.timeout = timeout
        self._rest(State.BROKEN, reason)
        if not self._stopping.is_set():
            self._watcher.on_broken(reason)
        await self.road.clear()

    def _rest(self, state: State, reason: str) -> None:
        self.state, self.reason, self.asleep = state, reason, False
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
