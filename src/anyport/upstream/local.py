"""The road to a server that is a process of ours: started, spoken to over its pipes, buried."""

import os
from dataclasses import replace
from functools import partial

from anyport.config.schema import ServerConfig
from anyport.protocol.timeouts import Timeout
from anyport.record.stderr import StderrRing
from anyport.record.text import printable
from anyport.upstream.connection import Connection, bounds_for
from anyport.upstream.handshake import (
    Died,
    HandshakeFailed,
    Introduction,
    Misled,
    shake_hands,
)
from anyport.upstream.parting import Parting, numbers
from anyport.upstream.pipe import Listener, Pipe
from anyport.upstream.process import Child, Command, Exit, SpawnFailed
from anyport.upstream.queue import places_of
from anyport.upstream.road import Learned, Surroundings, Traveller


class Local:
    """One process at a time."""

    transport = "stdio"

    def __init__(
        self,
        config: ServerConfig,
        introduction: Introduction,
        surroundings: Surroundings,
        traveller: Traveller,
        learned: Learned,
    ) -> None:
        self.line: Connection | None = None
        self.child: Child | None = None
        self.stderr = StderrRing(redact=surroundings.redact)
        self._config = config
        self._introduction = introduction
        self._world = surroundings
        self._traveller = traveller
        self._learned = learned
        self._pipe: Pipe | None = None
        self._dies_of_all = False
        self._stopped: str | None = None

    async def open(self) -> Connection:
        """A connection to a fresh process; a second one for a server that the probe breaks.

        A server that dies of everything costs one process a life, not two: it is started
        gently until it works again. What an earlier life taught and is no longer so is forgotten.
        """
        learned, tried = self._learned, self._first_try()
        known = tried != self._introduction.protocol
        connection = await self._spawn()
        try:
            await shake_hands(connection, replace(self._introduction, protocol=tried))
        except Died:
            if tried != "auto" or self._stopped is not None:
                raise
            self._dies_of_all, then = True, "legacy"
        except Misled:
            if self._stopped is not None:
                raise
            then = "modern"
        except HandshakeFailed:
            if not known:
                raise
            then = "auto"
        else:
            self._dies_of_all = False
            return connection
        await self.clear()
        connection = await self._spawn()
        if known:
            learned.dies_of_probe = learned.is_misled = self._dies_of_all = False
        await shake_hands(connection, replace(self._introduction, protocol=then))
        learned.dies_of_probe, learned.is_misled = then == "legacy", then == "modern"
        self._dies_of_all = False
        return connection

    def _first_try(self) -> str:
        """The era in which a fresh process is spoken to first."""
        if self._introduction.protocol != "auto":
            return self._introduction.protocol
        if self._learned.dies_of_probe or self._dies_of_all:
            return "legacy"
        return "modern" if self._learned.is_misled else "auto"

    async def clear(self) -> None:
        """Stop the process and close its pipes."""
        child, pipe = self.child, self._pipe
        if child is None or pipe is None:
            return
        pipe.end("it did not answer the handshake")
        await child.stop()
        child.close()
        self.child = self._pipe = None

    async def rest(self, reason: str) -> None:
        """Ask the process to go, as at the end of everything."""
        if self._pipe is not None:
            self._pipe.end(reason)
        await self.clear()

    async def stop(self, reason: str) -> None:
        """End the server for good: ask, then terminate, then kill."""
        self._stopped = reason
        if self._pipe is not None:
            self._pipe.end(reason)
        if self.child is not None:
            await self.child.stop()

    def shown(self, reason: str) -> str:
        """A reason without secrets, and without where things lie."""
        for place in (self._config.cwd, os.path.dirname(self._config.command or "")):
            if place and os.path.isabs(place) and place != os.sep:
                reason = reason.replace(place.rstrip(os.sep) + os.sep, "").replace(place, "…")
        return self._world.redact(reason)

    @property
    def noise(self) -> str | None:
        """What the server wrote in place of an answer."""
        if self.line is None or not self.line.noise_count:
            return None
        first = self._world.redact(printable(self.line.first_noise.decode("utf-8", "replace")))
        return f"it wrote {self.line.noise_count} lines that are not MCP, the first: {first}"

    async def _spawn(self) -> Connection:
        command = Command(
            argv=(self._config.command or "", *self._config.args),
            env=self._world.environ,
            cwd=self._config.cwd or _own_folder(),
        )
        try:
            child = await self._world.warden.spawn(command)
        except SpawnFailed as error:
            raise HandshakeFailed(str(error)) from None
        self.child = child
        bounds = bounds_for(self._config.message_bytes_max)
        listener = Listener(
            on_line=lambda raw: connection.receive(raw),
            on_stderr=lambda chunk: self._traveller.on_stderr(self.stderr.feed(chunk)),
            on_end=lambda reason: self._end(connection, pipe, reason),
        )
        self._pipe = pipe = Pipe(child, listener, bounds.bytes_max, self._world.room)
        hearer = self._traveller.hearer(lambda: connection)
        connection = Connection(pipe, hearer, bounds, record=self._world.record)
        connection.places, connection.room = places_of(self._config), self._world.room
        self.line = connection
        child.on_killed = partial(self._world.timed_out, Timeout.KILL)
        child.on_exit = lambda how: self._exited(pipe, how)
        if self._stopped is not None:  # It was asked to stop before there was anything to stop.
            pipe.end(self._stopped)
        return connection

    def _exited(self, pipe: Pipe, how: Exit) -> None:
        pipe.drain()
        self._traveller.on_stderr(self.stderr.end())
        last = self.stderr.last_line
        pipe.end(f"{how}" if last is None else f"{how}; its last words on stderr: {last}")

    def _end(self, connection: Connection, pipe: Pipe, reason: str) -> None:
        wanted = self._stopped is not None or connection.over is not None
        self._traveller.on_over(connection, reason)
        unwritten = numbers(pipe.unwritten)
        pipe.unwritten.clear()  # It may be much, and some hold on to the pipe.
        connection.end(reason, Parting(wanted=wanted, unwritten=unwritten))


def _own_folder() -> str:
    """Where the gateway runs: relative arguments of a command mean that, as in a shell."""
    try:
        return os.getcwd()
    except OSError:  # It was removed, and the gateway runs on.
        return os.sep
