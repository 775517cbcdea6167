"""The HTTP server: routes and connections, from start to shutdown."""

import asyncio
import contextlib
import secrets
import signal
import socket
from http import HTTPStatus
from typing import Final

from tests.peers.demo.calls import ServerState
from tests.peers.demo.http.connection import Answer, Connection, Response
from tests.peers.demo.http.refusals import RequestRefused, check_origin
from tests.peers.demo.http.requests import HttpRequest
from tests.peers.demo.http.sse import MESSAGES_PATH, HttpSse
from tests.peers.demo.http.streamable import Streamable
from tests.peers.demo.modern import ModernEra
from tests.peers.demo.sealing import Seal
from tests.peers.demo.stdio import say

STREAMABLE_PATH: Final = "/mcp"
SSE_PATH: Final = "/sse"
ID_BYTES: Final = 16  # Nobody guesses a session.
STOP_SECONDS_MAX: Final = 2  # What takes longer to end is cut off.
BACKLOG: Final = 1024  # Clients that come all at once are not turned away.


def listen(host: str, port: int) -> socket.socket:
    """
    Raises:
        OSError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family)
    # asyncio sets this itself only where the socket names its protocol, which this one does not:
    # the second event of a stream would wait until the first is acknowledged, for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def serve_http(server_state: ServerState, seal: Seal, listening: socket.socket) -> None:
    """Serves until told to stop, then ends every stream as it should end."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Not every system has such signals.
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    async with asyncio.TaskGroup() as group:
        http_server = HttpServer(server_state, group, seal)
        server = await loop.create_server(http_server.connect, sock=listening, backlog=BACKLOG)
        host, port = listening.getsockname()[:2]
        path = SSE_PATH if server_state.options.transport == "sse" else STREAMABLE_PATH
        say(f"anyport-demo listening on http://{f'[{host}]' if ':' in host else host}:{port}{path}")
        await stop.wait()
        server.close()
        await http_server.close()


class HttpServer:
    """Everything behind one port."""

    def __init__(self, server_state: ServerState, group: asyncio.TaskGroup, seal: Seal) -> None:
        options = server_state.options
        self._group = group
        self._connections: set[Connection] = set()
        self._modern = ModernEra(server_state, options.modern, seal) if options.modern else None
        self._streamable = Streamable(server_state, group, self._modern, _new_id)
        self._sse = HttpSse(server_state, group, _new_id)
        self._routes: dict[str, Answer] = {}
        if options.transport != "sse":
            self._routes[STREAMABLE_PATH] = self._streamable.answer
        if options.transport != "streamable" and options.legacy:
            self._routes[SSE_PATH] = self._sse.open
            self._routes[MESSAGES_PATH] = self._sse.post

    def connect(self) -> Connection:
        return Connection(self.answer, self._group, self._connections)

    def answer(self, request: HttpRequest, response: Response) -> None:
        try:
            check_origin(request)
            route = self._routes.get(request.path)
            if route is None:
                raise RequestRefused(HTTPStatus.NOT_FOUND, f"Nothing is at {request.path}")
            route(request, response)
        except RequestRefused as refused:
            refused.write(response)
        except Exception as failure:  # noqa: BLE001 - one bad request must not end the others.
            say(f"internal fault: {type(failure).__name__}: {failure}")
            RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error").write(response)

    async def close(self) -> None:
        """Ends subscriptions with their result and sessions with their streams, then the rest."""
        if self._modern is not None:
            self._modern.closing.set()
        self._streamable.sessions.end_all()
        self._sse.sessions.end_all()
        for connection in list(self._connections):
            connection.finish()
        if serving := [connection.task for connection in self._connections]:
            await asyncio.wait(serving, timeout=STOP_SECONDS_MAX)
        for connection in list(self._connections):
            connection.task.cancel()


def _new_id() -> str:
    return secrets.token_hex(ID_BYTES)
