"""What simulated servers say, in the words of each era."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from tests.rig.simulation.call_plan import ELICIT, ROOTS, SAMPLE, Json, question
from tests.rig.simulation.servers import Question, Say, ServerCall, ServerSession, SimServer

MODERN: Final = "2026-07-28"
VERSION: Final = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
FRESH: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
CAPABILITY: Final = {ELICIT: "elicitation", SAMPLE: "sampling", ROOTS: "roots"}


def open_session(server: SimServer) -> ServerSession:
    """A new conversation of a server."""
    talk = (
        ModernServerSession(server)
        if server.traits.era == "modern"
        else LegacyServerSession(server)
    )
    server.talks.append(talk)
    return talk


def refuse(message: Json, say: Say, code: int = -32601) -> None:
    """Answer that something is not known here."""
    error = {"code": code, "message": "Method not found"}
    say({"jsonrpc": "2.0", "id": message["id"], "error": error})


class LegacyServerSession(ServerSession):
    """With a handshake, and questions that are requests."""

    def __init__(self, server: SimServer) -> None:
        super().__init__(server)
        self.capabilities: Json = {}
        self.ready = False
        self.speak: Say = lambda message: None
        """For what belongs to no request."""
        self._last = 0

    def asked(self, method: str, message: Json, say: Say) -> None:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "initialize":
            self.capabilities = message["params"]["capabilities"]
            identity = {"name": self.server.slug, "version": "1"}
            told = {"tools": {"listChanged": True}}
            revision = self.server.traits.revision
            result = {"protocolVersion": revision, "capabilities": told, "serverInfo": identity}
            say({**answer, "result": result})
        elif method == "ping":
            say({**answer, "result": {}})
        elif method == "tools/list":
            say({**answer, "result": {"tools": self.server.tool_list()}})
        elif method == "tools/call":
            work = self.work_on(message, say)
            self.count(work.nonce)
            work.begin(self._script(work))
        elif method == "server/discover" and self.server.traits.probe == "dies":
            self.die(1)
        elif method != "server/discover" or self.server.traits.probe == "refuses":
            refuse(message, say)

    def notified(self, method: str) -> None:
        if method == "notifications/initialized":
            self.ready = True
            if self.server.traits.wants_roots and "roots" in self.capabilities:
                self._put(None, ROOTS, self.speak)

    def changed(self) -> None:
        if self.ready and not self.ended:
            method = "notifications/tools/list_changed"
            self.speak({"jsonrpc": "2.0", "method": method})

    def _script(self, work: ServerCall) -> Generator[float | str, Json | None, None]:
        plan = work.plan
        for _ in range(plan.reports):
            yield plan.pause
            work.report()
        for method in plan.asks:
            if CAPABILITY[method] in self.capabilities or self.server.traits.rude:
                yield plan.pause
                yield method
        yield plan.delay
        work.end()

    def ask(self, work: ServerCall, method: str) -> None:
        self.server.asked_of.add(work.nonce)
        self._put(work, method, work.say)

    def _put(self, work: ServerCall | None, method: str, say: Say) -> None:
        self._last += 1
        id = f"q{self._last}"
        self.questions[id] = Question(work, method, at=self.world.now)
        params = {} if work is None else question(method, work.nonce)
        say({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answered(self, message: Json) -> None:
        question = self.questions.get(message.get("id"))
        if question is None or question.answered:
            words = "that it did not ask" if question is None else "a second time"
            self.world.fault(f"{self.server.slug} was answered a question {words}")
            return
        question.answered = True
        self.check(question, message.get("result") or {})
        if question.work is not None:
            question.work.go_on(message)


@dataclass(slots=True)
class Listener:
    """Somebody who wants to hear of changes."""

    id: Any
    say: Say


class ModernServerSession(ServerSession):
    """Without a handshake; questions are answers to be come back with."""

    def __init__(self, server: SimServer) -> None:
        super().__init__(server)
        self.listeners: dict[Any, Listener] = {}

    def asked(self, method: str, message: Json, say: Say) -> None:
        if message.get("params", {}).get("_meta", {}).get(VERSION) != MODERN:
            refuse(message, say, -32602 if method != "initialize" else -32601)
            return
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "server/discover":
            told = {"supportedVersions": [MODERN], "capabilities": {"tools": {"listChanged": True}}}
            say({**answer, "result": {**FRESH, **told}})
        elif method == "tools/list":
            say({**answer, "result": {**FRESH, "tools": self.server.tool_list()}})
        elif method == "tools/call":
            self._call(message, say)
        elif method == "subscriptions/listen":
            listener = self.listeners[message["id"]] = Listener(message["id"], say)
            self._tell(
                listener, "subscriptions/acknowledged", notifications={"toolsListChanged": True}
            )
        else:
            refuse(message, say)

    def cancelled(self, id: Any) -> None:
        super().cancelled(id)
        self.listeners.pop(id, None)

    def _call(self, message: Json, say: Say) -> None:
        work = self.work_on(message, say)
        params = message["params"]
        state = params.get("requestState")
        round = 0
        if state is None:
            self.count(work.nonce)
        else:
            nonce, _, number = state.partition("/")
            round = int(number)
            if nonce != work.nonce:
                self.world.fault(f"the state of {nonce} came back with the call {work.nonce}")
            for key, answer in (params.get("inputResponses") or {}).items():
                self.check(Question(work, key), answer)
        work.begin(self._script(work, round, params["_meta"]))

    def _script(
        self, work: ServerCall, round: int, about: Json
    ) -> Generator[float | str, Json | None, None]:
        plan = work.plan
        declared = about.get("io.modelcontextprotocol/clientCapabilities", {})
        asks = [method for method in plan.asks if CAPABILITY[method] in declared]
        for _ in range(plan.reports):
            yield plan.pause
            work.report()
        if round < len(asks):
            self.server.asked_of.add(work.nonce)
            method = asks[round]
            entry = {"method": method, "params": question(method, work.nonce)}
            state = f"{work.nonce}/{round + 1}"
            result = {"inputRequests": {f"k{round}": entry}, "requestState": state}
            result["resultType"] = "input_required"
            work.say({"jsonrpc": "2.0", "id": work.id, "result": result})
            return
        yield plan.delay
        work.end()

    def complete(self, result: Json) -> Json:
        return {"resultType": "complete", **result}

    def answered(self, message: Json) -> None:
        self.world.fault(f"{self.server.slug} was answered, and had not asked")

    def changed(self) -> None:
        if not self.ended:
            for listener in self.listeners.values():
                self._tell(listener, "tools/list_changed")

    def _tell(self, listener: Listener, what: str, **more: Any) -> None:
        params = {"_meta": {SUBSCRIPTION: listener.id}, **more}
        method = f"notifications/{what}"
        listener.say({"jsonrpc": "2.0", "method": method, "params": params})
