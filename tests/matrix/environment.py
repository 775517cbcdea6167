"""The gateways and the servers of the matrix, each started on first use.

Every gateway has a demo server for each endpoint. Those over HTTP are processes of the environment;
those over stdio are children of the gateway. A client on stdin and stdout sees all servers at once;
over HTTP each server also has a profile of its own, and is seen alone.
"""

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from tests.cli.running import wait_until
from tests.harness import DEMO, LineClient, Message, write_config
from tests.journeys.clients import META, ModernClient, SessionClient, SseClient
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import LIST_SECONDS
from tests.matrix.clients import CAPABILITIES, LegacyMatrixClient, MatrixClient, ModernMatrixClient
from tests.matrix.endpoints import ENDPOINTS, Endpoint
from tests.matrix.transports import (
    ClientTransport,
    ModernTransport,
    SessionTransport,
    SseTransport,
    StdioTransport,
)
from tests.peers.http_driver import HttpDemo

FILLERS: Final = 130
"""So many tools besides its own make the lists of all servers together longer than one page."""
OPTIONS: Final = ("--tools", str(FILLERS), "--page-size", "60", "--empty-cursor")

EVERYTHING: Final = "default"
"""The profile with all servers."""

_CANCELLED: Final = "slow: cancelled"
_TRANSPORTS: Final = {"http": ("streamable", "mcp"), "sse": ("sse", "sse")}


class MatrixEnvironment:
    """All gateways and servers that run."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._demos: dict[Endpoint, HttpDemo] = {}
        self._servers: Message = {}
        self._site: HttpGateway | None = None

    def demo(self, endpoint: Endpoint) -> HttpDemo | None:
        """The process of a server, if it is one of this environment's."""
        return self._demos.get(endpoint)

    def enter(self, endpoint: Endpoint, profile: str, stack: ExitStack) -> ClientTransport:
        """A transport to a profile; over stdin and stdout there is only one."""
        able = CAPABILITIES[endpoint.revision]
        if endpoint.transport == "stdio":
            client = LineClient(self._stdio(self._folder / endpoint.slug))
            stack.callback(client.kill)
            if not endpoint.modern:
                assert (
                    client.initialize(endpoint.revision, able)["protocolVersion"]
                    == endpoint.revision
                )
            return StdioTransport(client)
        site = self._http().at(f"/mcp/{profile}")
        if endpoint.transport == "sse":
            sse = SseClient(site, endpoint.revision, able)
            assert sse.opened["protocolVersion"] == endpoint.revision
            return SseTransport(sse)
        if endpoint.modern:
            return ModernTransport(ModernClient(site, **{f"{META}clientCapabilities": able}))
        session = SessionClient(site, endpoint.revision, able)
        assert session.opened["protocolVersion"] == endpoint.revision
        return SessionTransport(session)

    def state(self, endpoint: Endpoint) -> Path:
        """Where the gateway of a client keeps its state."""
        return self._folder / (endpoint.slug if endpoint.transport == "stdio" else "http") / "state"

    def _stdio(self, folder: Path) -> list[str]:
        settings = {"listSeconds": LIST_SECONDS}
        config = write_config(folder, self._behind(), gateway=settings)
        argv = [sys.executable, "-m", "anyport", "stdio", "--config", str(config)]
        return [*argv, "--state-dir", str(folder / "state")]

    def _http(self) -> HttpGateway:
        if self._site is None:
            behind = self._behind()
            profiles = {slug: {"servers": [slug]} for slug in behind}
            profiles[EVERYTHING] = {"servers": list(behind)}
            served = serving(self._folder / "http", behind, profiles=profiles)
            self._site = self._stack.enter_context(served)
        return self._site

    def _behind(self) -> Message:
        for endpoint in ENDPOINTS:
            if endpoint.slug in self._servers:
                continue
            spoken = ["--revision", endpoint.revision, *OPTIONS]
            if endpoint.transport == "stdio":
                self._servers[endpoint.slug] = [*DEMO, *spoken]
                continue
            only, path = _TRANSPORTS[endpoint.transport]
            demo = self._stack.enter_context(HttpDemo("--transport", only, *spoken))
            self._demos[endpoint] = demo
            self._servers[endpoint.slug] = {"url": f"http://127.0.0.1:{demo.port}/{path}"}
        return self._servers


class MatrixClients:
    """One client, for all the servers: at one gateway with all, or at the profile of each."""

    def __init__(self, environment: MatrixEnvironment, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.alone = endpoint.transport != "stdio"
        """Whether it sees a server without the others."""
        self._environment = environment
        self._stack = ExitStack()
        self._clients: dict[str, MatrixClient] = {}

    def mcp_client(self, server: Endpoint | None = None) -> MatrixClient:
        """The client where it sees a server, alone if it can; or where it sees all of them."""
        profile = server.slug if self.alone and server is not None else EVERYTHING
        if profile not in self._clients:
            transport = self._environment.enter(self.endpoint, profile, self._stack)
            make = ModernMatrixClient if self.endpoint.modern else LegacyMatrixClient
            self._clients[profile] = make(self.endpoint.revision, transport)
        return self._clients[profile]

    def begin_anew(self) -> None:
        """Something went wrong, and is not to spoil what comes after it."""
        clients, self._clients = self._clients, {}
        for mcp_client in clients.values() if self.alone else ():
            with suppress(Exception):  # Whatever is wrong with it has been told already.
                mcp_client.close()
        self._stack.close()

    def end(self) -> None:
        """Leave as clients do."""
        with self._stack:
            for mcp_client in self._clients.values():
                mcp_client.close()

    def cancellations(self, server: Endpoint) -> int:
        """How often a server has said that a call of its tool `slow` was cancelled."""
        demo = self._environment.demo(server)
        if demo is not None:
            return demo.stderr().count(_CANCELLED)
        files = (self._environment.state(self.endpoint) / "events").glob("*/events.jsonl")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return sum(_CANCELLED in line and f'"{server.slug}"' in line for line in lines)

    def wait_cancelled(self, server: Endpoint, before: int) -> None:
        """Wait until a server has heard of one more."""
        wait_until(lambda: self.cancellations(server) > before)
