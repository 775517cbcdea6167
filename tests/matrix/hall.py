"""The gateways and the servers of the matrix, each started when somebody first needs it.

Behind every gateway stands a demo server for each way out. Those over HTTP are processes of this
hall; those over stdio are children of the gateway. A client on stdin and stdout sees all servers
at once; over HTTP each server has a profile of its own, too, and is seen alone.
"""

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from tests.cli.running import wait_until
from tests.demo.http.driver import HttpDemo
from tests.harness import DEMO, LineClient, Message, write_config
from tests.journeys.clients import META, Modern, Older, Session
from tests.journeys.scripting import LIST_SECONDS
from tests.journeys.web import Site, serving
from tests.matrix.lines import EventsLine, Line, ModernLine, PipeLine, SessionLine
from tests.matrix.parties import CAPABILITIES, LegacyParty, ModernParty, Party
from tests.matrix.ways import WAYS, Way

FILLERS: Final = 130
"""So many tools besides its own make the lists of all servers together longer than one page."""
OPTIONS: Final = ("--tools", str(FILLERS), "--page-size", "60", "--empty-cursor")

EVERYTHING: Final = "default"
"""The profile with all servers."""

_CANCELLED: Final = "slow: cancelled"
_TRANSPORTS: Final = {"http": ("streamable", "mcp"), "sse": ("sse", "sse")}


class Hall:
    """All that runs."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._demos: dict[Way, HttpDemo] = {}
        self._servers: Message = {}
        self._site: Site | None = None

    def demo(self, way: Way) -> HttpDemo | None:
        """The process of a server, if it is one of this hall's."""
        return self._demos.get(way)

    def enter(self, way: Way, profile: str, stack: ExitStack) -> Line:
        """A line to a profile; on stdin and stdout there is but one."""
        able = CAPABILITIES[way.revision]
        if way.transport == "stdio":
            client = LineClient(self._stdio(self._folder / way.slug))
            stack.callback(client.kill)
            if not way.modern:
                assert client.initialize(way.revision, able)["protocolVersion"] == way.revision
            return PipeLine(client)
        site = self._http().at(f"/mcp/{profile}")
        if way.transport == "sse":
            older = Older(site, way.revision, able)
            assert older.opened["protocolVersion"] == way.revision
            return EventsLine(older)
        if way.modern:
            return ModernLine(Modern(site, **{f"{META}clientCapabilities": able}))
        session = Session(site, way.revision, able)
        assert session.opened["protocolVersion"] == way.revision
        return SessionLine(session)

    def state(self, way: Way) -> Path:
        """Where the gateway of a client keeps its state."""
        return self._folder / (way.slug if way.transport == "stdio" else "http") / "state"

    def _stdio(self, folder: Path) -> list[str]:
        settings = {"listSeconds": LIST_SECONDS}
        config = write_config(folder, self._behind(), gateway=settings)
        argv = [sys.executable, "-m", "anyport", "stdio", "--config", str(config)]
        return [*argv, "--state-dir", str(folder / "state")]

    def _http(self) -> Site:
        if self._site is None:
            behind = self._behind()
            profiles = {slug: {"servers": [slug]} for slug in behind}
            profiles[EVERYTHING] = {"servers": list(behind)}
            served = serving(self._folder / "http", behind, profiles=profiles)
            self._site = self._stack.enter_context(served)
        return self._site

    def _behind(self) -> Message:
        for way in WAYS:
            if way.slug in self._servers:
                continue
            spoken = ["--revision", way.revision, *OPTIONS]
            if way.transport == "stdio":
                self._servers[way.slug] = [*DEMO, *spoken]
                continue
            only, path = _TRANSPORTS[way.transport]
            demo = self._stack.enter_context(HttpDemo("--transport", only, *spoken))
            self._demos[way] = demo
            self._servers[way.slug] = {"url": f"http://127.0.0.1:{demo.port}/{path}"}
        return self._servers


class Visit:
    """One client, for all the servers: at one gateway with all, or at the profile of each."""

    def __init__(self, hall: Hall, way: Way) -> None:
        self.way = way
        self.alone = way.transport != "stdio"
        """Whether it sees a server without the others."""
        self._hall = hall
        self._stack = ExitStack()
        self._parties: dict[str, Party] = {}

    def party(self, server: Way | None = None) -> Party:
        """The client where it sees a server, alone if it can; or where it sees all of them."""
        profile = server.slug if self.alone and server is not None else EVERYTHING
        if profile not in self._parties:
            line = self._hall.enter(self.way, profile, self._stack)
            party = ModernParty if self.way.modern else LegacyParty
            self._parties[profile] = party(self.way.revision, line)
        return self._parties[profile]

    def begin_anew(self) -> None:
        """Something went wrong, and is not to spoil what comes after it."""
        parties, self._parties = self._parties, {}
        for party in parties.values() if self.alone else ():
            with suppress(Exception):  # Whatever is wrong with it has been told already.
                party.close()
        self._stack.close()

    def end(self) -> None:
        """Leave as clients do."""
        with self._stack:
            for party in self._parties.values():
                party.close()

    def cancellations(self, server: Way) -> int:
        """How often a server has said that a call of its tool `slow` was cancelled."""
        demo = self._hall.demo(server)
        if demo is not None:
            return demo.stderr().count(_CANCELLED)
        files = (self._hall.state(self.way) / "events").glob("*/events.jsonl")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return sum(_CANCELLED in line and f'"{server.slug}"' in line for line in lines)

    def wait_cancelled(self, server: Way, before: int) -> None:
        """Wait until a server has heard of one more."""
        wait_until(lambda: self.cancellations(server) > before)
