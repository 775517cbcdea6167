"""The gateway on listening sockets: connections, their deadlines, and a graceful end.

Answers leave together once a turn of the loop, after the record of them is safe. Knows sockets
and time; the `Endpoint` knows MCP, an `Aside` everything else.
"""

import asyncio
import resource
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from random import random
from typing import Final

import msgspec

from anyport.ingress.http.door import Denial
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.inlet import Inlet
from anyport.ingress.http.reply import JSON, Aside
from anyport.ingress.http.tracing import TracedHeads
from anyport.ingress.http.visit import Goal, Reception, Visit
from anyport.protocol.room import Room
from anyport.protocol.timeouts import Timeout
from anyport.wire import codec
from anyport.wire.http import Heads

SWEEP_SECONDS: Final = 1.0
"""How often deadlines are looked at."""
SESSION_SWEEPS: Final = 15
"""Sessions live for minutes: they are looked at less often."""
CONNECTIONS_MAX: Final = 20_000
"""Open connections; fewer where the system allows fewer files."""
FILES_RESERVED: Final = 64
"""Descriptors kept for servers, journal and whatever else."""
BACKLOG: Final = 2048
LAST_WORDS_SECONDS_MAX: Final = 2.0
"""How long what has been said may take to be sent when the gateway stops."""
PROBLEM: Final = ("content-type", "application/problem+json")
QUIET_SECONDS: Final = 0.02
"""How often a gateway that is about to stop looks whether it may."""
_HEAD: Final = b"HTTP/1.1 "


class HttpIngress:
    """The gateway for clients over HTTP."""

    def __init__(
        self,
        reception: Reception,
        endpoint: Endpoint,
        aside: Aside,
        before_write: Callable[[], None],
    ) -> None:
        self.heads: Heads[Visit] = TracedHeads(reception.read)
        self.now = 0.0
        self.room = Room()
        """Its own, unless others hold messages too."""
        self.endpoint = endpoint
        self.inlets: set[Inlet] = set()
        self.chance: Callable[[], float] = random
        self.timed_out: Callable[[Timeout], None] = lambda _: None
        """Told whenever a client took too long, or stayed for long enough."""
        self.give_up: Callable[[Timeout], None] = lambda _: None
        """Ends the calls that are still open when the gateway cannot wait any longer."""
        self.held: Callable[[], int] = lambda: 0
        """How many answers still wait for the record of them."""
        self._aside = aside
        self._before_write = before_write
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time()
        self._outbox: dict[Inlet, list[bytes]] = {}
        self._servers: list[asyncio.Server] = []
        self._leaving = False
        """Somebody else takes new connections: those that are open here get one more answer."""
        self._leave_by = 0.0
        self._sweeps = 0
        self._timer: asyncio.TimerHandle | None = None
        self._room = min(CONNECTIONS_MAX, _files_max() - FILES_RESERVED)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections; the address in use.

        Raises:
            OSError: it cannot be listened on.
        """
        server = await self._loop.create_server(lambda: Inlet(self), host, port, backlog=BACKLOG)
        return self._accept([server])

    async def take(self, sockets: Sequence[socket.socket]) -> tuple[str, int]:
        """Accept connections on sockets that somebody else has listened on; the address in use."""
        make = self._loop.create_server
        return self._accept(
            [await make(lambda: Inlet(self), sock=each, backlog=BACKLOG) for each in sockets]
        )

    def _accept(self, servers: list[asyncio.Server]) -> tuple[str, int]:
        self._servers = servers
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        address = servers[0].sockets[0].getsockname()
        return str(address[0]), int(address[1])

    @property
    def descriptors(self) -> list[int]:
        """Of the sockets it listens on."""
        return [each.fileno() for server in self._servers for each in server.sockets]

    @property
    def streams(self) -> int:
        """Answers that come in pieces, now."""
        return sum(inlet.streaming for inlet in self.inlets)

    async def drain(self, lame_duck_seconds: float, seconds: float) -> None:
        """Finish what is open and take nothing new; then end what would never end.

        While somebody still waits for an answer, new requests are told to come back, so that
        whoever sends them here learns to send them elsewhere; after that nobody is let in.
        """
        self.endpoint.draining = self.endpoint.older.draining = True
        await self._quiet(lame_duck_seconds)
        self._stop_accepting()
        await self._quiet(seconds)
        self._end_all()

    async def leave(self, idle_seconds: float, seconds: float) -> None:
        """Finish what is open, while somebody else accepts connections; turn nobody away.

        A client may just have sent a request on a connection that seems idle, and would not know
        whether to send it again. So it is answered here as ever, and told that this was the last
        answer on this connection. Nobody uses a connection that was idle for so long.
        """
        self.give_way()
        began = self._loop.time()
        self._leave_by = began + seconds
        while (now := self._loop.time()) < self._leave_by:
            self.endpoint.send_away()
            if not self._open_requests and (not self.inlets or now > began + idle_seconds):
                break
            await asyncio.sleep(QUIET_SECONDS)
        self._end_all()

    def _end_all(self) -> None:
        """Whoever still waits for an answer gets one that says why."""
        if self._open_requests:
            self.give_up(Timeout.DRAIN)
        self.endpoint.end_all()
        self._release()

    def give_way(self) -> None:
        """Accept no more connections: somebody else does. Nobody is told to come back later."""
        self._stop_accepting()
        self._leaving = True
        self.endpoint.draining = self.endpoint.older.draining = False

    def hasten(self, seconds: float) -> None:
        """Whoever leaves takes no longer than this from now on."""
        self._leave_by = min(self._leave_by, self._loop.time() + seconds)

    def _stop_accepting(self) -> None:
        for server in self._servers:
            server.close()

    async def _quiet(self, seconds: float) -> None:
        """Wait until no request is open, but not longer than this."""
        until = self._loop.time() + seconds
        while self._open_requests and self._loop.time() < until:
            await asyncio.sleep(QUIET_SECONDS)

    @property
    def _open_requests(self) -> int:
        listening = self.endpoint.modern.listening
        return (
            self.endpoint.open_requests
            + self.held()
            + sum(
                inlet.exchange is not None and inlet.exchange not in listening
                for inlet in self.inlets
            )
        )

    async def close(self) -> None:
        """Hang up on everyone."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_accepting()
        self._release()
        for transport in self._transports():
            transport.close()
        until = self._loop.time() + LAST_WORDS_SECONDS_MAX
        while self.inlets and self._loop.time() < until:
            await asyncio.sleep(QUIET_SECONDS)
        for transport in self._transports():
            transport.abort()
        for server in self._servers:
            await server.wait_closed()

    def _transports(self) -> list[asyncio.Transport]:
        return [inlet.transport for inlet in self.inlets if inlet.transport is not None]

    # What connections call.

    def arrived(self, inlet: Inlet) -> bool:
        """A connection was opened; False if there is no room for it."""
        self.inlets.add(inlet)
        return len(self.inlets) <= self._room

    def gone(self, inlet: Inlet) -> None:
        """It is closed."""
        self.inlets.discard(inlet)

    def serve(self, inlet: Inlet, visit: Visit, body: bytes) -> None:
        """Answer a request."""
        try:
            if visit.straight:
                self.endpoint.post(inlet, visit, body)
                return
            inlet.last = not visit.head.keep_alive
            inlet.principal = visit.principal
            inlet.bare = visit.head.method == "HEAD"
            if visit.denial is not None:
                self._deny(inlet, visit, visit.denial)
            elif visit.goal is Goal.ASIDE:
                self._aside(visit.head, body, inlet)
            elif visit.goal is Goal.NOWHERE:
                words = f"There is no profile {visit.profile[:64]!r} here"
                inlet.answer(404, _error(words), (JSON,))
            else:
                self.endpoint.serve(inlet, visit, body)
        except Exception as error:  # noqa: BLE001 - it must not cost other connections anything
            context = {"message": "A request was not served", "exception": error}
            self._loop.call_exception_handler(context)
            inlet.refuse(500, "Internal error: the gateway failed to handle this request")

    def _deny(self, inlet: Inlet, visit: Visit, denial: Denial) -> None:
        """Everything that is not MCP tells its problems in the form that RFC 9457 has for them."""
        if visit.goal is Goal.ASIDE:
            status = HTTPStatus(denial.status)
            told = {"title": status.phrase, "status": status, "detail": denial.message}
            inlet.answer(status, msgspec.json.encode(told), (PROBLEM, *denial.fields))
        else:
            inlet.answer(denial.status, _error(denial.message), (JSON, *denial.fields))

    def send(self, inlet: Inlet, raw: bytes) -> None:
        """Write, once the record of what is said is safe."""
        if (self._leaving or inlet.until <= self.now) and raw.startswith(_HEAD):
            if not self._leaving:
                self.timed_out(Timeout.AGE)
            inlet.last = True
            raw = _closing(raw)
        outbox = self._outbox
        if not outbox:
            self._loop.call_soon(self._release)
        pieces = outbox.get(inlet)
        if pieces is None:
            outbox[inlet] = [raw]
        else:
            pieces.append(raw)

    def _release(self) -> None:
        outbox, self._outbox = self._outbox, {}
        self._before_write()
        for inlet, pieces in outbox.items():
            transport = inlet.transport
            if transport is not None and (not inlet.streaming or inlet.keeps_pace):
                # What one client gets in one turn goes out in one write.
                try:
                    if len(pieces) == 1:
                        transport.write(pieces[0])
                    else:
                        transport.writelines(pieces)
                except MemoryError:
                    transport.abort()  # Part of it may be gone; the others must have theirs.
                if inlet.stalled:
                    inlet.recount()

    def _sweep(self) -> None:
        self.now = now = self._loop.time()
        self.endpoint.now = self.endpoint.modern.now = now
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        for inlet in [inlet for inlet in self.inlets if inlet.deadline <= now]:
            inlet.overdue()
        for inlet in [inlet for inlet in self.inlets if inlet.stalled]:
            inlet.recount()
        self._sweeps += 1
        if self._sweeps % SESSION_SWEEPS == 0:
            self.endpoint.sessions.sweep(now)


def _closing(raw: bytes) -> bytes:
    """A reply which says that no other follows on its connection."""
    status, end, rest = raw.partition(b"\r\n")
    return b"%b%bConnection: close\r\n%b" % (status, end, rest)


def _error(words: str) -> bytes:
    return codec.failure(None, codec.error(-32600, words), null_id=False)


def _files_max() -> int:
    """How many files may be open: as many as the system lets us, up to what we need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + FILES_RESERVED
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return most if soft == resource.RLIM_INFINITY else soft
