"""The transport of 2024-11-05: one stream for everything, and an address to post to.

A session lives as long as its stream. Which revision is spoken on it is for the handshake to
say; the transport does not tell.
"""

from collections.abc import Callable, Iterator
from typing import Final

from anyport.ingress.http.inlet import ANSWERS_UNSENT_BYTES_MAX, Inlet
from anyport.ingress.http.reply import JSON
from anyport.ingress.http.sessions import SSE, Belonging, Sessions
from anyport.ingress.http.streams import Plain
from anyport.ingress.http.visit import Visit
from anyport.protocol.errors import Pause
from anyport.wire import codec
from anyport.wire.events import event

ID_PARAMETER: Final = "session_id"


class OlderSession:
    """One stream, and the conversation on it."""

    mute = False

    def __init__(self, id: str, belonging: Belonging, inlet: Inlet) -> None:
        self.id = id
        self.principal = belonging.principal
        self.profile = belonging.profile
        self.stream = Plain(inlet)
        inlet.unsent_bytes_max = ANSWERS_UNSENT_BYTES_MAX
        self.conversation = belonging.conversation(self, SSE)

    def note(self, *frames: bytes) -> None:
        """Send frames."""
        self.stream.note(*frames)

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """Send an answer: here it is a frame like any other."""
        self.stream.note(frame)


class OlderSessions:
    """All sessions of the older transport."""

    def __init__(self, sessions: Sessions, sessions_max: int) -> None:
        self.known: dict[str, OlderSession] = {}
        self.draining = False
        self._sessions = sessions
        self.sessions_max = sessions_max

    def __iter__(self) -> Iterator[OlderSession]:
        return iter(list(self.known.values()))

    def open(self, inlet: Inlet, visit: Visit) -> None:
        """A client opens its stream; it is told where to post."""
        if self.draining or len(self.known) >= self.sessions_max:
            words = "Too many sessions are open"
            inlet.answer(503, _error(words), (JSON, ("retry-after", "5")))
            return
        id = self._sessions.new_id(visit.profile, visit.principal)
        belonging = self._sessions.belonging(visit.profile, visit.principal)
        self.known[id] = session = OlderSession(id, belonging, inlet)
        inlet.on_closed = self._closer(session)
        address = f"/mcp/{visit.profile}/messages?{ID_PARAMETER}={id}"
        inlet.write(event(address.encode(), name=b"endpoint"))

    def post(self, inlet: Inlet, visit: Visit, body: bytes) -> None:
        """A client posts a message; whatever is answered travels on its stream."""
        session = self.known.get(visit.query_session or "")
        if (
            session is None
            or session.principal != visit.principal
            or session.profile != visit.profile
        ):
            words = "Session not found: its stream has been closed"
            inlet.answer(404, _error(words), (JSON,))
            return
        inlet.answer(202, b"Accepted")
        session.conversation.receive(body)

    def end_all(self) -> None:
        """Close every stream."""
        for session in self:
            self.end(session)

    def end(self, session: OlderSession) -> None:
        """Close a stream, and with it the session."""
        session.stream.close()
        self._end(session)

    def _closer(self, session: OlderSession) -> Callable[[], None]:
        return lambda: self._end(session)

    def _end(self, session: OlderSession) -> None:
        if self.known.pop(session.id, None) is not None:
            session.conversation.abandon()


def _error(words: str) -> bytes:
    return codec.failure(None, codec.error(-32000, words), null_id=False)
