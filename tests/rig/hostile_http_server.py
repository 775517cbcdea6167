"""The hostile server over HTTP, in any era and on the older transport, as a process to be killed.

`python -m tests.rig.hostile_http_server modern|legacy|sse` prints its URL and serves until it is
killed. The tool that is called selects what becomes of the call: every reply of `invalid_replies`
by its name, and those below. `fine`, `hold`, `release` and `report` are honest.
"""

import json
import os
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from tests.harness import WAIT_SECONDS, Message
from tests.journeys.scripted_http_server import (
    ReceivedRequest,
    Reply,
    Script,
    ScriptedHttpServer,
    legacy,
    modern,
)
from tests.rig.hostile_server import MISDELIVERED, filling
from tests.rig.invalid_replies import INVALID_REPLIES

SESSION: Final = "mcp-session-id"
CHANGED: Final = "notifications/tools/list_changed"


class HostileHttpServer:
    """One run of the server; several threads serve at once."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.handled: Counter[str] = Counter()
        """How often each text was called with: a call that was made twice stands out."""
        self.sessions: set[str] = set()
        self.held: dict[str, threading.Event] = {}
        self.forgotten: list[ReceivedRequest] = []
        """Requests that nobody will look at again; it may serve for hours."""
        self.listening: set[queue.SimpleQueue[Message]] = set()
        self.tools: dict[str, Callable[..., None]] = {
            each.__name__: each
            for each in (
                self.fine, self.hold, self.release, self.report, self.chatter, self.stray,
                self.storm, self.busy, self.forget, self.crash,
            )
        }  # fmt: skip
        names = [*self.tools, *INVALID_REPLIES]
        self.script: Script = {
            "modern": modern(self.call, *names),
            "legacy": self.with_sessions(legacy(self.call, *names, stands=self.stand)),
            "sse": SseSession(self.call, names).take,
        }[era]

    def with_sessions(self, script: Script) -> Script:
        """Each client has a session, until the server forgets them all."""

        def take(heard: ReceivedRequest, back: Reply) -> None:
            if heard.method == "initialize":
                id = uuid4().hex
                self.sessions.add(id)
                told = {
                    "protocolVersion": heard.message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "hostile", "version": "1"},
                }
                back.result(heard, told, Mcp_Session_Id=id)
            elif SESSION in heard.fields and heard.fields[SESSION] not in self.sessions:
                back.error(heard, -32600, "Session not found", 404)
            elif heard.verb == "DELETE":
                self.sessions.discard(heard.fields.get(SESSION, ""))
                back.whole(200)
            else:
                script(heard, back)

        return take

    def stand(self, heard: ReceivedRequest, back: Reply) -> None:
        """The stream of what belongs to no request."""
        news: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.listening.add(news)
        try:
            back.stream()
            while True:
                back.event(news.get())
        finally:
            self.listening.discard(news)

    def call(self, heard: ReceivedRequest, back: Reply) -> None:
        self.forgotten.clear()
        if heard.method != "tools/call":
            back.error(heard, -32601, "Method not found")
            return
        params = heard.message["params"]
        name = params["name"]
        if name in INVALID_REPLIES:
            INVALID_REPLIES[name].play(heard, back)
        elif name in self.tools:
            self.tools[name](heard, back, **(params.get("arguments") or {}))
        else:
            back.error(heard, -32602, f"Unknown tool: {name}")

    # Honest tools.

    def fine(self, heard: ReceivedRequest, back: Reply, text: str) -> None:
        self.handled[text] += 1
        say(heard, back, text)

    def hold(self, heard: ReceivedRequest, back: Reply, text: str) -> None:
        """Answer when released."""
        self.handled[text] += 1
        self.held[text] = threading.Event()
        self.held[text].wait(WAIT_SECONDS)
        say(heard, back, text)

    def release(self, heard: ReceivedRequest, back: Reply) -> None:
        held, self.held = self.held, {}
        for each in held.values():
            each.set()
        say(heard, back, f"{len(held)}")

    def report(self, heard: ReceivedRequest, back: Reply) -> None:
        twice = [text for text, times in self.handled.items() if times > 1]
        seen = {"handled": self.handled.total(), "twice": twice, "sessions": len(self.sessions)}
        say(heard, back, json.dumps(seen))

    # The others.

    def chatter(self, heard: ReceivedRequest, back: Reply, count: int, size: int) -> None:
        """Report progress in far more words than anybody wants, then answer."""
        token = heard.message["params"].get("_meta", {}).get("progressToken")
        words = filling(size)
        back.stream()
        for step in range(count):
            params = {"progressToken": token, "progress": step, "message": words}
            back.event({"method": "notifications/progress", "params": params})
        back.event({"id": heard.id, "result": text_result("that is all")})
        back.end()

    def stray(self, heard: ReceivedRequest, back: Reply, count: int) -> None:
        """Answers nobody asked for on the stream of this one; then a good one, twice."""
        ids: list[Any] = [f"{heard.id}", None, True, -1, [heard.id], 10**40, {"id": heard.id}]
        back.stream()
        for number in range(count):
            id = ids[number % len(ids)]
            back.event({"id": id, "result": text_result(MISDELIVERED)})
        back.event({"id": heard.id, "result": text_result("mine")})
        back.event({"id": heard.id, "result": text_result(MISDELIVERED)})
        back.end()

    def storm(self, heard: ReceivedRequest, back: Reply, count: int) -> None:
        """Say again and again that the list has changed."""
        for news in list(self.listening):
            for _ in range(count):
                news.put({"method": CHANGED})
        say(heard, back, "calm")

    def busy(self, heard: ReceivedRequest, back: Reply, status: int, seconds: int) -> None:
        """Have too much to do, and say when to come again."""
        back.whole(status, Retry_After=f"{seconds}")

    def forget(self, heard: ReceivedRequest, back: Reply) -> None:
        """Answer, and lose every session."""
        say(heard, back, "who are you?")
        self.sessions.clear()

    def crash(self, heard: ReceivedRequest, back: Reply, code: int = 7) -> None:
        """Exit in the middle of a call."""
        os._exit(code)


class SseSession:
    """HTTP+SSE: everything is answered on the one stream, and posted where it says."""

    def __init__(self, call: Script, names: list[str]) -> None:
        self._talk = legacy(call, *names)
        self._streams: dict[str, Reply] = {}
        self._turns: dict[str, threading.Lock] = {}

    def take(self, heard: ReceivedRequest, back: Reply) -> None:
        if heard.verb == "GET":
            self._open(back)
            return
        id = heard.target.partition("?id=")[2]
        if id not in self._streams:
            back.whole(404)
            return
        back.whole(202)
        if heard.id is not None:
            self._talk(heard, StreamReply(self._streams[id], self._turns[id]))

    def _open(self, back: Reply) -> None:
        id = uuid4().hex
        back.stream()
        chunk(back, f"event: endpoint\ndata: /messages?id={id}\n\n".encode())
        self._streams[id], self._turns[id] = back, threading.Lock()
        try:
            back.wait_gone()
        finally:
            del self._streams[id], self._turns[id]


class StreamReply(Reply):
    """Writes on a stream what would have been a reply; what is no message is dropped."""

    def __init__(self, stream: Reply, turn: threading.Lock) -> None:
        self._stream = stream
        self._turn = turn

    def send(self, raw: bytes) -> None:
        """Bytes that are wild go on the stream as they are."""
        with self._turn:
            self._stream.send(raw)

    def whole(self, status: int, body: bytes = b"", kind: str = "", **fields: str) -> None:
        if body:
            raw = b"event: message\ndata: " + body + b"\n\n"
            self.send(b"%x\r\n%b\r\n" % (len(raw), raw))

    def stream(self) -> None:
        """It is one already."""

    def end(self) -> None:
        """It goes on."""

    def wait_gone(self) -> None:
        self._stream.wait_gone()


def say(heard: ReceivedRequest, back: Reply, text: str) -> None:
    back.result(heard, text_result(text))


def text_result(text: str) -> Message:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def chunk(back: Reply, raw: bytes) -> None:
    back.send(b"%x\r\n%b\r\n" % (len(raw), raw))


if __name__ == "__main__":
    server = HostileHttpServer(sys.argv[1])
    with ScriptedHttpServer(server.script) as web:
        server.forgotten = web.heard
        sys.stdout.write(web.url + "\n")
        sys.stdout.flush()
        threading.Event().wait()
