"""Reading a server's lists, all pages of each.

Many servers have more for a client whom they may ask something: a tool that needs sampling is
there for no other. So a list is read twice where there is a connection for such a client.
A list that cannot be read leaves the last known one as it is, and a complaint. When to read them
is not decided here.
"""

import asyncio
from collections.abc import Mapping, Set
from typing import Final

import msgspec

from anyport.config.schema import ServerConfig
from anyport.protocol.errors import Situation, error_code
from anyport.protocol.extension import TASKS
from anyport.protocol.method import LISTS, METHODS, Kind
from anyport.protocol.revision import Era
from anyport.routing.offers import Gathering, Listing, Offer, read_page, widened
from anyport.upstream.asking import ask
from anyport.upstream.backoff import Backoff
from anyport.upstream.call import Answer, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.peer import Peer
from anyport.upstream.sign import Again, Sign
from anyport.wire import members
from anyport.wire.frame import METHOD_NOT_FOUND, Failure, Result

ATTEMPTS_MAX: Final = 2
"""To read one page, of a server that got to see the first."""
AGAIN_SECONDS: Final = 0.05
AGAIN_SECONDS_MAX: Final = 1.0
"""Between two of them: each time twice as long, up to this."""

_CAPABILITY: Final[Mapping[Kind, str]] = {
    Kind.TOOLS: "tools",
    Kind.RESOURCES: "resources",
    Kind.TEMPLATES: "resources",
    Kind.PROMPTS: "prompts",
}


class Reader:
    """Reads the lists of one server, and remembers what only some of its clients see."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._over_http = config.url is not None
        self._wider: dict[Kind, tuple[Offer, ...]] = {}
        self._backoff = Backoff()

    @property
    def complete(self) -> bool:
        """Whether it is known what a client sees whom the server may ask."""
        return bool(self._wider)

    def recall(self, known: Mapping[Kind, Listing]) -> None:
        """Take what some clients saw in an earlier life of the gateway."""
        for kind, listing in known.items():
            if any(offer.asks for offer in listing.offers):
                self._wider[kind] = listing.offers

    def delay(self, chance: float) -> float:
        """Seconds until what could not be read is worth another try; `chance` is from 0 to 1."""
        return self._backoff.delay(None, chance)

    async def renew(
        self,
        listings: dict[Kind, Listing],
        kinds: Set[Kind],
        main: Connection,
        asking: Connection | None,
    ) -> str | None:
        """Read some of the lists again; what there is to complain of.

        `asking` is a connection over which the server may ask, where `main` is not one.
        """
        complaint: str | None = None
        try:
            async with asyncio.timeout(self._config.timeout_seconds):
                for kind in [kind for kind in Kind if kind in kinds]:
                    listing = await self._read(kind, main, asking)
                    if listing is None:
                        listings.setdefault(kind, Listing())
                    elif isinstance(listing, Listing):
                        listings[kind] = listing
                    elif listing.sign is Sign.UNREACHED or listing.situation is Situation.BUSY:
                        complaint = f"its {kind.value} could not be asked for: {listing.reason}"
                    elif listing.situation is not Situation.NOT_RUNNING:
                        complaint = f"asked for its {kind.value}, it {listing.reason}"
        except TimeoutError:
            complaint = f"it did not list what it offers in {self._config.timeout_seconds:g} s"
        if complaint is None:
            self._backoff = Backoff()
        return complaint

    async def _read(
        self, kind: Kind, main: Connection, asking: Connection | None
    ) -> Listing | Lost | None:
        listing = await read_list(main, kind, over_http=self._over_http)
        if not isinstance(listing, Listing):
            return listing
        wider = None
        if asking is not None:
            wider = await read_list(asking, kind, over_http=self._over_http)
        if isinstance(wider, Listing):
            everyones = {offer.native for offer in listing.offers}
            self._wider[kind] = tuple(
                msgspec.structs.replace(offer, asks=offer.native not in everyones)
                for offer in wider.offers
            )
        if kind not in self._wider:
            return listing
        listing = widened(listing, self._wider[kind])
        self._wider[kind] = listing.offers
        return listing


def has_list(peer: Peer, kind: Kind) -> bool:
    """Whether a server has such a list at all."""
    extension = METHODS[LISTS[kind]].extension
    return peer.offers(_CAPABILITY[kind]) if extension is None else extension in peer.extensions


def tells_changes(peer: Peer, kind: Kind) -> bool:
    """Whether a server promises to tell when such a list changes. Nobody does of skills."""
    return kind in _CAPABILITY and peer.offers(_CAPABILITY[kind], "listChanged")


async def read_list(
    connection: Connection, kind: Kind, *, over_http: bool
) -> Listing | Lost | None:
    """One list; None if the server refuses to tell, which says nothing of what it has.

    Why not, if it was lost, or did not answer, on the way.
    """
    peer = connection.peer
    if peer is None:
        return Lost("it has not finished its handshake")
    if not has_list(peer, kind):
        return Listing()
    modern = peer.revision.era is Era.MODERN
    gathering = Gathering(kind, kind is Kind.TOOLS and modern and TASKS in peer.extensions)
    cursor: bytes | None = None
    while True:
        params = b"{}" if cursor is None else members.join([("cursor", cursor)])
        answer = await _asked(connection, LISTS[kind], peer.back.own_params(params))
        match answer:
            case Lost():
                return answer
            case Failure(error=error):
                # Many servers that have resources know of no templates.
                return Listing() if error_code(error) == METHOD_NOT_FOUND else None
            case Result(result=result):
                page = read_page(kind, result, over_http=over_http)
                if page is None:
                    return gathering.listing()
                cursor = gathering.add(page)
                if cursor is None:
                    return gathering.listing()


async def _asked(connection: Connection, method: str, params: bytes) -> Answer:
    """The answer to a question that may be asked twice: nothing changes by it.

    A server that cannot be reached is asked until it can, or its guard gives the connection up.
    """
    attempts, pause = 0, AGAIN_SECONDS
    while True:
        connection.own_requests += 1
        answer = await ask(connection, method, params)
        attempts += 1
        if not isinstance(answer, Lost) or answer.again is Again.NEVER or not connection.usable:
            return answer
        if attempts >= ATTEMPTS_MAX and answer.sign is not Sign.UNREACHED:
            return answer
        await asyncio.sleep(pause)
        pause = min(2 * pause, AGAIN_SECONDS_MAX)
