"""HTTP/1.1 client for one origin: a pool of connections, and a queue of requests."""

import asyncio
from collections import deque
from typing import Final, cast

from anyport.protocol.errors import Timeout
from anyport.protocol.memory_budget import MemoryBudget
from anyport.protocol.scheduler import FairScheduler, GroupedPeer
from anyport.upstream.http.connection import (
    ClientConnection,
    HttpFailure,
    HttpFailureKind,
    HttpTimeouts,
    ResponseHandler,
    ResponseShape,
    read_response_shape,
)
from anyport.upstream.http.connection_reuse import SINGLE_USE_SECONDS_MAX, ConnectionReuse
from anyport.upstream.http.dial import DialFailure, dial
from anyport.upstream.http.url import HttpUrl
from anyport.wire.http1 import HEAD_END, HeadCache

CONNECTIONS_MAX: Final = 256
"""Connections to one server: for its open calls, its streams, and one-way posts."""
WAITING_REQUESTS_MAX: Final = 1024
"""Requests that wait for a connection."""
UNTRIED_MAX: Final = 8
"""Idle connections to a server that has not been seen to keep one open: after a call that must not
be sent twice they are not used again."""
_LENGTH: Final = b"Content-Length: "
"""Begins the last line of the head of every request with a body."""


class HttpClient(GroupedPeer):
    """Sends requests to one origin."""

    def __init__(
        self,
        url: HttpUrl,
        bytes_max: int,
        memory_budget: MemoryBudget | None = None,
        timeouts: HttpTimeouts | None = None,
        scheduler: FairScheduler | None = None,
        reuse: ConnectionReuse | None = None,
    ) -> None:
        self.url = url
        self.bytes_max = bytes_max
        self.timeouts = timeouts or HttpTimeouts()
        self.memory_budget = memory_budget or MemoryBudget()
        """For large responses."""
        self.scheduler = scheduler or FairScheduler()
        self.reuse = reuse or ConnectionReuse()
        """Shared by all clients of this origin."""
        self.group = self.reuse
        self.heads: HeadCache[ResponseShape] = HeadCache(read_response_shape)
        self.idle: list[ClientConnection] = []
        """The last one is used first, so that the others age and are closed."""
        self.connections: set[ClientConnection] = set()
        self._keepalive_probe: ClientConnection | None = None
        """An idle connection that is left alone, to see whether the server keeps it open."""
        self._loop = asyncio.get_running_loop()
        self._dials: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[ResponseHandler, bytes]] = deque()
        self._resends: deque[tuple[ResponseHandler, bytes]] = deque()
        """Requests that were lost on a connection as it was closed: they need a fresh one."""
        self._closed = False
        self._sweeping = False
        self._absolute = url.origin.encode() if url.proxy and not url.secure else b""

    def request(self, head: bytes, body: bytes | None, handler: ResponseHandler) -> None:
        """Send a request. `head` is its lines, each with its line end, without a length."""
        if self._absolute:
            verb, _, rest = head.partition(b" ")
            head = b"%b %b%b" % (verb, self._absolute, rest)
        message = head + b"\r\n" if body is None else _whole(head, body)
        connection = (
            self._find_idle(handler) if self.idle or self._keepalive_probe is not None else None
        )
        if connection is not None:
            connection.send(handler, message)
        else:
            self._enqueue(handler, message)

    def resend(self, handler: ResponseHandler, message: bytes) -> None:
        """Send a request again, over a connection on which nothing has been sent."""
        handler.http_connection = None
        if self._closed:
            handler.on_failure(HttpFailure(HttpFailureKind.CUT_OFF, "the connection was closed"))
            return
        body = handler.renew_body()
        if body is not None:
            head, _, _ = message.partition(HEAD_END)
            message = _whole(head[: head.rindex(_LENGTH)], body)
        self._resends.append((handler, message))
        self._dial_for_waiting()

    def cancel(self, handler: ResponseHandler) -> None:
        """Abandon a request: its connection is closed, and no callback comes."""
        if handler.http_connection is not None:
            handler.http_connection.cancel(handler)
        else:
            self._waiting = deque(entry for entry in self._waiting if entry[0] is not handler)
            self._resends = deque(entry for entry in self._resends if entry[0] is not handler)

    def release(self, connection: ClientConnection) -> None:
        """A connection is free again, or has reached its age limit."""
        now = self._loop.time()
        if now >= connection.expires_at:
            self.timeouts.on_timeout(Timeout.AGE)
            connection.close()
            return  # `forget` follows, and opens another if requests wait.
        if connection.uses > 1:
            self.reuse.on_reused()
        elif connection.uses and self.reuse.doubtful and (self.idle or self.reuse.is_refused(now)):
            connection.close()  # One is enough to find out whether that still holds.
            return
        elif connection.uses and self.reuse.risky and len(self.idle) >= UNTRIED_MAX:
            connection.close()
            return
        if not (self._waiting or self._resends) or not self._serve_waiting(connection):
            connection.idle_since = now
            self.idle.append(connection)

    def forget(self, connection: ClientConnection) -> None:
        """A connection is closed."""
        if connection not in self.connections:
            return  # It was being opened: `_open` reports that.
        self.connections.discard(connection)
        is_idle = connection in self.idle or connection is self._keepalive_probe
        if connection is self._keepalive_probe:
            self._keepalive_probe = None
        elif is_idle:
            self.idle.remove(connection)
        at_once = is_idle and self._loop.time() - connection.idle_since <= SINGLE_USE_SECONDS_MAX
        single = (connection.uses == 1 and at_once) or (
            connection.uses == 2 and connection.is_unanswered
        )
        if single and not self._closed:
            self.reuse.on_single_use(self._loop.time())
        self._dial_for_waiting()

    def close(self) -> None:
        """Close every connection, and fail the requests that wait."""
        self._closed = True
        for task in self._dials:
            task.cancel()
        for connection in list(self.connections):
            connection.cancel(None)
        self._fail_waiting(
            HttpFailure(HttpFailureKind.CUT_OFF, "the connection was closed", sent=False)
        )

    def _find_idle(self, handler: ResponseHandler) -> ClientConnection | None:
        """An idle connection that may carry a request."""
        now = self._loop.time()
        if self.reuse.risky and not handler.repeatable and not self._is_seen_to_keep_alive(now):
            return None
        unusable, found = [], None
        while self.idle:
            connection = self.idle.pop()
            if connection.usable(now):
                found = connection
                break
            unusable.append(connection)
        if unusable:
            # They are closed, or will be; `forget` then counts how often each was used.
            self.idle[:0] = reversed(unusable)
        return found

    def _is_seen_to_keep_alive(self, now: float) -> bool:
        """Whether the server has been seen to keep a connection open.

        While other connections are used again and again, the one that will show it is left alone.
        """
        if self.reuse.doubtful:
            return False
        if self._keepalive_probe is None and self.idle:
            self._keepalive_probe = self.idle.pop(0)
        self._check_keepalive(now)
        return not self.reuse.risky

    def _check_keepalive(self, now: float) -> None:
        unused = self.idle if self._keepalive_probe is None else [self._keepalive_probe, *self.idle]
        if any(
            connection.open and now - connection.idle_since >= SINGLE_USE_SECONDS_MAX
            for connection in unused
        ):
            self.reuse.on_stayed_open()
            if self._keepalive_probe is not None:
                self.idle.insert(0, self._keepalive_probe)
                self._keepalive_probe = None

    def _serve_waiting(self, connection: ClientConnection) -> bool:
        """Give a connection to a waiting request; False if it is not needed, and may stay idle."""
        if not connection.open:
            return True  # `forget` follows, and opens another.
        if not connection.uses:
            connection.send(*(self._resends or self._waiting).popleft())
        elif self._waiting and (not self.reuse.risky or self._waiting[0][0].repeatable):
            connection.send(*self._waiting.popleft())
        elif len(self._dials) < len(self._waiting) + len(self._resends):
            connection.close()  # It makes room for a fresh one.
        else:
            return False
        return True

    def _enqueue(self, handler: ResponseHandler, message: bytes) -> None:
        handler.http_connection = None
        if self._closed or len(self._waiting) >= WAITING_REQUESTS_MAX:
            reason = (
                "the connection was closed" if self._closed else "too many requests wait for it"
            )
            failure = HttpFailure(HttpFailureKind.CONNECT, reason, sent=False)
            self._loop.call_soon(handler.on_failure, failure)
            return
        self._waiting.append((handler, message))
        self._dial_for_waiting()

    def _dial_for_waiting(self) -> None:
        if len(self._dials) < len(self._waiting) + len(self._resends) and not self._closed:
            self._dial()

    def _dial(self) -> None:
        if len(self.connections) + len(self._dials) >= CONNECTIONS_MAX:
            return
        task = self._loop.create_task(self._open())
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)
        if not self._sweeping:
            self._sweeping = True
            self._sweep_later()

    async def _open(self) -> None:
        connection = ClientConnection(self)
        dial_failure = await dial(self.url, connection, self.timeouts.connect_seconds)
        # Now: the task is done a turn later, and requests would count on it until then.
        self._dials.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        if dial_failure is None and connection.open:
            connection.expires_at = self.timeouts.expires_at(self._loop.time())
            self.connections.add(connection)
            self.release(connection)
            return
        if dial_failure is None:
            dial_failure = DialFailure(reason="it closed the connection at once")
        kind = HttpFailureKind.TLS if dial_failure.tls_failed else HttpFailureKind.CONNECT
        timeout = Timeout.CONNECT if dial_failure.timed_out else None
        if timeout is not None:
            self.timeouts.on_timeout(timeout)
        failure = HttpFailure(kind, dial_failure.reason, sent=False, timeout=timeout)
        # Only the request that this connection was opened for fails: each has its own.
        waiting = self._resends or self._waiting
        if waiting:
            handler, _ = waiting.popleft()
            handler.on_failure(failure)
        # A request that had no connection of its own, because there were too many, gets one now.
        self._dial_for_waiting()

    def _fail_waiting(self, failure: HttpFailure) -> None:
        waiting = [*self._resends, *self._waiting]
        self._resends.clear()
        self._waiting.clear()
        for handler, _ in waiting:
            handler.on_failure(failure)

    def _sweep_later(self) -> None:
        seconds = self.timeouts.sweep_seconds
        self._loop.call_later(seconds, self._sweep, self._loop.time() + 2 * seconds)

    def _sweep(self, late: float) -> None:
        """Close connections that are idle for too long, or silent."""
        now = self._loop.time()
        # If the sweep is late, the loop was busy: received bytes may be unread, which is no
        # silence.
        if now < late:
            if self.reuse.risky:
                self._check_keepalive(now)
            for connection in list(self.connections):
                connection.check_timeouts(now)
        self._sweeping = bool(self.connections or self._dials) and not self._closed
        if self._sweeping:
            self._sweep_later()


def _whole(head: bytes, body: bytes) -> bytes:
    return b"%b%b%d\r\n\r\n%b" % (head, _LENGTH, len(body), body)
