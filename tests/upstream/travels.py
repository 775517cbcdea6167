"""A road in a test: to a fake process or to a URL, and everything that was told on the way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from anyport.config.schema import ServerConfig
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import HandshakeFailed, Introduction
from anyport.upstream.local import Local
from anyport.upstream.remote import Remote
from anyport.upstream.road import Learned, Road, Surroundings, Traveller
from tests.upstream.fakes import Ear, FakeServer, FakeWarden, Script, legacy
from tests.upstream.web import Legacy, Web


class Travels:
    """Who travels, and in which world."""

    def __init__(self, *scripts: Script | str) -> None:
        self.now = 0.0
        self.over: list[str] = []
        self.renewed: list[Connection] = []
        self.stderr: list[str] = []
        self.ear = Ear()
        self.learned = Learned()
        self.warden = FakeWarden(*scripts)

    def local(self, **settings: Any) -> Local:
        config = ServerConfig(slug="s", name="s", **{"command": "server", **settings})
        return Local(config, _introduced(config), self._world(), self._traveller(), self.learned)

    def remote(self, url: str, **settings: Any) -> Remote:
        config = ServerConfig(slug="s", name="s", url=url, **settings)
        return Remote(config, _introduced(config), self._world(), self._traveller(), self.learned)

    @property
    def server(self) -> FakeServer:
        """The process that was started last."""
        return self.warden.servers[-1]

    def _world(self) -> Surroundings:
        return Surroundings(
            warden=self.warden.warden,
            environ={"A": "1"},
            redact=lambda text: text.replace("secret", "***"),
            clock=lambda: self.now,
            chance=lambda: 0.0,
        )

    def _traveller(self) -> Traveller:
        return Traveller(
            on_over=self._over,
            on_renewed=self.renewed.append,
            on_stderr=self.stderr.extend,
            hearer=lambda _: self.ear.hearer(),
        )

    def _over(self, connection: Connection, reason: str) -> None:
        connection.over = reason
        self.over.append(reason)


def _introduced(config: ServerConfig) -> Introduction:
    return Introduction(client_info=b"{}", capabilities=b"{}", protocol=config.protocol)


async def refused(road: Road) -> str:
    """Why a road cannot be opened."""
    try:
        await road.open()
    except HandshakeFailed as error:
        return str(error)
    raise AssertionError("it was opened")


RoadTo = Callable[[Travels], Any]


@asynccontextmanager
async def by_process(travels: Travels) -> AsyncIterator[Road]:
    """The road to a process that works."""
    travels.warden.scripts = [legacy()]
    road = travels.local()
    yield road
    await road.stop("enough")
    await road.clear()


@asynccontextmanager
async def by_url(travels: Travels) -> AsyncIterator[Road]:
    """The road to a web server that works."""
    async with Web(Legacy()) as web:
        road = travels.remote(web.url)
        yield road
        await road.stop("enough")
        await road.clear()


def soon(act: Callable[[], None]) -> None:
    """In the next turn of the loop."""
    asyncio.get_running_loop().call_soon(act)
