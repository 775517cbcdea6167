"""Names that nobody can resolve, certificates that nobody should trust: said in words, in time."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.harness import WAIT_SECONDS
from tests.journeys.scripted_http_server import ReceivedRequest, Reply, ScriptedHttpServer, modern
from tests.reliability.conftest import Serve
from tests.rig.certificates import EXPIRED, GOOD, OTHER, speaking_tls, trust_store
from tests.rig.http_probe import HttpProbe
from tests.rig.in_process import InProcessGateway, in_process_gateway, run_bounded
from tests.rig.invalid_replies import fine, nothing_else
from tests.rig.probe import eventually, text_of
from tests.rig.raw_http_client import RawHttpClient
from tests.rig.scale import scaled
from tests.rig.toxic_proxy import Toxic, toxic_proxy
from tests.upstream.fakes import until

pytestmark = pytest.mark.slow

HANGING: Final = 40
"""Servers whose names take for ever; more than there are threads for anything."""
LAG_SECONDS_MAX: Final = scaled(20.0, full=2.0)
"""Far more than a turn of the loop takes on a busy machine, less than any name that hangs."""
TLS_RECORD: Final = b"\x16"
"""How every handshake begins."""


class Names:
    """A resolver that knows some names, and has its days."""

    def __init__(self, real: Any) -> None:
        self.asked: list[str] = []
        self.over = threading.Event()
        self.found = chain([False, True, False, False], repeat(True))
        """Whether the name that comes and goes is there."""
        self._real = real

    def __call__(self, host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        if name.startswith("hanging"):
            self.over.wait(WAIT_SECONDS)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if name == "nowhere.test" or (name == "flaky.test" and not next(self.found)):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._real("127.0.0.1", *rest, **more)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    resolver = Names(socket.getaddrinfo)
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.over.set()


async def called(at: InProcessGateway, server: str) -> str:
    """What a call comes to."""

    def call() -> str:
        visitor = RawHttpClient(at.port)
        answer = visitor.call(f"{server}__fine", text="hello")
        visitor.close()
        return str(answer["error"]["message"]) if "error" in answer else text_of(answer)

    with ThreadPoolExecutor(1) as own:  # Others may be used up, which is what this is about.
        return await asyncio.get_running_loop().run_in_executor(own, call)


def test_a_name_that_nobody_knows_is_named(tmp_path: Path, names: Names) -> None:
    async def scene() -> None:
        servers = {"far": {"url": "http://nowhere.test/mcp"}}
        async with in_process_gateway(tmp_path, servers) as at:
            message = await called(at, "far")
            assert message == (
                "Server 'far' is not running: the name nowhere.test cannot be resolved"
            )

    run_bounded(scene)


def test_a_name_that_comes_and_goes_is_tried_again(tmp_path: Path, names: Names) -> None:
    async def scene() -> None:
        with ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web:
            url = f"http://flaky.test:{urlsplit(web.url).port}/mcp"
            async with in_process_gateway(tmp_path, {"far": {"url": url}}) as at:
                server = at.gateway.servers["far"]
                assert "cannot be resolved" in await called(at, "far")
                await until(lambda: server.lists_ready)
                assert await called(at, "far") == "hello"

    run_bounded(scene)


def test_names_that_take_for_ever_hold_up_nobody_else(tmp_path: Path, names: Names) -> None:
    async def scene() -> None:
        with ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web:
            port = urlsplit(web.url).port
            hanging = {
                f"hanging{number}": {"url": f"http://hanging{number}.test:{port}/mcp"}
                for number in range(HANGING)
            }
            good = {"good": {"url": f"http://good.test:{port}/mcp"}}
            async with in_process_gateway(tmp_path, {**hanging, **good}) as at:
                slowest = asyncio.get_running_loop().create_task(slowest_turn())
                assert await called(at, "good") == "hello"
                for slug in hanging:
                    await until(lambda: at.gateway.servers[slug].last_error is not None)  # noqa: B023
                    reason = at.gateway.servers[slug].last_error
                    assert reason == "no connection within 5 s"
                assert await called(at, "good") == "hello"
                assert at.gateway.servers["good"].last_error is None
                slowest.cancel()
                assert await slowest < LAG_SECONDS_MAX
                names.over.set()

    run_bounded(scene)


async def slowest_turn() -> float:
    """How long the loop was away, at most, until it is cancelled."""
    loop, slowest = asyncio.get_running_loop(), 0.0
    try:
        while True:
            before = loop.time()
            await asyncio.sleep(0.01)
            slowest = max(slowest, loop.time() - before)
    except asyncio.CancelledError:
        return slowest


# TLS.


TOKEN: Final = f"token-{uuid4().hex}"


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The gateway's roots are those of these certificates, the expired one among them."""
    monkeypatch.setenv("SSL_CERT_FILE", str(trust_store(tmp_path)))
    return tmp_path


def secure(port: int, host: str = "127.0.0.1") -> dict[str, Any]:
    """A server behind TLS that is given a token."""
    return {
        "url": f"https://{host}:{port}/mcp",
        "headers": {"Authorization": f"Bearer {TOKEN}"},
        "timeout": 20,
    }


def wait_failed(there: HttpProbe, slug: str) -> str:
    """Why a server cannot be used."""
    eventually(lambda: bool(there.status()["backends"][slug]["last_error"]), "a reason")
    return str(there.status()["backends"][slug]["last_error"])


UNTRUSTED: Final = {
    "expired": (EXPIRED, "its certificate is not valid: certificate has expired"),
    "for another name": (OTHER, "its certificate is not valid: IP address mismatch"),
}


@pytest.mark.parametrize("why", UNTRUSTED)
def test_a_certificate_that_is_no_good_is_told_and_nothing_is_sent(
    serve: Serve, trusting: Path, why: str
) -> None:
    pair, words = UNTRUSTED[why]
    with (
        ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web,
        toxic_proxy(web.url, tls=speaking_tls(trusting, pair)) as link,
        serve({"far": secure(link.port)}) as there,
    ):
        there.secrets.append(TOKEN)
        assert wait_failed(there, "far").startswith(words)
        eventually(lambda: link.connections >= 3, "it is tried again")
        visitor = RawHttpClient(there.port)
        error = visitor.call("far__fine", text="x")["error"]
        visitor.close()
        assert words in error["message"]
    assert web.heard == []
    assert all(first in (TLS_RECORD, b"") for first in link.first_bytes)


def test_a_certificate_that_nobody_vouches_for_is_refused(serve: Serve, tmp_path: Path) -> None:
    with (
        ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web,
        toxic_proxy(web.url, tls=speaking_tls(tmp_path, GOOD)) as link,
        serve({"far": secure(link.port)}) as there,
    ):
        assert wait_failed(there, "far").startswith("its certificate is not valid: self")
    assert web.heard == []


def test_a_server_that_speaks_no_tls_is_not_spoken_to_without_it(
    serve: Serve, trusting: Path
) -> None:
    with (
        ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web,
        toxic_proxy(web.url) as link,
        serve({"far": secure(link.port)}) as there,
    ):
        there.secrets.append(TOKEN)
        # What it makes of the first words of TLS is for it to say, but it is no TLS.
        assert wait_failed(there, "far").startswith(("TLS failed: ", "no connection"))
        eventually(lambda: link.connections >= 3, "it is tried again")
    assert web.of("server/discover") == web.of("initialize") == []
    assert all(first in (TLS_RECORD, b"") for first in link.first_bytes)


def test_a_handshake_that_stalls_is_given_up_in_time(serve: Serve, trusting: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        serve({"far": secure(silent.getsockname()[1])}) as there,
    ):
        assert wait_failed(there, "far") == "no connection within 5 s"


def test_a_server_is_not_followed_out_of_tls(serve: Serve, trusting: Path) -> None:
    with ScriptedHttpServer(modern(fine(nothing_else), "fine")) as plain:

        def elsewhere(heard: ReceivedRequest, back: Reply) -> None:
            back.whole(307, Location=plain.url)

        with (
            ScriptedHttpServer(elsewhere) as web,
            toxic_proxy(web.url, tls=speaking_tls(trusting, GOOD)) as link,
            serve({"far": secure(link.port)}) as there,
        ):
            there.secrets.append(TOKEN)
            assert "a redirect (HTTP 307) that is not followed" in wait_failed(there, "far")
    assert plain.heard == []


@pytest.mark.parametrize("then", ["cut", "reset", "half"])
def test_tls_that_breaks_off_in_the_middle_costs_the_call_alone(
    serve: Serve, trusting: Path, then: str
) -> None:
    with (
        ScriptedHttpServer(modern(fine(nothing_else), "fine")) as web,
        toxic_proxy(web.url, tls=speaking_tls(trusting, GOOD)) as link,
        serve({"far": secure(link.port, "localhost")}) as there,
    ):
        there.secrets.append(TOKEN)
        visitor = RawHttpClient(there.port)
        assert text_of(visitor.call("far__fine", text="before")) == "before"
        for size in (1, 50, 120):
            link.poison = partial(Toxic, after_bytes=size, then=then)
            link.cut_all()
            message = visitor.call("far__fine", text="meanwhile")["error"]["message"]
            assert message.startswith("Server 'far' failed to answer: it closed the connection")
        link.poison = Toxic
        eventually(lambda: "result" in visitor.call("far__fine", text="after"), "all is well again")
        visitor.close()
        assert there.status()["backends"]["far"]["restarts"] == 0
    assert web.heard[-1].fields["authorization"] == f"Bearer {TOKEN}"
    assert all(first in (TLS_RECORD, b"") for first in link.first_bytes)
