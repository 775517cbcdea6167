"""Streamable HTTP with sessions: a handshake, a session id, streams that can be taken up again.

A server that has forgotten the session is told everything anew, once for all calls that found
out; they are then sent again, because it has seen none of them. A call whose stream broke is
asked for where it broke off, if the server numbers its events.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from anyport.protocol.errors import SERVER_FAULT, Situation, error_code
from anyport.protocol.revision import Revision
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Call, Lost
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import (
    HandshakeFailed,
    Introduction,
    error_words,
    legacy_peer,
    opening,
)
from anyport.upstream.http.channel import HttpChannel, Post
from anyport.upstream.http.client import Client
from anyport.upstream.http.inquiry import Inquiry, Reply, inquire
from anyport.upstream.http.line import Trouble
from anyport.upstream.http.modern import version_field
from anyport.upstream.http.outgoing import Outgoing, complaint, field, trace_lines
from anyport.upstream.http.standing import Standing
from anyport.upstream.peer import Peer
from anyport.upstream.sign import Again
from anyport.wire import codec
from anyport.wire.frame import METHOD_NOT_FOUND, Failure, Result
from anyport.wire.http import ReplyHead

HANDSHAKE_SECONDS_MAX: Final = 10.0
"""From the first request to a server over HTTP until it is ready."""
RESUMES_MAX: Final = 8
"""Times that a call's stream is taken up again without a new message on it."""
RESUME_SECONDS_DEFAULT: Final = 1.0
"""Before that, where the server does not say how long to wait."""
RESUME_SECONDS_MIN: Final = 0.1
"""Whatever a server says: it must not make us run in circles."""
RESUME_SECONDS_MAX: Final = 60.0
"""No call lasts so long that a longer wait could help it."""
SESSION_ID_CHARS_MAX: Final = 1024
"""A session id goes with every request: there must be room left for the rest of the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """How a session was opened, to open it again in the same way."""

    introduction: Introduction
    revision: Revision
    """The one that is asked for."""

    def request(self, number: int) -> bytes:
        """The frame that opens a session."""
        return codec.request(
            b"%d" % number, "initialize", opening(self.introduction, self.revision)
        )

    def peer(self, answer: Result | Failure) -> Peer:
        """What the server said of itself.

        Raises:
            HandshakeFailed: nothing that could be used.
        """
        if isinstance(answer, Failure):
            raise HandshakeFailed(f"it refused the handshake: {error_words(answer.error)}")
        return legacy_peer(answer.result, self.introduction)


_SESSION_ENDED: Final = Lost(
    "has ended the session in which it was asked", Situation.MISBEHAVED, again=Again.IF_SAFE
)
INITIALIZED: Final = codec.notification("notifications/initialized", None)


class SessionChannel(HttpChannel):
    """Calls within one session at a time."""

    def __init__(
        self,
        client: Client,
        outgoing: Outgoing,
        greeting: Greeting,
        on_over: Callable[[Connection, str], None],
        on_renewed: Callable[[Connection], None],
    ) -> None:
        super().__init__(client, outgoing, on_over)
        self.session: str | None = None
        self._greeting = greeting
        self._on_renewed = on_renewed
        self._fields = b""
        self.head = b""
        self._standing: Standing | None = None
        self._stranded: list[Post] = []
        """Calls that wait for the session to be opened again."""
        self._renewal: Inquiry | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._closed = False

    def begin(self, session: str | None, revision: Revision) -> None:
        """All that follows belongs to this session."""
        self.session = session
        self._fields = version_field(revision)
        if session is not None:
            self._fields += field("Mcp-Session-Id", session)
        self.head = self.outgoing.post(self._fields)

    def stand_by(self, chance: Callable[[], float]) -> None:
        """Ask for the stream on which the server says what belongs to no call."""
        self._standing = Standing(self, chance)
        self._standing.open()

    # What a connection does.

    def send(self, frame: bytes, call: Call | None) -> None:
        """Send a call, or something that is not answered."""
        if not isinstance(call, Post):
            # An answer or a notice of a session that is gone means nothing in the next one.
            if self._renewal is None:
                self.note(self.head, frame)
            return
        call.channel = self
        call.frame = frame
        if self._renewal is not None:
            self._stranded.append(call)
        else:
            call.head = self.head + trace_lines(call.fields) if call.fields else self.head
            call.session = self.session
            self.client.request(call.head, frame, call)

    # What becomes of a call.

    def excused(self, post: Post, reply: ReplyHead, body: bytes) -> bool:
        """A server that does not know the session has not looked at the call."""
        if self.session is None or not _forgotten(reply, body):
            return False
        current = post.session == self.session
        if post.retried and post.splitter is None and _answers_call(body):
            return False  # In a new session, too: the server's words are about the call.
        if post.splitter is not None or post.retried:
            self.connection.settle(post, _SESSION_ENDED)
        else:
            post.retried = True
            self._stranded.append(post)
        if current:
            self.forgotten()
        elif self._renewal is None:
            self._send_stranded()  # Another call found out first, and all is well again.
        return True

    def closed(self, post: Post, trouble: Trouble | None) -> None:
        """A call's stream is over, maybe to be taken up again before its answer."""
        if not self.connection.waits_for(post):
            return
        splitter = post.splitter
        if splitter is None or not splitter.last_id or post.tries >= RESUMES_MAX:
            super().closed(post, trouble)
            return
        post.tries += 1
        self.loop.call_later(resume_seconds(splitter.retry_ms), self._resume, post)

    def failed(self, post: Post, trouble: Trouble) -> None:
        """No reply came; to a stream that is being taken up again, one still may."""
        if post.splitter is None:
            super().failed(post, trouble)
        else:
            self.noticed(trouble)
            self.closed(post, trouble)

    def _resume(self, post: Post) -> None:
        if not self.connection.waits_for(post) or post.splitter is None:
            return
        if post.session != self.session:
            self.connection.settle(post, _SESSION_ENDED)
            return
        self.client.request(self.stream_head(post.splitter.last_id), None, post)

    def stream_head(self, last_id: str) -> bytes:
        """Asks for a stream, from where an earlier one broke off."""
        fields = self._fields
        if last_id:
            fields += field("Last-Event-ID", last_id)
        return self.outgoing.get(fields)

    # A session that is no more.

    def forgotten(self) -> None:
        """The server does not know the session any more: open another, once for all."""
        if self._renewal is not None or self._closed:
            return
        self._renewal = Inquiry(self.client, self.outgoing.place, self._greeted)
        number = self.connection.claim_number()
        self._renewal.send(self.outgoing.post(), self._greeting.request(number))
        self._deadline = self.loop.call_later(HANDSHAKE_SECONDS_MAX, self._too_late)

    def _greeted(self, reply: Reply) -> None:
        try:
            peer, session = read_greeting(self._greeting, reply)
        except HandshakeFailed as error:
            self._give_up(str(error), error.timeout)
            return
        self.begin(session, peer.revision)
        self.connection.peer = peer
        # Requests must not overtake it: a server may refuse those that come before it.
        self._renewal = Inquiry(self.client, self.outgoing.place, self._renewed)
        self._renewal.send(self.head, INITIALIZED)

    def _renewed(self, reply: Reply) -> None:
        if reply.trouble is not None:
            self._give_up(reply.trouble.words, reply.trouble.timeout)
            return
        self._end_renewal()
        self._on_renewed(self.connection)
        if self._standing is not None:
            self._standing.renew()
        self._send_stranded()

    def _too_late(self) -> None:
        self.client.patience.tell(Timeout.HANDSHAKE)
        words = f"it did not answer the handshake within {HANDSHAKE_SECONDS_MAX:g} s"
        self._give_up(words, Timeout.HANDSHAKE)

    def _end_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.close()
        if self._deadline is not None:
            self._deadline.cancel()
        self._renewal = self._deadline = None

    def _give_up(self, reason: str, timeout: Timeout | None) -> None:
        self._end_renewal()
        stranded, self._stranded = self._stranded, []
        self.over(reason)
        for post in stranded:
            situation = Situation.NOT_RUNNING if timeout is None else Situation.TIMED_OUT
            why = Lost(reason, situation, again=Again.ALWAYS, timeout=timeout)
            self.connection.settle(post, why)

    def _send_stranded(self) -> None:
        stranded, self._stranded = self._stranded, []
        for post in stranded:
            if self.connection.waits_for(post):
                post.head = self.head + trace_lines(post.fields)
                post.session = self.session
                self.send_again(post)

    # The end.

    async def close(self) -> None:
        """Tell the server that the session is over."""
        self._closed = True
        if self._standing is not None:
            self._standing.close()
        self._end_renewal()
        if self.session is not None:
            head = self.outgoing.delete(self._fields)
            await inquire(self.client, self.outgoing.place, head, None)


def read_greeting(greeting: Greeting, reply: Reply) -> tuple[Peer, str | None]:
    """Who answered the handshake, and the session that it opened.

    Raises:
        HandshakeFailed: nobody, or not in a way that could be used.
    """
    if reply.head is None or reply.answer is None:
        if reply.trouble is not None:
            raise HandshakeFailed(reply.trouble.words, reply.trouble.timeout)
        words = "closed its stream" if reply.head is None else complaint(reply.head)
        raise HandshakeFailed(f"it {words}")
    peer = greeting.peer(reply.answer)
    session = reply.head.get("mcp-session-id")
    if session is not None and not _sound(session):
        raise HandshakeFailed("its session id has characters that a session id must not have")
    return peer, session


def resume_seconds(retry_ms: int | None) -> float:
    """How long to wait before a stream is taken up again."""
    seconds = RESUME_SECONDS_DEFAULT if retry_ms is None else retry_ms / 1000
    return min(max(seconds, RESUME_SECONDS_MIN), RESUME_SECONDS_MAX)


def _sound(session: str) -> bool:
    # The specification allows visible ASCII and nothing else.
    visible = all("!" <= char <= "~" for char in session)
    return visible and 0 < len(session) <= SESSION_ID_CHARS_MAX


def _answers_call(body: bytes) -> bool:
    """Whether an error bears the id of a request, rather than none."""
    frame = codec.decode(body, codec.OUTBOUND) if body[:1] == b"{" else None
    return isinstance(frame, Failure) and codec.own_number(frame.id) >= 0


def _forgotten(reply: ReplyHead, body: bytes) -> bool:
    """Whether a reply says that the session is unknown.

    404 means that, unless it is the method that was not found. Servers made after a widespread
    example say 400 instead, with a general code and words about the session.
    """
    if reply.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST):
        return False
    frame = codec.decode(body, codec.OUTBOUND) if body[:1] == b"{" else None
    if not isinstance(frame, Failure):
        return reply.status == HTTPStatus.NOT_FOUND
    code = error_code(frame.error)
    if reply.status == HTTPStatus.NOT_FOUND:
        return code != METHOD_NOT_FOUND
    return code == SERVER_FAULT and "session" in error_words(frame.error).lower()
