"""HTTP+SSE of revision 2024-11-05: one stream for all that the server says, POSTs for the rest.

The stream is the session: when it ends, everything ends with it.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from anyport.upstream.connection import Call, Connection
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
)
from anyport.upstream.http.place import BadUrl, Place
from anyport.wire.events import Event, EventSplitter
from anyport.wire.http import ReplyHead

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
        call.head = self.head
        self.client.request(self.head, frame, call)

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

    def ended(self, reason: str) -> None:
        """The stream is over, and with it the session."""
        if not self._endpoint.done():
            self._endpoint.set_exception(HandshakeFailed(reason))
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

    def __init__(self, channel: EventsChannel) -> None:
        self.place = channel.outgoing.place
        """Where it comes from, after redirects."""
        self._channel = channel
        self._splitter = EventSplitter(channel.bytes_max)
        self.line: Line | None = None
        self._head = b""
        self._hops = 0

    def open(self, head: bytes) -> None:
        """Ask for it."""
        self._head = head
        self._channel.client.request(head, None, self)

    def close(self) -> None:
        """Nobody listens any more."""
        self._channel.client.give_up(self)

    def opened(self, head: ReplyHead) -> None:
        """It is there."""

    def portion(self, portion: bytes) -> None:
        """The server says something."""
        for event in self._splitter.feed(portion):
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
        self._channel.ended("it closed its event stream" if trouble is None else trouble.words)

    def failed(self, trouble: Trouble) -> None:
        """No reply came."""
        self._channel.ended(trouble.words)
