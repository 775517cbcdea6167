"""A call without a client, for tests that need no process."""

import itertools

from anyport.demo.brew import Brew
from anyport.demo.calls import Call, Question, Request, World
from anyport.demo.faults import NeedsClient
from anyport.demo.options import Options
from anyport.demo.revisions import REVISIONS, Json
from anyport.demo.tasks import Tasks


def new_tasks(now: float = 0.0) -> Tasks:
    """Numbered ones, in a world without time."""
    numbers = itertools.count(1)
    return Tasks(lambda: f"task-{next(numbers)}", lambda: now)


class FakeCall(Call):
    """Keeps what it is told to send, and answers no question."""

    def __init__(
        self,
        revision: str = "2025-11-25",
        params: Json | None = None,
        log_level: str | None = None,
        options: Options | None = None,
    ) -> None:
        self.sent: list[Json] = []
        request = Request(identity=1, method="tools/call", params=params or {})
        world = World(options or Options(), {}, new_tasks)
        super().__init__(world, REVISIONS[revision], self.sent.append, request, log_level)

    @property
    def capabilities(self) -> Json:
        return {}

    def starts_task(self, support: str) -> bool:
        return False

    def start_task(self, brew: Brew) -> Json:
        raise NotImplementedError

    async def ask(self, question: Question) -> Json:
        raise NotImplementedError

    def complete(self, result: Json) -> Json:
        return result

    def without_client(self, need: NeedsClient) -> Json:
        raise need
