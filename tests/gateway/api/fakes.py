"""A gateway of fakes, and the sender of a request who remembers the answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from anyport.clock import Clock
from anyport.config.model import TelemetryConfig
from anyport.gateway.api.router import ApiRouter
from anyport.gateway.calls.admission import Admission
from anyport.gateway.config_diff import ConfigDiff
from anyport.gateway.gateway import Gateway
from anyport.gateway.hooks.hooks import Hooks
from anyport.gateway.local.event_queries import EventQueries
from anyport.gateway.local.notifications import Notifications
from anyport.gateway.profile import Profile
from anyport.gateway.relay import Relay
from anyport.gateway.reload import Reload, ReloadRefused
from anyport.ingress.http.responder import Fields
from anyport.observe.metrics import Metrics
from anyport.observe.telemetry import Telemetry
from anyport.protocol.principal import LOCAL, Principal
from anyport.record.journal.journal import Journal
from anyport.upstream.server import Server
from anyport.wire.http1 import RequestHead
from tests.gateway.fakes import FakeServer, profile_of
from tests.record.story import ManualClock

DEADLINE_SECONDS = 60.0
NOON = 1_785_240_000.0


class FakeReply:
    """The way back; everything is taken at once unless a test says otherwise."""

    def __init__(self) -> None:
        self.principal: Principal = LOCAL
        self.on_closed: Callable[[], None] | None = None
        self.unsent_bytes = 0
        self.status = 0
        self.fields: dict[str, str] = {}
        self.body = b""
        self.answers = 0
        self.finished = False

    def answer(self, status: int, body: bytes = b"", fields: Fields = ()) -> None:
        self.start(status, fields)
        self.body = body
        self.finished = True

    def start(self, status: int, fields: Fields) -> None:
        self.answers += 1
        self.status, self.fields = status, dict(fields)

    def write(self, *pieces: bytes) -> None:
        self.body += b"".join(pieces)

    def finish(self) -> None:
        self.finished = True

    def leave(self) -> None:
        """The client goes away."""
        assert self.on_closed is not None
        self.on_closed()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(target: str, method: str = "GET", *fields: tuple[str, str]) -> RequestHead:
    return RequestHead(
        method=method,
        target=target,
        fields=(("host", "localhost"), *fields),
        body_length=0,
        keep_alive=True,
        expects_continue=False,
    )


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not true():
            await asyncio.sleep(0.001)


class ReportingClock(Clock):
    """Runs tasks in the group of a scene; what breaks is for a test to look at."""

    def __init__(self, reported: list[BaseException]) -> None:
        super().__init__(reported.append)
        self.group: asyncio.TaskGroup | None = None

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self.group is not None
        self.group.create_task(self._run_reported(work), name=name)


class FakeGateway(Gateway):
    """Servers that never start, a journal on disk, numbers that stand still."""

    def __init__(self, path: Path, *servers: FakeServer, **profile: Any) -> None:
        self.draining = False
        self.now = 1000.0
        self.journal = Journal(path, source="test", now=lambda: NOON, redact=str)
        self.events = EventQueries(path, self.journal)
        self.metrics = Metrics(lambda: self.now)
        self.relay = cast(
            Relay,
            SimpleNamespace(
                calls=[],
                retry_budgets=SimpleNamespace(retried_counts={}),
                admission=Admission(),
            ),
        )
        self.notifications = cast(Notifications, SimpleNamespace(sessions={}))
        self.hooks = cast(Hooks, SimpleNamespace(has_post=False, report=dict))
        self.telemetry = Telemetry(TelemetryConfig(), {}, ManualClock(), print)
        self.servers: dict[str, Server] = {server.slug: server for server in servers}
        self.profiles: dict[str, Profile] = {"default": profile_of(*servers, **profile)}
        self.reported: list[BaseException] = []
        self.reloaded: ConfigDiff | ReloadRefused = ConfigDiff(added=("new",))
        self.reload = cast(Reload, SimpleNamespace(run=self._reload))
        self.clock: ReportingClock = ReportingClock(self.reported)

    async def _reload(self) -> ConfigDiff:
        if isinstance(self.reloaded, ReloadRefused):
            raise self.reloaded
        return self.reloaded

    def close(self) -> None:
        self.events.close()
        self.journal.close()

    def play(self, scene: Callable[["Visit"], Awaitable[None]]) -> None:
        """Play a scene with a visitor of this gateway; every task has ended after it."""

        async def whole() -> None:
            async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
                self.clock.group = group
                await scene(Visit(self))

        asyncio.run(whole())

    def get(self, target: str, method: str = "GET") -> FakeReply:
        """The whole answer to one request."""
        replies: list[FakeReply] = []

        async def scene(visit: "Visit") -> None:
            replies.append(await visit.get(target, method))

        self.play(scene)
        return replies[0]


class Visit:
    """Someone who asks for what is not MCP."""

    def __init__(self, gateway: FakeGateway) -> None:
        self.gateway = gateway
        self.around = ApiRouter(gateway)

    def begin(self, target: str, whose: Principal = LOCAL, method: str = "GET") -> FakeReply:
        reply = FakeReply()
        reply.principal = whose
        self.around(request(target, method), b"", reply)
        return reply

    async def get(self, target: str, method: str = "GET") -> FakeReply:
        reply = self.begin(target, method=method)
        await until(lambda: reply.finished)
        assert reply.answers == 1
        return reply
