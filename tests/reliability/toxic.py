"""A link between the gateway and a server that is slow, lossy or broken, as it is told to be.

Knows bytes and sockets; what travels over it is not its business. Each connection takes the
poison that is set when something is first said on it.
"""

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tests.harness import WAIT_SECONDS

PORTION_BYTES: Final = 65_536
RESET: Final = struct.pack("ii", 1, 0)
"""To linger for no time at all is to reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """What happens to what a server says."""

    latency_seconds: float = 0.0
    """Before each portion."""
    piece_bytes: int = PORTION_BYTES
    """In pieces of this size, each sent by itself."""
    bytes_per_second: float = float("inf")
    after_bytes: int | None = None
    """Then something happens to the connection."""
    then: str = "cut"
    """cut | reset | hush (nothing comes any more) | half (no more is sent, but still read)."""
    close_seconds: float = 0.0
    """Between the server's end and ours."""


HEALTH: Final = Poison()


class Link:
    """Listens, and passes on to the server behind a URL."""

    def __init__(self, url: str, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.poison: Callable[[], Poison] = lambda: HEALTH
        self.connections = 0
        self.first_bytes: list[bytes] = []
        """What the gateway said first on each connection."""
        self._port = urlsplit(url).port
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._fresh: set[socket.socket] = set()
        """Connections on which nothing has been passed on yet: they take whatever poison comes."""
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def cut_all(self) -> None:
        """Close every connection that is in use."""
        _shut(self._open)

    def close(self) -> None:
        """Listen no more, and close every connection."""
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        _shut(self._open | self._fresh)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._fresh.add(near)
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        near = accepted
        with suppress(OSError):
            self.first_bytes.append(near.recv(1, socket.MSG_PEEK))
            if self._tls is not None:
                near = self._tls.wrap_socket(near, server_side=True)
            far = socket.create_connection(("127.0.0.1", self._port))
            self._open |= {near, far}
            self._fresh.discard(accepted)
            turn = threading.Lock()
            onward = threading.Thread(target=self._pass_on, args=(near, far, turn), daemon=True)
            onward.start()
            self._pass_back(far, near, self.poison(), turn)
            onward.join(WAIT_SECONDS)
            self._open -= {near, far}
            far.close()
        near.close()

    def _pass_on(self, near: socket.socket, far: socket.socket, turn: threading.Lock) -> None:
        with suppress(OSError, ValueError):  # The other thread may have closed it meanwhile.
            while portion := _receive(near, turn):
                far.sendall(portion)
        with suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)

    def _pass_back(
        self, far: socket.socket, near: socket.socket, poison: Poison, turn: threading.Lock
    ) -> None:
        left = poison.after_bytes
        with suppress(OSError):
            while portion := far.recv(PORTION_BYTES):
                self._over.wait(poison.latency_seconds)
                for at in range(0, len(portion), poison.piece_bytes):
                    piece = portion[at : at + poison.piece_bytes]
                    if left is not None:
                        piece, left = piece[:left], left - len(piece[:left])
                    with turn:
                        near.sendall(piece)
                    self._over.wait(len(piece) / poison.bytes_per_second)
                    if left == 0:
                        self._break(far, near, poison)
                        return
        self._over.wait(poison.close_seconds)
        with suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)

    def _break(self, far: socket.socket, near: socket.socket, poison: Poison) -> None:
        if poison.then == "reset":
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            near.shutdown(socket.SHUT_RD)  # It is closed once nobody reads it any more.
        elif poison.then == "hush":
            while far.recv(PORTION_BYTES):
                pass
        elif poison.then == "half":
            near.shutdown(socket.SHUT_WR)
        else:
            near.shutdown(socket.SHUT_RDWR)


def _receive(near: socket.socket, turn: threading.Lock) -> bytes:
    """What has come; TLS must not be read and written at the same time."""
    select.select([near], [], [])
    with turn:
        return near.recv(PORTION_BYTES)


def _shut(connections: set[socket.socket]) -> None:
    for each in list(connections):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def linked(url: str, *, tls: ssl.SSLContext | None = None) -> Iterator[Link]:
    """A link for the time of a block."""
    link = Link(url, tls=tls)
    try:
        yield link
    finally:
        link.close()


@contextmanager
def unreachable() -> Iterator[int]:
    """A port where nobody answers, not even to say that nobody is there."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        # The queue is full after these: whoever comes now is not even heard.
        for each in (first, second):
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(listener.getsockname())
        yield listener.getsockname()[1]
