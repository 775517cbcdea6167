"""A server of the configuration on fakes, with an owner that writes down all it is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anyport.config.model import ServerConfig
from anyport.protocol.errors import Timeout
from anyport.protocol.methods import OfferKind
from anyport.upstream.connection import Connection, Noise, OwnRequest
from anyport.upstream.lease_key import LeaseKey
from anyport.upstream.pending_call import Answer
from anyport.upstream.server import Server
from anyport.upstream.transport import UpstreamContext
from anyport.wire.jsonrpc import Notification, Request
from tests.upstream.fakes import FakeClock, FakeSpawner, Script, run, until

CONFIG = ServerConfig(slug="s", name="s", command="server", timeout_seconds=5.0)
MINE = LeaseKey(owner="mine", capabilities=b'{"roots":{}}')


class Scene:
    """A server of the configuration on fakes."""

    def __init__(
        self, *scripts: Script | str, config: ServerConfig = CONFIG, sole: bool = True
    ) -> None:
        self.spawner = FakeSpawner(*scripts)
        self.clock = FakeClock(100.0)
        self.story: list[tuple[str, object]] = []
        self.owner = _Recorder(self.story)
        context = UpstreamContext(
            clock=self.clock,
            spawner=self.spawner.spawner,
            client_info=b"{}",
            environ={},
            single_client=sole,
        )
        self.server = Server(config, context, self.owner)

    def count(self, what: str) -> int:
        return sum(kind == what for kind, _ in self.story)

    async def listed(self, times: int = 1) -> None:
        await until(lambda: self.count("listed") >= times)

    @property
    def tools(self) -> list[str]:
        return [offer.native for offer in self.server.listings[OfferKind.TOOLS].offers]


class _Recorder:
    """An owner that writes everything down."""

    def __init__(self, story: list[tuple[str, object]]) -> None:
        self._story = story
        self.relied: set[LeaseKey] = set()
        """The connections that clients rely on."""

    def on_lists_read(self, server: Server, changed: frozenset[OfferKind]) -> None:
        self._story.append(("listed", changed))

    def on_connection_lists_read(self, server: Server, *, changed: bool) -> None:
        self._story.append(("listed apart", changed))

    def on_session_moved(self, server: Server, session: str) -> None:
        self._story.append(("moved", session))

    def on_connection_ready(self, server: Server, key: LeaseKey) -> None:
        self._story.append(("started", key))

    def on_list_changed(
        self, server: Server, key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        """It comes with the lists that are read then."""

    def on_connection_failed(self, server: Server, reason: str) -> None:
        self._story.append(("failed", reason))

    def on_connection_closed(self, server: Server, reason: str) -> None:
        self._story.append(("stopped", server.slug))

    def on_ejected(self, server: Server, reason: str, failures: int, seconds: float) -> None:
        self._story.append(("ejected", reason))

    def on_restored(self, server: Server, seconds: float) -> None:
        self._story.append(("restored", seconds))

    def on_idle_stop(self, server: Server, seconds: float) -> None:
        self._story.append(("rested", server.slug))

    def is_relied_on(self, server: Server, key: LeaseKey, connection: Connection | None) -> bool:
        return key in self.relied

    def on_request(
        self, server: Server, key: LeaseKey, connection: Connection, request: Request
    ) -> None:
        self._story.append(("asked", (key, request.method)))

    def on_notification(
        self, server: Server, key: LeaseKey, connection: Connection, notification: Notification
    ) -> None:
        self._story.append(("told", (key, notification.method)))

    def on_connection_lost(self, server: Server, connection: Connection) -> None:
        self._story.append(("lost", connection))

    def on_noise(self, server: Server, noise: Noise, reason: str) -> None:
        self._story.append(("garbled", noise))

    def on_own_request(
        self, server: Server, peer: Any, request: OwnRequest, answer: Answer, seconds: float
    ) -> None: ...

    def on_timeout(self, server: Server, timeout: Timeout) -> None: ...

    def on_stderr(self, server: Server, lines: list[str]) -> None:
        self._story.append(("wrote", lines))


def play(scene: Callable[[], Coroutine[Any, Any, Scene]]) -> None:
    async def whole() -> None:
        played = await scene()
        await played.server.stop()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    run(whole)
