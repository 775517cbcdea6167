"""Clients of every revision over HTTP, in raw requests, and what their messages look like."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.harness import DEMO, MODERN_META, WAIT_SECONDS, Message
from tests.journeys.http_gateway import (
    ACCEPT,
    EVENTS,
    JSON,
    Field,
    HttpAnswer,
    HttpGateway,
    ask,
    serving,
)
from tests.journeys.scripts import said
from tests.peers.http_driver import HttpDemo

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
KINDS: Final = ("stdio-new", "stdio-old", "http-new", "http-old", "older")
"""The servers of `every_kind`, save `json`, which is legacy and never opens a stream."""

_ids: Final = count(1)


class SessionClient:
    """A client of the handshake era over Streamable HTTP."""

    def __init__(
        self,
        site: HttpGateway,
        revision: str = "2025-11-25",
        capabilities: Message | None = None,
    ) -> None:
        self.site = site
        self.revision = revision
        self.fields: list[Field] = []
        self.seen: list[Message] = []
        """What came on the way to the answers of `request`."""
        opening = self.start("initialize", hello(revision, capabilities))
        assert opening.status == 200
        self.id = opening.fields["Mcp-Session-Id"]
        self.opened: Message = opening.ending()["result"]
        self.fields = [("Mcp-Session-Id", self.id)]
        # Before 2025-06-18 there is no such field.
        if revision not in ("2024-11-05", "2025-03-26"):
            self.fields.append(("MCP-Protocol-Version", revision))
        self.notify("notifications/initialized")

    def start(self, method: str, params: Message | None = None, *, id: Any = None) -> HttpAnswer:
        """Post a request; its response as soon as it begins."""
        return self.site.post(request(method, params, id), *self.fields)

    def request(self, method: str, params: Message | None = None) -> Message:
        """Post a request and wait for its answer."""
        answer = self.start(method, params)
        ending = answer.ending()
        self.seen += answer.seen[:-1]
        return ending

    def call(self, name: str, arguments: Message | None = None, **meta: Any) -> Message:
        """Call a tool and wait for the answer."""
        return self.request("tools/call", calling(name, arguments, meta))

    def tell(self, message: Message) -> None:
        """Post what has no answer."""
        answer = self.site.post({"jsonrpc": "2.0", **message}, *self.fields)
        assert (answer.status, answer.text()) == (202, "")

    def notify(self, method: str, params: Message | None = None) -> None:
        """Post a notification."""
        self.tell({"method": method} if params is None else {"method": method, "params": params})

    def reply(self, asked: Message, result: Message) -> None:
        """Post the answer to a question."""
        self.tell({"id": asked["id"], "result": result})

    def listen(self, after: str | None = None) -> HttpAnswer:
        """Open the standalone stream, or resume one."""
        fields = [("Accept", EVENTS), *self.fields]
        if after is not None:
            fields.append(("Last-Event-ID", after))
        return self.site.send("GET", None, fields)

    def delete(self) -> HttpAnswer:
        """End the session."""
        return self.site.send("DELETE", None, self.fields)


class ModernClient:
    """A client of the era without a handshake."""

    def __init__(self, site: HttpGateway, **meta: Any) -> None:
        self.site = site
        self.meta = {**MODERN_META, **meta}
        self.seen: list[Message] = []
        """What came on the way to the answers of `request`."""

    def start(
        self, method: str, params: Message | None = None, *, id: Any = None, **meta: Any
    ) -> HttpAnswer:
        """Post a request whose fields say what its body says."""
        message = request(method, {**(params or {}), "_meta": {**self.meta, **meta}}, id)
        return self.site.post(message, *mirrored(message))

    def request(self, method: str, params: Message | None = None, **meta: Any) -> Message:
        """Post a request and wait for its answer."""
        answer = self.start(method, params, **meta)
        assert "Mcp-Session-Id" not in answer.fields
        ending = answer.ending()
        self.seen += answer.seen[:-1]
        return ending

    def call(self, name: str, arguments: Message | None = None, **meta: Any) -> Message:
        """Call a tool and wait for the answer."""
        return self.request("tools/call", calling(name, arguments, {}), **meta)

    def listen(self, *, id: Any = None, **wishes: Any) -> HttpAnswer:
        """Open a stream of notifications."""
        return self.start("subscriptions/listen", {"notifications": wishes}, id=id)


class SseClient:
    """A client over HTTP+SSE: one stream, and an address to post to."""

    def __init__(
        self, site: HttpGateway, revision: str = "2024-11-05", capabilities: Message | None = None
    ) -> None:
        self.site = site
        self.stream = site.send("GET", None, [("Accept", EVENTS)])
        assert (self.stream.status, self.stream.kind) == (200, EVENTS)
        first = next(self.stream.events())
        assert first.name == "endpoint"
        self.address = first.data
        self.opened: Message = self.request("initialize", hello(revision, capabilities))["result"]
        self.notify("notifications/initialized")

    @property
    def seen(self) -> list[Message]:
        """Every message that has come."""
        return self.stream.seen

    def post(self, message: Message) -> HttpAnswer:
        """Post a message to the address that the stream named."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        return self.site.send("POST", body, [("Content-Type", JSON)], self.address)

    def tell(self, message: Message) -> None:
        """Post a message, which is accepted; any answer comes on the stream."""
        answer = self.post(message)
        assert answer.status == 202
        answer.close()

    def start(self, method: str, params: Message | None = None) -> Any:
        """Post a request; its id."""
        message = request(method, params)
        self.tell(message)
        return message["id"]

    def request(self, method: str, params: Message | None = None) -> Message:
        """Post a request and wait for its answer on the stream."""
        return self.answer(self.start(method, params))

    def answer(self, id: Any) -> Message:
        """Wait for the answer to a request."""
        return next(m for m in self.stream.messages() if "method" not in m and m["id"] == id)

    def call(self, name: str, arguments: Message | None = None, **meta: Any) -> Message:
        """Call a tool and wait for the answer."""
        return self.request("tools/call", calling(name, arguments, meta))

    def notify(self, method: str, params: Message | None = None) -> None:
        """Post a notification."""
        self.tell({"method": method} if params is None else {"method": method, "params": params})

    def reply(self, asked: Message, result: Message) -> None:
        """Post the answer to a question."""
        self.tell({"id": asked["id"], "result": result})


Client = SessionClient | ModernClient | SseClient


class Kept:
    """One connection for many requests: modern ones, unless it has the fields of a session."""

    def __init__(self, site: HttpGateway, *fields: Field) -> None:
        self.site = site
        self.fields = fields
        self.connection = HTTPConnection(site.netloc, timeout=WAIT_SECONDS)
        site.there.connections.append(self.connection)

    def post(self, message: Message, *more: Field) -> tuple[int, Message]:
        """Status and answer of a request, in JSON or, if it took a moment, as an event."""
        fields = [*(self.fields or mirrored(message)), *more]
        sent = [("Content-Type", JSON), ("Accept", ACCEPT), *fields]
        body = json.dumps(message).encode()
        response = ask(self.connection, "POST", self.site.path, body, sent)
        raw = response.read()
        if response.headers["Content-Type"] == EVENTS:
            raw = raw.rpartition(b"data: ")[2]
        answer: Message = json.loads(raw)
        return response.status, answer


def request(method: str, params: Message | None = None, id: Any = None) -> Message:
    """A request; with an id of its own unless one is given."""
    message: Message = {"jsonrpc": "2.0", "id": next(_ids) if id is None else id, "method": method}
    return message if params is None else {**message, "params": params}


def hello(revision: str, capabilities: Message | None = None) -> Message:
    """The params of `initialize`."""
    return {
        "protocolVersion": revision,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "test", "version": "1"},
    }


def calling(name: str, arguments: Message | None, meta: Message) -> Message:
    """The params of a tool call."""
    params: Message = {"name": name, "arguments": arguments or {}}
    return {**params, "_meta": meta} if meta else params


def mirrored(message: Message) -> list[Field]:
    """The header fields of a modern request, made from its body."""
    method, params = message["method"], message["params"]
    fields = [
        ("MCP-Protocol-Version", params["_meta"][f"{META}protocolVersion"]),
        ("Mcp-Method", method),
    ]
    if method in NAMED_BY:
        fields.append(("Mcp-Name", encoded(params[NAMED_BY[method]])))
    return fields


def encoded(text: str) -> str:
    """A text as a field value: wrapped unless it is plain."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    return text if plain and not text.startswith("=?") else wrapped(text)


def wrapped(text: str) -> str:
    """A text in the sentinel form."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def names(client: Client) -> list[str]:
    """The names of the tools in the list."""
    return [tool["name"] for tool in client.request("tools/list")["result"]["tools"]]


def status(client: Client) -> Message:
    """What `gateway_status` reports."""
    report: Message = json.loads(said(client.call("gateway_status")))
    return report


@contextmanager
def every_kind(tmp_path: Path) -> Iterator[HttpGateway]:
    """A gateway with a server of each kind, all of them known to it."""
    with (
        HttpDemo("--modern-only") as new,
        HttpDemo("--legacy-only", "--transport", "streamable") as old,
        HttpDemo("--legacy-only", "--transport", "streamable", "--json-only") as plain,
        HttpDemo("--legacy-only", "--transport", "sse") as older,
    ):
        servers: Message = {
            "stdio-new": [*DEMO, "--modern-only"],
            "stdio-old": [*DEMO, "--legacy-only"],
            "http-new": {"url": f"http://127.0.0.1:{new.port}/mcp"},
            "http-old": {"url": f"http://127.0.0.1:{old.port}/mcp"},
            "json": {"url": f"http://127.0.0.1:{plain.port}/mcp"},
            "older": {"url": f"http://127.0.0.1:{older.port}/sse"},
        }
        with serving(tmp_path, servers) as site:
            names(ModernClient(site))
            yield site
