"""A web server in threads, behind the gateway: a script decides what every request gets.

It keeps every request as it came, so that a test can tell what the gateway sends.
"""

import json
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.harness import WAIT_SECONDS, Message
from tests.journeys.scripts import eventually

MODERN: Final = "2026-07-28"
REASONS: Final = {200: "OK", 202: "Accepted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """One request as it came."""

    verb: str
    target: str
    raw: bytes
    """The head, byte for byte."""
    lines: list[tuple[str, str]]
    """The header fields, names in lower case."""
    body: bytes

    @property
    def message(self) -> Message:
        message: Message = json.loads(self.body) if self.body else {}
        return message

    @property
    def method(self) -> str | None:
        return self.message.get("method")

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def fields(self) -> dict[str, str]:
        assert len(dict(self.lines)) == len(self.lines), "a field stands twice"
        return dict(self.lines)


class Reply:
    """Writes to whoever asked."""

    def __init__(self, connection: socketserver.StreamRequestHandler) -> None:
        self._connection = connection

    def send(self, raw: bytes) -> None:
        self._connection.wfile.write(raw)

    def whole(self, status: int, body: bytes = b"", kind: str = "", **fields: str) -> None:
        """A response with a length."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'x')}", f"Content-Length: {len(body)}"]
        if body:
            lines.append(f"Content-Type: {kind or 'application/json'}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def json(self, message: Message, status: int = 200, **fields: str) -> None:
        self.whole(status, json.dumps({"jsonrpc": "2.0", **message}).encode(), **fields)

    def result(self, heard: ReceivedRequest, result: Any, status: int = 200, **fields: str) -> None:
        self.json({"id": heard.id, "result": result}, status, **fields)

    def error(self, heard: ReceivedRequest, code: int, message: str, status: int = 200) -> None:
        self.json({"id": heard.id, "error": {"code": code, "message": message}}, status)

    def stream(self) -> None:
        """The head of an event stream."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        self.send(head + b"Transfer-Encoding: chunked\r\n\r\n")

    def event(self, message: Message, id: str | None = None) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message})
        raw = ((f"id: {id}\n" if id else "") + f"data: {data}\n\n").encode()
        self.send(b"%x\r\n%b\r\n" % (len(raw), raw))

    def end(self) -> None:
        """The end of a stream in good order."""
        self.send(b"0\r\n\r\n")

    def wait_gone(self) -> None:
        """Wait until the other side hangs up."""
        assert self._connection.rfile.read(1) == b"", "more came on the connection"


Script = Callable[[ReceivedRequest, Reply], None]


class Listener(socketserver.ThreadingTCPServer):
    """Does not turn away those who come together, and waits for nobody at the end."""

    request_queue_size = 128
    daemon_threads = True
    block_on_close = False


class ScriptedHttpServer:
    """Listens on a free port for as long as a block lasts."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.heard: list[ReceivedRequest] = []
        self.faults: list[BaseException] = []
        web = self

        class Connection(socketserver.StreamRequestHandler):
            timeout = WAIT_SECONDS

            def handle(self) -> None:
                while (heard := read(self)) is not None:
                    web.heard.append(heard)
                    try:
                        web.script(heard, Reply(self))
                    except ConnectionError:
                        return
                    except Exception as error:
                        web.faults.append(error)
                        raise

        self._server = Listener(("127.0.0.1", 0), Connection)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def __enter__(self) -> "ScriptedHttpServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        assert not self.faults

    def of(self, method: str) -> list[ReceivedRequest]:
        """The requests with this method."""
        return [heard for heard in list(self.heard) if heard.method == method]

    def wait_of(self, method: str, count: int = 1) -> ReceivedRequest:
        """The request that makes it this many with the method."""
        eventually(lambda: len(self.of(method)) >= count, f"{count} x {method}")
        return self.of(method)[count - 1]


def read(connection: socketserver.StreamRequestHandler) -> ReceivedRequest | None:
    """The next request on a connection; None when the other side hangs up."""
    lines: list[bytes] = []
    try:
        while (line := connection.rfile.readline()) not in (b"\r\n", b""):
            lines.append(line)
    except ConnectionError:
        return None
    if not line:
        return None
    verb, target, _ = lines[0].decode("latin-1").split(" ")
    pairs = [line.decode("latin-1").rstrip("\r\n").partition(": ") for line in lines[1:]]
    fields = [(name.lower(), value) for name, _, value in pairs]
    body = connection.rfile.read(int(dict(fields).get("content-length", "0")))
    return ReceivedRequest(verb=verb, target=target, raw=b"".join(lines), lines=fields, body=body)


def modern(call: Script, *offers: Any, capabilities: Message | None = None) -> Script:
    """A modern server with these tools; `call` answers what is neither discovery nor the list."""

    def script(heard: ReceivedRequest, back: Reply) -> None:
        if heard.verb != "POST":
            back.whole(405)
        elif heard.method == "server/discover":
            told = {"supportedVersions": [MODERN], "capabilities": capabilities or {"tools": {}}}
            back.result(heard, {"resultType": "complete", **told})
        elif heard.method == "tools/list":
            tools = [tool(offer) if isinstance(offer, str) else offer for offer in offers]
            back.result(heard, {"resultType": "complete", "tools": tools})
        elif heard.method == "subscriptions/listen":
            back.stream()
            meta = {"io.modelcontextprotocol/subscriptionId": heard.id}
            told = {"_meta": meta, "notifications": {}}
            back.event({"method": "notifications/subscriptions/acknowledged", "params": told})
            back.wait_gone()
        elif heard.id is None:
            back.whole(202)
        elif heard.method == "initialize":
            back.error(heard, -32601, "Method not found", 404)
        else:
            call(heard, back)

    return script


def legacy(call: Script, *offers: Any, stands: Script | None = None) -> Script:
    """A server with one session and these tools; `stands` answers GET."""

    def script(heard: ReceivedRequest, back: Reply) -> None:
        if heard.verb == "GET" and stands is not None:
            stands(heard, back)
        elif heard.verb != "POST":
            back.whole(405)
        elif heard.method == "server/discover":
            back.error(heard, -32600, "Bad Request: Missing session ID", 400)
        elif heard.method == "initialize":
            told = {
                "protocolVersion": heard.message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
            back.result(heard, told, Mcp_Session_Id="the-session")
        elif heard.id is None or heard.method is None:
            back.whole(202)
        elif heard.method == "tools/list":
            tools = [tool(offer) if isinstance(offer, str) else offer for offer in offers]
            back.result(heard, {"tools": tools})
        else:
            call(heard, back)

    return script


def tool(name: str, schema: Message | None = None) -> Message:
    """One entry of a list of tools."""
    return {"name": name, "inputSchema": schema or {"type": "object"}}


def saying(words: str, **more: Any) -> Script:
    """Answers every call with a text."""
    result = {"resultType": "complete", "content": [{"type": "text", "text": words}], **more}
    return lambda heard, back: back.result(heard, result)


def echoing(heard: ReceivedRequest, back: Reply) -> None:
    """Answers every call with its arguments."""
    words = json.dumps(heard.message["params"].get("arguments"))
    back.result(heard, {"resultType": "complete", "content": [{"type": "text", "text": words}]})
