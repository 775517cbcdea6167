"""One request outside any conversation, and all that its reply tells: for handshakes.

Where a call wants only its answer, a handshake draws conclusions from statuses too.
"""

import asyncio
from collections.abc import Callable

import msgspec

from anyport.upstream.http.channel import ENDLESS_FACTOR, FAREWELL_SECONDS
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import Line, Trouble, TroubleKind
from anyport.upstream.http.outgoing import REDIRECTS_MAX, aimed, redirected
from anyport.upstream.http.place import Place
from anyport.wire import codec
from anyport.wire.events import Event, EventSplitter
from anyport.wire.frame import BadFrame, Failure, Notification, Request, Result
from anyport.wire.http import ReplyHead


class Reply(msgspec.Struct, frozen=True):
    """What came back."""

    place: Place
    """Where it came from, after redirects."""
    head: ReplyHead | None
    answer: Result | Failure | None = None
    """The message in it, at whatever status."""
    trouble: Trouble | None = None

    @property
    def status(self) -> int:
        """The status; 0 if there was no reply at all."""
        return 0 if self.head is None else self.head.status


class Inquiry:
    """Takes the reply to one request."""

    waits = None

    def __init__(self, client: Client, place: Place, on_reply: Callable[[Reply], None]) -> None:
        self._client = client
        self._place = place
        self._on_reply: Callable[[Reply], None] | None = on_reply
        self._head = b""
        self._body: bytes | None = None
        self.line: Line | None = None
        self._hops = 0
        self._reply: ReplyHead | None = None
        self._splitter = EventSplitter(client.bytes_max)

    def send(self, head: bytes, body: bytes | None) -> None:
        """Send the request."""
        self._head, self._body = head, body
        self._client.request(head, body, self)

    def close(self) -> None:
        """Nobody waits any more."""
        if self._on_reply is not None:
            self._on_reply = None
            self._client.give_up(self)

    def answered(self, head: ReplyHead, body: bytes) -> None:
        """A whole reply."""
        there = redirected(self._place, head) if self._hops < REDIRECTS_MAX else None
        if there is None:
            self._tell(head, _message(body))
            return
        self._hops += 1
        self._place = there
        self.send(aimed(self._head, there), self._body)

    def opened(self, head: ReplyHead) -> None:
        """The answer will come on a stream."""
        self._reply = head

    def portion(self, portion: bytes) -> None:
        """More of that stream."""
        for event in self._splitter.feed(portion):
            answer = _message(event.data) if isinstance(event, Event) else None
            if answer is not None:
                # The stream may end in peace: its connection can then be used again.
                self._tell(self._reply, answer)
        pending = self._splitter.pending
        if pending > ENDLESS_FACTOR * self._splitter.bytes_max:
            self._client.give_up(self)
            words = f"it sent an event of more than {pending} bytes without an end"
            self.closed(Trouble(TroubleKind.TOO_LARGE, words))

    def closed(self, trouble: Trouble | None) -> None:
        """The stream is over."""
        self._tell(self._reply, None, trouble)

    def leave(self) -> None:
        """The answer is there: a stream that has not ended yet is not needed any more."""
        self._client.give_up(self)

    def failed(self, trouble: Trouble) -> None:
        """No reply came."""
        self._tell(None, None, trouble)

    def _tell(
        self,
        head: ReplyHead | None,
        answer: Result | Failure | None,
        trouble: Trouble | None = None,
    ) -> None:
        tell, self._on_reply = self._on_reply, None
        if tell is not None:
            tell(Reply(self._place, head, answer, trouble))


async def inquire(client: Client, place: Place, head: bytes, body: bytes | None) -> Reply:
    """The reply to one request."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Reply] = loop.create_future()
    inquiry = Inquiry(
        client, place, lambda reply: None if future.done() else future.set_result(reply)
    )
    inquiry.send(head, body)
    try:
        return await future
    finally:
        inquiry.close()
        loop.call_later(FAREWELL_SECONDS, inquiry.leave)


def _message(body: bytes) -> Result | Failure | None:
    frame = codec.decode(body, codec.OUTBOUND)
    return None if isinstance(frame, BadFrame | Request | Notification) else frame
