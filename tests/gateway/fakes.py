"""Stand-ins for what surrounds the gateway's parts: clients, servers that are never started."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, cast

from anyport.catalog.offers import IDENTITY_MEMBERS, Listing, Offer
from anyport.clock import Clock
from anyport.config.model import ProfileConfig, ServerConfig
from anyport.gateway.local.gateway_tools import GATEWAY_TOOLS
from anyport.gateway.profile import Profile
from anyport.protocol.cache_hints import Freshness
from anyport.protocol.capabilities import NO_CAPABILITIES, ClientCapabilities, client_capabilities
from anyport.protocol.errors import Timeout
from anyport.protocol.exchange import (
    Answered,
    Caller,
    ErrorAnswered,
    Exchange,
    ExchangeEvent,
    Failed,
    Question,
    ReplyWriter,
)
from anyport.protocol.methods import METHODS, OfferKind
from anyport.protocol.principal import LOCAL
from anyport.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN, Revision
from anyport.upstream.connection import Connection
from anyport.upstream.connection_lists import ConnectionLists
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.server import Server
from anyport.upstream.subscriptions import SubscriptionFilter
from anyport.upstream.supervisor import LeaseCallback, NotReady
from anyport.upstream.transport import UpstreamContext
from anyport.wire import jsonrpc, raw_json
from tests.protocol.fakes import FakeReplyWriter
from tests.upstream.fakes import FakeChannel, Message, RecordingListener, peer_of

LEGACY, MODERN = NEWEST_LEGACY, NEWEST_MODERN


class FakeSession:
    """A legacy session that remembers what its client was asked and told."""

    def __init__(self, id: str = "mine", capabilities: Message | None = None) -> None:
        self.id = id
        self.principal = LOCAL
        self.profile = "default"
        self.revision = LEGACY
        self.capabilities: ClientCapabilities = declared(capabilities or {})
        self.client: bytes | None = None
        self.log_level: str | None = None
        self.subscriptions: set[str] = set()
        self.elicitations: tuple[tuple[str, str], ...] = ()
        self.transport = "stdio"
        self.close_reason = "ended by the client"
        self.resumed = False
        self.asked: list[Question] = []
        self.notified: list[tuple[str, Any]] = []

    def ask(self, question: Question, teller: ReplyWriter | None = None) -> None:
        self.asked.append(question)

    def notify(self, method: str, params: bytes | None) -> None:
        self.notified.append((method, None if params is None else json.loads(params)))


def declared(capabilities: Message) -> ClientCapabilities:
    read = client_capabilities(json.dumps(capabilities).encode())
    assert read is not None
    return read


def caller(session: FakeSession | None = None, revision: Revision | None = None) -> Caller:
    return Caller(
        profile="default",
        session=session,
        revision=revision or LEGACY,
        capabilities=NO_CAPABILITIES if session is None else session.capabilities,
    )


class Asked:
    """One request of a client, and all that it was told."""

    def __init__(
        self, method: str = "tools/call", params: Message | None = None, by: Caller | None = None
    ) -> None:
        self.told: list[ExchangeEvent] = []
        raw = json.dumps(params or {}, separators=(",", ":")).encode()
        self.exchange = Exchange(
            id=b"1",
            method=METHODS[method],
            params=raw,
            param_members=raw_json.members(raw),
            caller=by or caller(),
            writer=FakeReplyWriter(),
            deliver=lambda _, happening: self.told.append(happening),
        )

    @property
    def ending(self) -> Any:
        """The result, or the error's message; None as long as there is neither."""
        endings = [h for h in self.told if isinstance(h, Answered | ErrorAnswered | Failed)]
        assert len(endings) <= 1
        match endings:
            case [Answered(result)]:
                return json.loads(result)
            case [ErrorAnswered(error)]:
                return json.loads(error)
            case [Failed(fault)]:
                return fault.message_for(self.exchange.caller.revision)
        return None


class FakeClock(Clock):
    """A clock that is wound by hand; tasks are kept for the test to run."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.due: list[tuple[float, Callable[[], object]]] = []
        self.spawned: list[Coroutine[Any, Any, None]] = []
        self.errors: list[BaseException] = []
        self.report_error = self.errors.append

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def steady_now(self) -> float:
        return self.seconds

    def random(self) -> float:
        return 0.0

    def later(self, seconds: float, act: Callable[[], object]) -> asyncio.TimerHandle:
        self.due.append((seconds, act))
        return cast(asyncio.TimerHandle, None)

    def pass_by(self) -> None:
        """Let everything come due."""
        due, self.due = self.due, []
        for _, act in due:
            act()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.spawned.append(work)


class ServerClock(FakeClock):
    """The clock of a fake server: tasks that it spawns never run."""

    def random(self) -> float:
        return 0.5

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        work.close()


class BreakerEvents:
    """Records what the circuit breaker of a server reports."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_ejected(self, server: Server, reason: str, failures: int, seconds: float) -> None:
        self.told.append(f"ejected for {seconds:g} s: {reason}")

    def on_restored(self, server: Server, seconds: float) -> None:
        self.told.append(f"restored after {seconds:g} s")


class FakeServer(Server):
    """A server whose one connection is a fake channel, or that is down for a reason."""

    def __init__(self, slug: str, revision: Revision | None = LEGACY, **config: Any) -> None:
        self.clock = ServerClock()
        self.breaker_events = BreakerEvents()
        self.crowded = False
        """Whether there are two or more principals."""
        super().__init__(
            ServerConfig(slug=slug, name=slug, command="server", transport="stdio", **config),
            UpstreamContext(
                clock=self.clock,
                spawner=cast(Any, None),
                client_info=b"{}",
                has_several_principals=lambda: self.crowded,
            ),
            cast(Any, self.breaker_events),
        )
        # As if its lists had just been read: a test that wants them to be old says so.
        self.lists._requested_at.update(dict.fromkeys(OfferKind, self.clock.seconds))
        self.down: str | None = None
        self.waiting: list[LeaseCallback] | None = None
        """While this is a list the server is starting, and callers wait in it."""
        self.leased: list[LeaseKey] = []
        self.used: dict[LeaseKey, int] = {}
        self.busy: set[LeaseKey] = set()
        self.watched: list[frozenset[str]] = []
        self.watched_tasks: list[frozenset[str]] = []
        self.acknowledge: list[Callable[[], None]] = []
        """To be called when the server has said that it watches."""
        self.channel = FakeChannel()
        self.connection = Connection(
            self.channel, RecordingListener(), jsonrpc.OUTBOUND, FakeClock()
        )
        self.connection.peer = None if revision is None else peer_of(revision)
        self.dropped: list[str] = []
        self.reasons: list[str] = []
        self.late_reasons: dict[str, Timeout] = {}
        """The reasons why it is down that are about time."""
        self.shown_main: Any = None
        """A stand-in for the tender of the first connection, where one is looked at."""

    @property
    def peer(self) -> Any:
        return self.connection.peer

    def timeout_of(self, reason: str) -> Timeout | None:
        return self.late_reasons.get(reason)

    @property
    def main(self) -> Any:
        """Not asked by whoever reports on tenders: then there is none."""
        return self.shown_main

    def lease(self, key: LeaseKey, ready: LeaseCallback) -> None:
        self.leased.append(key)
        self.hand_over(ready)

    def hand_over(self, ready: LeaseCallback) -> None:
        if self.waiting is not None:
            self.waiting.append(ready)
        else:
            ready(self.connection if self.down is None else NotReady(self.down))

    def subscribe(
        self, key: LeaseKey, wishes: SubscriptionFilter, expect: Callable[[], Callable[[], None]]
    ) -> None:
        self.watched.append(wishes.uris)
        self.watched_tasks.append(wishes.tasks)
        self.acknowledge.append(expect())

    def drop(self, owner: str, reason: str = "") -> None:
        self.dropped.append(owner)
        self.reasons.append(reason)

    def is_busy(self, key: LeaseKey) -> bool:
        return key in self.busy

    def have(self, key: LeaseKey) -> None:
        """Have a connection of this key."""
        self.supervisors[key] = cast(Any, None)
        self._pool._keys[key.owner] = key

    def uses(self, key: LeaseKey) -> int:
        return self.used.get(key, 0)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        return [] if self.down is not None else [(LeaseKey(), self.connection)]

    def offer(self, kind: OfferKind, *natives: str) -> None:
        """Have these offers from now on."""
        self.listings[kind] = listing_of(kind, *natives)
        self.lists_ready = True

    def offer_apart(
        self, session: str, kind: OfferKind, *natives: str, reading: bool = False
    ) -> ConnectionLists:
        """Have a session's own connection list these from now on, or soon."""
        key = LeaseKey(owner=session, interactive=True, fallback=SHARED)
        if self._connection_lists.find(key) is None:
            self.have(key)
            self._connection_lists.start(key, self.connection)
        own = self._connection_lists.find(key)
        assert own is not None
        if not reading:
            own.lists.close()
            own.lists._reading.clear()
        own.has_been_read = True
        own.lists.known[kind] = listing_of(kind, *natives)
        self._connection_lists.compare()
        return own


def listing_of(kind: OfferKind, *natives: str) -> Listing:
    member = IDENTITY_MEMBERS[kind]
    raws = [json.dumps({member: native}).encode() for native in natives]
    offers = tuple(Offer(native, raw) for native, raw in zip(natives, raws, strict=True))
    return Listing(offers=offers, freshness=Freshness(60_000), read_at=0.0)


def profile_of(*servers: FakeServer, **config: Any) -> Profile:
    """The profile `default` with these servers."""
    slugs = tuple(server.slug for server in servers)
    settings = ProfileConfig(slug="default", servers=slugs, **config)
    return Profile(settings, {server.slug: server for server in servers}, GATEWAY_TOOLS)


class Later:
    """A clock that is wound by hand."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, act: Callable[[], None]) -> None:
        self.due.append((seconds, act))

    def pass_by(self) -> None:
        """Let everything come due."""
        due, self.due = self.due, []
        for _, act in due:
            act()


class GroupClock(Clock):
    """The real time, with tasks in the group of a test, which fails with any of them."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        super().__init__(lambda _: None)
        self.group = group

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.group.create_task(work, name=name)
