"""One request and all that belongs to it: the one inside between four adapters.

A front (legacy or modern) makes an `Exchange` from what a client sent; the relay takes it to a
back (legacy or modern); whatever happens on the way comes back as a `Happening`. Neither side
knows which era the other speaks.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from anyport.protocol.capability import ClientCapabilities
from anyport.protocol.errors import Fault, Pause
from anyport.protocol.method import Method
from anyport.protocol.passage import Passage
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.progress import PROGRESS
from anyport.protocol.revision import Revision
from anyport.protocol.room import Held, Share
from anyport.protocol.shape import Shape
from anyport.wire import codec
from anyport.wire.frame import Failure, Result


class Progress(msgspec.Struct, frozen=True, gc=False):
    """The server reports progress; `params` still carry the server side's token."""

    params: bytes


class Log(msgspec.Struct, frozen=True, gc=False):
    """The server logs something that belongs to this exchange."""

    params: bytes
    said: bytes | None = None
    """As the server said it, where it was not this."""


class Notice(msgspec.Struct, frozen=True, gc=False):
    """Something a listening client asked to be told."""

    method: str
    params: bytes


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The exchange ended with a result."""

    result: bytes
    shape: Shape | None = None
    """What has been read of it, where somebody has."""


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The exchange ended with an error of the server, code and message kept."""

    error: bytes


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The exchange ended with a fault of our own."""

    fault: Fault


class NeedInput(msgspec.Struct, frozen=True):
    """The server needs something from the client before it can go on."""

    question: "Question"


Ending = Answered | Refused | Failed
Happening = Progress | Log | Notice | NeedInput | Ending
"""What can happen in an exchange; exactly one `Ending`, and nothing after it."""


MESSAGE: Final = "notifications/message"
"""What servers log."""

_OVER: Final = Failure(None, codec.error(-32000, "The call that this belonged to has ended"))


class Question:
    """Something a server asks of a client. Answered exactly once, or withdrawn."""

    __slots__ = (
        "_on_answer",
        "heard",
        "method",
        "on_progress",
        "on_withdrawn",
        "open",
        "params",
        "passage",
        "relayed",
    )

    def __init__(
        self,
        method: str,
        params: bytes | None,
        on_answer: Callable[[Result | Failure], None],
        on_progress: Callable[[bytes], None] | None = None,
    ) -> None:
        self.method = method
        self.params = params
        self.open = True
        self.on_progress = on_progress
        """Takes the client's progress on a long answer, params as the client sent them."""
        self.on_withdrawn: Callable[[bytes | None], None] | None = None
        """Set by whoever put the question to a client; called with the raw reason, if any."""
        self.passage: Passage | None = None
        """Of the exchange in which it is put to a client."""
        self.relayed = False
        """Whether what the server asked is in there already, in its own words."""
        self.heard = False
        """Whether it is the client who answered."""
        self._on_answer = on_answer

    def answer(self, frame: Result | Failure) -> None:
        """Bring the client's answer back. A second one is ignored."""
        if self.open:
            self.open = False
            self._on_answer(frame)

    def withdraw(self, reason: bytes | None = None) -> None:
        """The server no longer wants to know."""
        if self.open:
            self.open = False
            if self.on_withdrawn is not None:
                self.on_withdrawn(reason)

    def abandon(self) -> None:
        """The call it belonged to is over: nobody needs to answer, and the server gets to know."""
        if self.open:
            self.withdraw()
            self._on_answer(_OVER)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Caller:
    """Who asks, as far as one request can tell. The same object for requests that tell the same."""

    profile: str
    session: "Session | None"
    """The legacy session the request came in; None for one that stands alone."""
    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None = None
    """Raw `clientInfo`. Never a reason to decide anything."""
    log_level: str | None = None
    principal: Principal = LOCAL
    transport: str = "stdio"
    """How the client is connected, for the record."""

    memory: dict[object, Any] = field(default_factory=dict, repr=False)
    """What others have worked out for this caller and need not work out again; pruned by none,
    so bounded by what is configured: servers, and the names in their lists."""

    @property
    def askable(self) -> bool:
        """Whether it has no session, and can be asked all the same: by way of its own request."""
        return self.session is None and self.capabilities.interactive


class Teller(Protocol):
    """Takes frames to the client: the stream that one request's answer travels on."""

    @property
    def mute(self) -> bool:
        """Whether nothing can be said before the answer."""

    def note(self, *frames: bytes) -> None:
        """Something on the way: progress, a log, a question."""

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """The answer; with the code of the error, if it is one, and how the client is put off."""


class Nobody:
    """There is no client who could be told anything."""

    mute = True

    def note(self, *frames: bytes) -> None:
        """Something on the way."""

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """The answer."""


NOBODY: Final = Nobody()


class Session(Protocol):
    """A downstream legacy session, as the inside sees it."""

    id: str
    principal: Principal
    profile: str
    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None
    log_level: str | None
    subscriptions: set[str]
    transport: str
    """How the client is connected, for the record."""
    parting: str
    """Why it is over, once it is; for the record."""
    resumed: bool
    """Whether it began in another process than this one; for the record."""

    def ask(self, question: Question, teller: Teller | None = None) -> None:
        """Put a question to the client, along with a request of its own or outside any."""

    def notify(self, method: str, params: bytes | None) -> None:
        """Send the client a notification."""


NOT_CARRIED: Final[Mapping[str, str]] = MappingProxyType({})
NO_CONTEXT: Final[Mapping[str, bytes | None]] = MappingProxyType({})
"""Nothing changes; most requests carry no trace context."""


class Exchange(msgspec.Struct, eq=False, kw_only=True):
    """One request, its questions, its progress and its one ending."""

    id: bytes
    method: Method
    params: bytes
    """The raw object; `{}` when the client sent none."""
    found: Mapping[str, msgspec.Raw]
    """The members of the params: they are read once."""
    caller: Caller
    teller: Teller
    """Takes what happens to the client."""
    tell: Callable[["Exchange", Happening], None]
    key: Hashable = None
    """What its front keeps it under."""
    progress_token: bytes | None = None
    reached: float = -inf
    """The progress that the client was told last."""
    param_fields: tuple[tuple[str, str], ...] = ()
    """Header fields for a server over HTTP: `Mcp-Param-*` that came with it, and its trace."""
    carried: Mapping[str, str] = NOT_CARRIED
    """The trace that the header fields of its own request name."""
    context: Mapping[str, bytes | None] = NO_CONTEXT
    """What becomes of the caller's trace context in `_meta` on the way to a server."""
    ended: bool = False
    on_cancel: Callable[[bytes | None], None] | None = None
    """Set by whoever works on it now; called once, with the raw reason, if it is cancelled."""
    questions: tuple[Question, ...] = ()
    rounds: int = 0
    """How often the server has needed to know more."""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    """The client's span, where it sent one."""
    name: str = ""
    """The public name or URI it is about, for the record."""
    started: float = 0.0
    reused: bool = False
    """Whether it was answered with what its server had said before."""
    attempts: int = 1
    """How often its server was asked; more than once if the first time failed."""
    lease: str = ""
    """Whose the connection is that it uses, where it has that to itself."""
    passage: Passage | None = None
    """Where what happens is to be recorded."""
    share: Share | None = None
    """Of its client in all that is under way, while it counts there."""
    held: Held | None = None
    """What it takes up of the room for large messages, if it is one."""
    hold: Callable[["Exchange", bytes, int | None, Pause | None], None] | None = None
    """Tells the answer in its place, when the record of it is safe."""
    on_end: Callable[["Exchange", Ending | None], None] | None = None
    """Told once, when it is over: with its ending, or with none if the client gave up."""

    def happen(self, happening: Progress | Log | Notice | NeedInput) -> None:
        """Tell the client something on the way."""
        if self.passage is not None:
            match happening:
                case Progress(params):
                    self.passage.note("server-notification", "server", PROGRESS, params)
                case Log(params, said):
                    self.passage.note("server-notification", "server", MESSAGE, said or params)
                    self.passage.pass_on("server-notification", "client", MESSAGE, params)
                case Notice(method, params):
                    self.passage.note("server-notification", "client", method, params)
                case NeedInput(question):
                    question.passage = self.passage
        self.tell(self, happening)

    def give(self, result: bytes, pause: Pause | None = None) -> None:
        """Answer the client with a result."""
        if self.passage is not None:
            self.passage.gives(result, failed=False)
        self._answer(codec.result(self.id, result), None, pause)

    def deny(self, error: bytes, code: int | None, pause: Pause | None = None) -> None:
        """Answer the client with an error."""
        if self.passage is not None:
            self.passage.gives(error, failed=True)
        self._answer(codec.failure(self.id, error), code, pause)

    def _answer(self, frame: bytes, code: int | None, pause: Pause | None) -> None:
        if self.hold is None:
            self.teller.end(frame, code, pause)
        else:
            self.hold(self, frame, code, pause)

    def end(self, ending: Ending) -> None:
        """Tell the front how it ended. Only the first ending counts."""
        if self.ended:
            return
        self.ended = True
        # It holds on to this exchange: without a cut, every call waits for the garbage collector.
        self.on_cancel = None
        for question in self.questions:
            question.abandon()
        self.tell(self, ending)
        self._over(ending)

    def cancel(self, reason: bytes | None = None) -> None:
        """The client no longer wants the answer: no ending is told."""
        if self.ended:
            return
        self.ended = True
        for question in self.questions:
            question.abandon()
        give_up, self.on_cancel = self.on_cancel, None
        if give_up is not None:
            give_up(reason)
        self._over(None)

    def _over(self, ending: Ending | None) -> None:
        share, self.share = self.share, None
        if share is not None:
            share.calls -= 1
        held, self.held = self.held, None
        if held is not None:
            held.let_go()
        over, self.on_end = self.on_end, None
        if over is not None:
            over(self, ending)


class Front(Protocol):
    """Who keeps what a client has open."""

    def tell(self, exchange: Exchange, happening: Happening) -> None:
        """Tell the client what happened."""

    def close(self, key: Hashable) -> None:
        """What was kept under this key has its answer."""

    def swap(self, key: Hashable, exchange: Exchange) -> None:
        """What was kept under this key goes on as an exchange."""


class Pending(Protocol):
    """What a client has open: an exchange, or a shorter form of one."""

    @property
    def id(self) -> bytes: ...
    @property
    def method(self) -> Method: ...
    @property
    def params(self) -> bytes: ...
    @property
    def teller(self) -> Teller: ...
    def cancel(self, reason: bytes | None = None) -> None:
        """The client no longer wants the answer."""


class Again(Pending, Protocol):
    """A call that was made before, ready to be made again."""

    def go(self) -> None:
        """Make it."""
