"""A call that may become a task, and what becomes of it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from anyport.gateway.turn import Turn, turn_of
from anyport.protocol.exchange import Answered, Caller, Ending, Question
from anyport.protocol.method import Kind
from anyport.protocol.revision import Era
from anyport.routing.offers import Listing, Offer
from anyport.upstream.call import Answer
from anyport.upstream.server import Server
from anyport.wire.frame import Result
from tests.gateway.fakes import Asked
from tests.gateway.tasking import (
    House,
    Tasked,
    in_session,
    told,
)
from tests.upstream.fakes import Message

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
ENVELOPE: Message = {"_meta": {CAPABILITIES: {}}}


class FakeErrand:
    """A call that writes down what becomes of it."""

    def __init__(self, house: House, by: Caller, params: Message) -> None:
        self.asked = Asked("tools/call", {"name": "brew", **params}, by)
        self.exchange = self.asked.exchange
        self.server: Server = house.server
        self.sent: list[Any] = []
        self.concluded: list[Answer] = []
        self.endings: list[Ending] = []
        self.questions: list[Question] = []
        self.reports: list[bytes] = []
        self.hearing: Callable[[Sequence[bytes]], None] | None = None
        self.seated = False
        self.left = 0

    def ask(self, params: bytes) -> None:
        self.sent.append(json.loads(params))

    def conclude(self, answer: Answer) -> None:
        self.concluded.append(answer)

    def finish(self, ending: Ending) -> None:
        self.endings.append(ending)

    def put(self, question: Question) -> None:
        self.questions.append(question)

    def progressed(self, reports: Sequence[bytes]) -> None:
        self.reports += reports

    def hear(self, report: Callable[[Sequence[bytes]], None]) -> Callable[[], object] | None:
        self.hearing = report
        return self._deaf

    def keep_seat(self) -> Callable[[], None] | None:
        return self._leave if self.seated else None

    def _deaf(self) -> None:
        self.hearing = None

    def _leave(self) -> None:
        self.left += 1

    @property
    def result(self) -> Any:
        (ending,) = self.endings
        assert isinstance(ending, Answered), ending
        return json.loads(ending.result)


class Scene:
    """One call of a tool at a server with tasks."""

    def __init__(self, house: House, by: Caller, support: str | None = None, **params: Any) -> None:
        self.house = house
        offer(house.server, support)
        self.errand = FakeErrand(house, by, params)
        turn = turn_of(house.tasks, self.errand, house.profile, house.server.connection, "brew")
        assert isinstance(turn, Turn), turn
        self.turn = turn
        raw = json.dumps({**params, **ENVELOPE}).encode()
        self.params = json.loads(turn.params(raw))

    def take(self, **result: Any) -> bool:
        return self.turn.take(Result(b"1", json.dumps(result).encode()))

    def created(self, **more: Any) -> bool:
        """The server makes a task of it."""
        era = self.house.server.era
        if era is Era.LEGACY:
            return self.take(task=told(era), **more)
        return self.take(resultType="task", **told(era), **more)


def offer(server: Tasked, support: str | None) -> None:
    tool: Message = {"name": "brew"}
    if support is not None:
        tool["execution"] = {"taskSupport": support}
    server.listings[Kind.TOOLS] = Listing(offers=(Offer("brew", json.dumps(tool).encode()),))


def wishing() -> Caller:
    return in_session()[0]
