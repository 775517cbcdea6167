"""The address to listen on."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from anyport import __version__
from anyport.cli.doctor.findings import Level
from anyport.cli.doctor.listener import ListenAddress, check_listener, probe_listener
from anyport.config.model import Config, GatewayConfig
from tests.cli.doctor.facts import codes, config, server, the
from tests.cli.running import Running
from tests.rig.toxic_proxy import deserted

URL = "http://127.0.0.1:8640"


def listening_at(port: int, host: str = "127.0.0.1") -> Config:
    return config(server("tiny"), gateway=GatewayConfig(listen=f"{host}:{port}"))


def seen(port: int, host: str = "127.0.0.1") -> ListenAddress:
    return asyncio.run(probe_listener(listening_at(port, host), {}))


@contextmanager
def stranger(status: int) -> Iterator[int]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nobody wants to know."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as there:
        thread = threading.Thread(target=there.serve_forever)
        thread.start()
        try:
            yield there.server_address[1]
        finally:
            there.shutdown()
            thread.join()


def test_an_address_that_is_free_is_good() -> None:
    with deserted() as port:
        address = seen(port)

    assert address == ListenAddress(url=f"http://127.0.0.1:{port}", occupant="free")
    assert seen(0).occupant == "free"
    assert check_listener(address, listening_at(port)).level is Level.OK


def test_a_gateway_that_runs_there_is_known_by_its_answer(there: Running) -> None:
    port = int(there.url.rpartition(":")[2])

    address = seen(port)

    assert address.occupant == "gateway"
    assert address.version == __version__
    assert address.uptime_seconds > 0
    assert address.servers == {"tiny", "gone", "off"}
    assert address.profiles == {"default", "dev"}


@pytest.mark.parametrize(("status", "occupant"), [(404, "other"), (401, "unauthorized")])
def test_somebody_else_is_told_from_a_gateway(status: int, occupant: str) -> None:
    with stranger(status) as port:
        assert seen(port).occupant == occupant


def test_a_program_that_never_answers_is_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyport.cli.doctor.listener.REPLY_SECONDS_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert seen(silent.getsockname()[1]).occupant == "other"


def test_an_address_of_another_machine_is_impossible() -> None:
    address = seen(8640, "192.0.2.1")

    assert address.occupant == "unavailable"
    finding = the(check_listener(address, listening_at(1)), "address")
    assert finding.level is Level.PROBLEM
    assert finding.what == "192.0.2.1 is not an address of this machine"


def test_who_is_there_is_said_with_what_to_do() -> None:
    configured = listening_at(8640)
    taken = check_listener(ListenAddress(url=URL, occupant="other"), configured)
    guarded = check_listener(ListenAddress(url=URL, occupant="unauthorized"), configured)

    assert (taken.level, the(taken, "address").fix[-5:]) == (Level.PROBLEM, ":8640")
    assert guarded.level is Level.HINT
    assert "ANYPORT_TOKEN" in the(guarded, "address").fix


def test_a_gateway_with_another_version_or_configuration_is_a_warning() -> None:
    running = ListenAddress(
        url=URL,
        occupant="gateway",
        version=__version__,
        uptime_seconds=7200.0,
        servers=frozenset({"tiny"}),
        profiles=frozenset({"default"}),
    )
    same = check_listener(running, listening_at(8640))
    assert same.level is Level.OK
    assert same.summary == f"{URL}: a gateway listens there, version {__version__}, up for 2 hours"

    old = ListenAddress(url=URL, occupant="gateway", version="0.0.1", servers=frozenset({"other"}))
    section = check_listener(old, listening_at(8640))

    assert codes(section, Level.WARNING) == ["other-version", "other-configuration"]
    assert "different servers other, tiny and profiles default" in (
        the(section, "other-configuration").what
    )


def test_without_a_configuration_no_address_is_known() -> None:
    assert codes(check_listener(None, None)) == ["passed-over"]
