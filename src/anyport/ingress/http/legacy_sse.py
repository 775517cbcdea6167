"""HTTP+SSE, the transport of 2024-11-05: one event stream for all answers, and a URL to post to.

A session lives as long as its stream. Its revision is negotiated by the handshake, as everywhere.
"""

from collections.abc import Callable, Iterator
from typing import Final

from anyport.ingress.http.connection import ANSWERS_UNSENT_BYTES_MAX, HttpConnection
from anyport.ingress.http.request_head import McpRequestHead
from anyport.ingress.http.responder import JSON_CONTENT_TYPE
from anyport.ingress.http.sessions import HttpSessions, SessionContext
from anyport.ingress.http.streams import PlainStream
from anyport.protocol.errors import SERVER_FAULT, RetryAfter
from anyport.protocol.principal import Principal
from anyport.protocol.quota import QuotaLimits, QuotaTable
from anyport.protocol.session import LEGACY_SSE
from anyport.wire import jsonrpc
from anyport.wire.sse import encode_event

ID_PARAMETER: Final = "session_id"


class LegacySseSession:
    """A session: one stream, and the conversation on it."""

    reply_only = False

    def __init__(self, id: str, context: SessionContext, connection: HttpConnection) -> None:
        self.id = id
        self.principal = context.principal
        self.profile = context.profile
        self.stream = PlainStream(connection)
        connection.unsent_bytes_max = ANSWERS_UNSENT_BYTES_MAX
        self.conversation = context.make_conversation(self, LEGACY_SSE)

    def send_frames(self, *frames: bytes) -> None:
        self.stream.send_frames(*frames)

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        """Send an answer: an event like any other."""
        self.stream.send_frames(frame)


class LegacySseSessions:
    """All sessions of the HTTP+SSE transport."""

    def __init__(self, sessions: HttpSessions, limits: QuotaLimits) -> None:
        self.by_id: dict[str, LegacySseSession] = {}
        self.draining = False
        self._sessions = sessions
        self.quota: QuotaTable[LegacySseSession] = QuotaTable(limits)
        """By principal, least recently used first."""

    def __iter__(self) -> Iterator[LegacySseSession]:
        return iter(list(self.by_id.values()))

    def open(self, connection: HttpConnection, request: McpRequestHead) -> None:
        """Open a stream; its first event tells the client where to post."""
        if self.draining or not self._reserve_slot(request.principal):
            message = "The gateway is shutting down"
            if not self.draining:
                message = "Too many sessions are open, each with a request that is not answered yet"
            connection.answer(503, _error_body(message), (JSON_CONTENT_TYPE, ("retry-after", "5")))
            return
        id = self._sessions.new_id(request.profile, request.principal)
        context = self._sessions.make_context(request.profile, request.principal)
        self.by_id[id] = session = LegacySseSession(id, context, connection)
        self.quota.add(session.principal, session)
        connection.on_closed = self._make_on_closed(session)
        address = f"/mcp/{request.profile}/messages?{ID_PARAMETER}={id}"
        connection.write(encode_event(address.encode(), name=b"endpoint"))

    def post(self, connection: HttpConnection, request: McpRequestHead, body: bytes) -> None:
        """Accept a message; its answer goes to the stream."""
        session = self.by_id.get(request.query_session or "")
        if (
            session is None
            or session.principal != request.principal
            or session.profile != request.profile
        ):
            message = "Session not found: its stream has been closed"
            connection.answer(404, _error_body(message), (JSON_CONTENT_TYPE,))
            return
        connection.answer(202, b"Accepted")
        self.quota.add(session.principal, session)  # Most recently used.
        batch = session.conversation.receive(body)
        if batch is not None:
            connection.defer(batch)

    def end_all(self) -> None:
        for session in self:
            self.end(session)

    def end(self, session: LegacySseSession) -> None:
        """Close a stream and its session."""
        session.stream.close()
        self._remove(session)

    def _reserve_slot(self, principal: Principal) -> bool:
        """Make room for a session of this principal; False if there is none."""
        principals = self.quota.eviction_order(principal)
        for owner_principal in principals or ():
            for session in self.quota.items_of(owner_principal):
                if not session.conversation.open_requests:
                    self.end(session)
                    return True
        return principals is None

    def _make_on_closed(self, session: LegacySseSession) -> Callable[[], None]:
        return lambda: self._remove(session)

    def _remove(self, session: LegacySseSession) -> None:
        if self.by_id.pop(session.id, None) is not None:
            self.quota.remove(session.principal, session)
            session.conversation.abandon()


def _error_body(message: str) -> bytes:
    return jsonrpc.encode_failure(None, jsonrpc.encode_error(SERVER_FAULT, message), null_id=False)
