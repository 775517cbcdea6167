"""The beaten track: a call that was made before, made again.

Nearly every call is one that its caller has made before, under the same name, over the same
connection, written in the same way. Nothing about it has to be decided again: what its params and
its result need cut off and put in front was worked out when the first one was answered. Anything
unusual on the way, in the request or in the answer, and the call is continued in the ordinary way,
by the relay; so there is nothing here that could answer differently from it. (Save one thing: a
result that names a member twice is passed on here as it came, and refused there.)
"""

from collections.abc import Callable, Hashable
from typing import ClassVar, Final, Protocol

import msgspec

from anyport.gateway.deadlines import LINGER_SECONDS
from anyport.gateway.describe import IDENTITY
from anyport.gateway.ledger import Habit
from anyport.gateway.profile import Profile
from anyport.protocol.back import COMPLETE
from anyport.protocol.exchange import Caller, Exchange, Front, Teller
from anyport.protocol.method import METHODS, Method
from anyport.protocol.modern_front import complete
from anyport.protocol.reading import CALL, PlainCall
from anyport.protocol.revision import Era
from anyport.protocol.shape import ABSENT, Shape, ShapedResult
from anyport.routing.catalog import Catalog
from anyport.upstream.connection import Answer, Call, Connection, Lost
from anyport.upstream.server import Server
from anyport.wire import members

_COMPLETE: Final = b'{"resultType":%b,' % COMPLETE
_COMPLETE_BYTES: Final = len(_COMPLETE)


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """How one caller's calls of one tool travel. Holds while catalog and connection do."""

    caller: Caller
    catalog: Catalog
    profile: Profile
    server: Server
    native: str
    public: str
    connection: Connection
    habit: Habit
    opening: bytes
    """How the params begin that may travel here, and what that becomes."""
    new_opening: bytes
    closing: bytes
    """How they end, and what that becomes."""
    new_closing: bytes
    modern_server: bool
    stamp: bytes
    """What the end of a result becomes."""
    stamped: bool
    """Whether that is anything else."""

    def params(self, plain: PlainCall) -> bytes | None:
        """The params for the server, if they are written as these calls are."""
        params = plain.params
        if not params.startswith(self.opening) or not params.endswith(self.closing):
            return None
        inside = params[len(self.opening) : -len(self.closing)]
        return b"%b%b%b" % (self.new_opening, inside, self.new_closing)

    def result(self, result: bytes, shape: Shape) -> bytes | None:
        """The result for the client, if it is as plain as the call was."""
        if shape.about is not ABSENT or shape.ttl is not ABSENT or shape.scope is not ABSENT:
            return None
        if shape.is_error is not ABSENT and bytes(shape.is_error) != b"false":
            return None
        if shape.structured is not ABSENT and bytes(shape.structured)[:1] != b"{":
            return None
        if self.modern_server:
            if not result.startswith(_COMPLETE) or bytes(shape.kind) != COMPLETE:
                return None
            return result[:-1] + self.stamp if self.stamped else b"{" + result[_COMPLETE_BYTES:]
        if shape.kind is not ABSENT or result[-2:-1] in b"{ \t\r\n":  # It may be empty.
            return None
        return result[:-1] + self.stamp if self.stamped else result


class Way(msgspec.Struct, frozen=True):
    """Where a call went."""

    profile: Profile
    server: Server
    native: str
    connection: Connection


class Continued(Protocol):
    """A run that has left the track."""

    exchange: Exchange

    def answered(self, answer: Answer) -> None:
        """The server has answered, or will not."""


class Road(Protocol):
    """The relay, as a run sees it."""

    clock: Callable[[], float]

    def entered(self, run: "Run") -> None:
        """A run begins."""

    def left(self, run: "Run") -> Continued:
        """A run is continued in the ordinary way."""

    def passed(self, run: "Run", size: int, waited: float) -> None:
        """A run has its result: it is noted, and nobody waits for it any more."""


class Run(msgspec.Struct, eq=False):
    """One call on a track."""

    _road: Road
    track: Track
    plain: PlainCall
    _params: bytes
    front: Front
    teller: Teller
    key: Hashable
    trace_id: str = ""
    span_id: str = ""
    started: float = 0.0
    sent: float = 0.0
    call: Call | None = None
    _continued: Continued | None = None

    method: ClassVar[Method] = METHODS[CALL]

    def go(self) -> None:
        """Ask the server."""
        road, track = self._road, self.track
        road.entered(self)
        self.sent = road.clock()
        call = track.connection.call(CALL, self._params, self.answered, None, track.native)
        if isinstance(call, Lost):
            self.answered(call)
        else:
            self.call = call

    def answered(self, answer: Answer) -> None:
        """The server has answered, or will not."""
        if self._continued is None and isinstance(answer, ShapedResult):
            result = self.track.result(answer.result, answer.shape)
            if result is not None:
                road = self._road
                self.call = None  # It holds on to this run: cut, or both wait for the collector.
                road.passed(self, len(result), road.clock() - self.sent)
                self.front.close(self.key)
                self.teller.end(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (self.plain.id, result))
                return
        self.leave().answered(answer)

    def leave(self) -> Continued:
        """Go on in the ordinary way."""
        if self._continued is None:
            self._continued = self._road.left(self)
        return self._continued

    # What a front needs of anything that is open.

    @property
    def id(self) -> bytes:
        """As the client wrote it."""
        return self.plain.id

    @property
    def params(self) -> bytes:
        """As the client wrote them."""
        return self.plain.params

    def cancel(self, reason: bytes | None = None) -> None:
        """The client no longer wants the answer."""
        self.leave().exchange.cancel(reason)

    # What the deadlines need.

    def look(self, now: float) -> bool:
        """What takes a while leaves the track: then it can be noted, and given up."""
        if now - self.started >= LINGER_SECONDS:
            self.leave()
        return False

    def overdue(self) -> None:
        """Never: it will have left the track by then."""


_INSIDE: Final = b'"arguments":{}'
_ANSWERED: Final = b'"content":[]'


def track_of(exchange: Exchange, errand: Way, habit: Habit) -> Track | None:
    """The track on which a caller's next call like this one can travel, if there is one.

    What has to be changed on the way is not worked out again here, but read off a sample that is
    sent through the ordinary way.
    """
    caller, peer, about = exchange.caller, errand.connection.peer, exchange.found.get("_meta")
    catalog, server = errand.profile.catalog, errand.server
    strange = caller.revision.lacks or (caller.session is None and about is None)
    if peer is None or strange or catalog.public_uris or server.annotations(errand.native):
        return None
    closing = b"}" if about is None else b',"_meta":%b}' % bytes(about)
    opening = b'{"name":%b,' % members.text(errand.native)
    sent = peer.back.params(opening + _INSIDE + closing, about, caller)
    modern_server = peer.revision.era is Era.MODERN
    sample = (_COMPLETE if modern_server else b"{") + _ANSWERED
    stamp = b"}"
    if caller.revision.era is Era.MODERN:
        stamp = complete(exchange, sample + b"}", IDENTITY).removeprefix(sample)
    if not sent.startswith(opening + _INSIDE):
        return None
    return Track(
        caller=caller,
        catalog=catalog,
        profile=errand.profile,
        server=server,
        native=errand.native,
        public=exchange.name,
        connection=errand.connection,
        habit=habit,
        opening=b'{"name":%b,' % members.text(exchange.name),
        new_opening=opening,
        closing=closing,
        new_closing=sent.removeprefix(opening + _INSIDE),
        modern_server=modern_server,
        stamp=stamp,
        stamped=stamp != b"}",
    )
