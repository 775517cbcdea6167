"""How simulated clients reach the gateway over HTTP, with a session or without."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from tests.rig.simulation.call_plan import Json
from tests.rig.simulation.clients import Client, ClientRequest, Fate, Persona
from tests.rig.simulation.environment import Environment
from tests.rig.simulation.http_messages import Message, Part, Reader, StreamEvent, request
from tests.rig.simulation.modern_requests import come_back, envelope
from tests.rig.simulation.network import Socket
from tests.rig.simulation.server_sessions import MODERN

PORT: Final = 8640
PATH: Final = "/mcp"
SWEEP_SECONDS: Final = 20.0
"""A session may be taken for idle so much too early: nobody counts single seconds."""
ROUNDS_MAX: Final = 8
"""How often a client comes back with answers to one call."""


class HttpExchange(asyncio.Protocol):
    """One request over HTTP, on a connection of its own."""

    def __init__(self, on_part: Callable[[Part], None], on_lost: Callable[[], None]) -> None:
        self._on_part = on_part
        self._on_lost = on_lost
        self._reader = Reader()
        self._done = False
        self.socket: Socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.socket = cast(Socket, transport)

    def data_received(self, data: bytes) -> None:
        for part in self._reader.feed(data):
            if self._done:
                return
            stream = isinstance(part, Message) and part.is_stream
            self._done = part is None or (isinstance(part, Message) and not stream)
            self._on_part(part)
        if self._done:
            self.socket.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done:
            self._done = True
            self._on_lost()

    def hang_up(self) -> None:
        """Close the connection, and hear no more of it."""
        if not self._done:
            self._done = True
            self.socket.abort()


class HttpClient(Client):
    """What clients over HTTP have in common."""

    def __init__(self, world: Environment, number: int, persona: Persona) -> None:
        super().__init__(world, number, persona)
        self.fields = {"Host": f"127.0.0.1:{PORT}", "Accept": "application/json, text/event-stream"}
        self.fields["Authorization"] = f"Bearer token-{persona.principal}"
        self.visits: list[HttpExchange] = []

    def visit(
        self,
        raw: bytes,
        on_part: Callable[[Part], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> HttpExchange | None:
        """Send a request on a new connection; None if the gateway takes none."""
        door = self.world.doors.get(PORT)
        if door is None:
            on_lost()
            return None
        visit = HttpExchange(on_part, on_lost)
        self.visits = [old for old in self.visits if not old._done]
        self.visits.append(visit)
        self.world.join(visit, door())
        visit.socket.write(raw)
        return visit

    def send(self, ask: ClientRequest, fields: dict[str, str]) -> None:
        """Post a request, and wait for its answer."""
        message = {"jsonrpc": "2.0", "id": ask.id, "method": ask.method, "params": ask.params}
        self.world.note(self.name, "asks", message)
        ask.at = self.world.now
        raw = request("POST", PATH, {**self.fields, **fields}, message)

        def part(part: Part) -> None:
            if isinstance(part, Message) and not part.is_stream:
                self.responded(ask, part)
            elif isinstance(part, Message):
                self.opened(ask, part)
            elif isinstance(part, StreamEvent):
                self.happened(ask, part)
            elif ask.answers == 0 and ask.fate is Fate.OPEN:
                self.cut_short(ask)

        visit = self.visit(raw, part, lambda: self.lost(ask))
        if visit is not None:
            ask.give_up = visit.hang_up

    def opened(self, ask: ClientRequest, head: Message) -> None:
        """The answer is a stream."""

    def happened(self, ask: ClientRequest, event: StreamEvent) -> None:
        """One event of it."""
        ask.last_event = event.id or ask.last_event
        if event.text:
            self.heard(event.text, ask.session)

    def responded(self, ask: ClientRequest, response: Message) -> None:
        """The answer is a whole."""
        ask.turned_away = response.status in (404, 429, 503)
        if not response.body:
            self.fault(f"gets {response.start} and no answer to {ask.id}")
        else:
            self.heard(response.body)

    def cut_short(self, ask: ClientRequest) -> None:
        """The stream ended in good order, and there was no answer in it."""
        self.fault(f"gets a stream without an answer to {ask.id}")
        self.lost(ask)

    def lost(self, ask: ClientRequest) -> None:
        """The connection is gone before the answer came."""
        if ask.fate is Fate.OPEN:
            self.world.note(self.name, "loses", ask.id)
            ask.fate = Fate.LOST

    def vanish(self) -> None:
        self.world.note(self.name, "vanishes")
        for ask in self.open_asks:
            ask.fate = Fate.LOST
        for visit in self.visits:
            visit.hang_up()


class SessionClient(HttpClient):
    """A legacy client."""

    def __init__(self, world: Environment, number: int, persona: Persona) -> None:
        super().__init__(world, number, persona)
        self.revision = persona.revision
        self.session: str | None = None
        self.listens = bool(number % 2)
        self._known_at = 0.0
        """When the gateway last knew its session."""
        self._opening = False
        self._queue: list[ClientRequest] = []
        self._listening = False

    def join(self) -> None:
        """Open a session."""
        if self._opening or self.session is not None:
            return
        self._opening = True
        identity = {"name": self.name, "version": "1"}
        about = {"capabilities": self.capabilities, "clientInfo": identity}
        ask = self.new_ask("initialize", {"protocolVersion": self.revision, **about})
        ask.on_answer = self._opened
        self.send(ask, {})

    def responded(self, ask: ClientRequest, response: Message) -> None:
        if ask.method == "initialize":
            self.session = response.fields.get("mcp-session-id")
        if response.status == 404 and ask.session == self.session:
            if self.patient and ask.fresh:
                self.fault("has lost its session, though nothing went wrong")
            self.session = None
        elif ask.session == self.session or ask.method == "initialize":
            self._known_at = self.world.now
        super().responded(ask, response)

    def drop(self) -> None:
        super().drop()
        if self._opening and not any(ask.method == "initialize" for ask in self.open_asks):
            self._opened({})

    def lost(self, ask: ClientRequest) -> None:
        super().lost(ask)
        if ask.method == "initialize":
            self._opened({})

    def _opened(self, message: Json) -> None:
        self._opening = False
        queue, self._queue = self._queue, []
        if "result" not in message:
            self.session = None
            for ask in queue:
                ask.fate = Fate.LOST
            return
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._listening = False
        for ask in queue:
            self._send(ask)

    @property
    def _named(self) -> dict[str, str]:
        named = {"Mcp-Session-Id": self.session or ""}
        if self.revision >= "2025-06-18":
            named["MCP-Protocol-Version"] = self.revision
        return named

    def _listen(self) -> None:
        raw = request("GET", PATH, {**self.fields, **self._named, "Accept": "text/event-stream"})
        session = self.session

        def part(part: Part) -> None:
            if isinstance(part, StreamEvent) and part.text:
                self.heard(part.text, session)

        def over() -> None:
            self._listening = False

        self._listening = True
        self.visit(raw, lambda found: over() if found is None else part(found), over)

    def _post(self, message: Json) -> None:
        """What has no answer."""
        if self.session is None:
            return

        def part(part: Part) -> None:
            if isinstance(part, Message) and part.status not in (202, 404):
                self.fault(f"posted {message.get('method', 'an answer')} and got {part.start}")

        self.visit(request("POST", PATH, {**self.fields, **self._named}, message), part)

    def begin(self, ask: ClientRequest) -> None:
        if self.session is None or self._opening:
            self._queue.append(ask)
            self.join()
        else:
            self._send(ask)

    def _send(self, ask: ClientRequest) -> None:
        if self.listens and not self._listening:
            self._listen()
        ask.fresh = self.world.now - self._known_at < self.idle_seconds - SWEEP_SECONDS
        ask.session = self.session
        self.send(ask, self._named)

    def cancel_ask(self, ask: ClientRequest) -> None:
        if ask in self._queue:
            self._queue.remove(ask)
            return
        method = "notifications/cancelled"
        self._post({"jsonrpc": "2.0", "method": method, "params": {"requestId": ask.id}})

    def reply(self, message: Json, session: str | None) -> None:
        if session == self.session:
            self.world.note(self.name, "answers", message)
            self._post(message)

    def resume(self) -> None:
        """Take up the stream of what was hung up on."""
        lost = (ask for ask in self.asks.values() if ask.fate is Fate.LOST and ask.last_event)
        ask = next(lost, None)
        if ask is None or ask.answers or self.session is None or ask.session != self.session:
            return
        self.world.note(self.name, "resumes", ask.id)
        ask.fate, ask.at = Fate.OPEN, self.world.now
        named = {**self.fields, **self._named, "Accept": "text/event-stream"}
        raw = request("GET", PATH, {**named, "Last-Event-ID": str(ask.last_event)})

        def part(part: Part) -> None:
            if isinstance(part, StreamEvent):
                self.happened(ask, part)
            elif part is None and ask.answers == 0:
                self.cut_short(ask)
            elif isinstance(part, Message) and not part.is_stream:
                self.lost(ask)

        self.visit(raw, part, lambda: self.lost(ask))

    def steal(self, victim: Client) -> None:
        """Use the session of somebody else."""
        if not isinstance(victim, SessionClient) or victim.session is None:
            return
        message = {"jsonrpc": "2.0", "id": "stolen", "method": "tools/list", "params": {}}
        fields = {**self.fields, "Mcp-Session-Id": victim.session}

        def part(part: Part) -> None:
            if isinstance(part, Message) and part.status not in (404, 503):
                self.fault(f"gets {part.start} with the session of {victim.name}")

        self.visit(request("POST", PATH, fields, message), part)

    def leave(self) -> None:
        """End the session; what is open ends with it."""
        if self.session is None or self._opening:
            return
        self.world.note(self.name, "leaves")
        for ask in self.open_asks:
            ask.fate = Fate.CANCELLED
        raw = request("DELETE", PATH, {**self.fields, **self._named})
        self.session = None
        self.visit(raw, lambda part: None)

    def vanish(self) -> None:
        super().vanish()
        self._opening = False
        self._queue.clear()
        self.session = None


class ModernClient(HttpClient):
    """A client without a session."""

    def join(self) -> None:
        """Nothing to do: each request stands alone."""

    def listen(self) -> None:
        ask = self.new_ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        ask.endless = True
        self.begin(ask)

    def steal(self, victim: Client) -> None:
        for stolen, result in victim.states[-1:]:
            params = {**stolen.params, "requestState": result.get("requestState", "")}
            ask = self.new_ask("tools/call", {**params, "inputResponses": {}})
            ask.on_answer = self._stole
            self.begin(ask)

    def _stole(self, message: Json) -> None:
        if "result" in message and not message["result"].get("isError"):
            self.fault(f"gets {message} with the state of somebody else's call")

    def begin(self, ask: ClientRequest) -> None:
        ask.params["_meta"] = {**ask.params.get("_meta", {}), **envelope(self)}
        if ask.on_answer is None and ask.nonce is not None:
            ask.on_answer = lambda message: come_back(self, ask, message)
        fields = {"MCP-Protocol-Version": MODERN, "Mcp-Method": ask.method}
        if "name" in ask.params:
            fields["Mcp-Name"] = ask.params["name"]
        self.send(ask, fields)

    def cancel_ask(self, ask: ClientRequest) -> None:
        """To hang up is to cancel."""
        if ask.give_up is not None:
            ask.give_up()

    def leave(self) -> None:
        self.vanish()
