"""Clients over HTTP that say exactly the bytes they are told to, one connection each.

They read what comes back no better than they must: nothing is retried, nothing followed.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from tests.harness import MODERN_META, WAIT_SECONDS, Message

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
MEDIA: Final = {"Content-Type": JSON, "Accept": f"{JSON}, {STREAM}"}
"""What a message to the gateway says of itself."""
REVISION: Final = "2025-11-25"
COMMENTS_SECONDS_MAX: Final = 4 * WAIT_SECONDS

Fields = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response, read to its end."""

    status: int
    fields: tuple[tuple[str, str], ...]
    """In order; names in lower case."""
    raw: bytes
    body: bytes

    def get(self, name: str) -> str | None:
        return next((value for field, value in self.fields if field == name), None)

    @property
    def messages(self) -> list[Message]:
        """What the body holds: one message, or those of an event stream."""
        if self.get("content-type") != STREAM:
            return [json.loads(self.body)]
        return list(in_events(self.body.splitlines()))

    @property
    def message(self) -> Message:
        """The last of them, which is the answer."""
        return self.messages[-1]


class Hangup(Exception):
    """The connection was closed before a response was whole."""


class RawConnection:
    """One connection."""

    def __init__(self, port: int, *, receive_bytes: int | None = None) -> None:
        """`receive_bytes` makes it a client that soon stops taking what is sent to it."""
        self.socket = socket.socket()
        self.socket.settimeout(WAIT_SECONDS)
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(("127.0.0.1", port))
        self._held = b""

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def ask(self, raw: bytes) -> Reply:
        """Send a request and read its response."""
        self.send(raw)
        return self.reply()

    def reply(self) -> Reply:
        """Read one response."""
        raw, status, fields = self.head()
        known = dict(fields)
        if "chunked" in known.get("transfer-encoding", ""):
            body = b"".join(self.pieces())
        else:
            body = self.take(int(known.get("content-length", "0")))
        return Reply(status=status, fields=fields, raw=raw + body, body=body)

    def head(self) -> tuple[bytes, int, tuple[tuple[str, str], ...]]:
        """Read the head of a response."""
        raw = self._until(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        fields = tuple(
            (line.split(":", 1)[0].lower(), line.split(":", 1)[1].strip()) for line in lines
        )
        return raw, int(first.split(" ", 2)[1]), fields

    def pieces(self) -> Iterator[bytes]:
        """The chunks of a body, as they come."""
        while size := int(self._until(b"\r\n"), 16):
            yield self.take(size + 2)[:-2]
        self._until(b"\r\n")

    def events(self) -> Iterator[Message]:
        """The messages of an event stream whose head has been read, as they come."""
        return in_events(self._lines())

    def arrived(self) -> bytes:
        """What has come and has not been read; waits for nothing."""
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            while portion := self.socket.recv(65536):
                self._held += portion
        self.socket.settimeout(WAIT_SECONDS)
        return self._held

    def wait_closed(self) -> bytes:
        """Wait until the other side hangs up; what it said before."""
        said = self._held
        with suppress(ConnectionResetError):
            while portion := self.socket.recv(65536):
                said += portion
        return said

    def close(self) -> None:
        self.socket.close()

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._held:
            self._receive()
        taken, _, self._held = self._held.partition(mark)
        return taken + mark

    def take(self, size: int) -> bytes:
        """Read so many bytes."""
        parts, missing = [self._held], size - len(self._held)
        while missing > 0:
            self._held = b""
            self._receive()
            parts.append(self._held)
            missing -= len(self._held)
        whole = b"".join(parts)
        self._held = whole[size:]
        return whole[:size]

    def _receive(self) -> None:
        portion = self.socket.recv(1 << 18)
        if not portion:
            raise Hangup(f"closed after {self._held[:200]!r}")
        self._held += portion


def in_events(lines: Any) -> Iterator[Message]:
    """The messages in the lines of an event stream; comments alone are not waited for for ever."""
    give_up_at = time.monotonic() + COMMENTS_SECONDS_MAX
    for line in lines:
        field, _, value = line.partition(b":")
        if field == b"data" and value.strip():
            yield json.loads(value)
            give_up_at = time.monotonic() + COMMENTS_SECONDS_MAX
        elif time.monotonic() > give_up_at:
            raise Hangup(f"nothing but comments for {COMMENTS_SECONDS_MAX} seconds")


def head(verb: str, path: str, fields: Fields) -> bytes:
    """The head of a request, with a good `Host` unless there is another one."""
    named = (
        fields
        if any(name.lower() == "host" for name in fields)
        else {"Host": "127.0.0.1", **fields}
    )
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{verb} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def post(message: Any, fields: Fields | None = None, path: str = "/mcp") -> bytes:
    """A whole request that carries a message."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    wanted = {**MEDIA, "Content-Length": str(len(body)), **(fields or {})}
    return head("POST", path, wanted) + body


def request(method: str, params: Message | None = None, id: Any = 1) -> Message:
    """A JSON-RPC request."""
    message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def tool_call(name: str, arguments: Message | None = None, id: Any = 1, **meta: Any) -> Message:
    """A call of a tool."""
    params: Message = {"name": name, "arguments": arguments or {}}
    return request("tools/call", {**params, "_meta": meta} if meta else params, id)


def hello(**capabilities: Any) -> Message:
    """The request that opens a session."""
    told = {"name": "test", "version": "1"}
    params = {"protocolVersion": REVISION, "capabilities": capabilities, "clientInfo": told}
    return request("initialize", params)


def modern(message: Message, fields: Fields | None = None, path: str = "/mcp") -> bytes:
    """A whole request of the modern era that carries a message."""
    params = message.get("params", {})
    whole = {**message, "params": {**params, "_meta": {**MODERN_META, **params.get("_meta", {})}}}
    said = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": message["method"]}
    name = params.get("name", params.get("uri"))
    if name is not None:
        said["Mcp-Name"] = name
    return post(whole, {**said, **(fields or {})}, path)


class RawHttpClient:
    """A client with a legacy session of its own, on one connection."""

    def __init__(self, port: int, fields: Fields | None = None, **capabilities: Any) -> None:
        self.port = port
        self.wire = RawConnection(port)
        self.ids = count(1)
        opened = self.wire.ask(post(hello(**capabilities), fields))
        assert opened.status == 200, opened
        self.session_id = opened.get("mcp-session-id") or ""
        assert self.session_id
        self.fields = {**(fields or {}), "Mcp-Session-Id": self.session_id}
        self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tell(self, message: Message) -> None:
        """Send what is not answered, on a connection of its own: this one may be busy."""
        with RawConnection(self.port) as wire:
            taken = wire.ask(post(message, self.fields))
        assert (taken.status, taken.body) == (202, b""), taken

    def call(self, name: str, **arguments: Any) -> Message:
        """Call a tool; its answer."""
        return self.send(tool_call(name, arguments, next(self.ids))).message

    def send(self, message: Any) -> Reply:
        return self.wire.ask(post(message, self.fields))

    def open_stream(self, **fields: str) -> RawConnection:
        """The stream of the session for what belongs to no request; its head has been read."""
        wire = RawConnection(self.port)
        wire.send(head("GET", "/mcp", {"Accept": STREAM, **self.fields, **fields}))
        status = wire.head()[1]
        assert status == 200, status
        return wire

    def reconnect(self) -> None:
        """Go on with the session on another connection."""
        self.wire.close()
        self.wire = RawConnection(self.port)

    def close(self) -> None:
        self.wire.close()

    def leave(self) -> None:
        """End the session, on a connection of its own: this one may have been closed as idle."""
        self.close()
        with RawConnection(self.port) as wire:
            assert wire.ask(head("DELETE", "/mcp", self.fields)).status == 200


def wait_for(condition: Any, wanted: str) -> None:
    """Wait for something that no message tells of."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at, f"never: {wanted}"
        time.sleep(0.02)


@contextmanager
def sending(wire: RawConnection, raw: bytes) -> Iterator[None]:
    """All the while these bytes are being sent, as far as they are taken."""

    def send() -> None:
        with suppress(OSError):
            wire.send(raw)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    yield
    sender.join(WAIT_SECONDS)
