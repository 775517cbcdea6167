"""Simulated MCP clients: what they ask, how they treat what they are asked, and what they check.

A client knows everything it has asked for, so it can tell what it must not hear: an answer to
nothing, a second one, a word about a call that is not its own, progress of what is over. How its
messages travel is not known here; see `http_clients`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import msgspec

from anyport.config.model import ServerConfig
from tests.rig.simulation.call_plan import ROOTS, Json, Manner, Plan, answer, nonce_of, nonces_in
from tests.rig.simulation.environment import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """What a client is like."""

    modern: bool
    revision: str
    capabilities: Json
    principal: str


ALL: Final[Json] = {"elicitation": {}, "sampling": {}, "roots": {}}
LATE_SECONDS: Final = 20.0
"""What a client takes to answer that takes its time."""
GOOD: Final = frozenset({"result", "is-error", "twice", "noise", "stray", "parting"})
"""Endings of a plan after which a client can have a result of the server's."""


class Fate(Enum):
    """What became of a request."""

    OPEN = "open"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    """By the client; an answer that was under way may still come."""
    LOST = "lost"
    """The connection is gone on which the answer would have come."""


@dataclass(slots=True, eq=False)
class ClientRequest:
    """One request of a client's."""

    id: Any
    method: str
    at: float
    params: Json
    nonce: str | None = None
    number: int = 0
    plan: Plan = field(default_factory=Plan)
    server: str = ""
    manner: Manner = "accept"
    trace: str | None = None
    fate: Fate = Fate.OPEN
    answers: int = 0
    asked: bool = False
    """Whether the client was asked something about it."""
    took: float = 0.0
    seconds_max: float = 30.0
    """It must not take longer, unless somebody is asked."""
    endless: bool = False
    """It ends only when somebody ends it."""
    session: str | None = None
    fresh: bool = False
    """Whether that was in use not long ago."""
    last_event: str | None = None
    """The last event of its stream that has come."""
    turned_away: bool = False
    """It was refused before anybody looked at what it asks for."""
    surely: bool = False
    """Nothing is in its way: it must succeed."""
    on_answer: Callable[[Json], None] | None = None
    give_up: Callable[[], None] | None = None
    """Hangs up on it, where it has a connection to itself."""


def patience(config: ServerConfig | None, plan: Plan) -> float:
    """How long a call of this plan may take: what the configuration grants it, and a little."""
    if config is None:
        return 30.0
    own = min(config.timeout_seconds * (plan.reports + 1), config.timeout_seconds_max)
    return max(own, config.timeout_seconds) + config.queue_seconds + 15.0


class Client:
    """One client, of either era."""

    def __init__(self, world: Environment, number: int, persona: Persona) -> None:
        self.world = world
        self.principal = persona.principal
        self.number = number
        self.name = f"c{number}"
        self.capabilities = persona.capabilities
        self.chance = world.chance(self.name)
        self.asks: dict[Any, ClientRequest] = {}
        self.by_nonce: dict[int, ClientRequest] = {}
        self.answered_questions: set[Any] = set()
        self.changes = 0
        self.patient = False
        """It always answers."""
        self.returning = 0
        """Calls that it is about to make again, with what it was asked for."""
        self.idle_seconds = 0.0
        """How long the gateway keeps a session that nobody uses."""
        self.configs: Mapping[str, ServerConfig] = {}
        """How the gateway is configured: what it may take its time for."""
        self.states: list[tuple[ClientRequest, Json]] = []
        """What it was given to come back with, and for which calls."""
        self._calls = 0
        self._last = 0

    # What schedules make it do.

    def call(self, server: str, plan: Plan, manner: Manner, *, traced: bool, surely: bool) -> None:
        """Call a server's tool."""
        self._calls += 1
        nonce = nonce_of(self.number, self._calls)
        arguments: Json = {"nonce": nonce, "plan": msgspec.to_builtins(plan)}
        ask = self.new_ask("tools/call", {"name": f"{server}__work", "arguments": arguments})
        ask.nonce, ask.number, ask.plan = nonce, self._calls, plan
        ask.server, ask.manner, ask.surely = server, manner, surely
        ask.seconds_max = patience(self.configs.get(server), plan)
        ask.asked = ROOTS in plan.asks  # Nobody says for which call somebody asks for roots.
        self.by_nonce[ask.number] = ask
        about: Json = {"progressToken": ask.id} if plan.reports else {}
        if traced:
            ask.trace = f"{self.number:08x}{ask.number:024x}"
            about["traceparent"] = f"00-{ask.trace}-{1:016x}-01"
        if about:
            ask.params["_meta"] = about
        self.begin(ask)

    def list_tools(self) -> None:
        """Ask what there is."""
        self.begin(self.new_ask("tools/list", {}))

    def gateway_status(self) -> None:
        """Ask how it is doing."""
        self.begin(self.new_ask("tools/call", {"name": "gateway_status", "arguments": {}}))

    def listen(self) -> None:
        """Ask to be told of changes, where that is a request."""

    def resume(self) -> None:
        """Go on with what was hung up on, where that can be."""

    def steal(self, victim: "Client") -> None:
        """Come back with the state of somebody else's call."""

    def cancel(self) -> None:
        """Cancel what was asked first and has no answer."""
        ask = next((ask for ask in self.open_asks if ask.method == "tools/call"), None)
        if ask is not None:
            self.world.note(self.name, "cancels", ask.id)
            ask.fate = Fate.CANCELLED
            self.cancel_ask(ask)

    def drop(self) -> None:
        """Hang up on what was asked first and has no answer."""
        ask = next((ask for ask in self.open_asks if ask.give_up is not None), None)
        if ask is not None and ask.give_up is not None:
            self.world.note(self.name, "hangs up on", ask.id)
            ask.fate = Fate.LOST
            ask.give_up()

    @property
    def open_asks(self) -> list[ClientRequest]:
        """What has no answer yet, and should get one."""
        asks = self.asks.values()
        return [ask for ask in asks if ask.fate is Fate.OPEN and not ask.endless]

    @property
    def busy(self) -> bool:
        """Whether it waits for something, or is about to."""
        return bool(self.open_asks or self.returning)

    # What the ways of travelling fill in.

    def begin(self, ask: ClientRequest) -> None:
        """Send a request."""
        raise NotImplementedError

    def cancel_ask(self, ask: ClientRequest) -> None:
        """Tell the gateway that its answer is not wanted."""
        raise NotImplementedError

    def reply(self, message: Json, session: str | None) -> None:
        """Send an answer to a question of this session."""
        raise NotImplementedError

    def join(self) -> None:
        """Come, or come back."""
        raise NotImplementedError

    def leave(self) -> None:
        """Go, politely."""
        raise NotImplementedError

    def vanish(self) -> None:
        """Go without a word."""
        raise NotImplementedError

    # What comes.

    def new_ask(self, method: str, params: Json) -> ClientRequest:
        """A request that is about to be sent."""
        self._last += 1
        id: Any = self._last if self._last % 3 else f"r{self._last}"
        ask = self.asks[id] = ClientRequest(id, method, self.world.now, params)
        return ask

    def heard(self, raw: bytes, session: str | None = None) -> None:
        """One message of the gateway's, in one of its sessions."""
        for client, _ in nonces_in(raw):
            if client != self.number:
                self.fault(f"hears what belongs to client {client}: {raw[:200]!r}")
        message = msgspec.json.decode(raw)
        method = message.get("method")
        if method is None:
            self._answered(message, raw)
        elif "id" in message:
            self._asked(message, raw, session)
        elif method == "notifications/progress":
            self._progressed(message["params"])
        elif method.endswith("list_changed"):
            self.changes += 1

    def fault(self, words: str) -> None:
        """Something came that must not."""
        self.world.fault(f"{self.name} {words}")

    def _answered(self, message: Json, raw: bytes) -> None:
        ask = self.asks.get(message.get("id"))
        if ask is None:
            self.fault(f"gets an answer to nothing: {raw[:200]!r}")
            return
        ask.answers += 1
        if ask.answers > 1:
            self.fault(f"gets a second answer to {ask.id}: {raw[:200]!r}")
            return
        ask.took = self.world.now - ask.at
        self.world.note(self.name, "gets", raw.decode("utf-8", "replace"))
        if ask.fate is Fate.OPEN:
            ask.fate = Fate.ANSWERED
        self._check(ask, message, raw)
        if ask.on_answer is not None:
            ask.on_answer(message)

    def _check(self, ask: ClientRequest, message: Json, raw: bytes) -> None:
        """The answer must be about this very call, and one that its server can have given."""
        named = {number for _, number in nonces_in(raw)}
        if named - {ask.number}:
            self.fault(f"gets the answer of {named} for {ask.nonce}")
        result = message.get("result")
        good = result is not None and not result.get("isError")
        if ask.nonce is None or ask.fate is Fate.CANCELLED:
            return
        asks_back = result is not None and result.get("resultType") == "input_required"
        if good and not asks_back and (not named or ask.plan.ending not in GOOD):
            self.fault(f"gets a result that nobody gave, for {ask.nonce}: {raw[:200]!r}")
        sure = ask.surely and not ask.turned_away
        if sure and not good and ask.plan.ending == "result":
            self.fault(f"gets no result for {ask.nonce}, though nothing went wrong: {raw[:300]!r}")

    def _progressed(self, params: Json) -> None:
        ask = self.asks.get(params.get("progressToken"))
        if ask is None:
            self.fault(f"hears of progress of nothing: {params}")
        elif ask.fate is Fate.ANSWERED:
            self.fault(f"hears of progress of {ask.id}, which is over")
        elif params.get("message") != ask.nonce:
            self.fault(f"hears of progress of {params} in place of {ask.nonce}")

    def _asked(self, message: Json, raw: bytes, session: str | None) -> None:
        """A question, of a legacy client."""
        self.world.note(self.name, "is asked", raw.decode("utf-8", "replace"))
        if (session, message["id"]) in self.answered_questions:
            self.fault(f"is asked twice under one id: {raw[:200]!r}")
        self.answered_questions.add((session, message["id"]))
        ask = self.questioned(raw)
        manner = ask.manner if ask is not None else self._manner()
        for waiting in self.open_asks if ask is None else ():
            waiting.asked = True  # It may be about any of them, and their time stands still.
        nonce = None if ask is None else ask.nonce
        method, id = message["method"], message["id"]
        if manner == "never":
            return
        told: Json = {"jsonrpc": "2.0", "id": id}
        if manner == "error":
            told["error"] = {"code": -1, "message": "the person does not want to"}
        else:
            told["result"] = answer(method, self.number, nonce, accept=manner != "decline")
        delay = LATE_SECONDS if manner == "late" else self.chance.random()
        times = 2 if manner == "twice" else 1
        for _ in range(times):
            self.world.loop.call_later(delay, self.reply, told, session)

    def _manner(self) -> Manner:
        """How it treats a question that does not say which call it is about."""
        return "accept" if self.patient or self.chance.random() < 0.5 else "never"

    def questioned(self, raw: bytes) -> ClientRequest | None:
        """Which call a question is about."""
        for _, number in nonces_in(raw):
            ask = self.by_nonce.get(number)
            if ask is not None:
                ask.asked = True
                if "elicitation" not in self.capabilities and b"elicitation/create" in raw:
                    self.fault("is asked what it did not say it could answer")
                return ask
        return None
