"""A relay with a journal, two servers that are fakes, and a clock wound by hand."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from anyport.gateway.context import Ids
from anyport.gateway.deadlines import Deadlines
from anyport.gateway.leases import Leases
from anyport.gateway.ledger import Ledger
from anyport.gateway.metrics import Metrics
from anyport.gateway.profile import Profile
from anyport.gateway.relay import Relay, World
from anyport.protocol.exchange import Exchange
from anyport.protocol.method import Kind
from anyport.protocol.seal import KEY_BYTES, Seal
from anyport.record.journal import Journal
from anyport.routing.route import Route
from anyport.upstream.server import Server
from tests.gateway.fakes import LEGACY, Asked, FakeServer, Later, profile_of
from tests.gateway.taps import tap
from tests.upstream.fakes import say


class FakeDesk:
    """Writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waiting: list[Callable[[], None]] = []

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        self.asked.append(exchange.method.name)

    def use_tool(self, exchange: Exchange, profile: Profile, tool: str) -> None:
        self.asked.append(tool)

    def subscribe(self, exchange: Exchange, server: Server, route: Route) -> None:
        self.asked.append(route.native)

    def wait_for_server(self, server: Server, waited: float, then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def wait_for_lists(self, profile: Profile, then: Callable[[], None]) -> None:
        self.waiting.append(then)


class Scene:
    """A relay, a server with one tool, and the record of it all."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.server = FakeServer("s", config.pop("revision", LEGACY))
        capture = config.pop("capture", "off")
        self.server.offer(Kind.TOOLS, "echo")
        self.server.offer(Kind.RESOURCES, "x:1")
        self.profile = profile_of(self.server, **config)
        self.events: list[dict[str, Any]] = []
        self.broken: list[Exception] = []
        self.now = 0.0
        journal = Journal(path, source="test", clock=lambda: 0.0, redact=str)
        journal.subscribe(lambda line: self.events.append(json.loads(line)))
        self.deadlines = Deadlines()
        self.metrics = Metrics(lambda: self.now)
        ids = Ids(lambda size: bytes([1]) * size)
        self.ledger = Ledger(journal, lambda: self.now, ids, self.metrics, tap(path, capture))
        self.later = Later()
        self.spawned: list[Coroutine[Any, Any, None]] = []
        world = World(
            clock=lambda: self.now,
            report=self.broken.append,
            later=self.later,
            now=lambda: self.now,
            seal=Seal([bytes(KEY_BYTES)]),
            spawn=lambda work, _: self.spawned.append(work),
        )
        leases = Leases(self.later, sole=True)
        self.relay = Relay({"default": self.profile}, self.ledger, self.deadlines, leases, world)
        self.desk = self.relay.desk = FakeDesk()

    def begin(self, method: str = "tools/call", params: Any = None, by: Any = None) -> Asked:
        asked = Asked(method, {"name": "s__echo"} if params is None else params, by)
        self.relay.begin(asked.exchange)
        return asked

    def answer(self, **outcome: Any) -> None:
        say(self.server.connection, id=self.server.channel.sent[0]["id"], **outcome)

    def overheads(self) -> float:
        """The gateway's own time, of all calls together."""
        self.metrics.settle()
        return sum(histogram[-1] for histogram in self.metrics.overheads.values())

    @property
    def statuses(self) -> list[str]:
        return [event["status"] for event in self.events]

    def at_rest(self) -> bool:
        return not self.relay.open_exchanges(self.server) and not len(self.deadlines)
