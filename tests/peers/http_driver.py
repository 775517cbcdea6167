"""Runs the demo server over HTTP and sends it raw requests, each on a connection of its own. Every
message of the server is checked against the official schema of the revision in use."""

import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests import schema
from tests.harness import DEMO
from tests.peers.driver import KEY, MODERN, SECONDS_MAX, Json

ACCEPT = "application/json, text/event-stream"
INITIALIZE: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}


NAMED_BY = {
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


class HttpDemo:
    """One running demo server."""

    def __init__(self, *options: str, command: Sequence[str] = DEMO) -> None:
        self._process = subprocess.Popen(
            [*command, "--http", "0", *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        self.ready = self._process.stderr.readline()
        found = re.fullmatch(
            r"anyport-demo listening on http://127\.0\.0\.1:(\d+)/(mcp|sse)\n", self.ready
        )
        assert found is not None, self.ready
        self.port = int(found[1])
        self._responses: list[Response] = []
        """Open till the end, unless a test hangs up."""
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for response in self._responses:
            response.close()
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def exit_code(self) -> int:
        return self._process.wait(SECONDS_MAX)

    def stderr(self) -> str:
        """All that it has written so far, behind the first line."""
        return "".join(self._said)

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> "Response":
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, text, headers or {})
        response = Response(connection, connection.getresponse())
        self._responses.append(response)
        return response

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS_MAX)

    def raw(self, request: bytes) -> bytes:
        """Sends bytes as they are, and takes all that comes until the server hangs up."""
        with self.open() as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def wait_stderr(self, text: str) -> None:
        eventually(lambda: text in self.stderr(), f"{text!r} on stderr")

    def post(self, body: Any, headers: dict[str, str] | None = None) -> "Response":
        kind = {"Content-Type": "application/json", "Accept": ACCEPT}
        return self.send("POST", "/mcp", body, kind | (headers or {}))

    def ask_modern(
        self, method: str, params: Json | None = None, headers: Json | None = None, **meta: Any
    ) -> "Response":
        """Posts a request whose headers say what the body says, save for those given here."""
        message = modern(method, params, **meta)
        asked = message["params"]
        fitting: Json = {
            "MCP-Protocol-Version": asked["_meta"].get(f"{KEY}protocolVersion"),
            "Mcp-Method": method,
            "Mcp-Name": asked.get(NAMED_BY.get(method, "name")),
            **(headers or {}),
        }
        named = {name: value for name, value in fitting.items() if value is not None}
        return self.post(message, named)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)


@dataclass(frozen=True, kw_only=True)
class Event:
    data: str
    id: str | None = None
    event: str | None = None
    retry: str | None = None

    @property
    def message(self) -> Any:
        return json.loads(self.data)


class Response:
    """What came back: whole, or event by event."""

    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = response.headers

    @property
    def kind(self) -> str | None:
        return self.headers["Content-Type"]

    def text(self) -> str:
        with self.closed_behind():
            return self._response.read().decode()

    def message(self) -> Any:
        """The one message, whether it came as JSON or at the end of a stream."""
        if self.kind == "text/event-stream":
            return self.events()[-1].message
        return json.loads(self.text())

    def events(self) -> list[Event]:
        """All that come until the end of the response."""
        with self.closed_behind():
            return list(iter(self.event, None))

    def messages(self) -> list[Any]:
        return [event.message for event in self.events() if event.data]

    def event(self) -> Event | None:
        """The next event; None at the end of the response."""
        fields: dict[str, str] = {}
        while line := self._response.readline().decode():
            name, _, value = line.removesuffix("\n").partition(": ")
            if line == "\n" and fields:
                return Event(**{"data": "", **fields})
            if line == "data:\n":
                fields["data"] = ""
            elif line != "\n" and not line.startswith(":"):
                fields[name] = value
        assert not fields, "the response ended within an event"
        return None

    def wait_method(self, method: str) -> Json:
        """The next message with that method; what comes before it is dropped."""
        while (event := self.event()) is not None:
            if event.data and event.message.get("method") == method:
                message: Json = event.message
                return message
        raise AssertionError(f"the stream ended without {method}")

    def close(self) -> None:
        """Hangs up."""
        self._response.close()
        self._connection.close()

    @contextmanager
    def closed_behind(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.close()


class Session:
    """A session over Streamable HTTP."""

    def __init__(
        self, demo: HttpDemo, revision: str = "2025-11-25", capabilities: Json | None = None
    ) -> None:
        self.demo = demo
        self.revision = revision
        self._ids = 0
        params = {
            **INITIALIZE,
            "protocolVersion": revision,
            "capabilities": capabilities or {},
        }
        self.headers: dict[str, str] = {}
        response = self.request("initialize", params)
        self.headers = {
            "Mcp-Session-Id": response.headers["Mcp-Session-Id"],
            "MCP-Protocol-Version": revision,
        }
        assert response.message()["result"]["protocolVersion"] == revision
        assert self.notify("notifications/initialized").status == 202

    def post(self, body: Any) -> Response:
        return self.demo.post(body, self.headers)

    def get(self, after: str | None = None) -> Response:
        seen = {} if after is None else {"Last-Event-ID": after}
        return self.demo.send(
            "GET", "/mcp", headers={**self.headers, "Accept": "text/event-stream", **seen}
        )

    def delete(self) -> Response:
        return self.demo.send("DELETE", "/mcp", headers=self.headers)

    def request(self, method: str, params: Json | None = None) -> Response:
        self._ids += 1
        return self.post(legacy(self._ids, method, params))

    def notify(self, method: str, params: Json | None = None) -> Response:
        body = {} if params is None else {"params": params}
        response = self.post({"jsonrpc": "2.0", "method": method, **body})
        response.close()
        return response

    def reply(self, identity: Any, result: Json) -> Response:
        response = self.post({"jsonrpc": "2.0", "id": identity, "result": result})
        response.close()
        return response

    def call(self, tool: str, **arguments: Any) -> Response:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def result(self, method: str, params: Json | None = None) -> Json:
        """The result of a request, checked."""
        result: Json = self.request(method, params).message()["result"]
        schema.check_result(self.revision, method, result)
        return result


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def legacy(identity: str | int, method: str, params: Json | None = None) -> Json:
    body = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "id": identity, "method": method, **body}


def modern(method: str, params: Json | None = None, **meta: Any) -> Json:
    """A modern request; a member of the envelope that is None is left out."""
    envelope: Json = {
        f"{KEY}protocolVersion": MODERN,
        f"{KEY}clientCapabilities": {},
        **{name if name == "progressToken" else KEY + name: v for name, v in meta.items()},
    }
    said = {name: value for name, value in envelope.items() if value is not None}
    return legacy("m", method, {**(params or {}), "_meta": said})
