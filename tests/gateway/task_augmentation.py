"""A call that may become a task, and what becomes of it."""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from anyport.catalog.offers import Listing, Offer
from anyport.gateway.calls.call import Call
from anyport.gateway.tasks.augment import TaskAugmentation, task_augmentation
from anyport.protocol.exchange import Answered, Caller, Ending, Question
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era
from anyport.upstream.pending_call import Answer
from anyport.upstream.server import Server
from anyport.wire.jsonrpc import Result
from tests.gateway.fakes import Asked
from tests.gateway.task_rig import TaskRig, TaskServer, in_session, told
from tests.upstream.fakes import Message

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
ENVELOPE: Message = {"_meta": {CAPABILITIES: {}}}


class FakeCall:
    """A call that writes down what becomes of it."""

    def __init__(self, rig: TaskRig, by: Caller, params: Message) -> None:
        self.asked = Asked("tools/call", {"name": "brew", **params}, by)
        self.exchange = self.asked.exchange
        self.server: Server = rig.server
        self.sent: list[Any] = []
        self.concluded: list[Answer] = []
        self.endings: list[Ending] = []
        self.questions: list[Question] = []
        self.reports: list[bytes] = []
        self.hearing: Callable[[Sequence[bytes]], None] | None = None
        self.seated = False
        self.left = 0

    def on_task_created(self) -> None:
        pass

    def send_request(self, params: bytes) -> None:
        self.sent.append(json.loads(params))

    def on_task_ended(self, answer: Answer) -> None:
        self.concluded.append(answer)

    def finish(self, ending: Ending) -> None:
        self.endings.append(ending)

    def ask_client(self, question: Question) -> None:
        self.questions.append(question)

    def on_progress(self, reports: Sequence[bytes]) -> None:
        self.reports += reports

    def subscribe_progress(
        self, report: Callable[[Sequence[bytes]], None]
    ) -> Callable[[], object] | None:
        self.hearing = report
        return self._deaf

    def transfer_exclusive(self) -> Callable[[], None] | None:
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

    def __init__(self, rig: TaskRig, by: Caller, support: str | None = None, **params: Any) -> None:
        self.rig = rig
        offer(rig.server, support)
        self.call = FakeCall(rig, by, params)
        turn = task_augmentation(
            rig.tasks, cast(Call, self.call), rig.profile, rig.server.connection, "brew"
        )
        assert isinstance(turn, TaskAugmentation), turn
        self.turn = turn
        raw = json.dumps({**params, **ENVELOPE}).encode()
        self.params = json.loads(turn.request_params(raw))

    def take(self, **result: Any) -> bool:
        return self.turn.take_task(Result(b"1", json.dumps(result).encode()))

    def created(self, **more: Any) -> bool:
        """The server makes a task of it."""
        era = self.rig.server.era
        if era is Era.LEGACY:
            return self.take(task=told(era), **more)
        return self.take(resultType="task", **told(era), **more)


def offer(server: TaskServer, support: str | None) -> None:
    tool: Message = {"name": "brew"}
    if support is not None:
        tool["execution"] = {"taskSupport": support}
    server.listings[OfferKind.TOOLS] = Listing(offers=(Offer("brew", json.dumps(tool).encode()),))


def wishing() -> Caller:
    return in_session()[0]
