"""A server of the configuration on fakes, with an owner that writes down all it is told."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from anyport.config.schema import ServerConfig
from anyport.protocol.method import Kind
from anyport.upstream.connection import Connection
from anyport.upstream.hearer import Noise
from anyport.upstream.key import LeaseKey
from anyport.upstream.road import Surroundings
from anyport.upstream.server import Server
from anyport.upstream.setting import Setting
from anyport.wire.frame import Notification, Request
from tests.upstream.fakes import FakeWarden, Script, run, until

CONFIG = ServerConfig(slug="s", name="s", command="server", timeout_seconds=5.0)
MINE = LeaseKey(owner="mine", capabilities=b'{"roots":{}}')


class Scene:
    """A server of the configuration on fakes."""

    def __init__(
        self, *scripts: Script | str, config: ServerConfig = CONFIG, sole: bool = True
    ) -> None:
        self.warden = FakeWarden(*scripts)
        self.now = 100.0
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.story: list[tuple[str, object]] = []
        self.owner = _Recorder(self.story)
        self.server = Server(config, self._setting(sole), self.owner)

    def count(self, what: str) -> int:
        return sum(kind == what for kind, _ in self.story)

    async def listed(self, times: int = 1) -> None:
        await until(lambda: self.count("listed") >= times)

    @property
    def tools(self) -> list[str]:
        return [offer.native for offer in self.server.listings[Kind.TOOLS].offers]

    def _setting(self, sole: bool) -> Setting:
        return Setting(
            surroundings=lambda config: Surroundings(
                warden=self.warden.warden,
                environ={},
                redact=str,
                clock=lambda: self.now,
                chance=lambda: 0.0,
            ),
            spawn=self._spawn,
            later=lambda seconds, act: self.later.append((seconds, act)),
            client_info=b"{}",
            clock=lambda: self.now,
            sole=sole,
        )

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        task.add_done_callback(lambda done: done.result())


class _Recorder:
    """An owner that writes everything down."""

    def __init__(self, story: list[tuple[str, object]]) -> None:
        self._story = story
        self.relied: set[LeaseKey] = set()
        """The connections that clients rely on."""

    def listed(self, server: Server, changed: frozenset[Kind]) -> None:
        self._story.append(("listed", changed))

    def started(self, server: Server, key: LeaseKey) -> None:
        self._story.append(("started", key))

    def failed(self, server: Server, reason: str) -> None:
        self._story.append(("failed", reason))

    def stopped(self, server: Server) -> None:
        self._story.append(("stopped", server.slug))

    def ejected(self, server: Server, reason: str, failures: int, seconds: float) -> None:
        self._story.append(("ejected", reason))

    def restored(self, server: Server, seconds: float) -> None:
        self._story.append(("restored", seconds))

    def rested(self, server: Server) -> None:
        self._story.append(("rested", server.slug))

    def relied_on(self, server: Server, key: LeaseKey, line: Connection | None) -> bool:
        return key in self.relied

    def asked(self, server: Server, key: LeaseKey, line: Connection, request: Request) -> None:
        self._story.append(("asked", (key, request.method)))

    def told(
        self, server: Server, key: LeaseKey, line: Connection, notification: Notification
    ) -> None:
        self._story.append(("told", (key, notification.method)))

    def lost(self, server: Server, line: Connection) -> None:
        self._story.append(("lost", line))

    def garbled(self, server: Server, said: Noise, words: str) -> None:
        self._story.append(("garbled", said))

    def wrote(self, server: Server, lines: list[str]) -> None:
        self._story.append(("wrote", lines))


def play(scene: Callable[[], Coroutine[Any, Any, Scene]]) -> None:
    async def whole() -> None:
        played = await scene()
        await played.server.stop()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    run(whole)
