"""One request and all that belongs to it: the one inside between four adapters.

A front (legacy or modern) makes an `Exchange` from what a client sent; the relay takes it to a
back (legacy or modern); whatever happens on the way comes back as a `Happening`. Neither side
knows which era the other speaks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from anyport.protocol.capability import ClientCapabilities
from anyport.protocol.errors import Fault
from anyport.protocol.method import Method
from anyport.protocol.revision import Revision
from anyport.wire import codec
from anyport.wire.frame import Failure, Result


class Progress(msgspec.Struct, frozen=True, gc=False):
    """The server reports progress; `params` still carry the server side's token."""

    params: bytes


class Log(msgspec.Struct, frozen=True, gc=False):
    """The server logs something that belongs to this exchange."""

    params: bytes


class Notice(msgspec.Struct, frozen=True, gc=False):
    """Something a listening client asked to be told."""

    method: str
    params: bytes


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The exchange ended with a result."""

    result: bytes


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


_OVER: Final = Failure(None, codec.error(-32000, "The call that this belonged to has ended"))


class Question:
    """Something a server asks of a client. Answered exactly once, or withdrawn."""

    __slots__ = ("_on_answer", "method", "on_progress", "on_withdrawn", "open", "params")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, as far as one request can tell."""

    profile: str
    session: "Session | None"
    """The legacy session the request came in; None for one that stands alone."""
    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None = None
    """Raw `clientInfo`. Never a reason to decide anything."""
    log_level: str | None = None
    principal: str = "local"


class Session(Protocol):
    """A downstream legacy session, as the inside sees it."""

    id: str
    profile: str
    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None
    log_level: str | None
    subscriptions: set[str]

    def ask(self, question: Question) -> None:
        """Put a question to the client outside any exchange."""

    def notify(self, method: str, params: bytes | None) -> None:
        """Send the client a notification."""


NO_CONTEXT: Final[Mapping[str, bytes | None]] = MappingProxyType({})
"""Nothing changes; most requests carry no trace context."""


class Exchange:
    """One request, its questions, its progress and its one ending."""

    __slots__ = (
        "caller",
        "context",
        "ended",
        "id",
        "method",
        "name",
        "on_cancel",
        "params",
        "parent_span_id",
        "progress_token",
        "questions",
        "rounds",
        "span_id",
        "started",
        "tell",
        "trace_id",
    )

    def __init__(
        self,
        *,
        id: bytes,
        method: Method,
        params: bytes,
        caller: Caller,
        tell: Callable[["Exchange", Happening], None],
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        """The raw object; `{}` when the client sent none."""
        self.caller = caller
        self.tell = tell
        self.progress_token: bytes | None = None
        self.context: Mapping[str, bytes | None] = NO_CONTEXT
        """What becomes of the caller's trace context in `_meta` on the way to a server."""
        self.ended = False
        self.on_cancel: Callable[[bytes | None], None] | None = None
        """Set by whoever works on it now; called once, with the raw reason, if it is cancelled."""
        self.questions: list[Question] = []
        self.rounds = 0
        """How often the server has needed to know more."""
        self.trace_id = ""
        self.span_id = ""
        self.parent_span_id = ""
        """The client's span, where it sent one."""
        self.name = ""
        """The public name or URI it is about, for the record."""
        self.started = 0.0

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
