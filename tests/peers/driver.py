"""Runs the demo server as a process and exchanges raw lines with it. Every message of the server is
checked against the official schema of the revision in use."""

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tests import schema
from tests.harness import DEMO

Json = dict[str, Any]

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
REVISIONS = (*LEGACY, MODERN)
SECONDS_MAX = 20  # Far more than any answer takes, so that a slow machine fails no test.
KEY = "io.modelcontextprotocol/"
EVERYTHING: Json = {"sampling": {}, "roots": {}, "elicitation": {"form": {}, "url": {}}}


class Demo:
    """One running demo server."""

    def __init__(
        self,
        *options: str,
        command: Sequence[str] = DEMO,
        env: dict[str, str] | None = None,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the rest, in __exit__.
        self._process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **(env or {})},
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ids = 100
        self._open: dict[str | int, tuple[str, str]] = {}
        self.revision = MODERN
        self.seen: list[Json] = []
        """What came while a test waited for something else."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()

    def handshake(self, revision: str = "2025-11-25", capabilities: Json | None = None) -> Json:
        self.revision = revision
        client = {"name": "test", "version": "0"}
        params = {
            "protocolVersion": revision,
            "capabilities": capabilities or {},
            "clientInfo": client,
        }
        result: Json = self.ask("initialize", params)["result"]
        assert result["protocolVersion"] == revision
        self.notify("notifications/initialized")
        return result

    def speak(self, revision: str, capabilities: Json | None = None) -> "Speaker":
        """A way of asking in that revision, after a handshake where it needs one."""
        if revision != MODERN:
            self.handshake(revision, capabilities)
            return self.ask
        return lambda method, params=None: self.ask_modern(method, params, capabilities)

    def ask(self, method: str, params: Json | None = None) -> Json:
        return self.answer_to(self.request(method, params))

    def ask_modern(
        self, method: str, params: Json | None = None, capabilities: Json | None = None, **meta: Any
    ) -> Json:
        return self.answer_to(self.request_modern(method, params, capabilities, **meta))

    def call(self, tool: str, **arguments: Any) -> Json:
        """Calls a tool in the session, and returns its result."""
        result: Json = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        return result

    def request(
        self, method: str, params: Json | None = None, *, revision: str | None = None
    ) -> int:
        self._ids += 1
        self._open[self._ids] = (revision or self.revision, method)
        body = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": self._ids, "method": method, **body})
        return self._ids

    def request_modern(
        self, method: str, params: Json | None = None, capabilities: Json | None = None, **meta: Any
    ) -> int:
        params = params or {}
        envelope = {
            f"{KEY}protocolVersion": MODERN,
            f"{KEY}clientCapabilities": capabilities or {},
            **params.get("_meta", {}),
            **{name if name == "progressToken" else KEY + name: v for name, v in meta.items()},
        }
        return self.request(method, {**params, "_meta": envelope}, revision=MODERN)

    def notify(self, method: str, params: Json | None = None) -> None:
        body = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "method": method, **body})

    def answer_to(self, identity: str | int) -> Json:
        return self.wait_for(lambda m: m.get("id") == identity and "method" not in m)

    def wait_for(self, fits: Callable[[Json], bool]) -> Json:
        """The first message that fits. The others are kept in `seen`."""
        for message in self.seen:
            if fits(message):
                self.seen.remove(message)
                return message
        while not fits(message := self.receive()):
            self.seen.append(message)
        return message

    def wait_for_method(self, method: str) -> Json:
        return self.wait_for(lambda m: m.get("method") == method)

    def receive(self) -> Json:
        line = self.receive_line()
        assert line is not None, f"the server ended: {self.stderr()}"
        message: Json = json.loads(line)
        self.check(message)
        return message

    def receive_line(self) -> bytes | None:
        """The next line; None at the end of output."""
        return self._lines.get(timeout=SECONDS_MAX)

    def check(self, message: Json) -> None:
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            revision = self.revision if schema.knows(self.revision, message) else MODERN
            if f"{KEY}subscriptionId" in message.get("params", {}).get("_meta", {}):
                revision = MODERN
            schema.check_sent(revision, message)
            return
        revision, method = self._open.pop(message.get("id", ""), (self.revision, ""))
        if "result" in message:
            schema.check_result(revision, method, message["result"])
        elif message.get("id", "") is not None:
            schema.check_error(revision, message)

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def finish(self) -> int:
        """Ends the input, takes what is still written, and returns the exit code."""
        self.end_input()
        while (line := self.receive_line()) is not None:
            message = json.loads(line)
            self.check(message)
            self.seen.append(message)
        return self.exit_code()

    def exit_code(self) -> int:
        return self._process.wait(SECONDS_MAX)

    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)


Speaker = Callable[..., Json]
