"""A server on a local port that answers every request as the test says."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.harness import WAIT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request, as it came."""

    verb: str
    path: str
    fields: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to answer it with."""

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    """Pieces are sent as they come, and the connection is closed after them."""
    media: str = "application/json"
    fields: dict[str, str] = field(default_factory=dict)


def answer(asked: Asked, result: Any, **fields: str) -> Reply:
    """The result of a request."""
    message = {"jsonrpc": "2.0", "id": asked.body["id"], "result": result}
    return Reply(body=json.dumps(message).encode(), fields=fields)


def stream(*messages: dict[str, Any] | threading.Event) -> Reply:
    """Messages on an event stream, which ends after them; it pauses for what must happen first."""

    def pieces() -> Iterator[bytes]:
        yield b"id: 0\ndata:\n\n"
        for each in messages:
            if isinstance(each, threading.Event):
                assert each.wait(WAIT_SECONDS)
            else:
                yield f"data: {json.dumps(each)}\n\n".encode()

    return Reply(body=pieces(), media="text/event-stream")


@dataclass(slots=True)
class PlayedServer:
    """Where it is, and what it was asked."""

    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def played(play: Callable[[Asked], Reply]) -> Iterator[PlayedServer]:
    """A server for the time of a block."""

    class Playing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            fields = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(raw) if raw else None
            asked = Asked(verb=self.command, path=self.path, fields=fields, body=body)
            server.asked.append(asked)
            reply = play(asked)
            self.send_response(reply.status)
            self.send_header("content-type", reply.media)
            if isinstance(reply.body, bytes):
                self.send_header("content-length", str(len(reply.body)))
            else:
                self.send_header("connection", "close")
            for name, value in reply.fields.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            for piece in [reply.body] if isinstance(reply.body, bytes) else reply.body:
                self.wfile.write(piece)
                self.wfile.flush()

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody wants to know."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Playing)
    listening.daemon_threads = True
    server = PlayedServer(f"http://127.0.0.1:{listening.server_address[1]}")
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
