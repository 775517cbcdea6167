"""Legacy sessions over Streamable HTTP: ids, streams, expiry, quotas, and resumption after a
restart.

A session id is random and sealed, and is valid for one principal and one profile. Idle sessions
expire. At the limits, in total or per principal, the session that was idle for longest is evicted.
A session that only the store knows began in another process and is resumed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

import msgspec

from anyport.ingress.http.connection import HttpConnection
from anyport.ingress.http.session_store import (
    SessionStore,
    StoredSession,
    apply_stored_session,
    restore_session,
    to_stored_session,
)
from anyport.ingress.http.streams import ReplayBuffer, ResumableStream
from anyport.protocol.adapters.client import RequestHandler
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import RetryAfter
from anyport.protocol.exchange import ReplyWriter, Session
from anyport.protocol.principal import Principal
from anyport.protocol.quota import QuotaLimits, QuotaTable
from anyport.protocol.revisions import UNNEGOTIATED, Revision
from anyport.protocol.sealing import Seal
from anyport.protocol.session import STREAMABLE_HTTP
from anyport.wire.jsonrpc import Failure, Notification, Result

ID_BYTES: Final = 16
"""Random bytes in an id; 128 bits cannot be guessed."""
STREAM_PREFIX_BYTES: Final = 4
QUESTION_ID_BYTES: Final = 4
"""Random bytes in event ids and in the first question id, so that they differ from those of the
previous process."""
TOUCH_SECONDS: Final = 60.0
"""How often the store is told that a session is in use."""
TOUCHES_MAX: Final = 256
"""Sessions touched in the store per sweep; they take less than a millisecond."""
SEAL_KIND: Final = "session"
STREAM_AFTER_SECONDS: Final = 15.0
"""A slower answer becomes a stream, whose comments keep the connection alive."""
STREAM_AFTER_PRIMED_SECONDS: Final = 1.0
"""Sooner if the stream can be resumed: a client that is cut off then gets its answer."""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Owner of a session, and what its conversation needs."""

    profile: str
    principal: Principal
    handler: RequestHandler
    new_record_id: Callable[[], str]

    def make_conversation(
        self, writer: ReplyWriter, transport: str, default_revision: Revision = UNNEGOTIATED
    ) -> Conversation:
        return Conversation(
            profile=self.profile,
            handler=self.handler,
            writer=writer,
            transport=transport,
            new_session_id=self.new_record_id,
            principal=self.principal,
            default_revision=default_revision,
        )


class HttpSession:
    """A session over Streamable HTTP: one conversation, and a stream per request."""

    reply_only = False

    __slots__ = (
        "_standalone_stream",
        "conversation",
        "id",
        "last_request_number",
        "principal",
        "profile",
        "replay_buffer",
        "stored",
        "stream_after_seconds",
        "touched_at",
        "used_at",
    )

    def __init__(
        self, id: str, context: SessionContext, now: float, stream_prefix: str = ""
    ) -> None:
        self.id = id
        self.principal = context.principal
        self.profile = context.profile
        self.used_at = now
        self.last_request_number = 0
        """Number of its last request among all requests; finer than `used_at`, which is the time of
        the last sweep."""
        self.stream_after_seconds = STREAM_AFTER_SECONDS
        self.stored: StoredSession | None = None
        """What the store has of it."""
        self.touched_at = now
        """When the store was last told that it is in use."""
        self.replay_buffer = ReplayBuffer(stream_prefix)
        self.conversation = context.make_conversation(self, STREAMABLE_HTTP)
        self._standalone_stream: ResumableStream | None = None

    @property
    def is_primed(self) -> bool:
        """Whether its streams begin with an event to resume from."""
        return self.conversation.revision.priming

    @property
    def standalone_stream(self) -> ResumableStream:
        """The stream of GET, for messages that belong to no request."""
        if self._standalone_stream is None:
            self._standalone_stream = self.replay_buffer.open(primed=self.is_primed)
        return self._standalone_stream

    @property
    def has_listener(self) -> bool:
        """Whether a client reads the standalone stream."""
        return self._standalone_stream is not None and self._standalone_stream.has_connection

    @property
    def is_in_use(self) -> bool:
        """Whether a stream is open or a request unanswered."""
        return self.has_listener or self.conversation.open_requests > 0

    def send_frames(self, *frames: bytes) -> None:
        """Send what belongs to no request: on the standalone stream, or on an open one."""
        if not self.standalone_stream.has_connection:
            # MCP 2025-06-18, transports: "The server MUST send each of its JSON-RPC messages on
            # only one of the connected streams". A client without a standalone stream gets it on
            # the stream of a request.
            writer = self.conversation.any_writer
            if (
                isinstance(writer, HttpConnection)
                and writer.transport is not None
                and writer.stream_opener
            ):
                writer.send_frames(*frames)
                return
        self.standalone_stream.send_frames(*frames)

    def end(
        self, frame: bytes, code: int | None = None, retry_after: RetryAfter | None = None
    ) -> None:
        """A frame that another process forwarded has no stream of its own."""
        self.send_frames(frame)

    def open_stream(self, connection: HttpConnection, request: bytes | None = None) -> None:
        """Turn the response on this connection into a stream."""
        request_id = request or self.conversation.request_id_of(connection)
        self.replay_buffer.open(primed=self.is_primed, request=request_id).attach(connection)

    def lost_request_id(self, last_event_id: str) -> bytes | None:
        """The raw id of the request whose answer was lost with the previous process."""
        session = self.conversation.session
        if session is None or not session.resumed:
            return None
        return self.replay_buffer.lost_request_id(last_event_id)

    def close_standalone_stream(self) -> None:
        """End the standalone stream; its client reconnects elsewhere."""
        if self._standalone_stream is not None:
            self._standalone_stream.close()

    def close(self) -> None:
        """End the session and all its streams."""
        self.conversation.abandon()
        self.replay_buffer.close()


class HttpSessions:
    """All sessions over Streamable HTTP."""

    def __init__(
        self,
        handler: RequestHandler,
        seal: Seal,
        random_bytes: Callable[[int], bytes],
        *,
        limits: QuotaLimits,
        idle_seconds: float,
        store: SessionStore | None = None,
    ) -> None:
        self.by_id: dict[str | None, HttpSession] = {}
        self.on_resumed: Callable[[Session], None] | None = None
        """Called with a session resumed here, and again when another process changed its
        subscriptions."""
        self.on_changed: Callable[[str], None] | None = None
        """Called with the id of a session whose stored state changed."""
        self.on_client_message: (
            Callable[[HttpSession, Notification | Result | Failure], None] | None
        ) = None
        """Called with notifications and responses that the client of a session sends."""
        self._handler = handler
        self._seal = seal
        self._random_bytes = random_bytes
        self.quota: QuotaTable[HttpSession] = QuotaTable(limits)
        self._idlest_first: dict[Principal, list[tuple[int, HttpSession]]] = {}
        """Candidates for eviction by principal, idlest last, each with its last request when it was
        sorted."""
        self.idle_seconds = idle_seconds
        self._store = store

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self.by_id.values()))

    def reserve_slot(self, principal: Principal) -> bool:
        """Make room for a session of this principal; False if there is none.

        The principal with the most sessions loses the idlest one without an open request. Its
        client gets a 404 and opens a new session, as MCP 2025-06-18, transports, demands.
        """
        principals = self.quota.eviction_order(principal)
        if principals is None:
            return True
        for owner_principal in principals:
            idlest = self._find_idlest(owner_principal)
            if idlest is not None:
                if idlest.conversation.session is not None:
                    idlest.conversation.session.close_reason = "made room for another"
                self.end(idlest)
                return True
        return False

    def _find_idlest(self, principal: Principal) -> HttpSession | None:
        """The idlest session of a principal without an open request.

        Sessions with a listening client come last. The order is computed once for many evictions: a
        client may open one session after the other.
        """
        for _ in range(2):
            candidates = self._idlest_first.pop(principal, [])
            while candidates:
                request_number, session = candidates.pop()
                unused = session.last_request_number == request_number and session.id in self.by_id
                if unused and not session.conversation.open_requests:
                    self._idlest_first[principal] = candidates
                    return session
            idlest_first = sorted(
                self.quota.items_of(principal), key=lambda each: each.last_request_number
            )
            idlest_first.sort(key=lambda each: each.has_listener)
            self._idlest_first[principal] = [
                (each.last_request_number, each) for each in reversed(idlest_first)
            ]
        return None

    def new_id(self, profile: str, principal: Principal) -> str:
        nonce = self._random_bytes(ID_BYTES).hex()
        return self._seal.seal(SEAL_KIND, msgspec.json.encode([nonce, profile, *principal]))

    def new_record_id(self) -> str:
        """The id of a session in the record: it must not open the session."""
        return self._random_bytes(8).hex()

    def make_context(self, profile: str, principal: Principal) -> SessionContext:
        return SessionContext(profile, principal, self._handler, self.new_record_id)

    def create(self, profile: str, principal: Principal, now: float) -> HttpSession:
        """Create a session; `add` it once its handshake is done."""
        return self._make_session(self.new_id(profile, principal), profile, principal, now)

    def add(self, session: HttpSession) -> None:
        """Register and store a session, before its client learns the id."""
        self._add(session)
        self.save(session)

    def find(self, id: str | None, profile: str, principal: Principal) -> HttpSession | None:
        """The session with this id, if it belongs to the principal and is in this process."""
        session = self.by_id.get(id)
        if session is None or session.principal != principal or session.profile != profile:
            return None
        return session

    def resume(self, id: str, profile: str, principal: Principal, now: float) -> HttpSession | None:
        """Restore a session of another process, if the id belongs to the principal."""
        if self._store is None or id in self.by_id:
            return None
        claims = self._seal.open(SEAL_KIND, id)
        if claims is None or msgspec.json.decode(claims)[1:] != [profile, *principal]:
            return None
        stored = self._store.read(id, self.idle_seconds)
        if stored is None or not self.reserve_slot(principal):
            return None
        session = self._make_session(id, profile, principal, now)
        first = int.from_bytes(self._random_bytes(QUESTION_ID_BYTES))
        resumed = restore_session(stored, session, STREAMABLE_HTTP, count(first))
        if resumed is None:
            return None
        session.conversation.session = resumed
        session.stored = stored
        self._store.touch(id)
        self._add(session)
        self._handler.on_session_opened(resumed)
        if self.on_resumed is not None:
            self.on_resumed(resumed)
        return session

    def save(self, session: HttpSession) -> None:
        """Store a session if its state has changed."""
        legacy_session = session.conversation.session
        if self._store is None or legacy_session is None or session.id not in self.by_id:
            return
        stored = to_stored_session(legacy_session)
        if stored != session.stored:
            session.stored = stored
            self._store.write(session.id, stored)
            self._notify_changed(session)

    def reload_stored(self, session: HttpSession) -> None:
        """Another process has changed or ended this session in the store: follow."""
        legacy_session = session.conversation.session
        if self._store is None or legacy_session is None:
            return
        stored = self._store.read(session.id, self.idle_seconds)
        if stored is None:
            self.close_locally(session, "ended by the client")
        elif stored != session.stored:
            session.stored = stored
            apply_stored_session(legacy_session, stored)
            if self.on_resumed is not None:
                self.on_resumed(legacy_session)

    def end(self, session: HttpSession) -> None:
        """End a session for good."""
        if self._remove(session):
            if self._store is not None:
                self._store.delete(session.id)
                self._notify_changed(session)
            session.close()

    def close_locally(self, session: HttpSession, reason: str = "handed over") -> None:
        """End a session in this process only; its client may go on in the next one."""
        if self._remove(session):
            if session.conversation.session is not None:
                session.conversation.session.close_reason = reason
            session.close()

    def sweep(self, now: float) -> None:
        """End expired sessions, and touch the stored ones that are in use."""
        self._idlest_first.clear()
        for session in list(self.by_id.values()):
            if now - session.used_at > self.idle_seconds:
                if session.is_in_use:
                    session.used_at = now
                    continue
                if self._store is not None:
                    self._store.delete_if_idle(session.id, self.idle_seconds)
                self.close_locally(session, "not used for too long")
        if self._store is not None:
            self._touch(self._store, now)
            self._store.sweep(self.idle_seconds)

    def _touch(self, store: SessionStore, now: float) -> None:
        touches = 0
        # Well before another process would take it for idle.
        seconds = min(TOUCH_SECONDS, self.idle_seconds / 4)
        for session in self.by_id.values():
            if now - session.touched_at <= seconds:
                continue
            if session.is_in_use:
                session.used_at = now
            if session.used_at > session.touched_at and touches < TOUCHES_MAX:
                touches += 1
                session.touched_at = now
                store.touch(session.id)

    def _notify_changed(self, session: HttpSession) -> None:
        if self.on_changed is not None:
            self.on_changed(session.id)

    def _make_session(self, id: str, profile: str, principal: Principal, now: float) -> HttpSession:
        stream_prefix = self._random_bytes(STREAM_PREFIX_BYTES).hex()
        return HttpSession(id, self.make_context(profile, principal), now, stream_prefix)

    def _add(self, session: HttpSession) -> None:
        if session.is_primed:
            session.stream_after_seconds = STREAM_AFTER_PRIMED_SECONDS
        self.by_id[session.id] = session
        self.quota.add(session.principal, session)

    def _remove(self, session: HttpSession) -> bool:
        self.quota.remove(session.principal, session)
        return self.by_id.pop(session.id, None) is not None
