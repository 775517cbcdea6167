"""A transport in a test: to a fake process or to a URL, and everything that was told on the way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from anyport.config.model import ServerConfig
from anyport.protocol.revisions import Era
from anyport.upstream.call_queue import call_slots_of
from anyport.upstream.handshake import HandshakeFailed, HandshakeOptions
from anyport.upstream.http.transport import HttpTransport
from anyport.upstream.stdio.transport import StdioTransport
from anyport.upstream.transport import ServerQuirks, UpstreamContext, UpstreamTransport
from tests.upstream.fakes import (
    FakeServer,
    FakeSpawner,
    LoopTimerClock,
    RecordingOwner,
    Script,
    legacy,
)
from tests.upstream.web import Legacy, Web


class TransportScene:
    """Who scene, and in which world."""

    def __init__(self, *scripts: Script | str) -> None:
        self.clock = LoopTimerClock()
        self.owner = RecordingOwner()
        self.quirks = ServerQuirks()
        self.spawner = FakeSpawner(*scripts)

    def local(self, first_era: Era = Era.MODERN, **settings: Any) -> StdioTransport:
        config = ServerConfig(slug="s", name="s", **{"command": "server", **settings})
        options = replace(_introduced(config), first_era=first_era)
        return StdioTransport(config, options, self._context(), self.owner, self.quirks)

    def remote(self, url: str, **settings: Any) -> HttpTransport:
        config = ServerConfig(slug="s", name="s", url=url, **settings)
        slots = call_slots_of(config)
        return HttpTransport(
            config, _introduced(config), self._context(), self.owner, self.quirks, slots
        )

    @property
    def server(self) -> FakeServer:
        """The process that was started last."""
        return self.spawner.servers[-1]

    def _context(self) -> UpstreamContext:
        return UpstreamContext(
            clock=self.clock,
            spawner=self.spawner.spawner,
            client_info=b"{}",
            redact=lambda text: text.replace("secret", "***"),
            environ={"LANG": "C", "SECRET": "x"},
        )


def _introduced(config: ServerConfig) -> HandshakeOptions:
    return HandshakeOptions(client_info=b"{}", capabilities=b"{}", protocol=config.protocol)


async def refused(transport: UpstreamTransport) -> str:
    """Why a transport cannot be opened."""
    try:
        await transport.open()
    except HandshakeFailed as error:
        return str(error)
    raise AssertionError("it was opened")


OpenTransport = Callable[[TransportScene], Any]


@asynccontextmanager
async def by_process(scene: TransportScene) -> AsyncIterator[UpstreamTransport]:
    """The transport to a process that works."""
    scene.spawner.scripts = [legacy()]
    transport = scene.local()
    yield transport
    await transport.stop("enough")
    await transport.clean_up()


@asynccontextmanager
async def by_url(scene: TransportScene) -> AsyncIterator[UpstreamTransport]:
    """The transport to a web server that works."""
    async with Web(Legacy()) as web:
        transport = scene.remote(web.url)
        yield transport
        await transport.stop("enough")
        await transport.clean_up()


def soon(act: Callable[[], None]) -> None:
    """In the next turn of the loop."""
    asyncio.get_running_loop().call_soon(act)
