"""A gateway as a process, spoken to in raw lines: what every journey starts from.

Waits are for conditions, with a generous bound: a test that hits the bound has failed, and how
long a machine takes never decides the outcome.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.rig.scale import scaled

WAIT_SECONDS: Final = scaled(60.0, full=900.0)
"""Far more than anything takes; only a hang reaches it."""

DEMO: Final = [sys.executable, str(Path(__file__).parent / "peers" / "demo" / "__main__.py")]
"""The demo server of tests/peers; its options are appended."""
LEGACY_DEMO: Final = [*DEMO, "--legacy-only"]
"""Where processes are counted: one process serves all sessions. A server of both eras gets a second
one with the first call of a session, which may come after the count."""
MODERN_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}

Message = dict[str, Any]


def put_down(process: subprocess.Popen[bytes], *threads: threading.Thread) -> None:
    """End a process whatever it is doing, then those who read from it, then its pipes."""
    if process.poll() is None:
        process.kill()
    process.wait(WAIT_SECONDS)
    for thread in threads:
        thread.join(WAIT_SECONDS)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()


class LineClient:
    """A child process on pipes; messages are JSON, one a line."""

    def __init__(self, argv: list[str], *, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        self.ids = count(1)
        self.seen: list[Message] = []
        """Every message, in the order of arrival."""
        self.lines: list[bytes] = []
        """The same as raw lines."""
        self.stderr = b""
        self._arrived: queue.Queue[bytes | None] = queue.Queue()
        self._taken = 0
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, message: Message | list[Any] | bytes) -> None:
        """Send one message, or raw bytes as they are."""
        raw = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        assert self.process.stdin is not None
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def request(self, method: str, params: Message | None = None, **extra: Any) -> Message:
        """Send a request and wait for its answer."""
        id = self.start(method, params, **extra)
        return self.answer(id)

    def start(self, method: str, params: Message | None = None, **extra: Any) -> Any:
        """Send a request; its id."""
        id = extra.pop("id", None) or f"r{next(self.ids)}"
        message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return id

    def answer(self, id: Any) -> Message:
        """Wait for the answer to a request."""
        return self.wait(
            lambda m: "method" not in m and m.get("id") == id and type(m.get("id")) is type(id)
        )

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        message: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def call(self, name: str, arguments: Message | None = None, **meta: Any) -> Message:
        """Call a tool and wait for the answer."""
        params: Message = {"name": name, "arguments": arguments or {}}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def initialize(
        self, revision: str = "2025-11-25", capabilities: Message | None = None
    ) -> Message:
        """The whole legacy handshake; the result of `initialize`."""
        answer = self.request(
            "initialize",
            {
                "protocolVersion": revision,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self.notify("notifications/initialized")
        result: Message = answer["result"]
        return result

    def modern(self, method: str, params: Message | None = None, **meta: Any) -> Message:
        """A modern request and its answer."""
        return self.request(method, {**(params or {}), "_meta": {**MODERN_META, **meta}})

    def wait(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message, seen already or yet to come, that is wanted."""
        for message in self.seen:
            if wanted(message):
                return message
        while True:
            message = self.next()
            if wanted(message):
                return message

    def wait_method(self, method: str) -> Message:
        """The first notification or request with this method."""
        return self.wait(lambda message: message.get("method") == method)

    def next(self) -> Message:
        """The next message that has not been seen."""
        raw = self._arrived.get(timeout=WAIT_SECONDS)
        if raw is None:
            self._arrived.put(None)
            raise EOFError(f"no more output; stderr: {self.stderr.decode(errors='replace')}")
        self.lines.append(raw)
        message: Message = json.loads(raw)
        self.seen.append(message)
        return message

    def finish(self) -> int:
        """Close stdin, read everything that still comes, and wait for the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            while True:
                self.next()
        except EOFError:
            pass
        return self.process.wait(WAIT_SECONDS)

    def kill(self) -> None:
        """End it whatever it is doing."""
        put_down(self.process, *self._threads)

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._arrived.put(line)
        self._arrived.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for chunk in iter(lambda: os.read(self.process.stderr.fileno(), 65536), b""):  # type: ignore[union-attr]
            self.stderr += chunk


def write_config(path: Path, servers: Mapping[str, Any], **rest: Any) -> Path:
    """An `anyport.json` with these servers; a list is a command line."""
    entries = {
        name: {"command": entry[0], "args": list(entry[1:])} if isinstance(entry, list) else entry
        for name, entry in servers.items()
    }
    path.mkdir(parents=True, exist_ok=True)
    file = path / "anyport.json"
    file.write_text(json.dumps({"mcpServers": entries, **rest}))
    return file


@contextmanager
def gateway(
    tmp_path: Path, servers: Mapping[str, Any] | None = None, **rest: Any
) -> Iterator[LineClient]:
    """A gateway on stdio with these servers (the demo by default); killed at the end.

    `rest` is the rest of the configuration: `profiles`, `gateway`.
    """
    config = write_config(tmp_path, servers or {"demo": DEMO}, **rest)
    state = tmp_path / "state"
    argv = [
        sys.executable, "-m", "anyport", "stdio",
        "--config", str(config), "--state-dir", str(state),
    ]  # fmt: skip
    client = LineClient(argv)
    try:
        yield client
    finally:
        client.kill()


def transparent(server: str) -> Message:
    """The profiles of a gateway that shows one server as it is."""
    return {
        "default": {
            "servers": [server],
            "prefix": "never",
            "gatewayTools": False,
            "errors": "verbatim",
        }
    }


def read_events(state: Path) -> list[Message]:
    """Every event of the journal, in order."""
    files = sorted((state / "events").glob("*/events.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
