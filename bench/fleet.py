"""Everything that can stand between a client and a server in a run, and the servers.

A fleet starts each of them at most once, when it is first asked for, and ends them all. Servers
run on the core of the load, what is measured on a core of its own.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.prepare import BENCH, interpreter, stub, tool
from bench.processes import Running, cores, free_port, start

MANY_SERVERS: Final = 200
LISTED_SERVERS: Final = 20
LISTED_TOOLS: Final = 50
"""Of each of those servers: a thousand in all."""
LIST_SECONDS: Final = 30
"""How long a gateway may wait for a full list, so that no list here is a partial one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A process that listens, and where."""

    process: Running
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


class Fleet(ExitStack):
    """The processes of one comparison."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.load_core, self.target_core = cores()
        self._started: dict[str, Served] = {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Journals grow by hundreds of megabytes in a run.
        self.callback(shutil.rmtree, folder, ignore_errors=True)

    # Servers.

    def stub(self) -> Served:
        return self._once("stub", lambda port: _stub(port, 5, "fivetools"), core=self.load_core)

    def legacy_stub(self) -> Served:
        flags = "fivetools,legacy,session"
        return self._once("legacy-stub", lambda port: _stub(port, 5, flags), core=self.load_core)

    def listed_stub(self) -> Served:
        return self._once(
            "listed-stub", lambda port: _stub(port, LISTED_TOOLS, ""), core=self.load_core
        )

    def long_stub(self) -> Served:
        tools = LISTED_SERVERS * LISTED_TOOLS
        return self._once("long-stub", lambda port: _stub(port, tools, ""), core=self.load_core)

    def sdk_server(self) -> Served:
        argv = [interpreter("sdk2"), str(BENCH / "peers" / "sdk_server.py")]
        return self._once("sdk-server", lambda port: [*argv, str(port)], core=self.load_core)

    # Plain reverse proxies.

    def nginx(self) -> Served:
        return self._nginx("nginx", self.stub())

    def long_nginx(self) -> Served:
        return self._nginx("long-nginx", self.long_stub())

    # Gateways.

    def anyport(self) -> Served:
        return self._anyport("anyport", {"s0": {"url": self.stub().url}})

    def anyport_legacy(self) -> Served:
        return self._anyport("anyport-legacy", {"s0": {"url": self.legacy_stub().url}})

    def anyport_modern(self) -> Served:
        server = {"url": self.stub().url, "protocol": "modern"}
        return self._anyport("anyport-modern", {"s0": server})

    def anyport_stdio(self) -> Served:
        return self._anyport_stdio("anyport-stdio", "auto")

    def anyport_legacy_stdio(self) -> Served:
        return self._anyport_stdio("anyport-legacy-stdio", "legacy")

    def anyport_modern_stdio(self) -> Served:
        return self._anyport_stdio("anyport-modern-stdio", "modern")

    def _anyport_stdio(self, name: str, protocol: str) -> Served:
        server = {"command": stub("mcpstdio"), "args": ["5"], "protocol": protocol}
        return self._anyport(name, {"s0": server})

    def anyport_capturing(self, level: str, server: str) -> Served:
        reached = {"command": stub("mcpstdio"), "args": ["5"]}
        if server == "HTTP":
            reached = {"url": self.stub().url}
        return self._anyport(f"anyport-{level}-{server}", {"s0": reached | {"capture": level}})

    def anyport_listed(self) -> Served:
        url = self.listed_stub().url
        servers = {f"s{number}": {"url": f"{url}/{number}"} for number in range(LISTED_SERVERS)}
        return self._anyport("anyport-listed", servers)

    def anyport_many(self) -> Served:
        url = self.stub().url
        servers = {f"s{number}": {"url": f"{url}/{number}"} for number in range(MANY_SERVERS)}
        return self._anyport("anyport-many", servers)

    def anyport_sdk(self) -> Served:
        return self._anyport("anyport-sdk", {"s0": {"url": self.sdk_server().url}})

    # Peers.

    def mcp_proxy(self) -> Served:
        argv = [interpreter("mcp-proxy"), "-m", "mcp_proxy", "--log-level", "ERROR"]
        server = [stub("mcpstdio"), "5"]
        return self._once("mcp-proxy", lambda port: [*argv, "--port", str(port), "--", *server])

    def fastmcp_shared(self) -> Served:
        return self._fastmcp("shared")

    def fastmcp_default(self) -> Served:
        return self._fastmcp("default")

    def _fastmcp(self, sharing: str) -> Served:
        argv = [interpreter("fastmcp"), str(BENCH / "peers" / "fastmcp_proxy.py")]
        url = self.stub().url
        return self._once(f"fastmcp-{sharing}", lambda port: [*argv, str(port), url, sharing])

    def _anyport(self, name: str, servers: Mapping[str, Mapping[str, Any]]) -> Served:
        config, state = self.folder / f"{name}.json", self.folder / f"{name}.state"
        settings = {"gateway": {"listSeconds": LIST_SECONDS}, "mcpServers": servers}
        config.write_text(json.dumps(settings))
        argv = [sys.executable, "-m", "anyport", "serve", "--config", str(config)]
        argv += ["--state-dir", str(state), "--port"]
        return self._once(name, lambda port: [*argv, str(port)])

    def _nginx(self, name: str, behind: Served) -> Served:
        def argv(port: int) -> list[str]:
            text = (BENCH / "nginx.conf").read_text()
            server = f"127.0.0.1:{behind.port}"
            filled = {"FOLDER": self.folder, "NAME": name, "PORT": port, "SERVER": server}
            for mark, value in filled.items():
                text = text.replace(mark, str(value))
            config = self.folder / f"{name}.conf"
            config.write_text(text)
            return [tool("nginx"), "-e", str(self.folder / f"{name}.error.log"), "-c", str(config)]

        return self._once(name, argv)

    def _once(
        self, name: str, argv: Callable[[int], list[str]], *, core: int | None = None
    ) -> Served:
        if name not in self._started:
            port = free_port()
            where = self.target_core if core is None else core
            process = start(name, argv(port), core=where, folder=self.folder)
            self.callback(process.stop)
            process.wait_for_port(port)
            self._started[name] = Served(process=process, port=port)
        return self._started[name]


def _stub(port: int, tools: int, flags: str) -> list[str]:
    return [stub("mcpstub"), str(port), str(tools), flags]
