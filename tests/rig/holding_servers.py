"""Servers of both eras, on pipes and over HTTP, that keep calls until they are told to answer.

Each writes down, call by call, what it heard, what it answered and what it was told to forget.
The text of a call's argument is its name here. An answer that nobody waits for any more is given
all the same.
"""

import sys
from pathlib import Path
from typing import Final, Protocol

from tests.upstream.web import Heard, Legacy, Reply, Site, Web, modern

TOOLS: Final = ("hold", "release", "echo")

ON_PIPES: Final = """
import json, os, sys

era, path = sys.argv[1:]
log = open(path, "a", buffering=1)
held, names = {}, {}

def answer(id, **outcome):
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": id, **outcome}).encode() + b"\\n")

def say(id, text):
    content = [{"type": "text", "text": text}]
    answer(id, result={"resultType": "complete", "content": content})

def use(id, name, text):
    if name == "hold":
        held[text], names[id] = id, text
        log.write("heard " + text + "\\n")
        return
    if name == "release" and text in held:
        log.write("answered " + text + "\\n")
        say(held.pop(text), text)
    say(id, text)

for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "notifications/cancelled":
        log.write("cancelled " + names.get(params["requestId"], "?") + "\\n")
    elif id is None:
        continue
    elif method == "server/discover" and era == "modern":
        answer(id, result={"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    elif method == "initialize" and era == "legacy":
        told = {"name": "keeper", "version": "1"}
        asked = params["protocolVersion"]
        answer(id, result={
            "protocolVersion": asked, "capabilities": {"tools": {}}, "serverInfo": told,
        })
    elif method == "tools/list":
        offered = ("hold", "release", "echo")
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in offered]
        answer(id, result={"resultType": "complete", "tools": tools})
    elif method == "tools/call":
        use(id, params["name"], params["arguments"]["text"])
    else:
        answer(id, error={"code": -32601, "message": "Method not found"})
"""


class HoldingServer(Protocol):
    """What a test may know of such a server."""

    def all(self, what: str) -> set[str]:
        """The calls that were heard, answered, or cancelled."""


class StdioHoldingServer:
    """One on pipes, which writes to a file."""

    def __init__(self, era: str, path: Path) -> None:
        self.entry: object = [sys.executable, "-I", "-S", "-c", ON_PIPES, era, str(path)]
        self._path = path
        path.touch()

    def all(self, what: str) -> set[str]:
        lines = self._path.read_text().splitlines()
        return {line.partition(" ")[2] for line in lines if line.startswith(f"{what} ")}


class HttpHoldingServer:
    """One over HTTP, in the test's own loop."""

    def __init__(self, era: str) -> None:
        site: Site = modern(self._call) if era == "modern" else Legacy(self._call)
        self.web = Web(site)
        self._era = era
        self._held: dict[str, tuple[Heard, Reply]] = {}
        self._answered: set[str] = set()

    @property
    def entry(self) -> object:
        return {"url": self.web.url}

    def all(self, what: str) -> set[str]:
        if what == "heard":
            return set(self._held)
        return self._answered if what == "answered" else self._cancelled()

    def _cancelled(self) -> set[str]:
        if self._era == "modern":
            return {name for name, (_, reply) in self._held.items() if reply.gone.is_set()}
        told = self.web.of("notifications/cancelled")
        ids = {heard.message["params"]["requestId"] for heard in told}
        return {name for name, (heard, _) in self._held.items() if heard.id in ids}

    def _call(self, heard: Heard, reply: Reply) -> None:
        params = heard.message.get("params", {})
        if heard.method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            reply.json({"id": heard.id, "result": {"resultType": "complete", "tools": tools}})
        elif heard.method != "tools/call":
            reply.json({"id": heard.id, "error": {"code": -32601, "message": "Not found"}})
        elif params["name"] == "hold":
            self._held[params["arguments"]["text"]] = (heard, reply)
        else:
            text = params["arguments"]["text"]
            if params["name"] == "release" and text in self._held and text not in self._answered:
                self._answered.add(text)
                _say(*self._held[text], text)
            _say(heard, reply, text)


def _say(heard: Heard, reply: Reply, text: str) -> None:
    content = [{"type": "text", "text": text}]
    reply.json({"id": heard.id, "result": {"resultType": "complete", "content": content}})
