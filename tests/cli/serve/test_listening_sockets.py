"""Where the listening sockets of `anyport serve` come from, and where they go."""

import os
import socket
from pathlib import Path
from threading import Thread

import pytest

from anyport.cli.exit_codes import CommandFailed
from anyport.cli.serve import listening_sockets
from anyport.cli.serve.listening_sockets import (
    FIRST_SYSTEMD_FD,
    ServeHandover,
    find_predecessor,
    handover_socket_path,
    inherited_sockets,
)

PID = 4711
FREE = 900
"""A descriptor that nobody uses; nor the one after it."""


class Gateway:
    """Somebody at the meeting place who says where it listens."""

    def __init__(self, path: Path, greeting: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._greeting = greeting
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = Thread(target=self._greet, daemon=True)
        self._thread.start()

    def _greet(self) -> None:
        line, _ = self._socket.accept()
        with line:
            line.sendall(self._greeting)
            line.recv(1)

    def close(self) -> None:
        self._thread.join(10)
        self._socket.close()


def test_a_gateway_and_its_successor_meet_in_the_state_directory(tmp_path: Path) -> None:
    assert handover_socket_path(tmp_path, 8640) == tmp_path / "serve-8640.sock"


def test_nobody_is_there_before_the_first(tmp_path: Path) -> None:
    assert find_predecessor(tmp_path, ("127.0.0.1", 8640)) is None


def test_the_gateway_that_listens_there_is_found(tmp_path: Path) -> None:
    there = Gateway(
        handover_socket_path(tmp_path, 8640),
        b'{"pid":4711,"listens":["127.0.0.1",8640],"later":1}\n',
    )
    found = find_predecessor(tmp_path, ("127.0.0.1", 8640))

    assert found is not None
    assert found.pid == PID
    found.close()
    there.close()


def test_one_that_listens_on_another_address_is_not_taken_over_from(tmp_path: Path) -> None:
    there = Gateway(handover_socket_path(tmp_path, 8640), b'{"pid":4711,"listens":["::1",8640]}\n')

    with pytest.raises(CommandFailed, match=r"4711 listens on ::1, port 8640.*on 127\.0\.0\.1"):
        find_predecessor(tmp_path, ("127.0.0.1", 8640))

    there.close()


def test_one_that_makes_no_sense_is_not_taken_over_from(tmp_path: Path) -> None:
    there = Gateway(handover_socket_path(tmp_path, 8640), b"hello?\n")

    with pytest.raises(CommandFailed, match="does not answer: stop it first"):
        find_predecessor(tmp_path, ("127.0.0.1", 8640))

    there.close()


# Sockets that whoever started us listens on.


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a process that was given two sockets."""
    for descriptor in (FREE, FREE + 1):
        with socket.create_server(("127.0.0.1", 0)) as server:
            os.dup2(server.fileno(), descriptor)
    monkeypatch.setattr(listening_sockets, "FIRST_SYSTEMD_FD", FREE)
    return {"LISTEN_PID": str(PID), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b", "HOME": "/x"}


def test_sockets_that_are_passed_on_are_used_and_not_passed_on_again(
    passed: dict[str, str],
) -> None:
    sockets = inherited_sockets(passed, PID)

    assert [each.getsockname()[0] for each in sockets] == ["127.0.0.1"] * 2
    assert not any(each.get_inheritable() for each in sockets)
    assert passed == {"HOME": "/x"}
    for each in sockets:
        each.close()


def test_sockets_for_another_process_are_left_alone() -> None:
    environ = {"LISTEN_PID": str(PID + 1), "LISTEN_FDS": "2"}
    assert inherited_sockets(environ, PID) == []
    assert environ == {}
    assert inherited_sockets({}, PID) == []
    assert inherited_sockets({"LISTEN_PID": str(PID), "LISTEN_FDS": "two"}, PID) == []
    assert FIRST_SYSTEMD_FD == 3


def test_a_socket_that_is_not_tcp_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    monkeypatch.setattr(listening_sockets, "FIRST_SYSTEMD_FD", one.detach())

    with pytest.raises(CommandFailed, match="ListenStream=127"):
        inherited_sockets({"LISTEN_PID": str(PID), "LISTEN_FDS": "1"}, PID)

    other.close()


def test_an_address_that_was_passed_on_stays_open_without_us(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert ServeHandover(tmp_path, ("127.0.0.1", 1), inherited=[server]).keeps_address
    assert not ServeHandover(tmp_path, ("127.0.0.1", 1)).keeps_address
