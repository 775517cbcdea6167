"""HTTP server: listening sockets, connections and their deadlines, graceful shutdown.

Responses written in one turn of the event loop leave together, after their events are recorded.
`Endpoint` handles MCP, an `HttpApp` everything else.
"""

import asyncio
import os
import resource
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from math import inf
from operator import itemgetter
from random import random
from typing import Final

import msgspec

from anyport.ingress.http.access import BAD_TOKEN, AccessControl, Denial
from anyport.ingress.http.connection import (
    PROBE_SECONDS,
    UNACKNOWLEDGED_SECONDS_MAX,
    UNUSED_SECONDS_MIN,
    HttpConnection,
)
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.request_head import (
    McpRequestHead,
    RequestHeadParser,
    RouteKind,
    TracedHeadCache,
)
from anyport.ingress.http.responder import JSON_CONTENT_TYPE, HttpApp
from anyport.protocol.errors import Timeout
from anyport.protocol.memory_budget import MemoryBudget
from anyport.protocol.principal import LOCAL
from anyport.protocol.scheduler import REQUEST_COST, FairScheduler, WorkSteps
from anyport.wire import jsonrpc
from anyport.wire.http1 import HeadCache

SWEEP_SECONDS: Final = 1.0
"""How often deadlines are checked."""
SWEEPS_PER_SESSION_SWEEP: Final = 15
"""Sessions live for minutes, so they are checked less often."""
CONNECTIONS_MAX: Final = 20_000
"""Open connections; fewer if the limit of open files is lower."""
FILES_RESERVED: Final = 64
"""File descriptors kept for servers, journal and the rest."""
BACKLOG: Final = 2048
REQUESTS_PER_TURN_MAX: Final = 4
"""Requests of one principal in one turn of the event loop; further ones queue."""
FLUSH_SECONDS_MAX: Final = 2.0
"""How long responses may take to be sent when the gateway stops."""
PROBES: Final = 3
"""TCP keep-alive probes without an answer before a connection counts as lost."""
PROBLEM_CONTENT_TYPE: Final = ("content-type", "application/problem+json")
DRAIN_POLL_SECONDS: Final = 0.02
_STATUS_LINE_START: Final = b"HTTP/1.1 "


class HttpIngress:
    """The HTTP server of the gateway."""

    def __init__(
        self,
        head_parser: RequestHeadParser,
        endpoint: Endpoint,
        http_app: HttpApp,
        before_write: Callable[[], None],
    ) -> None:
        self.heads: HeadCache[McpRequestHead] = TracedHeadCache(head_parser.parse)
        self.now = 0.0
        self.memory_budget = MemoryBudget()
        """Replaced by the one shared with servers and other ingresses."""
        self.endpoint = endpoint
        self.connections: dict[HttpConnection, None] = {}
        """Oldest first."""
        self.unacknowledged_seconds = UNACKNOWLEDGED_SECONDS_MAX
        self.random_fraction: Callable[[], float] = random
        self.on_timeout: Callable[[Timeout], None] = lambda _: None
        """Called when a client exceeds a timeout or the age of a connection."""
        self.cancel_open_calls: Callable[[Timeout], None] = lambda _: None
        """Ends the open calls when shutdown cannot wait any longer."""
        self.unrecorded_answers: Callable[[], int] = lambda: 0
        """Number of answers held back until their events are recorded."""
        self._http_app = http_app
        self._before_write = before_write
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time()
        self.scheduler = FairScheduler(self._loop)
        """Replaced by the one shared with servers."""
        self._outbox: dict[HttpConnection, list[bytes]] = {}
        self._served_by_peer: dict[object, int] = {}
        """Requests served in this turn of the event loop, by peer."""
        self._waiting_requests = 0
        """Requests that wait for their peer's turn."""
        self._head_parser = head_parser
        self._to_recheck: set[HttpConnection] = set()
        """Connections whose next request may carry a head authorized before a reload: its body, or
        its turn, can take a while."""
        self._unused: list[HttpConnection] | None = None
        """Connections that can be evicted before the next sweep, longest unused last; computed on
        demand."""
        self._unused_latest = -inf
        """The latest use that those connections were looked up with."""
        self._earlier_sweeps = (-inf, -inf)
        """When the two sweeps before the last one were."""
        self._evicted: set[HttpConnection] = set()
        """Evicted connections that are not closed yet."""
        self._servers: list[asyncio.Server] = []
        self._handed_over = False
        """Whether another process accepts connections now: open ones get one more response each."""
        self._drain_deadline = 0.0
        self._sweeps = 0
        self._timer: asyncio.TimerHandle | None = None
        self._connections_max = min(CONNECTIONS_MAX, _files_max() - FILES_RESERVED)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen and accept connections; returns the address in use.

        Raises:
            OSError: the address cannot be listened on.
        """
        server = await self._loop.create_server(
            lambda: HttpConnection(self), host, port, backlog=BACKLOG
        )
        return self._start_accepting([server])

    async def adopt_sockets(self, sockets: Sequence[socket.socket]) -> tuple[str, int]:
        """Accept connections on sockets of another process; returns the address in use."""
        make = self._loop.create_server
        return self._start_accepting(
            [
                await make(lambda: HttpConnection(self), sock=each, backlog=BACKLOG)
                for each in sockets
            ]
        )

    def _start_accepting(self, servers: list[asyncio.Server]) -> tuple[str, int]:
        self._servers = servers
        for descriptor in self.descriptors:
            set_keepalive_options(descriptor, self.unacknowledged_seconds)
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        address = servers[0].sockets[0].getsockname()
        return str(address[0]), int(address[1])

    @property
    def descriptors(self) -> list[int]:
        """File descriptors of the listening sockets."""
        return [each.fileno() for server in self._servers for each in server.sockets]

    @property
    def streams(self) -> int:
        """Number of responses being streamed."""
        return sum(connection.streaming for connection in self.connections)

    async def drain(self, lame_duck_seconds: float, seconds: float) -> None:
        """Finish open requests, then close.

        While requests are open, new ones are answered with 503 and `Retry-After`, so that their
        clients or load balancers learn to go elsewhere; after that no connection is accepted.
        """
        self.endpoint.draining = self.endpoint.legacy_sse.draining = True
        await self._wait_no_requests(lame_duck_seconds)
        self._stop_accepting()
        await self._wait_no_requests(seconds)
        await self._end_all()

    async def drain_without_refusing(self, idle_seconds: float, seconds: float) -> None:
        """Finish open requests while another process accepts connections; reject nothing.

        A client may just have sent a request on a connection that looks idle, and could not know
        whether to repeat it. So requests are answered as usual, with `Connection: close`. A
        connection that was idle for `idle_seconds` gets no more requests.
        """
        self.hand_over_listening()
        started_at = self._loop.time()
        self._drain_deadline = started_at + seconds
        while (now := self._loop.time()) < self._drain_deadline:
            self.endpoint.end_idle_streams()
            if not self._open_requests and (
                not self.connections or now > started_at + idle_seconds
            ):
                break
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        await self._end_all()

    async def _end_all(self) -> None:
        """Cancel open calls, so that their clients get an error with the reason, and flush once
        those are recorded."""
        if self._open_requests:
            self.cancel_open_calls(Timeout.DRAIN)
            until = self._loop.time() + FLUSH_SECONDS_MAX
            while self.unrecorded_answers() and self._loop.time() < until:
                await asyncio.sleep(DRAIN_POLL_SECONDS)
        self.endpoint.end_all()
        self._flush_outbox()

    def hand_over_listening(self) -> None:
        """Stop accepting connections, because another process does. Nothing is rejected."""
        self._stop_accepting()
        self._handed_over = True
        self.endpoint.draining = self.endpoint.legacy_sse.draining = False

    def shorten_drain(self, seconds: float) -> None:
        """Limit the rest of `drain_without_refusing` to this many seconds."""
        self._drain_deadline = min(self._drain_deadline, self._loop.time() + seconds)

    def _stop_accepting(self) -> None:
        for server in self._servers:
            server.close()

    async def _wait_no_requests(self, seconds: float) -> None:
        """Wait until no request is open, up to a limit."""
        until = self._loop.time() + seconds
        while self._open_requests and self._loop.time() < until:
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    @property
    def _open_requests(self) -> int:
        listening = self.endpoint.modern_requests.subscriptions
        return (
            self.endpoint.open_requests
            + self.unrecorded_answers()
            + self._waiting_requests
            + sum(
                connection.has_pending_requests
                or (connection.exchange is not None and connection.exchange not in listening)
                for connection in self.connections
            )
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_accepting()
        self._flush_outbox()
        for transport in self._transports():
            transport.close()
        until = self._loop.time() + FLUSH_SECONDS_MAX
        while self.connections and self._loop.time() < until:
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        for transport in self._transports():
            transport.abort()
        for server in self._servers:
            await server.wait_closed()

    def _transports(self) -> list[asyncio.Transport]:
        return [
            connection.transport
            for connection in self.connections
            if connection.transport is not None
        ]

    def recheck_access(self, access: AccessControl) -> None:
        """End the streams and calls of clients that lost access in a reload.

        Comparing principals is not enough: a token of the same name may have another value now.
        """
        self._to_recheck = set(self.connections)
        for connection in list(self.connections):
            request = connection.last_request
            if request is None or access.admit(request.head) == request.principal:
                continue
            call = connection.exchange
            if call is not None and self.endpoint.modern_requests.end_if_subscription(call):
                continue
            if connection.streaming:
                connection.abort_stream()
            elif call is not None and not access.is_known(request.principal):
                connection.cancel_exchange()
                self.deny(connection, request, BAD_TOKEN)

    # Callbacks of connections.

    def on_connected(self, connection: HttpConnection) -> bool:
        """Register a connection; False if the server is full."""
        is_full = len(self.connections) - len(self._evicted) >= self._connections_max
        has_room = not is_full or self._evict_unused()
        self.connections[connection] = None
        return has_room

    def _evict_unused(self) -> bool:
        """Close the connection that has been unused for longest; False if all are in use."""
        # A use is noted with the time of the last sweep, so it may be as late as the next one.
        recent = self._loop.time() - self.now < UNUSED_SECONDS_MIN
        latest = self._earlier_sweeps[1 if recent else 0]
        if self._unused is None or latest != self._unused_latest:
            self._unused_latest = latest
            found = [
                (connection.unused_since, connection) for connection in reversed(self.connections)
            ]
            unused = [
                (since, connection)
                for since, connection in found
                if since is not None and since <= latest and connection not in self._evicted
            ]
            unused.sort(key=itemgetter(0), reverse=True)
            self._unused = [connection for _, connection in unused]
        while self._unused:
            connection = self._unused.pop()
            since = connection.unused_since
            if connection in self.connections and since is not None and since <= latest:
                self._evicted.add(connection)
                connection.evict()
                return True
        return False

    def on_disconnected(self, connection: HttpConnection) -> None:
        self.connections.pop(connection, None)
        self._evicted.discard(connection)
        self._to_recheck.discard(connection)

    def serve(self, connection: HttpConnection, request: McpRequestHead, body: bytes) -> None:
        """Serve a request now, or queue it if its peer has used up its share of this turn."""
        if request.peer is LOCAL or self._is_within_turn_limit(request.peer):
            self.serve_now(connection, request, body)
        else:
            self._waiting_requests += 1
            work = self._serve_later(connection, request, body)
            self.scheduler.defer(request.peer, work, lambda: None)

    def _is_within_turn_limit(self, peer: object) -> bool:
        """Count a request against its peer's share of this turn.

        A client with hundreds of connections gets no more than one with a single connection.
        Without tokens clients cannot be told apart, and each connection has one request at a time
        anyway.
        """
        if not self._served_by_peer:
            self._loop.call_soon(self._served_by_peer.clear)
        self._served_by_peer[peer] = served = self._served_by_peer.get(peer, 0) + 1
        return served <= REQUESTS_PER_TURN_MAX

    def _serve_later(
        self, connection: HttpConnection, request: McpRequestHead, body: bytes
    ) -> WorkSteps:
        self._waiting_requests -= 1
        self.serve_now(connection, request, body)
        yield REQUEST_COST

    def serve_now(self, connection: HttpConnection, request: McpRequestHead, body: bytes) -> None:
        """Serve a request whose turn has come."""
        try:
            # Removed from `_to_recheck` when it disconnected.
            is_gone = connection.transport is None
            if is_gone or (self._to_recheck and connection in self._to_recheck):
                self._to_recheck.discard(connection)
                request = self._head_parser.recheck(request)
                if is_gone and not request.outlives_connection:
                    return
            connection.last_request = request
            if request.is_plain_post:
                self.endpoint.post(connection, request, body)
                return
            connection.close_after_answer = not request.head.keep_alive
            connection.principal = request.principal
            connection.is_head_request = request.head.method == "HEAD"
            if request.denial is not None:
                self.deny(connection, request, request.denial)
            elif request.route is RouteKind.OTHER:
                self._http_app(request.head, body, connection)
            elif request.route is RouteKind.UNKNOWN_PROFILE:
                message = f"There is no profile {request.profile[:64]!r} here"
                connection.answer(404, _error_body(message), (JSON_CONTENT_TYPE,))
            else:
                self.endpoint.serve(connection, request, body)
        except Exception as error:  # noqa: BLE001 - it must not cost other connections anything
            context = {"message": "A request was not served", "exception": error}
            self._loop.call_exception_handler(context)
            connection.refuse(500, "Internal error: the gateway failed to handle this request")

    def deny(self, connection: HttpConnection, request: McpRequestHead, denial: Denial) -> None:
        """Reject a request by its head alone; a body is not waited for."""
        # RFC 9457: everything that is not MCP reports errors as problem details.
        if request.route is RouteKind.OTHER:
            status = HTTPStatus(denial.status)
            problem = {"title": status.phrase, "status": status, "detail": denial.message}
            body, kind = msgspec.json.encode(problem), PROBLEM_CONTENT_TYPE
        else:
            body, kind = _error_body(denial.message), JSON_CONTENT_TYPE
        answer = connection.answer_and_close if request.length else connection.answer
        answer(denial.status, body, (kind, *denial.fields))

    def send(self, connection: HttpConnection, raw: bytes) -> None:
        """Write at the end of this turn of the event loop, once events are recorded."""
        if (self._handed_over or connection.retire_at <= self.now) and raw.startswith(
            _STATUS_LINE_START
        ):
            if not self._handed_over:
                self.on_timeout(Timeout.AGE)
            connection.close_after_answer = True
            raw = _with_connection_close(raw)
        outbox = self._outbox
        if not outbox:
            self._loop.call_soon(self._flush_outbox)
        pieces = outbox.get(connection)
        if pieces is None:
            outbox[connection] = [raw]
        else:
            pieces.append(raw)

    def _flush_outbox(self) -> None:
        outbox, self._outbox = self._outbox, {}
        self._before_write()
        for connection, pieces in outbox.items():
            transport = connection.transport
            if transport is not None and (not connection.streaming or connection.is_keeping_up):
                # One write per client and turn.
                try:
                    if len(pieces) == 1:
                        transport.write(pieces[0])
                    else:
                        transport.writelines(pieces)
                except MemoryError:
                    transport.abort()  # Half a response may be out. The others must get theirs.
                if connection.stalled:
                    connection.update_unsent_memory()

    def _sweep(self) -> None:
        self._earlier_sweeps = (self.now, self._earlier_sweeps[0])
        self.now = now = self._loop.time()
        self._unused = None
        self.endpoint.now = self.endpoint.modern_requests.now = now
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        for connection in [
            connection for connection in self.connections if connection.deadline <= now
        ]:
            connection.on_deadline()
        for connection in [connection for connection in self.connections if connection.stalled]:
            connection.update_unsent_memory()
        self._sweeps += 1
        if self._sweeps % SWEEPS_PER_SESSION_SWEEP == 0:
            self.endpoint.sessions.sweep(now)


def set_keepalive_options(descriptor: int, seconds: int) -> None:
    """Have the operating system detect clients that disappeared without a FIN. By default that
    takes a quarter of an hour, and hours on an idle connection."""
    options = {
        "TCP_KEEPIDLE": PROBE_SECONDS,
        "TCP_KEEPALIVE": PROBE_SECONDS,  # The name on macOS.
        "TCP_KEEPINTVL": max(1, seconds // PROBES),
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": 1000 * seconds,  # RFC 5482, on Linux: for unacknowledged data.
    }
    with socket.socket(fileno=os.dup(descriptor)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):
                listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _with_connection_close(raw: bytes) -> bytes:
    """Add `Connection: close` to an encoded response."""
    status, end, rest = raw.partition(b"\r\n")
    return b"%b%bConnection: close\r\n%b" % (status, end, rest)


def _error_body(message: str) -> bytes:
    return jsonrpc.encode_failure(None, jsonrpc.encode_error(-32600, message), null_id=False)


def _files_max() -> int:
    """The limit of open files, raised as far as needed and allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + FILES_RESERVED
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return limit
    return limit if soft == resource.RLIM_INFINITY else soft
