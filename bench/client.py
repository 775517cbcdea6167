"""A small MCP client over HTTP that builds requests, and checks the answers before any load.

It is plain and blocking: it verifies that what is about to be measured does the work. The load
itself is made by wrk, from the same requests (`load.py`).
"""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

Era = Literal["legacy", "modern"]

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
PREFIX: Final = "io.modelcontextprotocol/"
CLIENT: Final = {"name": "bench", "version": "1"}
ENVELOPE: Final[Mapping[str, Any]] = {
    f"{PREFIX}protocolVersion": MODERN,
    f"{PREFIX}clientInfo": CLIENT,
    f"{PREFIX}clientCapabilities": {},
}
ARGUMENTS: Final[Mapping[str, Any]] = {
    "message": "hello world",
    "n": 42,
    "tags": ["alpha", "beta"],
}

REPLY_SECONDS_MAX: Final = 60
VERIFIERS: Final = 16
CALLS_EACH: Final = 12
"""16 x 12 = 192 concurrent calls before a target is trusted."""
FIRST_VERIFIED_ID: Final = 5_000_000


class WrongAnswer(Exception):
    """A target answered, but not what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is asked, and how a right answer is known."""

    tool: str
    """The end of the tool's name; a gateway puts a prefix before it."""
    expect: str
    events: int = 0
    """How many events the answer has; 0 leaves it to the target."""
    progress: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    messages: tuple[Mapping[str, Any], ...]

    @property
    def result(self) -> Mapping[str, Any]:
        """Of the last message, which is the answer itself."""
        found: Mapping[str, Any] = self.messages[-1].get("result", {}) if self.messages else {}
        return found


class Endpoint:
    """One MCP endpoint, spoken to in one era by one or many sessions."""

    def __init__(self, url: str, era: Era, sessions: int = 16) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.path = parts.hostname or "", parts.port or 80, parts.path
        self.era: Era = era
        self.revision = MODERN if era == "modern" else LEGACY
        self.sessions: list[str | None] = []
        self._sessions_wanted = sessions

    def open(self) -> None:
        """Open the sessions; a modern client, and a server without sessions, has none."""
        self.sessions = [None]
        if self.era == "modern":
            return
        opened = [self.open_session()]
        while opened[-1] is not None and len(opened) < self._sessions_wanted:
            opened.append(self.open_session())
        self.sessions = opened

    def open_session(self, connection: http.client.HTTPConnection | None = None) -> str | None:
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
        answer = self.ask("initialize", params, id=1, connection=connection)
        if "protocolVersion" not in answer.result:
            raise WrongAnswer(f"initialize: {answer}")
        self.revision = answer.result["protocolVersion"]
        session = answer.headers.get("mcp-session-id")
        self.ask("notifications/initialized", {}, session=session, connection=connection)
        return session

    def list_tools(self) -> tuple[list[str], int]:
        """The names of all tools, and how many pages they came in."""
        names: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor:
            params = {"cursor": cursor} if cursor else {}
            answer = self.ask("tools/list", params, id=2, session=self.sessions[0])
            if "tools" not in answer.result:
                raise WrongAnswer(f"tools/list: {answer}")
            names += [tool["name"] for tool in answer.result["tools"]]
            cursor = answer.result.get("nextCursor")
            pages += 1
        return names, pages

    def find_tool(self, ending: str) -> str:
        names, _ = self.list_tools()
        for name in (*(n for n in names if n == ending), *(n for n in names if n.endswith(ending))):
            return name
        raise WrongAnswer(f"there is no tool {ending!r} among {names[:10]}")

    def verify(self, call: Call, name: str) -> None:
        """Make calls side by side; every one must get its own answer."""
        faults: list[str] = []

        def work(number: int) -> None:
            session = self.sessions[number % len(self.sessions)]
            try:
                with closing(self.connect()) as connection:
                    for step in range(CALLS_EACH):
                        id = FIRST_VERIFIED_ID + number * 1000 + step
                        self._check(call, name, id, session, connection)
            except (WrongAnswer, OSError, http.client.HTTPException, ValueError) as error:
                faults.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(VERIFIERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise WrongAnswer(f"{len(faults)} of {VERIFIERS} clients: {faults[0][:600]}")

    def _check(
        self, call: Call, name: str, id: int, session: str | None,
        connection: http.client.HTTPConnection,
    ) -> None:  # fmt: skip
        params = call_params(call, name, id)
        answer = self.ask("tools/call", params, id=id, session=session, connection=connection)
        if answer.status != 200 or not answer.messages or answer.messages[-1].get("id") != id:
            raise WrongAnswer(f"call {id}: {answer}")
        if call.expect not in json.dumps(answer.result):
            raise WrongAnswer(f"call {id}: not the result of {call.tool}: {answer}")
        if call.events and len(answer.messages) != call.events:
            raise WrongAnswer(f"call {id}: {len(answer.messages)} events, not {call.events}")
        for message in answer.messages[:-1]:
            if message["params"].get("progressToken") != id:
                raise WrongAnswer(f"call {id}: progress of another call: {message}")

    def ask(
        self, method: str, params: Mapping[str, Any], *, id: int | None = None,
        session: str | None = None, connection: http.client.HTTPConnection | None = None,
    ) -> Answer:  # fmt: skip
        """Send one message and read the whole answer."""
        if connection is None:
            with closing(self.connect()) as own:
                return self.ask(method, params, id=id, session=session, connection=own)
        body, headers = self.body(method, params, id), self.headers(method, params, session)
        connection.request("POST", self.path, body, dict(headers))
        response = connection.getresponse()
        raw = response.read()
        fields = {name.lower(): value for name, value in response.getheaders()}
        streamed = fields.get("content-type", "").startswith("text/event-stream")
        return Answer(
            status=response.status,
            headers=fields,
            messages=tuple(events(raw) if streamed else [json.loads(raw)] if raw else []),
        )

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=REPLY_SECONDS_MAX)

    def headers(
        self, method: str, params: Mapping[str, Any], session: str | None
    ) -> Mapping[str, str]:
        fields = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if method != "initialize":
            fields["MCP-Protocol-Version"] = self.revision
        if self.era == "modern":
            fields["Mcp-Method"] = method
            if "name" in params:
                fields["Mcp-Name"] = params["name"]
        if session is not None:
            fields["Mcp-Session-Id"] = session
        return fields

    def body(self, method: str, params: Mapping[str, Any], id: int | None) -> bytes:
        if self.era == "modern":
            params = {**params, "_meta": {**ENVELOPE, **params.get("_meta", {})}}
        identity = {} if id is None else {"id": id}
        message = {"jsonrpc": "2.0", **identity, "method": method, "params": params}
        return json.dumps(message, separators=(",", ":")).encode()


def call_params(call: Call, name: str, id: int) -> Mapping[str, Any]:
    """A call that wants progress names a token of its own, which here is the id."""
    meta = {"_meta": {"progressToken": id}} if call.progress else {}
    return {"name": name, "arguments": ARGUMENTS, **meta}


def events(raw: bytes) -> Iterator[Mapping[str, Any]]:
    """The messages of an event stream; events without one are left out."""
    for block in raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
        if content := b"\n".join(lines):
            yield json.loads(content)
