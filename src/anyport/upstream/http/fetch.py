"""Single HTTP requests, for handshakes.

A call needs only its answer; a handshake also draws conclusions from the status and the body.
"""

import asyncio
from collections.abc import Callable

import msgspec

from anyport.protocol.scheduler import WorkSteps
from anyport.upstream.http.channel import ENDLESS_FACTOR, STREAM_END_SECONDS
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import ClientConnection, HttpFailure, HttpFailureKind
from anyport.upstream.http.headers import REDIRECTS_MAX, redirect_target, retarget
from anyport.upstream.http.url import HttpUrl
from anyport.wire import jsonrpc
from anyport.wire.http1 import ResponseHead
from anyport.wire.jsonrpc import BadFrame, Failure, Notification, Request, Result
from anyport.wire.sse import EventSplitter, SseEvent


class FetchResponse(msgspec.Struct, frozen=True):
    """Everything that came back."""

    url: HttpUrl
    """After redirects."""
    head: ResponseHead | None
    answer: Result | Failure | None = None
    """The message in it, whatever the status."""
    failure: HttpFailure | None = None
    body: bytes = b""
    """The whole body, unless it was a stream."""

    @property
    def status(self) -> int:
        """0 if there was no response."""
        return 0 if self.head is None else self.head.status


class Fetch:
    """Handles the response to one request."""

    wait_timeout = None
    repeatable = True

    def __init__(
        self, client: HttpClient, url: HttpUrl, on_response: Callable[[FetchResponse], None]
    ) -> None:
        self._client = client
        self._url = url
        self._on_response: Callable[[FetchResponse], None] | None = on_response
        self._head = b""
        self._body: bytes | None = None
        self.http_connection: ClientConnection | None = None
        self._redirects = 0
        self._response: ResponseHead | None = None
        self._splitter = EventSplitter(client.bytes_max)

    def send(self, head: bytes, body: bytes | None) -> None:
        self._head, self._body = head, body
        self._client.request(head, body, self)

    def close(self) -> None:
        """Abandon the request, unless it is answered."""
        if self._on_response is not None:
            self._on_response = None
            self._client.cancel(self)

    def renew_body(self) -> None: ...

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        target = redirect_target(self._url, head) if self._redirects < REDIRECTS_MAX else None
        if target is None:
            self._finish(head, _message(body), body=body)
            return
        self._redirects += 1
        self._url = target
        self.send(retarget(self._head, target), self._body)

    def on_stream(self, head: ResponseHead) -> None:
        self._response = head

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        for event in self._splitter.parse(portion):
            answer = _message(event.data) if isinstance(event, SseEvent) else None
            if answer is not None:
                # The stream may still end by itself: its connection can then be used again.
                self._finish(self._response, answer)
            yield 1
        pending = self._splitter.pending_bytes
        if pending > ENDLESS_FACTOR * self._splitter.bytes_max:
            self._client.cancel(self)
            reason = f"it sent an event of more than {pending} bytes without an end"
            self.on_stream_closed(HttpFailure(HttpFailureKind.TOO_LARGE, reason))

    def on_stream_closed(self, failure: HttpFailure | None) -> None:
        self._finish(self._response, None, failure)

    def cancel(self) -> None:
        """Close the stream of a request that is answered."""
        self._client.cancel(self)

    def on_failure(self, failure: HttpFailure) -> None:
        self._finish(None, None, failure)

    def _finish(
        self,
        head: ResponseHead | None,
        answer: Result | Failure | None,
        failure: HttpFailure | None = None,
        body: bytes = b"",
    ) -> None:
        on_response, self._on_response = self._on_response, None
        if on_response is not None:
            on_response(FetchResponse(self._url, head, answer, failure, body))


async def fetch(client: HttpClient, url: HttpUrl, head: bytes, body: bytes | None) -> FetchResponse:
    """Send a request and wait for its response."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[FetchResponse] = loop.create_future()
    request = Fetch(
        client, url, lambda response: None if future.done() else future.set_result(response)
    )
    request.send(head, body)
    try:
        return await future
    finally:
        request.close()
        loop.call_later(STREAM_END_SECONDS, request.cancel)


def _message(body: bytes) -> Result | Failure | None:
    frame = jsonrpc.decode(body, jsonrpc.OUTBOUND)
    return None if isinstance(frame, BadFrame | Request | Notification) else frame
