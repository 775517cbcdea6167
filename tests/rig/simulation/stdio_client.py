"""A simulated client at the other end of the gateway's stdin and stdout."""

import msgspec

from tests.rig.simulation.call_plan import Json
from tests.rig.simulation.clients import Client, ClientRequest, Fate, Persona
from tests.rig.simulation.environment import Environment
from tests.rig.simulation.modern_requests import come_back, envelope
from tests.rig.simulation.network import Mark, ReadEnd, WriteEnd


class PipeClient(Client):
    """The only client of a gateway on its stdin and stdout; it may speak either era."""

    def __init__(self, world: Environment, number: int, persona: Persona) -> None:
        super().__init__(world, number, persona)
        self.revision = None if persona.modern else persona.revision
        """None for a modern client."""
        self.stdin = ReadEnd(world.loop, world.new_fd())
        self.stdout = WriteEnd(world.loop, world.new_fd(), 64 * 1024)
        world.fds[self.stdin.fd] = self.stdin
        world.fds[self.stdout.fd] = self.stdout
        self._wire = world.wire("stdin", self.stdin.arrived)
        self.stdout.wire = world.wire("stdout", self._take)
        self._rest = b""
        self._joined = False
        self.gone = False

    def _take(self, piece: bytes | Mark) -> None:
        if isinstance(piece, Mark):
            return
        self.stdout.read(len(piece))
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self.heard(line)

    def _send(self, message: Json) -> None:
        if not self.gone:
            self.world.note(self.name, "says", message)
            self._wire.send(msgspec.json.encode(message) + b"\n")

    def join(self) -> None:
        """Shake hands, where that is done."""
        if self.revision is None or self._joined or self.gone:
            return
        self._joined = True
        identity = {"name": self.name, "version": "1"}
        about = {"capabilities": self.capabilities, "clientInfo": identity}
        ask = self.new_ask("initialize", {"protocolVersion": self.revision, **about})
        self._send({"jsonrpc": "2.0", "id": ask.id, "method": ask.method, "params": ask.params})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def begin(self, ask: ClientRequest) -> None:
        if self.gone:
            ask.fate = Fate.LOST
            return
        self.join()
        if self.revision is None:
            ask.params["_meta"] = {**ask.params.get("_meta", {}), **envelope(self)}
            if ask.nonce is not None:
                ask.on_answer = lambda message: come_back(self, ask, message)
        self._send({"jsonrpc": "2.0", "id": ask.id, "method": ask.method, "params": ask.params})

    def cancel_ask(self, ask: ClientRequest) -> None:
        params: Json = {"requestId": ask.id}
        if self.revision is None:
            params["_meta"] = envelope(self)
        self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def reply(self, message: Json, session: str | None) -> None:
        self._send(message)

    def leave(self) -> None:
        """End the input; all that is open is still answered."""
        if not self.gone:
            self.world.note(self.name, "leaves")
            self.gone = True
            for ask in self.open_asks:
                ask.surely = False  # From now on it cannot be asked.
            self._wire.send(Mark.END)

    def vanish(self) -> None:
        """Close both ends."""
        self.leave()
        for ask in self.open_asks:
            ask.fate = Fate.LOST
        self.stdout.shatter()
