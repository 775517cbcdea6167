"""HTTP+SSE of revision 2024-11-05: one stream for all that the server says, POSTs for the rest.

The stream is the session: when it ends, everything ends with it.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from anyport.protocol.room import Held
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Call
from anyport.upstream.connection import Connection
from anyport.upstream.handshake import HandshakeFailed
from anyport.upstream.http.channel import ENDLESS_FACTOR, HttpChannel, Post, deliver
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import Line, Trouble
from anyport.upstream.http.outgoing import (
    REDIRECTS_MAX,
    Outgoing,
    aimed,
    complaint,
    redirected,
    trace_lines,
)
from anyport.upstream.http.place import BadUrl, Place
from anyport.wire.events import Event, EventSplitter
from anyport.wire.http import ReplyHead

QUIET_PART: Final = 0.5
"""Of the time in which something must come: after this the server is asked whether it is there.
With the stream, all calls would be lost."""
ENDPOINT_BYTES_MAX: Final = 8192
"""The address that a server gives for messages: it goes with every request."""


class EventsChannel(HttpChannel):
    """One stream and the POSTs beside it."""

    def __init__(
        self, client: Client, outgoing: Outgoing, on_over: Callable[[Connection, str], None]
    ) -> None:
        super().__init__(client, outgoing, on_over)
        self._endpoint: asyncio.Future[str] = self.loop.create_future()
        self.head = b""
        self._stream = Stream(self)

    async def begin(self) -> None:
        """Open the stream and wait for the address that it names.

        Raises:
            HandshakeFailed: there is no such stream.
        """
        self._stream.open(self.outgoing.get())
        self.head = aimed(self.outgoing.post(), self._address(await self._endpoint))

    def send(self, frame: bytes, call: Call | None) -> None:
        """Send a call, or something that is not answered."""
        if not isinstance(call, Post):
            self.note(self.head, frame)
            return
        call.channel = self
        call.frame = frame
        call.head = self.head + trace_lines(call.fields)
        self.client.request(call.head, frame, call)

    def answered(self, post: Post, reply: ReplyHead, body: bytes) -> None:
        """The server has taken a call, or has not; the answer itself comes on the stream."""
        if reply.status >= HTTPStatus.MULTIPLE_CHOICES:
            super().answered(post, reply, body)

    def closed(self, post: Post, trouble: Trouble | None) -> None:
        """Whatever was streamed as the reply: the answer comes on the other stream."""

    async def close(self) -> None:
        """End the session, which is to close the stream."""
        self._stream.close()

    # What the stream tells.

    def named(self, address: str) -> None:
        """The server has named the address for messages."""
        if not self._endpoint.done():
            self._endpoint.set_result(address)

    def ended(self, reason: str, timeout: Timeout | None = None) -> None:
        """The stream is over, and with it the session."""
        if not self._endpoint.done():
            self._endpoint.set_exception(HandshakeFailed(reason, timeout))
            return
        self.over(reason)
        self.connection.end(reason)

    def _address(self, named: str) -> Place:
        place = self._stream.place
        try:
            there = Place.parse(urljoin(place.origin + place.target, named))
        except (BadUrl, ValueError):
            raise HandshakeFailed("it named an address for messages that is none") from None
        if there.origin != place.origin:
            # Else a server could have our credentials sent wherever it likes.
            raise HandshakeFailed("it named an address for messages on another origin")
        return there


class Stream:
    """Takes the one stream."""

    waits = Timeout.STREAM_IDLE

    def __init__(self, channel: EventsChannel) -> None:
        self.place = channel.outgoing.place
        """Where it comes from, after redirects."""
        self._channel = channel
        self._splitter = EventSplitter(channel.bytes_max)
        self._held = Held(channel.client.room)
        """What has come of the next event."""
        self.line: Line | None = None
        self._head = b""
        self._hops = 0
        self._heard = False
        """Whether anything has come since it was last looked at."""
        self._timer: asyncio.TimerHandle | None = None

    def open(self, head: bytes) -> None:
        """Ask for it."""
        self._head = head
        self._channel.client.request(head, None, self)

    def close(self) -> None:
        """Nobody listens any more."""
        self._rest()
        self._held.let_go()
        self._channel.client.give_up(self)

    def opened(self, head: ReplyHead) -> None:
        """It is there."""
        self._listen()

    def portion(self, portion: bytes) -> None:
        """The server says something."""
        self._heard = True
        events = self._splitter.feed(portion)
        self._held.weigh(self._splitter)
        for event in events:
            if isinstance(event, Event) and event.name == "endpoint":
                self._channel.named(event.data[:ENDPOINT_BYTES_MAX].decode(errors="replace"))
            else:
                deliver(self._channel.connection, event)
        if self._splitter.pending > ENDLESS_FACTOR * self._splitter.bytes_max:
            self.close()
            words = f"it sent an event of more than {self._splitter.pending} bytes without an end"
            self._channel.ended(words)

    def answered(self, head: ReplyHead, body: bytes) -> None:
        """No stream came."""
        there = redirected(self.place, head) if self._hops < REDIRECTS_MAX else None
        if there is None:
            self._channel.ended(f"it {complaint(head)}")
            return
        self._hops += 1
        self.place = there
        self.open(aimed(self._head, there))

    def closed(self, trouble: Trouble | None) -> None:
        """The stream is over."""
        self._held.let_go()
        self._rest()
        if trouble is None:
            self._channel.ended("it closed its event stream")
        else:
            self._channel.ended(trouble.words, trouble.timeout)

    def failed(self, trouble: Trouble) -> None:
        """No reply came."""
        self._channel.ended(trouble.words, trouble.timeout)

    # A stream on which nothing comes may be one of a server that has nothing to say.

    def _listen(self) -> None:
        self._heard = False
        seconds = self._channel.client.patience.stream_idle_seconds * QUIET_PART
        self._timer = self._channel.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        connection = self._channel.connection
        if not self._heard and connection.peer is not None:
            connection.own_requests += 1
            connection.call("ping", None, lambda _: None)
        self._listen()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
