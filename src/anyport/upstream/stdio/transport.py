"""Transport to servers that are child processes."""

import os
from dataclasses import replace
from functools import partial
from typing import Final

from anyport.config.model import ServerConfig
from anyport.protocol.errors import Timeout
from anyport.protocol.revisions import Era
from anyport.record.journal.stderr import StderrRing
from anyport.record.redact.escape import make_printable
from anyport.upstream.call_queue import call_slots_of
from anyport.upstream.connection import Connection, bounds_for
from anyport.upstream.handshake import (
    AmbiguousEra,
    DiedOfProbe,
    HandshakeFailed,
    HandshakeOptions,
    ServerDied,
    perform_handshake,
)
from anyport.upstream.pending_call import ConnectionEnd, call_numbers
from anyport.upstream.stdio.pipe import StdioPipe
from anyport.upstream.stdio.process import (
    ChildProcess,
    Command,
    ExitStatus,
    SpawnFailed,
    child_environment,
)
from anyport.upstream.transport import ServerQuirks, TransportOwner, UpstreamContext
from anyport.wire.lines import Overlong

START_NOISE_LINES_MAX: Final = 10_000
"""Non-MCP lines before the handshake is done: more than launchers print on a bad day."""


class StdioTransport:
    """Runs one process at a time."""

    transport_name = "stdio"

    def __init__(
        self,
        config: ServerConfig,
        options: HandshakeOptions,
        context: UpstreamContext,
        owner: TransportOwner,
        quirks: ServerQuirks,
    ) -> None:
        self.current_connection: Connection | None = None
        self.child: ChildProcess | None = None
        self.stderr = StderrRing(redact=context.redact)
        self._config = config
        self._options = options
        self._context = context
        self._owner = owner
        self._quirks = quirks
        self._pipe: StdioPipe | None = None
        self._always_dies = False
        self._stopped: str | None = None

    async def open(self) -> Connection:
        """Start a process and perform the handshake; start a second one if the probe has broken the
        first.

        A server that has died of everything gets one process per attempt instead of two, without a
        probe, until it works again. Quirks that do not hold any more are forgotten.
        """
        quirks, first_era = self._quirks, self._first_era()
        known = first_era != self._options.protocol
        connection = await self._spawn()
        try:
            await perform_handshake(connection, replace(self._options, protocol=first_era))
        except ServerDied as error:
            if first_era != "auto" or self._stopped is not None:
                raise
            # What it has died of is left out, or comes last.
            self._always_dies = True
            was_probed = self._options.first_era is Era.MODERN or isinstance(error, DiedOfProbe)
            second_era = "legacy" if was_probed else "auto"
        except AmbiguousEra:
            if self._stopped is not None:
                raise
            second_era = "modern"
        except HandshakeFailed:
            if not known:
                raise
            second_era = "auto"
        else:
            self._always_dies = False
            return connection
        await self.clean_up()
        connection = await self._spawn()
        if known:
            quirks.dies_of_probe = quirks.avoid_initialize = self._always_dies = False
        options = replace(self._options, protocol=second_era, first_era=Era.MODERN)
        await perform_handshake(connection, options)
        quirks.dies_of_probe, quirks.avoid_initialize = (
            second_era == "legacy",
            second_era == "modern",
        )
        self._always_dies = False
        return connection

    def _first_era(self) -> str:
        """The era to try first in a fresh process."""
        if self._options.protocol != "auto":
            return self._options.protocol
        if self._quirks.dies_of_probe or self._always_dies:
            return "legacy"
        misled = self._quirks.avoid_initialize and self._options.first_era is Era.MODERN
        return "modern" if misled else "auto"

    async def clean_up(self) -> None:
        """Stop the process and close its pipes."""
        child, pipe = self.child, self._pipe
        if child is None or pipe is None:
            return
        pipe.end("it did not answer the handshake")
        await child.stop()
        child.close()
        self.child = self._pipe = None

    async def suspend(self, reason: str) -> None:
        if self._pipe is not None:
            self._pipe.end(reason)
        await self.clean_up()

    async def stop(self, reason: str) -> None:
        """Stop the process for good: close stdin, then SIGTERM, then kill."""
        self._stopped = reason
        if self._pipe is not None:
            self._pipe.end(reason)
        if self.child is not None:
            await self.child.stop()

    def redact_reason(self, reason: str) -> str:
        """A reason without secrets and file paths."""
        for path in (self._config.cwd, os.path.dirname(self._config.command or "")):
            if path and os.path.isabs(path) and path != os.sep:
                reason = reason.replace(path.rstrip(os.sep) + os.sep, "").replace(path, "…")
        return self._context.redact(reason)

    @property
    def noise(self) -> str | None:
        """What the server wrote instead of MCP."""
        if self.current_connection is None or not self.current_connection.noise_count:
            return None
        first = self._context.redact(
            make_printable(self.current_connection.first_noise.decode("utf-8", "replace"))
        )
        count = self.current_connection.noise_count
        return f"it wrote {count} lines that are not MCP, the first: {first}"

    async def _spawn(self) -> Connection:
        command = Command(
            argv=(self._config.command or "", *self._config.args),
            env=child_environment(self._context.environ, self._config.env),
            cwd=self._config.cwd or _working_directory(),
        )
        try:
            child = await self._context.spawner.spawn(command)
        except SpawnFailed as error:
            raise HandshakeFailed(str(error)) from None
        self.child = child
        bounds = bounds_for(self._config.message_bytes_max)
        memory_budget, scheduler = self._context.memory_budget, self._context.scheduler
        pipe = StdioPipe(
            child, self, bounds.bytes_max, memory_budget, scheduler, self._quirks.group
        )
        self._pipe = pipe
        connection = Connection(pipe, self._owner, bounds, self._context.clock)
        connection.call_slots = call_slots_of(self._config)
        connection.memory_budget = memory_budget
        pipe.connection = connection
        self.current_connection = connection
        child.on_killed = partial(self._owner.on_timeout, Timeout.KILL)
        child.on_exit = lambda how: self._on_exit(pipe, how)
        if self._stopped is not None:  # It was stopped before there was anything to stop.
            pipe.end(self._stopped)
        return connection

    def on_line(self, pipe: StdioPipe, line: bytes | Overlong) -> None:
        """The process wrote a line to stdout."""
        connection = pipe.connection
        connection.receive(line)
        if connection.peer is None and connection.noise_count > START_NOISE_LINES_MAX:
            pipe.end("it is not an MCP server")

    def on_stderr(self, chunk: bytes) -> None:
        """The process wrote to stderr."""
        self._owner.on_stderr(self.stderr.feed(chunk))

    def on_end(self, pipe: StdioPipe, reason: str) -> None:
        """Nothing more comes out of a pipe; called once."""
        connection = pipe.connection
        intended = self._stopped is not None or connection.draining_reason is not None
        self._owner.on_draining(connection, reason)
        unwritten = call_numbers(pipe.unwritten)
        pipe.unwritten.clear()  # It may be large, and references to the pipe outlive it.
        connection.end(reason, ConnectionEnd(intended=intended, unsent_calls=unwritten))

    def _on_exit(self, pipe: StdioPipe, exit_status: ExitStatus) -> None:
        pipe.drain(partial(self._on_drained, pipe, exit_status))

    def _on_drained(self, pipe: StdioPipe, exit_status: ExitStatus) -> None:
        self._owner.on_stderr(self.stderr.end())
        last_line = self.stderr.last_line
        pipe.end(
            f"{exit_status}"
            if last_line is None
            else f"{exit_status}; last line on stderr: {last_line}"
        )


def _working_directory() -> str:
    """The gateway's: relative arguments of a command mean that, as in a shell."""
    try:
        return os.getcwd()
    except OSError:  # It was removed, and the gateway runs on.
        return os.sep
