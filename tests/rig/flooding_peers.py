"""Peers that send as much as they can, each in its own way: servers and clients.

`flooding_peers.py stdio KIND` and `flooding_peers.py http KIND` are servers with one tool, `flood`,
which begins the flood; the second prints its URL first. `flooding_peers.py client KIND PORT
CONNECTIONS TOKEN` is a client. `flooding_peers.py burn` only takes time. All go on until they are
killed. They need nothing but Python, and are nice: what is measured keeps its processor.
"""

import json
import os
import socket
import socketserver
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

BLOCK_BYTES = 256 * 1024
REVISION = "2025-11-25"
TOOLS = 5_000
"""In the lists of a server whose list changes all the time."""
BODY_BYTES = 4 * 1024 * 1024
"""The largest body that a client may send."""
CHANGED = {"method": "notifications/tools/list_changed"}
LOG = {"method": "notifications/message", "params": {"level": "info", "data": "and so on"}}
UPDATED = {"method": "notifications/resources/updated", "params": {"uri": "x:1"}}
CANCELLED = {"method": "notifications/cancelled", "params": {"requestId": "again"}}
COMPLETED = {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e"}}
PING = {"id": "again", "method": "ping"}
SAMPLING = {
    "id": "again",
    "method": "sampling/createMessage",
    "params": {"messages": [], "maxTokens": 1},
}


def frame(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


WIDE = {f"k{number}": 1 for number in range(15_000)}
"""Members of which nobody knows any: two hundred kilobytes."""


def repeated(piece: bytes) -> bytes:
    """A block of the same piece again and again."""
    return piece * max(1, BLOCK_BYTES // len(piece))


def progress(token: object, more: dict[str, Any] | None = None) -> bytes:
    """A report of a call."""
    params = {"progressToken": token, "progress": 1, **(more or {})}
    return frame({"method": "notifications/progress", "params": params})


# Servers on a pipe.

LINES: dict[str, Callable[[object, object], bytes]] = {
    "braces": lambda id, token: b"{\n",
    "words": lambda id, token: b"garbage\n",
    "empty-lines": lambda id, token: b"\n",
    "logs": lambda id, token: frame(LOG) + b"\n",
    "progress": lambda id, token: progress(token) + b"\n",
    "progress-wide": lambda id, token: progress(token, WIDE) + b"\n",
    "logs-wide": lambda id, token: (
        frame({**LOG, "params": {"level": "info", "data": WIDE}}) + b"\n"
    ),
    "strays": lambda id, token: frame({"id": 10**9, "result": {}}) + b"\n",
    "pings": lambda id, token: frame(PING) + b"\n",
    "questions": lambda id, token: frame(SAMPLING) + b"\n",
    "unknown": lambda id, token: frame({"method": "notifications/odd"}) + b"\n",
    "changes": lambda id, token: frame(CHANGED) + b"\n",
    "updates": lambda id, token: frame(UPDATED) + b"\n",
    "cancels": lambda id, token: frame(CANCELLED) + b"\n",
    "ends": lambda id, token: frame(COMPLETED) + b"\n",
    "batches": lambda id, token: b"[%b]\n" % b",".join([frame(PING)] * 2_000),
    "deep": lambda id, token: b"[" * 100_000 + b"\n",
    "large-logs": lambda id, token: (
        frame({**LOG, "params": {"level": "info", "data": "x" * 1_000_000}}) + b"\n"
    ),
}
"""What a server on a pipe writes; made with the id and the progress token of the call."""


STDERR = {
    "stderr": b"a line of a log that nobody reads\n",
    "stderr-short": b"x\n",
    "stderr-endless": b"no line ends here ",
}
"""What it writes to its standard error."""


def on_pipe(kind: str) -> None:
    """Serve on stdin and stdout."""
    tools = TOOLS if kind == "changes" else 0
    for line in sys.stdin.buffer:
        message = json.loads(line)
        result = answer(message, tools)
        if result is not None:
            write(1, frame({"id": message["id"], "result": result}) + b"\n")
        elif message.get("method") == "tools/call":
            threading.Thread(target=flood_pipe, args=(kind, message), daemon=True).start()
        elif "id" in message and "method" in message:
            error = {"code": -32601, "message": "Method not found"}
            write(1, frame({"id": message["id"], "error": error}) + b"\n")


def flood_pipe(kind: str, message: dict[str, Any]) -> None:
    """Write without end."""
    token = message["params"].get("_meta", {}).get("progressToken")
    if kind in STDERR:
        block, fd = repeated(STDERR[kind]), 2
    else:
        block, fd = repeated(LINES[kind](message["id"], token)), 1
    if kind == "changes":
        block = LINES[kind](0, 0) * 10  # The lists are what costs.
    while True:
        write(fd, block)


LISTED = [0]


def answer(message: dict[str, Any], tools: int = 0) -> dict[str, Any] | None:
    """What an ordinary server would answer."""
    if message.get("method") == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "flood", "version": "1"},
        }
    if message.get("method") == "tools/list":
        LISTED[0] += 1
        named = ["flood", *(f"tool-{number}-{LISTED[0]}" for number in range(tools))]
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in named]}
    if message.get("method") in ("logging/setLevel", "ping"):
        return {}
    return None


# Servers over HTTP.


def event(data: bytes) -> bytes:
    """An event of a stream."""
    return b"event: message\ndata: %b\n\n" % data


def chunk(piece: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


EVENTS: dict[str, Callable[[object], bytes]] = {
    "logs": lambda token: chunk(repeated(event(frame(LOG)))),
    "logs-apart": lambda token: repeated(chunk(event(frame(LOG)))),
    "junk": lambda token: chunk(repeated(b"data: {\n\n")),
    "junk-mixed": lambda token: chunk(repeated(b"id: 1\nevent: odd\ndata: {\n\ndata: {\r\n\r\n")),
    "no-data": lambda token: chunk(repeated(b"id: 1\n\n")),
    "comments": lambda token: chunk(repeated(b":\n\n")),
    "many-lines": lambda token: chunk(b"data:\n" * 40_000 + b"\n"),
    "progress": lambda token: chunk(repeated(event(progress(token)))),
    "progress-wide": lambda token: chunk(event(progress(token, WIDE))),
    "small-chunks": lambda token: repeated(chunk(b":")),
    "chunk-extensions": lambda token: repeated(b"1;a=b\r\n:\r\n"),
    "strays": lambda token: chunk(repeated(event(frame({"id": 10**9, "result": {}})))),
    "pings": lambda token: chunk(repeated(event(frame(PING)))),
    "large-logs": lambda token: chunk(
        event(frame({**LOG, "params": {"level": "info", "data": "x" * 1_000_000}}))
    ),
    "changes": lambda token: chunk(event(frame(CHANGED))) * 10,
    "updates": lambda token: chunk(repeated(event(frame(UPDATED)))),
}
"""What comes on the stream of a call; made with its progress token."""

STREAMS = (*EVENTS, "standing", "squeezed", "older")
"""Those, one that floods the stream of no call, one that compresses what it says, and one that
floods the only stream of HTTP+SSE."""

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


class FloodHandler(socketserver.StreamRequestHandler):
    """One connection."""

    kind = ""

    def handle(self) -> None:
        while request := self.read():
            verb, message = request
            self.serve(verb, message)

    def read(self) -> tuple[str, dict[str, Any]] | None:
        lines = []
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            lines.append(line)
        if not line:
            return None
        length = next(
            (int(x.split(b":")[1]) for x in lines if x.lower().startswith(b"content-length")), 0
        )
        body = self.rfile.read(length)
        return lines[0].split(b" ")[0].decode(), json.loads(body) if body else {}

    def serve(self, verb: str, message: dict[str, Any]) -> None:
        result = answer(message, TOOLS if self.kind == "changes" else 0)
        if verb != "POST":
            if verb == "GET" and self.kind == "standing":
                self.wfile.write(STREAM + b"\r\n")
                BEGUN.wait()
                self.flood(EVENTS["logs"](None))
            if verb == "GET" and self.kind == "older":
                self.wfile.write(STREAM + b"\r\n" + chunk(b"event: endpoint\ndata: /mcp?s\n\n"))
                STANDING.append(self.wfile)
                threading.Event().wait()
            self.wfile.write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
        elif self.kind == "older" and not STANDING:
            self.reply(405, b"")
        elif self.kind == "older":
            self.reply(202, b"")
            self.serve_older(message, result)
        elif result is not None:
            self.reply(200, frame({"id": message["id"], "result": result}))
        elif message.get("method") == "tools/call":
            self.call(message)
        elif "id" in message and "method" in message:
            error = {"code": -32601, "message": "Method not found"}
            self.reply(200, frame({"id": message["id"], "error": error}))
        else:
            self.reply(202, b"")

    def serve_older(self, message: dict[str, Any], result: dict[str, Any] | None) -> None:
        """Answer on the stream that was opened first."""
        if result is not None:
            STANDING[-1].write(chunk(event(frame({"id": message["id"], "result": result}))))
        elif message.get("method") == "tools/call":
            while True:
                STANDING[-1].write(EVENTS["logs"](None))
        elif "id" in message and "method" in message:
            error = {"code": -32601, "message": "Method not found"}
            STANDING[-1].write(chunk(event(frame({"id": message["id"], "error": error}))))

    def reply(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.wfile.write(head % (status, len(body)) + body)

    def call(self, message: dict[str, Any]) -> None:
        token = message["params"].get("_meta", {}).get("progressToken")
        if self.kind == "standing":
            BEGUN.set()
            threading.Event().wait()
        if self.kind == "squeezed":
            self.wfile.write(STREAM + b"Content-Encoding: gzip\r\n\r\n")
            for piece in squeezed(event(frame(LOG))):
                self.wfile.write(chunk(piece))
        self.wfile.write(STREAM + b"\r\n")
        self.flood(EVENTS[self.kind](token))

    def flood(self, block: bytes) -> None:
        while True:
            self.wfile.write(block)


BEGUN = threading.Event()
STANDING: list[Any] = []
"""The stream of a server over HTTP+SSE."""


def squeezed(piece: bytes) -> Iterator[bytes]:
    """The same piece without end, compressed as far as it can be."""
    squeezer = zlib.compressobj(9, wbits=31)
    block = piece * 50_000
    while True:
        yield squeezer.compress(block) + squeezer.flush(zlib.Z_SYNC_FLUSH)


class FloodServer(socketserver.ThreadingTCPServer):
    """Serves every connection in a thread."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up is not served any longer."""


def over_http(kind: str) -> None:
    """Serve at a free port."""
    FloodHandler.kind = kind
    with FloodServer(("127.0.0.1", 0), FloodHandler) as server:
        write(1, f"http://127.0.0.1:{server.server_address[1]}/mcp\n".encode())
        server.serve_forever()


# Clients.


def post(body: bytes, extra: str = "", token: str = "") -> bytes:
    """A whole request."""
    return posting(f"Content-Length: {len(body)}\r\n{extra}", token) + body


def posting(fields: str, token: str = "", path: str = "/mcp") -> bytes:
    """The head of a request that carries a message."""
    told = f"Authorization: Bearer {token}\r\n" if token else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\n{told}{fields}\r\n"
    ).encode()


CLIENTS = (
    "small-chunks",
    "small-chunks-stranger",
    "chunk-extensions",
    "stranger-posts",
    "stranger-bodies",
    "pings",
    "notes",
    "large-bodies",
    "many-values",
    "not-json",
    "large-not-json",
    "batches",
    "heads",
    "pages",
    "events-tool",
    "metrics",
    "lists",
    "infos",
    "connections",
    "requests-apart",
    "calls",
    "full-batches",
    "list-batches",
    "unknown-batches",
    "wide-calls",
    "wide-params",
    "wide-meta",
    "spaced-meta",
    "squeezed",
)
"""What a client may flood with."""

PATIENT = (
    *("list-batches", "unknown-batches"),
    *("wide-calls", "wide-params", "wide-meta", "spaced-meta"),
)
"""Those who wait for each answer: nothing of theirs ever has to queue behind their own."""

NAMELESS = ("large-bodies", "list-batches", "wide-calls", "wide-params", "spaced-meta", "calls")
"""The same where it has no token, and is not told from its neighbors."""


CALL = {
    "id": 1,
    "method": "tools/call",
    "params": {"name": "own__echo", "arguments": {"text": "again"}},
}


EVENTS_CALL = {
    "id": 1,
    "method": "tools/call",
    "params": {"name": "get_events", "arguments": {"limit": 1_000, "filter": "type:*"}},
}


def bodies(kind: str, token: str) -> tuple[bytes, bytes]:
    """What a client sends first on each connection, and what it sends again and again."""
    chunked = "Transfer-Encoding: chunked\r\n"
    ping = frame({"id": 1, "method": "ping"})
    filler = frame({"id": 1, "method": "ping", "params": {"x": "y" * (BODY_BYTES - 200)}})
    deep = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[%b]}}'
    many = b",".join([b"0"] * 400_000)
    small = zlib.compress(b" " * BODY_BYTES)
    fields = "".join(f"X-{number}: {'v' * 250}\r\n" for number in range(90))

    def called(arguments: dict[str, Any], meta: dict[str, Any]) -> bytes:
        params = {"name": "own__echo", "arguments": arguments, "_meta": meta}
        return frame({"id": 1, "method": "tools/call", "params": params})

    def batch(method: str, params: dict[str, Any]) -> bytes:
        requests = [frame({"id": id, "method": method, "params": params}) for id in range(100)]
        return post(b"[%b]" % b",".join(requests), token=token)

    narrow = {f"k{number}": 1 for number in range(1_000)}
    return {
        "small-chunks": (posting(chunked, token), repeated(chunk(b" "))),
        "small-chunks-stranger": (posting(chunked, "wrong"), repeated(chunk(b" "))),
        "chunk-extensions": (posting(chunked, token), repeated(b"1;a=b\r\n \r\n")),
        "stranger-posts": (b"", repeated(post(ping, token="wrong"))),
        "stranger-bodies": (b"", post(b" " * BODY_BYTES, token="wrong")),
        "pings": (b"", repeated(post(ping, token=token))),
        "notes": (b"", repeated(post(frame({"method": "notifications/odd"}), token=token))),
        "large-bodies": (b"", post(filler, token=token)),
        "many-values": (b"", post(deep % many, token=token)),
        "not-json": (b"", repeated(post(b"{", token=token))),
        "large-not-json": (b"", post(b"[" * 1_000_000, token=token)),
        "batches": (b"", post(b"[" + b",".join([ping] * 1_000) + b"]", token=token)),
        "heads": (b"", repeated(posting(fields, token))),
        "pages": (b"", repeated(get("/api/v1/events?limit=1000", token))),
        "events-tool": (b"", repeated(post(frame(EVENTS_CALL), token=token))),
        "metrics": (b"", repeated(get("/metrics", token))),
        "lists": (b"", repeated(post(frame({"id": 1, "method": "tools/list"}), token=token))),
        "infos": (b"", repeated(get("/mcp/default/info", token))),
        "calls": (b"", repeated(post(frame(CALL), token=token))),
        "full-batches": (b"", repeated(post(b"[" + b",".join([ping] * 100) + b"]", token=token))),
        "list-batches": (b"", batch("tools/list", {})),
        "unknown-batches": (b"", batch("tools/call", {"name": "nothing"})),
        "wide-calls": (b"", post(called(WIDE, {}), token=token)),
        "wide-params": (b"", post(frame({"id": 1, "method": "ping", "params": WIDE}), token=token)),
        "wide-meta": (b"", post(called({}, WIDE), token=token)),
        "spaced-meta": (b"", post(called({}, {**narrow, "x": "\n"}), token=token)),
        "squeezed": (b"", repeated(post(small, "Content-Encoding: deflate\r\n", token))),
        "connections": (b"", b""),
        "requests-apart": (b"", get("/healthz", token)),
    }[kind]  # fmt: skip


def get(path: str, token: str) -> bytes:
    """A request for a page."""
    told = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{told}\r\n".encode()


def client(kind: str, port: int, connections: int, token: str) -> None:
    """Flood a gateway over some connections at once."""
    first, again = bodies(kind, token)
    for _ in range(connections):
        if kind in PATIENT:
            threading.Thread(target=ask, args=(port, again), daemon=True).start()
        else:
            threading.Thread(target=visit, args=(port, first, again), daemon=True).start()
    write(1, b"begun\n")
    threading.Event().wait()


def visit(port: int, first: bytes, again: bytes) -> None:
    """Send on one connection after the other, each until it is closed."""
    while True:
        with socket.socket() as wire:
            try:
                wire.connect(("127.0.0.1", port))
                threading.Thread(target=swallow, args=(wire,), daemon=True).start()
                wire.sendall(first)
                while again:
                    wire.sendall(again)
            except OSError:
                continue


def ask(port: int, request: bytes) -> None:
    """The same, each request when the one before was answered."""
    while True:
        with socket.socket() as wire, wire.makefile("rb") as replies:
            try:
                wire.connect(("127.0.0.1", port))
                wire.sendall(request)
                while replied(replies):
                    wire.sendall(request)
            except OSError:
                continue


def replied(replies: Any) -> bool:
    """Read one response, if there is one."""
    length = 0
    while (line := replies.readline()) not in (b"\r\n", b""):
        if line.startswith(b"Content-Length:"):
            length = int(line.split(b":")[1])
    return line != b"" and len(replies.read(length)) == length


def swallow(wire: socket.socket) -> None:
    """Read whatever comes."""
    try:
        while wire.recv(1 << 18):
            pass
    except OSError:
        return


WRITING = threading.Lock()


def burn() -> None:
    """Flood nobody, and take as much of the processor as the others."""
    write(1, b"begun\n")
    while True:
        pass


def write(fd: int, raw: bytes) -> None:
    """Write all of it, and nothing else amid."""
    view = memoryview(raw)
    with WRITING:
        while view:
            view = view[os.write(fd, view) :]


if __name__ == "__main__":
    os.nice(10)
    where, what, *rest = *sys.argv[1:], ""
    try:
        if where == "stdio":
            on_pipe(what)
        elif where == "http":
            over_http(what)
        elif where == "burn":
            burn()
        else:
            client(what, int(rest[0]), int(rest[1]), rest[2])
    except BrokenPipeError:
        os._exit(0)
