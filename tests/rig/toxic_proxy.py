"""A link between the gateway and a server that is slow, lossy or broken, as it is told to be.

Knows bytes and sockets; what travels over it is not its business. Each connection takes the
poison that is set when something is first said on it. `TOXICS` has the usual ones by the names
they have elsewhere; `Link.down` is the eighth.
"""

import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tests.harness import WAIT_SECONDS

PORTION_BYTES: Final = 65_536
RESET: Final = struct.pack("ii", 1, 0)
"""To linger for no time at all is to reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
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
    """Between the server's end, or the silence, and ours; a silence of 0 seconds never ends."""


HEALTH: Final = Toxic()


def latency(seconds: float) -> Toxic:
    """Every portion comes later."""
    return Toxic(latency_seconds=seconds)


def bandwidth(bytes_per_second: float) -> Toxic:
    """No more than this passes in a second."""
    return Toxic(piece_bytes=max(1, int(bytes_per_second / 100)), bytes_per_second=bytes_per_second)


def slow_close(seconds: float) -> Toxic:
    """The end comes later than all the rest."""
    return Toxic(close_seconds=seconds)


def timeout(seconds: float = 0.0) -> Toxic:
    """Nothing passes at all; after a time, if it is not 0, the connection is closed."""
    return Toxic(after_bytes=0, then="hush", close_seconds=seconds)


def reset_peer(after_bytes: int = 0) -> Toxic:
    """The connection is reset after so many bytes."""
    return Toxic(after_bytes=after_bytes, then="reset")


def slicer(piece_bytes: int) -> Toxic:
    """What is sent in one piece arrives in many."""
    return Toxic(piece_bytes=piece_bytes)


def limit_data(after_bytes: int) -> Toxic:
    """The connection is closed after so many bytes."""
    return Toxic(after_bytes=after_bytes)


TOXICS: Final[Mapping[str, Callable[..., Toxic]]] = {
    toxic.__name__: toxic
    for toxic in (latency, bandwidth, slow_close, timeout, reset_peer, slicer, limit_data)
}


class ToxicProxy:
    """Listens, and passes on to the server behind a URL."""

    def __init__(self, url: str, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.poison: Callable[[], Toxic] = lambda: HEALTH
        self.connections = 0
        self.first_bytes: list[bytes] = []
        """What the gateway said first on each connection."""
        self._port = urlsplit(url).port
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.path = urlsplit(url).path
        self._open: set[socket.socket] = set()
        self._fresh: set[socket.socket] = set()
        """Connections on which nothing has been passed on yet: they take whatever poison comes."""
        self._over = threading.Event()
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def lead_to(self, url: str) -> None:
        """Pass on to another server from now on: the one that was there has moved."""
        self._port = urlsplit(url).port

    def cut_all(self) -> None:
        """Close every connection that is in use."""
        _shut(self._open)

    def down(self) -> None:
        """Listen no more, and close every connection: whoever comes is refused."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        _shut(self._open | self._fresh)

    def up(self) -> None:
        """Listen again where one listened before."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self._start()

    def close(self) -> None:
        """Be down for good, and wait for nothing any more."""
        self._over.set()
        self.down()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            self._fresh.add(near)
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with ExitStack() as stack, suppress(OSError):
            near = accepted
            stack.callback(self._fresh.discard, accepted)
            stack.callback(accepted.close)
            self.first_bytes.append(near.recv(1, socket.MSG_PEEK))
            if self._tls is not None:
                near = stack.enter_context(self._tls.wrap_socket(near, server_side=True))
            far = stack.enter_context(socket.create_connection(("127.0.0.1", self._port)))
            stack.callback(self._open.difference_update, {near, far})
            self._open |= {near, far}
            self._fresh.discard(accepted)
            turn = threading.Lock()
            onward = threading.Thread(target=self._pass_on, args=(near, far, turn), daemon=True)
            onward.start()
            with suppress(OSError):
                self._pass_back(far, near, self.poison(), turn)
            onward.join(WAIT_SECONDS)

    def _pass_on(self, near: socket.socket, far: socket.socket, turn: threading.Lock) -> None:
        with suppress(OSError, ValueError):  # The other thread may have closed it meanwhile.
            while portion := _receive(near, turn):
                far.sendall(portion)
        with suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)

    def _pass_back(
        self, far: socket.socket, near: socket.socket, poison: Toxic, turn: threading.Lock
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

    def _break(self, far: socket.socket, near: socket.socket, poison: Toxic) -> None:
        if poison.then == "reset":
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            near.shutdown(socket.SHUT_RD)  # It is closed once nobody reads it any more.
        elif poison.then == "hush" and poison.close_seconds:
            self._over.wait(poison.close_seconds)
            near.shutdown(socket.SHUT_RDWR)
        elif poison.then == "hush":
            while far.recv(PORTION_BYTES):
                pass
        elif poison.then == "half":
            near.shutdown(socket.SHUT_WR)
        else:
            near.shutdown(socket.SHUT_RDWR)


def _receive(near: socket.socket, turn: threading.Lock) -> bytes:
    """What has come; TLS must not be read and written at the same time."""
    come = select.poll()
    come.register(near, select.POLLIN)
    come.poll()
    with turn:
        return near.recv(PORTION_BYTES)


def _shut(connections: set[socket.socket]) -> None:
    for each in list(connections):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def toxic_proxy(url: str, *, tls: ssl.SSLContext | None = None) -> Iterator[ToxicProxy]:
    """A link for the time of a block."""
    link = ToxicProxy(url, tls=tls)
    try:
        yield link
    finally:
        link.close()


@contextmanager
def deserted() -> Iterator[int]:
    """A port where nobody listens, and which no other program is given meanwhile."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # Who asks for it may have it.
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


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
