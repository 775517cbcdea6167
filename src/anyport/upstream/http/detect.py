"""Detection of the dialect of a server behind a URL, by handshakes from the newest to the oldest.

`server/discover` comes first, then `initialize`, then HTTP+SSE. Only an answer that a server of
another era would give leads on. A server that is down, busy or wants a login has said nothing about
its era, and ends the attempt.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from anyport.clock import Clock
from anyport.protocol.errors import UNSUPPORTED_REVISION, error_code
from anyport.protocol.revisions import NEWEST_MODERN, Era, find_revision
from anyport.upstream.connection import OwnRequest
from anyport.upstream.handshake import (
    EraNotSupported,
    HandshakeFailed,
    HandshakeOptions,
    discover_params,
    error_message,
    initialize_error,
    initialize_params,
    is_modern_error,
    read_discovery,
    require_known_revision,
    supported_revisions,
)
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.fetch import FetchResponse, fetch
from anyport.upstream.http.headers import RequestHeads, describe_bad_response, header_line
from anyport.upstream.http.streamable import (
    InitializeRequest,
    read_initialize_response,
    version_header,
)
from anyport.upstream.http.url import HttpUrl
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.transport import HttpDialect
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure

_ERA_UNKNOWN_STATUSES: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.PROXY_AUTHENTICATION_REQUIRED,
    }
)
"""Statuses that say nothing about the era."""


class _EraUnknown(HandshakeFailed):
    """The server is down, busy or wants a login: that says nothing about its era."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedServer:
    """The dialect of a server, and its session if there is one."""

    dialect: HttpDialect
    url: HttpUrl
    peer: Peer | None = None
    """None for HTTP+SSE, whose handshake needs the stream."""
    session: str | None = None
    numbers_used: int = 0
    refusal: str = ""
    """Why it does not speak Streamable HTTP."""


class Detection:
    """One attempt to find out what a server speaks."""

    def __init__(
        self,
        client: HttpClient,
        request_heads: RequestHeads,
        options: HandshakeOptions,
        transport: str,
        clock: Clock,
        on_own_request: Callable[[OwnRequest, Answer, float], None],
    ) -> None:
        self._clock = clock
        self._on_own_request = on_own_request
        self._client = client
        self._request_heads = request_heads
        self._options = options
        self._transport = transport
        self._number = 0
        pinned = find_revision(options.protocol)
        self._pinned_era = None if pinned is None else pinned.era
        if options.protocol in (Era.LEGACY.value, Era.MODERN.value):
            self._pinned_era = Era(options.protocol)
        legacy = pinned is not None and pinned.era is Era.LEGACY
        self.initialize_request = InitializeRequest(
            options=options,
            revision=pinned if pinned is not None and legacy else options.initialize_revision,
        )

    async def run(self, known: HttpDialect | None) -> DetectedServer:
        """Find out; `known` is what the server spoke the last time.

        Raises:
            HandshakeFailed: it speaks nothing known, or did not say.
        """
        if self._transport == HttpDialect.LEGACY_SSE.value or known is HttpDialect.LEGACY_SSE:
            return DetectedServer(dialect=HttpDialect.LEGACY_SSE, url=self._request_heads.url)
        unknown = self._pinned_era is None and known is not HttpDialect.LEGACY
        if unknown and self._options.first_era is Era.LEGACY:
            return await self._initialize_first()
        if self._pinned_era is not Era.LEGACY and known is not HttpDialect.LEGACY:
            detected = await self._discover()
            if detected is not None:
                return detected
            if self._pinned_era is Era.MODERN:
                raise HandshakeFailed(f"it does not speak revision {NEWEST_MODERN.name}")
        return await self._initialize()

    async def _discover(self) -> DetectedServer | None:
        """A modern server; None if the answer is one that a legacy server would give."""
        response = await self._ask_for_discovery()
        answer = response.answer
        if isinstance(answer, Failure) and error_code(answer.error) == UNSUPPORTED_REVISION:
            supported = supported_revisions(answer.error)
            if NEWEST_MODERN.name in supported:
                # It may have been updated just now.
                response = await self._ask_for_discovery()
                answer = response.answer
            elif not supported:
                raise HandshakeFailed(f"it refused our revision: {error_message(answer.error)}")
            else:
                require_known_revision(supported)
                return None
        if isinstance(answer, Failure):
            if is_modern_error(answer.error):
                reason = error_message(answer.error)
                raise HandshakeFailed(f"it refused server/discover: {reason}")
            return None
        peer = None if answer is None else read_discovery(answer.result, self._options)
        if peer is None:
            return None
        return DetectedServer(
            dialect=HttpDialect.MODERN, url=response.url, peer=peer, numbers_used=self._number
        )

    async def _ask_for_discovery(self) -> FetchResponse:
        self._number += 1
        params = discover_params(self._options, NEWEST_MODERN)
        frame = jsonrpc.encode_request(b"%d" % self._number, "server/discover", params)
        fields = version_header(NEWEST_MODERN) + header_line("Mcp-Method", "server/discover")
        response = await self._fetch(("server/discover", params), fields, frame)
        _raise_if_unavailable(response)
        return response

    async def _fetch(self, request: OwnRequest, fields: bytes, frame: bytes) -> FetchResponse:
        started = self._clock.monotonic()
        response = await fetch(
            self._client, self._request_heads.url, self._request_heads.post(fields), frame
        )
        reason = "no answer" if response.failure is None else response.failure.reason
        answer = NoAnswer(reason) if response.answer is None else response.answer
        self._on_own_request(request, answer, self._clock.monotonic() - started)
        return response

    async def _initialize_first(self) -> DetectedServer:
        """For a legacy client: a legacy session, unless the server can ask its client only as a
        modern one.

        A legacy server without a session has no way to ask its client.
        """
        refused: HandshakeFailed | None = None
        detected: DetectedServer | None = None
        try:
            detected = await self._initialize()
        except _EraUnknown:
            raise
        except HandshakeFailed as error:
            refused = error
        asks = self._options.asks
        if (
            detected is not None
            and detected.dialect is HttpDialect.LEGACY
            and (detected.session or not asks)
        ):
            return detected
        modern = await self._discover()
        if modern is not None:
            return modern
        if detected is None:
            raise refused or HandshakeFailed("it speaks nothing that is known")
        return detected

    async def _initialize(self) -> DetectedServer:
        """A legacy server, on either transport."""
        self._number += 1
        url = self._request_heads.url
        # No version header: the handshake is about to settle the version.
        frame = self.initialize_request.frame(self._number)
        request = (
            "initialize",
            initialize_params(self.initialize_request.options, self.initialize_request.revision),
        )
        response = await self._fetch(request, b"", frame)
        _raise_if_unavailable(response)
        if self._options.trial and isinstance(response.answer, Failure):
            refused = initialize_error(response.answer.error)
            if isinstance(refused, EraNotSupported):
                raise refused
        client_error = 400 <= response.status < 500
        if client_error and self._transport == "auto" and response.head is not None:
            reason = describe_bad_response(response.head)
            if isinstance(response.answer, Failure):
                reason = f"refused the handshake: {error_message(response.answer.error)}"
            return DetectedServer(dialect=HttpDialect.LEGACY_SSE, url=url, refusal=reason)
        peer, session = read_initialize_response(self.initialize_request, response)
        return DetectedServer(
            dialect=HttpDialect.LEGACY,
            url=response.url,
            peer=peer,
            session=session,
            numbers_used=self._number,
        )


def _raise_if_unavailable(response: FetchResponse) -> None:
    """Check that a response says something about the era.

    Raises:
        HandshakeFailed: it does not: any server may be down, busy, or want a login.
    """
    if response.head is None or (response.failure is not None and response.answer is None):
        if response.failure is not None:
            raise _EraUnknown(response.failure.reason, response.failure.timeout)
        raise _EraUnknown("it closed its stream")
    status = response.head.status
    if status in _ERA_UNKNOWN_STATUSES or status >= 500 or 300 <= status < 400:
        detail = (
            f": {error_message(response.answer.error)}"
            if isinstance(response.answer, Failure)
            else ""
        )
        raise _EraUnknown(f"the server {describe_bad_response(response.head)}{detail}")
