"""A gateway of fakes, and the sender of a request who remembers the answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from anyport.config.schema import TelemetryConfig
from anyport.gateway.admission import Admission
from anyport.gateway.api.around import Around
from anyport.gateway.changes import Changes
from anyport.gateway.events import Events
from anyport.gateway.feed import Feed
from anyport.gateway.hooks import Hooks
from anyport.gateway.metrics import Metrics
from anyport.gateway.profile import Profile
from anyport.gateway.relay import Relay
from anyport.gateway.reload import Reload, Unfit
from anyport.gateway.telemetry import Telemetry
from anyport.ingress.http.reply import Fields
from anyport.protocol.principal import LOCAL, Principal
from anyport.record.journal import Journal
from anyport.upstream.server import Server
from anyport.wire.http import RequestHead
from tests.gateway.fakes import FakeServer, profile_of

DEADLINE_SECONDS = 20.0
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


class FakeGateway:
    """Servers that never start, a journal on disk, numbers that stand still."""

    def __init__(self, path: Path, *servers: FakeServer, **profile: Any) -> None:
        self.draining = False
        self.now = 1000.0
        self.journal = Journal(path, source="test", clock=lambda: NOON, redact=str)
        self.events = Events(path, self.journal)
        self.metrics = Metrics(lambda: self.now)
        self.relay = cast(
            Relay,
            SimpleNamespace(
                deadlines=[],
                retries=SimpleNamespace(repeated={}),
                admission=Admission(),
            ),
        )
        self.feed = cast(Feed, SimpleNamespace(sessions={}))
        self.hooks = cast(Hooks, SimpleNamespace(posting=False, report=dict))
        self.telemetry = Telemetry(TelemetryConfig(), {}, lambda: 0.0, print)
        self.servers: dict[str, Server] = {server.slug: server for server in servers}
        self.profiles: dict[str, Profile] = {"default": profile_of(*servers, **profile)}
        self.reported: list[BaseException] = []
        self.reloaded: Changes | Unfit = Changes(added=("new",))
        self.reload = cast(Reload, SimpleNamespace(run=self._reload))
        self.group: asyncio.TaskGroup | None = None

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        assert self.group is not None
        self.group.create_task(self._guarded(work), name=name)

    async def _reload(self) -> Changes:
        if isinstance(self.reloaded, Unfit):
            raise self.reloaded
        return self.reloaded

    def close(self) -> None:
        self.events.close()
        self.journal.close()

    def play(self, scene: Callable[["Visit"], Awaitable[None]]) -> None:
        """Play a scene with a visitor of this gateway; every task has ended after it."""

        async def whole() -> None:
            async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
                self.group = group
                await scene(Visit(self))

        asyncio.run(whole())

    def get(self, target: str, method: str = "GET") -> FakeReply:
        """The whole answer to one request."""
        replies: list[FakeReply] = []

        async def scene(visit: "Visit") -> None:
            replies.append(await visit.get(target, method))

        self.play(scene)
        return replies[0]

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - a test looks at it
            self.reported.append(error)


class Visit:
    """Someone who asks for what is not MCP."""

    def __init__(self, gateway: FakeGateway) -> None:
        self.gateway = gateway
        self.around = Around(gateway)

    def begin(self, target: str, method: str = "GET") -> FakeReply:
        reply = FakeReply()
        self.around(request(target, method), b"", reply)
        return reply

    async def get(self, target: str, method: str = "GET") -> FakeReply:
        reply = self.begin(target, method)
        await until(lambda: reply.finished)
        assert reply.answers == 1
        return reply
