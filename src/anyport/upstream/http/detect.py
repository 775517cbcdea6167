"""Finding out what a server behind a URL speaks, and opening a conversation in it.

The newest comes first: `server/discover`, then `initialize`, then HTTP+SSE. Only an answer that
a server of another era would give leads on. One that says "log in", "later" or nothing at all
says nothing about the era, and ends the attempt.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from anyport.protocol import meta
from anyport.protocol.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
    error_code,
)
from anyport.protocol.revision import NEWEST_LEGACY, NEWEST_MODERN, Era, find_revision
from anyport.upstream.call import Lost
from anyport.upstream.handshake import (
    HandshakeFailed,
    Introduction,
    discovered,
    envelope,
    error_words,
    opening,
    refuse_strangers,
    supported_revisions,
)
from anyport.upstream.http.client import Client
from anyport.upstream.http.inquiry import Reply, inquire
from anyport.upstream.http.modern import version_field
from anyport.upstream.http.outgoing import Outgoing, complaint, field
from anyport.upstream.http.place import Place
from anyport.upstream.http.session import Greeting, read_greeting
from anyport.upstream.own import Asked, Record
from anyport.upstream.peer import Peer
from anyport.upstream.road import Way
from anyport.wire import codec
from anyport.wire.frame import INVALID_PARAMS, Failure

_NO_VERDICT: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    }
)
"""What any server may answer whatever it speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a server turned out to speak."""

    way: Way
    place: Place
    peer: Peer | None = None
    """Not known yet for HTTP+SSE: its handshake needs the stream."""
    session: str | None = None
    numbers_used: int = 0
    refusal: str = ""
    """Why it was not Streamable HTTP."""


class Detection:
    """One attempt."""

    def __init__(
        self,
        client: Client,
        outgoing: Outgoing,
        introduction: Introduction,
        transport: str,
        record: Record = Record(),  # noqa: B008 - frozen
    ) -> None:
        self._record = record
        self._client = client
        self._outgoing = outgoing
        self._introduction = introduction
        self._transport = transport
        self._number = 0
        pinned = find_revision(introduction.protocol)
        self._pinned_era = None if pinned is None else pinned.era
        if introduction.protocol in (Era.LEGACY.value, Era.MODERN.value):
            self._pinned_era = Era(introduction.protocol)
        legacy = pinned is not None and pinned.era is Era.LEGACY
        self.greeting = Greeting(
            introduction=introduction,
            revision=pinned if pinned is not None and legacy else NEWEST_LEGACY,
        )

    async def run(self, known: Way | None) -> Finding:
        """Find out; `known` is what the server spoke the last time.

        Raises:
            HandshakeFailed: nothing that we speak too, or no verdict.
        """
        if self._transport == Way.EVENTS.value or known is Way.EVENTS:
            return Finding(way=Way.EVENTS, place=self._outgoing.place)
        if self._pinned_era is not Era.LEGACY and known is not Way.LEGACY:
            finding = await self._discover()
            if finding is not None:
                return finding
            if self._pinned_era is Era.MODERN:
                raise HandshakeFailed(f"it does not speak revision {NEWEST_MODERN.name}")
        return await self._initialize()

    async def _discover(self) -> Finding | None:
        """A modern server; None if the answer is one that a legacy server would give."""
        reply = await self._ask_for_discovery()
        answer = reply.answer
        if isinstance(answer, Failure) and error_code(answer.error) == UNSUPPORTED_REVISION:
            supported = supported_revisions(answer.error)
            if NEWEST_MODERN.name in supported:
                # It may have been in the middle of an update.
                reply = await self._ask_for_discovery()
                answer = reply.answer
            elif not supported:
                raise HandshakeFailed(f"it refused our revision: {error_words(answer.error)}")
            else:
                refuse_strangers(supported)
                return None
        if isinstance(answer, Failure):
            if _is_modern_error(answer.error):
                words = error_words(answer.error)
                raise HandshakeFailed(f"it refused server/discover: {words}")
            return None
        peer = None if answer is None else discovered(answer.result, self._introduction)
        if peer is None:
            return None
        return Finding(way=Way.MODERN, place=reply.place, peer=peer, numbers_used=self._number)

    async def _ask_for_discovery(self) -> Reply:
        self._number += 1
        params = envelope(self._introduction, NEWEST_MODERN)
        frame = codec.request(b"%d" % self._number, "server/discover", params)
        fields = version_field(NEWEST_MODERN) + field("Mcp-Method", "server/discover")
        reply = await self._inquire(("server/discover", params), fields, frame)
        _refuse_outage(reply)
        return reply

    async def _inquire(self, asked: Asked, fields: bytes, frame: bytes) -> Reply:
        started = self._record.clock()
        reply = await inquire(
            self._client, self._outgoing.place, self._outgoing.post(fields), frame
        )
        words = "no answer" if reply.trouble is None else reply.trouble.words
        answer = Lost(words) if reply.answer is None else reply.answer
        self._record.noted(asked, answer, self._record.clock() - started)
        return reply

    async def _initialize(self) -> Finding:
        """A legacy server on either transport."""
        self._number += 1
        place = self._outgoing.place
        # No version field: what is spoken is what this very request is about.
        frame = self.greeting.request(self._number)
        asked = ("initialize", opening(self.greeting.introduction, self.greeting.revision))
        reply = await self._inquire(asked, b"", frame)
        _refuse_outage(reply)
        client_error = 400 <= reply.status < 500
        if client_error and self._transport == "auto" and reply.head is not None:
            refusal = complaint(reply.head)
            if isinstance(reply.answer, Failure):
                refusal = f"refused the handshake: {error_words(reply.answer.error)}"
            return Finding(way=Way.EVENTS, place=place, refusal=refusal)
        peer, session = read_greeting(self.greeting, reply)
        return Finding(
            way=Way.LEGACY,
            place=reply.place,
            peer=peer,
            session=session,
            numbers_used=self._number,
        )


def _refuse_outage(reply: Reply) -> None:
    """See that a reply says something about the era.

    Raises:
        HandshakeFailed: it does not: any server may be down, busy, or ask who we are.
    """
    if reply.head is None or (reply.trouble is not None and reply.answer is None):
        if reply.trouble is not None:
            raise HandshakeFailed(reply.trouble.words, reply.trouble.timeout)
        raise HandshakeFailed("it closed its stream")
    status = reply.head.status
    if status in _NO_VERDICT or status >= 500 or 300 <= status < 400:
        said = f": {error_words(reply.answer.error)}" if isinstance(reply.answer, Failure) else ""
        raise HandshakeFailed(f"the server {complaint(reply.head)}{said}")


def _is_modern_error(error: bytes) -> bool:
    code = error_code(error)
    if code in (HEADER_MISMATCH, MISSING_CAPABILITY):
        return True
    # Only a modern server misses members of the envelope.
    return code == INVALID_PARAMS and meta.PREFIX in error_words(error)
