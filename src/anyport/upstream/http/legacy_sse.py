"""HTTP+SSE of revision 2024-11-05: one stream from the server, and POSTs to it.

The stream is the session: when it ends, the session ends.
"""

import asyncio
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from anyport.protocol.errors import Timeout
from anyport.protocol.memory_budget import MemoryReservation
from anyport.protocol.scheduler import HEAVY_BYTES, WorkSteps, cost_of
from anyport.upstream.handshake import HandshakeFailed
from anyport.upstream.http.channel import ENDLESS_FACTOR, HttpCall, HttpChannel, deliver_event
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import ClientConnection, HttpFailure
from anyport.upstream.http.headers import (
    REDIRECTS_MAX,
    RequestHeads,
    describe_bad_response,
    redirect_target,
    retarget,
    trace_headers,
)
from anyport.upstream.http.url import BadUrl, HttpUrl
from anyport.upstream.pending_call import PendingCall
from anyport.upstream.transport import TransportOwner
from anyport.wire.http1 import ResponseHead
from anyport.wire.sse import EventSplitter, SseEvent

SILENCE_CHECK_SHARE: Final = 0.25
"""How often a stream is checked for silence, as a share of the idle timeout. A server that was
silent from one check to the next gets a ping, which leaves it half of the time to answer. If the
stream timed out, all calls would be lost."""
ENDPOINT_BYTES_MAX: Final = 8192
"""For the URL that the server names for messages: it goes with every request."""


class LegacySseChannel(HttpChannel):
    """Calls over HTTP+SSE."""

    def __init__(
        self,
        client: HttpClient,
        request_heads: RequestHeads,
        owner: TransportOwner,
    ) -> None:
        super().__init__(client, request_heads, owner)
        self._endpoint: asyncio.Future[str] = self.loop.create_future()
        self.head = b""
        self._stream = SseStream(self)

    async def start(self) -> None:
        """Open the stream, and wait for the URL for messages.

        Raises:
            HandshakeFailed: there is no such stream.
        """
        self._stream.open(self.request_heads.get())
        self.head = retarget(self.request_heads.post(), self._endpoint_url(await self._endpoint))

    def send(self, frame: bytes, call: PendingCall | None) -> None:
        if not isinstance(call, HttpCall):
            self.send_one_way(self.head, frame)
            return
        call.channel = self
        call.frame = frame
        call.head = self.head + trace_headers(call.fields)
        self.client.request(call.head, frame, call)

    def on_response(self, call: HttpCall, response: ResponseHead, body: bytes) -> None:
        """The server has accepted a call, or rejected it; the answer itself comes on the stream."""
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            super().on_response(call, response, body)

    def on_stream_closed(self, call: HttpCall, failure: HttpFailure | None) -> None:
        """Whatever the response was: the answer comes on the other stream."""

    async def close(self) -> None:
        """End the session by closing the stream."""
        self._stream.close()

    # Events of the stream.

    def on_endpoint(self, address: str) -> None:
        """The server has named the URL for messages."""
        if not self._endpoint.done():
            self._endpoint.set_result(address)

    def on_stream_end(self, reason: str, timeout: Timeout | None = None) -> None:
        """The stream has ended, and the session with it."""
        if not self._endpoint.done():
            self._endpoint.set_exception(HandshakeFailed(reason, timeout))
            return
        self.drain(reason)
        self.connection.end(reason)

    def _endpoint_url(self, address: str) -> HttpUrl:
        url = self._stream.url
        try:
            endpoint = HttpUrl.parse(urljoin(url.origin + url.target, address))
        except (BadUrl, ValueError):
            raise HandshakeFailed("it named an address for messages that is none") from None
        if endpoint.origin != url.origin:
            # Otherwise a server could have our credentials sent anywhere.
            raise HandshakeFailed("it named an address for messages on another origin")
        return endpoint


class SseStream:
    """Reads the stream of a session."""

    wait_timeout = Timeout.STREAM_IDLE
    repeatable = True

    def __init__(self, channel: LegacySseChannel) -> None:
        self.url = channel.request_heads.url
        """After redirects."""
        self._channel = channel
        self._splitter = EventSplitter(channel.bytes_max)
        self._reservation = MemoryReservation(channel.client.memory_budget)
        """For the incomplete event."""
        self.http_connection: ClientConnection | None = None
        self._head = b""
        self._redirects = 0
        self._received = False
        """Whether anything has come since the last check."""
        self._timer: asyncio.TimerHandle | None = None

    def open(self, head: bytes) -> None:
        """Request the stream."""
        self._head = head
        self._channel.client.request(head, None, self)

    def close(self) -> None:
        self._stop_timer()
        self._reservation.release()
        self._channel.client.cancel(self)

    def renew_body(self) -> None: ...

    def on_stream(self, head: ResponseHead) -> None:
        self._plan_check()

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        self._received = True
        for event in self._splitter.parse(portion):
            if isinstance(event, SseEvent) and event.name == "endpoint":
                self._channel.on_endpoint(event.data[:ENDPOINT_BYTES_MAX].decode(errors="replace"))
            elif event is not None:
                if isinstance(event, SseEvent) and len(event.data) > HEAVY_BYTES:
                    yield cost_of(len(event.data))
                deliver_event(self._channel.connection, event)
            yield 1
        self._reservation.reserve_for_splitter(self._splitter)
        if self._splitter.pending_bytes > ENDLESS_FACTOR * self._splitter.bytes_max:
            self.close()
            reason = (
                f"it sent an event of more than {self._splitter.pending_bytes} bytes without an end"
            )
            self._channel.on_stream_end(reason)

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        """No stream came: follow a redirect, or give up."""
        target = redirect_target(self.url, head) if self._redirects < REDIRECTS_MAX else None
        if target is None:
            self._channel.on_stream_end(f"it {describe_bad_response(head)}")
            return
        self._redirects += 1
        self.url = target
        self.open(retarget(self._head, target))

    def on_stream_closed(self, failure: HttpFailure | None) -> None:
        self._reservation.release()
        self._stop_timer()
        if failure is None:
            self._channel.on_stream_end("it closed its event stream")
        else:
            self._channel.on_stream_end(failure.reason, failure.timeout)

    def on_failure(self, failure: HttpFailure) -> None:
        self._channel.on_stream_end(failure.reason, failure.timeout)

    # A silent stream may be that of a server that has nothing to say: send a ping, whose answer
    # keeps it alive.

    def _plan_check(self) -> None:
        self._received = False
        seconds = self._channel.client.timeouts.stream_idle_seconds * SILENCE_CHECK_SHARE
        self._timer = self._channel.loop.call_later(seconds, self._ping_if_silent)

    def _ping_if_silent(self) -> None:
        connection = self._channel.connection
        if not self._received and connection.peer is not None:
            connection.own_requests += 1
            connection.call("ping", None, lambda _: None)
        self._plan_check()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
