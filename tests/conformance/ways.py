"""The ways from the suite to the reference server, and from the reference client to the suite.

Each is a context that starts what is needed and ends it. It knows processes and ports; what the
suite asks, and what ought to pass, it does not.
"""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.conformance.suite import HOME, LEGACY_REVISIONS, REVISIONS
from tests.harness import WAIT_SECONDS, transparent, write_config
from tests.rig.toxic_proxy import deserted

REFERENCE: Final = Path(__file__).with_name("reference.py")

TRANSPORTS: Final[Mapping[str, str]] = {"streamable-http": "/mcp", "sse": "/sse"}
"""How a reference server is reached over the network, and the path it serves there."""


STOP_SECONDS_MAX: Final = 15
"""A server of the SDK may hold on to its open streams; it is not what is being tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way from the suite to a reference server."""

    sdk: str
    """Whose server: `sdk1` is legacy only, `sdk2` speaks both eras."""
    revisions: tuple[str, ...]
    """Those that the suite is run at."""
    transport: str = "streamable-http"
    extension: str = ""
    """What makes it a server of one era that asks like one of both; a module of `servers`."""
    direct: bool = False
    """Nothing between; this is what a gateway is measured by."""

    @contextmanager
    def url(self, folder: Path) -> Iterator[str]:
        """All that it takes, running; the URL for the suite to call."""
        with ExitStack() as stack:
            if self.transport == "stdio":
                server = reference_over_stdio(self)
            else:
                url = stack.enter_context(reference_server(self, folder))
                server = {"url": url}
            yield url if self.direct else stack.enter_context(gateway(server, folder))


WAYS: Final[Mapping[str, Way]] = MappingProxyType(
    {
        "direct": Way(sdk="sdk2", revisions=REVISIONS, direct=True),
        "http": Way(sdk="sdk2", revisions=REVISIONS),
        # Each session has a process of its own, which takes its time to start: fewer revisions.
        "stdio": Way(sdk="sdk2", revisions=REVISIONS[2:], transport="stdio"),
        # The older transport is of the legacy era only.
        "sse": Way(sdk="sdk2", revisions=LEGACY_REVISIONS, transport="sse"),
        "sdk1-direct": Way(sdk="sdk1", revisions=LEGACY_REVISIONS, direct=True),
        "sdk1-http": Way(sdk="sdk1", revisions=REVISIONS),
        "sdk1-stdio": Way(sdk="sdk1", revisions=LEGACY_REVISIONS[2:], transport="stdio"),
        "sdk1-sse": Way(sdk="sdk1", revisions=LEGACY_REVISIONS, transport="sse"),
        # Client and server of different eras: with nothing between, nothing at all would pass.
        "legacy-only": Way(sdk="sdk1", revisions=REVISIONS[3:], extension="legacy_only"),
        "modern-only": Way(sdk="sdk2", revisions=LEGACY_REVISIONS, extension="modern_only"),
    }
)


@contextmanager
def reference_server(way: Way, folder: Path) -> Iterator[str]:
    """The server at the end of a way, over the network; its URL."""
    with deserted() as port:
        url = f"http://127.0.0.1:{port}"
        with _running(_server(way, port), folder / "server.log", url):
            yield url + TRANSPORTS[way.transport]


def reference_over_stdio(way: Way) -> dict[str, Any]:
    """The same server as an entry of a configuration, for the gateway to start."""
    command, *args = _server(way, 0)
    return {"command": command, "args": args}


@contextmanager
def gateway(server: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """A gateway that shows one server as it is; the URL of its only profile."""
    config = write_config(folder / "gateway", {"ref": server}, profiles=transparent("ref"))
    state = folder / "gateway" / "state"
    with deserted() as port:
        url = f"http://127.0.0.1:{port}"
        argv = [
            sys.executable, "-m", "anyport", "serve", "--port", str(port),
            "--config", str(config), "--state-dir", str(state),
        ]  # fmt: skip
        with _running(argv, folder / "gateway.log", f"{url}/readyz"):
            yield f"{url}/mcp"


def read_complaints(folder: Path) -> list[str]:
    """What a gateway that kept its log in the folder said of faults of its own."""
    log = folder / "gateway.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return sorted({line for line in lines if "internal error" in line})


def reference_client() -> list[str]:
    """The command line of the reference client, up to the URL that it is to call."""
    script = HOME / "sources" / "sdk2" / ".github" / "actions" / "conformance" / "client.py"
    return [str(HOME / "sdk2" / "bin" / "python"), str(script)]


@contextmanager
def _running(argv: Sequence[str], log: Path, answers: str) -> Iterator[None]:
    """A process that serves a URL, for as long as the context lasts."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _wait_until_served(process, answers, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_served(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=WAIT_SECONDS):
                return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 503:  # It serves something, if not this.
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"nothing serves {url}\n{log.read_text(errors='replace')}")


def _server(way: Way, port: int) -> list[str]:
    place = HOME / "sources" / way.sdk / "examples" / "servers" / "everything-server"
    python = HOME / way.sdk / "bin" / "python"
    extensions = [way.extension] if way.extension else []
    return [str(python), str(REFERENCE), str(place), way.transport, str(port), *extensions]
