"""The MCP endpoint: POST, GET and DELETE of a profile, for every revision.

The body decides the era of a request, not its headers: clients that probe both eras send stale
ones.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from anyport.ingress.http.connection import NEVER, HttpConnection
from anyport.ingress.http.legacy_sse import LegacySseSession, LegacySseSessions
from anyport.ingress.http.modern_requests import MODERN_STATUSES, ModernRequests
from anyport.ingress.http.request_head import McpRequestHead, RouteKind
from anyport.ingress.http.responder import JSON_CONTENT_TYPE
from anyport.ingress.http.session_store import (
    SESSION_CHANGING_METHODS,
    SessionSavingReply,
    lost_answer_error,
)
from anyport.ingress.http.sessions import (
    STREAM_AFTER_SECONDS,
    HttpSession,
    HttpSessions,
)
from anyport.ingress.http.streams import PLAIN_STREAM_OPENER, PlainStream
from anyport.protocol import meta
from anyport.protocol.adapters.client import RequestHandler
from anyport.protocol.conversation import Conversation, refuse_batch
from anyport.protocol.errors import SERVER_FAULT, Fault, RetryAfter
from anyport.protocol.methods import HOP_NOTIFICATIONS
from anyport.protocol.request import ParsedRequest, PlainCall, read_plain_call, read_request
from anyport.protocol.revisions import NEWEST_MODERN, UNNEGOTIATED
from anyport.protocol.scheduler import WorkSteps
from anyport.protocol.session import STREAMABLE_HTTP
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import INVALID_REQUEST, BadFrame, Failure, Notification, Request, Result

RETRY_SECONDS: Final = "5"

LEGACY_STATUSES: Final = {-32700: 400, -32600: 400}


class Endpoint:
    """The MCP endpoint of every profile."""

    def __init__(
        self,
        handler: RequestHandler,
        sessions: HttpSessions,
        legacy_sse: LegacySseSessions,
        now: float,
    ) -> None:
        self.sessions = sessions
        self.legacy_sse = legacy_sse
        self.draining = False
        self.modern_requests = ModernRequests(handler, now)
        self._handler = handler
        self.now = now
        """The time of the last sweep."""
        self._request_count = 0
        """Number of requests in sessions."""
        self._sessionless: set[Conversation] = set()
        """Conversations of single messages without a session, until they are answered."""

    @property
    def open_requests(self) -> int:
        """Number of unanswered legacy requests, in sessions and without one."""
        conversations = [session.conversation for session in (*self.sessions, *self.legacy_sse)]
        conversations += self._sessionless
        return sum(conversation.open_requests for conversation in conversations)

    def serve(self, connection: HttpConnection, request: McpRequestHead, body: bytes) -> None:
        if request.head.method == "POST":
            if request.route is RouteKind.MESSAGES:
                self.legacy_sse.post(connection, request, body)
            else:
                self.post(connection, request, body)
        elif request.head.method == "GET":
            self._handle_get(connection, request)
        else:
            self._handle_delete(connection, request)

    def post(self, connection: HttpConnection, request: McpRequestHead, body: bytes) -> None:
        """Handle a POST: one message, or a batch."""
        if request.is_plain_post and not self.draining:
            plain_call = read_plain_call(body)
            if plain_call is not None and self._repeat_call(connection, request, plain_call):
                return
        connection.error_statuses = LEGACY_STATUSES
        if jsonrpc.is_batch(body):
            self._handle_batch(connection, request, body)
            return
        frame = jsonrpc.decode(body)
        if isinstance(frame, Request):
            self._handle_request(connection, request, frame)
        elif isinstance(frame, BadFrame):
            self._refuse_frame(connection, request, frame)
        else:
            self._handle_non_request(connection, request, frame)

    # The fast path.

    def _repeat_call(
        self, connection: HttpConnection, request: McpRequestHead, plain_call: PlainCall
    ) -> bool:
        """Take the fast path of a repeated `tools/call`; False if there is none."""
        if plain_call.raw_meta and plain_call.is_modern:
            return self.modern_requests.repeat_call(connection, request, plain_call)
        session = self.sessions.find(request.session_id, request.profile, request.principal)
        if session is None or request.revision is NEWEST_MODERN:
            return False
        session.used_at = now = self.now
        session.last_request_number = self._request_count = self._request_count + 1
        connection.stream_opener = session
        connection.deadline = now + session.stream_after_seconds
        connection.error_statuses = LEGACY_STATUSES
        return session.conversation.try_fast_call(plain_call, connection)

    # Requests.

    def _handle_request(
        self, connection: HttpConnection, request: McpRequestHead, frame: Request
    ) -> None:
        parsed = read_request(frame)
        if isinstance(parsed, Fault):
            self._refuse(connection, frame, parsed, request)
            return
        if request.context:
            parsed = msgspec.structs.replace(parsed, trace_headers=request.context)
        # The signs of the era, strongest first: `_meta`, the handshake, a session id, the version
        # header. A client that probes both eras sends headers of one with the body of the other.
        if self.draining:
            self._refuse_unavailable(connection, request, frame, "The gateway is shutting down")
        elif meta.PROTOCOL_VERSION in parsed.meta_members:
            self.modern_requests.begin(connection, request, parsed)
        elif frame.method == "initialize":
            self._initialize(connection, request, parsed)
        elif request.session_id is not None and not request.is_modern:
            self._handle_in_session(connection, request, request.session_id, parsed)
        elif request.may_be_modern:
            self.modern_requests.refuse_without_envelope(connection, request, parsed)
        elif request.revision is not None and request.revision.requires_version_header:
            # MCP 2025-06-18, transports: "Servers that require a session ID SHOULD respond to
            # requests without an Mcp-Session-Id header (other than initialization) with HTTP 400".
            message = "Bad Request: Mcp-Session-Id is missing"
            self._refuse_session(connection, request, frame, 400, message)
        else:
            self._handle_sessionless(connection, request, partial(_start_request, parsed))

    def _handle_in_session(
        self, connection: HttpConnection, request: McpRequestHead, id: str, parsed: ParsedRequest
    ) -> None:
        session = self._find_session(connection, request, id, parsed.frame)
        if session is None:
            return
        accepted = request.accepted
        if accepted.stream:
            # A slow answer becomes a stream when the deadline passes.
            connection.stream_opener = session
            connection.deadline = self.now + session.stream_after_seconds
        if not accepted.json:
            session.open_stream(connection, parsed.frame.id)
        changes_session = parsed.frame.method in SESSION_CHANGING_METHODS
        writer = self._session_saving_reply(connection, session) if changes_session else connection
        session.conversation.handle_request(parsed, writer)

    def _initialize(
        self, connection: HttpConnection, request: McpRequestHead, parsed: ParsedRequest
    ) -> None:
        if not self.sessions.reserve_slot(request.principal):
            message = "Too many sessions are open, each with a request that is not answered yet"
            self._refuse_unavailable(connection, request, parsed.frame, message)
            return
        session = self.sessions.create(request.profile, request.principal, self.now)
        self._mark_used(session)
        session.conversation.handle_request(
            parsed, _InitializeReply(connection, request, session, self.sessions)
        )

    def _handle_sessionless(
        self,
        connection: HttpConnection,
        request: McpRequestHead,
        handle: Callable[[Conversation, HttpConnection], None],
    ) -> None:
        """Answer a legacy message without a session, as revision 2025-03-26 allows."""
        context = self.sessions.make_context(request.profile, request.principal)
        conversation = context.make_conversation(
            connection, STREAMABLE_HTTP, request.revision or UNNEGOTIATED
        )
        if request.accepted.stream:
            connection.stream_opener = PLAIN_STREAM_OPENER
            connection.deadline = self.now + STREAM_AFTER_SECONDS
        if not request.accepted.json:
            PlainStream(connection)
        handle(conversation, connection)
        self._track_sessionless(conversation)

    def _track_sessionless(self, conversation: Conversation) -> None:
        if conversation.open_requests:
            self._sessionless.add(conversation)
            conversation.on_idle = self._sessionless.discard

    # Notifications, responses and batches.

    def _handle_non_request(
        self,
        connection: HttpConnection,
        request: McpRequestHead,
        frame: Notification | Result | Failure,
    ) -> None:
        """Accept a notification, or a client's response to a server's request."""
        if request.session_id is not None and not request.is_modern:
            session = self._find_session(connection, request, request.session_id, None)
            if session is None:
                return
            session.conversation.handle(frame, connection)
            if self.sessions.on_client_message is not None:
                self.sessions.on_client_message(session, frame)
        elif isinstance(frame, Result | Failure):
            message = "Invalid Request: an answer belongs to a session, and names it"
            self._refuse_frame(connection, request, BadFrame(INVALID_REQUEST, message))
            return
        else:
            caller = request.anonymous_caller(STREAMABLE_HTTP)
            self._handler.record_message(caller, frame)
            # Without a session the sender is unknown: `notifications/cancelled` names a request id,
            # and another client may have chosen the same one.
            if frame.method not in HOP_NOTIFICATIONS:
                self._handler.on_notification(caller, frame)
        # MCP 2025-03-26, transports: "If the server accepts the input, the server MUST return HTTP
        # status code 202 Accepted with no body."
        connection.answer(202)

    def _handle_batch(
        self, connection: HttpConnection, request: McpRequestHead, body: bytes
    ) -> None:
        if request.session_id is not None and not request.is_modern:
            session = self._find_session(connection, request, request.session_id, None)
            if session is None:
                return
            connection.stream_opener = session
            writer = self._session_saving_reply(connection, session)
            connection.defer(
                session.conversation.handle_batch(body, writer, partial(connection.answer, 202))
            )
        elif (request.version is None) if request.revision is None else request.revision.batches:
            self._handle_sessionless(
                connection, request, partial(self._handle_sessionless_batch, body)
            )
        else:
            self._refuse_frame(connection, request, refuse_batch(body, f"{request.version}"[:64]))

    def _handle_sessionless_batch(
        self, body: bytes, conversation: Conversation, connection: HttpConnection
    ) -> None:
        def work() -> WorkSteps:
            yield from conversation.handle_batch(body, connection, partial(connection.answer, 202))
            self._track_sessionless(conversation)

        connection.defer(work())

    def _session_saving_reply(
        self, connection: HttpConnection, session: HttpSession
    ) -> SessionSavingReply:
        return SessionSavingReply(connection, partial(self.sessions.save, session))

    def _handle_get(self, connection: HttpConnection, request: McpRequestHead) -> None:
        if request.route is RouteKind.SSE:
            self.legacy_sse.open(connection, request)
        elif request.session_id is not None and not request.is_modern:
            self._attach_session_stream(connection, request, request.session_id)
        elif request.version is None or not request.may_be_modern:
            self.legacy_sse.open(connection, request)
        else:  # Modern revisions have no GET.
            connection.answer(405, b"", (("allow", "POST"),))

    def _attach_session_stream(
        self, connection: HttpConnection, request: McpRequestHead, id: str
    ) -> None:
        session = self._find_session(connection, request, id, None)
        if session is None:
            return
        connection.deadline = NEVER
        last_event_id = request.last_event_id or ""
        found, lost = (
            session.replay_buffer.find(last_event_id),
            session.lost_request_id(last_event_id),
        )
        if found is not None:  # Resume the stream of that event, whichever request it belongs to.
            stream, after = found
            stream.attach(connection, after)
        elif lost is not None:
            PlainStream(connection).end(lost_answer_error(lost))
        else:
            session.standalone_stream.attach(connection)

    def _handle_delete(self, connection: HttpConnection, request: McpRequestHead) -> None:
        if request.session_id is None or request.is_modern:
            error = jsonrpc.encode_error(-32600, "DELETE ends a session, and needs the id of one")
            body = jsonrpc.encode_failure(None, error, null_id=False)
            connection.answer(405, body, (JSON_CONTENT_TYPE, ("allow", "POST")))
            return
        session = self._find_session(connection, request, request.session_id, None)
        if session is not None:
            self.sessions.end(session)
            connection.answer(200)

    # Refusals.

    def _find_session(
        self, connection: HttpConnection, request: McpRequestHead, id: str, frame: Request | None
    ) -> HttpSession | None:
        """The session a request names; None after a refusal."""
        key = (id, request.profile, request.principal)
        # An unknown session may have begun in the process before a restart.
        session = self.sessions.find(*key) or self.sessions.resume(*key, self.now)
        if session is None:
            # MCP 2025-03-26, transports: a terminated session "MUST" be answered with 404, on which
            # the client opens a new one.
            message = "Session not found: it has ended; send initialize to open a new one"
            self._refuse_session(connection, request, frame, 404, message)
            return None
        if request.version is not None and request.revision is None:
            # MCP 2025-06-18, transports: "If the server receives a request with an invalid or
            # unsupported MCP-Protocol-Version, it MUST respond with 400 Bad Request."
            message = f"Bad Request: Unsupported protocol version: {request.version[:64]}"
            self._refuse_session(connection, request, frame, 400, message)
            return None
        self._mark_used(session)
        return session

    def _mark_used(self, session: HttpSession) -> None:
        session.used_at = self.now
        session.last_request_number = self._request_count = self._request_count + 1

    def _refuse_session(
        self,
        connection: HttpConnection,
        request: McpRequestHead,
        frame: Request | None,
        status: int,
        message: str,
    ) -> None:
        error = jsonrpc.encode_error(-32600 if status == 400 else -32001, message)
        id = None if frame is None else frame.id
        if frame is not None:
            self._record_refusal(request, frame, error)
        connection.answer(
            status, jsonrpc.encode_failure(id, error, null_id=False), (JSON_CONTENT_TYPE,)
        )

    def _refuse_frame(
        self, connection: HttpConnection, request: McpRequestHead, frame: BadFrame
    ) -> None:
        self._handler.record_message(request.anonymous_caller(STREAMABLE_HTTP), frame)
        error = jsonrpc.encode_error(frame.code, frame.message)
        null = request.revision is None or request.revision.null_ids
        connection.end(jsonrpc.encode_failure(frame.id, error, null_id=null), frame.code)

    def _refuse(
        self, connection: HttpConnection, frame: Request, fault: Fault, request: McpRequestHead
    ) -> None:
        if request.may_be_modern:
            connection.error_statuses = MODERN_STATUSES
        revision = request.revision or UNNEGOTIATED
        error = fault.render(revision)
        self._record_refusal(request, frame, error)
        connection.end(jsonrpc.encode_failure(frame.id, error), fault.code(revision))

    def _refuse_unavailable(
        self, connection: HttpConnection, request: McpRequestHead, frame: Request, message: str
    ) -> None:
        error = jsonrpc.encode_error(SERVER_FAULT, message)
        self._record_refusal(request, frame, error)
        body = jsonrpc.encode_failure(frame.id, error)
        connection.answer(503, body, (JSON_CONTENT_TYPE, ("retry-after", RETRY_SECONDS)))

    def _record_refusal(self, request: McpRequestHead, frame: Request, error: bytes) -> None:
        caller = request.anonymous_caller(STREAMABLE_HTTP)
        self._handler.record_message(caller, frame, Failure(frame.id, error))

    def end_all(self) -> None:
        """End subscriptions, with their result, and all sessions."""
        self.modern_requests.end_all()
        for session in self.sessions:
            self.sessions.close_locally(session)
        self.legacy_sse.end_all()

    def end_idle_streams(self) -> None:
        """End the streams that wait for nothing in particular, so that their clients reconnect
        elsewhere."""
        self.modern_requests.end_all()
        for session in self.sessions:
            session.close_standalone_stream()
        for sse_session in self.legacy_sse:
            if not sse_session.conversation.open_requests:
                self.legacy_sse.end(sse_session)

    def end_session(self, session: HttpSession | LegacySseSession) -> None:
        """End a session that its client has not ended."""
        if isinstance(session, HttpSession):
            self.sessions.end(session)
        else:
            self.legacy_sse.end(session)


class _InitializeReply:
    """Reply writer of `initialize`: adds the id of the new session to the response."""

    reply_only = False

    def __init__(
        self,
        connection: HttpConnection,
        request: McpRequestHead,
        session: HttpSession,
        sessions: HttpSessions,
    ) -> None:
        self._connection = connection
        self._request = request
        self._session = session
        self._sessions = sessions

    def send_frames(self, *frames: bytes) -> None: ...

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        if code is not None:
            self._connection.end(frame, code, retry_after)
            return
        self._sessions.add(self._session)
        session_field = ("mcp-session-id", self._session.id)
        if self._request.accepted.json:
            self._connection.answer(200, frame, (JSON_CONTENT_TYPE, session_field))
        else:
            PlainStream(self._connection, (session_field,))
            self._connection.end(frame)


def _start_request(
    parsed: ParsedRequest, conversation: Conversation, connection: HttpConnection
) -> None:
    conversation.handle_request(parsed, connection)
