"""A relay with a journal, two servers that are fakes, and a clock wound by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from anyport.catalog.route import Route, Unroutable
from anyport.gateway.calls.admission import Admission
from anyport.gateway.calls.leases import Leases
from anyport.gateway.local.methods import LocalMethods
from anyport.gateway.profile import Profile
from anyport.gateway.recording.call_recorder import CallRecorder
from anyport.gateway.relay import Relay
from anyport.observe.metrics import Metrics
from anyport.observe.trace_context import IdGenerator
from anyport.protocol.exchange import Caller, Exchange, Question
from anyport.protocol.methods import OfferKind
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.record.journal.journal import Journal
from anyport.upstream.server import Server
from tests.gateway.capturing import capture_at
from tests.gateway.fakes import LEGACY, Asked, FakeClock, FakeServer, profile_of
from tests.upstream.fakes import say


class FakeLocalMethods:
    """Writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        self.sought: list[Unroutable] = []
        self.looks_up = False
        """Whether there is a server that may have what is in no list."""

    def answer(self, exchange: Exchange, profile: Profile) -> None:
        self.asked.append(exchange.method.name)

    def run_gateway_tool(self, exchange: Exchange, profile: Profile, tool: str) -> None:
        self.asked.append(tool)

    def subscribe(self, exchange: Exchange, server: Server, route: Route) -> None:
        self.asked.append(route.native)

    def wait_for_server(self, server: Server, waited: float, then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def look_up(
        self, profile: Profile, sought: Unroutable, caller: Caller, then: Callable[[], None]
    ) -> bool:
        self.sought.append(sought)
        if self.looks_up:
            self.waiting.append(then)
        return self.looks_up

    def query_more_lists(self, caller: Caller, profile: Profile) -> None:
        pass

    def wait_for_lists(self, profile: Profile, then: Callable[[], None]) -> None:
        self.waiting.append(then)


class Scene:
    """A relay, a server with one tool, and the record of it all."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.server = FakeServer("s", config.pop("revision", LEGACY))
        capture = config.pop("capture", "off")
        self.server.offer(OfferKind.TOOLS, "echo")
        self.server.offer(OfferKind.RESOURCES, "x:1")
        self.profile = profile_of(self.server, **config)
        self.events: list[dict[str, Any]] = []
        self.clock = FakeClock()
        self.broken = self.clock.errors
        journal = Journal(path, source="test", now=lambda: 0.0, redact=str)
        journal.subscribe(lambda line: self.events.append(json.loads(line)))
        self.metrics = Metrics(self.clock.monotonic)
        ids = IdGenerator(lambda size: bytes([1]) * size)
        self.recorder = CallRecorder(
            journal, self.clock, ids, self.metrics, capture_at(path, capture)
        )
        self.relay = Relay(
            {"default": self.profile},
            self.recorder,
            Leases(self.clock, sole=True),
            Admission(),
            Seal([bytes(KEY_BYTES)]),
            self.clock,
        )
        self.calls = self.relay.calls
        self.local_methods = FakeLocalMethods()
        self.relay.local_methods = cast(LocalMethods, self.local_methods)

    @property
    def now(self) -> float:
        return self.clock.seconds

    @now.setter
    def now(self, seconds: float) -> None:
        self.clock.seconds = seconds

    def begin(self, method: str = "tools/call", params: Any = None, by: Any = None) -> Asked:
        asked = Asked(method, {"name": "s__echo"} if params is None else params, by)
        self.relay.begin(asked.exchange)
        return asked

    def answer(self, **outcome: Any) -> None:
        say(self.server.connection, id=self.server.channel.sent[0]["id"], **outcome)

    def ask_client(self, asked: Asked, question: Question) -> None:
        """The server of a call asks its client, which has no session."""
        call = self.calls.find(asked.exchange)
        assert call is not None
        self.relay.parked_calls.add_question(call, question)

    def overheads(self) -> float:
        """The gateway's own time, of all calls together."""
        self.metrics.update_histograms()
        return sum(histogram[-1] for histogram in self.metrics.overheads.values())

    @property
    def statuses(self) -> list[str]:
        return [event["status"] for event in self.events]

    def at_rest(self) -> bool:
        return not self.calls.open
