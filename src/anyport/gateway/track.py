"""The beaten track: a call that was made before, made again.

Nearly every call is one that its caller has made before, under the same name, over the same
connection, written in the same way. Nothing about it has to be decided again: what its params and
its result need cut off and put in front was worked out when the first one was answered. Anything
unusual on the way, in the request or in the answer, and the call is continued in the ordinary way,
by the relay; so there is nothing here that could answer differently from it. (Save one thing: a
result that names a member twice is passed on here as it came, and refused there.)
"""

from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import ClassVar, Final, Protocol

import msgspec
from msgspec import Raw

from anyport.gateway.deadlines import LINGER_SECONDS, Deadlines
from anyport.gateway.describe import IDENTITY
from anyport.gateway.ledger import Habit
from anyport.gateway.profile import Profile
from anyport.protocol import meta
from anyport.protocol.back import COMPLETE
from anyport.protocol.exchange import Caller, Exchange, Front, Teller
from anyport.protocol.kinds import may_be_strange
from anyport.protocol.method import METHODS, Method
from anyport.protocol.modern_front import complete
from anyport.protocol.progress import reading
from anyport.protocol.reading import CALL, PlainCall, split_token
from anyport.protocol.revision import Era, Revision
from anyport.protocol.shape import ABSENT, Shape, ShapedResult
from anyport.routing.catalog import Catalog
from anyport.upstream.connection import Answer, Call, Connection, Form, Lost
from anyport.upstream.server import Server
from anyport.wire import codec, members

TRACKS_MAX: Final = 512
"""Names that are remembered for one caller, with how their calls travel."""

_COMPLETE: Final = b'{"resultType":%b,' % COMPLETE
_COMPLETE_BYTES: Final = len(_COMPLETE)
_ANSWER: Final = b'{"jsonrpc":"2.0","id":%b,"result":%b}'
_ANSWER_BYTES: Final = len(_ANSWER % (b"", b""))
_ANSWER_OPENED: Final = b'{"jsonrpc":"2.0","id":%b,"result":{%b}'
"""For the rest of a result."""
_ANSWER_STAMPED: Final = b'{"jsonrpc":"2.0","id":%b,"result":%b%b}'
"""For a result without its end."""


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """How one caller's calls of one tool travel. Holds while catalog and connection do."""

    caller: Caller
    catalog: Catalog
    profile: Profile
    server: Server
    native: str
    public: str
    about: bytes
    """The `_meta` of the calls that travel here, without their progress tokens."""
    connection: Connection
    habit: Habit
    form: Form
    """What the server is sent."""
    modern_server: bool
    stamp: bytes
    """What the end of a result becomes."""
    whole_stamp: bytes
    """The same for a result that does not say that it is complete."""
    stamped: bool
    """Whether that is anything else."""
    legacy: Revision | None
    """The client's revision, where it may not have all kinds of content."""

    def answer(self, id: bytes, result: bytes, shape: Shape) -> bytes | None:
        """The answer for the client, if the result is as plain as the call was."""
        if shape.about is not ABSENT or shape.ttl is not ABSENT or shape.scope is not ABSENT:
            return None
        if shape.is_error is not ABSENT and bytes(shape.is_error) != b"false":
            return None
        odd = shape.structured is not ABSENT and bytes(shape.structured)[:1] != b"{"
        if odd or (self.legacy is not None and may_be_strange(result, self.legacy)):
            return None
        if shape.kind is not ABSENT:
            # Some servers of sessions say it, too.
            if not result.startswith(_COMPLETE) or bytes(shape.kind) != COMPLETE:
                return None
            if not self.stamped:
                return _ANSWER_OPENED % (id, result[_COMPLETE_BYTES:])
            return _ANSWER_STAMPED % (id, result[:-1], self.stamp)
        if self.modern_server:
            return None
        if not self.stamped:
            return _ANSWER % (id, result)
        if result[-2:-1] in b"{ \t\r\n":  # It may be empty.
            return None
        return _ANSWER_STAMPED % (id, result[:-1], self.whole_stamp)

    def params(self, plain: PlainCall) -> bytes:
        """The params that the server got, but for the number in them."""
        places = (0, plain.arguments, 0) if self.form.reports else (0, plain.arguments)
        return bytes(members.members(self.form.frame % places)["params"])


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

    def progressed(self, reports: Sequence[bytes]) -> None:
        """The server has told how far it has come."""


class Road(Protocol):
    """The relay, as a run sees it."""

    clock: Callable[[], float]
    deadlines: Deadlines

    def left(self, run: "Run") -> Continued:
        """A run is continued in the ordinary way."""

    def passed(self, run: "Run", size: int, waited: float) -> None:
        """A run has its result: it is noted, and nobody waits for it any more."""


class Run(msgspec.Struct, eq=False):
    """One call on a track."""

    _road: Road
    track: Track
    plain: PlainCall
    front: Front
    teller: Teller
    key: Hashable
    started: float = 0.0
    call: Call | None = None
    reached: float = -inf
    """The progress that the client was told last."""
    _continued: Continued | None = None

    method: ClassVar[Method] = METHODS[CALL]

    def go(self) -> None:
        """Ask the server."""
        road, track = self._road, self.track
        self.started = road.clock()
        road.deadlines.terms[self] = self
        call = track.connection.repeat(
            track.form, self.plain.arguments, self.answered, self.progressed
        )
        if isinstance(call, Lost):
            self.answered(call)
        else:
            self.call = call

    def answered(self, answer: Answer) -> None:
        """The server has answered, or will not."""
        if self._continued is None and isinstance(answer, ShapedResult):
            id = self.plain.id
            frame = self.track.answer(id, answer.result, answer.shape)
            if frame is not None:
                road = self._road
                self.call = None  # It holds on to this run: cut, or both wait for the collector.
                size = len(frame) - _ANSWER_BYTES - len(id)
                road.passed(self, size, road.clock() - self.started)
                self.front.close(self.key)
                self.teller.end(frame)
                return
        self.leave().answered(answer)

    def progressed(self, reports: Sequence[bytes]) -> None:
        """The server has told how far it has come."""
        call, token = self.call, self.plain.token
        if self._continued is None and call is not None and token is not None:
            ours = b'{"progressToken":%d,' % call.number
            if all(params.startswith(ours) for params in reports):
                size, opening = len(ours), _PROGRESS % token
                rising = [params for params in reports if self._rises(params)]
                if rising:
                    self.teller.note(*[b"%b%b}" % (opening, params[size:]) for params in rising])
                return
        self.leave().progressed(reports)

    def _rises(self, params: bytes) -> bool:
        """Whether a report may be told: see `tell_progress`."""
        reached = reading(params)
        if reached is None:
            return True
        rises = reached > self.reached
        self.reached = max(self.reached, reached)
        return rises

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


_PROGRESS: Final = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,'
)
_NO_TOKEN: Final = b'"progressToken":0'
_INSIDE: Final = b'"arguments":{}'
_ANSWERED: Final = b'"content":[]'


def remember(exchange: Exchange, way: Way, habit: Callable[[Exchange, str, str], Habit]) -> None:
    """Let the next call of that name take the track that this one leaves."""
    memory = exchange.caller.memory
    if exchange.context or len(memory) >= TRACKS_MAX:
        return
    key = (exchange.name, exchange.progress_token is None)
    known: Track | None = memory.get(key)
    catalog = way.profile.catalog
    if known is not None and known.connection is way.connection and known.catalog is catalog:
        about = exchange.found.get("_meta")
        if known.about == (b"" if about is None else split_token(bytes(about))[0]):
            return
    track = track_of(exchange, way, habit(exchange, way.server.slug, way.native))
    if track is not None:
        memory[key] = track


def track_of(exchange: Exchange, errand: Way, habit: Habit) -> Track | None:
    """The track on which a caller's next call like this one can travel, if there is one.

    What has to be changed on the way is not worked out again here, but read off a sample that is
    sent through the ordinary way.
    """
    caller, peer, raw = exchange.caller, errand.connection.peer, exchange.found.get("_meta")
    catalog, server = errand.profile.catalog, errand.server
    modern_server = peer is not None and peer.revision.era is Era.MODERN
    # What a session's server logs may have to be set before each call.
    sets_level = caller.log_level is not None and not modern_server
    strange = caller.revision.lacks or (caller.session is None and raw is None) or exchange.lease
    if (
        peer is None
        or sets_level
        or strange
        or catalog.public_uris
        or server.annotations(errand.native)
    ):
        return None
    about, token = (b"", None) if raw is None else split_token(bytes(raw))
    form = _form(exchange, errand, about) if token == exchange.progress_token else None
    if form is None:
        return None
    stamps = [b"}", b"}"]
    if caller.revision.era is Era.MODERN:
        samples = (_COMPLETE + _ANSWERED, b"{" + _ANSWERED)
        stamps = [complete(exchange, s + b"}", IDENTITY).removeprefix(s) for s in samples]
    return Track(
        caller=caller,
        catalog=catalog,
        profile=errand.profile,
        server=server,
        native=errand.native,
        public=exchange.name,
        about=about,
        connection=errand.connection,
        habit=habit,
        form=form,
        modern_server=modern_server,
        stamp=stamps[0],
        whole_stamp=stamps[1],
        stamped=stamps[0] != b"}",
        legacy=caller.revision if caller.revision.era is Era.LEGACY else None,
    )


def _form(exchange: Exchange, way: Way, about: bytes) -> Form | None:
    """What a server is sent when such a call is made."""
    peer, reports = way.connection.peer, exchange.progress_token is not None
    if peer is None:
        return None
    opening = b'{"name":%b,' % members.text(way.native)
    closing = b',"_meta":%b}' % about if about else b"}"
    raw = Raw(about) if about else None
    sent = peer.back.params(opening + _INSIDE + closing, raw, exchange.caller)
    if reports:
        sent = meta.restamp(sent, {meta.PROGRESS_TOKEN: b"0"})
    closing = sent.removeprefix(opening + _INSIDE).replace(b"%", b"%%")
    if (reports and closing.count(_NO_TOKEN) != 1) or not sent.startswith(opening + _INSIDE):
        return None
    if reports:
        closing = closing.replace(_NO_TOKEN, b'"progressToken":%d')
    opening = opening.replace(b"%", b"%%")
    params = b'%b"arguments":%%b%b' % (opening, closing)
    return Form(way.native, codec.request(b"%d", CALL, params), reports)
