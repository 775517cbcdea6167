"""Each toxic does to a connection what its name says, and nothing else."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.harness import WAIT_SECONDS
from tests.rig.toxic_proxy import (
    TOXICS,
    Toxic,
    ToxicProxy,
    bandwidth,
    deserted,
    latency,
    limit_data,
    reset_peer,
    slicer,
    slow_close,
    timeout,
    toxic_proxy,
)

WORDS = b"0123456789" * 10


@contextmanager
def saying(words: bytes, *, closes: bool = False) -> Iterator[str]:
    """A server that answers anything with these words; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                while connection.recv(1024):
                    connection.sendall(words)
                    if closes:
                        return

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def asking(link: ToxicProxy) -> Iterator[socket.socket]:
    """A connection over a link, on which something was said."""
    with socket.create_connection(("127.0.0.1", link.port), WAIT_SECONDS) as connection:
        connection.sendall(b"?")
        yield connection


def to_the_end(connection: socket.socket) -> list[bytes]:
    """All that comes, in the portions in which it comes."""
    portions = []
    while portion := connection.recv(1024):
        portions.append(portion)
    return portions


def heard(connection: socket.socket, count: int) -> bytes:
    """So many bytes."""
    said = b""
    while len(said) < count:
        said += connection.recv(count - len(said))
    return said


@pytest.mark.parametrize(
    ("poison", "seconds_min"),
    [
        (latency(0.1), 0.1),
        (bandwidth(400), 0.2),
        (slicer(1), 0.0),
        (slow_close(0.1), 0.0),
        (limit_data(1000), 0.0),
    ],
)
def test_what_is_only_slow_loses_nothing(poison: Toxic, seconds_min: float) -> None:
    with saying(WORDS) as url, toxic_proxy(url) as link:
        link.poison = lambda: poison
        with asking(link) as connection:
            began = time.monotonic()
            assert heard(connection, len(WORDS)) == WORDS
            assert time.monotonic() - began >= seconds_min


def test_a_slow_close_comes_after_all_the_rest() -> None:
    with saying(WORDS, closes=True) as url, toxic_proxy(url) as link:
        link.poison = lambda: slow_close(0.1)
        with asking(link) as connection:
            assert heard(connection, len(WORDS)) == WORDS
            began = time.monotonic()
            assert to_the_end(connection) == []
            assert time.monotonic() - began >= 0.05


def test_limited_data_ends_with_the_connection() -> None:
    with saying(WORDS) as url, toxic_proxy(url) as link:
        link.poison = lambda: limit_data(17)
        with asking(link) as connection:
            assert b"".join(to_the_end(connection)) == WORDS[:17]


def test_a_reset_is_no_end_in_good_order() -> None:
    with saying(WORDS) as url, toxic_proxy(url) as link:
        link.poison = lambda: reset_peer(17)
        with asking(link) as connection:
            # The other side must let go before the kernel sends the reset.
            heard(connection, 17)
            with pytest.raises(ConnectionResetError):
                connection.sendall(b"?")
                connection.recv(1)


def test_a_timeout_lets_nothing_pass_and_then_closes() -> None:
    with saying(WORDS) as url, toxic_proxy(url) as link:
        link.poison = lambda: timeout(0.1)
        with asking(link) as connection:
            began = time.monotonic()
            assert to_the_end(connection) == []
            assert time.monotonic() - began >= 0.05


def test_a_link_that_is_down_refuses_and_is_where_it_was_when_it_is_up() -> None:
    with saying(WORDS) as url, toxic_proxy(url) as link:
        with asking(link) as connection:
            heard(connection, len(WORDS))
            link.down()
            assert to_the_end(connection) == []
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", link.port))
        link.up()
        with asking(link) as connection:
            assert heard(connection, len(WORDS)) == WORDS


def test_every_toxic_is_known_by_its_name() -> None:
    assert set(TOXICS) == {
        "latency", "bandwidth", "slow_close", "timeout", "reset_peer", "slicer", "limit_data",
    }  # fmt: skip


def test_at_a_deserted_port_nobody_is_heard_and_whoever_asks_for_it_may_listen() -> None:
    with deserted() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with (
            socket.create_server(("127.0.0.1", port)),
            socket.create_connection(("127.0.0.1", port)),
        ):
            pass
