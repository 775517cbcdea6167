"""Legacy sessions over HTTP: their ids, their streams, how long they live.

An id is drawn at random and sealed, belongs to one principal and one profile, and is worth
nothing to anybody else. Sessions that nobody uses are ended; there is a most of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.streams import Resumable, Shelf
from anyport.protocol.conversation import Conversation
from anyport.protocol.exchange import Teller
from anyport.protocol.front import Relay
from anyport.protocol.principal import Principal
from anyport.protocol.revision import UNNEGOTIATED, Revision
from anyport.protocol.seal import Seal

ID_BYTES: Final = 16
"""Of chance in an id: nobody guesses 128 bits."""
KIND: Final = "session"
COMMIT_SECONDS: Final = 15.0
"""An answer that takes longer becomes a stream, on which comments keep the connection alive."""
COMMIT_PRIMED_SECONDS: Final = 1.0
"""Sooner where the stream can be resumed: a client that is cut off then finds its answer."""
HTTP: Final = "streamable-http"
SSE: Final = "sse"


@dataclass(frozen=True, slots=True)
class Belonging:
    """Whose a session is, and what its conversation needs."""

    profile: str
    principal: Principal
    relay: Relay
    new_word: Callable[[], str]

    def conversation(
        self, teller: Teller, transport: str, assumed: Revision = UNNEGOTIATED
    ) -> Conversation:
        """The conversation of such a session, or of one who has none and speaks a revision."""
        return Conversation(
            profile=self.profile,
            relay=self.relay,
            teller=teller,
            transport=transport,
            new_session_id=self.new_word,
            principal=self.principal,
            assumed=assumed,
        )


class HttpSession:
    """One session over Streamable HTTP: a conversation whose messages each have a stream."""

    mute = False

    __slots__ = (
        "_alone",
        "commit_seconds",
        "conversation",
        "id",
        "principal",
        "profile",
        "shelf",
        "used",
    )

    def __init__(self, id: str, belonging: Belonging, now: float) -> None:
        self.id = id
        self.principal = belonging.principal
        self.profile = belonging.profile
        self.used = now
        self.commit_seconds = COMMIT_SECONDS
        self.shelf = Shelf()
        self.conversation = belonging.conversation(self, HTTP)
        self._alone: Resumable | None = None

    @property
    def primed(self) -> bool:
        """Whether its streams begin with an event to resume from."""
        return self.conversation.revision.priming

    @property
    def alone(self) -> Resumable:
        """The stream for what belongs to no request."""
        if self._alone is None:
            self._alone = self.shelf.open(primed=self.primed)
        return self._alone

    @property
    def in_use(self) -> bool:
        """Whether a stream is open or a request unanswered."""
        carried = self._alone is not None and self._alone.carried
        return carried or self.conversation.open_requests > 0

    def note(self, *frames: bytes) -> None:
        """Send what belongs to no request: on the stream for that, or on one that is open."""
        if not self.alone.carried:
            # "The server MUST send each of its JSON-RPC messages on only one of the connected
            # streams": a client without a stream of its own for this reads it with an answer.
            teller = self.conversation.any_teller
            if isinstance(teller, Inlet) and teller.transport is not None and teller.opener:
                teller.note(*frames)
                return
        self.alone.note(*frames)

    def end(self, frame: bytes, code: int | None = None) -> None:
        """Answers have streams of their own; this one carries none."""
        self.note(frame)

    def open_stream(self, inlet: Inlet) -> None:
        """An answer becomes a stream."""
        self.shelf.open(primed=self.primed).carry(inlet)

    def close(self) -> None:
        """End the session and all its streams."""
        self.conversation.abandon()
        for stream in self.shelf.streams.values():
            stream.close()


class Sessions:
    """All sessions over Streamable HTTP."""

    def __init__(
        self,
        relay: Relay,
        seal: Seal,
        random_bytes: Callable[[int], bytes],
        *,
        sessions_max: int,
        idle_seconds: float,
    ) -> None:
        self.known: dict[str | None, HttpSession] = {}
        self._relay = relay
        self._seal = seal
        self._random_bytes = random_bytes
        self._sessions_max = sessions_max
        self._idle_seconds = idle_seconds

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self.known.values()))

    @property
    def full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self.known) >= self._sessions_max

    def new_id(self, profile: str, principal: Principal) -> str:
        """An id for a session of this principal's."""
        chance = self._random_bytes(ID_BYTES).hex()
        return self._seal.seal(KIND, msgspec.json.encode([chance, profile, *principal]))

    def new_word(self) -> str:
        """What the record calls a session: whoever reads it there must not be let in by it."""
        return self._random_bytes(8).hex()

    def belonging(self, profile: str, principal: Principal) -> Belonging:
        """Whose a session is going to be."""
        return Belonging(profile, principal, self._relay, self.new_word)

    def begin(self, profile: str, principal: Principal, now: float) -> HttpSession:
        """A session that is about to be opened; `add` it once its handshake is done."""
        return HttpSession(self.new_id(profile, principal), self.belonging(profile, principal), now)

    def add(self, session: HttpSession) -> None:
        """Its client knows the id now."""
        if session.primed:
            session.commit_seconds = COMMIT_PRIMED_SECONDS
        self.known[session.id] = session

    def find(self, id: str | None, profile: str, principal: Principal) -> HttpSession | None:
        """The session of that id, if it is theirs."""
        session = self.known.get(id)
        if session is None or session.principal != principal or session.profile != profile:
            return None
        return session

    def end(self, session: HttpSession) -> None:
        """End a session."""
        if self.known.pop(session.id, None) is not None:
            session.close()

    def sweep(self, now: float) -> None:
        """End the sessions that nobody has used for long."""
        for session in list(self.known.values()):
            if now - session.used > self._idle_seconds:
                if session.in_use:
                    session.used = now
                    continue
                if session.conversation.session is not None:
                    session.conversation.session.parting = "not used for too long"
                self.end(session)
