"""Stand-ins for what surrounds the gateway's parts: clients, servers that are never started."""

import json
from collections.abc import Callable
from typing import Any, cast

from anyport.config.schema import ProfileConfig, ServerConfig
from anyport.gateway.profile import Profile
from anyport.gateway.tools import GATEWAY_TOOLS
from anyport.protocol.capability import NOTHING, ClientCapabilities, client_capabilities
from anyport.protocol.exchange import (
    Answered,
    Caller,
    Exchange,
    Failed,
    Happening,
    Question,
    Refused,
    Teller,
)
from anyport.protocol.freshness import Freshness
from anyport.protocol.method import METHODS, Kind
from anyport.protocol.principal import LOCAL
from anyport.protocol.revision import NEWEST_LEGACY, NEWEST_MODERN, Revision
from anyport.protocol.timeouts import Timeout
from anyport.routing.offers import IDENTITY, Listing, Offer
from anyport.upstream.connection import Connection
from anyport.upstream.key import LeaseKey
from anyport.upstream.server import Server
from anyport.upstream.setting import Setting
from anyport.upstream.tender import Ready
from anyport.wire import codec, members
from tests.protocol.fakes import Wire
from tests.upstream.fakes import Ear, FakeChannel, Message, peer_of

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
        self.transport = "stdio"
        self.parting = "ended by the client"
        self.resumed = False
        self.asked: list[Question] = []
        self.notified: list[tuple[str, Any]] = []

    def ask(self, question: Question, teller: Teller | None = None) -> None:
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
        capabilities=NOTHING if session is None else session.capabilities,
    )


class Asked:
    """One request of a client, and all that it was told."""

    def __init__(
        self, method: str = "tools/call", params: Message | None = None, by: Caller | None = None
    ) -> None:
        self.told: list[Happening] = []
        raw = json.dumps(params or {}, separators=(",", ":")).encode()
        self.exchange = Exchange(
            id=b"1",
            method=METHODS[method],
            params=raw,
            found=members.members(raw),
            caller=by or caller(),
            teller=Wire(),
            tell=lambda _, happening: self.told.append(happening),
        )

    @property
    def ending(self) -> Any:
        """The result, or the error's message; None as long as there is neither."""
        endings = [h for h in self.told if isinstance(h, Answered | Refused | Failed)]
        assert len(endings) <= 1
        match endings:
            case [Answered(result)]:
                return json.loads(result)
            case [Refused(error)]:
                return json.loads(error)
            case [Failed(fault)]:
                return fault.words(self.exchange.caller.revision)
        return None


class Guarding:
    """What a server's guard needs, and what it tells."""

    def __init__(self) -> None:
        self.now = 0.0
        self.later = Later()
        self.told: list[str] = []

    def chance(self) -> float:
        return 0.5

    def ejected(self, server: Server, reason: str, failures: int, seconds: float) -> None:
        self.told.append(f"ejected for {seconds:g} s: {reason}")

    def restored(self, server: Server, seconds: float) -> None:
        self.told.append(f"restored after {seconds:g} s")


class FakeServer(Server):
    """A server whose one connection is a fake channel, or that is down for a reason."""

    def __init__(self, slug: str, revision: Revision | None = LEGACY, **config: Any) -> None:
        self.guarding = Guarding()
        super().__init__(
            ServerConfig(slug=slug, name=slug, command="server", transport="stdio", **config),
            Setting(
                surroundings=cast(Any, lambda _: self.guarding),
                spawn=cast(Any, None),
                later=self.guarding.later,
                client_info=b"{}",
                clock=lambda: self.guarding.now,
            ),
            cast(Any, self.guarding),
        )
        self.down: str | None = None
        self.waiting: list[Ready] | None = None
        """While this is a list the server is starting, and callers wait in it."""
        self.leased: list[LeaseKey] = []
        self.watched: list[frozenset[str]] = []
        self.watched_tasks: list[frozenset[str]] = []
        self.acknowledge: list[Callable[[], None]] = []
        """To be called when the server has said that it watches."""
        self.channel = FakeChannel()
        self.connection = Connection(self.channel, Ear().hearer(), codec.OUTBOUND)
        self.connection.peer = None if revision is None else peer_of(revision)
        self.dropped: list[str] = []
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

    def lease(self, key: LeaseKey, ready: Ready) -> None:
        self.leased.append(key)
        self.lease_main(ready)

    def lease_main(self, ready: Ready) -> None:
        if self.waiting is not None:
            self.waiting.append(ready)
        else:
            ready(self.connection if self.down is None else self.down)

    def watch(
        self, uris: frozenset[str], tasks: frozenset[str], expect: Callable[[], Callable[[], None]]
    ) -> None:
        self.watched.append(uris)
        self.watched_tasks.append(tasks)
        self.acknowledge.append(expect())

    def drop(self, owner: str) -> None:
        self.dropped.append(owner)

    def connections(self) -> list[tuple[LeaseKey, Connection]]:
        return [] if self.down is not None else [(LeaseKey(), self.connection)]

    def offer(self, kind: Kind, *natives: str) -> None:
        """Have these offers from now on."""
        member = IDENTITY[kind]
        raws = [json.dumps({member: native}).encode() for native in natives]
        offers = tuple(Offer(native, raw) for native, raw in zip(natives, raws, strict=True))
        self.listings[kind] = Listing(offers=offers, freshness=Freshness(60_000), read_at=0.0)
        self.listed = True


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
