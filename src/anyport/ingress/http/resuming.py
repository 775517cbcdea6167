"""A legacy session that outlives the process it began in: what is written down, and read again.

What a client settled with its handshake and has wished for since is enough to go on with a new
connection to every server. What was under way is lost with the process, and is never done a
second time: who comes back for such an answer is told so.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

import msgspec

from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.register import NOBODY, Entry
from anyport.protocol.capability import client_capabilities
from anyport.protocol.errors import Pause
from anyport.protocol.exchange import Teller
from anyport.protocol.legacy_front import LOG_LEVELS, LegacySession
from anyport.protocol.principal import Principal
from anyport.protocol.revision import Era, find_revision
from anyport.protocol.session import Step
from anyport.wire import codec

STANDING: Final = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
"""Requests that change what has to be remembered of a session."""

RESTARTED: Final = -32000
_WORDS: Final = (
    "The gateway was restarted while this request was open, and its answer is lost. "
    "Whether it was carried out is not known: send it again if that does no harm"
)


class Place(Teller, Protocol):
    """Where a session goes on: who it belongs to is known, and how to reach its client."""

    principal: Principal
    profile: str


class Witness:
    """The way back of a request that changes its session: the answer waits for the register."""

    __slots__ = ("_inlet", "_note")

    def __init__(self, inlet: Inlet, note: Callable[[], None]) -> None:
        self._inlet = inlet
        self._note = note

    @property
    def mute(self) -> bool:
        """Whether nothing can be said before the answer."""
        return self._inlet.mute

    def note(self, *frames: bytes) -> None:
        """Frames before the answer."""
        self._inlet.note(*frames)

    def end(self, frame: bytes, code: int | None = None, pause: Pause | None = None) -> None:
        """The answer: what it promises is remembered from now on."""
        self._note()
        self._inlet.end(frame, code, pause)


def entry_of(session: LegacySession) -> Entry:
    """What has to be remembered of a session."""
    return Entry(
        word=session.id,
        revision=session.revision.name,
        capabilities=msgspec.Raw(session.capabilities.raw),
        client=NOBODY if session.client is None else msgspec.Raw(session.client),
        level=session.log_level,
        subscriptions=tuple(sorted(session.subscriptions)),
    )


def session_of(
    entry: Entry, place: Place, transport: str, question_ids: Iterator[int]
) -> LegacySession | None:
    """The session that an entry tells of, ready to go on; None if nobody can make sense of it.

    `question_ids` must not begin where those of the process before did: a client may still
    answer what it was asked there, and that is no answer to anything here.
    """
    revision = find_revision(entry.revision)
    capabilities = client_capabilities(bytes(entry.capabilities))
    if revision is None or revision.era is not Era.LEGACY or capabilities is None:
        return None
    session = LegacySession(
        id=entry.word,
        profile=place.profile,
        revision=revision,
        capabilities=capabilities,
        client=None if entry.client == NOBODY else bytes(entry.client),
        teller=place,
        transport=transport,
        question_ids=question_ids,
        principal=place.principal,
    )
    session.take(Step.INITIALIZED)
    session.resumed = True
    wish(session, entry)
    return session


def wish(session: LegacySession, entry: Entry) -> None:
    """Have a session wish for what an entry says, and for nothing else."""
    session.log_level = entry.level if entry.level in LOG_LEVELS else None
    session.subscriptions.clear()
    session.subscriptions.update(entry.subscriptions)


def lost_answer(request: bytes) -> bytes:
    """What a client is told that comes back for an answer of a process that is no more."""
    return codec.failure(request, codec.error(RESTARTED, _WORDS))
