"""The gateway on a listening socket: connections, their deadlines, and a graceful end.

Answers leave together once a turn of the loop, after the record of them is safe. Knows sockets
and time; the `Endpoint` knows MCP, an `Aside` everything else.
"""

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final

import msgspec

from anyport.ingress.http.body import Room
from anyport.ingress.http.door import Denial
from anyport.ingress.http.endpoint import Endpoint
from anyport.ingress.http.inlet import JSON, Inlet
from anyport.ingress.http.reply import Aside
from anyport.ingress.http.visit import Goal, Reception, Visit
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


class HttpIngress:
    """The gateway for clients over HTTP."""

    def __init__(
        self,
        reception: Reception,
        endpoint: Endpoint,
        aside: Aside,
        before_write: Callable[[], None],
    ) -> None:
        self.heads: Heads[Visit] = Heads(reception.read)
        self.now = 0.0
        self.room = Room()
        self.unsent_bytes = 0
        self.endpoint = endpoint
        self.inlets: set[Inlet] = set()
        self._aside = aside
        self._before_write = before_write
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time()
        self._outbox: dict[Inlet, list[bytes]] = {}
        self._server: asyncio.Server | None = None
        self._sweeps = 0
        self._timer: asyncio.TimerHandle | None = None
        self._room = min(CONNECTIONS_MAX, _files_max() - FILES_RESERVED)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections; the address in use.

        Raises:
            OSError: it cannot be listened on.
        """
        self._server = await self._loop.create_server(
            lambda: Inlet(self), host, port, backlog=BACKLOG
        )
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

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
        if self._server is not None:
            self._server.close()
        await self._quiet(seconds)
        self.endpoint.end_all()
        self._release()

    async def _quiet(self, seconds: float) -> None:
        """Wait until no request is open, but not longer than this."""
        until = self._loop.time() + seconds
        while self._open_requests and self._loop.time() < until:
            await asyncio.sleep(QUIET_SECONDS)

    @property
    def _open_requests(self) -> int:
        listening = self.endpoint.modern.listening
        return self.endpoint.open_requests + sum(
            inlet.exchange is not None and inlet.exchange not in listening for inlet in self.inlets
        )

    async def close(self) -> None:
        """Hang up on everyone."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        self._release()
        for transport in self._transports():
            transport.close()
        until = self._loop.time() + LAST_WORDS_SECONDS_MAX
        while self.inlets and self._loop.time() < until:
            await asyncio.sleep(QUIET_SECONDS)
        for transport in self._transports():
            transport.abort()
        if self._server is not None:
            await self._server.wait_closed()

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
                if len(pieces) == 1:
                    transport.write(pieces[0])
                else:
                    transport.writelines(pieces)

    def _sweep(self) -> None:
        self.now = now = self._loop.time()
        self.endpoint.now = self.endpoint.modern.now = now
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        for inlet in [inlet for inlet in self.inlets if inlet.deadline <= now]:
            inlet.overdue()
        self.unsent_bytes = sum(inlet.unsent_bytes for inlet in self.inlets if inlet.stalled)
        self._sweeps += 1
        if self._sweeps % SESSION_SWEEPS == 0:
            self.endpoint.sessions.sweep(now)


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
