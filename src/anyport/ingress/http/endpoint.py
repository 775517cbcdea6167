"""MCP over HTTP: what a POST, a GET and a DELETE at a profile mean, for every revision at once.

The body decides the era, not the headers: clients in between two eras send stale ones. Nothing
here knows sockets, servers or names; it sorts messages into conversations.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.modern import MODERN_STATUSES, ModernPosts
from anyport.ingress.http.older import OlderSession, OlderSessions
from anyport.ingress.http.patience import NEVER
from anyport.ingress.http.reply import JSON
from anyport.ingress.http.resuming import STANDING, Witness, lost_answer
from anyport.ingress.http.sessions import COMMIT_SECONDS, HTTP, HttpSession, Sessions
from anyport.ingress.http.streams import PLAIN, Plain
from anyport.ingress.http.visit import Goal, Visit
from anyport.protocol import meta
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import Fault, Pause
from anyport.protocol.exchange import Teller
from anyport.protocol.front import Relay
from anyport.protocol.reading import PlainCall, Reading, read_plain_call, read_request
from anyport.protocol.revision import NEWEST_MODERN, UNNEGOTIATED
from anyport.wire import codec
from anyport.wire.frame import BadFrame, Failure, Notification, Request, Result

RETRY_SECONDS: Final = "5"

LEGACY_STATUSES: Final = {-32700: 400, -32600: 400}


class Endpoint:
    """Every profile's endpoint."""

    def __init__(self, relay: Relay, sessions: Sessions, older: OlderSessions, now: float) -> None:
        self.sessions = sessions
        self.older = older
        self.draining = False
        self.modern = ModernPosts(relay, now)
        self._relay = relay
        self.now = now
        """The time of the last sweep."""
        self._lone: set[Conversation] = set()
        """Those of a single message, until it is answered."""

    @property
    def open_requests(self) -> int:
        """Legacy requests that have no answer yet, of sessions and of none."""
        talks = [session.conversation for session in (*self.sessions, *self.older)]
        talks += self._lone
        return sum(talk.open_requests for talk in talks)

    def serve(self, inlet: Inlet, visit: Visit, body: bytes) -> None:
        """Answer one request."""
        if visit.head.method == "POST":
            if visit.goal is Goal.MESSAGES:
                self.older.post(inlet, visit, body)
            else:
                self.post(inlet, visit, body)
        elif visit.head.method == "GET":
            self._get(inlet, visit)
        else:
            self._delete(inlet, visit)

    def post(self, inlet: Inlet, visit: Visit, body: bytes) -> None:
        """One message, or a batch of them."""
        if visit.straight and not self.draining:
            plain = read_plain_call(body)
            if plain is not None and self._repeat(inlet, visit, plain):
                return
        inlet.statuses = LEGACY_STATUSES
        if codec.is_batch(body):
            self._batch(inlet, visit, body)
            return
        frame = codec.decode(body)
        if isinstance(frame, Request):
            self._request(inlet, visit, frame)
        elif isinstance(frame, BadFrame):
            self._relay.aside(visit.stranger(HTTP), frame)
            error = codec.error(frame.code, frame.message)
            null = visit.revision is None or visit.revision.null_ids
            inlet.end(codec.failure(frame.id, error, null_id=null), frame.code)
        else:
            self._aside(inlet, visit, frame)

    # Calls that were made before.

    def _repeat(self, inlet: Inlet, visit: Visit, plain: PlainCall) -> bool:
        """Make a call again; False if it has to be looked at like any other."""
        if plain.about and plain.is_modern:
            return self.modern.repeat(inlet, visit, plain)
        session = self.sessions.find(visit.session_id, visit.profile, visit.principal)
        if session is None or visit.revision is NEWEST_MODERN:
            return False
        session.used = now = self.now
        inlet.opener = session
        inlet.deadline = now + session.commit_seconds
        inlet.statuses = LEGACY_STATUSES
        return session.conversation.repeat(plain, inlet)

    # Requests.

    def _request(self, inlet: Inlet, visit: Visit, frame: Request) -> None:
        reading = read_request(frame)
        if isinstance(reading, Fault):
            self._refuse(inlet, frame, reading, visit)
            return
        if visit.context:
            reading = msgspec.structs.replace(reading, carried=visit.context)
        if self.draining:
            self._unavailable(inlet, visit, frame, "The gateway is shutting down")
        elif meta.PROTOCOL_VERSION in reading.about:
            self.modern.begin(inlet, visit, reading)
        elif frame.method == "initialize":
            self._initialize(inlet, visit, reading)
        elif visit.session_id is not None and not visit.is_modern:
            self._in_session(inlet, visit, visit.session_id, reading)
        elif visit.speaks_modern:
            self.modern.refuse_unopened(inlet, visit, reading)
        elif visit.revision is not None and visit.revision.names_version:
            words = "Bad Request: Mcp-Session-Id is missing"
            self._refuse_session(inlet, visit, frame, 400, words)
        else:
            self._alone(inlet, visit, partial(_ask, reading))

    def _in_session(self, inlet: Inlet, visit: Visit, id: str, reading: Reading) -> None:
        session = self._session(inlet, visit, id, reading.frame)
        if session is None:
            return
        takes = visit.takes
        if takes.stream:
            inlet.opener = session
            inlet.deadline = self.now + session.commit_seconds
        if not takes.json:
            session.open_stream(inlet, reading.frame.id)
        standing = reading.frame.method in STANDING
        way = self._witness(inlet, session) if standing else inlet
        session.conversation.request(reading, way)

    def _initialize(self, inlet: Inlet, visit: Visit, reading: Reading) -> None:
        if self.sessions.full:
            self._unavailable(inlet, visit, reading.frame, "Too many sessions are open")
            return
        session = self.sessions.begin(visit.profile, visit.principal, self.now)
        session.conversation.request(reading, _Opening(inlet, visit, session, self.sessions))

    def _alone(
        self, inlet: Inlet, visit: Visit, take: Callable[[Conversation, Inlet], None]
    ) -> None:
        """A legacy message without a session: answered by itself."""
        belonging = self.sessions.belonging(visit.profile, visit.principal)
        conversation = belonging.conversation(inlet, HTTP, visit.revision or UNNEGOTIATED)
        if visit.takes.stream:
            inlet.opener = PLAIN
            inlet.deadline = self.now + COMMIT_SECONDS
        if not visit.takes.json:
            Plain(inlet)
        take(conversation, inlet)
        if conversation.open_requests:
            self._lone.add(conversation)
            conversation.on_idle = self._lone.discard

    # Everything that is not a request.

    def _aside(self, inlet: Inlet, visit: Visit, frame: Notification | Result | Failure) -> None:
        """A notification, or a client's answer to a server's question: taken, not answered."""
        if visit.session_id is not None and not visit.is_modern:
            session = self._session(inlet, visit, visit.session_id, None)
            if session is None:
                return
            session.conversation.take(frame, inlet)
            if self.sessions.on_said is not None:
                self.sessions.on_said(session, frame)
        elif isinstance(frame, Result | Failure):
            self._invalid(inlet, visit, "an answer belongs to a session, and names it")
            return
        else:
            # Without a session nobody is known to be meant: a modern `notifications/cancelled`
            # must not cancel by an id that any other client may have chosen too.
            self._relay.aside(visit.stranger(HTTP), frame)
        inlet.answer(202)

    def _batch(self, inlet: Inlet, visit: Visit, body: bytes) -> None:
        if visit.session_id is not None and not visit.is_modern:
            session = self._session(inlet, visit, visit.session_id, None)
            if session is None:
                return
            inlet.opener = session
            _batch(session.conversation, body, inlet, self._witness(inlet, session))
        elif (visit.version is None) if visit.revision is None else visit.revision.batches:
            self._alone(inlet, visit, lambda conversation, way: _batch(conversation, body, way))
        else:
            self._invalid(inlet, visit, "this revision has no batches")

    def _witness(self, inlet: Inlet, session: HttpSession) -> Witness:
        return Witness(inlet, partial(self.sessions.remember, session))

    def _get(self, inlet: Inlet, visit: Visit) -> None:
        if visit.goal is Goal.SSE:
            self.older.open(inlet, visit)
        elif visit.session_id is not None and not visit.is_modern:
            self._stream(inlet, visit, visit.session_id)
        elif visit.version is None or not visit.speaks_modern:
            self.older.open(inlet, visit)
        else:
            inlet.answer(405, b"", (("allow", "POST"),))

    def _stream(self, inlet: Inlet, visit: Visit, id: str) -> None:
        session = self._session(inlet, visit, id, None)
        if session is None:
            return
        inlet.deadline = NEVER
        last = visit.last_event_id or ""
        found, lost = session.shelf.find(last), session.lost(last)
        if found is not None:
            stream, after = found
            stream.carry(inlet, after)
        elif lost is not None:
            Plain(inlet).end(lost_answer(lost))
        else:
            session.alone.carry(inlet)

    def _delete(self, inlet: Inlet, visit: Visit) -> None:
        if visit.session_id is None or visit.is_modern:
            error = codec.error(-32600, "DELETE ends a session, and needs the id of one")
            body = codec.failure(None, error, null_id=False)
            inlet.answer(405, body, (JSON, ("allow", "POST")))
            return
        session = self._session(inlet, visit, visit.session_id, None)
        if session is not None:
            self.sessions.end(session)
            inlet.answer(200)

    # Refusals.

    def _session(
        self, inlet: Inlet, visit: Visit, id: str, frame: Request | None
    ) -> HttpSession | None:
        """The session a request names; None if it has been refused for the lack of one."""
        whose = (id, visit.profile, visit.principal)
        session = self.sessions.find(*whose) or self.sessions.resume(*whose, self.now)
        if session is None:
            words = "Session not found: it has ended; send initialize to open a new one"
            self._refuse_session(inlet, visit, frame, 404, words)
            return None
        if visit.version is not None and visit.revision is None:
            words = f"Bad Request: Unsupported protocol version: {visit.version[:64]}"
            self._refuse_session(inlet, visit, frame, 400, words)
            return None
        session.used = self.now
        return session

    def _refuse_session(
        self, inlet: Inlet, visit: Visit, frame: Request | None, status: int, words: str
    ) -> None:
        error = codec.error(-32600 if status == 400 else -32001, words)
        id = None if frame is None else frame.id
        if frame is not None:
            self._relay.aside(visit.stranger(HTTP), frame, Failure(frame.id, error))
        inlet.answer(status, codec.failure(id, error, null_id=False), (JSON,))

    def _invalid(self, inlet: Inlet, visit: Visit, words: str) -> None:
        frame = BadFrame(-32600, f"Invalid Request: {words}")
        self._relay.aside(visit.stranger(HTTP), frame)
        error = codec.error(frame.code, frame.message)
        inlet.end(codec.failure(None, error, null_id=False), frame.code)

    def _refuse(self, inlet: Inlet, frame: Request, fault: Fault, visit: Visit) -> None:
        if visit.speaks_modern:
            inlet.statuses = MODERN_STATUSES
        revision = visit.revision or UNNEGOTIATED
        error = fault.render(revision)
        self._relay.aside(visit.stranger(HTTP), frame, Failure(frame.id, error))
        inlet.end(codec.failure(frame.id, error), fault.code(revision))

    def _unavailable(self, inlet: Inlet, visit: Visit, frame: Request, words: str) -> None:
        error = codec.error(-32000, words)
        self._relay.aside(visit.stranger(HTTP), frame, Failure(frame.id, error))
        body = codec.failure(frame.id, error)
        inlet.answer(503, body, (JSON, ("retry-after", RETRY_SECONDS)))

    def end_all(self) -> None:
        """End what would otherwise never end: subscriptions get their result, streams close."""
        self.modern.end_all()
        for session in self.sessions:
            self.sessions.leave(session)
        self.older.end_all()

    def send_away(self) -> None:
        """Have those go elsewhere who wait for nothing in particular; who asked is answered."""
        self.modern.end_all()
        for session in self.sessions:
            session.part()
        for older in self.older:
            if not older.conversation.open_requests:
                self.older.end(older)

    def part(self, session: HttpSession | OlderSession) -> None:
        """End a session that its client has not ended."""
        if isinstance(session, HttpSession):
            self.sessions.end(session)
        else:
            self.older.end(session)


class _Opening:
    """Takes the answer of `initialize` to the client, with the id of the session it opened."""

    mute = False

    def __init__(
        self, inlet: Inlet, visit: Visit, session: HttpSession, sessions: Sessions
    ) -> None:
        self._inlet = inlet
        self._visit = visit
        self._session = session
        self._sessions = sessions

    def note(self, *frames: bytes) -> None:
        """Nothing happens before the answer."""

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """The session is open, or refused."""
        if code is not None:
            self._inlet.end(frame, code, pause)
            return
        self._sessions.add(self._session)
        named = ("mcp-session-id", self._session.id)
        if self._visit.takes.json:
            self._inlet.answer(200, frame, (JSON, named))
        else:
            Plain(self._inlet, (named,))
            self._inlet.end(frame)


def _ask(reading: Reading, conversation: Conversation, inlet: Inlet) -> None:
    conversation.request(reading, inlet)


def _batch(
    conversation: Conversation, body: bytes, inlet: Inlet, way: Teller | None = None
) -> None:
    """Take a batch; one of notifications and answers alone has no answer of its own."""
    if not conversation.take_batch(body, way or inlet):
        inlet.answer(202)
