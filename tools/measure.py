"""Measures what the gateway itself costs on stdin and stdout, and prints it.

Three figures: CPU from the start of `anyport stdio` to its first answers, memory with one and
with twenty idle servers, and CPU for one call through the gateway against the same call made
directly. Ratios within one run are what counts; the absolute figures belong to the machine.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

CALLS: Final = 20_000
ROUNDS: Final = 5
WINDOW: Final = 64
"""Calls in flight at a time: fewer than a server may work on at once."""
TICKS: Final = os.sysconf("SC_CLK_TCK")

ECHO_SERVER: Final = r"""
import sys, json
out = sys.stdout.buffer
for line in sys.stdin.buffer:
    m = json.loads(line)
    if "id" not in m:
        continue
    r = {"content": [{"type": "text", "text": "hello"}]}
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
             "serverInfo": {"name": "echo", "version": "1"}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    elif m["method"] == "server/discover":
        out.write(b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"no"}}\n' % m["id"])
        out.flush()
        continue
    out.write(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}).encode() + b"\n")
    out.flush()
"""


class Pipe:
    """A process on pipes."""

    def __init__(self, argv: list[str]) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, *messages: dict[str, object]) -> dict[str, object]:
        """Send messages; the answer to the last."""
        assert self.process.stdin is not None and self.process.stdout is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            answer: dict[str, object] = json.loads(self.process.stdout.readline())
            if answer.get("id") == messages[-1].get("id"):
                return answer

    def pump(self, tool: str, calls: int) -> None:
        """Make calls, a window of them at a time."""
        assert self.process.stdin is not None and self.process.stdout is not None
        sent = 0
        while sent < calls:
            batch = min(WINDOW, calls - sent)
            lines = [
                b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":'
                b'{"name":"%b","arguments":{"text":"hello"}}}\n' % (1000 + sent + i, tool.encode())
                for i in range(batch)
            ]
            self.process.stdin.write(b"".join(lines))
            self.process.stdin.flush()
            for _ in range(batch):
                self.process.stdout.readline()
            sent += batch

    def cpu_seconds(self) -> float:
        """What this process alone has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_megabytes(self) -> float:
        """What this process alone holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


def initialize() -> dict[str, object]:
    """The first request of a legacy client."""
    return {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "measure", "version": "1"}},
    }  # fmt: skip


def gateway(folder: Path, servers: dict[str, list[str]]) -> Pipe:
    """A gateway with these servers."""
    config = folder / "anyport.json"
    entries = {name: {"command": argv[0], "args": argv[1:]} for name, argv in servers.items()}
    config.write_text(json.dumps({"gateway": {"listSeconds": 30}, "mcpServers": entries}))
    argv = [sys.executable, "-m", "anyport", "stdio", "--config", str(config)]
    return Pipe([*argv, "--state-dir", str(folder / "state")])


def measure_start(folder: Path, echo: list[str]) -> None:
    """CPU and wall time to the answers of `initialize` and of the first full list."""
    for name, last in (("initialize", None), ("full tools/list", "tools/list")):
        cpu, wall = [], []
        for _ in range(ROUNDS):
            pipe = gateway(folder, {"echo": echo})
            messages = [initialize()]
            if last is not None:
                messages.append({"jsonrpc": "2.0", "id": 2, "method": last})
            pipe.ask(*messages)
            cpu.append(pipe.cpu_seconds())
            wall.append(time.perf_counter() - pipe.began)
            pipe.close()
        print(f"start to {name}: {min(cpu):.2f} s CPU, {min(wall):.2f} s (best of {ROUNDS})")


def measure_memory(folder: Path, echo: list[str]) -> None:
    """The gateway's own memory with idle servers behind it."""
    for number in (1, 20):
        pipe = gateway(folder, {f"echo-{i}": echo for i in range(number)})
        pipe.ask(initialize(), {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        print(f"memory with {number} idle servers: {pipe.rss_megabytes():.1f} MB")
        pipe.close()


def measure_calls(folder: Path, echo: list[str]) -> None:
    """CPU of one call: the gateway's own, beside what the server spends when asked directly."""
    direct_us: list[float] = []
    gateway_us: list[float] = []
    for _ in range(ROUNDS):
        for pipe, tool, found in (
            (Pipe(echo), "echo", direct_us),
            (gateway(folder, {"echo": echo}), "echo__echo", gateway_us),
        ):
            pipe.ask(initialize(), {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
            before = pipe.cpu_seconds()
            pipe.pump(tool, CALLS)
            found.append((pipe.cpu_seconds() - before) / CALLS * 1e6)
            pipe.close()
    direct, through = min(direct_us), min(gateway_us)
    print(f"one call: the server directly {direct:.1f} µs CPU, the gateway {through:.1f} µs more")
    print(f"ratio gateway/server: {through / direct:.2f}")


def main() -> None:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "echo.py"
        script.write_text(ECHO_SERVER)
        echo = [sys.executable, str(script)]
        measure_start(folder, echo)
        measure_memory(folder, echo)
        measure_calls(folder, echo)


if __name__ == "__main__":
    main()
