"""Exchange: one request with its questions, its progress and its one ending, independent of eras.

A client adapter (legacy or modern) creates an `Exchange`, the relay passes it to a server adapter
(legacy or modern), and what happens comes back as an `ExchangeEvent`. Neither side knows the era of
the other.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from anyport.protocol.capabilities import ClientCapabilities
from anyport.protocol.errors import SERVER_FAULT, Fault, RetryAfter
from anyport.protocol.memory_budget import ClientLoad, MemoryReservation
from anyport.protocol.meta import PROGRESS
from anyport.protocol.methods import Method
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.result import ResultShape
from anyport.protocol.revisions import Revision
from anyport.protocol.session import STDIO
from anyport.protocol.transcript import Transcript
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Result


class Progress(msgspec.Struct, frozen=True, gc=False):
    """The server reports progress; `params` still have the gateway's token."""

    params: bytes


class Log(msgspec.Struct, frozen=True, gc=False):
    """The server logs a message that belongs to this exchange."""

    params: bytes
    original: bytes | None = None
    """The server's own params, if they were changed."""


class ServerNotification(msgspec.Struct, frozen=True, gc=False):
    """A notification for `subscriptions/listen`, or one that the server relates to the request."""

    method: str
    params: bytes | None


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The exchange ended with a result."""

    result: bytes
    shape: ResultShape | None = None
    """The parsed shape of the result, if known."""
    verbatim: bool = False
    """Whether a legacy client gets the result exactly as its server sent it."""


class ErrorAnswered(msgspec.Struct, frozen=True, gc=False):
    """The exchange ended with a server's error; code and message are kept."""

    error: bytes


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The exchange ended with a fault of the gateway."""

    fault: Fault


class NeedInput(msgspec.Struct, frozen=True):
    """The server needs input from the client before it can go on."""

    question: "Question"


Ending = Answered | ErrorAnswered | Failed
ExchangeEvent = Progress | Log | ServerNotification | NeedInput | Ending
"""What can happen in an exchange: any number of events, then exactly one `Ending`."""


LOG_MESSAGE: Final = "notifications/message"

_CALL_ENDED: Final = Failure(
    None, jsonrpc.encode_error(SERVER_FAULT, "The call that this belonged to has ended")
)


class Question:
    """A server's request to a client: elicitation, sampling, roots. Answered once, or withdrawn."""

    __slots__ = (
        "_on_answer",
        "answered_by_client",
        "in_transcript",
        "method",
        "on_progress",
        "on_withdrawn",
        "open",
        "params",
        "transcript",
        "verbatim",
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
        """Receives the client's progress; params as the client sent them."""
        self.on_withdrawn: Callable[[bytes | None], None] | None = None
        """Set by the adapter that sends the question to a client; called with the raw reason, if
        any."""
        self.transcript: Transcript | None = None
        """The transcript of the exchange in which it is sent to a client."""
        self.in_transcript = False
        """Whether the transcript already has the server's request."""
        self.answered_by_client = False
        """Whether the answer came from the client."""
        self.verbatim = False
        """Whether the client gets it exactly as its server sent it."""
        self._on_answer = on_answer

    def answer(self, frame: Result | Failure) -> None:
        """Pass on the client's answer. Only the first one counts."""
        if self.open:
            self.open = False
            self._on_answer(frame)

    def withdraw(self, reason: bytes | None = None) -> None:
        """The server cancels the question."""
        if self.open:
            self.open = False
            if self.on_withdrawn is not None:
                self.on_withdrawn(reason)

    def abandon(self) -> None:
        """The call it belonged to has ended: cancel it at the client, and answer the server with an
        error."""
        if self.open:
            self.withdraw()
            self._on_answer(_CALL_ENDED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Caller:
    """The sender of a request, as far as the request tells. Shared by requests that tell the
    same."""

    profile: str
    session: "Session | None"
    """The legacy session of the request; None without one."""
    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None = None
    """Raw `clientInfo`. Never a reason to decide anything."""
    log_level: str | None = None
    principal: Principal = LOCAL
    transport: str = STDIO
    """How the client is connected, for the record."""

    meta_suffixes: dict[object, bytes] = field(default_factory=dict, repr=False)
    """The `_meta` of requests that came without one, ready to append, by server adapter."""
    rewritten_metas: dict[object, tuple[bytes, bytes | None]] = field(
        default_factory=dict, repr=False
    )
    """The last `_meta` of the client and what a server gets instead, by server adapter."""
    cache: dict[object, Any] = field(default_factory=dict, repr=False)
    """What the gateway keeps for this caller: fast paths, event templates, and the pages of lists
    that pass through a transparent profile.

    Nothing is evicted. `FAST_PATHS_MAX` and `EVENT_TEMPLATES_MAX` bound the size of all together;
    of pages there is one entry for each kind of list.
    """

    @property
    def askable(self) -> bool:
        """Whether a client without a session can be asked, in the result of its own request."""
        return self.session is None and self.capabilities.interactive


class ReplyWriter(Protocol):
    """Sends frames to a client: the stream on which the answer to one request travels."""

    @property
    def reply_only(self) -> bool:
        """Whether nothing can be sent before the answer."""

    def send_frames(self, *frames: bytes) -> None:
        """Send frames before the answer: progress, logs, questions."""

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        """Send the answer, with the code of its error and when to retry, if any."""


class NullReplyWriter:
    """A reply writer that drops everything: the client is gone."""

    reply_only = True

    def send_frames(self, *frames: bytes) -> None: ...

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None: ...


NULL_WRITER: Final = NullReplyWriter()


class Session(Protocol):
    """A legacy session of a client, as the gateway uses it."""

    id: str
    principal: Principal
    profile: str
    revision: Revision
    capabilities: ClientCapabilities
    client: bytes | None
    log_level: str | None
    subscriptions: set[str]
    elicitations: tuple[tuple[str, str], ...]
    """URL elicitations by server and id, until the server reports their completion."""
    transport: str
    """How the client is connected, for the record."""
    close_reason: str
    """Why it ended, for the record."""
    resumed: bool
    """Whether it began in another process, for the record."""

    def ask(self, question: Question, writer: ReplyWriter | None = None) -> None:
        """Send a question to the client, on the stream of a request or outside of any."""

    def notify(self, method: str, params: bytes | None) -> None: ...


NO_TRACE_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
NO_TRACE_CONTEXT: Final[Mapping[str, bytes | None]] = MappingProxyType({})
"""No changes; most requests have no trace context."""


class Exchange(msgspec.Struct, eq=False, kw_only=True):
    """One request and everything that belongs to it until its ending."""

    id: bytes
    method: Method
    params: bytes
    """The raw object; `{}` if the client sent none."""
    param_members: Mapping[str, msgspec.Raw]
    """The members of `params`, parsed once."""
    caller: Caller
    writer: ReplyWriter
    deliver: Callable[["Exchange", ExchangeEvent], None]
    key: Hashable = None
    """The key of the client adapter."""
    progress_token: bytes | None = None
    progress_reported: bool = False
    """Whether the client has received progress."""
    param_fields: tuple[tuple[str, str], ...] = ()
    """`Mcp-Param-*` header fields of the request, to repeat to a server over HTTP."""
    trace_headers: Mapping[str, str] = NO_TRACE_HEADERS
    """The trace context in the header fields of the request."""
    trace_context: Mapping[str, bytes | None] = NO_TRACE_CONTEXT
    """How the trace context in `_meta` changes on the way to a server."""
    ended: bool = False
    on_cancel: Callable[[bytes | None], None] | None = None
    """Set by the current owner of the exchange; called once with the raw reason on cancellation."""
    questions: tuple[Question, ...] = ()
    input_rounds: int = 0
    """How many times the server has answered `input_required`."""
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    """The client's span, if it sent one."""
    name: str = ""
    """The public name or URI of its target, for the record."""
    server: str = ""
    """The slug of the server it goes to, for the record; empty while there is none."""
    native: str = ""
    """The native name or URI of its target, for the record."""
    server_seconds: float | None = None
    """How much of its time the server took, for the record."""
    started_at: float = 0.0
    from_cache: bool = False
    """Whether the answer came from the cache of resource reads."""
    attempts: int = 1
    """How many times a server was asked; retries count."""
    lease_owner: str = ""
    """The owner of the connection it uses, if that is exclusive."""
    transcript: Transcript | None = None
    """Frames for the record, if they are recorded."""
    client_load: ClientLoad | None = None
    """The client's load, while this exchange counts towards it."""
    reservation: MemoryReservation | None = None
    """Its part of the memory budget, if it is large."""
    delay_answer: Callable[["Exchange", bytes, int | None, RetryAfter | None], None] | None = None
    """Sends the answer later, once its event is recorded."""
    on_end: Callable[["Exchange", Ending | None], None] | None = None
    """Called once at the end: with the ending, or None if the client cancelled."""

    def continue_from(self, before: "Exchange") -> None:
        """Go on with a call whose client has come back with another request.

        For the record they are one exchange, with one trace and one transcript.
        """
        self.trace_id, self.span_id = before.trace_id, before.span_id
        self.parent_span_id, self.started_at = before.parent_span_id, before.started_at
        self.name, self.server, self.native = before.name, before.server, before.native
        self.lease_owner, self.attempts = before.lease_owner, before.attempts
        self.server_seconds, self.transcript = before.server_seconds, before.transcript
        if self.transcript is not None:
            self.transcript.on_client_retry(self.method.name, before.params, self.params)

    def emit(self, event: Progress | Log | ServerNotification | NeedInput) -> None:
        """Deliver an event to the client."""
        if self.transcript is not None:
            match event:
                case Progress(params):
                    self.transcript.record("server-notification", "server", PROGRESS, params)
                case Log(params, original):
                    self.transcript.record(
                        "server-notification", "server", LOG_MESSAGE, original or params
                    )
                    self.transcript.record_forwarded(
                        "server-notification", "client", LOG_MESSAGE, params
                    )
                case ServerNotification(method, params):
                    self.transcript.record("server-notification", "client", method, params)
                case NeedInput(question):
                    question.transcript = self.transcript
        self.deliver(self, event)

    def send_result(self, result: bytes, retry_after: RetryAfter | None = None) -> None:
        """Send a result as the answer."""
        if self.transcript is not None:
            self.transcript.on_client_answer(result, failed=False)
        self._send_answer(jsonrpc.encode_result(self.id, result), None, retry_after)

    def send_error(
        self, error: bytes, code: int | None, retry_after: RetryAfter | None = None
    ) -> None:
        """Send an error as the answer."""
        if self.transcript is not None:
            self.transcript.on_client_answer(error, failed=True)
        self._send_answer(jsonrpc.encode_failure(self.id, error), code, retry_after)

    def _send_answer(self, frame: bytes, code: int | None, retry_after: RetryAfter | None) -> None:
        if self.delay_answer is None:
            self.writer.end(frame, code, retry_after)
        else:
            self.delay_answer(self, frame, code, retry_after)

    def end(self, ending: Ending) -> None:
        """End the exchange. Only the first ending counts."""
        if self.ended:
            return
        self.ended = True
        # Breaks a reference cycle: the callback holds this exchange.
        self.on_cancel = None
        # Questions first: nothing may be sent for a request after its answer.
        for question in self.questions:
            question.abandon()
        try:
            self.deliver(self, ending)
        finally:  # What breaks on the way to the client is no reason to lose the record.
            self._finish(ending)

    def cancel(self, reason: bytes | None = None) -> None:
        """The client cancelled the request: nothing is delivered."""
        if self.ended:
            return
        self.ended = True
        for question in self.questions:
            question.abandon()
        on_cancel, self.on_cancel = self.on_cancel, None
        if on_cancel is not None:
            on_cancel(reason)
        self._finish(None)

    def _finish(self, ending: Ending | None) -> None:
        client_load, self.client_load = self.client_load, None
        if client_load is not None:
            client_load.calls -= 1
        reservation, self.reservation = self.reservation, None
        if reservation is not None:
            reservation.release()
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self, ending)


class ClientAdapter(Protocol):
    """Holds the open requests of a client and delivers events to it."""

    def deliver(self, exchange: Exchange, event: ExchangeEvent) -> None:
        """Deliver an event of an exchange to the client."""

    def remove(self, key: Hashable) -> None:
        """The fast-path call with this key has its answer."""

    def replace(self, key: Hashable, exchange: Exchange) -> None:
        """The fast-path call with this key continues as an exchange."""


class OpenRequest(Protocol):
    """An open request of a client: an exchange, or a fast-path call."""

    @property
    def id(self) -> bytes: ...
    @property
    def method(self) -> Method: ...
    @property
    def params(self) -> bytes: ...
    @property
    def writer(self) -> ReplyWriter: ...
    def cancel(self, reason: bytes | None = None) -> None:
        """The client cancelled the request."""


class PreparedCall(OpenRequest, Protocol):
    """A fast-path call, ready to start."""

    def start(self) -> None: ...
