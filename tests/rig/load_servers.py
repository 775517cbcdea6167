"""Twelve servers of mixed kind and era behind one gateway, and how each is hurt and mended.

A server on a pipe is the gateway's own child; one over HTTP is ours, behind a link that can be
poisoned, and stays at the same address when it is killed and started again. What becomes of calls
meanwhile is not known here.
"""

import functools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.harness import DEMO, Message
from tests.real import rig as real
from tests.rig.probe import HOSTILE, eventually
from tests.rig.toxic_proxy import HEALTH, Toxic, ToxicProxy

ROOT: Final = Path(__file__).parents[2]
CALL_SECONDS: Final = 5
"""The timeout of each server: how long a call may wait for one that hangs."""
HOSTILE_WEB: Final = [sys.executable, "-m", "tests.rig.hostile_http_server"]

Check = Callable[[Message, str], bool]


def says(result: Message, nonce: str) -> bool:
    """Whether a result is the nonce."""
    text: str = result["content"][0]["text"]
    return text == nonce


def echoes(result: Message, nonce: str) -> bool:
    """Whether a result is the nonce, as the reference server puts it."""
    text: str = result["content"][0]["text"]
    return text == f"Echo: {nonce}"


def adds(result: Message, nonce: str) -> bool:
    """Whether a result is the sum that a nonce stands for."""
    text: str = result["content"][0]["text"]
    return float(text) == float(nonce.rpartition("-")[2])


@dataclass(kw_only=True)
class LoadServer:
    """One server: what the gateway is told of it, and how it is called."""

    slug: str
    entry: Any
    tool: str = "echo"
    argument: str = "text"
    is_right: Check = says
    traits: frozenset[str] = frozenset()
    """What it is and can be made to do: `pipe`, `web`, `demo`, `hostile`, `legacy`, …"""

    def arguments(self, nonce: str) -> Message:
        """Those of a call that is to be answered with the nonce."""
        if self.is_right is adds:
            return {"a": int(nonce.rpartition("-")[2]), "b": 0}
        return {self.argument: nonce}


@dataclass(kw_only=True)
class HttpLoadServer(LoadServer):
    """One over HTTP, which is ours to start."""

    argv: list[str] = field(default_factory=list)
    link: ToxicProxy
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and have the link lead to it; one that was there before is gone."""
        self.kill()
        quiet = subprocess.DEVNULL
        with tempfile.TemporaryFile() as said:
            out, err = (said, quiet) if "hostile" in self.traits else (quiet, said)
            self.process = subprocess.Popen(self.argv, cwd=ROOT, stdout=out, stderr=err)
            first = functools.partial(os.pread, said.fileno(), 1000, 0)
            eventually(lambda: b"\n" in first(), f"{self.slug} listens")
            self.link.lead_to(first().decode().split()[-1])

    def kill(self) -> None:
        """End it whatever it is doing."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Have it do nothing any more."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def poison(self, poison: Toxic) -> None:
        """What becomes of what it says, from now on and on all connections."""
        self.link.poison = lambda: poison
        self.link.cut_all()

    def cure(self) -> None:
        self.poison(HEALTH)


class LoadServers:
    """All of them."""

    def __init__(self, servers: list[LoadServer]) -> None:
        self.servers: Mapping[str, LoadServer] = {server.slug: server for server in servers}

    def of(self, *traits: str) -> list[LoadServer]:
        """Those with all of these traits."""
        return [server for server in self.servers.values() if server.traits >= set(traits)]

    def entries(self, canary: str) -> dict[str, Any]:
        """What the configuration says of them."""
        found: dict[str, Any] = {}
        for slug, server in self.servers.items():
            entry = server.entry
            if isinstance(entry, list):
                entry = {"command": entry[0], "args": entry[1:], "env": {"CANARY": canary}}
            found[slug] = {**entry, "timeout": CALL_SECONDS}
        return found


def on_pipes() -> list[LoadServer]:
    """Servers on pipes."""
    return [
        LoadServer(slug="steady", entry=DEMO, traits=frozenset({"steady"})),
        _pipe("pipe-modern", [*DEMO, "--modern-only"], "demo", "modern"),
        _pipe("pipe-legacy", [*DEMO, "--legacy-only"], "demo", "legacy"),
        _pipe("wild-modern", [*HOSTILE, "modern"], "hostile", "modern"),
        _pipe("wild-legacy", HOSTILE, "hostile", "legacy"),
        *_real(),
    ]


def _pipe(slug: str, argv: list[str], *traits: str) -> LoadServer:
    return LoadServer(slug=slug, entry=argv, traits=frozenset({"pipe", *traits}))


def _real() -> list[LoadServer]:
    """Two that others have written, where they are installed; else two more of ours."""
    if real.missing():
        return [_pipe("plain", DEMO, "demo"), _pipe("plainer", DEMO, "demo")]
    traits = frozenset({"pipe", "real"})
    return [
        LoadServer(
            slug="real-legacy",
            entry=real.server("everything"),
            argument="message",
            is_right=echoes,
            traits=traits,
        ),
        LoadServer(
            slug="real-modern",
            entry=real.server("modern_python"),
            tool="add",
            is_right=adds,
            traits=traits,
        ),
    ]


WEB: Final[Mapping[str, tuple[list[str], str, set[str]]]] = {
    "web-modern": ([*DEMO, "--http", "0", "--modern-only"], "/mcp", {"demo", "modern"}),
    "web-legacy": ([*DEMO, "--http", "0", "--legacy-only"], "/mcp", {"demo", "legacy"}),
    "web-older": ([*DEMO, "--http", "0", "--transport", "sse"], "/sse", {"demo", "older"}),
    "wild-web-modern": ([*HOSTILE_WEB, "modern"], "/mcp", {"hostile", "modern"}),
    "wild-web-legacy": ([*HOSTILE_WEB, "legacy"], "/mcp", {"hostile", "legacy"}),
}
"""Servers over HTTP: how they are started, where they are, and what they are."""


@contextmanager
def load_servers() -> Iterator[LoadServers]:
    """Twelve servers for the time of a block."""
    with ExitStack() as stack:
        servers = on_pipes()
        for slug, (argv, path, traits) in WEB.items():
            link = ToxicProxy(f"http://127.0.0.1:1{path}")
            stack.callback(link.close)
            entry: Message = {"url": link.url}
            if "older" in traits:
                entry["transport"] = "sse"
            server = HttpLoadServer(
                slug=slug,
                entry=entry,
                tool="fine" if "hostile" in traits else "echo",
                traits=frozenset({"web", *traits}),
                argv=argv,
                link=link,
            )
            stack.callback(server.kill)
            server.start()
            servers.append(server)
        yield LoadServers(servers)


def send_signal(pid: int, which: signal.Signals) -> bool:
    """Whether there was such a process."""
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        return False
    return True
