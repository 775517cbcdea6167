"""Streamable HTTP, modern and legacy: headers, sessions, and SSE streams that can be resumed.

A legacy server that has lost the session gets a new handshake, once for all calls that find out.
Calls that it has certainly not looked at are then sent again. If the stream of a call breaks off,
it is resumed after the last event id, if the server sets ids.
"""

import asyncio
from asyncio import Event, TimerHandle
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from math import inf
from typing import Final

import msgspec

from anyport.clock import Clock
from anyport.protocol.errors import HEADER_MISMATCH, Situation, Timeout, error_code
from anyport.protocol.headers import (
    NAMED_BY,
    PARAM_PREFIX,
    Annotations,
    encode_param_fields,
    encode_value,
)
from anyport.protocol.methods import IDEMPOTENT_METHODS
from anyport.protocol.request import TOOLS_CALL
from anyport.protocol.revisions import Revision
from anyport.protocol.scheduler import WorkSteps
from anyport.upstream.backoff import DELAY_SECONDS_MAX, Backoff
from anyport.upstream.handshake import (
    HandshakeFailed,
    HandshakeOptions,
    initialize_error,
    initialize_params,
    legacy_peer,
)
from anyport.upstream.http.channel import (
    ENDLESS_FACTOR,
    HttpCall,
    HttpChannel,
    continue_splitter,
    deliver_events,
    plain_message,
    read_session_error,
)
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import ClientConnection, HttpFailure
from anyport.upstream.http.fetch import Fetch, FetchResponse, fetch
from anyport.upstream.http.headers import (
    RequestHeads,
    describe_bad_response,
    header_line,
    trace_headers,
)
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Fields, NoAnswer, PendingCall, Retryable
from anyport.upstream.transport import TransportOwner
from anyport.wire import jsonrpc, raw_json
from anyport.wire.http1 import ResponseHead
from anyport.wire.jsonrpc import Failure, Result
from anyport.wire.sse import EventSplitter

# The stream of a session for what belongs to no call. Not every server has one. Where there is one,
# it is kept open: when it ends, it is requested again, with back-off. Notifications are lost
# meanwhile, unless the server numbers its events.

_RETRY_STATUSES: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class SessionStream:
    """Keeps the GET stream of a session open."""

    wait_timeout = Timeout.STREAM_IDLE
    repeatable = True

    def __init__(
        self,
        channel: "SessionChannel",
        clock: Clock,
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._was_open = False
        """Whether there was one in this session."""
        self.absent = False
        """Whether the server has said that it has none."""
        self._backoff = Backoff()
        self.http_connection: ClientConnection | None = None
        self._splitter: EventSplitter | None = None
        self.open_since = inf
        """When the current stream was opened; infinite while there is none."""
        self.decided = Event()
        """Set once the server has opened the stream or refused it."""
        self._timer: TimerHandle | None = None
        """Until it is requested again."""
        self._done = False

    def open(self) -> None:
        """Request the stream."""
        self._timer = None
        if self._done or self._channel.connection.draining_reason is not None:
            return
        last_id = "" if self._splitter is None else self._splitter.last_id
        head = self._channel.stream_head(last_id)
        self._channel.client.request(head, None, self)

    def reopen(self) -> None:
        """Request the stream of a new session: event ids of the old one mean nothing there."""
        self._stop()
        self._splitter, self.open_since, self._was_open = None, inf, False
        self.absent = False
        self.open()

    def close(self) -> None:
        self._done = True
        self._stop()

    def renew_body(self) -> None: ...

    def on_stream(self, head: ResponseHead) -> None:
        self.open_since = self._clock.monotonic()
        self.decided.set()
        if self._was_open and (self._splitter is None or not self._splitter.last_id):
            self._channel.owner.on_gap(self._channel.connection)
        self._was_open = True
        self._splitter = continue_splitter(self._splitter, self._channel.bytes_max)

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        splitter = self._splitter
        if splitter is None:
            return
        yield from deliver_events(self._channel.connection, splitter, portion, None)
        if splitter.pending_bytes > ENDLESS_FACTOR * splitter.bytes_max:
            self._channel.client.cancel(self)
            self._splitter = None
            self._reopen_later()

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        """No stream came. A server that has none answers with 405, or another client error."""
        self.decided.set()
        if self._was_open and head.status == HTTPStatus.NOT_FOUND:
            # It had a stream: what the server does not know any more is the session.
            self._channel.renew_session()
        elif self._was_open or head.status in _RETRY_STATUSES or head.status >= 500:
            # 409, for example: the server may not have noticed yet that the last stream was closed.
            self._reopen_later()
        else:
            self.absent = True

    def on_stream_closed(self, failure: HttpFailure | None) -> None:
        self._reopen_later()

    def on_failure(self, failure: HttpFailure) -> None:
        self.decided.set()
        self._channel.report_unreachable(failure)
        self._reopen_later()

    def _reopen_later(self) -> None:
        if self._done or self._channel.connection.draining_reason is not None:
            return
        open_seconds = None if self.open_since == inf else self._clock.monotonic() - self.open_since
        self.open_since = inf
        server_seconds = 0.0 if self._splitter is None else (self._splitter.retry_ms or 0) / 1000
        delay = self._backoff.delay(open_seconds, self._clock.random())
        wait = max(delay, min(server_seconds, DELAY_SECONDS_MAX))
        self._timer = self._clock.later(wait, self.open)

    def _stop(self) -> None:
        self._channel.client.cancel(self)
        if self._timer is not None:
            self._timer.cancel()


# Modern: no sessions. Every request is complete, and closing its response cancels it.

HEADS_MAX: Final = 1024
"""Cached request heads: one per tool, prompt or resource."""
HEAD_BYTES_KEPT_MAX: Final = 2048
"""A longer head has a long URI, which is hardly ever requested twice."""


class ModernChannel(HttpChannel):
    """Calls to a modern server."""

    def __init__(
        self,
        client: HttpClient,
        request_heads: RequestHeads,
        owner: TransportOwner,
        revision: Revision,
    ) -> None:
        super().__init__(client, request_heads, owner)
        self._version = version_header(revision)
        self._heads: dict[tuple[str, str | None], bytes] = {}

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        if not isinstance(call, HttpCall):
            self.send_one_way(self.request_heads.post(self._version), frame)
            return
        call.channel = self
        call.frame = frame
        self._send(call)

    def cancel(self, call: PendingCall) -> bool:
        """Close the response, which a modern server takes for a cancellation."""
        super().cancel(call)
        return True

    def will_resend(self, call: HttpCall, response: ResponseHead, message: bytes) -> bool:
        """Send a call again after a header mismatch: the known schema of the tool may be
        outdated."""
        if call.retried or not _is_header_mismatch(call, response, message):
            return False
        call.retried = True
        self.owner.refresh_tools(lambda: self._resend(call))
        return True

    def _resend(self, call: HttpCall) -> None:
        if self.connection.waits_for(call):
            call.template = None  # It may be outdated, too.
            self._send(call)

    def _send(self, call: HttpCall) -> None:
        method, name = call.method, call.name
        if name is None and method in NAMED_BY:
            call.name = name = name_in(method, call.frame)
        head = self._heads.get((method, name)) or self._head(method, name)
        # A template is made only for tools without annotations.
        if call.template is None and method == "tools/call" and name is not None:
            annotated = self.owner.tool_annotations(name)
            if annotated or call.fields:
                head += _param_headers(annotated, call.fields, call.frame)
        elif call.fields:
            head += trace_headers(call.fields)
        call.head = head
        self.client.request(head, call.frame, call)

    def _head(self, method: str, name: str | None) -> bytes:
        fields = self._version + header_line("Mcp-Method", method)
        if name is not None and method in NAMED_BY:
            fields += header_line("Mcp-Name", encode_value(name))
        head = self.request_heads.post(fields)
        if len(head) <= HEAD_BYTES_KEPT_MAX:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            self._heads[(method, name)] = head
        return head


def version_header(revision: Revision) -> bytes:
    return header_line("MCP-Protocol-Version", revision.name)


def _is_header_mismatch(call: HttpCall, response: ResponseHead, message: bytes) -> bool:
    if call.method != "tools/call" or response.status != HTTPStatus.BAD_REQUEST:
        return False
    frame = jsonrpc.decode(message, jsonrpc.OUTBOUND)
    return isinstance(frame, Failure) and error_code(frame.error) == HEADER_MISMATCH


def _param_headers(annotated: Annotations, sent: Fields, frame: bytes | None) -> bytes:
    """`Mcp-Param-*` headers made from the arguments, and the client's header fields without a
    definition.

    An intermediary must pass on what it does not recognise, and must not trust what it does.
    """
    params = _params(frame) if annotated else {}
    arguments = params.get("arguments")
    made = encode_param_fields(annotated, b"" if arguments is None else bytes(arguments))
    known = {(PARAM_PREFIX + name).lower() for name in annotated}
    lines = [header_line(name, value) for name, value in made]
    lines += [
        header_line(name, value, "latin-1") for name, value in sent if name.lower() not in known
    ]
    return b"".join(lines)


def name_in(method: str, frame: bytes | None) -> str | None:
    """The name or URI of the target of a request."""
    return raw_json.decode_string(_params(frame).get(NAMED_BY[method]))


def _params(frame: bytes | None) -> dict[str, msgspec.Raw]:
    if frame is None:
        return {}
    params = raw_json.members(frame).get("params")
    return {} if params is None else raw_json.members(params)


STREAM_SECONDS_MAX: Final = 1.0
"""How long opening a session waits for its stream: some servers answer only when they have
something to send."""
HANDSHAKE_SECONDS_MAX: Final = 10.0
"""From the first request to a server over HTTP until it is ready."""
RESUMES_MAX: Final = 8
"""Attempts in a row to resume the stream of a call that bring no message."""
RESUME_SECONDS_DEFAULT: Final = 1.0
"""Delay before an attempt, if the server sets no `retry`."""
RESUME_SECONDS_MIN: Final = 0.1
"""Least delay, whatever the server sets: it must not make us loop."""
RESUME_SECONDS_MAX: Final = 60.0
"""Longest delay: no call lasts so long that a longer one could help."""
SESSION_CHECK_SECONDS_MAX: Final = 5.0
"""For a server to answer a ping in a session that it does not know; calls wait for that."""
SESSION_ID_CHARS_MAX: Final = 1024
"""The id goes with every request, and the head needs room for other fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeRequest:
    """The `initialize` request of a session, kept to open another one in the same way."""

    options: HandshakeOptions
    revision: Revision
    """The revision to request."""

    def frame(self, number: int) -> bytes:
        return jsonrpc.encode_request(
            b"%d" % number, "initialize", initialize_params(self.options, self.revision)
        )

    def read_peer(self, answer: Result | Failure) -> Peer:
        """The peer, from the answer.

        Raises:
            HandshakeFailed: the answer cannot be used.
        """
        if isinstance(answer, Failure):
            raise initialize_error(answer.error)
        return legacy_peer(answer.result, self.options)


_SESSION_ENDED: Final = NoAnswer(
    "has ended the session in which it was asked", Situation.MISBEHAVED, retryable=Retryable.IF_SAFE
)
INITIALIZED: Final = jsonrpc.encode_notification("notifications/initialized", None)


class SessionChannel(HttpChannel):
    """Calls to a legacy server, in one session at a time."""

    def __init__(
        self,
        client: HttpClient,
        request_heads: RequestHeads,
        owner: TransportOwner,
        initialize_request: InitializeRequest,
    ) -> None:
        super().__init__(client, request_heads, owner)
        self.session: str | None = None
        self._initialize_request = initialize_request
        self._fields = b""
        self.head = b""
        self._stream: SessionStream | None = None
        self._waiting_calls: list[HttpCall] = []
        """Calls that wait for a new session."""
        self._doubtful_calls: dict[str, list[HttpCall]] = {}
        """Calls that may have been carried out, unless the server has lost their session; by
        session."""
        self._renewal: Fetch | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._closed = False

    def use_session(self, session: str | None, revision: Revision) -> None:
        """Use this session from now on."""
        self.session = session
        self._fields = version_header(revision)
        if session is not None:
            self._fields += header_line("Mcp-Session-Id", session)
        self.head = self.request_heads.post(self._fields)

    def open_stream(self, clock: Clock) -> None:
        """Request the stream for what belongs to no call."""
        self._stream = SessionStream(self, clock)
        self._stream.open()

    async def wait_for_stream(self) -> None:
        """Wait for that stream: what the server sends before it is open is lost."""
        if self._stream is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(STREAM_SECONDS_MAX):
                    await self._stream.decided.wait()

    @property
    def listening_since(self) -> float:
        """Infinite if there is no stream."""
        return inf if self._stream is None else self._stream.open_since

    @property
    def streamless(self) -> bool:
        return self._stream is not None and self._stream.absent

    # For the connection.

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        if not isinstance(call, HttpCall):
            # An answer or a notification of a lost session means nothing in the next one.
            if self._renewal is None:
                self.send_one_way(self.head, frame)
            return
        call.channel = self
        call.frame = frame
        if self._renewal is not None:
            self._waiting_calls.append(call)
        else:
            call.head = self.head + trace_headers(call.fields) if call.fields else self.head
            call.session = self.session
            self.client.request(call.head, frame, call)

    # What becomes of a call.

    def will_resend(self, call: HttpCall, response: ResponseHead, message: bytes) -> bool:
        """A server that says it does not know the session has not looked at the call."""
        if self.session is None:
            return False
        retryable = read_session_error(response.status, message, call.number)
        if retryable is None:
            return False
        current = call.session == self.session
        first = call.splitter is None and not call.retried
        if retryable is Retryable.NEVER and first and call.method in IDEMPOTENT_METHODS:
            retryable = Retryable.ALWAYS  # The C# SDK says so under the id of the request.
        if retryable is Retryable.NEVER:
            if current:
                self.renew_session()
            return False
        if retryable is Retryable.ALWAYS and first:
            self._resend_in_new_session(call)
        else:
            self.connection.settle(call, _SESSION_ENDED)
        if current:
            self.renew_session()
        elif self._renewal is None:
            self._send_waiting_calls()  # Another call has found out before.
        return True

    def _resend_in_new_session(self, call: HttpCall) -> None:
        # Some servers say that the session is unknown for a call that they have carried out.
        repeatable: bool | None = True
        if call.method == TOOLS_CALL:
            name = call.name or name_in(TOOLS_CALL, call.frame)
            repeatable = None if name is None else self.owner.is_repeatable(name)
        if repeatable is False:
            self.connection.settle(call, _SESSION_ENDED)
            return
        call.retried = True
        if repeatable:
            self._waiting_calls.append(call)
        else:
            self._check_session(call)

    def on_stream_closed(self, call: HttpCall, failure: HttpFailure | None) -> None:
        """The stream of a call has ended; resume it if the answer has not come."""
        if not self.connection.waits_for(call):
            return
        splitter = call.splitter
        if splitter is None or not splitter.last_id or call.resume_attempts >= RESUMES_MAX:
            super().on_stream_closed(call, failure)
            return
        call.resume_attempts += 1
        self.loop.call_later(resume_seconds(splitter.retry_ms), self._resume, call)

    def on_failure(self, call: HttpCall, failure: HttpFailure) -> None:
        """No response came; an attempt to resume a stream may still be repeated."""
        if call.splitter is None:
            super().on_failure(call, failure)
        else:
            self.report_unreachable(failure)
            self.on_stream_closed(call, failure)

    def _resume(self, call: HttpCall) -> None:
        if not self.connection.waits_for(call) or call.splitter is None:
            return
        if call.session != self.session:
            self.connection.settle(call, _SESSION_ENDED)
            return
        self.client.request(self.stream_head(call.splitter.last_id), None, call)

    def stream_head(self, last_id: str) -> bytes:
        """Head of the request for a stream, or for the rest of it after an event id."""
        fields = self._fields
        if last_id:
            fields += header_line("Last-Event-ID", last_id)
        return self.request_heads.get(fields)

    # Renewing a lost session.

    def renew_session(self) -> None:
        """Open a new session, once for all calls that found out."""
        if self._renewal is not None or self._closed:
            return
        self._renewal = Fetch(self.client, self.request_heads.url, self._on_initialize_response)
        number = self.connection.claim_number()
        self._renewal.send(self.request_heads.post(), self._initialize_request.frame(number))
        self._deadline = self.loop.call_later(HANDSHAKE_SECONDS_MAX, self._on_renewal_timeout)

    def _on_initialize_response(self, response: FetchResponse) -> None:
        try:
            peer, session = read_initialize_response(self._initialize_request, response)
        except HandshakeFailed as error:
            self._fail_renewal(str(error), error.timeout)
            return
        self.use_session(session, peer.revision)
        self.connection.peer = peer
        # Calls must not overtake this notification: a server may reject those that come before it.
        self._renewal = Fetch(self.client, self.request_heads.url, self._on_initialized_response)
        self._renewal.send(self.head, INITIALIZED)

    def _on_initialized_response(self, response: FetchResponse) -> None:
        if response.failure is not None:
            self._fail_renewal(response.failure.reason, response.failure.timeout)
            return
        self._end_renewal()
        self.owner.on_session_renewed(self.connection)
        if self._stream is not None:
            self._stream.reopen()
        self._send_waiting_calls()

    def _check_session(self, call: HttpCall) -> None:
        """Send a call again only if a ping in its session shows that the server has lost it."""
        session = call.session or ""
        doubtful_calls = self._doubtful_calls.setdefault(session, [])
        doubtful_calls.append(call)
        if len(doubtful_calls) > 1:
            return
        number = self.connection.claim_number()

        def on_response(response: FetchResponse) -> None:
            deadline.cancel()
            message = plain_message(response.body, number)
            error = read_session_error(response.status, message, number)
            lost = error in (Retryable.ALWAYS, Retryable.NEVER)
            self._on_session_checked(session, lost=lost)

        def on_timeout() -> None:
            ping.close()
            self._on_session_checked(session, lost=False)

        ping = Fetch(self.client, self.request_heads.url, on_response)
        deadline = self.loop.call_later(SESSION_CHECK_SECONDS_MAX, on_timeout)
        ping.send(call.head, jsonrpc.encode_request(b"%d" % number, "ping", None))

    def _on_session_checked(self, session: str, *, lost: bool) -> None:
        for call in self._doubtful_calls.pop(session, ()):
            if lost:
                self._waiting_calls.append(call)
            else:
                self.connection.settle(call, _SESSION_ENDED)
        if self._renewal is None:
            self._send_waiting_calls()

    def _on_renewal_timeout(self) -> None:
        self.client.timeouts.on_timeout(Timeout.HANDSHAKE)
        reason = f"it did not answer the handshake within {HANDSHAKE_SECONDS_MAX:g} s"
        self._fail_renewal(reason, Timeout.HANDSHAKE)

    def _end_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.close()
        if self._deadline is not None:
            self._deadline.cancel()
        self._renewal = self._deadline = None

    def _fail_renewal(self, reason: str, timeout: Timeout | None) -> None:
        self._end_renewal()
        waiting_calls, self._waiting_calls = self._waiting_calls, []
        self.drain(reason)
        for call in waiting_calls:
            situation = Situation.NOT_RUNNING if timeout is None else Situation.TIMED_OUT
            failure = NoAnswer(reason, situation, retryable=Retryable.ALWAYS, timeout=timeout)
            self.connection.settle(call, failure)
        for session in list(self._doubtful_calls):
            self._on_session_checked(session, lost=False)

    def _send_waiting_calls(self) -> None:
        waiting_calls, self._waiting_calls = self._waiting_calls, []
        for call in waiting_calls:
            if self.connection.waits_for(call):
                call.head = self.head + trace_headers(call.fields)
                call.session = self.session
                self.resend(call)

    # The end.

    async def close(self) -> None:
        """End the session."""
        self._closed = True
        if self._stream is not None:
            self._stream.close()
        self._end_renewal()
        if self.session is not None:
            head = self.request_heads.delete(self._fields)
            await fetch(self.client, self.request_heads.url, head, None)


def read_initialize_response(
    initialize: InitializeRequest, response: FetchResponse
) -> tuple[Peer, str | None]:
    """The peer, and the session id if there is one.

    Raises:
        HandshakeFailed: there is no answer, or it cannot be used.
    """
    if response.head is None or response.answer is None:
        if response.failure is not None:
            raise HandshakeFailed(response.failure.reason, response.failure.timeout)
        reason = (
            "closed its stream" if response.head is None else describe_bad_response(response.head)
        )
        raise HandshakeFailed(f"it {reason}")
    peer = initialize.read_peer(response.answer)
    session = response.head.get("mcp-session-id")
    if session is not None and not _is_valid_session_id(session):
        raise HandshakeFailed("its session id has characters that a session id must not have")
    return peer, session


def resume_seconds(retry_ms: int | None) -> float:
    """Delay before a stream is resumed."""
    seconds = RESUME_SECONDS_DEFAULT if retry_ms is None else retry_ms / 1000
    return min(max(seconds, RESUME_SECONDS_MIN), RESUME_SECONDS_MAX)


def _is_valid_session_id(session: str) -> bool:
    # The specification allows visible ASCII characters only.
    visible = all("!" <= char <= "~" for char in session)
    return visible and 0 < len(session) <= SESSION_ID_CHARS_MAX
