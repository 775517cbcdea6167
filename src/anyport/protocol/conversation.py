"""Conversation with one client, of both eras: sorts incoming messages and keeps the open requests.

A client may probe with `server/discover` and then fall back to `initialize`, so the era is decided
per message. A `RequestHandler` (the gateway) does the work, and a `ReplyWriter` sends the answers:
one per conversation on a pipe, one per message over HTTP. No I/O.
"""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Final

import msgspec
from msgspec import Raw

from anyport.protocol.adapters.client import (
    CANCELLED_CODE,
    ENDINGS,
    Deliver,
    RequestHandler,
    deliver_ending,
    modern_caller,
)
from anyport.protocol.adapters.legacy_client import (
    GatewayDescription,
    LegacySession,
    deliver_legacy,
    initialize,
)
from anyport.protocol.adapters.modern_client import deliver_modern, is_modern
from anyport.protocol.capabilities import NO_CAPABILITIES, ClientCapabilities
from anyport.protocol.errors import Fault, RetryAfter, Situation, method_not_found
from anyport.protocol.exchange import (
    NULL_WRITER,
    Answered,
    Caller,
    Ending,
    Exchange,
    ExchangeEvent,
    OpenRequest,
    ReplyWriter,
)
from anyport.protocol.memory_budget import LARGE_BYTES, OPEN_REQUESTS_MAX, check_open_requests
from anyport.protocol.meta import PROGRESS
from anyport.protocol.methods import INITIALIZED_NOTIFICATIONS, find_method
from anyport.protocol.principal import LOCAL, Principal
from anyport.protocol.request import ParsedRequest, PlainCall, read_plain_call, read_request
from anyport.protocol.revisions import UNNEGOTIATED, Revision
from anyport.protocol.scheduler import HEAVY_BYTES, WorkSteps, cost_of
from anyport.protocol.session import SessionEvent, SessionState
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    BadFrame,
    Failure,
    Frame,
    Notification,
    Request,
    Result,
)
from anyport.wire.lines import Overlong

# Batches: several messages in one JSON array, and their answers in another. Only revision
# 2025-03-26 has them.

BATCH_MAX: Final = 100
"""Messages in one batch; real clients send a handful."""

BATCH_MEMBER_COST: Final = 2
"""Cost of each for the scheduler, in messages: merged lists cost more than other answers."""


def refuse_batch(raw: bytes, revision: str) -> BadFrame:
    """Why a JSON array is invalid in a revision without batches."""
    messages = jsonrpc.split_batch(raw, BATCH_MAX)
    if isinstance(messages, BadFrame) and messages.code == PARSE_ERROR:
        return messages
    return BadFrame(INVALID_REQUEST, f"Invalid Request: revision {revision} has no batches")


class BatchReplyWriter:
    """Collects the answers to a batch, and sends them together when the last one is there."""

    reply_only = False

    def __init__(self, writer: ReplyWriter) -> None:
        self.writer = writer
        self._answers: list[bytes] = []
        self._expected = 0

    @property
    def has_answer(self) -> bool:
        """Whether the batch has an answer, or will have one."""
        return bool(self._expected or self._answers)

    def expect_answer(self) -> None:
        self._expected += 1

    def send_frames(self, *frames: bytes) -> None:
        """Frames before the answer are not part of the batch."""
        self.writer.send_frames(*frames)

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        """Add an answer."""
        self._answers.append(frame)
        self.drop_expected()

    def drop_expected(self) -> None:
        """An answer was added, or will not come because its request was cancelled."""
        self._expected -= 1
        if self._expected == 0 and self._answers:
            self.writer.end(b"[%b]" % b",".join(self._answers))


class Conversation:
    """The conversation with one client."""

    __slots__ = (
        "_bytes_max",
        "_caller",
        "_default_revision",
        "_handler",
        "_new_session_id",
        "_open",
        "_principal",
        "_profile",
        "_question_ids",
        "_transport",
        "_writer",
        "on_idle",
        "session",
    )

    def __init__(  # noqa: PLR0913 - who talks with whom over what, all by name
        self,
        *,
        profile: str,
        handler: RequestHandler,
        writer: ReplyWriter,
        transport: str,
        new_session_id: Callable[[], str],
        principal: Principal = LOCAL,
        default_revision: Revision = UNNEGOTIATED,
        bytes_max: int = jsonrpc.INBOUND.bytes_max,
    ) -> None:
        self.session: LegacySession | None = None
        self.on_idle: Callable[[Conversation], None] | None = None
        """Called when the last open request has its ending."""
        self._profile = profile
        self._handler = handler
        self._writer: ReplyWriter = writer
        self._transport = transport
        self._new_session_id = new_session_id
        self._principal = principal
        self._default_revision = default_revision
        """The revision of a client that skips the handshake."""
        self._bytes_max = bytes_max
        self._open: dict[Hashable, OpenRequest] = {}
        self._question_ids = count(1)
        self._caller: Caller | None = None
        """The caller of the session, shared by its requests."""

    @property
    def open_requests(self) -> int:
        """Number of open requests, subscriptions included."""
        return len(self._open)

    @property
    def revision(self) -> Revision:
        """The negotiated revision, or the assumed one."""
        return self._default_revision if self.session is None else self.session.revision

    @property
    def any_writer(self) -> ReplyWriter | None:
        """The reply writer of some open request."""
        return next((exchange.writer for exchange in self._open.values()), None)

    def request_id_of(self, writer: ReplyWriter) -> bytes | None:
        """The raw id of the open request that this writer answers."""
        return next(
            (exchange.id for exchange in self._open.values() if exchange.writer is writer), None
        )

    def receive(self, raw: bytes | Overlong) -> WorkSteps | None:
        """Handle one message from a pipe; returns the remaining work of a batch."""
        if isinstance(raw, Overlong):
            id = jsonrpc.id_at_edge(raw.edges)
            self.handle(jsonrpc.too_large_error(raw.size, self._bytes_max, id), self._writer)
        elif jsonrpc.is_batch(raw):
            return self.handle_batch(raw, self._writer)
        else:
            plain_call = None if self._caller is None else read_plain_call(raw)
            if (
                plain_call is None
                or plain_call.is_modern
                or not self.try_fast_call(plain_call, self._writer)
            ):
                self.handle(jsonrpc.decode(raw), self._writer)
        return None

    def notify_client(self, method: str, params: bytes | None) -> None:
        """Send the client a notification outside of any request."""
        if self.session is not None:
            self.session.notify(method, params)
        else:
            self._writer.send_frames(jsonrpc.encode_notification(method, params))

    def end_input(self) -> None:
        """The client sends nothing more: end subscriptions and open questions."""
        for exchange in list(self._open.values()):
            if isinstance(exchange, Exchange) and exchange.method.name == "subscriptions/listen":
                exchange.end(Answered(b"{}"))
        if self.session is not None:
            self.session.close_input()

    def close_session(self) -> None:
        """End the session, if there is one."""
        if self.session is not None:
            self._handler.on_session_closed(self.session)
            self.session.apply(SessionEvent.CLOSE)

    def cancel_all(self) -> None:
        """The client is gone: cancel all of its requests."""
        exchanges, self._open = list(self._open.values()), {}
        for exchange in exchanges:
            exchange.cancel()
            self._finish_cancelled(exchange)

    def abandon(self) -> None:
        """The client is gone: cancel everything and end the session."""
        self.end_input()
        self.cancel_all()
        self.close_session()
        self._writer = NULL_WRITER  # Breaks a reference cycle.
        if self._caller is not None:
            self._caller.cache.clear()

    def handle_batch(
        self, raw: bytes, writer: ReplyWriter, on_silent: Callable[[], None] = lambda: None
    ) -> WorkSteps:
        """Handle a JSON array message by message; `on_silent` is called if nothing in it has an
        answer."""
        if self.revision.batches:
            messages = jsonrpc.split_batch(raw, BATCH_MAX)
        else:
            messages = refuse_batch(raw, self.revision.name)
        if isinstance(messages, BadFrame):
            # JSON-RPC 2.0, 6: an invalid batch is answered by a single object, not by an array.
            self.handle(messages, writer)
            return
        batch = BatchReplyWriter(writer)
        batch.expect_answer()  # Holds the answers back until the last message is handled.
        for message in messages:
            if len(message) > HEAVY_BYTES:
                yield cost_of(len(message))
            self._handle_batch_member(jsonrpc.decode_checked(message), batch)
            yield BATCH_MEMBER_COST
        batch.drop_expected()
        if not batch.has_answer:
            on_silent()

    def _handle_batch_member(self, frame: Frame | BadFrame, batch: BatchReplyWriter) -> None:
        if isinstance(frame, Request) and self._writer is NULL_WRITER:
            # The session ended between two steps of the batch.
            batch.expect_answer()
            batch.end(
                jsonrpc.encode_failure(
                    frame.id, jsonrpc.encode_error(CANCELLED_CODE, "Request cancelled")
                )
            )
            return
        if isinstance(frame, Request) and frame.method == "initialize":
            # MCP 2025-03-26, lifecycle: "The initialize request MUST NOT be part of a JSON-RPC
            # batch".
            message = "Invalid Request: initialize must not be part of a batch"
            frame = BadFrame(-32600, message, id=frame.id)
        self.handle(frame, batch)

    def handle(self, frame: Frame | BadFrame, writer: ReplyWriter) -> None:
        """Handle one message; its answer goes to `writer`."""
        match frame:
            case Request():
                parsed = read_request(frame)
                if isinstance(parsed, Fault):
                    self.reject(frame, parsed, writer)
                else:
                    self.handle_request(parsed, writer)
            case Notification():
                self._handle_notification(frame)
            case Result() | Failure():
                if self.session is not None:
                    self.session.on_answer(frame)
            case BadFrame():
                self._handler.record_message(self._current_caller(), frame)
                if not frame.answerable:
                    return
                if isinstance(writer, BatchReplyWriter):
                    writer.expect_answer()
                null_id = self.revision.null_ids
                error = jsonrpc.encode_error(frame.code, frame.message)
                writer.end(jsonrpc.encode_failure(frame.id, error, null_id=null_id), frame.code)

    def reject(
        self, frame: Request, fault: Fault, writer: ReplyWriter, caller: Caller | None = None
    ) -> None:
        """Answer a request with a fault."""
        if isinstance(writer, BatchReplyWriter):
            writer.expect_answer()
        error = fault.render(self.revision)
        self._handler.record_message(
            caller or self._current_caller(), frame, Failure(frame.id, error)
        )
        writer.end(
            jsonrpc.encode_failure(frame.id, error), fault.code(self.revision), fault.retry_after
        )

    def try_fast_call(self, plain_call: PlainCall, writer: ReplyWriter) -> bool:
        """Start a call on the fast path; False if it has to be handled like any other."""
        caller = self._cached_caller()
        if caller is None:
            return False
        key = plain_call.key
        if key in self._open or len(self._open) >= OPEN_REQUESTS_MAX:
            return False
        call = self._handler.prepare_fast_call(plain_call, caller, self, writer, key)
        if call is None:
            return False
        self._open[key] = call
        call.start()
        return True

    def handle_request(self, parsed: ParsedRequest, writer: ReplyWriter) -> None:
        """Begin an exchange, or refuse the request."""
        frame = parsed.frame
        if frame.method == "initialize":
            result = initialize(frame, self._open_session)
            if isinstance(result, Fault):
                self.reject(frame, result, writer)
            elif result is None:
                self._initialize_through_server(parsed, writer)
            else:
                self._handler.record_message(
                    self._current_caller(), frame, Result(frame.id, result)
                )
                writer.end(jsonrpc.encode_result(frame.id, result))
            return
        modern = is_modern(frame.method, parsed.meta_members)
        caller = self._modern_caller(parsed, writer) if modern else self._legacy_caller()
        if isinstance(caller, Fault):
            self.reject(frame, caller, writer)
            return
        fault = self._begin(parsed, writer, caller, modern=modern)
        if fault is not None:
            self.reject(frame, fault, writer, caller)

    def _initialize_through_server(self, parsed: ParsedRequest, writer: ReplyWriter) -> None:
        """A transparent profile: its server answers `initialize`. If that fails, there is no
        session."""
        session = self.session

        def settle(exchange: Exchange, ending: Ending | None) -> None:
            if previous_on_end is not None:
                previous_on_end(exchange, ending)
            if not isinstance(ending, Answered) and session is self.session:
                self.close_session()
                self.session = None

        fault = self._begin(parsed, writer, self._current_caller(), modern=False)
        exchange = self._open.get(jsonrpc.id_value(parsed.frame.id))
        if fault is not None:
            self.reject(parsed.frame, fault, writer)
        elif isinstance(exchange, Exchange):
            previous_on_end, exchange.on_end = exchange.on_end, settle

    def _begin(
        self, parsed: ParsedRequest, writer: ReplyWriter, caller: Caller, *, modern: bool
    ) -> Fault | None:
        frame = parsed.frame
        method = find_method(frame.method, caller.revision)
        if method is None:
            method = self._handler.find_unknown_method(caller, frame.method)
        if method is None:
            return method_not_found(frame.method)
        key = jsonrpc.id_value(frame.id)
        needs_check = key in self._open or len(self._open) >= OPEN_REQUESTS_MAX
        if needs_check or len(parsed.params) > LARGE_BYTES:
            fault = check_open_requests(self._open, key, len(parsed.params))
            if fault is not None:
                return fault
        exchange = Exchange(
            id=frame.id,
            method=method,
            params=parsed.params,
            param_members=parsed.param_members,
            caller=caller,
            writer=writer,
            deliver=self._deliver_modern if modern else self.deliver,
            key=key,
            progress_token=parsed.progress_token if parsed.meta_members else None,
            trace_headers=parsed.trace_headers,
        )
        self._open[key] = exchange
        if isinstance(writer, BatchReplyWriter):
            writer.expect_answer()
        self._handler.begin(exchange)
        return None

    def _open_session(
        self, revision: Revision, capabilities: ClientCapabilities, client: bytes | None
    ) -> GatewayDescription | None:
        if self.session is not None:
            # A client whose first attempt timed out starts again on the same pipe.
            self.session.close_input()
            self.close_session()
        self.session = LegacySession(
            id=self._new_session_id(),
            profile=self._profile,
            revision=revision,
            capabilities=capabilities,
            client=client,
            writer=self._writer,
            transport=self._transport,
            question_ids=self._question_ids,
            principal=self._principal,
        )
        self._handler.on_session_opened(self.session)
        return self._handler.describe(self._profile)

    def _handle_notification(self, frame: Notification) -> None:
        self._handler.record_message(self._current_caller(), frame)
        params = frame.params if frame.params is not None and frame.params[:1] == b"{" else b"{}"
        if frame.method == "notifications/cancelled":
            self._cancel(params)
        elif frame.method in INITIALIZED_NOTIFICATIONS:
            if self.session is not None:
                self.session.apply(SessionEvent.INITIALIZED)
        elif frame.method == PROGRESS:
            # A token that is not ours may be that of a transparent profile's server.
            if self.session is not None and not self.session.on_progress(params):
                self._handler.on_notification(self._current_caller(), frame)
        else:
            self._handler.on_notification(self._current_caller(), frame)

    def _cancel(self, params: bytes) -> None:
        """Cancel an open request. MCP 2025-11-25, cancellation: unknown, finished and malformed
        ones "MAY" be ignored."""
        try:
            param_members = raw_json.unique_members(params)
            key = msgspec.json.decode(param_members.get("requestId", Raw(b"null")), type=str | int)
        except (msgspec.DecodeError, raw_json.AmbiguousObject):
            return
        exchange = self._open.pop(key, None)
        if exchange is None:
            return
        reason = param_members.get("reason")
        exchange.cancel(None if reason is None else bytes(reason))
        self._finish_cancelled(exchange)
        self._notify_if_idle()

    def _finish_cancelled(self, exchange: OpenRequest) -> None:
        """Finish a cancelled request: no answer will come."""
        writer = exchange.writer
        target = writer.writer if isinstance(writer, BatchReplyWriter) else writer
        if target is not self._writer:
            # Over HTTP a request has a response of its own, which only ends with an answer.
            error = jsonrpc.encode_error(CANCELLED_CODE, "Request cancelled")
            writer.end(jsonrpc.encode_failure(exchange.id, error), CANCELLED_CODE)
        elif isinstance(writer, BatchReplyWriter):
            writer.drop_expected()

    def deliver(self, exchange: Exchange, event: ExchangeEvent) -> None:
        """Deliver an event of an exchange to a legacy client."""
        self._deliver_with(deliver_legacy, exchange, event)

    def remove(self, key: Hashable) -> None:
        """The fast-path call with this key has its answer."""
        del self._open[key]
        self._notify_if_idle()

    def replace(self, key: Hashable, exchange: Exchange) -> None:
        """The fast-path call with this key continues as an exchange."""
        if key in self._open:  # It may have been cancelled.
            self._open[key] = exchange

    def _deliver_modern(self, exchange: Exchange, event: ExchangeEvent) -> None:
        self._deliver_with(self._send_modern, exchange, event)

    def _deliver_with(self, deliver: Deliver, exchange: Exchange, event: ExchangeEvent) -> None:
        if not isinstance(event, ENDINGS):
            deliver(exchange, event)
            return
        # First, so that the client may use the id again as soon as it has the answer.
        del self._open[exchange.key]
        deliver_ending(deliver, exchange, event)
        self._notify_if_idle()

    def _send_modern(self, exchange: Exchange, event: ExchangeEvent) -> None:
        deliver_modern(exchange, event, self._handler.server_info(exchange.caller.profile))

    def _notify_if_idle(self) -> None:
        if not self._open and self.on_idle is not None:
            self.on_idle(self)

    def _legacy_caller(self) -> Caller:
        if self.session is not None and self.session.state not in (
            SessionState.READY,
            SessionState.CLOSED,
        ):
            self.session.apply(SessionEvent.REQUEST)
        return self._current_caller()

    def _modern_caller(self, parsed: ParsedRequest, writer: ReplyWriter) -> Caller | Fault:
        if isinstance(writer, BatchReplyWriter):
            message = "Invalid Request: a request without a session must not be part of a batch"
            return Fault(situation=Situation.INVALID_REQUEST, message=message)
        return modern_caller(parsed.meta_members, self._profile, self._principal, self._transport)

    def _current_caller(self) -> Caller:
        """The caller of a message; the same object while nothing about it changes."""
        session = self.session
        if session is None or session.state is SessionState.CLOSED:
            return Caller(
                profile=self._profile,
                session=None,
                revision=self._default_revision,
                capabilities=NO_CAPABILITIES,
                principal=self._principal,
                transport=self._transport,
            )
        caller = self._cached_caller()
        if caller is None:
            caller = self._caller = Caller(
                profile=self._profile,
                session=session,
                revision=session.revision,
                capabilities=session.capabilities,
                client=session.client,
                log_level=session.log_level,
                principal=self._principal,
                transport=self._transport,
            )
        return caller

    def _cached_caller(self) -> Caller | None:
        """The caller of the last request, if nothing about it has changed."""
        caller, session = self._caller, self.session
        if caller is None or session is None or caller.session is not session:
            return None
        return caller if caller.log_level == session.log_level else None
