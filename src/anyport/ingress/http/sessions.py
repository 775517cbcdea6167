"""Legacy sessions over HTTP: their ids, their streams, how long they live.

An id is drawn at random and sealed, belongs to one principal and one profile, and is worth
nothing to anybody else. Sessions that nobody uses are ended; there is a most of them. One that
is not known here, but stands in the register, began in another process and goes on in this one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

import msgspec

from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.register import Entry, Register
from anyport.ingress.http.resuming import entry_of, session_of, wish
from anyport.ingress.http.streams import Resumable, Shelf
from anyport.protocol.conversation import Conversation
from anyport.protocol.errors import Pause
from anyport.protocol.exchange import Session, Teller
from anyport.protocol.front import Relay
from anyport.protocol.principal import Principal
from anyport.protocol.revision import UNNEGOTIATED, Revision
from anyport.protocol.seal import Seal
from anyport.wire.frame import Failure, Notification, Result

ID_BYTES: Final = 16
"""Of chance in an id: nobody guesses 128 bits."""
SHELF_BYTES: Final = 4
QUESTION_BYTES: Final = 4
"""Of chance in the names of events and in the first number of a question: they are not the same
as in the process before."""
TOUCH_SECONDS: Final = 60.0
"""How often the register is told that a session is in use."""
TOUCHES_MAX: Final = 256
"""Sessions of which it is told that in one sweep: they take less than a millisecond."""
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
        "registered",
        "shelf",
        "touched",
        "used",
    )

    def __init__(self, id: str, belonging: Belonging, now: float, shelf: str = "") -> None:
        self.id = id
        self.principal = belonging.principal
        self.profile = belonging.profile
        self.used = now
        self.commit_seconds = COMMIT_SECONDS
        self.registered: Entry | None = None
        """What the register says of it."""
        self.touched = now
        """When the register was last told that it is in use."""
        self.shelf = Shelf(shelf)
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

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """Answers have streams of their own; this one carries none."""
        self.note(frame)

    def open_stream(self, inlet: Inlet, request: bytes | None = None) -> None:
        """An answer becomes a stream."""
        asked = request or self.conversation.asked_over(inlet)
        self.shelf.open(primed=self.primed, request=asked).carry(inlet)

    def lost(self, last_event_id: str) -> bytes | None:
        """The raw id of the request whose answer was under way in the process before this one."""
        opened = self.conversation.session
        if opened is None or not opened.resumed:
            return None
        return self.shelf.missing(last_event_id)

    def part(self) -> None:
        """Let the client go elsewhere for what belongs to no request."""
        if self._alone is not None:
            self._alone.close()

    def close(self) -> None:
        """End the session and all its streams."""
        self.conversation.abandon()
        self.shelf.close()


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
        register: Register | None = None,
    ) -> None:
        self.known: dict[str | None, HttpSession] = {}
        self.on_resumed: Callable[[Session], None] | None = None
        """Told of every session that goes on here, and of what it wished for elsewhere."""
        self.on_changed: Callable[[str], None] | None = None
        """Told the id of every session of which the register says something new."""
        self.on_said: Callable[[HttpSession, Notification | Result | Failure], None] | None = None
        """Told what the client of a session says that is no request."""
        self._relay = relay
        self._seal = seal
        self._random_bytes = random_bytes
        self.sessions_max = sessions_max
        self.idle_seconds = idle_seconds
        self._register = register

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self.known.values()))

    @property
    def full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self.known) >= self.sessions_max

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
        return self._made(self.new_id(profile, principal), profile, principal, now)

    def add(self, session: HttpSession) -> None:
        """Its client is about to know the id."""
        self._know(session)
        self.remember(session)

    def find(self, id: str | None, profile: str, principal: Principal) -> HttpSession | None:
        """The session of that id, if it is theirs and known here."""
        session = self.known.get(id)
        if session is None or session.principal != principal or session.profile != profile:
            return None
        return session

    def resume(self, id: str, profile: str, principal: Principal, now: float) -> HttpSession | None:
        """The session of that id, if it is theirs and began in another process."""
        if self._register is None or id in self.known or self.full:
            return None
        claims = self._seal.open(KIND, id)
        if claims is None or msgspec.json.decode(claims)[1:] != [profile, *principal]:
            return None
        entry = self._register.read(id, self.idle_seconds)
        if entry is None:
            return None
        session = self._made(id, profile, principal, now)
        first = int.from_bytes(self._random_bytes(QUESTION_BYTES))
        went_on = session_of(entry, session, HTTP, count(first))
        if went_on is None:
            return None
        session.conversation.session = went_on
        session.registered = entry
        self._register.touch(id)
        self._know(session)
        self._relay.opened(went_on)
        if self.on_resumed is not None:
            self.on_resumed(went_on)
        return session

    def remember(self, session: HttpSession) -> None:
        """Have the register say of a session what is true now."""
        opened = session.conversation.session
        if self._register is None or opened is None or session.id not in self.known:
            return
        entry = entry_of(opened)
        if entry != session.registered:
            session.registered = entry
            self._register.write(session.id, entry)
            self._tell_changed(session)

    def look_again(self, session: HttpSession) -> None:
        """Another process has changed what the register says of a session, or ended it."""
        opened = session.conversation.session
        if self._register is None or opened is None:
            return
        entry = self._register.read(session.id, self.idle_seconds)
        if entry is None:
            self.leave(session, "ended by the client")
        elif entry != session.registered:
            session.registered = entry
            wish(opened, entry)
            if self.on_resumed is not None:
                self.on_resumed(opened)

    def end(self, session: HttpSession) -> None:
        """End a session for good."""
        if self.known.pop(session.id, None) is not None:
            if self._register is not None:
                self._register.strike(session.id)
                self._tell_changed(session)
            session.close()

    def leave(self, session: HttpSession, parting: str = "handed over") -> None:
        """End a session in this process: its client may go on with it in the next."""
        if self.known.pop(session.id, None) is not None:
            if session.conversation.session is not None:
                session.conversation.session.parting = parting
            session.close()

    def sweep(self, now: float) -> None:
        """End the sessions that nobody has used for long, and note who is still there."""
        for session in list(self.known.values()):
            if now - session.used > self.idle_seconds:
                if session.in_use:
                    session.used = now
                    continue
                if self._register is not None:
                    self._register.lapse(session.id, self.idle_seconds)
                self.leave(session, "not used for too long")
        if self._register is not None:
            self._touch(self._register, now)
            self._register.sweep(self.idle_seconds)

    def _touch(self, register: Register, now: float) -> None:
        touches = 0
        # Well before anybody who looks there would take it for idle.
        seconds = min(TOUCH_SECONDS, self.idle_seconds / 4)
        for session in self.known.values():
            if now - session.touched <= seconds:
                continue
            if session.in_use:
                session.used = now
            if session.used > session.touched and touches < TOUCHES_MAX:
                touches += 1
                session.touched = now
                register.touch(session.id)

    def _tell_changed(self, session: HttpSession) -> None:
        if self.on_changed is not None:
            self.on_changed(session.id)

    def _made(self, id: str, profile: str, principal: Principal, now: float) -> HttpSession:
        shelf = self._random_bytes(SHELF_BYTES).hex()
        return HttpSession(id, self.belonging(profile, principal), now, shelf)

    def _know(self, session: HttpSession) -> None:
        if session.primed:
            session.commit_seconds = COMMIT_PRIMED_SECONDS
        self.known[session.id] = session
