"""How conversations with simulated servers travel over the pipes of a process."""

from typing import Final

import msgspec

from tests.rig.simulation.call_plan import Json
from tests.rig.simulation.processes import Process
from tests.rig.simulation.server_sessions import LegacyServerSession, open_session
from tests.rig.simulation.servers import SimServer

LATE_SECONDS: Final = 3.0
"""Longer than a server gets that is asked politely to leave, shorter than one that is told."""


class StdioProgram:
    """A server as a program: lines in, lines out."""

    def __init__(self, server: SimServer) -> None:
        self._server = server
        self._world = server.world
        self._talk = open_session(server)
        self._talk.die = self._die
        self._waiting: list[bytes] | None = []
        if isinstance(self._talk, LegacyServerSession):
            self._talk.speak = self._say

    def started(self, process: Process) -> None:
        """It takes a while until it listens."""
        self.process = process
        self._server.processes.append(process)
        self._world.loop.call_later(self._server.traits.start_seconds, self._listen)

    def _listen(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for raw in waiting:
            self.line(raw)

    def line(self, raw: bytes) -> None:
        """A message."""
        if self._waiting is not None:
            self._waiting.append(raw)
        elif self.process.alive:
            self._talk.receive(msgspec.json.decode(raw), self._say)

    def _say(self, message: Json | bytes) -> None:
        raw = message if isinstance(message, bytes) else msgspec.json.encode(message) + b"\n"
        self.process.say(raw)

    def _die(self, code: int) -> None:
        self.process.mutter(b"that was too much\n")
        self.process.exit(code)

    def input_ended(self) -> None:
        """It is asked to leave."""
        self._leave(2 * LATE_SECONDS)

    def asked_to_end(self) -> None:
        """It is told to."""
        self._leave(LATE_SECONDS)

    def _leave(self, late_seconds: float) -> None:
        match self._server.traits.leaves:
            case "at once":
                self.process.exit(0)
            case "late":
                self._world.loop.call_later(late_seconds, self.process.exit, 0)
            case "never":
                pass

    def ended(self) -> None:
        """The process is gone."""
        self._talk.close()
        self._server.talks.remove(self._talk)
        self._server.processes.remove(self.process)
