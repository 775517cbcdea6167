"""The beaten track: a call that was made before, made again.

Nearly every call is one that its caller has made before, under the same name, over the same
connection, written in the same way. Nothing about it has to be decided again: what its params and
its result need cut off and put in front was worked out when the first one was answered. Anything
unusual on the way, in the request or in the answer, and the call is continued in the ordinary way,
by the relay; so there is nothing here that could answer differently from it. (Save one thing: a
result that names a member twice is passed on here as it came, and refused there.) How a track is
laid is told in `laying`.
"""

from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import ClassVar, Final, Protocol

import msgspec
from msgspec import Raw

from anyport.gateway.deadlines import LINGER_SECONDS, Deadlines
from anyport.gateway.ledger import Habit
from anyport.gateway.profile import Profile
from anyport.protocol.back import COMPLETE
from anyport.protocol.exchange import Caller, Exchange, Front, Teller
from anyport.protocol.kinds import may_be_strange
from anyport.protocol.method import METHODS, Method
from anyport.protocol.passage import Passage
from anyport.protocol.principal import Principal
from anyport.protocol.progress import PROGRESS, rises
from anyport.protocol.reading import CALL, PlainCall
from anyport.protocol.revision import Revision
from anyport.protocol.room import Share
from anyport.protocol.shape import ABSENT, Shape, ShapedResult
from anyport.protocol.timeouts import Timeout
from anyport.routing.catalog import Catalog
from anyport.upstream.breaker import Breaker
from anyport.upstream.call import Answer, Call, Form, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.server import Server
from anyport.wire import codec

COMPLETE_OPENING: Final = b'{"resultType":%b,' % COMPLETE
_COMPLETE_BYTES: Final = len(COMPLETE_OPENING)
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
    breaker: Breaker
    """Of the server."""
    share: Share | None
    """Of its client in all that is under way."""
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
    params_bytes: int
    """Of the client's params, without arguments and progress token."""
    sent_bytes: int
    """Of what the server gets, without arguments and progress token."""

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
            if not result.startswith(COMPLETE_OPENING) or bytes(shape.kind) != COMPLETE:
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

    def params(self, plain: PlainCall, number: int) -> bytes:
        """The params that the server gets with the call of this number."""
        return self.form.fill(number, plain.arguments)[_OPENING_BYTES + len(b"%d" % number) : -1]


class Continued(Protocol):
    """A run that has left the track."""

    exchange: Exchange

    def heard(self, answer: Answer) -> None:
        """The server has answered, or will not."""

    def progressed(self, reports: Sequence[bytes]) -> None:
        """The server has told how far it has come."""


class Road(Protocol):
    """The relay, as a run sees it."""

    clock: Callable[[], float]
    deadlines: Deadlines

    def left(self, run: "Run") -> Continued:
        """A run is continued in the ordinary way."""

    def passed(self, run: "Run", size: int, waited: float, result: bytes, frame: bytes) -> None:
        """A run has its result: it is noted, and its caller is told."""


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
    queued: float = 0.0
    """How long the call waited for a place with its server."""
    number: int = 0
    """By which the server knows it."""
    passage: Passage | None = None
    """Where something came between, and that is recorded."""
    _continued: Continued | None = None

    method: ClassVar[Method] = METHODS[CALL]

    def go(self) -> None:
        """Ask the server."""
        road, track = self._road, self.track
        self.started = road.clock()
        road.deadlines.terms[self] = self
        call = track.connection.repeat(
            track.form,
            self.plain.arguments,
            self.answered,
            self.progressed,
            track.share or self.teller,
        )
        if isinstance(call, Lost):
            self.answered(call)
        else:
            self.call, self.number = call, call.number

    def answered(self, answer: Answer) -> None:
        """The server has answered, or will not."""
        if self._continued is None and isinstance(answer, ShapedResult):
            id = self.plain.id
            frame = self.track.answer(id, answer.result, answer.shape)
            if frame is not None:
                road, call = self._road, self.call
                waited = road.clock() - self.started
                if call is not None and call.admitted:
                    self.queued = call.admitted - self.started
                    waited -= self.queued
                self.call = None  # It holds on to this run: cut, or both wait for the collector.
                if self.track.breaker.failures:
                    self.track.server.guard.tell(answer, self.started)
                size = len(frame) - _ANSWER_BYTES - len(id)
                road.passed(self, size, waited, answer.result, frame)
                return
        self.leave().heard(answer)

    def progressed(self, reports: Sequence[bytes]) -> None:
        """The server has told how far it has come."""
        call, token = self.call, self.plain.token
        if self._continued is None and call is not None and token is not None:
            ours = b'{"progressToken":%d,' % call.number
            if all(params.startswith(ours) for params in reports):
                size, opening = len(ours), _PROGRESS % token
                own = [b"%b%b}" % (opening, r[size:]) if rises(self, r) else b"" for r in reports]
                rising = [frame for frame in own if frame]
                if rising:
                    self.teller.note(*rising)
                if self.track.habit.level != "off":
                    self._witnessed(reports, own)
                return
        self.leave().progressed(reports)

    def _witnessed(self, reports: Sequence[bytes], frames: Sequence[bytes]) -> None:
        """For the record: what the server told, and what the client got to hear of it."""
        passage = self.passage
        if passage is None:
            keeps = self.track.habit.level == "full"
            passage = self.passage = Passage(clock=self._road.clock, keeps=keeps)
        for report, frame in zip(reports, frames, strict=True):
            passage.note("server-notification", "server", PROGRESS, report)
            if frame:
                passage.pass_on("server-notification", "client", PROGRESS, frame[_HEAD_BYTES:-1])

    # What the record needs.

    @property
    def principal(self) -> Principal:
        """Whose call it is."""
        return self.track.caller.principal

    def asked(self) -> tuple[bytes, int, int]:
        """Its arguments, the size of the client's params, and of those the server got."""
        track, plain = self.track, self.plain
        arguments = bytes(plain.arguments)
        size = len(arguments)
        if plain.token is None:
            return arguments, track.params_bytes + size, track.sent_bytes + size
        token, own = len(plain.token), len(b"%d" % self.number)
        return arguments, track.params_bytes + size + token, track.sent_bytes + size + own

    def sides(self) -> tuple[bytes, bytes]:
        """The params as the client wrote them, and as the server got them."""
        plain = self.plain
        return plain.params, self.track.params(plain, self.number)

    def bare(self) -> tuple[bytes, bytes]:
        """The same without its arguments."""
        plain = msgspec.structs.replace(self.plain, arguments=Raw(b"{}"))
        return plain.params, self.track.params(plain, self.number)

    @property
    def kind(self) -> tuple[bytes, bytes] | None:
        """What is the same in all calls like this one; None if more than arguments is not."""
        token = self.plain.token
        if token is not None and token[:1] == b'"':  # A text, which may say anything.
            return None
        return self.track.form.frame, self.plain.about

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
        if self.call is not None or self._continued is not None:
            self.leave().exchange.cancel(reason)
        # Else there is one, which waits for its record to be safe.

    # What the deadlines need.

    def look(self, now: float) -> None:
        """What takes a while leaves the track: then it can be noted, and given up."""
        if now - self.started >= LINGER_SECONDS:
            self.leave()

    def overdue(self, timeout: Timeout) -> None:
        """It leaves the track, to be given up like any other."""
        self.leave()


_PROGRESS: Final = (
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,'
)
_HEAD_BYTES: Final = _PROGRESS.index(b'{"progressToken"')
BARE: Final = codec.request(b"0", CALL, b"")
"""A call without params."""
_OPENING_BYTES: Final = len(BARE) - 2
"""Of a request, before its params and without its id."""
