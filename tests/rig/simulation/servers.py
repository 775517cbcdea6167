"""Simulated MCP servers, of both eras: they do with each call what its plan says.

They also watch: over the ids of the gateway's requests, over answers that belong to no question
of theirs, over answers of somebody else, over calls that come a second time. How a conversation
travels is not known here; see `stdio_server`.
"""

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tests.rig.simulation.call_plan import NONCE, Json, Plan
from tests.rig.simulation.environment import Environment
from tests.rig.simulation.processes import Process

Say = Callable[[Json | bytes], None]
"""Sends a message, or raw bytes that are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a server is like."""

    era: Literal["legacy", "modern"] = "legacy"
    revision: str = "2025-11-25"
    probe: Literal["refuses", "dies", "is silent"] = "refuses"
    """What a legacy server makes of a question that it does not know."""
    start_seconds: float = 0.0
    """Before it reads anything."""
    leaves: Literal["at once", "late", "never"] = "at once"
    """When it is asked to."""
    missing_share: float = 0.0
    """How often it cannot be started."""
    rude: bool = False
    """It asks clients that did not say they could be asked."""
    wants_roots: bool = False
    """It asks for roots as soon as it may."""


class SimServer:
    """One server of the configuration, whatever number of conversations it has."""

    def __init__(self, world: Environment, slug: str, traits: Traits) -> None:
        self.world = world
        self.slug = slug
        self.traits = traits
        self.chance = world.chance(slug)
        self.tools = ["work"]
        self.talks: list[ServerSession] = []
        self.processes: list[Process] = []
        self.begun: Counter[str] = Counter()
        """How often each call was begun, by nonce."""
        self.asked_of: set[str] = set()
        """Calls about which a client was asked something."""

    def grow(self) -> None:
        """Offer one tool more, and say so."""
        self.tools.append(f"work{len(self.tools)}")
        for talk in self.talks:
            talk.changed()

    def tool_list(self) -> list[Json]:
        """What it offers."""
        schema = {"type": "object", "properties": {"nonce": {"type": "string"}}}
        return [{"name": name, "inputSchema": schema} for name in self.tools]


@dataclass(slots=True, eq=False)
class ServerCall:
    """One call that a server works on."""

    talk: "ServerSession"
    id: Any
    nonce: str
    plan: Plan
    say: Say
    token: Any = None
    over: bool = False
    reported: int = 0
    script: Generator[float | str, Json | None, None] | None = None

    def begin(self, script: Generator[float | str, Json | None, None]) -> None:
        """Work through a script: it yields seconds to wait, or a method to ask."""
        self.script = script
        self.go_on(None)

    def go_on(self, answer: Json | None) -> None:
        """One step more."""
        if self.over or self.script is None:
            return
        try:
            wish = self.script.send(answer)
        except StopIteration:
            self.over = True
            self.talk.open.pop(self.id, None)
            return
        if isinstance(wish, str):
            self.talk.ask(self, wish)
        else:
            self.talk.world.loop.call_later(wish, self.go_on, None)

    def report(self) -> None:
        """Tell how far it is, if anybody wants to know."""
        self.reported += 1
        if self.token is not None:
            told = {"progressToken": self.token, "progress": self.reported, "message": self.nonce}
            self.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})

    def result(self, text: str | None = None, **more: Any) -> Json:
        """A good answer."""
        content = [{"type": "text", "text": self.nonce if text is None else text}]
        result = {"content": content, **more}
        return {"jsonrpc": "2.0", "id": self.id, "result": self.talk.complete(result)}

    def end(self) -> None:
        """As the plan says."""
        match self.plan.ending:
            case "error":
                error = {"code": -32050, "message": f"no {self.nonce}"}
                self.say({"jsonrpc": "2.0", "id": self.id, "error": error})
            case "is-error":
                self.say(self.result(isError=True))
            case "spoiled":
                id = msgspec.json.encode(self.id)
                self.say(b'{"jsonrpc":"2.0","id":%b,"result":{"x":\n' % id)
            case "crash":
                self.talk.die(1)
            case "never":
                pass
            case _:
                self._succeed()

    def _succeed(self) -> None:
        """Well, but not always that alone."""
        ending = self.plan.ending
        if ending == "noise":
            self.say(b"this is not JSON\n")
            self.say(b"\xff\xfe{}\n")
        elif ending == "stray":
            self.say({"jsonrpc": "2.0", "id": 987654, "result": {}})
        self.say(self.result())
        if ending == "twice":
            self.say(self.result("again"))
        elif ending == "parting":
            self.talk.die(0)


@dataclass(slots=True)
class Question:
    """One that a server has asked."""

    work: ServerCall | None
    method: str
    answered: bool = False
    at: float = 0.0


class ServerSession:
    """One conversation with the gateway."""

    def __init__(self, server: SimServer) -> None:
        self.server = server
        self.world = server.world
        self.open: dict[Any, ServerCall] = {}
        self.questions: dict[Any, Question] = {}
        self.die: Callable[[int], None] = lambda code: None
        """What carries it ends it."""
        self.ended = False
        self._ids: set[Any] = set()

    def receive(self, message: Json, say: Say) -> None:
        """Take one message of the gateway's."""
        method = message.get("method")
        if method is None:
            self.answered(message)
            return
        if "id" not in message:
            if method == "notifications/cancelled":
                self.cancelled(message["params"].get("requestId"))
            else:
                self.notified(method)
            return
        if message["id"] in self._ids:
            self.world.fault(f"{self.server.slug} was asked twice under one id")
        self._ids.add(message["id"])
        self.asked(method, message, say)

    def cancelled(self, id: Any) -> None:
        """The gateway does not want an answer any more."""
        work = self.open.pop(id, None)
        if work is not None:
            work.over = True

    def close(self) -> None:
        """What carried it is gone."""
        self.ended = True
        for work in self.open.values():
            work.over = True
        self.open.clear()
        self.questions.clear()

    def work_on(self, message: Json, say: Say) -> ServerCall:
        """A call has come; it must be a new one."""
        params = message["params"]
        arguments = params["arguments"]
        plan = msgspec.convert(arguments.get("plan", {}), Plan)
        token = params.get("_meta", {}).get("progressToken")
        work = ServerCall(self, message["id"], arguments["nonce"], plan, say, token)
        self.open[work.id] = work
        return work

    def count(self, nonce: str) -> None:
        """Nothing here may safely be done twice, so nobody may try."""
        self.server.begun[nonce] += 1
        if self.server.begun[nonce] > 1:
            self.world.fault(f"{self.server.slug} was sent the call {nonce} again")

    def asked(self, method: str, message: Json, say: Say) -> None:
        """A request."""
        raise NotImplementedError

    def notified(self, method: str) -> None:
        """A notification that is no cancellation."""

    def answered(self, message: Json) -> None:
        """An answer to a question."""
        raise NotImplementedError

    def ask(self, work: ServerCall, method: str) -> None:
        """Ask the client something about a call."""
        raise NotImplementedError

    def complete(self, result: Json) -> Json:
        """A result, as this era has it."""
        return result

    def changed(self) -> None:
        """The list of tools has changed."""

    def check(self, question: Question, answer: Json) -> None:
        """The answer must come from the client whose call it is about."""
        if question.work is None:
            return
        client = NONCE.match(question.work.nonce.encode())
        for other in NONCE.finditer(msgspec.json.encode(answer)):
            if client is None or other[1] != client[1]:
                words = f"about {question.work.nonce}, client {other[1].decode()} has answered"
                self.world.fault(f"{self.server.slug} asked {question.method} {words}")
