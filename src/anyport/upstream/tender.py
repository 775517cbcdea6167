"""Keeps one connection to one stdio server open: starts it, watches it, starts it again.

It never gives up, and whoever asks while the server is down is told at once why. What is said
over the connection is not its business.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from anyport.config.schema import ServerConfig
from anyport.record.stderr import StderrRing
from anyport.record.text import printable
from anyport.upstream.backoff import Backoff
from anyport.upstream.connection import Connection, Hearer, Peer, bounds_for
from anyport.upstream.handshake import Died, HandshakeFailed, Introduction, shake_hands
from anyport.upstream.pipe import Listener, Pipe
from anyport.upstream.process import Child, Command, Exit, SpawnFailed, Warden

WAITERS_MAX: Final = 1024
"""Callers that wait for one server to start; as many as may wait for a place in its queue."""


class State(Enum):
    """How a server is doing."""

    STARTING = "starting"
    READY = "running"
    BROKEN = "failed"
    """Down; it will be started again."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a tender needs from the world."""

    warden: Warden
    environ: dict[str, str]
    """The whole environment of the server."""
    redact: Callable[[str], str]
    clock: Callable[[], float]
    chance: Callable[[], float]


class Tender:
    """One connection and the process behind it."""

    def __init__(
        self,
        config: ServerConfig,
        introduction: Introduction,
        surroundings: Surroundings,
        watcher: Watcher,
    ) -> None:
        self.state = State.STARTING
        self.reason: str | None = None
        """Why it is not running; the last reason, while it is."""
        self.restarts = 0
        self.dies_of_probe = False
        """Whether `server/discover` kills it: it is then spoken to as a legacy server at once."""
        self._dies_of_all = False
        self.connection: Connection | None = None
        self.stderr = StderrRing(redact=surroundings.redact)
        self.line: Connection | None = None
        """The connection of this life, also while its handshake is under way."""
        self.child: Child | None = None
        self._config = config
        self._introduction = introduction
        self._world = surroundings
        self._watcher = watcher
        self._backoff = Backoff()
        self._waiters: list[Ready] = []
        self._stopping = asyncio.Event()
        self._pipe: Pipe | None = None
        self._ended = asyncio.Event()
        self._ending = ""
        """Why the life that `_ended` tells of was over."""

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
        """End the server for good: ask, then terminate, then kill."""
        self._stopping.set()
        self._ending = reason
        if self._pipe is not None:
            self._pipe.end(reason)
        if self.child is not None:
            await self.child.stop()

    async def _live(self) -> float | None:
        """One life of the server; how long it was ready, None if it never was."""
        try:
            connection = await self._open()
        except (SpawnFailed, HandshakeFailed) as error:
            noise = self.noise
            reason = str(error) if noise is None else f"{error}; {noise}"
            await self._bury(self._shown(reason))
            return None
        since = self._world.clock()
        self.state, self.connection = State.READY, connection
        self._watcher.on_ready(connection)
        self._serve_waiters(connection)
        await self._ended.wait()
        await self._bury(self._ending)
        return self._world.clock() - since

    async def _open(self) -> Connection:
        """A connection to a fresh process; a second one for a server that dies of the probe.

        A server that dies of everything costs one process a life, not two: it is started
        gently until it works again. One that then wants no handshake is probed after all.
        """
        introduction = self._introduction
        automatic = introduction.protocol == "auto"
        gentle = automatic and (self.dies_of_probe or self._dies_of_all)
        connection = await self._spawn()
        try:
            await shake_hands(connection, _legacy(introduction) if gentle else introduction)
        except Died:
            if gentle or not automatic or self._stopping.is_set():
                raise
            self._dies_of_all = True
        except HandshakeFailed:
            if not gentle:
                raise
            self.dies_of_probe = self._dies_of_all = False
        else:
            self._dies_of_all = False
            return connection
        await self._clear()
        connection = await self._spawn()
        await shake_hands(connection, introduction if gentle else _legacy(introduction))
        self.dies_of_probe, self._dies_of_all = not gentle, False
        return connection

    async def _spawn(self) -> Connection:
        command = Command(
            argv=(self._config.command or "", *self._config.args),
            env=self._world.environ,
            cwd=self._config.cwd or _own_folder(),
        )
        child = await self._world.warden.spawn(command)
        self.child = child
        self._ended = asyncio.Event()
        bounds = bounds_for(self._config.message_bytes_max)
        listener = Listener(
            on_line=lambda raw: connection.receive(raw),
            on_stderr=lambda chunk: self._watcher.on_stderr(self.stderr.feed(chunk)),
            on_end=lambda reason: self._end(connection, reason),
        )
        self._pipe = pipe = Pipe(child, listener, bounds.bytes_max)
        connection = Connection(pipe, self._watcher.hearer(lambda: connection), bounds)
        self.line = connection
        child.on_exit = lambda how: self._exited(pipe, how)
        if self._stopping.is_set():  # It was asked to stop before there was anything to stop.
            pipe.end(self._ending)
        return connection

    def _exited(self, pipe: Pipe, how: Exit) -> None:
        pipe.drain()
        self._watcher.on_stderr(self.stderr.end())
        last = self.stderr.last_line
        pipe.end(f"{how}" if last is None else f"{how}; its last words on stderr: {last}")

    def _end(self, connection: Connection, reason: str) -> None:
        self._ending = reason
        self.connection = None
        if self.state is State.READY:
            self.state, self.reason = State.BROKEN, reason
        self._ended.set()
        connection.end(reason)

    async def _bury(self, reason: str) -> None:
        """Say why a life ended, and clear away what is left of it."""
        self._rest(State.BROKEN, reason)
        if not self._stopping.is_set():
            self._watcher.on_broken(reason)
        await self._clear()

    async def _clear(self) -> None:
        """Stop the process and close its pipes."""
        child, pipe = self.child, self._pipe
        if child is None or pipe is None:
            return
        pipe.end("it did not answer the handshake")
        await child.stop()
        child.close()
        self.child = self._pipe = self.connection = None

    def _shown(self, reason: str) -> str:
        """A reason that callers may read: without secrets, and without where things lie."""
        for place in (self._config.cwd, os.path.dirname(self._config.command or "")):
            if place:
                reason = reason.replace(place.rstrip(os.sep) + os.sep, "").replace(place, "…")
        return self._world.redact(reason)

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
    def noise(self) -> str | None:
        """What a server that is not ready wrote in place of an answer."""
        if self.line is None or not self.line.noise_count or self.state is State.READY:
            return None
        first = self._world.redact(printable(self.line.first_noise.decode("utf-8", "replace")))
        return f"it wrote {self.line.noise_count} lines that are not MCP, the first: {first}"

    @property
    def peer(self) -> Peer | None:
        """What the server said of itself, while it runs."""
        return None if self.connection is None else self.connection.peer


def _legacy(introduction: Introduction) -> Introduction:
    return Introduction(
        client_info=introduction.client_info,
        capabilities=introduction.capabilities,
        protocol="legacy",
    )


def _own_folder() -> str:
    """Where the gateway runs: relative arguments of a command mean that, as in a shell."""
    try:
        return os.getcwd()
    except OSError:  # It was removed, and the gateway runs on.
        return os.sep
