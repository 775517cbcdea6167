"""Opening a connection: names, TLS against the system's roots, proxies; all within one deadline."""

import asyncio
import functools
import socket
import ssl
from dataclasses import dataclass
from typing import Final, cast

from anyport.upstream.http.names import addresses
from anyport.upstream.http.place import Place
from anyport.wire.http import END, BadMessage, read_reply_head

_TUNNEL_HEAD_BYTES_MAX: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Undialled:
    """Why there is no connection."""

    words: str
    secure: bool = False
    """Whether it was TLS that failed: the server is there, but it cannot be trusted."""
    late: bool = False
    """Whether it merely took too long."""


async def dial(place: Place, protocol: asyncio.Protocol, seconds: float) -> Undialled | None:
    """Connect the protocol to a place within so many seconds, or say why that cannot be."""
    try:
        async with asyncio.timeout(seconds):
            if place.proxy is not None and place.secure:
                await _tunnel(place, place.proxy, protocol)
            else:
                await _connect(place.proxy or place, protocol)
    except ssl.SSLCertVerificationError as error:
        return Undialled(words=f"its certificate is not valid: {error.verify_message}", secure=True)
    except (ssl.SSLError, ConnectionAbortedError) as error:
        return Undialled(words=f"TLS failed: {_reason(error)}", secure=True)
    except TimeoutError:
        return Undialled(words=f"no connection within {seconds:g} s", late=True)
    except socket.gaierror:
        return Undialled(words=f"the name {(place.proxy or place).host} cannot be resolved")
    except OSError as error:
        return Undialled(words=f"no connection: {_reason(error)}")
    except BadMessage as error:
        return Undialled(words=f"the proxy refused: {error}")
    return None


async def _connect(to: Place, protocol: asyncio.Protocol) -> None:
    """Try one address after the other; what the last of them says is the reason."""
    reason: OSError = OSError("the name has no address")
    for host, port in await addresses(to.host, to.port):
        try:
            await _connect_at(host, port, to, protocol)
        except (ssl.SSLError, ConnectionAbortedError):
            raise  # Somebody is there, but it is not who it should be.
        except OSError as error:
            reason = error
        else:
            return
    raise reason


async def _connect_at(host: str, port: int, to: Place, protocol: asyncio.Protocol) -> None:
    secure = to.secure
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(
        lambda: protocol,
        host,
        port,
        ssl=tls_context() if secure else None,
        server_hostname=to.host if secure else None,
    )
    _keep_alive(transport)


async def _tunnel(place: Place, proxy: Place, protocol: asyncio.Protocol) -> None:
    """Ask a proxy for a way through, then speak TLS with the server itself."""
    loop = asyncio.get_running_loop()
    answer = _Answer(loop.create_future())
    await _connect(proxy, answer)
    tunnel = answer.transport
    try:
        host = f"[{place.host}]" if ":" in place.host else place.host
        authority = f"{host}:{place.port}"
        tunnel.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = read_reply_head(await answer.head)
        if head.status != 200:
            raise BadMessage(head.status, f"it answered with {head.status}")
        transport = await loop.start_tls(
            tunnel, protocol, tls_context(), server_hostname=place.host
        )
    except BaseException:
        tunnel.abort()
        raise
    if transport is None:
        raise ConnectionAbortedError("the connection was closed")
    protocol.connection_made(transport)


class _Answer(asyncio.Protocol):
    """Waits for what a proxy says to a CONNECT."""

    transport: asyncio.Transport

    def __init__(self, head: asyncio.Future[bytes]) -> None:
        self.head = head
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has no such base.

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(END)
        if self.head.done():
            return
        if end >= 0:
            self.head.set_result(self._held[:end])
        elif len(self._held) > _TUNNEL_HEAD_BYTES_MAX:
            self.head.set_exception(BadMessage(502, "its answer does not end"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.head.done():
            self.head.set_exception(BadMessage(502, "it closed the connection"))


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the system find out when a silent peer is gone: a stream may be quiet for hours."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        number = getattr(socket, option, None)
        if number is not None:
            sock.setsockopt(socket.IPPROTO_TCP, number, value)


@functools.cache
def tls_context() -> ssl.SSLContext:
    """One for all: reading the system's roots takes longer than a hundred calls."""
    return ssl.create_default_context()


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or type(error).__name__).replace("_", " ").lower()
    if isinstance(error, ConnectionResetError):  # Loops raise it without a word.
        return "connection reset"
    return (error.strerror or str(error) or type(error).__name__).lower()
