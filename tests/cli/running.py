"""`anyport serve` as a process of its own, spoken to over plain HTTP."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.harness import MODERN_META, WAIT_SECONDS

SERVE: Final = [sys.executable, "-m", "anyport", "serve"]
ACCEPT: Final = "application/json, text/event-stream"
_ids: Final = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A gateway that accepts connections."""

    process: subprocess.Popen[bytes]
    report: dict[str, Any]
    """What it said of itself."""
    connections: list[HTTPConnection] = field(default_factory=list)

    @property
    def url(self) -> str:
        return str(self.report["url"])

    def connect(self) -> HTTPConnection:
        """A connection of one's own, good for several requests."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=WAIT_SECONDS)
        self.connections.append(connection)
        return connection

    def get(self, path: str) -> tuple[int, Any]:
        """Status and document of a page."""
        connection = self.connect()
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def wait_draining(self) -> None:
        """Wait until it has heard that it is to stop."""
        wait_until(lambda: self.get("/readyz") == (503, {"status": "draining"}))

    def end(self) -> tuple[int, str]:
        """Wait for its end: exit code, and what it said to people."""
        assert self.process.stderr is not None
        told = self.process.stderr.read().decode()
        return self.process.wait(WAIT_SECONDS), told


class Session:
    """A legacy session on one connection."""

    def __init__(self, there: Running, **capabilities: Any) -> None:
        self.connection = there.connect()
        self.fields: dict[str, str] = {}
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        }
        response = self.post("initialize", hello)
        self.fields["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        response.read()
        self.tell({"method": "notifications/initialized"})

    def again(self, there: Running) -> "Session":
        """The same session on another connection, which is open already."""
        other = copy(self)
        other.connection = there.connect()
        other.connection.connect()
        return other

    def post(self, method: str, params: dict[str, Any]) -> HTTPResponse:
        """Send a request; the response as soon as its head is there."""
        return self.send({"id": next(_ids), "method": method, "params": params})

    def call(self, tool: str, **arguments: Any) -> HTTPResponse:
        """Call a tool, likewise; progress makes a stream of the answer."""
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
        return self.post("tools/call", params)

    def tell(self, message: dict[str, Any]) -> None:
        """Send what has no answer."""
        response = self.send(message)
        assert (response.status, response.read()) == (202, b"")

    def send(self, message: dict[str, Any]) -> HTTPResponse:
        body = json.dumps({"jsonrpc": "2.0", **message})
        fields = {"Content-Type": "application/json", "Accept": ACCEPT, **self.fields}
        self.connection.request("POST", "/mcp", body, fields)
        return self.connection.getresponse()


def modern(connection: HTTPConnection, method: str, **params: Any) -> HTTPResponse:
    """Send a modern request; the response as soon as its head is there."""
    message = {
        "jsonrpc": "2.0",
        "id": next(_ids),
        "method": method,
        "params": {**params, "_meta": MODERN_META},
    }
    fields = {
        "Content-Type": "application/json",
        "Accept": ACCEPT,
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    connection.request("POST", "/mcp", json.dumps(message), fields)
    return connection.getresponse()


def messages(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The messages of an event stream, as they come; of any other answer the one it is."""
    for line in response:
        field, _, value = line.partition(b":")
        if line.startswith(b"{"):
            yield json.loads(line)
        elif field == b"data" and value.strip():  # An empty one only gives its id.
            yield json.loads(value)


@contextmanager
def running(*argv: str, **environ: str) -> Iterator[Running]:
    """A gateway on a free port for the time of a block."""
    with subprocess.Popen(
        [*SERVE, "--port", "0", "--json", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environ},
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read().decode()
            there = Running(process=process, report=json.loads(line))
            try:
                yield there
            finally:
                for connection in there.connections:
                    connection.close()
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that will be true soon."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, "it never came to be"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
