"""Opening connections: DNS, TLS with the system's root certificates, and proxies; in one
deadline."""

import asyncio
import functools
import ipaddress
import socket
import ssl
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, cast

from anyport.upstream.http.url import HttpUrl
from anyport.wire.http1 import HEAD_END, BadMessage, read_response_head

# DNS lookups, each in a thread of its own.
#
# The system's resolver cannot be interrupted: a DNS server that does not answer blocks a thread for
# as long as it likes. The event loop has a handful of threads for lookups, and two such names would
# make every other server seem unreachable. Lookups of one name share a thread.

Address = tuple[str, int]
"""Numeric host, and port."""

_lookups: Final[dict[tuple[str, int], "Future[list[Address]]"]] = {}


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, best first.

    Raises:
        socket.gaierror: the name is unknown.
    """
    if is_numeric(host):
        return [(host, port)]
    lookup = _lookups.get((host, port))
    if lookup is None:
        lookup = _lookups[host, port] = Future()
        # It cannot be cancelled from now on: others may be waiting for it, too.
        lookup.set_running_or_notify_cancel()
        # A daemon: a gateway that stops does not wait for a lookup.
        threading.Thread(target=_resolve_in_thread, args=(host, port, lookup), daemon=True).start()
    return await asyncio.wrap_future(lookup)


def is_numeric(host: str) -> bool:
    """Whether a host is an address already."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _resolve_in_thread(host: str, port: int, lookup: "Future[list[Address]]") -> None:
    failure: OSError | None = None
    answer: list[Address] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        answer = [(str(address[0]), int(address[1])) for *_, address in found]
    except OSError as error:
        failure = error
    except UnicodeError:  # Not a name at all.
        failure = socket.gaierror(socket.EAI_NONAME, "not a name")
    _lookups.pop((host, port), None)
    if failure is None:
        lookup.set_result(answer)
    else:
        lookup.set_exception(failure)


_TUNNEL_HEAD_BYTES_MAX: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DialFailure:
    """Why there is no connection."""

    reason: str
    tls_failed: bool = False
    """Whether TLS failed: the server is there, but cannot be trusted."""
    timed_out: bool = False
    """Whether it took too long."""


async def dial(url: HttpUrl, protocol: asyncio.Protocol, seconds: float) -> DialFailure | None:
    """Connect a protocol to a URL within this time; returns why that failed."""
    try:
        async with asyncio.timeout(seconds):
            if url.proxy is not None and url.secure:
                await _tunnel(url, url.proxy, protocol)
            else:
                await _connect(url.proxy or url, protocol)
    except ssl.SSLCertVerificationError as error:
        return DialFailure(
            reason=f"its certificate is not valid: {error.verify_message}", tls_failed=True
        )
    except (ssl.SSLError, ConnectionAbortedError) as error:
        return DialFailure(reason=f"TLS failed: {_reason(error)}", tls_failed=True)
    except TimeoutError:
        return DialFailure(reason=f"no connection within {seconds:g} s", timed_out=True)
    except socket.gaierror:
        return DialFailure(reason=f"the name {(url.proxy or url).host} cannot be resolved")
    except OSError as error:
        return DialFailure(reason=f"no connection: {_reason(error)}")
    except BadMessage as error:
        return DialFailure(reason=f"the proxy refused: {error}")
    return None


async def _connect(url: HttpUrl, protocol: asyncio.Protocol) -> None:
    """Try one address after the other; the last error is the reason."""
    reason: OSError = OSError("the name has no address")
    for host, port in await resolve(url.host, url.port):
        try:
            await _connect_at(host, port, url, protocol)
        except (ssl.SSLError, ConnectionAbortedError):
            raise  # There is a server, but not the right one.
        except OSError as error:
            reason = error
        else:
            return
    raise reason


async def _connect_at(host: str, port: int, url: HttpUrl, protocol: asyncio.Protocol) -> None:
    secure = url.secure
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(
        lambda: protocol,
        host,
        port,
        ssl=tls_context() if secure else None,
        server_hostname=url.host if secure else None,
    )
    _keep_alive(transport)


async def _tunnel(url: HttpUrl, proxy: HttpUrl, protocol: asyncio.Protocol) -> None:
    """Ask a proxy for a tunnel, then start TLS with the server itself."""
    loop = asyncio.get_running_loop()
    answer = _Answer(loop.create_future())
    await _connect(proxy, answer)
    tunnel = answer.transport
    try:
        host = f"[{url.host}]" if ":" in url.host else url.host
        authority = f"{host}:{url.port}"
        tunnel.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = read_response_head(await answer.head)
        if head.status != 200:
            raise BadMessage(head.status, f"it answered with {head.status}")
        transport = await loop.start_tls(tunnel, protocol, tls_context(), server_hostname=url.host)
    except BaseException:
        tunnel.abort()
        raise
    if transport is None:
        raise ConnectionAbortedError("the connection was closed")
    protocol.connection_made(transport)


class _Answer(asyncio.Protocol):
    """Waits for the response of a proxy to CONNECT."""

    transport: asyncio.Transport

    def __init__(self, head: asyncio.Future[bytes]) -> None:
        self.head = head
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has no such base.

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(HEAD_END)
        if self.head.done():
            return
        if end >= 0:
            self.head.set_result(self._received[:end])
        elif len(self._received) > _TUNNEL_HEAD_BYTES_MAX:
            self.head.set_exception(BadMessage(502, "its answer does not end"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.head.done():
            self.head.set_exception(BadMessage(502, "it closed the connection"))


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the system notice when a silent peer is gone: a stream may be quiet for hours."""
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
    """One for all: reading the system's certificates takes longer than a hundred calls."""
    return ssl.create_default_context()


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or type(error).__name__).replace("_", " ").lower()
    if isinstance(error, ConnectionResetError):  # Event loops raise it without a message.
        return "connection reset"
    return (error.strerror or str(error) or type(error).__name__).lower()
