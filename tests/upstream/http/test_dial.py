"""Connections are opened within a deadline, over TLS only to who can prove the name."""

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from anyport.upstream.http import dial as module
from anyport.upstream.http.dial import DialFailure, dial
from anyport.upstream.http.url import HttpUrl
from tests.upstream.fakes import run, until
from tests.upstream.http.certificate import server_context, trusting_context


class Heard(asyncio.Protocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.heard = b""
        self.made = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.made += 1

    def data_received(self, data: bytes) -> None:
        self.heard += data


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _pass_on(reader, writer)


@asynccontextmanager
async def listening(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port, until nobody is connected any more."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    before = asyncio.all_tasks()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await until(lambda: asyncio.all_tasks() <= before)


async def refused(url: str, proxy: str | None = None, seconds: float = 5.0) -> DialFailure:
    problem = await dial(HttpUrl.parse(url, proxy=proxy), Heard(), seconds)
    assert problem is not None
    return problem


async def works(protocol: Heard) -> None:
    """Something sent comes back."""
    protocol.transport.write(b"hello")
    await until(lambda: protocol.heard == b"hello")
    protocol.transport.close()


def test_a_connection_is_opened_and_watched_by_the_system() -> None:
    async def scene() -> None:
        async with listening(echo) as port:
            protocol = Heard()

            assert await dial(HttpUrl.parse(f"http://127.0.0.1:{port}/"), protocol, 5.0) is None

            sock = protocol.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            await works(protocol)

    run(scene)


def test_nobody_listening_is_said_in_words() -> None:
    async def scene() -> None:
        async with listening(echo) as port:
            pass

        problem = await refused(f"http://127.0.0.1:{port}/")

        assert problem.reason.startswith("no connection: ")
        assert not problem.tls_failed

    run(scene)


def test_a_name_that_nobody_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        def nobody(*_: object, **__: object) -> None:
            raise socket.gaierror(-2, "unknown")

        monkeypatch.setattr(socket, "getaddrinfo", nobody)

        problem = await refused("http://nowhere.test/")

        assert problem.reason == "the name nowhere.test cannot be resolved"

    run(scene)


def test_a_server_that_never_finishes_its_handshake_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scene() -> None:
        async with listening(silent) as port:
            problem = await refused(f"https://127.0.0.1:{port}/", seconds=0.05)

            assert problem == DialFailure(reason="no connection within 0.05 s", timed_out=True)

    run(scene)


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with listening(echo, server_context(tmp_path)) as port:
            problem = await refused(f"https://localhost:{port}/")

            assert problem.tls_failed
            assert problem.reason.startswith("its certificate is not valid: ")

    run(scene)


def test_a_certificate_is_good_for_its_own_names_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "tls_context", trusting_context)

    async def scene() -> None:
        async with listening(echo, server_context(tmp_path)) as port:
            trusted = Heard()
            assert await dial(HttpUrl.parse(f"https://localhost:{port}/"), trusted, 5.0) is None
            await works(trusted)

            def anywhere(*_: object, **__: object) -> list[Any]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

            monkeypatch.setattr(socket, "getaddrinfo", anywhere)
            problem = await refused(f"https://other.test:{port}/")

            assert problem.tls_failed
            assert "other.test" in problem.reason

    run(scene)


def test_a_server_that_speaks_no_tls_is_refused() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def scene() -> None:
        async with listening(plain) as port:
            problem = await refused(f"https://127.0.0.1:{port}/")

            assert problem.tls_failed
            assert problem.reason.startswith("TLS failed: ")

    run(scene)


class Proxy:
    """Answers CONNECT with what it is told to, and then passes everything on."""

    def __init__(self, answer: bytes, port: int = 0) -> None:
        self.answer = answer
        self.port = port
        self.asked = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        if not self.port:
            writer.close()
            return
        onward, back = await asyncio.open_connection("127.0.0.1", self.port)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, back))
            group.create_task(_pass_on(onward, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while portion := await reader.read(4096):
            writer.write(portion)
    writer.close()


def test_tls_goes_through_a_proxys_tunnel_and_is_checked_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "tls_context", trusting_context)

    async def scene() -> None:
        async with listening(echo, server_context(tmp_path)) as port:
            proxy = Proxy(b"HTTP/1.1 200 Connection established\r\n\r\n", port)
            async with listening(proxy.serve) as proxy_port:
                through = f"http://127.0.0.1:{proxy_port}"
                protocol = Heard()
                place = HttpUrl.parse(f"https://localhost:{port}/mcp", proxy=through)

                assert await dial(place, protocol, 5.0) is None

                to = b"localhost:%d" % port
                assert proxy.asked == b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (to, to)
                assert protocol.made == 1
                gc.collect()  # Nothing that was needed on the way may take the tunnel with it.
                await works(protocol)

    run(scene)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "it answered with 407"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "it answered with 502"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "Not an HTTP/1.1 message"),
        (b"HTTP/1.1 200 OK\r\n", "it closed the connection"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n", "More than 100 header fields"),
        (b"x" * 100_000, "its answer does not end"),
    ],
)
def test_a_proxy_that_opens_no_tunnel_is_named_as_the_one_who_refused(
    answer: bytes, words: str
) -> None:
    async def scene() -> None:
        async with listening(Proxy(answer).serve) as port:
            problem = await refused("https://example.test/", f"http://127.0.0.1:{port}")

            assert problem.reason == f"the proxy refused: {words}"

    run(scene)


def test_the_systems_roots_are_read_once() -> None:
    context = module.tls_context()

    assert module.tls_context() is context
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
