"""One session with a real server over HTTP, once directly and once through the gateway.

The gateway shows the server as it is; which of the three transports is behind it makes no
difference. Results, errors, notifications and questions are compared as the bytes they came in.
What may differ is the handshake, the ids, which of a session's streams carries a message, and
so the order of what came on different ones.
"""

from __future__ import annotations

import json
import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.running import ACCEPT, running
from tests.harness import MODERN_META, WAIT_SECONDS, Message, transparent, write_config
from tests.journeys.verbatim_server import members
from tests.real import rig
from tests.real.conftest import LIST_SECONDS
from tests.real.session_steps import (
    ANSWERS,
    CAPABILITIES,
    EVERYTHING,
    REFUSED,
    Said,
    Step,
    call,
    lists_of,
)

pytestmark = pytest.mark.real

CLASSIC: list[Step] = [
    call("add", a=2**60, b=1),
    call("add", a="one", b=1),
    call("ask"),
    call("visit"),
    call("think"),
    call("look"),
    call("shout"),
    ("tools/call", {"name": "count", "arguments": {"to": 2}, "_meta": {"progressToken": "t"}}),
    ("resources/read", {"uri": "note://greeting"}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "\u00c5da \U0001f30d"}}),
    ("prompts/get", {"name": "greet", "arguments": {}}),
]
MODERN: list[Step] = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("prompts/list", {}),
    call("add", a=2**60, b=1),
    call("add", a="one", b=1),
    call("ask"),
    call("think"),
    ("tools/call", {"name": "count", "arguments": {"to": 2}, "_meta": {"progressToken": "t"}}),
    ("resources/read", {"uri": "note://counter"}),
    ("prompts/get", {"name": "greet", "arguments": {"name": "\u00c5da \U0001f30d"}}),
    *REFUSED[:3],
]


class HttpClient:
    """Raw messages to and from a legacy session over Streamable HTTP."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url)
        self._fields = {"Content-Type": "application/json", "Accept": ACCEPT}
        self._arrived: queue.Queue[bytes] = queue.Queue()
        self._connections: list[HTTPConnection] = []
        self._readers: list[threading.Thread] = []

    def open(self) -> Message:
        """Shake hands and open the standing stream; what the server can do."""
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "clientInfo": {"name": "test", "version": "1"},
        }
        response = self.send({"id": 0, "method": "initialize", "params": hello})
        self._fields["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        self._fields["MCP-Protocol-Version"] = "2025-11-25"
        [welcome] = _payloads(response)
        self.send({"method": "notifications/initialized"}).read()
        self._read_along(lambda: self._ask("GET", None))
        capabilities: Message = json.loads(welcome)["result"]["capabilities"]
        return capabilities

    def start(self, message: Message) -> None:
        """Send a request; what comes of it arrives among the rest."""
        self._read_along(lambda: self.send(message))

    def send(self, message: Message) -> HTTPResponse:
        return self._ask("POST", json.dumps({"jsonrpc": "2.0", **message}))

    def next(self) -> bytes:
        """The next message, on whichever stream it came."""
        return self._arrived.get(timeout=WAIT_SECONDS)

    def close(self) -> None:
        """End the session, and with it all its streams."""
        self._ask("DELETE", None).read()
        for reader in self._readers:
            reader.join(WAIT_SECONDS)
        for connection in self._connections:
            connection.close()

    def _ask(self, verb: str, body: str | None) -> HTTPResponse:
        connection = HTTPConnection(self._where.netloc, timeout=WAIT_SECONDS)
        self._connections.append(connection)
        connection.request(verb, self._where.path, body, self._fields)
        return connection.getresponse()

    def _read_along(self, ask: Callable[[], HTTPResponse]) -> None:
        def read() -> None:
            with ask() as response:
                for payload in _payloads(response):
                    self._arrived.put(payload)

        self._readers.append(threading.Thread(target=read, daemon=True))
        self._readers[-1].start()


@pytest.mark.parametrize("behind", ["everything", "everything-http", "everything-sse"])
def test_nothing_is_lost_of_everything(tmp_path: Path, behind: str) -> None:
    with rig.listening("everything-http", *{behind} & {"everything-sse"}) as urls:
        entry = _entry(urls[behind]) if behind in urls else rig.server(behind)
        expected = _session(urls["everything-http"], EVERYTHING)
        with _shown(tmp_path, entry) as url:
            found = _session(url, EVERYTHING, said_min=len(expected[1]))

    _assert_same(found, expected)


@pytest.mark.parametrize("behind", ["classic-http", "classic-sse"])
def test_nothing_is_lost_of_a_server_on_the_python_sdk(tmp_path: Path, behind: str) -> None:
    with rig.listening("classic-http", behind) as urls:
        expected = _session(urls["classic-http"], CLASSIC)
        with _shown(tmp_path, _entry(urls[behind])) as url:
            found = _session(url, CLASSIC, said_min=len(expected[1]))

    _assert_same(found, expected)


def test_nothing_is_lost_between_a_modern_client_and_a_modern_server(tmp_path: Path) -> None:
    with rig.listening("modern-http") as urls:
        expected = [_modern(urls["modern-http"], *step) for step in MODERN]
        with _shown(tmp_path, {"url": urls["modern-http"]}) as url:
            found = [_modern(url, *step) for step in MODERN]

    for said, wanted in zip(found, expected, strict=True):
        assert said == wanted


def _session(
    url: str, steps: Sequence[Step], *, said_min: int = 0
) -> tuple[list[Said], list[Said]]:
    """The answers, and all else that a server said: at least so much is waited for."""
    client = HttpClient(url)
    script = [*lists_of(client.open()), *steps, *REFUSED]
    answers: list[Said] = []
    said: list[Said] = []
    for number, (method, params) in enumerate(script, start=1):
        id = f"step {number}"
        client.start({"id": id, "method": method, "params": params})
        while (message := json.loads(raw := client.next())).get("id") != id:
            said += _heard(client, message, raw)
        answer = _members(raw)
        answers.append((method, answer.get("result") or f"error {answer['error']}"))
    while len(said) < said_min:
        raw = client.next()
        said += _heard(client, json.loads(raw), raw)
    client.close()
    return answers, said


def _heard(client: HttpClient, message: Message, raw: bytes) -> list[Said]:
    """What a server said on its own, if it is to be compared; a question is answered."""
    method = message["method"]
    if "id" in message:
        client.send({"id": message["id"], "result": ANSWERS[method]}).read()
    if method.endswith("/list_changed"):
        return []
    return [(method, _members(raw).get("params", ""))]


def _members(raw: bytes) -> dict[str, str]:
    """The members of a message, without the id of the session that `everything` puts in some."""
    return members(re.sub(r"(?:from )?session [\w-]+", "", raw.decode()))


def _assert_same(
    found: tuple[list[Said], list[Said]], expected: tuple[list[Said], list[Said]]
) -> None:
    for said, wanted in zip(found[0], expected[0], strict=True):
        assert said == wanted
    assert sorted(found[1]) == sorted(expected[1])


def _modern(url: str, method: str, params: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """All that comes of a modern request: what it is, and its members.

    Left out are `_meta`, in which the gateway signs, and `requestState`, which is sealed anew
    each time.
    """
    meta = {**MODERN_META, **params.get("_meta", {})}
    meta["io.modelcontextprotocol/clientCapabilities"] = CAPABILITIES
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    fields = {
        "Content-Type": "application/json",
        "Accept": ACCEPT,
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if name := params.get("name") or params.get("uri"):
        fields["Mcp-Name"] = name
    connection = HTTPConnection(urlsplit(url).netloc, timeout=WAIT_SECONDS)
    connection.request("POST", urlsplit(url).path, json.dumps(message), fields)
    said: list[tuple[str, dict[str, str]]] = []
    for payload in _payloads(connection.getresponse()):
        parts = members(payload.decode())
        kind = next(kind for kind in ("result", "error", "params") if kind in parts)
        told = members(parts[kind]).items()
        said.append((kind, {k: v for k, v in told if k not in ("_meta", "requestState")}))
    connection.close()
    return said


@contextmanager
def _shown(tmp_path: Path, entry: Message | list[str]) -> Iterator[str]:
    """The URL of a gateway that shows one server as it is."""
    settings = {"gateway": {"listSeconds": LIST_SECONDS}, "profiles": transparent("server")}
    config = write_config(tmp_path, {"server": entry}, **settings)
    with running("--config", str(config), "--state-dir", str(tmp_path / "state")) as gateway:
        yield f"{gateway.url}/mcp"


def _entry(url: str) -> Message:
    return {"url": url, "protocol": "legacy"}


def _payloads(response: HTTPResponse) -> Iterator[bytes]:
    """The messages of a response as they come, each as it is."""
    if response.headers.get_content_type() != "text/event-stream":
        yield response.read()
        return
    for line in response:
        field, _, value = line.partition(b":")
        if field == b"data" and value.strip():  # An empty one only gives its id.
            yield value.strip()
