"""The road to a server behind a URL: what it speaks is found out, and remembered for a while."""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from typing import Final

from anyport.config.schema import ServerConfig
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Lost
from anyport.upstream.connection import Connection, bounds_for
from anyport.upstream.handshake import HandshakeFailed, Introduction, ask, opening
from anyport.upstream.http.channel import HttpChannel, Post
from anyport.upstream.http.client import Client
from anyport.upstream.http.detect import Detection, Finding
from anyport.upstream.http.inquiry import inquire
from anyport.upstream.http.modern import ModernChannel
from anyport.upstream.http.outgoing import Outgoing
from anyport.upstream.http.patience import patience_of
from anyport.upstream.http.place import BadUrl, Place, proxy_from_environment
from anyport.upstream.http.session import (
    HANDSHAKE_SECONDS_MAX,
    INITIALIZED,
    Greeting,
    SessionChannel,
)
from anyport.upstream.http.sse import EventsChannel
from anyport.upstream.parting import STOPPED
from anyport.upstream.queue import places_of
from anyport.upstream.road import Learned, Surroundings, Traveller, Way

LEGACY_VERDICT_SECONDS: Final = 3600.0
"""How long a server is taken for a legacy one unasked: one that was updated would go on to answer
the old questions forever."""
FAREWELL_SECONDS_MAX: Final = 1.0
"""For telling a server that its session is over."""
RETIRED_LOOK_SECONDS: Final = 1.0
"""How often a connection that takes nothing new is looked at, until its last call is answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """All that belongs to one connection."""

    connection: Connection
    channel: HttpChannel
    client: Client

    def end(self, reason: str) -> None:
        """Close everything; calls still open get to know."""
        self.connection.end(reason, STOPPED)
        self.client.close()


class Remote:
    """One connection at a time; earlier ones may still have calls to finish."""

    child = None
    noise = None

    def __init__(
        self,
        config: ServerConfig,
        introduction: Introduction,
        surroundings: Surroundings,
        traveller: Traveller,
        learned: Learned,
    ) -> None:
        self.line: Connection | None = None
        self._config = config
        self._introduction = introduction
        self._world = surroundings
        self._traveller = traveller
        self._learned = learned
        self._way: Way | None = None
        """What was found the last time."""
        self._client: Client | None = None
        """While a handshake is under way on it."""
        self._opened: Opened | None = None
        self._retired: list[Opened] = []
        self._stopped: str | None = None

    @property
    def transport(self) -> str:
        """What was found, or what the configuration says."""
        return self._config.transport if self._way is None else self._way.transport

    async def open(self) -> Connection:
        """A connection in whatever the server speaks."""
        bounds = bounds_for(self._config.message_bytes_max)
        place = self._place()
        patience = patience_of(self._config, self._world.chance, self._world.timed_out)
        self._client = client = Client(place, bounds.bytes_max, self._world.room, patience)
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS_MAX):
                opened = await self._shake_hands(client, place)
        except (HandshakeFailed, TimeoutError) as error:
            client.close()
            self._learned.way = None
            if self._stopped is not None:
                raise HandshakeFailed(self._stopped) from None
            if isinstance(error, HandshakeFailed):
                raise
            words = f"it did not answer the handshake within {HANDSHAKE_SECONDS_MAX:g} s"
            raise HandshakeFailed(words, Timeout.HANDSHAKE) from None
        finally:
            self._client = None
        if self._stopped is not None:  # It was asked to stop before there was anything to stop.
            opened.end(self._stopped)
            raise HandshakeFailed(self._stopped)
        self._opened = opened
        return opened.connection

    async def clear(self) -> None:
        """Let calls that are under way on other sockets be answered; close the rest."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        if opened.connection.open_calls:
            self._retired.append(opened)
            asyncio.get_running_loop().call_later(RETIRED_LOOK_SECONDS, self._look, opened)
        else:
            opened.end(opened.connection.over or "it is no longer used")

    async def rest(self, reason: str) -> None:
        """Tell the server that its session is over, and close the connection."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._traveller.on_over(opened.connection, reason)
            opened.connection.end(reason, STOPPED)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_SECONDS_MAX):
                    await opened.channel.close()
            opened.client.close()

    async def stop(self, reason: str) -> None:
        """End everything for good; the server is told that its session is over."""
        self._stopped = reason
        if self._client is not None:
            self._client.close()
        await self.rest(reason)
        for retired in self._retired:
            retired.end(reason)
        self._retired.clear()

    def shown(self, reason: str) -> str:
        """A reason without secrets."""
        return self._world.redact(reason)

    def _look(self, opened: Opened) -> None:
        if opened not in self._retired:
            return
        if opened.connection.open_calls:
            asyncio.get_running_loop().call_later(RETIRED_LOOK_SECONDS, self._look, opened)
        else:
            self._retired.remove(opened)
            opened.end(opened.connection.over or "it is no longer used")

    def _place(self) -> Place:
        url, proxy = self._config.url or "", self._config.proxy
        named = proxy_from_environment(url, os.environ) if proxy == "env" else proxy
        try:
            return Place.parse(url, proxy=None if named == "none" else named)
        except BadUrl as error:
            raise HandshakeFailed(f"its url cannot be used: {error}") from None

    def _known_way(self) -> Way | None:
        """What it spoke the last time, where that spares a question."""
        learned, age = self._learned, self._world.clock() - self._learned.way_since
        return learned.way if age < LEGACY_VERDICT_SECONDS else None

    async def _shake_hands(self, client: Client, place: Place) -> Opened:
        outgoing = Outgoing(place, self._config.headers)
        transport, record = self._config.transport, self._world.record
        detection = Detection(client, outgoing, self._introduction, transport, record)
        known = self._known_way()
        finding = await detection.run(known)
        if finding.place is not place:
            outgoing = Outgoing(finding.place, self._config.headers)
        opened = await self._conversation(finding, client, outgoing, detection.greeting)
        if known is None:
            self._learned.way_since = self._world.clock()
        self._way = self._learned.way = finding.way
        return opened

    async def _conversation(
        self, finding: Finding, client: Client, outgoing: Outgoing, greeting: Greeting
    ) -> Opened:
        """Open it in the way that was found."""
        traveller = self._traveller
        if finding.way is Way.EVENTS:
            return await self._event_conversation(finding, client, outgoing, greeting)
        peer = finding.peer
        if peer is None:
            raise RuntimeError("what was found does not say who it is")
        if finding.way is Way.MODERN:
            modern = ModernChannel(
                client, outgoing, peer.revision, traveller.catalogue, traveller.on_over
            )
            opened = self._connected(modern, finding.numbers_used)
            opened.connection.peer = peer
            return opened
        if finding.session is None and greeting.introduction.to_be_asked:
            raise HandshakeFailed("it keeps no session in which it could ask")
        session = SessionChannel(
            client, outgoing, greeting, traveller.on_over, traveller.on_renewed
        )
        session.begin(finding.session, peer.revision)
        opened = self._connected(session, finding.numbers_used)
        await self._initialized(client, outgoing.place, session.head)
        opened.connection.peer = peer
        session.stand_by(self._world.chance)
        return opened

    async def _event_conversation(
        self, finding: Finding, client: Client, outgoing: Outgoing, greeting: Greeting
    ) -> Opened:
        channel = EventsChannel(client, outgoing, self._traveller.on_over)
        opened = self._connected(channel, finding.numbers_used)
        connection = opened.connection
        try:
            await channel.begin()
        except HandshakeFailed as error:
            if not finding.refusal:
                raise
            words = f"it {finding.refusal}; asked for HTTP+SSE instead: {error}"
            raise HandshakeFailed(words, error.timeout) from None
        params = opening(greeting.introduction, greeting.revision)
        answer = await ask(connection, "initialize", params)
        if isinstance(answer, Lost):
            raise HandshakeFailed(answer.reason, answer.timeout)
        connection.peer = greeting.peer(answer)
        await self._initialized(client, outgoing.place, channel.head)
        return opened

    async def _initialized(self, client: Client, place: Place, head: bytes) -> None:
        """Requests must not overtake this: a server may refuse those that come before it."""
        reply = await inquire(client, place, head, INITIALIZED)
        if reply.trouble is not None:
            raise HandshakeFailed(reply.trouble.words, reply.trouble.timeout)

    def _connected(self, channel: HttpChannel, numbers_used: int) -> Opened:
        bounds = bounds_for(self._config.message_bytes_max)
        hearer = self._traveller.hearer(lambda: connection)
        record = self._world.record
        connection = Connection(channel, hearer, bounds, Post, numbers_used, record)
        connection.places = self._world.places or places_of(self._config)
        connection.room = self._world.room
        channel.connection = connection
        self.line = connection
        return Opened(connection=connection, channel=channel, client=channel.client)
